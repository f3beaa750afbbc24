// SPDX-License-Identifier: MIT
// attention_shape.h: defines the shapes of the tiles of attention, and the steps that all types
// share. Requires exp.h.
//
// A file isa_*.c defines the size of a tile: ATTENTION_MR queries by ATTENTION_NR vectors of keys
// (or of value columns). The MR * NR sums of a tile are held in registers, and NR + 1 more
// registers hold its operands.

#include "kernel/body/attention/attention_names.h"
#include "kernel/body/attention/attention_rows.h"
#include "kernel/body/attention/attention_table.h"

enum { MR = ATTENTION_MR, NR = ATTENTION_NR, WIDE = NR * VW };
typedef float element_f32;
#define vf_load_f32    vf_load
#define vf_load_f32_n  vf_load_n
#define vf_store_f32   vf_store
#define vf_store_f32_n vf_store_n

static int64_t width(int64_t F)
{
    return (F + VW - 1) / VW * VW;
}

// EACH_TILE(X) expands X(rows, vectors) for each shape of a tile, so that each shape gets its own
// code.
#if ATTENTION_NR == 4
#define EACH_VECS(I, X) X(I, 1) X(I, 2) X(I, 3) X(I, 4)
#else
#define EACH_VECS(I, X) X(I, 1) X(I, 2)
#endif
#define EACH_TILE(X)                                                                               \
    EACH_VECS(1, X) EACH_VECS(2, X) EACH_VECS(3, X) EACH_VECS(4, X) EACH_VECS(5, X) EACH_VECS(6, X)
