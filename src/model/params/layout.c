// SPDX-License-Identifier: MIT
// layout.c: derives the table of parameters from a description and the names of its family.
#include "model/params/layout.h"
#include <string.h>

enum qkv_role_kind qkv_role_kind(enum qkv_role role)
{
    static const enum qkv_role_kind kinds[] = {
#define QKV_ROLE(NAME, KIND, OWNER, MEMBER) [QKV_ROLE_##NAME] = QKV_ROLE_IS_##KIND,
#include "model/params/role.def"
#undef QKV_ROLE
    };
    return kinds[role];
}

// A layout table under construction. Each new row gets the current group, stack and layer.
struct builder {
    const struct qkv_description *d;
    const struct qkv_family *family;
    struct qkv_parameter_row *row;
    int64_t count, capacity;
    bool no_memory;
    enum qkv_pack_group group;
    int stack;
    int64_t layer;
};

static void add_row(struct builder *b, struct qkv_parameter_row row)
{
    if (b->no_memory ||
        !qkv_reserve((void **)&b->row, &b->capacity, b->count + 1, sizeof *b->row)) {
        b->no_memory = true;
        return;
    }
    row.group = b->group;
    row.stack = b->stack;
    row.layer = b->layer;
    row.number = qkv_layer_number(b->d, b->layer);
    b->row[b->count++] = row;
}

static void add_table(struct builder *b, enum qkv_role role, const char *pattern, int64_t rows,
                      int64_t columns)
{
    add_row(b, (struct qkv_parameter_row){ .role = role,
                                           .pattern = pattern,
                                           .suffix = "",
                                           .prefixed = true,
                                           .rows = rows,
                                           .columns = columns,
                                           .init = QKV_INIT_TABLE,
                                           .zero_pad = role == QKV_ROLE_WORD });
}

// Adds the rows of a norm over n numbers: its weights, and its bias if this kind of norm has a
// bias.
static void add_norm(struct builder *b, enum qkv_role role, const char *pattern, int64_t n,
                     enum qkv_norm_kind kind)
{
    struct qkv_parameter_row row = { .role = role,
                                     .pattern = pattern,
                                     .suffix = ".weight",
                                     .prefixed = b->group == QKV_PACK_BODY,
                                     .rows = n,
                                     .init =
                                         b->d->norm_offset != 0 ? QKV_INIT_ZERO : QKV_INIT_ONE };
    add_row(b, row);
    if (kind == QKV_NORM_RMS || b->d->norm_unbiased) return;
    row.suffix = ".bias";
    row.bias = true;
    row.init = QKV_INIT_ZERO;
    add_row(b, row);
}

// Adds a norm of the model's kind over the model's width.
static void add_model_norm(struct builder *b, enum qkv_role role, const char *pattern)
{
    add_norm(b, role, pattern, b->d->size.width, b->d->norm_kind);
}

// Adds the norm before a sublayer (`in`), the norm after it (`out`), or both, as the description
// places norms. in_pattern NULL: no model of the family has a norm before the sublayer.
static void add_norms(struct builder *b, enum qkv_role in, const char *in_pattern,
                      enum qkv_role out, const char *out_pattern)
{
    if (b->d->norm != QKV_NORM_POST && in_pattern) add_model_norm(b, in, in_pattern);
    if (b->d->norm != QKV_NORM_PRE) add_model_norm(b, out, out_pattern);
}

// A linear layer: up to three matrices that read the same K numbers.
struct linear {
    enum qkv_role role;
    int64_t K;
    const char *pattern[QKV_LINEAR_PARTS];
    int64_t N[QKV_LINEAR_PARTS];
    int parts;
    bool bias, bias_optional;
    enum qkv_init init;
    double spread;
};

