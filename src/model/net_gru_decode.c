// SPDX-License-Identifier: MIT
// net_gru_decode.c: the encoder-decoder with GRUs, written out token by token: `beam` hypotheses of
// each source side by side.
#include "model/net_gru.h"
#include <string.h>

// The products of a step, packed once.
enum { TOKEN = 0, STATE, CONTEXT, OUT_STATE, OUT_TOKEN, OUT_CONTEXT, UPPER };

struct decode {
    struct qkv_gru_run r; // the encoder's
    int64_t beam, rows;
    struct qkv_linear *of; // [UPPER + 2 (decoders - 1)]: of the layers above w_i, then w_h
    int64_t products;
    void *memory; // of all that follows
    real **h;     // [decoders]: [rows][D]
    real *spare;  // [rows][D]
    real *e, *gates, *units, *added, *context, *before, *out;
    real *below; // state of the layer that a step works on
    struct qkv_cross_entropy logits;
};

static bool place(struct decode *d, struct qkv_arena *a)
{
    const int64_t D = d->r.D, rows = d->rows;
    const size_t width = (size_t)D * sizeof(real), n = (size_t)rows;
    d->h = qkv_arena_take(a, (size_t)d->r.decoders, sizeof *d->h);
    for (int64_t l = 0; l < d->r.decoders; l++) {
        real *h = qkv_arena_take(a, n, width);
        if (a->base) d->h[l] = h;
    }
    d->spare = qkv_arena_take(a, n, width);
    d->e = qkv_arena_take(a, n, width);
    d->gates = qkv_arena_take(a, n, 4 * width);
    d->units = qkv_arena_take(a, n, 3 * width + (size_t)d->r.A * sizeof(real));
    d->added = qkv_arena_take(a, n, 3 * width);
    d->context = qkv_arena_take(a, n, 2 * width);
    d->before = qkv_arena_take(a, n, width);
    d->out = qkv_arena_take(a, n, width);
    d->logits.scratch = qkv_arena_take(a, 1, qkv_cross_entropy_scratch(&d->logits, rows));
    return !qkv_arena_full(a);
}

static struct qkv_linear product(const struct decode *d, int64_t K, int64_t N,
                                 const struct qkv_weight *w, const struct qkv_weight *b)
{
    return (struct qkv_linear){ .K = K,
                                .precision = d->r.n->options.precision,
                                .parts = 1,
                                .part = { { N, w->value, b ? b->value : NULL, false } } };
}

static qkv_status pack(struct decode *d)
{
    const struct qkv_net_gru_body *b = d->r.body;
    const int64_t D = d->r.D;
    d->of = qkv_alloc_zero((size_t)d->products, sizeof *d->of);
    if (!d->of) return QKV_ERR_LIMIT;
    d->of[TOKEN] = product(d, D, 3 * D, &b->decoder[0].w_i, &b->decoder[0].b_i);
    d->of[STATE] = d->r.of_state;
    d->of[CONTEXT] = d->r.of_context;
    d->of[OUT_STATE] = product(d, D, D, &b->state.w, &b->state.b);
    d->of[OUT_TOKEN] = product(d, D, D, &b->token.w, NULL);
    d->of[OUT_CONTEXT] = product(d, 2 * D, D, &b->mixed.w, NULL);
    for (int64_t l = 1; l < d->r.decoders; l++) {
        const struct qkv_gru_weights *w = &b->decoder[l];
        d->of[UPPER + 2 * (l - 1)] = product(d, D, 3 * D, &w->w_i, &w->b_i);
        d->of[UPPER + 2 * (l - 1) + 1] = product(d, D, 3 * D, &w->w_h, &w->b_h);
    }
    for (int64_t i = 0; i < d->products; i++) {
        const qkv_status status = qkv_linear_pack(&d->of[i]);
        if (status) return status;
    }
    return QKV_OK;
}

qkv_status qkv_gru_decode_begin(void **state, qkv_net *n, const struct qkv_sequences *source,
                                int beam, int64_t most, qkv_error *err)
{
    (void)most; // a state does not grow with its steps
    struct decode *d = qkv_alloc_zero(1, sizeof *d);
    *state = d;
    if (!d) return qkv_fail_memory(err, NULL);
    d->r.apart = true;
    const qkv_status status = qkv_gru_run_begin(&d->r, n, NULL, source, NULL, err);
    if (status) return status;
    const struct qkv_net_gru_body *b = d->r.body;
    d->beam = beam;
    d->products = UPPER + 2 * (d->r.decoders - 1);
    d->logits =
        (struct qkv_cross_entropy){ .V = n->is.size.vocab,
                                    .K = d->r.D,
                                    .w = b->logits.value ? b->logits.value : b->target_word.value,
                                    .b = b->logits_bias.value,
                                    .precision = n->options.precision,
                                    .threads = d->r.threads };
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    if (__builtin_mul_overflow(source->n, d->beam, &d->rows) || !place(d, &arena) || pack(d))
        return qkv_fail_memory(err, NULL);
    d->memory = qkv_alloc(arena.used, 1);
    if (!d->memory) return qkv_fail_memory(err, NULL);
    arena = (struct qkv_arena){ d->memory, arena.used, 0 };
    place(d, &arena);
    qkv_gru_encode(&d->r);
    const size_t width = (size_t)d->r.D * sizeof(real);
    for (int64_t l = 0; l < d->r.decoders; l++)
        for (int64_t i = 0; i < d->rows; i++)
            memcpy(d->h[l] + i * d->r.D, d->r.first[l] + i / beam * d->r.D, width);
    return QKV_OK;
}

