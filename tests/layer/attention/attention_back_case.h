// SPDX-License-Identifier: MIT
// attention_back_case.h: creates a random attention backward problem and computes its gradients by
// the formula in double.
//
//   back_new()        a problem of attention_case.h with forward's out and lse, a gradient of out,
//   and arrays for all gradients
//   back_run()        the attention backward pass on it
//   back_reference()  all gradients by the formula in double, with a bound of the rounding error of
//   each
#ifndef QKV_ATTENTION_BACK_CASE_H
#define QKV_ATTENTION_BACK_CASE_H
#include "attention_case.h"
#include "layer/attention/attention_back_work.h"

// TABLES: gradients of the tables are requested
enum { TABLES = FEATURES, ALL_FEATURES = 2 * FEATURES };

// One number for each element of all gradients: its value by one method, or the bound of its error.
struct gradients {
    double *q, *k, *v, *bias, *relative, *alibi, *sinks;
};
struct back_problem {
    struct problem p;
    real *dout, *dq, *dk, *dv;
    struct qkv_attention_tables tables;
    size_t bias_n, relative_n, out_n, q_n, k_n, v_n;
};

static inline const struct qkv_attention_back_kernels *back_family(void)
{
    return qkv_kernel()->attention_back[case_precision];
}
// Returns true if this ISA has a backward pass and its forward or backward kernels differ from the
// kernels of the next weaker ISA.
static inline bool back_new_here(int isa)
{
    const struct qkv_kernels *here = qkv_kernel_isa(isa), *below = qkv_kernel_isa(isa - 1);
    return back_family() &&
           (!below || here->attention[case_precision] != below->attention[case_precision] ||
            here->attention_back[case_precision] != below->attention_back[case_precision]);
}
// Returns the rounding error of the matrices W and dS before they are multiplied, if the kernels
// multiply bf16; otherwise 0.
static inline double back_form_unit(void)
{
    return back_family()->type == QKV_BF16 && back_family()->native ? 0x1p-8 : 0;
}

static inline size_t bias_numbers(const struct qkv_attention *a)
{
    return a->bias.at ? (size_t)((a->B - 1) * a->bias.b + (a->H - 1) * a->bias.h +
                                 (a->T - 1) * a->bias.t + a->S)
                      : 0;
}
static inline size_t relative_numbers(const struct qkv_attention *a)
{
    return a->relative.at ? (size_t)(a->H * (2 * a->relative.reach + 1)) : 0;
}

// Returns a problem with the sizes in a, which are at least 1; all other numbers are drawn at
// random.
static inline struct back_problem back_new(struct qkv_attention a, unsigned features)
{
    struct back_problem x = { .p = case_new(a, features & (FEATURES - 1) &
                                                   ~(unsigned)(NO_SOFTMAX | WEIGHTS)) };
    const struct qkv_attention *w = &x.p.a;
    x.q_n = case_reach(w->q_strides, w->B, w->T, w->H, w->E);
    x.k_n = case_reach(w->k_strides, w->B, w->S, w->G, w->E);
    x.v_n = case_reach(w->v_strides, w->B, w->S, w->G, w->F);
    x.out_n = case_reach(w->out_strides, w->B, w->T, w->H, w->F);
    x.dout = case_numbers(x.out_n, w->F, false);
    x.dq = fenced_real(x.q_n);
    x.dk = fenced_real(x.k_n);
    x.dv = fenced_real(x.v_n);
    x.bias_n = bias_numbers(w);
    x.relative_n = relative_numbers(w);
    if (features & TABLES) {
        if (w->bias.at) x.tables.bias = fenced_real(x.bias_n);
        if (w->relative.at) x.tables.relative = fenced_real(x.relative_n);
        if (w->alibi) x.tables.alibi = fenced_real((size_t)w->H);
        if (w->sinks) x.tables.sinks = fenced_real((size_t)w->H);
    }
    return x;
}

