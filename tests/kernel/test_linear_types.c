// SPDX-License-Identifier: MIT
// test_linear_types.c: tests products of the 16-bit and 8-bit precisions: 16-bit products by
// conversion are bit-identical on every ISA, 8-bit sums are exact on all of them, and rows of x and
// y may have any type.
#include "linear_case.h"
#include <stdlib.h>

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and these bounds hold for float");
    return 77;
}
#else
static const int64_t widths[] = { 1, 16, 17, 31, 48, 50, 147 };
static const int64_t depths[] = { 0, 1, 3, 4, 6, 17, 50, 384, 389, 1201 };

// Products of two bf16 or two f16 are exact in float, so one chain of sums has the same bits with
// and without fma; only a native dot product rounds differently.
TEST(sixteen_bits_by_conversion_have_the_bits_of_the_scalar_law)
{
    static const qkv_precision halves[] = { QKV_PRECISION_BF16, QKV_PRECISION_F16 };
    EACH_ISA(k) EACH(how, halves) EACH(K, depths) EACH(N, widths)
    {
        if (!strstr(k->linear[*how]->arithmetic, "as float")) continue;
        enum { ROWS = 9 };
        const struct product p = product(k, *how, ROWS, *K, *N);
        const struct qkv_linear_kernel *law = qkv_kernel_isa(0)->linear[*how];
        const struct qkv_linear_tail tail = { .b = p.b, .scale = 0.5f };
        void *panels = fenced((size_t)((*N + law->panel - 1) / law->panel) * law->panel_bytes(*K));
        float *y = fenced((size_t)(ROWS * *N) * sizeof *y);
        law->pack(panels, p.w, QKV_REAL, *K, *N, *K, 1);
        law->rows(y, *N, p.x, *K, panels, ROWS, *K, *N, &tail);
        product_run(&p, tail);
        CHECK_BITS(p.y, y, (size_t)(ROWS * *N) * sizeof *y);
        fence_free();
    }
}

// A pair: s = fma(x_0, w_0, fma(x_1, w_1, s)); an odd K ends in a pair with 0.
TEST(pairs_of_bf16_have_the_bits_of_their_chain)
{
    EACH_ISA(k) EACH(K, depths) EACH(N, widths)
    {
        if (strcmp(k->linear[QKV_PRECISION_BF16]->arithmetic, "bf16 pairs") != 0) continue;
        enum { ROWS = 9 };
        const struct product p = product(k, QKV_PRECISION_BF16, ROWS, *K, *N);
        product_run(&p, (struct qkv_linear_tail){ .scale = 1 });
        for (int64_t i = 0; i < ROWS * *N; i++) {
            const float *x = p.x + i / *N * *K, *w = p.w + i % *N * *K;
            float sum = 0, part = 0;
            for (int64_t j = 0; j < *K; j += 2) {
                for (int64_t e = qkv_min64(j + 1, *K - 1); e >= j; e--)
                    part = fmaf(linear_number(x[e], QKV_PRECISION_BF16),
                                linear_number(w[e], QKV_PRECISION_BF16), part);
                if ((j + 2) % QKV_LINEAR_CHUNK == 0 || j + 2 >= *K) {
                    sum = j < QKV_LINEAR_CHUNK ? part : sum + part;
                    part = 0;
                }
            }
            CHECK_BITS(&p.y[i], &sum, sizeof sum);
        }
        fence_free();
    }
}

