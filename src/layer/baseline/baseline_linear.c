// SPDX-License-Identifier: MIT
// baseline_linear.c: computes linear attention (sums over features of keys), the forward pass.
//
//   state[M][F] = sum_j phi(k_j) v_j^T,   z[M] = sum_j phi(k_j)
//   out_i = phi(q_i) state / (phi(q_i) . z)
//
// With a causal mask, keys are processed in chunks. A row multiplies the state of all chunks before
// its own chunk, and the single keys of its own chunk up to itself:
//   out_i ~ phi(q_i) state + sum_{j <= i in the chunk} (phi(q_i) . phi(k_j)) v_j
// Chunks are counted from token 0, and the terms of a sum for j > i are 0, so the bits of a row do
// not depend on the following rows.
//
// Random features: the state is stored divided by exp(top), where top is the largest exponent of
// the keys so far, as in an online softmax. The features of a query are divided by a factor of
// their own, which cancels in the quotient out_i.
#include "layer/baseline/baseline_work.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { C = QKV_KIND_CHUNK };

int64_t qkv_linear_work_keys(const struct qkv_linear_work *w, int64_t b)
{
    return w->a.k_lengths ? w->a.k_lengths[b] : w->a.S;
}

// ---- workspace of a thread ---------------------------------------------------------------------
struct place {
    real *phi_q, *phi_k;                     // [C][M] features of a chunk's queries, of its keys
    real *turned;                            // [M][C] phi_k transposed
    real *pairs;                             // [C][C] products of the chunk's queries and keys
    real *state, *z;                         // [M][F] sum of phi(k) v^T; [M] sum of phi(k)
    real *den, *ones;                        // [C] denominators of the rows; [C] ones
    real *random;                            // [M][E] random rows that define the features
    char *keys, *values, *summed, *features; // packed operands: phi_k, v, state, random
};

static bool place(struct place *at, const struct qkv_linear_work *w, struct qkv_arena *arena)
{
    const struct qkv_linear_attention *a = &w->a;
    const size_t M = (size_t)w->M, R = sizeof(real);
    at->phi_q = qkv_arena_alloc(arena, C * M, R);
    at->phi_k = qkv_arena_alloc(arena, C * M, R);
    at->turned = qkv_arena_alloc(arena, C * M, R);
    at->state = qkv_arena_alloc(arena, M * (size_t)a->F, R);
    at->z = qkv_arena_alloc(arena, M, R);
    at->den = qkv_arena_alloc(arena, C, R);
    at->ones = qkv_arena_alloc(arena, C, R);
    at->values = qkv_arena_alloc(arena, 1, qkv_baseline_panels(C, a->F));
    at->summed = qkv_arena_alloc(arena, 1, qkv_baseline_panels(w->M, a->F));
    if (a->causal) {
        at->pairs = qkv_arena_alloc(arena, C * C, R);
        at->keys = qkv_arena_alloc(arena, 1, qkv_baseline_panels(w->M, C));
    }
    if (a->map == QKV_MAP_RANDOM) {
        at->random = qkv_arena_alloc(arena, M * (size_t)a->E, R);
        at->features = qkv_arena_alloc(arena, 1, qkv_baseline_panels(a->E, w->M));
    }
    return !qkv_arena_full(arena);
}

size_t qkv_linear_work_forward(const struct qkv_linear_work *w)
{
    struct place at;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return place(&at, w, &arena) ? arena.used : SIZE_MAX;
}

// ---- features ----------------------------------------------------------------------------------
struct run {
    const struct qkv_linear_work *w;
    real *out, *norm;
    const real *q, *k, *v;
    char *scratch;
};
struct unit {
    const struct run *r;
    struct place at;
    int64_t b, g;
    real top; // largest exponent of the keys so far; the sums are stored divided by exp(top)
};

static const real *query(const struct unit *u, int64_t t, int64_t h)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return u->r->q + ((u->b * a->T + t) * a->H + h) * a->E;
}
static const real *key(const struct unit *u, int64_t s)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return u->r->k + ((u->b * a->S + s) * a->G + u->g) * a->E;
}
static const real *value(const struct unit *u, int64_t s)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return u->r->v + ((u->b * a->S + s) * a->G + u->g) * a->F;
}

