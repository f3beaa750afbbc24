// SPDX-License-Identifier: MIT
// test_attention.c: compares attention with the formula in double, over a grid of sizes and
// features.
//
// Three bounds (docs/numerics.md, "Attention"): every element is within the worst case of the
// roundings; the mean square error of all mixtures of a precision is within that of the plain
// formula in its precision, times 1.5 squared (f32; others: 2 squared); and a case as a whole is
// within 1.5 (2) times the error of the plain formula, plus 2 ulp. The last is a matter of chance
// in a case with few keys, so it holds for the usual draws and is left out when QKV_MIXTURES asks
// for more.
#include "attention_case.h"

static const int64_t queries[] = { 1, 2, 5, 6, 7, 13, 40 };
static const int64_t keys[] = { 1, 3, 15, 16, 17, 63, 65, 130 };
static const int64_t widths[] = { 1, 4, 16, 20, 25, 33, 64, 80 };

// Sums of squared errors, each relative to the largest number of its case.
static struct {
    double got, plain;
} total;

// Compares every output of p with the formula.
static void check_case(const struct problem *p, unsigned features)
{
    const struct qkv_attention *a = &p->a;
    double *workspace = calloc((size_t)(2 * (a->F + a->S)), sizeof *workspace);
    struct row want = { .out = workspace, .p = workspace + a->F };
    struct row plain = { .out = workspace + a->F + a->S, .p = workspace + 2 * a->F + a->S };
    double worst = 0, worst_plain = 0, largest = 0, coarse = 0;
    const bool halves = case_out_unit() > 0;
    const double ulp = halves ? case_out_unit() : UNIT, times = case_precision ? 2 : 1.5;
    // half the smallest number of the type
    const double out_least = case_family()->type == QKV_F16 ? 0x1p-25 : 0;
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t t = 0; t < a->T; t++) {
                case_reference(&want, p, b, t, h, false);
                case_reference(&plain, p, b, t, h, true);
                const int64_t row = (b * a->H + h) * a->T + t;
                const real *out = case_at(p->out, a->out_strides, a->T, a->H, a->F, b, t, h);
                const double each = (a->no_softmax ? 0 : 2 * want.spread) + (double)want.n + 24;
                if (case_step16() > 0) // what 16 bits of weights and queries lose
                    coarse = fmax(coarse, want.coarse + 2 * want.spread * UNIT * want.reach);
                const double bound = (each + (double)want.n) * UNIT * want.reach + 1e-37 +
                                     (a->no_softmax ? want.spread * UNIT * (double)want.n * 8 : 0) +
                                     case_share_unit() * want.reach + want.coarse + out_least;
                for (int64_t f = 0; f < a->F; f++) {
                    const double error = fabs((double)out[f] - want.out[f]);
                    if (!(error <= bound + case_out_unit() * (fabs(want.out[f]) + bound)))
                        fail_msg(
                            "%s features %x: b %d h %d t %d f %d: %.9g, expected %.9g within %.3g",
                            qkv_precision_name(case_precision), features, (int)b, (int)h, (int)t,
                            (int)f, (double)out[f], want.out[f], bound);
                    worst = fmax(worst, error);
                    worst_plain = fmax(worst_plain, fabs(plain.out[f] - want.out[f]));
                    largest = fmax(largest, fabs(want.out[f]));
                }
                if (!a->no_softmax && isinf(want.lse))
                    CHECK(p->lse[row] == -INFINITY);
                else if (!a->no_softmax)
                    CHECK_NEAR(p->lse[row], want.lse,
                               UNIT * (want.spread + (double)want.n + 24 + 2 * fabs(want.lse)) +
                                   2 * case_power_unit());
                for (int64_t j = 0; p->weights && j < a->S; j++) {
                    const double w = (double)p->weights[row * a->S + j];
                    const double off = a->no_softmax
                                           ? want.spread * UNIT
                                           : (UNIT * each + 2 * case_power_unit()) * want.p[j];
                    if (!(fabs(w - want.p[j]) <= off + 1e-37))
                        fail_msg(
                            "features %x: b %d h %d t %d: weight of key %d: %.9g, expected %.9g",
                            features, (int)b, (int)h, (int)t, (int)j, w, want.p[j]);
                }
            }
