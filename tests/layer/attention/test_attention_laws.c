// SPDX-License-Identifier: MIT
// test_attention_laws.c: tests invariants of attention for any numbers, on every ISA. "Same" means
// bit-identical.
#include "attention_case.h"

enum { CHUNK = QKV_CHUNK };

// Compares rows of one head in two problems, F wide.
static void check_same_row(const struct problem *p, int64_t b, int64_t t, int64_t h,
                           const struct problem *r, int64_t b2, int64_t t2)
{
    const struct qkv_attention *a = &p->a, *c = &r->a;
    CHECK_BITS(case_at(p->out, a->out_strides, a->T, a->H, a->F, b, t, h),
               case_at(r->out, c->out_strides, c->T, c->H, c->F, b2, t2, h),
               (size_t)a->F * sizeof(real));
    CHECK_BITS(&p->lse[(b * a->H + h) * a->T + t], &r->lse[(b2 * c->H + h) * c->T + t2],
               sizeof(real));
}
// Copies tokens of one item into the arrays of another problem.
static void copy_tokens(real *to, const real *from, int64_t n, int64_t width)
{
    memcpy(to, from, (size_t)(n * width) * sizeof *to);
}

TEST(rows_of_weights_sum_to_one)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct problem p = case_new(
            (struct qkv_attention){
                .B = 2, .T = 9, .S = CHUNK + 70, .H = 4, .G = 2, .E = 20, .F = 25 },
            WEIGHTS | CAUSAL | BOTTOM_RIGHT);
        case_run(&p);
        for (size_t r = 0; r < p.lse_n; r++) {
            double sum = 0;
            for (int64_t j = 0; j < p.a.S; j++)
                sum += (double)p.weights[r * (size_t)p.a.S + (size_t)j];
            // Each term has at most 8 roundings (exponent, power, quotient), the sum in the divisor
            // n.
            CHECK_NEAR(sum, 1, UNIT * (double)(p.a.S + 16) + 2 * case_power_unit());
        }
        fence_free();
    }
}

TEST(permuted_keys_change_nothing_but_roundings)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct qkv_attention a = {
            .B = 1, .T = 5, .S = CHUNK + 33, .H = 2, .E = 33, .F = 20
        };
        const struct problem p = case_new(a, 0), r = case_new(a, 0);
        copy_tokens(r.q, p.q, a.T, 2 * 33);
        for (int64_t j = 0; j < a.S; j++) {
            // a permutation of the keys: 101 and S have no common factor
            const int64_t to = j * 101 % a.S;
            copy_tokens(r.k + to * 2 * 33, p.k + j * 2 * 33, 1, 2 * 33);
            copy_tokens(r.v + to * 2 * 20, p.v + j * 2 * 20, 1, 2 * 20);
        }
        case_run(&p);
        case_run(&r);
        double workspace[20], weights[CHUNK + 33];
        struct row want = { .out = workspace, .p = weights };
        for (int64_t h = 0; h < a.H; h++)
            for (int64_t t = 0; t < a.T; t++) {
                case_reference(&want, &p, 0, t, h, false);
                // The scores are bit-identical; only the sums over the keys have another order.
                const double unit = 2 * (case_share_unit() + case_out_unit() * 1.01);
                const double bound =
                    (2 * ((double)a.S + 16) * UNIT + unit) * want.reach + 2 * want.coarse;
                for (int64_t f = 0; f < 20; f++)
                    CHECK_NEAR(p.out[(t * 2 + h) * 20 + f], r.out[(t * 2 + h) * 20 + f], bound);
            }
        fence_free();
    }
}

TEST(the_prefix_of_a_causal_run_is_the_run_of_the_prefix)
{
    const int64_t cuts[] = { 1, 7, 16, 64, 65, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5 };
    const unsigned features[] = { CAUSAL, CAUSAL | ALIBI, CAUSAL | SOFTCAP | SINKS };
    EACH_ISA(isa) EACH_PRECISION EACH_IN_TURN(f, features, precision_n)
    {
        const struct qkv_attention a = {
            .B = 1, .T = 2 * CHUNK + 40, .S = 2 * CHUNK + 40, .H = 2, .G = 1, .E = 16, .F = 24
        };
        check_seed = 9;
        const struct problem p = case_new(a, *f);
        case_run(&p);
        EACH(cut, cuts)
        {
            struct qkv_attention part = p.a;
            part.T = part.S = *cut;
            struct problem r = p;
            r.a = part;
            r.out = fenced_real(p.out_n);
            r.lse = fenced_real(p.lse_n);
            case_run(&r);
            for (int64_t t = 0; t < *cut; t++)
                for (int64_t h = 0; h < a.H; h++) check_same_row(&r, 0, t, h, &p, 0, t);
        }
        fence_free();
    }
}

