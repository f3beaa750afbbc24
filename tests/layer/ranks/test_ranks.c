// SPDX-License-Identifier: MIT
// test_ranks.c: attention over ranks has the bits of one call, for any number of ranks and any
// features, and sends the bytes that the plan says (backward: test_ranks_backward.c).
#include "rank_jobs.h"

// Runs the forward pass on `size` ranks with a limit, and compares it with one call.
static void check_forward(const struct problem *p, const struct stored *s, int64_t size,
                          size_t limit)
{
    const struct qkv_attention *a = &p->a;
    const struct back_problem x = { .p = *p };
    struct job job[RANKS_MOST];
    for (int64_t r = 0; r < size; r++) {
        job[r] = job_of(&x, s, r, size, false);
        job[r].limit = limit;
    }
    run_jobs(job, size);
    char *out = fenced(p->out_n * unit()), *lse = fenced(p->lse_n * sizeof(float));
    for (int64_t r = 0; r < size; r++) {
        CHECK_EQ(job[r].status, QKV_OK);
        CHECK_EQ(job[r].plan.mode, mode_of(a, limit));
        CHECK_EQ(job[r].plan.blocks > 0, job[r].plan.mode == QKV_RANKS_PIPELINE && a->B);
        copy_rows(job[r].out, out, &job[r].plan.rows, a->B, a->T, (size_t)(a->H * a->F) * unit(),
                  true);
        copy_rows((char *)job[r].lse, lse, &job[r].plan.rows, a->B * a->H, a->T, sizeof(float),
                  true);
    }
    CHECK_BITS(out, s->out, p->out_n * unit());
    if (!a->no_softmax) CHECK_BITS(lse, p->lse, p->lse_n * sizeof(float));
}

TEST(rows_over_ranks_have_the_bits_of_one_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(QKV_FEW ? 4 : 10, 3);
        for (int n = 0; n < mixtures; n++) {
            struct qkv_attention a = drawn();
            if (n % 3 == 0) a.S = 1 + pick(1500); // several blocks
            unsigned features = (unsigned)pick(FEATURES) & ~(unsigned)NOT_FORWARD;
            if (features & SINKS) features &= ~(unsigned)NO_SOFTMAX;
            struct back_problem x = { .p = case_new(a, features) };
            const int64_t size = sizes[pick(5)];
            struct stored s = store(&x);
            case_run(&x.p);
            s.out = case_stored(x.p.out, x.p.out_n);
            check_forward(&x.p, &s, size, 0);
            check_forward(&x.p, &s, size, 1);
            check_forward(&x.p, &s, size, (size_t)pick(1 << 20));
            fence_free();
        }
    }
}

TEST(every_row_has_one_rank_and_zigzag_balances)
{
    for (int64_t size = 1; size < 9; size++)
        for (int64_t T = 0; T < 5000; T = T * 3 + 1) {
            const struct qkv_attention a = {
                .B = 1, .T = T, .S = T, .H = 4, .G = 2, .E = 16, .causal = true
            };
            int64_t seen = 0;
            for (int64_t r = 0; r < size; r++) {
                const struct qkv_rank_rows x = qkv_rank_rows(&a, false, r, size);
                seen += x.all;
                CHECK_EQ(x.all, x.n[0] + x.n[1]);
                CHECK(x.n[0] >= 0 && x.n[1] >= 0 && (!x.n[1] || x.first[1] >= x.n[0]));
            }
            CHECK_EQ(seen, T);
        }
    const struct qkv_attention a = {
        .B = 1, .T = 1 << 15, .S = 1 << 15, .H = 8, .E = 64, .causal = true
    };
#ifdef QKV_TINY_TILES // edges at multiples that are no powers of two: each moves by at most 64 rows
    const double off = 64.0 * 2 * 64 * 4 / (1 << 15);
#else
    const double off = 1e-12;
#endif
    for (int64_t size = 1; size <= 64; size *= 2)
        for (int64_t r = 0; r < size; r++) {
            const struct qkv_comm comm = { .rank = r, .size = size };
            const struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
            CHECK_NEAR(p.all / ((double)size * p.flops), 1, off);
        }
}

