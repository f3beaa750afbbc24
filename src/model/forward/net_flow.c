// SPDX-License-Identifier: MIT
// net_flow.c: runs the stacks of a trainable Transformer forward and backward: allocates the memory
// of a run, computes embeddings, and runs sublayer after sublayer.
//
// One arena contains the arrays that are stored for backward and the scratch that all sublayers
// share. Gradients are bit-identical whether a run stores all arrays or only the input of each
// layer, since recomputed arrays have the same bits.
#include "model/params/net_body.h"
#include <inttypes.h>
#include <string.h>

// ---- memory ------------------------------------------------------------------------------------
static void *take(struct qkv_arena *a, int64_t rows, int64_t width, size_t bytes)
{
    size_t row;
    if (!qkv_mul_size(&row, (size_t)width, bytes)) row = SIZE_MAX;
    return qkv_arena_alloc(a, (size_t)rows, row);
}

static real *take_real(struct qkv_arena *a, int64_t rows, int64_t width)
{
    return take(a, rows, width, sizeof(real));
}

static struct qkv_norm_keep take_norm(struct qkv_arena *a, const struct qkv_net_norm *l, int64_t R)
{
    struct qkv_norm_keep keep = { NULL, NULL };
    if (!l->D) return keep;
    keep.mean = take_real(a, R, 1);
    keep.rstd = take_real(a, R, 1);
    return keep;
}

// With QKV_KEEP_ALL, backward recomputes the output of feed-forward's first product in one of
// AGAIN_PRE layers, or of AGAIN_POST layers if norms follow the sublayers (reason: net_body.h).
enum { AGAIN_PRE = 3, AGAIN_POST = 2 };
static bool first_again(const struct qkv_net_flow *f, const struct qkv_net_part *p)
{
    const int64_t every = p->out.D ? AGAIN_POST : AGAIN_PRE;
    return f->keeping == QKV_KEEP_ALL && p->kind == QKV_NET_MLP && p->layer % every == 1;
}
static bool sum_again(const struct qkv_net_flow *f, const struct qkv_net_stack *s, int64_t part)
{
    return f->keeping == QKV_KEEP_ALL && !s->part[part].out.D && part + 1 < s->parts &&
           s->part[part].kind != QKV_NET_MLP && s->part[part + 1].kind == QKV_NET_MLP;
}

// Allocates the arrays that a sublayer stores for backward, except its sum.
static void take_keep(struct qkv_net_keep *k, struct qkv_arena *a, const struct qkv_net_flow *f,
                      const struct qkv_net_side *s, const struct qkv_net_part *p)
{
    k->in = take_norm(a, &p->in, s->R);
    k->out = take_norm(a, &p->out, s->R);
    k->first = first_again(f, p) ? f->wide : take(a, s->R, p->first.N, f->bytes);
    k->memory = NULL;
    if (p->kind == QKV_NET_CROSS) k->memory = take(a, f->encoder.R, p->memory.N, f->bytes);
    k->heads = NULL;
    k->lse = NULL;
    if (p->kind == QKV_NET_MLP) return;
    k->heads = take(a, s->R, p->last.K, f->bytes);
    k->lse = take_real(a, s->R, f->n->is.size.heads);
}

static bool last_of_layer(const struct qkv_net_stack *s, int64_t part)
{
    return part + 1 == s->parts || s->part[part + 1].layer != s->part[part].layer;
}

// Returns true if the value of sublayer i has an array of its own: the last value of the stack, and
// the values that backward reads without recomputing them.
static bool value_kept(const struct qkv_net_flow *f, const struct qkv_net_stack *s, int64_t i)
{
    if (i + 1 == s->parts) return true;
    // Other values are recomputed from their sum; a missing sum, from the preceding sublayer.
    if (f->keeping == QKV_KEEP_ALL)
        return f->n->is.norm == QKV_NORM_INSIDE || (!s->part[i].out.D && !sum_again(f, s, i));
    return f->keeping == QKV_KEEP_INPUTS && last_of_layer(s, i);
}

