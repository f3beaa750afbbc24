// SPDX-License-Identifier: MIT
// linear_backward.c: computes the gradients of y = x w^T + b with the kernels of the forward pass,
// which multiply rows by packed weights.
//   dx = dy w + dx_add:  the rows are the rows of dy, the weights are w transposed
//   dw += dy^T x:        the rows are the columns of dy, transposed first; the weights are x
//   db += sum_r dy
//
// dw and db are summed in passes of DEEP rows; the sums of the passes are added in order. No other
// division of work splits a sum, and the division into passes depends only on the shape, so results
// do not depend on the number of threads.
#include "layer/linear/linear_work.h"

enum {
    DEEP = 4 * QKV_LINEAR_CHUNK, // rows of x and dy per pass
    // distance of transposed rows: not a power of two, so that rows do not share cache sets
    APART = DEEP + 32,
    STRIP = 64 // columns of dy that one task transposes
};

// The operands of dw[M][C] += left^T right. Of each pass of R rows, left[R][M] is transposed and
// right[R][C] is packed.
struct sides {
    const void *left, *right;
    real *sum; // [M] receives the column sums of left, which are added; NULL: not computed
    qkv_dtype left_type, right_type;
    int64_t ld_left, ld_right, M, C;
};

static size_t turned_bytes(qkv_dtype type, int64_t R, int64_t M)
{
    size_t bytes;
    const int64_t apart = qkv_min64((int64_t)qkv_round_up((size_t)R, 32) + 32, APART);
    if (!qkv_mul_size(&bytes, (size_t)M, (size_t)apart * qkv_dtype_size(type)) ||
        bytes > SIZE_MAX - 64)
        return SIZE_MAX;
    return qkv_round_up(bytes, 64);
}

// Returns the type of transposed rows: the type that the linear kernel reads, which may differ from
// the type of dy.
static qkv_dtype turned_type(qkv_precision p)
{
    return qkv_stored_type(p);
}

static size_t weight_scratch(const struct qkv_linear_back *how, int64_t R, int64_t M, int64_t C)
{
    const size_t turned = turned_bytes(turned_type(how->precision), R, M);
    const size_t panels = qkv_linear_pass_scratch(qkv_kernel()->linear[how->precision],
                                                  how->threads, qkv_min64(R, DEEP), C);
    size_t bytes;
    return qkv_add_size(&bytes, turned, panels) ? bytes : SIZE_MAX;
}

size_t qkv_linear_once_backward_scratch(const struct qkv_linear_back *how, int64_t R, int64_t K,
                                        int64_t N)
{
    const size_t dx =
        qkv_linear_pass_scratch(qkv_kernel()->linear[how->precision], how->threads, N, K);
    const size_t plain = weight_scratch(how, R, N, K), transposed = weight_scratch(how, R, K, N);
    const size_t dw = plain > transposed ? plain : transposed;
    return dx > dw ? dx : dw;
}

struct turn {
    void *to;
    qkv_dtype type; // type of the array `to`
    const struct sides *s;
    int64_t r, rows, apart;
};

// Transposes a strip of columns and adds its column sums while the strip is in the cache.
static void turn_strip(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct turn *t = ctx;
    const struct sides *s = t->s;
    const int64_t m = i * STRIP, n = qkv_min64(STRIP, s->M - m);
    const char *from =
        (const char *)s->left + (size_t)(t->r * s->ld_left + m) * qkv_dtype_size(s->left_type);
    qkv_kernel()->transpose((char *)t->to + (size_t)(m * t->apart) * qkv_dtype_size(t->type),
                            t->type, t->apart, from, s->left_type, s->ld_left, t->rows, n);
    if (s->sum) qkv_kernel()->add_rows(s->sum + m, from, s->left_type, s->ld_left, t->rows, n);
}

static void weights(real *dw, const struct sides *s, int64_t R, const struct qkv_linear_back *how)
{
    const qkv_dtype type = turned_type(how->precision);
    const size_t turned = turned_bytes(type, R, s->M);
    const int64_t apart = qkv_min64((int64_t)qkv_round_up((size_t)R, 32) + 32, APART);
    const struct qkv_after after = { .x = type, .residual = dw, .residual_ld = s->C };
    for (int64_t r = 0; r < R; r += DEEP) {
        struct turn t = { how->scratch, type, s, r, qkv_min64(R - r, DEEP), apart };
        qkv_parallel_for_most(qkv_ceil_div(s->M, STRIP), how->threads, turn_strip, &t);
        qkv_linear_pass(&(struct qkv_linear_pass){
            .y = dw,
            .x = how->scratch,
            .w = (const char *)s->right + (size_t)(r * s->ld_right) * qkv_dtype_size(s->right_type),
            .type = s->right_type,
            .ldy = s->C,
            .ldx = apart,
            .ldn = 1,
            .ldk = s->ld_right,
            .R = s->M,
            .K = t.rows,
            .N = s->C,
            .after = &after,
            .kernel = qkv_kernel()->linear[how->precision],
            .threads = how->threads,
            .scratch = (char *)how->scratch + turned });
    }
}

// A pass over one block of rows, in the order of qkv_row_sums.
struct product {
    const struct sides *s;
    const struct qkv_linear_back *how;
};
static void weights_of_block(void *ctx, real *const *to, const struct qkv_row_block *b)
{
    const struct product *j = ctx;
    struct sides s = *j->s;
    s.left = (const char *)s.left + (size_t)(b->first * s.ld_left) * qkv_dtype_size(s.left_type);
    s.right =
        (const char *)s.right + (size_t)(b->first * s.ld_right) * qkv_dtype_size(s.right_type);
    s.sum = to[1];
    weights(to[0], &s, b->n, j->how);
}

