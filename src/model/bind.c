// SPDX-License-Identifier: MIT
// bind.c: which tensors a description asks for, bound to the layers they belong to.
#include "model/weights.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct qkv_stem stem(const struct qkv_model *m, const char *name, int64_t layer)
{
    return (struct qkv_stem){ m->prefix, name, layer };
}

// A norm of the stacks.
static qkv_status take_norm(struct qkv_model *m, struct qkv_norm *out, const char *name,
                            int64_t layer, qkv_error *err)
{
    return qkv_take_norm(m, out, stem(m, name, layer), m->is.size.width, m->is.norm_kind, err);
}

// The norms around a part, where the description has them.
static qkv_status take_norms(struct qkv_model *m, struct qkv_norm *in, struct qkv_norm *out,
                             const char *in_name, const char *out_name, int64_t layer,
                             qkv_error *err)
{
    qkv_status s = QKV_OK;
    if (m->is.norm != QKV_NORM_POST) s = take_norm(m, in, in_name, layer, err);
    if (!s && m->is.norm != QKV_NORM_PRE) s = take_norm(m, out, out_name, layer, err);
    return s;
}

// q, k and v of one width together; of heads that read another stack q alone, k and v apart.
static qkv_status take_projections(struct qkv_model *m, struct qkv_heads *to,
                                   const struct qkv_heads_names *name, int64_t layer, bool across,
                                   qkv_error *err)
{
    const int64_t D = m->is.size.width;
    struct qkv_linear_want in = {
        .stems = { name->q, name->k, name->v },
        .N = { to->H * to->E, to->G * to->E, to->G * to->F },
        .parts = across ? 1 : 3,
        .K = D,
        .bias = qkv_described_bias(&m->is, QKV_BIAS_QKV),
        .transposed = m->family->names->conv1d,
    };
    qkv_status s = qkv_take_linear(m, &to->in, &in, m->prefix, layer, err);
    if (s || !across) return s;
    in.stems[0] = name->k;
    in.stems[1] = name->v;
    in.N[0] = in.N[1];
    in.N[1] = in.N[2];
    in.parts = 2;
    return qkv_take_linear(m, &to->kv, &in, m->prefix, layer, err);
}

static qkv_status take_heads(struct qkv_model *m, struct qkv_heads *to,
                             const struct qkv_heads_names *name, int64_t layer, bool across,
                             qkv_error *err)
{
    to->H = m->is.size.heads;
    to->G = m->is.size.kv_heads;
    to->E = qkv_head_keys(&m->is);
    to->F = qkv_head_values(&m->is);
    const struct qkv_linear_want out = {
        .stems = { name->o },
        .N = { m->is.size.width },
        .parts = 1,
        .K = to->H * to->F,
        .bias = qkv_described_bias(&m->is, QKV_BIAS_OUT),
        .transposed = m->family->names->conv1d,
    };
    const qkv_status s = take_projections(m, to, name, layer, across, err);
    return s ? s : qkv_take_linear(m, &to->out, &out, m->prefix, layer, err);
}

static qkv_status take_attention(struct qkv_model *m, struct qkv_block *b,
                                 const struct qkv_heads_names *name, int64_t layer, qkv_error *err)
{
    qkv_status s = take_heads(m, &b->heads, name, layer, false, err);
    if (!s && !(layer == 0 && m->is.first_norm_missing))
        s = take_norms(m, &b->heads_in, &b->heads_out, name->norm_in, name->norm_out, layer, err);
    if (!s && m->is.norm_q) {
        s = qkv_take_norm(m, &b->norm_q, stem(m, name->norm_q, layer), b->heads.E, QKV_NORM_RMS,
                          err);
        b->heads.norm_q = &b->norm_q;
    }
    if (!s && m->is.norm_k) {
        s = qkv_take_norm(m, &b->norm_k, stem(m, name->norm_k, layer), b->heads.E, QKV_NORM_RMS,
                          err);
        b->heads.norm_k = &b->norm_k;
    }
    return s;
}

static qkv_status take_mlp(struct qkv_model *m, struct qkv_block *b,
                           const struct qkv_mlp_names *name, int64_t layer, qkv_error *err)
{
    const int64_t D = m->is.size.width, M = m->is.size.inner;
    const bool bias = qkv_described_bias(&m->is, QKV_BIAS_MLP);
    const bool turned = m->family->names->conv1d;
    const struct qkv_linear_want up = {
        .stems = { m->is.gated   ? name->gate
                   : name->plain ? name->plain
                                 : name->up,
                   name->up },
        .N = { M, M },
        .parts = 1 + m->is.gated,
        .K = D,
        .bias = bias,
        .transposed = turned,
    };
    const struct qkv_linear_want down = {
        .stems = { name->down }, .N = { D }, .parts = 1, .K = M, .bias = bias, .transposed = turned
    };
    b->mlp.act = m->is.act;
    b->mlp.gated = m->is.gated;
    qkv_status s = qkv_take_linear(m, &b->mlp.up, &up, m->prefix, layer, err);
    if (!s) s = qkv_take_linear(m, &b->mlp.down, &down, m->prefix, layer, err);
    return s ? s
             : take_norms(m, &b->mlp_in, &b->mlp_out, name->norm_in, name->norm_out, layer, err);
}

