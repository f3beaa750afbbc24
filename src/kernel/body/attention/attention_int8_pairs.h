// SPDX-License-Identifier: MIT
// attention_int8_pairs.h: defines attention on 8-bit keys and values with one scale each, which are
// quantised from floats when they are packed; products are sums of pairs of 16-bit integers.
// Requires attention_shape.h, divide_f32 and the functions pairs_put, pairs_load and pairs_dot.
//
// Queries and weights become 16-bit integers with one scale per row:
//
//   scores   s_j = scale_q scale_j sum_e q16_e k8_je
//            q16 = round(q / scale_q),  scale_q = max |q| / limit
//   values   o_f = scale_t sum_j t16_j v8_jf,  t_j = p_j scale_j
//            t16 = round(t / scale_t),  scale_t = max |t| / 32767
//
// The limit is 32767, or so small that a sum over E cannot overflow 32 bits. A sum of integers is
// exact, in any order. docs/numerics.md has the errors.
//
// A panel of keys begins with the scales of its WIDE keys, followed by [ceil(E / 2)][WIDE] pairs of
// adjacent elements of a key. Packed values begin with the scales of all rows, followed by panels
// of WIDE columns (the last panel is as wide as F requires), [capacity / 2][columns] pairs of
// adjacent keys. A packed query consists of its scale and ceil(E / 2) pairs. If E is odd, the last
// pair ends with 0. A key or query with a nonfinite number has the scale NaN, and so all its
// scores are NaN.
#include "kernel/body/attention/attention_int8_scale.h"
#include "kernel/body/attention/attention_pair.h"

enum { INT16_MOST = 32767 };
_Static_assert((int64_t)INT16_MOST *INT8_MOST *QKV_CHUNK <= INT32_MAX, "a chunk fits into a sum");

static size_t key_bytes_int8(int64_t E)
{
    return (size_t)(2 * pairs_of(E)) + sizeof(float);
}

static size_t value_bytes_int8(int64_t F)
{
    return (size_t)width(F) + sizeof(float);
}

static size_t query_bytes_int8(int64_t E)
{
    return (size_t)pairs_of(E) * sizeof(int32_t) + sizeof(float);
}

static char *panel_int8(void *packed, int64_t j, int64_t E)
{
    return (char *)packed + (size_t)(j / WIDE * WIDE) * key_bytes_int8(E);
}

// Writes the integers of n numbers, rounded to nearest even: to[i] = times x[i].
INLINE void put_int16(int16_t *to, const float *x, int64_t n, float times)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) pairs_put(to + i, vf_mul(vf_set1(times), vf_load(x + i)));
    if (i < n) {
        int16_t rest[VW];
        pairs_put(rest, vf_mul(vf_set1(times), vf_load_n(x + i, n - i)));
        memcpy(to + i, rest, (size_t)(n - i) * sizeof *rest);
    }
}

static void pack_query_int8(void *to, const void *given, int64_t E)
{
    const float limit = (float)qkv_min64(INT16_MOST, INT32_MAX / INT8_MOST / E);
    bool finite;
    float times, scale = scale_of(largest(given, E, &finite), limit, &times);
    int16_t *const q = (int16_t *)(void *)((char *)to + sizeof scale);
    if (!finite) scale = NAN;
    memcpy(to, &scale, sizeof scale);
    q[2 * pairs_of(E) - 1] = 0;
    put_int16(q, given, E, times);
}

// Writes the 8-bit integers of n numbers: to[i] = times x[i], and 0 for a nonfinite number.
INLINE void put_int8(int8_t *to, const float *x, int64_t n, float times)
{
    for (int64_t i = 0; i < n; i += VW) {
        const vf a = vf_load_n(x + i, qkv_min64(VW, n - i));
        int8_t some[VW];
        vf_store_int8(some, vf_mul(vf_set1(times), vf_select(vm_finite(a), a, vf_zero())));
        memcpy(to + i, some, (size_t)qkv_min64(VW, n - i));
    }
}

