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

// s[rows][vecs VW] = x[rows][deep] panel[deep][WIDE]; rows and vecs are known where this is laid
// in.
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

// What the rows of a tile see of its columns: row i columns lo[i] .. hi[i]-1.  Products with
// nothing but 0 in them are left out.
struct back_sight {
    int rows;
    int32_t lo[QKV_BACK_ROWS_MAX], hi[QKV_BACK_ROWS_MAX];
};
// Columns that any of rows i .. i+n-1 sees.
static struct qkv_columns back_columns_seen(const struct back_sight *see, int i, int n)
{
    struct qkv_columns c = { QKV_CHUNK, 0 };
    for (int k = i; k < i + n; k++) {
        if (see->lo[k] >= see->hi[k]) continue;
        if (see->lo[k] < c.from) c.from = see->lo[k];
        if (see->hi[k] > c.to) c.to = see->hi[k];
    }
    return c;
}
// Rows between the first and the last that see any of columns j .. j+n-1.
static struct qkv_columns back_rows_seeing(const struct back_sight *see, int j, int n)
{
    struct qkv_columns r = { 0, see->rows };
    while (r.from < r.to && !(see->lo[r.from] < j + n && see->hi[r.from] > j)) r.from++;
    while (r.from < r.to && !(see->lo[r.to - 1] < j + n && see->hi[r.to - 1] > j)) r.to--;
    return r;
}

// s[i][j - from] of rows i < n, for the columns j of the span; see, counted from column `from`, may
// be NULL: everything.  What nobody sees is anything.
static void back_scores_block(real *s, int64_t lds, const back_number *x, int n,
                              const back_number *keys, int64_t deep, struct qkv_columns span,
                              const struct back_sight *see)
{
    const int tiles = (n + MR - 1) / MR;
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        for (int t = 0; t < tiles; t++) {
            const int i = t * n / tiles, rows = (t + 1) * n / tiles - i;
            int32_t from = j, to = next;
            if (see) {
                const struct qkv_columns c = back_columns_seen(see, i, rows);
                const int32_t lo = span.from + c.from / VW * VW,
                              hi = span.from + (c.to + VW - 1) / VW * VW;
                from = lo > from ? lo : from;
                to = hi < to ? hi : to;
                if (from >= to) continue;
            }
            const back_number *panel = keys + from / WIDE * WIDE * deep + from % WIDE;
            real *const at = s + i * lds + (from - span.from);
            switch (rows * 8 + (to - from) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: back_scores_tile(at, lds, x + i * deep, panel, deep, I, J); break;
                EACH_TILE(QKV_TILE)
#undef QKV_TILE
            }
        }
    }
}

// How x lies: number n of row i is x[n step + i row]; `deep` of them.
struct back_left {
    const back_number *x;
    int64_t step, row, deep;
};
// Numbers of the inner axis that rows i .. i+n-1 of a left operand are not 0 at.
static struct qkv_columns back_inner(const struct back_left *x, const struct back_sight *see, int i,
                                     int n)
{
    if (!see) return (struct qkv_columns){ 0, (int32_t)x->deep };
    const struct qkv_columns c =
        x->row == 1 ? back_rows_seeing(see, i, n) : back_columns_seen(see, i, n);
    return (struct qkv_columns){ c.from / BACK_GROUP, (c.to + BACK_GROUP - 1) / BACK_GROUP };
}

// Rows of sums and of the right operand are width(W) apart.  Where x has a row next to a row
// (x.row == 1) its rows are the tile's columns.
static void back_sums_block(real *sum, int n, struct back_left x, const back_number *right,
                            int64_t W, const struct back_sight *see)
{
    const int64_t ld = width(W);
    const int tiles = (n + MR - 1) / MR;
    for (int64_t w = 0; w < ld; w += WIDE) {
        const int64_t vecs = qkv_min64(ld - w, WIDE) / VW;
        for (int t = 0; t < tiles; t++) {
            const int i = t * n / tiles, rows = (t + 1) * n / tiles - i;
            const struct qkv_columns in = back_inner(&x, see, i, rows);
            const back_number *const at = x.x + i * x.row + in.from * x.step, *const by =
                                                                                  right +
                                                                                  in.from * ld + w;
            real *const to = sum + i * ld + w;
            switch (in.from < in.to ? rows * 8 + vecs : 0) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: back_sums_tile(to, ld, at, x.step, x.row, by, in.to - in.from, I, J); break;
                EACH_TILE(QKV_TILE)
#undef QKV_TILE
            }
        }
    }
}
