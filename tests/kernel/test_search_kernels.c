// SPDX-License-Identifier: MIT
// test_search_kernels.c: compares the dot products of a query with stored rows, of every ISA, with
// sums in double or in integers, at every width and number of rows, between guard pages.
#include "check.h"
#include "kernel/kernel.h"

static const int64_t widths[] = { 1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 384, 771 };
static const int64_t counts[] = { 0, 1, 2, 3, 4, 5, 7, 8, 13 };
static const qkv_dtype types[] = { QKV_F32, QKV_BF16 };

TEST(dot_products_of_floats_are_within_their_bound_and_alone_the_same)
{
    EACH_ISA(k) EACH(type, types) EACH(d, widths) EACH(n, counts)
    {
        float *x = fenced_random(*d), *full = fenced_random(*n * *d);
        void *rows = fenced((size_t)(*n * *d) * qkv_dtype_size(*type));
        float *y = fenced((size_t)*n * sizeof *y), alone;
        CHECK(qkv_from_f32(rows, *type, full, *n * *d) || !*n);
        if (*n) qkv_to_f32(full, rows, *type, *n * *d);
        k->dots_stored(y, x, rows, *type, *n, *d);
        for (int64_t j = 0; j < *n; j++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < *d; i++) {
                sum += (double)x[i] * (double)full[j * *d + i];
                size += fabs((double)x[i] * (double)full[j * *d + i]);
            }
            // each of d products is rounded at most once, and takes part in at most d sums
            CHECK_NEAR((double)y[j], sum, size * 0x1p-24 * ((double)*d + 1));
            k->dots_stored(&alone, x, (char *)rows + (size_t)(j * *d) * qkv_dtype_size(*type),
                           *type, 1, *d);
            CHECK_BITS(&alone, &y[j], sizeof alone);
        }
        fence_free();
    }
}

TEST(dot_products_of_integers_are_exact)
{
    EACH_ISA(k) EACH(d, widths) EACH(n, counts) for (int extreme = 0; extreme < 2; extreme++)
    {
        int8_t *x = fenced((size_t)*d), *rows = fenced((size_t)(*n * *d));
        int32_t *y = fenced((size_t)*n * sizeof *y);
        for (int64_t i = 0; i < *d; i++) x[i] = extreme ? 127 : (int8_t)(127 * check_random());
        for (int64_t i = 0; i < *n * *d; i++)
            rows[i] = extreme ? -127 : (int8_t)(127 * check_random());
        k->dots_int8(y, x, rows, *n, *d);
        for (int64_t j = 0; j < *n; j++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < *d; i++) sum += x[i] * rows[j * *d + i];
            CHECK_EQ(y[j], sum);
        }
        fence_free();
    }
}

TEST(the_largest_sum_of_integers_fits)
{
    EACH_ISA(k)
    {
        int8_t *x = fenced(QKV_SEARCH_WIDTH_MAX);
        int32_t y[5];
        int8_t *rows = fenced(5 * (size_t)QKV_SEARCH_WIDTH_MAX);
        memset(x, 127, QKV_SEARCH_WIDTH_MAX);
        memset(rows, 127, 5 * (size_t)QKV_SEARCH_WIDTH_MAX);
        k->dots_int8(y, x, rows, 5, QKV_SEARCH_WIDTH_MAX);
        for (int j = 0; j < 5; j++) CHECK_EQ(y[j], (int64_t)QKV_SEARCH_WIDTH_MAX * 127 * 127);
        fence_free();
    }
}

CHECK_MAIN(CASE(dot_products_of_floats_are_within_their_bound_and_alone_the_same),
           CASE(dot_products_of_integers_are_exact), CASE(the_largest_sum_of_integers_fits))
