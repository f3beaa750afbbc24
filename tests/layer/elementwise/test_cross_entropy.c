// SPDX-License-Identifier: MIT
// test_cross_entropy.c: compares the fused cross-entropy loss with its formula in double, which
// also computes an error bound.
#include "layer/differences.h"
#include "layer/layer_internal.h"
#include <stdlib.h>

struct problem {
    int64_t R, K, V;
    bool bias;
    double smoothing;
    qkv_precision precision;
    qkv_dtype x_type;
    void *x;
    real *w, *b;
    int32_t *targets;
};
struct result {
    struct qkv_loss loss;
    real *losses, *dw, *db;
    void *dx;
    real *wide; // dx converted to real
};

static double rounded(double a, qkv_dtype type)
{
    if (type == QKV_BF16) return (double)qkv_bf16_to_f32(qkv_f32_to_bf16((float)a));
    if (type == QKV_F16) return (double)qkv_f16_to_f32(qkv_f32_to_f16((float)a));
    return (double)(real)a;
}

// Returns the relative rounding unit of a type.
static double unit(qkv_dtype type)
{
    return type == QKV_BF16 ? 0x1p-8 : type == QKV_F16 ? 0x1p-11 : U;
}

static qkv_dtype type_of(const struct problem *p)
{
    return qkv_stored_type(p->precision);
}

// Draws weights and rows that the precision represents exactly, so that only sums and gradients are
// rounded.
static void fill(struct problem *p)
{
    const qkv_dtype type = type_of(p);
    const qkv_dtype x_type = p->x_type ? p->x_type : QKV_REAL;
    p->x = fenced((size_t)(p->R * p->K) * qkv_dtype_size(x_type));
    p->w = fenced((size_t)(p->V * p->K) * sizeof(real));
    p->b = p->bias ? fenced((size_t)p->V * sizeof(real)) : NULL;
    p->targets = fenced((size_t)p->R * sizeof *p->targets);
    for (int64_t i = 0; i < p->R * p->K; i++) {
        const double a = rounded(check_gauss(), type);
        if (x_type == QKV_REAL)
            ((real *)p->x)[i] = (real)a;
        else
            qkv_from_f32((uint16_t *)p->x + i, x_type, &(float){ (float)a }, 1);
    }
    const double small = 2 / sqrt((double)p->K);
    for (int64_t i = 0; i < p->V * p->K; i++) p->w[i] = (real)rounded(check_gauss() * small, type);
    for (int64_t i = 0; i < p->V && p->b; i++) p->b[i] = (real)check_gauss();
    for (int64_t r = 0; r < p->R; r++)
        p->targets[r] = (int32_t)((check_random() + 1) / 2 * (double)p->V) % (int32_t)p->V;
    for (int64_t r = 3; r < p->R; r += 4) p->targets[r] = -1;
}

static double x_at(const struct problem *p, int64_t i)
{
    float one;
    if (!p->x_type || p->x_type == QKV_REAL) return (double)((real *)p->x)[i];
    qkv_to_f32(&one, (uint16_t *)p->x + i, p->x_type, 1);
    return (double)one;
}

static struct qkv_cross_entropy options(const struct problem *p, int threads)
{
    struct qkv_cross_entropy o = { .V = p->V,
                                   .K = p->K,
                                   .w = p->w,
                                   .b = p->b,
                                   .smoothing = (real)p->smoothing,
                                   .precision = p->precision,
                                   .x = p->x_type,
                                   .threads = threads };
    const size_t bytes = qkv_cross_entropy_scratch(&o, p->R);
    CHECK(bytes != SIZE_MAX);
    o.scratch = qkv_alloc(bytes, 1);
    // fills scratch with NaN, so that a read before the first write is detected
    memset(o.scratch, 0xff, bytes);
    return o;
}

static const real scale = (real)0.25;

