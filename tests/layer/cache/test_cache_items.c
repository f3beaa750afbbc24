// SPDX-License-Identifier: MIT
// test_cache_items.c: tests lists of cache items, copies of items and score terms: each item is
// bit-identical to attention on its own keys and values, whatever the other items do.
#include "cache_case.h"
#include "base/faults.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("the cache is for inference: there is none in double");
    return 77;
}
#else

enum { B = 4, G = 2, H = 4, E = 12, F = 19, MOST = 620, T_MOST = 40 };

// A cache, and a copy of the keys and values that each item contains.
struct world {
    qkv_precision precision;
    qkv_cache *c;
    char *k[B], *v[B]; // keys [MOST][G][E], values [MOST][G][F]
    int64_t length[B];
};

static size_t each(const struct world *w)
{
    return qkv_dtype_size(pair_type(w->precision));
}

static struct world world_new(int precision)
{
    struct world w = { .precision = (qkv_precision)precision };
    const struct qkv_cache_shape s = { .B = B, .G = G, .E = E, .F = F, .precision = w.precision };
    CHECK_EQ(qkv_cache_new(&w.c, &s, NULL), QKV_OK);
    for (int b = 0; b < B; b++) {
        w.k[b] = pair_numbers(w.precision, MOST * G * E);
        w.v[b] = pair_numbers(w.precision, MOST * G * F);
    }
    return w;
}
static void world_free(struct world *w)
{
    qkv_cache_free(w->c);
    fence_free();
}

// Appends n new tokens to each item of a list, in one call.
static void world_append(struct world *w, const int64_t *items, int64_t count, int64_t n)
{
    char *k = pair_numbers(w->precision, count * n * G * E);
    char *v = pair_numbers(w->precision, count * n * G * F);
    const size_t keys = (size_t)(n * G * E) * each(w), values = (size_t)(n * G * F) * each(w);
    for (int64_t i = 0; i < count; i++) {
        const int64_t b = items[i], at = w->length[b];
        memcpy(w->k[b] + (size_t)(at * G * E) * each(w), k + (size_t)i * keys, keys);
        memcpy(w->v[b] + (size_t)(at * G * F) * each(w), v + (size_t)i * values, values);
        w->length[b] += n;
    }
    CHECK_EQ(qkv_cache_append_some(w->c, items, count, k, v, n, NULL, NULL, NULL), QKV_OK);
    for (int64_t i = 0; i < count; i++)
        CHECK_EQ(qkv_cache_length(w->c, items[i]), w->length[items[i]]);
}

static void world_copy(struct world *w, const int64_t *to, const int64_t *from, int64_t count)
{
    const size_t keys = (size_t)(MOST * G * E) * each(w), values = (size_t)(MOST * G * F) * each(w);
    char *k[B], *v[B];
    int64_t length[B];
    for (int64_t i = 0; i < count; i++) {
        k[i] = fenced(keys), v[i] = fenced(values);
        memcpy(k[i], w->k[from[i]], keys);
        memcpy(v[i], w->v[from[i]], values);
        length[i] = w->length[from[i]];
    }
    for (int64_t i = 0; i < count; i++)
        w->k[to[i]] = k[i], w->v[to[i]] = v[i], w->length[to[i]] = length[i];
    CHECK_EQ(qkv_cache_copy(w->c, to, from, count, NULL), QKV_OK);
    for (int64_t i = 0; i < count; i++) CHECK_EQ(qkv_cache_length(w->c, to[i]), length[i]);
}

