// SPDX-License-Identifier: MIT
// verify_gradients.c: computes the gradients of attention by their formulas, in two ways. Exact: in
// double, with a bound for the error of each number (docs/numerics.md, "Backward"). Plain: every
// matrix of the formula is stored in the type of the case, and sums are sums of floats. The code
// follows include/qkv/attention.h and shares no code with the kernels.
//
// The operator computes P = e^(score - lse) from the lse of forward, a float. Half an ulp of it, a,
// changes every P of its row by a factor between e^-a and e^a, and no kernel can know which. The
// plain formula divides by the sum instead, so this error is counted apart (`given`).
//
//   P = softmax(score),  dP = dout . v,  D = dout . out = sum P dP,  dS = P (dP - D)
//   X = scale dS (1 - tanh^2),  dv = P^T dout,  dk = X^T q,  dq = X k
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

// The error of a sum depends on the order of its terms: each sum is computed 4 times, beginning at
// another quarter of its terms.
enum { ORDERS = 4 };

// The numbers for one query and one key; a name that ends in _off is the bound of an error.
struct pair {
    bool seen;
    double p, p_off, dp,
        // p: probability; dp: its gradient; *_off: their largest possible rounding errors
        dp_off;
    double slope, slope_off; // derivative of the soft cap; without a cap 1
};
struct workspace {
    struct pair *pair;                      // [S]
    bool *seen;                             // [S]
    double *q, *k, *dout, *v, *out, *reach; // one row of each array
    float *qf, *kf, *doutf, *vf, *outf, *p, *dp, *slope;
    float *sum[VERIFY_SIDES]; // gradients by the plain formula
};
struct row {
    const struct verify_problem *p;
    const struct verify_gradients *g;
    struct verify_place at;
    int64_t b, t, h, keys; // keys: number of keys to which the query attends
};

static int64_t q_at(const struct row *r)
{
    const struct qkv_strides *s = &r->p->a.q_strides;
    return r->b * s->b + r->t * s->t + r->h * s->h;
}
static int64_t out_at(const struct row *r)
{
    const struct qkv_strides *s = &r->p->a.out_strides;
    return r->b * s->b + r->t * s->t + r->h * s->h;
}
// Returns the index of key or value j in an array with strides s. j counts from the first key of
// the query's sequence; the head is the key head that belongs to the query head.
static int64_t key_at(const struct row *r, const struct qkv_strides *s, int64_t j)
{
    return r->b * s->b + (r->at.first + j) * s->t + r->h / (r->p->a.H / r->p->a.G) * s->h;
}
static void load(double *to, const void *x, qkv_dtype type, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = verify_at(x, type, at + i);
}
static void load_floats(float *to, const void *x, qkv_dtype type, int64_t at, int64_t n)
{
    qkv_to_f32(to, (const char *)x + (size_t)at * qkv_dtype_size(type), type, (size_t)n);
}

// ---- exact gradients ---------------------------------------------------------------------------
// Computes the score of key j (in pair.p) and the derivative of its soft cap. *noise becomes at
// least its rounding error.
static void exact_score(const struct row *r, struct workspace *w, int64_t j, double *noise,
                        const struct verify_promise *promise)
{
    const struct qkv_attention *a = &r->p->a;
    struct pair *const x = &w->pair[j];
    const double scale = (double)a->scale, cap = (double)a->softcap;
    double s = 0, size = 0;
    load(w->k, r->p->k, r->p->type, key_at(r, &a->k_strides, j), a->E);
    for (int64_t e = 0; e < a->E; e++) {
        s += w->q[e] * w->k[e];
        size += fabs(w->q[e] * w->k[e]);
    }
    s *= scale;
    size *= fabs(scale);
    double own = ((double)a->E + 8) * size;
    x->slope = 1;
    x->slope_off = 0;
    if (a->softcap != 0) {
        const double th = tanh(s / cap);
        x->slope = 1 - th * th;
        // |d slope / d argument| is at most 2, and the argument of tanh has the error of the score.
        x->slope_off =
            fmin(1, VERIFY_U_F32 * (2 * ((double)a->E + 8 + promise->qk) * size / cap + 16));
        s = cap * th;
        own += 8 * fabs(s);
    }
    if (a->bias.at) {
        const double add =
            (double)a->bias.at[r->b * a->bias.b + r->h * a->bias.h + r->t * a->bias.t + j];
        s += add;
        own += 4 * (fabs(add) + fabs(s));
    }
    if (a->alibi) {
        const double less = (double)a->alibi[r->h] * fabs((double)(r->at.i - j));
        s -= less;
        own += 4 * (less + fabs(s));
    }
    x->p = s;
    *noise = fmax(*noise, own + promise->qk * size);
}

