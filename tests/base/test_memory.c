// SPDX-License-Identifier: MIT
// test_memory.c: checks blocks, growing arrays, the arena, and the test allocator itself.
#include "base/base.h"
#include "base/faults.h"
#include <errno.h>
#include <stdalign.h>

TEST(every_block_starts_at_a_cache_line)
{
    void *blocks[300];
    for (size_t n = 0; n < 300; n++) {
        blocks[n] = qkv_alloc(n, 1);
        CHECK(blocks[n] != NULL);
        CHECK((uintptr_t)blocks[n] % 64 == 0);
        memset(blocks[n], 0xab, n);
    }
    for (size_t n = 0; n < 300; n++) qkv_free(blocks[n]);
    qkv_free(NULL);
    const uint8_t *zero = qkv_alloc_zero(100, 3);
    for (int i = 0; i < 300; i++) CHECK_EQ(zero[i], 0);
    qkv_free((void *)(uintptr_t)zero);
}

TEST(a_size_that_does_not_fit_is_no_memory)
{
    static const size_t bad[][2] = { { SIZE_MAX, 1 },         { SIZE_MAX, SIZE_MAX },
                                     { SIZE_MAX / 2 + 2, 2 }, { (size_t)1 << 32, (size_t)1 << 32 },
                                     { SIZE_MAX - 63, 1 },    { (size_t)PTRDIFF_MAX, 1 },
                                     { 1, SIZE_MAX - 100 } };
    faults_begin(0, false);
    EACH(b, bad)
    {
        CHECK(qkv_alloc((*b)[0], (*b)[1]) == NULL);
        CHECK(qkv_alloc_zero((*b)[0], (*b)[1]) == NULL);
    }
    CHECK_EQ(atomic_load(&faults_asked), 0); // the allocator was not even asked
    CHECK_EQ(faults_end(NULL), 0);
    CHECK(qkv_copy_text("x", SIZE_MAX) == NULL);
}