// Compares the last T tokens of listed items with attention on each item's own keys and values.
// Scratch has the size that the plan requires for the whole cache and T_MOST tokens.
static void world_check(const struct world *w, const int64_t *items, int64_t count,
                        struct qkv_attention a)
{
    const int64_t T = a.T;
    const size_t width = (size_t)(T * H * F), rows = (size_t)(T * H);
    const char *q = pair_numbers(w->precision, count * T * H * E);
    char *out = fenced((size_t)count * width * each(w)), *want = fenced(width * each(w));
    float *lse = fenced((size_t)count * rows * 4), *want_lse = fenced(rows * 4);
    char *scratch = NULL;
    a.H = H;
    struct qkv_attention most = a;
    most.T = T_MOST;
    most.bias.at = NULL;
    const struct qkv_attention_plan plan = qkv_cache_plan(w->c, &most);
    CHECK_EQ(plan.status, QKV_OK);
    CHECK_EQ(posix_memalign((void **)&scratch, 64, plan.scratch + 64), 0);
    memset(scratch, 0xff, plan.scratch + 64);
    memset(lse, 0, (size_t)count * rows * 4);
    CHECK_EQ(qkv_cache_forward_some(out, lse, NULL, q, w->c, items, count, &a, scratch), QKV_OK);
    for (size_t i = plan.scratch; i < plan.scratch + 64; i++) CHECK_EQ((uint8_t)scratch[i], 0xff);
    free(scratch);
    for (int64_t i = 0; i < count; i++) {
        struct qkv_attention one = a;
        one.B = 1, one.S = w->length[items[i]], one.G = G, one.E = E, one.F = F;
        one.precision = w->precision, one.diagonal = QKV_BOTTOM_RIGHT;
        if (a.bias.at) one.bias.at = a.bias.at + i * a.bias.b;
        const struct qkv_attention_plan p = qkv_attention_plan(&one);
        CHECK_EQ(p.status, QKV_OK);
        CHECK_EQ(posix_memalign((void **)&scratch, 64, p.scratch + 64), 0);
        memset(want_lse, 0, rows * 4);
        CHECK_EQ(qkv_attention_forward(want, want_lse, NULL, q + (size_t)(i * T * H * E) * each(w),
                                       w->k[items[i]], w->v[items[i]], &one, scratch),
                 QKV_OK);
        free(scratch);
        pair_same(out + (size_t)i * width * each(w), want, width, pair_type(w->precision), "out");
        pair_same(lse + (size_t)i * rows, want_lse, rows, QKV_F32, "lse");
    }
}

// Appends prompts of different lengths, one item at a time.
static void world_prompts(struct world *w, const int64_t lengths[B])
{
    for (int64_t b = 0; b < B; b++) world_append(w, &b, 1, lengths[b]);
}

static const struct qkv_attention next = { .T = 1, .causal = true };

