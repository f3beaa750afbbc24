// SPDX-License-Identifier: MIT
// maker.h: provides random numbers, memory and the end at an error for the programs that make pages
// and pictures. MAKER is the name of the program.
#ifndef QKV_TEST_VIEW_MAKER_H
#define QKV_TEST_VIEW_MAKER_H
#include <qkv/base.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t seed;
static inline double uniform(void) // in [-1, 1)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11 << 11) * 0x1p-63;
}

static inline void *zeros(int64_t count, size_t size)
{
    void *p = calloc((size_t)count, size);
    if (!p) exit(5);
    return p;
}

static inline void must(qkv_status status, const qkv_error *err)
{
    char line[1400];
    if (!status) return;
    fprintf(stderr, MAKER ": %s\n", qkv_error_line(line, sizeof line, err));
    exit((int)status);
}
#endif