static inline void back_clear_tables(const struct back_problem *x)
{
    const struct qkv_attention_tables *t = &x->tables;
    if (t->bias) memset(t->bias, 0, x->bias_n * sizeof(real));
    if (t->relative) memset(t->relative, 0, x->relative_n * sizeof(real));
    if (t->alibi) memset(t->alibi, 0, (size_t)x->p.a.H * sizeof(real));
    if (t->sinks) memset(t->sinks, 0, (size_t)x->p.a.H * sizeof(real));
}

static inline void back_unstored(real *to, const void *from, size_t n)
{
    const qkv_dtype type = back_family()->type;
    const uint16_t *h = from;
    for (size_t i = 0; from != (const void *)to && i < n; i++)
        to[i] = (real)(type == QKV_BF16 ? qkv_bf16_to_f32(h[i]) : qkv_f16_to_f32(h[i]));
}

// Runs backward with out and lse of forward; adds to the gradients of the tables.
static inline void back_run(const struct back_problem *x)
{
    const struct problem *p = &x->p;
    struct qkv_attention_back b;
    char reason[192] = "";
    if (qkv_attention_back_resolve(&b, &p->a, &x->tables, reason, sizeof reason))
        fail_msg("%s", reason);
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, b.scratch + 64)) fail_msg("no memory");
    // fills scratch with NaN, so that a read before the first write is detected
    memset(scratch, 0xff, b.scratch + 64);
    struct check_fence before[256];
    memcpy(before, check_fences, sizeof before);
    void *dq = case_stored(x->dq, x->q_n), *dk = case_stored(x->dk, x->k_n),
         *dv = case_stored(x->dv, x->v_n);
    const struct qkv_attention_back_given given = { .dq = dq,
                                                    .dk = dk,
                                                    .dv = dv,
                                                    .dout = case_stored(x->dout, x->out_n),
                                                    .q = case_stored(p->q, x->q_n),
                                                    .k = case_stored(p->k, x->k_n),
                                                    .v = case_stored(p->v, x->v_n),
                                                    .out = case_stored(p->out, x->out_n),
                                                    .lse = p->lse,
                                                    .scratch = scratch };
    CHECK_EQ(qkv_attention_back_run(&b, &x->tables, &given), QKV_OK);
    back_unstored(x->dq, dq, x->q_n);
    back_unstored(x->dk, dk, x->k_n);
    back_unstored(x->dv, dv, x->v_n);
    for (size_t i = 0; i < 256; i++) // frees the guarded blocks of this run
        if (check_fences[i].at && !before[i].at) {
            munmap(check_fences[i].at, check_fences[i].size);
            check_fences[i].at = NULL;
        }
    for (size_t i = 0; i < 64; i++) CHECK_EQ(((uint8_t *)scratch)[b.scratch + i], 0xff);
    free(scratch);
}

static inline struct gradients gradients_new(const struct back_problem *x)
{
    const size_t n = x->q_n + x->k_n + x->v_n + x->bias_n + x->relative_n + 2 * (size_t)x->p.a.H;
    struct gradients g = { .q = calloc(n, sizeof(double)) };
    g.k = g.q + x->q_n;
    g.v = g.k + x->k_n;
    g.bias = g.v + x->v_n;
    g.relative = g.bias + x->bias_n;
    g.alibi = g.relative + x->relative_n;
    g.sinks = g.alibi + x->p.a.H;
    return g;
}
static inline void gradients_free(struct gradients *g)
{
    free(g->q);
}

// ---- the formula -------------------------------------------------------------------------------
// State of one row while its keys are processed.
struct back_row {
    const struct back_problem *x;
    int64_t b, t, h, g;
    struct seen s;
    const real *q, *dout;
    double *p, *dp;         // [S] weights P and dP of the row
    double *p_off, *dp_off; // [S] bounds of the errors of p and dp
    double d, d_off, sink, sink_off;
    int plain; // 1: every step is rounded, as the plain formula in that precision would
};