static void add_linear(struct builder *b, const struct linear *l)
{
    const bool body = b->group == QKV_PACK_BODY;
    const int passes = 1 + (l->bias || l->bias_optional);
    for (int bias = 0; bias < passes; bias++)
        for (int i = 0; i < l->parts; i++) {
            const char *before = i ? l->pattern[i - 1] : NULL;
            add_row(b, (struct qkv_parameter_row){
                           .role = l->role,
                           .part = i,
                           .bias = bias,
                           .pattern = l->pattern[i],
                           .suffix = bias ? ".bias" : ".weight",
                           .prefixed = body,
                           .rows = l->N[i],
                           .columns = bias ? 0 : l->K,
                           .transposed = !bias && body && b->family->names->conv1d,
                           .joined = before && strcmp(before, l->pattern[i]) == 0,
                           .optional = bias && !l->bias,
                           .init = bias ? QKV_INIT_ZERO : l->init,
                           .spread = bias ? 0 : l->spread });
        }
}

// ---- one block ----------------------------------------------------------------------------------
static const double half_root = .70710678118654752440; // sqrt(1/2)

// Adds the projections to queries, keys and values, and the output projection. cross false: q, k
// and v are one linear layer; cross true: k and v, which read the output of the encoder, are a
// linear layer of their own.
static void add_projections(struct builder *b, const struct qkv_heads_names *name, bool cross)
{
    const struct qkv_description *d = b->d;
    const int64_t D = d->size.width, q = d->size.heads * qkv_head_keys(d),
                  k = d->size.kv_heads * qkv_head_keys(d),
                  v = d->size.kv_heads * qkv_head_values(d);
    const bool bias = qkv_described_bias(d, QKV_BIAS_QKV);
    struct linear in = {
        .role = cross ? QKV_ROLE_CROSS_IN : QKV_ROLE_HEADS_IN,
        .K = D,
        .pattern = { name->q, name->k, name->v },
        .N = { q, k, v },
        .parts = cross ? 1 : 3,
        .bias = bias,
        .init = QKV_INIT_MATRIX,
        .spread = half_root, // fairseq initializes q, k and v of equal widths with this factor
    };
    const struct linear kv = { .role = QKV_ROLE_CROSS_KV,
                               .K = D,
                               .pattern = { name->k, name->v },
                               .N = { k, v },
                               .parts = 2,
                               .bias = bias,
                               .init = QKV_INIT_MATRIX,
                               .spread = half_root };
    const struct linear out = { .role = cross ? QKV_ROLE_CROSS_OUT : QKV_ROLE_HEADS_OUT,
                                .K = d->size.heads * qkv_head_values(d),
                                .pattern = { name->o },
                                .N = { D },
                                .parts = 1,
                                .bias = qkv_described_bias(d, QKV_BIAS_OUT),
                                .init = QKV_INIT_BRANCH };
    add_linear(b, &in);
    if (cross) add_linear(b, &kv);
    add_linear(b, &out);
}

static void add_attention(struct builder *b, const struct qkv_heads_names *name)
{
    const struct qkv_description *d = b->d;
    const int64_t E = qkv_head_keys(d), q = d->norm_whole ? d->size.heads * E : E,
                  k = d->norm_whole ? d->size.kv_heads * E : E;
    add_projections(b, name, false);
    if (b->layer || !d->first_norm_missing)
        add_norms(b, QKV_ROLE_HEADS_NORM_IN, name->norm_in, QKV_ROLE_HEADS_NORM_OUT,
                  name->norm_out);
    if (d->norm_q) add_norm(b, QKV_ROLE_HEADS_NORM_Q, name->norm_q, q, QKV_NORM_RMS);
    if (d->norm_k) add_norm(b, QKV_ROLE_HEADS_NORM_K, name->norm_k, k, QKV_NORM_RMS);
}

static void add_cross_attention(struct builder *b, const struct qkv_heads_names *name)
{
    add_projections(b, name, true);
    add_norms(b, QKV_ROLE_CROSS_NORM_IN, name->norm_in, QKV_ROLE_CROSS_NORM_OUT, name->norm_out);
}

