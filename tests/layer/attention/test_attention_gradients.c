// SPDX-License-Identifier: MIT
// test_attention_gradients.c: compares the gradients of attention with finite differences of its
// forward pass.
//
// L = sum dout out; for each array, along a random direction d of -1 and 1:
//   <dL, d> = (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12 h + O(h^4)
// In double the error is 1e-6 or less. In float the difference would show only the roundings of
// forward, so the test has no cases there.
#include "attention_back_case.h"

#ifdef QKV_DOUBLE
// Steps of the differences; small_step is for an ALiBi slope over distances of up to 1300 keys.
// Table entries are multiples of a grid step, so that a step of the difference is exact.
static const double step = 0x1p-10, small_step = 0x1p-20;
static void to_grid(float *x, size_t n)
{
    for (size_t i = 0; x && i < n; i++)
        if (isfinite(x[i])) x[i] = (float)(rint((double)x[i] * 0x1p8) * 0x1p-8);
}

static double loss(const struct back_problem *x)
{
    double sum = 0;
    case_run(&x->p);
    for (size_t i = 0; i < x->out_n; i++) sum += (double)x->dout[i] * (double)x->p.out[i];
    return sum;
}

// One array of inputs, real or float, and its gradient.
struct input {
    const char *name;
    real *numbers;
    float *table;
    const real *gradient;
    size_t n;
    double step;
};

static void move(const struct input *in, const double *way, double by)
{
    for (size_t i = 0; i < in->n; i++) {
        if (in->numbers) in->numbers[i] += (real)(way[i] * by);
        if (in->table) in->table[i] += (float)(way[i] * by);
    }
}

static double slope(const struct back_problem *x, const struct input *in, const double *way)
{
    static const double at[] = { 1, -1, 2, -2 }, times[] = { 8, -8, -1, 1 };
    double sum = 0;
    // copy of the inputs, because a step forth and back need not be exact
    real *kept = malloc(in->n * sizeof *kept);
    for (size_t i = 0; in->numbers && i < in->n; i++) kept[i] = in->numbers[i];
    for (int s = 0; s < 4; s++) {
        move(in, way, at[s] * in->step);
        sum += times[s] * loss(x);
        if (in->table) move(in, way, -at[s] * in->step);
        for (size_t i = 0; in->numbers && i < in->n; i++) in->numbers[i] = kept[i];
    }
    free(kept);
    return sum / (12 * in->step);
}

// Tests a random direction; with axis, a single element.
static void check_direction(const struct back_problem *x, const struct input *in, unsigned features,
                            bool axis)
{
    double *way = calloc(in->n, sizeof *way), want = 0, size = 0;
    for (size_t i = 0; i < in->n; i++) way[i] = axis ? 0 : pick(2) ? 1 : -1;
    if (axis) way[pick((int64_t)in->n)] = 1;
    for (size_t i = 0; i < in->n; i++) {
        want += (double)in->gradient[i] * way[i];
        size += fabs((double)in->gradient[i] * way[i]);
    }
    const double found = slope(x, in, way);
    // The sum may cancel, so the error is relative to the magnitude of its terms.
    if (!(fabs(found - want) <= 1e-6 * fmax(fabs(want), 1e-2 * size) + 1e-8))
        fail_msg("features %x T %d S %d E %d F %d: d%s: %.12g, differences say %.12g", features,
                 (int)x->p.a.T, (int)x->p.a.S, (int)x->p.a.E, (int)x->p.a.F, in->name, want, found);
    free(way);
}

static void check_all(struct back_problem *x, unsigned features)
{
    const struct qkv_attention *a = &x->p.a;
    const struct input inputs[] = {
        { "q", x->p.q, NULL, x->dq, x->q_n, step },
        { "k", x->p.k, NULL, x->dk, x->k_n, step },
        { "v", x->p.v, NULL, x->dv, x->v_n, step },
        { " bias", NULL, x->p.bias, x->tables.bias, x->bias_n, step },
        { " relative", NULL, (float *)(uintptr_t)a->relative.at, x->tables.relative, x->relative_n,
          step },
        { " alibi", NULL, (float *)(uintptr_t)a->alibi, x->tables.alibi, (size_t)a->H, small_step },
        { " sinks", NULL, (float *)(uintptr_t)a->sinks, x->tables.sinks, (size_t)a->H, step },
    };
    EACH(in, inputs) to_grid(in->table, in->table ? in->n : 0);
    case_run(&x->p);
    back_clear_tables(x);
    back_run(x);
    EACH(in, inputs)
    {
        if (!in->gradient || !in->n) continue;
        for (int n = 0; n < 2; n++) check_direction(x, in, features, false);
        for (int n = 0; n < 3; n++) check_direction(x, in, features, true);
    }
}

TEST(gradients_are_the_slopes_of_forward_whatever_the_features)
{
    static const int64_t sizes[] = { 1, 2, 3, 5, 9, 17 }, widths[] = { 1, 3, 8, 13 };
    check_seed = 11;
    for (int n = 0; n < 120; n++) {
        unsigned features = (unsigned)pick(FEATURES) | TABLES;
        // every second case has fewer features
        if (n % 2) features &= (unsigned)pick(FEATURES) | TABLES;
        struct qkv_attention a = { .B = 1 + pick(3),
                                   .T = sizes[pick(6)],
                                   .S = sizes[pick(6)] + pick(20),
                                   .E = widths[pick(4)],
                                   .F = widths[pick(4)],
                                   .G = 1 + pick(3) };
        a.H = a.G * (1 + pick(3));
        struct back_problem x = back_new(a, features);
        check_all(&x, features);
        fence_free();
    }
}

TEST(gradients_are_the_slopes_of_forward_across_parts_of_keys)
{
    const unsigned features[] = { CAUSAL, CAUSAL | RELATIVE, BIAS | BROADCAST | DROPOUT,
                                  ALIBI | SINKS, PACKED | LENGTHS | SOFTCAP };
    check_seed = 12;
    EACH(f, features)
    {
        const struct qkv_attention a = {
            .B = 1, .T = 20, .S = 1300, .H = 2, .G = 1, .E = 5, .F = 3
        };
        struct back_problem x = back_new(a, *f | BOTTOM_RIGHT | TABLES);
        check_all(&x, *f);
        fence_free();
    }
}

CHECK_MAIN(CASE(gradients_are_the_slopes_of_forward_whatever_the_features),
           CASE(gradients_are_the_slopes_of_forward_across_parts_of_keys))
#else
TEST(differences_in_float_show_nothing_but_roundings)
{
    CHECK(sizeof(real) == sizeof(float));
}
CHECK_MAIN(CASE(differences_in_float_show_nothing_but_roundings))
#endif
