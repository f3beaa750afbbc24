// SPDX-License-Identifier: MIT
// attention_tiles.h: computes the two products of attention on packed keys and values of type
// STORED. The file is a template, included once for each type.
//
// Both products have the same structure: for each element e of a head (scores) or each key
// (values), the outer product of MR broadcast numbers and NR vectors is added to the sums. Each sum
// is one chain of fma in the same order in every tile.
//
// A tile of at most AHEAD_ROWS rows, as in decoding, uses a number only a few times after reading
// it from memory. On an ISA whose ATTENTION_AHEAD is not 0 such a tile prefetches the line that is
// ATTENTION_AHEAD bytes after the numbers that it loads, if these have 16 bits. Measurements show
// that this is faster (docs/performance.md). The reason is inferred, not measured: the loads that
// the core can start early probably reach only a few lines ahead of the arithmetic. The line may
// lie outside the array.
//
// For a type whose numbers an ISA converts faster in another order, TILE_LOAD2 loads two vectors
// in that order, and TILE_ORDER2 puts two vectors of sums back into the order of the columns. Each
// column has its own sum, so that the bits of the sums do not depend on this order.

#ifndef QKV_TILES_AHEAD
#define QKV_TILES_AHEAD
enum { AHEAD_ROWS = 4 };
#endif
INLINE void NAME(prefetch_ahead)(const ELEMENT *p, const int rows)
{
    if (ATTENTION_AHEAD && rows <= AHEAD_ROWS && sizeof(ELEMENT) == 2)
        __builtin_prefetch((const void *)((uintptr_t)p + ATTENTION_AHEAD));
}

// Loads `vecs` vectors of a panel; of two vectors, the order of the columns may be TILE_LOAD2's.
INLINE void NAME(tile_load)(vf x[NR], const ELEMENT *p, const int vecs)
{
#ifdef TILE_LOAD2
    if (vecs == 2) {
        TILE_LOAD2(x, p);
        return;
    }
#endif
    UNROLL for (int j = 0; j < vecs; j++) x[j] = NAME(vf_load)(p + j * VW);
}

// Puts the sums of each row of a tile into the order of its columns.
INLINE void NAME(tile_order)(vf sum[MR][NR], const int rows, const int vecs)
{
#ifdef TILE_ORDER2
    UNROLL for (int i = 0; i < rows; i++) if (vecs == 2) TILE_ORDER2(sum[i]);
#else
    (void)sum;
    (void)rows;
    (void)vecs;
#endif
}

// Computes one tile of scores: s[rows][vecs * VW] = q[rows][E] panel[E][WIDE]; rows and vecs are
// constants where this function is inlined.
INLINE void NAME(scores_tile)(real *s, const void *const *q, const ELEMENT *panel, int64_t E,
                              const int rows, const int vecs)
{
    vf acc[MR][NR];
    const real *row[MR];
    UNROLL for (int i = 0; i < rows; i++)
    {
        row[i] = q[i];
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_zero();
    }
    for (int64_t e = 0; e < E; e++, panel += WIDE) {
        vf k[NR];
        NAME(prefetch_ahead)(panel, rows);
        NAME(tile_load)(k, panel, vecs);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const vf a = vf_set1(row[i][e]);
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_fma(a, k[j], acc[i][j]);
        }
    }
    NAME(tile_order)(acc, rows, vecs);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
        vf_store(s + i * QKV_CHUNK + j * VW, acc[i][j]);
}

// Adds weighted values to one tile of sums: o[rows][vecs * VW] = old o + now s[rows][..]
// values[..][vecs * VW] over the columns of the spans.
INLINE void NAME(values_tile)(real *o, int64_t ldo, const real *old, const real *now, const real *s,
                              const ELEMENT *packed, const struct qkv_columns *spans, int n,
                              const int rows, const int vecs)
{
    vf acc[MR][NR];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
        vf_zero();
    for (int p = 0; p < n; p++) {
        const ELEMENT *v = packed + spans[p].from * vecs * VW;
        const real *a = s + spans[p].from;
        const real *const end = s + spans[p].to;
        for (; a < end; a++, v += vecs * VW) {
            vf x[NR];
            NAME(prefetch_ahead)(v, rows);
            NAME(tile_load)(x, v, vecs);
            UNROLL for (int i = 0; i < rows; i++)
            {
                const vf b = vf_set1(a[i * QKV_CHUNK]);
                UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_fma(b, x[j], acc[i][j]);
            }
        }
    }
    NAME(tile_order)(acc, rows, vecs);
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
    {
        real *at = o + i * ldo + j * VW;
        const vf sum = vf_mul(vf_set1(now[i]), acc[i][j]);
        vf_store(at, old ? vf_fma(vf_set1(old[i]), vf_load(at), sum) : sum);
    }
}

static void NAME(scores)(real *s, const void *const *q, int rows, const void *packed, int64_t E,
                         struct qkv_columns span)
{
    const ELEMENT *keys = packed;
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const ELEMENT *panel = keys + j / WIDE * WIDE * E + j % WIDE;
        switch (rows * 8 + (next - j) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: NAME(scores_tile)(s + j, q, panel, E, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static void NAME(values)(real *o, const real *old, const real *now, const real *s, int rows,
                         const void *given, int64_t capacity, int64_t F,
                         const struct qkv_columns *spans, int n)
{
    const ELEMENT *packed = given;
    const int64_t ldo = width(F);
    for (int64_t f = 0; f < ldo; f += WIDE, packed += capacity * WIDE) {
        switch (rows * 8 + qkv_min64(ldo - f, WIDE) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: NAME(values_tile)(o + f, ldo, old, now, s, packed, spans, n, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}
