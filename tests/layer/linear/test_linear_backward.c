// SPDX-License-Identifier: MIT
// test_linear_backward.c: compares the gradients of the linear layer, in every precision for
// training, with the formula in double (with an error bound) and with PyTorch, and checks that they
// are bit-identical for any number of threads.
#include "base/faults.h"
#include "layer/differences.h"
#include "layer/golden_pairs.h"
#include "layer/layer.h"
#include <stdlib.h>

static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_STRICT,
                                            QKV_PRECISION_F32_FAST, QKV_PRECISION_BF16,
                                            QKV_PRECISION_F16 };

struct problem {
    int64_t R, K, N, ldx, lddy;
    qkv_precision precision;
    qkv_dtype x_type, y_type;
    bool transposed, dx_real;
    double *x, *w, *dy, *add; // the numbers as stored, in double
    void *given_x, *given_dy;
    real *given_w, *given_add;
};
struct result {
    void *dx;
    real *dw, *db;
};

static double as_type(double a, qkv_dtype type)
{
    if (type == QKV_BF16) return (double)qkv_bf16_to_f32(qkv_f32_to_bf16((float)a));
    if (type == QKV_F16) return (double)qkv_f16_to_f32(qkv_f32_to_f16((float)a));
    return (double)(real)a;
}
static double unit(qkv_dtype type)
{
    return type == QKV_BF16 ? 0x1p-8 : type == QKV_F16 ? 0x1p-11 : U;
}
static void put(void *to, qkv_dtype type, int64_t i, double a)
{
    if (type == QKV_REAL)
        ((real *)to)[i] = (real)a;
    else
        qkv_from_f32((uint16_t *)to + i, type, &(float){ (float)a }, 1);
}
static double get(const void *from, qkv_dtype type, int64_t i)
{
    float a;
    if (type == QKV_REAL) return (double)((const real *)from)[i];
    qkv_to_f32(&a, (const uint16_t *)from + i, type, 1);
    return (double)a;
}

// Draws rows, ld elements apart, of numbers that `type` and then `product` represent exactly, so
// that only sums are rounded.
static void *array(double **exact, int64_t rows, int64_t n, int64_t ld, qkv_dtype type,
                   qkv_dtype product)
{
    void *to = fenced((size_t)((rows - 1) * ld + n) * qkv_dtype_size(type));
    *exact = fenced((size_t)(rows * n) * sizeof **exact);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
            const double a = as_type(as_type(check_gauss(), product), type);
            (*exact)[r * n + i] = a;
            put(to, type, r * ld + i, a);
        }
    return to;
}

static void make(struct problem *p)
{
    const qkv_dtype product = qkv_stored_type(p->precision);
    p->given_x = array(&p->x, p->R, p->K, p->ldx, p->x_type, product);
    p->given_dy = array(&p->dy, p->R, p->N, p->lddy, p->y_type, product);
    p->given_w = array(&p->w, p->N, p->K, p->K, QKV_REAL, product); // w is [K][N] if transposed
    p->given_add = array(&p->add, p->R, p->K, p->ldx, QKV_REAL, QKV_REAL);
}

static double weight(const struct problem *p, int64_t n, int64_t k)
{
    return p->w[p->transposed ? k * p->N + n : n * p->K + k];
}

static struct result run(const struct problem *p, int threads, bool add)
{
    struct qkv_linear_back how = { .precision = p->precision,
                                   .threads = threads,
                                   .x = p->x_type,
                                   .y = p->y_type,
                                   .dx_real = p->dx_real,
                                   .ldx = p->ldx,
                                   .lddy = p->lddy,
                                   .dx_add = add ? p->given_add : NULL };
    const qkv_dtype type = p->dx_real ? QKV_REAL : p->x_type;
    const size_t bytes = (size_t)((p->R - 1) * p->ldx + p->K) * qkv_dtype_size(type);
    struct result r = { fenced(bytes), fenced((size_t)(p->N * p->K) * sizeof(real)),
                        fenced((size_t)p->N * sizeof(real)) };
    memset(r.dx, 0, bytes);
    for (int64_t i = 0; i < p->N * p->K; i++) r.dw[i] = 1;
    for (int64_t i = 0; i < p->N; i++) r.db[i] = 1;
    CHECK_EQ(qkv_threads_set(threads), QKV_OK);
    const size_t scratch = qkv_linear_once_backward_scratch(&how, p->R, p->K, p->N);
    how.scratch = fenced(scratch);
    const struct qkv_linear_part part = { p->N, p->given_w, NULL, p->transposed };
    qkv_linear_once_backward(r.dx, r.dw, r.db, p->given_dy, p->given_x, p->R, p->K, &part, &how);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    return r;
}

