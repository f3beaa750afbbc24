// SPDX-License-Identifier: MIT
// baseline_linear_backward.c: computes the gradients of linear attention with the features elu(x) +
// 1.
//
//   g_i = dout_i / norm_i,   c_i = -(g_i . out_i),   G_i = (g_i, c_i),   V_j = (v_j, 1)
//   dphi(q_i) = (sum_j phi(k_j) V_j^T) G_i,   dphi(k_j) = (sum_i phi(q_i) G_i^T) V_j,
//   dv_j = (sum_i phi(q_i) g_i^T)^T phi(k_j),   dx = dphi (x > 0 ? 1 : e^x)
//
// With a causal mask, the sum over j runs over j <= i, the sums over i over i >= j. One pass over
// the chunks in ascending order computes dq, a second pass in descending order computes dk and dv.
// Pairs of a row and a key in the same chunk are multiplied one by one, as in forward.
#include "layer/baseline/baseline_work.h"
#include <string.h>

enum { C = QKV_KIND_CHUNK };

// ---- workspace of a thread ---------------------------------------------------------------------
struct place {
    real *phi_q, *phi_k; // [C][M] features of a chunk's queries, of its keys
    real *V, *G;         // [C][F + 1] rows V_j = (v_j, 1) and G_i = (g_i, c_i)
    real *turned;        // [M or C][C] transpose of a matrix
    real *pairs;         // [C][C] products of pairs of a chunk
    real *sum_k, *sum_q; // [M][F + 1] sums of phi(k) V^T and of phi(q) G^T
    real *d;             // [C][M] gradient of the features
    real *den;           // [C] denominators of the rows
    char *panels;
};

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

// Returns the bytes of the largest packed operand of all products in this file.
static size_t panels(int64_t M, int64_t N)
{
    const size_t sums = largest(qkv_baseline_panels(M, N), qkv_baseline_panels(N, M));
    const size_t rows = largest(qkv_baseline_panels(C, N), qkv_baseline_panels(C, M));
    const size_t pairs = largest(qkv_baseline_panels(M, C), qkv_baseline_panels(N, C));
    return largest(sums, largest(rows, pairs));
}

static bool place(struct place *at, const struct qkv_linear_work *w, struct qkv_arena *arena)
{
    const size_t M = (size_t)w->M, N = (size_t)w->a.F + 1, R = sizeof(real);
    at->phi_q = qkv_arena_alloc(arena, C * M, R);
    at->phi_k = qkv_arena_alloc(arena, C * M, R);
    at->V = qkv_arena_alloc(arena, C * N, R);
    at->G = qkv_arena_alloc(arena, C * N, R);
    at->turned = qkv_arena_alloc(arena, C * largest(M, C), R);
    at->pairs = qkv_arena_alloc(arena, C * C, R);
    at->sum_k = qkv_arena_alloc(arena, M * N, R);
    at->sum_q = qkv_arena_alloc(arena, M * N, R);
    at->d = qkv_arena_alloc(arena, C * M, R);
    at->den = qkv_arena_alloc(arena, C, R);
    at->panels = qkv_arena_alloc(arena, 1, panels(w->M, w->a.F + 1));
    return !qkv_arena_full(arena);
}

size_t qkv_linear_work_backward(const struct qkv_linear_work *w)
{
    struct place at;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return place(&at, w, &arena) ? arena.used : SIZE_MAX;
}

struct run {
    const struct qkv_linear_work *w;
    real *dq, *dk, *dv;
    const real *dout, *q, *k, *v, *out, *norm;
    char *scratch;
};
struct unit {
    const struct run *r;
    struct place at;
    int64_t b, g, keys; // b, g: batch item and key/value head; keys: number of its keys
};

// returns the index of the row of query t and head h in q
static int64_t query(const struct unit *u, int64_t t, int64_t h)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return (u->b * a->T + t) * a->H + h;
}
static int64_t key(const struct unit *u, int64_t s)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    return (u->b * a->S + s) * a->G + u->g;
}

