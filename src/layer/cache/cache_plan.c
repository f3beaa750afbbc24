// SPDX-License-Identifier: MIT
// cache_plan.c: validates attention to a KV cache and computes its sizes, row blocks and scratch.
#include "layer/cache/cache_work.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef QKV_DOUBLE
// number of row blocks per thread that is enough for an even distribution
enum { ROW_BLOCKS_A_THREAD = 4 };
enum { SLOTS_A_THREAD = 32, SLOTS_LEAST = 4, SLOT_BYTES = 1 << 20 };

__attribute__((format(printf, 4, 5))) static qkv_status
refuse(char *reason, size_t size, qkv_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(reason, size, format, list);
    va_end(list);
    return status;
}

// Returns the length of the longest cache item of the call; -1 if a listed item does not exist.
static int64_t longest_of(const struct qkv_cache_job *j, int64_t count)
{
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t b = qkv_cache_item_at(j, i);
        if (b < 0 || b >= j->cache->shape.B) return -1;
        most = qkv_max64(most, j->cache->lengths[b]);
    }
    return most;
}

// Sets *to to the request `a`, with the sizes of the cache. If the request has no k_lengths, they
// are the lengths of the cache items.
static qkv_status complete(struct qkv_attention *to, const struct qkv_attention *a,
                           const struct qkv_cache_job *j, int64_t count, char *reason, size_t size)
{
    const qkv_cache *c = j->cache;
    const struct qkv_cache_shape *s = &c->shape;
    const int64_t longest = longest_of(j, count);
    if (longest < 0)
        return refuse(reason, size, QKV_ERR_USAGE,
                      "list of items has an item that does not exist in the cache");
    const struct {
        const char *name;
        int64_t given, own;
    } pairs[] = {
        { "B", a->B, count }, { "S", a->S, longest }, { "G", a->G, s->G },
        { "E", a->E, s->E },  { "F", a->F, s->F },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].given && pairs[i].given != pairs[i].own)
            return refuse(reason, size, QKV_ERR_USAGE,
                          "%s differs from the cache, expected 0 or %lld, found %lld",
                          pairs[i].name, (long long)pairs[i].own, (long long)pairs[i].given);
    if (a->precision && a->precision != s->precision)
        return refuse(reason, size, QKV_ERR_USAGE,
                      "precision differs from the cache, expected 0 or %s (%d), found %d",
                      qkv_precision_name(s->precision), (int)s->precision, (int)a->precision);
    if (a->first_row || a->all_rows)
        return refuse(reason, size, QKV_ERR_USAGE,
                      "first_row and all_rows have no effect with a cache, expected 0");
    if (a->sequences)
        return refuse(
            reason, size, QKV_ERR_UNSUPPORTED,
            "packed sequences cannot be combined with a cache, whose sequences are items");
    if (a->dropout.p > 0)
        return refuse(reason, size, QKV_ERR_UNSUPPORTED,
                      "dropout cannot be combined with a cache, since it is for training");
    if (a->probe)
        return refuse(reason, size, QKV_ERR_UNSUPPORTED,
                      "attention statistics cannot be combined with a cache (qkv_probe_weights "
                      "reads its dense weights)");
    for (int64_t i = 0; a->k_lengths && i < count; i++)
        if (a->k_lengths[i] < 0 || a->k_lengths[i] > c->lengths[qkv_cache_item_at(j, i)])
            return refuse(reason, size, QKV_ERR_USAGE,
                          "length k_lengths[%lld] is %lld, expected 0 .. %lld (the tokens of the "
                          "cache item)",
                          (long long)i, (long long)a->k_lengths[i],
                          (long long)c->lengths[qkv_cache_item_at(j, i)]);
    *to = *a;
    to->B = count;
    to->S = longest;
    to->G = s->G;
    to->E = s->E;
    to->F = s->F;
    to->precision = s->precision;
    to->diagonal = QKV_BOTTOM_RIGHT;
    to->k_strides = to->v_strides = (struct qkv_strides){ 0 };
    // The lengths of the items in a list are not adjacent in memory, so row_block_at reads them one by
    // one.
    if (!a->k_lengths && !j->items) to->k_lengths = c->lengths;
    return QKV_OK;
}

size_t qkv_cache_state_bytes(const struct qkv_attention_work *w, int64_t rows)
{
    const size_t n = (size_t)rows, width = (size_t)w->kernel->width(w->a.F);
    return qkv_round_up(n * width * sizeof(real), 64) + 2 * qkv_round_up(n * sizeof(real), 64) +
           qkv_round_up(n, 64);
}
// Returns the bytes of the workspace of a thread.
static size_t thread_bytes(const struct qkv_cache_job *j, int64_t block)
{
    const struct qkv_attention_kernels *k = j->w.kernel;
    const size_t queries = k->pack_query ? (size_t)block * k->query_bytes(j->w.a.E) : 0;
    return (size_t)k->rows * QKV_CHUNK * sizeof(real) + qkv_round_up(queries, 64) +
           (size_t)j->depth * qkv_cache_state_bytes(&j->w, block);
}

// Returns the number of row blocks below which each chunk is a unit; 0 with one thread.
static int64_t few_row_blocks(const struct qkv_attention_work *w)
{
    return w->threads > 1 ? ROW_BLOCKS_A_THREAD * (int64_t)w->threads : 0;
}

