// SPDX-License-Identifier: MIT
// linear.c: computes y = x w^T + b with weights that were packed once, and the operations of struct
// qkv_after in the same pass. For a layer that is not packed, it calls qkv_linear_once for each
// part.
//
// A task computes a block of rows and a group of columns. This division depends only on the shape,
// and each sum is computed in one task, so neither the division nor the number of threads changes a
// bit.
#include "layer/layer_internal.h"
#include "layer/linear/linear_work.h"

enum {
    // rows per task: few enough that x, y and the weights of a task fit into the second-level cache
    ROWS = 128,
    GROUP_BYTES = 1 << 20, // bytes of weights per task
    GROUP_WORK = 4 << 20,  // least multiplications per task, approximately
    TASKS = 8,             // number of tasks to aim for, if each has enough work
    // with at most this many rows, most of the time is spent reading weights, so tasks have equal
    // bytes of weights
    FEW_ROWS = 8,
    // least bytes of weights per task, approximately: memory reads them in about ten microseconds
    FEW_BYTES = 1 << 18,
    FEW_TASKS = 32, // enough tasks for threads to finish together
    FEW_PANELS = 4  // panels that a kernel reads together
};

size_t qkv_linear_pack_bytes(struct qkv_linear *l)
{
    l->kernel = qkv_kernel()->linear[l->precision];
    if (!l->kernel || l->K >> QKV_LINEAR_K_BITS) return SIZE_MAX;
    size_t total = 0;
    for (int p = 0; p < l->parts; p++) {
        const size_t panels = (size_t)qkv_ceil_div(l->part[p].N, l->kernel->panel);
        size_t size;
        l->start[p] = total;
        if (!qkv_mul_size(&size, panels, l->kernel->panel_bytes(l->K)) ||
            !qkv_add_size(&total, total, size))
            return SIZE_MAX;
    }
    return total;
}

void qkv_linear_pack_at(struct qkv_linear *l, void *memory)
{
    l->packed = memory;
    for (int p = 0; p < l->parts; p++) {
        const struct qkv_linear_part *part = &l->part[p];
        l->kernel->pack(l->packed + l->start[p], part->w, QKV_REAL, l->K, part->N,
                        part->transposed ? 1 : l->K, part->transposed ? part->N : 1);
    }
}

qkv_status qkv_linear_pack(struct qkv_linear *l)
{
    if (l->packed) return QKV_OK;
    const size_t bytes = qkv_linear_pack_bytes(l);
    if (!l->kernel) return QKV_ERR_UNSUPPORTED;
    void *memory = bytes == SIZE_MAX ? NULL : qkv_alloc(bytes ? bytes : 1, 1);
    if (!memory) return QKV_ERR_LIMIT;
    qkv_linear_pack_at(l, memory);
    return QKV_OK;
}

void qkv_linear_free(struct qkv_linear *l)
{
    qkv_free(l->packed);
    l->packed = NULL;
}

struct qkv_linear_tail qkv_linear_tail_at(int64_t N, const real *b, const struct qkv_after *a,
                                          int64_t r, int64_t n)
{
    struct qkv_linear_tail tail = {
        .x = QKV_REAL, .y = QKV_REAL, .b = b ? b + n : NULL, .scale = 1
    };
    if (!a) return tail;
    if (a->x) tail.x = a->x;
    if (a->y) tail.y = a->y;
    tail.act = a->act;
    if (a->scale != 0) tail.scale = a->scale;
    tail.residual_ld = a->residual_ld ? a->residual_ld : N;
    if (a->residual) tail.residual = a->residual + r * tail.residual_ld + n;
    tail.before_ld = N;
    if (a->before) tail.before = a->before + r * tail.before_ld + n;
    return tail;
}

// Returns the columns of a task if there are few rows. Each task then reads its weights only once,
// so they need not remain in the cache.
static int64_t few_columns(const struct qkv_linear_kernel *kernel, int64_t K, int64_t N)
{
    const int64_t bytes = (int64_t)qkv_max64((int64_t)kernel->panel_bytes(K), 1);
    const int64_t panels = qkv_max64(qkv_ceil_div(N, kernel->panel), 1);
    const int64_t least = qkv_ceil_div(FEW_BYTES, bytes), fit = GROUP_BYTES / bytes;
    const int64_t most = qkv_max64(least, qkv_min64(fit, qkv_ceil_div(panels, FEW_TASKS)));
    return qkv_ceil_div(most, FEW_PANELS) * FEW_PANELS * kernel->panel;
}

