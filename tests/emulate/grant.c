// SPDX-License-Identifier: MIT
// grant.c: enables the emulation of AMX tiles before main, on machines without tiles, and makes qkv
// detect them, so that EACH_ISA includes the row amx of isa.def as the strongest ISA.
#include "base/base_internal.h"
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