// ---- steps -------------------------------------------------------------------------------------
// The matrix w of a product y[R][N] = x[R][K] w: element k of column n is at[n ldn + k ldk].
struct matrix {
    const real *at;
    int64_t ldn, ldk;
};
static void multiply(const struct unit *u, struct qkv_baseline_product p, struct matrix w)
{
    if (!p.K) return;
    qkv_baseline_pack(u->at.panels, w.at, p.K, p.N, w.ldn, w.ldk);
    p.panels = u->at.panels;
    qkv_baseline_rows(&p);
}

// Computes phi(k) and V = (v, 1) of the n keys from key s on.
static void load_keys(const struct unit *u, int64_t s, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    const int64_t F = w->a.F, N = F + 1;
    qkv_features_elu(u->at.phi_k, u->r->k + key(u, s) * w->M, w->a.G * w->M, n, w->M);
    for (int64_t j = 0; j < n; j++) {
        memcpy(u->at.V + j * N, u->r->v + key(u, s + j) * F, (size_t)F * sizeof(real));
        u->at.V[j * N + F] = 1;
    }
}

// Computes phi(q) and the gradient G = (g, c) (top of this file) of the n rows from token t on. A
// row that saw no key has G = 0.
static void load_rows(const struct unit *u, int64_t t, int64_t h, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    const int64_t F = w->a.F, N = F + 1;
    qkv_features_elu(u->at.phi_q, u->r->q + query(u, t, h) * w->M, w->a.H * w->M, n, w->M);
    for (int64_t i = 0; i < n; i++) {
        const real *dout = u->r->dout + query(u, t + i, h) * F;
        const real *out = u->r->out + query(u, t + i, h) * F;
        const real norm = u->r->norm[(u->b * w->a.H + h) * w->a.T + t + i];
        real *G = u->at.G + i * N;
        for (int64_t f = 0; f < F; f++) G[f] = norm == 0 ? 0 : dout[f] / norm;
        qkv_kernel()->dots(G + F, G, out, F, 1, F);
        G[F] = norm == 0 ? 0 : -G[F];
    }
}

// Adds n keys or rows to a sum: sum[M][N] += phi[n][M]^T x[n][N].
static void gather(const struct unit *u, real *sum, const real *phi, const real *x, int64_t n)
{
    const int64_t M = u->r->w->M, N = u->r->w->a.F + 1;
    qkv_kernel()->transpose(u->at.turned, QKV_REAL, C, phi, QKV_REAL, M, n, M);
    multiply(
        u,
        (struct qkv_baseline_product){
            .y = sum, .x = u->at.turned, .ldy = N, .ldx = C, .R = M, .K = n, .N = N, .add = true },
        (struct matrix){ x, 1, N });
}

// Computes the products of n rows and the keys of their chunk: pairs[i][j] = x[i] . y[j] for j <=
// i, 0 for j > i.
static void pair(const struct unit *u, const real *x, const real *y, int64_t K, int64_t n,
                 int64_t keys)
{
    multiply(u,
             (struct qkv_baseline_product){
                 .y = u->at.pairs, .x = x, .ldy = C, .ldx = K, .R = n, .K = K, .N = keys },
             (struct matrix){ y, K, 1 });
    for (int64_t i = 0; i + 1 < keys; i++)
        if (i < n) memset(u->at.pairs + i * C + i + 1, 0, (size_t)(keys - i - 1) * sizeof(real));
}

// Writes dx = d times the derivative of elu(x) + 1. If phi > 1 (x > 0), the derivative is 1;
// otherwise it is e^x, which equals phi.
static void slope(real *dx, int64_t ld, const real *d, const real *phi, int64_t n, int64_t M)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t m = 0; m < M; m++)
            dx[i * ld + m] = d[i * M + m] * (phi[i * M + m] > 1 ? 1 : phi[i * M + m]);
}

