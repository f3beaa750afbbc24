// SPDX-License-Identifier: MIT
// baseline_nystrom.c: computes Nystrom attention through L landmarks, which are the means of L
// segments of the queries (q~) and of the keys (k~).
//
//   out = softmax(q k~^T) (pinv(A) (softmax(q~ k^T) v)),   A = softmax(q~ k~^T)
//
// softmax(q~ k^T) v and softmax(q k~^T) times a matrix are exact attention, with few queries and
// with few keys. The products of L x L matrices for pinv(A) run on one thread per head.
#include "layer/baseline/baseline_work.h"
#include <math.h>
#include <string.h>

#ifndef QKV_DOUBLE
struct nystrom {
    struct qkv_baseline_heads h;
    int64_t L;
    int threads;                  // number of threads that scratch has space for
    struct qkv_attention in, out; // requests for softmax(q~ k^T) v and for softmax(q k~^T) w
    float scale;
    // q: landmarks of the queries [B][L][H][E]; k: of the keys [B][L][G][E]; k_all: of the keys,
    // repeated for every query head [B][L][H][E]
    float *q, *k, *k_all;
    float *values, *w; // [B][L][H][F]: values = result of `in`; w = pinv(A) times values
    float *square;     // workspace of each thread: SQUARES matrices [L][L]
    char *panels, *attention;
    size_t square_bytes, panel_bytes;
};
enum { SQUARES = 4 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct qkv_baseline_plan nystrom_plan(struct nystrom *at, const struct qkv_nystrom *n,
                                             struct qkv_arena *arena)
{
    struct qkv_baseline_plan p = { 0 };
    at->h = (struct qkv_baseline_heads){ n->B, n->T, n->S, n->H, n->G, n->E, n->F, 0, 0, 0, 0 };
    qkv_baseline_heads(&at->h, &p);
    qkv_baseline_size(&p, "landmarks", n->landmarks, 1);
    qkv_baseline_size(&p, "iterations", n->iterations, 0);
    const struct qkv_baseline_heads *h = &at->h;
    if (!p.status && h->T && (n->landmarks > h->T || n->landmarks > h->S))
        qkv_baseline_refuse(&p, QKV_ERR_USAGE,
                            "number of landmarks is %lld, expected at most T = %lld and S = %lld",
                            (long long)n->landmarks, (long long)h->T, (long long)h->S);
    at->scale = qkv_baseline_scale(&p, n->scale, h->E);
    at->L = n->landmarks;
    at->threads = qkv_threads();
    const int64_t L = at->L, q = qkv_baseline_count(&p, h->B, L, h->H, h->E);
    const int64_t k = qkv_baseline_count(&p, h->B, L, h->G, h->E);
    const int64_t v = qkv_baseline_count(&p, h->B, L, h->H, h->F);
    qkv_baseline_count(&p, SQUARES, L, L, 1);
    if (p.status) return p;
    const size_t threads = (size_t)at->threads;
    at->panel_bytes = larger(qkv_baseline_panels(h->E, L),
                             larger(qkv_baseline_panels(L, L), qkv_baseline_panels(L, h->F)));
    at->square_bytes = SQUARES * (size_t)(L * L) * sizeof(float);
    at->in = qkv_baseline_exact(h, L, h->S, h->G, at->scale);
    at->out = qkv_baseline_exact(h, h->T, L, h->H, at->scale);
    const size_t in = qkv_baseline_exact_scratch(&p, &at->in);
    const size_t out = qkv_baseline_exact_scratch(&p, &at->out);
    at->q = qkv_arena_alloc(arena, (size_t)q, sizeof(float));
    at->k = qkv_arena_alloc(arena, (size_t)k, sizeof(float));
    at->k_all = h->G == h->H ? at->k : qkv_arena_alloc(arena, (size_t)q, sizeof(float));
    at->values = qkv_arena_alloc(arena, (size_t)v, sizeof(float));
    at->w = qkv_arena_alloc(arena, (size_t)v, sizeof(float));
    at->square = qkv_arena_alloc(arena, threads, at->square_bytes);
    at->panels = qkv_arena_alloc(arena, threads, at->panel_bytes);
    at->attention = qkv_arena_alloc(arena, 1, larger(in, out));
    qkv_baseline_scratch(&p, arena);
    const double turns = (double)(n->iterations ? n->iterations : 6), l = (double)L;
    p.flops +=
        2 * (double)h->B * (double)h->H * l * l * (4 * turns * l + (double)h->E + (double)h->F);
    return p;
}

QKV_API struct qkv_baseline_plan qkv_nystrom_plan(const struct qkv_nystrom *n)
{
    struct nystrom at;
    struct qkv_arena count = { NULL, SIZE_MAX, 0 };
    struct qkv_baseline_plan none = { 0 };
    if (n) return nystrom_plan(&at, n, &count);
    qkv_baseline_refuse(&none, QKV_ERR_USAGE, "the attention is NULL");
    return none;
}

// Computes landmarks: to[b][L][W] = the means of L segments of the n rows x[b][n][W], for each
// batch item b.
static void landmarks(float *to, const float *x, int64_t B, int64_t n, int64_t L, int64_t W)
{
    for (int64_t i = 0; i < B * L; i++) {
        const struct qkv_baseline_segment s = qkv_baseline_segment(i % L, n, L);
        float *row = to + i * W;
        memset(row, 0, (size_t)W * sizeof *row);
        qkv_kernel()->add_rows(row, x + (i / L * n + s.from) * W, QKV_REAL, W, s.to - s.from, W);
        const float by = 1 / (float)(s.to - s.from);
        for (int64_t w = 0; w < W; w++) row[w] *= by;
    }
}

struct run {
    const struct nystrom *at;
    int64_t iterations;
};

// Multiplies matrices: y = by x z, where y, x and z are [L][L] and `by` is a factor. z is packed
// before y is written, so y and z may be the same matrix.
static void multiply(const struct nystrom *at, void *panels, float *y, const float *x,
                     const float *z, float by)
{
    const int64_t L = at->L;
    qkv_baseline_pack(panels, z, L, L, 1, L);
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = y,
                                                      .x = x,
                                                      .panels = panels,
                                                      .ldy = L,
                                                      .ldx = L,
                                                      .R = L,
                                                      .K = L,
                                                      .N = L,
                                                      .scale = by });
}

