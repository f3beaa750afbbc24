// SPDX-License-Identifier: MIT
// cache.c: implements the KV cache: keys and values of growing sequences, stored in the packed
// layout that the attention kernels read.
//
// Chunks are counted from key 0 as in attention without a cache, so that sums over keys have the
// same order. A new token is packed into its place after the earlier tokens, so that no token is
// packed twice.
#include "layer/cache/cache_work.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#ifndef QKV_DOUBLE
// Bytes of a slab: large enough for the system's large memory pages, small compared with the memory
// of a useful cache.
enum { SLAB_BYTES = 64 << 20 };
// If new keys and values have fewer numbers than this, one thread packs them alone, because
// starting threads would take longer than the work.
enum { PACK_ALONE = 1 << 15 };

// ---- blocks ------------------------------------------------------------------------------------
static bool add_slab(qkv_cache *c)
{
    const int64_t fits = qkv_max64(1, (int64_t)(SLAB_BYTES / c->block));
    int64_t n = qkv_max64(1, qkv_min64(fits, c->blocks));
    // if the cache has a capacity, allocates at most the blocks that the capacity needs
    if (c->shape.capacity) {
        const int64_t chunks = qkv_ceil_div(c->shape.capacity, c->chunk);
        const int64_t each = qkv_ceil_div(chunks, c->shape.parts) * c->shape.own_parts;
        int64_t all;
        if (!__builtin_mul_overflow(each, c->shape.B, &all))
            n = qkv_max64(1, qkv_min64(n, all - c->blocks));
    }
    void *list = c->slabs;
    const bool capacity =
        qkv_reserve(&list, &c->slabs_capacity, c->slabs_count + 1, sizeof *c->slabs);
    c->slabs = list;
    if (!capacity) return false;
    char *slab = qkv_alloc((size_t)n, c->block);
    if (!slab && n > 1) slab = qkv_alloc((size_t)(n = 1), c->block);
    if (!slab) return false;
    c->slabs[c->slabs_count++] = slab;
    c->blocks += n;
    c->last = n;
    c->used = 0;
    return true;
}

static char *take_block(qkv_cache *c)
{
    char *block = c->spare;
    if (block) {
        memcpy(&c->spare, block, sizeof c->spare);
        return block;
    }
    if (c->used == c->last && !add_slab(c)) return NULL;
    block = c->slabs[c->slabs_count - 1] + (size_t)c->used++ * c->block;
    // The kernels multiply rows of a chunk that are not packed yet by weights of 0, so these rows
    // must be finite numbers.
    return memset(block, 0, c->block);
}

// Returns the reference count of a block: the number of items that use it.
static int64_t *holders(const qkv_cache *c, char *block)
{
    return (int64_t *)(void *)(block + c->heads);
}

static char *own_block(qkv_cache *c)
{
    char *block = take_block(c);
    if (block) *holders(c, block) = 1;
    return block;
}

static void give_block(qkv_cache *c, char *block)
{
    if (!block || --*holders(c, block)) return;
    memcpy(block, &c->spare, sizeof c->spare);
    c->spare = block;
}

// Ensures that item m alone uses the block that receives its token `length`: if this block already
// has tokens and other items share it, the item gets a copy. Returns false if memory is exhausted.
static bool part(qkv_cache *c, struct qkv_cache_item *m, int64_t length)
{
    const int64_t at = length / c->chunk - m->base;
    if (length % c->chunk == 0 || !m->chunks[at] || *holders(c, m->chunks[at]) == 1) return true;
    char *block = take_block(c);
    if (!block) return false;
    memcpy(block, m->chunks[at], c->heads);
    *holders(c, block) = 1;
    give_block(c, m->chunks[at]);
    m->chunks[at] = block;
    return true;
}