struct bias {
    real *db;
    const char *dy;
    qkv_dtype type;
    int64_t ld, R, N;
    int threads;
};

static void bias_strip(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct bias *b = ctx;
    const int64_t n = i * STRIP;
    for (int64_t r = 0; r < b->R; r += DEEP)
        qkv_kernel()->add_rows(b->db + n, b->dy + (size_t)(r * b->ld + n) * qkv_dtype_size(b->type),
                               b->type, b->ld, qkv_min64(b->R - r, DEEP),
                               qkv_min64(STRIP, b->N - n));
}

static void bias_of_block(void *ctx, real *const *to, const struct qkv_row_block *block)
{
    struct bias b = *(const struct bias *)ctx;
    b.db = to[0];
    b.dy += (size_t)(block->first * b.ld) * qkv_dtype_size(b.type);
    b.R = block->n;
    qkv_parallel_for_most(qkv_ceil_div(b.N, STRIP), b.threads, bias_strip, &b);
}

void qkv_linear_once_backward(void *dx, real *dw, real *db, const void *dy, const void *x,
                              int64_t R, int64_t K, const struct qkv_linear_part *part,
                              const struct qkv_linear_back *how)
{
    const int64_t N = part->N, ldx = how->ldx ? how->ldx : K, lddy = how->lddy ? how->lddy : N;
    const qkv_dtype x_type = how->x ? how->x : QKV_REAL, dy_type = how->y ? how->y : QKV_REAL;
    if (R < 1) return;
    if (dw) {
        struct sides s = { dy, x, db, dy_type, x_type, lddy, ldx, N, K };
        if (part->transposed) s = (struct sides){ x, dy, NULL, x_type, dy_type, ldx, lddy, K, N };
        struct product j = { &s, how };
        const struct qkv_row_gradients g = { { dw, s.sum }, { N * K, N } };
        if (how->sums)
            qkv_row_sums_run(how->sums, &g, weights_of_block, &j);
        else
            weights(dw, &s, R, how);
    }
    if (db && (!dw || part->transposed)) {
        struct bias b = { db, dy, dy_type, lddy, R, N, how->threads };
        const struct qkv_row_gradients g = { { db }, { N } };
        if (how->sums)
            qkv_row_sums_run(how->sums, &g, bias_of_block, &b);
        else
            qkv_parallel_for_most(qkv_ceil_div(N, STRIP), how->threads, bias_strip, &b);
    }
    if (!dx) return;
    const struct qkv_after after = { .x = dy_type,
                                     .y = how->dx_real ? QKV_REAL : x_type,
                                     .residual = how->dx_add,
                                     .residual_ld = ldx };
    qkv_linear_pass(&(struct qkv_linear_pass){ .y = dx,
                                               .x = dy,
                                               .w = part->w,
                                               .type = QKV_REAL,
                                               .ldy = ldx,
                                               .ldx = lddy,
                                               .ldn = part->transposed ? N : 1,
                                               .ldk = part->transposed ? 1 : K,
                                               .R = R,
                                               .K = N,
                                               .N = K,
                                               .after = &after,
                                               .kernel = qkv_kernel()->linear[how->precision],
                                               .threads = how->threads,
                                               .scratch = how->scratch });
}

static struct qkv_linear_back back_of(const struct qkv_linear *l)
{
    return (struct qkv_linear_back){ .precision = l->once->precision,
                                     .threads = l->once->threads,
                                     .scratch = l->once->scratch,
                                     .sums = l->once->sums };
}

void qkv_linear_layer_backward(const struct qkv_linear_rows *rows, int64_t R,
                               const struct qkv_linear *l)
{
    static const struct qkv_dropout none = { 0 };
    struct qkv_linear_back how = back_of(l);
    how.x = rows->x_type;
    how.y = rows->dy_type;
    how.dx_real = rows->dx_real;
    how.dx_add = rows->dx_add;
    for (int p = 0; p < l->parts; p++) {
        const struct qkv_linear_part *part = &l->part[p];
        how.lddy = rows->lddy[p];
        if (part->w)
            qkv_linear_once_backward(rows->dx, l->dw[p], l->db[p], rows->dy[p], rows->x, R, l->K,
                                     part, &how);
        else if (rows->dx && R > 0) // y = x
            qkv_dropout_forward(rows->dx, how.dx_add, rows->dy[p], rows->dy_type, 0, R * part->N,
                                &none);
        how.dx_add = rows->dx;
    }
}

size_t qkv_linear_train_scratch(const struct qkv_linear *l, qkv_dtype type, int64_t R, bool back)
{
    // The scratch of backward may depend on the types of its arrays, so the largest over all types
    // is returned.
    const qkv_dtype types[] = { (qkv_dtype)0, type };
    size_t most = 0;
    for (int p = 0; p < l->parts; p++) {
        const int64_t N = l->part[p].N;
        if (!l->part[p].w) continue;
        const size_t once = qkv_linear_once_scratch(l->once, l->K, N);
        if (once > most) most = once;
        for (int i = 0; back && i < 4; i++) {
            struct qkv_linear_back how = back_of(l);
            how.x = types[i & 1];
            how.y = types[i >> 1];
            const size_t bytes = qkv_linear_once_backward_scratch(&how, R, l->K, N);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}
