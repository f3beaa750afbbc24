// SPDX-License-Identifier: MIT
// sort.c: sorts arrays stably by merging runs, in O(n log n) for every input and in O(n) for sorted
// input.
#include <string.h>
#include "base/base.h"

// Merges the sorted runs items[start .. middle) and items[middle .. end); `spare` is memory for a
// copy of the first run.
static void merge_runs(char *items, char *spare, size_t size, int64_t start, int64_t middle,
                       int64_t end, qkv_compare_fn *compare, const void *ctx)
{
    const size_t left_bytes = (size_t)(middle - start) * size;
    char *out = items + (size_t)start * size;
    memcpy(spare, out, left_bytes);
    const char *left = spare, *left_end = spare + left_bytes;
    const char *right = items + (size_t)middle * size, *right_end = items + (size_t)end * size;
    for (; left < left_end; out += size) {
        if (right < right_end && compare(ctx, right, left) < 0) {
            memmove(out, right, size);
            right += size;
        } else {
            memcpy(out, left, size);
            left += size;
        }
    }
}

bool qkv_sort(void *items, int64_t count, size_t size, qkv_compare_fn *compare, const void *ctx)
{
    char *spare = NULL, *at = items;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t start = 0; count - start > width; start += 2 * width) {
            const int64_t middle = start + width, end = qkv_min64(middle + width, count);
            const char *first_right = at + (size_t)middle * size;
            if (compare(ctx, first_right, first_right - size) >= 0) continue; // already in order
            if (!spare && (spare = qkv_alloc((size_t)count, size)) == NULL) return false;
            merge_runs(at, spare, size, start, middle, end, compare, ctx);
        }
    }
    qkv_free(spare);
    return true;
}

int qkv_compare_texts(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}