// ---- dq ----------------------------------------------------------------------------------------
// Computes dq of rows t .. t+n-1 of head h from sum_k and, with a causal mask, from the `keys` keys
// of their chunk.
static void query_rows(const struct unit *u, int64_t t, int64_t h, int64_t n, int64_t keys)
{
    const struct qkv_linear_work *w = u->r->w;
    const int64_t M = w->M, N = w->a.F + 1;
    load_rows(u, t, h, n);
    multiply(u,
             (struct qkv_baseline_product){
                 .y = u->at.d, .x = u->at.G, .ldy = M, .ldx = N, .R = n, .K = N, .N = M },
             (struct matrix){ u->at.sum_k, N, 1 });
    if (keys) {
        pair(u, u->at.G, u->at.V, N, n, keys);
        multiply(u,
                 (struct qkv_baseline_product){ .y = u->at.d,
                                                .x = u->at.pairs,
                                                .ldy = M,
                                                .ldx = C,
                                                .R = n,
                                                .K = keys,
                                                .N = M,
                                                .add = true },
                 (struct matrix){ u->at.phi_k, 1, M });
    }
    slope(u->r->dq + query(u, t, h) * M, w->a.H * M, u->at.d, u->at.phi_q, n, M);
}

// ---- dk, dv ------------------------------------------------------------------------------------
// Adds y[keys][width] += pairs^T rows, the contribution of the n rows of a chunk to the gradients
// of its keys or values.
static void add_pairs(const struct unit *u, real *y, int64_t ldy, const real *rows, int64_t ld,
                      int64_t width, int64_t n, int64_t keys)
{
    qkv_kernel()->transpose(u->at.turned, QKV_REAL, C, u->at.pairs, QKV_REAL, C, n, keys);
    multiply(u,
             (struct qkv_baseline_product){ .y = y,
                                            .x = u->at.turned,
                                            .ldy = ldy,
                                            .ldx = C,
                                            .R = keys,
                                            .K = n,
                                            .N = width,
                                            .add = true },
             (struct matrix){ rows, 1, ld });
}

// Computes dk and dv of keys s .. s+keys-1 from sum_q (the sum of phi(q) G^T over all rows so far)
// and, with a causal mask, from the n rows of their chunk. Then adds these rows to sum_q.
static void key_rows(const struct unit *u, int64_t s, int64_t keys, int64_t n)
{
    const struct qkv_linear_work *w = u->r->w;
    const struct qkv_linear_attention *a = &w->a;
    const int64_t M = w->M, F = a->F, N = F + 1, heads = a->H / a->G;
    real *dv = u->r->dv + key(u, s) * F, *dk = u->r->dk + key(u, s) * M;
    if (keys) {
        load_keys(u, s, keys);
        multiply(u,
                 (struct qkv_baseline_product){
                     .y = u->at.d, .x = u->at.V, .ldy = M, .ldx = N, .R = keys, .K = N, .N = M },
                 (struct matrix){ u->at.sum_q, N, 1 });
        multiply(
            u,
            (struct qkv_baseline_product){
                .y = dv, .x = u->at.phi_k, .ldy = a->G * F, .ldx = M, .R = keys, .K = M, .N = F },
            (struct matrix){ u->at.sum_q, 1, N });
    }
    for (int64_t h = u->g * heads; n && h < (u->g + 1) * heads; h++) {
        load_rows(u, s, h, n);
        if (keys) {
            pair(u, u->at.G, u->at.V, N, n, keys);
            add_pairs(u, u->at.d, M, u->at.phi_q, M, M, n, keys);
            pair(u, u->at.phi_q, u->at.phi_k, M, n, keys);
            add_pairs(u, dv, a->G * F, u->at.G, N, F, n, keys);
        }
        gather(u, u->at.sum_q, u->at.phi_q, u->at.G, n);
    }
    slope(dk, a->G * M, u->at.d, u->at.phi_k, keys, M);
}

// ---- passes over the chunks --------------------------------------------------------------------
// returns how many of the keys t .. t+n-1 exist
static int64_t keys_of(const struct unit *u, int64_t t, int64_t n)
{
    return qkv_max64(qkv_min64(u->keys - t, n), 0);
}

static void run_causal(const struct unit *u)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    const int64_t heads = a->H / a->G;
    for (int64_t t = 0; t < a->T; t += C) {
        const int64_t n = qkv_min64(a->T - t, C), keys = keys_of(u, t, n);
        if (keys) load_keys(u, t, keys);
        for (int64_t h = u->g * heads; h < (u->g + 1) * heads; h++) query_rows(u, t, h, n, keys);
        if (keys) gather(u, u->at.sum_k, u->at.phi_k, u->at.V, keys);
    }
    for (int64_t t = (a->T - 1) / C * C; t >= 0; t -= C) {
        const int64_t n = qkv_min64(a->T - t, C);
        key_rows(u, t, keys_of(u, t, n), n);
    }
}

