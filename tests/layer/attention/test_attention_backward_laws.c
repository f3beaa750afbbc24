// SPDX-License-Identifier: MIT
// test_attention_backward_laws.c: tests invariants of the attention backward pass for any numbers,
// on every ISA. "Same" means bit-identical.
#include "attention_back_case.h"

enum { CHUNK = QKV_CHUNK };

// A copy of all gradients of a run.
struct kept {
    real *dq, *dk, *dv;
};
static struct kept keep(const struct back_problem *x)
{
    struct kept k = { malloc(x->q_n * sizeof(real)), malloc(x->k_n * sizeof(real)),
                      malloc(x->v_n * sizeof(real)) };
    memcpy(k.dq, x->dq, x->q_n * sizeof(real));
    memcpy(k.dk, x->dk, x->k_n * sizeof(real));
    memcpy(k.dv, x->dv, x->v_n * sizeof(real));
    return k;
}
static void keep_free(struct kept *k)
{
    free(k->dq);
    free(k->dk);
    free(k->dv);
}
static void check_same(const struct back_problem *x, const struct kept *k)
{
    CHECK_BITS(x->dq, k->dq, x->q_n * sizeof(real));
    CHECK_BITS(x->dk, k->dk, x->k_n * sizeof(real));
    CHECK_BITS(x->dv, k->dv, x->v_n * sizeof(real));
}
static void both_ways(const struct back_problem *x)
{
    case_run(&x->p);
    back_clear_tables(x);
    back_run(x);
}
static void fill(real *x, size_t n, real with)
{
    for (size_t i = 0; i < n; i++) x[i] = with;
}

TEST(what_nobody_sees_is_never_read_and_has_no_gradient)
{
    static const real poisons[] = { (real)NAN, (real)INFINITY, -(real)INFINITY };
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_new_here(isa_n)) continue;
        // Keys 20 .. of 40 do not exist; the mask hides key 3 and the bias key 5 from all rows; row
        // 7 sees no key.
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 20, .S = 40, .H = 4, .G = 2, .E = 12, .F = 9 },
            LENGTHS | MASK | BIAS | BROADCAST | TABLES);
        const struct qkv_attention *a = &x.p.a;
        x.p.lengths[0] = 20;
        for (int64_t t = 0; t < a->T; t++) {
            for (int64_t j = 0; j < a->S; j++) x.p.mask[t * a->S + j] = j != 3 && t != 7;
            x.p.bias[t * a->S + 5] = -INFINITY;
        }
        both_ways(&x);
        struct kept k = keep(&x);
        EACH(poison, poisons)
        {
            for (int64_t j = 0; j < a->S; j++) {
                if (j < 20 && j != 3 && j != 5) continue;
                fill(x.p.k + j * a->G * a->E, (size_t)(a->G * a->E), *poison);
                fill(x.p.v + j * a->G * a->F, (size_t)(a->G * a->F), *poison);
                for (int64_t t = 0; j > 20 && t < a->T; t++)
                    x.p.bias[t * a->S + j] = (float)*poison;
            }
            fill(x.p.q + 7 * a->H * a->E, (size_t)(a->H * a->E), *poison);
            fill(x.dout + 7 * a->H * a->F, (size_t)(a->H * a->F), *poison);
            both_ways(&x);
            check_same(&x, &k);
            for (size_t i = 0; i < x.bias_n; i++) CHECK(isfinite(x.tables.bias[i]));
        }
        for (int64_t e = 0; e < a->G * a->E; e++) {
            CHECK(x.dk[3 * a->G * a->E + e] == 0);
            CHECK(x.dk[25 * a->G * a->E + e] == 0);
        }
        for (int64_t e = 0; e < a->H * a->E; e++) CHECK(x.dq[7 * a->H * a->E + e] == 0);
        keep_free(&k);
        fence_free();
    }
}