// ---- lists -------------------------------------------------------------------------------------
TEST(items_go_on_alone_while_others_stand)
{
    const int64_t lengths[B] = { 5, 300, 255, 512 };
    const int64_t some[] = { 3, 0, 2 }, all[] = { 0, 1, 2, 3 }, one[] = { 1 };
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        EACH_ISA(k) EACH_PRECISION(p)
        {
            struct world w = world_new(p);
            for (int64_t b = 0; b < B; b++) { // appends the prompt in two pieces
                const int64_t half = lengths[b] / 2, rest = lengths[b] - half;
                const struct qkv_attention prompt = { .T = rest < 33 ? rest : 33, .causal = true };
                world_append(&w, &b, 1, half);
                world_append(&w, &b, 1, rest);
                world_check(&w, &b, 1, prompt);
            }
            for (int step = 0; step < 3; step++) {
                world_append(&w, some, 3, 1);
                world_check(&w, some, 3, next);
            }
            world_append(&w, one, 1, 2);
            world_check(&w, one, 1, (struct qkv_attention){ .T = 2, .causal = true });
            world_check(&w, all, B, next);
            CHECK_EQ(qkv_cache_cut(w.c, 2, 0), QKV_OK); // frees the item for the next prompt
            w.length[2] = 0;
            world_append(&w, &some[2], 1, 40);
            world_check(&w, some, 3, next);
            world_free(&w);
        }
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(an_item_may_be_asked_several_times_as_beams_ask_their_source)
{
    const int64_t lengths[B] = { 30, 500, 257, 90 }, sources[] = { 1, 1, 3, 1, 0, 3, 3, 2 };
    EACH_ISA(k) EACH_PRECISION(p)
    {
        struct world w = world_new(p);
        world_prompts(&w, lengths);
        world_check(&w, sources, 8, (struct qkv_attention){ .T = 1 });
        world_check(&w, sources, 3, (struct qkv_attention){ .T = 3 });
        world_free(&w);
    }
}

TEST(a_prompt_whole_in_chunks_and_token_by_token_has_the_same_bits)
{
    enum { S = 300 };
    EACH_ISA(k) EACH_PRECISION(p)
    {
        struct pair x = pair_new((struct qkv_attention){ .B = 1,
                                                         .T = S,
                                                         .S = S,
                                                         .H = H,
                                                         .G = G,
                                                         .E = E,
                                                         .F = F,
                                                         .causal = true,
                                                         .precision = (qkv_precision)p });
        const int64_t chunks[] = { 1, 7, 128, S };
        const size_t size = qkv_dtype_size(pair_type(x.a.precision)), row = H * F * size;
        char *want = fenced(S * row), *out = fenced(S * row), *scratch = NULL;
        const struct qkv_attention_plan plan = qkv_attention_plan(&x.a);
        CHECK_EQ(posix_memalign((void **)&scratch, 64, plan.scratch + 64), 0);
        CHECK_EQ(qkv_attention_forward(want, NULL, NULL, x.q, x.k, x.v, &x.a, scratch), QKV_OK);
        free(scratch);
        EACH(n, chunks)
        {
            qkv_cache *c = pair_cache(&x);
            struct qkv_attention a = { .T = S, .H = H, .causal = true };
            CHECK_EQ(posix_memalign((void **)&scratch, 64, qkv_cache_plan(c, &a).scratch + 64), 0);
            for (int64_t at = 0; at < S; at += a.T) {
                a.T = *n < S - at ? *n : S - at;
                pair_append(c, &x, 0, at, at + a.T);
                CHECK_EQ(qkv_cache_forward(out + (size_t)at * row, NULL, NULL,
                                           (const char *)x.q + (size_t)(at * H * E) * size, c, &a,
                                           scratch),
                         QKV_OK);
            }
            free(scratch);
            qkv_cache_free(c);
            pair_same(out, want, S * H * F, pair_type(x.a.precision), "out");
        }
        fence_free();
    }
}

TEST(terms_of_a_score_are_those_of_the_call)
{
    enum { REACH = 128, WIDE = 2 * REACH + 1 };
    const int64_t lengths[B] = { 5, 300, 255, 512 }, items[] = { 3, 0, 1 };
    EACH_ISA(k) EACH_PRECISION(p) for (int64_t T = 1; T <= 3; T += 2)
    {
        struct world w = world_new(p);
        float slopes[H], sinks[H] = { 1, -2, 0, 3 };
        const float *table = fenced_random(H * WIDE), *bias = fenced_random(3 * H * T * 512);
        world_prompts(&w, lengths);
        qkv_alibi_slopes(slopes, H);
        const struct qkv_attention base = { .T = T, .causal = true };
        struct qkv_attention a[8] = { base, base, base, base, base, base, base, base };
        // T5: larger distances share the last entry
        a[0].relative.at = table, a[0].relative.reach = REACH;
        a[1].relative = a[0].relative, a[1].causal = false;
        a[2].scale = 1, a[2].relative = a[0].relative;
        a[3].softcap = 2, a[3].window.on = true, a[3].window.left = 100, a[3].window.right = 0;
        a[4].alibi = slopes;
        a[5].sinks = sinks;
        a[6].bias.at = bias, a[6].bias.b = H * T * 512, a[6].bias.h = T * 512, a[6].bias.t = 512;
        a[7].relative = a[0].relative, a[7].window = a[3].window, a[7].sinks = sinks;
        EACH(one, a) world_check(&w, items, 3, *one);
        world_free(&w);
    }
}

// ---- copies ------------------------------------------------------------------------------------
TEST(beams_go_on_from_copies_as_if_each_had_come_alone)
{
    const int64_t all[] = { 0, 1, 2, 3 };
    const int64_t steps[][B] = { { 0, 0, 0, 0 }, { 1, 0, 3, 2 }, { 2, 2, 0, 0 },
                                 { 0, 1, 2, 3 }, { 3, 3, 3, 3 }, { 1, 2, 3, 0 } };
    // lengths before, at and after the end of a block
    const int64_t prompts[] = { 3, 250, 256, 510 };
    EACH_ISA(k) EACH_PRECISION(p) EACH(n, prompts)
    {
        struct world w = world_new(p);
        world_append(&w, all, 1, *n);
        for (size_t turn = 0; turn < 2; turn++) EACH(from, steps)
            {
                world_copy(&w, all, *from, B);
                world_append(&w, all, B, 1);
                world_check(&w, all, B, next);
            }
        world_free(&w);
    }
}

TEST(what_is_shared_is_held_once_and_given_back)
{
    const int64_t all[] = { 0, 1, 2, 3 }, first[] = { 0, 0, 0, 0 }, two[] = { 2 }, three[] = { 3 };
    struct world w = world_new(QKV_PRECISION_F32);
    world_append(&w, all, 1, 600);
    const size_t alone = qkv_cache_bytes(w.c);
    for (int step = 0; step < 12; step++) {
        world_copy(&w, all, first, B);
        CHECK(qkv_cache_bytes(w.c) < alone + 4096); // copies need only lists of addresses
    }
    world_append(&w, all, B, 1);
    const size_t grown = qkv_cache_bytes(w.c);
    // one partly filled block per item, and no more in later steps
    for (int step = 0; step < 12; step++) {
        world_copy(&w, all, first, B);
        world_append(&w, all, B, 1);
    }
    CHECK(qkv_cache_bytes(w.c) <= grown + 4096);
    world_copy(&w, three, two, 1);
    CHECK_EQ(qkv_cache_cut(w.c, 2, 300), QKV_OK); // cuts inside a block that other items share
    w.length[2] = 300;
    world_append(&w, two, 1, 5);
    CHECK_EQ(qkv_cache_forget(w.c, 0, 256), QKV_OK);
    world_check(&w, &all[1], 3, next);
    world_check(&w, all, 1,
                (struct qkv_attention){ .T = 1, .causal = true, .window = { true, 200, 0 } });
    world_free(&w);
}

TEST(what_is_not_finite_is_copied_as_well)
{
    const int64_t all[] = { 0, 1, 2, 3 }, first[] = { 0, 0, 0, 0 };
    struct world w = world_new(QKV_PRECISION_F32);
    float *v = pair_numbers(w.precision, 9 * G * F), *k = pair_numbers(w.precision, 9 * G * E);
    v[3 * G * F + 4] = INFINITY;
    memcpy(w.k[0], k, 9 * G * E * sizeof *k);
    memcpy(w.v[0], v, 9 * G * F * sizeof *v);
    CHECK_EQ(qkv_cache_append(w.c, 0, k, v, 9, NULL, NULL, NULL), QKV_OK);
    w.length[0] = 9;
    world_copy(&w, all, first, B);
    world_append(&w, all, B, 1);
    world_check(&w, all, B, next);
    world_free(&w);
}

// ---- refusals and failures ---------------------------------------------------------------------
TEST(lists_that_cannot_be_meant_are_refused_and_nothing_changes)
{
    const int64_t twice[] = { 1, 2, 1 }, none[] = { 0, 4 }, below[] = { -1 }, good[] = { 0, 1 };
    const int64_t lengths[B] = { 3, 4, 5, 6 };
    struct world w = world_new(QKV_PRECISION_F32);
    world_prompts(&w, lengths);
    const float *x = pair_numbers(w.precision, 3 * G * F);
    float out[2 * H * F];
    struct qkv_attention a = { .T = 1, .H = H };
    CHECK_EQ(qkv_threads_set(3), QKV_OK); // the most that run below
    const size_t bytes = qkv_cache_plan(w.c, &a).scratch;
    void *scratch = qkv_alloc(bytes, 1);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    struct qkv_attention wrong = a;
    wrong.G = G + 1;
    CHECK(strstr(qkv_cache_plan(w.c, &wrong).reason, "G differs from the cache"));
    wrong = a;
    wrong.k_lengths = (int64_t[B]){ 0, 9 };
    CHECK(strstr(qkv_cache_plan(w.c, &wrong).reason, "k_lengths[1] is 9, expected 0 .. 4"));
    CHECK_EQ(qkv_cache_append_some(w.c, twice, 3, x, x, 1, NULL, NULL, NULL), QKV_ERR_USAGE);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_cache_append_some(w.c, none, 2, x, x, 1, NULL, NULL, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "different items in 0 .. 3, found 4 at index 1"));
    CHECK_EQ(qkv_cache_append_some(w.c, NULL, 2, x, x, 1, NULL, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_append_some(w.c, good, -1, x, x, 1, NULL, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_append_some(w.c, NULL, 0, NULL, NULL, 1, NULL, NULL, NULL), QKV_OK);
    CHECK_EQ(qkv_cache_append_some(NULL, good, 2, x, x, 1, NULL, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(w.c, twice, twice, 3, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(w.c, good, none, 2, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(w.c, good, NULL, 2, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(w.c, below, good, 1, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(NULL, good, good, 2, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_copy(w.c, NULL, NULL, 0, NULL), QKV_OK);
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, none, 2, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, below, 1, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, NULL, 2, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, good, -2, &a, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_cache_forward_some(NULL, NULL, NULL, NULL, w.c, NULL, 0, &a, NULL), QKV_OK);
    CHECK_EQ(qkv_cache_append_some(w.c, good, INT64_MAX, x, x, 1, NULL, NULL, NULL), QKV_ERR_USAGE);
    // without tokens there is nothing to compute
    for (int threads = 1; threads <= 3; threads += 2) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        a.T = 0;
        CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, good, 2, &a, scratch), QKV_OK);
        a.T = 1;
    }
    CHECK_EQ(qkv_threads_set(3), QKV_OK);
    CHECK(qkv_cache_plan(w.c, &a).scratch <= bytes);
    a.k_lengths = (const int64_t[]){ 3, 5 }; // refused: item 1 has only 4 tokens
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, good, 2, &a, scratch), QKV_ERR_USAGE);
    a.k_lengths = (const int64_t[]){ 2, 4 };
    CHECK_EQ(qkv_cache_forward_some(out, NULL, NULL, x, w.c, good, 2, &a, scratch), QKV_OK);
    for (int64_t b = 0; b < B; b++) CHECK_EQ(qkv_cache_length(w.c, b), lengths[b]);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    qkv_free(scratch);
    world_free(&w);
}

TEST(a_copy_that_finds_no_memory_changes_nothing)
{
    const int64_t all[] = { 0, 1, 2, 3 }, from[] = { 3, 1, 1, 0 },
                  lengths[B] = { 3, 300, 255, 520 };
    for (int64_t n = 1, more = 1; more; n++) {
        struct world w = world_new(QKV_PRECISION_F32);
        bool hit = false;
        world_prompts(&w, lengths);
        faults_begin(n, true);
        qkv_status status = qkv_cache_copy(w.c, all, from, B, NULL);
        faults_end(&hit);
        CHECK_EQ(status, hit ? QKV_ERR_LIMIT : QKV_OK);
        more = hit;
        if (hit) world_copy(&w, all, all, B);
        if (hit) world_append(&w, all, B, 2);
        if (hit) world_check(&w, all, B, next);
        world_free(&w);
    }
}

CHECK_MAIN(CASE(items_go_on_alone_while_others_stand),
           CASE(an_item_may_be_asked_several_times_as_beams_ask_their_source),
           CASE(a_prompt_whole_in_chunks_and_token_by_token_has_the_same_bits),
           CASE(terms_of_a_score_are_those_of_the_call),
           CASE(beams_go_on_from_copies_as_if_each_had_come_alone),
           CASE(what_is_shared_is_held_once_and_given_back),
           CASE(what_is_not_finite_is_copied_as_well),
           CASE(lists_that_cannot_be_meant_are_refused_and_nothing_changes),
           CASE(a_copy_that_finds_no_memory_changes_nothing))
#endif