// The table of relative positions, spread out.
static qkv_status take_relative(struct qkv_model *m, struct qkv_stack *to, const char *name,
                                qkv_error *err)
{
    const struct qkv_relative_buckets *b = &m->is.relative;
    const int64_t H = m->is.size.heads;
    struct qkv_table table;
    qkv_status s = qkv_take_table(m, &table, stem(m, name, 0), b->buckets, H, err);
    if (s) return s;
    float *rows = qkv_alloc((size_t)(b->buckets * H), sizeof *rows);
    to->relative = qkv_take_memory(m, H * (2 * b->distance + 1), err);
    if (!rows || !to->relative) {
        s = qkv_fail_memory(err, m->dir);
    } else {
        qkv_tensor_to_f32(rows, table.tensor);
        qkv_relative_table(to->relative, rows, H, b, to->causal);
        to->reach = b->distance;
    }
    qkv_free(rows);
    return s;
}

static qkv_status take_stack(struct qkv_model *m, struct qkv_stack *to,
                             const struct qkv_names *name, int64_t layers, bool across,
                             qkv_error *err)
{
    const struct qkv_description *d = &m->is;
    qkv_status s = QKV_OK;
    to->layers = layers;
    to->blocks = layers + d->mlp_once;
    to->block = qkv_alloc_zero((size_t)to->blocks + 1, sizeof *to->block);
    if (!to->block) return qkv_fail_memory(err, m->dir);
    if (d->position == QKV_POSITION_LEARNED)
        s = qkv_take_table(m, &to->position, stem(m, name->position, 0),
                           d->size.positions + d->position_offset, d->size.width, err);
    if (!s && d->embedding_norm)
        s = take_norm(m, &to->embedding_norm, name->embedding_norm, 0, err);
    if (!s && d->relative.buckets) s = take_relative(m, to, name->relative, err);
    for (int64_t i = 0; !s && i < layers; i++) {
        struct qkv_block *b = &to->block[i];
        b->local = qkv_described_local(d, i);
        to->locals |= b->local;
        s = take_attention(m, b, &name->heads, i, err);
        if (!s && across) {
            s = take_heads(m, &b->cross, &name->cross, i, true, err);
            if (!s)
                s = take_norms(m, &b->cross_in, &b->cross_out, name->cross.norm_in,
                               name->cross.norm_out, i, err);
        }
        if (!s && !d->mlp_once) s = take_mlp(m, b, &name->mlp, i, err);
    }
    if (!s && d->mlp_once) s = take_mlp(m, &to->block[layers], &name->last_mlp, 0, err);
    if (!s && d->final_norm) s = take_norm(m, &to->final_norm, name->final_norm, 0, err);
    return s;
}

// ---- ends --------------------------------------------------------------------------------------
static struct qkv_linear_want end_layer(const struct qkv_model *m, enum qkv_pack_group group,
                                        const char *name, int64_t N)
{
    return (struct qkv_linear_want){ .group = group,
                                     .stems = { name },
                                     .N = { N },
                                     .parts = 1,
                                     .K = m->is.size.width,
                                     .bias = qkv_described_bias(&m->is, QKV_BIAS_ENDS) };
}

// norm(act(dense x)) of an end; what its names leave out is not there.
static qkv_status take_end(struct qkv_model *m, struct qkv_end *to, enum qkv_pack_group group,
                           const char *prefix, const char *dense, const char *norm, qkv_error *err)
{
    qkv_status s = QKV_OK;
    if (dense) {
        struct qkv_linear_want want = end_layer(m, group, dense, m->is.size.width);
        // Its bias is its own matter: models without biases may have one here.
        if (qkv_take_find(m, (struct qkv_stem){ prefix, dense, 0 }, ".bias")) want.bias = true;
        s = qkv_take_linear(m, &to->dense, &want, prefix, 0, err);
    }
    if (!s && norm)
        s = qkv_take_norm(m, &to->norm, (struct qkv_stem){ "", norm, 0 }, m->is.size.width,
                          m->is.norm_kind, err);
    return s;
}

