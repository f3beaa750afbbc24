// SPDX-License-Identifier: MIT
// test_avx512.c: compares the emulated instructions of AVX-512 (avx512.h) with results written by
// hand, and on a machine that has them with the instructions themselves.
#include "check.h"
#include "emulate/avx512.h"
#include "emulate/avx512_rows.h"

#define F(x) emulated_set1_ps(x)
#define I(x) emulated_set1_epi32((int)(x))

static const float inf = INFINITY;
static const uint32_t quiet = 0x7fc00001u, signalling = 0xff800001u, indefinite = 0xffc00000u;

static float of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
// Returns the bits of a lane, after checking that all lanes are equal.
static uint32_t every(__m512 a)
{
    uint32_t x[16];
    memcpy(x, &a, sizeof x);
    for (int i = 1; i < 16; i++) CHECK_EQ(x[i], x[0]);
    return x[0];
}
static uint32_t every_integer(__m512i a)
{
    return every((__m512)a);
}
static __m512i counted(int size, int first) // integers of `size` bytes: first, first + 1, ...
{
    __m512i r = { 0 };
    for (int i = 0; i < 64 / size; i++) {
        const int x = first + i;
        memcpy((char *)&r + i * size, &x, (size_t)size);
    }
    return r;
}
// Checks that the integers of `size` bytes of a are the integers of the list.
static void check_integers(__m512i a, int size, const int *want)
{
    for (int i = 0; i < 64 / size; i++) {
        int x = 0;
        memcpy(&x, (char *)&a + i * size, (size_t)size);
        if (x != want[i]) fail_msg("lane %d of %d bytes: %d, expected %d", i, size, x, want[i]);
    }
}

// ---- floats ------------------------------------------------------------------------------------
TEST(minimum_and_maximum_return_the_second_operand_for_zeros_and_nan)
{
    CHECK_EQ(every(emulated_max_ps(F(0.0f), F(-0.0f))), 0x80000000u);
    CHECK_EQ(every(emulated_max_ps(F(-0.0f), F(0.0f))), 0);
    CHECK_EQ(every(emulated_min_ps(F(0.0f), F(-0.0f))), 0x80000000u);
    CHECK_EQ(every(emulated_min_ps(F(-0.0f), F(0.0f))), 0);
    CHECK_EQ(every(emulated_max_ps(F(of(quiet)), F(1))), bits(1));
    CHECK_EQ(every(emulated_max_ps(F(1), F(of(signalling)))), signalling);
    CHECK_EQ(every(emulated_min_ps(F(of(quiet)), F(-inf))), bits(-inf));
    CHECK_EQ(every(emulated_min_ps(F(2), F(1))), bits(1));
    CHECK_EQ(every(emulated_max_ps(F(2), F(1))), bits(2));
}

TEST(a_multiply_add_rounds_once)
{
    const float x = 1 + 0x1p-12f;
    CHECK_EQ(every(emulated_fmadd_ps(F(x), F(x), F(-1 - 0x1p-11f))), bits(0x1p-24f));
    CHECK_EQ(every(emulated_fmsub_ps(F(x), F(x), F(1 + 0x1p-11f))), bits(0x1p-24f));
    CHECK_EQ(every(emulated_fnmadd_ps(F(x), F(x), F(1 + 0x1p-11f))), bits(-0x1p-24f));
    CHECK_EQ(every(emulated_fmadd_ps(F(0x1p-75f), F(0x1p-74f), F(0))), 1); // subnormal, not flushed
    CHECK_EQ(every(emulated_fnmadd_ps(F(0), F(1), F(0))), 0);
    CHECK_EQ(every(emulated_fmsub_ps(F(-0.0f), F(1), F(0))), 0x80000000u);
}

