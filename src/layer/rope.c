// SPDX-License-Identifier: MIT
// rope.c: rotary positions: pairs of a head turned by an angle that grows with the position.  Su et
// al.
// 2021 (arXiv 2104.09864).  Orthogonal: its backward is the turn by the negative angle.
#include "layer/layer.h"
#include <math.h>

enum {
    ROWS = 16,  // a task
    PAIRS = 128 // whose angles are taken at once
};

// 1 / theta^(2i/E) of pairs from .. from+n-1.
static void steps(double *step, int64_t n, int64_t from, int64_t E, real theta)
{
    const double base = theta != 0 ? (double)theta : 10000;
    for (int64_t i = 0; i < n; i++) step[i] = pow(base, -2.0 * (double)(from + i) / (double)E);
}

// Angles in double: far out a float angle would be wrong in the third digit of its sine.
static void angles(real *cosine, real *sine, int64_t n, int64_t position, const double *step)
{
    for (int64_t i = 0; i < n; i++) {
        const double angle = (double)position * step[i];
        cosine[i] = (real)cos(angle);
        sine[i] = (real)sin(angle);
    }
}

struct fill {
    real *table;
    int64_t P, E;
    real theta;
};

static void fill_task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct fill *f = ctx;
    const int64_t half = f->E / 2;
    double step[PAIRS];
    for (int64_t from = 0; from < half; from += PAIRS) {
        const int64_t n = qkv_min64(PAIRS, half - from);
        steps(step, n, from, f->E, f->theta);
        for (int64_t p = i * ROWS; p < f->P && p < (i + 1) * ROWS; p++) {
            real *row = f->table + p * 2 * half + from;
            angles(row, row + half, n, p, step);
        }
    }
}

void qkv_rope_table(real *table, int64_t P, int64_t E, real theta)
{
    struct fill f = { table, P, E, theta };
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
    const int64_t half = j->E / 2, step = p->interleaved ? 2 : 1;
    const int64_t apart = p->interleaved ? 1 : half;
    double turn[PAIRS];
    real cosine[PAIRS], sine[PAIRS];
    for (int64_t from = 0; from < half; from += PAIRS) {
        const int64_t n = qkv_min64(PAIRS, half - from);
        if (!p->table) steps(turn, n, from, j->E, p->theta);
        for (int64_t r = i * ROWS; r < j->R && r < (i + 1) * ROWS; r++) {
            const real *c = cosine, *s = sine;
            if (p->table) {
                c = p->table + j->positions[r] * 2 * half + from;
                s = c + half;
            } else {
                angles(cosine, sine, n, j->positions[r], turn);
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
