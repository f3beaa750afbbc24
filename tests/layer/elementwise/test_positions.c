// SPDX-License-Identifier: MIT
// test_positions.c: sinusoidal and rotary positions on plain arrays against their formulas in
// double.
#include "check.h"
#include <qkv/layer.h>
#include <stdlib.h>
#include <string.h>

// A table element is one rounding of a sine or cosine to float, and the angle has the error of a
// few roundings in double: far below 2^-24 up to these positions.
#define NEAR_ONE 0x1p-23

TEST(sinusoids_are_the_formula)
{
    enum { P = 300 };
    static const int64_t widths[] = { 1, 2, 7, 64 };
    EACH(D, widths)
    {
        float *table = malloc((size_t)(P * *D) * sizeof *table);
        CHECK_EQ(qkv_sinusoids(table, P, *D), QKV_OK);
        for (int64_t p = 0; p < P; p++)
            for (int64_t d = 0; d < *D; d++) {
                const double angle = (double)p / pow(10000, (double)(d / 2 * 2) / (double)*D);
                CHECK_NEAR(table[p * *D + d], d % 2 ? cos(angle) : sin(angle), NEAR_ONE);
            }
        free(table);
    }
}

TEST(rotation_is_the_formula_in_both_layouts)
{
    enum { R = 5, H = 3, E = 6 };
    static const int32_t positions[R] = { 0, 1, 7, 100, 5000 };
    float x[R * H * E], y[R * H * E];
    for (int layout = 0; layout < 2; layout++) {
        for (int i = 0; i < R * H * E; i++) x[i] = (float)check_gauss();
        memcpy(y, x, sizeof y);
        CHECK_EQ(qkv_rotate(y, positions, R, H, E, 500, layout == 1, false), QKV_OK);
        for (int h = 0; h < R * H; h++)
            for (int i = 0; i < E / 2; i++) {
                const int a = h * E + (layout ? 2 * i : i), b = layout ? a + 1 : a + E / 2;
                const double angle = positions[h / H] / pow(500, 2.0 * i / E);
                // two products of floats with rounded sines and cosines, and a sum
                const double bound = 4 * NEAR_ONE * (fabs((double)x[a]) + fabs((double)x[b]));
                CHECK_NEAR(y[a], x[a] * cos(angle) - x[b] * sin(angle), bound);
                CHECK_NEAR(y[b], x[a] * sin(angle) + x[b] * cos(angle), bound);
            }
        CHECK_EQ(qkv_rotate(y, positions, R, H, E, 500, layout == 1, true), QKV_OK);
        for (int i = 0; i < R * H * E; i++) CHECK_NEAR(y[i], x[i], 16 * NEAR_ONE * 4);
    }
}

TEST(wrong_arguments_are_refused_and_change_nothing)
{
    float x[4] = { 1, 2, 3, 4 };
    const int32_t at[1] = { 0 }, negative[1] = { -1 };
    CHECK_EQ(qkv_sinusoids(NULL, 1, 2), QKV_ERR_USAGE);
    CHECK_EQ(qkv_sinusoids(x, -1, 2), QKV_ERR_USAGE);
    CHECK_EQ(qkv_sinusoids(NULL, 0, 2), QKV_OK);
    CHECK_EQ(qkv_sinusoids(x, INT64_MAX, 2), QKV_ERR_LIMIT);
    CHECK_EQ(qkv_rotate(x, at, 1, 1, 3, 0, false, false), QKV_ERR_USAGE);
    CHECK_EQ(qkv_rotate(x, NULL, 1, 1, 4, 0, false, false), QKV_ERR_USAGE);
    CHECK_EQ(qkv_rotate(x, negative, 1, 1, 4, 0, false, false), QKV_ERR_USAGE);
    CHECK_EQ(qkv_rotate(x, at, 1, 1, 4, -1, false, false), QKV_ERR_USAGE);
    CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
}

CHECK_MAIN(CASE(sinusoids_are_the_formula), CASE(rotation_is_the_formula_in_both_layouts),
           CASE(wrong_arguments_are_refused_and_change_nothing))