// Allocates the arrays of one stack that exist during the whole run.
static void take_side(struct qkv_net_flow *f, struct qkv_net_side *s, struct qkv_arena *a)
{
    const struct qkv_net_stack *stack = s->stack;
    const int64_t R = s->R, D = f->n->is.size.width;
    const bool all = f->keeping == QKV_KEEP_ALL;
    struct qkv_net_keep shared[QKV_NET_LAYER_PARTS] = { { 0 } }; // by number in the layer
    // Later layers reuse the arrays of the first layer: the shapes are equal, but the first layer
    // may lack a norm.
    bool taken[QKV_NET_LAYER_PARTS] = { false }, normed[QKV_NET_LAYER_PARTS] = { false };
    int64_t place = 0;
    s->positions = qkv_arena_alloc(a, (size_t)R, sizeof *s->positions);
    s->value = qkv_arena_alloc(a, (size_t)stack->parts, sizeof *s->value);
    s->keep = qkv_arena_alloc(a, (size_t)stack->parts, sizeof *s->keep);
    s->x = take_real(a, R, D);
    if (stack->embedding_norm.D) s->embedded = take_real(a, R, D);
    s->embedded_keep = take_norm(a, &stack->embedding_norm, R);
    for (int64_t i = 0; i < stack->parts; i++) {
        const struct qkv_net_part *p = &stack->part[i];
        struct qkv_net_keep own = { 0 };
        struct qkv_net_keep *k = all ? &own : &shared[place];
        const bool fresh = all || !taken[place], ends = last_of_layer(stack, i);
        real *value = value_kept(f, stack, i) ? take_real(a, R, D) : f->workspace[i & 1];
        if (fresh) take_keep(k, a, f, s, p);
        if (!fresh && !normed[place]) k->in = take_norm(a, &p->in, R);
        if (!p->out.D || f->keeping == QKV_KEEP_NOTHING)
            k->sum = value; // a norm is computed in place
        else if (fresh)
            k->sum = take_real(a, R, D);
        taken[place] = true;
        normed[place] |= p->in.D > 0;
        if (s->value && s->keep) {
            s->value[i] = value;
            s->keep[i] = *k;
        }
        place = ends ? 0 : place + 1;
    }
    s->final_keep = take_norm(a, &stack->final_norm, R);
    s->final = NULL;
    if (stack->final_norm.D)
        s->final = take(a, R, D, qkv_net_type_bytes(s->final_type));
    else if (s->value)
        s->final = s->value[stack->parts - 1];
}

// Largest sizes over all sublayers, for the scratch arrays that they share.
struct widths {
    int64_t R, first, inner, wide; // rows; first.N; M of feed-forward; max(M, H F)
    int64_t up;                    // first.N of feed-forward
    int64_t memory;
};
static void widen(struct widths *w, const struct qkv_net_side *s)
{
    w->R = qkv_max64(w->R, s->R);
    for (int64_t i = 0; s->stack && i < s->stack->parts; i++) {
        const struct qkv_net_part *p = &s->stack->part[i];
        w->first = qkv_max64(w->first, p->first.N);
        w->wide = qkv_max64(w->wide, p->last.K);
        w->memory = qkv_max64(w->memory, p->memory.N);
        if (p->kind != QKV_NET_MLP) continue;
        w->inner = qkv_max64(w->inner, p->last.K);
        w->up = qkv_max64(w->up, p->first.N);
    }
}

// Allocates separate arrays for queries and keys if heads have norms.
static void take_heads(struct qkv_net_flow *f, struct qkv_arena *a, int64_t R)
{
    const struct qkv_description *d = &f->n->is;
    const int64_t E = qkv_head_keys(d), H = d->size.heads, G = d->size.kv_heads;
    if (!d->norm_q && !d->norm_k) return;
    f->queries = take(a, R, H * E, f->bytes);
    f->keys = take(a, R, G * E, f->bytes);
    f->head_rows = take_real(a, R, qkv_max64(H, G) * E);
    if (f->keeping == QKV_KEEP_NOTHING) return;
    f->d_queries = take(a, R, H * E, f->bytes);
    f->d_keys = take(a, R, G * E, f->bytes);
    f->d_head_rows = take_real(a, R, qkv_max64(H, G) * E);
    f->head_rstd = take_real(a, R, qkv_max64(H, G));
}

