// SPDX-License-Identifier: MIT
// mlp.c: computes the feed-forward network y = norm(down(act(up(x))) + residual).
//
// Without a tape, rows are processed in blocks, so that the inner activations of width M remain in
// the cache and scratch does not grow with R. The inner activations have the type that the product
// `down` reads.
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
    const struct qkv_sublayer_rows *rows;
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
    const real *x = (const real *)j->rows->x + r * m->up.K, *residual = j->rows->residual;
    void *inner = j->scratch + (size_t)lane * lane_bytes;
    real *y = (real *)j->rows->y + r * D;
    if (m->gated) {
        char *up = (char *)inner + (size_t)(rows * M) * qkv_dtype_size(type);
        qkv_linear_forward((void *[]){ inner, up }, NULL, x, rows, &m->up,
                           &(struct qkv_after){ .y = type });
        qkv_gated_forward(inner, inner, up, type == QKV_REAL ? (qkv_dtype)0 : type, rows * M,
                          m->act);
    } else {
        qkv_linear_forward(&inner, NULL, x, rows, &m->up,
                           &(struct qkv_after){ .y = type, .act = m->act });
    }
    qkv_linear_forward(
        (void *[]){ y }, NULL, inner, rows, &m->down,
        &(struct qkv_after){ .x = type, .residual = residual ? residual + r * D : NULL });
    if (j->rows->norm) qkv_norm_forward(y, NULL, NULL, y, NULL, rows, j->rows->norm);
}

// ---- with a tape -------------------------------------------------------------------------------
// A computation of inner = act(gate) * up from rows [gate, up], or of its gradient, which threads
// share.
struct gating {
    char *inner;    // [R][M] the result; in backward, the gradient of the result
    const char *up; // [R][2 M] gate and up
    char *d_up;     // [R][2 M] gradient of gate and up; NULL: forward
    int64_t R, M;
    qkv_dtype type;
    enum qkv_activation act;
};
enum { GATE_ROWS = 16 };

static void gate(void *ctx, int64_t i, int thread)
{
    const struct gating *j = ctx;
    const size_t row = (size_t)j->M * qkv_dtype_size(j->type ? j->type : QKV_REAL);
    (void)thread;
    for (int64_t r = i * GATE_ROWS; r < j->R && r < (i + 1) * GATE_ROWS; r++) {
        char *y = j->inner + (size_t)r * row;
        const char *g = j->up + (size_t)r * 2 * row;
        char *d = j->d_up ? j->d_up + (size_t)r * 2 * row : NULL;
        if (d)
            qkv_gated_backward(d, d + row, y, g, g + row, j->type, j->M, j->act);
        else
            qkv_gated_forward(y, g, g + row, j->type, j->M, j->act);
    }
}

void qkv_mlp_activate(void *inner, const void *up, void *d_up, int64_t R, const struct qkv_mlp *m)
{
    const int64_t M = m->down.K;
    const qkv_dtype stored = qkv_mlp_tape_type(m);
    const qkv_dtype type = stored == QKV_REAL ? (qkv_dtype)0 : stored;
    struct gating j = { inner, up, d_up, R, M, type, m->act };
    if (m->gated)
        qkv_parallel_for(qkv_ceil_div(R, GATE_ROWS), gate, &j);
    else if (d_up)
        qkv_activation_backward(d_up, inner, up, type, R * M, m->act);
    else
        qkv_activation_forward(inner, up, type, R * M, m->act);
}

static void forward_tape(const struct qkv_sublayer_rows *rows, const struct qkv_mlp_tape *tape,
                         int64_t R, const struct qkv_mlp *m)
{
    const qkv_dtype type = qkv_mlp_tape_type(m);
    qkv_linear_forward(&(void *){ tape->up }, NULL, rows->x, R, &m->up,
                       &(struct qkv_after){ .x = rows->x_type, .y = type });
    if (!rows->y) return;
    qkv_mlp_activate(tape->inner, tape->up, NULL, R, m);
    qkv_linear_forward(
        (void *[]){ rows->y }, NULL, tape->inner, R, &m->down,
        &(struct qkv_after){ .x = type, .y = rows->y_type, .residual = rows->residual });
}

void qkv_mlp_forward(const struct qkv_sublayer_rows *rows, const struct qkv_mlp_tape *tape,
                     int64_t R, const struct qkv_mlp *m, void *scratch)
{
    struct job j = { rows, m, scratch };
    if (tape)
        forward_tape(rows, tape, R, m);
    else
        qkv_lanes(R, block, &j);
}
