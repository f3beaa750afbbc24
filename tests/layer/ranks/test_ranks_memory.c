// SPDX-License-Identifier: MIT
// test_ranks_memory.c: ranks that have no memory for a message of attention: all ranks end.
#include "rank_jobs.h"

// Runs jobs of which some ranks have no memory for their n-th message or, with step, a later one
// on each rank. Returns whether a message failed.
static bool run_without_memory(struct job *job, int64_t size, int64_t ranks, int64_t n,
                               int64_t step)
{
    void *user[RANKS_MOST] = { NULL };
    bool failed = false;
    for (int64_t r = 0; r < size; r++) {
        user[r] = &job[r];
        no_memory_for[r] = r < ranks ? n + r * step : 0;
    }
    run_ranks(size, body, user, NULL);
    memset(no_memory_for, 0, sizeof no_memory_for);
    for (int64_t r = 0; r < size; r++) {
        CHECK(job[r].status == QKV_OK || job[r].status == QKV_ERR_LIMIT);
        failed = failed || job[r].status;
    }
    return failed;
}

// One rank, two or all have no memory for a message, at the same point or not: all ranks return.
TEST(ranks_without_memory_for_a_message_end_all)
{
    enum { STEP = 1 + QKV_FEW, PART = QKV_FEW ? 2 : 8 }; // slow builds leave out some messages
    case_precision = QKV_PRECISION_F32;
    for (int64_t size = 2; size < 5; size++) {
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 300, .S = 300, .H = 2, .G = 1, .E = 4, .F = 4 },
            CAUSAL);
        // forward with a limit, backward without and with one
        enum { CALLS = 3 };
        struct job job[CALLS][RANKS_MOST];
        int64_t counts[CALLS] = { 0 };
        case_run(&x.p);
        struct stored s = store(&x);
        s.out = (char *)x.p.out;
        s.dout = (char *)x.dout;
        for (int i = 0; i < CALLS; i++)
            for (int64_t r = 0; r < size; r++) {
                job[i][r] = job_of(&x, &s, r, size, i > 0);
                job[i][r].limit = i != 1;
            }
        for (int i = 0; i < CALLS; i++)
            for (int64_t ranks = 1; ranks <= size; ranks++)
                for (int64_t step = 0; step < 3; step += STEP) {
                    int64_t n = 1;
                    for (; run_without_memory(job[i], size, ranks, n, step); n += 1 + n / PART)
                        CHECK(n < 100000);
                    counts[i] += n;
                }
        for (int i = 0; i < CALLS; i++) CHECK(counts[i] > 30);
        fence_free();
    }
}

CHECK_MAIN(CASE(ranks_without_memory_for_a_message_end_all))
