// SPDX-License-Identifier: MIT
// attention.c: the operator: exact softmax attention in one pass over the keys, forward.
//
//   for each chunk of keys, from key 0:   s = score(q, k),  top1 = max s,  p = exp(s - top1)
//       top' = max(top, top1)
//       sum, o  =  exp(top - top') (sum, o) + exp(top1 - top') (sum p, p v)
//   out = o / sum,   lse = top + ln sum
//
// The kernels take powers of 2, exp(s) = 2^(c s) with c = log2 e; where the score is but a scaled
// product, c holds the scale as well and s is the bare product.
//
// Milakov & Gimelshein 2018 (arXiv 1805.02867), Rabe & Staats 2021 (arXiv 2112.05682), Dao et al.
// 2022 (arXiv 2205.14135).  The order of all sums is that of
// the keys, chunk by chunk: docs/numerics.md.
#include "layer/attention_work.h"
#include <math.h>
#include <string.h>

#define LOG2E 1.44269504088896340736
#define LN2   0.69314718055994530942
enum { SPANS_MAX = QKV_CHUNK / 2 };

// What one call shares, and what a thread's unit works on.
struct call {
    const struct qkv_attention_work *w;
    const int64_t *table; // packed: first unit of each item / G
    char *out;
    real *lse, *weights;
    const char *q, *k, *v;
    char *scratch; // of thread 0
    real c;        // e^score = 2^(c s) for what the kernels call s
    bool shaped;   // scores need more than a scale
};
struct unit {
    const struct call *c;
    struct qkv_attention_item item;
    int64_t g, g_end;              // key/value head at work, and the last one + 1
    int64_t row, rows, groups;     // first row of the item, how many, in how many groups
    char *keys, *values, *queries; // packed
    size_t row_bytes;              // of a row of queries
    real *o, *s, *top, *sum;
    uint8_t *begun;          // [groups] o holds something
    bool copied;             // queries hold the rows of q
    const struct unit *next; // the unit that this thread is likely to take next; NULL: not fetched
    int64_t fetched, share;  // tokens of it so far, and with each group
};
// One group in one chunk.
struct group {
    int64_t first; // row within the block
    int rows;
    int64_t chunk;                                        // key of column 0
    int32_t lo[QKV_TILE_ROWS_MAX], hi[QKV_TILE_ROWS_MAX]; // columns that each row may see
    int32_t from, to;                                     // ... that any may see
    struct qkv_columns spans[SPANS_MAX]; // ... less panels that mask and bias close
    int n;
};

static int64_t row_token(const struct unit *u, int64_t row)
{
    const int64_t heads = u->c->w->heads;
    return heads == 1 ? u->row + row : (u->row + row) / heads; // short rows feel a division
}
static int64_t row_head(const struct unit *u, int64_t row)
{
    const int64_t heads = u->c->w->heads;
    return heads == 1 ? u->g : u->g * heads + (u->row + row) % heads;
}
// Of an array of q, k, v or out: batch item b, token t, head h.
static ptrdiff_t place(const struct unit *u, const struct qkv_strides *s, int64_t t, int64_t h)
{
    return (ptrdiff_t)(u->item.b * s->b + t * s->t + h * s->h) * (ptrdiff_t)u->c->w->size;
}
static const char *row_query(const struct unit *u, int64_t row)
{
    return u->c->q +
           place(u, &u->c->w->a.q_strides, u->item.row + row_token(u, row), row_head(u, row));
}
// Key and value j of the item.
static const char *item_key(const struct unit *u, int64_t g, int64_t j)
{
    return u->c->k + place(u, &u->c->w->a.k_strides, u->item.key + j, g);
}
static const char *item_value(const struct unit *u, int64_t g, int64_t j)
{
    return u->c->v + place(u, &u->c->w->a.v_strides, u->item.key + j, g);
}
static const float *row_bias(const struct unit *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->w->a;
    return a->bias.at + u->item.b * a->bias.b + row_head(u, row) * a->bias.h +
           (u->item.row + row_token(u, row)) * a->bias.t;
}
static const uint8_t *row_mask(const struct unit *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->w->a;
    return a->mask.at + u->item.b * a->mask.b + row_head(u, row) * a->mask.h +
           (u->item.row + row_token(u, row)) * a->mask.t;
}
// Of lse [B][H][T]; times S: of weights.
static int64_t row_index(const struct unit *u, int64_t row)
{
    const struct qkv_attention *a = &u->c->w->a;
    return (u->item.b * a->H + row_head(u, row)) * a->T + u->item.row + row_token(u, row);
}