TEST(rounding_to_whole_numbers_is_to_even_and_keeps_the_sign)
{
    CHECK_EQ(every(emulated_roundscale_ps(F(0.5f), 0)), 0);
    CHECK_EQ(every(emulated_roundscale_ps(F(1.5f), 0)), bits(2));
    CHECK_EQ(every(emulated_roundscale_ps(F(2.5f), 0)), bits(2));
    CHECK_EQ(every(emulated_roundscale_ps(F(-0.5f), 8)), 0x80000000u);
    CHECK_EQ(every(emulated_roundscale_ps(F(-1.5f), 1)), bits(-2));
    CHECK_EQ(every(emulated_roundscale_ps(F(-1.5f), 2)), bits(-1));
    CHECK_EQ(every(emulated_roundscale_ps(F(-inf), 0)), bits(-inf));
    CHECK_EQ(every(emulated_roundscale_ps(F(of(signalling)), 0)), signalling | 0x400000);
}

TEST(scaling_by_a_power_of_two_rounds_once_and_knows_infinities)
{
#define SCALED(A, N) every(emulated_scalef_ps(F(A), F(N)))
    CHECK_EQ(SCALED(3, 4), bits(48));
    CHECK_EQ(SCALED(3, 4.9f), bits(48));
    CHECK_EQ(SCALED(3, -0.5f), bits(1.5f));
    CHECK_EQ(SCALED(-1, -149), 0x80000001u);
    CHECK_EQ(SCALED(1.5f, -149), 2); // a tie, to even
    CHECK_EQ(SCALED(1, -150), 0);    // a tie, to even
    CHECK_EQ(SCALED(1.25f, -150), 1);
    CHECK_EQ(SCALED(of(1), 149), bits(1)); // a subnormal input
    CHECK_EQ(SCALED(of(1), 276), bits(0x1p127f));
    CHECK_EQ(SCALED(-1, 128), bits(-inf));
    CHECK_EQ(SCALED(0x1p127f, -3e38f), 0);
    CHECK_EQ(SCALED(of(1), 3e38f), bits(inf));
    CHECK_EQ(SCALED(-0.0f, 1000), 0x80000000u);
    CHECK_EQ(SCALED(0, inf), indefinite);
    CHECK_EQ(SCALED(-2, inf), bits(-inf));
    CHECK_EQ(SCALED(-2, -inf), 0x80000000u);
    CHECK_EQ(SCALED(inf, -inf), indefinite);
    CHECK_EQ(SCALED(-inf, -1000), bits(-inf));
    CHECK_EQ(SCALED(of(quiet), inf), bits(inf));
    CHECK_EQ(SCALED(of(quiet), -inf), 0);
    CHECK_EQ(SCALED(of(quiet), 1), quiet);
    CHECK_EQ(SCALED(of(signalling), inf), signalling | 0x400000);
    CHECK_EQ(SCALED(1, of(signalling)), signalling | 0x400000);
    CHECK_EQ(every(emulated_maskz_scalef_ps(0, F(1), F(1))), 0);
    const __m128 first = emulated_scalef_ss(_mm_set_ps(7, 6, 5, 3), _mm_set_ps(1, 1, 1, 2));
    CHECK(first[0] == 12 && first[1] == 5 && first[2] == 6 && first[3] == 7);
}

TEST(exponents_are_whole_numbers_also_of_subnormal_numbers)
{
#define EXPONENT(A) every(emulated_getexp_ps(F(A)))
    CHECK_EQ(EXPONENT(1), 0);
    CHECK_EQ(EXPONENT(-0.75f), bits(-1));
    CHECK_EQ(EXPONENT(of(0x7f7fffffu)), bits(127));
    CHECK_EQ(EXPONENT(of(0x00800000u)), bits(-126));
    CHECK_EQ(EXPONENT(of(0x807fffffu)), bits(-127));
    CHECK_EQ(EXPONENT(of(1)), bits(-149));
    CHECK_EQ(EXPONENT(-0.0f), bits(-inf));
    CHECK_EQ(EXPONENT(-inf), bits(inf));
    CHECK_EQ(EXPONENT(of(signalling)), signalling | 0x400000);
    const __m128 first = emulated_getexp_ss(_mm_set_ps(7, 6, 5, 4), _mm_set_ps(1, 1, 1, 8));
    CHECK(first[0] == 3 && first[1] == 5 && first[2] == 6 && first[3] == 7);
}

