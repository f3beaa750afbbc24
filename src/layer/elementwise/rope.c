// SPDX-License-Identifier: MIT
// rope.c: applies rotary positions: rotates pairs of elements of a head by an angle that grows with
// the position. Su et al. 2021 (arXiv 2104.09864). The rotation is orthogonal, so its backward is
// the rotation by the negative angle.
#include "layer/layer.h"
#include <math.h>

enum {
    ROWS = 16,  // rows per task
    PAIRS = 128 // pairs whose angles are computed together
};

// Computes step[i] = 1 / theta^((from + i) / pairs) for i < n.
static void steps(double *step, int64_t n, int64_t from, int64_t pairs, double theta)
{
    const double base = theta != 0 ? theta : 10000;
    for (int64_t i = 0; i < n; i++) step[i] = pow(base, -(double)(from + i) / (double)pairs);
}

void qkv_rope_steps(double *step, int64_t pairs, double theta)
{
    steps(step, pairs, 0, pairs, theta);
}

// Angles are computed in double: at large positions the sine of a float angle would be wrong in its
// third digit.
static void angles(real *cosine, real *sine, int64_t n, int64_t position, const double *step,
                   double gain)
{
    for (int64_t i = 0; i < n; i++) {
        const double angle = (double)position * step[i];
        cosine[i] = (real)(gain * cos(angle));
        sine[i] = (real)(gain * sin(angle));
    }
}

struct fill {
    real *table;
    int64_t P, pairs;
    const double *step; // angle steps of the pairs; NULL: computed from theta
    double theta, gain;
};

static void fill_task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct fill *f = ctx;
    double own[PAIRS];
    for (int64_t from = 0; from < f->pairs; from += PAIRS) {
        const int64_t n = qkv_min64(PAIRS, f->pairs - from);
        if (!f->step) steps(own, n, from, f->pairs, f->theta);
        for (int64_t p = i * ROWS; p < f->P && p < (i + 1) * ROWS; p++) {
            real *row = f->table + p * 2 * f->pairs + from;
            angles(row, row + f->pairs, n, p, f->step ? f->step + from : own, f->gain);
        }
    }
}

void qkv_rope_table(real *table, int64_t P, int64_t E, real theta)
{
    struct fill f = { table, P, E / 2, NULL, (double)theta, 1 };
    qkv_parallel_for(qkv_ceil_div(P, ROWS), fill_task, &f);
}

void qkv_rope_table_of(real *table, int64_t P, int64_t pairs, const double *step, double gain)
{
    struct fill f = { table, P, pairs, step, 0, gain };
    qkv_parallel_for(qkv_ceil_div(P, ROWS), fill_task, &f);
}

struct job {
    char *x;
    qkv_dtype type;
    const int32_t *positions;
    int64_t R, H, E, ldx;
    const struct qkv_rope *p;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct qkv_rope *p = j->p;
    const int64_t half = (p->turned ? p->turned : j->E) / 2, step = p->interleaved ? 2 : 1;
    const int64_t apart = p->interleaved ? 1 : half;
    double turn[PAIRS];
    real cosine[PAIRS], sine[PAIRS];
    for (int64_t from = 0; from < half; from += PAIRS) {
        const int64_t n = qkv_min64(PAIRS, half - from);
        if (!p->table) steps(turn, n, from, half, (double)p->theta);
        for (int64_t r = i * ROWS; r < j->R && r < (i + 1) * ROWS; r++) {
            const real *c = cosine, *s = sine;
            if (p->table) {
                c = p->table + j->positions[r] * 2 * half + from;
                s = c + half;
            } else {
                angles(cosine, sine, n, j->positions[r], turn, 1);
            }
            qkv_kernel()->rope_row(j->x +
                                       (size_t)(r * j->ldx + from * step) * qkv_dtype_size(j->type),
                                   j->type, c, s, p->backward, n, step, apart, j->H, j->E);
        }
    }
}

void qkv_rope_apply(void *x, qkv_dtype t, const int32_t *positions, int64_t R, int64_t H, int64_t E,
                    const struct qkv_rope *p)
{
    struct job j = { x, t ? t : QKV_REAL, positions, R, H, E, p->ldx ? p->ldx : H * E, p };
    qkv_parallel_for(qkv_ceil_div(R, ROWS), task, &j);
}