// What exact_row computes for a row, next to P and dP: D = sum P dP with the bound of its error,
// and the relative error of P that comes with the rounded lse.
struct row_sums {
    double d, d_off, given;
};

// Computes P and dP of a row, with bounds for their errors.
static struct row_sums exact_row(const struct row *r, struct workspace *w,
                                 const struct verify_promise *promise)
{
    const struct qkv_attention *a = &r->p->a;
    const double u = VERIFY_U_F32, n = (double)r->keys, F = (double)a->F;
    double top = a->sinks ? (double)a->sinks[r->h] : -INFINITY, sum = 0, noise = 0;
    load(w->q, r->p->q, r->p->type, q_at(r), a->E);
    load(w->dout, r->g->dout, r->p->type, out_at(r), a->F);
    for (int64_t j = 0; j < r->at.n; j++) {
        w->pair[j] = (struct pair){ .seen = w->seen[j] };
        if (!w->seen[j]) continue;
        exact_score(r, w, j, &noise, promise);
        top = fmax(top, w->pair[j].p);
    }
    if (a->sinks) sum = exp((double)a->sinks[r->h] - top);
    for (int64_t j = 0; j < r->at.n; j++)
        if (w->seen[j]) sum += w->pair[j].p = exp(w->pair[j].p - top);
    // Errors of the probability exp(score - lse): the score and the lse each have an error d; the
    // lse also has the error of its sum, and exp has an error of its own.
    const double d = u * noise + promise->power, lse = fabs(top + log(sum));
    const double part = expm1(2 * d) + u * (n + 24 + 4 * lse) + promise->power;
    memset(w->out, 0, (size_t)a->F * sizeof *w->out);
    memset(w->reach, 0, (size_t)a->F * sizeof *w->reach);
    double product = 0, product_off = 0;
    for (int64_t j = 0; j < r->at.n; j++) {
        struct pair *const x = &w->pair[j];
        double size = 0;
        if (!x->seen) continue;
        load(w->v, r->p->v, r->p->type, key_at(r, &a->v_strides, j), a->F);
        x->p /= sum;
        x->p_off = part * x->p + 0x1p-126;
        for (int64_t f = 0; f < a->F; f++) {
            x->dp += w->dout[f] * w->v[f];
            size += fabs(w->dout[f] * w->v[f]);
            w->out[f] += x->p * w->v[f];
            w->reach[f] += (x->p + 0x1p-126) * fabs(w->v[f]);
        }
        x->dp_off = u * (F + 4 + promise->qk) * size + F * 0x1p-126;
        product += x->p * x->dp;
    }
    // the kernels compute D from the stored out, so D also has the error of out
    for (int64_t f = 0; f < a->F; f++) {
        double off = (part + u * (n + 8 + promise->pv)) * w->reach[f];
        if (r->p->type != QKV_F32)
            off +=
                verify_unit(r->p->type) * (fabs(w->out[f]) + off) + verify_ulp(r->p->type, 0) / 2;
        product_off += fabs(w->dout[f]) * (off + u * (F + 4) * (fabs(w->out[f]) + off));
    }
    return (struct row_sums){ product, product_off, expm1(verify_ulp(QKV_F32, lse) / 2) };
}