// ---- comparisons -------------------------------------------------------------------------------
TEST(comparisons_know_the_order_zeros_and_nan)
{
    // for each predicate: the results of 1 and 2, of -0 and 0, of 2 and 1, of NaN and 1
    static const char *const want[] = { "0100", "1000", "1100", "0001", "1011", "0111",
                                        "0011", "1110", "0101", "1001", "1101", "0000",
                                        "1010", "0110", "0010", "1111" };
    __m512 a = F(of(quiet)), b = F(1);
    a[0] = 1, b[0] = 2;
    a[1] = -0.0f, b[1] = 0;
    a[2] = 2, b[2] = 1;
    for (int predicate = 0; predicate < 32; predicate++) {
        const __mmask16 m = emulated_cmp_ps_mask(a, b, predicate);
        const char *w = want[predicate & 15];
        for (int i = 0; i < 16; i++)
            if ((m >> i & 1) != w[i < 3 ? i : 3] - '0')
                fail_msg("predicate %d, lane %d, expected %s", predicate, i, w);
    }
}

TEST(integers_are_compared_with_and_without_a_sign)
{
    const __m512i a = counted(4, -8), b = I(0);
    CHECK_EQ(emulated_cmplt_epi32_mask(a, b), 0x00ff);
    CHECK_EQ(emulated_cmple_epi32_mask(a, b), 0x01ff);
    CHECK_EQ(emulated_cmpge_epi32_mask(a, b), 0xff00);
    CHECK_EQ(emulated_cmpge_epu32_mask(a, I(8)), 0x00ff);
    CHECK_EQ(emulated_cmpneq_epi16_mask(counted(2, 0), emulated_set1_epi16(3)), 0xfffffff7u);
    CHECK_EQ(emulated_128_test_epi8_mask(_mm_set_epi32(0x01000000, 0, 0x80, 0x0300),
                                         _mm_set1_epi8(-127)),
             0x8012);
    CHECK_EQ(every_integer(emulated_max_epi32(I(-1), I(1))), 1);
    CHECK_EQ(every_integer(emulated_max_epu32(I(-1), I(1))), 0xffffffffu);
    CHECK_EQ(emulated_reduce_max_epi32(a), 7);
    check_integers(emulated_mask_max_epi32(I(9), 0x8001, a, b), 4,
                   (const int[]){ 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7 });
}

TEST(numbers_have_their_classes)
{
    // in the order of the bits; the last two are negative numbers
    const float x[] = { of(quiet),       0, -0.0f, inf, -inf, of(1), -1, of(signalling),
                        of(0x80000001u), 1 };
    const int want[] = { 1, 2, 4, 8, 16, 32, 64, 128, 32 | 64, 0 };
    for (int n = 0; n < 10; n++)
        for (int bit = 0; bit < 8; bit++)
            CHECK_EQ(emulated_fpclass_ps_mask(F(x[n]), 1 << bit), want[n] >> bit & 1 ? 0xffff : 0);
}

TEST(the_largest_of_all_lanes_is_found)
{
    for (int i = 0; i < 16; i++) {
        __m512 a = F(-2);
        a[i] = -1;
        CHECK(emulated_reduce_max_ps(a) == -1);
    }
}

// ---- conversions -------------------------------------------------------------------------------
TEST(floats_become_integers_to_even_and_out_of_range_the_indefinite_one)
{
    CHECK_EQ(every_integer(emulated_cvtps_epi32(F(2.5f))), 2);
    CHECK_EQ(every_integer(emulated_cvtps_epi32(F(-3.5f))), (uint32_t)-4);
    CHECK_EQ(every_integer(emulated_cvtps_epi32(F(0x1p31f))), 0x80000000u);
    CHECK_EQ(every_integer(emulated_cvtps_epi32(F(of(quiet)))), 0x80000000u);
    CHECK_EQ(every_integer(emulated_cvtps_epi32(F(2147483520.0f))), 2147483520u);
    CHECK_EQ(every(emulated_cvtepi32_ps(I(0x7fffffff))), bits(0x1p31f));
}

