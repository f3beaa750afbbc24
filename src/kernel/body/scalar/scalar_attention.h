// SPDX-License-Identifier: MIT
// scalar_attention.h: defines the law (the reference kernels) of attention in plain C, for
// isa_scalar.c.
//
// Keys are packed in panels of KEYS columns, values row by row; both are packed as real numbers,
// whatever the type of the caller's arrays.
#include "kernel/body/attention/attention_names.h"
#include "kernel/body/attention/attention_table.h"
#include <math.h>

enum { ROWS = 4, KEYS = 4 };

static int64_t width(int64_t F)
{
    return F;
}

static size_t key_bytes(int64_t E)
{
    return (size_t)E * sizeof(real);
}

static size_t value_bytes(int64_t F)
{
    return (size_t)F * sizeof(real);
}

static void scores(real *s, const void *const *queries, int rows, const void *packed, int64_t E,
                   struct qkv_columns span)
{
    const real *keys = packed;
    for (int i = 0; i < rows; i++) {
        const real *q = queries[i];
        for (int32_t j = span.from; j < span.to; j++) {
            const real *k = keys + j / KEYS * KEYS * E + j % KEYS;
            real sum = 0;
            for (int64_t e = 0; e < E; e++) sum += q[e] * k[e * KEYS];
            s[i * QKV_CHUNK + j] = sum;
        }
    }
}

static void modify(real *s, int32_t lo, int32_t hi, const struct qkv_score_modifiers *how)
{
    for (int32_t j = lo; j < hi; j++) {
        real x = how->scale * s[j];
        if (how->cap != 0) x = how->cap * (real)tanh((double)(x / how->cap));
        if (how->bias) x += (real)how->bias[j];
        if (how->relative) x += (real)how->relative[j];
        if (how->slope != 0) {
            const int64_t apart = how->distance - j;
            x -= how->slope * (real)(apart < 0 ? -apart : apart);
        }
        const bool masked =
            (how->mask && !how->mask[j]) || (how->bias && how->bias[j] == -INFINITY);
        s[j] = masked ? how->masked : x;
    }
}

static void softmax(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans, int n,
                    const int32_t *lo, const int32_t *hi, real c)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK) {
        real most = -(real)INFINITY, total = 0;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++)
                // the comparison is false for NaN, so the maximum ignores NaN
                if (j >= lo[i] && j < hi[i] && s[j] > most) most = s[j];
        // If no score of the row is visible, any finite offset is correct: all exponents are
        // -INFINITY or NaN.
        const real off = most == -(real)INFINITY ? 0 : most;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++) {
                const bool seen = j >= lo[i] && j < hi[i];
                s[j] = seen ? (real)exp2((double)(c * (s[j] - off))) : 0;
                total += s[j];
            }
        top[i] = most;
        sum[i] = total;
    }
}

static void clear(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                  const int32_t *hi)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++)
                if (j < lo[i] || j >= hi[i]) s[j] = 0;
}

static void drop(real *s, int i, int32_t from, int32_t to, const uint32_t *word, uint32_t less)
{
    for (int32_t j = from; j < to; j++)
        if (word[j] < less) s[i * QKV_CHUNK + j] = 0;
}

static void merge(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c)
{
    for (int i = 0; i < rows; i++) {
        const real both = top[i] > top1[i] ? top[i] : top1[i];
        const bool none = both == -(real)INFINITY; // 2^(-INFINITY + INFINITY) is NaN
        old[i] = none ? 0 : (real)exp2((double)(c * (top[i] - both)));
        now[i] = none ? 0 : (real)exp2((double)(c * (top1[i] - both)));
        sum[i] = old[i] * sum[i] + now[i] * sum1[i];
        top[i] = both;
    }
}

static void values(real *o, const real *old, const real *now, const real *s, int rows,
                   const void *given, int64_t capacity, int64_t F, const struct qkv_columns *spans,
                   int n)
{
    const real *packed = given;
    (void)capacity;
    for (int i = 0; i < rows; i++, s += QKV_CHUNK, o += F)
        for (int64_t f = 0; f < F; f++) {
            real sum = 0;
            for (int p = 0; p < n; p++)
                for (int32_t j = spans[p].from; j < spans[p].to; j++)
                    sum += s[j] * packed[j * F + f];
            o[f] = old ? old[i] * o[f] + now[i] * sum : now[i] * sum;
        }
}