// Replaces the matrix x[L][L] by I' - x, where I' is `diagonal` times the identity.
static void from_diagonal(float *x, int64_t L, float diagonal)
{
    for (int64_t i = 0; i < L * L; i++) x[i] = -x[i];
    for (int64_t i = 0; i < L; i++) x[i * L + i] += diagonal;
}

// Sets the first iterate of the pseudoinverse, z = A^T / (|A|_1 |A|_inf). A has no negative
// elements, so the norms are sums of columns and rows.
static void begin_inverse(float *z, const float *A, int64_t L)
{
    double rows = 0, columns = 0;
    for (int64_t i = 0; i < L; i++) {
        double row = 0, column = 0;
        for (int64_t j = 0; j < L; j++) {
            row += (double)A[i * L + j];
            column += (double)A[j * L + i];
        }
        rows = fmax(rows, row);
        columns = fmax(columns, column);
    }
    const float by = (float)(1 / (rows * columns));
    for (int64_t i = 0; i < L; i++)
        for (int64_t j = 0; j < L; j++) z[i * L + j] = A[j * L + i] * by;
}

// Computes A = softmax(scale q~ k~^T) of a head.
static void pair_landmarks(const struct nystrom *at, float *A, void *panels, int64_t head)
{
    const int64_t L = at->L, E = at->h.E, wide = at->h.H * E;
    qkv_baseline_pack(panels, at->k_all + head * E, E, L, wide, 1);
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = A,
                                                      .x = at->q + head * E,
                                                      .panels = panels,
                                                      .ldy = L,
                                                      .ldx = wide,
                                                      .R = L,
                                                      .K = E,
                                                      .N = L,
                                                      .scale = at->scale });
    qkv_kernel()->softmax_rows(A, A, L, L, L, L);
}