TEST(the_last_query_alone_is_the_last_row_of_the_whole_run)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct qkv_attention a = {
            .B = 1, .T = CHUNK + 90, .S = CHUNK + 90, .H = 4, .G = 2, .E = 40, .F = 33
        };
        const struct problem p = case_new(a, CAUSAL | BOTTOM_RIGHT);
        case_run(&p);
        // numbers of tokens that are decoded at once after the cached ones
        const int64_t sizes[] = { 1, 2, 5, 50 };
        EACH(n, sizes)
        {
            struct problem r = p;
            r.a.T = *n;
            r.q = p.q + (a.T - *n) * a.H * a.E;
            r.out = fenced_real((size_t)(*n * a.H * a.F));
            r.lse = fenced_real((size_t)(*n * a.H));
            case_run(&r);
            for (int64_t t = 0; t < *n; t++)
                for (int64_t h = 0; h < a.H; h++) check_same_row(&r, 0, t, h, &p, 0, a.T - *n + t);
        }
        fence_free();
    }
}

TEST(padding_neighbours_and_packing_change_nothing)
{
    const int64_t lengths[] = { 5, CHUNK + 17, 1, 64, 0, 100 };
    const unsigned features[] = { 0, CAUSAL, CAUSAL | BOTTOM_RIGHT | ALIBI, SOFTCAP | SINKS,
                                  WINDOW };
    enum { ITEMS = 6, LONGEST = CHUNK + 17, H = 2, E = 20, F = 25 };
    EACH_ISA(isa) EACH_PRECISION EACH(f, features)
    {
        check_seed = 21;
        struct problem one[ITEMS];
        const struct problem padded = case_new(
            (struct qkv_attention){
                .B = ITEMS, .T = LONGEST, .S = LONGEST, .H = H, .E = E, .F = F },
            *f | LENGTHS);
        int64_t total = 0;
        for (int i = 0; i < ITEMS; i++) total += lengths[i];
        struct problem packed = case_new(
            (struct qkv_attention){ .B = 1, .T = total, .S = total, .H = H, .E = E, .F = F }, *f);
        int64_t offsets[ITEMS + 1] = { 0 };
        for (int i = 0; i < ITEMS; i++) {
            struct qkv_attention a = padded.a;
            const int64_t n = lengths[i], at = offsets[i];
            a.B = 1;
            a.T = a.S = n;
            a.k_lengths = NULL;
            one[i] = (struct problem){ .a = a,
                                       .q = padded.q + i * LONGEST * H * E,
                                       .k = padded.k + i * LONGEST * H * E,
                                       .v = padded.v + i * LONGEST * H * F,
                                       .out = fenced_real((size_t)(n * H * F)),
                                       .lse = fenced_real((size_t)(n * H)) };
            padded.lengths[i] = n;
            copy_tokens(packed.q + at * H * E, one[i].q, n, H * E);
            copy_tokens(packed.k + at * H * E, one[i].k, n, H * E);
            copy_tokens(packed.v + at * H * F, one[i].v, n, H * F);
            offsets[i + 1] = at + n;
            case_run(&one[i]);
        }
        packed.a.sequences = ITEMS;
        packed.a.q_offsets = offsets;
        packed.a.window = padded.a.window;
        packed.a.sinks = padded.a.sinks;
        case_run(&packed);
        // The bottom-right diagonal of a padded item is counted from T = LONGEST, so only top-left
        // is compared.
        const bool compare = padded.a.diagonal == QKV_TOP_LEFT;
        if (compare) case_run(&padded);
        for (int i = 0; i < ITEMS; i++)
            for (int64_t t = 0; t < lengths[i]; t++)
                for (int64_t h = 0; h < H; h++) {
                    check_same_row(&one[i], 0, t, h, &packed, 0, offsets[i] + t);
                    if (compare) check_same_row(&one[i], 0, t, h, &padded, i, t);
                }
        fence_free();
    }
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    const unsigned features[] = { 0, CAUSAL | ALIBI, PACKED | LENGTHS, MASK | BIAS | BIAS_INFINITE,
                                  NO_SOFTMAX };
    EACH_ISA(isa) EACH_PRECISION EACH(f, features)
    {
        const struct problem p = case_new(
            (struct qkv_attention){ .B = 3, .T = 150, .S = 300, .H = 6, .G = 3, .E = 25, .F = 20 },
            *f | WEIGHTS);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        case_run(&p);
        struct problem r = p;
        r.out = fenced_real(p.out_n);
        r.lse = fenced_real(p.lse_n);
        r.weights = fenced_real(p.weights_n);
        memcpy(r.lse, p.lse, p.lse_n * sizeof(real)); // without a softmax lse is not written
        for (int n = 2; n <= 8; n += QKV_FEW ? 3 : 1) {
            CHECK_EQ(qkv_threads_set(n), QKV_OK);
            case_run(&r);
            CHECK_BITS(p.out, r.out, p.out_n * sizeof(real));
            CHECK_BITS(p.lse, r.lse, p.lse_n * sizeof(real));
            CHECK_BITS(p.weights, r.weights, p.weights_n * sizeof(real));
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        fence_free();
    }
}

TEST(any_layout_gives_the_same_bits)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct qkv_attention a = {
            .B = 2, .T = 19, .S = 70, .H = 4, .G = 2, .E = 20, .F = 25
        };
        const struct problem p = case_new(a, 0), r = case_new(a, HEADS_FIRST);
        for (int64_t b = 0; b < a.B; b++)
            for (int64_t h = 0; h < a.H; h++) {
                for (int64_t t = 0; t < a.T; t++)
                    copy_tokens(case_at(r.q, r.a.q_strides, a.T, a.H, 20, b, t, h),
                                case_at(p.q, p.a.q_strides, a.T, a.H, 20, b, t, h), 1, 20);
                for (int64_t j = 0; j < a.S && h < a.G; j++) {
                    copy_tokens(case_at(r.k, r.a.k_strides, a.S, a.G, 20, b, j, h),
                                case_at(p.k, p.a.k_strides, a.S, a.G, 20, b, j, h), 1, 20);
                    copy_tokens(case_at(r.v, r.a.v_strides, a.S, a.G, 25, b, j, h),
                                case_at(p.v, p.a.v_strides, a.S, a.G, 25, b, j, h), 1, 25);
                }
            }
        case_run(&p);
        case_run(&r);
        for (int64_t b = 0; b < a.B; b++)
            for (int64_t h = 0; h < a.H; h++)
                for (int64_t t = 0; t < a.T; t++) check_same_row(&p, b, t, h, &r, b, t);
        fence_free();
    }
}

