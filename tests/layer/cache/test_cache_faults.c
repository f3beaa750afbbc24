// SPDX-License-Identifier: MIT
// test_cache_faults.c: tests a KV cache when allocations fail: a failed append leaves the cache
// unchanged.
#include "cache_case.h"
#include "base/faults.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("the cache is for inference: there is none in double");
    return 77;
}
#else

enum { S = 700, PIECE = 230, G = 2, E = 6 };

static struct pair problem(void)
{
    struct pair p = pair_new(
        (struct qkv_attention){ .B = 2, .T = 2, .S = S, .H = 4, .G = G, .E = E, .causal = true });
    p.lengths[1] = S;
    for (int64_t j = 0; j < S; j += 50) pair_set(p.v, p.a.precision, j * G * E + 3, INFINITY);
    return p;
}

// Appends both items in pieces, one item after the other; the lengths tell where a failed call
// stopped.
static qkv_status fill(qkv_cache *c, const struct pair *p, qkv_error *err)
{
    for (int64_t b = 0; b < 2; b++)
        for (int64_t at = qkv_cache_length(c, b), n; at < S; at += n) {
            n = at + PIECE < S ? PIECE : S - at;
            const qkv_status status = qkv_cache_append(
                c, b, pair_row(p, p->k, E, b, at), pair_row(p, p->v, E, b, at), n, NULL, NULL, err);
            if (status) return status;
        }
    return QKV_OK;
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const struct pair *p = ctx;
    const struct qkv_cache_shape shape = { .B = 2, .G = G, .E = E };
    qkv_cache *c = NULL;
    qkv_status status = qkv_cache_new(&c, &shape, err);
    if (!status) status = fill(c, p, err);
    if (!status) status = qkv_cache_append(c, QKV_CACHE_ALL, p->k, p->v, 5, NULL, NULL, err);
    if (!status) status = qkv_cache_cut(c, QKV_CACHE_ALL, S);
    CHECK(status == QKV_OK || !c || qkv_cache_length(c, QKV_CACHE_ALL) <= S);
    qkv_cache_free(c);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    struct pair p = problem();
    CHECK(faults_walk(flow, &p, false) > 8); // tries several blocks at once, but one suffices
    fence_free();
}

TEST(after_a_failure_the_cache_goes_on_as_if_nothing_had_been)
{
    const struct pair p = problem();
    int64_t met = 0;
    for (int64_t n = 1, more = 1; more; n++) {
        qkv_error err = { 0 };
        bool hit = false;
        qkv_cache *c = pair_cache(&p);
        faults_begin(n, true);
        const qkv_status status = fill(c, &p, &err);
        faults_end(&hit);
        CHECK_EQ(status, hit ? QKV_ERR_LIMIT : QKV_OK);
        CHECK_EQ(qkv_cache_length(c, 0) % PIECE == 0 || qkv_cache_length(c, 0) == S, 1);
        err = (qkv_error){ 0 };
        CHECK_EQ(fill(c, &p, &err), QKV_OK);
        pair_check(&p, c, false);
        qkv_cache_free(c);
        met += hit;
        more = hit;
    }
    CHECK(met > 4);
    fence_free();
}

TEST(attention_to_a_cache_allocates_nothing)
{
    const struct pair p = problem();
    for (int threads = 1; threads <= 3; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        qkv_cache *c = pair_fill(&p, S);
        const struct qkv_attention a = { .T = 2, .H = 4, .causal = true };
        float *out = fenced(2 * 2 * 4 * E * sizeof *out);
        bool hit = false;
        void *scratch = NULL;
        CHECK_EQ(posix_memalign(&scratch, 64, qkv_cache_plan(c, &a).scratch), 0);
        faults_begin(1, true);
        const qkv_status status = qkv_cache_forward(out, NULL, NULL, p.q, c, &a, scratch);
        CHECK_EQ(faults_end(&hit), 0);
        CHECK_EQ(status, QKV_OK);
        CHECK(!hit);
        free(scratch);
        qkv_cache_free(c);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    fence_free();
}

CHECK_MAIN(CASE(every_failed_allocation_is_survived),
           CASE(after_a_failure_the_cache_goes_on_as_if_nothing_had_been),
           CASE(attention_to_a_cache_allocates_nothing))
#endif