// Does mask or bias let any row of the group see one of these columns?
static bool panel_open(const struct unit *u, const struct group *p, int32_t from, int32_t to)
{
    const struct qkv_attention *a = &u->c->w->a;
    for (int i = 0; i < p->rows; i++) {
        const uint8_t *mask = a->mask.at ? row_mask(u, p->first + i) + p->chunk : NULL;
        const float *bias = a->bias.at ? row_bias(u, p->first + i) + p->chunk : NULL;
        const int32_t end = p->hi[i] < to ? p->hi[i] : to;
        for (int32_t j = p->lo[i] > from ? p->lo[i] : from; j < end; j++)
            if ((!mask || mask[j]) && (!bias || bias[j] != -INFINITY)) return true;
    }
    return false;
}

// Cuts from .. to into spans of columns that are worth a product.
static void find_spans(const struct unit *u, struct group *p)
{
    const struct qkv_attention *a = &u->c->w->a;
    const int32_t lanes = u->c->w->kernel->lanes, keys = u->c->w->kernel->keys;
    const int32_t from = p->from / lanes * lanes, to = (p->to + lanes - 1) / lanes * lanes;
    p->n = 0;
    if (!a->mask.at && !a->bias.at) {
        p->spans[p->n++] = (struct qkv_columns){ from, to };
        return;
    }
    for (int32_t at = from / keys * keys; at < to; at += keys) {
        const struct qkv_columns panel = { at > from ? at : from, at + keys < to ? at + keys : to };
        if (!panel_open(u, p, panel.from, panel.to)) continue;
        if (p->n && p->spans[p->n - 1].to == panel.from)
            p->spans[p->n - 1].to = panel.to;
        else
            p->spans[p->n++] = panel;
    }
}

// Group g of the unit in the chunk of keys that begins at
// `chunk`; false: it has nothing to do there.
static bool find_group(const struct unit *u, int64_t g, int64_t chunk, struct group *p)
{
    const struct qkv_attention_work *w = u->c->w;
    p->first = qkv_attention_group(g, u->rows, u->groups);
    p->rows = (int)(qkv_attention_group(g + 1, u->rows, u->groups) - p->first);
    p->chunk = chunk;
    p->from = QKV_CHUNK;
    p->to = 0;
    for (int i = 0; i < p->rows; i++) {
        const struct qkv_attention_keys k =
            qkv_attention_keys(w, &u->item, row_token(u, p->first + i));
        p->lo[i] = (int32_t)(qkv_min64(qkv_max64(k.lo, chunk), chunk + w->chunk) - chunk);
        p->hi[i] = (int32_t)(qkv_min64(qkv_max64(k.hi, chunk), chunk + w->chunk) - chunk);
        if (p->lo[i] >= p->hi[i]) continue;
        if (p->lo[i] < p->from) p->from = p->lo[i];
        if (p->hi[i] > p->to) p->to = p->hi[i];
    }
    if (p->from >= p->to) return false;
    find_spans(u, p);
    return p->n > 0;
}

// scale, softcap, bias, ALiBi, mask: what is left of them to do for a group's products.
static void shape_group(const struct unit *u, const struct group *p)
{
    const struct qkv_attention *a = &u->c->w->a;
    struct qkv_shaping how = { .scale = u->c->shaped ? (real)a->scale : 1,
                               .cap = (real)a->softcap,
                               .masked = a->no_softmax ? 0 : -(real)INFINITY };
    for (int i = 0; i < p->rows; i++) {
        const int64_t row = p->first + i;
        if (a->bias.at) how.bias = row_bias(u, row) + p->chunk;
        if (a->mask.at) how.mask = row_mask(u, row) + p->chunk;
        if (a->alibi) how.slope = (real)a->alibi[row_head(u, row)];
        how.distance = row_token(u, row) + u->item.shift - p->chunk;
        for (int n = 0; n < p->n; n++) {
            const int32_t lo = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
            const int32_t hi = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
            if (lo < hi) u->c->w->kernel->shape(u->s + i * QKV_CHUNK, lo, hi, &how);
        }
    }
}