// Computes y[n][M] = x' w^T with x' = sqrt(scale) x: the exponents of random features without their
// term -|x'|^2 / 2.
static void exponents(const struct unit *u, real *y, const real *x, int64_t ldx, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = y,
                                                      .x = x,
                                                      .panels = u->at.features,
                                                      .ldy = w->M,
                                                      .ldx = ldx,
                                                      .R = n,
                                                      .K = w->a.E,
                                                      .N = w->M,
                                                      .scale = (real)sqrt((double)w->a.scale) });
}

// Computes the features of n queries. Random features of a row are divided by their sum, a factor
// that cancels in the quotient out_i.
static void map_queries(const struct unit *u, const real *x, int64_t ldx, int64_t n)
{
    const int64_t M = u->r->w->M;
    if (u->r->w->a.map == QKV_MAP_ELU) {
        qkv_features_elu(u->at.phi_q, x, ldx, n, M);
        return;
    }
    exponents(u, u->at.phi_q, x, ldx, n);
    qkv_kernel()->softmax_rows(u->at.phi_q, u->at.phi_q, n, M, M, M);
}

// Returns the maximum of x[n] and top. It computes several independent maxima and then merges them,
// so that the compiler can use vector instructions.
static real largest(const real *x, int64_t n, real top)
{
    enum { SIDE = 16 };
    real most[SIDE];
    int64_t i = 0;
    for (int j = 0; j < SIDE; j++) most[j] = top;
    for (; i + SIDE <= n; i += SIDE)
        for (int j = 0; j < SIDE; j++) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    for (; i < n; i++) most[0] = x[i] > most[0] ? x[i] : most[0];
    for (int j = 1; j < SIDE; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

static void rescale(struct unit *u, real top)
{
    const struct qkv_linear_work *w = u->r->w;
    const real by = u->top == -(real)INFINITY ? 0 : (real)exp((double)(u->top - top));
    for (int64_t i = 0; i < w->M * w->a.F; i++) u->at.state[i] *= by;
    for (int64_t m = 0; m < w->M; m++) u->at.z[m] *= by;
    u->top = top;
}

static void map_keys(struct unit *u, const real *x, int64_t ldx, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    real *phi = u->at.phi_k;
    if (w->a.map == QKV_MAP_ELU) {
        qkv_features_elu(phi, x, ldx, n, w->M);
        return;
    }
    exponents(u, phi, x, ldx, n);
    for (int64_t i = 0; i < n; i++) {
        const double half = qkv_kernel()->squares(x + i * ldx, w->a.E) * (double)w->a.scale / 2;
        for (int64_t m = 0; m < w->M; m++) phi[i * w->M + m] -= (real)half;
    }
    const real top = largest(phi, n * w->M, u->top);
    if (top > u->top) rescale(u, top);
    if (top > -(real)INFINITY)
        for (int64_t i = 0; i < n * w->M; i++) phi[i] -= top;
    qkv_kernel()->exp(phi, phi, n * w->M);
}

// ---- sums --------------------------------------------------------------------------------------
static void begin(struct unit *u, int thread, int64_t i)
{
    const struct qkv_linear_work *w = u->r->w;
    struct qkv_arena arena = { u->r->scratch + (size_t)thread * w->thread, w->thread, 0 };
    place(&u->at, w, &arena);
    u->b = i / w->a.G;
    u->g = i % w->a.G;
    u->top = -(real)INFINITY;
    memset(u->at.state, 0, (size_t)(w->M * w->a.F) * sizeof(real));
    memset(u->at.z, 0, (size_t)w->M * sizeof(real));
    for (int j = 0; j < C; j++) u->at.ones[j] = 1;
    if (w->a.map != QKV_MAP_RANDOM) return;
    for (int64_t m = 0; m < w->M * w->a.E; m++) u->at.random[m] = (real)w->a.random[m];
    qkv_baseline_pack(u->at.features, u->at.random, w->a.E, w->M, w->a.E, 1);
}

// Packs the values of the n keys from key s on into panels.
static void pack_values(const struct unit *u, int64_t s, int64_t n)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    qkv_baseline_pack(u->at.values, value(u, s), n, a->F, 1, a->G * a->F);
}

// Adds n keys to the state, from their features phi_k and their packed values.
static void add_keys(const struct unit *u, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    const int64_t M = w->M, F = w->a.F;
    qkv_kernel()->transpose(u->at.turned, QKV_REAL, C, u->at.phi_k, QKV_REAL, M, n, M);
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = u->at.state,
                                                      .x = u->at.turned,
                                                      .panels = u->at.values,
                                                      .ldy = F,
                                                      .ldx = C,
                                                      .R = M,
                                                      .K = n,
                                                      .N = F,
                                                      .add = true });
    qkv_kernel()->add_rows(u->at.z, u->at.phi_k, QKV_REAL, M, n, M);
}

