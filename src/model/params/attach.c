// SPDX-License-Identifier: MIT
// attach.c: connects the layers of a trainable Transformer with their parameters, following the
// rows of the layout.
#include "model/params/net_body.h"

// Allocates the sublayers of a stack in order, without weights.
static qkv_status alloc_parts(struct qkv_net_stack *s, const struct qkv_description *d,
                              int64_t layers, bool cross)
{
    s->layers = layers;
    s->parts = layers * (1 + cross + !d->mlp_once) + d->mlp_once;
    s->part = qkv_alloc_zero((size_t)s->parts, sizeof *s->part);
    if (!s->part) return QKV_ERR_LIMIT;
    struct qkv_net_part *p = s->part;
    for (int64_t l = 0; l < layers; l++) {
        *p++ = (struct qkv_net_part){ .kind = QKV_NET_SELF,
                                      .layer = l,
                                      .local = qkv_described_local(d, l) };
        if (cross) *p++ = (struct qkv_net_part){ .kind = QKV_NET_CROSS, .layer = l };
        if (!d->mlp_once) *p++ = (struct qkv_net_part){ .kind = QKV_NET_MLP, .layer = l };
    }
    if (d->mlp_once) *p = (struct qkv_net_part){ .kind = QKV_NET_MLP, .layer = layers - 1 };
    return QKV_OK;
}

static struct qkv_net_stack *row_stack(const qkv_net *n, struct qkv_net_body *body,
                                       const struct qkv_parameter_row *row)
{
    const bool decoder = row->stack == 1 || n->is.kind == QKV_NET_DECODER;
    return decoder ? &body->decoder : &body->encoder;
}

// Returns the sublayer that a row belongs to.
static struct qkv_net_part *row_part(struct qkv_net_stack *s, const struct qkv_parameter_row *row)
{
    const int64_t a_layer = s->layers ? s->parts / s->layers : 0;
    enum qkv_net_part_kind kind = QKV_NET_MLP;
    if (row->role >= QKV_ROLE_HEADS_IN && row->role <= QKV_ROLE_HEADS_NORM_K) kind = QKV_NET_SELF;
    if (row->role >= QKV_ROLE_CROSS_IN && row->role <= QKV_ROLE_CROSS_NORM_OUT)
        kind = QKV_NET_CROSS;
    if (row->layer >= s->layers) return &s->part[s->parts - 1]; // feed-forward after the stack
    struct qkv_net_part *p = &s->part[row->layer * a_layer];
    while (p->kind != kind) p++;
    return p;
}

static struct qkv_net_linear *row_linear(struct qkv_net_body *body, struct qkv_net_stack *s,
                                         const struct qkv_parameter_row *row)
{
    switch (row->role) {
    case QKV_ROLE_HEADS_IN:
    case QKV_ROLE_CROSS_IN:
    case QKV_ROLE_MLP_UP: return &row_part(s, row)->first;
    case QKV_ROLE_CROSS_KV: return &row_part(s, row)->memory;
    case QKV_ROLE_HEADS_OUT:
    case QKV_ROLE_CROSS_OUT:
    case QKV_ROLE_MLP_DOWN: return &row_part(s, row)->last;
    case QKV_ROLE_TOKENS_DENSE: return &body->masked.dense;
    case QKV_ROLE_LABELS_DENSE: return &body->classify.dense;
    default: return &body->classify.out;
    }
}

static struct qkv_net_norm *row_norm(struct qkv_net_body *body, struct qkv_net_stack *s,
                                     const struct qkv_parameter_row *row)
{
    switch (row->role) {
    case QKV_ROLE_HEADS_NORM_IN:
    case QKV_ROLE_CROSS_NORM_IN:
    case QKV_ROLE_MLP_NORM_IN: return &row_part(s, row)->in;
    case QKV_ROLE_HEADS_NORM_OUT:
    case QKV_ROLE_CROSS_NORM_OUT:
    case QKV_ROLE_MLP_NORM_OUT: return &row_part(s, row)->out;
    case QKV_ROLE_HEADS_NORM_Q: return &row_part(s, row)->norm_q;
    case QKV_ROLE_HEADS_NORM_K: return &row_part(s, row)->norm_k;
    case QKV_ROLE_EMBEDDING_NORM: return &s->embedding_norm;
    case QKV_ROLE_FINAL_NORM: return &s->final_norm;
    case QKV_ROLE_TOKENS_NORM: return &body->masked.norm;
    default: return &body->classify.norm;
    }
}