static void pack_keys_int8(void *packed, const void *given, int64_t ldk, int64_t at, int64_t n,
                           int64_t E)
{
    enum { BLOCK = 256 }; // elements of a key that are quantised at once
    const float *k = given;
    const int64_t end = at + n, whole = (end + VW - 1) / VW * VW;
    for (int64_t j = at; j < whole; j++, k += ldk) {
        char *const panel = panel_int8(packed, j, E);
        uint16_t *const pair = (uint16_t *)(void *)(panel + WIDE * sizeof(float)) + j % WIDE;
        float times = 0, scale = 0;
        bool finite = true;
        if (j < end) scale = scale_of(largest(k, E, &finite), INT8_MOST, &times);
        ((float *)(void *)panel)[j % WIDE] = finite ? scale : NAN;
        for (int64_t e = 0; e < E; e += BLOCK) {
            const int64_t some = qkv_min64(BLOCK, E - e);
            int8_t x[BLOCK];
            if (j < end)
                put_int8(x, k + e, some, times);
            else
                memset(x, 0, (size_t)some);
            if (some % 2) x[some] = 0;
            for (int64_t i = 0; i < pairs_of(some); i++)
                memcpy(pair + (e / 2 + i) * WIDE, x + 2 * i, sizeof *pair);
        }
    }
}

static bool pack_values_int8(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                             int64_t capacity, int64_t F)
{
    float *scales = packed;
    const float *v = given;
    bool all = true;
    for (int64_t j = at; j < at + n; j++, v += ldv) {
        int8_t *panel = (int8_t *)(scales + capacity);
        bool finite;
        float times;
        scales[j] = scale_of(largest(v, F, &finite), INT8_MOST, &times);
        if (!finite) all = false;
        for (int64_t f0 = 0; f0 < F; f0 += WIDE, panel += capacity * WIDE) {
            const int64_t columns = qkv_min64(WIDE, F - f0), ld = width(columns);
            int8_t x[WIDE] = { 0 }, *const to = panel + j / 2 * 2 * ld + j % 2;
            put_int8(x, v + f0, columns, times);
            for (int64_t f = 0; f < ld; f++) to[2 * f] = x[f];
        }
    }
    return all;
}

// Prefetches what a tile of few rows, as in decoding, needs soon: it uses a number only a few times
// after reading it from memory (attention_tiles.h). The lines may lie outside the array.
INLINE void prefetch_int8(const int8_t *p, const int rows, const int vecs)
{
    enum { ROWS = 4, AHEAD = 4096, LINE_BYTES = 64 };
    if (rows <= ROWS)
        UNROLL for (int i = 0; i < vecs * 2 * VW; i += LINE_BYTES)
            __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(AHEAD + i)));
}