static real *out_row(const struct unit *u, int64_t t, int64_t h)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return u->r->out + ((u->b * a->T + t) * a->H + h) * a->F;
}

// Computes the numerators of rows t .. t+n-1 of head h from the packed state, in out; den receives
// their denominators.
static void read_state(const struct unit *u, int64_t t, int64_t h, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = out_row(u, t, h),
                                                      .x = u->at.phi_q,
                                                      .panels = u->at.summed,
                                                      .ldy = w->a.H * w->a.F,
                                                      .ldx = w->M,
                                                      .R = n,
                                                      .K = w->M,
                                                      .N = w->a.F });
    qkv_kernel()->dots(u->at.den, u->at.z, u->at.phi_q, w->M, n, w->M);
}

static void divide(const struct unit *u, int64_t t, int64_t h, int64_t n)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    for (int64_t i = 0; i < n; i++) {
        real *row = out_row(u, t + i, h);
        const real den = u->at.den[i], by = 1 / den;
        if (u->r->norm) u->r->norm[(u->b * a->H + h) * a->T + t + i] = den;
        if (den == 0)
            memset(row, 0, (size_t)a->F * sizeof *row);
        else
            for (int64_t f = 0; f < a->F; f++) row[f] *= by;
    }
}

// ---- without causal mask: every row sees every key ---------------------------------------------
static void run_all(struct unit *u)
{
    const struct qkv_linear_work *w = u->r->w;
    const struct qkv_linear_attention *a = &w->a;
    const int64_t keys = qkv_linear_work_keys(w, u->b), heads = a->H / a->G;
    for (int64_t s = 0; s < keys; s += C) {
        const int64_t n = qkv_min64(keys - s, C);
        map_keys(u, key(u, s), a->G * a->E, n);
        pack_values(u, s, n);
        add_keys(u, n);
    }
    qkv_baseline_pack(u->at.summed, u->at.state, w->M, a->F, 1, a->F);
    for (int64_t h = u->g * heads; h < (u->g + 1) * heads; h++)
        for (int64_t t = 0; t < a->T; t += C) {
            const int64_t n = qkv_min64(a->T - t, C);
            map_queries(u, query(u, t, h), a->H * a->E, n);
            read_state(u, t, h, n);
            divide(u, t, h, n);
        }
}

// ---- causal mask -------------------------------------------------------------------------------
static bool all_finite(const struct unit *u, int64_t s, int64_t n)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    const real most = sizeof(real) == sizeof(double) ? (real)DBL_MAX : (real)FLT_MAX;
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const real *row = value(u, s + i);
        for (int64_t f = 0; f < a->F; f++) bad |= !(row[f] <= most && row[f] >= -most);
    }
    return !bad;
}

// Adds the product of `pairs` and the chunk's values to out. A nonfinite value must not affect rows
// before it, not even multiplied by 0. So in a chunk with such a value (finite false), each row is
// multiplied separately by only the values that it sees.
static void read_pairs(const struct unit *u, int64_t t, int64_t h, int64_t n, int64_t keys,
                       bool finite)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    struct qkv_baseline_product p = { .y = out_row(u, t, h),
                                      .x = u->at.pairs,
                                      .panels = u->at.values,
                                      .ldy = a->H * a->F,
                                      .ldx = C,
                                      .R = n,
                                      .K = keys,
                                      .N = a->F,
                                      .add = true };
    if (finite) {
        qkv_baseline_rows(&p);
        return;
    }
    p.R = 1;
    for (int64_t i = 0; i < n; i++, p.y += p.ldy, p.x += p.ldx) {
        p.K = qkv_min64(i + 1, keys);
        pack_values(u, t, p.K);
        qkv_baseline_rows(&p);
    }
}

