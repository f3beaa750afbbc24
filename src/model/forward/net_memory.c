// SPDX-License-Identifier: MIT
// net_memory.c: allocates the memory of a run of a trainable Transformer.
//
// One arena contains the arrays that are stored for backward and the scratch that all sublayers
// share. A run that stores all arrays and a run that stores only the input of each layer compute
// bit-identical gradients, since recomputed arrays are bit-identical to stored ones.
#include "model/forward/net_state.h"
#include <inttypes.h>

static real *take_real(struct qkv_arena *a, int64_t rows, int64_t width)
{
    return qkv_arena_rows(a, rows, width, sizeof(real));
}

static struct qkv_norm_keep take_norm(struct qkv_arena *a, const struct qkv_norm *norm, int64_t R)
{
    struct qkv_norm_keep keep = { NULL, NULL };
    if (!norm->D) return keep;
    keep.mean = take_real(a, R, 1);
    keep.rstd = take_real(a, R, 1);
    return keep;
}

// ---- what is stored ----------------------------------------------------------------------------
static const struct qkv_norm *norm_in(const struct qkv_net_sublayer *sub)
{
    return &sub->block->in[sub->kind];
}

static const struct qkv_norm *norm_out(const struct qkv_net_sublayer *sub)
{
    return &sub->block->out[sub->kind];
}

// With QKV_KEEP_ALL, backward recomputes the output of the first projection of feed-forward in one
// of every AGAIN_PRE layers; if a norm follows the sublayer, in one of every AGAIN_POST layers
// (net_state.h has the reason).
enum { AGAIN_PRE = 3, AGAIN_POST = 2 };
bool qkv_net_up_again(const struct qkv_net_state *f, const struct qkv_net_sublayer *sub)
{
    const int64_t every = norm_out(sub)->D ? AGAIN_POST : AGAIN_PRE;
    return f->keeping == QKV_KEEP_ALL && sub->kind == QKV_SUBLAYER_FEED_FORWARD &&
           sub->layer % every == 1;
}

bool qkv_net_sum_again(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i)
{
    const struct qkv_net_sublayer *sub = &s->sublayer[i];
    return f->keeping == QKV_KEEP_ALL && !norm_out(sub)->D && i + 1 < s->sublayers &&
           sub->kind != QKV_SUBLAYER_FEED_FORWARD && sub[1].kind == QKV_SUBLAYER_FEED_FORWARD;
}

static bool last_of_layer(const struct qkv_net_side *s, int64_t i)
{
    return i + 1 == s->sublayers || s->sublayer[i + 1].layer != s->sublayer[i].layer;
}

bool qkv_net_value_kept(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i)
{
    if (i + 1 == s->sublayers) return true;
    // The value of a sublayer is the stream after it. QKV_KEEP_ALL: backward recomputes a value
    // that has no array from the stored sum or, if qkv_net_sum_again, from the input of the
    // sublayer. QKV_KEEP_INPUTS: backward runs the layer again.
    if (f->keeping == QKV_KEEP_ALL)
        return f->n->is.norm == QKV_NORM_INSIDE ||
               (!norm_out(&s->sublayer[i])->D && !qkv_net_sum_again(f, s, i));
    return f->keeping == QKV_KEEP_INPUTS && last_of_layer(s, i);
}

// ---- arrays ------------------------------------------------------------------------------------
// Allocates the arrays that a sublayer stores for backward, except `sum` and `value`.
static void take_tape(struct qkv_tape *t, struct qkv_arena *a, const struct qkv_net_state *f,
                      const struct qkv_net_side *s, const struct qkv_net_sublayer *sub)
{
    const struct qkv_block *b = sub->block;
    const struct qkv_heads *m = sub->kind == QKV_SUBLAYER_CROSS ? &b->cross : &b->heads;
    t->in = take_norm(a, norm_in(sub), s->R);
    t->out = take_norm(a, norm_out(sub), s->R);
    if (sub->kind == QKV_SUBLAYER_FEED_FORWARD) {
        t->mlp.up = qkv_net_up_again(f, sub)
                        ? f->up
                        : qkv_arena_rows(a, s->R, b->mlp.up.part[0].N, f->bytes);
        return;
    }
    void *in = qkv_arena_rows(a, s->R, m->in.part[0].N, f->bytes), *kv = NULL;
    if (m->kv.K) kv = qkv_arena_rows(a, f->encoder.R, m->kv.part[0].N, f->bytes);
    t->heads.at = qkv_heads_joined(in, kv, f->type ? f->type : QKV_REAL, m);
    t->heads.heads = qkv_arena_rows(a, s->R, m->out.K, f->bytes);
    t->heads.lse = take_real(a, s->R, m->H);
}

