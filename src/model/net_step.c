// SPDX-License-Identifier: MIT
// net_step.c: a Transformer's decoder one token at a time, for many hypotheses side by side.
//
// A step is the stack's own forward over one row a hypothesis; only attention differs: keys and
// values of earlier steps lie in a cache, those of the source were made once.  Hypotheses of one
// source read the same keys there: they are its queries.  Both computed as the whole run computes
// them, so a step's numbers are those of the whole sequence.
#include "model/net_body.h"
#include <string.h>

struct state {
    struct qkv_net_flow f;
    int64_t rows, beam, most, step;
    struct qkv_sequences in; // one token a row
    int64_t *offsets;        // [rows + 1] of that
    int64_t *hypotheses;     // [sources + 1] rows of each source
    struct qkv_sequences source;
    // By layer of the decoder: keys and values of earlier steps [rows][most][width] in two places
    // that reordering changes; of the source [S][memory.N].
    char **cache[2], **memory;
    int64_t width; // of k and v in a row of the cache
    char *block;   // all of it
};

// What the decoder's self-attention is at step t.
static struct qkv_attention self_at(const struct state *d, int64_t t, int64_t first_N)
{
    const struct qkv_description *is = &d->f.n->is;
    const int64_t E = qkv_head_keys(is), F = qkv_head_values(is), W = d->width;
    return (struct qkv_attention){
        .B = d->rows,
        .T = 1,
        .S = t + 1,
        .H = is->size.heads,
        .G = is->size.kv_heads,
        .E = E,
        .F = F,
        .precision = qkv_precision_attention(d->f.n->options.precision),
        .q_strides = { first_N, first_N, E },
        .k_strides = { d->most * W, W, E },
        .v_strides = { d->most * W, W, F },
    };
}

static struct qkv_attention cross_at(const struct state *d, const struct qkv_net_part *p)
{
    const struct qkv_description *is = &d->f.n->is;
    const int64_t E = qkv_head_keys(is), F = qkv_head_values(is);
    const int64_t S = d->source.offsets[d->source.n], N = p->memory.N;
    return (struct qkv_attention){
        .B = 1,
        .T = d->rows,
        .S = S,
        .H = is->size.heads,
        .G = is->size.kv_heads,
        .E = E,
        .F = F,
        .precision = qkv_precision_attention(d->f.n->options.precision),
        .sequences = d->source.n,
        .q_offsets = d->hypotheses,
        .k_offsets = d->source.offsets,
        .k_strides = { S * N, N, E },
        .v_strides = { S * N, N, F },
    };
}

static qkv_status attend(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    struct state *d = f->ctx;
    const struct qkv_net_part *p = &s->stack->part[part];
    struct qkv_net_keep *k = &s->keep[part];
    const struct qkv_description *is = &f->n->is;
    const int64_t keys = is->size.kv_heads * qkv_head_keys(is);
    if (p->kind == QKV_NET_CROSS) {
        const struct qkv_attention a = cross_at(d, p);
        const char *memory = d->memory[p->layer];
        return qkv_attention_real(k->heads, k->lse, NULL, k->first, memory,
                                  memory + (size_t)keys * f->bytes, &a, f->scratch);
    }
    const struct qkv_attention a = self_at(d, d->step, p->first.N);
    const size_t row = (size_t)p->first.N * f->bytes, entry = (size_t)d->width * f->bytes;
    char *cache = d->cache[0][p->layer], *first = k->first;
    qkv_net_rotate(f, s, p, first, false);
    for (int64_t r = 0; r < d->rows; r++)
        memcpy(cache + (size_t)(r * d->most + d->step) * entry,
               first + (size_t)(r + 1) * row - entry, entry);
    return qkv_attention_real(k->heads, k->lse, NULL, first, cache, cache + (size_t)keys * f->bytes,
                              &a, f->scratch);
}