TEST(a_constant_added_to_all_scores_moves_only_the_lse)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const float shift = 4;
        const struct problem p = case_new(
            (struct qkv_attention){ .B = 1, .T = 7, .S = CHUNK + 50, .H = 2, .E = 16 }, BIAS);
        double workspace[16], weights[CHUNK + 50];
        struct row want = { .out = workspace, .p = weights };
        struct problem r = p;
        r.out = fenced_real(p.out_n);
        r.lse = fenced_real(p.lse_n);
        r.bias = fenced((size_t)(2 * 7 * p.a.S) * sizeof(float));
        for (int64_t i = 0; i < 2 * 7 * p.a.S; i++) {
            p.bias[i] = floorf(p.bias[i] * 64) / 64; // multiples of 1/64, so that the sum is exact
            r.bias[i] = p.bias[i] + shift;
        }
        r.a.bias.at = r.bias;
        case_run(&p);
        case_run(&r);
        for (int64_t h = 0; h < 2; h++)
            for (int64_t t = 0; t < 7; t++) {
                case_reference(&want, &r, 0, t, h, false);
                // The score is rounded at its own magnitude: a few UNIT of |bias| + shift, twice.
                const double each = UNIT * (4 * (want.spread + shift) + 2 * (double)p.a.S) +
                                    2 * (case_share_unit() + case_out_unit() * 1.01);
                for (int64_t f = 0; f < 16; f++)
                    CHECK_NEAR(r.out[(t * 2 + h) * 16 + f], p.out[(t * 2 + h) * 16 + f],
                               each * want.reach);
                CHECK_NEAR(r.lse[h * 7 + t], p.lse[h * 7 + t] + shift, each);
            }
        fence_free();
    }
}