static void add_feed_forward(struct builder *b, const struct qkv_mlp_names *name)
{
    const struct qkv_description *d = b->d;
    const int64_t D = d->size.width, M = d->size.inner;
    const bool bias = qkv_described_bias(d, QKV_BIAS_MLP);
    const char *first = d->gated ? name->gate : name->plain ? name->plain : name->up;
    const struct linear up = { .role = QKV_ROLE_MLP_UP,
                               .K = D,
                               .pattern = { first, name->up },
                               .N = { M, M },
                               .parts = 1 + d->gated,
                               .bias = bias,
                               .init = QKV_INIT_MATRIX };
    const struct linear down = { .role = QKV_ROLE_MLP_DOWN,
                                 .K = M,
                                 .pattern = { name->down },
                                 .N = { D },
                                 .parts = 1,
                                 .bias = bias,
                                 .init = QKV_INIT_BRANCH };
    add_linear(b, &up);
    add_linear(b, &down);
    if (d->mlp_bare) return;
    add_norms(b, QKV_ROLE_MLP_NORM_IN, name->norm_in, QKV_ROLE_MLP_NORM_OUT, name->norm_out);
}

// ---- stacks -------------------------------------------------------------------------------------
static void add_stack(struct builder *b, const struct qkv_names *name, int stack, int64_t layers,
                      bool cross)
{
    const struct qkv_description *d = b->d;
    b->stack = stack;
    b->layer = 0;
    if (d->position == QKV_POSITION_LEARNED)
        add_table(b, QKV_ROLE_POSITION, name->position, d->size.positions + d->position_offset,
                  qkv_described_embed_width(d));
    if (d->embedding_norm)
        add_norm(b, QKV_ROLE_EMBEDDING_NORM, name->embedding_norm, qkv_described_embed_width(d),
                 d->norm_kind);
    if (d->embed_width)
        add_linear(b, &(struct linear){ .role = QKV_ROLE_EMBED_IN,
                                        .K = d->embed_width,
                                        .pattern = { name->embed_in },
                                        .N = { d->size.width },
                                        .parts = 1,
                                        .bias = true,
                                        .init = QKV_INIT_MATRIX });
    if (d->relative.buckets)
        add_table(b, QKV_ROLE_RELATIVE, name->relative, d->relative.buckets, d->size.heads);
    for (; b->layer < layers; b->layer++) {
        if (qkv_layer_source(d, b->layer) != b->layer) continue;
        add_attention(b, &name->heads);
        if (cross) add_cross_attention(b, &name->cross);
        if (!d->mlp_once) add_feed_forward(b, &name->mlp);
    }
    // the only feed-forward network is one more block, after all layers
    if (d->mlp_once) add_feed_forward(b, &name->last_mlp);
    b->layer = 0;
    if (d->final_norm) add_model_norm(b, QKV_ROLE_FINAL_NORM, name->final_norm);
}

// Adds the table of token embeddings (two tables if each stack has its own vocabulary) and the
// table of token types.
static void add_words(struct builder *b, const struct qkv_names *first,
                      const struct qkv_names *second)
{
    const struct qkv_description *d = b->d;
    const int64_t width = qkv_described_embed_width(d);
    const bool two = d->decoder_vocab > 0;
    const bool alone = d->kind == QKV_NET_DECODER && second->own_word;
    add_table(b, QKV_ROLE_WORD,
              alone ? second->own_word
              : two ? first->own_word
                    : first->word,
              d->size.vocab, width);
    if (two) {
        b->stack = 1;
        add_table(b, QKV_ROLE_WORD, second->own_word, d->decoder_vocab, width);
        b->stack = 0;
    }
    if (d->size.types) add_table(b, QKV_ROLE_TYPE, first->type, d->size.types, width);
}

