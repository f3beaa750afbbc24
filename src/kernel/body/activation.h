// SPDX-License-Identifier: MIT
// activation.h: computes the activations on vectors, and `activation` over an array.
//
// Requires the vector functions (vec_*.h). The error is at most 4 ulp for normal results, except
// for the tails of the tanh and quick GELU (see there); test_activation checks it. At the
// infinities the results are the limits; NaN gives NaN.

// Computes exp(x + more) as p 2^n with p near 1, for |x| <= 110 and |more| much smaller than |x|;
// the error is at most 2 ulp. r = x + more - n ln2 is computed with ln2 in two parts; p is the
// minimax polynomial of degree 6 on [-ln2/2, ln2/2] that begins with 1 + r.
static inline vf act_exp_parts(vf *n, vf x, vf more)
{
    *n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    // this constant consists of the leading bits of ln2, so few bits that n times the constant is
    // exact
    vf r = vf_fnma(*n, vf_set1(0.693145752f), x);
    r = vf_add(vf_fnma(*n, vf_set1(1.42860682e-6f), r), more);
    vf p = vf_set1(1.381454e-3f);
    p = vf_fma(p, r, vf_set1(8.368745e-3f));
    p = vf_fma(p, r, vf_set1(4.166839e-2f));
    p = vf_fma(p, r, vf_set1(0.16666521f));
    p = vf_fma(p, r, vf_set1(0.49999994f));
    p = vf_fma(vf_mul(p, r), r, r);
    return vf_add(p, vf_set1(1));
}
// Computes exp(-t) for t >= 0 as p 2^n with p near 1; for t above 104, p 2^n is 0 in float.
static inline vf act_exp_down(vf *n, vf t)
{
    return act_exp_parts(n, vf_sub(vf_zero(), vf_min(vf_set1(110), t)), vf_zero());
}

// Tables for Phi(-t) exp(t^2 / 2), t in [0, 15), where Phi is the normal distribution function.
// [1, 16) is divided into 16 cells (vi_cell), and the cell of 1 + t selects a polynomial around the
// middle of the cell. The polynomials are minimax fits of degree 5 with a relative error of at most
// 1.4 * 2^-24.
static const float act_mills[6][16] = {
    { 0.45379323f, 0.37960443f, 0.32335618f, 0.27977058f, 0.23076032f, 0.18523167f, 0.15365194f,
      0.13072473f, 0.10634516f, 0.084803395f, 0.0703427f, 0.060015675f, 0.04912255f, 0.039506696f,
      0.033018973f, 0.028352661f },
    { -0.34221813f, -0.2565906f, -0.19684468f, -0.15414304f, -0.11049188f, -0.074786864f,
      -0.05322542f, -0.039449263f, -0.026734242f, -0.017327016f, -0.012057464f, -0.0088403905f,
      -0.005961911f, -0.0038753394f, -0.0027146274f, -0.002005033f },
    { 0.20550694f, 0.14169091f, 0.1001638f, 0.07244752f, 0.0463214f, 0.027176816f, 0.016947161f,
      0.01111954f, 0.0063871588f, 0.0034157748f, 0.002013279f, 0.0012765516f, 0.00071355654f,
      0.00037663258f, 0.00022171544f, 0.00014109726f },
    { -0.10550997f, -0.06781879f, -0.044747364f, -0.03025042f, -0.017529381f, -0.009075462f,
      -0.005031253f, -0.002956745f, -0.001459085f, -0.00065178843f, -0.00032805666f,
      -0.00018089767f, -8.4281884e-05f, -3.6277885e-05f, -1.7992668e-05f, -9.8815935e-06f },
    { 0.048258185f, 0.029161863f, 0.018103497f, 0.011525786f, 0.0061596767f, 0.0028453986f,
      0.0014156399f, 0.0007510711f, 0.00032540277f, 0.00012213665f, 5.2714386e-05f, 2.5354982e-05f,
      1.00246425e-05f, 3.510605e-06f, 1.4649622e-06f, 6.9374715e-07f },
    { -0.019939834f, -0.011405984f, -0.0067057675f, -0.0040456634f, -0.0019930764f, -0.00083148683f,
      -0.0003750693f, -0.00018120138f, -6.8669615e-05f, -2.1966462e-05f, -8.2094975e-06f,
      -3.4679708e-06f, -1.1534178e-06f, -3.3218907e-07f, -1.1737644e-07f, -4.812251e-08f },
};

