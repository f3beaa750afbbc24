// SPDX-License-Identifier: MIT
// net_part.c: one part of a stack, forward and backward: attention or feed-forward with its norms,
// dropout and residual.
//
//   sum = x + drop(f(norm_in(x))),   value = norm_out(sum)
#include "model/net_body.h"
#include <string.h>

// ---- products, norms, dropout ------------------------------------------------------------------
static struct qkv_linear_part part_of(const struct qkv_net_linear *l)
{
    return (struct qkv_linear_part){ .N = l->N, .w = l->w.value, .b = l->b.value };
}

void qkv_net_product(struct qkv_net_flow *f, void *y, qkv_dtype y_type, const void *x,
                     qkv_dtype x_type, int64_t R, const struct qkv_net_linear *l,
                     const real *residual)
{
    const struct qkv_linear_part part = part_of(l);
    const struct qkv_after after = { .x = x_type, .y = y_type, .residual = residual };
    const struct qkv_linear_once how = { .precision = f->n->options.precision,
                                         .threads = f->threads,
                                         .scratch = f->scratch };
    qkv_linear_once(y, l->N, x, l->K, R, l->K, &part, &after, &how);
}

static struct qkv_linear_back back_of(const struct qkv_net_flow *f)
{
    return (struct qkv_linear_back){ .precision = f->n->options.precision,
                                     .threads = f->threads,
                                     .scratch = f->scratch };
}

void qkv_net_product_backward(struct qkv_net_flow *f, const struct qkv_net_product_back *a,
                              int64_t R, const struct qkv_net_linear *l)
{
    const struct qkv_linear_part part = part_of(l);
    struct qkv_linear_back how = back_of(f);
    how.x = a->x_type;
    how.y = a->dy_type;
    how.dx_real = a->dx_real;
    how.dx_add = a->dx_add;
    qkv_linear_once_backward(a->dx, l->w.grad, l->b.grad, a->dy, a->x, R, l->K, &part, &how);
}

size_t qkv_net_product_scratch(const struct qkv_net_flow *f, int64_t R,
                               const struct qkv_net_linear *l, bool back)
{
    const struct qkv_linear_once once = { .precision = f->n->options.precision,
                                          .threads = f->threads };
    size_t most = qkv_linear_once_scratch(&once, l->K, l->N);
    // What backward needs may hang on the types of its arrays: the largest counts.
    const qkv_dtype types[] = { (qkv_dtype)0, f->type };
    for (int i = 0; back && i < 4; i++) {
        struct qkv_linear_back how = back_of(f);
        how.x = types[i & 1];
        how.y = types[i >> 1];
        const size_t bytes = qkv_linear_once_backward_scratch(&how, R, l->K, l->N);
        if (bytes > most) most = bytes;
    }
    return most;
}

struct qkv_norm qkv_net_norm_of(const struct qkv_net_norm *l)
{
    return (struct qkv_norm){ .D = l->D, .w = l->w.value, .b = l->b.value, .eps = l->eps };
}

// Streams of a step: 20 bits of places, the rest counts steps.
struct qkv_dropout qkv_net_dropout(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                                   int64_t place)
{
    const uint64_t side = s == &f->decoder;
    return (struct qkv_dropout){ .p = f->drops ? f->n->options.dropout : 0,
                                 .seed = f->seed,
                                 .site = f->step << 20 | side << 19 | (uint64_t)place };
}

// ---- attention ---------------------------------------------------------------------------------
struct qkv_attention qkv_net_attention_of(const struct qkv_net_flow *f,
                                          const struct qkv_net_side *s, int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    const struct qkv_description *d = &f->n->is;
    const int64_t E = qkv_head_keys(d), F = qkv_head_values(d);
    const bool cross = p->kind == QKV_NET_CROSS;
    const struct qkv_net_side *other = cross ? &f->encoder : s;
    const int64_t q_row = p->first.N, k_row = cross ? p->memory.N : q_row;
    struct qkv_attention a = {
        .B = 1,
        .T = s->R,
        .S = other->R,
        .H = d->size.heads,
        .G = d->size.kv_heads,
        .E = E,
        .F = F,
        .precision = qkv_precision_attention(f->n->options.precision),
        .causal = s->stack->causal && !cross,
        .sequences = s->in->n,
        .q_offsets = s->in->offsets,
        .k_offsets = other->in->offsets,
        .q_strides = { s->R * q_row, q_row, E },
        .k_strides = { other->R * k_row, k_row, E },
        .v_strides = { other->R * k_row, k_row, F },
    };
    if (f->drops) {
        const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4 + 1);
        a.dropout.p = (float)drop.p;
        a.dropout.seed = drop.seed;
        a.dropout.site = drop.site;
    }
    return a;
}

// The numbers before k and v in a row of `first` (self) or `memory` (cross).
static int64_t key_at(const struct qkv_net_flow *f, const struct qkv_net_part *p)
{
    return p->kind == QKV_NET_CROSS ? 0 : f->n->is.size.heads * qkv_head_keys(&f->n->is);
}

