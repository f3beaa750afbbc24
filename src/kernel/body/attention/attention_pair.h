// SPDX-License-Identifier: MIT
// attention_pair.h: defines pairs of adjacent 16-bit numbers in a lane of 32 bits. Requires
// attention_rows.h.

static int64_t pairs_of(int64_t n)
{
    return (n + 1) / 2;
}

INLINE vi one_pair(const void *p) // copies the pair at p, at any alignment, to every lane
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return vi_set1(x);
}
