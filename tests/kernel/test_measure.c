// SPDX-License-Identifier: MIT
// test_measure.c: tests the operation counts and the reads of the loops that measure.h uses, on
// every ISA of this machine; no test asserts a speed.
#include <qkv/measure.h>
#include "check.h"
#include "kernel/kernel.h"

// Each chain computes a = a/2 + 1/2 and converges to 1, so the sum of all chains is their number.
TEST(a_peak_counts_two_operations_for_each_of_its_chains)
{
    EACH_ISA(k)
    {
        real keep = 3;
        const int64_t turns = 200, done = k->peak[QKV_UNIT_FLOAT](&keep, turns);
        CHECK_EQ(done, 2 * turns * (int64_t)keep);
        CHECK_NEAR((double)keep, floor((double)keep), 0);
    }
}

TEST(a_read_stays_inside_its_bytes)
{
    const size_t sizes[] = { 0, 1, 63, 64, 255, 256, 257, 4096, 10007 };
    const size_t streams[] = { 1, 2, 4, 8 };
    EACH_ISA(k) EACH(size, sizes) EACH(n, streams)
    {
        char *data = fenced(*size);
        memset(data, 0, *size);
        CHECK(k->peak_read(data, *size, *n) == 0);
        fence_free();
    }
}

TEST(a_read_depends_on_every_vector)
{
    enum { LINES = 37, LINE = 64 / sizeof(real) };
    static real data[LINES * LINE];
    const size_t streams[] = { 1, 2, 4, 8 };
    EACH_ISA(k) EACH(n, streams) for (int line = 0; line < LINES; line++)
    {
        data[line * LINE] = 1;
        CHECK(k->peak_read(data, sizeof data, *n) != 0);
        data[line * LINE] = 0;
    }
}

TEST(every_arithmetic_that_a_kernel_names_has_a_peak)
{
    EACH_ISA(k) for (int p = 0; p < QKV_PRECISIONS; p++)
    {
        if (k->attention[p]) CHECK(qkv_measure_peak(k->attention[p]->arithmetic, 0) > 0);
        if (k->linear[p]) CHECK(qkv_measure_peak(k->linear[p]->arithmetic, 0) > 0);
    }
}

TEST(what_is_no_arithmetic_and_no_data_measures_nothing)
{
    char byte = 0;
    CHECK(qkv_measure_peak("abacus", 0) == 0);
    CHECK(qkv_measure_peak(NULL, 0) == 0);
    CHECK(qkv_measure_read(&byte, 0) == 0);
    CHECK(qkv_measure_read(NULL, 1) == 0);
    CHECK(qkv_measure_read(&byte, 1) > 0);
}

TEST(a_buffer_is_read_by_any_number_of_threads)
{
    enum { BYTES = 3 * 4096 + 17 };
    char *data = fenced(BYTES);
    memset(data, 1, BYTES);
    for (int threads = 1; threads <= 8; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK(qkv_measure_read(data, BYTES) > 0);
        CHECK(qkv_measure_peak("float", 0) > 0);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    fence_free();
}

CHECK_MAIN(CASE(a_peak_counts_two_operations_for_each_of_its_chains),
           CASE(a_read_stays_inside_its_bytes), CASE(a_read_depends_on_every_vector),
           CASE(every_arithmetic_that_a_kernel_names_has_a_peak),
           CASE(what_is_no_arithmetic_and_no_data_measures_nothing),
           CASE(a_buffer_is_read_by_any_number_of_threads))