static void join(real *o, const real *old, const real *now, const real *o1, int rows, int64_t wide)
{
    for (int i = 0; i < rows; i++, o += wide, o1 += wide)
        for (int64_t f = 0; f < wide; f++)
            o[f] = old ? old[i] * o[f] + now[i] * o1[f] : now[i] * o1[f];
}

static void weights(real *w, int64_t n, real c, real top, real sum)
{
    const real off = top == -(real)INFINITY ? 0 : top;
    for (int64_t j = 0; j < n; j++)
        w[j] = sum == 0 ? 0 : (real)exp2((double)(c * (w[j] - off))) / sum;
}

// Packing converts arrays of other types to real.
typedef real element_real;
typedef uint16_t element_bf16, element_f16;
#define read_real(X)  (X)
#define write_real(X) (X)
#define read_bf16     qkv_bf16_to_f32
#define write_bf16(X) qkv_f32_to_bf16((float)(X))
#define read_f16      qkv_f16_to_f32
#define write_f16(X)  qkv_f32_to_f16((float)(X))
#define STORED        real
#include "kernel/body/scalar/scalar_packs.h"
#undef STORED
#define STORED bf16
#include "kernel/body/scalar/scalar_packs.h"
#undef STORED
#define STORED f16
#include "kernel/body/scalar/scalar_packs.h"
#undef STORED

// Computes the scale of 8-bit integers, x = scale x8, for the n numbers of a key or value:
//   scale = max |x| / 127,   x8 = times x, rounded to nearest even,   times = 127 / max |x|
// The maximum ignores nonfinite numbers; returns false if x contains nonfinite numbers. A maximum
// so small that the quotient would overflow counts as 0.
static bool scale_int8(real *scale, real *times, const real *x, int64_t n)
{
    real most = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        const real size = (real)fabs((double)x[i]);
        if (!isfinite(size))
            finite = false;
        else if (size > most)
            most = size;
    }
    *times = most < (real)0x1p-100 ? 0 : 127 / most;
    *scale = most < (real)0x1p-100 ? 0 : most / 127;
    return finite;
}

// A key that contains a nonfinite number becomes NaN, and so do all its scores.
static void pack_keys_int8(void *to, const void *given, int64_t ldk, int64_t at, int64_t n,
                           int64_t E)
{
    const real *k = given;
    for (int64_t j = at; j < at + n; j++, k += ldk) {
        real scale, times;
        if (!scale_int8(&scale, &times, k, E)) scale = (real)NAN;
        for (int64_t e = 0; e < E; e++)
            ((real *)to)[j / KEYS * KEYS * E + e * KEYS + j % KEYS] =
                scale * (real)nearbyint((double)(times * k[e]));
    }
}

static bool pack_values_int8(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                             int64_t capacity, int64_t F)
{
    real *to = packed;
    const real *v = given;
    (void)capacity;
    bool finite = true;
    for (int64_t j = at; j < at + n; j++, v += ldv) {
        real scale, times;
        if (!scale_int8(&scale, &times, v, F)) finite = false;
        for (int64_t f = 0; f < F; f++)
            to[j * F + f] = isfinite(v[f]) ? scale * (real)nearbyint((double)(times * v[f])) : 0;
    }
    return finite;
}

#define ATTENTION_LAW(WORDS)                                                                       \
    ATTENTION_SHARED(WORDS, ROWS, KEYS, 1), .key_bytes = key_bytes, .value_bytes = value_bytes,    \
                                            .query_bytes = key_bytes, .scores = scores,            \
                                            .values = values

static const struct qkv_attention_kernels attention = { ATTENTION_LAW("float"),
                                                        .native = true,
                                                        .type = QKV_REAL,
                                                        .pack_keys = pack_keys_real,
                                                        .pack_values = pack_values_real,
                                                        .divide = divide_real };
static const struct qkv_attention_kernels attention_bf16 = {
    ATTENTION_LAW("bf16 as float"),  .type = QKV_BF16,
    .pack_query = pack_query_bf16,   .pack_keys = pack_keys_bf16,
    .pack_values = pack_values_bf16, .divide = divide_bf16
};
static const struct qkv_attention_kernels attention_f16 = {
    ATTENTION_LAW("f16 as float"),  .type = QKV_F16,
    .pack_query = pack_query_f16,   .pack_keys = pack_keys_f16,
    .pack_values = pack_values_f16, .divide = divide_f16
};
static const struct qkv_attention_kernels attention_int8 = {
    ATTENTION_LAW("int8 as float"), .type = QKV_REAL, .pack_keys = pack_keys_int8,
    .pack_values = pack_values_int8, .divide = divide_real
};
