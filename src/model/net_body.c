// SPDX-License-Identifier: MIT
// net_body.c: the weights of a Transformer, declared from its description and its family's names.
#include "model/net_body.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// What is being declared.
struct build {
    qkv_net *n;
    const struct qkv_names *names;
    int64_t layer;
};

// The spread of a matrix: rows and columns of all that one product of the reference holds.
static void begin_matrix(const qkv_net *n, struct qkv_declaration *d, bool residual, double gain)
{
    d->begin = QKV_BEGIN_NORMAL;
    d->spread = n->spread;
    if (n->scheme == QKV_SCHEME_XAVIER) {
        d->begin = QKV_BEGIN_UNIFORM;
        d->spread = gain * sqrt(6.0 / (double)(d->rows + d->columns));
    } else if (n->scheme == QKV_SCHEME_RESIDUAL && residual) {
        d->spread /= sqrt(2 * (double)n->is.size.layers);
    }
}

// A product of up to three weights that read the same rows: their matrices, then their biases.
struct product {
    const char *stem[3];
    int64_t rows[3];
    int parts;
    bool residual, bare, optional, always_bias;
    double gain; // of XAVIER
};
static void declare_product(struct build *b, struct qkv_net_linear *to, int64_t K,
                            const struct product *p)
{
    qkv_net *n = b->n;
    const struct qkv_names *names = n->family->names;
    to->K = K;
    to->N = 0;
    for (int i = 0; i < p->parts; i++) to->N += p->rows[i];
    for (int pass = 0; pass < 1 + (n->is.bias || p->always_bias); pass++)
        for (int i = 0; i < p->parts; i++) {
            struct qkv_declaration d = { .name = p->stem[i],
                                         .suffix = pass ? ".bias" : ".weight",
                                         .layer = b->layer,
                                         .rows = p->rows[i],
                                         .columns = pass ? 0 : K,
                                         .decay = !pass,
                                         .transposed = !pass && names->conv1d && !p->bare,
                                         .joined = i > 0 && strcmp(p->stem[i], p->stem[i - 1]) == 0,
                                         .bare = p->bare,
                                         .optional = p->optional };
            if (!pass) begin_matrix(n, &d, p->residual, p->gain > 0 ? p->gain : 1);
            // The memory of parts behind the first follows that of the first: the product finds it
            // there.
            qkv_net_declare(n, i ? NULL : pass ? &to->b : &to->w, &d);
        }
}

static void declare_norm(struct build *b, struct qkv_net_norm *to, const char *stem, bool end)
{
    qkv_net *n = b->n;
    struct qkv_declaration d = { .name = stem,
                                 .suffix = ".weight",
                                 .layer = b->layer,
                                 .rows = n->is.size.width,
                                 .begin = QKV_BEGIN_ONE,
                                 .bare = end,
                                 .optional = end && n->masked_fresh };
    to->D = n->is.size.width;
    to->eps = (real)n->is.size.eps;
    to->kind = n->is.norm_kind;
    qkv_net_declare(n, &to->w, &d);
    if (to->kind == QKV_NORM_RMS) return;
    d.suffix = ".bias";
    d.begin = QKV_BEGIN_ZERO;
    qkv_net_declare(n, &to->b, &d);
}

static void declare_norms(struct build *b, struct qkv_net_part *p, const char *in, const char *out)
{
    if (b->n->is.norm != QKV_NORM_POST) declare_norm(b, &p->in, in, false);
    if (b->n->is.norm != QKV_NORM_PRE) declare_norm(b, &p->out, out, false);
}

static void declare_heads(struct build *b, struct qkv_net_part *p,
                          const struct qkv_heads_names *name)
{
    const struct qkv_description *d = &b->n->is;
    const int64_t D = d->size.width, E = qkv_head_keys(d), F = qkv_head_values(d);
    const int64_t q = d->size.heads * E, k = d->size.kv_heads * E, v = d->size.kv_heads * F;
    const double gain = sqrt(.5); // fairseq's, for three projections that are one
    struct product all = { { name->q, name->k, name->v }, { q, k, v }, 3, .gain = gain };
    struct product rest = { { name->k, name->v }, { k, v }, 2, .gain = gain };
    if (p->kind == QKV_NET_CROSS) {
        all.parts = 1;
        declare_product(b, &p->first, D, &all);
        declare_product(b, &p->memory, D, &rest);
    } else {
        declare_product(b, &p->first, D, &all);
    }
    declare_product(b, &p->last, d->size.heads * F,
                    &(struct product){ { name->o }, { D }, 1, .residual = true });
    declare_norms(b, p, name->norm_in, name->norm_out);
}

