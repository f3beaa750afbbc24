// SPDX-License-Identifier: MIT
// cache_forward.c: attention of new tokens to a cache: the operator's sums over packed chunks.
//
//   stream  a block of rows (row = t heads + h, as in attention_work.h) of one item and key/value
//           head, with the chunks that some of them see
//
// Where streams are many, each is a unit of its own and its chunks are merged as they come.  Where
// they are fewer than threads would like, a unit is one chunk of a stream: it leaves its sums
// beside those of others, and a second pass merges them left to right.  Both are the same sums in
// the same order:
//
//   top' = max(top, top1);   sum, o  =  exp(top - top') (sum, o) + exp(top1 - top') (sum1, o1)
//
// A wave is as many chunks as there is room for: memory does not grow with the cache.
#include "layer/cache_work.h"
#include <math.h>
#include <string.h>

#ifndef QKV_DOUBLE
#define LOG2E 1.44269504088896340736
#define LN2   0.69314718055994530942

// What units share.
struct call {
    const struct qkv_cache_job *j;
    char *out;
    real *lse, *weights;
    const char *q;
    char *threads, *states, *slots;
    int64_t *starts; // [streams + 1] chunks of the streams before, when cut into waves
    int64_t wave;    // first chunk of the wave
    real c;          // e^score = 2^(c s) for what the kernels call s
    bool shaped;     // scores need more than a scale
};

// Sums of a block of rows.
struct state {
    real *o, *top, *sum; // [block][width] [block] [block]
    uint8_t *begun;      // [groups] o holds something
};
struct stream {
    const struct call *c;
    struct qkv_attention_item item;
    int64_t g, row, rows, groups;
    int64_t lo, hi;      // keys that any row sees
    const char *queries; // packed rows of q; NULL: they are read where they are
    real *s;             // scores of a group
};
// One group of rows in one chunk.
struct group {
    int64_t first;
    int rows;
    int64_t chunk;                                        // its first key
    int32_t lo[QKV_TILE_ROWS_MAX], hi[QKV_TILE_ROWS_MAX]; // columns that each row may see
    int32_t from, to;                                     // ... that any may
};

// ---- places ------------------------------------------------------------------------------------
static int64_t row_token(const struct stream *u, int64_t row)
{
    return (u->row + row) / u->c->j->w.heads;
}
static int64_t row_head(const struct stream *u, int64_t row)
{
    const int64_t heads = u->c->j->w.heads;
    return u->g * heads + (u->row + row) % heads;
}
// Element 0 of a row of q or out.
static ptrdiff_t row_place(const struct stream *u, const struct qkv_strides *s, int64_t row)
{
    return (ptrdiff_t)(u->item.b * s->b + row_token(u, row) * s->t + row_head(u, row) * s->h) *
           (ptrdiff_t)u->c->j->w.size;
}
// Of bias or mask.
static ptrdiff_t row_line(const struct stream *u, int64_t b, int64_t h, int64_t t, int64_t row)
{
    return (ptrdiff_t)(u->item.b * b + row_head(u, row) * h + row_token(u, row) * t);
}
static const float *row_bias(const struct stream *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    return a->bias.at ? a->bias.at + row_line(u, a->bias.b, a->bias.h, a->bias.t, row) : NULL;
}
static const uint8_t *row_mask(const struct stream *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    return a->mask.at ? a->mask.at + row_line(u, a->mask.b, a->mask.h, a->mask.t, row) : NULL;
}
// Of lse [B][H][T]; times S: of weights.
static int64_t row_index(const struct stream *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    return (u->item.b * a->H + row_head(u, row)) * a->T + row_token(u, row);
}
static struct state state_at(const struct qkv_cache_job *j, char *at)
{
    struct qkv_arena a = { at, j->state, 0 };
    struct state s;
    s.o = qkv_arena_take(&a, (size_t)(j->block * j->w.kernel->width(j->w.a.F)), sizeof(real));
    s.top = qkv_arena_take(&a, (size_t)j->block, sizeof(real));
    s.sum = qkv_arena_take(&a, (size_t)j->block, sizeof(real));
    s.begun = qkv_arena_take(&a, (size_t)j->block, 1);
    return s;
}
// Keys that row sees and that are not forgotten.
static struct qkv_attention_keys row_keys(const struct stream *u, int64_t row)
{
    struct qkv_attention_keys k = qkv_attention_keys(&u->c->j->w, &u->item, row_token(u, row));
    k.lo = qkv_max64(k.lo, u->c->j->cache->items[u->item.b].first);
    if (k.hi < k.lo) k.hi = k.lo;
    return k;
}

