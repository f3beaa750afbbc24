// SPDX-License-Identifier: MIT
// test_cache.c: tests that attention on a KV cache is bit-identical to attention on the same keys
// and values, on every ISA, in every precision, for any way of appending and any number of threads.
#include "cache_case.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("the cache is for inference: there is none in double");
    return 77;
}
#else

static void check_filled(struct qkv_attention a, int64_t piece, bool dense)
{
    struct pair p = pair_new(a);
    qkv_cache *c = pair_fill(&p, piece);
    pair_check(&p, c, dense);
    qkv_cache_free(c);
    fence_free();
}

TEST(cached_and_uncached_have_the_same_bits_for_one_to_eight_tokens)
{
    const int64_t lengths[] = { 8, 65, 256, 577 };
    EACH_ISA(k)
    EACH_PRECISION(p)
    EACH(S, lengths)
    for (int64_t T = 1; T <= 8; T++)
        check_filled((struct qkv_attention){ .B = 1,
                                             .T = T,
                                             .S = *S,
                                             .H = 4,
                                             .G = 2,
                                             .E = 12,
                                             .F = 19,
                                             .causal = true,
                                             .precision = (qkv_precision)p },
                     257, false);
}

TEST(it_does_not_matter_how_the_tokens_came)
{
    const int64_t pieces[] = { 1, 3, 17, 255, 257, 1000 };
    EACH_ISA(k)
    EACH_PRECISION(p)
    EACH(piece, pieces)
    check_filled((struct qkv_attention){ .B = 2,
                                         .T = 2,
                                         .S = 601,
                                         .H = 3,
                                         .G = 3,
                                         .E = 17,
                                         .F = 16,
                                         .causal = true,
                                         .precision = (qkv_precision)p },
                 *piece, false);
}

TEST(items_of_different_lengths_are_each_on_their_own_diagonal)
{
    EACH_ISA(k)
    EACH_PRECISION(p)
    for (int64_t T = 1; T <= 40; T += 13)
        for (int causal = 0; causal < 2; causal++)
            check_filled((struct qkv_attention){ .B = 5,
                                                 .T = T,
                                                 .S = 700,
                                                 .H = 6,
                                                 .G = 2,
                                                 .E = 9,
                                                 .causal = causal,
                                                 .precision = (qkv_precision)p },
                         300, false);
}

