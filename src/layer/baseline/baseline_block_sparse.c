// SPDX-License-Identifier: MIT
// baseline_block_sparse.c: computes softmax attention over a sparse pattern of key blocks.
//
// A unit, the work of one thread, is a block of queries for all query heads that share a key head.
// The key blocks that it sees are packed consecutively, in ascending order, into chunks as in exact
// attention. The kernels and the online softmax of exact attention then run on these chunks. With a
// causal mask, the block with the same index as the query block is the last one, so that the
// columns that a row sees are the first columns.
#include "layer/attention/attention_rows_work.h"
#include "layer/baseline/baseline_work.h"
#include <math.h>
#include <string.h>

#ifndef QKV_DOUBLE
// ---- pattern -----------------------------------------------------------------------------------
// Inserts x into the ascending list of n numbers, unless the list contains x already; returns the
// new length.
static int64_t put(int64_t *list, int64_t n, int64_t x)
{
    int64_t at = n;
    while (at > 0 && list[at - 1] > x) at--;
    if (at > 0 && list[at - 1] == x) return n;
    memmove(list + at + 1, list + at, (size_t)(n - at) * sizeof *list);
    list[at] = x;
    return n + 1;
}

// Inserts s->random key blocks with an index below `most` that are not in the list[n] yet; each
// such block has the same probability. Returns the new length of the list.
static int64_t put_random(int64_t *list, int64_t n, int64_t most, const struct qkv_block_sparse *s,
                          int64_t g, int64_t i)
{
    const uint64_t place = (uint64_t)i * (uint64_t)((s->random + 3) / 4);
    for (int64_t r = 0; r < s->random && n < most; r++) {
        uint32_t word[4];
        qkv_philox(word, s->seed, (uint64_t)g, place + (uint64_t)(r / 4));
        int64_t x = (int64_t)(((uint64_t)word[r % 4] * (uint64_t)(most - n)) >> 32);
        // turns x into the x-th block that is not in the list yet
        for (int64_t j = 0; j < n && list[j] <= x; j++) x++;
        n = put(list, n, x);
    }
    return n;
}

static int64_t list_row(int64_t *list, const struct qkv_block_sparse *s, int64_t blocks, int64_t g,
                        int64_t i)
{
    const int64_t most = s->causal ? i + 1 : blocks;
    int64_t n = 0;
    if (i < s->global) { // blocks below `global` see all blocks
        for (; n < most; n++) list[n] = n;
        return n;
    }
    for (int64_t j = 0; j < qkv_min64(s->global, most); j++) list[n++] = j;
    const int64_t from = i - qkv_min64(s->window, i), to = most - 1 - i;
    for (int64_t j = from; j <= i + qkv_min64(s->window, to); j++) n = put(list, n, j);
    return put_random(list, n, most, s, g, i);
}

QKV_API int64_t qkv_block_sparse_row(int64_t *blocks, const struct qkv_block_sparse *s, int64_t g,
                                     int64_t i)
{
    const struct qkv_baseline_plan p = qkv_block_sparse_plan(s);
    if (!blocks || p.status || g < 0 || g >= (s->G ? s->G : s->H) || i < 0) return 0;
    const int64_t all = qkv_ceil_div(s->T, s->block);
    return i < all ? list_row(blocks, s, all, g, i) : 0;
}

// ---- plan --------------------------------------------------------------------------------------
struct call {
    struct qkv_rows_call r;
    struct qkv_attention_work w;
    const struct qkv_block_sparse *s;
    const float *k, *v;
    char *scratch;
    int64_t blocks, rows; // number of blocks; most rows of a block
    size_t thread;        // bytes of a thread's workspace
};
struct unit {
    struct qkv_rows r;
    struct qkv_rows_sums sums;
    const struct call *c;
    int64_t block;
    // list: [blocks] the key blocks that the unit sees; from: [chunk] the index of the key in each
    // column of the chunk
    int64_t *list, *from;
    char *keys, *values, *queries;
    size_t row_bytes;
    bool finite; // true: all values of the chunk are finite
};

