// SPDX-License-Identifier: MIT
// net_part.c: runs one sublayer of a trainable Transformer forward and backward: attention or
// feed-forward f with its norms, dropout and residual.
//
//   sum = x + drop(f(norm_in(x))),   value = norm_out(sum)
//   sum = f(norm_in(x)),   value = x + drop(norm_out(sum))        norms inside (QKV_NORM_INSIDE)
#include "model/params/net_body.h"
#include <string.h>

// ---- norms, dropout ----------------------------------------------------------------------------
struct qkv_norm qkv_net_norm_of(const struct qkv_net_norm *l)
{
    return (struct qkv_norm){
        .D = l->D, .w = l->shifted ? l->shifted : l->w.value, .b = l->b.value, .eps = l->eps
    };
}

// Returns the dropout at `place` of a stack. The number of its random stream consists of the step
// and, in the low 20 bits, the stack (1 bit) and the place (19 bits).
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
    const bool normed = qkv_net_heads_normed(p);
    const int64_t v_row = cross ? p->memory.N : p->first.N;
    const int64_t q_row = normed ? d->size.heads * E : p->first.N;
    const int64_t k_row = normed ? d->size.kv_heads * E : v_row;
    struct qkv_attention a = cross ? qkv_described_cross_attention(d)
                                   : qkv_described_attention(d, s->stack->causal, p->local);
    if (!cross && s->stack->distances) {
        a.relative.at = s->stack->distances;
        a.relative.reach = d->relative.distance;
    }
    a.B = 1;
    a.T = s->R;
    a.S = other->R;
    a.H = d->size.heads;
    a.G = d->size.kv_heads;
    a.E = E;
    a.F = F;
    a.precision = qkv_precision_attention(f->n->options.precision);
    a.sequences = s->in->n;
    a.q_offsets = s->in->offsets;
    a.k_offsets = other->in->offsets;
    a.q_strides = (struct qkv_strides){ s->R * q_row, q_row, E };
    a.k_strides = (struct qkv_strides){ other->R * k_row, k_row, E };
    a.v_strides = (struct qkv_strides){ other->R * v_row, v_row, F };
    if (f->drops) {
        const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4 + 1);
        a.dropout.p = (float)drop.p;
        a.dropout.seed = drop.seed;
        a.dropout.site = drop.site;
    }
    return a;
}

// Returns the column at which the keys begin in a row of `first` (self-attention) or `memory`
// (cross-attention); the values follow the keys.
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
    const void *v = k + (size_t)keys * f->bytes;
    if (qkv_net_heads_normed(p)) return (struct qkv_net_attention_arrays){ f->queries, f->keys, v };
    return (struct qkv_net_attention_arrays){ first, k, v };
}

// Returns the arrays that backward of attention writes the gradients of q, k and v to.
static struct qkv_net_attention_arrays gradients_at(const struct qkv_net_flow *f,
                                                    const struct qkv_net_part *p)
{
    struct qkv_net_attention_arrays d = qkv_net_attention_at(f, p, f->d_first, f->d_memory);
    if (!qkv_net_heads_normed(p)) return d;
    d.q = f->d_queries;
    d.k = f->d_keys;
    return d;
}

static qkv_status attend(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    qkv_net_heads_ready(f, s, p, k->first);
    if (p->kind == QKV_NET_CROSS)
        qkv_net_product(&f->work, k->memory, f->type, f->encoder.final, 0, f->encoder.R, &p->memory,
                        NULL);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory);
    return qkv_attention_real(k->heads, k->lse, NULL, at.q, at.k, at.v, &a, f->work.scratch);
}

static qkv_status attend_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory),
                                          d = gradients_at(f, p);
    if (qkv_net_heads_normed(p)) qkv_net_heads_ready(f, s, p, k->first); // recomputes shared arrays
    const qkv_status status = qkv_attention_real_backward(
        (void *)d.q, (void *)d.k, (void *)d.v,
        p->kind == QKV_NET_SELF ? s->stack->d_distances : NULL, f->d_inner, at.q, at.k, at.v,
        k->heads, k->lse, &a, f->work.scratch);
    if (status) return status;
    qkv_net_heads_back(f, s, p, k->first);
    if (p->kind == QKV_NET_CROSS)
        qkv_net_product_backward(&f->work,
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
// A parallel computation of y = act(gate) * up from rows [gate, up], or of its gradient.
struct gating {
    char *y;        // [R][M] the result; in backward, its gradient
    const char *gu; // [R][2 M] gate and up
    char *d;        // [R][2 M] gradient of gate and up; NULL: forward
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

// Computes f->inner, the inner rows of feed-forward, from the output `first` of the first product.
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

// Computes f->d_first, the gradient of the first product's output, from f->d_inner.
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

// ---- a sublayer --------------------------------------------------------------------------------
// Returns the input of the first product: x, or, if the sublayer has a norm before it, the norm of
// x in f->normed. *type: its element type.
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
        qkv_net_product(&f->work, f->branch, f->type, core, f->type, s->R, &p->last, NULL);
        qkv_dropout_forward(sum, x, f->branch, f->type, 0, s->R * p->last.N, &drop);
    } else {
        qkv_net_product(&f->work, sum, 0, core, f->type, s->R, &p->last, x);
    }
}

