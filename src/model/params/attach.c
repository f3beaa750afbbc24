// SPDX-License-Identifier: MIT
// attach.c: connects the layers of a trainable Transformer with their parameters, following the
// rows of the layout.
#include "model/params/net_layers.h"
#include "model/position/position.h"

static struct qkv_net_stack *row_stack(const qkv_net *n, struct qkv_net_layers *body,
                                       const struct qkv_parameter_row *row)
{
    const bool decoder = row->stack == 1 || n->is.kind == QKV_NET_DECODER;
    return decoder ? &body->decoder : &body->encoder;
}

static struct qkv_linear *row_linear(struct qkv_net_layers *body, struct qkv_net_stack *s,
                                     const struct qkv_parameter_row *row)
{
    switch (row->role) {
    case QKV_ROLE_TOKENS_DENSE: return &body->masked.dense;
    case QKV_ROLE_LABELS_DENSE: return &body->classify.dense;
    case QKV_ROLE_LABELS_OUT: return &body->classify.out;
    default: return qkv_role_member(NULL, &s->is, row);
    }
}

static struct qkv_norm *row_norm(struct qkv_net_layers *body, struct qkv_net_stack *s,
                                 const struct qkv_parameter_row *row)
{
    switch (row->role) {
    case QKV_ROLE_TOKENS_NORM: return &body->masked.norm;
    case QKV_ROLE_LABELS_NORM: return &body->classify.norm;
    default: return qkv_role_member(NULL, &s->is, row);
    }
}

// Returns the member for a row that is neither part of a linear layer nor of a norm: a table of
// embeddings or positions, the projection to tokens or its bias.
static struct qkv_weight *row_weight(struct qkv_net_layers *body, struct qkv_net_stack *s,
                                     const struct qkv_parameter_row *row)
{
    switch (row->role) {
    case QKV_ROLE_WORD: return &body->words[row->stack];
    case QKV_ROLE_TYPE: return &body->type;
    case QKV_ROLE_POSITION: return &s->position;
    case QKV_ROLE_RELATIVE: return &s->relative;
    case QKV_ROLE_TOKENS_OUT: return &body->logits;
    default: return &body->logits_bias;
    }
}

static void attach_linear(qkv_net *n, struct qkv_net_layers *body, struct qkv_net_stack *s,
                          const struct qkv_parameter_row *row)
{
    struct qkv_linear *l = row_linear(body, s, row);
    const real **value = row->bias ? &l->part[0].b : &l->part[0].w;
    real **grad = row->bias ? &l->db[0] : &l->dw[0];
    if (!row->bias) {
        l->K = row->columns;
        // further parts follow the first part in memory, so that one product reads all of them
        l->parts = 1;
        l->part[0].N += row->rows;
        l->once = &body->once;
    }
    qkv_net_declare(n, row->part ? NULL : value, row->part ? NULL : grad, row);
}

static void attach_norm(qkv_net *n, struct qkv_norm *norm, const struct qkv_parameter_row *row)
{
    norm->D = row->rows;
    norm->eps = (real)n->is.size.eps;
    if (row->bias)
        qkv_net_declare(n, &norm->b, &norm->db, row);
    else
        qkv_net_declare(n, &norm->w, &norm->dw, row);
}

// Declares the parameter of one row of the layout and sets the sizes of the layer to which it
// belongs.
static void attach_row(qkv_net *n, struct qkv_net_layers *body, const struct qkv_parameter_row *row)
{
    struct qkv_net_stack *s = row_stack(n, body, row);
    if (qkv_role_kind(row->role) == QKV_ROLE_IS_LINEAR) {
        attach_linear(n, body, s, row);
    } else if (qkv_role_kind(row->role) == QKV_ROLE_IS_NORM) {
        attach_norm(n, row_norm(body, s, row), row);
    } else {
        struct qkv_weight *to = row_weight(body, s, row);
        qkv_net_declare(n, &to->value, &to->grad, row);
    }
}

static qkv_status declare_transformer(qkv_net *n, qkv_error *err)
{
    const struct qkv_description *d = &n->is;
    const bool pair = d->kind == QKV_NET_ENCODER_DECODER, decoder = d->kind == QKV_NET_DECODER;
    struct qkv_net_layers *body = n->body = qkv_alloc_zero(1, sizeof *body);
    struct qkv_parameter_row *row = NULL;
    int64_t rows = 0;
    if (!body) return qkv_fail_memory(err, NULL);
    body->decoder.is.causal = true;
    struct qkv_net_stack *first = decoder ? &body->decoder : &body->encoder;
    // The tensors of the file are checked before layers are allocated: a config.json with sizes
    // larger than the file cannot make the program allocate them.
    qkv_status status = qkv_layout(&row, &rows, d, n->family, err);
    if (!status) status = qkv_net_check_rows(n, row, rows, err);
    if (!status && (qkv_stack_alloc(&first->is, d, d->size.layers, false) ||
                    (pair && qkv_stack_alloc(&body->decoder.is, d, d->decoder_layers, true))))
        status = qkv_fail_memory(err, NULL);
    for (int64_t i = 0; !status && i < rows; i++) attach_row(n, body, &row[i]);
    qkv_free(row);
    return status;
}

