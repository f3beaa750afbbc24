// SPDX-License-Identifier: MIT
// grant.c: before main: tiles are emulated where the machine has none, and qkv is told of them, so
// that the row amx of isa.def is one of EACH_ISA and the strongest.
#include "base/base.h"
#include "emulate/tiles.h"
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void grant(void)
{
    const unsigned tiles = QKV_CPU_AMX_BF16 | QKV_CPU_AMX_INT8;
    if (tiles_native()) return;
    if (!tiles_emulate() || !__builtin_cpu_supports("avx512bf16")) {
        puts("skipped: this machine has no AVX-512 BF16, and every CPU with tiles has");
        exit(77);
    }
    qkv_cpu_pretend(tiles, tiles);
}