TEST(scores_a_hundredfold_saturate_to_the_hard_maximum)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        struct problem p =
            case_new((struct qkv_attention){ .B = 1, .T = 20, .S = 2 * CHUNK + 3, .H = 2, .E = 64 },
                     WEIGHTS);
        p.a.scale = 100;
        case_run(&p);
        for (int64_t h = 0; h < 2; h++)
            for (int64_t t = 0; t < 20; t++) {
                const struct seen s = { 0, p.a.S, t, false };
                double noise, best = -INFINITY, second = -INFINITY;
                int64_t at = 0;
                for (int64_t j = 0; j < p.a.S; j++) {
                    const double x = case_score(&p, p.q + (t * 2 + h) * 64, p.k + (j * 2 + h) * 64,
                                                &s, 0, t, h, j, false, &noise);
                    if (x > best) {
                        second = best;
                        best = x;
                        at = j;
                    } else if (x > second)
                        second = x;
                }
                for (int64_t j = 0; j < p.a.S; j++)
                    CHECK(isfinite(p.weights[(h * 20 + t) * p.a.S + j]));
                // other weights are below e^-40, and S of them far below UNIT
                if (best - second < 40) continue;
                CHECK_NEAR(p.weights[(h * 20 + t) * p.a.S + at], 1, UNIT);
                for (int64_t f = 0; f < 64; f++)
                    CHECK_NEAR(p.out[(t * 2 + h) * 64 + f], p.v[(at * 2 + h) * 64 + f],
                               8 * UNIT + case_out_unit() * 8);
            }
        fence_free();
    }
}

TEST(one_visible_key_gives_its_value_to_the_bit)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        struct problem p = case_new(
            (struct qkv_attention){
                .B = 1, .T = CHUNK + 40, .S = CHUNK + 40, .H = 2, .E = 20, .F = 25 },
            CAUSAL);
        p.a.window.on = true; // the window is 0, so each query sees only its diagonal key
        p.a.window.right = -1;
        case_run(&p);
        CHECK_BITS(p.out, p.v, p.out_n * sizeof(real));
        fence_free();
    }
}

TEST(outputs_that_are_not_wanted_change_nothing)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const struct problem p = case_new(
            (struct qkv_attention){ .B = 1, .T = 30, .S = 90, .H = 2, .E = 20 }, WEIGHTS | MASK);
        struct problem r = p;
        case_run(&p);
        r.out = fenced_real(p.out_n);
        r.lse = NULL;
        r.weights = NULL;
        case_run(&r);
        CHECK_BITS(p.out, r.out, p.out_n * sizeof(real));
        fence_free();
    }
}

TEST(slopes_of_alibi_are_those_of_the_paper)
{
    float s[12];
    qkv_alibi_slopes(s, 8);
    for (int h = 0; h < 8; h++) CHECK(s[h] == ldexpf(1, -(h + 1)));
    qkv_alibi_slopes(s, 12); // expected: the slopes of 8 heads, then every other slope of 16 heads
    for (int h = 0; h < 8; h++) CHECK(s[h] == ldexpf(1, -(h + 1)));
    for (int h = 8; h < 12; h++) CHECK_NEAR(s[h], exp2(-0.5 * (2 * (h - 8) + 1)), 0x1p-25);
    qkv_alibi_slopes(s, 1);
    CHECK(s[0] == 0x1p-8f);
}

CHECK_MAIN(CASE(rows_of_weights_sum_to_one), CASE(permuted_keys_change_nothing_but_roundings),
           CASE(the_prefix_of_a_causal_run_is_the_run_of_the_prefix),
           CASE(the_last_query_alone_is_the_last_row_of_the_whole_run),
           CASE(padding_neighbours_and_packing_change_nothing),
           CASE(any_number_of_threads_gives_the_same_bits), CASE(any_layout_gives_the_same_bits),
           CASE(a_constant_added_to_all_scores_moves_only_the_lse),
           CASE(scores_a_hundredfold_saturate_to_the_hard_maximum),
           CASE(one_visible_key_gives_its_value_to_the_bit),
           CASE(outputs_that_are_not_wanted_change_nothing),
           CASE(slopes_of_alibi_are_those_of_the_paper))
