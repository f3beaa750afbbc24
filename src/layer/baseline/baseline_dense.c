// SPDX-License-Identifier: MIT
// baseline_dense.c: computes the convolution and recurrence baselines as sequences of matrix
// products.
//
// Convolution: the `width` rows of x that a token reads are adjacent, so they are one row of width
// times D_in numbers; the row of the next token begins D_in numbers later. The convolution is the
// product of these overlapping rows and the weights. Only for tokens near the ends of the sequence,
// which would read beyond it, are the rows copied and padded with zeros.
//
// Elman network: one product computes W_i x + b_i of all tokens and writes it to h; each step then
// adds W_h h for the whole batch and applies tanh.
#include "layer/baseline/baseline_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
// ---- convolution -------------------------------------------------------------------------------
struct convolution {
    // left: rows that a token reads before its own row; ends: most tokens at an end of the sequence
    int64_t left, ends;
    int64_t x, y, w; // lengths of the arrays x, y and w
    char *once;
    float *edge; // [(ends + width - 1)][D_in] padded copy of an end of the sequence
};

static struct qkv_baseline_plan
convolution_plan(struct convolution *at, const struct qkv_convolution *c, struct qkv_arena *arena)
{
    struct qkv_baseline_plan p = { 0 };
    qkv_baseline_size(&p, "B", c->B, 0);
    qkv_baseline_size(&p, "T", c->T, 0);
    qkv_baseline_size(&p, "D_in", c->D_in, 1);
    qkv_baseline_size(&p, "D_out", c->D_out, 1);
    qkv_baseline_size(&p, "width", c->width, 1);
    if ((unsigned)c->act > QKV_ACT_LAST)
        qkv_baseline_refuse(&p, QKV_ERR_USAGE, "unknown activation: %d", (int)c->act);
    at->x = qkv_baseline_count(&p, c->B, c->T, c->D_in, 1);
    at->y = qkv_baseline_count(&p, c->B, c->T, c->D_out, 1);
    at->w = qkv_baseline_count(&p, c->D_out, c->width, c->D_in, 1);
    qkv_baseline_count(&p, c->width, c->D_in, 2, 1);
    if (p.status) return p;
    const struct qkv_linear_once once = qkv_baseline_once(NULL);
    at->left = c->causal ? c->width - 1 : (c->width - 1) / 2;
    at->ends = qkv_min64(c->T, c->width - 1);
    at->edge = qkv_arena_alloc(arena, (size_t)((at->ends + c->width - 1) * c->D_in), sizeof(float));
    at->once =
        qkv_arena_alloc(arena, 1, qkv_linear_once_scratch(&once, c->width * c->D_in, c->D_out));
    qkv_baseline_scratch(&p, arena);
    p.flops = 2.0 * (double)at->y * (double)c->width * (double)c->D_in;
    return p;
}

QKV_API struct qkv_baseline_plan qkv_convolution_plan(const struct qkv_convolution *c)
{
    struct convolution at;
    struct qkv_arena count = { NULL, SIZE_MAX, 0 };
    struct qkv_baseline_plan none = { 0 };
    if (c) return convolution_plan(&at, c, &count);
    qkv_baseline_refuse(&none, QKV_ERR_USAGE, "the convolution is NULL");
    return none;
}

// Computes the outputs of tokens from .. to-1. x contains all rows that they read; its row 0 is the
// row of token `first`.
static void convolve(float *y, const float *x, int64_t first, int64_t from, int64_t to,
                     const struct qkv_convolution *c, const struct convolution *at)
{
    if (from >= to) return;
    const struct qkv_linear_part part = { c->D_out, c->w, c->b, false };
    const struct qkv_linear_once once = qkv_baseline_once(at->once);
    const struct qkv_after after = { .act = c->act };
    qkv_linear_once(y + from * c->D_out, c->D_out, x + (from - at->left - first) * c->D_in, c->D_in,
                    to - from, c->width * c->D_in, &part, &after, &once);
}