// Ensures that item m, which has `length` tokens, has blocks for n tokens. Returns false if memory
// is exhausted.
static bool hold(qkv_cache *c, struct qkv_cache_item *m, int64_t length, int64_t n)
{
    const int64_t need = qkv_ceil_div(n, c->chunk) - m->base;
    void *list = m->chunks;
    const bool capacity = qkv_reserve(&list, &m->capacity, need, sizeof *m->chunks);
    m->chunks = list;
    while (capacity && m->count < need) {
        const bool own = qkv_cache_owns(c, m->base + m->count);
        char *block = own ? own_block(c) : NULL;
        if (own && !block) return false;
        m->chunks[m->count++] = block;
    }
    return capacity && part(c, m, length);
}

// ---- creating and freeing ----------------------------------------------------------------------
// Checks the parts of a shape and fills in their defaults.
static qkv_status resolve_parts(struct qkv_cache_shape *s, qkv_error *err)
{
    if (s->parts < 0 || s->parts > QKV_CACHE_PARTS_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "number of parts is %lld, expected 0 .. %d",
                        (long long)s->parts, QKV_CACHE_PARTS_MAX);
    if (!s->parts) s->parts = 1;
    if (s->first_part < 0 || s->first_part >= s->parts || s->own_parts < 0 ||
        s->own_parts > s->parts - s->first_part)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "own parts do not exist, expected parts of 0 .. %lld, found %lld parts from "
            "%lld on",
            (long long)s->parts - 1, (long long)s->own_parts, (long long)s->first_part);
    if (!s->own_parts) s->own_parts = s->parts - s->first_part;
    return QKV_OK;
}

static qkv_status resolve(qkv_cache *c, const struct qkv_cache_shape *s, qkv_error *err)
{
    char reason[192] = "";
    struct qkv_attention_work w;
    const struct qkv_attention a = { .B = s->B,
                                     .T = 1,
                                     .S = s->capacity ? s->capacity : 1,
                                     .H = s->G,
                                     .E = s->E,
                                     .F = s->F,
                                     .precision = s->precision,
                                     .native = s->native };
    if (s->B < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "number of items B is %lld, expected 1 or more",
                        (long long)s->B);
    if (s->capacity < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "capacity is %lld, expected 0 (no limit) or more",
                        (long long)s->capacity);
    const qkv_status status =
        qkv_attention_resolve(&w, qkv_attention_kernel_table(&a), &a, reason, sizeof reason);
    if (status) return qkv_fail(err, status, NULL, "%s", reason);
    c->shape = *s;
    if (resolve_parts(&c->shape, err)) return QKV_ERR_USAGE;
    c->shape.F = w.a.F;
    c->kernel = w.kernel;
    c->size = w.size;
    c->chunk = w.chunk;
    c->keys = qkv_round_up((size_t)w.chunk * w.kernel->key_bytes(s->E), 64);
    c->head = c->keys + qkv_round_up((size_t)w.chunk * w.kernel->value_bytes(w.a.F), 64);
    if (!qkv_mul_size(&c->heads, c->head, (size_t)s->G) ||
        !qkv_add_size(&c->block, c->heads, qkv_round_up(sizeof(int64_t), 64)))
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "keys and values of %lld heads do not fit into memory", (long long)s->G);
    return QKV_OK;
}

QKV_API qkv_status qkv_cache_new(qkv_cache **out, const struct qkv_cache_shape *s, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !s)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_cache_new: expected a pointer for the cache and a shape, found NULL");
    qkv_cache *c = qkv_alloc_zero(1, sizeof *c);
    if (!c) return qkv_fail_memory(err, NULL);
    const qkv_status status = resolve(c, s, err);
    if (status) {
        qkv_free(c);
        return status;
    }
    c->lengths = qkv_alloc_zero((size_t)s->B, sizeof *c->lengths);
    c->items = qkv_alloc_zero((size_t)s->B, sizeof *c->items);
    if (!c->lengths || !c->items) {
        qkv_cache_free(c);
        return qkv_fail_memory(err, NULL);
    }
    *out = c;
    return QKV_OK;
}

QKV_API void qkv_cache_free(qkv_cache *c)
{
    if (!c) return;
    for (int64_t b = 0; c->items && b < c->shape.B; b++) {
        qkv_free(c->items[b].chunks);
        qkv_free(c->items[b].odd);
    }
    for (int64_t n = 0; n < c->slabs_count; n++) qkv_free(c->slabs[n]);
    qkv_free(c->slabs);
    qkv_free(c->items);
    qkv_free(c->lengths);
    qkv_free(c);
}

