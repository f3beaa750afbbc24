// SPDX-License-Identifier: MIT
// mlp.c: computes the feed-forward network y = norm(down(act(up(x))) + residual).
//
// Rows are processed in blocks, so that the wide inner activations (M) remain in the cache and
// scratch does not grow with R. They are stored in the type that the second product reads.
#include "layer/layer_internal.h"

size_t qkv_mlp_scratch(const struct qkv_mlp *m, int64_t R)
{
    const int64_t rows = qkv_min64(R, QKV_LANES * QKV_LANE_ROWS);
    size_t bytes;
    if (!qkv_mul_size(&bytes, (size_t)rows, (size_t)m->up.part[0].N) ||
        !qkv_mul_size(&bytes, bytes,
                      (1 + m->gated) * qkv_dtype_size(qkv_stored_type(m->down.precision))))
        return SIZE_MAX;
    return bytes;
}

struct job {
    real *y;
    const struct qkv_mlp_keep *keep;
    const real *x, *residual;
    const struct qkv_norm *norm;
    const struct qkv_mlp *m;
    char *scratch;
};

static void block(void *ctx, int64_t r, int64_t rows, int lane)
{
    const struct job *j = ctx;
    const struct qkv_mlp *m = j->m;
    const int64_t M = m->up.part[0].N, D = m->down.part[0].N;
    const qkv_dtype type = qkv_stored_type(m->down.precision);
    const size_t lane_bytes = (size_t)(QKV_LANE_ROWS * M) * qkv_dtype_size(type) * (1 + m->gated);
    real *kept = j->keep && j->keep->inner ? j->keep->inner + r * M : NULL;
    char *own = j->scratch + (size_t)lane * lane_bytes;
    void *inner = kept && type == QKV_REAL ? (void *)kept : own;
    real *out = j->y + r * D;
    if (m->gated) {
        char *up = own + (size_t)(rows * M) * qkv_dtype_size(type);
        qkv_linear_forward((void *[]){ inner, up }, NULL, j->x + r * m->up.K, rows, &m->up,
                           &(struct qkv_after){ .y = type });
        qkv_gated_forward(inner, inner, up, type == QKV_REAL ? (qkv_dtype)0 : type, rows * M,
                          m->act);
    } else {
        qkv_linear_forward(&inner, NULL, j->x + r * m->up.K, rows, &m->up,
                           &(struct qkv_after){ .y = type,
                                                .act = m->act,
                                                .before = j->keep && j->keep->before
                                                              ? j->keep->before + r * M
                                                              : NULL });
    }
    qkv_linear_forward(
        (void *[]){ out }, NULL, inner, rows, &m->down,
        &(struct qkv_after){ .x = type, .residual = j->residual ? j->residual + r * D : NULL });
    if (j->norm) qkv_norm_forward(out, NULL, NULL, out, NULL, rows, j->norm);
}

void qkv_mlp_forward(real *y, const struct qkv_mlp_keep *keep, const real *x, const real *residual,
                     const struct qkv_norm *norm, int64_t R, const struct qkv_mlp *m, void *scratch)
{
    struct job j = { y, keep, x, residual, norm, m, scratch };
    qkv_lanes(R, block, &j);
}