static void declare_mlp(struct build *b, struct qkv_net_part *p, const struct qkv_mlp_names *name)
{
    const int64_t D = b->n->is.size.width, M = b->n->is.size.inner;
    const struct product one = { .stem = { name->up }, .rows = { M }, .parts = 1 },
                         two = { .stem = { name->gate, name->up }, .rows = { M, M }, .parts = 2 };
    declare_product(b, &p->first, D, b->n->is.gated ? &two : &one);
    declare_product(b, &p->last, M,
                    &(struct product){ { name->down }, { D }, 1, .residual = true });
    declare_norms(b, p, name->norm_in, name->norm_out);
}

// The parts of a stack in order, before they have weights.
static qkv_status make_parts(struct qkv_net_stack *s, const struct qkv_description *d,
                             int64_t layers, bool cross)
{
    s->layers = layers;
    s->parts = layers * (1 + cross + !d->mlp_once) + d->mlp_once;
    s->part = qkv_alloc_zero((size_t)s->parts, sizeof *s->part);
    if (!s->part) return QKV_ERR_LIMIT;
    struct qkv_net_part *p = s->part;
    for (int64_t l = 0; l < layers; l++) {
        *p++ = (struct qkv_net_part){ .kind = QKV_NET_SELF, .layer = l };
        if (cross) *p++ = (struct qkv_net_part){ .kind = QKV_NET_CROSS, .layer = l };
        if (!d->mlp_once) *p++ = (struct qkv_net_part){ .kind = QKV_NET_MLP, .layer = l };
    }
    if (d->mlp_once) *p = (struct qkv_net_part){ .kind = QKV_NET_MLP, .layer = layers - 1 };
    return QKV_OK;
}

static qkv_status declare_stack(struct build *b, struct qkv_net_stack *s, int64_t layers,
                                bool cross)
{
    const struct qkv_description *d = &b->n->is;
    const struct qkv_names *name = b->names;
    const qkv_status status = make_parts(s, d, layers, cross);
    if (status) return status;
    b->layer = 0;
    if (d->position == QKV_POSITION_LEARNED) {
        const struct qkv_declaration position = { .name = name->position,
                                                  .rows = d->size.positions,
                                                  .columns = d->size.width,
                                                  .begin = QKV_BEGIN_NORMAL,
                                                  .spread = b->n->spread,
                                                  .decay = true };
        qkv_net_declare(b->n, &s->position, &position);
    }
    if (d->embedding_norm) declare_norm(b, &s->embedding_norm, name->embedding_norm, false);
    for (int64_t i = 0; i < s->parts; i++) {
        struct qkv_net_part *p = &s->part[i];
        b->layer = p->layer;
        if (p->kind == QKV_NET_MLP)
            declare_mlp(b, p, d->mlp_once ? &name->last_mlp : &name->mlp);
        else
            declare_heads(b, p, p->kind == QKV_NET_CROSS ? &name->cross : &name->heads);
    }
    b->layer = 0;
    if (d->final_norm) declare_norm(b, &s->final_norm, name->final_norm, false);
    return QKV_OK;
}

static void declare_tables(struct build *b, struct qkv_net_body *body)
{
    const struct qkv_description *d = &b->n->is;
    const struct qkv_names *name = b->n->family->names;
    struct qkv_declaration word = { .name = name->word,
                                    .rows = d->size.vocab,
                                    .columns = d->size.width,
                                    .begin = QKV_BEGIN_NORMAL,
                                    .spread = b->n->spread,
                                    .zero_row = d->size.pad + 1,
                                    .decay = true,
                                    // No projection to tokens reads it: few rows have gradients.
                                    .sparse = d->untied ||
                                              (d->kind == QKV_NET_ENCODER && !b->n->masked_end) };
    if (b->n->scheme == QKV_SCHEME_XAVIER) word.spread = 1 / sqrt((double)d->size.width);
    qkv_net_declare(b->n, &body->word, &word);
    if (!d->size.types) return;
    word.name = name->type;
    word.rows = d->size.types;
    word.zero_row = 0;
    word.sparse = false;
    qkv_net_declare(b->n, &body->type, &word);
}

// The output projection, where it is not the table of embeddings, and its bias.
static void declare_logits(struct build *b, struct qkv_net_body *body)
{
    const struct qkv_description *d = &b->n->is;
    const struct qkv_end_names *ends = b->n->family->ends;
    struct qkv_declaration w = { .name = ends->logits,
                                 .rows = d->size.vocab,
                                 .columns = d->size.width,
                                 .begin = QKV_BEGIN_NORMAL,
                                 .spread = b->n->spread,
                                 .decay = true,
                                 .bare = true,
                                 .optional = b->n->masked_fresh };
    if (b->n->scheme == QKV_SCHEME_XAVIER) w.spread = 1 / sqrt((double)d->size.width);
    if (d->untied) qkv_net_declare(b->n, &body->logits, &w);
    if (!ends->logits_bias || ends->logits_bias_fixed) return;
    const struct qkv_declaration bias = { .name = ends->logits_bias,
                                          .rows = d->size.vocab,
                                          .bare = true,
                                          .optional = b->n->masked_fresh };
    qkv_net_declare(b->n, &body->logits_bias, &bias);
}