// Computes w of one head: pinv(A) times the product softmax(q~ k^T) v of its landmarks.
static void run_head(void *ctx, int64_t i, int thread)
{
    const struct run *r = ctx;
    const struct nystrom *at = r->at;
    const struct qkv_baseline_heads *h = &at->h;
    // index of the first landmark of the head, in rows of one head each
    const int64_t L = at->L, head = i / h->H * L * h->H + i % h->H;
    float *A = (float *)(void *)((char *)at->square + (size_t)thread * at->square_bytes);
    float *z = A + L * L, *az = z + L * L, *t = az + L * L;
    void *panels = at->panels + (size_t)thread * at->panel_bytes;
    pair_landmarks(at, A, panels, head);
    begin_inverse(z, A, L);
    for (int64_t turn = 0; turn < r->iterations; turn++) {
        multiply(at, panels, az, A, z, 1);
        memcpy(t, az, (size_t)(L * L) * sizeof *t);
        from_diagonal(t, L, 7);
        multiply(at, panels, t, az, t, 1);
        from_diagonal(t, L, 15);
        multiply(at, panels, t, az, t, 1);
        from_diagonal(t, L, 13);
        multiply(at, panels, az, z, t, 0.25f);
        float *next = az;
        az = z;
        z = next;
    }
    qkv_baseline_pack(panels, at->values + head * h->F, L, h->F, 1, h->H * h->F);
    qkv_baseline_rows(&(struct qkv_baseline_product){ .y = at->w + head * h->F,
                                                      .x = z,
                                                      .panels = panels,
                                                      .ldy = h->H * h->F,
                                                      .ldx = L,
                                                      .R = L,
                                                      .K = L,
                                                      .N = h->F });
}

// Repeats the landmarks of the keys for each query head.
static void spread_keys(const struct nystrom *at)
{
    const struct qkv_baseline_heads *h = &at->h;
    const size_t row = (size_t)h->E * sizeof(float);
    for (int64_t r = 0; at->k_all != at->k && r < h->B * at->L; r++)
        for (int64_t i = 0; i < h->H; i++)
            memcpy(at->k_all + (r * h->H + i) * h->E, at->k + (r * h->G + i / (h->H / h->G)) * h->E,
                   row);
}

QKV_API qkv_status qkv_nystrom_forward(float *out, const float *q, const float *k, const float *v,
                                       const struct qkv_nystrom *n, void *scratch)
{
    struct nystrom at;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    if (!n) return QKV_ERR_USAGE;
    const struct qkv_baseline_plan p = nystrom_plan(&at, n, &arena);
    const struct qkv_baseline_heads *h = &at.h;
    if (p.status || !h->out) return p.status;
    const struct qkv_baseline_array arrays[] = {
        { out, h->out }, { q, h->q }, { k, h->k }, { v, h->v }
    };
    if (!qkv_baseline_arrays(arrays, 1, 4, scratch, p.scratch)) return QKV_ERR_USAGE;
    landmarks(at.q, q, h->B, h->T, at.L, h->H * h->E);
    landmarks(at.k, k, h->B, h->S, at.L, h->G * h->E);
    spread_keys(&at);
    qkv_status status =
        qkv_attention_forward(at.values, NULL, NULL, at.q, k, v, &at.in, at.attention);
    if (status) return status;
    struct run r = { &at, n->iterations ? n->iterations : 6 };
    qkv_parallel_for_most(h->B * h->H, at.threads, run_head, &r);
    return qkv_attention_forward(out, NULL, NULL, q, at.k_all, at.w, &at.out, at.attention);
}
#endif
