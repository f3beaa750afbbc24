// SPDX-License-Identifier: MIT
// bind.c: binds the tensors of a checkpoint to the layers of a model that runs.
//
// Binding checks names, shapes and types and reads no large tensor: the first run that needs a
// matrix packs it (pack.c), and each run reads embedding rows from the mapped file.
#include "model/params/layout.h"
#include "model/position/position.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A model whose tensors are being bound, and the layout table of its parameters.
struct binding {
    struct qkv_model *m;
    struct qkv_parameter_row *row;
    int64_t rows;
    qkv_error *err;
};

static const struct qkv_tensor *find_tensor(const struct qkv_model *m,
                                            const struct qkv_parameter_row *row)
{
    return qkv_row_find(m->file, m->prefix, row);
}

// Finds the tensor that rows row[0 .. parts-1] of the layout table share, and checks it.
static qkv_status load_tensor(const struct binding *b, const struct qkv_tensor **t,
                              const struct qkv_parameter_row *row, int64_t parts, bool eight_bits)
{
    const qkv_status status =
        qkv_row_tensor(t, b->m->file, b->m->prefix, row, parts, eight_bits, b->m->dir, b->err);
    b->m->used += !status;
    return status;
}

// Returns the tensor's data as floats; NULL: the data must be converted first.
static const float *tensor_floats(const struct qkv_tensor *t)
{
    return t->dtype == QKV_F32 && (uintptr_t)t->data % sizeof(float) == 0 ? t->data : NULL;
}

// Allocates a vector of n floats that the model frees; NULL: memory is exhausted (err is filled).
static float *alloc_vector(const struct binding *b, int64_t n)
{
    struct qkv_model *m = b->m;
    float *memory = NULL;
    if (qkv_reserve((void **)&m->own, &m->own_capacity, m->owned + 1, sizeof *m->own))
        memory = qkv_alloc((size_t)qkv_max64(n, 1), sizeof *memory);
    if (memory)
        m->own[m->owned++] = memory;
    else
        qkv_fail_memory(b->err, m->dir);
    return memory;
}

// Sets *out to element `first` of the vector t, which has n elements; converts the vector to float
// if needed.
static qkv_status load_vector(const struct binding *b, const float **out,
                              const struct qkv_tensor *t, int64_t first, int64_t n)
{
    *out = tensor_floats(t);
    if (!*out) {
        float *copy = alloc_vector(b, n);
        if (!copy) return QKV_ERR_LIMIT;
        qkv_tensor_to_f32(copy, t);
        *out = copy;
    }
    *out += first;
    return QKV_OK;
}

static qkv_status bind_vector(const struct binding *b, const float **out,
                              const struct qkv_parameter_row *row)
{
    const struct qkv_tensor *t = NULL;
    const qkv_status status = load_tensor(b, &t, row, 1, false);
    return status ? status : load_vector(b, out, t, 0, row->rows);
}

static qkv_status bind_table(const struct binding *b, struct qkv_table *out,
                             const struct qkv_parameter_row *row)
{
    const qkv_status status = load_tensor(b, &out->tensor, row, 1, false);
    if (!status) out->rows = tensor_floats(out->tensor);
    return status;
}

// Binds relative-position biases, which the file stores per bucket, as a table with one bias per
// distance.
static qkv_status bind_relative(const struct binding *b, const struct qkv_parameter_row *row)
{
    const struct qkv_relative_buckets *buckets = &b->m->is.relative;
    struct qkv_stack *to = &b->m->stack[row->stack];
    const int64_t H = b->m->is.size.heads;
    const struct qkv_tensor *t = NULL;
    qkv_status status = load_tensor(b, &t, row, 1, false);
    if (status) return status;
    float *rows = qkv_alloc((size_t)(buckets->buckets * H), sizeof *rows);
    to->relative = alloc_vector(b, H * (2 * buckets->distance + 1));
    if (!rows || !to->relative) {
        status = qkv_fail_memory(b->err, b->m->dir);
    } else {
        qkv_tensor_to_f32(rows, t);
        qkv_relative_table(to->relative, rows, H, buckets, to->causal);
        to->reach = buckets->distance;
    }
    qkv_free(rows);
    return status;
}

