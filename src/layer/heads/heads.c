// SPDX-License-Identifier: MIT
// heads.c: computes the self-attention (or cross-attention) of a model: projections, attention,
// output projection, residual and norm.
//   q, k, v = x W^T + b (one pass over x),   y = norm(attention(q, k, v) W_o^T + b_o + residual)
//   k, v = memory W_kv^T + b_kv for cross-attention
//
// q, k, v and the outputs of the heads are stored in the type of the attention kernels, so that no
// product converts its input. With a tape they are the arrays of the tape. In a trained model q, k
// and v are columns of one row there, since backward of one product is faster than backward of
// three.
#include "layer/heads/heads_work.h"
#include <string.h>

// Activations of a call, in the type of the attention kernels.
struct inner {
    struct qkv_heads_arrays at;
    void *q, *k; // q and k after norm and rotation
    void *heads;
    struct qkv_score_arrays scores;
    real *wide; // real copy of q or k for their norms
    void *own;  // scratch of the attention kernels
};

// Returns `kept`, the caller's array for an activation, if it exists and has the type of the
// attention kernels (same); otherwise allocates an array in scratch.
static void *array(real *kept, bool same, struct qkv_arena *arena, int64_t R, int64_t width,
                   size_t size)
{
    return kept && same ? kept : qkv_arena_rows(arena, R, width, size);
}

// Returns true if attention reads the input of a projection in place of its result: the projection
// is not packed and has no weights, and neither a norm nor a rotation changes the result.
static bool missing(const struct qkv_linear *l, int part, const struct qkv_heads *m)
{
    return l->once && !l->part[part].w && !m->rope && !qkv_heads_normed(m);
}

static bool place(struct inner *in, struct qkv_arena *arena, const struct qkv_heads_keep *keep,
                  int64_t R, int64_t S, const struct qkv_heads *m,
                  const struct qkv_attention_work *w)
{
    const struct qkv_heads_keep none = { 0 }, *to = keep ? keep : &none;
    *in = (struct inner){ 0 };
    const bool same = w->kernel->type == QKV_REAL;
    struct qkv_heads_arrays *at = &in->at;
    *at =
        (struct qkv_heads_arrays){ .q_ld = m->H * m->E, .k_ld = m->G * m->E, .v_ld = m->G * m->F };
    const struct qkv_linear *kv = m->kv.K ? &m->kv : &m->in;
    const int k = m->kv.K ? 0 : 1;
    // Only q, k and v that are computed need an array; the others are read from the input. The
    // outputs of the heads need an array unless they are the output of the call.
    if (!same || to->q || !missing(&m->in, 0, m))
        at->q = array(to->q, same, arena, R, at->q_ld, w->size);
    if (!same || to->k || !missing(kv, k, m))
        at->k = array(to->k, same, arena, S, at->k_ld, w->size);
    if (!same || to->v || !missing(kv, k + 1, m))
        at->v = array(to->v, same, arena, S, at->v_ld, w->size);
    if (!same || to->heads || m->out.K)
        in->heads = array(to->heads, same, arena, R, m->H * m->F, w->size);
    in->wide = qkv_arena_alloc(arena, qkv_heads_wide(m, w->kernel->type, R, S), sizeof(real));
    if (m->scores) qkv_score_take(&in->scores, arena, m, R, S, w->size, m->G > 1 && m->G < m->H);
    in->own = qkv_arena_alloc(arena, 1, w->scratch);
    return !qkv_arena_full(arena);
}

struct qkv_heads_arrays qkv_heads_joined(void *in, void *kv, qkv_dtype t, const struct qkv_heads *m)
{
    const int64_t q = m->H * m->E, k = m->G * m->E, v = m->G * m->F;
    const int64_t q_ld = m->kv.K ? q : q + k + v, kv_ld = m->kv.K ? k + v : q_ld;
    const size_t size = qkv_dtype_size(t);
    struct qkv_heads_arrays at = { .q = in, .q_ld = q_ld, .k_ld = kv_ld, .v_ld = kv_ld };
    at.k = m->kv.K ? kv : in ? (char *)in + (size_t)q * size : NULL;
    if (at.k) at.v = (char *)at.k + (size_t)k * size;
    return at;
}

// Returns the arrays of a call with a tape.
static struct inner place_tape(const struct qkv_heads_tape *tape, void *scratch,
                               const struct qkv_heads *m)
{
    const bool normed = qkv_heads_normed(m);
    return (struct inner){ .at = tape->at,
                           .q = normed ? tape->q : tape->at.q,
                           .k = normed ? tape->k : tape->at.k,
                           .heads = tape->heads,
                           .wide = tape->wide,
                           .own = scratch };
}

