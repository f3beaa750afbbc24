// SPDX-License-Identifier: MIT
// cache_forward.c: computes the attention of new tokens to a KV cache, whose chunks are already
// packed.
//
//   row block  a block of rows (row = t heads + h, as in attention_work.h) of one item and key/value
//           head, with the chunks that at least one of the rows sees
//
// If there are many row blocks, each row block is a unit (the work of one thread) and merges its chunks
// one after the other. If there are too few row blocks for all threads, each chunk of a row block is a
// unit: it stores its sums in a slot, and a second pass merges the slots in the order of the
// chunks. Both ways compute the same sums in the same order:
//
//   top' = max(top, top1);   sum, o  =  exp(top - top') (sum, o) + exp(top1 - top') (sum1, o1)
//
// The chunks are processed in waves of as many chunks as there are slots, so memory does not grow
// with the cache.
#include "layer/attention/attention_rows_work.h"
#include "layer/cache/cache_work.h"

#ifndef QKV_DOUBLE
// Data that all units share.
struct call {
    struct qkv_rows_call r;
    const struct qkv_cache_job *j;
    char *threads, *states, *slots;
    // [row_blocks + 1] number of chunks in all row blocks before each row block; used if chunks run in waves
    int64_t *starts;
    int64_t wave; // index of the first chunk of the wave
};

struct row_block {
    struct qkv_rows r;
    const struct call *c;
    // index of the cache item; r.item describes its place in the list of the call
    int64_t item;
    int64_t lo, hi;      // keys that at least one row sees: lo .. hi-1
    const char *queries; // packed rows of q; NULL: the caller's rows are read
};

// ---- addresses ---------------------------------------------------------------------------------
// Returns pointers to the sums of one block of rows, which are stored in the memory `at`.
static struct qkv_rows_sums state_at(const struct qkv_cache_job *j, char *at)
{
    struct qkv_arena a = { at, j->state, 0 };
    struct qkv_rows_sums s;
    s.o = qkv_arena_alloc(&a, (size_t)(j->block * j->w.kernel->width(j->w.a.F)), sizeof(real));
    s.top = qkv_arena_alloc(&a, (size_t)j->block, sizeof(real));
    s.sum = qkv_arena_alloc(&a, (size_t)j->block, sizeof(real));
    s.begun = qkv_arena_alloc(&a, (size_t)j->block, 1);
    return s;
}

static struct row_block row_block_at(const struct call *c, int64_t n)
{
    const struct qkv_cache_job *j = c->j;
    struct row_block u = { .r = { .call = &c->r, .g = n / j->blocks % j->w.a.G }, .c = c };
    u.r.item = qkv_attention_item(&j->w, n / j->blocks / j->w.a.G);
    u.item = qkv_cache_item_at(j, u.r.item.b);
    if (!j->w.a.k_lengths) {
        u.r.item.S = j->cache->lengths[u.item];
        u.r.item.shift = u.r.item.S - u.r.item.T;
    }
    u.r.row = n % j->blocks * j->block;
    u.r.rows = qkv_min64(j->block, j->w.a.T * j->w.heads - u.r.row);
    u.r.groups = qkv_ceil_div(u.r.rows, j->w.kernel->rows);
    // index of the first key that the cache has not removed
    u.r.first = j->cache->items[u.item].first;
    u.lo = qkv_rows_keys(&u.r, 0).lo;
    u.hi = qkv_rows_keys(&u.r, u.r.rows - 1).hi;
    return u;
}
static int64_t row_block_chunks(const struct row_block *u)
{
    const int64_t chunk = u->c->j->w.chunk;
    return u->lo < u->hi ? qkv_ceil_div(u->hi, chunk) - u->lo / chunk : 0;
}

// ---- one group in one chunk --------------------------------------------------------------------
// Adds nonfinite values to the sums of the rows that attend to them; the packed values contain 0 in
// their place.
static void add_odd(const struct row_block *u, const struct qkv_rows_group *p, const real *now,
                    real *o)
{
    const struct qkv_cache_item *m = &u->c->j->cache->items[u->item];
    const int64_t width = u->c->j->w.kernel->width(u->c->j->w.a.F);
    int64_t lo = 0, hi = m->odds; // finds the first entry of the chunk by binary search
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (m->odd[middle].key < p->chunk)
            lo = middle + 1;
        else
            hi = middle;
    }
    for (; lo < m->odds && m->odd[lo].key < p->chunk + p->to; lo++) {
        const struct qkv_cache_odd *x = &m->odd[lo];
        const int32_t j = (int32_t)(x->key - p->chunk);
        for (int i = 0; x->g == u->r.g && i < p->rows; i++)
            if (qkv_rows_sees(&u->r, p, i, j))
                o[i * width + x->f] += now[i] * (qkv_rows_probability(&u->r, i, j) * x->x);
    }
}