// Returns sum + add. If r->plain, `add` and the result are rounded to float.
static inline double back_sum(const struct back_row *r, double sum, double add)
{
    return rounded(sum + rounded(add, r->plain), r->plain);
}
// Returns x. If r->plain, x is rounded to the type in which the precision stores matrices.
static inline double back_rounded(const struct back_row *r, double x)
{
    return r->plain ? case_rounded((double)(real)x, back_family()->type) : x;
}

static inline double *grad_at(double *base, struct qkv_strides s, int64_t L, int64_t H, int64_t E,
                              int64_t b, int64_t t, int64_t h)
{
    if (!s.b && !s.t && !s.h) s = (struct qkv_strides){ L * H * E, H * E, E };
    return base + b * s.b + t * s.t + h * s.h;
}

// Computes weights, dP and d of a row; returns false if the row sees no key.
static inline bool back_row_shares(struct back_row *r)
{
    const struct problem *p = &r->x->p;
    const struct qkv_attention *a = &p->a;
    double most = -INFINITY, sum = 0, spread = 0, noise, n = 0;
    for (int64_t j = 0; j < r->s.S; j++) {
        r->p[j] = r->dp[j] = r->p_off[j] = r->dp_off[j] = 0;
        if (!case_visible(p, &r->s, r->b, r->t, r->h, j)) continue;
        const real *k = case_at(p->k, a->k_strides, a->S, a->G, a->E, r->b, r->s.key + j, r->g);
        r->p[j] =
            back_rounded(r, case_score(p, r->q, k, &r->s, r->b, r->t, r->h, j, r->plain, &noise));
        spread = fmax(spread, noise);
        most = fmax(most, r->p[j]);
        n++;
    }
    if (n == 0) return false;
    if (a->sinks) most = fmax(most, (double)a->sinks[r->h]);
    for (int64_t j = 0; j < r->s.S; j++)
        if (case_visible(p, &r->s, r->b, r->t, r->h, j)) {
            r->p[j] = rounded(exp(rounded(r->p[j] - most, r->plain)), r->plain);
            sum = back_sum(r, sum, r->p[j]);
        }
    r->sink = a->sinks ? exp((double)a->sinks[r->h] - most) : 0;
    sum = back_sum(r, sum, r->sink);
    r->sink /= sum;
    // Error of a weight: score and lse have `spread` roundings, lse its own, a power a few.
    const double lse = fabs(most + log(sum));
    const double part = UNIT * (2 * spread + n + 24 + 4 * lse) + 3 * case_power_unit();
    double out_off = 0, d = 0, d_size = 0;
    r->sink_off = part * r->sink;
    for (int64_t j = 0; j < r->s.S; j++) {
        if (!case_visible(p, &r->s, r->b, r->t, r->h, j)) {
            r->p[j] = 0;
            continue;
        }
        const real *v = case_at(p->v, a->v_strides, a->S, a->G, a->F, r->b, r->s.key + j, r->g);
        double dp = 0, size = 0;
        for (int64_t f = 0; f < a->F; f++) {
            dp = back_sum(r, dp, (double)r->dout[f] * (double)v[f]);
            size += fabs((double)r->dout[f] * (double)v[f]);
        }
        const double kept = case_kept(p, r->b, r->t, r->h, j);
        r->p[j] = back_rounded(r, r->p[j] / sum);
        r->p_off[j] = part * r->p[j];
        r->dp[j] = back_rounded(r, kept * back_rounded(r, dp));
        r->dp_off[j] = kept * UNIT * ((double)a->F + 4) * size;
        d = back_sum(r, d, r->p[j] * r->dp[j]);
        out_off += (part + UNIT * (n + 8) + case_share_unit()) * r->p[j] * kept * size;
    }
    // d is computed from out, which was rounded when it was stored.
    double *const out_row = calloc((size_t)a->F, sizeof *out_row);
    for (int64_t j = 0; j < r->s.S; j++) {
        const real *v = case_at(p->v, a->v_strides, a->S, a->G, a->F, r->b, r->s.key + j, r->g);
        const double w = r->p[j] != 0 ? r->p[j] * case_kept(p, r->b, r->t, r->h, j) : 0;
        for (int64_t f = 0; w != 0 && f < a->F; f++) out_row[f] += w * (double)v[f];
    }
    for (int64_t f = 0; f < a->F; f++) {
        const double out = out_row[f];
        d_size += fabs((double)r->dout[f] * out);
    }
    free(out_row);
    r->d = d;
    r->d_off = out_off + (case_out_unit() + UNIT * ((double)a->F + 4)) * d_size +
               (back_family()->type == QKV_F16 ? 0x1p-25 * (double)a->F * 4 : 0);
    return true;
}