// Adds the layers before an output projection, norm(act(dense x)). If the description has no
// biases, the dense layer has a bias only if the checkpoint contains one. N: width of their output.
static void add_dense(struct builder *b, enum qkv_role role, const char *pattern,
                      enum qkv_role norm_role, const char *norm_pattern, int64_t N, bool prefixed)
{
    const int64_t first = b->count;
    if (pattern)
        add_linear(b, &(struct linear){ .role = role,
                                        .K = b->d->size.width,
                                        .pattern = { pattern },
                                        .N = { N },
                                        .parts = 1,
                                        .bias = qkv_described_bias(b->d, QKV_BIAS_ENDS),
                                        .bias_optional = true,
                                        .init = QKV_INIT_MATRIX });
    for (int64_t i = first; i < b->count; i++) b->row[i].prefixed = prefixed;
    if (norm_pattern) add_norm(b, norm_role, norm_pattern, N, b->d->norm_kind);
}

static void add_tokens(struct builder *b, const struct qkv_end_names *name)
{
    const int64_t V = qkv_described_vocab(b->d);
    b->group = QKV_PACK_TOKENS;
    if (b->d->kind == QKV_NET_ENCODER)
        add_dense(b, QKV_ROLE_TOKENS_DENSE, name->masked_dense, QKV_ROLE_TOKENS_NORM,
                  name->masked_norm, qkv_described_embed_width(b->d), false);
    if (b->d->untied)
        add_row(b, (struct qkv_parameter_row){ .role = QKV_ROLE_TOKENS_OUT,
                                               .pattern = name->logits,
                                               .suffix = "",
                                               .rows = V,
                                               .columns = qkv_described_embed_width(b->d),
                                               .init = QKV_INIT_TABLE });
    const bool own = b->d->untied && name->untied_bias;
    if (name->logits_bias)
        add_row(b,
                (struct qkv_parameter_row){ .role = QKV_ROLE_TOKENS_BIAS,
                                            .bias = true,
                                            .pattern = own ? name->untied_bias : name->logits_bias,
                                            .suffix = "",
                                            .other = own ? name->logits_bias : NULL,
                                            .rows = V,
                                            .optional = name->logits_bias_fixed,
                                            .buffer = name->logits_bias_fixed });
}

const char *qkv_labels_name(const struct qkv_description *d, const struct qkv_family *family)
{
    if (!family->ends || d->told >= QKV_TOLD_QUESTIONS) return NULL;
    return d->label_pool == QKV_LABEL_EACH ? family->ends->each_out : family->ends->classify_out;
}

int64_t qkv_count_labels(const qkv_tensors *file, const struct qkv_description *d,
                         const struct qkv_family *family)
{
    const struct qkv_parameter_row row = { .pattern = qkv_labels_name(d, family),
                                           .suffix = ".weight" };
    const struct qkv_tensor *t = row.pattern ? qkv_row_find(file, "", &row) : NULL;
    return t && t->rank == 2 && t->shape[0] >= 1 ? t->shape[0] : 0;
}

void qkv_find_own_words(struct qkv_description *d, const qkv_tensors *file, const char *prefix,
                        const struct qkv_family *family)
{
    const struct qkv_names *first = family->names;
    if (d->kind != QKV_NET_ENCODER_DECODER || !d->untied || d->decoder_vocab) return;
    if (!first || !first->own_word || !first->decoder->own_word) return;
    const char *const words[] = { first->own_word, first->decoder->own_word };
    for (int i = 0; i < 2; i++) {
        const struct qkv_parameter_row row = { .pattern = words[i],
                                               .suffix = "",
                                               .prefixed = true };
        if (!qkv_row_find(file, prefix, &row)) return;
    }
    d->decoder_vocab = d->size.vocab;
}