// Computes GELU: x Phi(x) = max(x, 0) - |x| Phi(-|x|), where Phi is the normal distribution
// function. The difference does not cancel, so the tail keeps its relative accuracy.
static inline vf act_gelu(vf x)
{
    const vf t = vf_min(vf_set1(14.5f), vf_abs(x)); // Phi(-14.5) is below the smallest float
    const vf u = vf_add(t, vf_set1(1)), z = vf_sub(t, vf_sub(vf_cell_middle(u), vf_set1(1)));
    const vi cell = vi_cell(u);
    vf m = vf_lookup16(act_mills[5], cell);
    for (int i = 4; i >= 0; i--) m = vf_fma(m, z, vf_lookup16(act_mills[i], cell));
    const vf half = vf_mul(t, vf_set1(-0.5f)), square = vf_mul(half, t);
    vf n;
    // the argument of exp is -t^2 / 2 as the sum of two floats: square and its rounding error
    const vf e = act_exp_parts(&n, square, vf_fms(half, t, square));
    return vf_sub(vf_max(vf_zero(), x), vf_pow2(vf_mul(vf_mul(t, m), e), n));
}

// Tables of GELU for a result that is rounded to bf16: polynomials of degree 3 for the cells (error
// at most 2^-15.2 of Phi) and for 2^f (error at most 2^-13.7). The total error is below 2^-13 of
// the result, or 2^-4 of the distance between two adjacent bf16 numbers.
static const float act_mills_coarse[4][16] = {
    { 0.45379177f, 0.37960353f, 0.32335562f, 0.27977023f, 0.23075734f, 0.18523028f, 0.15365125f,
      0.13072437f, 0.10634263f, 0.084802441f, 0.07034228f, 0.060015477f, 0.049121302f, 0.039506257f,
      0.03301879f, 0.028352574f },
    { -0.34221902f, -0.25659102f, -0.19684486f, -0.15414312f, -0.1104923f, -0.074786924f,
      -0.053225406f, -0.039449241f, -0.026734013f, -0.017326914f, -0.012057419f, -0.00884037f,
      -0.0059617911f, -0.0038753026f, -0.0027146139f, -0.0020050274f },
    { 0.20626034f, 0.14214626f, 0.10044652f, 0.072627537f, 0.04670589f, 0.027354497f, 0.017035583f,
      0.011166461f, 0.0064684092f, 0.0034462851f, 0.0020264506f, 0.0012828879f, 0.00072357111f,
      0.00038014093f, 0.00022317974f, 0.00014179079f },
    { -0.10569308f, -0.067932151f, -0.044818439f, -0.030295631f, -0.017624058f, -0.0091175037f,
      -0.0050510871f, -0.0029666475f, -0.0014745997f, -0.00065690378f, -0.00033000496f,
      -0.00018173105f, -8.5402702e-05f, -3.6603797e-05f, -1.8108465e-05f, -9.929232e-06f },
};
static inline vf act_gelu_coarse(vf x)
{
    const vf t = vf_min(vf_set1(14.5f), vf_abs(x)), u = vf_add(t, vf_set1(1));
    const vf z = vf_sub(t, vf_sub(vf_cell_middle(u), vf_set1(1)));
    const vi cell = vi_cell(u);
    vf m = vf_lookup16(act_mills_coarse[3], cell);
    for (int i = 2; i >= 0; i--) m = vf_fma(m, z, vf_lookup16(act_mills_coarse[i], cell));
    const vf power = vf_mul(t, vf_mul(t, vf_set1(-0.72134752f))),
             n = vf_round(power); // the factor 0.72134752 is log2(e) / 2
    const vf f = vf_sub(power, n);
    vf e = vf_fma(vf_set1(0.0551716685f), f, vf_set1(0.242611125f));
    e = vf_fma(e, f, vf_set1(0.693260968f));
    e = vf_fma(e, f, vf_set1(0.999928057f));
    return vf_sub(vf_max(vf_zero(), x), vf_pow2(vf_mul(vf_mul(t, m), e), n));
}

// Computes x / (1 + exp(-s)) from e = exp(-|s|): x / (1 + e) if s >= 0, and x e / (1 + e) if s is
// negative. In the second case x is multiplied by the mantissa of e first and by its power of two
// last, because e may be subnormal where x e is not.
static inline vf act_gate(vf x, vf s)
{
    vf n;
    const vf p = act_exp_down(&n, vf_abs(s)), one = vf_set1(1);
    return vf_div(vf_lt0(s, vf_pow2(vf_mul(x, p), n), x), vf_add(vf_pow2(p, n), one));
}