TEST(what_is_not_finite_reaches_those_that_see_it_and_nobody_else)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_new_here(isa_n)) continue;
        enum { N = 30, BAD = 17, E = 8 };
        struct back_problem x =
            back_new((struct qkv_attention){ .B = 1, .T = N, .S = N, .H = 1, .E = E }, CAUSAL);
        both_ways(&x);
        struct kept k = keep(&x);
        // A NaN in a gradient affects its own row and the keys that this row sees.
        const real was = x.dout[BAD * E + 1];
        x.dout[BAD * E + 1] = (real)NAN;
        both_ways(&x);
        for (int t = 0; t < N; t++)
            for (int e = 0; e < E; e++) {
                const int i = t * E + e;
                if (t == BAD)
                    CHECK(isnan(x.dq[i]));
                else
                    CHECK_BITS(&x.dq[i], &k.dq[i], sizeof(real));
                if (t <= BAD) {
                    CHECK(isnan(x.dk[i]));
                    CHECK(isnan(x.dv[i]) == (e == 1));
                } else {
                    CHECK_BITS(&x.dk[i], &k.dk[i], sizeof(real));
                    CHECK_BITS(&x.dv[i], &k.dv[i], sizeof(real));
                }
            }
        x.dout[BAD * E + 1] = was;
        // A NaN in a key affects all rows that see it; earlier rows are unchanged.
        x.p.k[BAD * E + 1] = (real)NAN;
        both_ways(&x);
        for (int t = 0; t < N; t++)
            for (int e = 0; e < E; e++) {
                const int i = t * E + e;
                if (t < BAD)
                    CHECK_BITS(&x.dq[i], &k.dq[i], sizeof(real));
                else
                    CHECK(isnan(x.dq[i]));
            }
        keep_free(&k);
        fence_free();
    }
}

TEST(a_row_with_every_key_masked_has_gradients_of_zero)
{
    const unsigned features[] = { 0, SINKS, SOFTCAP | ALIBI | RELATIVE, DROPOUT };
    EACH_ISA(isa) EACH_PRECISION EACH(f, features)
    {
        if (!back_new_here(isa_n)) continue;
        struct back_problem x =
            back_new((struct qkv_attention){ .B = 2, .T = 9, .S = 6, .H = 2, .E = 5 },
                     *f | MASK | BROADCAST | TABLES);
        memset(x.p.mask, 0, (size_t)(x.p.a.T * x.p.a.S));
        fill(x.dout, x.out_n, (real)NAN);
        both_ways(&x);
        for (size_t i = 0; i < x.q_n; i++) CHECK(x.dq[i] == 0);
        for (size_t i = 0; i < x.k_n; i++) CHECK(x.dk[i] == 0);
        for (size_t i = 0; i < x.v_n; i++) CHECK(x.dv[i] == 0);
        for (int64_t h = 0; x.tables.sinks && h < x.p.a.H; h++) CHECK(x.tables.sinks[h] == 0);
        for (int64_t h = 0; x.tables.alibi && h < x.p.a.H; h++) CHECK(x.tables.alibi[h] == 0);
        for (size_t i = 0; i < x.relative_n && x.tables.relative; i++)
            CHECK(x.tables.relative[i] == 0);
        fence_free();
    }
}

TEST(the_number_of_threads_changes_no_bit)
{
    static const struct {
        struct qkv_attention a;
        unsigned features;
    } cases[] = {
        { { .B = 3, .T = 20, .S = 40, .H = 4, .G = 2, .E = 8 },
          BIAS | BROADCAST | RELATIVE | ALIBI | SINKS | TABLES },
        { { .B = 1, .T = 20, .S = 1100, .H = 2, .G = 1, .E = 4 }, ALIBI | SINKS | CAUSAL | TABLES },
        { { .B = 1, .T = 20, .S = 1100, .H = 1, .E = 4 }, BOTTOM_RIGHT | CAUSAL },
        { { .B = 1, .T = 60, .S = 60, .H = 6, .G = 3, .E = 8 },
          PACKED | BIAS | BROADCAST | RELATIVE | DROPOUT | TABLES },
        { { .B = 2, .T = 30, .S = 60, .H = 8, .E = 8 }, BIAS | LENGTHS | TABLES },
    };
    const int before = qkv_threads();
    EACH_ISA(isa) EACH_PRECISION EACH(n, cases)
    {
        if (!back_new_here(isa_n)) continue;
        const struct back_problem x = back_new(n->a, n->features);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        both_ways(&x);
        struct kept k = keep(&x);
        const size_t h = (size_t)x.p.a.H;
        real *bias = malloc((x.bias_n + 1) * sizeof *bias), *alibi = malloc(h * sizeof *alibi);
        if (x.tables.bias) memcpy(bias, x.tables.bias, x.bias_n * sizeof *bias);
        if (x.tables.alibi) memcpy(alibi, x.tables.alibi, h * sizeof *alibi);
        for (int threads = 2; threads <= 8; threads += 5) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            both_ways(&x);
            check_same(&x, &k);
            if (x.tables.bias) CHECK_BITS(bias, x.tables.bias, x.bias_n * sizeof *bias);
            if (x.tables.alibi) CHECK_BITS(alibi, x.tables.alibi, h * sizeof *alibi);
        }
        free(bias);
        free(alibi);
        keep_free(&k);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(before), QKV_OK);
}

