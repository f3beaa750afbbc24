// SPDX-License-Identifier: MIT
// relative.c: learned numbers of buckets of distances, spread out to a number a distance.
//
// Raffel et al. 2020 (arXiv 1910.10683) section 2.1; buckets as transformers' T5 counts them: half
// of them for each direction (all, where a token sees none behind it), of these the first half a
// distance each, the others up to `distance` by its logarithm.
#include "model/model.h"
#include <math.h>

// Bucket of n >= 0 tokens apart among `buckets` of one direction.  Floats, as the reference has
// them: a bucket's edge must not move by a rounding.
static int64_t bucket_of(int64_t n, int64_t buckets, int64_t distance)
{
    const int64_t exact = buckets / 2;
    if (n < exact) return n;
    if (n >= distance) return buckets - 1;
    const float share = logf((float)n / (float)exact) /
                        (float)log((double)distance / (double)exact) * (float)(buckets - exact);
    return qkv_min64(exact + (int64_t)share, buckets - 1);
}

void qkv_relative_table(float *table, const float *buckets, int64_t H,
                        const struct qkv_relative_buckets *b, bool causal)
{
    const int64_t reach = b->distance, row = 2 * reach + 1;
    const int64_t each = causal ? b->buckets : b->buckets / 2;
    for (int64_t at = -reach; at <= reach; at++) {
        int64_t bucket = at <= 0 || !causal ? bucket_of(at < 0 ? -at : at, each, b->distance) : 0;
        if (at > 0 && !causal) bucket += each;
        for (int64_t h = 0; h < H; h++) table[h * row + at + reach] = buckets[bucket * H + h];
    }
}
