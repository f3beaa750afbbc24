// SPDX-License-Identifier: MIT
// test_linear.c: tests the packed product: every precision of every ISA is within the bound of
// docs/numerics.md, and each row is independent of the others.
#include "linear_case.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and these bounds hold for float");
    return 77;
}
#else
static const int64_t widths[] = { 1,  2,  7,  8,  9,  15, 16, 17,  31,  32,
                                  33, 47, 48, 49, 51, 95, 96, 147, 193, 240 };
static const int64_t depths[] = { 0, 1, 2, 3, 7, 8, 15, 16, 17, 50, 51, 383, 384, 385, 769 };
static const int64_t heights[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17 };
enum { TALL = 17 };

// Returns whether no weaker ISA, and no earlier precision of floats, has the same kernel: with the
// same kernel a test has the same result.
static bool new_here(const struct qkv_kernels *k, qkv_precision p)
{
    const struct qkv_kernels *weaker;
    for (int i = 0; (weaker = qkv_kernel_isa(i)) != NULL && weaker != k; i++)
        if (!(QKV_FEW && i) && weaker->linear[p] == k->linear[p]) return false;
    for (qkv_precision q = QKV_PRECISION_F32; q < p && p <= QKV_PRECISION_F32_FAST; q++)
        if (k->linear[q] == k->linear[p]) return false;
    return true;
}
#define EACH_PRODUCT(k, p)                                                                         \
    EACH_ISA(k) EACH(p, linear_precisions) if (!new_here(k, *p)) continue;                         \
    else

TEST(every_sum_is_within_gamma_of_double)
{
    EACH_PRODUCT(k, how) EACH(K, depths) EACH(N, widths)
    {
        if (*how == QKV_PRECISION_INT8) continue; // INT8 sums are exact: test_linear_types
        const int64_t rows = 1 + (*K + *N) % TALL;
        const struct product p = product(k, *how, rows, *K, *N);
        product_run(&p, (struct qkv_linear_tail){ .b = p.b, .scale = 0.75f });
        for (int64_t r = 0; r < rows; r++)
            for (int64_t n = 0; n < *N; n++) {
                double sum = p.b[n], size = fabs((double)p.b[n]);
                for (int64_t i = 0; i < *K; i++) {
                    const double part = 0.75 * (double)linear_number(p.x[r * *K + i], *how) *
                                        (double)linear_number(p.w[n * *K + i], *how);
                    sum += part;
                    size += fabs(part);
                }
                // Three products of parts omit up to 2^-16 of a product, and the two parts omit up
                // to 2^-17 of each number.
                const double less = *how == QKV_PRECISION_F32_FAST ? 0x1p-15 : 0;
                CHECK_NEAR((double)p.y[r * *N + n], sum, (linear_gamma(*K) + less) * size);
            }
        fence_free();
    }
}

TEST(a_row_has_the_same_bits_for_every_number_of_rows)
{
    EACH_PRODUCT(k, how) EACH(K, depths)
    {
        enum { N = 211 };
        const struct product all = product(k, *how, TALL, *K, N);
        const struct qkv_linear_tail tail = { .b = all.b, .scale = 1, .act = QKV_ACT_GELU };
        float alone[TALL][N];
        for (int64_t r = 0; r < TALL; r++)
            all.kernel->rows(alone[r], N, all.x + r * *K, *K, all.panels, 1, *K, N, &tail);
        EACH(rows, heights)
        {
            struct product p = all; // the last rows of x and y, before their guard pages
            p.rows = *rows;
            p.x += (TALL - *rows) * *K;
            p.y += (TALL - *rows) * N;
            product_run(&p, tail);
            CHECK_BITS(p.y, alone[TALL - *rows], (size_t)(*rows * N) * sizeof(float));
        }
        fence_free();
    }
}

// AMX multiplies up to four groups of 32 rows by parts of weights that are split once.
TEST(many_rows_have_the_bits_of_one_row)
{
    enum { MANY = 131, N = 37 };
    static const int64_t deep[] = { 64, 700 }, tall[] = { 33, 70, 128, MANY };
    EACH_PRODUCT(k, how) EACH(K, deep)
    {
        struct product p = product(k, *how, MANY, *K, N);
        const struct qkv_linear_tail tail = { .b = p.b, .scale = 1 };
        float alone[MANY][N];
        for (int64_t r = 0; r < MANY; r++)
            p.kernel->rows(alone[r], N, p.x + r * *K, *K, p.panels, 1, *K, N, &tail);
        EACH(rows, tall)
        {
            p.rows = *rows;
            product_run(&p, tail);
            CHECK_BITS(p.y, alone, (size_t)(*rows * N) * sizeof(float));
        }
        fence_free();
    }
}