static struct stream stream_at(const struct call *c, int64_t n)
{
    const struct qkv_cache_job *j = c->j;
    struct stream u = { .c = c, .g = n / j->blocks % j->w.a.G };
    u.item = qkv_attention_item(&j->w, n / j->blocks / j->w.a.G);
    u.row = n % j->blocks * j->block;
    u.rows = qkv_min64(j->block, j->w.a.T * j->w.heads - u.row);
    u.groups = qkv_ceil_div(u.rows, j->w.kernel->rows);
    u.lo = row_keys(&u, 0).lo;
    u.hi = row_keys(&u, u.rows - 1).hi;
    return u;
}
static int64_t stream_chunks(const struct stream *u)
{
    const int64_t chunk = u->c->j->w.chunk;
    return u->lo < u->hi ? qkv_ceil_div(u->hi, chunk) - u->lo / chunk : 0;
}

// ---- one group in one chunk --------------------------------------------------------------------
static bool seen(const uint8_t *mask, const float *bias, int32_t j)
{
    return (!mask || mask[j]) && (!bias || bias[j] != -INFINITY);
}

// Does mask or bias let any row see anything of the chunk?
static bool group_open(const struct stream *u, const struct group *p)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    if (!a->mask.at && !a->bias.at) return true;
    for (int i = 0; i < p->rows; i++) {
        const uint8_t *mask = row_mask(u, p->first + i);
        const float *bias = row_bias(u, p->first + i);
        for (int32_t j = p->lo[i]; j < p->hi[i]; j++)
            if (seen(mask ? mask + p->chunk : NULL, bias ? bias + p->chunk : NULL, j)) return true;
    }
    return false;
}

// Group g in the chunk that begins at key `chunk`; false: it sees nothing there.
static bool find_group(const struct stream *u, int64_t g, int64_t chunk, struct group *p)
{
    const int64_t keys = u->c->j->w.chunk;
    p->first = qkv_attention_group(g, u->rows, u->groups);
    p->rows = (int)(qkv_attention_group(g + 1, u->rows, u->groups) - p->first);
    p->chunk = chunk;
    p->from = QKV_CHUNK;
    p->to = 0;
    for (int i = 0; i < p->rows; i++) {
        const struct qkv_attention_keys k = row_keys(u, p->first + i);
        p->lo[i] = (int32_t)(qkv_min64(qkv_max64(k.lo, chunk), chunk + keys) - chunk);
        p->hi[i] = (int32_t)(qkv_min64(qkv_max64(k.hi, chunk), chunk + keys) - chunk);
        if (p->lo[i] >= p->hi[i]) continue;
        if (p->lo[i] < p->from) p->from = p->lo[i];
        if (p->hi[i] > p->to) p->to = p->hi[i];
    }
    return p->from < p->to && group_open(u, p);
}

// scale, softcap, bias, ALiBi, mask: what is left of them to do for a group's products.
static void shape_group(const struct stream *u, const struct group *p, real *s)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    for (int i = 0; i < p->rows; i++) {
        const int64_t row = p->first + i;
        const float *bias = row_bias(u, row);
        const uint8_t *mask = row_mask(u, row);
        const struct qkv_shaping how = { .scale = u->c->shaped ? (real)a->scale : 1,
                                         .cap = (real)a->softcap,
                                         .bias = bias ? bias + p->chunk : NULL,
                                         .mask = mask ? mask + p->chunk : NULL,
                                         .slope = a->alibi ? (real)a->alibi[row_head(u, row)] : 0,
                                         .distance = row_token(u, row) + u->item.shift - p->chunk,
                                         .masked = a->no_softmax ? 0 : -(real)INFINITY };
        if (p->lo[i] < p->hi[i])
            u->c->j->w.kernel->shape(s + i * QKV_CHUNK, p->lo[i], p->hi[i], &how);
    }
}