static void exact_pair(const struct row *r, struct workspace *w, int64_t j,
                       const struct row_sums *sums, const struct verify_promise *promise)
{
    const struct qkv_attention *a = &r->p->a;
    const struct pair *x = &w->pair[j];
    const double u = VERIFY_U_F32, scale = (double)a->scale, d = sums->d;
    const double rows = (double)(a->T * (a->H / a->G)), keys = (double)r->keys;
    const double ds = x->p * (x->dp - d);
    const double ds_off =
        x->p_off * fabs(x->dp - d) + 0x1p-126 +
        (x->p + x->p_off) * (x->dp_off + sums->d_off + 4 * u * (fabs(x->dp) + fabs(d)));
    const double grade = scale * x->slope * ds;
    const double off = fabs(scale) * (x->slope * ds_off + x->slope_off * (fabs(ds) + ds_off));
    const double to_q = off + u * (keys + 16 + promise->pv) * (fabs(grade) + off);
    const double to_k = off + u * (rows + 16 + promise->pv) * (fabs(grade) + off);
    const double to_v = x->p_off + u * (rows + 16 + promise->pv) * (x->p + x->p_off);
    const int64_t q = q_at(r), k = key_at(r, &a->k_strides, j), v = key_at(r, &a->v_strides, j);
    double *const *const g = r->g->exact, *const *const bound = r->g->bound;
    double *const *const given = r->g->given;
    load(w->k, r->p->k, r->p->type, k, a->E);
    for (int64_t e = 0; e < a->E; e++) {
        g[VERIFY_DQ][q + e] += grade * w->k[e];
        bound[VERIFY_DQ][q + e] += to_q * fabs(w->k[e]);
        given[VERIFY_DQ][q + e] += sums->given * fabs(grade * w->k[e]);
        g[VERIFY_DK][k + e] += grade * w->q[e];
        bound[VERIFY_DK][k + e] += to_k * fabs(w->q[e]);
        given[VERIFY_DK][k + e] += sums->given * fabs(grade * w->q[e]);
    }
    for (int64_t f = 0; f < a->F; f++) {
        g[VERIFY_DV][v + f] += x->p * w->dout[f];
        bound[VERIFY_DV][v + f] += to_v * fabs(w->dout[f]);
        given[VERIFY_DV][v + f] += sums->given * fabs(x->p * w->dout[f]);
    }
}

// ---- plain -------------------------------------------------------------------------------------
#define STORED(x) ((float)verify_rounded(type, (double)(x)))

// Computes p, dp and slope of a row by the plain formula. Returns D. Each sum of n terms begins at
// term n * order / ORDERS and continues cyclically; that of D begins one quarter later.
static float plain_row(const struct row *r, struct workspace *w, int order)
{
    const struct qkv_attention *a = &r->p->a;
    const qkv_dtype type = r->p->type;
    float top = a->sinks ? a->sinks[r->h] : -INFINITY, sum = 0, d = 0;
    load_floats(w->qf, r->p->q, type, q_at(r), a->E);
    load_floats(w->doutf, r->g->dout, type, out_at(r), a->F);
    for (int64_t j = 0; j < r->at.n; j++) {
        float s = 0;
        if (!w->seen[j]) continue;
        load_floats(w->kf, r->p->k, type, key_at(r, &a->k_strides, j), a->E);
        for (int64_t i = 0, e = a->E * order / ORDERS; i < a->E; i++, e = e + 1 < a->E ? e + 1 : 0)
            s += w->qf[e] * w->kf[e];
        s = STORED(a->scale * STORED(s));
        w->slope[j] = 1;
        if (a->softcap != 0) {
            const float th = STORED(tanhf(STORED(s / a->softcap)));
            w->slope[j] = STORED(1 - STORED(th * th));
            s = STORED(a->softcap * th);
        }
        if (a->bias.at)
            s = STORED(s + a->bias.at[r->b * a->bias.b + r->h * a->bias.h + r->t * a->bias.t + j]);
        if (a->alibi) s = STORED(s - STORED(a->alibi[r->h] * fabsf((float)(r->at.i - j))));
        w->p[j] = s;
        if (s > top) top = s;
    }
    if (a->sinks) sum = expf(a->sinks[r->h] - top);
    memset(w->outf, 0, (size_t)a->F * sizeof *w->outf);
    const int64_t first = r->at.n * order / ORDERS;
    for (int64_t i = 0, j = first; i < r->at.n; i++, j = (j + 1) % r->at.n)
        if (w->seen[j]) sum += w->p[j] = expf(w->p[j] - top);
    for (int64_t i = 0, j = first; i < r->at.n; i++, j = (j + 1) % r->at.n) {
        float dp = 0;
        if (!w->seen[j]) continue;
        load_floats(w->vf, r->p->v, type, key_at(r, &a->v_strides, j), a->F);
        for (int64_t k = 0, f = a->F * order / ORDERS; k < a->F; k++, f = f + 1 < a->F ? f + 1 : 0)
            dp += w->doutf[f] * w->vf[f];
        w->p[j] = STORED(w->p[j] / sum);
        w->dp[j] = STORED(dp);
        for (int64_t f = 0; f < a->F; f++) w->outf[f] += w->p[j] * w->vf[f];
    }
    // D begins at another quarter than dP: in the same order the rounding errors of both would be
    // almost equal where one key has all the weight, and cancel in dP - D.
    const int64_t later = a->F * ((order + 1) % ORDERS) / ORDERS;
    for (int64_t k = 0, f = later; k < a->F; k++, f = f + 1 < a->F ? f + 1 : 0)
        d += w->doutf[f] * STORED(w->outf[f]);
    return d;
}

