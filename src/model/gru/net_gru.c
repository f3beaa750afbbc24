// SPDX-License-Identifier: MIT
// net_gru.c: declares the parameters of the GRU encoder-decoder with additive attention, and runs a
// batch forward and backward.
//
// Initial values are drawn as in PyTorch's nn.GRU, nn.Linear and nn.Embedding: weights and biases
// of a GRU uniformly from -1/sqrt(D) .. 1/sqrt(D), weights and biases of linear layers uniformly
// from -1/sqrt(K) .. 1/sqrt(K) with K inputs, embeddings from N(0, 1).
#include "model/gru/net_gru.h"
#include <math.h>
#include <string.h>

// ---- weights -----------------------------------------------------------------------------------
static bool declare_matrix(qkv_net *n, const real **value, real **grad, const char *name,
                           const char *suffix, int64_t layer, int64_t rows, int64_t columns,
                           int64_t fan)
{
    return qkv_net_declare(n, value, grad,
                           &(struct qkv_parameter_row){ .role = QKV_ROLES,
                                                        .prefixed = true,
                                                        .pattern = name,
                                                        .suffix = suffix,
                                                        .layer = layer,
                                                        .number = { layer, 0 },
                                                        .rows = rows,
                                                        .columns = columns,
                                                        .init = QKV_INIT_UNIFORM,
                                                        .spread = 1 / sqrt((double)fan) });
}

static bool matrix(qkv_net *n, struct qkv_weight *to, const char *name, const char *suffix,
                   int64_t layer, int64_t rows, int64_t columns, int64_t fan)
{
    return declare_matrix(n, &to->value, &to->grad, name, suffix, layer, rows, columns, fan);
}

static bool words(qkv_net *n, struct qkv_weight *to, const char *name)
{
    const struct qkv_config_sizes *size = &n->is.size;
    return qkv_net_declare(n, &to->value, &to->grad,
                           &(struct qkv_parameter_row){ .role = QKV_ROLES,
                                                        .prefixed = true,
                                                        .pattern = name,
                                                        .suffix = ".weight",
                                                        .rows = size->vocab,
                                                        .columns = size->width,
                                                        .init = QKV_INIT_NORMAL,
                                                        .spread = 1,
                                                        .zero_pad = true });
}

static bool linear(qkv_net *n, struct qkv_linear *to, const char *name, int64_t layer, int64_t N,
                   int64_t K, bool bias)
{
    to->K = K;
    to->parts = 1;
    to->part[0].N = N;
    return declare_matrix(n, &to->part[0].w, &to->dw[0], name, ".weight", layer, N, K, K) &&
           (!bias || declare_matrix(n, &to->part[0].b, &to->db[0], name, ".bias", layer, N, 0, K));
}

// Declares the parameters of a GRU cell. query: the projection W_q of attention, which follows w_h
// in memory, so that one product with the state computes both; NULL: the cell has no attention.
static bool cell(qkv_net *n, struct qkv_gru_weights *to, const char *name, int64_t layer,
                 int64_t D_in, struct qkv_weight *query)
{
    const int64_t D = n->is.size.width;
    return matrix(n, &to->w_i, name, ".weight_ih", layer, 3 * D, D_in, D) &&
           matrix(n, &to->w_h, name, ".weight_hh", layer, 3 * D, D, D) &&
           (!query ||
            matrix(n, query, "decoder.attention.query.weight", NULL, 0, n->is.size.inner, D, D)) &&
           matrix(n, &to->b_i, name, ".bias_ih", layer, 3 * D, 0, D) &&
           matrix(n, &to->b_h, name, ".bias_hh", layer, 3 * D, 0, D);
}

static bool declare_encoder(qkv_net *n, struct qkv_net_gru_layers *b)
{
    const int64_t D = n->is.size.width;
    bool ok = words(n, &b->source_word, "encoder.embed_tokens");
    for (int64_t l = 0; ok && l < n->is.size.layers; l++)
        ok = cell(n, &b->encoder[2 * l], "encoder.layers.#.forward", l, l ? 2 * D : D, NULL) &&
             cell(n, &b->encoder[2 * l + 1], "encoder.layers.#.backward", l, l ? 2 * D : D, NULL);
    return ok;
}

