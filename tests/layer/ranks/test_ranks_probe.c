// SPDX-License-Identifier: MIT
// test_ranks_probe.c: statistics over ranks have the bits of one process, for any number of ranks.
#include "layer/cache/cache_case.h"
#include "thread_ranks.h"
#include <qkv/probe.h>

enum { B = 2, T = 210, S = 330, H = 3, K = 4, ROWS = 3, REACH = 20, SIDE = 5, PAIRS = B * H };

struct arrays {
    float top[PAIRS * T * K], rows[PAIRS * ROWS * S], received[PAIRS * S], entropy[PAIRS * T];
    float distance[PAIRS * T], offsets[PAIRS * (2 * REACH + 1)];
    float most[PAIRS * SIDE * SIDE], mean[PAIRS * SIDE * SIDE];
    int32_t key[PAIRS * T * K];
};
struct job {
    const struct pair *p;
    struct qkv_attention a;
    const float *lse;
    struct arrays *to;
    qkv_status status;
};
static const int64_t rows[ROWS] = { 0, 77, 209 };

static struct qkv_probe probe_of(struct arrays *x)
{
    return (struct qkv_probe){ .top_k = K,
                               .top_weight = x->top,
                               .top_key = x->key,
                               .rows = ROWS,
                               .row = rows,
                               .row_weights = x->rows,
                               .received = x->received,
                               .entropy = x->entropy,
                               .distance = x->distance,
                               .reach = REACH,
                               .offsets = x->offsets,
                               .side = SIDE,
                               .tile_max = x->most,
                               .tile_mean = x->mean };
}

static void *memory(size_t n)
{
    void *x = NULL;
    if (posix_memalign(&x, 64, n + 64)) abort();
    return x;
}

static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    const struct qkv_probe probe = probe_of(j->to);
    void *scratch = memory(qkv_attention_probe_plan(&j->a, &probe).scratch);
    j->status = qkv_ranks_probe(&probe, j->p->q, j->p->k, j->lse, &j->a, comm, scratch);
    free(scratch);
}

TEST(statistics_have_the_bits_of_one_process)
{
    const int64_t sizes[] = { 1, 2, 3, 4, 7 };
    EACH_ISA(k) EACH_PRECISION(precision) EACH(size, sizes)
    {
        struct qkv_attention a = {
            .B = B, .T = T, .S = S, .H = H, .G = *size % 2 ? 1 : H, .E = 12, .F = 12
        };
        a.precision = (qkv_precision)precision;
        a.causal = *size != 2;
        struct pair p = pair_new(a);
        struct arrays *want = fenced(sizeof *want);
        const struct qkv_probe probe = probe_of(want);
        float *lse = fenced(sizeof(float) * B * H * T);
        void *out = fenced(sizeof(float) * B * T * H * 12);
        p.a.probe = &probe;
        void *scratch = memory(qkv_attention_plan(&p.a).scratch);
        CHECK_EQ(qkv_attention_forward(out, lse, NULL, p.q, p.k, p.v, &p.a, scratch), QKV_OK);
        struct job job[RANKS_MOST];
        void *user[RANKS_MOST];
        p.a.probe = NULL;
        for (int64_t r = 0; r < *size; r++) {
            struct arrays *to = memset(fenced(sizeof *want), 0xff, sizeof *want);
            job[r] = (struct job){ .p = &p, .a = p.a, .lse = lse, .to = to };
            user[r] = &job[r];
        }
        run_ranks(*size, body, user, NULL);
        for (int64_t r = 0; r < *size; r++) {
            CHECK_EQ(job[r].status, QKV_OK);
            CHECK(memcmp(job[r].to, want, sizeof *want) == 0);
        }
        free(scratch);
        fence_free();
    }
}

static void other_request(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    j->a.no_softmax = comm->rank == 1; // refused
    body(comm, ctx);
}

TEST(an_error_of_one_rank_is_the_error_of_all)
{
    struct pair p =
        pair_new((struct qkv_attention){ .B = B, .T = T, .S = S, .H = H, .E = 4, .F = 4 });
    float *lse = fenced_random(B * H * T);
    struct job job[3];
    void *user[3];
    for (int r = 0; r < 3; r++) {
        job[r] = (struct job){ .p = &p, .a = p.a, .lse = lse, .to = fenced(sizeof(struct arrays)) };
        user[r] = &job[r];
    }
    run_ranks(3, other_request, user, NULL);
    EACH(j, job) CHECK_EQ(j->status, QKV_ERR_USAGE);
    fence_free();
}

// The statistics of three ranks without an error.
static const struct arrays *whole;

static void check_broken(int64_t rank, void *const *user)
{
    for (int64_t r = 0; r < 3; r++) {
        const struct job *j = user[r];
        CHECK(j->status || r != rank);
        if (!j->status) CHECK_BITS(j->to, whole, sizeof *whole);
    }
}

// The transport returns an error on one rank alone, at any of its messages.
TEST(no_rank_waits_for_a_broken_one)
{
    struct pair p =
        pair_new((struct qkv_attention){ .B = B, .T = T, .S = S, .H = H, .E = 4, .F = 4 });
    float *lse = fenced_random(B * H * T);
    struct job job[3];
    void *user[3];
    for (int r = 0; r < 3; r++) {
        struct arrays *to = memset(fenced(sizeof *to), 0, sizeof *to);
        job[r] = (struct job){ .p = &p, .a = p.a, .lse = lse, .to = to };
        user[r] = &job[r];
    }
    run_ranks(3, body, user, NULL);
    EACH(j, job) CHECK_EQ(j->status, QKV_OK);
    whole = memcpy(fenced(sizeof *whole), job[0].to, sizeof *whole);
    break_each(3, 1, body, user, check_broken);
    fence_free();
}

CHECK_MAIN(CASE(statistics_have_the_bits_of_one_process),
           CASE(an_error_of_one_rank_is_the_error_of_all), CASE(no_rank_waits_for_a_broken_one))
