// SPDX-License-Identifier: MIT
// verify_linear.c: tests linear products in every precision, and activations. docs/numerics.md
// derives the bounds ("Linear", "Activations").
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

enum { FULL, QUICK };

static const struct {
    int64_t R, K, N;
    int when;
} shapes[] = {
#define VERIFY_LINEAR(R, K, N, WHEN) { R, K, N, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_LINEAR
};

static double factor_of(qkv_precision p)
{
    return p == QKV_PRECISION_F32_FAST || p == QKV_PRECISION_INT8 ? 0
           : qkv_precision_type(p) == QKV_F32                     ? 1.5
                                                                  : 2;
}

struct job {
    qkv_precision precision;
    qkv_dtype type;
    int64_t R, K, N;
    float *x, *w, *b; // inputs, rounded to the type, so that only the product has errors
    void *stored, *y; // stored: x as the call stores it; y: result
};

// One element of the product: its exact value, the sums from which its bound is computed, and its
// value by the plain formula.
struct sum {
    double exact, size; // size: sum of |x w| + |b|
    double xs, ws;      // sums of |x| and of |w|
    double x_most, w_most;
    float plain;
};
static struct sum sum_of(const struct job *j, int64_t r, int64_t n)
{
    const float *x = j->x + r * j->K, *w = j->w + n * j->K;
    struct sum s = { (double)j->b[n], fabs((double)j->b[n]), 0, 0, 0, 0, 0 };
    for (int64_t k = 0; k < j->K; k++) {
        const double a = fabs((double)x[k]), c = fabs((double)w[k]);
        s.exact += (double)x[k] * (double)w[k];
        s.size += a * c;
        s.xs += a;
        s.ws += c;
        s.x_most = fmax(s.x_most, a);
        s.w_most = fmax(s.w_most, c);
        s.plain += x[k] * w[k];
    }
    s.plain = (float)verify_rounded(j->type, (double)s.plain);
    s.plain = (float)verify_rounded(j->type, (double)(s.plain + j->b[n]));
    return s;
}

static double bound_of(const struct job *j, const struct sum *s)
{
    const double n = (double)(2 * (j->K < 384 ? j->K : 384) + j->K / 384 + 3);
    double bound = n * VERIFY_U_F32 / (1 - n * VERIFY_U_F32) * s->size;
    if (j->precision == QKV_PRECISION_F32) bound += 2.01 * VERIFY_U_F32 * s->size;
    if (j->precision == QKV_PRECISION_F32_FAST) bound += 770 * VERIFY_U_F32 * s->size;
    if (j->precision ==
        QKV_PRECISION_INT8) { // each factor is rounded by half a step of its row's largest number
        const double step = (0.5 + 127 * 0x1p-22) / 127;
        bound += step * (s->w_most * s->xs + s->x_most * s->ws) +
                 step * step * (double)j->K * s->x_most * s->w_most;
        bound *= 1 + 8 * VERIFY_U_F32;
    }
    if (j->type != QKV_F32)
        bound += verify_unit(j->type) * (fabs(s->exact) + bound) + verify_ulp(j->type, 0) / 2;
    // Products below the smallest normal float may be computed as 0.
    return bound + (double)j->K * 0x1p-126;
}

static void numbers(struct job *j, bool uneven, struct verify_random *r)
{
    for (int64_t i = 0; i < j->R * j->K; i++) {
        double x = verify_normal(r);
        if (uneven) x = ldexp(x, (int)verify_pick(r, 21) - 10);
        j->x[i] = (float)verify_rounded(j->type, x);
    }
    qkv_from_f32(j->stored, j->type, j->x, j->R * j->K);
    for (int64_t i = 0; i < j->N * j->K; i++)
        j->w[i] = (float)verify_rounded(j->type, verify_normal(r) / sqrt((double)j->K));
    for (int64_t i = 0; i < j->N; i++) j->b[i] = (float)verify_normal(r);
}