// Sets the tapes of all sublayers of a stack and allocates their arrays.
static void take_tapes(struct qkv_net_state *f, struct qkv_net_side *s, struct qkv_arena *a)
{
    const bool all = f->keeping == QKV_KEEP_ALL;
    // by index of the sublayer in its layer; unused with QKV_KEEP_ALL
    struct qkv_tape shared[QKV_SUBLAYERS] = { { 0 } };
    // Layers that share a tape use the arrays of the first layer, since the shapes are equal. But
    // the first layer may lack a norm: then the next layer allocates the arrays of this norm.
    bool taken[QKV_SUBLAYERS] = { false }, normed[QKV_SUBLAYERS] = { false };
    int64_t place = 0;
    for (int64_t i = 0; i < s->sublayers; i++) {
        struct qkv_net_sublayer *sub = &s->sublayer[i];
        struct qkv_tape own = { 0 };
        struct qkv_tape *t = all ? &own : &shared[place];
        const bool fresh = all || !taken[place];
        real *value =
            qkv_net_value_kept(f, s, i) ? take_real(a, s->R, s->stream.D) : f->workspace[i & 1];
        if (fresh) take_tape(t, a, f, s, sub);
        if (!fresh && !normed[place]) t->in = take_norm(a, norm_in(sub), s->R);
        if (!norm_out(sub)->D || f->keeping == QKV_KEEP_NOTHING)
            // Without a norm, sum and value are equal; in a run without backward the norm replaces
            // the sum.
            t->sum = value;
        else if (fresh)
            t->sum = take_real(a, s->R, s->stream.D);
        taken[place] = true;
        normed[place] |= norm_in(sub)->D > 0;
        sub->tape = *t;
        sub->tape.number = i;
        sub->tape.value = value;
        place = last_of_layer(s, i) ? 0 : place + 1;
    }
}

// Allocates the arrays of one stack that no other stack uses.
static void take_side(struct qkv_net_state *f, struct qkv_net_side *s, struct qkv_arena *a)
{
    const struct qkv_stack *stack = &s->stack->is;
    const int64_t R = s->R, D = s->stream.D;
    const int64_t W = qkv_described_embed_width(&f->n->is);
    s->positions = qkv_arena_alloc(a, (size_t)R, sizeof *s->positions);
    s->x = take_real(a, R, D);
    if (stack->embedding_norm.D) s->embedded = take_real(a, R, W);
    if (stack->embed_in.K) s->narrow = take_real(a, R, W);
    s->embedded_keep = take_norm(a, &stack->embedding_norm, R);
    take_tapes(f, s, a);
    s->final_keep = take_norm(a, &stack->final_norm, R);
    s->final = s->sublayer[s->sublayers - 1].tape.value;
    if (stack->final_norm.D) s->final = qkv_arena_rows(a, R, D, qkv_net_type_bytes(s->final_type));
}

// Largest sizes over all sublayers, for the scratch arrays that they share.
struct widths {
    int64_t R, in;     // rows; outputs of the projection heads.in
    int64_t inner, up; // inner width of feed-forward; outputs of its first projection
    int64_t wide;      // max(M, H F)
    int64_t kv;
};
static void widen(struct widths *w, const struct qkv_net_side *s)
{
    w->R = qkv_max64(w->R, s->R);
    for (int64_t i = 0; i < s->sublayers; i++) {
        const struct qkv_block *b = s->sublayer[i].block;
        const struct qkv_heads *m =
            s->sublayer[i].kind == QKV_SUBLAYER_CROSS ? &b->cross : &b->heads;
        if (s->sublayer[i].kind == QKV_SUBLAYER_FEED_FORWARD) {
            w->inner = qkv_max64(w->inner, b->mlp.down.K);
            w->up = qkv_max64(w->up, b->mlp.up.part[0].N);
        } else {
            w->in = qkv_max64(w->in, m->in.part[0].N);
            w->kv = qkv_max64(w->kv, m->kv.part[0].N);
            w->wide = qkv_max64(w->wide, m->out.K);
        }
    }
    w->wide = qkv_max64(w->wide, w->inner);
}

