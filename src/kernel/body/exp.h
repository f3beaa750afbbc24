// SPDX-License-Identifier: MIT
// exp.h: computes e^x over an array, and 2^x for the scores of attention.
//
// Requires the vector functions (vec_*.h) and activation.h (act_exp_parts). docs/numerics.md,
// "Attention", states the errors; test_exp tests them.

// Computes e^x. x is limited to -104 .. 89: below -104, e^x is less than half the smallest float;
// above 89, it is more than the largest float. NaN gives NaN.
static inline vf exp_vector(vf x)
{
    vf n;
    const vf p = act_exp_parts(&n, vf_max(vf_set1(-104), vf_min(vf_set1(89), x)), vf_zero());
    return vf_pow2(p, n);
}
static inline void exp_array(real *y, const real *x, int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) vf_store(y + i, exp_vector(vf_load(x + i)));
    if (i < n) vf_store_n(y + i, exp_vector(vf_load_n(x + i, n - i)), n - i);
}

// Computes 2^t for t <= 1 with the minimax polynomial of degree 6 on [-1/2, 1/2] with p(0) = 1, so
// that 2^0 is 1. Below -126 the result is 0, which is negligible compared with the largest term of
// its softmax, 1.
static inline vf exp2_vector(vf t)
{
    const vf n = vf_round(t), f = vf_sub(t, n);
    vf p = vf_set1(1.53259956e-4f);
    p = vf_fma(p, f, vf_set1(1.33908063e-3f));
    p = vf_fma(p, f, vf_set1(9.61850584e-3f));
    p = vf_fma(p, f, vf_set1(5.55035993e-2f));
    p = vf_fma(p, f, vf_set1(0.240226477f));
    p = vf_fma(p, f, vf_set1(0.693147182f));
    p = vf_fma(p, f, vf_set1(1));
    return vf_shift_exponent_above(p, n, t, -126);
}
