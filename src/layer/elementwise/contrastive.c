// SPDX-License-Identifier: MIT
// contrastive.c: computes the in-batch contrastive loss of pairs (a_i, b_i), with temperature t:
// each vector must match its partner among all vectors of the batch.
//
//   loss of row i:     -ln (e^(a_i b_i / t) / sum_j e^(a_i b_j / t))
//   loss of column i:  -ln (e^(a_i b_i / t) / sum_j e^(a_j b_i / t))
//
// Each direction is a cross-entropy whose vocabulary weights are the vectors of the other side, so
// the n x n scores never exist at once.
#include "layer/layer.h"
#include <string.h>

static const double usual = 0.05; // default temperature, as in sentence-transformers (scale 20)

struct place {
    real *scaled, *dscaled; // [n][D] a / t and its gradient
    int32_t *targets;       // [n] targets of the cross-entropy: row i has target i
    void *own;
};

static struct qkv_cross_entropy words(int64_t n, int64_t D, const real *w, int threads)
{
    return (struct qkv_cross_entropy){ .V = n, .K = D, .w = w, .threads = threads };
}

static bool take(struct place *at, struct qkv_arena *arena, int64_t n, int64_t D, int threads)
{
    const struct qkv_cross_entropy p = words(n, D, NULL, threads);
    at->scaled = qkv_arena_rows(arena, n, D, sizeof(real));
    at->dscaled = qkv_arena_rows(arena, n, D, sizeof(real));
    at->targets = qkv_arena_alloc(arena, (size_t)n, sizeof *at->targets);
    at->own = qkv_arena_alloc(arena, 1, qkv_cross_entropy_scratch(&p, n));
    return !qkv_arena_full(arena);
}

size_t qkv_contrastive_scratch(const struct qkv_contrastive *p, int64_t n, int64_t D)
{
    struct place at;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return take(&at, &arena, n, D, p->threads) ? arena.used : SIZE_MAX;
}

// Computes the loss of one direction, in which row i of x must match row i of y, and adds its
// gradients to dx and dy. dx and dy NULL: computes only the loss.
static struct qkv_loss direction(real *dx, real *dy, const real *x, const real *y, int64_t n,
                                 int64_t D, real scale, real temperature, const struct place *at,
                                 int threads)
{
    struct qkv_cross_entropy p = words(n, D, y, threads);
    struct qkv_loss loss = { 0 };
    p.scratch = at->own;
    for (int64_t i = 0; i < n * D; i++) at->scaled[i] = x[i] / temperature;
    qkv_cross_entropy(&loss, dx ? at->dscaled : NULL, dy, NULL, NULL, at->scaled, at->targets, n,
                      scale, &p);
    for (int64_t i = 0; i < n * D && dx; i++) dx[i] += at->dscaled[i] / temperature;
    return loss;
}

void qkv_contrastive(struct qkv_loss *loss, real *da, real *db, const real *a, const real *b,
                     int64_t n, int64_t D, real scale, const struct qkv_contrastive *p)
{
    struct place at;
    struct qkv_arena arena = { p->scratch, SIZE_MAX, 0 };
    take(&at, &arena, n, D, p->threads);
    const real temperature = p->temperature != 0 ? p->temperature : (real)usual;
    const real share = p->rows_only ? 1 : (real)0.5;
    for (int64_t i = 0; i < n; i++) at.targets[i] = (int32_t)i;
    if (da) memset(da, 0, (size_t)(n * D) * sizeof *da);
    if (db) memset(db, 0, (size_t)(n * D) * sizeof *db);
    struct qkv_loss rows =
        direction(da, db, a, b, n, D, share * scale, temperature, &at, p->threads);
    if (!p->rows_only) {
        const struct qkv_loss columns =
            direction(db, da, b, a, n, D, share * scale, temperature, &at, p->threads);
        rows.sum = (rows.sum + columns.sum) / 2;
    }
    loss->sum += rows.sum;
    loss->rows += rows.rows;
    loss->right += rows.right;
}