static bool declare_decoder(qkv_net *n, struct qkv_net_gru_layers *b)
{
    const int64_t D = n->is.size.width, A = n->is.size.inner;
    bool ok = words(n, &b->target_word, "decoder.embed_tokens");
    for (int64_t l = 0; ok && l < n->is.decoder_layers; l++)
        ok = cell(n, &b->decoder[l], "decoder.layers.#", l, D, l ? NULL : &b->query) &&
             linear(n, &b->begin[l], "decoder.begin.#", l, D, D, true);
    ok = ok && matrix(n, &b->context, "decoder.context.weight", NULL, 0, 3 * D, 2 * D, D) &&
         linear(n, &b->key, "decoder.attention.key", 0, A, 2 * D, true) &&
         matrix(n, &b->score, "decoder.attention.score.weight", NULL, 0, A, 0, A) &&
         linear(n, &b->state, "decoder.readout.state", 0, D, D, true) &&
         linear(n, &b->token, "decoder.readout.token", 0, D, D, false) &&
         linear(n, &b->mixed, "decoder.readout.context", 0, D, 2 * D, false);
    if (ok && n->is.untied)
        ok = matrix(n, &b->logits, "lm_head", ".weight", 0, n->is.size.vocab, D, D);
    return ok && matrix(n, &b->logits_bias, "lm_head", ".bias", 0, n->is.size.vocab, 0, D);
}

static qkv_status declare(qkv_net *n, qkv_error *err)
{
    struct qkv_net_gru_layers *b = qkv_alloc_zero(1, sizeof *b);
    n->body = b;
    if (!b) return qkv_fail_memory(err, NULL);
    b->encoder = qkv_alloc_zero((size_t)n->is.size.layers, 2 * sizeof *b->encoder);
    b->decoder = qkv_alloc_zero((size_t)n->is.decoder_layers, sizeof *b->decoder);
    b->begin = qkv_alloc_zero((size_t)n->is.decoder_layers, sizeof *b->begin);
    if (!b->encoder || !b->decoder || !b->begin || !declare_encoder(n, b) || !declare_decoder(n, b))
        return qkv_fail_memory(err, NULL);
    return qkv_net_check_rows(n, n->row, n->slots, err);
}

static void release(qkv_net *n)
{
    struct qkv_net_gru_layers *b = n->body;
    if (!b) return;
    qkv_free(b->encoder);
    qkv_free(b->decoder);
    qkv_free(b->begin);
    qkv_free(b);
    n->body = NULL;
}

// ---- a batch -----------------------------------------------------------------------------------
struct piece {
    const struct qkv_gru_run *r;
    real *y;
    const real *x;
    int64_t n;
    bool back;
};
enum { PIECE = 1 << 14 };

// Processes part i of the arrays: PIECE numbers. Computes y = tanh(x); or, if `back` is true,
// replaces y, which contains the gradient of tanh(x), by the gradient of x.
static void tanh_piece(void *ctx, int64_t i, int thread)
{
    const struct piece *p = ctx;
    const int64_t at = i * PIECE, some = qkv_min64(p->n - at, PIECE);
    (void)thread;
    if (p->back)
        qkv_activation_backward(p->y + at, p->y + at, p->x + at, 0, some, QKV_ACT_TANH);
    else
        qkv_activation_forward(p->y + at, p->x + at, 0, some, QKV_ACT_TANH);
}

static void tanh_rows(real *y, const real *x, int64_t n, bool back)
{
    struct piece p = { .y = y, .x = x, .n = n, .back = back };
    qkv_parallel_for(qkv_ceil_div(n, PIECE), tanh_piece, &p);
}

static struct qkv_cross_entropy loss_of(const struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    return (struct qkv_cross_entropy){ .V = r->n->is.size.vocab,
                                       .K = r->D,
                                       .w =
                                           b->logits.value ? b->logits.value : b->target_word.value,
                                       .b = b->logits_bias.value,
                                       .smoothing = r->n->options.smoothing,
                                       .precision = r->n->options.precision,
                                       .threads = r->work.threads,
                                       .scratch = r->work.scratch };
}

static struct qkv_dropout readout_dropout(const struct qkv_gru_run *r)
{
    return (struct qkv_dropout){ r->drops ? r->n->options.dropout : 0, r->seed, r->step << 20 | 2 };
}

