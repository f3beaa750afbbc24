// SPDX-License-Identifier: MIT
// attention_pairs.h: defines attention on bf16 with the instruction vdpbf16ps: a 32-bit lane
// contains a pair of bf16, and both products are added to a float. Requires vec_avx512.h and exp.h;
// only for AVX-512 BF16.
//
// Keys are packed in panels of WIDE keys, as [ceil(E / 2)][WIDE] pairs of adjacent elements of a
// head. Values are packed in panels of WIDE columns (the last panel is as wide as F requires), as
// [capacity / 2][columns] pairs of adjacent keys. Queries are packed as pairs of adjacent elements.
// If E is odd, the last pair ends with 0. attention_probabilities.h stores the weights as bf16.
// docs/numerics.md describes how the instruction rounds and treats subnormal numbers.

#include "kernel/body/attention/attention_names.h"
#include "kernel/body/attention/attention_rows.h"
#include "kernel/body/attention/attention_probabilities.h"
#include "kernel/body/attention/attention_table.h"
#include "kernel/body/attention/attention_pair.h"

enum { MR = 6, NR = 4, WIDE = NR * VW };
typedef uint32_t bf16_pair; // pair of bf16; the first number is in the low half

static int64_t width(int64_t F)
{
    return (F + VW - 1) / VW * VW;
}

static size_t pair_bytes(int64_t E)
{
    return (size_t)pairs_of(E) * sizeof(bf16_pair);
}

static size_t pair_value_bytes(int64_t F)
{
    return (size_t)width(F) * sizeof(uint16_t);
}

// Loads the first n of 32 numbers; the other numbers are not read and become 0.
INLINE __m512i load_halves(const uint16_t *p, int64_t n)
{
    return n >= 2 * VW ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((1u << n) - 1, p);
}
static void pack_query_pairs(void *to, const void *q, int64_t E)
{
    uint16_t *packed = to;
    const uint16_t *from = q;
    int64_t e = 0;
    for (; e + 2 * VW <= E; e += 2 * VW)
        _mm512_storeu_si512(packed + e, _mm512_loadu_si512(from + e));
    if (e < E) // if E is odd, the last pair ends with 0
        _mm512_mask_storeu_epi16(packed + e, 0xffffffffu >> (2 * VW - 2 * pairs_of(E - e)),
                                 load_halves(from + e, E - e));
}