void qkv_gru_decode_end(void *state)
{
    struct decode *d = state;
    if (!d) return;
    for (int64_t i = 0; i < d->products && d->of; i++) qkv_linear_free(&d->of[i]);
    qkv_free(d->of);
    qkv_free(d->memory);
    qkv_free(d->r.memory);
    qkv_free(d);
}

// ---- a step ------------------------------------------------------------------------------------
static void attend(void *ctx, int64_t i, int thread)
{
    struct decode *d = ctx;
    const struct qkv_gru_run *r = &d->r;
    const int64_t from = r->from[i / d->beam], n = r->from[i / d->beam + 1] - from;
    qkv_gru_attend(r, d->context + i * 2 * r->D, r->room + thread * 2 * r->longest,
                   d->units + d->rows * 3 * r->D + i * r->A, r->keys + from * r->A,
                   r->y[r->layers - 1] + from * 2 * r->D, n);
}

static void gates(void *ctx, int64_t i, int thread)
{
    struct decode *d = ctx;
    const int64_t D = d->r.D;
    real *h = d->below + i * D;
    (void)thread;
    qkv_kernel()->gru_row(h, d->gates + i * 4 * D, D, d->units + i * 3 * D, D, h, D);
}

static void go(const struct decode *d, int which, real *y, int64_t ld, const real *x,
               const real *residual)
{
    qkv_linear_forward((void *[]){ y }, &ld, x, d->rows, &d->of[which],
                       &(struct qkv_after){ .residual = residual });
}

qkv_status qkv_gru_decode_step(void *state, real *logits, const int32_t *tokens, int64_t t,
                               qkv_error *err)
{
    struct decode *d = state;
    const int64_t D = d->r.D, rows = d->rows;
    const struct qkv_embed words = { .V = d->logits.V,
                                     .D = D,
                                     .token = d->r.body->target_word.value };
    (void)t;
    (void)err;
    qkv_embed_forward(d->e, tokens, NULL, NULL, rows, &words);
    qkv_linear_forward((void *[]){ d->units, d->units + rows * 3 * D }, NULL, d->h[0], rows,
                       &d->of[STATE], NULL);
    qkv_parallel_for_most(rows, d->r.threads, attend, d);
    go(d, CONTEXT, d->added, 3 * D, d->context, NULL);
    qkv_linear_forward((void *[]){ d->gates }, (int64_t[]){ 4 * D }, d->e, rows, &d->of[TOKEN],
                       &(struct qkv_after){ .residual = d->added });
    d->below = d->h[0];
    qkv_parallel_for_most(rows, d->r.threads, gates, d);
    for (int64_t l = 1; l < d->r.decoders; l++) {
        go(d, (int)(UPPER + 2 * (l - 1)), d->gates, 4 * D, d->h[l - 1], NULL);
        go(d, (int)(UPPER + 2 * (l - 1) + 1), d->units, 3 * D, d->h[l], NULL);
        d->below = d->h[l];
        qkv_parallel_for_most(rows, d->r.threads, gates, d);
    }
    go(d, OUT_STATE, d->before, D, d->h[d->r.decoders - 1], NULL);
    go(d, OUT_TOKEN, d->before, D, d->e, d->before);
    go(d, OUT_CONTEXT, d->before, D, d->context, d->before);
    qkv_activation_forward(d->out, d->before, 0, rows * D, QKV_ACT_TANH);
    qkv_logits(logits, d->out, rows, &d->logits);
    return QKV_OK;
}

void qkv_gru_decode_reorder(void *state, const int64_t *parent, int64_t t)
{
    struct decode *d = state;
    const size_t width = (size_t)d->r.D * sizeof(real);
    (void)t;
    for (int64_t l = 0; l < d->r.decoders; l++) {
        for (int64_t i = 0; i < d->rows; i++)
            memcpy(d->spare + i * d->r.D, d->h[l] + parent[i] * d->r.D, width);
        real *swap = d->h[l];
        d->h[l] = d->spare;
        d->spare = swap;
    }
}
