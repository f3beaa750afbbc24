// SPDX-License-Identifier: MIT
// attention_terms.c: computes the relative bias of a row, its gradient, and the random words of its
// dropout.
#include "layer/attention/attention_rows_work.h"
#include <string.h>

void qkv_rows_relative(float *to, const struct qkv_rows *u, int64_t row, int64_t chunk,
                       int32_t from, int32_t end)
{
    const struct qkv_attention *a = &u->call->w->a;
    const int64_t reach = a->relative.reach, apart = -qkv_rows_distance(u, row, chunk);
    const float *line = a->relative.at + qkv_rows_head(u, row) * (2 * reach + 1);
    const int32_t near = (int32_t)qkv_max64(from, qkv_min64(end, -reach - apart));
    const int32_t far = (int32_t)qkv_max64(near, qkv_min64(end, reach + 1 - apart));
    for (int32_t j = from; j < near; j++) to[j] = line[0];
    if (far > near)
        memcpy(to + near, line + reach + apart + near, (size_t)(far - near) * sizeof *to);
    for (int32_t j = far; j < end; j++) to[j] = line[2 * reach];
}

void qkv_rows_add_relative(real *line, real *before, real *after, int64_t reach, int64_t apart,
                           const real *x, struct qkv_columns c,
                           const struct qkv_attention_back_kernels *k)
{
    const int64_t own = before != line; // 1: the first and the last element are not in line
    const int32_t near = (int32_t)qkv_max64(c.from, qkv_min64(c.to, own - reach - apart));
    const int32_t far = (int32_t)qkv_max64(near, qkv_min64(c.to, reach + 1 - own - apart));
    if (near > c.from) *before += k->total(x + c.from, near - c.from);
    if (far > near) k->add(line + reach + apart + near, x + near, far - near);
    if (c.to > far) *after += k->total(x + far, c.to - far);
}

void qkv_rows_words(uint32_t *word, const struct qkv_rows *u, int64_t row, int64_t chunk,
                    int32_t from, int32_t to)
{
    const struct qkv_attention *a = &u->call->w->a;
    const int32_t first = from / 4 * 4;
    // number of Philox blocks of a row; block indices are computed modulo 2^64
    const uint64_t blocks = (uint64_t)qkv_ceil_div(a->S, 4);
    const uint64_t block =
        (uint64_t)qkv_rows_index_all(u, row) * blocks + (uint64_t)(chunk + first) / 4;
    qkv_kernel()->philox(word + first, a->dropout.seed, a->dropout.site, block,
                         qkv_ceil_div(to - first, 4));
}