// Computes the output rows t .. t+n-1 of head h, which are one chunk with `keys` keys.
static void run_rows(const struct unit *u, int64_t t, int64_t h, int64_t n, int64_t keys,
                     bool finite)
{
    const struct qkv_linear_work *w = u->r->w;
    real more[C];
    map_queries(u, query(u, t, h), w->a.H * w->a.E, n);
    read_state(u, t, h, n);
    if (keys) {
        qkv_baseline_rows(&(struct qkv_baseline_product){ .y = u->at.pairs,
                                                          .x = u->at.phi_q,
                                                          .panels = u->at.keys,
                                                          .ldy = C,
                                                          .ldx = w->M,
                                                          .R = n,
                                                          .K = w->M,
                                                          .N = keys });
        for (int64_t i = 0; i < n; i++) {
            const int64_t from = qkv_min64(i + 1, keys);
            memset(u->at.pairs + i * C + from, 0, (size_t)(C - from) * sizeof(real));
        }
        qkv_kernel()->dots(more, u->at.ones, u->at.pairs, C, n, C);
        for (int64_t i = 0; i < n; i++) u->at.den[i] += more[i];
        read_pairs(u, t, h, n, keys, finite);
    }
    divide(u, t, h, n);
}

static void run_causal(struct unit *u)
{
    const struct qkv_linear_work *w = u->r->w;
    const struct qkv_linear_attention *a = &w->a;
    const int64_t all = qkv_linear_work_keys(w, u->b), heads = a->H / a->G;
    for (int64_t t = 0; t < a->T; t += C) {
        const int64_t n = qkv_min64(a->T - t, C);
        const int64_t keys = qkv_max64(qkv_min64(all - t, n), 0);
        const bool finite = all_finite(u, t, keys);
        if (keys) {
            map_keys(u, key(u, t), a->G * a->E, keys);
            qkv_baseline_pack(u->at.keys, u->at.phi_k, w->M, keys, w->M, 1);
            pack_values(u, t, keys);
        }
        qkv_baseline_pack(u->at.summed, u->at.state, w->M, a->F, 1, a->F);
        for (int64_t h = u->g * heads; h < (u->g + 1) * heads; h++)
            run_rows(u, t, h, n, keys, finite);
        if (!keys || t + n >= a->T) continue;
        if (!finite) pack_values(u, t, keys);
        add_keys(u, keys);
    }
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    struct unit u = { .r = ctx };
    begin(&u, thread, i);
    if (u.r->w->a.causal)
        run_causal(&u);
    else
        run_all(&u);
}

// ---- the call ----------------------------------------------------------------------------------
static void check_map(struct qkv_linear_work *w, struct qkv_baseline_plan *p)
{
    const struct qkv_linear_attention *a = &w->a;
    w->M = a->E;
    if (a->map == QKV_MAP_ELU) return;
    w->M = a->features;
    qkv_baseline_size(p, "features", a->features, 1);
    if (a->map != QKV_MAP_RANDOM)
        qkv_baseline_refuse(p, QKV_ERR_USAGE,
                            "feature map is %d, expected QKV_MAP_ELU or QKV_MAP_RANDOM",
                            (int)a->map);
    w->a.scale = qkv_baseline_scale(p, a->scale, a->E);
    if (!(w->a.scale > 0) && !p->status)
        qkv_baseline_refuse(p, QKV_ERR_USAGE, "scale is %g, expected more than 0",
                            (double)a->scale);
    if (!a->random || (uintptr_t)a->random % sizeof(float))
        qkv_baseline_refuse(
            p, QKV_ERR_USAGE,
            "random features are missing or not aligned, expected an array of floats");
    qkv_baseline_count(p, a->features, a->E, 1, 1);
}

static void check_lengths(const struct qkv_linear_attention *a, struct qkv_baseline_plan *p)
{
    for (int64_t b = 0; a->k_lengths && b < a->B && !p->status; b++)
        if (a->k_lengths[b] < 0 || a->k_lengths[b] > a->S)
            qkv_baseline_refuse(p, QKV_ERR_USAGE,
                                "length k_lengths[%lld] is %lld, expected 0 to %lld", (long long)b,
                                (long long)a->k_lengths[b], (long long)a->S);
}