static qkv_status run_linear_case(struct job *j, const char *name, const struct verify_options *o,
                                  qkv_error *err)
{
    const char *const precision = qkv_precision_name(j->precision);
    qkv_packed *p = NULL;
    struct verify_measure m = { .plain = NAN };
    qkv_status status = qkv_packed_open(&p, j->w, j->b, j->K, j->N, j->precision);
    if (status == QKV_ERR_UNSUPPORTED) {
        verify_refused(verify_row("linear", qkv_isa(), precision, "", j->type, 0),
                       "no kernel has this precision");
        return QKV_OK;
    }
    if (status)
        return cmd_error(err, status, NULL,
                         "the kernel of linear, %s %s, cannot compute the case %s", qkv_isa(),
                         precision, name);
    const struct qkv_packed_info info = qkv_packed_info(p);
    struct verify_row *const row = verify_row("linear", qkv_isa(), precision, info.arithmetic,
                                              j->type, factor_of(j->precision));
    if (!o->isa && strcmp(info.isa, qkv_isa()) != 0) {
        row->as = info.isa;
        qkv_packed_close(p);
        return QKV_OK;
    }
    const struct qkv_packed_call call = { .x = j->type, .y = j->type };
    status = qkv_packed_linear(j->y, j->stored, j->R, p, &call);
    qkv_packed_close(p);
    if (status)
        return cmd_error(err, status, NULL,
                         "the kernel of linear, %s %s, cannot compute the case %s", qkv_isa(),
                         precision, name);
    // Of a large product, only every step-th element is compared; these are still many.
    const int64_t work = j->R * j->N * j->K, step = work > 5000000 ? 1 + work / 5000000 : 1;
    double plain = 0;
    for (int64_t i = 0; i < j->R * j->N; i += step) {
        const struct sum sum = sum_of(j, i / j->N, i % j->N);
        verify_one(&m, verify_at(j->y, j->type, i), sum.exact, bound_of(j, &sum));
        plain = fmax(plain, fabs((double)sum.plain - sum.exact));
    }
    m.in_order = plain;
    if (factor_of(j->precision) > 0) m.plain = plain;
    verify_add(row, name, &m, o);
    return QKV_OK;
}

static qkv_status product(int64_t R, int64_t K, int64_t N, bool uneven,
                          const struct verify_options *o, qkv_error *err)
{
    char name[96];
    qkv_status status = QKV_OK;
    snprintf(name, sizeof name, "R %lld, K %lld, N %lld: %s", (long long)R, (long long)K,
             (long long)N,
             uneven ? "numbers of very different sizes" : "normally distributed numbers");
    for (int p = 0; !status && qkv_precision_name((qkv_precision)p); p++) {
        if (o->precision >= 0 && o->precision != p) continue;
        struct verify_random r = { o->seed ^ (uint64_t)(R * 1000003 + K * 1009 + N) };
        const qkv_dtype type = qkv_precision_type((qkv_precision)p);
        struct job j = { (qkv_precision)p, type, R, K, N, 0, 0, 0, 0, 0 };
        j.x = cmd_alloc((size_t)(R * K), sizeof *j.x);
        j.w = cmd_alloc((size_t)(N * K), sizeof *j.w);
        j.b = cmd_alloc((size_t)N, sizeof *j.b);
        j.stored = cmd_alloc((size_t)(R * K), qkv_dtype_size(type));
        j.y = cmd_alloc((size_t)(R * N), sizeof(float));
        numbers(&j, uneven, &r);
        status = run_linear_case(&j, name, o, err);
        free(j.x), free(j.w), free(j.b), free(j.stored), free(j.y);
    }
    return status;
}

// ---- activations -------------------------------------------------------------------------------
// Returns the exact activation of x. The tests multiply x by 1, so that only the activation has an
// error.
static double exact_act(enum qkv_activation act, double x)
{
    switch (act) {
    case QKV_ACT_RELU: return x > 0 ? x : 0;
    case QKV_ACT_GELU: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case QKV_ACT_GELU_TANH:
        return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case QKV_ACT_SILU: return x / (1 + exp(-x));
    case QKV_ACT_TANH: return tanh(x);
    case QKV_ACT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case QKV_ACT_RELU2: return x > 0 ? x * x : 0;
    case QKV_ACT_RELU6: return x > 0 ? fmin(x, 6) : 0;
    case QKV_ACT_MISH: return x * tanh(log1p(exp(fmin(x, 700))));
    default: return x;
    }
}