struct qkv_attention qkv_heads_attention(const struct qkv_heads *m, const struct qkv_attention *a,
                                         const struct qkv_heads_arrays *at)
{
    struct qkv_attention whole = *a;
    const struct qkv_strides natural = { 0, 0, 0 };
    whole.H = m->H;
    whole.G = m->G;
    whole.E = m->E;
    whole.F = m->F;
    whole.q_strides = whole.k_strides = whole.v_strides = whole.out_strides = natural;
    if (!at) return whole;
    const bool normed = qkv_heads_normed(m);
    const int64_t q_ld = normed ? m->H * m->E : at->q_ld, k_ld = normed ? m->G * m->E : at->k_ld;
    whole.q_strides = (struct qkv_strides){ a->T * q_ld, q_ld, m->E };
    whole.k_strides = (struct qkv_strides){ a->S * k_ld, k_ld, m->E };
    whole.v_strides = (struct qkv_strides){ a->S * at->v_ld, at->v_ld, m->F };
    return whole;
}

qkv_status qkv_heads_resolve(struct qkv_attention_work *w, const struct qkv_heads *m,
                             const struct qkv_attention *a, const struct qkv_heads_arrays *at,
                             char *reason, size_t size)
{
    struct qkv_attention whole = qkv_heads_attention(m, a, at);
    const struct qkv_attention_kernels *kernel = qkv_attention_kernel_table(&whole);
    if (m->scores && whole.scale == 0) whole.scale = 1;
    if (kernel && qkv_heads_additive(m)) {
        const qkv_status status = qkv_score_shape(&whole, m);
        if (status) return status;
        kernel = qkv_kernel()->additive;
    }
    return qkv_attention_resolve(w, kernel, &whole, reason, size);
}

size_t qkv_heads_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                         qkv_status *status)
{
    struct qkv_attention_work w;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    struct inner in;
    *status = qkv_heads_resolve(&w, m, a, NULL, NULL, 0);
    if (!*status && !place(&in, &arena, NULL, a->B * a->T, a->B * a->S, m, &w))
        *status = QKV_ERR_LIMIT;
    return *status ? SIZE_MAX : arena.used;
}

// ---- the steps of a call -----------------------------------------------------------------------
void qkv_heads_ready(void *to, void *x, int64_t ld, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m)
{
    const qkv_dtype type = t == QKV_REAL ? (qkv_dtype)0 : t;
    const int64_t width = H * m->E;
    const bool apart = to != x;
    if (norm) {
        const bool copied = type || apart;
        if (copied) qkv_copy_rows(wide, QKV_REAL, width, x, t, ld, width, R);
        qkv_norm_kind_forward(to, type, NULL, copied ? wide : x, R * width / norm->D, norm,
                              QKV_NORM_RMS);
    } else if (apart) {
        qkv_copy_rows(to, t, width, x, t, ld, width, R);
    }
    if (!m->rope) return;
    struct qkv_rope rope = *m->rope;
    rope.ldx = apart ? 0 : ld;
    qkv_rope_apply(to, type, m->positions, R, H, m->E, &rope);
}

// A call of the output projection with residual and norm; it runs one block of rows after the
// other.
struct output {
    const struct qkv_sublayer_rows *rows;
    const char *heads;
    qkv_dtype type;
    const struct qkv_heads *m;
};

static void output(void *ctx, int64_t r, int64_t rows, int lane)
{
    const struct output *j = ctx;
    const int64_t K = j->m->out.K, D = j->m->out.part[0].N;
    const struct qkv_norm *norm = j->rows->norm;
    const real *residual = j->rows->residual;
    const qkv_dtype y_type = j->rows->y_type ? j->rows->y_type : QKV_REAL;
    char *y = (char *)j->rows->y + (size_t)(r * D) * qkv_dtype_size(y_type);
    (void)lane;
    qkv_linear_forward((void *[]){ y }, NULL, j->heads + (size_t)(r * K) * qkv_dtype_size(j->type),
                       rows, &j->m->out,
                       &(struct qkv_after){ .x = j->type,
                                            .y = j->rows->y_type,
                                            .residual = residual ? residual + r * D : NULL });
    if (norm) qkv_norm_forward((real *)(void *)y, NULL, NULL, (real *)(void *)y, NULL, rows, norm);
}