// Arrays for heads whose q or k has a norm. All sublayers share these arrays.
struct normed_heads {
    void *q, *k;
    real *wide;
};
static struct normed_heads take_heads(struct qkv_net_state *f, struct qkv_arena *a, int64_t R)
{
    const struct qkv_description *d = &f->n->is;
    const int64_t E = qkv_head_keys(d), H = d->size.heads, G = d->size.kv_heads;
    struct normed_heads own = { 0 };
    if (!d->norm_q && !d->norm_k) return own;
    own.q = qkv_arena_rows(a, R, H * E, f->bytes);
    own.k = qkv_arena_rows(a, R, G * E, f->bytes);
    own.wide = take_real(a, R, qkv_max64(H, G) * E);
    if (f->keeping == QKV_KEEP_NOTHING) return own;
    f->back.heads.d_q = qkv_arena_rows(a, R, H * E, f->bytes);
    f->back.heads.d_k = qkv_arena_rows(a, R, G * E, f->bytes);
    f->back.heads.d_wide = take_real(a, R, qkv_max64(H, G) * E);
    f->back.heads.rstd = take_real(a, R, qkv_max64(H, G));
    return own;
}

static void take_back(struct qkv_net_state *f, struct qkv_arena *a, const struct widths *w)
{
    const int64_t D = f->n->is.size.width, wide = qkv_max64(D, f->n->is.embed_width);
    struct qkv_stream_back *back = &f->back;
    back->d = take_real(a, w->R, wide);
    back->d_spare = take_real(a, w->R, wide);
    if (f->keeping == QKV_KEEP_ALL) f->again = take_real(a, w->R, D);
    // d_up and d_in are one array, since only one sublayer runs at a time.
    back->d_up = back->d_in = qkv_arena_rows(a, w->R, qkv_max64(w->in, w->up), f->bytes);
    back->heads.d_heads = qkv_arena_rows(a, w->R, w->wide, f->bytes);
    back->d_normed = qkv_arena_rows(a, w->R, D, f->bytes);
    if (!w->kv) return;
    back->d_kv = qkv_arena_rows(a, f->encoder.R, w->kv, f->bytes);
    back->heads.d_memory = take_real(a, f->encoder.R, D);
    back->heads.memory_add = back->heads.d_memory;
}

// Points the stream and the tapes of a stack to the arrays that all stacks share.
static void share(const struct qkv_net_state *f, struct qkv_net_side *s, void *normed, void *branch,
                  void *inner, const struct normed_heads *heads)
{
    s->stream.normed = normed;
    s->stream.branch = branch;
    s->stream.scratch = f->scratch;
    s->stream.positions = s->positions;
    for (int64_t i = 0; i < s->sublayers; i++) {
        struct qkv_tape *t = &s->sublayer[i].tape;
        t->mlp.inner = inner;
        if (s->sublayer[i].kind != QKV_SUBLAYER_ATTENTION) continue;
        t->heads.q = heads->q;
        t->heads.k = heads->k;
        t->heads.wide = heads->wide;
    }
}

// Allocates all arrays from the arena. Called twice: first to count the bytes, then to set the
// pointers.
static void take_all(struct qkv_net_state *f, const struct qkv_net_plan *plan, struct qkv_arena *a)
{
    const int64_t D = f->n->is.size.width, wide = qkv_max64(D, f->n->is.embed_width);
    struct widths w = { 0 };
    widen(&w, &f->encoder);
    widen(&w, &f->decoder);
    f->workspace[0] = take_real(a, w.R, wide);
    f->workspace[1] = take_real(a, w.R, wide);
    if (f->keeping == QKV_KEEP_ALL) f->up = qkv_arena_rows(a, w.R, w.up, f->bytes);
    const size_t workspaces = a->used;
    if (plan->encoder) take_side(f, &f->encoder, a);
    if (plan->decoder) take_side(f, &f->decoder, a);
    f->n->activations = a->used - workspaces;
    void *normed = qkv_arena_rows(a, w.R, D, f->bytes);
    void *branch = f->drops ? qkv_arena_rows(a, w.R, D, f->bytes) : NULL;
    void *inner = qkv_arena_rows(a, w.R, w.inner, f->bytes);
    const struct normed_heads heads = take_heads(f, a, w.R);
    if (f->keeping != QKV_KEEP_NOTHING) take_back(f, a, &w);
    f->scratch = qkv_arena_alloc(a, f->scratch_bytes, 1);
    f->body->once.scratch = f->scratch;
    if (f->blocks) qkv_net_share_take(f, a);
    if (plan->more) plan->more(plan->ctx, a);
    f->decoder.stream.memory = f->encoder.final;
    share(f, &f->encoder, normed, branch, inner, &heads);
    share(f, &f->decoder, normed, branch, inner, &heads);
}

