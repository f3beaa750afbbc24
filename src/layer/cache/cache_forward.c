// SPDX-License-Identifier: MIT
// cache_forward.c: computes the attention of new tokens to a KV cache, whose chunks are already
// packed.
//
//   row block  a block of rows (row = t heads + h, as in attention_work.h) of one item and key/value
//              head, with the chunks that at least one of the rows sees
//   lane       the chunks of a row block that are in one part (cache_work.h)
//
// If there are many row blocks, each row block is a unit (the work of one thread): it merges the
// chunks of each lane one after the other, and adds the lanes in a tree. If there are too few row
// blocks for all threads, each chunk of a row block is a unit: it stores its sums in a slot, and a
// second pass merges the slots of each lane in the order of the chunks. Both ways compute the same
// sums in the same order:
//
//   top' = max(top, top1);   sum, o  =  exp(top - top') (sum, o) + exp(top1 - top') (sum1, o1)
//
// The chunks are processed in waves of as many chunks as there are slots, so memory does not grow
// with the cache.
#include "layer/attention/attention_rows_work.h"
#include "layer/cache/cache_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
// Data that all units share.
struct call {
    struct qkv_rows_call r;
    const struct qkv_cache_job *j;
    // the nodes to compute; to[nodes]: memory for the sums of each; to NULL: all parts are one node,
    // from which out and lse are written
    const struct qkv_cache_node *node;
    int nodes;
    char *const *to;
    char *threads, *states, *slots;
    // [lanes + 1] number of chunks in all lanes before each lane; used if chunks run in waves
    int64_t *starts;
    int64_t lanes; // number of lanes: the own parts of row block 0, then of row block 1, ...
    int64_t wave;  // index of the first chunk of the wave
};

struct row_block {
    struct qkv_rows r;
    const struct call *c;
    // index of the cache item; r.item describes its place in the list of the call
    int64_t item;
    int64_t lo, hi;      // keys that at least one row sees: lo .. hi-1
    const char *queries; // packed rows of q; NULL: the caller's rows are read
    char *stack;         // [depth] sums of nodes in the workspace of a thread
};

// ---- addresses ---------------------------------------------------------------------------------
// Returns pointers to the sums of `rows` rows, which are stored in the memory `at`.
static struct qkv_rows_sums sums_at(const struct qkv_cache_job *j, char *at, int64_t rows)
{
    struct qkv_arena a = { at, SIZE_MAX, 0 };
    struct qkv_rows_sums s;
    s.o = qkv_arena_alloc(&a, (size_t)(rows * j->w.kernel->width(j->w.a.F)), sizeof(real));
    s.top = qkv_arena_alloc(&a, (size_t)rows, sizeof(real));
    s.sum = qkv_arena_alloc(&a, (size_t)rows, sizeof(real));
    s.begun = qkv_arena_alloc(&a, (size_t)rows, 1);
    return s;
}
static struct qkv_rows_sums state_at(const struct qkv_cache_job *j, char *states, int64_t n)
{
    return sums_at(j, states + (size_t)n * j->state, j->block);
}

