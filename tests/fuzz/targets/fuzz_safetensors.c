// SPDX-License-Identifier: MIT
// fuzz_safetensors.c: reads any bytes as a .safetensors file.
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_tensors(data, size, qkv_safetensors_read);
    return 0;
}