struct qkv_net_attention_arrays qkv_net_attention_at(const struct qkv_net_flow *f,
                                                     const struct qkv_net_part *p,
                                                     const void *first, const void *memory)
{
    const char *k = p->kind == QKV_NET_CROSS ? memory : first;
    k += (size_t)key_at(f, p) * f->bytes;
    const int64_t keys = f->n->is.size.kv_heads * qkv_head_keys(&f->n->is);
    return (struct qkv_net_attention_arrays){ first, k, k + (size_t)keys * f->bytes };
}

// The query and key heads of a row lie side by side.
void qkv_net_rotate(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                    const struct qkv_net_part *p, void *first, bool backward)
{
    const struct qkv_description *d = &f->n->is;
    if (d->position != QKV_POSITION_ROTARY || p->kind != QKV_NET_SELF) return;
    const struct qkv_rope rope = {
        .theta = (real)d->theta, .backward = backward, .table = f->body->table, .ldx = p->first.N
    };
    qkv_rope_apply(first, f->type, s->positions, s->R, d->size.heads + d->size.kv_heads,
                   qkv_head_keys(d), &rope);
}

static qkv_status attend(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    qkv_net_rotate(f, s, p, k->first, false);
    if (p->kind == QKV_NET_CROSS)
        qkv_net_product(f, k->memory, f->type, f->encoder.final, 0, f->encoder.R, &p->memory, NULL);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory);
    return qkv_attention_real(k->heads, k->lse, NULL, at.q, at.k, at.v, &a, f->scratch);
}

static qkv_status attend_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory),
                                          d = qkv_net_attention_at(f, p, f->d_first, f->d_memory);
    const qkv_status status =
        qkv_attention_real_backward((void *)d.q, (void *)d.k, (void *)d.v, f->d_inner, at.q, at.k,
                                    at.v, k->heads, k->lse, &a, f->scratch);
    if (status) return status;
    qkv_net_rotate(f, s, p, f->d_first, true);
    if (p->kind == QKV_NET_CROSS)
        qkv_net_product_backward(f,
                                 &(struct qkv_net_product_back){ .dx = f->d_encoded,
                                                                 .dx_real = true,
                                                                 .dx_add = f->d_encoded,
                                                                 .dy = f->d_memory,
                                                                 .dy_type = f->type,
                                                                 .x = f->encoder.final },
                                 f->encoder.R, &p->memory);
    return QKV_OK;
}

// ---- feed-forward ------------------------------------------------------------------------------
// Rows of [gate, up] to rows of act(gate) up, and back.
struct gating {
    char *y;        // [R][M]; backward: dy
    const char *gu; // [R][2 M]
    char *d;        // [R][2 M]
    int64_t R, M;
    size_t bytes;
    qkv_dtype type;
    enum qkv_activation act;
};
enum { GATE_ROWS = 16 };
static void gate(void *ctx, int64_t i, int thread)
{
    const struct gating *j = ctx;
    const size_t row = (size_t)j->M * j->bytes;
    (void)thread;
    for (int64_t r = i * GATE_ROWS; r < j->R && r < (i + 1) * GATE_ROWS; r++) {
        char *y = j->y + (size_t)r * row;
        const char *g = j->gu + (size_t)r * 2 * row;
        char *d = j->d ? j->d + (size_t)r * 2 * row : NULL;
        if (d)
            qkv_gated_backward(d, d + row, y, g, g + row, j->type, j->M, j->act);
        else
            qkv_gated_forward(y, g, g + row, j->type, j->M, j->act);
    }
}

// f->inner = act of what the first product left.
static void activate(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                     const struct qkv_net_part *p, const void *first)
{
    const int64_t M = p->last.K;
    const enum qkv_activation act = f->n->is.act;
    struct gating j = { f->inner, first, NULL, s->R, M, f->bytes, f->type, act };
    if (f->n->is.gated)
        qkv_parallel_for(qkv_ceil_div(s->R, GATE_ROWS), gate, &j);
    else
        qkv_activation_forward(f->inner, first, f->type, s->R * M, act);
}

// f->d_first from f->d_inner.
static void activate_backward(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                              const struct qkv_net_part *p, const void *first)
{
    const int64_t M = p->last.K;
    const enum qkv_activation act = f->n->is.act;
    struct gating j = { f->d_inner, first, f->d_first, s->R, M, f->bytes, f->type, act };
    if (f->n->is.gated)
        qkv_parallel_for(qkv_ceil_div(s->R, GATE_ROWS), gate, &j);
    else
        qkv_activation_backward(f->d_first, f->d_inner, first, f->type, s->R * M, act);
}