static void plain_pairs(const struct row *r, struct workspace *w, int order)
{
    const struct qkv_attention *a = &r->p->a;
    const qkv_dtype type = r->p->type;
    const float d = plain_row(r, w, order);
    const int64_t q = q_at(r);
    for (int64_t i = 0, j = r->at.n * order / ORDERS; i < r->at.n; i++, j = (j + 1) % r->at.n) {
        if (!w->seen[j]) continue;
        const int64_t k = key_at(r, &a->k_strides, j), v = key_at(r, &a->v_strides, j);
        float x = STORED(w->p[j] * (w->dp[j] - d));
        if (a->softcap != 0) x = STORED(w->slope[j] * x);
        x = STORED(a->scale * x);
        load_floats(w->kf, r->p->k, type, k, a->E);
        for (int64_t e = 0; e < a->E; e++) {
            w->sum[VERIFY_DQ][q + e] += x * w->kf[e];
            w->sum[VERIFY_DK][k + e] += x * w->qf[e];
        }
        for (int64_t f = 0; f < a->F; f++) w->sum[VERIFY_DV][v + f] += w->p[j] * w->doutf[f];
    }
}

// ---- a problem ---------------------------------------------------------------------------------
static void *part(char **at, size_t bytes)
{
    void *const here = *at;
    *at += (bytes + 63) / 64 * 64;
    return here;
}

// Allocates all arrays of the workspace as one block of memory. The caller frees it with
// free(w->pair).
static void workspace_new(struct workspace *w, const struct qkv_attention *a,
                          const size_t count[VERIFY_SIDES])
{
    const size_t S = (size_t)a->S, E = (size_t)a->E, F = (size_t)a->F;
    const size_t floats = 3 * S + 2 * E + 3 * F + count[0] + count[1] + count[2];
    char *at = cmd_alloc(S * (sizeof *w->pair + 1) + (2 * E + 4 * F) * sizeof(double) +
                             floats * sizeof(float) + 32 * 64,
                         1);
    w->pair = part(&at, S * sizeof *w->pair);
    w->seen = part(&at, S);
    double **const doubles[] = { &w->q, &w->k, &w->dout, &w->v, &w->out, &w->reach };
    for (int i = 0; i < 6; i++) *doubles[i] = part(&at, (i < 2 ? E : F) * sizeof(double));
    float **const rows[] = {
        &w->qf, &w->kf, &w->doutf, &w->vf, &w->outf, &w->p, &w->dp, &w->slope
    };
    for (int i = 0; i < 8; i++) *rows[i] = part(&at, (i < 2 ? E : i < 5 ? F : S) * sizeof(float));
    for (int i = 0; i < VERIFY_SIDES; i++) w->sum[i] = part(&at, count[i] * sizeof(float));
}

// Adds up the gradients over all rows that have keys: exactly if `promise` is not NULL, otherwise
// by the plain formula. The first row is T * order / ORDERS, because sums over rows also depend on
// their order.
static void each_row(const struct verify_gradients *g, const struct verify_problem *p,
                     struct workspace *w, int order, const struct verify_promise *promise)
{
    const struct qkv_attention *a = &p->a;
    const int64_t rows = a->B * a->H * a->T;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t n = i / a->T * a->T + (i % a->T + a->T * order / ORDERS) % a->T;
        struct row r = {
            .p = p, .g = g, .b = n / (a->H * a->T), .h = n / a->T % a->H, .t = n % a->T
        };
        r.at = verify_place_of(a, r.b, r.t);
        r.keys = verify_visible(w->seen, a, &r.at, r.b, r.t, r.h);
        if (!r.keys) continue;
        if (!promise) {
            plain_pairs(&r, w, order);
            continue;
        }
        const struct row_sums sums = exact_row(&r, w, promise);
        for (int64_t j = 0; j < r.at.n; j++)
            if (w->seen[j]) exact_pair(&r, w, j, &sums, promise);
    }
}

