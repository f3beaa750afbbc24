// SPDX-License-Identifier: MIT
// attention_probe.c: collects statistics of the attention weights. It computes the scores again
// and, from the lse of forward, the weights of one tile at a time.
//
//   for each batch item, head and slice of its rows:
//       for each block of rows, for each chunk of keys, for each group of rows:
//           P = exp(score - lse) of the tile;  entropy, columns += P;  k largest of each row
//       add the column sums of the block and chunk (and of a line of probe tiles) to the slice
//   sums = slice 0 + slice 1 + ...
//
// Slices, lines and other terms are as in attention_probe_work.h. Sums of a row run over its keys
// in ascending order; sums over rows run over the rows of a block, then over blocks, then over
// slices. The order depends only on the shape.
#include "layer/attention/attention_probe_work.h"
#include <math.h>
#include <string.h>

#define LN2 0.69314718055994530942
enum { WORDS = QKV_CHUNK / 32 };

struct call {
    const struct qkv_probe_work *x;
    struct qkv_rows_call r;
    const char *k;
    const real *lse;
    char *copies, *threads;
    int64_t first; // the first pair of batch item and head that the call runs
};

// State of a unit, which processes one block of rows at a time.
struct unit {
    const struct call *c;
    struct qkv_rows r; // r.g is the index of the query head
    int64_t key_head;
    struct qkv_probe_memory m;
    struct qkv_probe_sums to;
    // the kernels of backward, which also add rows of numbers
    const struct qkv_attention_back_kernels *row;
    // the line (horizontal strip) of probe tiles to which the current column sums belong; -1: no
    // probe tiles
    int64_t line;
    int32_t from, end; // range of columns that contains all columns whose sum is not 0
    // index in p.row (the requested full rows, ascending) of the first row that is not before the
    // block
    int64_t wanted;
};

// ---- the k largest weights ---------------------------------------------------------------------
// Encodes a weight and its key in one integer. A larger weight gives a larger integer; of equal
// weights, the smaller key does. (Positive floats have the order of their bits.) The integer 0
// means: no entry.
static uint64_t entry_of(float x, int64_t key)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint64_t)bits << 32 | (UINT32_MAX - (uint32_t)key);
}

// Inserts x, a weight with its key as entry_of encodes them, into the list of the k largest, which
// is in descending order. A short list is updated in one pass without branches, so that the CPU
// overlaps consecutive insertions.
static void keep_entry(uint64_t *top, int64_t k, uint64_t x)
{
    enum { FEW = 32 };
    if (k <= FEW) {
        for (int64_t i = 0; i < k; i++) {
            const uint64_t old = top[i], high = old > x ? old : x;
            x = old > x ? x : old;
            top[i] = high;
        }
        return;
    }
    int64_t lo = 0, hi = k; // finds the first smaller entry by binary search
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (top[middle] < x)
            hi = middle;
        else
            lo = middle + 1;
    }
    if (lo == k) return;
    memmove(top + lo + 1, top + lo, (size_t)(k - 1 - lo) * sizeof *top);
    top[lo] = x;
}