TEST(integers_are_truncated_clamped_and_extended)
{
    const int x[] = { 0,          -1,        127,   128,   -128, -129, 255, 256,
                      0x7fffffff, INT32_MIN, 65535, 65536, 1,    2,    3,   4 };
    const __m512i a = emulated_loadu_si512(x);
    int8_t clamped[16], bytes[16];
    int16_t halves[16];
    _mm_storeu_si128((void *)clamped, emulated_cvtsepi32_epi8(a));
    _mm_storeu_si128((void *)bytes, emulated_cvtepi32_epi8(a));
    _mm256_storeu_si256((void *)halves, emulated_cvtepi32_epi16(a));
    for (int i = 0; i < 16; i++) {
        CHECK_EQ(clamped[i], x[i] < -128 ? -128 : x[i] > 127 ? 127 : x[i]);
        CHECK_EQ(bytes[i], (int8_t)x[i]);
        CHECK_EQ(halves[i], (int16_t)x[i]);
    }
    int want[32];
    int8_t signs[32];
    for (int i = 0; i < 32; i++) signs[i] = (int8_t)(i % 2 ? -i : i);
    for (int i = 0; i < 32; i++) want[i] = signs[i] & 0xffff;
    check_integers(emulated_cvtepi8_epi16(_mm256_loadu_si256((void *)signs)), 2, want);
    for (int i = 0; i < 16; i++) want[i] = signs[i];
    check_integers(emulated_cvtepi8_epi32(_mm_loadu_si128((void *)signs)), 4, want);
    for (int i = 0; i < 16; i++) want[i] = (uint16_t)halves[i];
    check_integers(emulated_cvtepu16_epi32(_mm256_loadu_si256((void *)halves)), 4, want);
}

TEST(halves_of_both_kinds_round_to_even)
{
    const struct {
        uint32_t from;
        uint16_t f16, bf16;
    } rows[] = {
        { 0, 0, 0 },
        { 0x80000000u, 0x8000, 0x8000 },
        { 0x3f801000u, 0x3c00, 0x3f80 }, // a tie of f16
        { 0x3f803000u, 0x3c02, 0x3f80 }, // another
        { 0x3f808000u, 0x3c04, 0x3f80 }, // a tie of bf16
        { 0x3f818000u, 0x3c0c, 0x3f82 }, // another
        { 0x3f808001u, 0x3c04, 0x3f81 }, // just above it
        { 0x477fefffu, 0x7bff, 0x4780 }, // the largest that does not overflow in f16
        { 0x477ff000u, 0x7c00, 0x4780 }, // 65520 does
        { 0x33000000u, 0, 0x3300 },      // half of the least f16
        { 0x33000001u, 1, 0x3300 },      // just above it
        { 0x007fffffu, 0, 0 },           // subnormal: 0 in bf16
        { 0x80000001u, 0x8000, 0x8000 }, // with its sign
        { 0x00800000u, 0, 0x0080 },      // the least normal number
        { 0x7f7fffffu, 0x7c00, 0x7f80 }, // overflows
        { 0xff800000u, 0xfc00, 0xff80 }, // infinite
        { 0x7f800001u, 0x7e00, 0x7fc0 }, // NaN is quiet, though its payload is cut
        { 0xffc12345u, 0xfe09, 0xffc1 },
    };
    EACH(r, rows)
    {
        uint16_t got[16], pairs[32];
        const __m512 x = F(of(r->from));
        _mm256_storeu_si256((void *)got, emulated_cvtps_ph(x, 0));
        for (int i = 0; i < 16; i++) CHECK_EQ(got[i], r->f16);
        _mm256_storeu_si256((void *)got, (__m256i)emulated_cvtneps_pbh(x));
        for (int i = 0; i < 16; i++) CHECK_EQ(got[i], r->bf16);
        emulated_storeu_si512(pairs, (__m512i)emulated_cvtne2ps_pbh(x, F(2)));
        for (int i = 0; i < 32; i++) CHECK_EQ(pairs[i], i < 16 ? 0x4000 : r->bf16);
    }
    CHECK_EQ(every(emulated_cvtph_ps(_mm256_set1_epi16(1))), bits(0x1p-24f));
    CHECK_EQ(every(emulated_cvtph_ps(_mm256_set1_epi16((short)0xfc00))), bits(-inf));
}

