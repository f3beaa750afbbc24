// SPDX-License-Identifier: MIT
// attention_back_tiles.h: defines the products of the attention backward pass; the sums of MR rows
// by NR vectors are held in registers.
//
// Requires attention.h or attention_pairs.h (MR, NR, WIDE, EACH_TILE), and the operand functions:
//   back_number  BACK_GROUP adjacent elements along the inner axis of a product
//   back_vector  a vector of VW back_numbers
//   back_load    loads a back_vector
//   back_all     copies one back_number to every lane of a back_vector
//   back_madd    adds the products of two back_vectors to a vector of sums
// A sum is one chain of back_madd in the order of its inner axis, starting from 0 (scores) or from
// its previous value (sums of dq, dk, dv); the result does not depend on the position in a tile or
// on how the axis is divided.

// Returns the number of back_numbers for an inner axis of n elements.
static int64_t back_deep(int64_t n)
{
    return (n + BACK_GROUP - 1) / BACK_GROUP;
}

// Computes one tile of scores: s[rows][vecs VW] = x[rows][deep] panel[deep][WIDE]; rows and vecs
// are constants where this function is inlined.
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

// Adds products to one tile of sums: sum[rows][vecs VW] += x right, where element k of row i of x
// is x[k step + i row], and the n rows of right are ld elements apart.
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

// The columns that the rows of a tile see: row i sees lo[i] .. hi[i]-1. Parts of a product in which
// no row sees a column are skipped, because they are 0.
struct back_sight {
    int rows;
    int32_t lo[QKV_BACK_ROWS_MAX], hi[QKV_BACK_ROWS_MAX];
};
// Returns the columns that any of rows i .. i+n-1 sees.
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
// Returns the range from the first to the last row that sees any of columns j .. j+n-1.
static struct qkv_columns back_rows_seeing(const struct back_sight *see, int j, int n)
{
    struct qkv_columns r = { 0, see->rows };
    while (r.from < r.to && !(see->lo[r.from] < j + n && see->hi[r.from] > j)) r.from++;
    while (r.from < r.to && !(see->lo[r.to - 1] < j + n && see->hi[r.to - 1] > j)) r.to--;
    return r;
}

// Computes a block of scores: s[i][j - from] for rows i < n and the columns j of the span. `see`
// says which columns a row sees, counted from column `from`; NULL: each row sees all columns.
// Results in columns that a row does not see are undefined.
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

// A left operand of a product: element n of row i is x[n * step + i * row]; each row has `deep`
// elements.
struct back_left {
    const back_number *x;
    int64_t step, row, deep;
};
// Returns the range of the inner axis where rows i .. i+n-1 of a left operand are not all 0.
static struct qkv_columns back_inner(const struct back_left *x, const struct back_sight *see, int i,
                                     int n)
{
    if (!see) return (struct qkv_columns){ 0, (int32_t)x->deep };
    const struct qkv_columns c =
        x->row == 1 ? back_rows_seeing(see, i, n) : back_columns_seen(see, i, n);
    return (struct qkv_columns){ c.from / BACK_GROUP, (c.to + BACK_GROUP - 1) / BACK_GROUP };
}

// Adds the product x right to sum; rows of sum and of right are width(W) elements apart. If
// adjacent rows of x are adjacent in memory (x.row == 1), the rows of x are the columns of the
// tile.
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