static float weight_of(uint64_t entry)
{
    const uint32_t bits = (uint32_t)(entry >> 32);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Returns a lower bound of the k-th largest number of x[n]: divides the numbers into k groups and
// returns the smallest of the maxima of the groups. At least k numbers, the maxima, are as large as
// this bound.
static real floor_of(const real *x, int64_t n, int64_t k)
{
    enum { FEW = 64 };
    real high[FEW], least = (real)INFINITY;
    if (k > FEW || n < 2 * k) return 0;
    memcpy(high, x, (size_t)k * sizeof *x);
    for (int64_t at = k; at + k <= n; at += k)
        for (int64_t i = 0; i < k; i++) high[i] = x[at + i] > high[i] ? x[at + i] : high[i];
    for (int64_t i = 0; i < k; i++) least = high[i] < least ? high[i] : least;
    return least;
}

// Inserts the weights of row i of the tile into the row's list of the k largest, if they exceed the
// smallest entry that the list had at the start of the tile.
static void keep_largest(const struct unit *u, const struct qkv_rows_group *p, int i)
{
    const int64_t row = p->first + i, k = u->c->x->p.top_k;
    const real *s = u->m.s + i * QKV_CHUNK;
    uint64_t *top = u->m.top + row * k;
    bool changed = false;
    // While the list has fewer than k entries, every weight would be inserted, and most would soon
    // be replaced. A lower bound of the k-th largest weight of the chunk skips these.
    const struct qkv_columns c = p->spans[0];
    const real least = top[k - 1] || p->n > 1 ? 0 : floor_of(s + c.from, c.to - c.from, k);
    for (int n = 0; n < WORDS; n++)
        for (uint32_t bits = u->m.above[i * WORDS + n]; bits; bits &= bits - 1) {
            const int32_t j = n * 32 + __builtin_ctz(bits);
            if (s[j] < least) continue;
            keep_entry(top, k, entry_of((float)s[j], p->chunk + j));
            changed = true;
        }
    if (changed) u->m.least[row] = (real)weight_of(top[k - 1]);
}

// Writes the largest weights of a row and their keys to the caller's arrays. known false: the row
// contains NaN, so its largest weights are NaN.
static void give_largest(const struct unit *u, int64_t row, bool known)
{
    const struct qkv_probe *want = &u->c->x->p;
    const int64_t k = want->top_k, at = qkv_rows_index(&u->r, row) * k;
    for (int64_t i = 0; i < k; i++) {
        const uint64_t entry = known ? u->m.top[row * k + i] : 0;
        want->top_weight[at + i] = known ? weight_of(entry) : NAN;
        want->top_key[at + i] = entry ? (int32_t)(UINT32_MAX - (uint32_t)entry) : -1;
    }
}

// ---- column sums -------------------------------------------------------------------------------
// Adds the sums of columns u->from .. u->end-1 of the chunk to the probe tiles of line u->line.
static void add_tiles(const struct unit *u, int64_t chunk)
{
    const int64_t side = u->c->x->p.side, S = u->c->x->w.a.S;
    const int64_t first = u->r.item.key + chunk; // index of the key in column 0
    int64_t at = (first + u->from) * side / S;
    for (int32_t j = u->from; j < u->end; at++) {
        const int32_t next = (int32_t)qkv_min64(u->end, qkv_probe_tile(at + 1, S, side) - first);
        real most = 0;
        if (next <= j) continue;
        for (int32_t i = j; u->to.tile_max && i < next; i++)
            if (u->m.most[i] > most) most = u->m.most[i];
        if (u->to.tile_max && most > u->to.tile_max[u->line * side + at])
            u->to.tile_max[u->line * side + at] = most;
        if (u->to.tile_sum)
            u->to.tile_sum[u->line * side + at] += u->row->total(u->m.sum + j, next - j);
        j = next;
    }
}

// Adds the column sums of the chunk to the arrays of the slice, and sets the column sums to 0.
static void flush_columns(struct unit *u, int64_t chunk)
{
    if (u->from < u->end) {
        const int32_t n = u->end - u->from;
        if (u->to.received)
            u->row->add(u->to.received + u->r.item.key + chunk + u->from, u->m.sum + u->from, n);
        if (u->line >= 0) add_tiles(u, chunk);
        memset(u->m.sum + u->from, 0, (size_t)n * sizeof *u->m.sum);
        memset(u->m.most + u->from, 0, (size_t)n * sizeof *u->m.most);
    }
    u->from = QKV_CHUNK;
    u->end = 0;
}

// ---- a tile ------------------------------------------------------------------------------------
static int64_t line_of(const struct unit *u, int64_t row)
{
    const struct qkv_probe_work *x = u->c->x;
    if (!x->p.side) return -1;
    return (u->r.item.row + u->r.row + row) * x->p.side / x->w.a.T;
}

// Turns the scores of rows i .. end-1 of the group into weights, and adds these to the sums of the
// rows and columns.
static void form_rows(struct unit *u, const struct qkv_rows_group *p, int i, int end)
{
    const struct qkv_probe *want = &u->c->x->p;
    const bool columns = u->to.received || u->line >= 0;
    const int64_t row = p->first + i;
    const struct qkv_probing how = { .c = u->c->r.c,
                                     .base = u->m.base + row,
                                     .rest = u->m.rest + row,
                                     .entropy = want->entropy ? u->m.entropy + row : NULL,
                                     .sum = columns ? u->m.sum : NULL,
                                     .most = u->to.tile_max ? u->m.most : NULL,
                                     .least = u->m.least + row,
                                     .above = want->top_k ? u->m.above + i * WORDS : NULL };
    qkv_kernel()->probe_rows(u->m.s + i * QKV_CHUNK, end - i, p->spans, p->n, p->lo + i, p->hi + i,
                             &how);
    if (p->from < u->from) u->from = p->from;
    if (p->to > u->end) u->end = p->to;
}

// Collects the statistics of row i of the group that need single weights: mean distance, weight per
// distance, and the weights of the row if it is a requested full row.
static void observe_row(const struct unit *u, const struct qkv_rows_group *p, int i, float *full)
{
    const struct qkv_probe *want = &u->c->x->p;
    const int64_t row = p->first + i, distance = qkv_rows_distance(&u->r, row, p->chunk);
    const real *s = u->m.s + i * QKV_CHUNK;
    for (int n = 0; n < p->n; n++) {
        const int32_t lo = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
        const int32_t hi = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
        if (lo >= hi) continue;
        if (want->distance) u->m.distance[row] += u->row->moment(s, lo, hi, distance);
        if (u->to.offsets) u->row->add(u->m.diagonal + lo + u->r.rows - 1 - row, s + lo, hi - lo);
        for (int32_t j = lo; full && j < hi; j++) full[p->chunk + j] = (float)s[j];
    }
}

static void run_tile(struct unit *u, struct qkv_rows_group *p, const struct qkv_rows_packed *from)
{
    const struct qkv_probe *want = &u->c->x->p;
    int64_t wanted = u->wanted;
    // a row with lse -INFINITY has weight 0 for all keys, even if the mask allows some of them
    for (int i = 0; i < p->rows; i++)
        if (u->c->lse[qkv_rows_index(&u->r, p->first + i)] == -(real)INFINITY)
            p->lo[i] = p->hi[i] = 0;
    qkv_rows_scores(&u->r, p, from);
    for (int i = 0, end; i < p->rows; i = end) {
        const int64_t line = line_of(u, p->first + i);
        for (end = i + 1; end < p->rows && line_of(u, p->first + end) == line;) end++;
        if (line != u->line) flush_columns(u, p->chunk);
        u->line = line;
        form_rows(u, p, i, end);
    }
    const int64_t first = u->r.item.row + u->r.row + p->first;
    for (int i = 0; i < p->rows; i++) {
        float *full = NULL;
        while (wanted < want->rows && want->row[wanted] < first + i) wanted++;
        if (wanted < want->rows && want->row[wanted] == first + i)
            full = want->row_weights +
                   ((u->r.item.b * u->c->x->w.a.H + u->r.g) * want->rows + wanted) * u->c->x->w.a.S;
        if (want->top_k) keep_largest(u, p, i);
        if (want->distance || u->to.offsets || full) observe_row(u, p, i, full);
    }
}

// ---- a block of rows ---------------------------------------------------------------------------
static void begin_rows(struct unit *u)
{
    const struct qkv_probe *want = &u->c->x->p;
    const int64_t S = u->c->x->w.a.S, first = u->r.item.row + u->r.row;
    if (want->top_k) memset(u->m.top, 0, (size_t)(u->r.rows * want->top_k) * sizeof *u->m.top);
    for (int64_t r = 0; r < u->r.rows; r++) {
        const int64_t at = qkv_rows_index(&u->r, r);
        const real lse = u->c->lse[at];
        u->m.base[r] = u->m.rest[r] = u->m.least[r] = u->m.entropy[r] = u->m.distance[r] = 0;
        if (lse != -(real)INFINITY) qkv_rows_base(&u->m.base[r], &u->m.rest[r], lse);
        // a row with NaN has no largest weights, so its threshold is infinite
        if (isnan(lse)) u->m.least[r] = (real)INFINITY;
    }
    u->wanted = 0;
    while (u->wanted < want->rows && want->row[u->wanted] < first) u->wanted++;
    for (int64_t i = u->wanted; i < want->rows && want->row[i] < first + u->r.rows; i++)
        memset(want->row_weights + ((u->r.item.b * u->c->x->w.a.H + u->r.g) * want->rows + i) * S,
               0, (size_t)S * sizeof(float));
}

static void finish_rows(const struct unit *u)
{
    const struct qkv_probe *want = &u->c->x->p;
    for (int64_t r = 0; r < u->r.rows; r++) {
        const int64_t at = qkv_rows_index(&u->r, r);
        // The sum is below 0 if the row has a single weight that was rounded to more than 1.
        const double bits = u->m.entropy[r] < 0 ? 0 : (double)u->m.entropy[r];
        if (want->entropy) want->entropy[at] = (float)(bits * LN2);
        if (want->distance) want->distance[at] = (float)u->m.distance[r];
        if (want->top_k) give_largest(u, r, !isnan(u->c->lse[at]));
    }
}

static const char *row_query(const struct unit *u, int64_t row)
{
    return u->c->r.q + qkv_rows_row(&u->r, &u->c->x->w.a.q_strides, row);
}

// Packs the queries of the block into adjacent rows, because every chunk reads them again.
static void pack_queries(const struct unit *u)
{
    const struct qkv_attention_work *w = &u->c->x->w;
    for (int64_t r = 0; r < u->r.rows; r++) {
        char *to = u->m.queries + (size_t)r * u->m.row_bytes;
        if (w->kernel->pack_query)
            w->kernel->pack_query(to, row_query(u, r), w->a.E);
        else
            memcpy(to, row_query(u, r), u->m.row_bytes);
    }
}

// Returns the packed keys of a chunk. With a KV cache they are in the cache; without a cache the
// function packs keys lo .. hi-1.
static const char *packed_keys(const struct unit *u, int64_t chunk, int64_t lo, int64_t hi)
{
    const struct qkv_probe_work *x = u->c->x;
    const struct qkv_attention_work *w = &x->w;
    if (x->cache) return qkv_cache_keys(x->cache, x->item, u->key_head, chunk / w->chunk);
    const int64_t at = (lo - chunk) / w->kernel->keys * w->kernel->keys;
    const char *k =
        u->c->k + qkv_rows_place(&u->r, &w->a.k_strides, u->r.item.key + chunk + at, u->key_head);
    w->kernel->pack_keys(u->m.keys, k, w->a.k_strides.t, at, hi - chunk - at, w->a.E);
    return u->m.keys;
}

// Adds the weights per distance of a block and a chunk to the sums of the slice, and sets them to
// 0.
static void flush_diagonal(const struct unit *u, int64_t chunk)
{
    const int32_t n = (int32_t)(u->r.rows - 1 + QKV_CHUNK);
    if (!u->to.offsets) return;
    const int64_t reach = u->c->x->p.reach;
    qkv_rows_add_relative(u->to.offsets, u->to.offsets, u->to.offsets + 2 * reach, reach,
                          -qkv_rows_distance(&u->r, u->r.rows - 1, chunk), u->m.diagonal,
                          (struct qkv_columns){ 0, n }, u->row);
    memset(u->m.diagonal, 0, (size_t)n * sizeof *u->m.diagonal);
}

static void run_block(struct unit *u)
{
    const struct qkv_attention_work *w = &u->c->x->w;
    struct qkv_rows_group p;
    struct qkv_rows_packed from = { 0 };
    begin_rows(u);
    const int64_t lo = qkv_rows_keys(&u->r, 0).lo, hi = qkv_rows_keys(&u->r, u->r.rows - 1).hi;
    if (lo < hi) pack_queries(u);
    for (int64_t chunk = lo / w->chunk * w->chunk; chunk < hi; chunk += w->chunk) {
        from.keys = packed_keys(u, chunk, qkv_max64(lo, chunk), qkv_min64(hi, chunk + w->chunk));
        for (int64_t g = 0; g < u->r.groups; g++) {
            if (!qkv_rows_find(&u->r, g, chunk, &p)) continue;
            for (int i = 0; i < p.rows; i++)
                from.q[i] = u->m.queries + (size_t)(p.first + i) * u->m.row_bytes;
            run_tile(u, &p, &from);
        }
        flush_columns(u, chunk);
        flush_diagonal(u, chunk);
    }
    finish_rows(u);
}

// ---- a unit ------------------------------------------------------------------------------------
static void clear_sums(const struct qkv_probe_work *x, const struct qkv_probe_sums *to)
{
    const size_t tiles = (size_t)(x->p.side * x->p.side);
    if (to->received) memset(to->received, 0, (size_t)x->w.a.S * sizeof(real));
    if (to->offsets) memset(to->offsets, 0, (size_t)(2 * x->p.reach + 1) * sizeof(real));
    if (to->tile_max) memset(to->tile_max, 0, tiles * sizeof(real));
    if (to->tile_sum) memset(to->tile_sum, 0, tiles * sizeof(real));
}

// Runs the row blocks of item n that are among blocks from .. end-1. Blocks are counted over all
// items of the batch item; `at` is the index of the first block of item n.
static void run_item(struct unit *u, int64_t n, int64_t at, int64_t from, int64_t end)
{
    const struct qkv_attention_work *w = &u->c->x->w;
    u->r.item = qkv_attention_item(w, n);
    // the keys are a cache item: S is the length of this item, and its first keys may have been
    // removed
    if (u->c->x->cache) {
        u->r.item.S = u->c->x->cache->lengths[u->c->x->item];
        u->r.item.shift = u->r.item.S - u->r.item.T;
        u->r.first = u->c->x->cache->items[u->c->x->item].first;
    }
    const int64_t blocks = qkv_ceil_div(u->r.item.T, w->block);
    for (int64_t i = qkv_max64(0, from - at); i < qkv_min64(blocks, end - at); i++) {
        u->r.row = i * w->block;
        u->r.rows = qkv_min64(w->block, u->r.item.T - u->r.row);
        u->r.groups = qkv_ceil_div(u->r.rows, w->kernel->rows);
        run_block(u);
    }
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    const struct qkv_probe_work *x = c->x;
    const struct qkv_attention *a = &x->w.a;
    const int64_t slice = i % x->slices, pair = c->first + i / x->slices;
    const int64_t h = pair % a->H, b = pair / a->H;
    struct unit u = { .c = c,
                      .r = { .call = &c->r, .g = h },
                      .key_head = h / x->shared,
                      .to = qkv_probe_sums_at(x, c->copies, b, h, slice),
                      .row = qkv_kernel()->attention_back[QKV_PRECISION_F32],
                      .line = -1,
                      .from = QKV_CHUNK };
    size_t bytes;
    qkv_probe_memory(&u.m, &bytes, x, c->threads + (size_t)thread * x->scratch_thread);
    u.r.s = u.m.s;
    clear_sums(x, &u.to);
    memset(u.m.sum, 0, QKV_CHUNK * sizeof(real));
    memset(u.m.most, 0, QKV_CHUNK * sizeof(real));
    memset(u.m.diagonal, 0, (size_t)(x->w.block + QKV_CHUNK) * sizeof(real));
    const int64_t items = a->sequences ? x->w.items : 1, first = a->sequences ? 0 : b;
    int64_t blocks = 0, at = 0;
    for (int64_t n = 0; n < items; n++)
        blocks += qkv_ceil_div(qkv_attention_item(&x->w, first + n).T, x->w.block);
    const int64_t from = slice * blocks / x->slices, end = (slice + 1) * blocks / x->slices;
    for (int64_t n = 0; n < items && at < end; n++) {
        run_item(&u, first + n, at, from, end);
        at += qkv_ceil_div(u.r.item.T, x->w.block);
    }
}

// ---- adding the slices -------------------------------------------------------------------------
// Computes to[i] = the sum of number i over all slices in order or, if `most` is true, the largest
// number i of all slices.
static void join(float *to, const struct call *c, int64_t pair, int64_t n, bool most, size_t member)
{
    const struct qkv_probe_work *x = c->x;
    for (int64_t s = 0; s < x->slices; s++) {
        const struct qkv_probe_sums from =
            qkv_probe_sums_at(x, c->copies, pair / x->w.a.H, pair % x->w.a.H, s);
        const real *y;
        memcpy(&y, (const char *)&from + member, sizeof y);
        if ((const void *)y == (const void *)to) continue;
        for (int64_t i = 0; i < n; i++)
            if (s == 0)
                to[i] = (float)y[i];
            else if (!most)
                to[i] += (float)y[i];
            else if ((float)y[i] > to[i])
                to[i] = (float)y[i];
    }
}

static void join_slices(void *ctx, int64_t n, int thread)
{
    const struct call *c = ctx;
    const int64_t pair = c->first + n;
    const struct qkv_probe *p = &c->x->p;
    const struct qkv_attention *a = &c->x->w.a;
    const int64_t line = 2 * p->reach + 1, side = p->side, tiles = side * side;
    (void)thread;
#define JOIN(TO, N, MOST, MEMBER)                                                                  \
    if (TO) join((TO) + pair * (N), c, pair, N, MOST, offsetof(struct qkv_probe_sums, MEMBER))
    JOIN(p->received, a->S, false, received);
    JOIN(p->offsets, line, false, offsets);
    JOIN(p->tile_max, tiles, true, tile_max);
    JOIN(p->tile_mean, tiles, false, tile_sum);
#undef JOIN
    for (int64_t y = 0; p->tile_mean && y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            const int64_t rows = qkv_probe_tile(y + 1, a->T, side) - qkv_probe_tile(y, a->T, side);
            const int64_t keys = qkv_probe_tile(x + 1, a->S, side) - qkv_probe_tile(x, a->S, side);
            float *mean = &p->tile_mean[pair * tiles + y * side + x];
            if (rows && keys) *mean = (float)((double)*mean / ((double)rows * (double)keys));
        }
}

void qkv_probe_run_pairs(const struct qkv_probe_work *x, const void *q, const void *k,
                         const real *lse, void *scratch, int64_t from, int64_t end)
{
    struct call c = { .x = x,
                      .r = { .w = &x->w, .q = q },
                      .k = k,
                      .lse = lse,
                      .copies = scratch,
                      .threads = (char *)scratch + qkv_round_up(x->partial, 64),
                      .first = from };
    qkv_rows_exponent(&c.r);
    qkv_parallel_for_most((end - from) * x->slices, x->w.threads, run_unit, &c);
    qkv_parallel_for_most(end - from, x->w.threads, join_slices, &c);
}

qkv_status qkv_probe_run(const struct qkv_probe_work *x, const void *q, const void *k,
                         const real *lse, void *scratch)
{
    qkv_probe_run_pairs(x, q, k, lse, scratch, 0, x->w.a.B * x->w.a.H);
    return QKV_OK;
}