static bool is_norm_weight(const struct qkv_parameter_row *row)
{
    return qkv_role_kind(row->role) == QKV_ROLE_IS_NORM && !row->bias;
}

// Computes, for each norm, its weights plus the description's norm_offset. The layers use these
// sums in place of the stored weights.
static qkv_status shift_norms(const qkv_net *n)
{
    struct qkv_net_layers *body = n->body;
    const real offset = (real)n->is.norm_offset;
    int64_t count = 0;
    if (offset == 0) return QKV_OK;
    for (int64_t i = 0; i < n->parameters; i++)
        if (is_norm_weight(&n->row[i])) count += n->parameter[i].count;
    if (!body->shifted) body->shifted = qkv_alloc((size_t)count, sizeof *body->shifted);
    if (!body->shifted) return QKV_ERR_LIMIT;
    real *to = body->shifted;
    for (int64_t i = 0; i < n->parameters; i++) {
        const struct qkv_parameter_row *row = &n->row[i];
        if (!is_norm_weight(row)) continue;
        struct qkv_norm *norm = row_norm(body, row_stack(n, body, row), row);
        const real *w = n->parameter[i].value;
        for (int64_t k = 0; k < norm->D; k++) to[k] = w[k] + offset;
        norm->w = to;
        to += norm->D;
    }
    return QKV_OK;
}

static qkv_status derive_relative(const struct qkv_description *d, struct qkv_net_stack *s)
{
    const int64_t H = d->size.heads;
    const size_t row = (size_t)(2 * d->relative.distance + 1);
    if (!s->relative.value) return QKV_OK;
    if (!s->is.relative) s->is.relative = qkv_alloc((size_t)H, row * sizeof *s->is.relative);
    if (!s->d_relative) s->d_relative = qkv_alloc((size_t)H, row * sizeof *s->d_relative);
    if (!s->is.relative || !s->d_relative) return QKV_ERR_LIMIT;
    s->is.reach = d->relative.distance;
    qkv_relative_table(s->is.relative, s->relative.value, H, &d->relative, s->is.causal);
    return QKV_OK;
}

qkv_status qkv_net_derive(const qkv_net *n)
{
    struct qkv_net_layers *body = n->body;
    qkv_status status = shift_norms(n);
    if (!status) status = derive_relative(&n->is, &body->encoder);
    if (!status) status = derive_relative(&n->is, &body->decoder);
    qkv_stack_share(&body->encoder.is, &n->is);
    qkv_stack_share(&body->decoder.is, &n->is);
    return status;
}

// Computes a table of fixed positions, of local or of other layers; NULL: memory is exhausted.
static real *make_table(const struct qkv_description *d, int64_t rows, bool local)
{
    size_t count;
    real *table = NULL;
    if (qkv_mul_size(&count, (size_t)rows, (size_t)qkv_position_width(d)))
        table = qkv_alloc(count, sizeof *table);
    if (table && qkv_position_fill(table, d, rows, local)) return table;
    qkv_free(table);
    return NULL;
}

static void set_table(real **to, real *table)
{
    qkv_free(*to);
    *to = table;
}

qkv_status qkv_net_positions(const qkv_net *n, int64_t rows)
{
    struct qkv_net_layers *body = n->body;
    const struct qkv_description *d = &n->is;
    rows = qkv_described_rows(d, rows);
    if (d->position == QKV_POSITION_LEARNED || d->position == QKV_POSITION_NONE ||
        rows <= body->table_rows)
        return QKV_OK;
    const bool two = d->position == QKV_POSITION_ROTARY && qkv_described_two_turns(d);
    const int64_t made =
        qkv_position_grow(body->table_rows, rows, qkv_described_rows(d, d->size.positions));
    real *table = make_table(d, made, false);
    real *local = two && table ? make_table(d, made, true) : NULL;
    if (!table || (two && !local)) {
        qkv_free(table);
        return QKV_ERR_LIMIT;
    }
    set_table(&body->table[0], table);
    set_table(&body->table[1], local);
    body->table_rows = made;
    return QKV_OK;
}

static void free_transformer(qkv_net *n)
{
    struct qkv_net_layers *body = n->body;
    if (!body) return;
    struct qkv_net_stack *const stacks[] = { &body->encoder, &body->decoder };
    for (int i = 0; i < 2; i++) {
        qkv_free(stacks[i]->is.block);
        qkv_free(stacks[i]->is.relative);
        qkv_free(stacks[i]->d_relative);
    }
    qkv_free(body->table[0]);
    qkv_free(body->table[1]);
    qkv_free(body->shifted);
    qkv_free(body);
}

const struct qkv_net_methods qkv_net_transformer = {
    .declare = declare_transformer,
    .free = free_transformer,
    .run = qkv_net_transformer_run,
};