// ---- products ----------------------------------------------------------------------------------
// Returns sum + the products of the pairs (a0, a1) and (b0, b1), given as bits of bf16.
static uint32_t pair_product(float sum, uint16_t a0, uint16_t a1, uint16_t b0, uint16_t b1)
{
    const __m512i a = I(a0 | (uint32_t)a1 << 16), b = I(b0 | (uint32_t)b1 << 16);
    return every(emulated_dpbf16_ps(F(sum), (__m512bh)a, (__m512bh)b));
}
static uint16_t b16(float x) // cuts a float
{
    return (uint16_t)(bits(x) >> 16);
}

TEST(pairs_of_bf16_are_added_one_after_the_other_the_second_first)
{
    CHECK_EQ(pair_product(1, b16(2), b16(3), b16(5), b16(7)), bits(32));
    // 2^24 + 1 + 1: the first 1 is lost, then the second
    CHECK_EQ(pair_product(0x1p24f, b16(1), b16(1), b16(1), b16(1)), bits(0x1p24f));
    CHECK_EQ(pair_product(1, b16(1), b16(0x1p24f), b16(1), b16(1)), bits(0x1p24f));
    // the second product first: (1 + 2^24) - 2^24 loses 1
    CHECK_EQ(pair_product(1, b16(-0x1p24f), b16(0x1p24f), b16(1), b16(1)), 0);
    CHECK_EQ(pair_product(0, b16(0x1p24f), b16(1), b16(1), b16(1)), bits(0x1p24f));
    // one rounding: 1.0078125^2 = 1.01568603515625, of 16 bits
    CHECK_EQ(pair_product(0, 0x3f81, 0, 0x3f81, 0), bits(1.01568603515625f));
    CHECK_EQ(pair_product(inf, b16(-inf), b16(1), b16(1), b16(1)), indefinite);
}

TEST(subnormal_numbers_of_pairs_count_as_zero)
{
    const uint16_t one = b16(1), least = 0x0080, below = 0x007f;
    CHECK_EQ(pair_product(of(0x807fffffu), 0, 0, 0, 0), 0);
    CHECK_EQ(pair_product(-0.0f, b16(-0.0f), b16(-0.0f), one, one), 0x80000000u);
    CHECK_EQ(pair_product(of(0x807fffffu), 0x8000, 0x8000, one, one), 0x80000000u);
    CHECK_EQ(pair_product(0, below, 0, b16(0x1p100f), 0), 0);
    CHECK_EQ(pair_product(0, 0, below, 0, b16(0x1p100f)), 0);
    CHECK_EQ(pair_product(0, b16(0x1p100f), 0, below, 0), 0);
    CHECK_EQ(pair_product(0, least, 0, one, 0), 0x00800000u);
    CHECK_EQ(pair_product(0, least, 0, b16(0.5f), 0), 0);
    // the sum after the second product is flushed before the first is added
    CHECK_EQ(pair_product(0, least, least, one, b16(0.5f)), 0x00800000u);
    CHECK_EQ(pair_product(0, least, least, one, b16(-0.5f)), 0x00800000u);
    CHECK_EQ(pair_product(0, 0x8000, least, one, b16(-0.5f)), 0x80000000u);
    // 2^-126 less a small product: rounded to 24 bits with an unlimited exponent, then compared
    // with 2^-126. A product of 2^-151 is a tie, which rounds up to 2^-126.
    CHECK_EQ(pair_product(of(0x00800000u), b16(-0x1p-100f), 0, b16(0x1p-51f), 0), 0x00800000u);
    CHECK_EQ(pair_product(of(0x00800000u), b16(-0x1.02p-100f), 0, b16(0x1p-51f), 0), 0);
    CHECK_EQ(pair_product(of(0x00800000u), b16(-0x1p-100f), 0, b16(0x1p-50f), 0), 0);
    CHECK_EQ(pair_product(of(0x00800000u), b16(-0x1p-100f), 0, b16(0x1p-49f), 0), 0);
    CHECK_EQ(pair_product(of(0x80800000u), b16(0x1.02p-100f), 0, b16(0x1p-51f), 0), 0x80000000u);
}

