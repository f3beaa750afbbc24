// SPDX-License-Identifier: MIT
// heads_ablate.c: replaces the outputs of ablated heads by zeros, by their mean over rows, or by
// the mean of the visible values.
//
//   mean     y[r] = the mean of x[r'] over all rows r' of the sequence; running: over r' <= r
//   uniform  q = 0: every dot product is 0, so the softmax gives all visible keys the same weight,
//            with any mask, with or without a KV cache; ablate.c also sets the relative-position
//            biases of the head to 0
//
// Sums are in double and run row by row, so that decoding one token at a time is bit-identical to
// one pass over all tokens.
#include "layer/layer_internal.h"
#include "layer/heads/heads_work.h"
#include <string.h>

enum { COLUMNS = 64 }; // number of elements of a head that are averaged at once

static enum qkv_heads_gives gives(const struct qkv_heads_ablation *a, int64_t sequence, int64_t h)
{
    return (enum qkv_heads_gives)a->gives[sequence * a->step + h];
}

static void load(real *to, const char *from, qkv_dtype type, int64_t n)
{
    if (type == QKV_REAL)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        qkv_widen(to, from, type, n);
}

static void store(char *to, qkv_dtype type, const real *from, int64_t n)
{
    float narrow[COLUMNS];
    if (type == QKV_REAL) {
        memcpy(to, from, (size_t)n * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)from[i];
    (void)qkv_from_f32(to, type, narrow, n);
}

void qkv_heads_quiet(void *q, qkv_dtype t, const int64_t *offsets, int64_t n,
                     const struct qkv_heads *m)
{
    const size_t head = (size_t)m->E * qkv_dtype_size(t), row = (size_t)m->H * head;
    for (int64_t i = 0; m->ablation && i < n; i++)
        for (int64_t h = 0; h < m->H; h++) {
            if (gives(m->ablation, i, h) != QKV_HEADS_UNIFORM) continue;
            for (int64_t r = offsets[i]; r < offsets[i + 1]; r++)
                memset((char *)q + (size_t)r * row + (size_t)h * head, 0, head);
        }
}

// Up to COLUMNS elements of one head, in consecutive rows that are `row` bytes apart.
struct column {
    char *x;
    size_t row;
    int64_t rows, n; // number of rows; elements of each row, n <= COLUMNS
    qkv_dtype type;
};

static void whole_mean(const struct column *c)
{
    double sum[COLUMNS] = { 0 };
    real x[COLUMNS];
    for (int64_t r = 0; r < c->rows; r++) {
        load(x, c->x + (size_t)r * c->row, c->type, c->n);
        for (int64_t i = 0; i < c->n; i++) sum[i] += (double)x[i];
    }
    for (int64_t i = 0; i < c->n; i++) x[i] = (real)(sum[i] / (double)c->rows);
    for (int64_t r = 0; r < c->rows; r++) store(c->x + (size_t)r * c->row, c->type, x, c->n);
}

// Replaces each row of c by the mean of this row and all rows of its sequence before it. before:
// number of rows of the sequence before c. sums receives the sum up to each row of c, `stride`
// numbers apart; the sums of the rows before c precede it in memory. sums NULL: the sums are not
// stored, and before is 0.
static void running_mean(const struct column *c, int64_t before, double *sums, int64_t stride)
{
    double sum[COLUMNS] = { 0 };
    real x[COLUMNS];
    if (before) memcpy(sum, sums - stride, (size_t)c->n * sizeof *sum);
    for (int64_t r = 0; r < c->rows; r++) {
        char *at = c->x + (size_t)r * c->row;
        load(x, at, c->type, c->n);
        for (int64_t i = 0; i < c->n; i++) {
            sum[i] += (double)x[i];
            x[i] = (real)(sum[i] / (double)(before + r + 1));
        }
        store(at, c->type, x, c->n);
        if (sums) memcpy(sums + r * stride, sum, (size_t)c->n * sizeof *sum);
    }
}

// Replaces the output x[rows][F] of a head, in sequence i, by its mean. `mean` is the index of the
// head among the heads of this layer that are replaced by their mean.
static void mean_head(const struct column *x, int64_t i, int64_t mean, int64_t F,
                      const struct qkv_heads_ablation *a, const struct qkv_heads_sums *sums)
{
    for (int64_t at = 0; at < F; at += COLUMNS) {
        struct column part = *x;
        part.x += (size_t)at * qkv_dtype_size(x->type);
        part.n = qkv_min64(COLUMNS, F - at);
        if (!a->running)
            whole_mean(&part);
        else if (!sums)
            running_mean(&part, 0, NULL, 0);
        else
            running_mean(&part, sums->before[i], sums->rows[i] + a->column + mean * F + at,
                         sums->stride);
    }
}

void qkv_heads_replace(void *heads, qkv_dtype t, const int64_t *offsets, int64_t n,
                       const struct qkv_heads *m, const struct qkv_heads_sums *sums)
{
    const struct qkv_heads_ablation *a = m->ablation;
    const size_t head = (size_t)m->F * qkv_dtype_size(t), row = (size_t)m->H * head;
    for (int64_t i = 0; a && i < n; i++) {
        int64_t means = 0;
        for (int64_t h = 0; h < m->H; h++) {
            const enum qkv_heads_gives what = gives(a, i, h);
            const struct column x = { (char *)heads + (size_t)offsets[i] * row + (size_t)h * head,
                                      row, offsets[i + 1] - offsets[i], 0, t };
            for (int64_t r = 0; what == QKV_HEADS_ZERO && r < x.rows; r++)
                memset(x.x + (size_t)r * row, 0, head);
            if (what == QKV_HEADS_MEAN) mean_head(&x, i, means++, m->F, a, sums);
        }
    }
}
