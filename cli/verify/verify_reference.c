// SPDX-License-Identifier: MIT
// verify_reference.c: computes attention by its formula, row by row, in two ways. Exact: in double.
// Plain: every array of the formula is stored in the type of the case, and sums are sums of floats.
// The code follows include/qkv/attention.h and shares no code with the kernels.
//
// The error of the plain formula is random: adding the same numbers in another order has another
// error. So each sum is computed four times, beginning at another term each time, and the largest
// error counts.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

// The keys and values of one batch item and head. Keys are stored as [E][S], so that a loop over
// keys reads memory in order.
struct head {
    int64_t b, g;
    double *k, *v;           // [E][S], [S][F]
    double *k_most, *v_most; // [S] largest element of each key, of each value
    float *kf, *vf;
};
// Workspace for one row.
struct desk {
    bool *seen;              // [S]
    double *s, *size, *keys; // [S] each
    float *sf;
    float *outf;
};

static void head_load(struct head *d, const struct verify_problem *p, int64_t b, int64_t g)
{
    const struct qkv_attention *a = &p->a;
    if (d->b == b && d->g == g) return;
    d->b = b;
    d->g = g;
    for (int64_t j = 0; j < a->S; j++) {
        const int64_t k = b * a->k_strides.b + j * a->k_strides.t + g * a->k_strides.h,
                      v = b * a->v_strides.b + j * a->v_strides.t + g * a->v_strides.h;
        d->k_most[j] = d->v_most[j] = 0;
        for (int64_t e = 0; e < a->E; e++) {
            d->k[e * a->S + j] = verify_at(p->k, p->type, k + e);
            d->k_most[j] = fmax(d->k_most[j], fabs(d->k[e * a->S + j]));
            d->kf[e * a->S + j] = (float)d->k[e * a->S + j];
        }
        for (int64_t f = 0; f < a->F; f++) {
            d->v[j * a->F + f] = verify_at(p->v, p->type, v + f);
            d->v_most[j] = fmax(d->v_most[j], fabs(d->v[j * a->F + f]));
            d->vf[j * a->F + f] = (float)d->v[j * a->F + f];
        }
    }
}

struct verify_place verify_place_of(const struct qkv_attention *a, int64_t b, int64_t t)
{
    if (!a->sequences) {
        const int64_t n = a->k_lengths ? a->k_lengths[b] : a->S;
        return (struct verify_place){ 0, n, a->diagonal == QKV_BOTTOM_RIGHT ? t + n - a->T : t };
    }
    for (int64_t s = 0; s < a->sequences; s++) {
        const int64_t begin = a->q_offsets[s], end = a->q_offsets[s + 1];
        if (t < begin || t >= end) continue;
        const int64_t n = a->k_offsets[s + 1] - a->k_offsets[s], i = t - begin;
        return (struct verify_place){ a->k_offsets[s], n,
                                      a->diagonal == QKV_BOTTOM_RIGHT ? i + n - (end - begin) : i };
    }
    return (struct verify_place){ 0, 0, 0 };
}

int64_t verify_visible(bool *seen, const struct qkv_attention *a, const struct verify_place *at,
                       int64_t b, int64_t t, int64_t h)
{
    const int64_t bias = b * a->bias.b + h * a->bias.h + t * a->bias.t,
                  mask = b * a->mask.b + h * a->mask.h + t * a->mask.t;
    int64_t n = 0;
    for (int64_t j = 0; j < at->n; j++) {
        seen[j] = true;
        if (a->causal && j > at->i) seen[j] = false;
        if (a->window.on && (j < at->i - a->window.left || j > at->i + a->window.right))
            seen[j] = false;
        if (a->mask.at && !a->mask.at[mask + j]) seen[j] = false;
        if (a->bias.at && a->bias.at[bias + j] == -INFINITY) seen[j] = false;
        n += seen[j];
    }
    return n;
}

