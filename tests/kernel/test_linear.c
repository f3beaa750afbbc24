// SPDX-License-Identifier: MIT
// test_linear.c: the packed product: every ISA within the
// bound of docs/numerics.md, rows on their own.
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and the bounds here are those of float");
    return 77;
}
#else
static const int64_t widths[] = { 1,  2,  7,  8,  9,  15, 16, 17, 31, 32,
                                  33, 47, 48, 49, 51, 95, 96, 97, 147 };
static const int64_t depths[] = { 0, 1, 2, 3, 7, 8, 15, 16, 17, 50, 51, 383, 384, 385, 769 };
static const int64_t heights[] = { 1, 2, 3, 5, 6, 7, 8, 9, 13, 16, 17 };
enum { TALL = 17 };

// |error| <= gamma_n sum |x||w|, n the roundings a product can pass: the chain of its chunk (twice
// without fma), the sums of the chunks, scale and bias.  Higham 2002, Accuracy and Stability, 3.1.
static double gamma_of(int64_t K)
{
    const double chain = 2 * (double)(K < QKV_LINEAR_CHUNK ? K : QKV_LINEAR_CHUNK);
    const double n = chain + (double)(K / QKV_LINEAR_CHUNK) + 3, u = FLT_EPSILON / 2;
    return n * u / (1 - n * u);
}

struct product {
    float *x, *w, *b, *panels, *y;
    int64_t rows, K, N;
};
// All in blocks that end at a guard page: a read or write behind any of them ends the test.
static struct product product(const struct qkv_kernels *k, int64_t rows, int64_t K, int64_t N)
{
    struct product p = {
        fenced_random(rows * K), fenced_random(N * K), fenced_random(N), NULL, NULL, rows, K, N
    };
    const int64_t panel = k->linear[0]->panel, panels = (N + panel - 1) / panel;
    p.panels = fenced((size_t)panels * k->linear[0]->panel_bytes(K));
    p.y = fenced((size_t)(rows * N) * sizeof(float));
    k->linear[0]->pack(p.panels, p.w, K, N, K, 1);
    return p;
}

TEST(every_sum_is_within_gamma_of_double)
{
    EACH_ISA(k) EACH(K, depths) EACH(N, widths)
    {
        const int64_t rows = 1 + (*K + *N) % TALL;
        const struct product p = product(k, rows, *K, *N);
        const struct qkv_linear_tail tail = { .b = p.b, .scale = 0.75f };
        k->linear[0]->rows(p.y, *N, p.x, *K, p.panels, rows, *K, *N, &tail);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t n = 0; n < *N; n++) {
                double sum = p.b[n], size = fabs((double)p.b[n]);
                for (int64_t i = 0; i < *K; i++) {
                    const double part = 0.75 * (double)p.x[r * *K + i] * (double)p.w[n * *K + i];
                    sum += part;
                    size += fabs(part);
                }
                CHECK_NEAR((double)p.y[r * *N + n], sum, gamma_of(*K) * size);
            }
        fence_free();
    }
}

TEST(a_row_has_the_same_bits_for_every_number_of_rows)
{
    EACH_ISA(k) EACH(K, depths) EACH(rows, heights)
    {
        const int64_t N = 101;
        const struct product p = product(k, *rows, *K, N);
        const struct qkv_linear_tail tail = { .b = p.b, .scale = 1, .act = QKV_ACT_GELU };
        float one[101];
        k->linear[0]->rows(p.y, N, p.x, *K, p.panels, *rows, *K, N, &tail);
        for (int64_t r = 0; r < *rows; r++) {
            k->linear[0]->rows(one, N, p.x + r * *K, *K, p.panels, 1, *K, N, &tail);
            CHECK_BITS(one, p.y + r * N, sizeof one);
        }
        fence_free();
    }
}

TEST(a_column_has_the_same_bits_whatever_stands_beside_it)
{
    EACH_ISA(k) EACH(N, widths)
    {
        enum { K = 77, ROWS = 5 };
        const struct product p = product(k, ROWS, K, *N);
        const struct qkv_linear_tail tail = { .scale = 1 };
        float *panels = fenced(k->linear[0]->panel_bytes(K)), one[ROWS];
        k->linear[0]->rows(p.y, *N, p.x, K, p.panels, ROWS, K, *N, &tail);
        for (int64_t n = 0; n < *N; n++) {
            k->linear[0]->pack(panels, p.w + n * K, K, 1, K, 1);
            k->linear[0]->rows(one, 1, p.x, K, panels, ROWS, K, 1, &tail);
            for (int r = 0; r < ROWS; r++) CHECK_BITS(&one[r], &p.y[r * *N + n], sizeof(float));
        }
        fence_free();
    }
}

