// SPDX-License-Identifier: MIT
// name_order.c: sorts the items of a file by their names.
#include "file/set.h"
#include <string.h>

struct tie_rule {
    int (*compare)(const void *ctx, uint32_t a, uint32_t b);
    const void *ctx;
};

uint64_t qkv_order_key(const char *name)
{
    uint64_t key = 0;
    for (int i = 0; i < 8; i++) {
        key = key << 8 | (unsigned char)*name;
        if (*name) name++;
    }
    return key;
}

static int compare_items(const void *ctx, const void *a, const void *b)
{
    const struct tie_rule *tie = ctx;
    const struct qkv_order *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return tie->compare(tie->ctx, x->item, y->item);
}

bool qkv_order_sort(struct qkv_order *list, int64_t n,
                    int (*tie)(const void *ctx, uint32_t a, uint32_t b), const void *ctx)
{
    const struct tie_rule rule = { tie, ctx };
    return qkv_sort(list, n, sizeof *list, compare_items, &rule);
}

int qkv_order_tensors(const void *ctx, uint32_t a, uint32_t b)
{
    const struct qkv_tensor *t = ctx;
    return strcmp(t[a].name, t[b].name);
}
