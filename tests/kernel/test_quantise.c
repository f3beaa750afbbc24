// SPDX-License-Identifier: MIT
// test_quantise.c: tests 8-bit weights as files store them: packing the restored numbers gives the
// same bits as packing the original numbers, on every ISA.
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>

enum { ROWS = 40, DEEP = 133 };
static float w[ROWS * DEEP];

// Fills rows of every magnitude; in some rows, 127 times the 127th part of the largest number is
// another float.
static void fill(void)
{
    uint32_t word[4];
    for (int64_t i = 0; i < ROWS * DEEP; i++) {
        qkv_philox(word, 5, 0, (uint64_t)i);
        const int64_t r = i / DEEP;
        w[i] = ldexpf((float)(int32_t)word[0] * 0x1p-31f, (int)(r * 5 - 99));
    }
    for (int64_t k = 0; k < DEEP; k++) w[3 * DEEP + k] = 0;
    w[4 * DEEP + 7] = NAN;
    w[5 * DEEP + 9] = -INFINITY;
    w[6 * DEEP] = -0.0f;
    w[7 * DEEP + 1] = FLT_MAX;
}

TEST(what_is_packed_again_has_the_same_bits)
{
    static int8_t q[ROWS * DEEP];
    static real wide[ROWS * DEEP], first[ROWS * DEEP];
    fill();
    for (int turned = 0; turned < 2; turned++) {
        const int64_t ldn = turned ? 1 : DEEP, ldk = turned ? ROWS : 1;
        for (int64_t n = 0; n < ROWS; n++)
            for (int64_t k = 0; k < DEEP; k++) first[n * ldn + k * ldk] = (real)w[n * DEEP + k];
        EACH_ISA(k)
        {
            const struct qkv_linear_kernel *kernel = k->linear[QKV_PRECISION_INT8];
            const size_t bytes =
                (size_t)qkv_ceil_div(ROWS, kernel->panel) * kernel->panel_bytes(DEEP);
            void *want = qkv_alloc(bytes, 1), *got = qkv_alloc(bytes, 1);
            CHECK(want && got);
            kernel->pack(want, first, QKV_REAL, DEEP, ROWS, ldn, ldk);
            for (int64_t n = 0; n < ROWS; n++) {
                float scale;
                qkv_quantise_row(q + n, &scale, w + n * DEEP, DEEP, 1);
                qkv_quantised_row(wide + n * DEEP, q + n, scale, DEEP, 1);
            }
            kernel->pack(got, wide, QKV_REAL, DEEP, ROWS, DEEP, 1);
            CHECK_BITS(got, want, bytes);
            qkv_free(want);
            qkv_free(got);
        }
    }
}

TEST(every_scale_comes_back)
{
    uint32_t word[4];
    for (uint64_t i = 0; i < 200000; i++) {
        float x, scale, again;
        int8_t q;
        real back;
        qkv_philox(word, 6, 0, i);
        const uint32_t bits = word[0] % 0x7f800000u; // bits of a finite number that is not negative
        memcpy(&x, &bits, sizeof x);
        qkv_quantise_row(&q, &scale, &x, 1, 1);
        qkv_quantised_row(&back, &q, scale, 1, 1);
        const float narrow = (float)back;
        qkv_quantise_row(&q, &again, &narrow, 1, 1);
        if (memcmp(&scale, &again, sizeof scale) != 0)
            fail_msg("%a: scale %a came back as %a", (double)x, (double)scale, (double)again);
        CHECK_EQ(q, scale > 0 ? 127 : 0);
    }
}

TEST(a_number_is_off_by_half_a_step_at_most)
{
    int8_t q[DEEP];
    real back[DEEP];
    fill();
    for (int64_t n = 8; n < ROWS; n++) {
        float scale;
        qkv_quantise_row(q, &scale, w + n * DEEP, DEEP, 1);
        qkv_quantised_row(back, q, scale, DEEP, 1);
        // Three roundings: 127 / highest, the product with it, and scale q.
        for (int64_t k = 0; k < DEEP; k++)
            CHECK_NEAR((double)back[k], (double)w[n * DEEP + k],
                       (double)scale * (0.5 + 127 * 3 * (double)FLT_EPSILON));
    }
}

CHECK_MAIN(CASE(what_is_packed_again_has_the_same_bits), CASE(every_scale_comes_back),
           CASE(a_number_is_off_by_half_a_step_at_most))