// Computes the tanh GELU: 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), where 2u = x (a + b x^2), a = 2
// sqrt(2 / pi) and b = 0.044715 a. The three roundings of 2u cause an error of up to 2|2u| ulp
// where exp is steep (large negative x).
static inline vf act_gelu_tanh(vf x)
{
    x = vf_max(vf_set1(-15), x); // the result is 0 there, also the limit at -INFINITY
    return act_gate(x,
                    vf_mul(x, vf_fma(vf_mul(x, x), vf_set1(0.0713548163f), vf_set1(1.59576912f))));
}
static inline vf act_silu(vf x)
{
    x = vf_max(vf_set1(-110), x);
    return act_gate(x, x);
}

// Computes tanh: for |x| < 0.625 as x + x^3 P(x^2), for larger |x| as 1 - 2 / (exp(2|x|) + 1) with
// the sign of x.
static inline vf act_tanh(vf x)
{
    const vf t = vf_abs(x), z = vf_mul(x, x);
    vf p = vf_set1(-5.70498872745e-3f);
    p = vf_fma(p, z, vf_set1(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
    const vf near = vf_fma(vf_mul(p, z), t, t);
    vf n;
    const vf p2 = act_exp_down(&n, vf_add(t, t)), e = vf_pow2(p2, n);
    const vf far = vf_sub(vf_set1(1), vf_div(vf_add(e, e), vf_add(e, vf_set1(1))));
    return vf_sign(vf_lt(t, vf_set1(0.625f), near, far), x);
}

// Computes the quick GELU, x / (1 + exp(-s)) with s = 1.702 x. The rounded constant and product
// cause an error of up to 2|s| ulp where exp is steep (large negative x).
static inline vf act_quick_gelu(vf x)
{
    x = vf_max(vf_set1(-65), x); // the result is 0 there, also the limit at -INFINITY
    return act_gate(x, vf_mul(x, vf_set1(1.702f)));
}

// Computes x tanh(ln(1 + exp(x))) from e = exp(-|x|): x (1 + 2e) / (1 + 2e + 2e^2) if x >= 0, and
// x e (2 + e) / (2 + e (2 + e)) if x is negative, where x is multiplied by the mantissa of e first
// and by its power of two last, as in act_gate.
static inline vf act_mish(vf x)
{
    vf n;
    x = vf_max(vf_set1(-110), x);
    const vf p = act_exp_down(&n, vf_abs(x)), e = vf_pow2(p, n), two = vf_set1(2);
    const vf more = vf_fma(two, e, vf_set1(1)), tail = vf_add(e, two);
    const vf up = vf_mul(x, vf_div(more, vf_fma(vf_mul(two, e), e, more)));
    const vf down = vf_div(vf_mul(vf_mul(x, p), tail), vf_fma(e, tail, two));
    return vf_lt0(x, vf_pow2(down, n), up);
}

static inline vf act_vector(vf x, enum qkv_activation act)
{
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return vf_max(vf_zero(), x);
    case QKV_ACT_GELU: return act_gelu(x);
    case QKV_ACT_GELU_TANH: return act_gelu_tanh(x);
    case QKV_ACT_SILU: return act_silu(x);
    case QKV_ACT_TANH: return act_tanh(x);
    case QKV_ACT_QUICK_GELU: return act_quick_gelu(x);
    case QKV_ACT_RELU2: {
        const vf up = vf_max(vf_zero(), x);
        return vf_mul(up, up);
    }
    case QKV_ACT_RELU6: return vf_min(vf_set1(6), vf_max(vf_zero(), x));
    case QKV_ACT_MISH: return act_mish(x);
    }
    return x;
}

// Applies act to `count` vectors; the switch on act runs once for all of them. coarse is true if
// the results will be rounded to bf16, for which a faster and less accurate GELU is sufficient.
static inline __attribute__((always_inline)) void act_vectors(vf *x, const int count,
                                                              enum qkv_activation act, bool coarse)
{
    if (act == QKV_ACT_NONE) return;
    if (act == QKV_ACT_GELU && coarse) {
        _Pragma("GCC unroll 4") for (int i = 0; i < count; i++) x[i] = act_gelu_coarse(x[i]);
    } else if (act == QKV_ACT_GELU) {
        // The loop processes one vector at a time; for several vectors, the tables and constants
        // would not fit into registers.
        _Pragma("GCC unroll 1") for (int i = 0; i < count; i++) x[i] = act_gelu(x[i]);
    } else {
        for (int i = 0; i < count; i++) x[i] = act_vector(x[i], act);
    }
}

static inline void activation(void *y, const void *x, qkv_dtype type, int64_t n,
                              enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i += VW) {
        vf a = typed_load(x, type, i, n - i);
        act_vectors(&a, 1, act, type == QKV_BF16);
        typed_store(y, type, i, a, n - i);
    }
}
