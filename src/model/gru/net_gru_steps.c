// SPDX-License-Identifier: MIT
// net_gru_steps.c: runs the first decoder layer, which has attention. Its input depends on the
// previous step, so scores, weights and gates are computed step by step, for all running sequences
// at once.
//
//   u = W_q h,   s_j = v . tanh(u + k_j),   a = softmax(s),   c = sum_j a_j y_j
//   h' = GRU(h; W_i e + b_i + W_c c)
//
// Backward recomputes s and a from u and lse, one sequence at a time. From dc, the gradient of c,
// it computes
//   da_j = dc . y_j,   ds_j = a_j (da_j - dc . c),   dy_j += a_j dc
// and from ds the gradients of v, u and k.
#include "model/gru/net_gru.h"
#include <math.h>
#include <string.h>

real qkv_gru_attend(const struct qkv_gru_run *r, real *context, real *workspace, const real *u,
                    const real *keys, const real *y, int64_t n)
{
    const struct qkv_kernels *k = qkv_kernel();
    const int64_t wide = 2 * r->D;
    memset(context, 0, (size_t)wide * sizeof *context);
    if (!n) return -(real)INFINITY;
    k->additive_row(workspace, u, r->body->score.value, keys, r->A, n, r->A);
    real top = workspace[0];
    for (int64_t j = 1; j < n; j++)
        if (workspace[j] > top) top = workspace[j];
    double sum = 0;
    for (int64_t j = 0; j < n; j++) workspace[j] -= top;
    k->exp(workspace, workspace, n);
    for (int64_t j = 0; j < n; j++) sum += (double)workspace[j];
    for (int64_t j = 0; j < n; j++) {
        workspace[j] = (real)((double)workspace[j] / sum);
        k->add_row(context, y + j * wide, workspace[j], wide);
    }
    return (real)((double)top + log(sum));
}

static void attend(void *ctx, int64_t i, int thread)
{
    struct qkv_gru_run *r = ctx;
    const int64_t D = r->D, from = r->from[i], n = r->from[i + 1] - from, row = r->to[i] + r->t;
    real *workspace = r->workspace + thread * 2 * r->longest, *u = r->queries + row * r->A;
    real *context = r->context + row * 2 * D;
    memcpy(u, r->units + r->running * 3 * D + i * r->A, (size_t)r->A * sizeof *u);
    r->lse[row] = qkv_gru_attend(r, context, workspace, u, r->keys + from * r->A,
                                 r->y[r->layers - 1] + from * 2 * D, n);
    memcpy(r->mixed + i * 2 * D, context, (size_t)(2 * D) * sizeof *context);
}

static void step(void *ctx, int64_t i, int thread)
{
    struct qkv_gru_run *r = ctx;
    const int64_t D = r->D, row = r->to[i] + r->t;
    real *gates = r->s_gates[0] + row * 4 * D, *h = r->s[0] + row * D, *state = r->state + i * D;
    (void)thread;
    qkv_kernel()->add_row(gates, r->added + i * 3 * D, 1, 3 * D);
    qkv_kernel()->gru_row(h, gates, D, r->units + i * 3 * D, D, state, D);
    memcpy(state, h, (size_t)D * sizeof *h);
}

static void pack(struct qkv_linear *l, void *memory)
{
    qkv_linear_pack_bytes(l);
    qkv_linear_pack_at(l, memory);
}

void qkv_gru_steps(struct qkv_gru_run *r)
{
    const struct qkv_gru_weights *w = &r->body->decoder[0];
    const struct qkv_linear_part in = { 3 * r->D, w->w_i.value, w->b_i.value, false };
    if (!r->P) return;
    pack(&r->of_state, r->pack_state);
    pack(&r->of_context, r->pack_context);
    qkv_linear_once(r->s_gates[0], 4 * r->D, r->e, r->D, r->P, r->D, &in, NULL,
                    &(struct qkv_linear_once){ .precision = r->n->options.precision,
                                               .threads = r->work.threads,
                                               .scratch = r->work.scratch });
    memcpy(r->state, r->first[0], (size_t)(r->sequences * r->D) * sizeof *r->state);
    for (r->t = 0, r->running = r->sequences;; r->t++) {
        while (r->running > 0 && r->to[r->running] - r->to[r->running - 1] <= r->t) r->running--;
        if (!r->running) break;
        real *units = r->units;
        qkv_linear_forward((void *[]){ units, units + r->running * 3 * r->D }, NULL, r->state,
                           r->running, &r->of_state, NULL);
        qkv_parallel_for_most(r->running, r->work.threads, attend, r);
        qkv_linear_forward((void *[]){ r->added }, NULL, r->mixed, r->running, &r->of_context,
                           NULL);
        qkv_parallel_for_most(r->running, r->work.threads, step, r);
    }
}

// Runs backward of the gates of sequence i in one step. Reads the gradient of the state; computes
// the row of d_input, the part of d_hidden that belongs to the gates, and the gradient of the
// previous state through the gates.
static void gates_back(void *ctx, int64_t i, int thread)
{
    struct qkv_gru_run *r = ctx;
    const int64_t D = r->D, row = r->to[i] + r->t;
    const real *old = r->t > 0 ? r->s[0] + (row - 1) * D : r->first[0] + i * D;
    real *flow = r->state + i * D, *four = r->four + thread * 4 * D;
    real *hidden = r->units + i * (3 * D + r->A);
    const size_t bytes = (size_t)D * sizeof *old;
    memcpy(r->previous + row * D, old, bytes);
    qkv_kernel()->add_row(flow, r->d_s[0] + row * D, 1, D);
    qkv_kernel()->gru_row_backward(four, flow, flow, r->s_gates[0] + row * 4 * D, old, D);
    memcpy(r->d_input + row * 3 * D, four, 3 * bytes);
    memcpy(r->added + i * 3 * D, four, 3 * bytes);
    memcpy(hidden, four, 2 * bytes);
    memcpy(hidden + 2 * D, four + 3 * D, bytes);
}