// y = (s t) sum_k X W in integers, compared with the product of the original numbers: with |x - s
// X| <= s/2 and |w - t W| <= t/2 the error of a term is at most |x| t/2 + |w| s/2 + s t/4, and both
// quotients are rounded.
TEST(sums_of_eight_bits_are_exact_and_within_the_bound_of_their_steps)
{
    EACH_ISA(k) EACH(K, depths) EACH(N, widths)
    {
        enum { ROWS = 9 };
        const struct product p = product(k, QKV_PRECISION_INT8, ROWS, *K, *N);
        product_run(&p, (struct qkv_linear_tail){ .b = p.b, .scale = 0.5f });
        int32_t X[1201], W[1201];
        for (int64_t r = 0; r < ROWS; r++) {
            const float *x = p.x + r * *K, s = linear_quantised(X, x, *K);
            for (int64_t n = 0; n < *N; n++) {
                const float *w = p.w + n * *K, t = linear_quantised(W, w, *K);
                int32_t sum = 0;
                double exact = 0, off = 0;
                for (int64_t i = 0; i < *K; i++) {
                    sum += X[i] * W[i];
                    exact += (double)x[i] * (double)w[i];
                    off += fabs((double)x[i]) * (double)t + fabs((double)w[i]) * (double)s +
                           (double)s * (double)t / 2;
                }
                const float y = (float)sum * (s * t) * 0.5f + p.b[n];
                CHECK_BITS(&p.y[r * *N + n], &y, sizeof y);
                const double grain = 8 * (double)FLT_EPSILON;
                CHECK_NEAR((double)y, exact / 2 + (double)p.b[n],
                           off / 4 * (1 + grain) + grain * (fabs(exact) + fabs((double)p.b[n])));
            }
        }
        fence_free();
    }
}

// All products have the largest magnitude, in chunks whose sums fit into 32 bits; the last chunk is
// short. Rows and columns of several panels and tiles, of alternating signs: none adds to another.
TEST(no_length_overflows_a_sum_of_eight_bits)
{
    enum { ROWS = 35, N = 147 };
    const int64_t K = 3 * QKV_LINEAR_INT8_CHUNK + 5;
    float *x = fenced((size_t)(ROWS * K) * sizeof *x), *w = fenced((size_t)(N * K) * sizeof *w);
    float *y = fenced((size_t)(ROWS * N) * sizeof *y), sum = 0;
    for (int64_t i = 0; i < ROWS * K; i++) x[i] = i / K % 3 ? 127 : -127;
    for (int64_t i = 0; i < N * K; i++) w[i] = i / K % 2 ? -127 : 127;
    for (int64_t left = K; left > 0; left -= QKV_LINEAR_INT8_CHUNK)
        sum += (float)(qkv_min64(left, QKV_LINEAR_INT8_CHUNK) * 127 * 127);
    EACH_ISA(k)
    {
        const struct qkv_linear_kernel *kernel = k->linear[QKV_PRECISION_INT8];
        const struct qkv_linear_tail tail = { .scale = 1 };
        const int64_t panels_count = (N + kernel->panel - 1) / kernel->panel;
        void *panels = qkv_alloc((size_t)panels_count * kernel->panel_bytes(K), 1);
        kernel->pack(panels, w, QKV_REAL, K, N, K, 1);
        kernel->rows(y, N, x, K, panels, ROWS, K, N, &tail);
        for (int64_t i = 0; i < ROWS * N; i++) {
            const bool minus = (i / N % 3 == 0) != (i % N % 2 == 1);
            CHECK(y[i] == (minus ? -sum : sum));
        }
        qkv_free(panels);
    }
    fence_free();
}