TEST(products_of_integers_wrap_and_keep_their_signs)
{
    const __m512i least = emulated_set1_epi16(-32768);
    CHECK_EQ(every_integer(emulated_madd_epi16(least, least)), 0x80000000u);
    CHECK_EQ(every_integer(emulated_dpwssd_epi32(I(-1), least, least)), 0x7fffffffu);
    CHECK_EQ(every_integer(emulated_madd_epi16(I(0x0003fffe), I(0x00050007))), 1);
    // unsigned 255, 1, 2, 3 and signed -128, -1, 127, 2
    CHECK_EQ(every_integer(emulated_dpbusd_epi32(I(5), I(0x030201ff), I(0x027fff80))),
             (uint32_t)(5 - 255 * 128 - 1 + 254 + 6));
    CHECK_EQ(every_integer(emulated_dpbusd_epi32(I(0x7fffffff), I(1), I(1))), 0x80000000u);
    const __m512i wide = emulated_mul_epu32(emulated_set1_epi64(-1), emulated_set1_epi64(-1));
    CHECK(wide[0] == (long long)0xfffffffe00000001u && wide[7] == wide[0]);
    CHECK_EQ(every_integer(emulated_add_epi32(I(0x7fffffff), I(1))), 0x80000000u);
    CHECK_EQ(every_integer(emulated_add_epi16(I(0xffff), I(1))), 0);
    CHECK_EQ(every_integer(emulated_sub_epi32(I(0), I(1))), 0xffffffffu);
}

// ---- bits, lanes, memory -----------------------------------------------------------------------
TEST(bits_are_shifted_and_combined)
{
    CHECK_EQ(every_integer(emulated_slli_epi32(I(0x80000001u), 1)), 2);
    CHECK_EQ(every_integer(emulated_srli_epi32(I(0x80000001u), 1)), 0x40000000u);
    CHECK_EQ(every_integer(emulated_slli_epi32(I(-1), 32)), 0);
    CHECK_EQ(every_integer(emulated_srli_epi32(I(-1), 32)), 0);
    CHECK(emulated_srli_epi64(emulated_set1_epi64(-1), 63)[5] == 1);
    CHECK(emulated_slli_epi64(emulated_set1_epi64(1), 40)[5] == 1ll << 40);
    CHECK(emulated_slli_epi64(emulated_set1_epi64(1), 64)[0] == 0);
    CHECK_EQ(every_integer(emulated_andnot_si512(I(12), I(10))), 2);
    CHECK_EQ(every_integer(emulated_xor_si512(I(12), I(10))), 6);
    for (int table = 0; table < 256; table++) // bit 4 a + 2 b + c of the table
        CHECK_EQ(every_integer(emulated_ternarylogic_epi32(I(0xf0), I(0xcc), I(0xaa), table)) &
                     0xff,
                 table);
    CHECK_EQ(every(emulated_abs_ps(F(of(signalling)))), signalling & 0x7fffffffu);
}

TEST(lanes_are_interleaved_within_16_bytes)
{
    const __m512i a = counted(4, 0), b = counted(4, 16), c = counted(2, 0), d = counted(2, 32);
    static const int low[] = { 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29 };
    static const int high[] = { 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31 };
    static const int low64[] = { 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29 };
    static const int high64[] = { 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31 };
    check_integers(emulated_unpacklo_epi32(a, b), 4, low);
    check_integers(emulated_unpackhi_epi32(a, b), 4, high);
    check_integers((__m512i)emulated_unpacklo_ps((__m512)a, (__m512)b), 4, low);
    check_integers((__m512i)emulated_unpackhi_ps((__m512)a, (__m512)b), 4, high);
    check_integers(emulated_unpacklo_epi64(a, b), 4, low64);
    check_integers(emulated_unpackhi_epi64(a, b), 4, high64);
    check_integers((__m512i)emulated_unpacklo_pd((__m512d)a, (__m512d)b), 4, low64);
    check_integers((__m512i)emulated_unpackhi_pd((__m512d)a, (__m512d)b), 4, high64);
    int want[32];
    for (int i = 0; i < 32; i++) want[i] = i / 8 * 8 + i % 8 / 2 + i % 2 * 32;
    check_integers(emulated_unpacklo_epi16(c, d), 2, want);
    for (int i = 0; i < 32; i++) want[i] += 4;
    check_integers(emulated_unpackhi_epi16(c, d), 2, want);
}

