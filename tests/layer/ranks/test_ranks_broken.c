// SPDX-License-Identifier: MIT
// test_ranks_broken.c: a transport returns an error on one rank alone, at any of its messages. All
// ranks return: this one with an error, each other one with an error or with all its results.
#include "rank_jobs.h"

enum { SIZE = 3, OUTPUTS = 6 };
struct output {
    void *at;
    size_t bytes;
};
struct trial {
    struct job job;
    const struct back_problem *x;
    char *good[OUTPUTS]; // the outputs of an unbroken run
};

// Lists the outputs of a rank; an output that is not requested has no bytes.
static void list(struct output out[OUTPUTS], const struct trial *t)
{
    const struct job *j = &t->job;
    const struct qkv_attention *a = &t->x->p.a;
    const size_t H = (size_t)a->H, rows = (size_t)(a->B * j->plan.rows.all) * H;
    const struct output forward[OUTPUTS] = { { j->out, rows * (size_t)a->F * unit() },
                                             { j->lse, rows * sizeof(float) } };
    const struct output backward[OUTPUTS] = {
        { j->dq, j->dq_n },
        { j->dk, j->dk_n },
        { j->dv, j->dv_n },
        { j->g.relative, j->g.relative ? t->x->relative_n * sizeof(float) : 0 },
        { j->g.alibi, j->g.alibi ? H * sizeof(float) : 0 },
        { j->g.sinks, j->g.sinks ? H * sizeof(float) : 0 }
    };
    memcpy(out, j->backward ? backward : forward, sizeof forward);
}

static void try(const struct qkv_comm *comm, void *ctx)
{
    struct trial *t = ctx;
    if (t->job.backward) clear_gradients(&t->job, t->x);
    body(comm, &t->job);
}

static void check_trial(int64_t rank, void *const *user)
{
    for (int64_t r = 0; r < SIZE; r++) {
        const struct trial *t = user[r];
        struct output out[OUTPUTS];
        CHECK(t->job.status || r != rank);
        if (t->job.status) continue;
        list(out, t);
        for (int i = 0; i < OUTPUTS; i++)
            if (out[i].bytes) CHECK_BITS(out[i].at, t->good[i], out[i].bytes);
    }
}

static void break_attention(bool backward, size_t limit)
{
    enum { ROWS = QKV_CHUNK + 60 }; // keys of several blocks
    const unsigned features = backward ? CAUSAL | SINKS | ALIBI | RELATIVE | TABLES : CAUSAL;
    case_precision = QKV_PRECISION_F32;
    struct back_problem x = back_new(
        (struct qkv_attention){ .B = 1, .T = ROWS, .S = ROWS, .H = 2, .G = 2, .E = 4, .F = 8 },
        features);
    case_run(&x.p);
    struct stored s = store(&x);
    s.out = case_stored(x.p.out, x.p.out_n);
    s.dout = case_stored(x.dout, x.out_n);
    struct trial trial[SIZE];
    void *user[SIZE];
    for (int64_t r = 0; r < SIZE; r++) {
        trial[r] = (struct trial){ .job = job_of(&x, &s, r, SIZE, backward), .x = &x };
        trial[r].job.limit = limit;
        user[r] = &trial[r];
    }
    run_ranks(SIZE, try, user, NULL);
    for (int64_t r = 0; r < SIZE; r++) {
        struct output out[OUTPUTS];
        CHECK_EQ(trial[r].job.status, QKV_OK);
        CHECK_EQ(trial[r].job.plan.mode, limit ? QKV_RANKS_PIPELINE : QKV_RANKS_COLLECT);
        list(out, &trial[r]);
        for (int i = 0; i < OUTPUTS; i++) {
            trial[r].good[i] = fenced(out[i].bytes + 16);
            if (out[i].bytes) memcpy(trial[r].good[i], out[i].at, out[i].bytes);
        }
    }
    break_each(SIZE, 1, try, user, check_trial);
    fence_free();
}

TEST(no_rank_waits_for_a_broken_one_in_forward)
{
    break_attention(false, 0);
    break_attention(false, 1);
}

TEST(no_rank_waits_for_a_broken_one_in_backward)
{
    break_attention(true, 0);
    break_attention(true, 1);
}

CHECK_MAIN(CASE(no_rank_waits_for_a_broken_one_in_forward),
           CASE(no_rank_waits_for_a_broken_one_in_backward))