// Computes the outputs of tokens from .. to-1 from a copy of the rows that they read; the copy has
// zeros beyond the ends of the sequence.
static void convolve_edge(float *y, const float *x, int64_t from, int64_t to,
                          const struct qkv_convolution *c, const struct convolution *at)
{
    if (from >= to) return;
    const int64_t first = from - at->left, end = to - at->left + c->width - 1;
    const int64_t lo = qkv_max64(first, 0), hi = qkv_min64(end, c->T);
    const size_t row = (size_t)c->D_in * sizeof *x;
    memset(at->edge, 0, (size_t)(end - first) * row);
    memcpy(at->edge + (lo - first) * c->D_in, x + lo * c->D_in, (size_t)(hi - lo) * row);
    convolve(y, at->edge, first, from, to, c, at);
}

QKV_API qkv_status qkv_convolution_forward(float *y, const float *x,
                                           const struct qkv_convolution *c, void *scratch)
{
    struct convolution at;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    if (!c) return QKV_ERR_USAGE;
    const struct qkv_baseline_plan p = convolution_plan(&at, c, &arena);
    if (p.status || !at.y) return p.status;
    const struct qkv_baseline_array arrays[] = {
        { y, at.y }, { x, at.x }, { c->w, at.w }, { c->b, c->b ? c->D_out : 0 }
    };
    if (!qkv_baseline_arrays(arrays, 1, 4, scratch, p.scratch)) return QKV_ERR_USAGE;
    const int64_t begin = qkv_min64(at.left, c->T);
    const int64_t end = qkv_max64(begin, c->T - (c->width - 1 - at.left));
    for (int64_t b = 0; b < c->B; b++) {
        float *to = y + b * c->T * c->D_out;
        const float *from = x + b * c->T * c->D_in;
        convolve_edge(to, from, 0, begin, c, &at);
        convolve(to, from, 0, begin, end, c, &at);
        convolve_edge(to, from, end, c->T, c, &at);
    }
    return QKV_OK;
}

// ---- recurrence --------------------------------------------------------------------------------
struct recurrence {
    int64_t N, x, h, w_i, w_h; // N: rows of the weights; the others: lengths of the arrays
    int64_t *offsets;          // GRU: [B + 1] offsets of the sequences
    float *gates;              // GRU: [B T][4 D] gates
    float *zero;               // Elman: [B][D] zeros, used as first state if the caller gives none
    char *inner, *packed;
};

static struct qkv_gru gru_of(const struct qkv_recurrence *r, void *scratch)
{
    return (struct qkv_gru){ .D_in = r->D_in,
                             .D = r->D,
                             .w_i = r->w_i,
                             .w_h = r->w_h,
                             .b_i = r->b_i,
                             .b_h = r->b_h,
                             .threads = qkv_threads(),
                             .scratch = scratch };
}

static struct qkv_linear hidden_of(const struct qkv_recurrence *r)
{
    return (
        struct qkv_linear){ .K = r->D, .parts = 1, .part = { { r->D, r->w_h, r->b_h, false } } };
}

static struct qkv_baseline_plan
recurrence_plan(struct recurrence *at, const struct qkv_recurrence *r, struct qkv_arena *arena)
{
    struct qkv_baseline_plan p = { 0 };
    qkv_baseline_size(&p, "B", r->B, 0);
    qkv_baseline_size(&p, "T", r->T, 0);
    qkv_baseline_size(&p, "D_in", r->D_in, 1);
    qkv_baseline_size(&p, "D", r->D, 1);
    if (r->cell != QKV_CELL_ELMAN && r->cell != QKV_CELL_GRU)
        qkv_baseline_refuse(&p, QKV_ERR_USAGE, "unknown cell: %d", (int)r->cell);
    const bool gru = r->cell == QKV_CELL_GRU;
    at->N = p.status ? 0 : (gru ? 3 : 1) * r->D;
    at->x = qkv_baseline_count(&p, r->B, r->T, r->D_in, 1);
    at->h = qkv_baseline_count(&p, r->B, r->T, r->D, 1);
    at->w_i = qkv_baseline_count(&p, at->N, r->D_in, 1, 1);
    at->w_h = qkv_baseline_count(&p, at->N, r->D, 1, 1);
    qkv_baseline_count(&p, 4, r->B, r->T, r->D);
    if (p.status) return p;
    if (gru) {
        const struct qkv_gru g = gru_of(r, NULL);
        at->offsets = qkv_arena_alloc(arena, (size_t)r->B + 1, sizeof *at->offsets);
        at->gates = qkv_arena_alloc(arena, 4 * (size_t)at->h, sizeof *at->gates);
        at->inner = qkv_arena_alloc(arena, 1, qkv_gru_scratch(&g, r->B * r->T, r->B));
    } else {
        const struct qkv_linear_once once = qkv_baseline_once(NULL);
        struct qkv_linear hidden = hidden_of(r);
        at->zero = qkv_arena_alloc(arena, (size_t)(r->B * r->D), sizeof *at->zero);
        at->packed = qkv_arena_alloc(arena, 1, qkv_linear_pack_bytes(&hidden));
        at->inner = qkv_arena_alloc(arena, 1, qkv_linear_once_scratch(&once, r->D_in, r->D));
    }
    qkv_baseline_scratch(&p, arena);
    p.flops = 2.0 * (double)r->B * (double)r->T * (double)at->N * ((double)r->D_in + (double)r->D);
    return p;
}

