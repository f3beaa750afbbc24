// SPDX-License-Identifier: MIT
// test_norm_backward.c: compares layer norm and RMS norm for training with the formula in double,
// with PyTorch, and with the plain formula in 16 bits, and checks that they are bit-identical for
// any number of threads.
#include "base/faults.h"
#include "layer/differences.h"
#include "layer/golden_pairs.h"
#include "layer/layer.h"

static const enum qkv_norm_kind kinds[] = { QKV_NORM_LAYER, QKV_NORM_RMS };

struct problem {
    int64_t R, D;
    enum qkv_norm_kind kind;
    qkv_dtype type;
    real *x, *w, *b, *add;
    double *dy; // dy as stored, in double
    void *given_dy;
};
struct result {
    void *y;
    real *mean, *rstd, *dx, *dw, *db;
};

static double as_type(double a, qkv_dtype type)
{
    if (type == QKV_BF16) return (double)qkv_bf16_to_f32(qkv_f32_to_bf16((float)a));
    return (double)(real)a;
}
static double get(const void *from, qkv_dtype type, int64_t i)
{
    return type == QKV_BF16 ? (double)qkv_bf16_to_f32(((const uint16_t *)from)[i])
                            : (double)((const real *)from)[i];
}

static struct problem make(int64_t R, int64_t D, enum qkv_norm_kind kind, qkv_dtype type)
{
    struct problem p = { R,
                         D,
                         kind,
                         type,
                         zeros(R * D),
                         zeros(D),
                         zeros(D),
                         zeros(R * D),
                         fenced((size_t)(R * D) * sizeof(double)),
                         fenced((size_t)(R * D) * qkv_dtype_size(type)) };
    for (int64_t i = 0; i < R * D; i++) {
        p.x[i] = (real)(2 + check_gauss());
        p.add[i] = (real)check_gauss();
        const double a = as_type(check_gauss(), type);
        p.dy[i] = a;
        if (type == QKV_BF16)
            ((uint16_t *)p.given_dy)[i] = qkv_f32_to_bf16((float)a);
        else
            ((real *)p.given_dy)[i] = (real)a;
    }
    for (int64_t d = 0; d < D; d++) p.w[d] = (real)check_gauss(), p.b[d] = (real)check_gauss();
    return p;
}

static struct result run(const struct problem *p, int threads)
{
    const int64_t n = p->R * p->D;
    struct result r = { fenced((size_t)n * qkv_dtype_size(p->type)),
                        zeros(p->R),
                        zeros(p->R),
                        zeros(n),
                        zeros(p->D),
                        zeros(p->D) };
    const struct qkv_norm norm = { .D = p->D, .w = p->w, .b = p->b, .eps = (real)1e-5 };
    const struct qkv_norm_keep keep = { r.mean, r.rstd };
    void *scratch = qkv_alloc(qkv_norm_backward_scratch(p->R, p->D), 1);
    CHECK_EQ(qkv_threads_set(threads), QKV_OK);
    for (int64_t d = 0; d < p->D; d++) r.dw[d] = r.db[d] = 1;
    qkv_norm_kind_forward(r.y, p->type, &keep, p->x, p->R, &norm, p->kind);
    qkv_norm_backward(r.dx, p->add, r.dw, r.db, p->given_dy, p->type, p->x, &keep, p->R, &norm,
                      p->kind, scratch);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    qkv_free(scratch);
    return r;
}

// Values of the formula for one row: mean, rstd, and the two means that backward subtracts.
struct row {
    double mean, rstd, sum, turn;
};
static struct row row_of(const struct problem *p, int64_t r, const double *dy)
{
    struct row row = { 0, 0, 0, 0 };
    const double D = (double)p->D;
    const real *x = p->x + r * p->D;
    double var = 0;
    for (int64_t d = 0; d < p->D && p->kind == QKV_NORM_LAYER; d++) row.mean += (double)x[d] / D;
    for (int64_t d = 0; d < p->D; d++) var += ((double)x[d] - row.mean) * ((double)x[d] - row.mean);
    row.rstd = 1 / sqrt(var / D + (double)(real)1e-5);
    for (int64_t d = 0; d < p->D; d++) {
        const double dn = (double)p->w[d] * dy[r * p->D + d];
        row.sum += p->kind == QKV_NORM_LAYER ? dn / D : 0;
        row.turn += dn * ((double)x[d] - row.mean) * row.rstd / D;
    }
    return row;
}
static double normal(const struct problem *p, const struct row *row, int64_t i)
{
    return ((double)p->x[i] - row->mean) * row->rstd;
}

