// SPDX-License-Identifier: MIT
// test_attention_back.c: compares the kernels of the attention backward pass, for each ISA and
// precision, with the formula in double, and the fused kernel with the single ones; arrays are
// between guard pages.
#include "attention_back_tile.h"

static const int widths[][2] = { { 1, 3 },   { 4, 1 },   { 16, 16 }, { 17, 20 }, { 20, 33 },
                                 { 33, 64 }, { 64, 64 }, { 67, 48 }, { 80, 130 } };
static const int tiles[][3] = { { 1, 0, 1 },    { 2, 0, 15 },    { 5, 3, 17 },     { 6, 0, 64 },
                                { 7, 20, 65 },  { 13, 64, 130 }, { 40, 0, 70 },    { 64, 0, 64 },
                                { 127, 5, 80 }, { 128, 0, 90 },  { 31, 100, 256 }, { 9, 0, 40 } };

static void check_rows(const char *name, const struct tile *x, const real *sum, const double *want,
                       const double *off, int rows, int64_t W)
{
    const int64_t ld = x->k->width(W);
    for (int i = 0; i < rows; i++)
        for (int64_t w = 0; w < W; w++)
            if (!(fabs((double)sum[i * ld + w] - want[i * W + w]) <= off[i * W + w] + 1e-37))
                fail_msg("%s, %s, rows %d keys %d..%d E %d F %d: %s[%d][%d] is %.9g, expected %.9g "
                         "within %.3g",
                         x->k->isa, x->k->arithmetic, x->rows, x->at, x->keys, (int)x->E, (int)x->F,
                         name, i, (int)w, (double)sum[i * ld + w], want[i * W + w], off[i * W + w]);
}

static void check_steps_and_fused(const struct qkv_attention_back_kernels *k, const int *w,
                                  const int *n, enum see see)
{
    const int rows = n[0] < k->rows ? n[0] : k->rows;
    struct tile x = tile_new(k, rows, n[1], n[2], w[0], w[1], see);
    struct want y = tile_want(&x);
    tile_steps(&x);
    check_rows("dv", &x, x.t.dv, y.dv, y.dv_off, QKV_CHUNK, x.F);
    check_rows("dk", &x, x.t.dk, y.dk, y.dk_off, QKV_CHUNK, x.E);
    check_rows("dq", &x, x.t.dq, y.dq, y.dq_off, x.rows, x.E);
    if (k->fused) {
        const struct qkv_back_tile t = x.t;
        tile_fused(&x);
        CHECK_BITS(x.t.dv, t.dv, (size_t)(QKV_CHUNK * k->width(x.F)) * sizeof(real));
        CHECK_BITS(x.t.dk, t.dk, (size_t)(QKV_CHUNK * k->width(x.E)) * sizeof(real));
        CHECK_BITS(x.t.dq, t.dq, (size_t)(x.rows * k->width(x.E)) * sizeof(real));
    }
    want_free(&y);
    fence_free();
}

TEST(gradients_are_those_of_the_formula_and_fused_those_of_the_steps)
{
    EACH_ISA(isa) for (int p = 0; p < QKV_PRECISIONS; p++)
    {
        const struct qkv_attention_back_kernels *k = isa->attention_back[p];
        if (!k || p == QKV_PRECISION_F32_STRICT || p == QKV_PRECISION_F32_FAST) continue;
        EACH(w, widths)
        EACH(n, tiles) check_steps_and_fused(k, *w, *n, (enum see)(w - widths + n - tiles) % SEES);
    }
}

static const struct qkv_attention_back_kernels *strict(const struct qkv_kernels *isa)
{
    return isa->attention_back[QKV_PRECISION_F32_STRICT];
}
static const int32_t counts[] = { 1, 2, 15, 16, 17, 33, 64, 100, QKV_CHUNK };

TEST(softcap_and_dropout_are_those_of_the_law)
{
    EACH_ISA(isa) EACH(n, counts)
    {
        const struct qkv_attention_back_kernels *k = strict(isa), *law = strict(qkv_kernel_isa(0));
        real x[2][3][QKV_CHUNK]; // s, ds and gain of the law, and of the ISA
        uint32_t word[QKV_CHUNK];
        const struct qkv_columns span = { 0, (int32_t)qkv_round_up((size_t)*n, (size_t)k->lanes) };
        const int32_t lo = *n / 3;
        const struct qkv_softmax_grad how = {
            .c = 1, .base = 1, .d = (real)0.25, .word = word, .less = 1u << 30, .times = (real)1.5
        };
        for (int j = 0; j < QKV_CHUNK; j++) {
            x[0][0][j] = x[1][0][j] = (real)check_gauss();
            x[0][1][j] = x[1][1][j] = (real)check_gauss();
            word[j] = (uint32_t)(check_seed >> 32);
        }
        for (int i = 0; i < 2; i++) {
            const struct qkv_attention_back_kernels *one = i ? k : law;
            one->cap(x[i][0], x[i][2], lo, *n, (real)0.7, 2);
            one->softmax_grad(x[i][0], x[i][1], &span, 1, lo, *n, &how);
            one->gain(x[i][1], x[i][2], lo, *n);
        }
        for (int j = 0; j < span.to; j++) {
            CHECK_NEAR(x[1][0][j], x[0][0][j], 32 * UNIT * fabs((double)x[0][0][j]) + 8 * UNIT);
            CHECK_NEAR(x[1][1][j], x[0][1][j], 32 * UNIT * fabs((double)x[0][1][j]) + 8 * UNIT);
            if (j < lo || j >= *n) CHECK(x[1][0][j] == 0 && x[1][1][j] == 0);
        }
    }
}