// ---- memory ------------------------------------------------------------------------------------
static void take(struct state *d, struct qkv_arena *a, const struct qkv_net_stack *stack)
{
    const size_t layers = (size_t)stack->layers, rows = (size_t)d->rows;
    const size_t entry = (size_t)(d->most * d->width) * d->f.bytes;
    d->offsets = qkv_arena_take(a, rows + 1, sizeof *d->offsets);
    d->hypotheses = qkv_arena_take(a, (size_t)d->source.n + 1, sizeof *d->hypotheses);
    d->cache[0] = qkv_arena_take(a, layers, sizeof(char *));
    d->cache[1] = qkv_arena_take(a, layers, sizeof(char *));
    d->memory = qkv_arena_take(a, layers, sizeof(char *));
    for (int64_t i = 0; i < stack->parts; i++) {
        const struct qkv_net_part *p = &stack->part[i];
        for (int k = 0; p->kind == QKV_NET_SELF && k < 2; k++) {
            char *at = qkv_arena_take(a, rows, entry);
            if (d->block) d->cache[k][p->layer] = at;
        }
        if (p->kind != QKV_NET_CROSS) continue;
        char *at = qkv_arena_take(a, (size_t)d->source.offsets[d->source.n],
                                  (size_t)p->memory.N * d->f.bytes);
        if (d->block) d->memory[p->layer] = at;
    }
}

// The encoder's rows as keys and values of every layer.
static qkv_status read_source(struct state *d, qkv_error *err)
{
    struct qkv_net_flow f = { .n = d->f.n, .keeping = QKV_KEEP_NOTHING, .threads = d->f.threads };
    const struct qkv_net_stack *stack = d->f.decoder.stack;
    struct qkv_net_flow_plan plan = { .encoder = &d->source };
    const int64_t S = d->source.offsets[d->source.n];
    for (int64_t i = 0; i < stack->parts; i++) {
        if (stack->part[i].kind != QKV_NET_CROSS) continue;
        const size_t bytes = qkv_net_product_scratch(&f, S, &stack->part[i].memory, false);
        if (bytes > plan.scratch) plan.scratch = bytes;
    }
    qkv_status s = qkv_net_flow_begin(&f, &plan, err);
    if (s) return s;
    s = qkv_net_side_forward(&f, &f.encoder);
    if (s) return qkv_fail(err, s, NULL, "a layer was refused");
    for (int64_t i = 0; i < stack->parts; i++) {
        const struct qkv_net_part *p = &stack->part[i];
        if (p->kind == QKV_NET_CROSS)
            qkv_net_product(&f, d->memory[p->layer], f.type, f.encoder.final, 0, S, &p->memory,
                            NULL);
    }
    return QKV_OK;
}

