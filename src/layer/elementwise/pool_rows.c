// SPDX-License-Identifier: MIT
// pool_rows.c: computes the mean of the rows of each sequence, optionally scaled to length 1, and
// its gradient.
//   m = 1/n sum_r x_r,   v = m / |m|:   dm = (dv - v (v . dv)) / |m|,   dx_r = dm / n
// If a sequence has no rows, or if its mean is 0, v is 0.
#include "layer/layer.h"
#include <math.h>
#include <string.h>

struct job {
    real *v, *norm, *dx;
    const real *x, *dv, *kept, *kept_norm;
    const int64_t *offsets;
    int64_t D;
    bool unit;
};

static void forward(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const int64_t D = j->D, from = j->offsets[i], rows = j->offsets[i + 1] - from;
    real *v = j->v + i * D;
    memset(v, 0, (size_t)D * sizeof *v);
    qkv_kernel()->add_rows(v, j->x + from * D, QKV_REAL, D, rows, D);
    double square = 0;
    for (int64_t d = 0; d < D && rows; d++) v[d] /= (real)rows;
    for (int64_t d = 0; d < D && j->unit; d++) square += (double)v[d] * (double)v[d];
    const real norm = (real)sqrt(square);
    if (!j->unit) return;
    for (int64_t d = 0; d < D && norm > 0; d++) v[d] /= norm;
    if (j->norm) j->norm[i] = norm;
}

void qkv_mean_pool_forward(real *v, real *norm, const real *x, const int64_t *offsets, int64_t n,
                           int64_t D, bool unit)
{
    struct job j = { .v = v, .norm = norm, .x = x, .offsets = offsets, .D = D, .unit = unit };
    qkv_parallel_for(n, forward, &j);
}

// Computes the gradient of the first row of sequence i and copies it to the other rows, whose
// gradient is the same.
static void backward(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const int64_t D = j->D, from = j->offsets[i], rows = j->offsets[i + 1] - from;
    const real *dv = j->dv + i * D, *v = j->unit ? j->kept + i * D : NULL;
    real *dx = j->dx + from * D;
    if (rows < 1) return;
    double along = 0;
    for (int64_t d = 0; d < D && j->unit; d++) along += (double)v[d] * (double)dv[d];
    const real norm = j->unit ? j->kept_norm[i] : 1, by = norm > 0 ? 1 / (norm * (real)rows) : 0;
    for (int64_t d = 0; d < D; d++) dx[d] = by * (j->unit ? dv[d] - v[d] * (real)along : dv[d]);
    for (int64_t r = 1; r < rows; r++) memcpy(dx + r * D, dx, (size_t)D * sizeof *dx);
}

void qkv_mean_pool_backward(real *dx, const real *dv, const real *v, const real *norm,
                            const int64_t *offsets, int64_t n, int64_t D, bool unit)
{
    struct job j = {
        .dx = dx, .dv = dv, .kept = v, .kept_norm = norm, .offsets = offsets, .D = D, .unit = unit
    };
    qkv_parallel_for(n, backward, &j);
}
