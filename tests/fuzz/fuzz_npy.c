// SPDX-License-Identifier: MIT
// fuzz_npy.c: reads any bytes as a .npy file.
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_tensors(data, size, qkv_npy_read);
    return 0;
}
