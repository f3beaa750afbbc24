// SPDX-License-Identifier: MIT
// test_cache_parts.c: tests a cache whose keys are split into parts: the bits depend on the number
// of parts only, and equal the bits of one part where the tree adds chunks in their order.
#include "cache_case.h"
#include "layer/attention/attention_work.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("the cache is for inference: there is none in double");
    return 77;
}
#else

// Decodes with p->a. Returns out, and lse in *lse.
static void *decode(const struct pair *p, const qkv_cache *c, float **lse)
{
    struct qkv_attention a = p->a;
    a.S = 0;
    const struct qkv_attention_plan plan = qkv_cache_plan(c, &a);
    void *out = fenced((size_t)(a.B * a.T * a.H * a.F) * qkv_dtype_size(pair_type(a.precision)));
    char *scratch = NULL;
    *lse = fenced((size_t)(a.B * a.H * a.T) * sizeof **lse);
    if (plan.status) fail_msg("plan: %s", plan.reason);
    CHECK_EQ(posix_memalign((void **)&scratch, 64, plan.scratch + 64), 0);
    memset(scratch, 0xff, plan.scratch + 64);
    CHECK_EQ(qkv_cache_forward(out, *lse, NULL, p->q, c, &a, scratch), QKV_OK);
    for (size_t i = 0; i < 64; i++) CHECK_EQ((uint8_t)scratch[plan.scratch + i], 0xff);
    free(scratch);
    return out;
}

static const struct qkv_attention small = {
    .B = 2, .T = 3, .H = 4, .G = 2, .E = 12, .F = 19, .causal = true
};