static bool place(struct unit *u, struct qkv_arena *arena)
{
    const struct qkv_attention_work *w = &u->c->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const int64_t rows = u->c->rows + k->rows, width = k->width(w->a.F);
    u->row_bytes = k->pack_query ? k->query_bytes(w->a.E) : (size_t)w->a.E * w->size;
    u->list = qkv_arena_alloc(arena, (size_t)u->c->blocks, sizeof *u->list);
    u->from = qkv_arena_alloc(arena, (size_t)w->chunk, sizeof *u->from);
    u->keys = qkv_arena_alloc(arena, (size_t)w->chunk, k->key_bytes(w->a.E));
    u->values = qkv_arena_alloc(arena, (size_t)w->chunk, k->value_bytes(w->a.F));
    u->queries = qkv_arena_alloc(arena, k->pack_query ? (size_t)rows : 0, u->row_bytes);
    u->sums.o = qkv_arena_alloc(arena, (size_t)rows * (size_t)width, sizeof(real));
    u->r.s = qkv_arena_alloc(arena, (size_t)k->rows * QKV_CHUNK, sizeof(real));
    u->sums.top = qkv_arena_alloc(arena, (size_t)rows, sizeof(real));
    u->sums.sum = qkv_arena_alloc(arena, (size_t)rows, sizeof(real));
    u->sums.begun = qkv_arena_alloc(arena, (size_t)rows, 1);
    return !qkv_arena_full(arena);
}

// Returns the operations of both matrix products. It assumes that every query block sees as many
// key blocks as the pattern requests.
static double flops_of(const struct qkv_block_sparse *s, const struct qkv_attention_work *w)
{
    const double blocks = (double)qkv_ceil_div(s->T, s->block);
    const double each =
        fmin(blocks, 1 + 2 * (double)s->window + (double)s->global + (double)s->random);
    const double seeing = fmin(blocks, (double)s->global);
    const double all = (seeing * blocks + (blocks - seeing) * each) * (s->causal ? 0.5 : 1);
    const double pairs = all * (double)s->block * (double)s->block;
    return 2 * pairs * (double)w->a.B * (double)w->a.H * ((double)w->a.E + (double)w->a.F);
}

static struct qkv_baseline_plan resolve(struct call *c, const struct qkv_block_sparse *s)
{
    struct qkv_baseline_plan p = { 0 };
    struct qkv_baseline_heads h = { s->B, s->T, s->T, s->H, s->G, s->E, s->F, 0, 0, 0, 0 };
    qkv_baseline_heads(&h, &p);
    qkv_baseline_size(&p, "block", s->block, 1);
    qkv_baseline_size(&p, "window", s->window, 0);
    qkv_baseline_size(&p, "global", s->global, 0);
    qkv_baseline_size(&p, "random", s->random, 0);
    if (p.status) return p;
    const struct qkv_attention a = { .B = s->B,
                                     .T = s->T,
                                     .S = s->T,
                                     .H = s->H,
                                     .G = s->G,
                                     .E = s->E,
                                     .F = s->F,
                                     .scale = s->scale,
                                     .causal = s->causal };
    char why[sizeof p.reason] = "";
    const qkv_status status =
        qkv_attention_resolve(&c->w, qkv_attention_kernel_table(&a), &a, why, sizeof why);
    if (status) {
        qkv_baseline_refuse(&p, status, "%s", why);
        return p;
    }
    c->s = s;
    c->r.w = &c->w;
    c->blocks = qkv_ceil_div(s->T, s->block);
    c->rows = qkv_baseline_count(&p, qkv_min64(s->block, s->T), c->w.heads, 1, 1);
    struct unit u = { .c = c };
    struct qkv_arena one = { NULL, SIZE_MAX, 0 }, all = { NULL, SIZE_MAX, 0 };
    c->thread = place(&u, &one) ? one.used : SIZE_MAX;
    qkv_arena_alloc(&all, (size_t)c->w.threads, c->thread);
    qkv_baseline_scratch(&p, &all);
    p.flops = flops_of(s, &c->w);
    return p;
}