// Returns the weight of a row that is a table, or a vector outside of linear layers and norms.
static struct qkv_weight *row_weight(struct qkv_net_body *body, struct qkv_net_stack *s,
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

// Declares the parameter of one row and sets the sizes of the layer that owns it.
static void attach_row(qkv_net *n, struct qkv_net_body *body, const struct qkv_parameter_row *row)
{
    struct qkv_net_stack *s = row_stack(n, body, row);
    struct qkv_weight *to = NULL;
    if (qkv_role_kind(row->role) == QKV_ROLE_IS_LINEAR) {
        struct qkv_net_linear *l = row_linear(body, s, row);
        if (!row->bias) l->K = row->columns;
        if (!row->bias) l->N += row->rows;
        // Further parts follow the first in memory: one product reads all of them.
        if (!row->part) to = row->bias ? &l->b : &l->w;
    } else if (qkv_role_kind(row->role) == QKV_ROLE_IS_NORM) {
        struct qkv_net_norm *l = row_norm(body, s, row);
        const bool head = row->role == QKV_ROLE_HEADS_NORM_Q || row->role == QKV_ROLE_HEADS_NORM_K;
        l->D = row->rows;
        l->eps = (real)n->is.size.eps;
        l->kind = head ? QKV_NORM_RMS : n->is.norm_kind;
        to = row->bias ? &l->b : &l->w;
    } else {
        to = row_weight(body, s, row);
    }
    qkv_net_declare(n, to, row);
}

static qkv_status declare_transformer(qkv_net *n, qkv_error *err)
{
    const struct qkv_description *d = &n->is;
    const bool pair = d->kind == QKV_NET_ENCODER_DECODER, decoder = d->kind == QKV_NET_DECODER;
    struct qkv_net_body *body = n->body = qkv_alloc_zero(1, sizeof *body);
    struct qkv_parameter_row *row = NULL;
    int64_t rows = 0;
    if (!body) return qkv_fail_memory(err, NULL);
    body->decoder.causal = true;
    if (alloc_parts(decoder ? &body->decoder : &body->encoder, d, d->size.layers, false) ||
        (pair && alloc_parts(&body->decoder, d, d->decoder_layers, true)))
        return qkv_fail_memory(err, NULL);
    qkv_status status = qkv_layout(&row, &rows, d, n->family, err);
    if (!status) status = qkv_net_check_rows(n, row, rows, err);
    for (int64_t i = 0; !status && i < rows; i++) attach_row(n, body, &row[i]);
    qkv_free(row);
    return status;
}

static bool is_norm_weight(const struct qkv_parameter_row *row)
{
    return qkv_role_kind(row->role) == QKV_ROLE_IS_NORM && !row->bias;
}

// Computes the weights of norms with the description's norm_offset added.
static qkv_status shift_norms(const qkv_net *n)
{
    struct qkv_net_body *body = n->body;
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
        struct qkv_net_norm *l = row_norm(body, row_stack(n, body, row), row);
        for (int64_t k = 0; k < l->D; k++) to[k] = l->w.value[k] + offset;
        l->shifted = to;
        to += l->D;
    }
    return QKV_OK;
}

static qkv_status derive_distances(const struct qkv_description *d, struct qkv_net_stack *s)
{
    const int64_t H = d->size.heads;
    const size_t row = (size_t)(2 * d->relative.distance + 1);
    if (!s->relative.value) return QKV_OK;
    if (!s->distances) s->distances = qkv_alloc((size_t)H, row * sizeof *s->distances);
    if (!s->d_distances) s->d_distances = qkv_alloc((size_t)H, row * sizeof *s->d_distances);
    if (!s->distances || !s->d_distances) return QKV_ERR_LIMIT;
    qkv_relative_table(s->distances, s->relative.value, H, &d->relative, s->causal);
    return QKV_OK;
}

qkv_status qkv_net_derive(const qkv_net *n)
{
    struct qkv_net_body *body = n->body;
    qkv_status status = shift_norms(n);
    if (!status) status = derive_distances(&n->is, &body->encoder);
    if (!status) status = derive_distances(&n->is, &body->decoder);
    return status;
}

// Computes a table of fixed positions; NULL: memory is exhausted.
static real *make_table(const struct qkv_description *d, int64_t rows, double theta)
{
    const bool rotary = d->position == QKV_POSITION_ROTARY;
    const int64_t width = rotary ? 2 * qkv_rope_pairs(d) : d->size.width;
    size_t count;
    real *table = NULL;
    if (qkv_mul_size(&count, (size_t)rows, (size_t)width)) table = qkv_alloc(count, sizeof *table);
    if (!table) return NULL;
    if (!rotary) {
        qkv_position_sinusoid(table, rows, width, d->position == QKV_POSITION_SINUSOIDAL);
    } else if (!qkv_rope_turns(table, rows, d, theta)) {
        qkv_free(table);
        return NULL;
    }
    return table;
}

static void set_table(real **to, real *table)
{
    qkv_free(*to);
    *to = table;
}

qkv_status qkv_net_positions(const qkv_net *n, int64_t rows)
{
    enum { ROWS_FIRST = 64 };
    struct qkv_net_body *body = n->body;
    const struct qkv_description *d = &n->is;
    if (d->position == QKV_POSITION_LEARNED || d->position == QKV_POSITION_NONE ||
        rows <= body->table_rows)
        return QKV_OK;
    const bool two = d->position == QKV_POSITION_ROTARY && qkv_described_two_turns(d);
    const int64_t twice = qkv_max64(2 * body->table_rows, ROWS_FIRST);
    const int64_t made = qkv_max64(rows, qkv_min64(twice, d->size.positions));
    real *table = make_table(d, made, d->theta);
    real *local = two && table ? make_table(d, made, d->theta_local) : NULL;
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
    struct qkv_net_body *body = n->body;
    if (!body) return;
    struct qkv_net_stack *const stacks[] = { &body->encoder, &body->decoder };
    for (int i = 0; i < 2; i++) {
        qkv_free(stacks[i]->part);
        qkv_free(stacks[i]->distances);
        qkv_free(stacks[i]->d_distances);
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