void verify_gradients_bound(struct verify_gradients *g, const struct verify_problem *p,
                            const struct verify_promise *promise)
{
    struct workspace w;
    for (int i = 0; i < VERIFY_SIDES; i++) {
        memset(g->exact[i], 0, g->count[i] * sizeof *g->exact[i]);
        memset(g->bound[i], 0, g->count[i] * sizeof *g->bound[i]);
        memset(g->given[i], 0, g->count[i] * sizeof *g->given[i]);
    }
    workspace_new(&w, &p->a, g->count);
    each_row(g, p, &w, 0, promise);
    free(w.pair);
    for (int i = 0; i < VERIFY_SIDES; i++)
        for (size_t k = 0; k < g->count[i]; k++) { // stored
            const double unit = p->type == QKV_F32 ? 2 * VERIFY_U_F32 : verify_unit(p->type);
            g->bound[i][k] +=
                unit * (fabs(g->exact[i][k]) + g->bound[i][k]) + verify_ulp(p->type, 0) / 2;
        }
}

// Sets dout to NaN in rows without keys, since the kernels must not read it there.
static void spoil(struct verify_gradients *g, const struct verify_problem *p, struct workspace *w)
{
    const struct qkv_attention *a = &p->a;
    for (int64_t n = 0; n < a->B * a->H * a->T; n++) {
        struct row r = {
            .p = p, .g = g, .b = n / (a->H * a->T), .h = n / a->T % a->H, .t = n % a->T
        };
        r.at = verify_place_of(a, r.b, r.t);
        if (verify_visible(w->seen, a, &r.at, r.b, r.t, r.h)) continue;
        for (int64_t f = 0; f < a->F; f++) verify_put(g->dout, p->type, out_at(&r) + f, NAN);
    }
}

void verify_gradients_new(struct verify_gradients *g, const struct verify_problem *p, uint64_t seed)
{
    const struct qkv_attention *a = &p->a;
    const struct verify_promise exact = { .type = p->type };
    struct verify_random random = { seed ^ 0x9e3779b97f4a7c15u };
    struct workspace w;
    *g = (struct verify_gradients){ .count = { (size_t)(a->B * a->T * a->H * a->E),
                                               (size_t)(a->B * a->S * a->G * a->E),
                                               (size_t)(a->B * a->S * a->G * a->F) } };
    g->dout = verify_numbers(p->out_count, p->type, 1, &random);
    for (int i = 0; i < VERIFY_SIDES; i++) {
        g->exact[i] = cmd_alloc(3 * g->count[i], sizeof(double));
        g->bound[i] = g->exact[i] + g->count[i];
        g->given[i] = g->bound[i] + g->count[i];
    }
    workspace_new(&w, a, g->count);
    spoil(g, p, &w);
    verify_gradients_bound(g, p, &exact);
    for (int order = 0; order < ORDERS; order++) {
        for (int i = 0; i < VERIFY_SIDES; i++) memset(w.sum[i], 0, g->count[i] * sizeof(float));
        each_row(g, p, &w, order, NULL);
        for (int i = 0; i < VERIFY_SIDES; i++) {
            double worst = 0;
            for (size_t k = 0; k < g->count[i]; k++) {
                const double error =
                    fabs(verify_rounded(p->type, (double)w.sum[i][k]) - g->exact[i][k]);
                if (!(error <= worst)) worst = isnan(error) ? (double)INFINITY : error;
            }
            g->plain[i] = fmax(g->plain[i], worst);
            if (!order) g->in_order[i] = worst;
        }
    }
    free(w.pair);
}

void verify_gradients_free(struct verify_gradients *g)
{
    for (int i = 0; i < VERIFY_SIDES; i++) free(g->exact[i]);
    free(g->dout);
    *g = (struct verify_gradients){ 0 };
}
