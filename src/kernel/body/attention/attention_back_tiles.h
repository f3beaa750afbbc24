// SPDX-License-Identifier: MIT
// attention_back_tiles.h: the products of attention's backward: MR rows by NR vectors stay in
// registers.
//
// After attention.h or attention_pairs.h (MR, NR, WIDE, EACH_TILE), and the words of an operand:
//   back_number  BACK_GROUP neighbours of a product's inner axis;  back_vector: VW of them
//   back_load    a vector of them;  back_all: one of them in each lane
//   back_madd    a vector of sums more by the products of two vectors
// A sum is one chain of these in the order of its inner axis, from 0 (scores) or from what it was
// (the sums of dq, dk, dv): the same wherever it stands in a tile, however its axis is cut.

// Of an inner axis of n: numbers.
static int64_t back_deep(int64_t n)
{
    return (n + BACK_GROUP - 1) / BACK_GROUP;
}

// s[rows][vecs VW] = x[rows][deep] panel[deep][WIDE]; rows and vecs are known where this is laid in.
INLINE void back_scores_tile(real *s, int64_t lds, const back_number *x, const back_number *panel,
                             int64_t deep, const int rows, const int vecs)
{
    vf acc[MR][NR];
    const back_number *row[MR];
    UNROLL for (int i = 0; i < rows; i++)
    {
        row[i] = x + i * deep;
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_zero();
    }
    for (int64_t e = 0; e < deep; e++, panel += WIDE) {
        back_vector k[NR];
        UNROLL for (int j = 0; j < vecs; j++) k[j] = back_load(panel + j * VW);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const back_vector a = back_all(row[i][e]);
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = back_madd(acc[i][j], a, k[j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
        vf_store(s + i * lds + j * VW, acc[i][j]);
}

// sum[rows][vecs VW] += x right: number n of row i is x[n step + i row], right[n] lies ld apart.
INLINE void back_sums_tile(real *sum, int64_t ld, const back_number *x, int64_t step, int64_t row,
                           const back_number *right, int64_t n, const int rows, const int vecs)
{
    vf acc[MR][NR];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
        vf_load(sum + i * ld + j * VW);
    for (; n > 0; n--, x += step, right += ld) {
        back_vector y[NR];
        UNROLL for (int j = 0; j < vecs; j++) y[j] = back_load(right + j * VW);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const back_vector a = back_all(x[i * row]);
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = back_madd(acc[i][j], a, y[j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
        vf_store(sum + i * ld + j * VW, acc[i][j]);
}

// s[i][j - from] of rows i < n, for the columns j of the span.
static void back_scores_block(real *s, int64_t lds, const back_number *x, int n,
                              const back_number *keys, int64_t deep, struct qkv_columns span)
{
    const int tiles = (n + MR - 1) / MR;
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const back_number *panel = keys + j / WIDE * WIDE * deep + j % WIDE;
        for (int t = 0; t < tiles; t++) {
            const int i = t * n / tiles, rows = (t + 1) * n / tiles - i;
            real *const to = s + i * lds + (j - span.from);
            switch (rows * 8 + (next - j) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: back_scores_tile(to, lds, x + i * deep, panel, deep, I, J); break;
                EACH_TILE(QKV_TILE)
#undef QKV_TILE
            }
        }
    }
}

// Rows of sums and of the right operand are width(W) apart; x as for a tile, `deep` numbers a row.
static void back_sums_block(real *sum, int n, const back_number *x, int64_t step, int64_t row,
                            const back_number *right, int64_t deep, int64_t W)
{
    const int64_t ld = width(W);
    const int tiles = (n + MR - 1) / MR;
    for (int64_t w = 0; w < ld; w += WIDE) {
        const int64_t vecs = qkv_min64(ld - w, WIDE) / VW;
        for (int t = 0; t < tiles; t++) {
            const int i = t * n / tiles, rows = (t + 1) * n / tiles - i;
            real *const to = sum + i * ld + w;
            switch (rows * 8 + vecs) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: back_sums_tile(to, ld, x + i * row, step, row, right + w, deep, I, J); break;
                EACH_TILE(QKV_TILE)
#undef QKV_TILE
            }
        }
    }
}
