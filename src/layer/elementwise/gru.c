// SPDX-License-Identifier: MIT
// gru.c: runs a gated recurrent unit over packed sequences, one step of all sequences at a time.
//
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),   z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h
//
// Products that do not depend on the state are computed for all rows at once: W_i x before the
// first step, and the gradients of x, W_i and W_h after the last step. Sequences are sorted by
// length, longest first. A step processes the sequences that have not ended, which are the first
// ones in this order.
#include "layer/layer.h"
#include <string.h>

struct place {
    int64_t *order; // [sequences] indices of the sequences, longest first
    // [sequences][D] in the order of `order`: the state h; in backward, its gradient
    real *state;
    real *hidden;        // [sequences][3D] W_h h + b_h; in backward, its gradient
    real *d;             // [R][4D] gradients of the arguments of r, z and n, and of W_hn h + b_hn
    real *before;        // [R][D] state before each row
    char *packed, *once; // packed: W_h, packed; once: scratch of the products over all rows
};

static struct qkv_linear hidden_part(const struct qkv_gru *p)
{
    return (struct qkv_linear){ .K = p->D,
                                .precision = p->precision,
                                .parts = 1,
                                .part = { { 3 * p->D, p->w_h, p->b_h, false } } };
}

// Returns a linear layer with the transposed recurrent weights, for the product dh = d W_h of
// backward.
static struct qkv_linear hidden_back(const struct qkv_gru *p)
{
    return (struct qkv_linear){ .K = 3 * p->D,
                                .precision = p->precision,
                                .parts = 1,
                                .part = { { p->D, p->w_h, NULL, true } } };
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool place(struct place *at, const struct qkv_gru *p, int64_t R, int64_t sequences,
                  struct qkv_arena *arena)
{
    if (p->D >> 40 || p->D_in >> 40) return false;
    const struct qkv_linear_once once = { .precision = p->precision, .threads = p->threads };
    const struct qkv_linear_back back = { .precision = p->precision, .threads = p->threads };
    struct qkv_linear forward = hidden_part(p), backward = hidden_back(p);
    const size_t width = (size_t)p->D * sizeof(real), n = (size_t)sequences;
    at->order = qkv_arena_alloc(arena, n, sizeof *at->order);
    at->state = qkv_arena_alloc(arena, n, width);
    at->hidden = qkv_arena_alloc(arena, n, 3 * width);
    at->d = qkv_arena_alloc(arena, (size_t)R, 4 * width);
    at->before = qkv_arena_alloc(arena, (size_t)R, width);
    at->packed = qkv_arena_alloc(
        arena, 1, larger(qkv_linear_pack_bytes(&forward), qkv_linear_pack_bytes(&backward)));
    const size_t products = larger(qkv_linear_once_backward_scratch(&back, R, p->D_in, 3 * p->D),
                                   qkv_linear_once_backward_scratch(&back, R, p->D, 2 * p->D));
    at->once = qkv_arena_alloc(arena, 1,
                               larger(products, qkv_linear_once_scratch(&once, p->D_in, 3 * p->D)));
    return !qkv_arena_full(arena);
}

size_t qkv_gru_scratch(const struct qkv_gru *p, int64_t R, int64_t sequences)
{
    struct place at;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    return place(&at, p, R, sequences, &arena) ? arena.used : SIZE_MAX;
}

// ---- order of sequences ------------------------------------------------------------------------
struct run {
    const struct qkv_gru *p;
    const int64_t *offsets;
    int64_t sequences;
    struct place at;
    real *h, *gates;
    const real *kept, *kept_gates, *first, *dh;
    int64_t t, n; // step index; number of sequences that have this step
};

static int64_t length(const struct run *j, int64_t s)
{
    return j->offsets[s + 1] - j->offsets[s];
}

// Sorts the sequences by descending length; equal lengths keep their order (merge sort).
static void sort(struct run *j, int64_t *workspace)
{
    int64_t *from = j->at.order, *to = workspace;
    for (int64_t s = 0; s < j->sequences; s++) from[s] = s;
    for (int64_t run = 1; run < j->sequences; run *= 2) {
        for (int64_t lo = 0; lo < j->sequences; lo += 2 * run) {
            const int64_t mid = qkv_min64(lo + run, j->sequences);
            const int64_t hi = qkv_min64(lo + 2 * run, j->sequences);
            int64_t a = lo, b = mid;
            for (int64_t i = lo; i < hi; i++) {
                const bool left = a < mid && (b >= hi || length(j, from[a]) >= length(j, from[b]));
                to[i] = left ? from[a++] : from[b++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != j->at.order) memcpy(j->at.order, from, (size_t)j->sequences * sizeof *from);
}

static int64_t row_of(const struct run *j, int64_t s, int64_t t)
{
    return j->p->reverse ? j->offsets[s + 1] - 1 - t : j->offsets[s] + t;
}

// Returns the state before step t of sequence s; NULL: this state is 0.
static const real *before(const struct run *j, const real *h, int64_t s, int64_t t)
{
    if (t > 0) return h + row_of(j, s, t - 1) * j->p->D;
    return j->first ? j->first + s * j->p->D : NULL;
}

static void copy(real *to, const real *from, int64_t n)
{
    if (from)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

static void begin(struct run *j, const struct qkv_gru *p, const int64_t *offsets, int64_t sequences)
{
    struct qkv_arena arena = { p->scratch, SIZE_MAX, 0 };
    j->p = p;
    j->offsets = offsets;
    j->sequences = sequences;
    place(&j->at, p, offsets[sequences], sequences, &arena);
    // The sort needs a workspace of one int64_t per sequence, which fits into `hidden`; this array
    // is not in use yet.
    sort(j, (int64_t *)(void *)j->at.hidden);
}

// ---- forward -----------------------------------------------------------------------------------
static void step(void *ctx, int64_t i, int thread)
{
    struct run *j = ctx;
    const int64_t D = j->p->D, s = j->at.order[i], row = row_of(j, s, j->t);
    (void)thread;
    qkv_kernel()->gru_row(j->h + row * D, j->gates + row * 4 * D, D, j->at.hidden + i * 3 * D, D,
                          j->at.state + i * D, D);
    copy(j->at.state + i * D, j->h + row * D, D);
}

void qkv_gru_forward(real *h, real *gates, const real *x, const real *first, const int64_t *offsets,
                     int64_t sequences, const struct qkv_gru *p)
{
    const int64_t R = offsets[sequences], D = p->D;
    if (R < 1) return;
    struct run j = { .h = h, .gates = gates, .first = first };
    begin(&j, p, offsets, sequences);
    const struct qkv_linear_part in = { 3 * D, p->w_i, p->b_i, false };
    qkv_linear_once(gates, 4 * D, x, p->D_in, R, p->D_in, &in, NULL,
                    &(struct qkv_linear_once){
                        .precision = p->precision, .threads = p->threads, .scratch = j.at.once });
    struct qkv_linear w = hidden_part(p);
    qkv_linear_pack_bytes(&w);
    qkv_linear_pack_at(&w, j.at.packed);
    for (int64_t i = 0; i < sequences; i++)
        copy(j.at.state + i * D, before(&j, h, j.at.order[i], 0), D);
    for (j.t = 0, j.n = sequences;; j.t++) {
        while (j.n > 0 && length(&j, j.at.order[j.n - 1]) <= j.t) j.n--;
        if (!j.n) break;
        qkv_linear_forward((void *[]){ j.at.hidden }, NULL, j.at.state, j.n, &w, NULL);
        qkv_parallel_for_most(j.n, p->threads, step, &j);
    }
}

// ---- backward ----------------------------------------------------------------------------------
// Runs one backward step of one sequence. The gradient of its state is dh, which the caller gave,
// plus the gradient from the following step.
static void step_back(void *ctx, int64_t i, int thread)
{
    struct run *j = ctx;
    const int64_t D = j->p->D, s = j->at.order[i], row = row_of(j, s, j->t);
    real *flow = j->at.state + i * D, *d = j->at.d + row * 4 * D,
         *hidden = j->at.hidden + i * 3 * D;
    real *old = j->at.before + row * D;
    (void)thread;
    copy(old, before(j, j->kept, s, j->t), D);
    qkv_kernel()->add_row(flow, j->dh + row * D, 1, D);
    qkv_kernel()->gru_row_backward(d, flow, flow, j->kept_gates + row * 4 * D, old, D);
    copy(hidden, d, 2 * D);
    copy(hidden + 2 * D, d + 3 * D, D);
}

static void products(const struct run *j, real *dx, const struct qkv_gru_grad *g, const real *x)
{
    const struct qkv_gru *p = j->p;
    const int64_t D = p->D, R = j->offsets[j->sequences];
    const struct qkv_linear_part in = { 3 * D, p->w_i, NULL, false };
    const struct qkv_linear_part gates = { 2 * D, p->w_h, NULL, false };
    const struct qkv_linear_part made = { D, p->w_h + 2 * D * D, NULL, false };
    const struct qkv_linear_back how = {
        .precision = p->precision, .threads = p->threads, .lddy = 4 * D, .scratch = j->at.once
    };
    if (dx || g->w_i || g->b_i)
        qkv_linear_once_backward(dx, g->w_i, g->b_i, j->at.d, x, R, p->D_in, &in, &how);
    if (!g->w_h && !g->b_h) return;
    qkv_linear_once_backward(NULL, g->w_h, g->b_h, j->at.d, j->at.before, R, D, &gates, &how);
    qkv_linear_once_backward(NULL, g->w_h ? g->w_h + 2 * D * D : NULL,
                             g->b_h ? g->b_h + 2 * D : NULL, j->at.d + 3 * D, j->at.before, R, D,
                             &made, &how);
}

void qkv_gru_backward(real *dx, real *dfirst, const struct qkv_gru_grad *g, const real *dh,
                      const real *h, const real *gates, const real *x, const real *first,
                      const int64_t *offsets, int64_t sequences, const struct qkv_gru *p)
{
    static const struct qkv_gru_grad none;
    const int64_t R = offsets[sequences], D = p->D;
    if (R < 1) {
        if (dfirst) memset(dfirst, 0, (size_t)(sequences * D) * sizeof *dfirst);
        return;
    }
    struct run j = { .kept = h, .kept_gates = gates, .first = first, .dh = dh };
    begin(&j, p, offsets, sequences);
    struct qkv_linear w = hidden_back(p);
    qkv_linear_pack_bytes(&w);
    qkv_linear_pack_at(&w, j.at.packed);
    memset(j.at.state, 0, (size_t)(sequences * D) * sizeof *j.at.state);
    for (j.t = length(&j, j.at.order[0]) - 1, j.n = 0; j.t >= 0; j.t--) {
        while (j.n < sequences && length(&j, j.at.order[j.n]) > j.t) j.n++;
        qkv_parallel_for_most(j.n, p->threads, step_back, &j);
        qkv_linear_forward((void *[]){ j.at.state }, NULL, j.at.hidden, j.n, &w,
                           &(struct qkv_after){ .residual = j.at.state });
    }
    for (int64_t i = 0; i < sequences && dfirst; i++)
        copy(dfirst + j.at.order[i] * D, j.at.state + i * D, D);
    products(&j, dx, g ? g : &none, x);
}