QKV_API struct qkv_baseline_plan qkv_block_sparse_plan(const struct qkv_block_sparse *s)
{
    struct call c = { .s = s };
    struct qkv_baseline_plan none = { 0 };
    if (s) return resolve(&c, s);
    qkv_baseline_refuse(&none, QKV_ERR_USAGE, "the pattern is NULL");
    return none;
}

// ---- a unit ------------------------------------------------------------------------------------
static const float *key(const struct unit *u, int64_t s)
{
    const struct qkv_attention *a = &u->c->w.a;
    return u->c->k + ((u->r.item.b * a->S + s) * a->G + u->r.g) * a->E;
}
static const float *value(const struct unit *u, int64_t s)
{
    const struct qkv_attention *a = &u->c->w.a;
    return u->c->v + ((u->r.item.b * a->S + s) * a->G + u->r.g) * a->F;
}

// Packs keys s .. s+n-1 and their values; in the chunk they become columns at .. at+n-1.
static void pack(struct unit *u, int64_t s, int64_t at, int64_t n)
{
    const struct qkv_attention_work *w = &u->c->w;
    const struct qkv_attention *a = &w->a;
    w->kernel->pack_keys(u->keys, key(u, s), a->G * a->E, at, n, a->E);
    if (!w->kernel->pack_values(u->values, value(u, s), a->G * a->F, at, n, w->chunk, a->F))
        u->finite = false;
    for (int64_t i = 0; i < n; i++) u->from[at + i] = s + i;
}

// Adds nonfinite values to the sums of the rows that see them; the packed values contain 0 in their
// place.
static void add_not_finite(const struct unit *u, const struct qkv_rows_group *p, const real *now)
{
    const int64_t F = u->c->w.a.F, width = u->c->w.kernel->width(F);
    for (int32_t j = p->from; j < p->to; j++) {
        const float *v = value(u, u->from[j]);
        for (int64_t f = 0; f < F; f++)
            for (int i = 0; i < p->rows && !isfinite(v[f]); i++)
                if (j < p->hi[i])
                    u->sums.o[(p->first + i) * width + f] +=
                        now[i] * (qkv_rows_probability(&u->r, i, j) * v[f]);
    }
}

// Processes all groups of rows with a chunk of n keys. With a causal mask, query number t of the
// unit sees columns 0 .. own + t: `own` is the column of the key whose index is that of the unit's
// first query.
static void run_chunk(struct unit *u, int64_t n, int64_t own)
{
    const struct qkv_attention_work *w = &u->c->w;
    for (int64_t g = 0; g < u->r.groups; g++) {
        struct qkv_rows_group p = { .g = g, .n = 1 };
        struct qkv_rows_packed from = { .keys = u->keys, .values = u->values };
        real now[QKV_TILE_ROWS_MAX];
        p.first = qkv_attention_group(g, u->r.rows, u->r.groups);
        p.rows = (int)(qkv_attention_group(g + 1, u->r.rows, u->r.groups) - p.first);
        for (int i = 0; i < p.rows; i++) {
            const int64_t row = p.first + i;
            const int64_t sees = own + qkv_rows_token(&u->r, row) + 1;
            p.hi[i] = (int32_t)(w->a.causal ? qkv_max64(qkv_min64(n, sees), 0) : n);
            if (p.hi[i] > p.to) p.to = p.hi[i];
            from.q[i] = w->kernel->pack_query
                            ? u->queries + (size_t)row * u->row_bytes
                            : u->c->r.q + qkv_rows_row(&u->r, &w->a.q_strides, row);
        }
        if (!p.to) continue;
        const int32_t lanes = w->kernel->lanes;
        p.spans[0] = (struct qkv_columns){ 0, (p.to + lanes - 1) / lanes * lanes };
        qkv_rows_run(&u->r, &p, &from, &u->sums, true, now);
        if (!u->finite) add_not_finite(u, &p, now);
    }
}

