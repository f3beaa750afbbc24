// SPDX-License-Identifier: MIT
// relative.c: expands learned relative-position biases from one per bucket to one per distance.
//
// Raffel et al. 2020 (arXiv 1910.10683) section 2.1. The buckets are the buckets of T5 in
// transformers: each direction has half of all buckets; in causal attention the past has all
// buckets. Of the buckets of one direction, the first half are single distances, and the second
// half divides the distances up to `distance` on a logarithmic scale.
#include "model/position/position.h"
#include <math.h>

// Returns the bucket of distance n >= 0 among the `buckets` buckets of one direction. It computes
// in float as the reference does, since double could select another bucket where two buckets meet.
static int64_t bucket_of(int64_t n, int64_t buckets, int64_t distance)
{
    const int64_t exact = buckets / 2;
    if (n < exact) return n;
    if (n >= distance) return buckets - 1;
    const float share = logf((float)n / (float)exact) /
                        (float)log((double)distance / (double)exact) * (float)(buckets - exact);
    return qkv_min64(exact + (int64_t)share, buckets - 1);
}

// Returns the bucket of a key that is `at` tokens after its query (before it if `at` is negative).
static int64_t bucket_at(int64_t at, const struct qkv_relative_buckets *b, bool causal)
{
    const int64_t each = causal ? b->buckets : b->buckets / 2;
    if (at <= 0) return bucket_of(-at, each, b->distance);
    return causal ? 0 : each + bucket_of(at, each, b->distance);
}

void qkv_relative_table(float *table, const real *buckets, int64_t H,
                        const struct qkv_relative_buckets *b, bool causal)
{
    const int64_t reach = b->distance, row = 2 * reach + 1;
    for (int64_t at = -reach; at <= reach; at++) {
        const real *from = buckets + bucket_at(at, b, causal) * H;
        for (int64_t h = 0; h < H; h++) table[h * row + at + reach] = (float)from[h];
    }
}

void qkv_relative_backward(real *buckets, const real *table, int64_t H,
                           const struct qkv_relative_buckets *b, bool causal)
{
    const int64_t reach = b->distance, row = 2 * reach + 1;
    for (int64_t at = -reach; at <= reach; at++) {
        real *to = buckets + bucket_at(at, b, causal) * H;
        for (int64_t h = 0; h < H; h++) to[h] += table[h * row + at + reach];
    }
}