static const char *query(const struct row_block *u, int64_t row)
{
    const struct qkv_cache_job *j = u->c->j;
    if (u->queries) return u->queries + (size_t)row * j->w.kernel->query_bytes(j->w.a.E);
    return u->c->r.q + qkv_rows_row(&u->r, &j->w.a.q_strides, row);
}

// Processes group g of the row block with one chunk. merge true: merges the result into the sums `to`;
// merge false: sets `to` to the sums of this chunk alone.
static void run_group(const struct row_block *u, int64_t g, int64_t chunk,
                      const struct qkv_rows_sums *to, bool merge)
{
    struct qkv_rows_group p;
    struct qkv_rows_packed from;
    const struct qkv_attention_work *w = &u->c->j->w;
    const qkv_cache *cache = u->c->j->cache;
    real now[QKV_TILE_ROWS_MAX];
    if (!qkv_rows_find(&u->r, g, chunk, &p)) return;
    from.keys = qkv_cache_keys(cache, u->item, u->r.g, chunk / w->chunk);
    from.values = qkv_cache_values(cache, u->item, u->r.g, chunk / w->chunk);
    for (int i = 0; i < p.rows; i++) from.q[i] = query(u, p.first + i);
    qkv_rows_run(&u->r, &p, &from, to, merge, now);
    if (cache->items[u->item].odds) add_odd(u, &p, now, to->o + p.first * w->kernel->width(w->a.F));
}

// ---- row blocks as units --------------------------------------------------------------------------
// Sets the pointers of *u to the workspace of a thread and packs the rows of q there. Returns the
// sums in this workspace, which a row block uses if it is a unit.
static struct qkv_rows_sums take_thread(struct row_block *u, int thread)
{
    const struct qkv_attention_work *w = &u->c->j->w;
    struct qkv_arena a = { u->c->threads + (size_t)thread * u->c->j->thread, u->c->j->thread, 0 };
    u->r.s = qkv_arena_alloc(&a, (size_t)w->kernel->rows * QKV_CHUNK, sizeof(real));
    if (w->kernel->pack_query) {
        const size_t each = w->kernel->query_bytes(w->a.E);
        char *to = qkv_arena_alloc(&a, (size_t)u->c->j->block, each);
        for (int64_t r = 0; r < u->r.rows; r++)
            w->kernel->pack_query(to + (size_t)r * each,
                                  u->c->r.q + qkv_rows_row(&u->r, &w->a.q_strides, r), w->a.E);
        u->queries = to;
    }
    return state_at(u->c->j, a.base + a.used);
}

// Runs a whole row block as one unit.
static void run_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const int64_t keys = c->j->w.chunk;
    struct row_block u = row_block_at(c, n);
    const struct qkv_rows_sums to = take_thread(&u, thread);
    qkv_rows_begin_sums(&u.r, &to);
    qkv_rows_begin_weights(&u.r);
    for (int64_t chunk = u.lo / keys * keys; chunk < u.hi; chunk += keys)
        for (int64_t g = 0; g < u.r.groups; g++) run_group(&u, g, chunk, &to, true);
    for (int64_t g = 0; g < u.r.groups; g++) qkv_rows_finish(&u.r, &to, g);
}

// ---- waves of chunks ---------------------------------------------------------------------------
static struct qkv_rows_sums row_block_state(const struct call *c, int64_t n)
{
    return state_at(c->j, c->states + (size_t)n * c->j->state);
}
static struct qkv_rows_sums slot_state(const struct call *c, int64_t n)
{
    return state_at(c->j, c->slots + (size_t)n * c->j->state);
}

static void begin_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct row_block u = row_block_at(c, n);
    const struct qkv_rows_sums to = row_block_state(c, n);
    (void)thread;
    qkv_rows_begin_sums(&u.r, &to);
    qkv_rows_begin_weights(&u.r);
}

// Computes the sums of chunk i of the wave and stores them in slot i.
static void run_chunk(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    int64_t lo = 0, hi = c->j->row_blocks; // invariant: starts[lo] <= wave + i < starts[hi]
    while (hi - lo > 1) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (c->starts[middle] <= c->wave + i)
            lo = middle;
        else
            hi = middle;
    }
    struct row_block u = row_block_at(c, lo);
    const struct qkv_rows_sums to = slot_state(c, i);
    const int64_t chunk = u.lo / c->j->w.chunk + c->wave + i - c->starts[lo];
    take_thread(&u, thread);
    qkv_rows_begin_sums(&u.r, &to);
    for (int64_t g = 0; g < u.r.groups; g++) run_group(&u, g, chunk * c->j->w.chunk, &to, false);
}

