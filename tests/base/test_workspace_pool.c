// SPDX-License-Identifier: MIT
// test_workspace_pool.c: checks that calls reuse buffers and that concurrent calls share none.
#include "base/base.h"
#include "base/faults.h"

TEST(a_released_buffer_is_reused)
{
    struct qkv_workspace_pool pool;
    qkv_workspace_pool_init(&pool);
    faults_begin(0, false);
    struct qkv_workspace *a = qkv_workspace_acquire(&pool, 1000);
    struct qkv_workspace *b = qkv_workspace_acquire(&pool, 2000);
    CHECK(a && b && a->bytes != b->bytes);
    CHECK(a->size >= 1000 && b->size >= 2000);
    const void *larger = b->bytes;
    qkv_workspace_release(&pool, b);
    qkv_workspace_release(&pool, a);
    qkv_workspace_release(&pool, NULL);
    b = qkv_workspace_acquire(&pool, 1500); // a is first but too small
    CHECK(b->bytes == larger);
    a = qkv_workspace_acquire(&pool, 3000); // replaces the buffer of 1000 bytes
    CHECK(a->size >= 3000);
    memset(a->bytes, 1, 3000);
    qkv_workspace_release(&pool, a);
    qkv_workspace_release(&pool, b);
    qkv_workspace_pool_free(&pool);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(a_very_large_buffer_is_not_kept)
{
    struct qkv_workspace_pool pool;
    qkv_workspace_pool_init(&pool);
    qkv_workspace_release(&pool, qkv_workspace_acquire(&pool, ((size_t)64 << 20) + 1));
    CHECK(!pool.idle);
    qkv_workspace_release(&pool, qkv_workspace_acquire(&pool, 1));
    CHECK(pool.idle != NULL);
    qkv_workspace_pool_free(&pool);
}

TEST(a_failed_allocation_leaks_nothing)
{
    struct qkv_workspace_pool pool;
    qkv_workspace_pool_init(&pool);
    for (int fault = 1; fault <= 2; fault++) {
        faults_begin(fault, false);
        CHECK(!qkv_workspace_acquire(&pool, 100));
        CHECK_EQ(faults_end(NULL), 0);
    }
    CHECK(!qkv_workspace_acquire(&pool, SIZE_MAX));
    qkv_workspace_pool_free(&pool);
}

static void use_one(void *ctx, int64_t i, int thread)
{
    struct qkv_workspace_pool *pool = ctx;
    (void)thread;
    const size_t size = 100 + (size_t)(i % 7) * 50;
    struct qkv_workspace *w = qkv_workspace_acquire(pool, size);
    if (!w) return;
    memset(w->bytes, (int)(i & 255), size);
    for (int k = 0; k < 100; k++)
        for (size_t b = 0; b < size; b += 50)
            if (((const volatile unsigned char *)w->bytes)[b] != (i & 255)) return; // not released
    qkv_workspace_release(pool, w);
}

TEST(concurrent_calls_have_buffers_of_their_own)
{
    struct qkv_workspace_pool pool;
    qkv_workspace_pool_init(&pool);
    CHECK_EQ(qkv_threads_set(4), QKV_OK);
    faults_begin(0, false);
    qkv_parallel_for(2000, use_one, &pool);
    int buffers = 0;
    for (struct qkv_workspace *w = pool.idle; w; w = w->next) buffers++;
    CHECK(buffers >= 1 && buffers <= 4);
    qkv_workspace_pool_free(&pool);
    CHECK_EQ(faults_end(NULL), 0); // every buffer was released
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

CHECK_MAIN(CASE(a_released_buffer_is_reused), CASE(a_very_large_buffer_is_not_kept),
           CASE(a_failed_allocation_leaks_nothing),
           CASE(concurrent_calls_have_buffers_of_their_own))
