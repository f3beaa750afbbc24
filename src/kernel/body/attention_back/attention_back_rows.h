// SPDX-License-Identifier: MIT
// attention_back_rows.h: defines the kernels of the attention backward pass that work on rows of
// floats. attention_back_kernels.h defines P, dP, W, dS and d.
//
// Requires back_power, which computes 2^t with the accuracy of the kernel table.

// The parameters of one row, each copied to every lane. For columns that the row sees,
// back_probability computes P from the score s, and back_slope computes dS from s, P and dP. NaN
// gives NaN; a score of -INFINITY gives 0, whatever dP is.
struct back_row {
    vf c, base, rest, d;
};
INLINE struct back_row back_row_of(real c, real base, real rest, real d)
{
    return (struct back_row){ vf_set1(c), vf_set1(base), vf_set1(rest), vf_set1(d) };
}
INLINE vf back_probability(const struct back_row *r, vf s)
{
    return back_power(vf_fms(r->c, s, r->base), r->rest);
}
INLINE vf back_slope(const struct back_row *r, vf s, vf probability, vf dp)
{
    const vm some = vm_not_equal(s, vf_set1(-INFINITY));
    return vf_select(some, vf_mul(probability, vf_sub(dp, r->d)), vf_zero());
}

static void back_cap(real *s, real *gain, int32_t lo, int32_t hi, real scale, real cap)
{
    const vf times = vf_set1(scale), most = vf_set1(cap), one = vf_set1(1);
    for (int32_t j = lo / VW * VW; j < hi; j += VW) {
        const vf x = act_tanh(vf_div(vf_mul(times, vf_load(s + j)), most));
        vf_store(s + j, vf_mul(most, x));
        vf_store(gain + j, vf_mul(vf_sub(one, x), vf_add(one, x)));
    }
}

static void back_softmax_grad(real *s, real *ds, const struct qkv_columns *spans, int n, int32_t lo,
                              int32_t hi, const struct qkv_softmax_grad *how)
{
    const struct back_row r = back_row_of(how->c, how->base, how->rest, how->d);
    for (int p = 0; p < n; p++)
        for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
            const vm seen = vm_range(lo - j, hi - j);
            const vf x = vf_load(s + j), probability = back_probability(&r, x);
            vf times = vf_set1(how->times);
            if (how->word) {
                real kept[VW];
                for (int i = 0; i < VW; i++)
                    kept[i] = how->word[j + i] < how->less ? 0 : how->times;
                times = vf_load(kept);
            }
            const vf slope = back_slope(&r, x, probability, vf_mul(times, vf_load(ds + j)));
            vf_store(s + j, vf_select(seen, vf_mul(times, probability), vf_zero()));
            vf_store(ds + j, vf_select(seen, slope, vf_zero()));
        }
}

static void back_gain(real *ds, const real *gain, int32_t lo, int32_t hi)
{
    for (int32_t j = lo / VW * VW; j < hi; j += VW) {
        const vf x = vf_load(ds + j);
        vf_store(ds + j, vf_select(vm_not_equal(x, vf_zero()), vf_mul(x, vf_load(gain + j)), x));
    }
}

// ---- rows of numbers ---------------------------------------------------------------------------
static void back_add(real *y, const real *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    if (i < n) vf_store_n(y + i, vf_add(vf_load_n(y + i, n - i), vf_load_n(x + i, n - i)), n - i);
}

static real back_total(const real *x, int64_t n)
{
    vf sum = vf_zero();
    int64_t i = 0;
    for (; i + VW <= n; i += VW) sum = vf_add(sum, vf_load(x + i));
    if (i < n) sum = vf_add(sum, vf_load_n(x + i, n - i));
    return vf_total(sum);
}

static real back_moment(const real *x, int32_t lo, int32_t hi, int64_t distance)
{
    const vf lanes = vf_lanes();
    vf sum = vf_zero();
    for (int32_t j = lo; j < hi; j += VW) {
        const vf apart = vf_abs(vf_sub(vf_set1((real)(distance - j)), lanes));
        sum = vf_fma(vf_load_n(x + j, qkv_min64(hi - j, VW)), apart, sum);
    }
    return vf_total(sum);
}

// Lists the kernels of a table that work on rows of floats.
#define BACK_ROWS_STEPS(WORDS_)                                                                    \
    .isa = ISA_NAME, .arithmetic = WORDS_, .cap = back_cap, .modify = modify,                      \
    .softmax_grad = back_softmax_grad, .gain = back_gain, .add = back_add, .total = back_total,    \
    .moment = back_moment
