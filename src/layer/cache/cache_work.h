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
//   part    the chunks c of an item with the same c mod parts; a cache may have only some parts
//   node    consecutive parts whose sums are added: one part, or two nodes (qkv_cache_half)
//   lane    the chunks of a row block that are in one part
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
    // [count] blocks of chunks base, base + 1, ...; NULL: the chunk is in a part of another cache
    char **chunks;
    int64_t base, count, capacity;
    int64_t first; // index of the first token that is stored; earlier tokens have been removed
    struct qkv_cache_odd *odd; // nonfinite elements, in ascending order of key
    int64_t odds, odd_capacity;
    bool listed; // used by check_list: the item already occurred in the list
};

struct qkv_cache {
    // shape of the cache, with the defaults of F, parts and own_parts filled in
    struct qkv_cache_shape shape;
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

// Returns whether the cache stores a chunk.
static inline bool qkv_cache_owns(const qkv_cache *c, int64_t chunk)
{
    const int64_t part = chunk % c->shape.parts - c->shape.first_part;
    return part >= 0 && part < c->shape.own_parts;
}
// Consecutive parts from .. end-1.
struct qkv_cache_node {
    int64_t from, end;
};
// Returns the first part of the right half of a node of several parts.
static inline int64_t qkv_cache_half(struct qkv_cache_node x)
{
    int64_t half = 1;
    while (half * 2 < x.end - x.from) half *= 2;
    return x.from + half;
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
    int64_t depth; // nodes whose sums a thread has at once
    size_t state;  // bytes of the sums of a block
    size_t thread; // bytes of a thread's workspace
    size_t states; // bytes of the sums of all lanes, when processed in waves
    // bytes in total, which suffice also for every call with fewer rows or row blocks
    size_t scratch;
};
// Validates a call of attention to a KV cache and fills *j. On failure reason[size] receives the
// cause. items[count]: the list of cache items of the call; NULL: all items of the cache.
qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c, const int64_t *items,
                             int64_t count, const struct qkv_attention *a, char *reason,
                             size_t size);
// The same for a cache that may have only some of the parts.
qkv_status qkv_cache_resolve_parts(struct qkv_cache_job *j, const qkv_cache *c,
                                   const int64_t *items, int64_t count,
                                   const struct qkv_attention *a, char *reason, size_t size);
// Returns the bytes of the sums of a block of rows.
size_t qkv_cache_state_bytes(const struct qkv_attention_work *w, int64_t rows);
static inline int64_t qkv_cache_item_at(const struct qkv_cache_job *j, int64_t place)
{
    return j->items ? j->items[place] : place;
}

// ---- a call whose parts are in several caches (cache_forward.c) ---------------------------------
enum { QKV_CACHE_NODES_MAX = 16 }; // most nodes that consecutive parts need
// Lists the nodes of the tree that the cache has whole and that are in no other such node, in the
// order of the parts. Returns their number.
int qkv_cache_nodes(struct qkv_cache_node list[QKV_CACHE_NODES_MAX], const qkv_cache *c);
// Returns the bytes of the sums of a node for all rows of the call.
size_t qkv_cache_sums_bytes(const struct qkv_cache_job *j);
// Computes the sums of n nodes that the cache has. to[n]: memory of each, 64-byte aligned.
void qkv_cache_sums(const struct qkv_cache_job *j, const struct qkv_cache_node *node, int n,
                    char *const *to, const void *q, void *scratch);
// Adds the sums of a node to the sums `to` of the node before it, for all rows.
void qkv_cache_add_sums(const struct qkv_cache_job *j, char *to, const char *sums);
// Writes out and lse (NULL: not requested) from the sums of all parts.
void qkv_cache_finish(const struct qkv_cache_job *j, void *out, real *lse, const char *sums);
#endif