void qkv_heads_output(const struct qkv_sublayer_rows *rows, const void *heads, qkv_dtype t,
                      int64_t R, const struct qkv_heads *m)
{
    struct output j = { rows, heads, t, m };
    if (m->out.packed)
        qkv_lanes(R, output, &j);
    else
        output(&j, 0, R, 0);
}

void qkv_heads_out(const struct qkv_sublayer_rows *rows, const struct qkv_heads_tape *tape,
                   int64_t R, const struct qkv_heads *m, const struct qkv_attention *a)
{
    qkv_heads_output(rows, tape->heads, qkv_attention_kernel_table(a)->type, R, m);
}

// Computes q, k and v with their norms and rotation.
static void project(struct inner *in, const struct qkv_sublayer_rows *rows, qkv_dtype type,
                    const struct qkv_heads *m, int64_t R, int64_t S)
{
    struct qkv_heads_arrays *at = &in->at;
    const int64_t ld[] = { at->q_ld, at->k_ld, at->v_ld };
    const void *keys = m->kv.K ? m->memory : rows->x;
    if (!at->q) at->q = (void *)rows->x; // place gave it no array: it is only read
    if (!at->k) at->k = (void *)keys;
    if (!at->v) at->v = (void *)keys;
    if (!in->q) in->q = at->q;
    if (!in->k) in->k = at->k;
    qkv_linear_forward((void *[]){ at->q, at->k, at->v }, ld, rows->x, R, &m->in,
                       &(struct qkv_after){ .x = rows->x_type, .y = type });
    if (m->kv.K)
        qkv_linear_forward((void *[]){ at->k, at->v }, ld + 1, m->memory, S, &m->kv,
                           &(struct qkv_after){ .y = type });
    qkv_heads_ready(in->q, at->q, at->q_ld, type, in->wide, R, m->H, m->norm_q, m);
    qkv_heads_ready(in->k, at->k, at->k_ld, type, in->wide, S, m->G, m->norm_k, m);
}

qkv_status qkv_heads_forward(const struct qkv_sublayer_rows *rows,
                             const struct qkv_heads_keep *keep, const struct qkv_heads_tape *tape,
                             const struct qkv_heads *m, const struct qkv_attention *a,
                             void *scratch)
{
    const struct qkv_heads_keep none = { 0 };
    struct qkv_attention_work w;
    qkv_status status = qkv_heads_resolve(&w, m, a, tape ? &tape->at : NULL, NULL, 0);
    if (status) return status;
    const int64_t R = qkv_heads_rows(m, a), S = m->ranks ? R : a->B * a->S, width = m->H * m->F;
    const qkv_dtype type = w.kernel->type;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct inner in;
    if (!keep) keep = &none;
    if (tape)
        in = place_tape(tape, scratch, m);
    else if (!place(&in, &arena, keep, R, S, m, &w))
        return QKV_ERR_LIMIT;
    if (!in.heads) in.heads = rows->y;

    project(&in, rows, type, m, R, S);
    qkv_heads_quiet(in.q, type, a->q_offsets, a->sequences, m);
    const struct qkv_score_arrays *scores = &in.scores;
    if (m->scores) qkv_score_fill(scores, in.q, in.k, in.at.v, type, R, S, m);
    if (m->ranks) {
        const struct qkv_heads_ranks_rows x =
            qkv_heads_ranks_of(&tape->at, in.q, in.k, in.heads, m);
        status = qkv_heads_ranks_forward(&x, tape->lse, m, a, in.own);
    } else {
        status = qkv_attention_run(in.heads, tape ? tape->lse : keep->lse, keep->weights,
                                   scores->q ? scores->q : in.q, scores->k ? scores->k : in.k,
                                   scores->v ? scores->v : in.at.v, &w, in.own);
    }
    if (status) return status;
    qkv_heads_replace(in.heads, type, a->q_offsets, a->sequences, m, NULL);
    qkv_widen(keep->q, in.q, type, R * m->H * m->E);
    qkv_widen(keep->k, in.k, type, S * m->G * m->E);
    qkv_widen(keep->v, in.at.v, type, S * m->G * m->F);
    qkv_widen(keep->heads, in.heads, type, R * width);
    if (!rows->y) return QKV_OK;
    if (m->out.K) {
        qkv_heads_output(rows, in.heads, type, R, m);
    } else {
        if (in.heads != rows->y)
            qkv_copy_rows(rows->y, QKV_REAL, width, in.heads, type, width, width, R);
        if (rows->norm) qkv_norm_forward(rows->y, NULL, NULL, rows->y, NULL, R, rows->norm);
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