struct qkv_embed qkv_net_embedding(const struct qkv_net_state *f, const struct qkv_net_stack *s)
{
    const struct qkv_net_layers *body = f->body;
    const struct qkv_config_sizes *size = &f->n->is.size;
    const bool fixed = body->table[0] && f->n->is.position != QKV_POSITION_ROTARY;
    return (struct qkv_embed){ .V = s == &body->decoder ? qkv_described_vocab(&f->n->is)
                                                        : size->vocab,
                               .P = size->positions + f->n->is.position_offset,
                               .Y = size->types,
                               .D = qkv_described_embed_width(&f->n->is),
                               .token = qkv_net_words(body, s)->value,
                               .position = fixed ? body->table[0] : s->position.value,
                               .type = body->type.value,
                               .scale = (real)f->n->is.embed_scale };
}

// ---- a run -------------------------------------------------------------------------------------
static int64_t longest(const struct qkv_sequences *in)
{
    int64_t most = 0;
    for (int64_t i = 0; in && i < in->n; i++)
        most = qkv_max64(most, in->offsets[i + 1] - in->offsets[i]);
    return most;
}

// Lists the sublayers of a stack; false: memory is exhausted.
static bool list_sublayers(struct qkv_net_side *s)
{
    const struct qkv_stack *stack = &s->stack->is;
    s->sublayer = qkv_alloc_zero((size_t)qkv_stack_sublayers(stack), sizeof *s->sublayer);
    for (int64_t i = 0; s->sublayer && i < stack->blocks; i++)
        for (int k = 0; k < QKV_SUBLAYERS; k++)
            if (qkv_block_has(&stack->block[i], k))
                s->sublayer[s->sublayers++] = (struct qkv_net_sublayer){
                    .block = &stack->block[i], .kind = k, .layer = qkv_min64(i, stack->layers - 1)
                };
    return s->sublayer;
}

// Returns `a` with the sizes and offsets of attention from the rows of stack s to the rows of stack
// `keys`, which is s itself in self-attention.
static struct qkv_attention packed(const struct qkv_net_state *f, struct qkv_attention a,
                                   const struct qkv_net_side *s, const struct qkv_net_side *keys)
{
    a.probe = f->probe;
    a.precision = qkv_precision_attention(f->n->options.precision);
    return qkv_attention_packed(&a, s->all, keys->all, s->in->n, s->in->offsets, keys->in->offsets);
}

// Sets the attentions, rotary positions and stream of a stack, but not the arrays of the stream.
static void set_stream(struct qkv_net_state *f, struct qkv_net_side *s)
{
    const struct qkv_description *d = &f->n->is;
    const struct qkv_stack *stack = &s->stack->is;
    const uint64_t side = s == &f->decoder;
    s->attention = packed(f, qkv_described_attention(d, stack->causal, false), s, s);
    s->local = packed(f, qkv_described_attention(d, stack->causal, true), s, s);
    if (stack->relative) {
        s->attention.relative.at = s->local.relative.at = stack->relative;
        s->attention.relative.reach = s->local.relative.reach = stack->reach;
    }
    if (side && f->encoder.stack)
        s->across = packed(f, qkv_described_cross_attention(d), s, &f->encoder);
    if (d->position == QKV_POSITION_ROTARY) {
        real *const *table = f->body->table;
        s->places.turn[0].table = table[0];
        s->places.turn[1].table = table[1] ? table[1] : table[0];
        s->places.turn[0].turned = s->places.turn[1].turned = 2 * qkv_rope_pairs(d);
    }
    s->stream = qkv_stream_of(d, s->R, &s->places, &s->attention, &s->local, &s->across);
    s->stream.type = f->type;
    if (f->blocks) s->stream.sums = &f->share.sums;
    if (f->share.comm) {
        s->stream.rows = &f->share.rows;
        s->stream.ranks = &f->share.heads;
    }
    // The number of a random stream consists of the training step and, in the low 20 bits, the
    // stack (1 bit) and the place of the dropout in the stack (19 bits), which qkv_stream_dropout
    // adds.
    s->stream.drop = (struct qkv_dropout){ f->drops ? f->n->options.dropout : 0, f->seed,
                                           f->step << 20 | side << 19 };
}