// Rows of a row block at most.
static int64_t most_rows(const struct qkv_cache_job *j)
{
    return qkv_min64(j->block, j->w.a.T * j->w.heads);
}
size_t qkv_cache_sums_bytes(const struct qkv_cache_job *j)
{
    return (size_t)j->row_blocks * qkv_cache_state_bytes(&j->w, most_rows(j));
}
// Returns pointers to the sums of row block n in the sums of a node.
static struct qkv_rows_sums node_sums(const struct qkv_cache_job *j, char *node, int64_t n)
{
    const int64_t rows = most_rows(j);
    return sums_at(j, node + (size_t)n * qkv_cache_state_bytes(&j->w, rows), rows);
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

// The chunks first, first + parts, ... of a lane, which has n of them.
struct lane {
    int64_t first, n;
};
static struct lane lane_of(const struct row_block *u, int64_t part)
{
    const int64_t chunk = u->c->j->w.chunk, parts = u->c->j->cache->shape.parts;
    const int64_t from = u->lo / chunk, end = qkv_ceil_div(u->hi, chunk);
    struct lane x = { from + (part - from % parts + parts) % parts, 0 };
    if (u->lo < u->hi && x.first < end) x.n = (end - 1 - x.first) / parts + 1;
    return x;
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

// ---- adding sums -------------------------------------------------------------------------------
// Adds the sums `from` of keys to the sums `to` of keys before them.
static void add_sums(const struct row_block *u, const struct qkv_rows_sums *to,
                     const struct qkv_rows_sums *from)
{
    const struct qkv_attention_work *w = &u->c->j->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const int64_t width = k->width(w->a.F);
    real old[QKV_TILE_ROWS_MAX], now[QKV_TILE_ROWS_MAX];
    for (int i = 0; i < QKV_TILE_ROWS_MAX; i++) old[i] = now[i] = 1;
    for (int64_t g = 0; g < u->r.groups; g++) {
        const int64_t r = qkv_attention_group(g, u->r.rows, u->r.groups);
        const int rows = (int)(qkv_attention_group(g + 1, u->r.rows, u->r.groups) - r);
        if (!from->begun[g]) continue;
        if (!w->a.no_softmax)
            k->merge(to->top + r, to->sum + r, old, now, from->top + r, from->sum + r, rows,
                     u->c->r.c);
        for (int i = 0; w->a.no_softmax && i < rows; i++) to->sum[r + i] = 1;
        k->join(to->o + r * width, to->begun[g] ? old : NULL, now, from->o + r * width, rows,
                width);
        to->begun[g] = 1;
    }
}

// Completes node i of a row block: stores its sums for another rank, or writes the results.
static void give_node(const struct row_block *u, int64_t n, int i, const struct qkv_rows_sums *from)
{
    const struct qkv_attention_work *w = &u->c->j->w;
    const size_t width = (size_t)w->kernel->width(w->a.F), rows = (size_t)u->r.rows;
    for (int64_t g = 0; !u->c->to && g < u->r.groups; g++) qkv_rows_finish(&u->r, from, g);
    if (!u->c->to) return;
    const struct qkv_rows_sums to = node_sums(u->c->j, u->c->to[i], n);
    memcpy(to.top, from->top, rows * sizeof(real));
    memcpy(to.sum, from->sum, rows * sizeof(real));
    memcpy(to.begun, from->begun, (size_t)u->r.groups);
    for (int64_t g = 0; g < u->r.groups; g++) { // rows that saw no key have no sums
        const size_t r = (size_t)qkv_attention_group(g, u->r.rows, u->r.groups);
        const size_t end = (size_t)qkv_attention_group(g + 1, u->r.rows, u->r.groups);
        if (from->begun[g])
            memcpy(to.o + r * width, from->o + r * width, (end - r) * width * sizeof(real));
    }
}

// ---- row blocks as units -----------------------------------------------------------------------
// Sets the pointers of *u to the workspace of a thread and packs the rows of q there.
static void take_thread(struct row_block *u, int thread)
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
    u->stack = a.base + a.used;
}

// Computes the sums of a node as number `depth` of the stack; the numbers after it are used.
static struct qkv_rows_sums sum_node(const struct row_block *u, struct qkv_cache_node node,
                                     int64_t depth)
{
    const struct qkv_cache_job *j = u->c->j;
    const struct qkv_rows_sums to = state_at(j, u->stack, depth);
    if (node.end - node.from == 1) {
        const struct lane x = lane_of(u, node.from);
        qkv_rows_begin_sums(&u->r, &to);
        for (int64_t i = 0; i < x.n; i++)
            for (int64_t g = 0; g < u->r.groups; g++)
                run_group(u, g, (x.first + i * j->cache->shape.parts) * j->w.chunk, &to, true);
        return to;
    }
    const int64_t half = qkv_cache_half(node);
    sum_node(u, (struct qkv_cache_node){ node.from, half }, depth);
    const struct qkv_rows_sums right =
        sum_node(u, (struct qkv_cache_node){ half, node.end }, depth + 1);
    add_sums(u, &to, &right);
    return to;
}

// Runs a whole row block as one unit.
static void run_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    struct row_block u = row_block_at(c, n);
    take_thread(&u, thread);
    qkv_rows_begin_weights(&u.r);
    for (int i = 0; i < c->nodes; i++) {
        const struct qkv_rows_sums from = sum_node(&u, c->node[i], 0);
        give_node(&u, n, i, &from);
    }
}

