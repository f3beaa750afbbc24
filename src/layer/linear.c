// SPDX-License-Identifier: MIT
// linear.c: y = x w^T + b, weights packed once, and what follows a product in the same pass.
//
// Work is cut into blocks of rows and groups of panels.  The cut follows the shape alone, and no sum
// crosses it, so that neither it nor the number of threads shows in a bit.
#include "layer/layer.h"

enum {
    ROWS = 128,            // rows a task: x, y and a group of weights share the second-level cache
    GROUP_BYTES = 512 << 10, // weights a task
};

qkv_status qkv_linear_pack(struct qkv_linear *l)
{
    if (l->packed) return QKV_OK;
    l->kernel = qkv_kernel()->linear;
    const int64_t panel = l->kernel->panel;
    int64_t total = 0;
    for (int p = 0; p < l->parts; p++) {
        int64_t size;
        l->start[p] = total;
        if (__builtin_mul_overflow(qkv_ceil_div(l->part[p].N, panel) * panel, l->K, &size) ||
            __builtin_add_overflow(total, size, &total))
            return QKV_ERR_LIMIT;
    }
    l->packed = qkv_alloc((size_t)qkv_max64(total, 1), sizeof *l->packed);
    if (!l->packed) return QKV_ERR_LIMIT;
    for (int p = 0; p < l->parts; p++) {
        const struct qkv_linear_part *part = &l->part[p];
        l->kernel->pack(l->packed + l->start[p], part->w, l->K, part->N,
                        part->transposed ? 1 : l->K, part->transposed ? part->N : 1);
    }
    return QKV_OK;
}

void qkv_linear_free(struct qkv_linear *l)
{
    qkv_free(l->packed);
    l->packed = NULL;
}

// One forward, seen by every task: tasks count groups of part 0, then of part 1, ... for each block of rows.
struct job {
    real *const *y;
    const int64_t *ld;
    const real *x;
    int64_t R, rows, group;           // rows and columns a task
    int64_t groups, groups_to[QKV_LINEAR_PARTS]; // tasks in a block of rows; up to and with each part
    const struct qkv_linear *l;
    const struct qkv_after *after;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct qkv_linear *l = j->l;
    const int64_t r = i / j->groups * j->rows;
    int64_t g = i % j->groups;
    int p = 0;
    while (g >= j->groups_to[p]) p++;
    if (p) g -= j->groups_to[p - 1];
    const struct qkv_linear_part *part = &l->part[p];
    const int64_t n = g * j->group, ld = j->ld && j->ld[p] ? j->ld[p] : part->N;
    struct qkv_linear_tail tail = { .b = part->b ? part->b + n : NULL, .scale = 1 };
    if (j->after) {
        const struct qkv_after *a = j->after;
        tail.act = a->act;
        if (a->scale != 0) tail.scale = a->scale;
        tail.residual_ld = a->residual_ld ? a->residual_ld : part->N;
        if (a->residual) tail.residual = a->residual + r * tail.residual_ld + n;
        tail.before_ld = part->N;
        if (a->before) tail.before = a->before + r * tail.before_ld + n;
    }
    l->kernel->rows(j->y[p] + r * ld + n, ld, j->x + r * l->K, l->K, l->packed + l->start[p] + n * l->K,
                    qkv_min64(j->R - r, j->rows), l->K, qkv_min64(part->N - n, j->group), &tail);
}

void qkv_linear_forward(real *const *y, const int64_t *ld, const real *x, int64_t R,
                        const struct qkv_linear *l, const struct qkv_after *after)
{
    if (R < 1) return;
    struct job j = { y, ld, x, R, ROWS, 0, 0, { 0 }, l, after };
    const int64_t panel = l->kernel->panel, panel_bytes = qkv_max64(l->K, 1) * panel * (int64_t)sizeof(real);
    j.group = qkv_max64(GROUP_BYTES / panel_bytes, 1) * panel;
    for (int p = 0; p < l->parts; p++) {
        j.groups += qkv_ceil_div(l->part[p].N, j.group);
        j.groups_to[p] = j.groups;
    }
    qkv_parallel_for(qkv_ceil_div(R, j.rows) * j.groups, task, &j);
}