TEST(lanes_are_permuted)
{
    const __m512i a = counted(4, 0), b = counted(4, 16), c = counted(2, 0), d = counted(2, 32);
    static const int shuffled[] = { 0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23, 28, 29, 30, 31 };
    check_integers((__m512i)emulated_shuffle_f32x4((__m512)a, (__m512)b, 0xd8), 4, shuffled);
    int order[32], want[32];
    uint16_t order16[32];
    for (int i = 0; i < 16; i++) want[i] = order[i] = 15 - i;
    order[3] |= 0x40; // bits past the index have no effect
    check_integers((__m512i)emulated_permutexvar_ps(emulated_loadu_si512(order), (__m512)a), 4,
                   want);
    for (int i = 0; i < 32; i++) order16[i] = (uint16_t)((i * 7 + 3) % 64 | 0x40);
    for (int i = 0; i < 32; i++) want[i] = order16[i] & 31;
    check_integers(emulated_permutexvar_epi16(emulated_loadu_si512(order16), c), 2, want);
    for (int i = 0; i < 32; i++) want[i] = order16[i] & 63;
    check_integers(emulated_permutex2var_epi16(c, emulated_loadu_si512(order16), d), 2, want);
    CHECK(emulated_extractf32x8_ps(emulated_cvtepi32_ps(a), 1)[0] == 8);
    CHECK(emulated_castps512_ps256(emulated_cvtepi32_ps(a))[7] == 7);
    CHECK(emulated_extracti64x4_epi64(a, 1)[0] == (9ll << 32 | 8));
    CHECK(emulated_cvtss_f32(
              emulated_setr_ps(9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) == 9);
}

TEST(masks_select_lanes)
{
    const __m512i a = counted(4, 0), c = counted(2, 0);
    static const int want[] = { 0, 99, 2, 99, 4, 99, 6, 99, 8, 99, 10, 99, 12, 99, 14, 15 };
    check_integers(emulated_mask_mov_epi32(I(99), 0xd555, a), 4, want);
    check_integers((__m512i)emulated_mask_blend_ps(0xd555, (__m512)I(99), (__m512)a), 4, want);
    int halves[32];
    for (int i = 0; i < 32; i++) halves[i] = i == 31 || !i ? i : 7;
    check_integers(emulated_mask_mov_epi16(emulated_set1_epi16(7), 0x80000001u, c), 2, halves);
    for (int i = 1; i < 31; i++) halves[i] = 0;
    check_integers(emulated_maskz_mov_epi16(0x80000001u, c), 2, halves);
    const __m512 sum = emulated_maskz_add_ps(2, F(1), F(2)),
                 one = emulated_maskz_mov_ps(2, F(-0.0f));
    CHECK(sum[0] == 0 && sum[1] == 3 && sum[2] == 0);
    CHECK(bits(one[0]) == 0 && bits(one[1]) == 0x80000000u);
}

TEST(memory_outside_a_mask_is_neither_read_nor_written)
{
    // 6 bytes before a guard page
    uint16_t *const p = fenced(6);
    p[0] = 1, p[1] = 2, p[2] = 3;
    int want[32] = { 1, 2, 3 };
    check_integers(emulated_maskz_loadu_epi16(7, p), 2, want);
    const __m256i half = emulated_256_maskz_loadu_epi16(5, p);
    CHECK(half[0] == 0x300000001 && !half[1] && !half[2] && !half[3]);
    const __m128i byte = emulated_128_maskz_loadu_epi8(0x11, p);
    CHECK(byte[0] == 0x300000001 && !byte[1]);
    emulated_mask_storeu_epi16(p, 6, emulated_set1_epi16(9));
    CHECK(p[0] == 1 && p[1] == 9 && p[2] == 9);
    emulated_256_mask_storeu_epi16(p, 1, _mm256_set1_epi16(8));
    CHECK(p[0] == 8 && p[1] == 9 && p[2] == 9);
    float *const q = fenced(8);
    q[0] = 1, q[1] = 2;
    const __m512 two = emulated_maskz_loadu_ps(2, q);
    CHECK(two[0] == 0 && two[1] == 2 && two[2] == 0);
    emulated_mask_storeu_ps(q, 1, F(5));
    CHECK(q[0] == 5 && q[1] == 2);
    emulated_mask_storeu_epi32(q, 2, I(0x40400000));
    CHECK(q[0] == 5 && q[1] == 3);
    fence_free();
}

// ---- the instructions themselves ---------------------------------------------------------------
// Writes operands of all kinds: special floats, pairs of small integers, any bits.
static void draw(uint32_t *from)
{
    static const uint32_t special[] = {
        0,           0x80000000u, 1,           0x807fffffu, 0x00800000u, 0x80800001u, 0x3f800000u,
        0xbf808000u, 0x3fc00000u, 0x40200000u, 0x477ff000u, 0x33000000u, 0x7f7fffffu, 0x7f800000u,
        0xff800000u, 0x7fc00001u, 0xff800001u, 0x4f000000u, 0x4effffffu, 0x0c800000u, 0x8c800000u,
        0x26000000u, 0x00400080u, 0x00800080u, 0x7f80007fu, 0x42fe0000u, 0xc3150000u, 0xffffffffu,
    };
    for (int i = 0; i < 64; i++) {
        const uint32_t any = (uint32_t)(int64_t)(check_random() * 0x1p32);
        const int kind = (int)((check_random() + 1) * 2);
        const float small = (float)(check_random() * 300);
        from[i] = kind == 0 ? special[any % CHECK_COUNT(special)] : kind == 1 ? bits(small) : any;
    }
}
static bool same(const struct avx512_row *row, const uint32_t *a, const uint32_t *b)
{
    for (int i = 0; i < 16; i++)
        if (a[i] != b[i] && !(row->any_nan && isnan(of(a[i])) && isnan(of(b[i])))) return false;
    return true;
}
TEST(the_instructions_of_this_machine_have_the_same_results)
{
    const bool base = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool has[] = { [AVX512_BASE] = base,
                         [AVX512_VNNI] = base && __builtin_cpu_supports("avx512vnni"),
                         [AVX512_BF16] = base && __builtin_cpu_supports("avx512bf16") };
    if (!base) skip();
    _Alignas(64) uint32_t from[64], own[16], emulated[16];
    check_seed = 5;
    for (int n = 0; n < 20000; n++) {
        draw(from);
        for (int i = 0; real_rows[i].name; i++) {
            const struct avx512_row *r = &real_rows[i], *e = &emulated_rows[i];
            if (!has[r->needs]) continue;
            memset(own, 0, sizeof own);
            memset(emulated, 0, sizeof emulated);
            r->call(own, from);
            e->call(emulated, from);
            if (!same(r, own, emulated)) fail_msg("%s differs in drawing %d", r->name, n);
        }
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        puts("skipped: the emulation uses AVX2");
        return 77;
    }
    const struct CMUnitTest cases[] = {
        CASE(minimum_and_maximum_return_the_second_operand_for_zeros_and_nan),
        CASE(a_multiply_add_rounds_once),
        CASE(rounding_to_whole_numbers_is_to_even_and_keeps_the_sign),
        CASE(scaling_by_a_power_of_two_rounds_once_and_knows_infinities),
        CASE(exponents_are_whole_numbers_also_of_subnormal_numbers),
        CASE(comparisons_know_the_order_zeros_and_nan),
        CASE(integers_are_compared_with_and_without_a_sign),
        CASE(numbers_have_their_classes),
        CASE(the_largest_of_all_lanes_is_found),
        CASE(floats_become_integers_to_even_and_out_of_range_the_indefinite_one),
        CASE(integers_are_truncated_clamped_and_extended),
        CASE(halves_of_both_kinds_round_to_even),
        CASE(pairs_of_bf16_are_added_one_after_the_other_the_second_first),
        CASE(subnormal_numbers_of_pairs_count_as_zero),
        CASE(products_of_integers_wrap_and_keep_their_signs),
        CASE(bits_are_shifted_and_combined),
        CASE(lanes_are_interleaved_within_16_bytes),
        CASE(lanes_are_permuted),
        CASE(masks_select_lanes),
        CASE(memory_outside_a_mask_is_neither_read_nor_written),
        CASE(the_instructions_of_this_machine_have_the_same_results)
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