// Computes one tile of scores; rows and vecs are constants where this function is inlined.
INLINE void scores_tile_int8(real *s, const void *const *q, const int8_t *panel,
                             const float *scales, int64_t pairs, const int rows, const int vecs)
{
    vi acc[MR][NR];
    const char *row[MR];
    UNROLL for (int i = 0; i < rows; i++)
    {
        row[i] = (const char *)q[i] + sizeof(float);
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vi_set1(0);
    }
    for (int64_t e = 0; e < pairs; e++, panel += 2 * WIDE) {
        vi k[NR];
        prefetch_int8(panel, rows, vecs);
        UNROLL for (int j = 0; j < vecs; j++) k[j] = pairs_load(panel + j * 2 * VW);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const vi a = one_pair(row[i] + e * (int64_t)sizeof(int32_t));
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = pairs_dot(acc[i][j], a, k[j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        float scale;
        memcpy(&scale, q[i], sizeof scale);
        UNROLL for (int j = 0; j < vecs; j++)
        {
            const vf x = vf_mul(vf_of_vi(acc[i][j]), vf_set1(scale));
            vf_store(s + i * QKV_CHUNK + j * VW, vf_mul(x, vf_load(scales + j * VW)));
        }
    }
}

static void scores_int8(real *s, const void *const *q, int rows, const void *packed, int64_t E,
                        struct qkv_columns span)
{
    const int64_t pairs = pairs_of(E);
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const char *begin = panel_int8((void *)(uintptr_t)packed, j, E);
        const float *scales = (const float *)(const void *)begin + j % WIDE;
        const int8_t *panel = (const int8_t *)begin + WIDE * sizeof(float) + 2 * (j % WIDE);
        switch (rows * 8 + (next - j) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: scores_tile_int8(s + j, q, panel, scales, pairs, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

// The weights of a tile, each times the scale of its value, as 16-bit integers.
struct weights_int8 {
    float scale[MR];
    int16_t t[MR][QKV_CHUNK];
};

// Computes the weights of row i in the columns of the spans; the other half of a pair that a span
// begins or ends with is 0.
INLINE void weights_of_row(struct weights_int8 *to, int i, const real *s, const float *scales,
                           const struct qkv_columns *spans, int n)
{
    float t[QKV_CHUNK], times;
    vf most = vf_zero();
    bool finite = true;
    for (int p = 0; p < n; p++) {
        to->t[i][spans[p].from / 2 * 2] = 0;
        to->t[i][(spans[p].to - 1) / 2 * 2 + 1] = 0;
        for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
            const int64_t some = qkv_min64(VW, spans[p].to - j);
            const vf x = vf_mul(vf_load_n(s + j, some), vf_load_n(scales + j, some));
            if (!vm_full(vm_finite(x))) finite = false;
            most = vf_max(vf_abs(x), most);
            vf_store_n(t + j, x, some);
        }
    }
    to->scale[i] = scale_of(vf_highest(most), INT16_MOST, &times);
    if (!finite) to->scale[i] = NAN;
    for (int p = 0; p < n; p++)
        put_int16(to->t[i] + spans[p].from, t + spans[p].from, spans[p].to - spans[p].from, times);
}

// Adds weighted values to one tile of sums, as attention_tiles.h does.
INLINE void values_tile_int8(real *o, int64_t ldo, const real *old, const real *now,
                             const struct weights_int8 *w, const int8_t *packed,
                             const struct qkv_columns *spans, int n, const int rows, const int vecs)
{
    vi acc[MR][NR];
    int32_t done = 0; // pairs; two spans may share one
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
        vi_set1(0);
    for (int p = 0; p < n; p++) {
        int32_t pair = spans[p].from / 2 > done ? spans[p].from / 2 : done;
        done = (spans[p].to + 1) / 2;
        const int8_t *v = packed + (int64_t)pair * 2 * vecs * VW;
        for (; pair < done; pair++, v += 2 * vecs * VW) {
            vi x[NR];
            // the half of a pair that no span contains has the weight 0 and may be uninitialised
            QKV_WRITTEN(v, (size_t)(2 * vecs * VW));
            prefetch_int8(v, rows, vecs);
            UNROLL for (int j = 0; j < vecs; j++) x[j] = pairs_load(v + j * 2 * VW);
            UNROLL for (int i = 0; i < rows; i++)
            {
                const vi a = one_pair(&w->t[i][2 * pair]);
                UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = pairs_dot(acc[i][j], a, x[j]);
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
    {
        real *at = o + i * ldo + j * VW;
        const vf x = vf_mul(vf_of_vi(acc[i][j]), vf_set1(w->scale[i]));
        const vf sum = vf_mul(vf_set1(now[i]), x);
        vf_store(at, old ? vf_fma(vf_set1(old[i]), vf_load(at), sum) : sum);
    }
}

static void values_int8(real *o, const real *old, const real *now, const real *s, int rows,
                        const void *packed, int64_t capacity, int64_t F,
                        const struct qkv_columns *spans, int n)
{
    const float *scales = packed;
    const int8_t *panel = (const int8_t *)(scales + capacity);
    const int64_t ldo = width(F);
    struct weights_int8 w;
    for (int i = 0; i < rows; i++) weights_of_row(&w, i, s + i * QKV_CHUNK, scales, spans, n);
    for (int64_t f = 0; f < ldo; f += WIDE, panel += capacity * WIDE) {
        switch (rows * 8 + qkv_min64(ldo - f, WIDE) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: values_tile_int8(o + f, ldo, old, now, &w, panel, spans, n, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static const struct qkv_attention_kernels attention_int8 = {
    ATTENTION_SHARED(ATTENTION_INT8, MR, WIDE, VW),
    .native = true,
    .type = QKV_F32,
    .key_bytes = key_bytes_int8,
    .value_bytes = value_bytes_int8,
    .query_bytes = query_bytes_int8,
    .pack_query = pack_query_int8,
    .pack_keys = pack_keys_int8,
    .pack_values = pack_values_int8,
    .scores = scores_int8,
    .values = values_int8,
    .divide = divide_f32,
};