static struct result run(const struct problem *p, int threads)
{
    struct result y = { .losses = fenced((size_t)p->R * sizeof(real)),
                        .dw = fenced((size_t)(p->V * p->K) * sizeof(real)),
                        .db = fenced((size_t)p->V * sizeof(real)),
                        .wide = fenced((size_t)(p->R * p->K) * sizeof(real)) };
    const qkv_dtype type = p->x_type ? p->x_type : QKV_REAL;
    y.dx = fenced((size_t)(p->R * p->K) * qkv_dtype_size(type));
    // starts at 1, because gradients of weights are accumulated
    for (int64_t i = 0; i < p->V * p->K; i++) y.dw[i] = 1;
    for (int64_t i = 0; i < p->V; i++) y.db[i] = 1;
    struct qkv_cross_entropy o = options(p, threads);
    CHECK_EQ(qkv_threads_set(threads), QKV_OK);
    qkv_cross_entropy(&y.loss, y.dx, y.dw, y.db, y.losses, p->x, p->targets, p->R, scale, &o);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    for (int64_t i = 0; i < p->R * p->K; i++) {
        if (type == QKV_REAL)
            y.wide[i] = ((real *)y.dx)[i];
        else
            qkv_widen(y.wide + i, (uint16_t *)y.dx + i, type, 1);
    }
    qkv_free(o.scratch);
    return y;
}

// One row in double: g[V] and the error bound of each; *loss and its bound. A product of K numbers
// in any order has an error of (K + 2) U sum |x w| (Higham 2002, 3.1); six bf16 products in place
// of one double that. e^(s - top) has an error of 2 ulp, plus U |s - top| for the rounding of the
// difference; a sum of n words adds n U.
struct row {
    double *g, *off;
    double loss, loss_off;
};
static void reference(struct row *y, const struct problem *p, int64_t r, double *s)
{
    const double V = (double)p->V, e = p->smoothing, ut = unit(type_of(p));
    double top = -INFINITY, wrong = 0, mean = 0, sum = 0;
    for (int64_t n = 0; n < p->V; n++) {
        double v = p->b ? (double)p->b[n] : 0, size = fabs(v);
        for (int64_t k = 0; k < p->K; k++) {
            const double a = x_at(p, r * p->K + k) * (double)p->w[n * p->K + k];
            v += a;
            size += fabs(a);
        }
        s[n] = v;
        wrong = fmax(wrong, 2 * (double)(p->K + 3) * U * size);
        top = fmax(top, v);
        mean += v / V;
    }
    for (int64_t n = 0; n < p->V; n++) sum += exp(s[n] - top);
    const double lse = top + log(sum);
    // relative error of a probability before it is stored
    const double share = 2 * expm1(2 * wrong) + U * (V + 40 + 4 * fabs(top));
    for (int64_t n = 0; n < p->V; n++) {
        const double q = exp(s[n] - lse), own = n == p->targets[r] ? 1 - e : 0;
        const double rel = share + U * 4 * fabs(s[n] - top);
        y->g[n] = q - own - e / V;
        // rounded twice when stored: as a term and as a gradient; the gradient of the target only
        // once, from 1 - probability
        y->off[n] = own != 0 ? q * rel + ut * fabs(y->g[n]) + 4 * U
                             : q * (rel + 2 * ut) + ut * e / V + 4 * U * q;
        if (type_of(p) == QKV_F16)
            // below the normal numbers of f16, for a value multiplied by 1024
            y->off[n] += 2 * 0x1p-34;
        y->off[n] += 0x1p-120;
    }
    y->loss = lse - (1 - e) * s[p->targets[r]] - e * mean;
    y->loss_off = 2 * wrong + share + 8 * U * (fabs(lse) + fabs(s[p->targets[r]]) + 1) +
                  e * U * V * fabs(top);
}