// ---- append ------------------------------------------------------------------------------------
// Sets *first and *end to the range of items that b selects: one item, or all for QKV_CACHE_ALL.
// Returns false if there is no such item.
static bool named(const qkv_cache *c, int64_t b, int64_t *first, int64_t *end)
{
    if (!c || b < QKV_CACHE_ALL || b >= c->shape.B) return false;
    *first = b == QKV_CACHE_ALL ? 0 : b;
    *end = b == QKV_CACHE_ALL ? c->shape.B : b + 1;
    return true;
}

struct append {
    qkv_cache *c;
    const char *k, *v;
    struct qkv_strides ks, vs;
    // [items] index of the cache item for each batch item of the call; NULL: first, first + 1, ...
    const int64_t *list;
    int64_t first, items, n;
    int64_t pieces;  // chunks that the new tokens of an item may touch
    atomic_bool odd; // true: at least one new value is nonfinite
};

// Returns the index of the cache item to which batch item i of the call is appended.
static int64_t placed(const struct append *p, int64_t i)
{
    return p->list ? p->list[i] : p->first + i;
}

// Returns the address of the first element of a token in k or v: batch item i, new token j, head g.
static const char *row(const struct append *p, const char *x, const struct qkv_strides *s,
                       int64_t i, int64_t j, int64_t g)
{
    return x + (ptrdiff_t)(i * s->b + j * s->t + g * s->h) * (ptrdiff_t)p->c->size;
}

// Packs the new tokens of one chunk, for one batch item and head.
static void pack_piece(void *ctx, int64_t n, int thread)
{
    struct append *p = ctx;
    const qkv_cache *c = p->c;
    const struct qkv_attention_kernels *kernel = c->kernel;
    const int64_t i = n / (p->pieces * c->shape.G), g = n / p->pieces % c->shape.G;
    const int64_t b = placed(p, i), length = c->lengths[b];
    const int64_t chunk = length / c->chunk + n % p->pieces;
    const int64_t lo = qkv_max64(length, chunk * c->chunk);
    const int64_t hi = qkv_min64(length + p->n, (chunk + 1) * c->chunk);
    (void)thread;
    const struct qkv_cache_item *m = &c->items[b];
    if (lo >= hi || !m->chunks[chunk - m->base]) return;
    char *keys = m->chunks[chunk - m->base] + (size_t)g * c->head;
    const int64_t at = lo - chunk * c->chunk;
    kernel->pack_keys(keys, row(p, p->k, &p->ks, i, lo - length, g), p->ks.t, at, hi - lo,
                      c->shape.E);
    if (!kernel->pack_values(keys + c->keys, row(p, p->v, &p->vs, i, lo - length, g), p->vs.t, at,
                             hi - lo, c->chunk, c->shape.F))
        atomic_store_explicit(&p->odd, true, memory_order_relaxed);
}

// Lists the nonfinite elements of the new values of batch item i in `to` and returns their number;
// `to` NULL: only counts them.
static int64_t find_odd(const struct append *p, int64_t i, struct qkv_cache_odd *to)
{
    const qkv_cache *c = p->c;
    const int64_t b = placed(p, i);
    int64_t n = 0;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t g = 0; g < c->shape.G && qkv_cache_owns(c, (c->lengths[b] + j) / c->chunk);
             g++) {
            const char *v = row(p, p->v, &p->vs, i, j, g);
            for (int64_t f = 0; f < c->shape.F; f++) {
                const real x = qkv_real_at(v + (size_t)f * c->size, c->kernel->type);
                if (isfinite(x)) continue;
                if (to)
                    to[n] = (struct qkv_cache_odd){ (int32_t)(c->lengths[b] + j), (int32_t)g,
                                                    (int32_t)f, x };
                n++;
            }
        }
    return n;
}

