// SPDX-License-Identifier: MIT
// attention_rows.c: computes scores, weights and sums for groups of query rows, one chunk of keys
// at a time.
#include "layer/attention/attention_rows_work.h"
#include <math.h>
#include <string.h>

#define LOG2E 1.44269504088896340736
#define LN2   0.69314718055994530942

void qkv_rows_exponent(struct qkv_rows_call *c)
{
    // If the score needs a softcap, bias or ALiBi, the scale is applied to the score and not to the
    // exponent; also if the scale is not positive, since the largest product would then have the
    // smallest score.
    c->shaped = qkv_attention_shaped(&c->w->a);
    c->c = (real)(c->shaped ? LOG2E : LOG2E * (double)c->w->a.scale);
}

// ---- visible columns ---------------------------------------------------------------------------
// Returns true if mask and bias let at least one row of the group see at least one of the columns
// from .. to-1.
static bool panel_open(const struct qkv_rows *u, const struct qkv_rows_reach *p, int32_t from,
                       int32_t to)
{
    for (int i = 0; i < p->rows; i++) {
        const uint8_t *mask = qkv_rows_mask(u, p->first + i);
        const float *bias = qkv_rows_bias(u, p->first + i);
        const int32_t end = p->hi[i] < to ? p->hi[i] : to;
        for (int32_t j = p->lo[i] > from ? p->lo[i] : from; j < end; j++)
            if ((!mask || mask[p->chunk + j]) && (!bias || bias[p->chunk + j] != -INFINITY))
                return true;
    }
    return false;
}

int qkv_rows_spans(struct qkv_columns *spans, const struct qkv_rows *u,
                   const struct qkv_rows_reach *p, int32_t lanes, int32_t keys)
{
    const struct qkv_attention *a = &u->call->w->a;
    const int32_t from = p->from / lanes * lanes, to = (p->to + lanes - 1) / lanes * lanes;
    int n = 0;
    if (!a->mask.at && !a->bias.at) {
        spans[0] = (struct qkv_columns){ from, to };
        return 1;
    }
    for (int32_t at = from / keys * keys; at < to; at += keys) {
        const struct qkv_columns panel = { at > from ? at : from, at + keys < to ? at + keys : to };
        if (!panel_open(u, p, panel.from, panel.to)) continue;
        if (n && spans[n - 1].to == panel.from)
            spans[n - 1].to = panel.to;
        else
            spans[n++] = panel;
    }
    return n;
}

bool qkv_rows_find(const struct qkv_rows *u, int64_t g, int64_t chunk, struct qkv_rows_group *p)
{
    const int64_t keys = u->call->w->chunk;
    p->g = g;
    p->first = qkv_attention_group(g, u->rows, u->groups);
    p->rows = (int)(qkv_attention_group(g + 1, u->rows, u->groups) - p->first);
    p->chunk = chunk;
    p->from = QKV_CHUNK;
    p->to = 0;
    for (int i = 0; i < p->rows; i++) {
        const struct qkv_attention_keys k = qkv_rows_keys(u, p->first + i);
        p->lo[i] = (int32_t)(qkv_min64(qkv_max64(k.lo, chunk), chunk + keys) - chunk);
        p->hi[i] = (int32_t)(qkv_min64(qkv_max64(k.hi, chunk), chunk + keys) - chunk);
        if (p->lo[i] >= p->hi[i]) continue;
        if (p->lo[i] < p->from) p->from = p->lo[i];
        if (p->hi[i] > p->to) p->to = p->hi[i];
    }
    if (p->from >= p->to) return false;
    const struct qkv_rows_reach reach = { p->first, p->rows, chunk, p->lo, p->hi, p->from, p->to };
    p->n = qkv_rows_spans(p->spans, u, &reach, u->call->w->kernel->lanes, u->call->w->kernel->keys);
    return p->n > 0;
}

bool qkv_rows_sees(const struct qkv_rows *u, const struct qkv_rows_group *p, int i, int32_t j)
{
    const uint8_t *mask = qkv_rows_mask(u, p->first + i);
    const float *bias = qkv_rows_bias(u, p->first + i);
    return j >= p->lo[i] && j < p->hi[i] && !(mask && !mask[p->chunk + j]) &&
           !(bias && bias[p->chunk + j] == -INFINITY);
}

