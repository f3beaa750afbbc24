// SPDX-License-Identifier: MIT
// isa_avx512.c: flags and CPU bits: its row in isa.def.  Contracts: kernel.h.  Only static code and one table.
#include "kernel/kernel.h"
#ifndef QKV_DOUBLE
const struct qkv_kernels qkv_kernels_avx512 = { .isa = "avx512" };
#endif
