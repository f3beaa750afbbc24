// SPDX-License-Identifier: MIT
// net_gru_run.c: prepares a run of the GRU encoder-decoder (memory, order of the sequences) and
// runs its encoder.
#include "model/gru/net_gru.h"
#include <math.h>
#include <string.h>

// ---- memory ------------------------------------------------------------------------------------
static real *reals(struct qkv_arena *arena, int64_t rows, int64_t columns)
{
    return qkv_arena_alloc(arena, (size_t)rows, (size_t)columns * sizeof(real));
}

static void most(size_t *a, size_t b)
{
    if (b > *a) *a = b;
}

static void product_bytes(size_t *bytes, const struct qkv_gru_run *r, int64_t R, int64_t K,
                          int64_t N)
{
    const qkv_precision precision = r->n->options.precision;
    const struct qkv_linear_once once = { .precision = precision, .threads = r->work.threads };
    const struct qkv_linear_back back = { .precision = precision, .threads = r->work.threads };
    most(bytes, qkv_linear_once_scratch(&once, K, N));
    if (r->backward) most(bytes, qkv_linear_once_backward_scratch(&back, R, K, N));
}

static struct qkv_embed table(const struct qkv_gru_run *r, const struct qkv_weight *w)
{
    return (struct qkv_embed){ .V = r->n->is.size.vocab, .D = r->D, .token = w->value };
}

// Returns the bytes of scratch that suffice for every layer. Layers run one after the other, so
// this is the largest number that a single layer needs.
static size_t layer_bytes(const struct qkv_gru_run *r)
{
    const int64_t D = r->D, wide = 2 * D, rows = qkv_max64(r->R, r->P);
    const struct qkv_net_gru_layers *b = r->body;
    const struct qkv_cross_entropy loss = { .V = r->n->is.size.vocab,
                                            .K = D,
                                            .precision = r->n->options.precision,
                                            .smoothing = r->n->options.smoothing,
                                            .threads = r->work.threads };
    const struct qkv_gru cell = qkv_gru_cell(r, &b->encoder[0], wide, false);
    const struct qkv_embed words = table(r, &b->source_word);
    size_t bytes = 0;
    product_bytes(&bytes, r, rows, wide, qkv_max64(3 * D, r->A));
    product_bytes(&bytes, r, rows, D, qkv_max64(3 * D, r->A));
    product_bytes(&bytes, r, rows, D, D);
    product_bytes(&bytes, r, rows, wide, D);
    product_bytes(&bytes, r, rows, D, r->A);
    product_bytes(&bytes, r, rows, wide, r->A);
    most(&bytes, qkv_cross_entropy_scratch(&loss, r->P));
    most(&bytes, qkv_gru_scratch(&cell, rows, r->sequences));
    most(&bytes, qkv_embed_backward_scratch(rows, &words));
    return bytes;
}

// Allocates [R][columns] for each of n layers or, if the run recomputes them, once for all.
static void reals_of_layers(const struct qkv_gru_run *r, struct qkv_arena *a, real **to, int64_t n,
                            int64_t R, int64_t columns)
{
    real *last = NULL;
    for (int64_t l = 0; l < n; l++) {
        if (!l || !r->recompute) last = reals(a, R, columns);
        if (a->base) to[l] = last;
    }
}

static void place_kept(struct qkv_gru_run *r, struct qkv_arena *a)
{
    const int64_t D = r->D, n = r->sequences;
    r->x = reals(a, r->R, D);
    reals_of_layers(r, a, r->h, 2 * r->layers, r->R, D);
    reals_of_layers(r, a, r->gates, 2 * r->layers, r->R, 4 * D);
    reals_of_layers(r, a, r->s_gates, r->decoders, r->P, 4 * D);
    for (int64_t l = 0; l < r->layers; l++) {
        real *y = reals(a, r->R, 2 * D);
        if (a->base) r->y[l] = y;
    }
    r->keys = reals(a, r->R, r->A);
    r->last = reals(a, n, D);
    for (int64_t l = 0; l < r->decoders; l++) {
        real *argument = reals(a, n, D), *first = reals(a, n, D), *s = reals(a, r->P, D);
        if (!a->base) continue;
        r->argument[l] = argument;
        r->first[l] = first;
        r->s[l] = s;
    }
    r->e = reals(a, r->P, D);
    r->context = reals(a, r->P, 2 * D);
    r->queries = reals(a, r->P, r->A);
    r->lse = reals(a, r->P, 1);
    r->before = reals(a, r->P, D);
    r->out = reals(a, r->P, D);
}

