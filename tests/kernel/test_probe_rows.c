// SPDX-License-Identifier: MIT
// test_probe_rows.c: compares weights and their statistics of each ISA with the formula in double;
// arrays are between guard pages.
//
// The exponent t has the rounding errors of c s and of subtracting base and rest (UNIT each of the
// rounded number), and 2^t has an error of 2 ulp: with |s| below 8 and c below 2, a weight is
// accurate to 64 UNIT.
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>
#include <stdlib.h>

#define UNIT ((double)(sizeof(real) == 4 ? 0x1p-24 : 0x1p-53))
enum { ROWS = 32, WORDS = QKV_CHUNK / 32 };

struct tile {
    int rows, n;
    int32_t lo[ROWS], hi[ROWS];
    struct qkv_columns spans[3];
    real *s, *base, *rest, *least, *entropy, *sum, *most;
    uint32_t *above;
    double c, want[ROWS][QKV_CHUNK];
};

static real *reals(size_t n)
{
    real *x = fenced(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (real)(float)check_gauss();
    return x;
}

// Draws a tile whose rows see all, some or none of the columns of the spans; some scores are
// -INFINITY.
static void draw(struct tile *x, const struct qkv_attention_kernels *k, int rows, int kind)
{
    const int32_t lanes = k->lanes, end = QKV_CHUNK;
    *x = (struct tile){ .rows = rows, .n = kind % 3 == 2 ? 2 : 1, .c = kind % 2 ? 1.25 : 1 };
    x->spans[0] =
        (struct qkv_columns){ kind % 4 == 3 ? lanes : 0, kind % 3 == 2 ? 2 * lanes : end };
    x->spans[1] = (struct qkv_columns){ 3 * lanes, end };
    x->s = reals((size_t)rows * QKV_CHUNK);
    x->base = reals((size_t)rows);
    x->rest = reals((size_t)rows);
    x->least = reals((size_t)rows);
    x->entropy = reals((size_t)rows);
    x->sum = reals(QKV_CHUNK);
    x->most = reals(QKV_CHUNK);
    x->above = fenced((size_t)rows * WORDS * sizeof *x->above);
    memset(x->above, 0xff, (size_t)rows * WORDS * sizeof *x->above);
    for (int i = 0; i < rows; i++) {
        x->lo[i] = kind % 5 == 0 ? 0 : (i * 7) % 40;
        x->hi[i] = kind % 5 == 0                 ? end
                   : kind % 5 == 4 && i % 3 == 0 ? x->lo[i]
                                                 : end - (i * 5) % 60;
        x->base[i] = (real)(4 + i % 3);
        x->rest[i] = (real)((double)x->rest[i] * 0x1p-22);
        x->least[i] = (real)(0.02 * (i % 4));
        for (int32_t j = 0; j < QKV_CHUNK; j++) {
            real *s = &x->s[i * QKV_CHUNK + j];
            const bool seen = j >= x->lo[i] && j < x->hi[i];
            if (seen && j % 17 == 3) *s = -(real)INFINITY;
            x->want[i][j] =
                seen ? exp2(x->c * (double)*s - (double)x->base[i] - (double)x->rest[i]) : 0;
            // arbitrary content that must not be read
            if (!seen) *s = j % 2 ? (real)NAN : (real)INFINITY;
        }
    }
}

static bool spanned(const struct tile *x, int32_t j)
{
    for (int p = 0; p < x->n; p++)
        if (j >= x->spans[p].from && j < x->spans[p].to) return true;
    return false;
}

static void check_tile(const struct qkv_kernels *k, struct tile *x)
{
    real sums[QKV_CHUNK], most[QKV_CHUNK], entropy[ROWS];
    memcpy(sums, x->sum, sizeof sums);
    memcpy(most, x->most, sizeof most);
    memcpy(entropy, x->entropy, (size_t)x->rows * sizeof *entropy);
    const struct qkv_probing how = { (real)x->c, x->base, x->rest,  x->entropy,
                                     x->sum,     x->most, x->least, x->above };
    k->probe_rows(x->s, x->rows, x->spans, x->n, x->lo, x->hi, &how);
    double column[QKV_CHUNK] = { 0 }, high[QKV_CHUNK];
    for (int j = 0; j < QKV_CHUNK; j++) high[j] = (double)most[j];
    for (int i = 0; i < x->rows; i++) {
        double bits = 0;
        for (int32_t j = 0; j < QKV_CHUNK; j++) {
            const double found = (double)x->s[i * QKV_CHUNK + j], want = x->want[i][j];
            const bool above = x->above[i * WORDS + j / 32] >> j % 32 & 1;
            if (!spanned(x, j)) {
                CHECK(!above);
                continue;
            }
            CHECK_NEAR(found, want, 64 * UNIT * want + 1e-37);
            CHECK_EQ(above, (real)found > x->least[i]);
            if (want > 0) bits -= want * log2(want);
            column[j] += found;
            high[j] = fmax(high[j], found);
        }
        CHECK_NEAR(x->entropy[i] - entropy[i], bits, (64 + 30) * UNIT * (bits + 8));
    }
    for (int32_t j = 0; j < QKV_CHUNK; j++) {
        const bool in = spanned(x, j);
        CHECK_NEAR(x->sum[j], (double)sums[j] + (in ? column[j] : 0),
                   (x->rows + 1) * UNIT * (fabs((double)sums[j]) + column[j] + 1));
        CHECK(x->most[j] == (real)(in ? high[j] : (double)most[j]));
    }
}

static const int heights[] = { 1, 2, 3, 4, 5, 6, 7, 8, 13, 32 };

TEST(weights_and_sums_are_those_of_the_formula)
{
    EACH_ISA(k)
    {
        check_seed = 5;
        EACH(rows, heights)
        for (int kind = 0; kind < 20; kind++) {
            struct tile x;
            draw(&x, k->attention[QKV_PRECISION_F32_STRICT], *rows, kind);
            check_tile(k, &x);
            fence_free();
        }
    }
}

TEST(a_row_has_its_bits_whatever_stands_beside_it)
{
    EACH_ISA(k)
    {
        struct tile x;
        check_seed = 9;
        draw(&x, k->attention[QKV_PRECISION_F32_STRICT], 9, 1);
        real row[9][QKV_CHUNK];
        memcpy(row, x.s, sizeof row);
        for (int i = 0; i < 9; i++) x.entropy[i] = 0;
        const struct qkv_probing all = { 1, x.base, x.rest, x.entropy, NULL, NULL, NULL, NULL };
        k->probe_rows(x.s, 9, x.spans, x.n, x.lo, x.hi, &all);
        for (int i = 0; i < 9; i++) {
            real alone = 0;
            const struct qkv_probing one = { 1,    x.base + i, x.rest + i, &alone,
                                             NULL, NULL,       NULL,       NULL };
            k->probe_rows(row[i], 1, x.spans, x.n, x.lo + i, x.hi + i, &one);
            CHECK_BITS(row[i], x.s + i * QKV_CHUNK, sizeof row[i]);
            CHECK_BITS(&alone, &x.entropy[i], sizeof alone);
        }
        fence_free();
    }
}

TEST(what_is_not_finite_shows_and_nothing_else_does)
{
    EACH_ISA(k)
    {
        struct tile x;
        check_seed = 7;
        draw(&x, k->attention[QKV_PRECISION_F32_STRICT], 5, 0);
        x.s[2 * QKV_CHUNK + 40] = (real)NAN;
        const struct qkv_probing how = { 1,     x.base, x.rest,  x.entropy,
                                         x.sum, x.most, x.least, x.above };
        k->probe_rows(x.s, 5, x.spans, x.n, x.lo, x.hi, &how);
        for (int i = 0; i < 5; i++) CHECK_EQ(isnan(x.entropy[i]), i == 2);
        for (int j = 0; j < QKV_CHUNK; j++) {
            CHECK_EQ(isnan(x.sum[j]), j == 40);
            CHECK(!isnan(x.most[j]));
        }
        CHECK(!(x.above[2 * WORDS + 1] >> 8 & 1));
        fence_free();
    }
}

CHECK_MAIN(CASE(weights_and_sums_are_those_of_the_formula),
           CASE(a_row_has_its_bits_whatever_stands_beside_it),
           CASE(what_is_not_finite_shows_and_nothing_else_does))