struct qkv_baseline_plan qkv_linear_work(struct qkv_linear_work *w,
                                         const struct qkv_linear_attention *a, bool backward)
{
    struct qkv_baseline_plan p = { 0 };
    if (!a) {
        qkv_baseline_refuse(&p, QKV_ERR_USAGE, "the attention is NULL");
        return p;
    }
    struct qkv_baseline_heads h = { a->B, a->T, a->S, a->H, a->G, a->E, a->F, 0, 0, 0, 0 };
    *w = (struct qkv_linear_work){ .a = *a, .threads = qkv_threads() };
    qkv_baseline_heads(&h, &p);
    w->a.G = h.G;
    w->a.F = h.F;
    if (!p.status && a->causal && a->S != a->T)
        qkv_baseline_refuse(&p, QKV_ERR_USAGE,
                            "S is %lld, expected S = T = %lld for causal attention",
                            (long long)a->S, (long long)a->T);
    if (!p.status) check_map(w, &p);
    if (!p.status) check_lengths(a, &p);
    if (backward && a->map != QKV_MAP_ELU)
        qkv_baseline_refuse(&p, QKV_ERR_UNSUPPORTED,
                            "backward is not supported for random features");
    // Refuses sizes whose products overflow: each thread stores the state of a head once as floats
    // and once as packed panels.
    qkv_baseline_count(&p, w->M, h.F + 1, 4, 1);
    qkv_baseline_count(&p, w->M, C, 8, 1);
    if (p.status) return p;
    w->thread = backward ? qkv_linear_work_backward(w) : qkv_linear_work_forward(w);
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    qkv_arena_alloc(&arena, (size_t)w->threads, w->thread);
    qkv_baseline_scratch(&p, &arena);
    const double rows = (double)h.q + (double)h.k, pairs = a->causal ? (double)C : 0;
    const double state = 2.0 * (double)w->M * ((double)h.out + (double)h.v);
    p.flops =
        state + pairs * (double)h.B * (double)h.T * (double)h.H * ((double)w->M + (double)h.F);
    if (a->map == QKV_MAP_RANDOM) p.flops += 2.0 * (double)w->M * rows;
    if (backward) p.flops *= 2.5;
    return p;
}

qkv_status qkv_linear_attention_real(real *out, real *norm, const real *q, const real *k,
                                     const real *v, const struct qkv_linear_attention *a,
                                     void *scratch)
{
    struct qkv_linear_work w;
    const struct qkv_baseline_plan p = qkv_linear_work(&w, a, false);
    const int64_t rows = p.status ? 0 : a->B * a->T * a->H;
    if (p.status || !rows) return p.status;
    const int64_t keys = a->B * a->S * w.a.G;
    const struct qkv_baseline_array arrays[] = {
        { out, rows * w.a.F }, { norm, norm ? rows : 0 }, { q, rows * w.a.E },
        { k, keys * w.a.E },   { v, keys * w.a.F },
    };
    if (!qkv_baseline_arrays(arrays, 2, 5, scratch, p.scratch)) return QKV_ERR_USAGE;
    struct run r = { &w, out, norm, q, k, v, scratch };
    qkv_parallel_for_most(w.a.B * w.a.G, w.threads, run_unit, &r);
    return QKV_OK;
}

size_t qkv_linear_attention_real_scratch(const struct qkv_linear_attention *a, bool backward,
                                         qkv_status *status)
{
    struct qkv_linear_work w;
    const struct qkv_baseline_plan p = qkv_linear_work(&w, a, backward);
    *status = p.status;
    return p.status ? SIZE_MAX : p.scratch;
}

#ifndef QKV_DOUBLE
QKV_API struct qkv_baseline_plan qkv_linear_attention_plan(const struct qkv_linear_attention *a)
{
    struct qkv_linear_work w;
    return qkv_linear_work(&w, a, false);
}

QKV_API qkv_status qkv_linear_attention_forward(float *out, float *norm, const float *q,
                                                const float *k, const float *v,
                                                const struct qkv_linear_attention *a, void *scratch)
{
    return qkv_linear_attention_real(out, norm, q, k, v, a, scratch);
}
#endif