static void other_call(const struct qkv_comm *comm, void *ctx)
{
    struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4 };
    float x[64] = { 0 };
    qkv_status *status = ctx;
    a.softcap = comm->rank == 1 ? -1 : 0; // this rank refuses
    *status = qkv_ranks_forward(x, NULL, x + 32, x + 32, x + 32, &a, comm, NULL);
}

TEST(an_error_of_one_rank_is_the_error_of_all)
{
    check_refused(3, other_call);
}

static void limited_call(const struct qkv_comm *comm, void *ctx, size_t limit, int out)
{
    const struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4 };
    struct qkv_comm limited = *comm;
    float x[4][32] = { { 0 } };
    qkv_status *status = ctx;
    limited.collect_limit = limit;
    void *scratch = aligned_alloc(64, qkv_ranks_plan(&a, &limited).scratch);
    *status = qkv_ranks_forward(x[out], NULL, x[1], x[2], x[3], &a, &limited, scratch);
    free(scratch);
}
static void other_limit(const struct qkv_comm *comm, void *ctx)
{
    limited_call(comm, ctx, comm->rank == 1 ? 16 : 0, 0);
}

TEST(ranks_with_different_limits_are_refused)
{
    check_refused(3, other_limit);
}

static void overlapping_call(const struct qkv_comm *comm, void *ctx)
{
    limited_call(comm, ctx, 16, 2);
}

TEST(a_key_that_the_output_would_overwrite_is_refused)
{
    check_refused(2, overlapping_call);
}

TEST(the_plan_chooses_the_mode_and_says_why)
{
    const struct qkv_attention a = {
        .B = 1, .T = 1 << 20, .S = 1 << 20, .H = 1, .E = 16, .causal = true
    };
    struct qkv_comm comm = { .rank = 1, .size = 4 };
    struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_COLLECT);
    CHECK_EQ(p.blocks, 0);
    CHECK_TEXT(p.reason, "there is no limit for collected keys and values");
    CHECK(p.scratch > 128 << 20);
    comm.collect_limit = 128 << 20;
    p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_COLLECT);
    CHECK_TEXT(p.reason, "all keys and values have 134217728 bytes, within the limit of 134217728 "
                         "bytes");
    comm.collect_limit = 4 << 20;
    const size_t sent = p.sent;
    p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_PIPELINE);
    CHECK_TEXT(p.reason, "all keys and values have 134217728 bytes, more than the limit of 4194304 "
                         "bytes");
    CHECK_EQ(p.sent, sent);
    CHECK_EQ(p.blocks, 128); // of 4 MiB / 4 ranks
    CHECK(p.block >= 1 << 20 && p.block <= (1 << 20) + QKV_CHUNK * 128);
    CHECK(p.scratch > p.block && p.scratch < 32 << 20);
}

TEST(what_is_not_supported_is_refused_with_the_reason)
{
    const struct qkv_comm comm = { .rank = 0, .size = 2 };
    struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4, .q_strides = { 32, 4, 4 } };
    struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.status, QKV_ERR_UNSUPPORTED);
    CHECK_TEXT(p.reason, "strides are not supported over ranks");
    a.q_strides = (struct qkv_strides){ 0, 0, 0 };
    a.first_row = 1;
    CHECK_EQ(qkv_ranks_plan(&a, &comm).status, QKV_ERR_USAGE);
    a.first_row = 0;
    CHECK_EQ(qkv_ranks_plan(NULL, &comm).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_ranks_plan(&a, NULL).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_rank_rows(&a, false, 2, 2).all, 0);
}

CHECK_MAIN(CASE(rows_over_ranks_have_the_bits_of_one_call),
           CASE(every_row_has_one_rank_and_zigzag_balances),
           CASE(an_error_of_one_rank_is_the_error_of_all),
           CASE(ranks_with_different_limits_are_refused),
           CASE(a_key_that_the_output_would_overwrite_is_refused),
           CASE(the_plan_chooses_the_mode_and_says_why),
           CASE(what_is_not_supported_is_refused_with_the_reason))
