// SPDX-License-Identifier: MIT
// ranks_pipeline.c: attention over ranks in memory n / P. Keys and values travel block by block, in
// the order in which one process reads them; each rank keeps the sums of its rows between blocks.
//
// A rank sends its keys of a block to all others, which receive them in the order of the keys. All
// ranks agree after they have received a block; only then is the next one sent. It waits in the
// transport while the ranks compute, so that a rank stores one block and the transport another.
#include "layer/ranks/ranks_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
static size_t key_bytes(const struct qkv_ranks_call *c, int64_t W)
{
    return (size_t)(c->whole.G * W) * c->size;
}

// Divides the keys of a batch item into blocks. Blocks begin at multiples of a chunk, counted from
// the first key of a sequence, so that each chunk is in one block.
static void divide(struct qkv_ranks_pipeline *x, const struct qkv_ranks_call *c)
{
    const struct qkv_attention *a = &c->whole;
    const size_t one = key_bytes(c, a->E) + key_bytes(c, a->F);
    const size_t chunks = qkv_ranks_block(c->comm) / one / (size_t)c->chunk;
    const int64_t keys = qkv_max64(1, (int64_t)chunks) * c->chunk;
    x->blocks = c->key_runs;
    x->blocks.runs = qkv_max64(1, qkv_ceil_div(a->S, keys));
    x->blocks.multiple = c->chunk;
    x->blocks.edges = NULL;
    x->most = qkv_min64(a->S, keys + c->chunk - 1);
}

bool qkv_ranks_pipeline_place(struct qkv_ranks_pipeline *x, const struct qkv_ranks_call *c,
                              struct qkv_arena *to)
{
    size_t most = 64;
    *x = (struct qkv_ranks_pipeline){ .c = c };
    divide(x, c);
    x->k = qkv_arena_alloc(to, (size_t)x->most, key_bytes(c, c->whole.E));
    x->v = qkv_arena_alloc(to, (size_t)x->most, key_bytes(c, c->whole.F));
    for (int i = 0; i < 2; i++) {
        struct qkv_attention_work *w = &x->w[i];
        const struct qkv_attention a = qkv_ranks_run(c, i);
        if (qkv_attention_resolve(w, qkv_attention_kernel_table(&a), &a, NULL, 0) ||
            !qkv_attention_place_sums(&x->sums[i], w, to))
            return false;
        x->lse[i] = qkv_arena_alloc(to, (size_t)(a.B * a.H * a.T), sizeof(float));
        most = most > w->scratch ? most : w->scratch;
    }
    x->own = qkv_arena_alloc(to, 1, most);
    return !qkv_arena_full(to);
}

qkv_status qkv_ranks_pipeline_check(const struct qkv_ranks_pipeline *x,
                                    const struct qkv_ranks_arrays *p, size_t scratch)
{
    const struct qkv_ranks_call *c = x->c;
    struct qkv_attention_work w = x->w[0];
    struct qkv_attention *a = &w.a; // all rows and keys of this rank
    if (!c->rows.all || !a->B) return QKV_OK;
    a->T = c->rows.all;
    a->S = c->keys.all;
    a->k_strides.b = a->S * a->k_strides.t;
    a->v_strides.b = a->S * a->v_strides.t;
    w.scratch = scratch;
    return qkv_attention_check_arrays(
        &w, &(struct qkv_attention_arrays){ p->out, p->q, p->k, p->v, p->scratch, p->lse, NULL });
}

// ---- blocks on their way -----------------------------------------------------------------------
struct block {
    int64_t b;         // batch item
    int64_t first, to; // keys
};
static struct block block_of(const struct qkv_ranks_pipeline *x, int64_t n)
{
    const int64_t i = n % x->blocks.runs;
    return (struct block){ n / x->blocks.runs, qkv_runs_edge(&x->blocks, i),
                           qkv_runs_edge(&x->blocks, i + 1) };
}

// The keys of a block that run c of all ranks has; n 0: none.
struct piece {
    int64_t rank, first, n;
    int64_t own; // index of the first key in the arrays k and v of this rank
};
static struct piece piece_of(const struct qkv_ranks_call *c, const struct block *block, int64_t run)
{
    const int64_t begin = qkv_runs_edge(&c->key_runs, run);
    const int64_t lo = qkv_max64(block->first, begin);
    const int64_t hi = qkv_min64(block->to, qkv_runs_edge(&c->key_runs, run + 1));
    const int64_t before = run >= c->key_runs.ranks ? c->keys.n[0] : 0;
    return (struct piece){ .rank = qkv_runs_rank(&c->key_runs, run),
                           .first = lo,
                           .n = qkv_max64(0, hi - lo),
                           .own = block->b * c->keys.all + before + lo - begin };
}