TEST(a_column_has_the_same_bits_whatever_stands_beside_it)
{
    EACH_PRODUCT(k, how) EACH(N, widths)
    {
        enum { K = 77, ROWS = 5 };
        const struct product p = product(k, *how, ROWS, K, *N);
        const struct qkv_linear_tail tail = { .scale = 1 };
        float *panels = fenced(p.kernel->panel_bytes(K)), one[ROWS];
        product_run(&p, tail);
        for (int64_t n = 0; n < *N; n++) {
            p.kernel->pack(panels, p.w + n * K, QKV_REAL, K, 1, K, 1);
            p.kernel->rows(one, 1, p.x, K, panels, ROWS, K, 1, &tail);
            for (int r = 0; r < ROWS; r++) CHECK_BITS(&one[r], &p.y[r * *N + n], sizeof(float));
        }
        fence_free();
    }
}

TEST(the_tail_is_scale_bias_activation_residual_in_this_order)
{
    static const enum qkv_activation acts[] = { QKV_ACT_NONE,      QKV_ACT_RELU, QKV_ACT_GELU,
                                                QKV_ACT_GELU_TANH, QKV_ACT_SILU, QKV_ACT_TANH };
    EACH_PRODUCT(k, how) EACH(N, widths) EACH(act, acts)
    {
        enum { K = 19, ROWS = 9 };
        const struct product p = product(k, *how, ROWS, K, *N);
        const size_t bytes = (size_t)(ROWS * *N) * sizeof(float);
        float *plain = fenced(bytes), *before = fenced(bytes), *residual = fenced_random(ROWS * *N);
        struct qkv_linear_tail tail = { .scale = 1 };
        p.kernel->rows(plain, *N, p.x, K, p.panels, ROWS, K, *N, &tail);
        for (int64_t i = 0; i < ROWS * *N; i++) plain[i] = plain[i] * 0.5f + p.b[i % *N];
        tail = (struct qkv_linear_tail){ .b = p.b,
                                         .scale = 0.5f,
                                         .act = *act,
                                         .residual = residual,
                                         .residual_ld = *N,
                                         .before = before,
                                         .before_ld = *N };
        product_run(&p, tail);
        CHECK_BITS(before, plain, bytes);
        k->activation(plain, plain, QKV_REAL, ROWS * *N, *act);
        for (int64_t i = 0; i < ROWS * *N; i++) plain[i] += residual[i];
        CHECK_BITS(p.y, plain, bytes);
        tail.residual = memcpy(p.y, residual, bytes); // in place: allowed by kernel.h
        product_run(&p, tail);
        CHECK_BITS(p.y, plain, bytes);
        fence_free();
    }
}

TEST(rows_may_lie_apart_and_anywhere)
{
    EACH_PRODUCT(k, how)
    {
        enum { K = 33, N = 50, ROWS = 10, LDX = 41, LDY = 57 };
        for (int shift = 0; shift < 16; shift++) {
            const struct product p = product(k, *how, ROWS, K, N);
            const struct qkv_linear_tail tail = { .b = p.b, .scale = 1 };
            float x[ROWS * LDX + 16], y[ROWS * LDY + 16];
            for (int i = 0; i < ROWS * LDX + 16; i++) x[i] = NAN;
            for (int i = 0; i < ROWS * LDY + 16; i++) y[i] = 3;
            for (int r = 0; r < ROWS; r++) memcpy(x + shift + r * LDX, p.x + r * K, K * sizeof *x);
            product_run(&p, tail);
            p.kernel->rows(y + shift, LDY, x + shift, LDX, p.panels, ROWS, K, N, &tail);
            for (int r = 0; r < ROWS; r++) {
                CHECK_BITS(y + shift + r * LDY, p.y + r * N, N * sizeof *y);
                for (int i = N; i < LDY; i++)
                    CHECK(y[shift + r * LDY + i] == 3); // elements between the rows are not written
            }
            fence_free();
        }
    }
}