// Binds a norm: its weights plus the description's norm_offset, and its bias if there is a second
// row.
static qkv_status bind_norm(const struct binding *b, struct qkv_norm *out,
                            const struct qkv_parameter_row *row, int64_t rows)
{
    const float offset = (float)b->m->is.norm_offset;
    const int64_t D = row->rows;
    qkv_status status = bind_vector(b, &out->w, row);
    if (!status && rows > 1) status = bind_vector(b, &out->b, &row[1]);
    if (status) return status;
    if (offset != 0) {
        float *shifted = alloc_vector(b, D);
        if (!shifted) return QKV_ERR_LIMIT;
        for (int64_t i = 0; i < D; i++) shifted[i] = out->w[i] + offset;
        out->w = shifted;
    }
    out->D = D;
    out->eps = (float)b->m->is.size.eps;
    return QKV_OK;
}

// ---- linear layers ------------------------------------------------------------------------------
static struct qkv_linear_source *next_source(struct qkv_model *m, struct qkv_linear *out,
                                             enum qkv_pack_group group, bool transposed)
{
    struct qkv_linear_source *source = &m->source[m->sources++];
    *source = (struct qkv_linear_source){ .to = out, .group = group, .transposed = transposed };
    out->precision = m->precision;
    return source;
}

// Finds the tensor with the scales of the int8 weights of row[0 .. parts-1]: one scale per output.
static qkv_status load_scales(const struct binding *b, const struct qkv_tensor **t,
                              const struct qkv_parameter_row *row, int64_t parts)
{
    struct qkv_parameter_row scale = *row;
    scale.suffix = row->suffix[0] ? ".weight" QKV_EIGHT_SCALE : QKV_EIGHT_SCALE;
    scale.columns = 0;
    scale.transposed = false;
    for (int64_t i = 1; i < parts; i++) scale.rows += row[i].rows;
    return load_tensor(b, t, &scale, 1, false);
}

// Binds the matrices of row[0 .. parts-1], which share a tensor, to the parts of a linear layer
// that the rows name.
static qkv_status bind_matrices(const struct binding *b, struct qkv_linear *out,
                                struct qkv_linear_source *source,
                                const struct qkv_parameter_row *row, int64_t parts)
{
    const struct qkv_tensor *t = NULL, *scale = NULL;
    int64_t first = 0;
    qkv_status status = load_tensor(b, &t, row, parts, true);
    if (!status && t->dtype == QKV_I8) status = load_scales(b, &scale, row, parts);
    for (int64_t i = 0; !status && i < parts; i++) {
        const int p = row[i].part;
        out->part[p].N = row[i].rows;
        source->from[p] = t;
        source->at[p] = first;
        if (scale)
            status = load_vector(b, &source->scale[p], scale, first, qkv_tensor_count(scale));
        first += row[i].rows;
    }
    return status;
}

static qkv_status bind_biases(const struct binding *b, struct qkv_linear *out,
                              const struct qkv_parameter_row *row, int64_t parts)
{
    const struct qkv_tensor *t = NULL;
    int64_t first = 0;
    if (row->optional && !find_tensor(b->m, row)) return QKV_OK;
    qkv_status status = load_tensor(b, &t, row, parts, false);
    for (int64_t i = 0; !status && i < parts; i++) {
        status = load_vector(b, &out->part[row[i].part].b, t, first, qkv_tensor_count(t));
        first += row[i].rows;
    }
    return status;
}

static qkv_status bind_linear(const struct binding *b, struct qkv_linear *out,
                              const struct qkv_parameter_row *row, int64_t rows)
{
    struct qkv_linear_source *source = next_source(b->m, out, row->group, row->transposed);
    qkv_status status = QKV_OK;
    out->K = row->columns;
    for (int64_t i = 0, parts; !status && i < rows; i += parts) {
        parts = qkv_tensor_rows(&row[i], rows - i);
        if (row[i].bias) {
            status = bind_biases(b, out, &row[i], parts);
        } else {
            out->parts += (int)parts;
            status = bind_matrices(b, out, source, &row[i], parts);
        }
    }
    return status;
}

// Binds the tied output projection, which uses the embedding table without a copy.
static void bind_tied(const struct binding *b)
{
    const struct qkv_table *table = &b->m->stack[b->m->stacks - 1].word;
    struct qkv_linear *out = &b->m->tokens.out;
    next_source(b->m, out, QKV_PACK_TOKENS, false)->from[0] = table->tensor;
    out->K = table->tensor->shape[1];
    out->parts = 1;
    out->part[0].N = table->tensor->shape[0];
}