// Computes the scores s[j] of a row in double, and sets e->size and e->score over its visible keys.
static void exact_scores(struct verify_expected *e, struct desk *w, const struct head *d,
                         const struct verify_problem *p, const struct verify_place *at)
{
    const struct qkv_attention *a = &p->a;
    const int64_t q = e->b * a->q_strides.b + e->t * a->q_strides.t + e->h * a->q_strides.h;
    memset(w->s, 0, (size_t)at->n * sizeof *w->s);
    memset(w->size, 0, (size_t)at->n * sizeof *w->size);
    double all = 0, most = 0;
    memset(w->keys, 0, (size_t)at->n * sizeof *w->keys);
    for (int64_t i = 0; i < a->E; i++) {
        const double x = verify_at(p->q, p->type, q + i), *k = d->k + i * a->S + at->first;
        all += fabs((double)a->scale * x);
        most = fmax(most, fabs((double)a->scale * x));
        for (int64_t j = 0; j < at->n; j++) {
            w->s[j] += x * k[j];
            w->size[j] += fabs(x * k[j]);
            w->keys[j] += fabs(k[j]);
        }
    }
    for (int64_t j = 0; j < at->n; j++) {
        if (!w->seen[j]) continue;
        double s = (double)a->scale * w->s[j], size = fabs((double)a->scale) * w->size[j];
        double noise = ((double)a->E + 8) * size;
        if (a->softcap != 0) {
            s = (double)a->softcap * tanh(s / (double)a->softcap);
            noise += 8 * fabs(s);
        }
        if (a->bias.at) {
            const double add =
                (double)a->bias.at[e->b * a->bias.b + e->h * a->bias.h + e->t * a->bias.t + j];
            s += add;
            noise += 4 * (fabs(add) + fabs(s));
        }
        if (a->alibi) {
            const double less = (double)a->alibi[e->h] * fabs((double)(at->i - j));
            s -= less;
            noise += 4 * (less + fabs(s));
        }
        w->s[j] = s;
        if (size > e->size) e->size = size;
        if (noise > e->score) e->score = noise;
        e->keys8 = fmax(e->keys8, all * d->k_most[at->first + j]);
        // 8 bits may make each number of a key larger by half a step
        const double keys = w->keys[j] + (double)a->E * d->k_most[at->first + j] / 250;
        e->queries16 = fmax(e->queries16, most * keys);
    }
}

static void exact_row(struct verify_reference *r, int64_t n, struct desk *w, const struct head *d,
                      const struct verify_problem *p, const struct verify_place *at)
{
    const struct qkv_attention *a = &p->a;
    struct verify_expected *const e = &r->row[n];
    double *const out = r->out + n * r->F, *const reach = r->reach + n * r->F,
                  *const sums = r->sum + n * r->F;
    double top = a->sinks ? (double)a->sinks[e->h] : -INFINITY, sum = 0, tallest = 0;
    exact_scores(e, w, d, p, at);
    for (int64_t j = 0; j < at->n; j++)
        if (w->seen[j] && w->s[j] > top) top = w->s[j];
    if (a->sinks) sum = exp((double)a->sinks[e->h] - top);
    for (int64_t j = 0; j < at->n && !a->no_softmax; j++)
        if (w->seen[j]) sum += w->s[j] = exp(w->s[j] - top);
    e->lse = sum > 0 ? top + log(sum) : -INFINITY;
    if (a->no_softmax) sum = 1;
    for (int64_t j = 0; j < at->n && sum > 0; j++) {
        if (!w->seen[j]) continue;
        const double weight = w->s[j] / sum, *v = d->v + (at->first + j) * a->F;
        e->values8 += fabs(weight) * d->v_most[at->first + j];
        tallest = fmax(tallest, fabs(weight) * d->v_most[at->first + j]);
        for (int64_t f = 0; f < a->F; f++) {
            const double tall = fabs(v[f]);
            out[f] += weight * v[f];
            reach[f] += fabs(weight) * tall;
            sums[f] += tall;
            if (tall > e->tallest) e->tallest = tall;
        }
    }
    e->weights16 = (double)e->keys * tallest;
}

enum { ORDERS = 4 };