// Scores as they are now, to the dense rows that were asked for; finish makes weights of them.
static void keep_scores(const struct stream *u, const struct group *p, const real *s)
{
    for (int i = 0; i < p->rows; i++) {
        real *to = u->c->weights + row_index(u, p->first + i) * u->c->j->w.a.S + p->chunk;
        for (int32_t j = p->lo[i]; j < p->hi[i]; j++) to[j] = s[i * QKV_CHUNK + j];
    }
}

// What row i of the group takes of the value of column j.
static real share(const struct stream *u, int i, int32_t j)
{
    const struct qkv_attention_kernels *k = u->c->j->w.kernel;
    return k->share ? k->share(u->s, i, j) : u->s[i * QKV_CHUNK + j];
}

// Packed values have 0 for what is not finite: here it reaches those rows that attend to it.
static void add_odd(const struct stream *u, const struct group *p, const real *now, real *o)
{
    const struct qkv_cache_item *m = &u->c->j->cache->items[u->item.b];
    const int64_t width = u->c->j->w.kernel->width(u->c->j->w.a.F);
    int64_t lo = 0, hi = m->odds; // the first of a key in the chunk
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
        for (int i = 0; x->g == u->g && i < p->rows; i++) {
            const uint8_t *mask = row_mask(u, p->first + i);
            const float *bias = row_bias(u, p->first + i);
            if (j >= p->lo[i] && j < p->hi[i] && seen(mask, bias, x->key))
                o[i * width + x->f] += now[i] * (share(u, i, j) * x->x);
        }
    }
}

static const char *query(const struct stream *u, int64_t row)
{
    const struct qkv_cache_job *j = u->c->j;
    if (u->queries) return u->queries + (size_t)row * j->w.kernel->query_bytes(j->w.a.E);
    return u->c->q + row_place(u, &j->w.a.q_strides, row);
}

// Group g of the stream through a chunk into `to`, merged with what is there when `merge`, else
// with top and sum of its own.
static void run_group(const struct stream *u, int64_t g, int64_t chunk, const struct state *to,
                      bool merge)
{
    struct group p;
    real *const s = u->s;
    const void *q[QKV_TILE_ROWS_MAX];
    const struct qkv_attention_work *w = &u->c->j->w;
    const struct qkv_attention_kernels *k = w->kernel;
    if (!find_group(u, g, chunk, &p)) return;
    const qkv_cache *cache = u->c->j->cache;
    const char *keys = qkv_cache_keys(cache, u->item.b, u->g, chunk / w->chunk);
    const char *values = qkv_cache_values(cache, u->item.b, u->g, chunk / w->chunk);
    const int32_t lanes = k->lanes;
    const struct qkv_columns tiles = { p.from / lanes * lanes, (p.to + lanes - 1) / lanes * lanes },
                             span = { p.from, p.to };
    real top[QKV_TILE_ROWS_MAX], sum[QKV_TILE_ROWS_MAX], old[QKV_TILE_ROWS_MAX],
        now[QKV_TILE_ROWS_MAX];
    for (int i = 0; i < p.rows; i++) q[i] = query(u, p.first + i);
    k->scores(s, q, p.rows, keys, w->a.E, tiles);
    if (u->c->shaped || w->a.mask.at) shape_group(u, &p, s);
    for (int i = 0; i < p.rows; i++) {
        old[i] = now[i] = 1;
        if (w->a.no_softmax) to->sum[p.first + i] = 1;
    }
    if (w->a.no_softmax) k->clear(s, p.rows, &tiles, 1, p.lo, p.hi);
    if (u->c->weights) keep_scores(u, &p, s);
    if (!w->a.no_softmax) {
        real *const top1 = merge ? top : to->top + p.first;
        real *const sum1 = merge ? sum : to->sum + p.first;
        k->softmax(s, top1, sum1, p.rows, &tiles, 1, p.lo, p.hi, u->c->c);
        if (merge)
            k->merge(to->top + p.first, to->sum + p.first, old, now, top, sum, p.rows, u->c->c);
    }
    real *o = to->o + p.first * k->width(w->a.F);
    k->values(o, merge && to->begun[g] ? old : NULL, now, s, p.rows, values, w->chunk, w->a.F,
              &span, 1);
    to->begun[g] = 1;
    if (cache->items[u->item.b].odds) add_odd(u, &p, now, o);
}

