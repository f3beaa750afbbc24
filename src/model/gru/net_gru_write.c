// SPDX-License-Identifier: MIT
// net_gru_write.c: runs the GRU decoder one token at a time, for a batch of rows; each row has its
// own states and source.
#include "model/gru/net_gru.h"
#include <string.h>

// Indices of the products of a step, whose weights are packed once.
enum { TOKEN = 0, STATE, CONTEXT, OUT_STATE, OUT_TOKEN, OUT_CONTEXT, UPPER };

static bool place(struct qkv_gru_writer *w, struct qkv_arena *a)
{
    const int64_t D = w->r.D, rows = w->rows;
    const size_t width = (size_t)D * sizeof(real), n = (size_t)rows;
    w->h = qkv_arena_alloc(a, (size_t)w->r.decoders, sizeof *w->h);
    for (int64_t l = 0; l < w->r.decoders; l++) {
        real *h = qkv_arena_alloc(a, n, width);
        if (a->base) w->h[l] = h;
    }
    w->spare = qkv_arena_alloc(a, n, width);
    w->e = qkv_arena_alloc(a, n, width);
    w->gates = qkv_arena_alloc(a, n, 4 * width);
    w->units = qkv_arena_alloc(a, n, 3 * width + (size_t)w->r.A * sizeof(real));
    w->added = qkv_arena_alloc(a, n, 3 * width);
    w->context = qkv_arena_alloc(a, n, 2 * width);
    w->before = qkv_arena_alloc(a, n, width);
    w->out = qkv_arena_alloc(a, n, width);
    w->logits.scratch = qkv_arena_alloc(a, 1, qkv_cross_entropy_scratch(&w->logits, rows));
    return !qkv_arena_full(a);
}

static struct qkv_linear product(const struct qkv_gru_writer *w, int64_t K, int64_t N,
                                 const struct qkv_weight *weight, const struct qkv_weight *b)
{
    return (struct qkv_linear){ .K = K,
                                .precision = w->r.n->options.precision,
                                .parts = 1,
                                .part = { { N, weight->value, b->value, false } } };
}

// Returns a layer of the model in the form that qkv_linear_pack expects, with the precision of the
// model.
static struct qkv_linear packed(const struct qkv_gru_writer *w, const struct qkv_linear *l)
{
    return (struct qkv_linear){
        .K = l->K, .precision = w->r.n->options.precision, .parts = 1, .part = { l->part[0] }
    };
}

static qkv_status pack(struct qkv_gru_writer *w)
{
    const struct qkv_net_gru_layers *b = w->r.body;
    const int64_t D = w->r.D;
    qkv_status status = QKV_OK;
    w->of = qkv_alloc_zero((size_t)w->products, sizeof *w->of);
    if (!w->of) return QKV_ERR_LIMIT;
    w->of[TOKEN] = product(w, D, 3 * D, &b->decoder[0].w_i, &b->decoder[0].b_i);
    w->of[STATE] = w->r.of_state;
    w->of[CONTEXT] = w->r.of_context;
    w->of[OUT_STATE] = packed(w, &b->state);
    w->of[OUT_TOKEN] = packed(w, &b->token);
    w->of[OUT_CONTEXT] = packed(w, &b->mixed);
    for (int64_t l = 1; l < w->r.decoders; l++) {
        const struct qkv_gru_weights *upper = &b->decoder[l];
        w->of[UPPER + 2 * (l - 1)] = product(w, D, 3 * D, &upper->w_i, &upper->b_i);
        w->of[UPPER + 2 * (l - 1) + 1] = product(w, D, 3 * D, &upper->w_h, &upper->b_h);
    }
    for (int64_t i = 0; !status && i < w->products; i++) status = qkv_linear_pack(&w->of[i]);
    return status;
}