static void count_slots(struct qkv_cache_job *j)
{
    const int64_t threads = j->w.threads;
    j->state = qkv_cache_state_bytes(&j->w, j->block);
    j->thread = thread_bytes(j, j->block);
    j->slots = 0;
    j->states = 0;
    if (j->row_blocks == 0 || j->row_blocks >= few_row_blocks(&j->w)) return;
    const int64_t fit = (int64_t)((size_t)SLOT_BYTES * (size_t)threads / j->state);
    j->slots = qkv_max64(SLOTS_LEAST * threads, qkv_min64(SLOTS_A_THREAD * threads, fit));
    j->states = (size_t)(j->row_blocks * j->cache->shape.own_parts) * j->state;
}

// Computes j->scratch, which suffices for every call with at most as many rows and row blocks as j.
// block: the largest number of rows of a block in such calls.
static bool count_scratch(struct qkv_cache_job *j, int64_t block)
{
    const struct qkv_attention_work *w = &j->w;
    const size_t state = qkv_cache_state_bytes(w, block), threads = (size_t)w->threads;
    const int64_t few = few_row_blocks(w), own = j->cache->shape.own_parts;
    size_t slots = 0, rest = 0;
    if (w->a.G < few) {
        if (!qkv_mul_size(&slots, SLOTS_A_THREAD * threads, state)) return false;
        if (slots > threads * SLOT_BYTES) slots = threads * SLOT_BYTES;
        if (slots < SLOTS_LEAST * threads * state) slots = SLOTS_LEAST * threads * state;
        rest = (size_t)(qkv_min64(j->row_blocks, few) * own) * state +
               qkv_round_up((size_t)(few * own + 1) * sizeof(int64_t), 64);
    }
    return qkv_mul_size(&j->scratch, threads, thread_bytes(j, block)) &&
           qkv_add_size(&j->scratch, j->scratch, slots) &&
           qkv_add_size(&j->scratch, j->scratch, rest);
}

qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c, const int64_t *items,
                             int64_t count, const struct qkv_attention *a, char *reason,
                             size_t size)
{
    const struct qkv_cache_shape *s = c ? &c->shape : NULL;
    if (s && s->own_parts < s->parts)
        return refuse(
            reason, size, QKV_ERR_USAGE,
            "cache has %lld of %lld parts, expected all (qkv_ranks_cache_forward computes "
            "with the parts of several ranks)",
            (long long)s->own_parts, (long long)s->parts);
    return qkv_cache_resolve_parts(j, c, items, count, a, reason, size);
}

qkv_status qkv_cache_resolve_parts(struct qkv_cache_job *j, const qkv_cache *c,
                                   const int64_t *items, int64_t count,
                                   const struct qkv_attention *a, char *reason, size_t size)
{
    struct qkv_attention whole;
    if (!c || !a) return refuse(reason, size, QKV_ERR_USAGE, "the cache or the attention is NULL");
    if (count < 0)
        return refuse(reason, size, QKV_ERR_USAGE,
                      "invalid number of items, expected 0 or more, found %lld", (long long)count);
    j->cache = c;
    j->items = items;
    qkv_status status = complete(&whole, a, j, items ? count : c->shape.B, reason, size);
    if (!status) status = qkv_attention_resolve(&j->w, c->kernel, &whole, reason, size);
    if (status) return status;
    // Uses as few blocks as the CPU cache allows, because each block reads all keys.
    const int64_t rows = j->w.a.T * j->w.heads, tile = j->w.kernel->rows;
    const int64_t most = qkv_max64(QKV_BLOCK_LEAST, qkv_attention_block_most(&j->w.a));
    j->blocks = qkv_ceil_div(rows, most);
    j->block = qkv_ceil_div(qkv_ceil_div(rows, qkv_max64(1, j->blocks)), tile) * tile;
    if (__builtin_mul_overflow(j->w.a.B * j->w.a.G, j->blocks, &j->row_blocks))
        return refuse(reason, size, QKV_ERR_LIMIT,
                      "attention has too many blocks of rows times key heads, expected less than "
                      "2^63, found more");
    j->depth = 1;
    while (INT64_C(1) << (j->depth - 1) < c->shape.own_parts) j->depth++;
    count_slots(j);
    if (!count_scratch(j, qkv_ceil_div(qkv_min64(rows, most), tile) * tile))
        return refuse(reason, size, QKV_ERR_LIMIT, "scratch does not fit into memory");
    j->w.block = j->block;
    j->w.scratch = j->scratch;
    j->w.scratch_thread = j->thread;
    return QKV_OK;
}

QKV_API struct qkv_attention_plan qkv_cache_plan(const qkv_cache *c, const struct qkv_attention *a)
{
    struct qkv_cache_job j;
    struct qkv_attention_plan p = { 0 };
    char reason[sizeof p.reason] = "";
    const qkv_status status = qkv_cache_resolve(&j, c, NULL, 0, a, reason, sizeof reason);
    if (!status) {
        qkv_attention_describe(&p, &j.w);
        p.kernel = "cached";
    }
    p.status = status;
    memcpy(p.reason, reason, sizeof reason);
    return p;
}
#endif
