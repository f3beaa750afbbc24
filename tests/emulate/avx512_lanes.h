// SPDX-License-Identifier: MIT
// avx512_lanes.h: emulates the intrinsics of AVX-512 that load, store, compare, select and move
// lanes. Part of avx512.h.

// ---- loads and stores --------------------------------------------------------------------------
// The memory of lanes outside a mask is neither read nor written.
EMULATED __m512 emulated_loadu_ps(const void *p)
{
    __m512 r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
EMULATED void emulated_storeu_ps(void *p, __m512 a)
{
    __builtin_memcpy(p, &a, sizeof a);
}
EMULATED __m512i emulated_loadu_si512(const void *p)
{
    __m512i r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
EMULATED void emulated_storeu_si512(void *p, __m512i a)
{
    __builtin_memcpy(p, &a, sizeof a);
}
EMULATED void emulated_require_aligned(const void *p)
{
    if ((uintptr_t)p % 64) __builtin_trap();
}
EMULATED __m512i emulated_load_si512(const void *p)
{
    emulated_require_aligned(p);
    return emulated_loadu_si512(p);
}
EMULATED void emulated_store_si512(void *p, __m512i a)
{
    emulated_require_aligned(p);
    emulated_storeu_si512(p, a);
}
EMULATED void emulated_move(void *to, const void *from, uint32_t mask, int lanes, int bytes)
{
    for (int i = 0; i < lanes; i++)
        if (mask >> i & 1)
            for (int b = i * bytes; b < (i + 1) * bytes; b++)
                ((char *)to)[b] = ((const char *)from)[b];
}
EMULATED __m512 emulated_maskz_loadu_ps(__mmask16 m, const void *p)
{
    __m512 r = { 0 };
    emulated_move(&r, p, m, 16, 4);
    return r;
}
EMULATED __m512i emulated_maskz_loadu_epi16(__mmask32 m, const void *p)
{
    __m512i r = { 0 };
    emulated_move(&r, p, m, 32, 2);
    return r;
}
EMULATED __m256i emulated_256_maskz_loadu_epi16(__mmask16 m, const void *p)
{
    __m256i r = { 0 };
    emulated_move(&r, p, m, 16, 2);
    return r;
}
EMULATED __m128i emulated_128_maskz_loadu_epi8(__mmask16 m, const void *p)
{
    __m128i r = { 0 };
    emulated_move(&r, p, m, 16, 1);
    return r;
}
EMULATED void emulated_mask_storeu_ps(void *p, __mmask16 m, __m512 a)
{
    emulated_move(p, &a, m, 16, 4);
}
EMULATED void emulated_mask_storeu_epi32(void *p, __mmask16 m, __m512i a)
{
    emulated_move(p, &a, m, 16, 4);
}
EMULATED void emulated_mask_storeu_epi16(void *p, __mmask32 m, __m512i a)
{
    emulated_move(p, &a, m, 32, 2);
}
EMULATED void emulated_256_mask_storeu_epi16(void *p, __mmask16 m, __m256i a)
{
    emulated_move(p, &a, m, 16, 2);
}

// ---- comparisons -------------------------------------------------------------------------------
EMULATED __mmask16 emulated_mask_of(u32x16 lanes) // of -1 and 0
{
    const union halves x = { .u = lanes };
    return (__mmask16)(_mm256_movemask_ps(x.hf[0]) | _mm256_movemask_ps(x.hf[1]) << 8);
}
// Bit 4 of a predicate selects only whether quiet NaN raises a flag, which nothing reads.
EMULATED __mmask16 emulated_cmp_ps_mask(__m512 a, __m512 b, int predicate)
{
    const u32x16 less = (u32x16)(a < b), equal = (u32x16)(a == b), greater = (u32x16)(a > b);
    const u32x16 unordered = ~(less | equal | greater);
    switch (predicate & 15) {
    case _CMP_EQ_OQ: return emulated_mask_of(equal);
    case _CMP_LT_OS: return emulated_mask_of(less);
    case _CMP_LE_OS: return emulated_mask_of(less | equal);
    case _CMP_UNORD_Q: return emulated_mask_of(unordered);
    case _CMP_NEQ_UQ: return emulated_mask_of(~equal);
    case _CMP_NLT_US: return emulated_mask_of(~less);
    case _CMP_NLE_US: return emulated_mask_of(~(less | equal));
    case _CMP_ORD_Q: return emulated_mask_of(~unordered);
    case _CMP_EQ_UQ: return emulated_mask_of(equal | unordered);
    case _CMP_NGE_US: return emulated_mask_of(less | unordered);
    case _CMP_NGT_US: return emulated_mask_of(~greater);
    case _CMP_FALSE_OQ: return 0;
    case _CMP_NEQ_OQ: return emulated_mask_of(less | greater);
    case _CMP_GE_OS: return emulated_mask_of(equal | greater);
    case _CMP_GT_OS: return emulated_mask_of(greater);
    default: return 0xffff;
    }
}
EMULATED __mmask16 emulated_cmpge_epi32_mask(__m512i a, __m512i b)
{
    return emulated_mask_of((u32x16)((i32x16)a >= (i32x16)b));
}
EMULATED __mmask16 emulated_cmple_epi32_mask(__m512i a, __m512i b)
{
    return emulated_mask_of((u32x16)((i32x16)a <= (i32x16)b));
}
EMULATED __mmask16 emulated_cmplt_epi32_mask(__m512i a, __m512i b)
{
    return emulated_mask_of((u32x16)((i32x16)a < (i32x16)b));
}
EMULATED __mmask16 emulated_cmpge_epu32_mask(__m512i a, __m512i b)
{
    return emulated_mask_of((u32x16)((u32x16)a >= (u32x16)b));
}
EMULATED __mmask32 emulated_cmpneq_epi16_mask(__m512i a, __m512i b)
{
    const u16x32 x = (u16x32)a, y = (u16x32)b;
    __mmask32 m = 0;
    for (int i = 0; i < 32; i++) m |= (__mmask32)(x[i] != y[i]) << i;
    return m;
}
EMULATED __mmask16 emulated_128_test_epi8_mask(__m128i a, __m128i b)
{
    const __m128i none = _mm_cmpeq_epi8(_mm_and_si128(a, b), _mm_setzero_si128());
    return (__mmask16)~_mm_movemask_epi8(none);
}
EMULATED __mmask16 emulated_fpclass_ps_mask(__m512 a, int classes)
{
    enum { QUIET = 1, ZERO = 2, MINUS_ZERO = 4, INF = 8, MINUS_INF = 16, SUBNORMAL = 32 };
    enum { MINUS = 64, SIGNALLING = 128 };
    __mmask16 m = 0;
    EACH_LANE(i)
    {
        const uint32_t u = emulated_bits(a[i]), x = u & 0x7fffffffu;
        int has;
        if (x > 0x7f800000u)
            has = x & 0x400000u ? QUIET : SIGNALLING;
        else if (x == 0x7f800000u)
            has = u == x ? INF : MINUS_INF;
        else if (!x)
            has = u == x ? ZERO : MINUS_ZERO;
        else
            has = (x < 0x00800000u ? SUBNORMAL : 0) | (u == x ? 0 : MINUS);
        m |= (__mmask16)((has & classes) != 0) << i;
    }
    return m;
}

// ---- selections --------------------------------------------------------------------------------
EMULATED __m512i emulated_mask_mov_epi32(__m512i other, __mmask16 m, __m512i a)
{
    u32x16 r = (u32x16)other;
    EACH_LANE(i) r[i] = m >> i & 1 ? ((u32x16)a)[i] : r[i];
    return (__m512i)r;
}
EMULATED __m512i emulated_mask_mov_epi16(__m512i other, __mmask32 m, __m512i a)
{
    u16x32 r = (u16x32)other;
    for (int i = 0; i < 32; i++) r[i] = m >> i & 1 ? ((u16x32)a)[i] : r[i];
    return (__m512i)r;
}
EMULATED __m512i emulated_maskz_mov_epi16(__mmask32 m, __m512i a)
{
    return emulated_mask_mov_epi16((__m512i){ 0 }, m, a);
}
EMULATED __m512 emulated_mask_blend_ps(__mmask16 m, __m512 a, __m512 b) // per lane: m ? b : a
{
    return (__m512)emulated_mask_mov_epi32((__m512i)a, m, (__m512i)b);
}
EMULATED __m512 emulated_maskz_mov_ps(__mmask16 m, __m512 a)
{
    return emulated_mask_blend_ps(m, (__m512){ 0 }, a);
}
EMULATED __m512 emulated_maskz_add_ps(__mmask16 m, __m512 a, __m512 b)
{
    return emulated_maskz_mov_ps(m, a + b);
}
EMULATED __m512 emulated_maskz_scalef_ps(__mmask16 m, __m512 a, __m512 n)
{
    return emulated_maskz_mov_ps(m, emulated_scalef_ps(a, n));
}
EMULATED __m512i emulated_mask_max_epi32(__m512i other, __mmask16 m, __m512i a, __m512i b)
{
    return emulated_mask_mov_epi32(other, m, emulated_max_epi32(a, b));
}

// ---- permutations ------------------------------------------------------------------------------
EMULATED __m512 emulated_permutexvar_ps(__m512i order, __m512 a)
{
    __m512 r;
    EACH_LANE(i) r[i] = a[((u32x16)order)[i] & 15];
    return r;
}
EMULATED __m512i emulated_permutexvar_epi16(__m512i order, __m512i a)
{
    u16x32 r;
    for (int i = 0; i < 32; i++) r[i] = ((u16x32)a)[((u16x32)order)[i] & 31];
    return (__m512i)r;
}
// Bit 5 of an index selects b.
EMULATED __m512i emulated_permutex2var_epi16(__m512i a, __m512i order, __m512i b)
{
    u16x32 r;
    for (int i = 0; i < 32; i++) {
        const int from = ((u16x32)order)[i];
        r[i] = ((u16x32)(from & 32 ? b : a))[from & 31];
    }
    return (__m512i)r;
}
EMULATED __m512 emulated_shuffle_f32x4(__m512 a, __m512 b, int order)
{
    __m512 r;
    EACH_LANE(i)
    {
        const int from = 4 * (order >> i / 4 * 2 & 3) + i % 4;
        r[i] = i < 8 ? a[from] : b[from];
    }
    return r;
}
// Interleaves the lower (first 0) or upper (first 1) lanes of each 16 bytes of a and b.
#define UNPACK(NAME, TYPE, LANES, PER, FIRST, TO)                                                  \
    EMULATED TO emulated_##NAME(TO a, TO b)                                                        \
    {                                                                                              \
        const TYPE x = (TYPE)a, y = (TYPE)b;                                                       \
        TYPE r;                                                                                    \
        for (int i = 0; i < LANES; i++) {                                                          \
            const int from = i / PER * PER + FIRST * PER / 2 + i % PER / 2;                        \
            r[i] = i % 2 ? y[from] : x[from];                                                      \
        }                                                                                          \
        return (TO)r;                                                                              \
    }
UNPACK(unpacklo_epi16, u16x32, 32, 8, 0, __m512i)
UNPACK(unpackhi_epi16, u16x32, 32, 8, 1, __m512i)
UNPACK(unpacklo_epi32, u32x16, 16, 4, 0, __m512i)
UNPACK(unpackhi_epi32, u32x16, 16, 4, 1, __m512i)
UNPACK(unpacklo_epi64, u64x8, 8, 2, 0, __m512i)
UNPACK(unpackhi_epi64, u64x8, 8, 2, 1, __m512i)
UNPACK(unpacklo_ps, u32x16, 16, 4, 0, __m512)
UNPACK(unpackhi_ps, u32x16, 16, 4, 1, __m512)
UNPACK(unpacklo_pd, u64x8, 8, 2, 0, __m512d)
UNPACK(unpackhi_pd, u64x8, 8, 2, 1, __m512d)