static bool keep_odd(const struct append *p)
{
    // allocates the lists of all items first, so that no allocation can fail after an item has
    // changed
    for (int64_t i = 0; i < p->items; i++) {
        struct qkv_cache_item *m = &p->c->items[placed(p, i)];
        void *list = m->odd;
        const bool capacity =
            qkv_reserve(&list, &m->odd_capacity, m->odds + find_odd(p, i, NULL), sizeof *m->odd);
        m->odd = list;
        if (!capacity) return false;
    }
    for (int64_t i = 0; i < p->items; i++) {
        struct qkv_cache_item *m = &p->c->items[placed(p, i)];
        m->odds += find_odd(p, i, m->odd + m->odds);
    }
    return true;
}

static qkv_status check_append(const struct append *p, qkv_error *err)
{
    const qkv_cache *c = p->c;
    const int64_t most = c->shape.capacity ? c->shape.capacity : INT64_C(1) << 31;
    for (int64_t i = 0; i < p->items; i++) {
        const int64_t b = placed(p, i);
        if (p->n > most - c->lengths[b])
            return qkv_fail(
                err, QKV_ERR_LIMIT, NULL,
                "item %lld has %lld tokens, and %lld more tokens exceed the capacity of %lld",
                (long long)b, (long long)c->lengths[b], (long long)p->n, (long long)most);
    }
    return QKV_OK;
}

// Fills in default strides, and checks as attention does that all elements are within the address
// space.
static qkv_status set_strides(struct append *p, const struct qkv_strides *k,
                              const struct qkv_strides *v, qkv_error *err)
{
    char reason[192];
    struct qkv_attention_work w;
    struct qkv_attention a = {
        .B = p->items, .T = 1, .S = p->n, .H = p->c->shape.G, .E = p->c->shape.E, .F = p->c->shape.F
    };
    if (k) a.k_strides = *k;
    if (v) a.v_strides = *v;
    const qkv_status status = qkv_attention_resolve(&w, p->c->kernel, &a, reason, sizeof reason);
    if (status) return qkv_fail(err, status, NULL, "%s", reason);
    p->ks = w.a.k_strides;
    p->vs = w.a.v_strides;
    return QKV_OK;
}

static qkv_status append(struct append *p, const struct qkv_strides *k_strides,
                         const struct qkv_strides *v_strides, qkv_error *err)
{
    qkv_cache *c = p->c;
    const int64_t n = p->n;
    const char *wrong = NULL;
    if (n < 0)
        wrong = "invalid number of tokens to append, expected 0 or more";
    else if (n > 0 && p->items && (!p->k || !p->v))
        wrong = "no keys or values to append, expected arrays, found NULL";
    else if ((uintptr_t)p->k % c->size || (uintptr_t)p->v % c->size)
        wrong = "keys or values are not aligned to their type";
    if (wrong) return qkv_fail(err, QKV_ERR_USAGE, NULL, "%s", wrong);
    if (n == 0 || p->items == 0) return QKV_OK;
    qkv_status status = check_append(p, err);
    if (!status) status = set_strides(p, k_strides, v_strides, err);
    if (status) return status;
    for (int64_t i = 0; i < p->items; i++) {
        const int64_t b = placed(p, i), length = c->lengths[b];
        if (!hold(c, &c->items[b], length, length + n)) return qkv_fail_memory(err, NULL);
    }
    // one more chunk, because the first chunk may already have tokens
    p->pieces = qkv_ceil_div(n, c->chunk) + 1;
    atomic_init(&p->odd, false);
    const int64_t units = p->items * c->shape.G * p->pieces;
    if (n * p->items * c->shape.G < PACK_ALONE / (c->shape.E + c->shape.F) + 1)
        for (int64_t i = 0; i < units; i++) pack_piece(p, i, 0);
    else
        qkv_parallel_for(units, pack_piece, p);
    if (atomic_load(&p->odd) && !keep_odd(p)) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < p->items; i++) c->lengths[placed(p, i)] += n;
    return QKV_OK;
}