// ---- waves of chunks ---------------------------------------------------------------------------
// Returns the sums of a part of row block n.
static struct qkv_rows_sums lane_state(const struct call *c, int64_t n, int64_t part)
{
    const struct qkv_cache_shape *s = &c->j->cache->shape;
    return state_at(c->j, c->states, n * s->own_parts + part - s->first_part);
}
static int64_t lane_block(const struct call *c, int64_t lane)
{
    return lane / c->j->cache->shape.own_parts;
}
static int64_t lane_part(const struct call *c, int64_t lane)
{
    const struct qkv_cache_shape *s = &c->j->cache->shape;
    return s->first_part + lane % s->own_parts;
}

static void begin_lane(void *ctx, int64_t lane, int thread)
{
    const struct call *c = ctx;
    const struct row_block u = row_block_at(c, lane_block(c, lane));
    const struct qkv_rows_sums to = state_at(c->j, c->states, lane);
    (void)thread;
    qkv_rows_begin_sums(&u.r, &to);
    if (lane % c->j->cache->shape.own_parts == 0) qkv_rows_begin_weights(&u.r);
}

// Computes the sums of chunk i of the wave and stores them in slot i.
static void run_chunk(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    int64_t lo = 0, hi = c->lanes; // invariant: starts[lo] <= wave + i < starts[hi]
    while (hi - lo > 1) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (c->starts[middle] <= c->wave + i)
            lo = middle;
        else
            hi = middle;
    }
    struct row_block u = row_block_at(c, lane_block(c, lo));
    const struct qkv_rows_sums to = state_at(c->j, c->slots, i);
    const int64_t chunk = lane_of(&u, lane_part(c, lo)).first +
                          (c->wave + i - c->starts[lo]) * c->j->cache->shape.parts;
    take_thread(&u, thread);
    qkv_rows_begin_sums(&u.r, &to);
    for (int64_t g = 0; g < u.r.groups; g++) run_group(&u, g, chunk * c->j->w.chunk, &to, false);
}

// Merges the slots of a lane, which contain the sums of chunks of this wave, into the sums of the
// lane, in the order of the chunks.
static void merge_lane(void *ctx, int64_t lane, int thread)
{
    const struct call *c = ctx;
    const struct row_block u = row_block_at(c, lane_block(c, lane));
    const struct qkv_rows_sums to = state_at(c->j, c->states, lane);
    const int64_t end = qkv_min64(c->starts[lane + 1], c->wave + c->j->slots);
    (void)thread;
    for (int64_t x = qkv_max64(c->starts[lane], c->wave); x < end; x++) {
        const struct qkv_rows_sums from = state_at(c->j, c->slots, x - c->wave);
        add_sums(&u, &to, &from);
    }
}

// Adds the lanes of a node to its first lane. Returns the sums.
static struct qkv_rows_sums add_lanes(const struct row_block *u, int64_t n,
                                      struct qkv_cache_node node)
{
    const struct qkv_rows_sums to = lane_state(u->c, n, node.from);
    if (node.end - node.from == 1) return to;
    const int64_t half = qkv_cache_half(node);
    add_lanes(u, n, (struct qkv_cache_node){ node.from, half });
    const struct qkv_rows_sums right = add_lanes(u, n, (struct qkv_cache_node){ half, node.end });
    add_sums(u, &to, &right);
    return to;
}
static void finish_row_block(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct row_block u = row_block_at(c, n);
    (void)thread;
    for (int i = 0; i < c->nodes; i++) {
        const struct qkv_rows_sums from = add_lanes(&u, n, c->node[i]);
        give_node(&u, n, i, &from);
    }
}

static void run_waves(struct call *c)
{
    const int64_t all = c->starts[c->lanes];
    const int threads = c->j->w.threads;
    qkv_parallel_for_most(c->lanes, threads, begin_lane, c);
    for (c->wave = 0; c->wave < all; c->wave += c->j->slots) {
        qkv_parallel_for_most(qkv_min64(c->j->slots, all - c->wave), threads, run_chunk, c);
        qkv_parallel_for_most(c->lanes, threads, merge_lane, c);
    }
    qkv_parallel_for_most(c->j->row_blocks, threads, finish_row_block, c);
}