QKV_API struct qkv_baseline_plan qkv_recurrence_plan(const struct qkv_recurrence *r)
{
    struct recurrence at;
    struct qkv_arena count = { NULL, SIZE_MAX, 0 };
    struct qkv_baseline_plan none = { 0 };
    if (r) return recurrence_plan(&at, r, &count);
    qkv_baseline_refuse(&none, QKV_ERR_USAGE, "the recurrence is NULL");
    return none;
}

static void elman(float *h, const float *x, const float *first, const struct qkv_recurrence *r,
                  const struct recurrence *at)
{
    const struct qkv_linear_part in = { r->D, r->w_i, r->b_i, false };
    const struct qkv_linear_once once = qkv_baseline_once(at->inner);
    struct qkv_linear hidden = hidden_of(r);
    const int64_t apart = r->T * r->D;
    qkv_linear_once(h, r->D, x, r->D_in, r->B * r->T, r->D_in, &in, NULL, &once);
    qkv_linear_pack_bytes(&hidden);
    qkv_linear_pack_at(&hidden, at->packed);
    if (!first) {
        memset(at->zero, 0, (size_t)(r->B * r->D) * sizeof *at->zero);
        first = at->zero;
    }
    for (int64_t t = 0; t < r->T; t++) {
        float *row = h + t * r->D;
        const struct qkv_after after = { .ldx = t ? apart : r->D,
                                         .residual = row,
                                         .residual_ld = apart };
        qkv_linear_forward((void *[]){ row }, &apart, t ? row - r->D : first, r->B, &hidden,
                           &after);
        for (int64_t b = 0; b < r->B; b++)
            qkv_kernel()->activation(row + b * apart, row + b * apart, QKV_REAL, r->D,
                                     QKV_ACT_TANH);
    }
}

QKV_API qkv_status qkv_recurrence_forward(float *h, const float *x, const float *first,
                                          const struct qkv_recurrence *r, void *scratch)
{
    struct recurrence at;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    if (!r) return QKV_ERR_USAGE;
    const struct qkv_baseline_plan p = recurrence_plan(&at, r, &arena);
    if (p.status || !at.h) return p.status;
    const struct qkv_baseline_array arrays[] = { { h, at.h },
                                                 { x, at.x },
                                                 { r->w_i, at.w_i },
                                                 { r->w_h, at.w_h },
                                                 { r->b_i, r->b_i ? at.N : 0 },
                                                 { r->b_h, r->b_h ? at.N : 0 },
                                                 { first, first ? r->B * r->D : 0 } };
    if (!qkv_baseline_arrays(arrays, 1, 7, scratch, p.scratch)) return QKV_ERR_USAGE;
    if (r->cell == QKV_CELL_ELMAN) {
        elman(h, x, first, r, &at);
        return QKV_OK;
    }
    const struct qkv_gru g = gru_of(r, at.inner);
    for (int64_t b = 0; b <= r->B; b++) at.offsets[b] = b * r->T;
    qkv_gru_forward(h, at.gates, x, first, at.offsets, r->B, &g);
    return QKV_OK;
}
#endif
