// SPDX-License-Identifier: MIT
// activation_grad.h: computes the derivatives of the activations and the activation kernels of
// training, with the vector functions. Requires activation.h and typed.h.
//
// Let s be the logistic function of v and e = exp(-|v|): s = 1 / (1 + e) for v >= 0, and s = e / (1
// + e) for v < 0. The derivative s (1 - s) = e / (1 + e)^2 has no cancellation for either sign of
// v.

// Returns the logistic function s of v; *slope receives its derivative.
static inline vf slope_logistic(vf *slope, vf v)
{
    vf n;
    const vf p = act_exp_down(&n, vf_abs(v)), e = vf_pow2(p, n), one = vf_set1(1);
    const vf q = vf_div(one, vf_add(one, e)), low = vf_mul(e, q);
    *slope = vf_mul(low, q);
    return vf_lt0(v, low, q);
}

// Returns the derivative of GELU, Phi(x) + x phi(x); *value receives x Phi(x). activation.h has the
// tables.
static inline vf slope_gelu(vf *value, vf x)
{
    const vf t = vf_min(vf_set1(14.5f), vf_abs(x)), u = vf_add(t, vf_set1(1));
    const vf z = vf_sub(t, vf_sub(vf_cell_middle(u), vf_set1(1)));
    const vi cell = vi_cell(u);
    vf m = vf_lookup16(act_mills[5], cell);
    for (int i = 4; i >= 0; i--) m = vf_fma(m, z, vf_lookup16(act_mills[i], cell));
    const vf half = vf_mul(t, vf_set1(-0.5f)), square = vf_mul(half, t);
    vf n;
    const vf p = act_exp_parts(&n, square, vf_fms(half, t, square)), e = vf_pow2(p, n);
    *value = vf_sub(vf_max(vf_zero(), x), vf_mul(vf_mul(t, m), e));
    // peak = t phi(t), with phi the normal density
    const vf low = vf_mul(m, e), peak = vf_mul(vf_set1(0.398942280f), vf_mul(t, e));
    return vf_lt0(x, vf_sub(low, peak), vf_add(vf_sub(vf_set1(1), low), peak));
}

// Returns the derivative of MISH, t + x s (1 - t^2), where t = tanh(ln(1 + exp(x))) and s is the
// logistic function of x; *value receives x t. With e = exp(-|x|) the second term is
// 4 x e^2 (1 + e) / d^2 if x >= 0, and 4 x e (1 + e) / d^2 if x is negative, where d is the
// denominator of t (act_mish).
static inline vf slope_mish(vf *value, vf x)
{
    vf n;
    const vf c = vf_max(vf_set1(-110), vf_min(vf_set1(110), x)), one = vf_set1(1), two = vf_set1(2);
    const vf p = act_exp_down(&n, vf_abs(c)), e = vf_pow2(p, n), more = vf_fma(two, e, one);
    const vf above = vf_lt0(c, vf_mul(e, vf_add(e, two)), more);
    const vf under = vf_add(above, vf_lt0(c, two, vf_mul(vf_mul(two, e), e)));
    const vf t = vf_div(above, under), turn = vf_mul(vf_set1(4), vf_mul(e, vf_add(one, e)));
    *value = vf_mul(vf_max(vf_set1(-110), x), t);
    const vf steep = vf_div(vf_mul(turn, vf_lt0(c, one, e)), vf_mul(under, under));
    return vf_fma(c, steep, t);
}

// Returns act'(x); *value receives act(x). The compiler removes results that are not used.
static inline vf slope_vector(vf *value, vf x, enum qkv_activation act)
{
    const vf one = vf_set1(1), zero = vf_zero();
    vf inner;
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU:
        *value = vf_max(zero, x);
        return vf_lt(x, vf_set1(0x1p-149f), zero, one); // the derivative of a NaN is 1
    case QKV_ACT_GELU: return slope_gelu(value, x);
    case QKV_ACT_GELU_TANH: {
        const vf c = vf_max(vf_set1(-15), vf_min(vf_set1(15), x)), square = vf_mul(c, c);
        const vf v = vf_mul(c, vf_fma(square, vf_set1(0.0713548163f), vf_set1(1.59576912f)));
        const vf s = slope_logistic(&inner, v);
        // turn = dv/dx, the derivative of the argument v of the logistic function
        const vf turn = vf_fma(square, vf_set1(0.214064449f), vf_set1(1.59576912f));
        *value = vf_mul(vf_max(vf_set1(-15), x), s);
        return vf_fma(vf_mul(c, turn), inner, s);
    }
    case QKV_ACT_SILU: {
        const vf c = vf_max(vf_set1(-110), vf_min(vf_set1(110), x)), s = slope_logistic(&inner, c);
        *value = vf_mul(vf_max(vf_set1(-110), x), s);
        return vf_fma(c, inner, s);
    }
    case QKV_ACT_QUICK_GELU: {
        const vf c = vf_max(vf_set1(-65), vf_min(vf_set1(65), x)), v = vf_mul(c, vf_set1(1.702f));
        const vf s = slope_logistic(&inner, v);
        *value = vf_mul(vf_max(vf_set1(-65), x), s);
        return vf_fma(v, inner, s);
    }
    case QKV_ACT_RELU2: {
        const vf up = vf_max(zero, x);
        *value = vf_mul(up, up);
        return vf_add(up, up);
    }
    case QKV_ACT_RELU6: // the derivative is 0 from 6 on; that of a NaN is 1
        *value = vf_min(vf_set1(6), vf_max(zero, x));
        return vf_lt(vf_set1(0x1.7ffffep+2f), x, zero, vf_lt(x, vf_set1(0x1p-149f), zero, one));
    case QKV_ACT_MISH: return slope_mish(value, x);
    case QKV_ACT_TANH:
        (void)slope_logistic(&inner, vf_add(x, x));
        *value = act_tanh(x);
        return vf_mul(vf_set1(4), inner);
    }
    *value = x;
    return one;
}

static inline __attribute__((always_inline)) void slope_array(void *dx, const void *dy,
                                                              const void *x, const qkv_dtype type,
                                                              int64_t n, enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i += VW) {
        vf value;
        const vf slope = slope_vector(&value, typed_load(x, type, i, n - i), act);
        typed_store(dx, type, i, vf_mul(typed_load(dy, type, i, n - i), slope), n - i);
    }
}

static void activation_backward(void *dx, const void *dy, const void *x, qkv_dtype type, int64_t n,
                                enum qkv_activation act)
{
    if (type == QKV_BF16)
        slope_array(dx, dy, x, QKV_BF16, n, act);
    else
        slope_array(dx, dy, x, type, n, act);
}

static void gated(void *y, const void *g, const void *u, qkv_dtype type, int64_t n,
                  enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i += VW) {
        vf a = typed_load(g, type, i, n - i);
        act_vectors(&a, 1, act, false);
        typed_store(y, type, i, vf_mul(a, typed_load(u, type, i, n - i)), n - i);
    }
}

static void gated_backward(void *dg, void *du, const void *dy, const void *g, const void *u,
                           qkv_dtype type, int64_t n, enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i += VW) {
        vf value;
        const vf slope = slope_vector(&value, typed_load(g, type, i, n - i), act);
        const vf d = typed_load(dy, type, i, n - i), up = typed_load(u, type, i, n - i);
        typed_store(dg, type, i, vf_mul(vf_mul(d, up), slope), n - i);
        typed_store(du, type, i, vf_mul(d, value), n - i);
    }
}
