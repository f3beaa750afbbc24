// SPDX-License-Identifier: MIT
// dtype.c: names, measures and converts element types and precisions.
//
// The conversion of bf16 and f16 to float is exact; the reverse conversion rounds to nearest even
// and preserves NaN.
// Source: IEEE 754-2019, 3.6 and 4.3.1.
#include "base/base.h"
#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static float of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float from_bf16(uint16_t h)
{
    return of_bits((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); // NaN: quiet, never Inf
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return of_bits(sign | 0x7f800000u | m << 13);
    if (e == 0) return of_bits(sign | bits_of((float)m * 0x1p-24f)); // zero and subnormal: exact
    return of_bits(sign | (e + 112) << 23 | m << 13);
}

static inline uint16_t to_f16(float x)
{
    const uint32_t u = bits_of(x), a = u & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff)); // NaN: quiet
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); // 65520 and more: Inf
    // f16 numbers below 2^-14 are multiples of 2^-24, as are floats between 0.5 and 1: adding 0.5
    // rounds to such a multiple, to nearest even
    if (a < 0x38800000u) return (uint16_t)(sign | (bits_of(of_bits(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13));
}

// The exported functions convert one number.  Array conversions call from_bf16 and the other static
// functions instead: the compiler cannot inline an exported function, because another library may
// replace it.
float qkv_bf16_to_f32(uint16_t h)
{
    return from_bf16(h);
}
uint16_t qkv_f32_to_bf16(float x)
{
    return to_bf16(x);
}
float qkv_f16_to_f32(uint16_t h)
{
    return from_f16(h);
}
uint16_t qkv_f32_to_f16(float x)
{
    return to_f16(x);
}

static const struct {
    const char *name;
    size_t size;
} types[QKV_DTYPE_COUNT] = {
    [QKV_F32] = { "F32", 4 },   [QKV_F64] = { "F64", 8 }, [QKV_F16] = { "F16", 2 },
    [QKV_BF16] = { "BF16", 2 }, [QKV_I64] = { "I64", 8 }, [QKV_I32] = { "I32", 4 },
    [QKV_I16] = { "I16", 2 },   [QKV_I8] = { "I8", 1 },   [QKV_U64] = { "U64", 8 },
    [QKV_U32] = { "U32", 4 },   [QKV_U16] = { "U16", 2 }, [QKV_U8] = { "U8", 1 },
    [QKV_BOOL] = { "BOOL", 1 },
};

size_t qkv_dtype_size(qkv_dtype d)
{
    return (unsigned)d < QKV_DTYPE_COUNT ? types[d].size : 0;
}
const char *qkv_dtype_name(qkv_dtype d)
{
    return (unsigned)d < QKV_DTYPE_COUNT ? types[d].name : "?";
}

int64_t qkv_tensor_count(const struct qkv_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

// Converts element by element with memcpy, because the data may be unaligned.
#define READ(TYPE, EXPR)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        TYPE x;                                                                                    \
        memcpy(&x, p + (size_t)i * sizeof x, sizeof x);                                            \
        to[i] = (EXPR);                                                                            \
    }                                                                                              \
    return true

bool qkv_to_f32(float *to, const void *from, qkv_dtype type, int64_t n)
{
    const char *p = from;
    if (n > 0 && (!to || !from)) return false;
    switch (type) {
    case QKV_F32: READ(float, x);
    case QKV_F64: READ(double, (float)x);
    case QKV_F16: READ(uint16_t, from_f16(x));
    case QKV_BF16: READ(uint16_t, from_bf16(x));
    case QKV_I64: READ(int64_t, (float)x);
    case QKV_I32: READ(int32_t, (float)x);
    case QKV_I16: READ(int16_t, (float)x);
    case QKV_I8: READ(int8_t, (float)x);
    case QKV_U64: READ(uint64_t, (float)x);
    case QKV_U32: READ(uint32_t, (float)x);
    case QKV_U16: READ(uint16_t, (float)x);
    case QKV_U8: READ(uint8_t, (float)x);
    case QKV_BOOL: READ(uint8_t, x ? 1.0f : 0.0f);
    case QKV_DTYPE_COUNT: break;
    }
    return false;
}

#define WRITE(TYPE, EXPR)                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const TYPE x = (EXPR);                                                                     \
        memcpy(p + (size_t)i * sizeof x, &x, sizeof x);                                            \
    }                                                                                              \
    return true

bool qkv_from_f32(void *to, qkv_dtype type, const float *from, int64_t n)
{
    char *p = to;
    if (n > 0 && (!to || !from)) return false;
    switch (type) {
    case QKV_F32: WRITE(float, from[i]);
    case QKV_F64: WRITE(double, (double)from[i]);
    case QKV_F16: WRITE(uint16_t, to_f16(from[i]));
    case QKV_BF16: WRITE(uint16_t, to_bf16(from[i]));
    default: return false; // integers: rounding and overflow are not defined
    }
}

void qkv_tensor_to_f32(float *out, const struct qkv_tensor *t)
{
    qkv_to_f32(out, t->data, t->dtype, qkv_tensor_count(t));
}

static const struct {
    const char *name;
    qkv_dtype type;
    qkv_precision attention;
} precisions[] = {
#define QKV_PRECISION_ROW(ID, NAME, TYPE, ATTENTION)                                               \
    [QKV_PRECISION_##ID] = { NAME, TYPE, QKV_PRECISION_##ATTENTION },
#include "base/precision.def"
#undef QKV_PRECISION_ROW
};
_Static_assert(sizeof precisions / sizeof *precisions == QKV_PRECISIONS, "one row a precision");

const char *qkv_precision_name(qkv_precision p)
{
    return (unsigned)p < QKV_PRECISIONS ? precisions[p].name : NULL;
}

qkv_dtype qkv_precision_type(qkv_precision p)
{
    return (unsigned)p < QKV_PRECISIONS ? precisions[p].type : QKV_DTYPE_COUNT;
}

qkv_precision qkv_precision_attention(qkv_precision p)
{
    return (unsigned)p < QKV_PRECISIONS ? precisions[p].attention : p;
}

bool qkv_precision_parse(qkv_precision *out, const char *text)
{
    const char *name;
    if (!out || !text) return false;
    for (int i = 0; (name = qkv_precision_name((qkv_precision)i)) != NULL; i++)
        if (strcmp(text, name) == 0) {
            *out = (qkv_precision)i;
            return true;
        }
    return false;
}