// Adds the contribution of the row and key j to all gradients and to their error bounds.
static inline void back_pair(const struct back_row *r, int64_t j, const struct gradients *g,
                             const struct gradients *off)
{
    const struct problem *p = &r->x->p;
    const struct qkv_attention *a = &p->a;
    const double scale = a->scale != 0 ? (double)a->scale : (double)(float)(1 / sqrt((double)a->E));
    // chain: roundings of a product and its sums
    const double operand = back_form_unit(), chain = UNIT * 16;
    const real *k = case_at(p->k, a->k_strides, a->S, a->G, a->E, r->b, r->s.key + j, r->g);
    const double kept = case_kept(p, r->b, r->t, r->h, j);
    double ds = back_rounded(r, r->p[j] * rounded(r->dp[j] - r->d, r->plain)), gain = 1;
    double ds_off = r->p_off[j] * fabs(r->dp[j] - r->d) +
                    (r->p[j] + r->p_off[j]) *
                        (r->dp_off[j] + r->d_off + 4 * UNIT * (fabs(r->dp[j]) + fabs(r->d)));
    if (a->softcap != 0) {
        double dot = 0, size = 0;
        for (int64_t e = 0; e < a->E; e++) {
            dot += (double)r->q[e] * (double)k[e];
            size += fabs((double)r->q[e] * (double)k[e]);
        }
        const double x = tanh(scale * dot / (double)a->softcap);
        gain = 1 - x * x;
        // |d gain / d x| <= 2, and the error of x is at most that of its argument.
        ds_off += fabs(ds) * UNIT *
                  (2 * ((double)a->E + 8) * fabs(scale) * size / (double)a->softcap + 16);
    }
    const int64_t apart = j - r->s.at;
    if (a->bias.at) {
        const int64_t at = r->b * a->bias.b + r->h * a->bias.h + r->t * a->bias.t + j;
        g->bias[at] += ds;
        off->bias[at] += ds_off + UNIT * (double)(a->B * a->H * a->T + 16) * fabs(ds);
    }
    const double many = UNIT * (double)(a->B * a->T * a->S + 64);
    if (a->relative.at) {
        const int64_t reach = a->relative.reach;
        const int64_t at =
            r->h * (2 * reach + 1) + reach + qkv_max64(-reach, qkv_min64(apart, reach));
        g->relative[at] += ds;
        off->relative[at] += ds_off + many * fabs(ds);
    }
    if (a->alibi) {
        const double far = (double)llabs(apart);
        g->alibi[r->h] -= ds * far;
        off->alibi[r->h] += (ds_off + many * fabs(ds)) * far;
    }
    const double x = back_rounded(r, scale * rounded(gain * ds, r->plain)),
                 x_off = fabs(scale) * (ds_off + operand * fabs(gain * ds));
    const double rows = (double)(a->T * (a->H / a->G)), keys = (double)r->s.S;
    double *dq = grad_at(g->q, a->q_strides, a->T, a->H, a->E, r->b, r->t, r->h);
    double *dq_off = grad_at(off->q, a->q_strides, a->T, a->H, a->E, r->b, r->t, r->h);
    double *dk = grad_at(g->k, a->k_strides, a->S, a->G, a->E, r->b, r->s.key + j, r->g);
    double *dk_off = grad_at(off->k, a->k_strides, a->S, a->G, a->E, r->b, r->s.key + j, r->g);
    for (int64_t e = 0; e < a->E; e++) {
        dq[e] = back_sum(r, dq[e], x * (double)k[e]);
        dq_off[e] += (x_off + (UNIT * keys + chain) * fabs(x)) * fabs((double)k[e]);
        dk[e] = back_sum(r, dk[e], x * (double)r->q[e]);
        dk_off[e] += (x_off + (UNIT * rows + chain) * fabs(x)) * fabs((double)r->q[e]);
    }
    double *dv = grad_at(g->v, a->v_strides, a->S, a->G, a->F, r->b, r->s.key + j, r->g);
    double *dv_off = grad_at(off->v, a->v_strides, a->S, a->G, a->F, r->b, r->s.key + j, r->g);
    const double w = back_rounded(r, kept * r->p[j]);
    const double w_off = kept * (r->p_off[j] + (operand + UNIT * rows + chain) * r->p[j]);
    for (int64_t f = 0; f < a->F; f++) {
        dv[f] = back_sum(r, dv[f], w * (double)r->dout[f]);
        dv_off[f] += w_off * fabs((double)r->dout[f]);
    }
}

