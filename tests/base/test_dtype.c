// SPDX-License-Identifier: MIT
// test_dtype.c: bf16 and f16: every one of the 2^16 values
// both ways, and rounding at every boundary.
#include "check.h"
#include "base/base.h"

static float next_up(float x)
{
    return nextafterf(x, INFINITY);
}

// Between two neighbours a < b of a half format: below the
// middle a, above it b, at it the even one.
static void check_between(uint16_t lo, float a, float b, uint16_t hi, uint16_t (*to)(float))
{
    const float middle = (float)(((double)a + (double)b) / 2);
    CHECK_EQ(to(a), lo);
    CHECK_EQ(to(middle), lo & 1 ? hi : lo);
    CHECK_EQ(to(next_up(middle)), hi);
    CHECK_EQ(to(nextafterf(middle, -INFINITY)), lo);
}

TEST(every_f16_survives_the_way_there_and_back)
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

TEST(every_bf16_survives_the_way_there_and_back)
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
    CHECK_EQ(qkv_f32_to_f16(65519.996f), 0x7bff); // below the middle of 65504 and 65536
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

CHECK_MAIN(CASE(every_f16_survives_the_way_there_and_back),
           CASE(every_bf16_survives_the_way_there_and_back), CASE(halves_round_to_nearest_even),
           CASE(nan_with_a_low_payload_stays_nan))