static void check_against_formula(const struct problem *p)
{
    const int64_t R = p->R, K = p->K, V = p->V;
    const struct result y = run(p, 1);
    double *s = calloc((size_t)V, sizeof *s), *g = calloc((size_t)V, sizeof *g);
    double *off = calloc((size_t)V, sizeof *off);
    double *dw = calloc((size_t)(V * K), sizeof *dw), *dw_off = calloc((size_t)(V * K), sizeof *dw);
    double *db = calloc((size_t)V, sizeof *db), *db_off = calloc((size_t)V, sizeof *db);
    double loss = 0, loss_off = 0;
    int64_t rows = 0, right = 0;
    for (int64_t r = 0; r < R; r++) {
        if (p->targets[r] < 0) {
            CHECK(y.losses[r] == 0);
            for (int64_t k = 0; k < K; k++) CHECK(y.wide[r * K + k] == 0);
            continue;
        }
        struct row one = { g, off, 0, 0 };
        reference(&one, p, r, s);
        CHECK_NEAR((double)y.losses[r], one.loss, one.loss_off);
        loss += one.loss;
        loss_off += one.loss_off;
        rows++;
        bool first = true;
        for (int64_t n = 0; n < V; n++) first = first && s[n] <= s[p->targets[r]];
        right += first;
        for (int64_t k = 0; k < K; k++) {
            double want = 0, far = 0, size = 0;
            for (int64_t n = 0; n < V; n++) {
                const double w = (double)p->w[n * K + k];
                want += g[n] * w;
                far += off[n] * fabs(w);
                size += (fabs(g[n]) + off[n]) * fabs(w);
            }
            far = (far + 2 * (double)(V + 8) * U * size) * (double)scale;
            want *= (double)scale;
            if (p->x_type) far += unit(p->x_type) * fabs(want) + 0x1p-24 * (p->x_type == QKV_F16);
            CHECK_NEAR((double)y.wide[r * K + k], want, far);
        }
        for (int64_t n = 0; n < V; n++) {
            for (int64_t k = 0; k < K; k++) {
                const double a = x_at(p, r * K + k);
                dw[n * K + k] += g[n] * a * (double)scale;
                dw_off[n * K + k] += (off[n] + 2 * (double)(R + 8) * U * (fabs(g[n]) + off[n])) *
                                     fabs(a) * (double)scale;
            }
            db[n] += g[n] * (double)scale;
            db_off[n] += (off[n] + 2 * (double)(R + 8) * U * (fabs(g[n]) + off[n])) * (double)scale;
        }
    }
    CHECK_NEAR(y.loss.sum, loss, loss_off + (double)R * 0x1p-52 * fabs(loss));
    CHECK_EQ(y.loss.rows, rows);
    CHECK_EQ(y.loss.right, right);
    for (int64_t i = 0; i < V * K; i++)
        CHECK_NEAR((double)y.dw[i], 1 + dw[i], dw_off[i] + 4 * U * (1 + fabs(dw[i])));
    for (int64_t i = 0; i < V; i++)
        CHECK_NEAR((double)y.db[i], 1 + db[i], db_off[i] + 4 * U * (1 + fabs(db[i])));
    free(s), free(g), free(off), free(dw), free(dw_off), free(db), free(db_off);
}

static const struct problem shapes[] = {
    { .R = 1, .K = 1, .V = 1 },
    { .R = 2, .K = 5, .V = 3, .bias = true },
    { .R = 7, .K = 16, .V = 64, .smoothing = 0.1 },
    { .R = 33, .K = 17, .V = 65, .bias = true, .smoothing = 0.3 },
    { .R = 50, .K = 40, .V = 777, .bias = true },
    { .R = 3, .K = 400, .V = 70 },
    { .R = 620, .K = 3, .V = 20, .smoothing = 0.1 },
};
static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_STRICT,
                                            QKV_PRECISION_BF16, QKV_PRECISION_F16 };

TEST(losses_and_gradients_follow_the_formula_in_every_precision)
{
    EACH_ISA(k) EACH(shape, shapes) EACH(precision, precisions)
    {
        struct problem p = *shape;
        p.precision = *precision;
        for (int typed = 0; typed < 2; typed++) {
            p.x_type = typed ? type_of(&p) : 0;
            if (typed && p.x_type == QKV_REAL) continue;
            fill(&p);
            check_against_formula(&p);
            fence_free();
        }
    }
}

TEST(threads_change_no_bit_and_a_loss_alone_is_the_same)
{
    EACH(precision, precisions)
    {
        struct problem p = {
            .R = 500, .K = 24, .V = 1500, .smoothing = 0.1, .precision = *precision
        };
        fill(&p);
        const struct result one = run(&p, 1);
        for (int threads = 2; threads < 6; threads++) {
            const struct result more = run(&p, threads);
            CHECK_BITS(&more.loss, &one.loss, sizeof one.loss);
            CHECK_BITS(more.dw, one.dw, (size_t)(p.V * p.K) * sizeof(real));
            CHECK_BITS(more.db, one.db, (size_t)p.V * sizeof(real));
            CHECK_BITS(more.dx, one.dx, (size_t)(p.R * p.K) * sizeof(real));
        }
        struct qkv_loss alone = { 0 };
        struct qkv_cross_entropy o = options(&p, 1);
        qkv_cross_entropy(&alone, NULL, NULL, NULL, NULL, p.x, p.targets, p.R, scale, &o);
        CHECK_BITS(&alone, &one.loss, sizeof alone);
        qkv_free(o.scratch);
        fence_free();
    }
}