// Returns the columns of a task: as many panels as fit into the cache, about equally many in every
// task, or all, if the kernel reads them once. If there are few rows, tasks have fewer columns, so
// that a short text uses several threads. The number changes no bit. Two tasks write to the same cache line only if a row of y
// does not begin at a cache line.
static int64_t group_columns(const struct qkv_linear_kernel *kernel, int64_t R, int64_t K,
                             int64_t N)
{
    if (R <= FEW_ROWS) return few_columns(kernel, K, N);
    const int64_t deep = qkv_max64(K, 1), panels = qkv_max64(qkv_ceil_div(N, kernel->panel), 1);
    const bool once = kernel->together >= qkv_min64(R, ROWS);
    if (once && qkv_threads() == 1) return panels * kernel->panel;
    const int64_t fit =
        once ? panels : GROUP_BYTES / (int64_t)qkv_max64((int64_t)kernel->panel_bytes(K), 1);
    const int64_t work = qkv_ceil_div(GROUP_WORK / kernel->panel / deep, qkv_min64(R, ROWS));
    const int64_t share = qkv_ceil_div(panels * qkv_min64(qkv_ceil_div(R, ROWS), TASKS), TASKS);
    const int64_t most = qkv_max64(qkv_min64(fit, qkv_max64(work, share)), 1);
    const int64_t each = qkv_ceil_div(panels, qkv_ceil_div(panels, most));
    // an even number of panels ends at the end of a cache line of y in every type
    return (each + each % 2) * kernel->panel;
}

// One forward pass, whose data all tasks share. Tasks are numbered by block of rows, and within a
// block by part and group of columns.
struct job {
    void *const *y;
    const int64_t *ld;
    const char *x;
    int64_t ldx, R;
    int64_t group[QKV_LINEAR_PARTS];     // columns per task
    int64_t groups;                      // tasks per block of rows
    int64_t groups_to[QKV_LINEAR_PARTS]; // cumulative number of tasks up to and including each part
    const struct qkv_linear *l;
    const struct qkv_after *after;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct qkv_linear *l = j->l;
    const int64_t r = i / j->groups * ROWS;
    int64_t g = i % j->groups;
    int p = 0;
    while (g >= j->groups_to[p]) p++;
    if (p) g -= j->groups_to[p - 1];
    const struct qkv_linear_part *part = &l->part[p];
    const int64_t n = g * j->group[p], ld = j->ld && j->ld[p] ? j->ld[p] : part->N;
    const struct qkv_linear_tail tail = qkv_linear_tail_at(part->N, part->b, j->after, r, n);
    char *y = (char *)j->y[p] + (size_t)(r * ld + n) * qkv_dtype_size(tail.y);
    const char *x = j->x + (size_t)(r * j->ldx) * qkv_dtype_size(tail.x);
    const char *panels =
        l->packed + l->start[p] + (size_t)(n / l->kernel->panel) * l->kernel->panel_bytes(l->K);
    l->kernel->rows(y, ld, x, j->ldx, panels, qkv_min64(j->R - r, ROWS), l->K,
                    qkv_min64(part->N - n, j->group[p]), &tail);
}

static void once(void *const *y, const int64_t *ld, const void *x, int64_t R,
                 const struct qkv_linear *l, const struct qkv_after *after)
{
    const int64_t ldx = after && after->ldx ? after->ldx : l->K;
    const qkv_dtype x_type = after && after->x ? after->x : QKV_REAL;
    const qkv_dtype y_type = after && after->y ? after->y : QKV_REAL;
    for (int p = 0; p < l->parts; p++) {
        const int64_t N = l->part[p].N, ldy = ld && ld[p] ? ld[p] : N;
        if (l->part[p].w)
            qkv_linear_once(y[p], ldy, x, ldx, R, l->K, &l->part[p], after, l->once);
        else if (y[p] != x)
            qkv_copy_rows(y[p], y_type, ldy, x, x_type, ldx, N, R);
    }
}

void qkv_linear_forward(void *const *y, const int64_t *ld, const void *x, int64_t R,
                        const struct qkv_linear *l, const struct qkv_after *after)
{
    if (R < 1) return;
    if (!l->packed) {
        once(y, ld, x, R, l, after);
        return;
    }
    struct job j = { .y = y, .ld = ld, .x = x, .ldx = l->K, .R = R, .l = l, .after = after };
    if (after && after->ldx) j.ldx = after->ldx;
    for (int p = 0; p < l->parts; p++) {
        j.group[p] = group_columns(l->kernel, R, l->K, l->part[p].N);
        j.groups += qkv_ceil_div(l->part[p].N, j.group[p]);
        j.groups_to[p] = j.groups;
    }
    qkv_parallel_for(qkv_ceil_div(R, ROWS) * j.groups, task, &j);
}
