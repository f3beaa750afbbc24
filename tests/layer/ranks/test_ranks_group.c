// SPDX-License-Identifier: MIT
// test_ranks_group.c: consecutive ranks as ranks of their own, and runs of rows that the caller
// divides.
#include "layer/layer.h"
#include "thread_ranks.h"

enum { RANKS = 6, NUMBERS = 15 };
struct job {
    int64_t group; // number of ranks of a group
    int64_t all[NUMBERS], most[2], from[RANKS];
    int64_t rank, size;
    qkv_status status;
};

static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    struct qkv_ranks_group g;
    const struct qkv_comm c = qkv_ranks_group(&g, comm, j->group);
    size_t at[RANKS], n[RANKS];
    j->rank = c.rank;
    j->size = c.size;
    j->most[0] = comm->rank * 10;
    j->most[1] = -comm->rank;
    // rank r of a group has r numbers, in the opposite order
    for (int64_t r = 0, end = NUMBERS; r < c.size; r++) {
        n[r] = (size_t)r * sizeof *j->all;
        at[r] = (size_t)(end -= r) * sizeof *j->all;
    }
    for (size_t i = 0; i < n[c.rank] / sizeof *j->all; i++)
        j->all[at[c.rank] / sizeof *j->all + i] = 100 + comm->rank * 10 + (int64_t)i;
    j->status = c.gather(c.ctx, j->all, at, n);
    if (!j->status) j->status = c.reduce(c.ctx, j->most, 2);
    if (!j->status) j->status = c.barrier(c.ctx);
    for (int64_t r = 0; r < c.size && !j->status; r++)
        j->status = c.send(c.ctx, r, &comm->rank, sizeof comm->rank);
    for (int64_t r = 0; r < c.size && !j->status; r++)
        j->status = c.receive(c.ctx, r, &j->from[r], sizeof j->from[r]);
}

TEST(a_group_has_the_messages_of_its_ranks_only)
{
    static const int64_t sizes[] = { 1, 2, 3, 6 };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct job job[RANKS] = { 0 };
        void *user[RANKS];
        for (int64_t r = 0; r < RANKS; r++) {
            job[r].group = sizes[k];
            user[r] = &job[r];
        }
        run_ranks(RANKS, body, user, NULL);
        for (int64_t r = 0; r < RANKS; r++) {
            const int64_t first = r / sizes[k] * sizes[k], last = first + sizes[k] - 1;
            CHECK_EQ(job[r].status, QKV_OK);
            CHECK_EQ(job[r].rank, r - first);
            CHECK_EQ(job[r].size, sizes[k]);
            CHECK_EQ(job[r].most[0], last * 10);
            CHECK_EQ(job[r].most[1], -first);
            for (int64_t i = 0; i < sizes[k]; i++) CHECK_EQ(job[r].from[i], first + i);
            for (int64_t i = 0, at = NUMBERS; i < sizes[k]; i++) {
                at -= i;
                for (int64_t x = 0; x < i; x++)
                    CHECK_EQ(job[r].all[at + x], 100 + (first + i) * 10 + x);
            }
        }
    }
}

TEST(runs_have_the_edges_of_the_caller)
{
    const int64_t offsets[] = { 0, 1000, 4000 };
    const struct qkv_attention a = { .B = 1,
                                     .T = 4000,
                                     .S = 4000,
                                     .H = 2,
                                     .G = 1,
                                     .E = 8,
                                     .causal = true,
                                     .sequences = 2,
                                     .q_offsets = offsets,
                                     .k_offsets = offsets };
    const int64_t block = qkv_row_block(QKV_PRECISION_F32);
    const int64_t edges[] = { 0, block, 1000, 1000 + block, 4000 };
    const int64_t wrong[][5] = { { 0, block, 1000 + block, 1000, 4000 },
                                 { 0, block, 1000, 1001, 4000 },
                                 { 1, block, 1000, 1000 + block, 4000 },
                                 { 0, block, 1000, 1000 + block, 3999 } };
    struct qkv_comm c = { .rank = 1, .size = 2, .edges = edges };
    const struct qkv_ranks_plan p = qkv_ranks_plan(&a, &c);
    CHECK_EQ(p.status, QKV_OK);
    CHECK_EQ(p.rows.first[0], block);
    CHECK_EQ(p.rows.n[0], 1000 - block);
    CHECK_EQ(p.rows.first[1], 1000);
    CHECK_EQ(p.rows.n[1], block);
    CHECK_EQ(qkv_ranks_backward_plan(&a, NULL, &c).status, QKV_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.edges = wrong[i];
        CHECK_EQ(qkv_ranks_plan(&a, &c).status, QKV_ERR_USAGE);
        CHECK(strstr(qkv_ranks_plan(&a, &c).reason, "edges") != NULL);
        CHECK_EQ(qkv_ranks_backward_plan(&a, NULL, &c).status, QKV_ERR_USAGE);
    }
}

CHECK_MAIN(CASE(a_group_has_the_messages_of_its_ranks_only),
           CASE(runs_have_the_edges_of_the_caller))
