// SPDX-License-Identifier: MIT
// test_prefetch.c: prefetched items: their order with and without a second thread, and an early
// end.
#include "check.h"
#include "base/base.h"
#include <sched.h>

struct maker {
    int made, items; // items made so far; items in all
    int slot[2];     // number of the item in each slot
    struct qkv_prefetch *ahead;
    bool waits; // waits until the caller stops
};
static bool make(void *ctx, int slot)
{
    struct maker *m = ctx;
    m->slot[slot] = m->made++;
    if (m->waits && m->made == 2)
        while (!qkv_prefetch_stopped(m->ahead)) sched_yield();
    return m->made < m->items;
}

// An item belongs to the caller until its next call: its slot does not change.
TEST(items_come_in_order_and_stay_valid_until_the_next_call)
{
    for (int threads = 1; threads <= 3; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        for (int items = 1; items <= 200; items += items < 5 ? 1 : 65) {
            struct qkv_prefetch a;
            struct maker m = { .items = items };
            qkv_prefetch_begin(&a, make, &m);
            for (int i = 0; i < items; i++) {
                const int slot = qkv_prefetch_next(&a);
                CHECK_EQ(slot, i % 2);
                if (i % 7 == 3) sched_yield();
                CHECK_EQ(m.slot[slot], i);
                CHECK_EQ(a.threaded, threads > 1 && items > 1);
            }
            CHECK_EQ(qkv_prefetch_next(&a), -1);
            CHECK_EQ(qkv_prefetch_next(&a), -1);
            qkv_prefetch_end(&a);
            CHECK_EQ(m.made, items);
        }
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(prefetching_can_end_at_any_time)
{
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    for (int used = 0; used < 5; used++) {
        struct qkv_prefetch a;
        struct maker m = { .items = 1000 };
        qkv_prefetch_begin(&a, make, &m);
        for (int i = 0; i < used; i++) CHECK_EQ(qkv_prefetch_next(&a), i % 2);
        qkv_prefetch_end(&a);
        qkv_prefetch_end(&a);
        CHECK(m.made >= used && m.made <= used + 1); // one ahead and no more
    }
    // while an item is being made
    struct qkv_prefetch a;
    struct maker m = { .items = 3, .ahead = &a, .waits = true };
    qkv_prefetch_begin(&a, make, &m);
    CHECK_EQ(qkv_prefetch_next(&a), 0);
    qkv_prefetch_end(&a);
    CHECK(m.made <= 2);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

static void run(void *user, int n, void (*work)(void *ctx, int i), void *ctx)
{
    (void)user;
    for (int i = 0; i < n; i++) work(ctx, i);
}
TEST(no_second_thread_is_started_next_to_a_pool_of_the_host)
{
    struct qkv_prefetch a;
    struct maker m = { .items = 5 };
    CHECK_EQ(qkv_threads_set(2), QKV_OK);
    qkv_host_pool_set(&(struct qkv_host_pool){ run, NULL });
    qkv_prefetch_begin(&a, make, &m);
    for (int i = 0; i < 5; i++) CHECK_EQ(qkv_prefetch_next(&a), i % 2);
    CHECK_EQ(a.threaded, false);
    CHECK_EQ(qkv_prefetch_next(&a), -1);
    qkv_prefetch_end(&a);
    qkv_host_pool_set(NULL);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(items_come_in_order_and_stay_valid_until_the_next_call),
           CASE(prefetching_can_end_at_any_time),
           CASE(no_second_thread_is_started_next_to_a_pool_of_the_host))
