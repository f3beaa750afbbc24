// SPDX-License-Identifier: MIT
// test_sort.c: checks the sort: order, stability, number of comparisons, failed allocations.
#include "base/base.h"
#include "base/faults.h"

struct item {
    uint32_t key, number; // number: index before sorting
};
struct counted {
    int64_t calls;
    uint32_t mask; // of the key's bits that are compared
};

static int compare_keys(const void *ctx, const void *a, const void *b)
{
    struct counted *c = (struct counted *)(uintptr_t)ctx;
    const uint32_t x = ((const struct item *)a)->key & c->mask;
    const uint32_t y = ((const struct item *)b)->key & c->mask;
    c->calls++;
    return x < y ? -1 : x > y;
}

TEST(items_are_sorted_and_equal_ones_keep_their_order)
{
    static struct item items[5000];
    for (int n = 0; n <= 5000; n += n < 70 ? 1 : 617)
        for (int bits = 0; bits <= 32; bits += 8) {
            struct counted c = { 0, bits == 32 ? UINT32_MAX : (1u << bits) - 1 };
            int64_t most = 0;
            for (int i = 0; i < n; i++) {
                uint32_t random[4];
                qkv_philox(random, 7, (uint64_t)n, (uint64_t)i);
                items[i] = (struct item){ random[0], (uint32_t)i };
            }
            for (int k = 1; k < n; k *= 2) most += n;
            CHECK(qkv_sort(items, n, sizeof *items, compare_keys, &c));
            CHECK(c.calls <= 2 * most);
            for (int i = 1; i < n; i++) {
                const uint32_t before = items[i - 1].key & c.mask, key = items[i].key & c.mask;
                CHECK(before < key || (before == key && items[i - 1].number < items[i].number));
            }
        }
}

TEST(sorted_items_need_one_comparison_per_merge_and_no_memory)
{
    struct item items[1024];
    struct counted c = { 0, UINT32_MAX };
    for (uint32_t i = 0; i < 1024; i++) items[i] = (struct item){ i, i };
    faults_begin(0, false);
    CHECK(qkv_sort(items, 1024, sizeof *items, compare_keys, &c));
    CHECK_EQ(c.calls, 1023);
    CHECK_EQ(atomic_load(&faults_asked), 0);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(without_memory_the_items_stay_as_they_were)
{
    struct item items[3] = { { 3, 0 }, { 2, 1 }, { 1, 2 } };
    struct counted c = { 0, UINT32_MAX };
    faults_begin(1, false);
    CHECK(!qkv_sort(items, 3, sizeof *items, compare_keys, &c));
    CHECK_EQ(faults_end(NULL), 0);
    for (uint32_t i = 0; i < 3; i++) CHECK_EQ(items[i].number, i);
}

CHECK_MAIN(CASE(items_are_sorted_and_equal_ones_keep_their_order),
           CASE(sorted_items_need_one_comparison_per_merge_and_no_memory),
           CASE(without_memory_the_items_stay_as_they_were))