static qkv_status count_scratch(struct qkv_net_state *f, const struct qkv_net_side *s)
{
    const bool back = f->keeping != QKV_KEEP_NOTHING;
    qkv_status status = QKV_OK;
    if (!s->stack) return QKV_OK;
    const size_t layers = qkv_stack_train_scratch(&s->stack->is, &s->stream, back, &status);
    if (status) return status;
    const struct qkv_embed e = qkv_net_embedding(f, s->stack);
    const size_t all[] = { layers, back ? qkv_embed_backward_scratch(s->R, &e) : 0,
                           back ? qkv_norm_backward_scratch(s->R, e.D) : 0,
                           qkv_linear_train_scratch(&s->stack->is.embed_in, f->type, s->R, back),
                           back ? qkv_net_share_scratch(f, &e) : 0 };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > f->scratch_bytes) f->scratch_bytes = all[i];
    return f->scratch_bytes == SIZE_MAX ? QKV_ERR_LIMIT : QKV_OK;
}

static struct qkv_net_side side_of(const struct qkv_net_stack *stack,
                                   const struct qkv_sequences *in)
{
    if (!in) return (struct qkv_net_side){ 0 };
    const int64_t R = in->offsets[in->n];
    return (struct qkv_net_side){
        .stack = stack, .in = in, .R = R, .all = R, .ids = in->ids, .types = in->types
    };
}

qkv_status qkv_net_begin(struct qkv_net_state *f, const struct qkv_net_plan *plan, qkv_error *err)
{
    qkv_net *n = f->n;
    struct qkv_arena count = { .size = SIZE_MAX };
    struct qkv_net_side *const sides[] = { &f->encoder, &f->decoder };
    f->body = n->body;
    f->body->once =
        (struct qkv_linear_once){ .precision = n->options.precision, .threads = qkv_threads() };
    f->type = qkv_net_type(n);
    f->bytes = qkv_net_type_bytes(f->type);
    f->drops = f->drops && n->options.dropout > 0;
    f->encoder = side_of(&f->body->encoder, plan->encoder);
    f->decoder = side_of(&f->body->decoder, plan->decoder);
    if (f->blocks && qkv_net_share_begin(f, plan->decoder)) return qkv_fail_memory(err, NULL);
    if (f->share.comm) f->decoder.R = f->share.rows.all;
    struct qkv_net_side *last = sides[plan->decoder != NULL];
    if (last->stack->is.final_norm.D) last->final_type = plan->final_type;
    if (qkv_net_positions(n, qkv_max64(longest(plan->encoder), longest(plan->decoder))) ||
        qkv_net_derive(n))
        return qkv_fail_memory(err, NULL);
    qkv_status status = QKV_OK;
    f->scratch_bytes = plan->scratch ? plan->scratch(plan->ctx) : 0;
    if (f->scratch_bytes == SIZE_MAX) status = QKV_ERR_LIMIT;
    for (int i = 0; i < 2; i++) {
        if (!sides[i]->stack) continue;
        if (!list_sublayers(sides[i])) return qkv_fail_memory(err, NULL);
        set_stream(f, sides[i]);
        if (!status) status = count_scratch(f, sides[i]);
    }
    if (status)
        return qkv_fail(err, status, NULL, "a training step over %" PRId64 " tokens cannot run: %s",
                        f->encoder.R + f->decoder.R, qkv_status_name(status));
    take_all(f, plan, &count);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_net_memory_for(n, count.used);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory, count.used, 0 };
    take_all(f, plan, &arena);
    if (f->share.comm) {
        struct qkv_net_side *s = &f->decoder;
        qkv_net_share_pick(&f->share, f->share.ids, s->in->ids);
        s->ids = f->share.ids;
        if (s->in->types) qkv_net_share_pick(&f->share, f->share.types, s->in->types);
        if (s->in->types) s->types = f->share.types;
    }
    return QKV_OK;
}

void qkv_net_end(struct qkv_net_state *f)
{
    qkv_free(f->encoder.sublayer);
    qkv_free(f->decoder.sublayer);
    if (f->blocks) qkv_net_share_end(f);
}