// Runs backward of attention of sequence i in one step: computes the gradients of u, v, keys and
// values from dc, the sum of `mixed` (through the gates) and d_context (through the readout).
static void attend_back(void *ctx, int64_t i, int thread)
{
    struct qkv_gru_run *r = ctx;
    const struct qkv_kernels *k = qkv_kernel();
    const int64_t D = r->D, A = r->A, from = r->from[i], n = r->from[i + 1] - from;
    const int64_t row = r->to[i] + r->t, wide = 2 * D;
    real *share = r->workspace + thread * 2 * r->longest, *ds = share + r->longest;
    real *dc = r->mixed + i * wide, *du = r->units + i * (3 * D + A) + 3 * D;
    const real *y = r->y[r->layers - 1] + from * wide, *keys = r->keys + from * A;
    const real *u = r->queries + row * A, *v = r->body->score.value;
    k->add_row(dc, r->d_context + row * wide, 1, wide);
    memset(du, 0, (size_t)A * sizeof *du);
    if (n) {
        real whole;
        k->additive_row(share, u, v, keys, A, n, A);
        for (int64_t j = 0; j < n; j++) share[j] -= r->lse[row];
        k->exp(share, share, n);
        k->dots(ds, dc, y, wide, n, wide);
        k->dots(&whole, dc, r->context + row * wide, wide, 1, wide);
        for (int64_t j = 0; j < n; j++) {
            ds[j] = share[j] * (ds[j] - whole);
            k->add_row(r->d_y[0] + (from + j) * wide, dc, share[j], wide);
        }
        k->additive_row_backward(du, r->d_score + i * A, r->d_keys + from * A, A, ds, u, v, keys, A,
                                 n, A);
    }
    memcpy(r->d_hidden + row * (3 * D + A), r->units + i * (3 * D + A),
           (size_t)(3 * D + A) * sizeof *du);
}

static struct qkv_linear layer_of(int64_t K, int64_t N, const struct qkv_weight *w,
                                  const struct qkv_weight *b)
{
    return (struct qkv_linear){ .K = K,
                                .parts = 1,
                                .part = { { .N = N, .w = w->value, .b = b->value } },
                                .dw = { w->grad },
                                .db = { b->grad } };
}

// Computes the gradients of the weights of the first decoder layer, and of the token embeddings,
// after the last step: each product runs over all rows at once.
static void weights_back(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    const struct qkv_gru_weights *w = &b->decoder[0];
    const int64_t D = r->D, row = 3 * D + r->A;
    const struct qkv_weight none = { NULL, NULL };
    const struct qkv_linear in = layer_of(D, 3 * D, &w->w_i, &w->b_i);
    const struct qkv_linear context = layer_of(2 * D, 3 * D, &b->context, &none);
    const struct qkv_linear hidden = layer_of(D, 3 * D, &w->w_h, &w->b_h);
    const struct qkv_linear query = layer_of(D, r->A, &b->query, &none);
    qkv_gru_product_backward(
        r,
        &(struct qkv_linear_rows){
            .dx = r->d_e, .dx_add = r->d_e, .dy = { r->d_input }, .lddy = { 3 * D }, .x = r->e },
        r->P, &in);
    qkv_gru_product_backward(
        r, &(struct qkv_linear_rows){ .dy = { r->d_input }, .lddy = { 3 * D }, .x = r->context },
        r->P, &context);
    qkv_gru_product_backward(
        r, &(struct qkv_linear_rows){ .dy = { r->d_hidden }, .lddy = { row }, .x = r->previous },
        r->P, &hidden);
    qkv_gru_product_backward(r,
                             &(struct qkv_linear_rows){
                                 .dy = { r->d_hidden + 3 * D }, .lddy = { row }, .x = r->previous },
                             r->P, &query);
    for (int64_t i = 0; i < r->sequences; i++)
        qkv_kernel()->add_row(b->score.grad, r->d_score + i * r->A, 1, r->A);
}

void qkv_gru_steps_backward(struct qkv_gru_run *r)
{
    const int64_t D = r->D, n = r->sequences;
    pack(&r->back_state, r->pack_back_state);
    pack(&r->back_context, r->pack_back_context);
    memset(r->state, 0, (size_t)(n * D) * sizeof *r->state);
    memset(r->d_y[0], 0, (size_t)(r->R * 2 * D) * sizeof *r->d_keys);
    memset(r->d_keys, 0, (size_t)(r->R * r->A) * sizeof *r->d_keys);
    memset(r->d_score, 0, (size_t)(n * r->A) * sizeof *r->d_score);
    for (r->t = r->to[1] - 1, r->running = 0; r->t >= 0; r->t--) {
        while (r->running < n && r->to[r->running + 1] - r->to[r->running] > r->t) r->running++;
        qkv_parallel_for_most(r->running, r->work.threads, gates_back, r);
        qkv_linear_forward((void *[]){ r->mixed }, NULL, r->added, r->running, &r->back_context,
                           NULL);
        qkv_parallel_for_most(r->running, r->work.threads, attend_back, r);
        qkv_linear_forward((void *[]){ r->state }, NULL, r->units, r->running, &r->back_state,
                           &(struct qkv_after){ .residual = r->state });
    }
    memcpy(r->d_first, r->state, (size_t)(n * D) * sizeof *r->state);
    weights_back(r);
}
