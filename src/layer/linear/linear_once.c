// SPDX-License-Identifier: MIT
// linear_once.c: computes y = x w^T + b for weights that are used only once: packs them and
// multiplies by them in the same call.
//
// A task packs a group of columns that fits into the second-level cache and multiplies rows of x by
// it. If there are enough groups for all threads, one task multiplies all rows, so that each group
// is packed only once. Each sum is computed in one group, so the size of groups may depend on the
// number of threads without changing a bit.
#include "layer/linear/linear_work.h"

enum {
    // bytes of packed weights of a task: half of a second-level cache; rows of x and y need the
    // rest
    BYTES = 1 << 19,
    // the same if the kernel reads the panels once for many rows, and forms its rows for each group
    ONCE_BYTES = 1 << 22,
    TURNS = 4,       // approximate number of tasks per thread, so that threads finish together
    LEAST_ROWS = 128 // least rows of a task if several tasks pack the same panels
};

// Returns the bytes of packed weights that a group may have, if a panel has no more.
static int64_t most_bytes(const struct qkv_linear_kernel *kernel)
{
    return kernel->together ? ONCE_BYTES : BYTES;
}

static int64_t panels_of(const struct qkv_linear_kernel *kernel, int64_t N)
{
    return qkv_max64(qkv_ceil_div(N, kernel->panel), 1);
}
// Returns the number of panels of a group beyond which some threads would be idle.
static int64_t share_of(const struct qkv_linear_kernel *kernel, int threads, int64_t N)
{
    return qkv_ceil_div(panels_of(kernel, N), threads > 1 ? threads * TURNS : 1);
}

// Returns the number of columns of a group: as many panels as fit into most_bytes, or the share of
// a thread. An even number of panels ends at the end of a cache line of y in every type, so that a
// group may have one more.
static int64_t columns_of(const struct qkv_linear_kernel *kernel, int threads, int64_t K, int64_t N)
{
    const int64_t panels = panels_of(kernel, N);
    const int64_t one = qkv_max64((int64_t)kernel->panel_bytes(K), 1);
    const int64_t fit = qkv_max64(most_bytes(kernel) / one, 1);
    const int64_t most = qkv_min64(fit, share_of(kernel, threads, N));
    const int64_t each = qkv_ceil_div(panels, qkv_ceil_div(panels, most));
    return (each + each % 2) * kernel->panel;
}

// Returns the bytes that a group needs at most, for K and for every smaller number: with fewer
// numbers per column a group may have more columns and, rounded to even panels, more bytes.
static size_t group_bytes(const struct qkv_linear_kernel *kernel, int threads, int64_t K, int64_t N)
{
    if (K >> QKV_LINEAR_K_BITS) return SIZE_MAX;
    const size_t panel = kernel->panel_bytes(K), most = (size_t)most_bytes(kernel);
    const int64_t share = share_of(kernel, threads, N);
    size_t fit, all;
    if (!qkv_add_size(&fit, panel > most ? panel : most, panel)) return SIZE_MAX;
    return qkv_mul_size(&all, (size_t)(share + share % 2), panel) && all < fit ? all : fit;
}

size_t qkv_linear_pass_scratch(const struct qkv_linear_kernel *kernel, int threads, int64_t K,
                               int64_t N)
{
    size_t bytes;
    return qkv_mul_size(&bytes, group_bytes(kernel, threads, K, N), (size_t)threads) ? bytes
                                                                                     : SIZE_MAX;
}

struct job {
    const struct qkv_linear_pass *p;
    int64_t columns, groups, rows; // columns and rows of a task; number of column groups
    size_t bytes;                  // bytes of packed weights per thread
};

static void task(void *ctx, int64_t i, int thread)
{
    const struct job *j = ctx;
    const struct qkv_linear_pass *p = j->p;
    const int64_t n = i % j->groups * j->columns, columns = qkv_min64(p->N - n, j->columns);
    const int64_t r = i / j->groups * j->rows;
    const struct qkv_linear_tail tail = qkv_linear_tail_at(p->N, p->b, p->after, r, n);
    void *panels = (char *)p->scratch + (size_t)thread * j->bytes;
    p->kernel->pack(panels, (const char *)p->w + (size_t)(n * p->ldn) * qkv_dtype_size(p->type),
                    p->type, p->K, columns, p->ldn, p->ldk);
    p->kernel->rows((char *)p->y + (size_t)(r * p->ldy + n) * qkv_dtype_size(tail.y), p->ldy,
                    (const char *)p->x + (size_t)(r * p->ldx) * qkv_dtype_size(tail.x), p->ldx,
                    panels, qkv_min64(p->R - r, j->rows), p->K, columns, &tail);
}

void qkv_linear_pass(const struct qkv_linear_pass *p)
{
    if (p->R < 1 || p->N < 1) return;
    struct job j = { .p = p,
                     .columns = columns_of(p->kernel, p->threads, p->K, p->N),
                     .rows = p->R,
                     .bytes = group_bytes(p->kernel, p->threads, p->K, p->N) };
    j.groups = qkv_ceil_div(p->N, j.columns);
    if (p->threads > 1 && j.groups < 2 * p->threads) {
        const int64_t parts = qkv_ceil_div(2 * p->threads, j.groups);
        j.rows = qkv_max64(qkv_ceil_div(p->R, parts), LEAST_ROWS);
    }
    qkv_parallel_for_most(qkv_ceil_div(p->R, j.rows) * j.groups, p->threads, task, &j);
}

size_t qkv_linear_once_scratch(const struct qkv_linear_once *how, int64_t K, int64_t N)
{
    return qkv_linear_pass_scratch(qkv_kernel()->linear[how->precision], how->threads, K, N);
}

void qkv_linear_once(void *y, int64_t ldy, const void *x, int64_t ldx, int64_t R, int64_t K,
                     const struct qkv_linear_part *part, const struct qkv_after *after,
                     const struct qkv_linear_once *how)
{
    qkv_linear_pass(&(struct qkv_linear_pass){ .y = y,
                                               .x = x,
                                               .w = part->w,
                                               .type = QKV_REAL,
                                               .b = part->b,
                                               .ldy = ldy,
                                               .ldx = ldx,
                                               .ldn = part->transposed ? 1 : K,
                                               .ldk = part->transposed ? part->N : 1,
                                               .R = R,
                                               .K = K,
                                               .N = part->N,
                                               .after = after,
                                               .kernel = qkv_kernel()->linear[how->precision],
                                               .threads = how->threads,
                                               .scratch = how->scratch });
}
