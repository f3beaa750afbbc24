// SPDX-License-Identifier: MIT
// fuzz_npy.c: reads any bytes as a .npy file.
#include "fuzz/fuzz.h"

// Reads the array and converts it if that is necessary.
static qkv_status read_whole(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err)
{
    const qkv_status status = qkv_npy_read(t, s, err);
    return status ? status : qkv_npy_convert(t, s, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_tensors(data, size, read_whole);
    return 0;
}
