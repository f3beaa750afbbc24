// SPDX-License-Identifier: MIT
// cache_work.h: declares the memory layout of the KV cache for the files that fill and read it.
//
//   chunk   a run of keys of one item, as in attention_work.h: 256 keys, or fewer if heads are wide
//   block   memory of one chunk; several items share it if they are copies of each other up to
//           its end. For each key/value head it contains the packed keys, then the packed values;
//           at the end the number of items that use the block
//   slab    blocks that were allocated together
//   row, item   as in attention_work.h
//   stream      a block of rows of one item and key/value head, and the chunks that the rows see
#ifndef QKV_LAYER_CACHE_WORK_H
#define QKV_LAYER_CACHE_WORK_H

#include "layer/attention/attention_work.h"
#include <qkv/cache.h>

// A nonfinite element of a value: it is packed as 0 and added later for the rows that attend to it.
struct qkv_cache_odd {
    int32_t key, g, f;
    real x;
};

struct qkv_cache_item {
    char **chunks; // [count] blocks of chunks base, base + 1, ...
    int64_t base, count, capacity;
    int64_t first; // index of the first token that is stored; earlier ones were forgotten
    struct qkv_cache_odd *odd; // nonfinite elements, in ascending order of key
    int64_t odds, odd_capacity;
    bool listed; // used by check_list: the item already occurred in the list
};

struct qkv_cache {
    struct qkv_cache_shape shape; // shape of the cache, with the default of F filled in
    const struct qkv_attention_kernels *kernel;
    size_t size;              // bytes of one element of k and v
    int64_t chunk;            // keys per chunk
    size_t keys, head, heads; // bytes of a head's packed keys; of its keys and values; of all heads
    size_t block;             // bytes of a block, with the reference count
    int64_t *lengths;         // [B] tokens of each item
    struct qkv_cache_item *items; // [B] chunks of each item
    char **slabs;
    int64_t slabs_count, slabs_capacity;
    int64_t blocks;     // blocks in all slabs
    int64_t last, used; // last slab: its blocks, and the number of them that were ever used
    char *spare;        // list of freed blocks; each contains the address of the next one
};

static inline const char *qkv_cache_keys(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return c->items[b].chunks[chunk - c->items[b].base] + (size_t)g * c->head;
}
static inline const char *qkv_cache_values(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return qkv_cache_keys(c, b, g, chunk) + c->keys;
}

// Sizes of one call and how its work is divided.
struct qkv_cache_job {
    struct qkv_attention_work w; // attention to validate; its items are places of the list
    const qkv_cache *cache;
    const int64_t *items; // [w.a.B] item of each place; NULL: place i is item i
    // rows of a block of rows; blocks of rows per item and head; number of streams
    int64_t block, blocks, streams;
    int64_t slots;  // number of slots: chunks of a wave; 0: each stream is a unit
    size_t state;   // bytes of the sums of a block
    size_t thread;  // bytes of a thread's workspace
    size_t states;  // bytes of the sums of all streams, when processed in waves
    size_t scratch; // bytes in total, sufficient for any call with fewer rows or streams
};
// Validates everything that forward relies on and fills j. On failure reason[size] receives the
// cause. items[count]: the cache item of each batch item of the call; NULL: all items of the cache.
qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c, const int64_t *items,
                             int64_t count, const struct qkv_attention *a, char *reason,
                             size_t size);
static inline int64_t qkv_cache_item_at(const struct qkv_cache_job *j, int64_t place)
{
    return j->items ? j->items[place] : place;
}
#endif