// A tree of at most three leaves adds them from left to right, and a tree with at most three parts
// that are not empty too.
TEST(up_to_three_chunks_have_the_bits_of_one_part)
{
    const int64_t parts[] = { 2, 3, 4, 7, 256 };
    EACH_ISA(k) EACH_PRECISION(precision) EACH(n, parts) for (int chunks = 1; chunks < 4; chunks++)
    {
        struct qkv_attention a = small;
        a.precision = (qkv_precision)precision;
        const int64_t chunk = qkv_attention_chunk(&a, qkv_attention_kernel_table(&a)->keys);
        a.S = chunks * chunk - 2;
        if (chunks > *n) continue;
        struct pair p = pair_new(a);
        p.parts = *n;
        qkv_cache *c = pair_fill(&p, 100);
        pair_check(&p, c, true);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(a_window_shorter_than_a_chunk_has_the_bits_of_one_part)
{
    EACH_ISA(k) EACH_PRECISION(precision)
    {
        struct qkv_attention a = small;
        a.precision = (qkv_precision)precision;
        const int64_t chunk = qkv_attention_chunk(&a, qkv_attention_kernel_table(&a)->keys);
        a.S = 8 * chunk - chunk / 4;
        a.window.on = true; // its rows see the chunks 6 and 7 alone, in the parts 2 and 3
        a.window.left = chunk / 2;
        struct pair p = pair_new(a);
        for (int64_t b = 0; b < a.B; b++)
            p.lengths[b] = a.S; // part 3 before part 0 is another order
        p.parts = 4;
        qkv_cache *c = pair_fill(&p, 500);
        pair_check(&p, c, false);
        qkv_cache_free(c);
        fence_free();
    }
}

TEST(threads_and_pieces_change_no_bit_of_any_number_of_parts)
{
    const int64_t parts[] = { 2, 3, 4, 7, 64 }, lengths[] = { 700, 5000 };
    EACH_ISA(k) EACH_PRECISION(precision) EACH(n, parts) EACH(S, lengths)
    {
        struct qkv_attention a = small;
        float sinks[] = { 1, -2, 0, 3 };
        a.precision = (qkv_precision)precision;
        a.S = *S;
        a.sinks = *n == 3 ? sinks : NULL;
        a.no_softmax = *n == 7;
        if (*S == 700) a.T = 80; // many rows: row blocks are units
        struct pair p = pair_new(a);
        pair_set(p.v, a.precision, 320 * a.G * p.a.F + 5, INFINITY);
        p.parts = *n;
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        float *lse, *want_lse;
        qkv_cache *c = pair_fill(&p, *S);
        void *want = decode(&p, c, &want_lse);
        qkv_cache_free(c);
        c = pair_fill(&p, 333);
        for (int threads = 2; threads < 6; threads += 3) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            void *out = decode(&p, c, &lse);
            pair_same(out, want, (size_t)(a.B * a.T * a.H * p.a.F), pair_type(a.precision), "out");
            if (!a.no_softmax) pair_same(lse, want_lse, (size_t)(a.B * a.H * a.T), QKV_F32, "lse");
        }
        qkv_cache_free(c);
        fence_free();
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(four_chunks_in_four_parts_are_added_as_a_tree)
{
    // keys of equal scores: every merge has the factors 1, so out is the tree of the chunks' sums
    struct qkv_attention a = { .B = 1, .T = 1, .H = 1, .G = 1, .E = 4, .F = 1 };
    const int64_t chunk = qkv_attention_chunk(&a, qkv_attention_kernel_table(&a)->keys);
    a.S = 4 * chunk;
    struct pair p = pair_new(a);
    memset(p.k, 0, (size_t)(a.S * a.E) * sizeof(float));
    memset(p.v, 0, (size_t)a.S * sizeof(float));
    // 2^24 + 1 + 1 is 2^24 from left to right, and 2^24 + 2 with the tree
    const float values[] = { 0x1p24f, 0, 1, 1 };
    for (int i = 0; i < 4; i++) ((float *)p.v)[i * chunk] = values[i];
    float *lse, out[2];
    for (int i = 0; i < 2; i++) {
        p.parts = i ? 4 : 1;
        qkv_cache *c = pair_fill(&p, a.S);
        memcpy(&out[i], decode(&p, c, &lse), sizeof *out);
        qkv_cache_free(c);
    }
    CHECK_EQ((int64_t)((double)out[0] * (double)a.S), 1 << 24);
    CHECK_EQ((int64_t)((double)out[1] * (double)a.S), (1 << 24) + 2);
    fence_free();
}

TEST(own_parts_alone_take_their_share_of_memory_and_are_refused)
{
    struct pair p = pair_new(
        (struct qkv_attention){ .B = 1, .T = 1, .S = 20000, .H = 2, .G = 2, .E = 32, .F = 32 });
    p.capacity = 20000;
    p.parts = 4;
    qkv_cache *all = pair_fill(&p, 7000);
    p.first_part = 1;
    p.own_parts = 2;
    qkv_cache *half = pair_fill(&p, 7000);
    CHECK_NEAR((double)qkv_cache_bytes(half) / (double)qkv_cache_bytes(all), .5, .04);
    struct qkv_attention a = p.a;
    a.S = 0;
    const struct qkv_attention_plan plan = qkv_cache_plan(half, &a);
    CHECK_EQ(plan.status, QKV_ERR_USAGE);
    CHECK_TEXT(plan.reason,
               "cache has 2 of 4 parts, expected all (qkv_ranks_cache_forward computes "
               "with the parts of several ranks)");
    qkv_cache_free(all);
    qkv_cache_free(half);
    fence_free();
}

TEST(parts_that_do_not_exist_are_refused)
{
    const struct {
        int64_t parts, first, own;
        const char *reason;
    } rows[] = {
        { -1, 0, 0, "number of parts is -1, expected 0 .. 256" },
        { 257, 0, 0, "number of parts is 257, expected 0 .. 256" },
        { 0, 1, 0, "own parts do not exist, expected parts of 0 .. 0, found 0 parts from 1 on" },
        { 4, -1, 0, "own parts do not exist, expected parts of 0 .. 3, found 0 parts from -1 on" },
        { 4, 2, 3, "own parts do not exist, expected parts of 0 .. 3, found 3 parts from 2 on" },
        { 4, 2, -1, "own parts do not exist, expected parts of 0 .. 3, found -1 parts from 2 on" },
    };
    EACH(r, rows)
    {
        const struct qkv_cache_shape s = {
            .B = 1, .G = 1, .E = 4, .parts = r->parts, .first_part = r->first, .own_parts = r->own
        };
        qkv_error err = { 0 };
        qkv_cache *c = NULL;
        CHECK_EQ(qkv_cache_new(&c, &s, &err), QKV_ERR_USAGE);
        CHECK(!c);
        CHECK_TEXT(err.text, r->reason);
    }
}

CHECK_MAIN(CASE(up_to_three_chunks_have_the_bits_of_one_part),
           CASE(a_window_shorter_than_a_chunk_has_the_bits_of_one_part),
           CASE(threads_and_pieces_change_no_bit_of_any_number_of_parts),
           CASE(four_chunks_in_four_parts_are_added_as_a_tree),
           CASE(own_parts_alone_take_their_share_of_memory_and_are_refused),
           CASE(parts_that_do_not_exist_are_refused))
#endif