TEST(a_row_of_eight_bits_may_be_zero_tiny_or_huge)
{
    static const float sizes[] = { 0, 0x1p-149f, 0x1p-101f, 0x1p-99f, 1, 0x1p+100f, FLT_MAX };
    EACH_ISA(k) EACH(size, sizes)
    {
        enum { K = 37, N = 50 };
        struct product p = product(k, QKV_PRECISION_INT8, 1, K, N);
        double ones = 0;
        for (int i = 0; i < K; i++) p.x[i] = i % 3 ? *size : -*size;
        for (int i = 0; i < N * K; i++) p.w[i] = 0x1p-110f;
        for (int i = 0; i < K; i++) ones += i % 3 ? 1 : -1;
        p.kernel->pack(p.panels, p.w, QKV_REAL, K, N, K, 1);
        product_run(&p, (struct qkv_linear_tail){ .scale = 1 });
        for (int i = 0; i < N; i++) CHECK(p.y[i] == 0); // weights below 2^-100 count as 0
        for (int i = 0; i < N * K; i++) p.w[i] = 0x1p-10f;
        p.kernel->pack(p.panels, p.w, QKV_REAL, K, N, K, 1);
        product_run(&p, (struct qkv_linear_tail){ .scale = 1 });
        const double want = *size < 0x1p-100f ? 0 : ones * (double)*size * 0x1p-10;
        for (int i = 0; i < N; i++) // roundings: the quotients, their product, the last product
            CHECK_NEAR((double)p.y[i], want, 3 * (double)FLT_EPSILON * fabs(want));
        fence_free();
    }
}

// The product of the scales is infinite; the expected value is the product in double.
TEST(scales_of_eight_bits_whose_product_overflows_give_the_sum_of_the_formula)
{
    enum { K = 40, N = 70, ROWS = 3 };
    EACH_ISA(k)
    {
        struct product p = product(k, QKV_PRECISION_INT8, ROWS, K, N);
        for (int i = 0; i < ROWS * K; i++) p.x[i] = i % K < 2 ? 1e25f : 0;
        for (int i = 0; i < N * K; i++) p.w[i] = 0;
        for (int n = 0; n < N; n++) { // sums of 0, of both signs, and of a column without numbers
            if (n % 4 == 3) continue;
            p.w[n * K] = n % 4 == 2 ? -1e20f : 1e20f;
            p.w[n * K + 1] = n % 4 == 0 ? -1e20f : 0;
        }
        p.x[2 * K + 5] = NAN;
        p.kernel->pack(p.panels, p.w, QKV_REAL, K, N, K, 1);
        product_run(&p, (struct qkv_linear_tail){ .scale = 1 });
        for (int r = 0; r < ROWS; r++)
            for (int n = 0; n < N; n++) {
                double want = 0;
                for (int i = 0; i < K; i++) want += (double)p.x[r * K + i] * (double)p.w[n * K + i];
                const float y = p.y[r * N + n];
                if (r < 2 && y != (float)want) fail_msg("%s: %g", k->isa, (double)y);
                if (r == 2) CHECK(isnan(y));
            }
        fence_free();
    }
}

// 16-bit rows of x give the same result as these numbers in floats; 16-bit y is the float y
// rounded.
TEST(rows_may_be_of_any_type)
{
    static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_F16 };
    EACH_ISA(k) EACH(how, linear_precisions) EACH(in, types) EACH(out, types) EACH(K, depths)
    {
        if (*K > 400) continue;
        enum { ROWS = 10, N = 53, LDY = 60 };
        struct product p = product(k, *how, ROWS, *K, N);
        const int64_t ldx = *K + 3;
        char *x = fenced((size_t)((ROWS - 1) * ldx + *K) * qkv_dtype_size(*in));
        float *residual = fenced_random(ROWS * N);
        uint16_t *y = fenced((size_t)(ROWS * LDY) * sizeof(float));
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t i = 0; i < *K; i++) {
                float *at = &p.x[r * *K + i];
                const uint16_t half = *in == QKV_BF16 ? qkv_f32_to_bf16(*at) : qkv_f32_to_f16(*at);
                if (*in != QKV_F32)
                    *at = *in == QKV_BF16 ? qkv_bf16_to_f32(half) : qkv_f16_to_f32(half);
                const size_t size = qkv_dtype_size(*in);
                memcpy(x + (size_t)(r * ldx + i) * size,
                       *in == QKV_F32 ? (const void *)at : (const void *)&half, size);
            }
        struct qkv_linear_tail tail = {
            .b = p.b, .scale = 1, .act = QKV_ACT_RELU, .residual = residual, .residual_ld = N
        };
        product_run(&p, tail);
        tail.x = *in;
        tail.y = *out;
        p.kernel->rows(y, LDY, x, ldx, p.panels, ROWS, *K, N, &tail);
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t n = 0; n < N; n++) {
                const float want = p.y[r * N + n];
                if (*out == QKV_F32)
                    CHECK_BITS((float *)(void *)y + r * LDY + n, &want, sizeof want);
                else
                    CHECK_EQ(y[r * LDY + n],
                             *out == QKV_BF16 ? qkv_f32_to_bf16(want) : qkv_f32_to_f16(want));
            }
        fence_free();
    }
}