// Returns the relative rounding error of a sum of n products: the chain of a chunk (twice that
// without fma), the chunks, the tail. Three or six products instead of one omit at most 2^-15 or
// 2^-22 of each product (docs/numerics.md, "Floats as parts").
static double gamma_of(const struct problem *p, int64_t n)
{
    const double chain = 2 * (double)qkv_min64(n, QKV_LINEAR_CHUNK) + (double)n / 96 + 8;
    const double own = p->precision == QKV_PRECISION_F32_FAST ? 0x1p-15 : 4 * U;
    return chain * U + (sizeof(real) == sizeof(double) ? 0 : own);
}

static void check_exact(const struct problem *p, const struct result *r, bool add)
{
    const qkv_dtype type = p->dx_real ? QKV_REAL : p->x_type;
    for (int64_t i = 0; i < p->R; i++)
        for (int64_t k = 0; k < p->K; k++) {
            double sum = add ? p->add[i * p->K + k] : 0, size = fabs(sum);
            for (int64_t n = 0; n < p->N; n++) {
                sum += p->dy[i * p->N + n] * weight(p, n, k);
                size += fabs(p->dy[i * p->N + n] * weight(p, n, k));
            }
            CHECK_NEAR(get(r->dx, type, i * p->ldx + k), sum,
                       gamma_of(p, p->N) * size + unit(type) * fabs(sum) + 0x1p-24);
        }
    for (int64_t n = 0; n < p->N; n++) {
        double bias = 1, all = 1;
        for (int64_t i = 0; i < p->R; i++) {
            bias += p->dy[i * p->N + n];
            all += fabs(p->dy[i * p->N + n]);
        }
        CHECK_NEAR((double)r->db[n], bias, (double)(p->R + 2) * U * all);
        for (int64_t k = 0; k < p->K; k++) {
            double sum = 1, size = 1;
            for (int64_t i = 0; i < p->R; i++) {
                sum += p->dy[i * p->N + n] * p->x[i * p->K + k];
                size += fabs(p->dy[i * p->N + n] * p->x[i * p->K + k]);
            }
            CHECK_NEAR((double)r->dw[p->transposed ? k * p->N + n : n * p->K + k], sum,
                       gamma_of(p, p->R) * size);
        }
    }
}

// Runs the test with 16-bit arrays in the precision that has them and floats in any, for sizes
// below and above panels, tiles and passes.
static void each(void (*body)(struct problem *p))
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },    { 3, 17, 33 }, { 33, 50, 49 },
                                        { 70, 8, 130 }, { 400, 5, 7 }, { 1600, 6, 3 } };
    EACH(precision, precisions) EACH(size, sizes) for (int variant = 0; variant < 8; variant++)
    {
        const qkv_dtype half = qkv_stored_type(*precision);
        struct problem p = { .R = (*size)[0],
                             .K = (*size)[1],
                             .N = (*size)[2],
                             .precision = *precision,
                             .transposed = variant & 1,
                             .dx_real = variant & 2 };
        p.x_type = variant & 4 ? QKV_REAL : half;
        p.y_type = (variant ^ variant >> 1) & 2 ? QKV_REAL : half;
        p.ldx = p.K + (variant & 3);
        p.lddy = p.N + (variant & 5);
        if (half == QKV_REAL && variant > 3) continue; // skipped: this precision has no other types
        make(&p);
        body(&p);
        fence_free();
    }
}

static void is_exact(struct problem *p)
{
    const struct result r = run(p, 1, false), added = run(p, 1, true);
    check_exact(p, &r, false);
    check_exact(p, &added, true);
}

TEST(gradients_are_those_of_the_formula)
{
    EACH_ISA(k)
    {
        (void)k;
        each(is_exact);
    }
}

static void threads_change_nothing(struct problem *p)
{
    const struct result one = run(p, 1, true);
    const qkv_dtype type = p->dx_real ? QKV_REAL : p->x_type;
    for (int threads = 2; threads < 5; threads++) {
        const struct result r = run(p, threads, true);
        CHECK_BITS(r.dx, one.dx, (size_t)((p->R - 1) * p->ldx + p->K) * qkv_dtype_size(type));
        CHECK_BITS(r.dw, one.dw, (size_t)(p->N * p->K) * sizeof(real));
        CHECK_BITS(r.db, one.db, (size_t)p->N * sizeof(real));
    }
}

TEST(threads_change_no_bit)
{
    each(threads_change_nothing);
}

