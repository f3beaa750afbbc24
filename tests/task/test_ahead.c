// SPDX-License-Identifier: MIT
// test_ahead.c: pieces made ahead: their order, on a thread and without one; stopped at any time.
#include "check.h"
#include "task/task.h"
#include <sched.h>

struct maker {
    int made, pieces; // so far; in all
    int slot[2];      // the number of the piece that lies there
    struct qkv_ahead *ahead;
    bool waits; // until nobody looks at it any more
};
static bool make(void *ctx, int slot)
{
    struct maker *m = ctx;
    m->slot[slot] = m->made++;
    if (m->waits && m->made == 2)
        while (!qkv_ahead_stopped(m->ahead)) sched_yield();
    return m->made < m->pieces;
}

// A piece is the caller's until it asks for the next: what lies in its slot stays.
TEST(pieces_come_in_order_and_stay_until_the_next_is_asked_for)
{
    for (int threads = 1; threads <= 3; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        for (int pieces = 1; pieces <= 200; pieces += pieces < 5 ? 1 : 65) {
            struct qkv_ahead a;
            struct maker m = { .pieces = pieces };
            qkv_ahead_begin(&a, make, &m);
            for (int i = 0; i < pieces; i++) {
                const int slot = qkv_ahead_next(&a);
                CHECK_EQ(slot, i % 2);
                if (i % 7 == 3) sched_yield();
                CHECK_EQ(m.slot[slot], i);
                CHECK_EQ(a.threaded, threads > 1 && pieces > 1);
            }
            CHECK_EQ(qkv_ahead_next(&a), -1);
            CHECK_EQ(qkv_ahead_next(&a), -1);
            qkv_ahead_end(&a);
            CHECK_EQ(m.made, pieces);
        }
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(it_can_end_at_any_time)
{
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    for (int used = 0; used < 5; used++) {
        struct qkv_ahead a;
        struct maker m = { .pieces = 1000 };
        qkv_ahead_begin(&a, make, &m);
        for (int i = 0; i < used; i++) CHECK_EQ(qkv_ahead_next(&a), i % 2);
        qkv_ahead_end(&a);
        qkv_ahead_end(&a);
        CHECK(m.made >= used && m.made <= used + 1); // one ahead and no more
    }
    // in the middle of a piece
    struct qkv_ahead a;
    struct maker m = { .pieces = 3, .ahead = &a, .waits = true };
    qkv_ahead_begin(&a, make, &m);
    CHECK_EQ(qkv_ahead_next(&a), 0);
    qkv_ahead_end(&a);
    CHECK(m.made <= 2);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

static void run(void *user, int n, void (*work)(void *ctx, int i), void *ctx)
{
    (void)user;
    for (int i = 0; i < n; i++) work(ctx, i);
}
TEST(a_host_that_lends_its_threads_gets_no_other)
{
    struct qkv_ahead a;
    struct maker m = { .pieces = 5 };
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    qkv_host_pool_set(&(struct qkv_host_pool){ run, NULL });
    qkv_ahead_begin(&a, make, &m);
    for (int i = 0; i < 5; i++) CHECK_EQ(qkv_ahead_next(&a), i % 2);
    CHECK_EQ(a.threaded, false);
    CHECK_EQ(qkv_ahead_next(&a), -1);
    qkv_ahead_end(&a);
    qkv_host_pool_set(NULL);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(pieces_come_in_order_and_stay_until_the_next_is_asked_for),
           CASE(it_can_end_at_any_time), CASE(a_host_that_lends_its_threads_gets_no_other))
