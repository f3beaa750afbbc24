// SPDX-License-Identifier: MIT
// test_attention_backward.c: compares the gradients of attention with the formula in double, over a
// grid of sizes and features.
//
// Two bounds (docs/numerics.md, "Backward of attention"): every number is within the worst case of
// the roundings, and an array as a whole is within twice the error of the plain formula.
#include "attention_back_case.h"

static const int64_t queries[] = { 1, 2, 5, 8, 9, 17, 40 };
static const int64_t keys[] = { 1, 3, 15, 16, 17, 63, 65, 130 };
static const int64_t widths[] = { 1, 4, 16, 20, 25, 33, 64, 80 };

struct side {
    const char *name;
    const real *got;
    const double *want, *off, *plain;
    size_t n;
};

static void check_side(const struct side *s, const struct back_problem *x, unsigned features)
{
    for (size_t i = 0; s->got && i < s->n; i++) {
        const double error = fabs((double)s->got[i] - s->want[i]);
        if (!(error <= s->off[i]))
            fail_msg("%s features %x T %d S %d E %d F %d: d%s[%d]: %.9g, expected %.9g within %.3g",
                     qkv_precision_name(case_precision), features, (int)x->p.a.T, (int)x->p.a.S,
                     (int)x->p.a.E, (int)x->p.a.F, s->name, (int)i, (double)s->got[i], s->want[i],
                     s->off[i]);
    }
}

// Compares the worst error of a whole array with that of the plain formula, plus 2 ulp of the
// largest number.
static void check_error(const struct side *s, unsigned features, double times, double ulp)
{
    double worst = 0, worst_plain = 0, largest = 0;
    for (size_t i = 0; i < s->n; i++) {
        worst = fmax(worst, fabs((double)s->got[i] - s->want[i]));
        worst_plain = fmax(worst_plain, fabs(s->plain[i] - s->want[i]));
        largest = fmax(largest, fabs(s->want[i]));
    }
    if (!(worst <= times * worst_plain + 4 * ulp * largest))
        fail_msg("%s features %x: d%s off by %.3g, plain formula %.3g, largest %.3g",
                 qkv_precision_name(case_precision), features, s->name, worst, worst_plain,
                 largest);
}

static void check_gradients(const struct back_problem *x, unsigned features, bool whole)
{
    struct gradients g = gradients_new(x), off = gradients_new(x), plain = gradients_new(x),
                     none = gradients_new(x);
    back_reference(&g, &off, x, false);
    if (whole) back_reference(&plain, &none, x, true);
    const struct side sides[] = {
        { "q", x->dq, g.q, off.q, plain.q, x->q_n },
        { "k", x->dk, g.k, off.k, plain.k, x->k_n },
        { "v", x->dv, g.v, off.v, plain.v, x->v_n },
        { " bias", x->tables.bias, g.bias, off.bias, plain.bias, x->bias_n },
        { " relative", x->tables.relative, g.relative, off.relative, plain.relative,
          x->relative_n },
        { " alibi", x->tables.alibi, g.alibi, off.alibi, plain.alibi, (size_t)x->p.a.H },
        { " sinks", x->tables.sinks, g.sinks, off.sinks, plain.sinks, (size_t)x->p.a.H },
    };
    EACH(s, sides) check_side(s, x, features);
#ifdef QKV_DOUBLE
    whole = false; // the plain formula in double is the reference itself
#endif
    for (int i = 0; whole && i < 3; i++)
        check_error(&sides[i], features, case_out_unit() > 0 ? 2 : 1.5,
                    case_out_unit() > 0 ? case_out_unit() : UNIT);
    gradients_free(&g);
    gradients_free(&off);
    gradients_free(&plain);
    gradients_free(&none);
}

static struct qkv_attention drawn_sizes(void)
{
    struct qkv_attention a = { .B = 1 + pick(3),
                               .T = queries[pick(7)],
                               .S = keys[pick(8)],
                               .E = widths[pick(8)],
                               .F = widths[pick(8)],
                               .G = 1 + pick(2) };
    a.H = a.G * (1 + pick(3));
    return a;
}

#if defined(QKV_EMULATED) || QKV_FEW
enum { COMBINATIONS = 12 };
#else
enum { COMBINATIONS = 30 };
#endif

TEST(random_combinations_of_all_features_follow_the_formula)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(COMBINATIONS, 3);
        for (int n = 0; back_new_here(isa_n) && n < mixtures; n++) {
            unsigned features = (unsigned)pick(ALL_FEATURES);
            // every second case has fewer features
            if (n % 2) features &= (unsigned)pick(ALL_FEATURES) | TABLES;
            const struct back_problem x = back_new(drawn_sizes(), features);
            case_run(&x.p);
            back_clear_tables(&x);
            back_run(&x);
            check_gradients(&x, features, false);
            fence_free();
        }
        if (getenv("QKV_MIXTURES") && back_new_here(isa_n))
            printf("backward %s %s: %d mixtures\n", qkv_isa(), qkv_precision_name(case_precision),
                   mixtures);
    }
}

TEST(each_feature_alone_follows_the_formula_across_chunks)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        check_seed = 5;
        for (unsigned bit = 0; back_new_here(isa_n) && 1u << bit < FEATURES; bit++) {
            const struct qkv_attention a = { .B = 1, .T = 40, .S = 300, .H = 1, .E = 12, .F = 17 };
            const unsigned features =
                TABLES | 1u << bit | (1u << bit == BIAS_INFINITE ? (unsigned)BIAS : 0);
            const struct back_problem x = back_new(a, features);
            case_run(&x.p);
            back_clear_tables(&x);
            back_run(&x);
            check_gradients(&x, features, false);
            fence_free();
        }
    }
}

// FlashAttention's rule (Dao et al. 2022): at most twice (in float: 1.5 times) the error of the
// plain formula with its matrices in that type. The rows see many keys, because the plain formula
// has no error in a row with one key.
TEST(errors_are_near_those_of_the_plain_formula)
{
    static const struct {
        int64_t T, S, E;
        unsigned features;
    } cases[] = { { 70, 96, 64, 0 },
                  { 30, 300, 32, 0 },
                  { 80, 80, 64, CAUSAL },
                  { 40, 130, 48, SOFTCAP | ALIBI },
                  { 40, 130, 48, DROPOUT | BIAS } };
    EACH_ISA(isa) EACH_PRECISION
    {
        check_seed = 6;
        EACH(n, cases)
        {
            if (!back_new_here(isa_n)) continue;
            const struct back_problem x =
                back_new((struct qkv_attention){ .B = 1, .T = n->T, .S = n->S, .H = 2, .E = n->E },
                         n->features);
            case_run(&x.p);
            back_run(&x);
            check_gradients(&x, n->features, true);
            fence_free();
        }
    }
}

CHECK_MAIN(CASE(random_combinations_of_all_features_follow_the_formula),
           CASE(each_feature_alone_follows_the_formula_across_chunks),
           CASE(errors_are_near_those_of_the_plain_formula))