// Copies n tokens of x from token `from` into a problem of their own.
static struct back_problem piece(const struct back_problem *x, int64_t t, int64_t T, int64_t s,
                                 int64_t S)
{
    const struct qkv_attention *a = &x->p.a;
    struct back_problem y = back_new(
        (struct qkv_attention){
            .B = 1, .T = T, .S = S, .H = a->H, .G = a->G, .E = a->E, .F = a->F },
        (a->causal ? CAUSAL : 0) | (a->diagonal == QKV_BOTTOM_RIGHT ? BOTTOM_RIGHT : 0));
    memcpy(y.p.q, x->p.q + t * a->H * a->E, y.q_n * sizeof(real));
    memcpy(y.dout, x->dout + t * a->H * a->F, y.out_n * sizeof(real));
    memcpy(y.p.k, x->p.k + s * a->G * a->E, y.k_n * sizeof(real));
    memcpy(y.p.v, x->p.v + s * a->G * a->F, y.v_n * sizeof(real));
    return y;
}

TEST(a_packed_sequence_has_the_gradients_that_it_has_alone)
{
    EACH_ISA(isa) EACH_PRECISION for (int causal = 0; causal < 2; causal++)
    {
        if (!back_new_here(isa_n)) continue;
        const struct qkv_attention a = {
            .B = 1, .T = 50, .S = 600, .H = 2, .G = 1, .E = 8, .F = 5
        };
        const struct back_problem x = back_new(a, PACKED | (causal ? CAUSAL | BOTTOM_RIGHT : 0));
        both_ways(&x);
        for (int64_t n = 0; n < x.p.a.sequences; n++) {
            const int64_t t = x.p.q_offsets[n], T = x.p.q_offsets[n + 1] - t;
            const int64_t s = x.p.k_offsets[n], S = x.p.k_offsets[n + 1] - s;
            if (!T || !S) continue;
            const struct back_problem y = piece(&x, t, T, s, S);
            both_ways(&y);
            CHECK_BITS(y.dq, x.dq + t * a.H * a.E, y.q_n * sizeof(real));
            CHECK_BITS(y.dk, x.dk + s * a.G * a.E, y.k_n * sizeof(real));
            CHECK_BITS(y.dv, x.dv + s * a.G * a.F, y.v_n * sizeof(real));
        }
        fence_free();
    }
}

TEST(neighbours_in_a_batch_change_no_bit_however_units_are_cut)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_new_here(isa_n)) continue;
        // One item of one head is divided at its parts of keys; sixteen heads are not.
        enum { H = 16, T = 8, S = 1100, E = 4 };
        const struct back_problem x =
            back_new((struct qkv_attention){ .B = 1, .T = T, .S = S, .H = 1, .E = E },
                     CAUSAL | BOTTOM_RIGHT);
        const struct back_problem y =
            back_new((struct qkv_attention){ .B = 1, .T = T, .S = S, .H = H, .E = E },
                     CAUSAL | BOTTOM_RIGHT);
        for (int64_t h = 0; h < H; h += 15)
            for (int64_t t = 0; t < S; t++) {
                const size_t row = E * sizeof(real);
                if (t < T) memcpy(y.p.q + (t * H + h) * E, x.p.q + t * E, row);
                if (t < T) memcpy(y.dout + (t * H + h) * E, x.dout + t * E, row);
                memcpy(y.p.k + (t * H + h) * E, x.p.k + t * E, row);
                memcpy(y.p.v + (t * H + h) * E, x.p.v + t * E, row);
            }
        both_ways(&x);
        both_ways(&y);
        for (int64_t h = 0; h < H; h += 15)
            for (int64_t t = 0; t < S; t++) {
                const size_t row = E * sizeof(real);
                if (t < T) CHECK_BITS(y.dq + (t * H + h) * E, x.dq + t * E, row);
                CHECK_BITS(y.dk + (t * H + h) * E, x.dk + t * E, row);
                CHECK_BITS(y.dv + (t * H + h) * E, x.dv + t * E, row);
            }
        fence_free();
    }
}