// Runs layer l of the decoder: computes its states and gates.
static void decode_layer(struct qkv_gru_run *r, int64_t l)
{
    const struct qkv_gru cell = qkv_gru_cell(r, &r->body->decoder[l], r->D, false);
    if (l)
        qkv_gru_forward(r->s[l], r->s_gates[l], r->s[l - 1], r->first[l], r->to, r->sequences,
                        &cell);
    else
        qkv_gru_steps(r);
}

static void decode_forward(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    for (int64_t l = 0; l < r->decoders; l++) decode_layer(r, l);
    qkv_gru_product(r, r->before, r->s[r->decoders - 1], r->P, &b->state, NULL);
    qkv_gru_product(r, r->before, r->e, r->P, &b->token, r->before);
    qkv_gru_product(r, r->before, r->context, r->P, &b->mixed, r->before);
    tanh_rows(r->out, r->before, r->P * r->D, false);
    const struct qkv_dropout drop = readout_dropout(r);
    if (drop.p > 0) qkv_dropout_forward(r->out, NULL, r->out, 0, 0, r->P * r->D, &drop);
}

// Runs backward through all layers of the decoder. From d_out, the gradient of the readout,
// computes the gradients of the states of the first layer (d_s), of the context vectors (d_context)
// and of the embeddings (d_e).
static void decode_backward(struct qkv_gru_run *r)
{
    const struct qkv_net_gru_layers *b = r->body;
    const int64_t D = r->D, P = r->P;
    const struct qkv_dropout drop = readout_dropout(r);
    if (drop.p > 0) qkv_dropout_backward(r->d_out, 0, r->d_out, 0, P * D, &drop);
    tanh_rows(r->d_out, r->before, P * D, true);
    qkv_gru_product_backward(
        r,
        &(struct qkv_linear_rows){
            .dx = r->d_s[0], .dy = { r->d_out }, .lddy = { D }, .x = r->s[r->decoders - 1] },
        P, &b->state);
    qkv_gru_product_backward(
        r, &(struct qkv_linear_rows){ .dx = r->d_e, .dy = { r->d_out }, .lddy = { D }, .x = r->e },
        P, &b->token);
    qkv_gru_product_backward(
        r,
        &(struct qkv_linear_rows){
            .dx = r->d_context, .dy = { r->d_out }, .lddy = { D }, .x = r->context },
        P, &b->mixed);
    for (int64_t l = r->decoders - 1; l > 0; l--) {
        const struct qkv_gru_weights *w = &b->decoder[l];
        const struct qkv_gru cell = qkv_gru_cell(r, w, D, false);
        const struct qkv_gru_grad g = { w->w_i.grad, w->w_h.grad, w->b_i.grad, w->b_h.grad };
        if (r->recompute && l < r->decoders - 1) decode_layer(r, l);
        qkv_gru_backward(r->d_s[1], r->d_first + l * r->sequences * D, &g, r->d_s[0], r->s[l],
                         r->s_gates[l], r->s[l - 1], r->first[l], r->to, r->sequences, &cell);
        real *swap = r->d_s[0];
        r->d_s[0] = r->d_s[1];
        r->d_s[1] = swap;
    }
    if (r->recompute && r->decoders > 1) decode_layer(r, 0);
    qkv_gru_steps_backward(r);
}

static qkv_status run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *batch,
                      bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err)
{
    if (batch->objective != QKV_OBJECTIVE_SEQ2SEQ)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "model can only be trained on pairs of sequences, expected objective seq2seq");
    struct qkv_gru_run r = { .backward = gradients, .seed = seed, .step = step };
    r.drops = gradients && n->options.dropout > 0;
    const qkv_status status =
        qkv_gru_run_begin(&r, n, &batch->in, &batch->source, batch->targets, err);
    if (status || !r.P) return status;
    qkv_gru_encode(&r);
    decode_forward(&r);
    const struct qkv_cross_entropy p = loss_of(&r);
    real *dw = r.body->logits.value ? r.body->logits.grad : r.body->target_word.grad;
    qkv_cross_entropy(loss, gradients ? r.d_out : NULL, gradients ? dw : NULL,
                      gradients ? r.body->logits_bias.grad : NULL, NULL, r.out, r.target_out, r.P,
                      scale, &p);
    if (!gradients) return QKV_OK;
    decode_backward(&r);
    qkv_gru_encode_backward(&r);
    return QKV_OK;
}

const struct qkv_net_methods qkv_net_gru = { .declare = declare, .free = release, .run = run };