qkv_status qkv_gru_writer_open(struct qkv_gru_writer *w, qkv_net *n, int64_t rows)
{
    const struct qkv_net_gru_layers *b = n->body;
    *w = (struct qkv_gru_writer){ .rows = rows };
    qkv_gru_sizes(&w->r, n);
    qkv_gru_products(&w->r);
    w->products = UPPER + 2 * (w->r.decoders - 1);
    w->logits =
        (struct qkv_cross_entropy){ .V = n->is.size.vocab,
                                    .K = w->r.D,
                                    .w = b->logits.value ? b->logits.value : b->target_word.value,
                                    .b = b->logits_bias.value,
                                    .precision = n->options.precision,
                                    .threads = w->r.work.threads };
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    if (!place(w, &arena) || pack(w)) return QKV_ERR_LIMIT;
    w->memory = qkv_alloc(arena.used, 1);
    if (!w->memory) return QKV_ERR_LIMIT;
    arena = (struct qkv_arena){ w->memory, arena.used, 0 };
    place(w, &arena);
    return QKV_OK;
}

void qkv_gru_writer_close(struct qkv_gru_writer *w)
{
    for (int64_t i = 0; w->of && i < w->products; i++) qkv_linear_free(&w->of[i]);
    qkv_free(w->of);
    qkv_free(w->memory);
    *w = (struct qkv_gru_writer){ 0 };
}

// Data of the parallel loops of a step, which runs R rows of the writer.
struct step {
    struct qkv_gru_writer *w;
    int64_t R;
};

static void attend(void *ctx, int64_t i, int thread)
{
    const struct step *s = ctx;
    struct qkv_gru_writer *w = s->w;
    const struct qkv_gru_run *r = &w->r;
    const struct qkv_gru_read *read = &w->read[i];
    const real *workspace = w->workspace + thread * w->longest;
    const real lse =
        qkv_gru_attend(r, w->context + i * 2 * r->D, w->workspace + thread * w->longest,
                       w->units + s->R * 3 * r->D + i * r->A, read->keys, read->y, read->n);
    if (!w->shown || i != w->observation) return;
    memcpy(w->shown, workspace, (size_t)read->n * sizeof *workspace);
    w->shown_lse = lse;
}

static void gates(void *ctx, int64_t i, int thread)
{
    const struct step *s = ctx;
    const int64_t D = s->w->r.D;
    real *h = s->w->below + i * D;
    (void)thread;
    qkv_kernel()->gru_row(h, s->w->gates + i * 4 * D, D, s->w->units + i * 3 * D, D, h, D);
}

static void go(const struct step *s, int which, real *y, int64_t ld, const real *x,
               const real *residual)
{
    qkv_linear_forward((void *[]){ y }, &ld, x, s->R, &s->w->of[which],
                       &(struct qkv_after){ .residual = residual });
}

void qkv_gru_write(struct qkv_gru_writer *w, real *logits, const int32_t *tokens,
                   const struct qkv_gru_read *read, int64_t R)
{
    struct step s = { w, R };
    const int64_t D = w->r.D;
    const struct qkv_embed words = { .V = w->logits.V,
                                     .D = D,
                                     .token = w->r.body->target_word.value };
    w->read = read;
    qkv_embed_forward(w->e, tokens, NULL, NULL, R, &words);
    qkv_linear_forward((void *[]){ w->units, w->units + R * 3 * D }, NULL, w->h[0], R,
                       &w->of[STATE], NULL);
    qkv_parallel_for_most(R, w->r.work.threads, attend, &s);
    go(&s, CONTEXT, w->added, 3 * D, w->context, NULL);
    qkv_linear_forward((void *[]){ w->gates }, (int64_t[]){ 4 * D }, w->e, R, &w->of[TOKEN],
                       &(struct qkv_after){ .residual = w->added });
    w->below = w->h[0];
    qkv_parallel_for_most(R, w->r.work.threads, gates, &s);
    for (int64_t l = 1; l < w->r.decoders; l++) {
        go(&s, (int)(UPPER + 2 * (l - 1)), w->gates, 4 * D, w->h[l - 1], NULL);
        go(&s, (int)(UPPER + 2 * (l - 1) + 1), w->units, 3 * D, w->h[l], NULL);
        w->below = w->h[l];
        qkv_parallel_for_most(R, w->r.work.threads, gates, &s);
    }
    go(&s, OUT_STATE, w->before, D, w->h[w->r.decoders - 1], NULL);
    go(&s, OUT_TOKEN, w->before, D, w->e, w->before);
    go(&s, OUT_CONTEXT, w->before, D, w->context, w->before);
    qkv_activation_forward(w->out, w->before, 0, R * D, QKV_ACT_TANH);
    if (logits) qkv_logits(logits, w->out, R, &w->logits);
}