// Computes row n by the plain formula, in the type of the case. Each sum of n terms begins at term
// n * order / ORDERS and continues cyclically. Returns the largest difference to the exact row in
// r->out.
static double plain_row(const struct verify_reference *r, int64_t n, int order, struct desk *w,
                        const struct head *d, const struct verify_problem *p,
                        const struct verify_place *at)
{
    const struct qkv_attention *a = &p->a;
    const struct verify_expected *const e = &r->row[n];
    const int64_t q = e->b * a->q_strides.b + e->t * a->q_strides.t + e->h * a->q_strides.h;
    const qkv_dtype type = p->type;
#define STORED(x) ((float)verify_rounded(type, (double)(x)))
    memset(w->sf, 0, (size_t)at->n * sizeof *w->sf);
    for (int64_t i = 0; i < a->E; i++) {
        const int64_t from = (i + a->E * order / ORDERS) % a->E;
        const float x = (float)verify_at(p->q, type, q + from),
                    *k = d->kf + from * a->S + at->first;
        for (int64_t j = 0; j < at->n; j++) w->sf[j] += x * k[j];
    }
    float top = a->sinks ? a->sinks[e->h] : -INFINITY, sum = 0;
    for (int64_t j = 0; j < at->n; j++) {
        if (!w->seen[j]) continue;
        float s = STORED(a->scale * STORED(w->sf[j]));
        if (a->softcap != 0) s = STORED(a->softcap * STORED(tanhf(STORED(s / a->softcap))));
        if (a->bias.at)
            s = STORED(s + a->bias.at[e->b * a->bias.b + e->h * a->bias.h + e->t * a->bias.t + j]);
        if (a->alibi) s = STORED(s - STORED(a->alibi[e->h] * fabsf((float)(at->i - j))));
        w->sf[j] = s;
        if (s > top) top = s;
    }
    if (a->sinks) sum = expf(a->sinks[e->h] - top);
    for (int64_t i = 0; i < at->n && !a->no_softmax; i++) {
        const int64_t j = (i + at->n * order / ORDERS) % at->n;
        if (w->seen[j]) sum += w->sf[j] = expf(w->sf[j] - top);
    }
    memset(w->outf, 0, (size_t)a->F * sizeof *w->outf);
    for (int64_t i = 0; i < at->n; i++) {
        const int64_t j = (i + at->n * order / ORDERS) % at->n;
        if (!w->seen[j]) continue;
        const float weight = a->no_softmax ? w->sf[j] : STORED(w->sf[j] / sum),
                    *v = d->vf + (at->first + j) * a->F;
        for (int64_t f = 0; f < a->F; f++) w->outf[f] += weight * v[f];
    }
    double worst = 0;
    for (int64_t f = 0; f < a->F; f++) {
        const double error = fabs((double)STORED(w->outf[f]) - r->out[n * r->F + f]);
        if (!(error <= worst)) worst = isnan(error) ? (double)INFINITY : error;
    }
#undef STORED
    return worst;
}

void verify_reference_new(struct verify_reference *r, const struct verify_problem *p, int64_t most)
{
    const struct qkv_attention *a = &p->a;
    const int64_t all = a->B * a->H * a->T, rows = all < most ? all : most, S = a->S;
    const size_t wide = (size_t)(rows * a->F);
    *r = (struct verify_reference){ .rows = rows, .F = a->F };
    r->row = cmd_alloc((size_t)rows, sizeof *r->row);
    r->out = cmd_alloc(3 * wide, sizeof *r->out);
    r->reach = r->out + wide;
    r->sum = r->reach + wide;
    memset(r->out, 0, 3 * wide * sizeof *r->out);
    struct head d = { .b = -1 };
    d.k = cmd_alloc((size_t)(S * (a->E + a->F + 2)), sizeof *d.k);
    d.v = d.k + S * a->E;
    d.k_most = d.v + S * a->F;
    d.v_most = d.k_most + S;
    d.kf = cmd_alloc((size_t)(S * (a->E + a->F)), sizeof *d.kf);
    d.vf = d.kf + S * a->E;
    struct desk w = { .seen = cmd_alloc((size_t)S, sizeof *w.seen) };
    w.s = cmd_alloc((size_t)(3 * S), sizeof *w.s);
    w.size = w.s + S;
    w.keys = w.size + S;
    w.sf = cmd_alloc((size_t)(S + a->F), sizeof *w.sf);
    w.outf = w.sf + S;
    for (int64_t n = 0; n < rows; n++) {
        const int64_t i = rows > 1 ? n * (all - 1) / (rows - 1) : 0;
        struct verify_expected *const e = &r->row[n];
        *e =
            (struct verify_expected){ .b = i / (a->H * a->T), .h = i / a->T % a->H, .t = i % a->T };
        const struct verify_place at = verify_place_of(a, e->b, e->t);
        head_load(&d, p, e->b, e->h / (a->H / a->G));
        e->keys = verify_visible(w.seen, a, &at, e->b, e->t, e->h);
        exact_row(r, n, &w, &d, p, &at);
        for (int order = 0; order < ORDERS; order++) {
            const double error = plain_row(r, n, order, &w, &d, p, &at);
            r->plain = fmax(r->plain, error);
            if (!order) r->in_order = fmax(r->in_order, error);
        }
    }
    free(w.seen);
    free(w.s);
    free(w.sf);
    free(d.k);
    free(d.kf);
}

void verify_reference_free(struct verify_reference *r)
{
    free(r->row);
    free(r->out);
    *r = (struct verify_reference){ 0 };
}