// ---- a group in a chunk ------------------------------------------------------------------------
// Applies scale, softcap, bias, ALiBi and mask to the dot products of a group.
static void shape_group(const struct qkv_rows *u, const struct qkv_rows_group *p)
{
    const struct qkv_attention *a = &u->call->w->a;
    float relative[QKV_CHUNK];
    struct qkv_score_modifiers how = { .scale = u->call->shaped ? (real)a->scale : 1,
                                       .cap = (real)a->softcap,
                                       .relative = a->relative.at ? relative : NULL,
                                       .masked = a->no_softmax ? 0 : -(real)INFINITY };
    for (int i = 0; i < p->rows; i++) {
        const int64_t row = p->first + i;
        if (a->bias.at) how.bias = qkv_rows_bias(u, row) + p->chunk;
        if (a->mask.at) how.mask = qkv_rows_mask(u, row) + p->chunk;
        if (a->alibi) how.slope = (real)a->alibi[qkv_rows_head(u, row)];
        how.distance = qkv_rows_distance(u, row, p->chunk);
        for (int n = 0; n < p->n; n++) {
            const int32_t lo = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
            const int32_t hi = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
            if (lo >= hi) continue;
            if (how.relative) qkv_rows_relative(relative, u, row, p->chunk, lo, hi);
            u->call->w->kernel->modify(u->s + i * QKV_CHUNK, lo, hi, &how);
        }
    }
}

// Copies the scores of the group to the caller's array for dense weights; qkv_rows_finish turns
// them into weights.
static void keep_scores(const struct qkv_rows *u, const struct qkv_rows_group *p)
{
    for (int i = 0; i < p->rows; i++) {
        real *row = u->call->weights + qkv_rows_index(u, p->first + i) * u->call->w->a.S + p->chunk;
        for (int n = 0; n < p->n; n++) {
            const int32_t lo = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
            const int32_t hi = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
            for (int32_t j = lo; j < hi; j++) row[j] = u->s[i * QKV_CHUNK + j];
        }
    }
}

void qkv_rows_scores(const struct qkv_rows *u, const struct qkv_rows_group *p,
                     const struct qkv_rows_packed *from)
{
    const struct qkv_attention_work *w = u->call->w;
    for (int n = 0; n < p->n; n++)
        w->kernel->scores(u->s, from->q, p->rows, from->keys, w->a.E, p->spans[n]);
    if (u->call->shaped || w->a.mask.at) shape_group(u, p);
}

// Dropout: sets dropped weights to 0. qkv_rows_finish scales the other weights by 1 / (1 - p).
static void drop_probabilities(const struct qkv_rows *u, const struct qkv_rows_group *p)
{
    const struct qkv_attention_work *w = u->call->w;
    const uint32_t less = qkv_dropout_threshold((double)w->a.dropout.p);
    uint32_t word[QKV_CHUNK];
    for (int i = 0; i < p->rows; i++)
        for (int n = 0; n < p->n; n++) {
            const struct qkv_columns c = p->spans[n];
            qkv_rows_words(word, u, p->first + i, p->chunk, c.from, c.to);
            w->kernel->drop(u->s, i, c.from, c.to, word, less);
        }
}

// Processes a group whose scores need no modification, merged into *sums, in one pass; returns false
// if the kernels do not support that.
static bool run_group(const struct qkv_rows *u, const struct qkv_rows_group *p,
                      const struct qkv_rows_packed *from, const struct qkv_rows_sums *sums,
                      real *now)
{
    const struct qkv_attention_work *w = u->call->w;
    const struct qkv_attention_kernels *k = w->kernel;
    if (!k->group || u->call->shaped || w->a.mask.at || u->call->weights || w->a.no_softmax ||
        w->a.dropout.p > 0 || p->n != 1 || p->spans[0].from != p->from || p->spans[0].to != p->to)
        return false;
    return k->group(&(struct qkv_attention_group){ .o = sums->o + p->first * k->width(w->a.F),
                                                   .top = sums->top + p->first,
                                                   .sum = sums->sum + p->first,
                                                   .now = now,
                                                   .s = u->s,
                                                   .begun = sums->begun[p->g],
                                                   .q = from->q,
                                                   .keys = from->keys,
                                                   .values = from->values,
                                                   .capacity = w->chunk,
                                                   .E = w->a.E,
                                                   .F = w->a.F,
                                                   .lo = p->lo,
                                                   .hi = p->hi,
                                                   .rows = p->rows,
                                                   .span = p->spans[0],
                                                   .c = u->call->c });
}