// Scores as they are now, to the dense rows that were asked for; finish_row makes weights of them.
static void keep_scores(const struct unit *u, const struct group *p)
{
    for (int i = 0; i < p->rows; i++) {
        real *row = u->c->weights + row_index(u, p->first + i) * u->c->w->a.S + p->chunk;
        for (int n = 0; n < p->n; n++) {
            const int32_t lo = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
            const int32_t hi = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
            for (int32_t j = lo; j < hi; j++) row[j] = u->s[i * QKV_CHUNK + j];
        }
    }
}

static bool sees(const struct unit *u, const struct group *p, int i, int32_t j)
{
    const struct qkv_attention *a = &u->c->w->a;
    return j >= p->lo[i] && j < p->hi[i] &&
           !(a->mask.at && !row_mask(u, p->first + i)[p->chunk + j]) &&
           !(a->bias.at && row_bias(u, p->first + i)[p->chunk + j] == -INFINITY);
}

// What row i takes of the value of column j.
static real share(const struct unit *u, int i, int32_t j)
{
    const struct qkv_attention_kernels *k = u->c->w->kernel;
    return k->share ? k->share(u->s, i, j) : u->s[i * QKV_CHUNK + j];
}

// Packed values have 0 for what is not finite: here it reaches those rows that attend to it.
static void add_not_finite(const struct unit *u, const struct group *p, const real *now)
{
    const struct qkv_attention_work *w = u->c->w;
    const int64_t width = w->kernel->width(w->a.F);
    for (int32_t j = p->from; j < p->to; j++) {
        const char *v = item_value(u, u->g, p->chunk + j);
        for (int64_t f = 0; f < w->a.F; f++) {
            const real x = qkv_real_at(v + (size_t)f * w->size, w->kernel->type);
            if (isfinite(x)) continue;
            for (int i = 0; i < p->rows; i++)
                if (sees(u, p, i, j))
                    u->o[(p->first + i) * width + f] += now[i] * (share(u, i, j) * x);
        }
    }
}

static char *query(const struct unit *u, int64_t row)
{
    return u->queries + (size_t)row * u->row_bytes;
}

static void run_group(const struct unit *u, int64_t g, struct group *p, bool finite)
{
    const struct qkv_attention_work *w = u->c->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const void *q[QKV_TILE_ROWS_MAX];
    real top[QKV_TILE_ROWS_MAX], sum[QKV_TILE_ROWS_MAX], old[QKV_TILE_ROWS_MAX],
        now[QKV_TILE_ROWS_MAX];
    for (int i = 0; i < p->rows; i++)
        q[i] = u->copied ? query(u, p->first + i) : row_query(u, p->first + i);
    for (int n = 0; n < p->n; n++) k->scores(u->s, q, p->rows, u->keys, w->a.E, p->spans[n]);
    if (u->c->shaped || w->a.mask.at) shape_group(u, p);
    if (u->c->weights) keep_scores(u, p);
    if (w->a.no_softmax) {
        k->clear(u->s, p->rows, p->spans, p->n, p->lo, p->hi);
        for (int i = 0; i < p->rows; i++) old[i] = now[i] = u->sum[p->first + i] = 1;
    } else {
        k->softmax(u->s, top, sum, p->rows, p->spans, p->n, p->lo, p->hi, u->c->c);
        k->merge(u->top + p->first, u->sum + p->first, old, now, top, sum, p->rows, u->c->c);
    }
    // Scores were made in whole vectors; values are packed only where a row of the block sees them.
    if (p->spans[0].from < p->from) p->spans[0].from = p->from;
    if (p->spans[p->n - 1].to > p->to) p->spans[p->n - 1].to = p->to;
    k->values(u->o + p->first * k->width(w->a.F), u->begun[g] ? old : NULL, now, u->s, p->rows,
              u->values, w->chunk, w->a.F, p->spans, p->n);
    u->begun[g] = 1;
    if (!finite) add_not_finite(u, p, now);
}

// Keys and values lo .. hi-1 of the item into the layouts
// of the kernel; true: all values are finite.
static bool pack(const struct unit *u, int64_t chunk, int64_t lo, int64_t hi)
{
    const struct qkv_attention_work *w = u->c->w;
    const int64_t panel = w->kernel->keys, at = (lo - chunk) / panel * panel;
    w->kernel->pack_keys(u->keys, item_key(u, u->g, chunk + at), w->a.k_strides.t, at,
                         hi - chunk - at, w->a.E);
    return w->kernel->pack_values(u->values, item_value(u, u->g, lo), w->a.v_strides.t, lo - chunk,
                                  hi - lo, w->chunk, w->a.F);
}