// Allocates all arrays from the arena: called once to count the bytes, once to assign the pointers.
static void take_all(struct qkv_net_flow *f, const struct qkv_net_flow_plan *plan,
                     struct qkv_arena *a)
{
    const int64_t D = f->n->is.size.width;
    struct widths w = { 0, 0, 0, 0, 0, 0 };
    widen(&w, &f->encoder);
    widen(&w, &f->decoder);
    f->workspace[0] = take_real(a, w.R, D);
    f->workspace[1] = take_real(a, w.R, D);
    if (f->keeping == QKV_KEEP_ALL) f->wide = take(a, w.R, w.up, f->bytes);
    const size_t workspaces = a->used;
    if (plan->encoder) take_side(f, &f->encoder, a);
    if (plan->decoder) take_side(f, &f->decoder, a);
    f->n->activations = a->used - workspaces;
    f->normed = take(a, w.R, D, f->bytes);
    if (f->drops) f->branch = take(a, w.R, D, f->bytes);
    f->inner = take(a, w.R, w.inner, f->bytes);
    take_heads(f, a, w.R);
    if (f->keeping != QKV_KEEP_NOTHING) {
        f->d = take_real(a, w.R, D);
        f->d_spare = take_real(a, w.R, D);
        if (f->keeping == QKV_KEEP_ALL) f->again = take_real(a, w.R, D);
        f->d_first = take(a, w.R, w.first, f->bytes);
        f->d_inner = take(a, w.R, w.wide, f->bytes);
        f->d_normed = take(a, w.R, D, f->bytes);
        if (w.memory) {
            f->d_memory = take(a, f->encoder.R, w.memory, f->bytes);
            f->d_encoded = take_real(a, f->encoder.R, D);
        }
    }
    f->work.scratch = qkv_arena_alloc(a, f->scratch_bytes, 1);
    if (plan->more) plan->more(plan->ctx, a);
}

static struct qkv_embed embedding_of(const struct qkv_net_flow *f, const struct qkv_net_stack *s)
{
    const struct qkv_net_body *body = f->body;
    const struct qkv_config_sizes *size = &f->n->is.size;
    const bool fixed = body->table[0] && f->n->is.position != QKV_POSITION_ROTARY;
    return (struct qkv_embed){ .V = s == &body->decoder ? qkv_described_vocab(&f->n->is)
                                                        : size->vocab,
                               .P = size->positions + f->n->is.position_offset,
                               .Y = size->types,
                               .D = size->width,
                               .token = qkv_net_words(body, s)->value,
                               .position = fixed ? body->table[0] : s->position.value,
                               .type = body->type.value,
                               .scale = (real)f->n->is.embed_scale };
}

static qkv_status count_scratch(struct qkv_net_flow *f, const struct qkv_net_side *s)
{
    qkv_status status = QKV_OK;
    if (!s->stack) return QKV_OK;
    for (int64_t i = 0; i < s->stack->parts; i++) {
        const size_t bytes = qkv_net_part_scratch(f, s, i, &status);
        if (status) return status;
        if (bytes > f->scratch_bytes) f->scratch_bytes = bytes;
    }
    if (f->keeping == QKV_KEEP_NOTHING) return QKV_OK;
    const struct qkv_embed e = embedding_of(f, s->stack);
    const size_t bytes = qkv_embed_backward_scratch(s->R, &e);
    if (bytes > f->scratch_bytes) f->scratch_bytes = bytes;
    return f->scratch_bytes == SIZE_MAX ? QKV_ERR_LIMIT : QKV_OK;
}

static int64_t longest(const struct qkv_sequences *in)
{
    int64_t most = 0;
    for (int64_t i = 0; in && i < in->n; i++)
        most = qkv_max64(most, in->offsets[i + 1] - in->offsets[i]);
    return most;
}

