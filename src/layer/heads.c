// SPDX-License-Identifier: MIT
// heads.c: self-attention as a model has it: packed projections, the operator, output,
// residual, norm.
//   q, k, v = x W^T + b (one pass over x),   y = norm(attention(q, k, v) W_o^T + b_o + residual)
//
// q, k, v and heads are stored as the operator's precision stores them: a product writes what the
// next reads.
#include "layer/attention_work.h"
#include "layer/layer.h"
#include <string.h>

// q, k, v, heads of a call, of the operator's type.
struct inner {
    void *q, *k, *v, *heads;
    void *own; // scratch of the operator
};

// Where somebody keeps an array and the types agree, it is written there; else it lives in scratch.
static void *array(real *kept, bool same, struct qkv_arena *arena, int64_t R, int64_t width,
                   size_t size)
{
    if (kept && same) return kept;
    size_t row;
    if (!qkv_mul_size(&row, (size_t)width, size)) row = SIZE_MAX;
    return qkv_arena_take(arena, (size_t)R, row);
}

static bool place(struct inner *at, struct qkv_arena *arena, const struct qkv_heads_keep *keep,
                  int64_t R, const struct qkv_heads *m, const struct qkv_attention_work *w)
{
    const struct qkv_heads_keep none = { 0 }, *to = keep ? keep : &none;
    const bool same = w->kernel->type == QKV_REAL;
    at->q = array(to->q, same, arena, R, m->H * m->E, w->size);
    at->k = array(to->k, same, arena, R, m->G * m->E, w->size);
    at->v = array(to->v, same, arena, R, m->G * m->F, w->size);
    at->heads = array(to->heads, same, arena, R, m->H * m->F, w->size);
    at->own = qkv_arena_take(arena, 1, w->scratch);
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
    struct inner at;
    *status = resolve(&w, m, a);
    if (!*status && !place(&at, &arena, NULL, a->B * a->T, m, &w)) *status = QKV_ERR_LIMIT;
    return *status ? SIZE_MAX : arena.used;
}

void qkv_widen(real *to, const void *from, qkv_dtype type, int64_t n)
{
    enum { BLOCK = 256 };
    float some[BLOCK];
    const char *p = from;
    if (!to || type == QKV_REAL) return;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t now = qkv_min64(n - at, BLOCK);
        qkv_to_f32(some, p + (size_t)at * qkv_dtype_size(type), type, now);
        for (int64_t i = 0; i < now; i++) to[at + i] = (real)some[i];
    }
}

real qkv_real_at(const void *at, qkv_dtype type)
{
    real whole;
    float one;
    if (type == QKV_REAL) return memcpy(&whole, at, sizeof whole), whole;
    qkv_to_f32(&one, at, type, 1);
    return (real)one;
}

// heads[R] through the output projection, residual and norm, block by block.
struct output {
    real *y;
    const char *heads;
    qkv_dtype type;
    const real *residual;
    const struct qkv_norm *norm;
    const struct qkv_heads *m;
};

static void output(void *ctx, int64_t r, int64_t rows, int lane)
{
    const struct output *j = ctx;
    const int64_t K = j->m->out.K, D = j->m->out.part[0].N;
    real *y = j->y + r * D;
    (void)lane;
    qkv_linear_forward(
        (void *[]){ y }, NULL, j->heads + (size_t)(r * K) * qkv_dtype_size(j->type), rows,
        &j->m->out,
        &(struct qkv_after){ .x = j->type, .residual = j->residual ? j->residual + r * D : NULL });
    if (j->norm) qkv_norm_forward(y, NULL, NULL, y, NULL, rows, j->norm);
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
    const qkv_dtype type = w.kernel->type;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct inner at;
    if (!place(&at, &arena, keep, R, m, &w)) return QKV_ERR_LIMIT;
    if (!m->out.K && type == QKV_REAL) at.heads = y;

    qkv_linear_forward((void *[]){ at.q, at.k, at.v }, NULL, x, R, &m->in,
                       &(struct qkv_after){ .y = type });
    if (m->rope) {
        const qkv_dtype turned = type == QKV_REAL ? (qkv_dtype)0 : type;
        qkv_rope_apply(at.q, turned, m->positions, R, m->H, m->E, m->rope);
        qkv_rope_apply(at.k, turned, m->positions, R, m->G, m->E, m->rope);
    }
    status = qkv_attention_run(at.heads, keep ? keep->lse : NULL, keep ? keep->weights : NULL, at.q,
                               at.k, at.v, &w, at.own);
    if (status) return status;
    if (keep) {
        qkv_widen(keep->q, at.q, type, R * m->H * m->E);
        qkv_widen(keep->k, at.k, type, R * m->G * m->E);
        qkv_widen(keep->v, at.v, type, R * m->G * m->F);
        qkv_widen(keep->heads, at.heads, type, R * m->H * m->F);
    }
    struct output j = { y, at.heads, type, residual, norm, m };
    if (m->out.K) {
        qkv_lanes(R, output, &j);
    } else {
        qkv_widen(y, at.heads, type, R * m->H * m->F);
        if (norm) qkv_norm_forward(y, NULL, NULL, y, NULL, R, norm);
    }
    return QKV_OK;
}

bool qkv_precision_runs(qkv_precision p)
{
    if ((int)p < 0 || (int)p >= QKV_PRECISIONS) return false;
    const struct qkv_kernels *k = qkv_kernel();
    return k->linear[p] && k->attention[qkv_precision_attention(p)];
}

const char *qkv_linear_arithmetic(qkv_precision p)
{
    return qkv_precision_runs(p) ? qkv_kernel()->linear[p]->arithmetic : "";
}
