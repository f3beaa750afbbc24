// SPDX-License-Identifier: MIT
// heads.c: self-attention as a model has it: packed projections, the operator, output,
// residual, norm.
//   q, k, v = x W^T + b (one pass over x),   y = norm(attention(q, k, v) W_o^T + b_o + residual)
#include "layer/attention_work.h"
#include "layer/layer.h"

// What lives in scratch: those of q, k, v, heads that nobody keeps, then the operator's own.
static bool place(struct qkv_heads_keep *at, void **own, struct qkv_arena *arena,
                  const struct qkv_heads_keep *keep, int64_t R, const struct qkv_heads *m,
                  size_t operator)
{
    if (keep) *at = *keep;
    const size_t rows = (size_t)R;
    if (!at->q) at->q = qkv_arena_take(arena, rows, (size_t)(m->H * m->E) * sizeof(real));
    if (!at->k) at->k = qkv_arena_take(arena, rows, (size_t)(m->G * m->E) * sizeof(real));
    if (!at->v) at->v = qkv_arena_take(arena, rows, (size_t)(m->G * m->F) * sizeof(real));
    if (!at->heads) at->heads = qkv_arena_take(arena, rows, (size_t)(m->H * m->F) * sizeof(real));
    *own = qkv_arena_take(arena, 1, operator);
    return !qkv_arena_full(arena);
}

static qkv_status resolve(struct qkv_attention_work *w, const struct qkv_heads *m,
                          const struct qkv_attention *a)
{
    struct qkv_attention whole = *a;
    whole.H = m->H;
    whole.G = m->G;
    whole.E = m->E;
    whole.F = m->F;
    const struct qkv_strides natural = { 0, 0, 0 };
    whole.q_strides = whole.k_strides = whole.v_strides = whole.out_strides = natural;
    return qkv_attention_resolve(w, qkv_attention_family(&whole), &whole, NULL, 0);
}

size_t qkv_heads_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                         qkv_status *status)
{
    struct qkv_attention_work w;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    struct qkv_heads_keep at = { 0 };
    void *own;
    *status = resolve(&w, m, a);
    if (!*status && !place(&at, &own, &arena, NULL, a->B * a->T, m, w.scratch))
        *status = QKV_ERR_LIMIT;
    return *status ? SIZE_MAX : arena.used;
}

qkv_status qkv_heads_forward(real *y, const struct qkv_heads_keep *keep, const real *x,
                             const real *residual, const struct qkv_norm *norm,
                             const struct qkv_heads *m, const struct qkv_attention *a,
                             void *scratch)
{
    struct qkv_attention_work w;
    qkv_status status = resolve(&w, m, a);
    if (status) return status;
    const int64_t R = a->B * a->T;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct qkv_heads_keep at = { 0 };
    void *own;
    if (!place(&at, &own, &arena, keep, R, m, w.scratch)) return QKV_ERR_LIMIT;
    if (!m->out.K) at.heads = y;

    qkv_linear_forward((void *[]){ at.q, at.k, at.v }, NULL, x, R, &m->in, NULL);
    status = qkv_attention_run(at.heads, at.lse, at.weights, at.q, at.k, at.v, &w, own);
    if (status) return status;
    if (m->out.K)
        qkv_linear_forward((void *[]){ y }, NULL, at.heads, R, &m->out,
                           &(struct qkv_after){ .residual = residual });
    if (norm) qkv_norm_forward(y, NULL, NULL, y, NULL, R, norm);
    return QKV_OK;
}
