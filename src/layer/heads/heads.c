// SPDX-License-Identifier: MIT
// heads.c: computes the self-attention (or cross-attention) of a model: packed projections,
// attention, output projection, residual and norm.
//   q, k, v = x W^T + b (one pass over x),   y = norm(attention(q, k, v) W_o^T + b_o + residual)
//   k, v = memory W_kv^T + b_kv for cross-attention
//
// q, k, v and heads are stored in the type of the attention kernels, so that each product writes
// the type that the next one reads.
#include "layer/layer_internal.h"
#include "layer/attention/attention_work.h"
#include "layer/heads/heads_work.h"
#include <string.h>

// Activations of a call, in the type of the attention kernels.
struct inner {
    void *q, *k, *v, *heads;
    real *wide; // real copy of q or k for their norms, if the type is not real
    void *own;  // scratch of the attention kernels
};

// Returns the array in which the caller keeps an activation, if its type is the same; otherwise
// allocates an array in scratch.
static void *array(real *kept, bool same, struct qkv_arena *arena, int64_t R, int64_t width,
                   size_t size)
{
    if (kept && same) return kept;
    size_t row;
    if (!qkv_mul_size(&row, (size_t)width, size)) row = SIZE_MAX;
    return qkv_arena_alloc(arena, (size_t)R, row);
}

static bool place(struct inner *at, struct qkv_arena *arena, const struct qkv_heads_keep *keep,
                  int64_t R, int64_t S, const struct qkv_heads *m,
                  const struct qkv_attention_work *w)
{
    const struct qkv_heads_keep none = { 0 }, *to = keep ? keep : &none;
    const bool same = w->kernel->type == QKV_REAL;
    at->q = array(to->q, same, arena, R, m->H * m->E, w->size);
    at->k = array(to->k, same, arena, S, m->G * m->E, w->size);
    at->v = array(to->v, same, arena, S, m->G * m->F, w->size);
    at->heads = array(to->heads, same, arena, R, m->H * m->F, w->size);
    at->wide = qkv_arena_alloc(arena, qkv_heads_wide(m, w->kernel->type, R, S), sizeof(real));
    at->own = qkv_arena_alloc(arena, 1, w->scratch);
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
    if (!*status && !place(&at, &arena, NULL, a->B * a->T, a->B * a->S, m, &w))
        *status = QKV_ERR_LIMIT;
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

void qkv_narrow(void *to, qkv_dtype type, const real *from, int64_t n)
{
    char *at = to;
    if (type == QKV_REAL)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (QKV_REAL == QKV_F32)
        qkv_from_f32(to, type, (const float *)(const void *)from, n);
    else
        for (int64_t i = 0; i < n; i++) {
            const float one = (float)from[i];
            qkv_from_f32(at + (size_t)i * qkv_dtype_size(type), type, &one, 1);
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

void qkv_heads_ready(void *x, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m)
{
    const qkv_dtype type = t == QKV_REAL ? (qkv_dtype)0 : t;
    if (norm) {
        if (type) qkv_widen(wide, x, type, R * H * m->E);
        qkv_norm_kind_forward(x, type, NULL, type ? wide : x, R * H, norm, QKV_NORM_RMS);
    }
    if (m->rope) qkv_rope_apply(x, type, m->positions, R, H, m->E, m->rope);
}

// Applies output projection, residual and norm to heads[R], block by block.
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

void qkv_heads_output(real *y, const void *heads, qkv_dtype t, const real *residual,
                      const struct qkv_norm *norm, int64_t R, const struct qkv_heads *m)
{
    struct output j = { y, heads, t, residual, norm, m };
    qkv_lanes(R, output, &j);
}

qkv_status qkv_heads_forward(real *y, const struct qkv_heads_keep *keep, const real *x,
                             const real *residual, const struct qkv_norm *norm,
                             const struct qkv_heads *m, const struct qkv_attention *a,
                             void *scratch)
{
    struct qkv_attention_work w;
    qkv_status status = resolve(&w, m, a);
    if (status) return status;
    const int64_t R = a->B * a->T, S = a->B * a->S;
    const qkv_dtype type = w.kernel->type;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct inner at;
    if (!place(&at, &arena, keep, R, S, m, &w)) return QKV_ERR_LIMIT;
    if (!m->out.K && type == QKV_REAL) at.heads = y;

    const struct qkv_after after = { .y = type };
    if (m->memory) {
        qkv_linear_forward(&at.q, NULL, x, R, &m->in, &after);
        qkv_linear_forward((void *[]){ at.k, at.v }, NULL, m->memory, S, &m->kv, &after);
    } else {
        qkv_linear_forward((void *[]){ at.q, at.k, at.v }, NULL, x, R, &m->in, &after);
    }
    qkv_heads_ready(at.q, type, at.wide, R, m->H, m->norm_q, m);
    qkv_heads_ready(at.k, type, at.wide, S, m->G, m->norm_k, m);
    qkv_heads_quiet(at.q, type, a->q_offsets, a->sequences, m);
    status = qkv_attention_run(at.heads, keep ? keep->lse : NULL, keep ? keep->weights : NULL, at.q,
                               at.k, at.v, &w, at.own);
    if (status) return status;
    qkv_heads_replace(at.heads, type, a->q_offsets, a->sequences, m, NULL);
    if (keep) {
        qkv_widen(keep->q, at.q, type, R * m->H * m->E);
        qkv_widen(keep->k, at.k, type, S * m->G * m->E);
        qkv_widen(keep->v, at.v, type, S * m->G * m->F);
        qkv_widen(keep->heads, at.heads, type, R * m->H * m->F);
    }
    if (m->out.K) {
        qkv_heads_output(y, at.heads, type, residual, norm, R, m);
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