// GELU that is rounded to bf16 may be coarser: its error is at most half a bf16 step plus 2^-4 of a
// step.
TEST(gelu_of_a_product_that_is_stored_as_bf16_is_off_by_little_more_than_its_rounding)
{
    enum { N = 256 };
    EACH_ISA(k)
    {
        const struct qkv_linear_kernel *kernel = k->linear[QKV_PRECISION_F32];
        const struct qkv_linear_tail tail = { .y = QKV_BF16, .scale = 1, .act = QKV_ACT_GELU };
        float w[N], one = 1;
        uint16_t y[N];
        void *panels = fenced((size_t)qkv_ceil_div(N, kernel->panel) * kernel->panel_bytes(1));
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += N * 9973) {
            for (int i = 0; i < N; i++) {
                const uint32_t bits = (uint32_t)(u + (uint64_t)i * 9973);
                memcpy(&w[i], &bits, sizeof bits);
            }
            kernel->pack(panels, w, QKV_REAL, 1, N, 1, 1);
            kernel->rows(y, N, &one, 1, panels, 1, 1, N, &tail);
            for (int i = 0; i < N; i++) {
                const double x = (double)w[i], got = (double)qkv_bf16_to_f32(y[i]);
                if (isnan(x) || isinf(x)) {
                    CHECK(isnan(x) ? isnan(got) : got == (x > 0 ? (double)INFINITY : 0));
                    continue;
                }
                const double want = 0.5 * x * erfc(-x * 0.70710678118654752440);
                const double step = ldexp(1, want == 0 ? -133 : ilogb(want) - 7);
                // AMX stores 0 for a number below 2^-126
                if (got == 0 && fabs(want) < 0x1p-126 && !strcmp(kernel->isa, "amx")) continue;
                if (fabs(want) > 3.3e38) continue; // may round to infinity or to the largest bf16
                CHECK_NEAR(got, want, 0.5625 * fmax(step, 0x1p-126));
            }
        }
        fence_free();
    }
}

TEST(every_slot_says_what_it_is)
{
    EACH_ISA(k) EACH(how, linear_precisions)
    {
        const struct qkv_linear_kernel *kernel = k->linear[*how];
        CHECK(kernel && kernel->isa && kernel->arithmetic && kernel->panel > 0);
        for (int64_t K = 0; K < 100; K++) CHECK_EQ(kernel->panel_bytes(K) % 64, 0);
    }
}

CHECK_MAIN(CASE(sixteen_bits_by_conversion_have_the_bits_of_the_scalar_law),
           CASE(pairs_of_bf16_have_the_bits_of_their_chain),
           CASE(sums_of_eight_bits_are_exact_and_within_the_bound_of_their_steps),
           CASE(no_length_overflows_a_sum_of_eight_bits),
           CASE(a_row_of_eight_bits_may_be_zero_tiny_or_huge),
           CASE(scales_of_eight_bits_whose_product_overflows_give_the_sum_of_the_formula),
           CASE(rows_may_be_of_any_type),
           CASE(gelu_of_a_product_that_is_stored_as_bf16_is_off_by_little_more_than_its_rounding),
           CASE(every_slot_says_what_it_is))
#endif