QKV_API qkv_status qkv_cache_append(qkv_cache *c, int64_t b, const void *k, const void *v,
                                    int64_t n, const struct qkv_strides *k_strides,
                                    const struct qkv_strides *v_strides, qkv_error *err)
{
    struct append p = { .c = c, .k = k, .v = v, .n = n };
    int64_t end;
    if (!c) return qkv_fail(err, QKV_ERR_USAGE, NULL, "the cache is NULL");
    if (!named(c, b, &p.first, &end))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "item does not exist in the cache, expected 0 .. %lld or QKV_CACHE_ALL, "
                        "found %lld",
                        (long long)c->shape.B - 1, (long long)b);
    p.items = end - p.first;
    return append(&p, k_strides, v_strides, err);
}

// Checks that all items of a list exist and that no item occurs twice.
static qkv_status check_list(qkv_cache *c, const int64_t *items, int64_t count, qkv_error *err)
{
    int64_t n = 0;
    bool valid = true;
    if (!c) return qkv_fail(err, QKV_ERR_USAGE, NULL, "the cache is NULL");
    if (count < 0 || count > c->shape.B)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid length of the list of items, expected 0 .. %lld (the items of the "
                        "cache), found %lld",
                        (long long)c->shape.B, (long long)count);
    if (count > 0 && !items)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no list of items, expected an array of %lld items, found NULL",
                        (long long)count);
    for (; n < count && valid; n++) {
        valid = items[n] >= 0 && items[n] < c->shape.B && !c->items[items[n]].listed;
        if (valid) c->items[items[n]].listed = true;
    }
    for (int64_t i = 0; i < n; i++)
        if (items[i] >= 0 && items[i] < c->shape.B) c->items[items[i]].listed = false;
    return valid ? QKV_OK
                 : qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid list of items, expected different items in 0 .. %lld, found "
                            "%lld at index %lld",
                            (long long)c->shape.B - 1, (long long)items[n - 1], (long long)n - 1);
}

QKV_API qkv_status qkv_cache_append_some(qkv_cache *c, const int64_t *items, int64_t count,
                                         const void *k, const void *v, int64_t n,
                                         const struct qkv_strides *k_strides,
                                         const struct qkv_strides *v_strides, qkv_error *err)
{
    struct append p = { .c = c, .k = k, .v = v, .list = items, .items = count, .n = n };
    const qkv_status status = check_list(c, items, count, err);
    return status ? status : append(&p, k_strides, v_strides, err);
}

// ---- length, cutting and forgetting ------------------------------------------------------------
QKV_API int64_t qkv_cache_length(const qkv_cache *c, int64_t b)
{
    int64_t first, end, most = 0;
    if (!named(c, b, &first, &end)) return 0;
    for (; first < end; first++) most = qkv_max64(most, c->lengths[first]);
    return most;
}

QKV_API qkv_status qkv_cache_cut(qkv_cache *c, int64_t b, int64_t n)
{
    int64_t first, end;
    if (!named(c, b, &first, &end) || n < 0) return QKV_ERR_USAGE;
    for (int64_t i = first; i < end; i++)
        if (n > 0 && n < c->items[i].first) return QKV_ERR_USAGE;
    for (int64_t i = first; i < end; i++) {
        struct qkv_cache_item *m = &c->items[i];
        if (n < c->lengths[i]) c->lengths[i] = n;
        while (m->odds && m->odd[m->odds - 1].key >= n) m->odds--;
        const int64_t need = qkv_max64(0, qkv_ceil_div(c->lengths[i], c->chunk) - m->base);
        while (m->count > need) give_block(c, m->chunks[--m->count]);
        if (c->lengths[i] == 0) m->first = m->base = 0;
    }
    return QKV_OK;
}