// dw is summed in passes of 1,536 rows. The last one has fewer numbers per column, so that its
// groups have more columns and may need more bytes; run() lets nothing be read or written past its
// scratch.
TEST(the_last_pass_needs_no_more_scratch_than_the_others)
{
    static const int64_t rows[] = { 1024, 1170 }; // of the last pass
    EACH_ISA(k) EACH(precision, precisions) EACH(last, rows)
    {
        const qkv_dtype half = qkv_stored_type(*precision);
        struct problem p = { .R = 1536 + *last, .K = 144, .N = 144, .ldx = 144, .lddy = 144 };
        if (k == qkv_kernel_isa(0) && *last != *rows) continue; // once for the slowest kernels
        p.precision = *precision;
        p.x_type = p.y_type = half;
        make(&p);
        for (int threads = 1; threads < 3; threads++) run(&p, threads, false);
        fence_free();
    }
}

TEST(what_is_not_wanted_is_not_needed_and_dx_may_be_x)
{
    struct problem p = { .R = 40, .K = 30, .N = 20, .ldx = 30, .lddy = 20 };
    p.x_type = p.y_type = QKV_REAL;
    make(&p);
    const struct result r = run(&p, 1, false);
    struct qkv_linear_back how = { .threads = 1 };
    how.scratch = qkv_alloc(qkv_linear_once_backward_scratch(&how, 40, 30, 20), 1);
    const struct qkv_linear_part part = { 20, p.given_w, NULL, false };
    real *dw = zeros(600), *db = zeros(20);
    for (int i = 0; i < 600; i++) dw[i] = 1;
    for (int i = 0; i < 20; i++) db[i] = 1;
    qkv_linear_once_backward(NULL, NULL, db, p.given_dy, NULL, 40, 30, &part, &how);
    CHECK_BITS(db, r.db, 20 * sizeof *db);
    qkv_linear_once_backward(p.given_x, dw, NULL, p.given_dy, p.given_x, 40, 30, &part, &how);
    CHECK_BITS(dw, r.dw, 600 * sizeof *dw);
    CHECK_BITS(p.given_x, r.dx, 1200 * sizeof(real));
    // no rows: no change
    qkv_linear_once_backward(NULL, dw, db, p.given_dy, p.given_x, 0, 30, &part, &how);
    CHECK_BITS(dw, r.dw, 600 * sizeof *dw);
    qkv_free(how.scratch);
    fence_free();
}

TEST(gradients_are_those_of_torch)
{
    enum { R = 5, K = 4, N = 3 };
    EACH_ISA(kernels)
    {
        int64_t count = 0;
        const double *golden = golden_linear;
        real *x = made(&count, R * K, 2), *w = made(&count, N * K, 2), *b = made(&count, N, 1);
        real *dy = made(&count, R * N, 1), *y = zeros(R * N), *dx = zeros(R * K);
        real *dw = zeros(N * K), *db = zeros(N);
        struct qkv_linear_once once = { .threads = 1 };
        struct qkv_linear_back back = { .threads = 1 };
        once.scratch = qkv_alloc(qkv_linear_once_scratch(&once, K, N), 1);
        back.scratch = qkv_alloc(qkv_linear_once_backward_scratch(&back, R, K, N), 1);
        const struct qkv_linear_part part = { N, w, b, false };
        qkv_linear_once(y, N, x, K, R, K, &part, NULL, &once);
        qkv_linear_once_backward(dx, dw, db, dy, x, R, K, &part, &back);
        // sums of at most five numbers that were rounded before
        check_golden(y, &golden, R * N, 20);
        check_golden(dx, &golden, R * K, 20);
        check_golden(dw, &golden, N * K, 20);
        check_golden(db, &golden, N, 20);
        qkv_free(once.scratch);
        qkv_free(back.scratch);
        fence_free();
        (void)kernels;
    }
}

