// SPDX-License-Identifier: MIT
// scores.c: computes the inputs of attention for bilinear and additive scores. The attention
// kernels then run on these inputs, so that masks have the same meaning for every score and memory
// does not grow with T*S.
//   bilinear:  s = (q W_s).k                  inputs: q W_s and k, for the dot-product kernels
//   additive:  s = w . tanh(W_q q + W_k k)    inputs: W_q q, w and W_k k, for the additive kernels
//
// Luong et al. 2015 (arXiv 1508.04025), Bahdanau et al. 2015 (arXiv 1409.0473).
#include "layer/heads/heads_work.h"
#include <string.h>

bool qkv_score_additive(qkv_precision p)
{
    switch (p) {
    case QKV_PRECISION_F32:
    case QKV_PRECISION_F32_STRICT:
    case QKV_PRECISION_F32_FAST: return true;
    case QKV_PRECISION_BF16:
    case QKV_PRECISION_F16:
    case QKV_PRECISION_INT8: break;
    }
    return false;
}

qkv_status qkv_score_shape(struct qkv_attention *a, const struct qkv_heads *m)
{
    const int64_t d = m->scores->d_a;
    if (!qkv_score_additive(a->precision)) return QKV_ERR_UNSUPPORTED;
    // Each query head multiplies the keys by a matrix of its own, so it has its own keys. The
    // values of a single value head are shared by a stride of 0; the values of several value heads
    // are repeated by qkv_score_fill.
    a->E = 2 * d;
    a->G = m->H;
    a->k_strides = (struct qkv_strides){ 0, m->H * d, d };
    if (__builtin_mul_overflow(a->S, a->k_strides.t, &a->k_strides.b)) return QKV_ERR_LIMIT;
    if (m->G > 1) return QKV_OK;
    a->v_strides = (struct qkv_strides){ 0, m->F, 0 };
    return __builtin_mul_overflow(a->S, m->F, &a->v_strides.b) ? QKV_ERR_LIMIT : QKV_OK;
}

void qkv_score_take(struct qkv_score_arrays *s, struct qkv_arena *arena, const struct qkv_heads *m,
                    int64_t R, int64_t S, size_t size, bool repeated)
{
    const bool additive = qkv_heads_additive(m);
    const int64_t d = m->scores->d_a;
    if (!s->key_width) s->key_width = d;
    s->q = qkv_arena_rows(arena, R, m->H * (additive ? 2 * d : m->E), size);
    // One more key: attention checks keys as if they were as wide as queries, 2 d_a, but in forward
    // a key has d_a numbers.
    s->k = additive ? qkv_arena_rows(arena, S * m->H + 1, s->key_width, size) : NULL;
    s->v = additive && repeated ? qkv_arena_rows(arena, S, m->H * m->F, size) : NULL;
}

size_t qkv_score_scratch(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S, bool back)
{
    const bool additive = qkv_heads_additive(m);
    const real any = 0;
    const struct qkv_linear l = {
        .K = m->E,
        .parts = 1,
        .part = { { .N = additive ? m->scores->d_a : m->E, .w = &any } },
        .once = m->scores->once,
    };
    return qkv_linear_train_scratch(&l, t, additive ? qkv_max64(R, S) : R, back);
}

static void fill_bilinear(const struct qkv_score_arrays *s, const char *q, qkv_dtype t, int64_t R,
                          const struct qkv_heads *m)
{
    const int64_t E = m->E, ld = m->H * E;
    const size_t head = (size_t)E * qkv_dtype_size(t);
    const struct qkv_after types = { .x = t, .y = t };
    for (int64_t h = 0; h < m->H; h++) {
        const struct qkv_linear_part part = { E, m->scores->w_s + h * E * E, NULL, true };
        qkv_linear_once((char *)s->q + (size_t)h * head, ld, q + (size_t)h * head, ld, R, E, &part,
                        &types, m->scores->once);
    }
}

static void fill_additive(const struct qkv_score_arrays *s, const real *q, const real *k, int64_t R,
                          int64_t S, const struct qkv_heads *m)
{
    const struct qkv_scores *c = m->scores;
    const int64_t d = c->d_a, E = m->E, ldq = m->H * 2 * d, shared = m->H / m->G;
    for (int64_t h = 0; h < m->H; h++) {
        const struct qkv_linear_part wq = { d, c->w_aq + h * d * E, NULL, false };
        const struct qkv_linear_part wk = { d, c->w_ak + h * d * E, NULL, false };
        real *u = (real *)s->q + h * 2 * d;
        qkv_linear_once(u, ldq, q + h * E, m->H * E, R, E, &wq, NULL, c->once);
        for (int64_t r = 0; r < R; r++)
            memcpy(u + r * ldq + d, c->w_a + h * d, (size_t)d * sizeof *u);
        qkv_linear_once((real *)s->k + h * s->key_width, m->H * s->key_width, k + h / shared * E,
                        m->G * E, S, E, &wk, NULL, c->once);
    }
}

void qkv_score_fill(const struct qkv_score_arrays *s, const void *q, const void *k, const void *v,
                    qkv_dtype t, int64_t R, int64_t S, const struct qkv_heads *m)
{
    const int64_t shared = m->H / m->G, F = m->F;
    if (!qkv_heads_additive(m)) {
        fill_bilinear(s, q, t, R, m);
        return;
    }
    fill_additive(s, q, k, R, S, m);
    for (int64_t r = 0; r < S && s->v; r++)
        for (int64_t h = 0; h < m->H; h++)
            memcpy((real *)s->v + (r * m->H + h) * F, (const real *)v + (r * m->G + h / shared) * F,
                   (size_t)F * sizeof(real));
}
