// SPDX-License-Identifier: MIT
// attention_rows.h: defines the attention kernels on rows of scores, which do not depend on how
// keys and values are stored. Requires exp.h. Some functions are inline, because a kernel table may
// replace them and leave them unused.

#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

static void modify(real *s, int32_t lo, int32_t hi, const struct qkv_score_modifiers *how)
{
    const vf lanes = vf_lanes(), hidden = vf_set1(how->masked);
    for (int32_t j = lo / VW * VW; j < hi; j += VW) {
        vm seen = vm_range(lo - j, hi - j);
        vf x = vf_mul(vf_load(s + j), vf_set1(how->scale));
        if (how->cap != 0) x = vf_mul(vf_set1(how->cap), act_tanh(vf_div(x, vf_set1(how->cap))));
        if (how->bias) {
            const vf b = vf_load_m(how->bias + j, seen);
            x = vf_add(x, b);
            seen = vm_and(seen, vm_not_equal(b, vf_set1(-INFINITY)));
        }
        if (how->relative) x = vf_add(x, vf_load_m(how->relative + j, seen));
        if (how->slope != 0) {
            const vf apart = vf_sub(vf_set1((real)(how->distance - j)), lanes);
            x = vf_fnma(vf_set1(how->slope), vf_abs(apart), x);
        }
        if (how->mask) seen = vm_bytes(how->mask + j, seen);
        vf_store(s + j, vf_select(seen, x, hidden));
    }
}

// Loads columns j .. j+VW-1 of a row that sees lo .. hi-1; other columns become `hidden`.
INLINE vf load_seen(const real *s, int32_t j, int32_t lo, int32_t hi, vf hidden)
{
    const vf x = vf_load(s + j);
    return j >= lo && j + VW <= hi ? x : vf_select(vm_range(lo - j, hi - j), x, hidden);
}

// The first pass computes the maxima of all rows (ignoring NaN), the second pass the powers, so
// that no row waits for its maximum.
static inline void softmax(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans,
                           int n, const int32_t *lo, const int32_t *hi, real c)
{
    const vf none = vf_set1(-INFINITY), times = vf_set1(c);
    for (int i = 0; i < rows; i++) {
        vf most = none;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                most = vf_max(load_seen(s + i * QKV_CHUNK, j, lo[i], hi[i], none), most);
        top[i] = vf_highest(most);
    }
    for (int i = 0; i < rows; i++) {
        const vf off = vf_set1(top[i] == -INFINITY ? 0 : top[i]);
        vf total = vf_zero();
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
                real *const at = s + i * QKV_CHUNK;
                const vf x =
                    exp2_vector(vf_mul(vf_sub(load_seen(at, j, lo[i], hi[i], none), off), times));
                vf_store(at + j, x);
                total = vf_add(total, x);
            }
        sum[i] = vf_total(total);
    }
}

static inline void clear(real *s, int rows, const struct qkv_columns *spans, int n,
                         const int32_t *lo, const int32_t *hi)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                vf_store(s + j, load_seen(s, j, lo[i], hi[i], vf_zero()));
}

static inline void drop(real *s, int i, int32_t from, int32_t to, const uint32_t *word,
                        uint32_t less)
{
    for (int32_t j = from; j < to; j++)
        s[i * QKV_CHUNK + j] = word[j] < less ? 0 : s[i * QKV_CHUNK + j];
}

static void merge(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c)
{
    const vf times = vf_set1(c), none = vf_set1(-INFINITY);
    for (int i = 0; i < rows; i += VW) {
        const int n = rows - i < VW ? rows - i : VW;
        const vf a = vf_load_n(top + i, n), b = vf_load_n(top1 + i, n), both = vf_max(a, b);
        // if both maxima are -INFINITY, 2^(-INFINITY + INFINITY) would be NaN
        const vm any = vm_not_equal(both, none);
        const vf x = vf_select(any, exp2_vector(vf_mul(vf_sub(a, both), times)), vf_zero());
        const vf y = vf_select(any, exp2_vector(vf_mul(vf_sub(b, both), times)), vf_zero());
        vf_store_n(old + i, x, n);
        vf_store_n(now + i, y, n);
        vf_store_n(sum + i, vf_fma(x, vf_load_n(sum + i, n), vf_mul(y, vf_load_n(sum1 + i, n))), n);
        vf_store_n(top + i, both, n);
    }
}

static void join(real *o, const real *old, const real *now, const real *o1, int rows, int64_t wide)
{
    for (int i = 0; i < rows; i++, o += wide, o1 += wide)
        for (int64_t f = 0; f < wide; f += VW) {
            const vf sum = vf_mul(vf_set1(now[i]), vf_load(o1 + f));
            vf_store(o + f, old ? vf_fma(vf_set1(old[i]), vf_load(o + f), sum) : sum);
        }
}

static void weights(real *w, int64_t n, real c, real top, real sum)
{
    const vf times = vf_set1(c), off = vf_set1(top == -INFINITY ? 0 : top), by = vf_set1(sum);
    int64_t j = 0;
    if (sum == 0) {
        for (; j < n; j++) w[j] = 0;
        return;
    }
    for (; j + VW <= n; j += VW) {
        const vf x = exp2_vector(vf_mul(vf_sub(vf_load(w + j), off), times));
        vf_store(w + j, vf_div(x, by));
    }
    if (j < n) {
        const vf x = exp2_vector(vf_mul(vf_sub(vf_load_n(w + j, n - j), off), times));
        vf_store_n(w + j, vf_div(x, by), n - j);
    }
}