// An encoder ends in labels, or in tokens that were masked, or in nothing.
static void declare_ends(struct build *b, struct qkv_net_body *body)
{
    qkv_net *n = b->n;
    const int64_t D = n->is.size.width;
    const struct qkv_end_names *ends = n->family->ends;
    if (n->is.labels) {
        struct product dense = { { ends->classify_dense }, { D }, 1, .bare = true, .optional = true,
                                 .always_bias = true };
        dense.bare = !ends->classify_prefixed;
        declare_product(b, &body->classify.dense, D, &dense);
        declare_product(b, &body->classify.out, D,
                        &(struct product){ { ends->classify_out },
                                           { n->is.labels },
                                           1,
                                           .bare = true,
                                           .optional = true,
                                           .always_bias = true });
    } else if (n->masked_end) {
        declare_product(b, &body->masked.dense, D,
                        &(struct product){ { ends->masked_dense },
                                           { D },
                                           1,
                                           .bare = true,
                                           .optional = n->masked_fresh,
                                           .always_bias = true });
        declare_norm(b, &body->masked.norm, ends->masked_norm, true);
        declare_logits(b, body);
    }
}

qkv_status qkv_net_positions(const qkv_net *n, int64_t rows)
{
    enum { ROWS_FIRST = 64 };
    struct qkv_net_body *body = n->body;
    const struct qkv_description *d = &n->is;
    const bool rotary = d->position == QKV_POSITION_ROTARY;
    const int64_t width = rotary ? qkv_head_keys(d) : d->size.width;
    if (d->position == QKV_POSITION_LEARNED || d->position == QKV_POSITION_NONE ||
        rows <= body->table_rows)
        return QKV_OK;
    const int64_t twice = qkv_max64(2 * body->table_rows, ROWS_FIRST);
    const int64_t made = qkv_max64(rows, qkv_min64(twice, d->size.positions));
    size_t count;
    real *table = NULL;
    if (qkv_mul_size(&count, (size_t)made, (size_t)width)) table = qkv_alloc(count, sizeof *table);
    if (!table) return QKV_ERR_LIMIT;
    if (rotary)
        qkv_rope_table(table, made, width, (real)d->theta);
    else
        qkv_position_sinusoid(table, made, width, d->position == QKV_POSITION_SINUSOIDAL);
    qkv_free(body->table);
    body->table = table;
    body->table_rows = made;
    return QKV_OK;
}

static qkv_status declare_net(qkv_net *n, qkv_error *err)
{
    const struct qkv_description *d = &n->is;
    const struct qkv_names *names = n->family->names;
    const bool pair = d->kind == QKV_NET_ENCODER_DECODER, decoder = d->kind == QKV_NET_DECODER;
    struct qkv_net_body *body = n->body = qkv_alloc_zero(1, sizeof *body);
    struct build b = { .n = n, .names = decoder && names->decoder ? names->decoder : names };
    if (!body) return qkv_fail_memory(err, NULL);
    declare_tables(&b, body);
    struct qkv_net_stack *first = decoder ? &body->decoder : &body->encoder;
    body->decoder.causal = true;
    qkv_status s = declare_stack(&b, first, d->size.layers, false);
    if (!s && pair) {
        b.names = names->decoder;
        s = declare_stack(&b, &body->decoder, d->decoder_layers, true);
    }
    if (!s && d->kind == QKV_NET_ENCODER) declare_ends(&b, body);
    if (!s && d->kind != QKV_NET_ENCODER) declare_logits(&b, body);
    if (!s && n->family->ends->logits_bias_fixed) {
        body->logits_bias_fixed = qkv_alloc_zero((size_t)d->size.vocab, sizeof(real));
        if (!body->logits_bias_fixed) s = QKV_ERR_LIMIT;
    }
    return s ? qkv_fail_memory(err, NULL) : QKV_OK;
}

static void free_net(qkv_net *n)
{
    struct qkv_net_body *body = n->body;
    if (!body) return;
    qkv_free(body->encoder.part);
    qkv_free(body->decoder.part);
    qkv_free(body->logits_bias_fixed);
    qkv_free(body->table);
    qkv_free(body);
}

const struct qkv_net_methods qkv_net_transformer = {
    .declare = declare_net,
    .free = free_net,
    .run = qkv_net_transformer_run,
    .align = qkv_net_transformer_align,
    .begin = qkv_net_transformer_begin,
    .step = qkv_net_transformer_step,
    .reorder = qkv_net_transformer_reorder,
    .end = qkv_net_transformer_end,
};