// Each sum of D terms of magnitude `most` has about D roundings, relative to the spread of the row
// after the mean was subtracted (test_norm.c).
TEST(norms_and_gradients_are_those_of_the_formula)
{
    static const int64_t sizes[][2] = { { 1, 5 }, { 33, 16 }, { 70, 40 }, { 600, 7 } };
    static const qkv_dtype types[] = { QKV_REAL, QKV_BF16 };
    EACH_ISA(k) EACH(kind, kinds) EACH(size, sizes) EACH(type, types)
    {
        (void)k;
        const struct problem p = make((*size)[0], (*size)[1], *kind, *type);
        const struct result g = run(&p, 1);
        double *dw = fenced((size_t)p.D * sizeof *dw), *db = fenced((size_t)p.D * sizeof *db);
        for (int64_t d = 0; d < p.D; d++) dw[d] = db[d] = 1;
        const double u = 8 * U * (double)(p.D + 16), half = *type == QKV_BF16 ? 0x1p-8 : U;
        for (int64_t r = 0; r < p.R; r++) {
            const struct row row = row_of(&p, r, p.dy);
            double most = 1;
            for (int64_t d = 0; d < p.D; d++)
                most = fmax(most, fabs((double)p.w[d] * p.dy[r * p.D + d]));
            for (int64_t i = r * p.D; i < (r + 1) * p.D; i++) {
                const int64_t d = i - r * p.D;
                const double n = normal(&p, &row, i), wi = (double)p.w[d];
                const double y = n * wi + (double)p.b[d], far = 1 + fabs(n);
                CHECK_NEAR(get(g.y, *type, i), y, u * (far * fabs(wi) + fabs(y)) + half * fabs(y));
                const double dx = row.rstd * (wi * p.dy[i] - row.sum - n * row.turn);
                CHECK_NEAR((double)g.dx[i], dx + (double)p.add[i],
                           u * most * far * far * fmax(row.rstd, 1) +
                               4 * U * fabs((double)p.add[i]));
                dw[d] += p.dy[i] * n;
                db[d] += p.dy[i];
            }
        }
        const double sums = 16 * U * (double)(p.R + p.D + 16) * sqrt((double)p.R) * 4;
        for (int64_t d = 0; d < p.D; d++) {
            CHECK_NEAR((double)g.dw[d], dw[d], sums * 4);
            CHECK_NEAR((double)g.db[d], db[d], sums);
        }
        fence_free();
    }
}

TEST(threads_change_no_bit_and_dx_may_be_what_is_added)
{
    static const int64_t rows[] = { 1, 31, 33, 513, 1100 };
    EACH(kind, kinds) EACH(R, rows)
    {
        const struct problem p = make(*R, 24, *kind, QKV_REAL);
        const struct result one = run(&p, 1);
        const size_t bytes = (size_t)(p.R * p.D) * sizeof(real);
        for (int threads = 2; threads < 5; threads++) {
            const struct result r = run(&p, threads);
            CHECK_BITS(r.y, one.y, bytes);
            CHECK_BITS(r.dx, one.dx, bytes);
            CHECK_BITS(r.dw, one.dw, (size_t)p.D * sizeof(real));
            CHECK_BITS(r.db, one.db, (size_t)p.D * sizeof(real));
        }
        const struct qkv_norm norm = { .D = p.D, .w = p.w, .b = p.b, .eps = (real)1e-5 };
        const struct qkv_norm_keep keep = { one.mean, one.rstd };
        qkv_norm_backward(p.add, p.add, NULL, NULL, p.given_dy, QKV_REAL, p.x, &keep, p.R, &norm,
                          *kind, NULL);
        CHECK_BITS(p.add, one.dx, bytes);
        fence_free();
    }
}

TEST(norms_are_those_of_torch)
{
    enum { R = 4, D = 6 };
    EACH_ISA(k) EACH(kind, kinds)
    {
        (void)k;
        int64_t count = 0;
        const bool rms = *kind == QKV_NORM_RMS;
        const double *golden = rms ? golden_norm_rms : golden_norm;
        real *x = made(&count, R * D, 4), *w = made(&count, D, 2), *b = made(&count, D, 1);
        real *dy = made(&count, R * D, 1), *y = zeros(R * D), *dx = zeros(R * D);
        real *dw = zeros(D), *db = zeros(D);
        const struct qkv_norm norm = { .D = D, .w = w, .b = rms ? NULL : b, .eps = (real)1e-5 };
        const struct qkv_norm_keep keep = { zeros(R), zeros(R) };
        void *scratch = qkv_alloc(qkv_norm_backward_scratch(R, D), 1);
        qkv_norm_kind_forward(y, 0, &keep, x, R, &norm, *kind);
        qkv_norm_backward(dx, NULL, dw, rms ? NULL : db, dy, 0, x, &keep, R, &norm, *kind, scratch);
        check_golden(y, &golden, R * D, 40);
        check_golden(dx, &golden, R * D, 80); // the gradient has two more means of six terms
        check_golden(dw, &golden, D, 80);
        if (!rms) check_golden(db, &golden, D, 20);
        qkv_free(scratch);
        fence_free();
    }
}