// ---- streams -----------------------------------------------------------------------------------
static void begin_state(const struct stream *u, const struct state *to)
{
    for (int64_t r = 0; r < u->rows; r++) {
        to->top[r] = -(real)INFINITY;
        to->sum[r] = 0;
    }
    memset(to->begun, 0, (size_t)u->groups);
}

static void begin_weights(const struct stream *u)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    const real none = a->no_softmax ? 0 : -(real)INFINITY;
    for (int64_t r = 0; u->c->weights && r < u->rows; r++)
        for (int64_t j = 0; j < a->S; j++) u->c->weights[row_index(u, r) * a->S + j] = none;
}

// A thread's own memory: rows of q as scores reads them, scores; where a stream is a unit, its
// sums.
static struct state take_thread(struct stream *u, int thread)
{
    const struct qkv_attention_work *w = &u->c->j->w;
    struct qkv_arena a = { u->c->threads + (size_t)thread * u->c->j->thread, u->c->j->thread, 0 };
    u->s = qkv_arena_take(&a, (size_t)w->kernel->rows * QKV_CHUNK, sizeof(real));
    if (w->kernel->pack_query) {
        const size_t each = w->kernel->query_bytes(w->a.E);
        char *to = qkv_arena_take(&a, (size_t)u->c->j->block, each);
        for (int64_t r = 0; r < u->rows; r++)
            w->kernel->pack_query(to + (size_t)r * each, u->c->q + row_place(u, &w->a.q_strides, r),
                                  w->a.E);
        u->queries = to;
    }
    return state_at(u->c->j, a.base + a.used);
}

// out, lse and weights of one row.  The sink comes last: a key without a value.
static void finish_row(const struct stream *u, const struct state *from, int64_t r)
{
    const struct qkv_attention *a = &u->c->j->w.a;
    const struct qkv_attention_kernels *k = u->c->j->w.kernel;
    const int64_t head = row_head(u, r);
    real top = from->top[r], sum = from->sum[r], old = 1;
    if (a->sinks) {
        const real one = 1, sink = (real)((double)a->sinks[head] / ((double)u->c->c * LN2));
        real now;
        k->merge(&top, &sum, &old, &now, &sink, &one, 1, u->c->c);
    }
    char *out = u->c->out + row_place(u, &a->out_strides, r);
    if (from->sum[r] == 0) // it saw nothing: no sums in o
        memset(out, 0, (size_t)a->F * u->c->j->w.size);
    else
        k->divide(out, from->o + r * k->width(a->F), old == 0 ? (real)INFINITY : sum / old, a->F);
    if (u->c->lse && !a->no_softmax)
        u->c->lse[row_index(u, r)] = (real)((double)u->c->c * LN2 * (double)top + log((double)sum));
    if (u->c->weights && !a->no_softmax)
        k->weights(u->c->weights + row_index(u, r) * a->S, a->S, u->c->c, top, sum);
}

// A stream as a unit.
static void run_stream(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const int64_t keys = c->j->w.chunk;
    struct stream u = stream_at(c, n);
    const struct state to = take_thread(&u, thread);
    begin_state(&u, &to);
    begin_weights(&u);
    for (int64_t chunk = u.lo / keys * keys; chunk < u.hi; chunk += keys)
        for (int64_t g = 0; g < u.groups; g++) run_group(&u, g, chunk, &to, true);
    for (int64_t r = 0; r < u.rows; r++) finish_row(&u, &to, r);
}

// ---- waves of chunks ---------------------------------------------------------------------------
static struct state stream_state(const struct call *c, int64_t n)
{
    return state_at(c->j, c->states + (size_t)n * c->j->state);
}
static struct state slot_state(const struct call *c, int64_t n)
{
    return state_at(c->j, c->slots + (size_t)n * c->j->state);
}

static void begin_stream(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct stream u = stream_at(c, n);
    const struct state to = stream_state(c, n);
    (void)thread;
    begin_state(&u, &to);
    begin_weights(&u);
}

// Chunk i of the wave into its slot.
static void run_chunk(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    int64_t lo = 0, hi = c->j->streams; // starts[lo] <= wave + i < starts[hi]
    while (hi - lo > 1) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (c->starts[middle] <= c->wave + i)
            lo = middle;
        else
            hi = middle;
    }
    struct stream u = stream_at(c, lo);
    const struct state to = slot_state(c, i);
    const int64_t chunk = u.lo / c->j->w.chunk + c->wave + i - c->starts[lo];
    take_thread(&u, thread);
    begin_state(&u, &to);
    for (int64_t g = 0; g < u.groups; g++) run_group(&u, g, chunk * c->j->w.chunk, &to, false);
}