// Returns the largest error allowed for an activation, in ulps. The argument of GELU's tanh has
// three roundings and two rounded constants, and exp multiplies the relative error of its argument.
static double units(enum qkv_activation act, double x)
{
    if (act == QKV_ACT_NONE || act == QKV_ACT_RELU || act == QKV_ACT_RELU6) return 0;
    if (act == QKV_ACT_QUICK_GELU && x < 0) return 4 + 2 * 1.702 * fabs(x);
    if (act != QKV_ACT_GELU_TANH || x > 0) return 4;
    return 4 + 2.5 * fabs(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

static qkv_status activation(enum qkv_activation act, const char *name,
                             const struct verify_options *o, qkv_error *err)
{
    enum { BLOCK = 1 << 14 };
    static float x[BLOCK], y[BLOCK];
    // Errors are already in ulps: with size 2^23, the report does not convert them again.
    struct verify_measure m = { .size = 0x1p23, .plain = NAN };
    const struct qkv_packed_call call = { .act = act };
    const float one = 1;
    qkv_packed *p = NULL;
    qkv_status status = qkv_packed_open(&p, &one, NULL, 1, 1, QKV_PRECISION_F32);
    for (uint64_t bits = 0; !status && bits < UINT64_C(1) << 32;) {
        int64_t n = 0;
        for (; n < BLOCK && bits < UINT64_C(1) << 32; bits += o->quick ? 40009 : 499) {
            const uint32_t pattern = (uint32_t)bits;
            memcpy(&x[n], &pattern, sizeof x[n]);
            if (isfinite(x[n])) n++;
        }
        status = qkv_packed_linear(y, x, n, p, &call);
        for (int64_t i = 0; !status && i < n; i++) {
            const double exact = exact_act(act, (double)x[i]), unit = verify_ulp(QKV_F32, exact);
            if (fabs(exact) > (double)FLT_MAX || (exact == 0 && y[i] == 0)) continue;
            verify_one(&m, ((double)y[i] - exact) / unit, 0, units(act, (double)x[i]));
        }
    }
    qkv_packed_close(p);
    if (status)
        return cmd_error(err, status, NULL, "the activation %s, %s, cannot be computed", name,
                         qkv_isa());
    verify_add(verify_row("activation", qkv_isa(), "f32", name, QKV_F32, 0),
               o->quick ? "every 40,009th float" : "every 499th float", &m, o);
    return QKV_OK;
}

qkv_status verify_linear(const struct verify_options *o, qkv_error *err)
{
    static const struct {
        enum qkv_activation act;
        const char *name;
    } acts[] = { { QKV_ACT_RELU, "relu" },
                 { QKV_ACT_GELU, "gelu" },
                 { QKV_ACT_GELU_TANH, "gelu, tanh" },
                 { QKV_ACT_SILU, "silu" },
                 { QKV_ACT_TANH, "tanh" },
                 { QKV_ACT_QUICK_GELU, "gelu, quick" },
                 { QKV_ACT_RELU2, "relu, squared" },
                 { QKV_ACT_RELU6, "relu, up to 6" },
                 { QKV_ACT_MISH, "mish" } };
    qkv_status status = QKV_OK;
    for (int i = 0; !status && qkv_isa_supported(i); i++) {
        if (o->isa && strcmp(o->isa, qkv_isa_supported(i)) != 0) continue;
        status = qkv_isa_set(qkv_isa_supported(i));
        for (size_t n = 0; !status && n < sizeof shapes / sizeof *shapes; n++)
            for (int uneven = 0; !status && uneven < 2; uneven++)
                if (!o->quick || shapes[n].when == QUICK)
                    status = product(shapes[n].R, shapes[n].K, shapes[n].N, uneven, o, err);
        const bool floats = o->precision < 0 || o->precision == QKV_PRECISION_F32;
        for (size_t n = 0; !status && floats && n < sizeof acts / sizeof *acts; n++)
            status = activation(acts[n].act, acts[n].name, o, err);
    }
    return status;
}