static void run_nodes(struct call *c, char *scratch)
{
    const struct qkv_cache_job *j = c->j;
    qkv_rows_exponent(&c->r);
    c->threads = scratch;
    c->states = c->threads + (size_t)j->w.threads * j->thread;
    c->slots = c->states + j->states;
    c->starts = (int64_t *)(void *)(c->slots + (size_t)j->slots * j->state);
    c->lanes = j->row_blocks * j->cache->shape.own_parts;
    if (j->slots) {
        c->starts[0] = 0;
        for (int64_t lane = 0; lane < c->lanes; lane++) {
            const struct row_block u = row_block_at(c, lane_block(c, lane));
            c->starts[lane + 1] = c->starts[lane] + lane_of(&u, lane_part(c, lane)).n;
        }
    }
    // If row blocks have at most two chunks on average, the second pass would take longer than waves
    // save.
    if (j->slots && c->starts[c->lanes] > 2 * j->row_blocks)
        run_waves(c);
    else
        qkv_parallel_for_most(j->row_blocks, j->w.threads, run_row_block, c);
}

// ---- a call whose parts are in several caches --------------------------------------------------
static int list_nodes(struct qkv_cache_node *list, int n, const qkv_cache *c,
                      struct qkv_cache_node node)
{
    const int64_t first = c->shape.first_part, end = first + c->shape.own_parts;
    if (node.end <= first || node.from >= end) return n;
    if (node.from >= first && node.end <= end) {
        list[n] = node;
        return n + 1;
    }
    const int64_t half = qkv_cache_half(node);
    n = list_nodes(list, n, c, (struct qkv_cache_node){ node.from, half });
    return list_nodes(list, n, c, (struct qkv_cache_node){ half, node.end });
}
int qkv_cache_nodes(struct qkv_cache_node list[QKV_CACHE_NODES_MAX], const qkv_cache *c)
{
    return list_nodes(list, 0, c, (struct qkv_cache_node){ 0, c->shape.parts });
}

void qkv_cache_sums(const struct qkv_cache_job *j, const struct qkv_cache_node *node, int n,
                    char *const *to, const void *q, void *scratch)
{
    struct call c = { .r = { .w = &j->w, .q = q }, .j = j, .node = node, .nodes = n, .to = to };
    for (int i = 0; i < n; i++) memset(to[i], 0, qkv_cache_sums_bytes(j));
    run_nodes(&c, scratch);
}

// Two nodes whose sums are added, or one from which results are written.
struct pair {
    struct call c;
    char *to, *from;
};
static void add_pair(void *ctx, int64_t n, int thread)
{
    const struct pair *x = ctx;
    const struct row_block u = row_block_at(&x->c, n);
    const struct qkv_rows_sums to = node_sums(x->c.j, x->to, n);
    const struct qkv_rows_sums from = node_sums(x->c.j, x->from, n);
    (void)thread;
    add_sums(&u, &to, &from);
}
void qkv_cache_add_sums(const struct qkv_cache_job *j, char *to, const char *sums)
{
    struct pair x = { { .r = { .w = &j->w }, .j = j }, to, (char *)(uintptr_t)sums };
    qkv_rows_exponent(&x.c.r);
    qkv_parallel_for_most(j->row_blocks, j->w.threads, add_pair, &x);
}

static void finish_node(void *ctx, int64_t n, int thread)
{
    const struct pair *x = ctx;
    const struct row_block u = row_block_at(&x->c, n);
    const struct qkv_rows_sums from = node_sums(x->c.j, x->from, n);
    (void)thread;
    give_node(&u, n, 0, &from);
}
void qkv_cache_finish(const struct qkv_cache_job *j, void *out, real *lse, const char *sums)
{
    struct pair x = { .c = { .r = { .w = &j->w, .out = out, .lse = lse }, .j = j },
                      .from = (char *)(uintptr_t)sums };
    qkv_rows_exponent(&x.c.r);
    qkv_parallel_for_most(j->row_blocks, j->w.threads, finish_node, &x);
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
    const struct qkv_cache_node all = { 0, cache->shape.parts };
    struct call c = { .r = { .w = &j.w, .out = out, .lse = lse, .weights = weights, .q = q },
                      .j = &j,
                      .node = &all,
                      .nodes = 1 };
    run_nodes(&c, scratch);
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