// Scratch of every step's attention and of the projection to tokens.
static size_t most_scratch(const struct state *d, const struct qkv_net_stack *stack,
                           const struct qkv_cross_entropy *logits)
{
    size_t most = qkv_cross_entropy_scratch(logits, d->rows);
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < stack->parts && i < QKV_NET_LAYER_PARTS; i++) {
        const struct qkv_net_part *p = &stack->part[i];
        const int64_t steps = p->kind == QKV_NET_SELF ? d->most : p->kind == QKV_NET_CROSS;
        for (int64_t t = 0; t < steps; t++) {
            const struct qkv_attention a =
                p->kind == QKV_NET_SELF ? self_at(d, t, p->first.N) : cross_at(d, p);
            const size_t bytes = qkv_attention_real_scratch(&a, false, &status);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

static struct qkv_cross_entropy to_tokens(const struct state *d)
{
    const qkv_net *n = d->f.n;
    const struct qkv_net_body *body = n->body;
    return (struct qkv_cross_entropy){
        .V = n->shape.vocab,
        .K = n->shape.width,
        .w = body->logits.value ? body->logits.value : body->word.value,
        .b = body->logits_bias.value ? body->logits_bias.value : body->logits_bias_fixed,
        .precision = n->options.precision,
        .x = d->f.decoder.final_type,
        .threads = d->f.threads,
        .scratch = d->f.scratch
    };
}

static qkv_status prepare(struct state *d, const struct qkv_net_stack *stack, qkv_error *err)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    qkv_net *n = d->f.n;
    take(d, &count, stack);
    if (!qkv_arena_full(&count)) d->block = qkv_alloc_zero(count.used ? count.used : 1, 1);
    if (!d->block) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { d->block, count.used, 0 };
    take(d, &arena, stack);
    for (int64_t r = 0; r <= d->rows; r++) d->offsets[r] = r;
    for (int64_t i = 0; i <= d->source.n; i++) d->hypotheses[i] = i * d->beam;
    d->in = (struct qkv_sequences){ .n = d->rows, .offsets = d->offsets };
    d->f.decoder.stack = stack;
    if (n->kind == QKV_NET_ENCODER_DECODER) {
        const qkv_status s = read_source(d, err);
        if (s) return s;
        d->f.encoder.in = &d->source; // its shape; its rows are in d->memory
        d->f.encoder.R = d->source.offsets[d->source.n];
    }
    struct qkv_net_flow_plan plan = { .decoder = &d->in, .final_type = d->f.type };
    const struct qkv_cross_entropy wide = to_tokens(d);
    struct qkv_cross_entropy narrow = wide;
    narrow.x = d->f.type;
    const size_t other = qkv_cross_entropy_scratch(&narrow, d->rows);
    if (qkv_net_positions(n, d->most)) return qkv_fail_memory(err, NULL);
    plan.scratch = most_scratch(d, stack, &wide);
    if (other > plan.scratch) plan.scratch = other;
    return qkv_net_flow_begin(&d->f, &plan, err);
}

qkv_status qkv_net_transformer_begin(void **state, qkv_net *n, const struct qkv_sequences *source,
                                     int beam, int64_t most, qkv_error *err)
{
    struct qkv_net_body *body = n->body;
    const struct qkv_description *is = &n->is;
    struct state *d = qkv_alloc_zero(1, sizeof *d);
    *state = d;
    if (!d) return qkv_fail_memory(err, NULL);
    d->f = (struct qkv_net_flow){ .n = n,
                                  .body = body,
                                  .keeping = QKV_KEEP_NOTHING,
                                  .threads = qkv_threads(),
                                  .type = qkv_net_type(n),
                                  .attend = attend,
                                  .ctx = d };
    d->f.bytes = qkv_net_type_bytes(d->f.type);
    d->rows = source->n * beam;
    d->beam = beam;
    d->most = most;
    d->source = *source;
    d->width = is->size.kv_heads * (qkv_head_keys(is) + qkv_head_values(is));
    const qkv_status s = prepare(d, &body->decoder, err);
    if (s) {
        qkv_net_transformer_end(d);
        *state = NULL;
    }
    return s;
}

qkv_status qkv_net_transformer_step(void *state, real *logits, const int32_t *tokens, int64_t t,
                                    qkv_error *err)
{
    struct state *d = state;
    struct qkv_net_side *s = &d->f.decoder;
    d->step = t;
    d->in.ids = tokens;
    s->in = &d->in;
    s->first = (int32_t)t;
    const qkv_status status = qkv_net_side_forward(&d->f, s);
    if (status) return qkv_fail(err, status, NULL, "a layer was refused");
    const struct qkv_cross_entropy p = to_tokens(d);
    qkv_logits(logits, s->final, d->rows, &p);
    return QKV_OK;
}

struct reorder {
    struct state *d;
    const int64_t *parent;
    size_t entry, used; // bytes of a row of the cache, and of what is in it
};
static void reorder_row(void *ctx, int64_t i, int thread)
{
    const struct reorder *j = ctx;
    const int64_t layer = i / j->d->rows, r = i % j->d->rows;
    (void)thread;
    memcpy(j->d->cache[1][layer] + (size_t)r * j->entry,
           j->d->cache[0][layer] + (size_t)j->parent[r] * j->entry, j->used);
}

void qkv_net_transformer_reorder(void *state, const int64_t *parent, int64_t t)
{
    struct state *d = state;
    const size_t one = (size_t)d->width * d->f.bytes;
    struct reorder j = { d, parent, (size_t)d->most * one, (size_t)(t + 1) * one };
    qkv_parallel_for(d->f.decoder.stack->layers * d->rows, reorder_row, &j);
    char **other = d->cache[0];
    d->cache[0] = d->cache[1];
    d->cache[1] = other;
}

void qkv_net_transformer_end(void *state)
{
    struct state *d = state;
    if (!d) return;
    qkv_free(d->block);
    qkv_free(d);
}