TEST(weights_may_be_stored_either_way)
{
    // one weight of each third column
    static const float some[] = { 0, 3e38f, 1e-40f, -INFINITY, NAN };
    EACH_PRODUCT(k, how) EACH(N, widths) EACH(value, some)
    {
        const int64_t K = *value > 0 ? 70 : 23;
        struct product p = product(k, *how, 1, K, *N);
        const int64_t panel = p.kernel->panel;
        const size_t bytes = (size_t)((*N + panel - 1) / panel) * p.kernel->panel_bytes(K);
        float *turned = fenced((size_t)(*N * K) * sizeof *turned);
        void *panels = fenced(bytes);
        for (int64_t n = 0; n < *N; n += 3) p.w[n * K + n % K] = *value;
        p.kernel->pack(p.panels, p.w, QKV_REAL, K, *N, K, 1);
        for (int64_t n = 0; n < *N; n++)
            for (int64_t i = 0; i < K; i++) turned[i * *N + n] = p.w[n * K + i];
        p.kernel->pack(panels, turned, QKV_REAL, K, *N, 1, *N);
        CHECK_BITS(panels, p.panels, bytes);
        fence_free();
    }
}

TEST(what_is_not_finite_stays_in_its_row_and_column)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    EACH_PRODUCT(k, how) EACH(value, bad)
    {
        enum { K = 40, N = 60, ROWS = 9 };
        struct product p = product(k, *how, ROWS, K, N);
        const struct qkv_linear_tail tail = { .scale = 1 };
        float clean[ROWS * N];
        p.kernel->rows(clean, N, p.x, K, p.panels, ROWS, K, N, &tail);
        p.x[4 * K + 7] = *value;
        product_run(&p, tail);
        for (int i = 0; i < ROWS * N; i++)
            CHECK(i / N == 4 ? !isfinite(p.y[i]) : p.y[i] == clean[i]);
        p.x[4 * K + 7] = 0;
        p.w[31 * K + 5] = *value;
        p.kernel->pack(p.panels, p.w, QKV_REAL, K, N, K, 1);
        product_run(&p, tail);
        for (int i = 0; i < ROWS * N; i++)
            CHECK(i % N == 31 ? !isfinite(p.y[i]) : i / N == 4 || p.y[i] == clean[i]);
        fence_free();
    }
}

TEST(weights_may_be_stored_in_halves)
{
    static const qkv_dtype types[] = { QKV_BF16, QKV_F16 };
    static const int64_t sizes[][2] = { { 1, 1 }, { 33, 5 }, { 50, 49 }, { 64, 130 } };
    EACH_ISA(k) EACH(precision, linear_precisions) EACH(type, types) EACH(size, sizes)
    {
        const struct qkv_linear_kernel *kernel = k->linear[*precision];
        const int64_t K = (*size)[0], N = (*size)[1];
        const size_t bytes =
            (size_t)((N + kernel->panel - 1) / kernel->panel) * kernel->panel_bytes(K);
        if (*precision == QKV_PRECISION_INT8) continue; // INT8 packs only floats
        float *w = fenced_random(N * K);
        uint16_t *half = fenced((size_t)(N * K) * sizeof *half);
        CHECK(qkv_from_f32(half, *type, w, N * K) && qkv_to_f32(w, half, *type, N * K));
        void *a = fenced(bytes), *b = fenced(bytes);
        for (int turned = 0; turned < 2; turned++) {
            const int64_t ldn = turned ? 1 : K, ldk = turned ? N : 1;
            kernel->pack(a, w, QKV_REAL, K, N, ldn, ldk);
            kernel->pack(b, half, *type, K, N, ldn, ldk);
            CHECK_BITS(a, b, bytes);
        }
        fence_free();
    }
}

CHECK_MAIN(CASE(every_sum_is_within_gamma_of_double),
           CASE(a_row_has_the_same_bits_for_every_number_of_rows),
           CASE(many_rows_have_the_bits_of_one_row),
           CASE(a_column_has_the_same_bits_whatever_stands_beside_it),
           CASE(the_tail_is_scale_bias_activation_residual_in_this_order),
           CASE(rows_may_lie_apart_and_anywhere), CASE(weights_may_be_stored_either_way),
           CASE(weights_may_be_stored_in_halves),
           CASE(what_is_not_finite_stays_in_its_row_and_column))
#endif