static void place_backward(struct qkv_gru_run *r, struct qkv_arena *a)
{
    const int64_t D = r->D, n = r->sequences;
    r->d_out = reals(a, r->P, D);
    r->d_s[0] = reals(a, r->P, D);
    r->d_s[1] = reals(a, r->P, D);
    r->d_context = reals(a, r->P, 2 * D);
    r->d_e = reals(a, r->P, D);
    r->d_input = reals(a, r->P, 3 * D);
    r->d_hidden = reals(a, r->P, 3 * D + r->A);
    r->previous = reals(a, r->P, D);
    r->d_y[0] = reals(a, r->R, 2 * D);
    r->d_y[1] = reals(a, r->R, 2 * D);
    r->d_half = reals(a, r->R, D);
    r->d_x = reals(a, r->R, 2 * D);
    r->d_keys = reals(a, r->R, r->A);
    r->d_first = reals(a, n, r->decoders * D);
    r->d_last = reals(a, n, D);
    r->d_score = reals(a, n, r->A);
    r->four = reals(a, r->work.threads, 4 * D);
    r->pack_back_state = qkv_arena_alloc(a, 1, qkv_linear_pack_bytes(&r->back_state));
    r->pack_back_context = qkv_arena_alloc(a, 1, qkv_linear_pack_bytes(&r->back_context));
}

void qkv_gru_products(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    const struct qkv_gru_weights *w = &b->decoder[0];
    const int64_t D = r->D;
    const struct qkv_linear plain = { .precision = r->n->options.precision, .parts = 1 };
    r->of_state = r->of_context = r->back_state = r->back_context = plain;
    r->of_state.K = D;
    r->of_state.parts = 2;
    r->of_state.part[0] = (struct qkv_linear_part){ 3 * D, w->w_h.value, w->b_h.value, false };
    r->of_state.part[1] = (struct qkv_linear_part){ r->A, b->query.value, NULL, false };
    r->of_context.K = 2 * D;
    r->of_context.part[0] = (struct qkv_linear_part){ 3 * D, b->context.value, NULL, false };
    r->back_state.K = 3 * D + r->A;
    r->back_state.part[0] = (struct qkv_linear_part){ D, w->w_h.value, NULL, true };
    r->back_context.K = 3 * D;
    r->back_context.part[0] = (struct qkv_linear_part){ 2 * D, b->context.value, NULL, true };
}

// Computes the sizes of a run and allocates its arrays from the arena; an arena without memory only
// counts bytes. Returns false if the size overflows.
static bool place_run(struct qkv_gru_run *r, struct qkv_arena *a)
{
    const int64_t n = r->sequences, D = r->D;
    qkv_gru_products(r);
    r->order = qkv_arena_alloc(a, (size_t)n, sizeof *r->order);
    r->from = qkv_arena_alloc(a, (size_t)n + 1, sizeof *r->from);
    r->to = qkv_arena_alloc(a, (size_t)n + 1, sizeof *r->to);
    r->source = qkv_arena_alloc(a, (size_t)r->R, sizeof *r->source);
    r->target_in = qkv_arena_alloc(a, (size_t)r->P, sizeof *r->target_in);
    r->target_out = qkv_arena_alloc(a, (size_t)r->P, sizeof *r->target_out);
    r->h = qkv_arena_alloc(a, (size_t)r->layers, 2 * sizeof *r->h);
    r->gates = qkv_arena_alloc(a, (size_t)r->layers, 2 * sizeof *r->gates);
    r->y = qkv_arena_alloc(a, (size_t)r->layers, sizeof *r->y);
    r->argument = qkv_arena_alloc(a, (size_t)r->decoders, sizeof *r->argument);
    r->first = qkv_arena_alloc(a, (size_t)r->decoders, sizeof *r->first);
    r->s = qkv_arena_alloc(a, (size_t)r->decoders, sizeof *r->s);
    r->s_gates = qkv_arena_alloc(a, (size_t)r->decoders, sizeof *r->s_gates);
    const size_t before = a->used;
    place_kept(r, a);
    r->activations = a->used - before;
    r->state = reals(a, n, D);
    r->units = reals(a, n, 3 * D + r->A);
    r->mixed = reals(a, n, 2 * D);
    r->added = reals(a, n, 3 * D);
    r->workspace = reals(a, r->work.threads, 2 * r->longest);
    r->pack_state = qkv_arena_alloc(a, 1, qkv_linear_pack_bytes(&r->of_state));
    r->pack_context = qkv_arena_alloc(a, 1, qkv_linear_pack_bytes(&r->of_context));
    if (r->backward) place_backward(r, a);
    r->scratch_bytes = layer_bytes(r);
    r->work.scratch = qkv_arena_alloc(a, 1, r->scratch_bytes);
    return !qkv_arena_full(a);
}

// ---- order -------------------------------------------------------------------------------------
static int64_t length(const struct qkv_sequences *s, int64_t i)
{
    return s->offsets[i + 1] - s->offsets[i];
}