// Divides the sums of a row and stores them as store_pairs does.
static void divide_pairs(void *to, const real *o, real sum, int64_t F)
{
    uint16_t *out = to;
    if (sum == 0) {
        memset(out, 0, (size_t)F * sizeof *out);
        return;
    }
    const vf times = vf_set1(1 / sum), zero = vf_zero(); // adding 0 turns -0 into 0
    int64_t f = 0;
    for (; f + 2 * VW <= F; f += 2 * VW) {
        const vf a = vf_fma(vf_load(o + f), times, zero);
        const vf b = vf_fma(vf_load(o + f + VW), times, zero);
        _mm512_storeu_si512(out + f, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
    for (; f < F; f += VW)
        store_pairs_n(out + f, vf_fma(vf_load(o + f), times, zero), qkv_min64(VW, F - f));
}

INLINE __m512bh as_pairs(__m512i x)
{
    return (__m512bh)x;
}

// Packs the keys k[0 .. rows-1] of E numbers into lanes 0 .. rows-1 of a panel, and 0 into the
// other lanes. Only lanes in the mask `stay` are written.
INLINE void pack_lanes(bf16_pair *column, vm stay, const void *const *k, int rows, int64_t E)
{
    const int64_t deep = pairs_of(E);
    for (int64_t e = 0; e < deep; e += VW) {
        const int64_t columns = qkv_min64(VW, deep - e), numbers = qkv_min64(E - 2 * e, 2 * VW);
        vf r[VW];
        UNROLL for (int i = 0; i < VW; i++) r[i] =
            i < rows ? _mm512_castsi512_ps(load_halves((const uint16_t *)k[i] + 2 * e, numbers))
                     : vf_zero();
        vf_transpose(r);
        for (int i = 0; i < columns; i++)
            _mm512_mask_storeu_epi32(column + (e + i) * WIDE, stay, _mm512_castps_si512(r[i]));
    }
}

static void pack_keys_pairs(void *packed, const void *given, int64_t ldk, int64_t at, int64_t n,
                            int64_t E)
{
    const uint16_t *k = given;
    const int64_t deep = pairs_of(E);
    for (int64_t rows; n > 0; at += rows, n -= rows, k += rows * ldk) {
        // lanes before `lane` contain earlier keys, which must not change
        const int64_t lane = at % VW;
        bf16_pair *column = (bf16_pair *)packed + at / WIDE * WIDE * deep + at % WIDE;
        const void *row[VW];
        rows = qkv_min64(VW - lane, n);
        for (int64_t i = 0; i < rows; i++) row[i] = k + i * ldk;
        for (int i = 0; rows == VW && n >= 2 * VW && i < VW; i++)
            for (int64_t e = 0; e < E; e += 2 * VW) __builtin_prefetch(k + (i + VW) * ldk + e);
        pack_lanes(column, vm_range(0, VW - lane), row, (int)rows, E);
    }
}

// Returns the mask of the bf16 numbers in x that are finite.
INLINE __mmask32 finite_halves(__m512i x)
{
    const __m512i most = _mm512_set1_epi16(0x7f80);
    return _mm512_cmpneq_epi16_mask(_mm512_and_si512(x, most), most);
}

// Interleaves two rows of up to 32 numbers (NULL: a row of 0) as pairs and writes the halves whose
// bit is set in `there`. Nonfinite numbers become 0; returns true if all numbers are finite.
INLINE bool pack_two(bf16_pair *to, __mmask32 there, const uint16_t *a, const uint16_t *b,
                     int64_t n)
{
    static const uint16_t low[] = { 0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 };
    const __m512i none = _mm512_setzero_si512();
    const __m512i x = a ? load_halves(a, n) : none, y = b ? load_halves(b, n) : none;
    const __mmask32 fx = finite_halves(x), fy = finite_halves(y);
    const __m512i fine = _mm512_maskz_mov_epi16(fx, x), good = _mm512_maskz_mov_epi16(fy, y);
    const __m512i first = _mm512_loadu_si512(low);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(VW));
    _mm512_mask_storeu_epi16(to, there, _mm512_permutex2var_epi16(fine, first, good));
    if (n > VW)
        _mm512_mask_storeu_epi16(to + VW, there, _mm512_permutex2var_epi16(fine, second, good));
    return (fx & fy) == 0xffffffffu;
}

static bool pack_values_pairs(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                              int64_t capacity, int64_t F)
{
    bf16_pair *to = packed;
    const uint16_t *v = given;
    bool finite = true;
    for (int64_t f0 = 0; f0 < F; f0 += WIDE, to += capacity / 2 * WIDE) {
        const int64_t columns = qkv_min64(WIDE, F - f0), ld = width(columns);
        for (int64_t j = at / 2 * 2; j < at + n; j += 2) {
            const uint16_t *a = j >= at ? v + (j - at) * ldv + f0 : NULL;
            const uint16_t *b = j + 1 < at + n ? v + (j + 1 - at) * ldv + f0 : NULL;
            // If only one row of a pair is new, the half of the pair that belongs to the other row
            // is unchanged.
            const __mmask32 there = (a ? 0x55555555u : 0) | (b ? 0xaaaaaaaau : 0);
            for (int64_t f = 0; j + 9 < at + n && f < columns; f += 2 * VW) {
                __builtin_prefetch(v + (j + 8 - at) * ldv + f0 + f);
                __builtin_prefetch(v + (j + 9 - at) * ldv + f0 + f);
            }
            for (int64_t f = 0; f < columns; f += 2 * VW)
                if (!pack_two(to + j / 2 * ld + f, there, a ? a + f : NULL, b ? b + f : NULL,
                              qkv_min64(2 * VW, columns - f)))
                    finite = false;
        }
    }
    return finite;
}

INLINE __m512i load_pairs(const bf16_pair *p)
{
    return _mm512_loadu_si512(p);
}

// Computes one tile of scores: s[rows][vecs * VW] = q[rows][E] panel[E][WIDE]; rows and vecs are
// constants where this function is inlined.
INLINE void scores_tile(real *s, const void *const *q, const bf16_pair *panel, int64_t deep,
                        const int rows, const int vecs)
{
    vf acc[MR][NR];
    const char *row[MR];
    UNROLL for (int i = 0; i < rows; i++)
    {
        row[i] = q[i];
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_zero();
    }
    for (int64_t e = 0; e < deep; e++, panel += WIDE) {
        __m512i k[NR];
        UNROLL for (int j = 0; j < vecs; j++) k[j] = load_pairs(panel + j * VW);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const __m512i a = one_pair(row[i] + e * (int64_t)sizeof(bf16_pair));
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
                _mm512_dpbf16_ps(acc[i][j], as_pairs(a), as_pairs(k[j]));
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
        vf_store(s + i * QKV_CHUNK + j * VW, acc[i][j]);
}

// Adds one step to the sums of a tile: acc += weights times values of one pair of keys; `half` is
// the mask of the keys of the pair that are in the span (0xffffffff: both keys).
INLINE void values_step(vf acc[MR][NR], const char *p, const bf16_pair *v, const uint32_t half,
                        const int rows, const int vecs)
{
    const __m512i keep = _mm512_set1_epi32((int32_t)half);
    __m512i x[NR];
    UNROLL for (int j = 0; j < vecs; j++)
    {
        x[j] = load_pairs(v + j * VW);
        if (half != 0xffffffffu) x[j] = _mm512_and_si512(x[j], keep);
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        __m512i a = one_pair(p + i * QKV_CHUNK * (int64_t)sizeof(real));
        if (half != 0xffffffffu) a = _mm512_and_si512(a, keep);
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
            _mm512_dpbf16_ps(acc[i][j], as_pairs(a), as_pairs(x[j]));
    }
}

// Adds weighted values to one tile of sums: o[rows][vecs * VW] = old o + now weights[rows][..]
// values[..][vecs * VW] over the columns of the spans.
INLINE void values_tile(real *o, int64_t ldo, const real *old, const real *now, const real *s,
                        const bf16_pair *packed, const struct qkv_columns *spans, int n,
                        const int rows, const int vecs)
{
    vf acc[MR][NR];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
        vf_zero();
    for (int p = 0; p < n; p++) {
        int32_t j = spans[p].from;
        const int32_t to = spans[p].to;
        const char *a = (const char *)s + j / 2 * (int64_t)sizeof(bf16_pair);
        const bf16_pair *v = packed + j / 2 * vecs * VW;
        if (j % 2 && j < to) {
            values_step(acc, a, v, 0xffff0000u, rows, vecs);
            j++, a += sizeof(bf16_pair), v += vecs * VW;
        }
        for (; j + 1 < to; j += 2, a += sizeof(bf16_pair), v += vecs * VW)
            values_step(acc, a, v, 0xffffffffu, rows, vecs);
        if (j < to) values_step(acc, a, v, 0x0000ffffu, rows, vecs);
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
    {
        real *at = o + i * ldo + j * VW;
        const vf sum = vf_mul(vf_set1(now[i]), acc[i][j]);
        vf_store(at, old ? vf_fma(vf_set1(old[i]), vf_load(at), sum) : sum);
    }
}

#define EACH_VECS(I, X) X(I, 1) X(I, 2) X(I, 3) X(I, 4)
#define EACH_TILE(X)                                                                               \
    EACH_VECS(1, X) EACH_VECS(2, X) EACH_VECS(3, X) EACH_VECS(4, X) EACH_VECS(5, X) EACH_VECS(6, X)

static void scores_pairs(real *s, const void *const *q, int rows, const void *packed, int64_t E,
                         struct qkv_columns span)
{
    const bf16_pair *keys = packed;
    const int64_t deep = pairs_of(E);
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const bf16_pair *panel = keys + j / WIDE * WIDE * deep + j % WIDE;
        switch (rows * 8 + (next - j) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: scores_tile(s + j, q, panel, deep, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static void values_pairs(real *o, const real *old, const real *now, const real *s, int rows,
                         const void *given, int64_t capacity, int64_t F,
                         const struct qkv_columns *spans, int n)
{
    const bf16_pair *packed = given;
    const int64_t ldo = width(F);
    for (int64_t f = 0; f < ldo; f += WIDE, packed += capacity / 2 * WIDE) {
        switch (rows * 8 + qkv_min64(ldo - f, WIDE) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: values_tile(o + f, ldo, old, now, s, packed, spans, n, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static const struct qkv_attention_kernels attention_pairs = { .isa = ISA_NAME,
                                                              .arithmetic = "bf16 pairs",
                                                              .native = true,
                                                              .type = QKV_BF16,
                                                              .rows = MR,
                                                              .keys = WIDE,
                                                              .lanes = VW,
                                                              .key_bytes = pair_bytes,
                                                              .value_bytes = pair_value_bytes,
                                                              .query_bytes = pair_bytes,
                                                              .pack_keys = pack_keys_pairs,
                                                              .pack_values = pack_values_pairs,
                                                              .pack_query = pack_query_pairs,
                                                              .width = width,
                                                              .scores = scores_pairs,
                                                              .modify = modify,
                                                              .softmax = softmax_pairs,
                                                              .clear = clear_pairs,
                                                              .drop = drop_pairs,
                                                              .probability = probability_pairs,
                                                              .merge = merge,
                                                              .join = join,
                                                              .values = values_pairs,
                                                              .divide = divide_pairs,
                                                              .weights = weights };