// Binds one layer, whose parameters are row[0 .. rows-1].
static qkv_status bind_layer(const struct binding *b, const struct qkv_parameter_row *row,
                             int64_t rows)
{
    void *to = qkv_role_member(b->m, &b->m->stack[row->stack], row);
    switch (qkv_role_kind(row->role)) {
    case QKV_ROLE_IS_TABLE: return bind_table(b, to, row);
    case QKV_ROLE_IS_RELATIVE: return bind_relative(b, row);
    case QKV_ROLE_IS_NORM: return bind_norm(b, to, row, rows);
    case QKV_ROLE_IS_LINEAR:
    case QKV_ROLE_IS_LOGITS: return bind_linear(b, to, row, rows);
    case QKV_ROLE_IS_OFFSET: return bind_biases(b, to, row, rows);
    }
    return QKV_ERR_INTERNAL;
}

// ---- the model before its tensors ---------------------------------------------------------------
static qkv_status size_model(const struct binding *b)
{
    struct qkv_model *m = b->m;
    const struct qkv_description *d = &m->is;
    const bool two = d->kind == QKV_NET_ENCODER_DECODER;
    size_t sources = 1; // 1: room for an output projection tied to the embedding table
    m->stacks = 1 + two;
    m->stack[0].causal = d->kind == QKV_NET_DECODER;
    m->stack[1].causal = true;
    m->stack[0].vocab = d->size.vocab;
    m->stack[1].vocab = qkv_described_vocab(d);
    for (int64_t i = 0; i < b->rows; i++) {
        const enum qkv_role_kind kind = qkv_role_kind(b->row[i].role);
        sources += kind == QKV_ROLE_IS_LOGITS ||
                   (kind == QKV_ROLE_IS_LINEAR && !b->row[i].bias && !b->row[i].part);
    }
    m->source = qkv_alloc_zero(sources, sizeof *m->source);
    if (!m->source || qkv_stack_alloc(&m->stack[0], d, d->size.layers, false) ||
        (two && qkv_stack_alloc(&m->stack[1], d, d->decoder_layers, true)))
        return qkv_fail_memory(b->err, m->dir);
    return QKV_OK;
}

// Returns true if the checkpoint has the output head for tokens, that is, every tensor of it that
// must exist. If not, m->lacks names the first missing tensor. (The dense layer alone is no proof:
// it may belong to a head for labels. A projection that is tied to the embeddings has no tensor: then
// the class that config.json names must not have another head.)
static bool has_tokens(const struct binding *b)
{
    struct qkv_model *m = b->m;
    const struct qkv_end_names *ends = m->family->ends;
    if (!ends) return false;
    if (!ends->class_tokens) {
        snprintf(m->lacks, sizeof m->lacks, "%s", ends->logits ? ends->logits : "an output layer");
        return false;
    }
    bool told = false;
    for (int64_t i = 0; i < b->rows; i++) {
        const struct qkv_parameter_row *row = &b->row[i];
        const bool tells = (row->role == QKV_ROLE_TOKENS_DENSE && !row->bias) ||
                           row->role == QKV_ROLE_TOKENS_OUT || row->role == QKV_ROLE_TOKENS_BIAS;
        if (!tells || row->optional) continue;
        told = true;
        if (find_tensor(m, row)) continue;
        qkv_row_name(m->lacks, m->prefix, row);
        return false;
    }
    if (told || !m->is.told) return true;
    snprintf(m->lacks, sizeof m->lacks, "%s", ends->logits);
    return false;
}

static qkv_status bind_rows(const struct binding *b)
{
    struct qkv_model *m = b->m;
    const bool tokens = has_tokens(b);
    qkv_status status = QKV_OK;
    for (int64_t i = 0, n; !status && i < b->rows; i += n) {
        n = qkv_layer_rows(&b->row[i], b->rows - i);
        if (b->row[i].group != QKV_PACK_TOKENS || tokens) status = bind_layer(b, &b->row[i], n);
    }
    if (!m->stack[1].word.tensor) m->stack[1].word = m->stack[0].word;
    if (!status && tokens && !m->is.untied) bind_tied(b);
    for (int i = 0; i < m->stacks; i++) qkv_stack_share(&m->stack[i], &m->is);
    return status;
}

qkv_status qkv_model_bind(struct qkv_model *m, qkv_error *err)
{
    struct binding b = { .m = m, .err = err };
    m->prefix = qkv_tensor_prefix(m->file, m->family);
    m->is.labels = qkv_count_labels(m->file, &m->is, m->family);
    qkv_find_own_words(&m->is, m->file, m->prefix, m->family);
    qkv_find_own_logits(&m->is, m->file, m->prefix, m->family);
    qkv_status status = qkv_layout(&b.row, &b.rows, &m->is, m->family, err);
    if (!status) status = size_model(&b);
    if (!status) status = bind_rows(&b);
    qkv_free(b.row);
    return status;
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
