// SPDX-License-Identifier: MIT
// product.c: multiplies rows by a linear layer of a model that is trained, forward and backward.
#include "model/params/trainable.h"

static struct qkv_linear_part part_of(const struct qkv_net_linear *l)
{
    return (struct qkv_linear_part){ .N = l->N, .w = l->w.value, .b = l->b.value };
}

void qkv_net_product(const struct qkv_net_work *work, void *y, qkv_dtype y_type, const void *x,
                     qkv_dtype x_type, int64_t R, const struct qkv_net_linear *l,
                     const real *residual)
{
    const struct qkv_linear_part part = part_of(l);
    const struct qkv_after after = { .x = x_type, .y = y_type, .residual = residual };
    const struct qkv_linear_once how = { work->precision, work->threads, work->scratch };
    qkv_linear_once(y, l->N, x, l->K, R, l->K, &part, &after, &how);
}

static struct qkv_linear_back back_of(const struct qkv_net_work *work)
{
    return (struct qkv_linear_back){ .precision = work->precision,
                                     .threads = work->threads,
                                     .scratch = work->scratch };
}

void qkv_net_product_backward(const struct qkv_net_work *work, const struct qkv_net_product_back *a,
                              int64_t R, const struct qkv_net_linear *l)
{
    const struct qkv_linear_part part = part_of(l);
    struct qkv_linear_back how = back_of(work);
    how.x = a->x_type;
    how.y = a->dy_type;
    how.lddy = a->lddy;
    how.dx_real = a->dx_real;
    how.dx_add = a->dx_add;
    qkv_linear_once_backward(a->dx, l->w.grad, l->b.grad, a->dy, a->x, R, l->K, &part, &how);
}

size_t qkv_net_product_scratch(const struct qkv_net_work *work, qkv_dtype type, int64_t R,
                               const struct qkv_net_linear *l, bool back)
{
    const struct qkv_linear_once once = { work->precision, work->threads, NULL };
    size_t most = qkv_linear_once_scratch(&once, l->K, l->N);
    // The bytes of backward may depend on the types of its arrays: the largest counts.
    const qkv_dtype types[] = { (qkv_dtype)0, type };
    for (int i = 0; back && i < 4; i++) {
        struct qkv_linear_back how = back_of(work);
        how.x = types[i & 1];
        how.y = types[i >> 1];
        const size_t bytes = qkv_linear_once_backward_scratch(&how, R, l->K, l->N);
        if (bytes > most) most = bytes;
    }
    return most;
}