TEST(each_gradient_can_be_had_alone)
{
    struct problem p = { .R = 20, .K = 24, .V = 150, .bias = true };
    fill(&p);
    const struct result all = run(&p, 1);
    for (int only = 0; only < 3; only++) {
        real *dx = fenced((size_t)(p.R * p.K) * sizeof(real)),
             *db = fenced((size_t)p.V * sizeof(real));
        real *dw = fenced((size_t)(p.V * p.K) * sizeof(real));
        for (int64_t i = 0; i < p.V * p.K; i++) dw[i] = 1;
        for (int64_t i = 0; i < p.V; i++) db[i] = 1;
        struct qkv_cross_entropy o = options(&p, 1);
        struct qkv_loss loss = { 0 };
        qkv_cross_entropy(&loss, only == 0 ? dx : NULL, only == 1 ? dw : NULL,
                          only == 2 ? db : NULL, NULL, p.x, p.targets, p.R, scale, &o);
        qkv_free(o.scratch);
        if (only == 0) CHECK_BITS(dx, all.dx, (size_t)(p.R * p.K) * sizeof(real));
        if (only == 1) CHECK_BITS(dw, all.dw, (size_t)(p.V * p.K) * sizeof(real));
        if (only == 2) CHECK_BITS(db, all.db, (size_t)p.V * sizeof(real));
        CHECK_BITS(&loss, &all.loss, sizeof loss);
    }
    fence_free();
}

TEST(the_first_of_equal_logits_is_right)
{
    enum { V = 200 };
    real w[V] = { 0 }, x = 1;
    // indices of the largest logits, in at least two groups of words
    const int tops[] = { 10, 70, 71, 190 };
    EACH(t, tops) w[*t] = 2;
    EACH(t, tops)
    {
        struct problem p = { .R = 1, .K = 1, .V = V };
        p.x = &x;
        p.w = w;
        p.targets = &(int32_t){ *t };
        struct qkv_cross_entropy o = options(&p, 1);
        struct qkv_loss loss = { 0 };
        qkv_cross_entropy(&loss, NULL, NULL, NULL, NULL, p.x, p.targets, 1, 1, &o);
        CHECK_EQ(loss.right, *t == 10);
        qkv_free(o.scratch);
    }
}

TEST(a_word_that_is_barred_has_no_share_and_what_is_not_finite_stays_in_its_row)
{
    struct problem p = { .R = 5, .K = 9, .V = 130, .bias = true };
    fill(&p);
    // hides words, including a whole group
    for (int64_t n = 64; n < 130; n++) p.b[n] = -(real)INFINITY;
    for (int64_t r = 0; r < p.R; r++) p.targets[r] = (int32_t)r;
    struct result y = run(&p, 1);
    for (int64_t i = 64 * p.K; i < p.V * p.K; i++) CHECK(y.dw[i] == 1);
    CHECK(isfinite(y.loss.sum));
    ((real *)p.x)[2 * p.K + 3] = (real)NAN;
    struct result bad = run(&p, 1);
    CHECK(isnan(bad.loss.sum) && isnan((double)bad.losses[2]));
    CHECK_EQ(bad.loss.rows, p.R);
    for (int64_t r = 0; r < p.R; r++) {
        if (r != 2) CHECK_BITS(bad.wide + r * p.K, y.wide + r * p.K, (size_t)p.K * sizeof(real));
        if (r != 2) CHECK_BITS(bad.losses + r, y.losses + r, sizeof(real));
    }
    fence_free();
}