// Packs the key blocks of the list consecutively into chunks, and processes each chunk. A block may
// begin in one chunk and end in the next chunk.
static void run_list(struct unit *u, int64_t blocks)
{
    const struct qkv_block_sparse *s = u->c->s;
    const int64_t chunk = u->c->w.chunk;
    // own = T is larger than every column, so all columns are visible until the unit's own block
    int64_t used = 0, own = s->T;
    u->finite = true;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t at = u->list[b] * s->block;
        const int64_t end = qkv_min64(at + s->block, s->T);
        while (at < end) {
            const int64_t n = qkv_min64(end - at, chunk - used);
            if (u->list[b] == u->block) own = used - (at - u->block * s->block);
            pack(u, at, used, n);
            used += n;
            at += n;
            if (used < chunk && (at < end || b + 1 < blocks)) continue;
            run_chunk(u, used, own);
            used = 0;
            u->finite = true;
        }
    }
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    const struct qkv_attention_work *w = &c->w;
    struct unit u = { .r.call = &c->r, .c = c };
    struct qkv_arena arena = { c->scratch + (size_t)thread * c->thread, c->thread, 0 };
    place(&u, &arena);
    u.r.item = qkv_attention_item(w, i / (w->a.G * c->blocks));
    u.r.g = i / c->blocks % w->a.G;
    u.block = c->blocks - 1 - i % c->blocks;
    // the units with the most keys run first
    if (c->s->global > 0 && !c->s->causal) u.block = i % c->blocks;
    const int64_t first = u.block * c->s->block;
    u.r.item.row += first;
    u.r.item.T = qkv_min64(c->s->block, w->a.T - first);
    u.r.rows = u.r.item.T * w->heads;
    u.r.groups = qkv_ceil_div(u.r.rows, w->kernel->rows);
    const int64_t blocks = list_row(u.list, c->s, c->blocks, u.r.g, u.block);
    for (int64_t r = 0; w->kernel->pack_query && r < u.r.rows; r++)
        w->kernel->pack_query(u.queries + (size_t)r * u.row_bytes,
                              c->r.q + qkv_rows_row(&u.r, &w->a.q_strides, r), w->a.E);
    qkv_rows_begin_sums(&u.r, &u.sums);
    run_list(&u, blocks);
    for (int64_t g = 0; g < u.r.groups; g++) qkv_rows_finish(&u.r, &u.sums, g);
}

QKV_API qkv_status qkv_block_sparse_forward(float *out, float *lse, const float *q, const float *k,
                                            const float *v, const struct qkv_block_sparse *s,
                                            void *scratch)
{
    struct call c;
    if (!s) return QKV_ERR_USAGE;
    memset(&c, 0, sizeof c);
    const struct qkv_baseline_plan p = resolve(&c, s);
    if (p.status || !s->B || !s->T) return p.status;
    const struct qkv_attention *a = &c.w.a;
    const int64_t rows = a->B * a->T * a->H, keys = a->B * a->T * a->G;
    const struct qkv_baseline_array arrays[] = { { out, rows * a->F },
                                                 { lse, lse ? rows : 0 },
                                                 { q, rows * a->E },
                                                 { k, keys * a->E },
                                                 { v, keys * a->F } };
    if (!qkv_baseline_arrays(arrays, 2, 5, scratch, p.scratch)) return QKV_ERR_USAGE;
    c.r.out = (char *)out;
    c.r.lse = lse;
    c.r.q = (const char *)q;
    c.k = k;
    c.v = v;
    c.scratch = scratch;
    qkv_rows_exponent(&c.r);
    qkv_parallel_for_most(a->B * a->G * c.blocks, c.w.threads, run_unit, &c);
    return QKV_OK;
}
#endif
