// SPDX-License-Identifier: MIT
// test_dtype.c: converts all 2^16 values of bf16 and f16 both ways and checks rounding at every
// boundary.
#include "check.h"
#include "base/base.h"

static float next_up(float x)
{
    return nextafterf(x, INFINITY);
}

// Between neighbors a < b of a half format: below the midpoint a, above it b, at the midpoint the
// even one.
static void check_between(uint16_t lo, float a, float b, uint16_t hi, uint16_t (*to)(float))
{
    const float middle = (float)(((double)a + (double)b) / 2);
    CHECK_EQ(to(a), lo);
    CHECK_EQ(to(middle), lo & 1 ? hi : lo);
    CHECK_EQ(to(next_up(middle)), hi);
    CHECK_EQ(to(nextafterf(middle, -INFINITY)), lo);
}

TEST(every_f16_survives_a_round_trip)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = qkv_f16_to_f32((uint16_t)h);
        const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        if (e == 31 && m) {
            CHECK(isnan(x));
            CHECK(isnan(qkv_f16_to_f32(qkv_f32_to_f16(x))));
            continue;
        }
        const double want = e == 31 ? INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        CHECK(x == (h & 0x8000 ? -want : want));
        CHECK_EQ(qkv_f32_to_f16(x), h);
    }
}

TEST(every_bf16_survives_a_round_trip)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = qkv_bf16_to_f32((uint16_t)h);
        uint32_t u;
        memcpy(&u, &x, 4);
        CHECK_EQ(u, h << 16);
        if (isnan(x))
            CHECK(isnan(qkv_bf16_to_f32(qkv_f32_to_bf16(x))));
        else
            CHECK_EQ(qkv_f32_to_bf16(x), h);
    }
}

TEST(halves_round_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7bff; h++)
        check_between((uint16_t)h, qkv_f16_to_f32((uint16_t)h), qkv_f16_to_f32((uint16_t)(h + 1)),
                      (uint16_t)(h + 1), qkv_f32_to_f16);
    for (uint32_t h = 0x80; h < 0x7f7f; h++)
        check_between((uint16_t)h, qkv_bf16_to_f32((uint16_t)h), qkv_bf16_to_f32((uint16_t)(h + 1)),
                      (uint16_t)(h + 1), qkv_f32_to_bf16);
    CHECK_EQ(qkv_f32_to_f16(65519.996f), 0x7bff); // below the midpoint of 65504 and 65536
    CHECK_EQ(qkv_f32_to_f16(65520.0f), 0x7c00);
    CHECK_EQ(qkv_f32_to_f16(-1e30f), 0xfc00);
    CHECK_EQ(qkv_f32_to_bf16(3.4e38f), 0x7f80);
}

TEST(nan_with_a_low_payload_stays_nan)
{
    float x;
    const uint32_t u = 0x7f800001u;
    memcpy(&x, &u, 4);
    CHECK(isnan(qkv_bf16_to_f32(qkv_f32_to_bf16(x))));
    CHECK(isnan(qkv_f16_to_f32(qkv_f32_to_f16(x))));
}