TEST(logits_are_the_product_and_the_bias)
{
    EACH_ISA(k) EACH(precision, precisions)
    {
        struct problem p = { .R = 5, .K = 33, .V = 150, .bias = true, .precision = *precision };
        fill(&p);
        struct qkv_cross_entropy o = options(&p, 1);
        real *y = fenced((size_t)(p.R * p.V) * sizeof *y);
        qkv_logits(y, p.x, p.R, &o);
        for (int64_t i = 0; i < p.R * p.V; i++) {
            double v = (double)p.b[i % p.V], size = fabs(v);
            for (int64_t k1 = 0; k1 < p.K; k1++) {
                const double a = x_at(&p, i / p.V * p.K + k1) * (double)p.w[i % p.V * p.K + k1];
                v += a;
                size += fabs(a);
            }
            CHECK_NEAR((double)y[i], v, 2 * (double)(p.K + 3) * U * size);
        }
        qkv_free(o.scratch);
        fence_free();
    }
}

TEST(scratch_is_bounded_whatever_the_rows)
{
    struct qkv_cross_entropy o = { .V = 50257, .K = 768, .threads = 1 };
    for (int64_t R = 1; R <= INT64_C(1) << 40; R *= 32)
        // scratch is smaller than the weights
        CHECK(qkv_cross_entropy_scratch(&o, R) < (size_t)50257 * 768 * 4);
    o.V = INT64_MAX / 2;
    CHECK(qkv_cross_entropy_scratch(&o, 1) == SIZE_MAX);
}

// Creates the problem of the golden script.
static struct problem golden_problem(void)
{
    static int32_t targets[] = { 3, 0, -1, 6, 2 };
    int64_t count = 0;
    struct problem p = {
        .R = 5, .K = 4, .V = 7, .bias = true, .smoothing = 0.2, .targets = targets
    };
    p.x = made(&count, 20, 4);
    p.w = made(&count, 28, 4);
    p.b = made(&count, 7, 1);
    return p;
}

TEST(losses_and_gradients_are_those_of_pytorch)
{
    EACH_ISA(k)
    {
        struct problem p = golden_problem();
        const double *golden = golden_cross_entropy;
        struct qkv_cross_entropy o = options(&p, 1);
        struct qkv_loss loss = { 0 };
        real *dx = zeros(20), *dw = zeros(28), *db = zeros(7);
        qkv_cross_entropy(&loss, dx, dw, db, NULL, p.x, p.targets, p.R, 1, &o);
        qkv_free(o.scratch);
        // Logits are below 17: 4 (17 + 17 + 7) ulp in a probability, summed over 4 rows or 7 words
        // of magnitude 2.
        const real sum = (real)loss.sum;
        check_golden(&sum, &golden, 1, 4 * 41);
        check_golden(dx, &golden, 20, 14 * 4 * 41);
        check_golden(dw, &golden, 28, 14 * 4 * 41);
        check_golden(db, &golden, 7, 4 * 4 * 41);
        fence_free();
    }
}

static double value(void *ctx)
{
    const struct problem *p = ctx;
    struct qkv_cross_entropy o = options(p, 1);
    struct qkv_loss loss = { 0 };
    qkv_cross_entropy(&loss, NULL, NULL, NULL, NULL, p->x, p->targets, p->R, 1, &o);
    qkv_free(o.scratch);
    return loss.sum * (double)scale;
}

TEST(gradients_are_differences)
{
    struct problem p = golden_problem();
    struct qkv_cross_entropy o = options(&p, 1);
    struct qkv_loss loss = { 0 };
    real *dx = zeros(20), *dw = zeros(28), *db = zeros(7);
    qkv_cross_entropy(&loss, dx, dw, db, NULL, p.x, p.targets, p.R, scale, &o);
    qkv_free(o.scratch);
    check_differences(p.x, dx, 20, value, &p);
    check_differences(p.w, dw, 28, value, &p);
    check_differences(p.b, db, 7, value, &p);
    fence_free();
}

CHECK_MAIN(CASE(losses_and_gradients_are_those_of_pytorch), CASE(gradients_are_differences),
           CASE(losses_and_gradients_follow_the_formula_in_every_precision),
           CASE(threads_change_no_bit_and_a_loss_alone_is_the_same),
           CASE(each_gradient_can_be_had_alone), CASE(the_first_of_equal_logits_is_right),
           CASE(a_word_that_is_barred_has_no_share_and_what_is_not_finite_stays_in_its_row),
           CASE(logits_are_the_product_and_the_bias), CASE(scratch_is_bounded_whatever_the_rows))