static void run_all(const struct unit *u)
{
    const struct qkv_linear_attention *a = &u->r->w->a;
    const int64_t heads = a->H / a->G;
    for (int64_t s = 0; s < u->keys; s += C) {
        const int64_t n = qkv_min64(u->keys - s, C);
        load_keys(u, s, n);
        gather(u, u->at.sum_k, u->at.phi_k, u->at.V, n);
    }
    for (int64_t h = u->g * heads; h < (u->g + 1) * heads; h++)
        for (int64_t t = 0; t < a->T; t += C) {
            const int64_t n = qkv_min64(a->T - t, C);
            query_rows(u, t, h, n, 0);
            gather(u, u->at.sum_q, u->at.phi_q, u->at.G, n);
        }
    for (int64_t s = 0; s < u->keys; s += C) key_rows(u, s, qkv_min64(u->keys - s, C), 0);
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    struct unit u = { .r = ctx };
    const struct qkv_linear_work *w = u.r->w;
    const size_t sums = (size_t)(w->M * (w->a.F + 1)) * sizeof(real);
    struct qkv_arena arena = { u.r->scratch + (size_t)thread * w->thread, w->thread, 0 };
    place(&u.at, w, &arena);
    u.b = i / w->a.G;
    u.g = i % w->a.G;
    u.keys = qkv_linear_work_keys(w, u.b);
    memset(u.at.sum_k, 0, sums);
    memset(u.at.sum_q, 0, sums);
    for (int64_t s = u.keys; s < w->a.S; s++) {
        memset(u.r->dk + key(&u, s) * w->M, 0, (size_t)w->M * sizeof(real));
        memset(u.r->dv + key(&u, s) * w->a.F, 0, (size_t)w->a.F * sizeof(real));
    }
    if (w->a.causal)
        run_causal(&u);
    else
        run_all(&u);
}

qkv_status qkv_linear_attention_real_backward(real *dq, real *dk, real *dv, const real *dout,
                                              const real *q, const real *k, const real *v,
                                              const real *out, const real *norm,
                                              const struct qkv_linear_attention *a, void *scratch)
{
    struct qkv_linear_work w;
    const struct qkv_baseline_plan p = qkv_linear_work(&w, a, true);
    if (p.status) return p.status;
    const int64_t rows = a->B * a->T * a->H, keys = a->B * a->S * w.a.G;
    const int64_t E = w.a.E, F = w.a.F;
    const struct qkv_baseline_array arrays[] = {
        { dq, rows * E }, { dk, keys * E }, { dv, keys * F },  { dout, rows * F }, { q, rows * E },
        { k, keys * E },  { v, keys * F },  { out, rows * F }, { norm, rows },
    };
    if (!rows && !keys) return QKV_OK;
    if (!qkv_baseline_arrays(arrays, 3, 9, scratch, p.scratch)) return QKV_ERR_USAGE;
    struct run r = { &w, dq, dk, dv, dout, q, k, v, out, norm, scratch };
    qkv_parallel_for_most(w.a.B * w.a.G, w.threads, run_unit, &r);
    return QKV_OK;
}

#ifndef QKV_DOUBLE
QKV_API struct qkv_baseline_plan
qkv_linear_attention_backward_plan(const struct qkv_linear_attention *a)
{
    struct qkv_linear_work w;
    return qkv_linear_work(&w, a, true);
}

QKV_API qkv_status qkv_linear_attention_backward(float *dq, float *dk, float *dv, const float *dout,
                                                 const float *q, const float *k, const float *v,
                                                 const float *out, const float *norm,
                                                 const struct qkv_linear_attention *a,
                                                 void *scratch)
{
    return qkv_linear_attention_real_backward(dq, dk, dv, dout, q, k, v, out, norm, a, scratch);
}
#endif
