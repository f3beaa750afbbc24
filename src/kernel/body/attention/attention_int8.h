// SPDX-License-Identifier: MIT
// attention_int8.h: defines attention on 8-bit keys and values with one scale each, which are
// quantised from floats when they are packed; products convert them to floats. Requires
// attention_stored.h.
//
// A panel of keys begins with the scales of its WIDE keys. Packed values begin with the scales of
// all rows, followed by panels as in attention_packs.h. A key with a nonfinite number has the scale
// NaN, and so all its scores are NaN.
typedef int8_t element_int8;
#define STORED int8
#include "kernel/body/attention/attention_tiles.h"
#undef STORED

#include "kernel/body/attention/attention_int8_scale.h"

static size_t key_bytes_int8(int64_t E)
{
    return (size_t)E + sizeof(float);
}

static size_t value_bytes_int8(int64_t F)
{
    return (size_t)width(F) + sizeof(float);
}

static int8_t *panel_int8(void *packed, int64_t j, int64_t E)
{
    return (int8_t *)packed + j / WIDE * WIDE * (E + (int64_t)sizeof(float));
}

static void pack_keys_int8(void *packed, const void *given, int64_t ldk, int64_t at, int64_t n,
                           int64_t E)
{
    const float *k = given;
    for (int64_t rows; n > 0; at += rows, n -= rows, k += rows * ldk) {
        int8_t *const begin = panel_int8(packed, at, E), *column;
        // lanes before `lane` contain earlier keys, which must not change
        const int64_t lane = at % VW;
        float times[VW], one[VW];
        rows = qkv_min64(VW - lane, n);
        for (int i = 0; i < VW; i++) {
            bool finite = true;
            float scale = 0;
            times[i] = 0;
            if (i < rows) scale = scale_of(largest(k + i * ldk, E, &finite), INT8_MOST, &times[i]);
            one[i] = finite ? scale : NAN;
        }
        memcpy((float *)(void *)begin + at % WIDE, one, (size_t)(VW - lane) * sizeof *one);
        column = begin + WIDE * sizeof(float) + at % WIDE;
        for (int64_t e = 0; e < E; e += VW) {
            const int64_t columns = qkv_min64(VW, E - e);
            vf r[VW];
            for (int i = 0; i < VW; i++)
                r[i] = i < rows ? vf_mul(vf_set1(times[i]), vf_load_n(k + i * ldk + e, columns))
                                : vf_zero();
            vf_transpose(r);
            for (int i = 0; i < columns; i++) {
                int8_t bytes[VW];
                vf_store_int8(bytes, r[i]);
                memcpy(column + (e + i) * WIDE, bytes, (size_t)(VW - lane));
            }
        }
    }
}

static bool pack_values_int8(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                             int64_t capacity, int64_t F)
{
    float *scales = packed;
    const float *v = given;
    bool all = true;
    for (int64_t j = 0; j < n; j++, v += ldv) {
        bool finite;
        float times;
        scales[at + j] = scale_of(largest(v, F, &finite), INT8_MOST, &times);
        if (!finite) all = false;
        int8_t *panel = (int8_t *)(scales + capacity);
        for (int64_t f0 = 0; f0 < F; f0 += WIDE, panel += capacity * WIDE) {
            const int64_t columns = qkv_min64(WIDE, F - f0), ld = width(columns);
            for (int64_t f = 0; f < columns; f += VW) {
                const vf x = vf_load_n(v + f0 + f, qkv_min64(VW, columns - f));
                vf_store_int8(panel + (at + j) * ld + f,
                              vf_mul(vf_set1(times), vf_select(vm_finite(x), x, vf_zero())));
            }
        }
    }
    return all;
}

static void scaled_scores_int8(real *s, const void *const *q, int rows, const void *packed,
                               int64_t E, struct qkv_columns span)
{
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const int8_t *panel = panel_int8((void *)(uintptr_t)packed, j, E);
        const float *scale = (const float *)(const void *)panel;
        const int32_t at = j % WIDE, to = at + next - j;
        // Computes the product of this panel alone, with columns counted from its first key.
        scores_int8(s + j - at, q, rows, panel + WIDE * sizeof(float), E,
                    (struct qkv_columns){ at, to });
        for (int i = 0; i < rows; i++)
            for (int32_t c = at; c < to; c += VW) {
                real *x = s + i * QKV_CHUNK + j - at + c;
                vf_store(x, vf_mul(vf_load(x), vf_load(scale + c)));
            }
    }
}

// Adds weighted INT8 values: each weight is first multiplied by the scale of the value row that it
// weights.
static void scaled_values_int8(real *o, const real *old, const real *now, const real *s, int rows,
                               const void *packed, int64_t capacity, int64_t F,
                               const struct qkv_columns *spans, int n)
{
    const float *scales = packed;
    real t[MR * QKV_CHUNK];
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
                const int64_t some = qkv_min64(VW, spans[p].to - j);
                vf_store_n(
                    t + i * QKV_CHUNK + j,
                    vf_mul(vf_load_n(s + i * QKV_CHUNK + j, some), vf_load_n(scales + j, some)),
                    some);
            }
    values_int8(o, old, now, t, rows, scales + capacity, capacity, F, spans, n);
}

static const struct qkv_attention_kernels attention_int8 = { ATTENTION_SHARED("int8 as float", MR,
                                                                              WIDE, VW),
                                                             .type = QKV_F32,
                                                             .key_bytes = key_bytes_int8,
                                                             .value_bytes = value_bytes_int8,
                                                             .query_bytes = query_bytes,
                                                             .pack_keys = pack_keys_int8,
                                                             .pack_values = pack_values_int8,
                                                             .scores = scaled_scores_int8,
                                                             .values = scaled_values_int8,
                                                             .divide = divide_f32 };