// Computes value = x + drop(norm(f)) for a sublayer with its norm inside, and stores the sum and
// the norm's mean and rstd.
static void leave_inside(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                         const real *x, const void *core)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_norm norm = qkv_net_norm_of(&p->out);
    const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4);
    real *value = s->value[part];
    qkv_net_product(&f->work, k->sum, 0, core, f->type, s->R, &p->last, NULL);
    qkv_norm_kind_forward(value, 0, &k->out, k->sum, s->R, &norm, p->out.kind);
    qkv_dropout_forward(value, x, value, 0, 0, s->R * p->last.N, &drop);
}

qkv_status qkv_net_part_forward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                const real *x, bool inner_only)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    qkv_dtype type;
    const void *a = normed(f, s, part, x, &type), *core = k->heads;
    qkv_net_product(&f->work, k->first, f->type, a, type, s->R, &p->first, NULL);
    if (p->kind != QKV_NET_MLP) {
        const qkv_status status = attend(f, s, part);
        if (status) return status;
    }
    if (inner_only) return QKV_OK;
    if (p->kind == QKV_NET_MLP) {
        activate(f, s, p, k->first);
        core = f->inner;
    }
    if (f->n->is.norm == QKV_NORM_INSIDE) {
        leave_inside(f, s, part, x, core);
        return QKV_OK;
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

// Returns the arguments for backward of the last product, computed from f->d, the gradient of the
// sublayer's value. Afterwards f->d is the gradient of x through the residual only.
static struct qkv_net_product_back last_back(struct qkv_net_flow *f, struct qkv_net_side *s,
                                             int64_t part)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const bool inside = f->n->is.norm == QKV_NORM_INSIDE;
    const struct qkv_dropout drop = qkv_net_dropout(f, s, part * 4);
    const struct qkv_norm norm = qkv_net_norm_of(&p->out);
    struct qkv_net_product_back last = { .dx = f->d_inner, .x_type = f->type };
    if (p->out.D && !inside) {
        qkv_norm_backward(f->d_spare, NULL, p->out.w.grad, p->out.b.grad, f->d, 0, k->sum, &k->out,
                          s->R, &norm, p->out.kind, f->work.scratch);
        swap(f);
    }
    last.dy = f->d;
    if (drop.p > 0) {
        qkv_dropout_backward(f->branch, f->type, f->d, 0, s->R * p->last.N, &drop);
        last.dy = f->branch;
        last.dy_type = f->type;
    }
    if (inside) {
        qkv_norm_backward(f->d_spare, NULL, p->out.w.grad, p->out.b.grad, last.dy, last.dy_type,
                          k->sum, &k->out, s->R, &norm, p->out.kind, f->work.scratch);
        last.dy = f->d_spare;
        last.dy_type = 0;
    }
    return last;
}

qkv_status qkv_net_part_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                 const real *x)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    struct qkv_net_product_back last = last_back(f, s, part);
    struct qkv_net_product_back first = { .dy = f->d_first, .dy_type = f->type };
    first.x = normed(f, s, part, x, &first.x_type);
    if (f->wide && k->first == f->wide)
        qkv_net_product(&f->work, f->wide, f->type, first.x, first.x_type, s->R, &p->first, NULL);
    if (p->kind == QKV_NET_MLP) {
        activate(f, s, p, k->first);
        last.x = f->inner;
    } else {
        last.x = k->heads;
    }
    qkv_net_product_backward(&f->work, &last, s->R, &p->last);
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
        qkv_net_product_backward(&f->work, &first, s->R, &p->first);
        return QKV_OK;
    }
    const struct qkv_norm norm = qkv_net_norm_of(&p->in);
    first.dx = f->d_normed;
    qkv_net_product_backward(&f->work, &first, s->R, &p->first);
    qkv_norm_backward(f->d, f->d, p->in.w.grad, p->in.b.grad, f->d_normed, f->type, x, &k->in, s->R,
                      &norm, p->in.kind, f->work.scratch);
    return QKV_OK;
}

size_t qkv_net_part_scratch(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                            int64_t part, qkv_status *status)
{
    const struct qkv_net_part *p = &s->stack->part[part];
    const bool back = f->keeping != QKV_KEEP_NOTHING;
    size_t bytes[6] = { qkv_net_product_scratch(&f->work, f->type, s->R, &p->first, back),
                        qkv_net_product_scratch(&f->work, f->type, s->R, &p->last, back) };
    size_t most = 0;
    *status = QKV_OK;
    if (p->kind == QKV_NET_CROSS)
        bytes[2] = qkv_net_product_scratch(&f->work, f->type, f->encoder.R, &p->memory, back);
    if (p->kind != QKV_NET_MLP) {
        const struct qkv_attention a = qkv_net_attention_of(f, s, part);
        bytes[3] = qkv_attention_real_scratch(&a, back, status);
    }
    if (back) bytes[4] = qkv_norm_backward_scratch(s->R, f->n->is.size.width);
    if (back && qkv_net_heads_normed(p))
        bytes[5] = qkv_norm_backward_scratch(s->R * f->n->is.size.heads,
                                             qkv_max64(p->norm_q.D, p->norm_k.D));
    for (int i = 0; i < 6; i++)
        if (bytes[i] > most) most = bytes[i];
    if (!*status && most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}
