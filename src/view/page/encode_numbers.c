// SPDX-License-Identifier: MIT
// encode_numbers.c: encodes the numbers of each token and layer, such as norms. A number is stored
// as a half float, divided by the largest number of its column, so that it has 11 bits of
// precision.
#include "view/page/page_internal.h"
#include <math.h>

static int64_t bytes_of(const struct view_stack *v, const struct view_numbers *x)
{
    return 2 * v->shape.tokens * x->columns + 4 * x->columns;
}

int64_t view_numbers_bytes(const struct view_stack *v, int64_t layer)
{
    int64_t all = 0;
    for (int64_t i = 0; i < v->numbers_count; i++)
        if (v->numbers[i].layer == layer) all += bytes_of(v, &v->numbers[i]);
    return all;
}

// Returns the largest absolute value of the finite numbers in a column, or 1 if all are 0.
static float largest_of(const float *x, int64_t T, int64_t columns)
{
    float largest = 0;
    for (int64_t t = 0; t < T; t++)
        if (isfinite(x[t * columns])) largest = fmaxf(largest, fabsf(x[t * columns]));
    return largest > 0 ? largest : 1;
}

static bool add_numbers(struct view_block *b, const struct view_stack *v, int64_t stack,
                        const struct view_numbers *x)
{
    const int64_t T = v->shape.tokens, K = x->columns, n = T * K;
    uint8_t *p = view_array_add(b, x->name, "h16", stack, x->layer, 1, T, K, bytes_of(v, x));
    if (!p) return false;
    for (int64_t k = 0; k < K; k++) {
        const float largest = largest_of(x->at + k, T, K);
        view_put_float(p + 2 * n + k, K, largest);
        for (int64_t i = k; i < n; i += K)
            view_put_half(p + i, n, qkv_f32_to_f16(x->at[i] / largest));
    }
    return true;
}

qkv_status view_encode_numbers(struct view_block *b, const struct view_stack *v, int64_t stack,
                               int64_t layer, qkv_error *err)
{
    for (int64_t i = 0; i < v->numbers_count; i++)
        if (v->numbers[i].layer == layer && !add_numbers(b, v, stack, &v->numbers[i]))
            return qkv_fail_memory(err, NULL);
    return QKV_OK;
}