static void begin_rows(struct unit *u)
{
    for (int64_t r = 0; r < u->rows; r++) {
        u->top[r] = -(real)INFINITY;
        u->sum[r] = 0;
        if (!u->c->weights) continue;
        real *row = u->c->weights + row_index(u, r) * u->c->w->a.S;
        const real none = u->c->w->a.no_softmax ? 0 : -(real)INFINITY;
        for (int64_t j = 0; j < u->c->w->a.S; j++) row[j] = none;
    }
    memset(u->begun, 0, (size_t)u->groups);
}

// out, lse and weights of one row.  The sink comes last: a key without a value.
static void finish_row(const struct unit *u, int64_t r)
{
    const struct qkv_attention *a = &u->c->w->a;
    const struct qkv_attention_kernels *k = u->c->w->kernel;
    const int64_t head = row_head(u, r);
    real top = u->top[r], sum = u->sum[r], old = 1;
    if (a->sinks) {
        const real one = 1, sink = (real)((double)a->sinks[head] / ((double)u->c->c * LN2));
        real now;
        k->merge(&top, &sum, &old, &now, &sink, &one, 1, u->c->c);
    }
    char *out = u->c->out + place(u, &a->out_strides, u->item.row + row_token(u, r), head);
    // A row that saw nothing has no sums in o.
    if (u->sum[r] == 0)
        memset(out, 0, (size_t)a->F * u->c->w->size);
    else
        k->divide(out, u->o + r * k->width(a->F), old == 0 ? (real)INFINITY : sum / old, a->F);
    if (u->c->lse && !a->no_softmax)
        u->c->lse[row_index(u, r)] = (real)((double)u->c->c * LN2 * (double)top + log((double)sum));
    if (u->c->weights && !a->no_softmax)
        k->weights(u->c->weights + row_index(u, r) * a->S, a->S, u->c->c, top, sum);
}

static void finish_group(const struct unit *u, int64_t g)
{
    const int64_t end = qkv_attention_group(g + 1, u->rows, u->groups);
    for (int64_t r = qkv_attention_group(g, u->rows, u->groups); r < end; r++) finish_row(u, r);
}

// Which item, heads and block unit i is.
static void find_unit(struct unit *u, int64_t i)
{
    const struct qkv_attention_work *w = u->c->w;
    const int64_t parts = qkv_ceil_div(w->a.G, w->span);
    int64_t item, at;
    if (u->c->table) {
        int64_t lo = 0, hi = w->items; // table[lo] <= i / parts < table[hi]
        while (hi - lo > 1) {
            const int64_t middle = lo + (hi - lo) / 2;
            if (u->c->table[middle] * parts <= i)
                lo = middle;
            else
                hi = middle;
        }
        item = lo;
        at = i - u->c->table[lo] * parts;
    } else {
        const int64_t each = qkv_attention_blocks(w, w->a.T) * parts;
        item = i / each;
        at = i % each;
    }
    u->item = qkv_attention_item(w, item);
    const int64_t blocks = qkv_attention_blocks(w, u->item.T);
    u->g = at / blocks * w->span;
    u->g_end = qkv_min64(u->g + w->span, w->a.G);
    // With a causal mask the last blocks are the longest: they go first.
    u->row = (blocks - 1 - at % blocks) * w->block;
    u->rows = qkv_min64(w->block, u->item.T * w->heads - u->row);
    u->groups = qkv_ceil_div(u->rows, w->kernel->rows);
}

static void take_scratch(struct unit *u, int thread)
{
    const struct qkv_attention_work *w = u->c->w;
    const int64_t width = w->kernel->width(w->a.F);
    struct qkv_arena a = { u->c->scratch + (size_t)thread * w->scratch_thread, w->scratch_thread,
                           0 };
    const struct qkv_attention_kernels *k = w->kernel;
    u->row_bytes = k->pack_query ? k->query_bytes(w->a.E) : (size_t)w->a.E * w->size;
    u->keys = qkv_arena_take(&a, (size_t)w->chunk, k->key_bytes(w->a.E));
    u->values = qkv_arena_take(&a, (size_t)w->chunk, k->value_bytes(w->a.F));
    u->queries = qkv_arena_take(&a, (size_t)(w->block + k->rows), u->row_bytes);
    u->o = qkv_arena_take(&a, (size_t)(w->block * width), sizeof(real));
    u->s = qkv_arena_take(&a, (size_t)k->rows * QKV_CHUNK, sizeof(real));
    u->top = qkv_arena_take(&a, (size_t)w->block * 2, sizeof(real));
    u->sum = u->top + w->block;
    u->begun = qkv_arena_take(&a, (size_t)w->block, 1);
}