// What the wave left of a stream into its sums, from left to right.
static void merge_stream(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct qkv_attention_work *w = &c->j->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const struct stream u = stream_at(c, n);
    const struct state to = stream_state(c, n);
    const int64_t width = k->width(w->a.F);
    const int64_t end = qkv_min64(c->starts[n + 1], c->wave + c->j->slots);
    real old[QKV_TILE_ROWS_MAX], now[QKV_TILE_ROWS_MAX];
    (void)thread;
    for (int i = 0; i < QKV_TILE_ROWS_MAX; i++) old[i] = now[i] = 1;
    for (int64_t x = qkv_max64(c->starts[n], c->wave); x < end; x++) {
        const struct state from = slot_state(c, x - c->wave);
        for (int64_t g = 0; g < u.groups; g++) {
            const int64_t r = qkv_attention_group(g, u.rows, u.groups);
            const int rows = (int)(qkv_attention_group(g + 1, u.rows, u.groups) - r);
            if (!from.begun[g]) continue;
            if (!w->a.no_softmax)
                k->merge(to.top + r, to.sum + r, old, now, from.top + r, from.sum + r, rows, c->c);
            for (int i = 0; w->a.no_softmax && i < rows; i++) to.sum[r + i] = 1;
            k->join(to.o + r * width, to.begun[g] ? old : NULL, now, from.o + r * width, rows,
                    width);
            to.begun[g] = 1;
        }
    }
}

static void finish_stream(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const struct stream u = stream_at(c, n);
    const struct state from = stream_state(c, n);
    (void)thread;
    for (int64_t r = 0; r < u.rows; r++) finish_row(&u, &from, r);
}

static void run_waves(struct call *c)
{
    const int64_t streams = c->j->streams, all = c->starts[streams];
    const int threads = c->j->w.threads;
    qkv_parallel_for_most(streams, threads, begin_stream, c);
    for (c->wave = 0; c->wave < all; c->wave += c->j->slots) {
        qkv_parallel_for_most(qkv_min64(c->j->slots, all - c->wave), threads, run_chunk, c);
        qkv_parallel_for_most(streams, threads, merge_stream, c);
    }
    qkv_parallel_for_most(streams, threads, finish_stream, c);
}

// ---- the call ----------------------------------------------------------------------------------
QKV_API qkv_status qkv_cache_forward(void *out, float *lse, float *weights, const void *q,
                                     const qkv_cache *cache, const struct qkv_attention *a,
                                     void *scratch)
{
    struct qkv_cache_job j;
    char reason[1];
    qkv_status status = qkv_cache_resolve(&j, cache, a, reason, sizeof reason);
    if (!status && j.streams)
        status = qkv_attention_check_arrays(
            &j.w, &(struct qkv_attention_arrays){ out, q, NULL, NULL, scratch, lse, weights });
    if (status || !j.streams) return status;
    struct call c = { .j = &j, .out = out, .lse = lse, .weights = weights, .q = q };
    // As in the operator: what else than a positive scale is there to apply to a product?
    const struct qkv_attention *x = &j.w.a;
    c.shaped = qkv_attention_shaped(x);
    c.c = (real)(c.shaped ? LOG2E : LOG2E * (double)x->scale);
    c.threads = scratch;
    c.states = c.threads + (size_t)j.w.threads * j.thread;
    c.slots = c.states + j.states;
    c.starts = (int64_t *)(void *)(c.slots + (size_t)j.slots * j.state);
    if (j.slots) {
        c.starts[0] = 0;
        for (int64_t n = 0; n < j.streams; n++) {
            const struct stream u = stream_at(&c, n);
            c.starts[n + 1] = c.starts[n] + stream_chunks(&u);
        }
    }
    // Two chunks a stream are over before a second pass has begun.
    if (j.slots && c.starts[j.streams] > 2 * j.streams)
        run_waves(&c);
    else
        qkv_parallel_for_most(j.streams, j.w.threads, run_stream, &c);
    return QKV_OK;
}
#endif