// The projection to tokens.  A file may end before it: then m->lacks says what is not there.
static qkv_status take_tokens(struct qkv_model *m, const struct qkv_end_names *name, qkv_error *err)
{
    const struct qkv_stem logits = { "", name->logits ? name->logits : "", 0 };
    const struct qkv_stem dense = { "", name->masked_dense, 0 };
    const int64_t V = qkv_described_vocab(&m->is);
    const bool encoder = m->is.kind == QKV_NET_ENCODER;
    qkv_status s = QKV_OK;
    if (name->masked_dense && encoder && !qkv_take_find(m, dense, ".weight")) {
        snprintf(m->lacks, sizeof m->lacks, "%s.weight", name->masked_dense);
        return QKV_OK;
    }
    // The dense layer may be that of the labels: tokens are where their bias is.  One that training
    // leaves alone is zeros where the file lacks it, as in the reference.
    const struct qkv_stem bias = { "", name->logits_bias, 0 };
    const bool biased = name->logits_bias && qkv_take_find(m, bias, "");
    if (name->logits_bias && !biased && !name->logits_bias_fixed) {
        snprintf(m->lacks, sizeof m->lacks, "%s", name->logits_bias);
        return QKV_OK;
    }
    if ((m->is.untied && !qkv_take_find(m, logits, "")) || !name->class_tokens) {
        snprintf(m->lacks, sizeof m->lacks, "%s", name->logits ? name->logits : "an output layer");
        return QKV_OK;
    }
    if (encoder)
        s = take_end(m, &m->tokens, QKV_PACK_TOKENS, "", name->masked_dense, name->masked_norm,
                     err);
    if (s) return s;
    if (m->is.untied)
        s = qkv_take_projection(m, &m->tokens.out, logits, V, m->is.size.width, QKV_PACK_TOKENS,
                                err);
    else
        qkv_take_tied(m, &m->tokens.out, &m->stack[m->stacks - 1].word, QKV_PACK_TOKENS);
    if (!s && biased) s = qkv_take_vector(m, &m->tokens.out.part[0].b, bias, "", V, err);
    return s;
}

static qkv_status take_labels(struct qkv_model *m, const struct qkv_end_names *name, qkv_error *err)
{
    const struct qkv_stem out = { "", name->classify_out, 0 };
    const struct qkv_tensor *t = name->classify_out ? qkv_take_find(m, out, ".weight") : NULL;
    if (!t || t->rank != 2 || t->shape[0] < 1) return QKV_OK;
    qkv_status s =
        take_end(m, &m->labels, QKV_PACK_LABELS, name->classify_prefixed ? m->prefix : "",
                 name->classify_dense, name->classify_norm, err);
    if (s) return s;
    struct qkv_linear_want want = end_layer(m, QKV_PACK_LABELS, name->classify_out, t->shape[0]);
    want.bias = true;
    s = qkv_take_linear(m, &m->labels.out, &want, "", 0, err);
    if (!s) m->is.labels = t->shape[0];
    return s;
}

// The table of tokens, or one for each of two stacks.
static qkv_status take_words(struct qkv_model *m, const struct qkv_names *first,
                             const struct qkv_names *second, qkv_error *err)
{
    const struct qkv_description *d = &m->is;
    const bool two = d->decoder_vocab > 0;
    struct qkv_stack *to = m->stack;
    to[0].vocab = d->size.vocab;
    to[1].vocab = qkv_described_vocab(d);
    qkv_status s = qkv_take_table(m, &to[0].word, stem(m, two ? first->own_word : first->word, 0),
                                  to[0].vocab, d->size.width, err);
    to[1].word = to[0].word;
    if (!s && two)
        s = qkv_take_table(m, &to[1].word, stem(m, second->own_word, 0), to[1].vocab, d->size.width,
                           err);
    return s;
}

qkv_status qkv_model_bind(struct qkv_model *m, qkv_error *err)
{
    const struct qkv_description *d = &m->is;
    const struct qkv_names *tables = m->family->names;
    const bool two = d->kind == QKV_NET_ENCODER_DECODER;
    const struct qkv_names *second = tables->decoder ? tables->decoder : tables;
    const int64_t layers = d->size.layers, more = two ? d->decoder_layers : 0;
    m->prefix = qkv_tensor_prefix(m->file, m->family);
    m->stacks = 1 + two;
    m->stack[0].causal = d->kind == QKV_NET_DECODER;
    m->stack[1].causal = true;
    // Four linear layers a block, three more where it reads another stack, and two ends of two.
    m->source =
        qkv_alloc_zero((size_t)(layers + 1) * 4 + (size_t)(more + 1) * 7 + 4, sizeof *m->source);
    if (!m->source) return qkv_fail_memory(err, m->dir);
    qkv_status s = take_words(m, tables, second, err);
    if (!s && d->size.types)
        s = qkv_take_table(m, &m->type, stem(m, tables->type, 0), d->size.types, d->size.width,
                           err);
    if (!s)
        s = take_stack(m, &m->stack[0], d->kind == QKV_NET_DECODER ? second : tables, layers, false,
                       err);
    if (!s && two) s = take_stack(m, &m->stack[1], second, more, true, err);
    if (!s && m->family->ends) s = take_tokens(m, m->family->ends, err);
    if (!s && m->family->ends) s = take_labels(m, m->family->ends, err);
    return s;
}

void qkv_model_unbind(struct qkv_model *m)
{
    for (int group = 0; group < QKV_PACK_GROUPS; group++) qkv_free(m->weights[group]);
    for (int64_t i = 0; i < m->owned; i++) qkv_free(m->own[i]);
    for (int kind = 0; kind < QKV_ROWS_KINDS; kind++)
        for (struct qkv_rows_made *made = atomic_load(&m->made[kind]), *older; made; made = older) {
            older = made->older;
            qkv_free(made->at);
            qkv_free(made);
        }
    for (int i = 0; i < 2; i++) qkv_free(m->stack[i].block);
    qkv_free(m->own);
    qkv_free(m->source);
}