void qkv_find_own_logits(struct qkv_description *d, const qkv_tensors *file, const char *prefix,
                         const struct qkv_family *family)
{
    const struct qkv_names *first = family->names;
    if (!first || !family->ends || !family->ends->logits) return;
    const struct qkv_names *last = d->kind == QKV_NET_ENCODER_DECODER ? first->decoder : first;
    const char *const words[] = { last->own_word, first->word };
    const struct qkv_tensor *out = qkv_tensors_find(file, family->ends->logits), *word = NULL;
    for (int i = 0; i < 2 && !word; i++) {
        const struct qkv_parameter_row row = { .pattern = words[i],
                                               .suffix = "",
                                               .prefixed = true };
        if (words[i]) word = qkv_row_find(file, prefix, &row);
    }
    if (d->untied || !out || !word) return;
    d->untied = out->dtype != word->dtype || out->bytes != word->bytes ||
                memcmp(out->data, word->data, out->bytes) != 0;
}

static void add_labels(struct builder *b, const struct qkv_end_names *name)
{
    const bool each = b->d->label_pool == QKV_LABEL_EACH;
    b->group = QKV_PACK_LABELS;
    if (!each || name->each_dense)
        add_dense(b, QKV_ROLE_LABELS_DENSE, name->classify_dense, QKV_ROLE_LABELS_NORM,
                  name->classify_norm, b->d->size.width, name->classify_prefixed);
    add_linear(b, &(struct linear){ .role = QKV_ROLE_LABELS_OUT,
                                    .K = b->d->size.width,
                                    .pattern = { qkv_labels_name(b->d, b->family) },
                                    .N = { b->d->labels },
                                    .parts = 1,
                                    .bias = each || !name->classify_unbiased,
                                    .init = QKV_INIT_MATRIX });
}

qkv_status qkv_layout(struct qkv_parameter_row **rows, int64_t *count,
                      const struct qkv_description *d, const struct qkv_family *family,
                      qkv_error *err)
{
    struct builder b = { .d = d, .family = family };
    const bool pair = d->kind == QKV_NET_ENCODER_DECODER, decoder = d->kind == QKV_NET_DECODER;
    const struct qkv_names *first = family->names,
                           *second = first->decoder ? first->decoder : first;
    add_words(&b, first, second);
    add_stack(&b, decoder ? second : first, 0, d->size.layers, false);
    if (pair) add_stack(&b, second, 1, d->decoder_layers, true);
    b.stack = 0;
    if (family->ends && family->ends->class_tokens) add_tokens(&b, family->ends);
    if (d->labels && qkv_labels_name(d, family)) add_labels(&b, family->ends);
    *rows = b.row;
    *count = b.count;
    if (!b.no_memory) return QKV_OK;
    qkv_free(b.row);
    *rows = NULL;
    return qkv_fail_memory(err, NULL);
}

// ---- rows as tensors ----------------------------------------------------------------------------
int64_t qkv_tensor_rows(const struct qkv_parameter_row *row, int64_t count)
{
    int64_t n = 1;
    while (n < count && row[n].joined) n++;
    return n;
}

int64_t qkv_layer_rows(const struct qkv_parameter_row *row, int64_t count)
{
    int64_t n = 1;
    while (n < count && row[n].role == row->role && row[n].stack == row->stack &&
           row[n].layer == row->layer)
        n++;
    return n;
}

void qkv_row_name(char out[QKV_TENSOR_NAME], const char *prefix,
                  const struct qkv_parameter_row *row)
{
    qkv_tensor_name(out, row->prefixed ? prefix : "", row->pattern, row->number,
                    row->suffix ? row->suffix : "");
}

int qkv_row_shape(int64_t shape[2], const struct qkv_parameter_row *row, int64_t parts)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < parts; i++) rows += row[i].rows;
    shape[0] = row->transposed ? row->columns : row->buffer ? 1 : rows;
    shape[1] = row->transposed || row->buffer ? rows : row->columns;
    return row->columns || row->buffer ? 2 : 1;
}
