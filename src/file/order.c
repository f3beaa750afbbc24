// SPDX-License-Identifier: MIT
// order.c: a stable merge sort of (key, item) pairs: n log n
// for every input, fast when already in order.
#include "file/set.h"
#include <string.h>

uint64_t qkv_order_key(const char *name)
{
    uint64_t key = 0;
    for (int i = 0; i < 8; i++) {
        key = key << 8 | (unsigned char)*name;
        if (*name) name++;
    }
    return key;
}

bool qkv_order_sort(struct qkv_order *a, int64_t n,
                    int (*tie)(const void *ctx, uint32_t a, uint32_t b), const void *ctx)
{
#define BEFORE(x, y)                                                                               \
    ((x)->key < (y)->key || ((x)->key == (y)->key && tie(ctx, (x)->item, (y)->item) < 0))
    struct qkv_order *spare = NULL;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t start = 0; n - start > width; start += 2 * width) {
            const int64_t middle = start + width, end = qkv_min64(middle + width, n);
            if (!BEFORE(a + middle, a + middle - 1)) continue; // in order already
            if (!spare && (spare = qkv_alloc((size_t)n, sizeof *spare)) == NULL) return false;
            memcpy(spare + start, a + start, (size_t)width * sizeof *a);
            const struct qkv_order *left = spare + start, *left_end = spare + middle;
            const struct qkv_order *right = a + middle, *right_end = a + end;
            struct qkv_order *out = a + start;
            while (left < left_end) {
                if (right < right_end && BEFORE(right, left))
                    *out++ = *right++;
                else
                    *out++ = *left++;
            }
        }
    }
    qkv_free(spare);
    return true;
#undef BEFORE
}
