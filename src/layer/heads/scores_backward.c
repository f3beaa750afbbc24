// SPDX-License-Identifier: MIT
// scores_backward.c: computes the gradients through bilinear and additive scores (scores.c).
//   bilinear:  from d, the gradient of q W_s:  dq = d W_s^T,  dW_s += q^T d
//   additive:  from d_q, d_w and d_k, the gradients of W_q q, w and W_k k of each query head:
//              dq = d_q W_q,  dW_q += d_q^T q,  dk += d_k W_k,  dW_k += d_k^T k,  dw += d_w
#include "layer/heads/heads_work.h"
#include <string.h>

// The arrays of backward of one head's product y = x w^T.
struct head_product {
    void *dx;
    const real *dx_add;
    real *dw;
    const void *dy, *x;
    int64_t R, N, ldx, lddy;
    const real *w;
    bool transposed;
};

static void back(const struct head_product *p, qkv_dtype t, const struct qkv_heads *m)
{
    const struct qkv_linear_once *once = m->scores->once;
    const struct qkv_linear_part part = { p->N, p->w, NULL, p->transposed };
    const struct qkv_linear_back how = { .precision = once->precision,
                                         .threads = once->threads,
                                         .scratch = once->scratch,
                                         .x = t,
                                         .y = t,
                                         .dx_add = p->dx_add,
                                         .ldx = p->ldx,
                                         .lddy = p->lddy };
    qkv_linear_once_backward(p->dx, p->dw, NULL, p->dy, p->x, p->R, m->E, &part, &how);
}

static void bilinear(const struct qkv_heads_arrays *d, const char *dscore, const char *q,
                     qkv_dtype t, int64_t R, const struct qkv_heads *m)
{
    const struct qkv_scores *c = m->scores;
    const int64_t E = m->E, ld = m->H * E;
    const size_t head = (size_t)E * qkv_dtype_size(t);
    for (int64_t h = 0; h < m->H; h++)
        back(&(struct head_product){ .dx = (char *)d->q + (size_t)h * head,
                                     .dw = c->dw_s ? c->dw_s + h * E * E : NULL,
                                     .dy = dscore + (size_t)h * head,
                                     .x = q + (size_t)h * head,
                                     .R = R,
                                     .N = E,
                                     .ldx = ld,
                                     .lddy = ld,
                                     .w = c->w_s + h * E * E,
                                     .transposed = true },
             t, m);
}

static void additive(const struct qkv_heads_arrays *d, const struct qkv_score_arrays *from,
                     const real *q, const real *k, int64_t R, int64_t S, const struct qkv_heads *m)
{
    const struct qkv_scores *c = m->scores;
    const int64_t a = c->d_a, E = m->E, ld = m->H * 2 * a, shared = m->H / m->G;
    for (int64_t h = 0; h < m->H; h++) {
        const int64_t at = h * a * E;
        const real *du = (const real *)from->q + h * 2 * a;
        real *dk = (real *)d->k + h / shared * E;
        back(&(struct head_product){ .dx = (real *)d->q + h * E,
                                     .dw = c->dw_aq ? c->dw_aq + at : NULL,
                                     .dy = du,
                                     .x = q + h * E,
                                     .R = R,
                                     .N = a,
                                     .ldx = m->H * E,
                                     .lddy = ld,
                                     .w = c->w_aq + at },
             QKV_REAL, m);
        back(&(struct head_product){ .dx = dk,
                                     .dx_add = h % shared ? dk : NULL,
                                     .dw = c->dw_ak ? c->dw_ak + at : NULL,
                                     .dy = (const real *)from->k + h * from->key_width,
                                     .x = k + h / shared * E,
                                     .R = S,
                                     .N = a,
                                     .ldx = m->G * E,
                                     .lddy = m->H * from->key_width,
                                     .w = c->w_ak + at },
             QKV_REAL, m);
        for (int64_t r = 0; r < R && c->dw_a; r++)
            qkv_kernel()->add_row(c->dw_a + h * a, du + r * ld + a, 1, a);
    }
}

void qkv_score_backward(const struct qkv_heads_arrays *d, const struct qkv_score_arrays *from,
                        const void *q, const void *k, qkv_dtype t, int64_t R, int64_t S,
                        const struct qkv_heads *m)
{
    const int64_t shared = m->H / m->G, F = m->F;
    if (!qkv_heads_additive(m)) {
        bilinear(d, from->q, q, t, R, m);
        return;
    }
    additive(d, from, q, k, R, S, m);
    if (!from->v) return;
    memset(d->v, 0, (size_t)(S * m->G * F) * sizeof(real));
    for (int64_t r = 0; r < S; r++)
        for (int64_t h = 0; h < m->H; h++)
            qkv_kernel()->add_row((real *)d->v + (r * m->G + h / shared) * F,
                                  (const real *)from->v + (r * m->H + h) * F, 1, F);
}
