// SPDX-License-Identifier: MIT
// avx512_rows.h: tables of calls of intrinsics, for the test of their emulation.
#ifndef QKV_TESTS_AVX512_ROWS_H
#define QKV_TESTS_AVX512_ROWS_H

#include <stdbool.h>
#include <stddef.h>

struct avx512_row {
    const char *name; // NULL ends the table
    // Writes at most 64 bytes to `to`; `from` is three vectors of 64 bytes and the mask of lanes,
    // aligned to 64 bytes.
    void (*call)(void *to, const void *from);
    enum { AVX512_BASE, AVX512_VNNI, AVX512_BF16 } needs;
    // true if NaN may have any payload, because the compiler may exchange operands
    bool any_nan;
};
extern const struct avx512_row real_rows[], emulated_rows[];

#endif