QKV_API qkv_status qkv_cache_forget(qkv_cache *c, int64_t b, int64_t n)
{
    int64_t first, end;
    if (!named(c, b, &first, &end) || n < 0) return QKV_ERR_USAGE;
    for (int64_t i = first; i < end; i++)
        if (n > c->lengths[i]) return QKV_ERR_USAGE;
    for (int64_t i = first; i < end; i++) {
        struct qkv_cache_item *m = &c->items[i];
        const int64_t chunks = qkv_max64(0, n / c->chunk - m->base);
        int64_t gone = 0;
        for (int64_t at = 0; at < chunks; at++) give_block(c, m->chunks[at]);
        if (chunks)
            memmove(m->chunks, m->chunks + chunks,
                    (size_t)(m->count -= chunks) * sizeof *m->chunks);
        m->base += chunks;
        m->first = qkv_max64(m->first, n);
        while (gone < m->odds && m->odd[gone].key < n) gone++;
        if (gone) memmove(m->odd, m->odd + gone, (size_t)(m->odds -= gone) * sizeof *m->odd);
    }
    return QKV_OK;
}

// ---- copies ------------------------------------------------------------------------------------
// Makes `to` a copy of item b. The copy shares all blocks of item b that contain tokens. Returns
// false if memory is exhausted.
static bool copy_item(const qkv_cache *c, struct qkv_cache_item *to, int64_t b)
{
    const struct qkv_cache_item *from = &c->items[b];
    void *chunks = NULL, *odd = NULL;
    *to = *from;
    to->count = qkv_ceil_div(c->lengths[b], c->chunk) - from->base;
    to->capacity = to->odd_capacity = 0;
    const bool capacity = qkv_reserve(&chunks, &to->capacity, to->count, sizeof *to->chunks) &&
                          qkv_reserve(&odd, &to->odd_capacity, from->odds, sizeof *to->odd);
    to->chunks = chunks;
    to->odd = odd;
    if (!capacity) {
        to->count = 0;
        return false;
    }
    for (int64_t i = 0; i < to->count; i++) {
        to->chunks[i] = from->chunks[i];
        if (to->chunks[i]) ++*holders(c, to->chunks[i]);
    }
    if (from->odds) memcpy(to->odd, from->odd, (size_t)from->odds * sizeof *to->odd);
    return true;
}

static void drop_item(qkv_cache *c, struct qkv_cache_item *m)
{
    for (int64_t i = 0; i < m->count; i++) give_block(c, m->chunks[i]);
    qkv_free(m->chunks);
    qkv_free(m->odd);
}

QKV_API qkv_status qkv_cache_copy(qkv_cache *c, const int64_t *to, const int64_t *from,
                                  int64_t count, qkv_error *err)
{
    struct copy {
        struct qkv_cache_item item;
        int64_t length;
    } *copies = NULL;
    int64_t made = 0;
    qkv_status status = check_list(c, to, count, err);
    if (status || count == 0) return status;
    if (!from)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no list of items to copy, expected an array of %lld items, found NULL",
                        (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (from[i] < 0 || from[i] >= c->shape.B)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "item to copy does not exist in the cache, expected 0 .. %lld, found "
                            "%lld",
                            (long long)c->shape.B - 1, (long long)from[i]);
    copies = qkv_alloc((size_t)count, sizeof *copies);
    if (!copies) return qkv_fail_memory(err, NULL);
    while (made < count && !status) {
        copies[made].length = c->lengths[from[made]];
        if (!copy_item(c, &copies[made].item, from[made])) status = qkv_fail_memory(err, NULL);
        made++;
    }
    for (int64_t i = 0; i < made; i++) {
        if (!status) { // exchanges the item and its copy; the previous content is freed below
            const struct copy was = { c->items[to[i]], 0 };
            c->items[to[i]] = copies[i].item;
            c->lengths[to[i]] = copies[i].length;
            copies[i] = was;
        }
        drop_item(c, &copies[i].item);
    }
    qkv_free(copies);
    return status;
}

QKV_API size_t qkv_cache_bytes(const qkv_cache *c)
{
    if (!c) return 0;
    size_t bytes = sizeof *c + (size_t)c->slabs_capacity * sizeof *c->slabs +
                   (size_t)c->shape.B * (sizeof *c->items + sizeof *c->lengths);
    for (int64_t b = 0; b < c->shape.B; b++)
        bytes += (size_t)c->items[b].capacity * sizeof(char *) +
                 (size_t)c->items[b].odd_capacity * sizeof(struct qkv_cache_odd);
    return bytes + (size_t)c->blocks * c->block;
}
#endif