// A base of 4000 has a rounding error of up to 1.2e-4, which is far above that of a weight.
TEST(the_rounding_error_of_the_base_is_subtracted)
{
    EACH_ISA(isa) for (int sign = -1; sign <= 1; sign += 2)
    {
        const struct qkv_attention_back_kernels *k = strict(isa);
        const struct qkv_columns span = { 0, QKV_CHUNK };
        const struct qkv_softmax_grad how = {
            .c = 1, .base = 4000, .rest = (real)(sign * 1.1e-4), .d = (real)0.25, .times = 1
        };
        real s[QKV_CHUNK], ds[QKV_CHUNK];
        double p[QKV_CHUNK];
        for (int j = 0; j < QKV_CHUNK; j++) {
            s[j] = (real)(3999 + j / 64.0); // exact, as its difference from base is
            p[j] = exp2((double)s[j] - 4000 - (double)how.rest);
            ds[j] = 1;
        }
        k->softmax_grad(s, ds, &span, 1, 0, QKV_CHUNK, &how);
        for (int j = 0; j < QKV_CHUNK; j++) {
            CHECK_NEAR(s[j], p[j], 32 * UNIT * p[j]);
            CHECK_NEAR(ds[j], 0.75 * p[j], 32 * UNIT * p[j]);
        }
    }
}

// Masked keys have ds = 0, and their scores, and so the derivatives, may be anything.
TEST(a_gradient_of_zero_stays_zero_if_the_derivative_is_not_finite)
{
    static const real derivatives[] = { (real)INFINITY, -(real)INFINITY, (real)NAN };
    EACH_ISA(isa) EACH(n, counts) EACH(derivative, derivatives)
    {
        real ds[QKV_CHUNK], gain[QKV_CHUNK];
        for (int j = 0; j < QKV_CHUNK; j++) {
            ds[j] = j % 3 ? 0 : (real)(j + 1);
            gain[j] = j % 3 ? *derivative : 2;
        }
        strict(isa)->gain(ds, gain, 0, *n);
        for (int j = 0; j < *n; j++) CHECK(ds[j] == (real)(j % 3 ? 0 : 2 * (j + 1)));
    }
}

TEST(rows_of_numbers_are_added_up)
{
    EACH_ISA(isa) EACH(n, counts)
    {
        const struct qkv_attention_back_kernels *k = strict(isa);
        real *x = fenced((size_t)*n * sizeof *x), *y = fenced((size_t)*n * sizeof *y);
        double total = 0, moment = 0, dot = 0, size = 0, far = 0, both = 0;
        for (int32_t j = 0; j < *n; j++) {
            x[j] = (real)(float)check_gauss();
            y[j] = j % 5 ? (real)(float)check_gauss() : 0;
            total += (double)x[j];
            size += fabs((double)x[j]);
            moment += (double)x[j] * fabs(40.0 - j);
            far += fabs((double)x[j]) * fabs(40.0 - j);
            dot += (double)x[j] * (double)y[j];
            both += fabs((double)x[j] * (double)y[j]);
        }
        CHECK_NEAR(k->total(x, *n), total, *n * UNIT * size);
        CHECK_NEAR(k->moment(x, 0, *n, 40), moment, (*n + 1) * UNIT * far);
        CHECK_NEAR(k->dot(x, y, *n), dot, (*n + 1) * UNIT * both);
        for (int32_t j = 0; j < *n; j += 5) x[j] = (real)NAN;
        // dout is NaN only where out is 0, which does not count
        CHECK_NEAR(k->dot(x, y, *n), dot, (*n + 1) * UNIT * both);
        fence_free();
    }
}

TEST(right_operands_have_0_for_what_is_not_finite_and_say_so)
{
    EACH_ISA(isa) EACH(w, widths)
    {
        const struct qkv_attention_back_kernels *k = strict(isa);
        const void *rows[7];
        const int64_t W = (*w)[1];
        real *to = tile_memory((size_t)qkv_round_up(7, (size_t)k->lanes) * k->right_bytes(W));
        tile_rows(rows, 7, W, QKV_REAL);
        CHECK(k->pack_right(to, rows, 0, 7, W));
        ((real *)(uintptr_t)rows[3])[W - 1] = (real)INFINITY;
        CHECK(!k->pack_right(to, rows, 0, 7, W));
        for (int i = 0; i < 7; i++)
            for (int64_t e = 0; e < W; e++) {
                const real want = i == 3 && e == W - 1 ? 0 : ((const real *)rows[i])[e];
                CHECK(to[i * k->width(W) + e] == want);
            }
        fence_free();
    }
}

CHECK_MAIN(CASE(gradients_are_those_of_the_formula_and_fused_those_of_the_steps),
           CASE(softcap_and_dropout_are_those_of_the_law),
           CASE(the_rounding_error_of_the_base_is_subtracted),
           CASE(a_gradient_of_zero_stays_zero_if_the_derivative_is_not_finite),
           CASE(rows_of_numbers_are_added_up),
           CASE(right_operands_have_0_for_what_is_not_finite_and_say_so))
