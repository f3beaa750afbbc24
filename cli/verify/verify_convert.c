// SPDX-License-Identifier: MIT
// verify_convert.c: tests every bit pattern of bfloat16 and IEEE half: the conversion functions of
// the library, and how the attention kernels of each instruction set load and store them.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 1 << 16 };

static const struct half {
    qkv_dtype type;
    qkv_precision precision;
    // fraction: bits of the fraction; least: exponent of the smallest normal number
    int fraction, least;
    double over; // a number that would be rounded to at least this becomes infinity
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} halves[] = {
    { QKV_BF16, QKV_PRECISION_BF16, 7, -126, 0x1p128, qkv_bf16_to_f32, qkv_f32_to_bf16 },
    { QKV_F16, QKV_PRECISION_F16, 10, -14, 0x1p16, qkv_f16_to_f32, qkv_f32_to_f16 },
};

// Returns the value of a 16-bit pattern, computed from its sign, its exponent and its fraction.
static double meaning(const struct half *h, unsigned pattern)
{
    const int fields = 15 - h->fraction;
    const unsigned exponent = pattern >> h->fraction & ((1u << fields) - 1);
    const unsigned fraction = pattern & ((1u << h->fraction) - 1);
    const double sign = pattern >> 15 ? -1 : 1;
    if (exponent == (1u << fields) - 1) return fraction ? (double)NAN : sign * (double)INFINITY;
    const double units = (double)(exponent ? fraction + (1u << h->fraction) : fraction);
    return sign * ldexp(units, h->least - h->fraction + (exponent ? (int)exponent - 1 : 0));
}

static bool same(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want);
}

// Counts a converted number. Conversions must be exact: any difference counts as an infinite error.
static void count(struct verify_measure *m, double got, double want)
{
    m->n++;
    if (same(got, want)) return;
    m->largest = m->share = INFINITY;
}

static void widen_all(const struct half *h, const struct verify_options *o)
{
    struct verify_measure m = { .size = 1, .plain = NAN };
    for (unsigned i = 0; i < PATTERNS; i++) count(&m, (double)h->widen((uint16_t)i), meaning(h, i));
    verify_add(verify_row("convert", "any", qkv_precision_name(h->precision), "to f32", QKV_F32, 0),
               "every bit pattern", &m, o);
}

// Returns the number of the type that is nearest to x; if two are equally near, the even one.
// `unit` is the distance between numbers of the type near x. Adding and subtracting 1.5 * 2^52
// rounds x / unit to an integer.
static double nearest(const struct half *h, double x, double unit)
{
    volatile double whole = x / unit + 0x1.8p52;
    const double r = (whole - 0x1.8p52) * unit;
    return fabs(r) >= h->over ? copysign((double)INFINITY, x) : copysign(r, x);
}

// Tests the conversion of every float to a 16-bit type; with --quick, of every 509th float. All
// floats of a block have the same exponent, so that the distance `unit` between numbers of the
// 16-bit type is computed once per block.
static void narrow_all(const struct half *h, const struct verify_options *o, double *values)
{
    struct verify_measure m = { .size = 1, .plain = NAN };
    const uint32_t step = o->quick ? 509 : 1;
    for (unsigned i = 0; i < PATTERNS; i++) values[i] = meaning(h, i);
    for (uint32_t block = 0; block < 512; block++) {
        const int exponent = (int)(block & 255) - 127;
        const double unit = ldexp(1, (exponent > h->least ? exponent : h->least) - h->fraction);
        for (uint32_t i = block % step; i < 1u << 23; i += step) {
            const uint32_t bits = block << 23 | i;
            float x;
            memcpy(&x, &bits, sizeof x);
            count(&m, values[h->narrow(x)], isfinite(x) ? nearest(h, (double)x, unit) : (double)x);
        }
    }
    verify_add(
        verify_row("convert", "any", qkv_precision_name(h->precision), "from f32", h->type, 0),
        o->quick ? "every 509th float" : "every float", &m, o);
}

enum { HEADS = 64, WIDTH = PATTERNS / HEADS };
// Converts every pattern with the attention operator. With one key, the output is the value, which
// was loaded and stored. With two keys of equal score (ties), the output is the mean of two values;
// they are adjacent numbers of the type, so that each mean must be rounded from a tie.
static qkv_status through(const struct half *h, bool ties, const struct verify_options *o,
                          qkv_error *err)
{
    static uint16_t q[HEADS], k[2 * HEADS], v[2 * PATTERNS], out[PATTERNS];
    struct verify_measure m = { .size = 1, .plain = NAN };
    const struct qkv_attention a = {
        .B = 1, .T = 1, .S = ties ? 2 : 1, .H = HEADS, .E = 1, .F = WIDTH, .precision = h->precision
    };
    const struct qkv_attention_plan plan = qkv_attention_plan(&a);
    const char *const precision = qkv_precision_name(h->precision);
    if (plan.status == QKV_ERR_UNSUPPORTED) {
        verify_refused(verify_row("convert", qkv_isa(), precision, "", h->type, 0), plan.reason);
        return QKV_OK;
    }
    for (unsigned i = 0; i < PATTERNS; i++) {
        const double next = meaning(h, i + 1);
        v[i] = (uint16_t)i;
        v[PATTERNS + i] = (uint16_t)i;
        // In a test of ties the result is the mean of two adjacent numbers, whose sum must be
        // finite; NaN and infinity are tested without ties.
        if (ties && !(fabs(next) < 0x1p126)) v[i] = v[PATTERNS + i] = 0;
        if (ties && i % (PATTERNS / 2) != PATTERNS / 2 - 1 && fabs(next) < 0x1p126)
            v[PATTERNS + i] = (uint16_t)(i + 1);
    }
    void *scratch = cmd_alloc(plan.scratch, 1);
    const qkv_status status = qkv_attention_forward(out, NULL, NULL, q, k, v, &a, scratch);
    free(scratch);
    if (status)
        return cmd_error(err, status, NULL,
                         "the kernel of attention, %s %s, cannot compute a case of conversion",
                         qkv_isa(), precision);
    for (unsigned i = 0; i < PATTERNS; i++) {
        const double x = meaning(h, v[i]), y = meaning(h, v[PATTERNS + i]);
        double want = ties ? verify_rounded(h->type, (x + y) / 2) : x;
        if (want == 0) want = 0; // the operator never returns -0
        // On some CPUs, products of bfloat16 treat subnormal numbers as 0.
        const double got = meaning(h, out[i]);
        if (fabs(want) < 0x1p-125 && fabs(got - want) <= 0x1p-126) continue;
        count(&m, got, want);
    }
    verify_add(verify_row("convert", qkv_isa(), precision, "load, store", h->type, 0),
               ties ? "the midpoint of every two neighbours" : "every bit pattern", &m, o);
    return QKV_OK;
}

qkv_status verify_convert(const struct verify_options *o, qkv_error *err)
{
    qkv_status status = QKV_OK;
    double *const values = cmd_alloc(PATTERNS, sizeof *values);
    for (size_t n = 0; !status && n < sizeof halves / sizeof *halves; n++) {
        const struct half *h = &halves[n];
        if (o->precision >= 0 && o->precision != (int)h->precision) continue;
        widen_all(h, o);
        narrow_all(h, o, values);
        for (int i = 0; !status && qkv_isa_supported(i); i++) {
            if (o->isa && strcmp(o->isa, qkv_isa_supported(i)) != 0) continue;
            if ((status = qkv_isa_set(qkv_isa_supported(i)))) break;
            status = through(h, false, o, err);
            if (!status) status = through(h, true, o, err);
        }
    }
    free(values);
    return status;
}