static inline void back_store_rounding(const struct back_problem *x, struct gradients *g,
                                       const struct gradients *off, bool plain)
{
    const double least = back_family()->type == QKV_F16 ? 0x1p-25 : 1e-37;
    for (size_t i = 0; i < x->q_n + x->k_n + x->v_n; i++) {
        off->q[i] +=
            case_out_unit() * (fabs(g->q[i]) + off->q[i]) + 2 * UNIT * fabs(g->q[i]) + least;
        if (plain) g->q[i] = case_rounded((double)(real)g->q[i], back_family()->type);
    }
    for (size_t i = 0; i < x->bias_n + x->relative_n + 2 * (size_t)x->p.a.H; i++)
        off->bias[i] += 2 * UNIT * fabs(g->bias[i]) + 1e-37;
}

// Computes all gradients g and their bounds off, which the caller sets to 0. plain: g as the plain
// formula in the precision would compute it, with each matrix rounded to the precision.
static inline void back_reference(struct gradients *g, const struct gradients *off,
                                  const struct back_problem *x, bool plain)
{
    const struct qkv_attention *a = &x->p.a;
    double *workspace = calloc((size_t)(4 * a->S + 1), sizeof *workspace);
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t t = 0; t < a->T; t++) {
                struct back_row r = { .x = x,
                                      .b = b,
                                      .t = t,
                                      .h = h,
                                      .g = h / (a->H / a->G),
                                      .s = case_seen(&x->p, b, t),
                                      .p = workspace,
                                      .dp = workspace + a->S,
                                      .p_off = workspace + 2 * a->S,
                                      .dp_off = workspace + 3 * a->S,
                                      .plain = plain };
                r.q = case_at(x->p.q, a->q_strides, a->T, a->H, a->E, b, t, h);
                r.dout = case_at(x->dout, a->out_strides, a->T, a->H, a->F, b, t, h);
                if (r.s.none || !back_row_shares(&r)) continue;
                for (int64_t j = 0; j < r.s.S; j++)
                    if (case_visible(&x->p, &r.s, b, t, h, j)) back_pair(&r, j, g, off);
                if (!a->sinks) continue;
                g->sinks[h] -= r.sink * r.d;
                off->sinks[h] += r.sink_off * (fabs(r.d) + r.d_off) + r.sink * r.d_off +
                                 UNIT * (double)(a->B * a->T + 32) * fabs(r.sink * r.d);
            }
    free(workspace);
    back_store_rounding(x, g, off, plain);
}
#endif