// ---- a part ------------------------------------------------------------------------------------
// What the first product reads: x, or its norm in f->normed.
static const void *normed(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                          const real *x, qkv_dtype *type)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    *type = 0;
    if (!p->in.D) return x;
    const struct qkv_norm norm = qkv_net_norm_of(&p->in);
    qkv_norm_kind_forward(f->normed, f->type, &s->keep[part].in, x, s->R, &norm, p->in.kind);
    *type = f->type;
    return f->normed;
}

void qkv_net_part_sum(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part, const real *x,
                      const void *core, real *sum)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4);
    if (drop.p > 0) {
        qkv_net_product(f, f->branch, f->type, core, f->type, s->R, &p->last, NULL);
        qkv_dropout_forward(sum, x, f->branch, f->type, 0, s->R * p->last.N, &drop);
    } else {
        qkv_net_product(f, sum, 0, core, f->type, s->R, &p->last, x);
    }
}

qkv_status qkv_net_part_forward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                const real *x, bool inner_only)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    qkv_dtype type;
    const void *a = normed(f, s, part, x, &type), *core = k->heads;
    qkv_net_product(f, k->first, f->type, a, type, s->R, &p->first, NULL);
    if (p->kind != QKV_NET_MLP) {
        const qkv_status status = f->attend ? f->attend(f, s, part) : attend(f, s, part);
        if (status) return status;
    }
    if (inner_only) return QKV_OK;
    if (p->kind == QKV_NET_MLP) {
        activate(f, s, p, k->first);
        core = f->inner;
    }
    qkv_net_part_sum(f, s, part, x, core, k->sum);
    if (p->out.D) {
        const struct qkv_norm norm = qkv_net_norm_of(&p->out);
        qkv_norm_kind_forward(s->value[part], 0, &k->out, k->sum, s->R, &norm, p->out.kind);
    }
    return QKV_OK;
}

static void swap(struct qkv_net_flow *f)
{
    real *d = f->d;
    f->d = f->d_spare;
    f->d_spare = d;
}

qkv_status qkv_net_part_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                 const real *x)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    if (p->out.D) {
        const struct qkv_norm norm = qkv_net_norm_of(&p->out);
        qkv_norm_backward(f->d_spare, NULL, p->out.w.grad, p->out.b.grad, f->d, 0, k->sum, &k->out,
                          s->R, &norm, p->out.kind, f->scratch);
        swap(f);
    }
    // f->d is the gradient of the sum: of x by the residual, and of the branch.
    const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4);
    struct qkv_net_product_back last = { .dx = f->d_inner, .dy = f->d, .x_type = f->type };
    if (drop.p > 0) {
        qkv_dropout_backward(f->branch, f->type, f->d, 0, s->R * p->last.N, &drop);
        last.dy = f->branch;
        last.dy_type = f->type;
    }
    struct qkv_net_product_back first = { .dy = f->d_first, .dy_type = f->type };
    first.x = normed(f, s, part, x, &first.x_type);
    if (f->wide && k->first == f->wide)
        qkv_net_product(f, f->wide, f->type, first.x, first.x_type, s->R, &p->first, NULL);
    if (p->kind == QKV_NET_MLP) {
        activate(f, s, p, k->first);
        last.x = f->inner;
    } else {
        last.x = k->heads;
    }
    qkv_net_product_backward(f, &last, s->R, &p->last);
    if (p->kind == QKV_NET_MLP) {
        activate_backward(f, s, p, k->first);
    } else {
        const qkv_status status = attend_backward(f, s, part);
        if (status) return status;
    }
    if (!p->in.D) {
        first.dx = f->d;
        first.dx_real = true;
        first.dx_add = f->d;
        qkv_net_product_backward(f, &first, s->R, &p->first);
        return QKV_OK;
    }
    const struct qkv_norm norm = qkv_net_norm_of(&p->in);
    first.dx = f->d_normed;
    qkv_net_product_backward(f, &first, s->R, &p->first);
    qkv_norm_backward(f->d, f->d, p->in.w.grad, p->in.b.grad, f->d_normed, f->type, x, &k->in, s->R,
                      &norm, p->in.kind, f->scratch);
    return QKV_OK;
}

size_t qkv_net_part_scratch(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                            int64_t part, qkv_status *status)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    const bool back = f->keeping != QKV_KEEP_NOTHING;
    size_t bytes[6] = { qkv_net_product_scratch(f, s->R, &p->first, back),
                        qkv_net_product_scratch(f, s->R, &p->last, back) };
    size_t most = 0;
    *status = QKV_OK;
    if (p->kind == QKV_NET_CROSS)
        bytes[2] = qkv_net_product_scratch(f, f->encoder.R, &p->memory, back);
    if (p->kind != QKV_NET_MLP && !f->attend) { // else its scratch is the plan's
        const struct qkv_attention a = qkv_net_attention_of(f, s, part);
        bytes[3] = qkv_attention_real_scratch(&a, back, status);
    }
    if (back) bytes[4] = qkv_norm_backward_scratch(s->R, f->n->is.size.width);
    for (int i = 0; i < 6; i++)
        if (bytes[i] > most) most = bytes[i];
    if (!*status && most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}