// Arrays convert like single numbers, NaN and midpoints included.
TEST(arrays_are_converted_as_their_numbers_are)
{
    enum { N = 65536 };
    static float wide[N], back[N];
    static unsigned char stored[N * sizeof(double) + 1];
    for (uint32_t i = 0; i < N;
         i++) { // every sign, exponent and leading digit, and a tail of digits
        const uint32_t u = i << 16 | (i * 40503u & 0xffff);
        memcpy(&wide[i], &u, 4);
    }
    for (int h = 0; h < 2; h++) {
        const qkv_dtype type = h ? QKV_F16 : QKV_BF16;
        CHECK(qkv_from_f32(stored + 1, type, wide, N)); // of any alignment
        CHECK(qkv_to_f32(back, stored + 1, type, N));
        for (int i = 0; i < N; i++) {
            const uint16_t want = h ? qkv_f32_to_f16(wide[i]) : qkv_f32_to_bf16(wide[i]);
            const float one = h ? qkv_f16_to_f32(want) : qkv_bf16_to_f32(want);
            uint16_t got;
            memcpy(&got, stored + 1 + 2 * i, 2);
            CHECK_EQ(got, want);
            CHECK(memcmp(&back[i], &one, 4) == 0);
            CHECK_EQ(isnan(back[i]) != 0, isnan(wide[i]) != 0);
        }
    }
    CHECK(qkv_from_f32(stored + 1, QKV_F32, wide, N) && memcmp(stored + 1, wide, sizeof wide) == 0);
    CHECK(qkv_from_f32(stored + 1, QKV_F64, wide, N) && qkv_to_f32(back, stored + 1, QKV_F64, N));
    for (int i = 0; i < N; i++) CHECK(isnan(wide[i]) ? isnan(back[i]) : back[i] == wide[i]);
    const int8_t bytes[] = { -128, 0, 127 };
    CHECK(qkv_to_f32(back, bytes, QKV_I8, 3));
    CHECK(back[0] == -128 && back[1] == 0 && back[2] == 127);
    const uint8_t flags[] = { 0, 1, 7 };
    CHECK(qkv_to_f32(back, flags, QKV_BOOL, 3) && back[0] == 0 && back[1] == 1 && back[2] == 1);
    CHECK(qkv_to_f32(NULL, NULL, QKV_F32, 0) && qkv_from_f32(NULL, QKV_F32, NULL, 0));
    CHECK(!qkv_to_f32(NULL, bytes, QKV_I8, 3) && !qkv_to_f32(back, NULL, QKV_I8, 3));
    CHECK(!qkv_from_f32(NULL, QKV_F32, wide, 3) && !qkv_from_f32(stored, QKV_F32, NULL, 3));
    CHECK(!qkv_from_f32(stored, QKV_I8, wide, 3) && !qkv_to_f32(back, stored, QKV_DTYPE_COUNT, 3));
}

TEST(a_precision_has_a_storage_type)
{
    int halves = 0;
    for (int n = 0; n < QKV_PRECISIONS; n++) {
        const qkv_precision p = (qkv_precision)n;
        const qkv_precision inner = qkv_precision_attention(p);
        qkv_precision parsed;
        CHECK(qkv_precision_parse(&parsed, qkv_precision_name(p)) && parsed == p);
        CHECK_EQ(qkv_precision_type(inner), qkv_precision_type(p));
        CHECK_EQ(inner, p == QKV_PRECISION_INT8 ? QKV_PRECISION_F32 : p);
        halves += qkv_dtype_size(qkv_precision_type(p)) == 2;
    }
    CHECK_EQ(halves, 2);
    CHECK_EQ(qkv_precision_type(QKV_PRECISION_BF16), QKV_BF16);
    CHECK_EQ(qkv_precision_type(QKV_PRECISION_F16), QKV_F16);
    CHECK_EQ(qkv_precision_type(QKV_PRECISION_INT8), QKV_F32);
    const qkv_precision none = (qkv_precision)QKV_PRECISIONS;
    qkv_precision parsed = QKV_PRECISION_F16;
    CHECK(!qkv_precision_name(none));
    CHECK_EQ(qkv_precision_type(none), QKV_DTYPE_COUNT);
    CHECK_EQ(qkv_precision_attention(none), none);
    CHECK(!qkv_precision_parse(&parsed, "f17") && !qkv_precision_parse(&parsed, NULL) &&
          !qkv_precision_parse(NULL, "f32") && parsed == QKV_PRECISION_F16);
}

CHECK_MAIN(CASE(every_f16_survives_a_round_trip), CASE(every_bf16_survives_a_round_trip),
           CASE(halves_round_to_nearest_even), CASE(nan_with_a_low_payload_stays_nan),
           CASE(arrays_are_converted_as_their_numbers_are), CASE(a_precision_has_a_storage_type))
