// SPDX-License-Identifier: MIT
// failing_heap.h: an allocator for tests of text that counts, measures and fails, also for jansson.
#ifndef QKV_FAILING_HEAP_H
#define QKV_FAILING_HEAP_H
#include "check.h"
#include <jansson.h>
#include <stdlib.h>

static struct {
    int64_t live, bytes, peak, count, fail_at; // fail_at < 0: never
    bool forever;
} heap;

static inline void *heap_take(void *user, size_t bytes)
{
    (void)user;
    heap.count++;
    if (heap.fail_at >= 0 &&
        (heap.forever ? heap.count > heap.fail_at : heap.count == heap.fail_at + 1))
        return NULL;
    size_t *p = malloc(bytes + 16); // the size before the block
    if (!p) return NULL;
    *p = bytes;
    heap.live++;
    heap.bytes += (int64_t)bytes;
    if (heap.bytes > heap.peak) heap.peak = heap.bytes;
    return p + 2;
}
static inline void heap_give(void *user, void *at)
{
    (void)user;
    size_t *p = (size_t *)at - 2;
    heap.live--;
    heap.bytes -= (int64_t)*p;
    free(p);
}
static inline void *heap_json_take(size_t bytes)
{
    return heap_take(NULL, bytes);
}
static inline void heap_json_give(void *p)
{
    if (p) heap_give(NULL, p);
}

static inline void heap_fail(int64_t fail_at, bool forever)
{
    heap.count = 0;
    heap.fail_at = fail_at;
    heap.forever = forever;
}

static inline int heap_start(void **state)
{
    (void)state;
    heap_fail(-1, false);
    static const struct qkv_allocator mine = { heap_take, heap_give, NULL };
    qkv_allocator_set(&mine);
    json_set_alloc_funcs(heap_json_take, heap_json_give);
    return 0;
}

// Calls fn while one of its allocations fails, and again while that one and all later ones fail:
// for every one if there are at most `most`, else for about as many of them at equal distances.
// fn returns a status; every failure is QKV_ERR_LIMIT and frees all memory.  Returns the number of
// the failures.
static inline int64_t heap_failures(qkv_status (*fn)(void *ctx), void *ctx, int64_t most)
{
    int64_t points = 0;
    heap_fail(-1, false);
    CHECK_EQ(fn(ctx), QKV_OK);
    const int64_t all = heap.count, step = all / most + 1;
    for (int forever = 0; forever < 2; forever++) {
        for (int64_t n = forever; n < all; n += step) {
            const int64_t live = heap.live;
            heap_fail(n, forever);
            const qkv_status status = fn(ctx);
            const bool reached = heap.count > n;
            heap_fail(-1, false);
            CHECK_EQ(heap.live, live);
            // A failure may be recovered from: the vocabulary has a second reader.  Fewer
            // allocations than in the first call: it filled a cache.
            if (!reached) {
                CHECK_EQ(status, QKV_OK);
                break;
            }
            if (status)
                CHECK_EQ(status, QKV_ERR_LIMIT);
            else
                CHECK(!forever);
            points++;
        }
    }
    return points;
}
#endif
