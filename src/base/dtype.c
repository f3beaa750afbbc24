// SPDX-License-Identifier: MIT
// dtype.c: element types and precisions: names, sizes, conversions.
//
// bf16 and f16 to float are exact; back they are rounded to nearest even, a NaN stays one.
// IEEE 754-2019, 3.6 and 4.3.1.
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

float qkv_bf16_to_f32(uint16_t h)
{
    return of_bits((uint32_t)h << 16);
}

uint16_t qkv_f32_to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); // NaN: quiet, never Inf
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float qkv_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return of_bits(sign | 0x7f800000u | m << 13);
    if (e == 0) return of_bits(sign | bits_of((float)m * 0x1p-24f)); // zero and subnormal: exact
    return of_bits(sign | (e + 112) << 23 | m << 13);
}

uint16_t qkv_f32_to_f16(float x)
{
    const uint32_t u = bits_of(x), a = u & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff)); // NaN: quiet
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); // 65520 and more: Inf
    if (a < 0x38800000u) // below 2^-14: the unit is 2^-24; adding 0.5 rounds to it, to nearest even
        return (uint16_t)(sign | (bits_of(of_bits(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13));
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

#define CONVERT(TYPE, EXPR)                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                              \
        TYPE x;                                                                                    \
        memcpy(&x, p + (size_t)i * sizeof x, sizeof x);                                            \
        out[i] = (EXPR);                                                                           \
    }                                                                                              \
    break

void qkv_tensor_to_f32(float *out, const struct qkv_tensor *t)
{
    const int64_t n = qkv_tensor_count(t);
    const char *p = t->data;
    switch (t->dtype) {
    case QKV_F32:
        if (n) memcpy(out, p, (size_t)n * sizeof *out);
        break;
    case QKV_F64: CONVERT(double, (float)x);
    case QKV_F16: CONVERT(uint16_t, qkv_f16_to_f32(x));
    case QKV_BF16: CONVERT(uint16_t, qkv_bf16_to_f32(x));
    case QKV_I64: CONVERT(int64_t, (float)x);
    case QKV_I32: CONVERT(int32_t, (float)x);
    case QKV_I16: CONVERT(int16_t, (float)x);
    case QKV_I8: CONVERT(int8_t, (float)x);
    case QKV_U64: CONVERT(uint64_t, (float)x);
    case QKV_U32: CONVERT(uint32_t, (float)x);
    case QKV_U16: CONVERT(uint16_t, (float)x);
    case QKV_U8: CONVERT(uint8_t, (float)x);
    case QKV_BOOL: CONVERT(uint8_t, x ? 1.0f : 0.0f);
    case QKV_DTYPE_COUNT: break;
    }
}

const char *qkv_precision_name(qkv_precision p)
{
    static const char *const names[] = {
        [QKV_PRECISION_F32] = "f32",           [QKV_PRECISION_F32_STRICT] = "f32-strict",
        [QKV_PRECISION_F32_FAST] = "f32-fast", [QKV_PRECISION_BF16] = "bf16",
        [QKV_PRECISION_F16] = "f16",           [QKV_PRECISION_INT8] = "int8",
    };
    return (unsigned)p < sizeof names / sizeof *names ? names[p] : NULL;
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
