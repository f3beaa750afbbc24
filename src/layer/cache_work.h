// SPDX-License-Identifier: MIT
// cache_work.h: what a cache holds, for the files that fill it and read it.
//
//   chunk  as in attention_work.h: keys 256 n .. of an item (fewer where heads are wide)
//   block  memory of one chunk of one item, or of several items that are copies up to there: for
//          each key/value head its packed keys, then its values; behind them how many items have it
//   slab   blocks that were allocated together
//   row, item   as in attention_work.h
//   stream      rows of one item and key/value head, and the chunks they see
#ifndef QKV_LAYER_CACHE_WORK_H
#define QKV_LAYER_CACHE_WORK_H

#include "layer/attention_work.h"
#include <qkv/cache.h>

// An element of a value that is not finite: it is packed as 0 and put back for those that attend.
struct qkv_cache_odd {
    int32_t key, g, f;
    real x;
};

struct qkv_cache_item {
    char **chunks; // [count] blocks of chunks base, base + 1, ...
    int64_t base, count, room;
    int64_t first;             // tokens before are forgotten
    struct qkv_cache_odd *odd; // keys never fall
    int64_t odds, odd_room;
    bool listed; // by the call at work: no item twice
};

struct qkv_cache {
    struct qkv_cache_shape shape; // F as meant
    const struct qkv_attention_kernels *kernel;
    size_t size;                  // bytes of an element of k and v
    int64_t chunk;                // keys
    size_t keys, head, heads;     // bytes: a head's packed keys; its keys and values; all heads
    size_t block;                 // ... with the count behind them
    int64_t *lengths;             // [B]
    struct qkv_cache_item *items; // [B]
    char **slabs;
    int64_t slabs_count, slabs_room;
    int64_t blocks;     // of all slabs
    int64_t last, used; // of the last slab: blocks, and how many of them were ever taken
    char *spare;        // blocks given back, each holds the next one's address
};

static inline const char *qkv_cache_keys(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return c->items[b].chunks[chunk - c->items[b].base] + (size_t)g * c->head;
}
static inline const char *qkv_cache_values(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return qkv_cache_keys(c, b, g, chunk) + c->keys;
}

// What one call needs and how it is cut.
struct qkv_cache_job {
    struct qkv_attention_work w; // its items are places of the list
    const qkv_cache *cache;
    const int64_t *items;           // [w.a.B] item of each place; NULL: place i is item i
    int64_t block, blocks, streams; // rows of a block, blocks of an item
    int64_t slots;                  // chunks of a wave; 0: streams are units
    size_t state;                   // bytes of the sums of a block
    size_t thread;                  // ... of a thread
    size_t states;                  // ... of all streams' sums, when they are cut into waves
    size_t scratch;                 // ... of all, and of any call with fewer rows or streams
};
// Checks all that forward relies on and fills j; other than QKV_OK: reason[size] says why.
// items[count]: of each place; NULL: all items of the cache.
qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c, const int64_t *items,
                             int64_t count, const struct qkv_attention *a, char *reason,
                             size_t size);
static inline int64_t qkv_cache_item_at(const struct qkv_cache_job *j, int64_t place)
{
    return j->items ? j->items[place] : place;
}
#endif
