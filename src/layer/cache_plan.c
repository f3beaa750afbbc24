// SPDX-License-Identifier: MIT
// cache_plan.c: what attention to a cache means: options, sizes, streams, scratch.
#include "layer/cache_work.h"
#include <stdio.h>
#include <string.h>

#ifndef QKV_DOUBLE
enum { STREAMS_A_THREAD = 4 }; // so many are shared out evenly enough
enum { SLOTS_A_THREAD = 32, SLOTS_LEAST = 4, SLOT_BYTES = 1 << 20 };

static qkv_status refuse(char *reason, size_t size, qkv_status status, const char *text)
{
    snprintf(reason, size, "%s", text);
    return status;
}

// a with what the cache knows; the lengths of the call are a's own or the cache's.
static qkv_status complete(struct qkv_attention *to, const struct qkv_attention *a,
                           const qkv_cache *c, char *reason, size_t size)
{
    const struct qkv_cache_shape *s = &c->shape;
    const int64_t longest = qkv_cache_length(c, QKV_CACHE_ALL);
    const int64_t pairs[][2] = { { a->B, s->B }, { a->S, longest },
                                 { a->G, s->G }, { a->E, s->E },
                                 { a->F, s->F }, { (int64_t)a->precision, (int64_t)s->precision } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] && pairs[i][0] != pairs[i][1])
            return refuse(
                reason, size, QKV_ERR_USAGE,
                "B, S, G, E, F or precision is not that of the cache, expected 0 or the same");
    if (a->sequences)
        return refuse(reason, size, QKV_ERR_UNSUPPORTED,
                      "packed sequences have no cache: it has items");
    if (a->dropout.p > 0)
        return refuse(reason, size, QKV_ERR_UNSUPPORTED,
                      "dropout belongs to training, where there is no cache");
    for (int64_t b = 0; a->k_lengths && b < s->B; b++)
        if (a->k_lengths[b] < 0 || a->k_lengths[b] > c->lengths[b])
            return refuse(reason, size, QKV_ERR_USAGE,
                          "a length of k_lengths is more than the cache has");
    *to = *a;
    to->B = s->B;
    to->S = longest;
    to->G = s->G;
    to->E = s->E;
    to->F = s->F;
    to->precision = s->precision;
    to->diagonal = QKV_BOTTOM_RIGHT;
    to->k_strides = to->v_strides = (struct qkv_strides){ 0 };
    if (!a->k_lengths) to->k_lengths = c->lengths;
    return QKV_OK;
}

static bool count_scratch(struct qkv_cache_job *j)
{
    const struct qkv_attention_work *w = &j->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const size_t block = (size_t)j->block, threads = (size_t)w->threads;
    size_t split;
    j->state = qkv_round_up(block * (size_t)k->width(w->a.F) * sizeof(real), 64) +
               2 * qkv_round_up(block * sizeof(real), 64) + qkv_round_up(block, 64);
    j->thread = (size_t)k->rows * QKV_CHUNK * sizeof(real) +
                (k->pack_query ? qkv_round_up(block * k->query_bytes(w->a.E), 64) : 0) + j->state;
    j->slots = 0;
    if (threads > 1 && j->streams < STREAMS_A_THREAD * (int64_t)threads) {
        const size_t fit = (size_t)SLOT_BYTES * threads / j->state;
        j->slots = qkv_max64(SLOTS_LEAST * (int64_t)threads,
                             qkv_min64(SLOTS_A_THREAD * (int64_t)threads, (int64_t)fit));
    }
    j->states = j->slots ? (size_t)j->streams * j->state : 0;
    j->table = j->slots ? qkv_round_up((size_t)(j->streams + 1) * sizeof(int64_t), 64) : 0;
    return qkv_mul_size(&j->scratch, threads, j->thread) &&
           qkv_mul_size(&split, (size_t)j->slots, j->state) &&
           qkv_add_size(&split, split, j->states + j->table) &&
           qkv_add_size(&j->scratch, j->scratch, split);
}

qkv_status qkv_cache_resolve(struct qkv_cache_job *j, const qkv_cache *c,
                             const struct qkv_attention *a, char *reason, size_t size)
{
    struct qkv_attention whole;
    if (!c || !a) return refuse(reason, size, QKV_ERR_USAGE, "no cache or no attention given");
    qkv_status status = complete(&whole, a, c, reason, size);
    if (!status) status = qkv_attention_resolve(&j->w, c->kernel, &whole, reason, size);
    if (status) return status;
    j->cache = c;
    // As few blocks as the cache of the CPU allows: each reads all keys.
    const int64_t rows = j->w.a.T * j->w.heads, tile = j->w.kernel->rows;
    const int64_t most = qkv_max64(QKV_BLOCK_LEAST, qkv_attention_block_most(&j->w.a));
    j->blocks = qkv_ceil_div(rows, most);
    j->block = qkv_ceil_div(qkv_ceil_div(rows, qkv_max64(1, j->blocks)), tile) * tile;
    if (__builtin_mul_overflow(j->w.a.B * j->w.a.G, j->blocks, &j->streams) || !count_scratch(j))
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
    const qkv_status status = qkv_cache_resolve(&j, c, a, reason, sizeof reason);
    if (!status) {
        qkv_attention_describe(&p, &j.w);
        p.kernel = "cached";
    }
    p.status = status;
    memcpy(p.reason, reason, sizeof reason);
    return p;
}
#endif