TEST(every_option_of_the_operator_is_there)
{
    enum { T = 3, S = 530, H = 4 };
    EACH_ISA(k) EACH_PRECISION(p) for (int option = 0; option < 12; option++)
    {
        struct qkv_attention a = { .B = 2,
                                   .T = T,
                                   .S = S,
                                   .H = H,
                                   .G = 2,
                                   .E = 24,
                                   .F = 40,
                                   .causal = true,
                                   .precision = (qkv_precision)p };
        float slopes[H], sinks[H] = { 1, -2, 0, 3 };
        float *bias = fenced_random(a.B * H * T * S);
        uint8_t *mask = fenced((size_t)(T * S));
        qkv_alibi_slopes(slopes, H);
        for (int64_t i = 0; i < T * S; i++) mask[i] = (uint8_t)(i / 100 % 3 == 0 ? 0 : i % 3);
        for (int64_t i = 0; i < a.B * H * T * S; i++)
            if (i % 5 == 1 || i / 300 % 4 == 2) bias[i] = -INFINITY;
        if (option == 1) a.causal = false;
        if (option == 2) a.softcap = 1.5f;
        if (option == 3) a.alibi = slopes;
        if (option == 4) a.sinks = sinks;
        if (option == 5) a.scale = -0.4f;
        if (option == 6) a.no_softmax = true;
        if (option == 7 || option == 10)
            a.bias.at = bias, a.bias.b = H * T * S, a.bias.h = T * S, a.bias.t = S;
        if (option == 8 || option == 10) a.mask.at = mask, a.mask.t = S;
        if (option == 9 || option == 10)
            a.window.on = true, a.window.left = 270, a.window.right = option == 9 ? 0 : -1;
        if (option == 11) a.scale = 1;
        struct pair x = pair_new(a);
        qkv_cache *c = pair_fill(&x, 100);
        pair_check(&x, c, option != 6);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(long_prompts_go_through_in_blocks)
{
    EACH_ISA(k)
    EACH_PRECISION(p)
    check_filled((struct qkv_attention){ .B = 1,
                                         .T = 210,
                                         .S = 420,
                                         .H = 6,
                                         .G = 2,
                                         .E = 16,
                                         .causal = true,
                                         .precision = (qkv_precision)p },
                 420, false);
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    const int64_t lengths[] = { 600, 6000, 256 * 41 + 5 }; // lengths for one wave, and for two
    const int threads[] = { 1, 2, 3, 5 };
    EACH(n, threads) EACH_ISA(k) EACH_PRECISION(p) EACH(S, lengths)
    {
        CHECK_EQ(qkv_threads_set(*n), QKV_OK);
        check_filled((struct qkv_attention){ .B = 2,
                                             .T = 2,
                                             .S = *S,
                                             .H = 3,
                                             .G = *S == 600 ? 3 : 1,
                                             .E = 5,
                                             .causal = true,
                                             .window.on = *S == 6000,
                                             .window.left = 2900,
                                             .window.right = -1,
                                             .precision = (qkv_precision)p },
                     3000, false);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(what_is_cut_can_be_appended_again)
{
    EACH_ISA(k) EACH_PRECISION(pr)
    {
        struct pair p = pair_new((struct qkv_attention){ .B = 1,
                                                         .T = 2,
                                                         .S = 600,
                                                         .H = 2,
                                                         .G = 1,
                                                         .E = 19,
                                                         .F = 21,
                                                         .causal = true,
                                                         .precision = (qkv_precision)pr });
        // a problem with other numbers, which must leave no trace in the cache
        struct pair wrong = pair_new(p.a);
        pair_set(wrong.v, p.a.precision, 530 * 21 + 3, NAN);
        pair_set(wrong.k, p.a.precision, 531 * 19 + 3, NAN);
        const int64_t cuts[] = { 599, 593, 513, 512, 511, 300, 256, 255, 3, 1, 0 };
        qkv_cache *c = pair_fill(&wrong, 600);
        const size_t bytes = qkv_cache_bytes(c);
        EACH(n, cuts)
        {
            CHECK_EQ(qkv_cache_cut(c, 0, *n), QKV_OK);
            CHECK_EQ(qkv_cache_length(c, 0), *n);
            pair_append(c, &wrong, 0, *n, 600);
            CHECK_EQ(qkv_cache_cut(c, 0, *n), QKV_OK);
        }
        pair_append(c, &p, 0, 0, 77);
        pair_append(c, &wrong, 0, 77, 500);
        CHECK_EQ(qkv_cache_cut(c, QKV_CACHE_ALL, 77), QKV_OK);
        pair_append(c, &p, 0, 77, 600);
        CHECK_EQ(qkv_cache_cut(c, 0, 1000), QKV_OK); // the cut is longer than the item: no change
        pair_check(&p, c, false);
        CHECK(qkv_cache_bytes(c) <= bytes + 64 * sizeof(void *)); // the cache reused its memory
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(a_stream_in_a_window_runs_in_the_memory_of_its_window)
{
    enum { S = 5000, LEFT = 600 };
    EACH_ISA(k) EACH_PRECISION(pr)
    {
        struct pair p = pair_new((struct qkv_attention){ .B = 1,
                                                         .T = 3,
                                                         .S = S,
                                                         .H = 2,
                                                         .G = 2,
                                                         .E = 8,
                                                         .causal = true,
                                                         .window = { true, LEFT, 0 },
                                                         .precision = (qkv_precision)pr });
        qkv_cache *c = pair_cache(&p);
        size_t most = 0;
        for (int64_t at = 0; at < S; at += 50) {
            pair_append(c, &p, 0, at, at + 50);
            if (at + 50 > LEFT + 3) CHECK_EQ(qkv_cache_forget(c, 0, at + 50 - LEFT - 3), QKV_OK);
            if (at < 3000) most = qkv_cache_bytes(c);
        }
        CHECK_EQ(qkv_cache_length(c, 0), S);
        CHECK(qkv_cache_bytes(c) <= most + 64 * sizeof(void *));
        pair_check(&p, c, false);
        // refused: token 4000 was already forgotten
        CHECK_EQ(qkv_cache_cut(c, 0, 4000), QKV_ERR_USAGE);
        CHECK_EQ(qkv_cache_length(c, 0), S);
        CHECK_EQ(qkv_cache_cut(c, 0, 0), QKV_OK); // empties the item, which then starts again
        p.a.S = p.lengths[0] = 40;
        pair_append(c, &p, 0, 0, 40);
        pair_check(&p, c, false);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(what_is_not_finite_reaches_those_that_attend_and_no_others)
{
    enum { S = 560, G = 2, E = 12, F = 9 };
    const float bad[] = { NAN, -INFINITY };
    const int64_t keys[] = { 0, 255, 256, 300, 559 };
    EACH_ISA(k) EACH_PRECISION(pr) EACH(x, bad) EACH(j, keys) for (int what = 0; what < 3; what++)
    {
        struct qkv_attention a = { .B = 2,
                                   .T = 3,
                                   .S = S,
                                   .H = 4,
                                   .G = G,
                                   .E = E,
                                   .F = F,
                                   .causal = true,
                                   .precision = (qkv_precision)pr };
        uint8_t *mask = fenced(3 * S);
        memset(mask, 1, 3 * S);
        if (what == 1) a.window.on = true, a.window.left = 258, a.window.right = 0;
        if (what == 2) mask[*j] = mask[S + *j] = 0, a.mask.at = mask, a.mask.t = S;
        struct pair p = pair_new(a);
        p.lengths[1] = S;
        pair_set(p.v, a.precision, (*j * G + 1) * F + 4, *x);
        pair_set(p.v, a.precision, (*j * G + 1) * F + 8, -*x);
        if (*j == 300) pair_set(p.k, a.precision, ((S + *j) * G + 0) * E + 5, *x);
        qkv_cache *c = pair_fill(&p, 130);
        pair_check(&p, c, false);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(strides_of_any_order_are_followed)
{
    enum { B = 2, T = 4, S = 300, H = 4, G = 2, E = 10, F = 14 };
    EACH_ISA(k)
    {
        struct pair p = pair_new((struct qkv_attention){
            .B = B, .T = T, .S = S, .H = H, .G = G, .E = E, .F = F, .causal = true });
        p.lengths[1] = S;
        // strides of the layout [B][H][T][E]
        p.a.q_strides = (struct qkv_strides){ H * T * E, E, T * E };
        p.a.k_strides = (struct qkv_strides){ G * S * E, E, S * E };
        p.a.v_strides = (struct qkv_strides){ G * S * F, F, S * F };
        p.a.out_strides = (struct qkv_strides){ H * T * F, F, T * F };
        qkv_cache *c = pair_cache(&p);
        const float *keys = p.k, *values = p.v;
        for (int64_t at = 0; at < S; at += 100)
            CHECK_EQ(qkv_cache_append(c, QKV_CACHE_ALL, keys + at * E, values + at * F, 100,
                                      &p.a.k_strides, &p.a.v_strides, NULL),
                     QKV_OK);
        CHECK_EQ(qkv_cache_length(c, QKV_CACHE_ALL), S);
        pair_check(&p, c, true);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(an_empty_cache_gives_zeros)
{
    struct pair p = pair_new((struct qkv_attention){ .B = 1, .T = 2, .S = 0, .H = 2, .E = 4 });
    qkv_cache *c = pair_cache(&p);
    pair_check(&p, c, false);
    CHECK_EQ(qkv_cache_length(c, 0), 0);
    qkv_cache_free(c);
    fence_free();
}

TEST(scratch_does_not_hang_on_the_length)
{
    for (int threads = 1; threads <= 4; threads += 3) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        struct pair p =
            pair_new((struct qkv_attention){ .B = 1, .T = 1, .S = 9000, .H = 2, .G = 1, .E = 4 });
        qkv_cache *c = pair_cache(&p);
        const struct qkv_attention a = { .T = 1, .H = 2 };
        const size_t before = qkv_cache_plan(c, &a).scratch;
        pair_append(c, &p, 0, 0, 9000);
        CHECK_EQ(qkv_cache_plan(c, &a).scratch, before);
        CHECK_TEXT(qkv_cache_plan(c, &a).kernel, "cached");
        qkv_cache_free(c);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(a_capacity_is_kept_and_refusals_change_nothing)
{
    struct pair p = pair_new((struct qkv_attention){ .B = 2, .T = 1, .S = 400, .H = 2, .E = 4 });
    p.capacity = 300;
    p.lengths[0] = p.lengths[1] = 290;
    qkv_cache *c = pair_fill(&p, 290);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_cache_append(c, 1, p.k, p.v, 11, NULL, NULL, &err), QKV_ERR_LIMIT);
    CHECK(strstr(err.text, "300"));
    pair_append(c, &p, 1, 290, 300);
    CHECK_EQ(qkv_cache_append(c, QKV_CACHE_ALL, p.k, p.v, 5, NULL, NULL, NULL), QKV_ERR_LIMIT);
    CHECK_EQ(qkv_cache_length(c, 0), 290);
    CHECK_EQ(qkv_cache_length(c, 1), 300);
    CHECK_EQ(qkv_cache_length(c, QKV_CACHE_ALL), 300);
    CHECK_EQ(qkv_cache_forget(c, 1, 301), QKV_ERR_USAGE);
    // refused: item 0 has only 290 tokens
    CHECK_EQ(qkv_cache_forget(c, QKV_CACHE_ALL, 295), QKV_ERR_USAGE);
    qkv_cache_free(c);
    fence_free();
}

CHECK_MAIN(CASE(cached_and_uncached_have_the_same_bits_for_one_to_eight_tokens),
           CASE(it_does_not_matter_how_the_tokens_came),
           CASE(items_of_different_lengths_are_each_on_their_own_diagonal),
           CASE(every_option_of_the_operator_is_there), CASE(long_prompts_go_through_in_blocks),
           CASE(any_number_of_threads_gives_the_same_bits), CASE(what_is_cut_can_be_appended_again),
           CASE(a_stream_in_a_window_runs_in_the_memory_of_its_window),
           CASE(what_is_not_finite_reaches_those_that_attend_and_no_others),
           CASE(strides_of_any_order_are_followed), CASE(an_empty_cache_gives_zeros),
           CASE(scratch_does_not_hang_on_the_length),
           CASE(a_capacity_is_kept_and_refusals_change_nothing))
#endif