void qkv_rows_run(const struct qkv_rows *u, struct qkv_rows_group *p,
                  const struct qkv_rows_packed *from, const struct qkv_rows_sums *sums, bool merge,
                  real *now)
{
    const struct qkv_attention_work *w = u->call->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const real c = u->call->c;
    real top[QKV_TILE_ROWS_MAX], sum[QKV_TILE_ROWS_MAX], old[QKV_TILE_ROWS_MAX];
    if (merge && run_group(u, p, from, sums, now)) {
        sums->begun[p->g] = 1;
        return;
    }
    for (int i = 0; i < p->rows; i++) old[i] = now[i] = 1;
    qkv_rows_scores(u, p, from);
    if (u->call->weights) keep_scores(u, p);
    if (w->a.no_softmax) {
        k->clear(u->s, p->rows, p->spans, p->n, p->lo, p->hi);
        for (int i = 0; i < p->rows; i++) sums->sum[p->first + i] = 1;
    } else if (merge) {
        k->softmax(u->s, top, sum, p->rows, p->spans, p->n, p->lo, p->hi, c);
        k->merge(sums->top + p->first, sums->sum + p->first, old, now, top, sum, p->rows, c);
    } else
        k->softmax(u->s, sums->top + p->first, sums->sum + p->first, p->rows, p->spans, p->n, p->lo,
                   p->hi, c);
    if (w->a.dropout.p > 0) drop_probabilities(u, p);
    // Scores were computed for whole vectors of columns, but only the values that some row of the
    // block sees are packed. So the spans are narrowed to the columns of these values.
    if (p->spans[0].from < p->from) p->spans[0].from = p->from;
    if (p->spans[p->n - 1].to > p->to) p->spans[p->n - 1].to = p->to;
    k->values(sums->o + p->first * k->width(w->a.F), merge && sums->begun[p->g] ? old : NULL, now,
              u->s, p->rows, from->values, w->chunk, w->a.F, p->spans, p->n);
    sums->begun[p->g] = 1;
}

real qkv_rows_probability(const struct qkv_rows *u, int i, int32_t j)
{
    const struct qkv_attention_kernels *k = u->call->w->kernel;
    return k->probability ? k->probability(u->s, i, j) : u->s[i * QKV_CHUNK + j];
}

// ---- initialising and finishing rows -----------------------------------------------------------
void qkv_rows_begin_sums(const struct qkv_rows *u, const struct qkv_rows_sums *sums)
{
    for (int64_t r = 0; r < u->rows; r++) {
        sums->top[r] = -(real)INFINITY;
        sums->sum[r] = 0;
    }
    memset(sums->begun, 0, (size_t)u->groups);
}

void qkv_rows_begin_weights(const struct qkv_rows *u)
{
    const struct qkv_attention *a = &u->call->w->a;
    const real none = a->no_softmax ? 0 : -(real)INFINITY;
    for (int64_t r = 0; u->call->weights && r < u->rows; r++) {
        real *row = u->call->weights + qkv_rows_index(u, r) * a->S;
        for (int64_t j = 0; j < a->S; j++) row[j] = none;
    }
}

static void finish_row(const struct qkv_rows *u, const struct qkv_rows_sums *sums, int64_t r,
                       int64_t width)
{
    const struct qkv_rows_call *call = u->call;
    const struct qkv_attention *a = &call->w->a;
    const struct qkv_attention_kernels *k = call->w->kernel;
    const int64_t head = qkv_rows_head(u, r);
    real top = sums->top[r], sum = sums->sum[r], old = 1;
    if (a->sinks) {
        const real one = 1, sink = (real)((double)a->sinks[head] / ((double)call->c * LN2));
        real now;
        k->merge(&top, &sum, &old, &now, &sink, &one, 1, call->c);
        if (sink == (real)INFINITY && !isnan(sums->sum[r])) sum = 1; // exp(sink - top) is NaN
    }
    char *out = call->out + qkv_rows_row(u, &a->out_strides, r);
    if (sums->sum[r] == 0) // the row saw no key, so o contains no sum
        memset(out, 0, (size_t)a->F * call->w->size);
    else
        k->divide(out, sums->o + r * width,
                  old == 0 ? (real)INFINITY : sum / old * (real)(1 - (double)a->dropout.p), a->F);
    if (call->lse && !a->no_softmax) // log(0) would set errno
        call->lse[qkv_rows_index(u, r)] = (real)((double)call->c * LN2 * (double)top +
                                                 (sum == 0 ? (double)-INFINITY : log((double)sum)));
    if (call->weights && !a->no_softmax)
        k->weights(call->weights + qkv_rows_index(u, r) * a->S, a->S, call->c, top, sum);
}

void qkv_rows_finish(const struct qkv_rows *u, const struct qkv_rows_sums *sums, int64_t g)
{
    const int64_t end = qkv_attention_group(g + 1, u->rows, u->groups);
    const int64_t width = u->call->w->kernel->width(u->call->w->a.F);
    for (int64_t r = qkv_attention_group(g, u->rows, u->groups); r < end; r++)
        finish_row(u, sums, r, width);
}