TEST(the_tail_is_scale_bias_activation_residual_in_this_order)
{
    static const enum qkv_activation acts[] = { QKV_ACT_NONE,      QKV_ACT_RELU, QKV_ACT_GELU,
                                                QKV_ACT_GELU_TANH, QKV_ACT_SILU, QKV_ACT_TANH };
    EACH_ISA(k) EACH(N, widths) EACH(act, acts)
    {
        enum { K = 19, ROWS = 9 };
        const struct product p = product(k, ROWS, K, *N);
        const size_t bytes = (size_t)(ROWS * *N) * sizeof(float);
        float *plain = fenced(bytes), *before = fenced(bytes), *residual = fenced_random(ROWS * *N);
        struct qkv_linear_tail tail = { .scale = 1 };
        k->linear[0]->rows(plain, *N, p.x, K, p.panels, ROWS, K, *N, &tail);
        for (int64_t i = 0; i < ROWS * *N; i++) plain[i] = plain[i] * 0.5f + p.b[i % *N];
        tail = (struct qkv_linear_tail){ .b = p.b,
                                         .scale = 0.5f,
                                         .act = *act,
                                         .residual = residual,
                                         .residual_ld = *N,
                                         .before = before,
                                         .before_ld = *N };
        k->linear[0]->rows(p.y, *N, p.x, K, p.panels, ROWS, K, *N, &tail);
        CHECK_BITS(before, plain, bytes);
        k->activation(plain, plain, ROWS * *N, *act);
        for (int64_t i = 0; i < ROWS * *N; i++) plain[i] += residual[i];
        CHECK_BITS(p.y, plain, bytes);
        tail.residual = memcpy(p.y, residual, bytes); // in place: allowed by kernel.h
        k->linear[0]->rows(p.y, *N, p.x, K, p.panels, ROWS, K, *N, &tail);
        CHECK_BITS(p.y, plain, bytes);
        fence_free();
    }
}

TEST(rows_may_lie_apart_and_anywhere)
{
    EACH_ISA(k)
    {
        enum { K = 33, N = 50, ROWS = 10, LDX = 41, LDY = 57 };
        for (int shift = 0; shift < 16; shift++) {
            const struct product p = product(k, ROWS, K, N);
            const struct qkv_linear_tail tail = { .b = p.b, .scale = 1 };
            float x[ROWS * LDX + 16], y[ROWS * LDY + 16];
            for (int i = 0; i < ROWS * LDX + 16; i++) x[i] = NAN;
            for (int i = 0; i < ROWS * LDY + 16; i++) y[i] = 3;
            for (int r = 0; r < ROWS; r++) memcpy(x + shift + r * LDX, p.x + r * K, K * sizeof *x);
            k->linear[0]->rows(p.y, N, p.x, K, p.panels, ROWS, K, N, &tail);
            k->linear[0]->rows(y + shift, LDY, x + shift, LDX, p.panels, ROWS, K, N, &tail);
            for (int r = 0; r < ROWS; r++) {
                CHECK_BITS(y + shift + r * LDY, p.y + r * N, N * sizeof *y);
                for (int i = N; i < LDY; i++)
                    CHECK(y[shift + r * LDY + i] == 3); // between rows: untouched
            }
            fence_free();
        }
    }
}

TEST(weights_may_be_stored_either_way)
{
    EACH_ISA(k) EACH(N, widths)
    {
        enum { K = 23 };
        const struct product p = product(k, 1, K, *N);
        const int64_t panel = k->linear[0]->panel;
        const size_t bytes = (size_t)((*N + panel - 1) / panel) * k->linear[0]->panel_bytes(K);
        float *turned = fenced((size_t)(*N * K) * sizeof *turned), *panels = fenced(bytes);
        for (int64_t n = 0; n < *N; n++)
            for (int64_t i = 0; i < K; i++) turned[i * *N + n] = p.w[n * K + i];
        k->linear[0]->pack(panels, turned, K, *N, 1, *N);
        CHECK_BITS(panels, p.panels, bytes);
        fence_free();
    }
}

TEST(what_is_not_finite_stays_in_its_row)
{
    EACH_ISA(k)
    {
        enum { K = 40, N = 60, ROWS = 9 };
        const struct product p = product(k, ROWS, K, N);
        const struct qkv_linear_tail tail = { .scale = 1 };
        float clean[ROWS * N];
        k->linear[0]->rows(clean, N, p.x, K, p.panels, ROWS, K, N, &tail);
        p.x[4 * K + 7] = NAN;
        k->linear[0]->rows(p.y, N, p.x, K, p.panels, ROWS, K, N, &tail);
        for (int i = 0; i < ROWS * N; i++) CHECK(i / N == 4 ? isnan(p.y[i]) : p.y[i] == clean[i]);
        fence_free();
    }
}

CHECK_MAIN(CASE(every_sum_is_within_gamma_of_double),
           CASE(a_row_has_the_same_bits_for_every_number_of_rows),
           CASE(a_column_has_the_same_bits_whatever_stands_beside_it),
           CASE(the_tail_is_scale_bias_activation_residual_in_this_order),
           CASE(rows_may_lie_apart_and_anywhere), CASE(weights_may_be_stored_either_way),
           CASE(what_is_not_finite_stays_in_its_row))
#endif