// Sorts sequences by decreasing output length; equal lengths keep their order. Insertion sort is
// fast enough: a batch is nearly sorted, or the sort takes little time compared with the run.
static void arrange(struct qkv_gru_run *r, const struct qkv_sequences *in,
                    const struct qkv_sequences *source, const int32_t *targets)
{
    for (int64_t i = 0; i < r->sequences; i++) {
        int64_t at = i;
        for (; in && at > 0 && length(in, r->order[at - 1]) < length(in, i); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = i;
    }
    r->from[0] = r->to[0] = 0;
    for (int64_t i = 0; i < r->sequences; i++) {
        const int64_t s = r->order[i], S = length(source, s), T = in ? length(in, s) : 0;
        memcpy(r->source + r->from[i], source->ids + source->offsets[s],
               (size_t)S * sizeof(int32_t));
        r->from[i + 1] = r->from[i] + S;
        r->to[i + 1] = r->to[i] + T;
        if (!T) continue;
        memcpy(r->target_in + r->to[i], in->ids + in->offsets[s], (size_t)T * sizeof(int32_t));
        if (targets)
            memcpy(r->target_out + r->to[i], targets + in->offsets[s], (size_t)T * sizeof(int32_t));
    }
}

void qkv_gru_sizes(struct qkv_gru_run *r, qkv_net *n)
{
    r->n = n;
    r->body = n->body;
    r->D = n->is.size.width;
    r->A = n->is.size.inner;
    r->layers = n->is.size.layers;
    r->decoders = n->is.decoder_layers;
    r->work.threads = qkv_threads();
    r->work.precision = n->options.precision;
    r->recompute = n->options.recompute;
}

qkv_status qkv_gru_run_begin(struct qkv_gru_run *r, qkv_net *n, const struct qkv_sequences *in,
                             const struct qkv_sequences *source, const int32_t *targets,
                             qkv_error *err)
{
    qkv_gru_sizes(r, n);
    r->sequences = source->n;
    r->R = source->offsets[source->n];
    r->P = in ? in->offsets[in->n] : 0;
    r->longest = 1;
    for (int64_t i = 0; i < source->n; i++) r->longest = qkv_max64(r->longest, length(source, i));
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    void *memory = NULL;
    if (place_run(r, &arena))
        memory = r->apart ? qkv_alloc(arena.used, 1) : qkv_net_memory_for(n, arena.used);
    if (!memory) return qkv_fail_memory(err, NULL);
    if (r->apart)
        r->memory = memory;
    else
        n->activations = r->activations;
    arena = (struct qkv_arena){ memory, arena.used, 0 };
    place_run(r, &arena);
    arrange(r, in, source, targets);
    return QKV_OK;
}

// ---- layers ------------------------------------------------------------------------------------
struct qkv_gru qkv_gru_cell(const struct qkv_gru_run *r, const struct qkv_gru_weights *w,
                            int64_t D_in, bool reverse)
{
    return (struct qkv_gru){ .D_in = D_in,
                             .D = r->D,
                             .w_i = w->w_i.value,
                             .w_h = w->w_h.value,
                             .b_i = w->b_i.value,
                             .b_h = w->b_h.value,
                             .reverse = reverse,
                             .precision = r->n->options.precision,
                             .threads = r->work.threads,
                             .scratch = r->work.scratch };
}

// ---- encoder -----------------------------------------------------------------------------------
static struct qkv_dropout dropout(const struct qkv_gru_run *r, uint64_t place)
{
    return (struct qkv_dropout){ r->drops ? r->n->options.dropout : 0, r->seed,
                                 r->step << 20 | place };
}

static void embed(struct qkv_gru_run *r, real *y, const struct qkv_weight *w, const int32_t *ids,
                  int64_t R, uint64_t place)
{
    const struct qkv_embed words = table(r, w);
    const struct qkv_dropout drop = dropout(r, place);
    qkv_embed_forward(y, ids, NULL, NULL, R, &words);
    if (drop.p > 0) qkv_dropout_forward(y, NULL, y, 0, 0, R * r->D, &drop);
}

static void embed_backward(struct qkv_gru_run *r, real *dy, const struct qkv_weight *w,
                           const int32_t *ids, int64_t R, uint64_t place)
{
    const struct qkv_embed words = table(r, w);
    const struct qkv_dropout drop = dropout(r, place);
    if (drop.p > 0) qkv_dropout_backward(dy, 0, dy, 0, R * r->D, &drop);
    qkv_embed_backward(w->grad, NULL, NULL, dy, ids, NULL, NULL, R, &words, r->work.scratch);
}

// Copies D numbers of each of R rows; rows of `to` are ld_to apart, rows of `from` ld_from.
static void copy_rows(real *to, int64_t ld_to, const real *from, int64_t ld_from, int64_t R,
                      int64_t D)
{
    for (int64_t i = 0; i < R; i++)
        memcpy(to + i * ld_to, from + i * ld_from, (size_t)D * sizeof *to);
}

// Runs the GRU of layer l in one direction over x: computes its states and gates.
static void run_cell(struct qkv_gru_run *r, int64_t l, int64_t way, const real *x)
{
    const int64_t c = 2 * l + way;
    const struct qkv_gru cell = qkv_gru_cell(r, &r->body->encoder[c], l ? 2 * r->D : r->D, way);
    qkv_gru_forward(r->h[c], r->gates[c], x, NULL, r->from, r->sequences, &cell);
}

void qkv_gru_encode(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    const int64_t D = r->D, n = r->sequences;
    embed(r, r->x, &b->source_word, r->source, r->R, 0);
    if (r->P) embed(r, r->e, &b->target_word, r->target_in, r->P, 1);
    const real *x = r->x;
    for (int64_t l = 0; l < r->layers; l++) {
        for (int64_t way = 0; way < 2; way++) {
            run_cell(r, l, way, x);
            copy_rows(r->y[l] + way * D, 2 * D, r->h[2 * l + way], D, r->R, D);
        }
        x = r->y[l];
    }
    if (r->R) qkv_gru_product(r, r->keys, x, r->R, &b->key, NULL);
    const real *back = r->h[2 * r->layers - 1];
    for (int64_t i = 0; i < n; i++) {
        if (r->from[i] < r->from[i + 1])
            memcpy(r->last + i * D, back + r->from[i] * D, (size_t)D * sizeof *back);
        else
            memset(r->last + i * D, 0, (size_t)D * sizeof *back);
    }
    for (int64_t l = 0; l < r->decoders; l++) {
        qkv_gru_product(r, r->argument[l], r->last, n, &b->begin[l], NULL);
        qkv_activation_forward(r->first[l], r->argument[l], 0, n * D, QKV_ACT_TANH);
    }
}

// Runs backward from the decoder's initial states to the encoder rows from which they were
// computed.
static void begin_backward(struct qkv_gru_run *r)
{
    const int64_t D = r->D, n = r->sequences;
    for (int64_t l = 0; l < r->decoders; l++) {
        real *d = r->d_first + l * n * D;
        qkv_activation_backward(d, d, r->argument[l], 0, n * D, QKV_ACT_TANH);
        qkv_gru_product_backward(r,
                                 &(struct qkv_linear_rows){ .dx = r->d_last,
                                                            .dx_add = l ? r->d_last : NULL,
                                                            .dy = { d },
                                                            .lddy = { D },
                                                            .x = r->last },
                                 n, &r->body->begin[l]);
    }
    for (int64_t i = 0; i < n; i++)
        if (r->from[i] < r->from[i + 1])
            qkv_kernel()->add_row(r->d_y[0] + r->from[i] * 2 * D + D, r->d_last + i * D, 1, D);
}

// Computes the gradients of the encoder. Attention reads the encoder output h^e as values and,
// projected, as keys. d_y[0] already contains the gradient of h^e through the values; this function
// adds the gradients through the keys and the initial states, and runs backward through the layers.
void qkv_gru_encode_backward(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    const int64_t D = r->D, R = r->R, n = r->sequences;
    if (R)
        qkv_gru_product_backward(r,
                                 &(struct qkv_linear_rows){ .dx = r->d_y[0],
                                                            .dx_add = r->d_y[0],
                                                            .dy = { r->d_keys },
                                                            .lddy = { r->A },
                                                            .x = r->y[r->layers - 1] },
                                 R, &b->key);
    begin_backward(r);
    for (int64_t l = r->layers - 1; l >= 0; l--) {
        const int64_t D_in = l ? 2 * D : D;
        const real *x = l ? r->y[l - 1] : r->x;
        for (int64_t way = 0; way < 2; way++) {
            const struct qkv_gru_weights *w = &b->encoder[2 * l + way];
            const struct qkv_gru cell = qkv_gru_cell(r, w, D_in, way);
            const struct qkv_gru_grad g = { w->w_i.grad, w->w_h.grad, w->b_i.grad, w->b_h.grad };
            if (r->recompute) run_cell(r, l, way, x);
            copy_rows(r->d_half, D, r->d_y[0] + way * D, 2 * D, R, D);
            qkv_gru_backward(way ? r->d_x : r->d_y[1], NULL, &g, r->d_half, r->h[2 * l + way],
                             r->gates[2 * l + way], x, NULL, r->from, n, &cell);
        }
        if (R) qkv_kernel()->add_row(r->d_y[1], r->d_x, 1, R * D_in);
        real *swap = r->d_y[0];
        r->d_y[0] = r->d_y[1];
        r->d_y[1] = swap;
    }
    embed_backward(r, r->d_y[0], &b->source_word, r->source, R, 0);
    embed_backward(r, r->d_e, &b->target_word, r->target_in, r->P, 1);
}