// Merges the slots of row block n, which contain the sums of chunks of this wave, into the sums of the
// row block, in the order of the chunks.
static void merge_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct qkv_attention_work *w = &c->j->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const struct row_block u = row_block_at(c, n);
    const struct qkv_rows_sums to = row_block_state(c, n);
    const int64_t width = k->width(w->a.F);
    const int64_t end = qkv_min64(c->starts[n + 1], c->wave + c->j->slots);
    real old[QKV_TILE_ROWS_MAX], now[QKV_TILE_ROWS_MAX];
    (void)thread;
    for (int i = 0; i < QKV_TILE_ROWS_MAX; i++) old[i] = now[i] = 1;
    for (int64_t x = qkv_max64(c->starts[n], c->wave); x < end; x++) {
        const struct qkv_rows_sums from = slot_state(c, x - c->wave);
        for (int64_t g = 0; g < u.r.groups; g++) {
            const int64_t r = qkv_attention_group(g, u.r.rows, u.r.groups);
            const int rows = (int)(qkv_attention_group(g + 1, u.r.rows, u.r.groups) - r);
            if (!from.begun[g]) continue;
            if (!w->a.no_softmax)
                k->merge(to.top + r, to.sum + r, old, now, from.top + r, from.sum + r, rows,
                         c->r.c);
            for (int i = 0; w->a.no_softmax && i < rows; i++) to.sum[r + i] = 1;
            k->join(to.o + r * width, to.begun[g] ? old : NULL, now, from.o + r * width, rows,
                    width);
            to.begun[g] = 1;
        }
    }
}

static void finish_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct row_block u = row_block_at(c, n);
    const struct qkv_rows_sums from = row_block_state(c, n);
    (void)thread;
    for (int64_t g = 0; g < u.r.groups; g++) qkv_rows_finish(&u.r, &from, g);
}

static void run_waves(struct call *c)
{
    const int64_t row_blocks = c->j->row_blocks, all = c->starts[row_blocks];
    const int threads = c->j->w.threads;
    qkv_parallel_for_most(row_blocks, threads, begin_row_block, c);
    for (c->wave = 0; c->wave < all; c->wave += c->j->slots) {
        qkv_parallel_for_most(qkv_min64(c->j->slots, all - c->wave), threads, run_chunk, c);
        qkv_parallel_for_most(row_blocks, threads, merge_row_block, c);
    }
    qkv_parallel_for_most(row_blocks, threads, finish_row_block, c);
}

// ---- the call ----------------------------------------------------------------------------------
static qkv_status forward(void *out, real *lse, real *weights, const void *q,
                          const qkv_cache *cache, const int64_t *items, int64_t count,
                          const struct qkv_attention *a, void *scratch)
{
    struct qkv_cache_job j;
    char reason[1];
    qkv_status status = qkv_cache_resolve(&j, cache, items, count, a, reason, sizeof reason);
    if (!status && j.row_blocks)
        status = qkv_attention_check_arrays(
            &j.w, &(struct qkv_attention_arrays){ out, q, NULL, NULL, scratch, lse, weights });
    if (status || !j.row_blocks) return status;
    struct call c = { .r = { .w = &j.w, .out = out, .lse = lse, .weights = weights, .q = q },
                      .j = &j };
    qkv_rows_exponent(&c.r);
    c.threads = scratch;
    c.states = c.threads + (size_t)j.w.threads * j.thread;
    c.slots = c.states + j.states;
    c.starts = (int64_t *)(void *)(c.slots + (size_t)j.slots * j.state);
    if (j.slots) {
        c.starts[0] = 0;
        for (int64_t n = 0; n < j.row_blocks; n++) {
            const struct row_block u = row_block_at(&c, n);
            c.starts[n + 1] = c.starts[n] + row_block_chunks(&u);
        }
    }
    // If row blocks have at most two chunks on average, the second pass would take longer than waves
    // save.
    if (j.slots && c.starts[j.row_blocks] > 2 * j.row_blocks)
        run_waves(&c);
    else
        qkv_parallel_for_most(j.row_blocks, j.w.threads, run_row_block, &c);
    return QKV_OK;
}

QKV_API qkv_status qkv_cache_forward(void *out, float *lse, float *weights, const void *q,
                                     const qkv_cache *cache, const struct qkv_attention *a,
                                     void *scratch)
{
    return forward(out, lse, weights, q, cache, NULL, 0, a, scratch);
}

QKV_API qkv_status qkv_cache_forward_some(void *out, float *lse, float *weights, const void *q,
                                          const qkv_cache *cache, const int64_t *items,
                                          int64_t count, const struct qkv_attention *a,
                                          void *scratch)
{
    static const int64_t none;
    if (!items && count) return QKV_ERR_USAGE;
    return forward(out, lse, weights, q, cache, items ? items : &none, count, a, scratch);
}
#endif