qkv_status qkv_net_flow_begin(struct qkv_net_flow *f, const struct qkv_net_flow_plan *plan,
                              qkv_error *err)
{
    qkv_net *n = f->n;
    struct qkv_arena count = { .size = SIZE_MAX };
    f->body = n->body;
    f->work.threads = qkv_threads();
    f->work.precision = n->options.precision;
    f->type = qkv_net_type(n);
    f->bytes = qkv_net_type_bytes(f->type);
    f->drops = f->drops && n->options.dropout > 0;
    if (plan->encoder)
        f->encoder = (struct qkv_net_side){ .stack = &f->body->encoder,
                                            .in = plan->encoder,
                                            .R = plan->encoder->offsets[plan->encoder->n] };
    if (plan->decoder)
        f->decoder = (struct qkv_net_side){ .stack = &f->body->decoder,
                                            .in = plan->decoder,
                                            .R = plan->decoder->offsets[plan->decoder->n] };
    struct qkv_net_side *last = plan->decoder ? &f->decoder : &f->encoder;
    if (last->stack->final_norm.D) last->final_type = plan->final_type;
    f->scratch_bytes = plan->scratch;
    if (qkv_net_positions(n, qkv_max64(longest(plan->encoder), longest(plan->decoder))) ||
        qkv_net_derive(n))
        return qkv_fail_memory(err, NULL);
    qkv_status status = plan->scratch == SIZE_MAX ? QKV_ERR_LIMIT : count_scratch(f, &f->encoder);
    if (!status) status = count_scratch(f, &f->decoder);
    if (status)
        return qkv_fail(err, status, NULL, "a run over %" PRId64 " tokens was refused",
                        f->encoder.R + f->decoder.R);
    take_all(f, plan, &count);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_net_memory_for(n, count.used);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory, count.used, 0 };
    take_all(f, plan, &arena);
    return QKV_OK;
}

// ---- forward -----------------------------------------------------------------------------------
// Number of the random stream for dropout of the embeddings, larger than the numbers of sublayers.
enum { EMBEDDING_PLACE = 1 << 18 };

static void embed(struct qkv_net_flow *f, struct qkv_net_side *s)
{
    const struct qkv_embed e = embedding_of(f, s->stack);
    const struct qkv_dropout drop = qkv_net_dropout(f, s, EMBEDDING_PLACE);
    real *after = drop.p > 0 ? f->workspace[0] : s->x; // embeddings before dropout
    real *sum = s->embedded ? s->embedded : after;
    qkv_position_number(s->positions, &f->n->is, s->in->ids, s->in->offsets, s->in->n, 0);
    qkv_embed_forward(sum, s->in->ids, s->in->types, s->positions, s->R, &e);
    if (s->embedded) {
        const struct qkv_norm norm = qkv_net_norm_of(&s->stack->embedding_norm);
        qkv_norm_kind_forward(after, 0, &s->embedded_keep, sum, s->R, &norm,
                              s->stack->embedding_norm.kind);
    }
    if (drop.p > 0) qkv_dropout_forward(s->x, NULL, after, 0, 0, s->R * e.D, &drop);
}

qkv_status qkv_net_side_forward(struct qkv_net_flow *f, struct qkv_net_side *s)
{
    const struct qkv_net_stack *stack = s->stack;
    embed(f, s);
    for (int64_t i = 0; i < stack->parts; i++) {
        qkv_status status = qkv_net_part_forward(f, s, i, i ? s->value[i - 1] : s->x, false);
        if (!status && f->seen) status = f->seen(f, s, i);
        if (status) return status;
    }
    if (!stack->final_norm.D) return QKV_OK;
    const struct qkv_norm norm = qkv_net_norm_of(&stack->final_norm);
    qkv_norm_kind_forward(s->final, s->final_type, &s->final_keep, s->value[stack->parts - 1], s->R,
                          &norm, stack->final_norm.kind);
    return QKV_OK;
}