#ifdef QKV_DOUBLE
    worst_plain = worst; // the plain formula in double is the reference itself
#endif
    if (largest > 0) {
        total.got += worst * worst / (largest * largest);
        total.plain += worst_plain * worst_plain / (largest * largest) + ulp * ulp;
    }
    total.plain += largest > 0 ? coarse * coarse / (largest * largest) : 0;
    // 2 ulp of the largest result are at most 2 * 2 * UNIT times its power of two. With few numbers
    // the worst error is a matter of chance.
    if (!getenv("QKV_MIXTURES") && a->B * a->H * a->T * a->F >= 64 &&
        !(worst <= times * worst_plain + 4 * ulp * largest + coarse))
        fail_msg("%s features %x T %d S %d E %d F %d: error %.3g, plain formula %.3g, largest %.3g",
                 qkv_precision_name(case_precision), features, (int)a->T, (int)a->S, (int)a->E,
                 (int)a->F, worst, worst_plain, largest);
    free(workspace);
}

static struct qkv_attention drawn_sizes(void)
{
    struct qkv_attention a = { .B = 1 + pick(2),
                               .T = queries[pick(7)],
                               .S = keys[pick(8)],
                               .E = widths[pick(8)],
                               .F = widths[pick(8)],
                               .G = 1 + pick(2) };
    a.H = a.G * (1 + pick(3));
    return a;
}

#if defined(QKV_EMULATED) || QKV_FEW
enum { COMBINATIONS = 50 };
#else
enum { COMBINATIONS = 400 };
#endif

TEST(random_combinations_of_all_features_follow_the_formula)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(COMBINATIONS, 3);
        memset(&total, 0, sizeof total);
        for (int n = 0; n < mixtures; n++) {
            unsigned features = (unsigned)pick(FEATURES);
            if (n % 2) features &= (unsigned)pick(FEATURES); // every second case has fewer features
            if (n % 5) features &= ~(unsigned)NO_SOFTMAX;
            if (features & NO_SOFTMAX) features &= ~(unsigned)SINKS;
            const struct problem p = case_new(drawn_sizes(), features);
            case_run(&p);
            check_case(&p, features);
            fence_free();
        }
        const double ratio = sqrt(total.got / total.plain);
        if (getenv("QKV_MIXTURES"))
            printf("forward %s %s: %d mixtures, error %.3f of the plain formula's\n", qkv_isa(),
                   qkv_precision_name(case_precision), mixtures, ratio);
        CHECK(ratio <= (case_precision ? 2 : 1.5));
    }
}

TEST(each_feature_alone_follows_the_formula_across_chunks)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        check_seed = 5;
        for (unsigned bit = 0; 1u << bit < FEATURES; bit++) {
            const struct qkv_attention a = { .B = 1, .T = 70, .S = 600, .H = 2, .E = 20, .F = 25 };
            const unsigned features = 1u << bit | (1u << bit == BIAS_INFINITE ? (unsigned)BIAS : 0);
            const struct problem p = case_new(a, features);
            case_run(&p);
            check_case(&p, features);
            fence_free();
        }
    }
}

TEST(nothing_to_do_is_done)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        struct problem p =
            case_new((struct qkv_attention){ .B = 2, .T = 3, .S = 0, .H = 2, .E = 5 }, 0);
        case_run(&p);
        for (size_t i = 0; i < p.out_n; i++) CHECK(p.out[i] == 0);
        for (size_t i = 0; i < p.lse_n; i++) CHECK(p.lse[i] == -INFINITY);
        const struct problem none =
            case_new((struct qkv_attention){ .B = 2, .T = 0, .S = 3, .H = 2, .E = 5 }, 0);
        case_run(&none);
        const struct problem batch =
            case_new((struct qkv_attention){ .B = 0, .T = 3, .S = 3, .H = 2, .E = 5 }, 0);
        case_run(&batch);
        fence_free();
    }
}

CHECK_MAIN(CASE(random_combinations_of_all_features_follow_the_formula),
           CASE(each_feature_alone_follows_the_formula_across_chunks), CASE(nothing_to_do_is_done))
