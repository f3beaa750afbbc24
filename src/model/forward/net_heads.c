// SPDX-License-Identifier: MIT
// net_heads.c: applies RMS norms and rotary positions to the query and key heads of a trainable
// sublayer, forward and backward.
//
// Heads without norms are rotated in place, in the output of the first product. Heads with norms
// are written to f->queries and f->keys, arrays that all sublayers share, since backward needs the
// unchanged output of the product; backward recomputes the two arrays.
#include "model/params/net_body.h"
#include <string.h>

// ---- rotations ---------------------------------------------------------------------------------
// Rotates `heads` heads of each row; ld: distance of the rows, in elements.
static void rotate(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                   const struct qkv_net_part *p, void *x, int64_t heads, int64_t ld, bool backward)
{
    const struct qkv_description *d = &f->n->is;
    real *const *table = f->body->table;
    if (d->position != QKV_POSITION_ROTARY || p->kind != QKV_NET_SELF) return;
    const struct qkv_rope rope = { .backward = backward,
                                   .table = p->local && table[1] ? table[1] : table[0],
                                   .ldx = ld,
                                   .turned = 2 * qkv_rope_pairs(d) };
    qkv_rope_apply(x, f->type, s->positions, s->R, heads, qkv_head_keys(d), &rope);
}

// Rotates query and key heads in one call, since they are adjacent in each row of `first`.
static void rotate_both(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                        const struct qkv_net_part *p, void *first, bool backward)
{
    const struct qkv_config_sizes *size = &f->n->is.size;
    rotate(f, s, p, first, size->heads + size->kv_heads, p->first.N, backward);
}

// ---- copies of some columns of rows ------------------------------------------------------------
// A copy of n columns of each of R rows, in parallel.
struct columns {
    char *to;
    const char *from;
    qkv_dtype to_type, from_type; // element types: equal, or one of them is real
    int64_t to_ld, from_ld, n, R; // distances of rows in elements; columns to copy; rows
};
enum { COLUMN_ROWS = 16 };

static void copy_rows(void *ctx, int64_t i, int thread)
{
    const struct columns *j = ctx;
    (void)thread;
    for (int64_t r = i * COLUMN_ROWS; r < j->R && r < (i + 1) * COLUMN_ROWS; r++) {
        char *to = j->to + (size_t)(r * j->to_ld) * qkv_dtype_size(j->to_type);
        const char *from = j->from + (size_t)(r * j->from_ld) * qkv_dtype_size(j->from_type);
        if (j->to_type == j->from_type)
            memcpy(to, from, (size_t)j->n * qkv_dtype_size(j->to_type));
        else if (j->to_type == QKV_REAL)
            qkv_widen((real *)(void *)to, from, j->from_type, j->n);
        else
            qkv_narrow(to, j->to_type, (const real *)(const void *)from, j->n);
    }
}

static void copy_columns(struct columns j)
{
    qkv_parallel_for(qkv_ceil_div(j.R, COLUMN_ROWS), copy_rows, &j);
}

// ---- norms -------------------------------------------------------------------------------------
// The query heads, or the key heads, of one sublayer.
struct heads {
    const struct qkv_net_norm *norm;
    int64_t heads, E, column; // number of heads; width; first column in a row of the product
    void *at, *d;             // the heads after norm and rotation, and their gradients
};

static struct heads heads_of(const struct qkv_net_flow *f, const struct qkv_net_part *p, bool keys)
{
    const struct qkv_config_sizes *size = &f->n->is.size;
    const int64_t E = qkv_head_keys(&f->n->is);
    if (keys)
        return (struct heads){ &p->norm_k, size->kv_heads, E, size->heads * E, f->keys, f->d_keys };
    return (struct heads){ &p->norm_q, size->heads, E, 0, f->queries, f->d_queries };
}

// Returns the copy of the columns of h from the rows of a product to an array of their own; the
// caller sets the pointers.
static struct columns columns_of(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                                 const struct qkv_net_part *p, const struct heads *h)
{
    const qkv_dtype type = f->type ? f->type : QKV_REAL;
    return (struct columns){ .to_type = type,
                             .from_type = type,
                             .to_ld = h->heads * h->E,
                             .from_ld = p->first.N,
                             .n = h->heads * h->E,
                             .R = s->R };
}

static void ready(struct qkv_net_flow *f, const struct qkv_net_side *s,
                  const struct qkv_net_part *p, const void *first, const struct heads *h)
{
    struct columns c = columns_of(f, s, p, h);
    c.from = (const char *)first + (size_t)h->column * f->bytes;
    c.to = h->at;
    if (h->norm->D) {
        c.to = (char *)f->head_rows;
        c.to_type = QKV_REAL;
    }
    copy_columns(c);
    if (h->norm->D) {
        const struct qkv_norm norm = qkv_net_norm_of(h->norm);
        qkv_norm_kind_forward(h->at, f->type, NULL, f->head_rows, s->R * h->heads, &norm,
                              QKV_NORM_RMS);
    }
    rotate(f, s, p, h->at, h->heads, 0, false);
}

void qkv_net_heads_ready(struct qkv_net_flow *f, const struct qkv_net_side *s,
                         const struct qkv_net_part *p, void *first)
{
    if (!qkv_net_heads_normed(p)) {
        rotate_both(f, s, p, first, false);
        return;
    }
    for (int keys = 0; keys < 2; keys++) {
        const struct heads h = heads_of(f, p, keys);
        ready(f, s, p, first, &h);
    }
}

static void back(struct qkv_net_flow *f, const struct qkv_net_side *s, const struct qkv_net_part *p,
                 const void *first, const struct heads *h)
{
    struct columns c = columns_of(f, s, p, h), d = c;
    d.to = (char *)f->d_first + (size_t)h->column * f->bytes;
    d.to_ld = c.from_ld;
    d.from_ld = c.to_ld;
    d.from = h->d;
    rotate(f, s, p, h->d, h->heads, 0, true);
    if (h->norm->D) {
        const struct qkv_norm norm = qkv_net_norm_of(h->norm);
        const struct qkv_norm_keep keep = { .rstd = f->head_rstd };
        const int64_t rows = s->R * h->heads;
        c.from = (const char *)first + (size_t)h->column * f->bytes;
        c.to = (char *)f->head_rows;
        c.to_type = QKV_REAL;
        copy_columns(c);
        qkv_norm_kind_forward(NULL, 0, &keep, f->head_rows, rows, &norm, QKV_NORM_RMS);
        qkv_norm_backward(f->d_head_rows, NULL, h->norm->w.grad, NULL, h->d, f->type, f->head_rows,
                          &keep, rows, &norm, QKV_NORM_RMS, f->work.scratch);
        d.from = (const char *)f->d_head_rows;
        d.from_type = QKV_REAL;
    }
    copy_columns(d);
}

void qkv_net_heads_back(struct qkv_net_flow *f, const struct qkv_net_side *s,
                        const struct qkv_net_part *p, const void *first)
{
    if (!qkv_net_heads_normed(p)) {
        rotate_both(f, s, p, f->d_first, true);
        return;
    }
    for (int keys = 0; keys < 2; keys++) {
        const struct heads h = heads_of(f, p, keys);
        back(f, s, p, first, &h);
    }
}
