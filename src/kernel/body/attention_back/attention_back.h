// SPDX-License-Identifier: MIT
// attention_back.h: defines the products of the attention backward pass in vectors, and the fused
// kernel for tiles whose scores have only a scale.
//
// Requires attention_back_rows.h and attention_back_tiles.h. attention_back_kernels.h defines P,
// dP, W, dS, X and d. A kernel table defines how W and X become operands: back_operands_of for the
// single steps, back_plain_forms for the fused kernel.

#ifdef QKV_TINY_TILES
enum { BACK_ROWS = 2 * MR + 2, BACK_TILE = WIDE };
#else
// BACK_ROWS is the largest number of rows of a tile; BACK_TILE is the number of columns that the
// fused kernel processes at once.
enum { BACK_ROWS = 128, BACK_TILE = 64 };
#endif

// The left operand of a product (the matrix W or X of attention_back_kernels.h) in two orders:
// column j of `transposed` begins at transposed[j], and its elements are `step` apart; row i of
// `straight` begins at straight[i * row].
struct back_operands {
    const back_number *transposed, *straight;
    int64_t step, row;
};

static void back_scores(real *s, const void *rows, int n, const void *keys, int64_t W,
                        struct qkv_columns span)
{
    back_scores_block(s + span.from, QKV_CHUNK, rows, n, keys, back_deep(W), span, NULL);
}

// ---- products ----------------------------------------------------------------------------------
static struct back_operands back_operands_of(const void *operand);

static void back_add_transposed(real *sum, const void *operand, int rows, const void *right,
                                int64_t W, const struct qkv_columns *spans, int n)
{
    const struct back_operands x = back_operands_of(operand);
    for (int p = 0; p < n; p++)
        back_sums_block(
            sum + spans[p].from * width(W), spans[p].to - spans[p].from,
            (struct back_left){ x.transposed + spans[p].from, x.step, 1, back_deep(rows) }, right,
            W, NULL);
}

static void back_add_product(real *sum, const void *operand, int rows, const void *right, int64_t W,
                             const struct qkv_columns *spans, int n)
{
    const struct back_operands x = back_operands_of(operand);
    for (int p = 0; p < n; p++) {
        // the index counts back_numbers; the division is exact, because spans begin at a multiple
        // of VW
        const int32_t at = spans[p].from / BACK_GROUP;
        back_sums_block(
            sum, rows,
            (struct back_left){ x.straight + at, 1, x.row, back_deep(spans[p].to - spans[p].from) },
            (const back_number *)right + at * width(W), W, NULL);
    }
}

// ---- the fused kernel --------------------------------------------------------------------------
// The part of a tile that the fused kernel processes at once: some columns, the range of rows that
// see any of these columns, and the columns that each row sees.
struct back_part {
    struct qkv_columns c;
    int first, rows;
    bool whole; // true: every row sees all columns
    struct back_sight see;
};
// Computes the operands W (weights, for dv) and X (gradients of the scores, for dq and dk) for part
// p of a tile, from the scores in t->s and from dP in t->ds, whose rows are BACK_TILE elements
// apart.
static void back_plain_forms(struct back_operands *w, struct back_operands *x,
                             const struct qkv_back_tile *t, const struct back_part *p);

static bool back_part_of(struct back_part *p, const struct qkv_back_tile *t)
{
    const int32_t columns = p->c.to - p->c.from;
    int first = t->rows, end = 0;
    for (int i = 0; i < t->rows; i++)
        if (t->lo[i] < p->c.to && t->hi[i] > p->c.from && t->lo[i] < t->hi[i]) {
            if (i < first) first = i;
            end = i + 1;
        }
    p->first = first / BACK_GROUP * BACK_GROUP;
    p->rows = p->see.rows = end - p->first;
    p->whole = true;
    for (int i = 0; i < p->rows; i++) {
        const int32_t lo = t->lo[p->first + i] - p->c.from, hi = t->hi[p->first + i] - p->c.from;
        p->see.lo[i] = lo > 0 ? lo : 0;
        p->see.hi[i] = hi < columns ? hi : columns;
        p->whole = p->whole && lo <= 0 && hi >= columns;
    }
    return first < end;
}

static void back_fused(const struct qkv_back_tile *t)
{
    const int64_t E = back_deep(t->E), F = back_deep(t->F);
    struct back_part p;
    for (int32_t j = t->span.from; j < t->span.to; j = p.c.to) {
        struct back_operands w, x;
        p.c.from = j;
        p.c.to = j / BACK_TILE * BACK_TILE + BACK_TILE;
        if (p.c.to > t->span.to) p.c.to = t->span.to;
        if (!back_part_of(&p, t)) continue;
        const struct back_sight *const see = p.whole ? NULL : &p.see;
        const int columns = p.c.to - j;
        const int64_t at = p.first / BACK_GROUP, deep = back_deep(p.rows);
        back_scores_block(t->s, BACK_TILE, (const back_number *)t->q + p.first * E, p.rows, t->k, E,
                          p.c, see);
        back_scores_block(t->ds, BACK_TILE, (const back_number *)t->dout + p.first * F, p.rows,
                          t->v, F, p.c, see);
        back_plain_forms(&w, &x, t, &p);
        back_sums_block(t->dv + j * width(t->F), columns,
                        (struct back_left){ w.transposed, w.step, 1, deep },
                        (const back_number *)t->dout_right + at * width(t->F), t->F, see);
        back_sums_block(t->dk + j * width(t->E), columns,
                        (struct back_left){ x.transposed, x.step, 1, deep },
                        (const back_number *)t->q_right + at * width(t->E), t->E, see);
        back_sums_block(t->dq + p.first * width(t->E), p.rows,
                        (struct back_left){ x.straight, 1, x.row, back_deep(columns) },
                        (const back_number *)t->k_right + j / BACK_GROUP * width(t->E), t->E, see);
    }
}

// Lists the kernels of a table that do not depend on the type of the arrays.
#define BACK_STEPS(WORDS_)                                                                         \
    BACK_ROWS_STEPS(WORDS_), .rows = BACK_ROWS, .keys = WIDE, .lanes = VW, .width = width,         \
                             .scores = back_scores, .add_transposed = back_add_transposed,         \
                             .add_product = back_add_product, .fused = back_fused
