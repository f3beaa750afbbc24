// SPDX-License-Identifier: MIT
// norm_backward.c: computes layer norm and RMS norm for training, forward and backward. Ba, Kiros,
// Hinton 2016 (arXiv 1607.06450); Zhang and Sennrich 2019 (arXiv 1910.07467).
//   n = (x - mean) rstd,  y = w n + b:   dn = w dy
//   dx = rstd (dn - mean(dn) - n mean(dn n)) + dx_add,   dw += sum_r dy n,   db += sum_r dy
// RMS norm: the same with mean = 0 and without the term mean(dn).
#include "layer/layer.h"
#include <string.h>

enum {
    ROWS = 32,  // least rows per task
    PARTS = 16, // most parts into which a sum over rows is divided; each task sums one part
    STRIP = 256 // columns that one task adds over all parts
};

struct forward {
    char *y;
    qkv_dtype type;
    const struct qkv_norm_keep *keep;
    const real *x;
    int64_t R;
    const struct qkv_norm *p;
    bool rms;
};

static void forward_task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct forward *j = ctx;
    const int64_t r = i * ROWS, at = r * j->p->D;
    const struct qkv_norm_keep none = { NULL, NULL }, *keep = j->keep ? j->keep : &none;
    qkv_kernel()->norm_rows_to(j->y ? j->y + (size_t)at * qkv_dtype_size(j->type) : NULL, j->type,
                               keep->mean ? keep->mean + r : NULL,
                               keep->rstd ? keep->rstd + r : NULL, j->x + at, j->p->w, j->p->b,
                               j->p->eps, j->rms, qkv_min64(ROWS, j->R - r), j->p->D);
}

void qkv_norm_kind_forward(void *y, qkv_dtype t, const struct qkv_norm_keep *keep, const real *x,
                           int64_t R, const struct qkv_norm *p, enum qkv_norm_kind kind)
{
    struct forward j = { y, t ? t : QKV_REAL, keep, x, R, p, kind == QKV_NORM_RMS };
    qkv_parallel_for(qkv_ceil_div(R, ROWS), forward_task, &j);
}

// ---- backward ----------------------------------------------------------------------------------
static int64_t rows_of(int64_t R)
{
    return qkv_max64(qkv_ceil_div(R, PARTS), ROWS);
}

size_t qkv_norm_backward_scratch(int64_t R, int64_t D)
{
    const int64_t parts = R < 1 ? 0 : qkv_ceil_div(R, rows_of(R));
    size_t bytes;
    if (!qkv_mul_size(&bytes, (size_t)parts * 2 * sizeof(real), (size_t)D)) return SIZE_MAX;
    return bytes;
}

struct backward {
    real *dx, *dw, *db, *parts; // sums of each task, [parts][dw, db][D]
    const real *dx_add, *x;
    const char *dy;
    qkv_dtype type;
    const struct qkv_norm_keep *keep;
    int64_t R, rows;
    const struct qkv_norm *p;
    bool rms;
};

static void backward_task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct backward *j = ctx;
    const int64_t D = j->p->D, r = i * j->rows, at = r * D;
    real *dw = j->dw ? j->parts + 2 * i * D : NULL, *db = j->db ? j->parts + (2 * i + 1) * D : NULL;
    if (dw) memset(dw, 0, (size_t)D * sizeof *dw);
    if (db) memset(db, 0, (size_t)D * sizeof *db);
    qkv_kernel()->norm_rows_backward(j->dx ? j->dx + at : NULL, j->dx_add ? j->dx_add + at : NULL,
                                     dw, db, j->dy + (size_t)at * qkv_dtype_size(j->type), j->type,
                                     j->x + at, j->rms ? NULL : j->keep->mean + r,
                                     j->keep->rstd + r, j->p->w, j->rms,
                                     qkv_min64(j->rows, j->R - r), D);
}

static void join_task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct backward *j = ctx;
    const int64_t D = j->p->D, d = i * STRIP, n = qkv_min64(STRIP, D - d);
    for (int64_t part = 0; part < qkv_ceil_div(j->R, j->rows); part++) {
        const real *from = j->parts + 2 * part * D + d;
        if (j->dw) qkv_kernel()->add_row(j->dw + d, from, 1, n);
        if (j->db) qkv_kernel()->add_row(j->db + d, from + D, 1, n);
    }
}

void qkv_norm_backward(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                       qkv_dtype t, const real *x, const struct qkv_norm_keep *keep, int64_t R,
                       const struct qkv_norm *p, enum qkv_norm_kind kind, void *scratch)
{
    struct backward j = { .dx = dx,
                          .dw = dw,
                          .db = db,
                          .parts = scratch,
                          .dx_add = dx_add,
                          .x = x,
                          .dy = dy,
                          .type = t ? t : QKV_REAL,
                          .keep = keep,
                          .R = R,
                          .rows = rows_of(R),
                          .p = p,
                          .rms = kind == QKV_NORM_RMS };
    if (R < 1) return;
    qkv_parallel_for(qkv_ceil_div(R, j.rows), backward_task, &j);
    if (dw || db) qkv_parallel_for(qkv_ceil_div(p->D, STRIP), join_task, &j);
}

// ---- in the order of blocks of rows -------------------------------------------------------------
struct whole {
    const struct qkv_norm_back *rows;
    const struct qkv_norm *p;
    enum qkv_norm_kind kind;
    int64_t per;
};
static void backward_block(void *ctx, real *const *to, const struct qkv_row_block *b)
{
    const struct whole *j = ctx;
    const struct qkv_norm_back *x = j->rows;
    const int64_t r = b->first * j->per, at = r * j->p->D;
    const struct qkv_norm_keep keep = { x->keep.mean ? x->keep.mean + r : NULL, x->keep.rstd + r };
    qkv_norm_backward(x->dx ? x->dx + at : NULL, x->dx_add ? x->dx_add + at : NULL, to[0], to[1],
                      (const char *)x->dy +
                          (size_t)at * qkv_dtype_size(x->type ? x->type : QKV_REAL),
                      x->type, x->x + at, &keep, b->n * j->per, j->p, j->kind, x->scratch);
}

void qkv_norm_sums_backward(const struct qkv_norm_back *rows, int64_t R, const struct qkv_norm *p,
                            enum qkv_norm_kind kind, const struct qkv_row_sums *sums, int64_t per)
{
    struct whole j = { rows, p, kind, per };
    const struct qkv_row_gradients g = { { p->dw, p->db }, { p->D, p->D } };
    if (sums)
        qkv_row_sums_run(sums, &g, backward_block, &j);
    else
        qkv_norm_backward(rows->dx, rows->dx_add, p->dw, p->db, rows->dy, rows->type, rows->x,
                          &rows->keep, R, p, kind, rows->scratch);
}