// ---- backward ----------------------------------------------------------------------------------
// Returns the input of sublayer i: the stored value of sublayer i - 1, or the value recomputed from
// the stored sum, or the sum recomputed from the input of sublayer i - 1.
static const real *read_by(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t i)
{
    if (!i) return s->x;
    const struct qkv_net_part *p = &s->stack->part[i - 1];
    if (sum_again(f, s->stack, i - 1)) {
        const real *x = i > 1 ? s->value[i - 2] : s->x; // stored: no norm follows it
        qkv_net_part_sum(f, s, i - 1, x, s->keep[i - 1].heads, f->again);
        return f->again;
    }
    if (value_kept(f, s->stack, i - 1) || f->keeping != QKV_KEEP_ALL) return s->value[i - 1];
    const struct qkv_norm norm = qkv_net_norm_of(&p->out);
    qkv_norm_kind_forward(f->again, 0, &s->keep[i - 1].out, s->keep[i - 1].sum, s->R, &norm,
                          p->out.kind);
    return f->again;
}

// Recomputes sublayers first .. last of a layer from the stored input of the layer.
static qkv_status run_again(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t first,
                            int64_t last)
{
    for (int64_t i = first; i <= last; i++) {
        const bool inner_only = i == last && !s->stack->part[i].out.D;
        const qkv_status status =
            qkv_net_part_forward(f, s, i, i ? s->value[i - 1] : s->x, inner_only);
        if (status) return status;
    }
    return QKV_OK;
}

static void swap(struct qkv_net_flow *f)
{
    real *d = f->d;
    f->d = f->d_spare;
    f->d_spare = d;
}

static void embed_backward(struct qkv_net_flow *f, struct qkv_net_side *s)
{
    const struct qkv_embed e = embedding_of(f, s->stack);
    const struct qkv_dropout drop = qkv_net_dropout(f, s, EMBEDDING_PLACE);
    if (drop.p > 0) {
        qkv_dropout_backward(f->d_spare, 0, f->d, 0, s->R * e.D, &drop);
        swap(f);
    }
    if (s->embedded) {
        const struct qkv_net_norm *l = &s->stack->embedding_norm;
        const struct qkv_norm norm = qkv_net_norm_of(l);
        qkv_norm_backward(f->d_spare, NULL, l->w.grad, l->b.grad, f->d, 0, s->embedded,
                          &s->embedded_keep, s->R, &norm, l->kind, f->work.scratch);
        swap(f);
    }
    qkv_embed_backward(qkv_net_words(f->body, s->stack)->grad, s->stack->position.grad,
                       f->body->type.grad, f->d, s->in->ids, s->in->types, s->positions, s->R, &e,
                       f->work.scratch);
}

qkv_status qkv_net_side_backward(struct qkv_net_flow *f, struct qkv_net_side *s, const void *d)
{
    const struct qkv_net_stack *stack = s->stack;
    const int64_t D = f->n->is.size.width;
    if (stack->final_norm.D) {
        const struct qkv_net_norm *l = &stack->final_norm;
        const struct qkv_norm norm = qkv_net_norm_of(l);
        qkv_norm_backward(f->d, NULL, l->w.grad, l->b.grad, d, s->final_type,
                          s->value[stack->parts - 1], &s->final_keep, s->R, &norm, l->kind,
                          f->work.scratch);
    } else if (d != f->d) {
        memcpy(f->d, d, (size_t)(s->R * D) * sizeof *f->d);
    }
    if (stack->d_distances) {
        const int64_t row = 2 * f->n->is.relative.distance + 1;
        memset(stack->d_distances, 0,
               (size_t)(f->n->is.size.heads * row) * sizeof *stack->d_distances);
    }
    for (int64_t last = stack->parts - 1, first; last >= 0; last = first - 1) {
        for (first = last; first && stack->part[first - 1].layer == stack->part[last].layer;)
            first--;
        qkv_status status = QKV_OK;
        if (f->keeping == QKV_KEEP_INPUTS) status = run_again(f, s, first, last);
        for (int64_t i = last; !status && i >= first; i--)
            status = qkv_net_part_backward(f, s, i, read_by(f, s, i));
        if (status) return status;
    }
    if (stack->relative.grad)
        qkv_relative_backward(stack->relative.grad, stack->d_distances, f->n->is.size.heads,
                              &f->n->is.relative, stack->causal);
    embed_backward(f, s);
    return QKV_OK;
}