// What will be packed next is fetched while a chunk is worked on, a share with each group of rows.
struct ahead {
    const char *k, *v;
    int64_t n;    // keys
    bool queries; // of the next head, too
};
static struct ahead look_ahead(const struct unit *u, int64_t chunk, int64_t first, int64_t end)
{
    const struct qkv_attention_work *w = u->c->w;
    const bool last = chunk + w->chunk >= end, more = u->g + 1 < u->g_end;
    const int64_t lo = last ? first : chunk + w->chunk, g = last ? u->g + 1 : u->g;
    if (last && !more) return (struct ahead){ 0 };
    return (struct ahead){ .k = item_key(u, g, lo),
                           .v = item_value(u, g, lo),
                           .n = qkv_min64(end, lo / w->chunk * w->chunk + w->chunk) - lo,
                           .queries = last };
}
static void fetch_row(const char *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
    __builtin_prefetch(row + bytes - 1, 0, 2); // rows need not begin at a line
}
static void fetch(const struct unit *u, const struct ahead *x, int64_t g)
{
    const struct qkv_attention_work *w = u->c->w;
    const int64_t size = (int64_t)w->size;
    for (int64_t j = g * x->n / u->groups; j < (g + 1) * x->n / u->groups; j++) {
        fetch_row(x->k + j * w->a.k_strides.t * size, w->a.E * size);
        fetch_row(x->v + j * w->a.v_strides.t * size, w->a.F * size);
    }
    if (!x->queries) return;
    const int64_t next = w->heads * w->a.q_strides.h * size;
    const int64_t end = qkv_attention_group(g + 1, u->rows, u->groups);
    for (int64_t r = qkv_attention_group(g, u->rows, u->groups); r < end; r++)
        fetch_row(row_query(u, r) + next, w->a.E * size);
}

// A short sequence whose heads lie side by side: memory gives whole rows of its tokens much faster
// than one head of each, so they come while the unit before is worked on.
static bool whole_rows(const struct unit *u)
{
    enum {
        MOST = 1 << 18,
        LONG = 4096
    }; // bytes: a share of a second-level cache; keys, heads, widths
    const struct qkv_attention *a = &u->c->w->a;
    const int64_t heads = u->g_end - u->g, size = (int64_t)u->c->w->size;
    if (heads > LONG || u->item.S > LONG || a->E + a->F > LONG) return false;
    return heads > 1 && u->row == 0 && u->rows == u->item.T * u->c->w->heads &&
           a->q_strides.h == a->E && a->k_strides.h == a->E && a->v_strides.h == a->F &&
           (u->item.T * u->c->w->heads * a->E + u->item.S * (a->E + a->F)) * heads * size <= MOST;
}
static void fetch_next(struct unit *u)
{
    const struct unit *x = u->next;
    const struct qkv_attention_work *w = u->c->w;
    const int64_t heads = x->g_end - x->g, size = (int64_t)w->size;
    const int64_t end = u->fetched + u->share;
    for (int64_t j = u->fetched; j < end && j < x->item.T; j++)
        fetch_row(x->c->q + place(x, &w->a.q_strides, x->item.row + j, x->g * w->heads),
                  heads * w->heads * w->a.E * size);
    for (int64_t j = u->fetched; j < end && j < x->item.S; j++) {
        fetch_row(item_key(x, x->g, j), heads * w->a.E * size);
        fetch_row(item_value(x, x->g, j), heads * w->a.F * size);
    }
    u->fetched = end;
}