// FlashAttention's rule: the error of y in bf16, and of gradients from dy in bf16, is at most twice
// the error of the plain formula on numbers of the type, with each step rounded to it.
TEST(errors_in_bf16_are_at_most_twice_those_of_the_plain_formula)
{
    enum { R = 40, D = 96 };
    EACH_ISA(k) EACH(kind, kinds)
    {
        (void)k;
        struct problem p = make(R, D, *kind, QKV_BF16);
        double ours[2] = { 0, 0 }, plain[2] = { 0, 0 };
        for (int64_t i = 0; i < R * D; i++) {
            p.dy[i] = check_gauss();
            ((uint16_t *)p.given_dy)[i] = qkv_f32_to_bf16((float)p.dy[i]);
            p.add[i] = 0;
        }
        const struct result g = run(&p, 1);
        for (int64_t r = 0; r < R; r++) {
            const struct row row = row_of(&p, r, p.dy);
            for (int64_t i = r * D; i < (r + 1) * D; i++) {
                const double w = (double)p.w[i - r * D], b = (double)p.b[i - r * D];
                const double n = normal(&p, &row, i), n16 = as_type(n, QKV_BF16);
                const double w16 = as_type(w, QKV_BF16), d16 = as_type(p.dy[i], QKV_BF16);
                const double y16 =
                    as_type(as_type(n16 * w16, QKV_BF16) + as_type(b, QKV_BF16), QKV_BF16);
                const double dn16 = as_type(w16 * d16, QKV_BF16);
                const double dx = row.rstd * (w * p.dy[i] - row.sum - n * row.turn);
                const double dx16 = as_type(row.rstd * (dn16 - row.sum - n16 * row.turn), QKV_BF16);
                ours[0] = fmax(ours[0], fabs(get(g.y, QKV_BF16, i) - (n * w + b)));
                plain[0] = fmax(plain[0], fabs(y16 - (n * w + b)));
                ours[1] = fmax(ours[1], fabs((double)g.dx[i] - dx));
                plain[1] = fmax(plain[1], fabs(dx16 - dx));
            }
        }
        CHECK(ours[0] <= 2 * plain[0] && ours[1] <= 2 * plain[1]);
        fence_free();
    }
}

#ifndef QKV_DOUBLE
TEST(the_public_gradients_are_those_of_the_layer_and_survive_failed_memory)
{
    struct problem p = make(50, 20, QKV_NORM_LAYER, QKV_REAL);
    for (int i = 0; i < 1000; i++) p.add[i] = 0;
    const struct result want = run(&p, 1);
    float *dx = zeros(1000), *dw = zeros(20), *db = zeros(20);
    for (int i = 0; i < 20; i++) dw[i] = db[i] = 1;
    bool hit;
    faults_begin(1, false);
    CHECK_EQ(qkv_layer_norm_backward(dx, dw, db, p.given_dy, p.x, p.w, 1e-5f, 50, 20),
             QKV_ERR_LIMIT);
    CHECK_EQ(faults_end(&hit), 0);
    CHECK(hit && dx[0] == 0 && dw[0] == 1);
    CHECK_EQ(qkv_layer_norm_backward(dx, dw, db, p.given_dy, p.x, p.w, 1e-5f, 50, 20), QKV_OK);
    CHECK_BITS(dx, want.dx, 1000 * sizeof *dx);
    CHECK_BITS(dw, want.dw, 20 * sizeof *dw);
    CHECK_BITS(db, want.db, 20 * sizeof *db);
    CHECK_EQ(qkv_layer_norm_backward(NULL, NULL, db, p.given_dy, p.x, NULL, 1e-5f, 50, 20), QKV_OK);
    for (int i = 0; i < 20; i++) CHECK_NEAR((double)db[i] + 1, 2 * (double)want.db[i], 1e-4);
    fence_free();
}
#define FLOAT_CASE CASE(the_public_gradients_are_those_of_the_layer_and_survive_failed_memory),
#else
#define FLOAT_CASE
#endif

CHECK_MAIN(FLOAT_CASE CASE(norms_and_gradients_are_those_of_the_formula),
           CASE(threads_change_no_bit_and_dx_may_be_what_is_added), CASE(norms_are_those_of_torch),
           CASE(errors_in_bf16_are_at_most_twice_those_of_the_plain_formula))
