// SPDX-License-Identifier: MIT
// attention_probabilities.h: computes a softmax whose weights are stored as bf16. Requires
// attention_rows.h; only for AVX-512 BF16.
//
// After the softmax, a row of s contains its weights as bf16, from its first byte.

// Computes 2^t for t <= 0, accurate enough for bf16: the minimax polynomial of degree 3 on [-1/2,
// 1/2] with p(0) = 1. -INFINITY gives 0: its fraction is NaN, but scaling a NaN by 2^-INFINITY
// gives 0.
INLINE vf exp2_coarse(vf t)
{
    const vf n = vf_round(t), f = vf_sub(t, n);
    vf p = vf_set1(0.0550089367f);
    p = vf_fma(p, f, vf_set1(0.242210954f));
    p = vf_fma(p, f, vf_set1(0.693282902f));
    p = vf_fma(p, f, vf_set1(1));
    return vf_pow2(p, n);
}

// Stores weights of a row as bf16. A weight overwrites only scores that were already read.
INLINE void store_shares(real *row, int32_t j, vf x)
{
    _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)(void *)row + j),
                        (__m256i)_mm512_cvtneps_pbh(x));
}
static real probability_pairs(const real *s, int i, int32_t j)
{
    uint16_t half;
    memcpy(&half, (const char *)(s + i * QKV_CHUNK) + j * (int64_t)sizeof half, sizeof half);
    return qkv_bf16_to_f32(half);
}

// Returns the lane-wise maximum of `most` and columns from .. to-1 of one row, which are all
// visible.
INLINE vf highest_of(const real *s, int32_t from, int32_t to, vf most)
{
    vf other = most;
    int32_t j = from;
    for (; j + 2 * VW <= to; j += 2 * VW) {
        most = vf_max(vf_load(s + j), most);
        other = vf_max(vf_load(s + j + VW), other);
    }
    if (j < to) most = vf_max(vf_load(s + j), most);
    return vf_max(other, most);
}

// Replaces the scores in columns from .. to-1 by the weights 2^((s - off) times), and returns
// `total` plus the sum of these weights.
INLINE vf powers_of(real *s, int32_t from, int32_t to, vf off, vf times, vf total)
{
    int32_t j = from;
    for (; j + 2 * VW <= to; j += 2 * VW) {
        const vf x = exp2_coarse(vf_mul(vf_sub(vf_load(s + j), off), times));
        const vf y = exp2_coarse(vf_mul(vf_sub(vf_load(s + j + VW), off), times));
        _mm512_storeu_si512((uint16_t *)(void *)s + j, (__m512i)_mm512_cvtne2ps_pbh(y, x));
        total = vf_add(vf_add(total, x), y);
    }
    if (j < to) {
        const vf x = exp2_coarse(vf_mul(vf_sub(vf_load(s + j), off), times));
        store_shares(s, j, x);
        total = vf_add(total, x);
    }
    return total;
}

static void softmax_pairs(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans,
                          int n, const int32_t *lo, const int32_t *hi, real c)
{
    const vf none = vf_set1(-INFINITY), times = vf_set1(c);
    for (int i = 0; i < rows; i++) {
        real *const row = s + i * QKV_CHUNK;
        vf most = none;
        for (int p = 0; p < n; p++) {
            if (lo[i] <= spans[p].from && hi[i] >= spans[p].to) {
                most = highest_of(row, spans[p].from, spans[p].to, most);
                continue;
            }
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                most = vf_max(load_seen(row, j, lo[i], hi[i], none), most);
        }
        top[i] = vf_highest(most);
    }
    for (int i = 0; i < rows; i++) {
        real *const row = s + i * QKV_CHUNK;
        const vf off = vf_set1(top[i] == -INFINITY ? 0 : top[i]);
        vf total = vf_zero();
        for (int p = 0; p < n; p++) {
            if (lo[i] <= spans[p].from && hi[i] >= spans[p].to) {
                total = powers_of(row, spans[p].from, spans[p].to, off, times, total);
                continue;
            }
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
                const vf x = load_seen(row, j, lo[i], hi[i], none);
                const vf y = exp2_coarse(vf_mul(vf_sub(x, off), times));
                store_shares(row, j, y);
                total = vf_add(total, y);
            }
        }
        sum[i] = vf_total(total);
    }
}

static void clear_pairs(real *s, int rows, const struct qkv_columns *spans, int n,
                        const int32_t *lo, const int32_t *hi)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                store_shares(s, j, load_seen(s, j, lo[i], hi[i], vf_zero()));
}

static void drop_pairs(real *s, int i, int32_t from, int32_t to, const uint32_t *word,
                       uint32_t less)
{
    uint16_t *row = (uint16_t *)(void *)(s + i * QKV_CHUNK);
    for (int32_t j = from; j < to; j++) row[j] = word[j] < less ? 0 : row[j];
}
