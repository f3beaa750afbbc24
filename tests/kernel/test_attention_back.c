// SPDX-License-Identifier: MIT
// test_attention_back.c: the steps of attention's backward, each ISA and precision, against the
// formula in double; the fused tile against the steps; between guard pages.
#include "attention_back_case.h"

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

CHECK_MAIN(CASE(gradients_are_those_of_the_formula_and_fused_those_of_the_steps))
