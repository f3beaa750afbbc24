// SPDX-License-Identifier: MIT
// cache_work.h: declares the memory layout of the KV cache for the files that fill and read it.
//
//   chunk   a run of keys of one item, as in attention_work.h: 256 keys, or fewer if heads are wide
//   block   memory of one chunk; several items share it if they are copies of each other up to
//           its end. For each key/value head it contains the packed keys, then the packed values;
//           at the end the number of items that use the block
//   slab    blocks that were allocated together
//   row, item   as in attention_work.h
//   row block   a block of rows of one item and key/value head, and the chunks that the rows see
#ifndef QKV_LAYER_CACHE_WORK_H
#define QKV_LAYER_CACHE_WORK_H

#include "layer/attention/attention_work.h"
#include <qkv/cache.h>

// A nonfinite element x of a value: element f of key/value head g at key `key`. Packed values
// contain 0 in its place; attention adds x separately to the rows that attend to it.
struct qkv_cache_odd {
    int32_t key, g, f;
    real x;
};

struct qkv_cache_item {
    char **chunks; // [count] blocks of chunks base, base + 1, ...
    int64_t base, count, capacity;
    int64_t first; // index of the first token that is stored; earlier tokens have been removed
    struct qkv_cache_odd *odd; // nonfinite elements, in ascending order of key
    int64_t odds, odd_capacity;
    bool listed; // used by check_list: the item already occurred in the list
};

struct qkv_cache {
    struct qkv_cache_shape shape; // shape of the cache, with the default of F filled in
    const struct qkv_attention_kernels *kernel;
    size_t size;   // bytes of one element of k and v
    int64_t chunk; // keys per chunk
    // in a block, bytes of the packed keys of a head (keys), of keys and values of a head (head),
    // of all heads (heads)
    size_t keys, head, heads;
    size_t block;                 // bytes of a block, with the reference count
    int64_t *lengths;             // [B] tokens of each item
    struct qkv_cache_item *items; // [B] chunks of each item
    char **slabs;
    int64_t slabs_count, slabs_capacity;
    int64_t blocks; // blocks in all slabs
    // last: number of blocks in the last slab; used: number of these that have been used
    int64_t last, used;
    char *spare; // list of freed blocks; each contains the address of the next one
};

static inline const char *qkv_cache_keys(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return c->items[b].chunks[chunk - c->items[b].base] + (size_t)g * c->head;
}
static inline const char *qkv_cache_values(const qkv_cache *c, int64_t b, int64_t g, int64_t chunk)
{
    return qkv_cache_keys(c, b, g, chunk) + c->keys;
}

// Sizes of one call of attention to a KV cache, and the division of its work.
struct qkv_cache_job {
    // the call as attention with w.a.B batch items; item i is place i of the list of cache items
    struct qkv_attention_work w;
    const qkv_cache *cache;
    // [w.a.B] cache item of each place of the list; NULL: place i is cache item i
    const int64_t *items;
    // block: rows of a block of rows; blocks: number of blocks of an item and key/value head;
    // row_blocks: number of all row blocks
    int64_t block, blocks, row_blocks;
    int64_t slots; // number of slots: chunks of a wave; 0: each row block is a unit
    size_t state;  // bytes of the sums of a block
    size_t thread; // bytes of a thread's workspace
    size_t states; // bytes of the sums of all row blocks, when processed in waves
    // bytes in total, which suffice also for every call with fewer rows or row blocks
    size_t scratch;
};
// Validates a call of attention to a KV cache and fills *j. On failure reason[size] receives the
// cause. items[count]: the list of cache items of the call; NULL: all items of the cache.
qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c, const int64_t *items,
                             int64_t count, const struct qkv_attention *a, char *reason,
                             size_t size);
static inline int64_t qkv_cache_item_at(const struct qkv_cache_job *j, int64_t place)
{
    return j->items ? j->items[place] : place;
}
#endif