TEST(an_array_grows_by_doubling_and_keeps_its_contents)
{
    int *p = NULL;
    int64_t capacity = 0, n = 0;
    faults_begin(0, false);
    for (; n < 100000; n++) {
        CHECK(qkv_reserve((void **)&p, &capacity, n + 1, sizeof *p));
        p[n] = (int)n;
    }
    CHECK(atomic_load(&faults_asked) <= 14);
    for (int64_t i = 0; i < n; i++) CHECK_EQ(p[i], i);
    const int64_t before = capacity;
    const int *same = p;
    CHECK(!qkv_reserve((void **)&p, &capacity, INT64_MAX, sizeof *p));
    CHECK(p == same && capacity == before);
    qkv_free(p);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(an_arena_is_counted_first_and_filled_then)
{
    static const size_t sizes[] = { 1, 64, 65, 0, 100, 4096 };
    struct qkv_arena count = { .size = SIZE_MAX }, arena = { 0 };
    EACH(s, sizes) CHECK(qkv_arena_alloc(&count, *s, 1) == NULL);
    CHECK(!qkv_arena_full(&count));
    CHECK_EQ(count.used, 64 + 64 + 128 + 0 + 128 + 4096);
    arena.base = qkv_alloc(count.used, 1);
    arena.size = count.used;
    char *last = NULL;
    EACH(s, sizes)
    {
        char *p = qkv_arena_alloc(&arena, *s, 1);
        CHECK(p != NULL && (uintptr_t)p % 64 == 0);
        if (last) CHECK(p >= last);
        memset(p, 1, *s);
        last = p + *s;
    }
    CHECK_EQ(arena.used, arena.size);
    CHECK(!qkv_arena_full(&arena));
    CHECK(qkv_arena_alloc(&arena, 1, 1) == NULL);
    CHECK(qkv_arena_full(&arena));
    CHECK(qkv_arena_alloc(&arena, 0, 1) == NULL); // full for ever
    qkv_free(arena.base);
}

struct arrays {
    int64_t n;
    float *x;
    int64_t *y;
    int calls;
};
static void lay_out_arrays(void *ctx, struct qkv_arena *a)
{
    struct arrays *p = ctx;
    p->calls++;
    p->x = qkv_arena_alloc(a, (size_t)p->n, sizeof *p->x);
    p->y = qkv_arena_alloc(a, (size_t)p->n, sizeof *p->y);
}

TEST(a_layout_runs_twice_and_gets_one_block)
{
    struct arrays p = { .n = 10 };
    faults_begin(0, false);
    void *block = qkv_arena_twice(lay_out_arrays, &p, true);
    CHECK(block == (void *)p.x && (char *)p.y == (char *)p.x + 64);
    CHECK_EQ(p.calls, 2);
    for (int i = 0; i < 10; i++) CHECK(p.x[i] == 0 && p.y[i] == 0);
    CHECK_EQ(atomic_load(&faults_asked), 1);
    qkv_free(block);
    CHECK_EQ(faults_end(NULL), 0);
    p.n = INT64_MAX;
    CHECK(!qkv_arena_twice(lay_out_arrays, &p, false)); // the product overflows
    p.n = 1;
    faults_begin(1, false);
    CHECK(!qkv_arena_twice(lay_out_arrays, &p, false));
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(an_arena_survives_sizes_that_overflow)
{
    struct qkv_arena a = { .size = SIZE_MAX };
    CHECK(qkv_arena_alloc(&a, SIZE_MAX, 2) == NULL);
    CHECK(qkv_arena_full(&a));
    a = (struct qkv_arena){ .size = SIZE_MAX };
    CHECK(qkv_arena_alloc(&a, SIZE_MAX, 1) == NULL);
    CHECK(qkv_arena_full(&a));
    a = (struct qkv_arena){ .size = SIZE_MAX };
    qkv_arena_alloc(&a, SIZE_MAX / 2, 1);
    CHECK(!qkv_arena_full(&a));
    qkv_arena_alloc(&a, SIZE_MAX / 2 + 1, 1);
    CHECK(qkv_arena_full(&a));
}

TEST(rows_of_an_arena_are_one_array)
{
    alignas(64) static char space[1024];
    struct qkv_arena a = { space, sizeof space, 0 };
    CHECK(qkv_arena_rows(&a, 3, 5, 4) == space && a.used == 64);
    CHECK(qkv_arena_rows(&a, 0, 5, 4) == space + 64 && a.used == 64);
    CHECK(qkv_arena_rows(&a, 15, 16, 4) == space + 64 && a.used == sizeof space);
    CHECK(!qkv_arena_full(&a));
    CHECK(!qkv_arena_rows(&a, 1, 1, 1) && qkv_arena_full(&a));
    a.used = 0;
    CHECK(!qkv_arena_rows(&a, 1, INT64_MAX, 4) && qkv_arena_full(&a)); // a row overflows
    a.used = 0;
    CHECK(!qkv_arena_rows(&a, INT64_MAX, 4, 4) && qkv_arena_full(&a)); // the rows overflow
}

// With the allocator of the library itself, which takes large blocks in another way.
TEST(large_blocks_keep_what_is_written_and_errno)
{
    static const size_t sizes[] = {
        1, (3 << 19) - 200, 3 << 19, (2 << 20) + 1, (15 << 18), 4 << 20
    };
    const struct qkv_allocator half = { .alloc = faults_qkv_alloc };
    EACH(set, ((const struct qkv_allocator *[]){ NULL, &half })) // half of one is none
    EACH(bytes, sizes)
    {
        qkv_allocator_set(*set);
        faults_begin(0, false);
        errno = 42;
        unsigned char *p = qkv_alloc(*bytes, 1);
        CHECK(p && (uintptr_t)p % 64 == 0 && errno == 42);
        for (size_t i = 0; i < *bytes; i++) p[i] = (unsigned char)(i * 7);
        for (size_t i = 0; i < *bytes; i++) CHECK(p[i] == (unsigned char)(i * 7));
        qkv_free(p);
        CHECK_EQ(atomic_load(&faults_asked), 0);
        faults_end(NULL);
        faults_install();
    }
#if !CHECK_SANITIZED // a sanitizer reports a size that no machine has
    qkv_allocator_set(NULL);
    errno = 42;
    CHECK(!qkv_alloc((size_t)PTRDIFF_MAX - (4 << 20), 1));
    CHECK_EQ(errno, 42);
    faults_install();
#endif
}

static qkv_status three_blocks(void *ctx, qkv_error *err)
{
    void *p[3] = { NULL, NULL, NULL };
    qkv_status status = QKV_OK;
    for (int i = 0; i < 3 && !status; i++)
        if ((p[i] = qkv_alloc(8, 1)) == NULL) status = qkv_fail_memory(err, NULL);
    for (int i = 0; i < 3; i++) qkv_free(p[i]);
    (void)ctx;
    return status;
}

TEST(the_walk_meets_every_fault_point)
{
    CHECK_EQ(faults_walk(three_blocks, NULL, true), 3);
    faults_begin(2, false);
    void *a = qkv_alloc(1, 1), *b = qkv_alloc(1, 1), *c = qkv_alloc(1, 1);
    CHECK(a && !b && c);
    qkv_free(c);
    bool hit;
    CHECK_EQ(faults_end(&hit), 1); // a is still out
    CHECK(hit);
    qkv_free(a);
    faults_begin(2, true);
    a = qkv_alloc(1, 1), b = qkv_alloc(1, 1), c = qkv_alloc(1, 1);
    CHECK(a && !b && !c);
    qkv_free(a);
    CHECK_EQ(faults_end(NULL), 0);
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
TEST(the_byte_after_a_block_is_poisoned)
{
    for (size_t n = 1; n < 200; n++) {
        char *p = qkv_alloc(n, 1);
        CHECK(!__asan_address_is_poisoned(p + n - 1));
        CHECK(__asan_address_is_poisoned(p + n));
        qkv_free(p);
    }
}
#else
TEST(the_byte_after_a_block_is_poisoned)
{
    skip(); // only AddressSanitizer detects it
}
#endif

CHECK_MAIN(CASE(every_block_starts_at_a_cache_line), CASE(a_size_that_does_not_fit_is_no_memory),
           CASE(an_array_grows_by_doubling_and_keeps_its_contents),
           CASE(an_arena_is_counted_first_and_filled_then),
           CASE(a_layout_runs_twice_and_gets_one_block),
           CASE(an_arena_survives_sizes_that_overflow), CASE(rows_of_an_arena_are_one_array),
           CASE(large_blocks_keep_what_is_written_and_errno),
           CASE(the_walk_meets_every_fault_point), CASE(the_byte_after_a_block_is_poisoned))