// FlashAttention's rule: compared with unrounded numbers, the error is at most twice the error of
// the plain formula in the type (products of rounded numbers, float sums, rounded results).
static void rule(qkv_precision precision)
{
    enum { R = 300, K = 64, N = 48 };
    const qkv_dtype type = qkv_stored_type(precision);
    struct problem p = { R,     K,    N,    K,    N,    precision, type, type, false,
                         false, NULL, NULL, NULL, NULL, NULL,      NULL, NULL, NULL };
    make(&p);
    for (int64_t i = 0; i < R * K; i++) put(p.given_x, type, i, p.x[i] = check_gauss());
    for (int64_t i = 0; i < R * N; i++) put(p.given_dy, type, i, p.dy[i] = check_gauss());
    for (int64_t i = 0; i < N * K; i++) p.given_w[i] = (real)(p.w[i] = check_gauss());
    const struct result r = run(&p, 1, false);
    double ours[2] = { 0, 0 }, plain[2] = { 0, 0 };
    for (int64_t i = 0; i < R; i++)
        for (int64_t k = 0; k < K; k++) {
            double exact = 0;
            float sum = 0;
            for (int64_t n = 0; n < N; n++) {
                exact += p.dy[i * N + n] * p.w[n * K + k];
                sum += (float)(as_type(p.dy[i * N + n], type) * as_type(p.w[n * K + k], type));
            }
            ours[0] = fmax(ours[0], fabs(get(r.dx, type, i * K + k) - exact));
            plain[0] = fmax(plain[0], fabs(as_type((double)sum, type) - exact));
        }
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            double exact = 1;
            float sum = 1;
            for (int64_t i = 0; i < R; i++) {
                exact += p.dy[i * N + n] * p.x[i * K + k];
                sum += (float)(as_type(p.dy[i * N + n], type) * as_type(p.x[i * K + k], type));
            }
            ours[1] = fmax(ours[1], fabs((double)r.dw[n * K + k] - exact));
            plain[1] = fmax(plain[1], fabs(as_type((double)sum, type) - exact));
        }
    for (int i = 0; i < 2; i++)
        if (!(ours[i] <= 2 * plain[i]))
            fail_msg("%s of %s: error %g, of the plain formula %g", i ? "dw" : "dx",
                     qkv_precision_name(precision), ours[i], plain[i]);
    fence_free();
}

TEST(errors_of_halves_are_at_most_twice_those_of_the_plain_formula)
{
    EACH_ISA(k)
    {
        (void)k;
        rule(QKV_PRECISION_BF16);
        rule(QKV_PRECISION_F16);
    }
}

TEST(sizes_that_no_memory_has_are_said)
{
    const struct qkv_linear_back how = { .threads = 2 };
    CHECK_EQ(qkv_linear_once_backward_scratch(&how, INT64_MAX / 2, INT64_MAX / 2, 5), SIZE_MAX);
    CHECK_EQ(qkv_linear_once_backward_scratch(&how, 100, INT64_MAX / 8, INT64_MAX / 8), SIZE_MAX);
}

#ifndef QKV_DOUBLE
TEST(the_public_gradients_are_those_of_the_layer_and_survive_failed_memory)
{
    struct problem p = { .R = 20, .K = 30, .N = 10, .ldx = 30, .lddy = 10 };
    p.x_type = p.y_type = QKV_REAL;
    make(&p);
    const struct result want = run(&p, 1, false);
    float *dx = zeros(600), *dw = zeros(300), *db = zeros(10);
    for (int i = 0; i < 300; i++) dw[i] = 1;
    for (int i = 0; i < 10; i++) db[i] = 1;
    bool hit;
    faults_begin(1, false);
    CHECK_EQ(qkv_linear_backward(dx, dw, db, p.given_dy, p.given_x, p.given_w, 20, 30, 10),
             QKV_ERR_LIMIT);
    CHECK_EQ(faults_end(&hit), 0);
    CHECK(hit && dx[0] == 0 && dw[0] == 1);
    CHECK_EQ(qkv_linear_backward(dx, dw, db, p.given_dy, p.given_x, p.given_w, 20, 30, 10), QKV_OK);
    CHECK_BITS(dx, want.dx, 600 * sizeof *dx);
    CHECK_BITS(dw, want.dw, 300 * sizeof *dw);
    CHECK_BITS(db, want.db, 10 * sizeof *db);
    CHECK_EQ(qkv_linear_backward(dx, dw, NULL, NULL, p.given_x, NULL, 20, 30, 0), QKV_OK);
    for (int i = 0; i < 600; i++) CHECK(dx[i] == 0); // dx is 0, because y has no columns
    CHECK_BITS(dw, want.dw, 300 * sizeof *dw);
    fence_free();
}
#define FLOAT_CASE CASE(the_public_gradients_are_those_of_the_layer_and_survive_failed_memory),
#else
#define FLOAT_CASE
#endif

CHECK_MAIN(FLOAT_CASE CASE(gradients_are_those_of_the_formula), CASE(threads_change_no_bit),
           CASE(the_last_pass_needs_no_more_scratch_than_the_others),
           CASE(what_is_not_wanted_is_not_needed_and_dx_may_be_x),
           CASE(gradients_are_those_of_torch),
           CASE(errors_of_halves_are_at_most_twice_those_of_the_plain_formula),
           CASE(sizes_that_no_memory_has_are_said))