// Sends the keys of block n that this rank has to all others.
static qkv_status send_block(const struct qkv_ranks_pipeline *x, int64_t n,
                             const struct qkv_ranks_arrays *p)
{
    const struct qkv_ranks_call *c = x->c;
    const struct qkv_comm *comm = c->comm;
    const struct block block = block_of(x, n);
    const size_t key = key_bytes(c, c->whole.E), value = key_bytes(c, c->whole.F);
    qkv_status status = QKV_OK;
    for (int64_t run = 0; run < c->key_runs.runs; run++) {
        const struct piece m = piece_of(c, &block, run);
        if (!m.n || m.rank != comm->rank) continue;
        for (int64_t r = 0; r < comm->size && !status; r++) {
            if (r == comm->rank) continue;
            status = qkv_ranks_send(comm, r, (const char *)p->k + (size_t)m.own * key,
                                    (size_t)m.n * key);
            if (!status)
                status = qkv_ranks_send(comm, r, (const char *)p->v + (size_t)m.own * value,
                                        (size_t)m.n * value);
        }
    }
    return status;
}

// Receives block n into x->k and x->v.
static qkv_status receive_block(const struct qkv_ranks_pipeline *x, int64_t n,
                                const struct qkv_ranks_arrays *p)
{
    const struct qkv_ranks_call *c = x->c;
    const struct qkv_comm *comm = c->comm;
    const struct block block = block_of(x, n);
    const size_t key = key_bytes(c, c->whole.E), value = key_bytes(c, c->whole.F);
    qkv_status status = QKV_OK;
    for (int64_t run = 0; run < c->key_runs.runs && !status; run++) {
        const struct piece m = piece_of(c, &block, run);
        const size_t at = (size_t)(m.first - block.first), many = (size_t)m.n;
        if (!m.n) continue;
        if (m.rank == comm->rank) {
            memcpy(x->k + at * key, (const char *)p->k + (size_t)m.own * key, many * key);
            memcpy(x->v + at * value, (const char *)p->v + (size_t)m.own * value, many * value);
            continue;
        }
        status = qkv_ranks_receive(comm, m.rank, x->k + at * key, many * key);
        if (!status) status = qkv_ranks_receive(comm, m.rank, x->v + at * value, many * value);
    }
    return status;
}

// ---- computing ---------------------------------------------------------------------------------
// Adds block n to the sums of the rank's rows.
static void compute(const struct qkv_ranks_pipeline *x, int64_t n, const struct qkv_ranks_arrays *p)
{
    const struct block block = block_of(x, n);
    const int64_t i_block = n % x->blocks.runs;
    for (int i = 0; i < 2; i++) {
        const struct qkv_attention_work *w = &x->w[i];
        const size_t before = i ? (size_t)x->c->rows.n[0] * w->size : 0;
        if (!w->a.T) continue;
        const struct qkv_attention_part part = { .b = block.b,
                                                 .first = block.first,
                                                 .n = block.to - block.first,
                                                 .begin = i_block == 0,
                                                 .finish = i_block == x->blocks.runs - 1,
                                                 .sums = x->sums[i] };
        qkv_attention_run_part(
            (char *)p->out + before * (size_t)w->a.out_strides.t, p->lse ? x->lse[i] : NULL,
            (const char *)p->q + before * (size_t)w->a.q_strides.t, x->k, x->v, w, &part, x->own);
    }
}

qkv_status qkv_ranks_pipeline_run(const struct qkv_ranks_pipeline *x,
                                  const struct qkv_ranks_arrays *p)
{
    const struct qkv_ranks_call *c = x->c;
    const int64_t all = c->whole.B * x->blocks.runs;
    qkv_status status = all ? send_block(x, 0, p) : QKV_OK;
    for (int64_t n = 0; n < all && !status; n++) {
        status = receive_block(x, n, p);
        status = qkv_ranks_agree(c->comm, status); // now every rank has the block
        if (!status && n + 1 < all) status = send_block(x, n + 1, p);
        if (!status) compute(x, n, p);
    }
    for (int i = 0; i < 2 && p->lse && !status && !c->whole.no_softmax; i++)
        qkv_ranks_lse(c, i, x->lse[i], p->lse, true);
    return status;
}
#endif