static void run_head(struct unit *u)
{
    struct group p;
    const struct qkv_attention_work *w = u->c->w;
    begin_rows(u);
    const struct qkv_attention_keys first = qkv_attention_keys(w, &u->item, row_token(u, 0));
    const struct qkv_attention_keys last =
        qkv_attention_keys(w, &u->item, row_token(u, u->rows - 1));
    if (first.lo >= last.hi) { // nobody sees a key
        for (int64_t g = 0; g < u->groups; g++) finish_group(u, g);
        return;
    }
    // Queries that are read again for every chunk: once into rows side by side.
    u->copied = w->kernel->pack_query || last.hi - first.lo > w->chunk;
    for (int64_t r = 0; u->copied && r < u->rows; r++)
        if (w->kernel->pack_query)
            w->kernel->pack_query(query(u, r), row_query(u, r), w->a.E);
        else
            memcpy(query(u, r), row_query(u, r), u->row_bytes);
    for (int64_t chunk = first.lo / w->chunk * w->chunk; chunk < last.hi; chunk += w->chunk) {
        const bool finite =
            pack(u, chunk, qkv_max64(first.lo, chunk), qkv_min64(last.hi, chunk + w->chunk));
        const struct ahead next = look_ahead(u, chunk, first.lo, last.hi);
        for (int64_t g = 0; g < u->groups; g++) {
            if (u->next)
                fetch_next(u);
            else
                fetch(u, &next, g);
            if (find_group(u, g, chunk, &p)) run_group(u, g, &p, finite);
            if (chunk + w->chunk >= last.hi) finish_group(u, g);
        }
    }
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    struct unit u = { .c = ctx };
    find_unit(&u, i);
    take_scratch(&u, thread);
    struct unit next = { .c = ctx };
    const int64_t then = i + u.c->w->threads;
    if (whole_rows(&u) && then < u.c->w->units) {
        find_unit(&next, then);
        if (whole_rows(&next)) u.next = &next;
        u.share = qkv_ceil_div(qkv_max64(next.item.T, next.item.S), (u.g_end - u.g) * u.groups);
    }
    for (; u.g < u.g_end; u.g++) run_head(&u);
}

qkv_status qkv_attention_run(void *out, real *lse, real *weights, const void *q, const void *k,
                             const void *v, const struct qkv_attention_work *w, void *scratch)
{
    if (!w->units) return QKV_OK;
    if (w->a.S && (!k || !v)) return QKV_ERR_USAGE;
    const qkv_status status = qkv_attention_check_arrays(
        w, &(struct qkv_attention_arrays){ out, q, k, v, scratch, lse, weights });
    if (status) return status;
    struct call c = { .w = w,
                      .out = out,
                      .lse = lse,
                      .weights = weights,
                      .q = q,
                      .k = k,
                      .v = v,
                      .scratch = (char *)scratch + w->table };
    // Softcap, bias and ALiBi are applied to the score itself; so is a scale that turns the largest
    // product into the smallest score.
    c.shaped = qkv_attention_shaped(&w->a);
    c.c = (real)(c.shaped ? LOG2E : LOG2E * (double)w->a.scale);
    if (w->table) {
        int64_t *table = scratch;
        table[0] = 0;
        for (int64_t n = 0; n < w->items; n++)
            table[n + 1] = table[n] + qkv_attention_blocks(w, qkv_attention_item(w, n).T);
        c.table = table;
    }
    qkv_parallel_for_most(w->units, w->threads, run_unit, &c);
    return QKV_OK;
}

#ifndef QKV_DOUBLE
QKV_API qkv_status qkv_attention_forward(void *out, float *lse, float *weights, const void *q,
                                         const void *k, const void *v,
                                         const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_work w;
    if (!a) return QKV_ERR_USAGE;
    const qkv_status status = qkv_attention_resolve(&w, qkv_attention_family(a), a, NULL, 0);
    return status ? status : qkv_attention_run(out, lse, weights, q, k, v, &w, scratch);
}

QKV_API void qkv_softmax_rows(float *y, const float *x, int64_t rows, int64_t n, int64_t ldy,
                              int64_t ldx)
{
    if (rows > 0 && n > 0 && y && x) qkv_kernel()->softmax_rows(y, x, rows, n, ldy, ldx);
}
#endif

// For H a power of two the slopes are a geometric series; else those of the power below, then every
// other one of the power above: Press et al. 2022, section 3 and their published code.
QKV_API void qkv_alibi_slopes(float *slopes, int64_t H)
{
    int64_t power = 1;
    if (!slopes) return;
    while (power * 2 <= H) power *= 2;
    for (int64_t h = 0; h < H; h++)
        slopes[h] = (float)(h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                                      : exp2(-4.0 * (double)(2 * (h - power) + 1) / (double)power));
}