TEST(gradients_of_tables_are_added_to_what_is_there)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_new_here(isa_n)) continue;
        const struct back_problem x =
            back_new((struct qkv_attention){ .B = 3, .T = 12, .S = 14, .H = 2, .E = 8 },
                     BIAS | BROADCAST | RELATIVE | ALIBI | SINKS | TABLES);
        both_ways(&x);
        struct {
            real *at;
            size_t n;
        } tables[] = { { x.tables.bias, x.bias_n },
                       { x.tables.relative, x.relative_n },
                       { x.tables.alibi, (size_t)x.p.a.H },
                       { x.tables.sinks, (size_t)x.p.a.H } };
        real *once[4];
        for (int i = 0; i < 4; i++) {
            once[i] = malloc(tables[i].n * sizeof(real));
            memcpy(once[i], tables[i].at, tables[i].n * sizeof(real));
            fill(tables[i].at, tables[i].n, 8);
        }
        back_run(&x);
        for (int i = 0; i < 4; i++) {
            // Each sum of up to B H T S terms is rounded once more, at its size including the 8.
            for (size_t n = 0; n < tables[i].n; n++)
                CHECK_NEAR(tables[i].at[n], 8 + once[i][n],
                           2 * UNIT * 3 * 2 * 12 * 14 * (8 + 2 * fabs((double)once[i][n])));
            free(once[i]);
        }
        fence_free();
    }
}

TEST(dropout_keeps_the_mean_and_depends_on_seed_and_place_alone)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_new_here(isa_n)) continue;
        struct back_problem x =
            back_new((struct qkv_attention){ .B = 1, .T = 16, .S = 64, .H = 2, .E = 8 }, 0);
        x.p.a.dropout.p = .5f;
        fill(x.p.v, x.v_n, 1);
        double sum = 0;
        enum { SEEDS = 100 };
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            x.p.a.dropout.seed = seed;
            case_run(&x.p);
            for (size_t i = 0; i < x.out_n; i += 8) sum += (double)x.p.out[i];
        }
        // Each out is sum w keep / .5 with sum w = 1, so its variance is sum w^2 <= 1.
        const double rows = SEEDS * (double)x.out_n / 8;
        CHECK_NEAR(sum / rows, 1, 5 / sqrt(rows) + case_out_unit());
        both_ways(&x);
        struct kept k = keep(&x);
        both_ways(&x);
        check_same(&x, &k);
        x.p.a.dropout.site++;
        both_ways(&x);
        CHECK(memcmp(x.dv, k.dv, x.v_n * sizeof(real)) != 0);
        keep_free(&k);
        fence_free();
    }
}

TEST(scratch_is_linear_in_tokens)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        struct qkv_attention a = {
            .B = 1, .T = 1 << 14, .S = 1 << 14, .H = 2, .E = 64, .precision = case_precision
        };
        struct qkv_attention_back one, two;
        const struct qkv_attention_tables none = { 0 };
        if (!back_new_here(isa_n)) continue;
        CHECK_EQ(qkv_attention_back_resolve(&one, &a, &none, NULL, 0), QKV_OK);
        a.T = a.S = 1 << 15;
        CHECK_EQ(qkv_attention_back_resolve(&two, &a, &none, NULL, 0), QKV_OK);
        CHECK(two.scratch <= 2 * one.scratch + (1 << 16));
    }
}

TEST(nothing_to_do_is_done)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        if (!back_family()) continue;
        const struct qkv_attention sizes[] = { { .B = 2, .T = 3, .S = 0, .H = 2, .E = 5 },
                                               { .B = 2, .T = 0, .S = 3, .H = 2, .E = 5 },
                                               { .B = 0, .T = 3, .S = 3, .H = 2, .E = 5 } };
        EACH(a, sizes)
        {
            const struct back_problem x = back_new(*a, SINKS | TABLES);
            fill(x.dq, x.q_n, 5);
            fill(x.dk, x.k_n, 5);
            fill(x.dv, x.v_n, 5);
            both_ways(&x);
            for (size_t i = 0; i < x.q_n; i++) CHECK(x.dq[i] == 0);
            for (size_t i = 0; i < x.k_n; i++) CHECK(x.dk[i] == 0);
            for (size_t i = 0; i < x.v_n; i++) CHECK(x.dv[i] == 0);
            fence_free();
        }
    }
}

CHECK_MAIN(CASE(what_nobody_sees_is_never_read_and_has_no_gradient),
           CASE(what_is_not_finite_reaches_those_that_see_it_and_nobody_else),
           CASE(a_row_with_every_key_masked_has_gradients_of_zero),
           CASE(the_number_of_threads_changes_no_bit),
           CASE(a_packed_sequence_has_the_gradients_that_it_has_alone),
           CASE(neighbours_in_a_batch_change_no_bit_however_units_are_cut),
           CASE(gradients_of_tables_are_added_to_what_is_there),
           CASE(dropout_keeps_the_mean_and_depends_on_seed_and_place_alone),
           CASE(scratch_is_linear_in_tokens), CASE(nothing_to_do_is_done))
