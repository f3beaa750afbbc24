// SPDX-License-Identifier: MIT
// attention.c: computes exact softmax attention in one pass over the keys (the forward pass).
//
//   for each chunk of keys, from key 0:   s = score(q, k),  top1 = max s,  p = exp(s - top1)
//       top' = max(top, top1)
//       sum, o  =  exp(top - top') (sum, o) + exp(top1 - top') (sum p, p v)
//   out = o / sum,   lse = top + ln sum
//
// top, sum and o are the maximum, the sum of weights and the weighted sum of values over the chunks
// so far. The kernels compute powers of 2: exp(s) = 2^(c s) with c = log2 e. If the score is only a
// scaled dot product, s is the dot product itself and the factor c includes the scale.
//
// Milakov & Gimelshein 2018 (arXiv 1805.02867), Rabe & Staats 2021 (arXiv 2112.05682), Dao et al.
// 2022 (arXiv 2205.14135). All sums run in the order of the keys, chunk by chunk: docs/numerics.md.
#include "layer/attention/attention_probe_work.h"
#include <math.h>
#include <string.h>

// struct call: data that all threads of one call share. struct unit: the state of the unit
// (attention_work.h) that a thread runs.
struct call {
    struct qkv_rows_call r;
    // for each packed item, the number of row blocks in all earlier items; NULL: the sequences are
    // not packed
    const int64_t *table;
    const char *k, *v;
    char *scratch; // scratch of thread 0; the scratch of other threads follows
    const struct qkv_attention_part *part; // NULL: k and v have all keys
    ptrdiff_t k_before, v_before;          // bytes of the keys and values before the part
    int64_t first_unit;                    // the part's first unit
};
struct unit {
    struct qkv_rows r; // rows of the unit for the current key/value head
    struct qkv_rows_sums sums;
    const struct call *c;
    int64_t g_end;                 // last key/value head of the unit + 1
    char *keys, *values, *queries; // operands packed for the kernels
    size_t row_bytes;              // bytes of one row in `queries`
    bool copied;                   // true: `queries` contains a copy of the rows of q
    // the rows that this thread will probably need next; NULL: they are not prefetched line by line
    struct unit_rows *next;
};

// The rows of one key head, or of adjacent key heads, of a unit, prefetched line by line: token by
// token, and of each token its row of each array.
struct unit_rows {
    struct {
        const char *at; // the row of token 0, of all heads
        ptrdiff_t step; // bytes between two tokens
        int64_t tokens, bytes;
    } of[4];                    // q, k, v, out
    int64_t token, array, byte; // what is prefetched next
    int64_t tokens;             // of the array with the most tokens
    int64_t lines;              // number of lines to prefetch before each group of rows
};

static const char *row_query(const struct unit *u, int64_t row)
{
    return u->c->r.q + qkv_rows_row(&u->r, &u->c->r.w->a.q_strides, row);
}
// item_key and item_value return the addresses of the key and the value with index j in the item,
// for key/value head g.
static const char *item_key(const struct unit *u, int64_t g, int64_t j)
{
    return u->c->k +
           (qkv_rows_place(&u->r, &u->c->r.w->a.k_strides, u->r.item.key + j, g) - u->c->k_before);
}
static const char *item_value(const struct unit *u, int64_t g, int64_t j)
{
    return u->c->v +
           (qkv_rows_place(&u->r, &u->c->r.w->a.v_strides, u->r.item.key + j, g) - u->c->v_before);
}

// Adds nonfinite values to the sums of the rows that attend to them. pack_values has replaced these
// values by 0, so that a masked value cannot turn a sum into NaN.
static void add_not_finite(const struct unit *u, const struct qkv_rows_group *p, const real *now)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t width = w->kernel->width(w->a.F);
    for (int32_t j = p->from; j < p->to; j++) {
        const char *v = item_value(u, u->r.g, p->chunk + j);
        for (int64_t f = 0; f < w->a.F; f++) {
            const real x = qkv_real_at(v + (size_t)f * w->size, w->kernel->type);
            if (isfinite(x)) continue;
            for (int i = 0; i < p->rows; i++)
                if (qkv_rows_sees(&u->r, p, i, j))
                    u->sums.o[(p->first + i) * width + f] +=
                        now[i] * (qkv_rows_probability(&u->r, i, j) * x);
        }
    }
}

static char *query(const struct unit *u, int64_t row)
{
    return u->queries + (size_t)row * u->row_bytes;
}

static void run_group(const struct unit *u, struct qkv_rows_group *p, bool finite)
{
    struct qkv_rows_packed from = { .keys = u->keys, .values = u->values };
    real now[QKV_TILE_ROWS_MAX];
    for (int i = 0; i < p->rows; i++)
        from.q[i] = u->copied ? query(u, p->first + i) : row_query(u, p->first + i);
    qkv_rows_run(&u->r, p, &from, &u->sums, true, now);
    if (!finite) add_not_finite(u, p, now);
}

// Packs the keys and values with indices lo .. hi-1 in the item for the kernels; returns true if
// all these values are finite.
static bool pack(const struct unit *u, int64_t chunk, int64_t lo, int64_t hi)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t panel = w->kernel->keys, at = (lo - chunk) / panel * panel;
    w->kernel->pack_keys(u->keys, item_key(u, u->r.g, chunk + at), w->a.k_strides.t, at,
                         hi - chunk - at, w->a.E);
    return w->kernel->pack_values(u->values, item_value(u, u->r.g, lo), w->a.v_strides.t,
                                  lo - chunk, hi - lo, w->chunk, w->a.F);
}

// Sets the item, the heads and the block of rows of unit i.
static void find_unit(struct unit *u, int64_t i)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t parts = qkv_ceil_div(w->a.G, w->span);
    int64_t item, at;
    if (u->c->table) {
        int64_t lo = 0, hi = w->items; // invariant: table[lo] <= i / parts < table[hi]
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
    u->r.item = qkv_attention_item(w, item);
    const int64_t blocks = qkv_attention_blocks(w, u->r.item.T);
    u->r.g = at / blocks * w->span;
    u->g_end = qkv_min64(u->r.g + w->span, w->a.G);
    // With a causal mask the last blocks have the most keys, so they run first.
    u->r.row = (blocks - 1 - at % blocks) * w->block;
    u->r.rows = qkv_min64(w->block, u->r.item.T * w->heads - u->r.row);
    u->r.groups = qkv_ceil_div(u->r.rows, w->kernel->rows);
}

static void take_scratch(struct unit *u, int thread)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t width = w->kernel->width(w->a.F);
    struct qkv_arena a = { u->c->scratch + (size_t)thread * w->scratch_thread, w->scratch_thread,
                           0 };
    const struct qkv_attention_kernels *k = w->kernel;
    u->row_bytes = k->pack_query ? k->query_bytes(w->a.E) : (size_t)w->a.E * w->size;
    u->keys = qkv_arena_alloc(&a, (size_t)w->chunk, k->key_bytes(w->a.E));
    u->values = qkv_arena_alloc(&a, (size_t)w->chunk, k->value_bytes(w->a.F));
    u->queries = qkv_arena_alloc(&a, (size_t)(w->block + k->rows), u->row_bytes);
    u->sums.o = qkv_arena_alloc(&a, (size_t)(w->block * width), sizeof(real));
    u->r.s = qkv_arena_alloc(&a, (size_t)k->rows * QKV_CHUNK, sizeof(real));
    u->sums.top = qkv_arena_alloc(&a, (size_t)w->block * 2, sizeof(real));
    u->sums.sum = u->sums.top + w->block;
    u->sums.begun = qkv_arena_alloc(&a, (size_t)w->block, 1);
}

// Keys, values and queries to prefetch while a chunk is processed. Each group of rows prefetches an
// equal share of them.
struct ahead {
    const char *k, *v;
    int64_t n;    // number of keys, and of values, to prefetch
    bool queries; // true: also prefetch the queries of the next head
};
static struct ahead find_next(const struct unit *u, int64_t chunk, int64_t first, int64_t end)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const bool last = chunk + w->chunk >= end, more = u->r.g + 1 < u->g_end;
    const int64_t lo = last ? first : chunk + w->chunk, g = last ? u->r.g + 1 : u->r.g;
    if (last && !more) return (struct ahead){ 0 };
    return (struct ahead){ .k = item_key(u, g, lo),
                           .v = item_value(u, g, lo),
                           .n = qkv_min64(end, lo / w->chunk * w->chunk + w->chunk) - lo,
                           .queries = last };
}
static void fetch(const struct unit *u, const struct ahead *x, int64_t g)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t size = (int64_t)w->size;
    for (int64_t j = g * x->n / u->r.groups; j < (g + 1) * x->n / u->r.groups; j++) {
        qkv_attention_fetch(x->k + j * w->a.k_strides.t * size, w->a.E * size);
        qkv_attention_fetch(x->v + j * w->a.v_strides.t * size, w->a.F * size);
    }
    if (!x->queries) return;
    const int64_t next = w->heads * w->a.q_strides.h * size;
    const int64_t end = qkv_attention_group(g + 1, u->r.rows, u->r.groups);
    for (int64_t r = qkv_attention_group(g, u->r.rows, u->r.groups); r < end; r++)
        qkv_attention_fetch(row_query(u, r) + next, w->a.E * size);
}

// Returns whether the unit has all rows of a sequence that is short enough, with `heads` key heads, to
// be prefetched line by line.
static bool short_rows(const struct unit *u, int64_t heads)
{
    // most: bytes of the queries, keys and values, half of a second-level cache: CPUs with AVX-512
    // have 1 MiB or more, with few exceptions, others 512 KiB; LONG: heads, keys, and width E + F
    enum { LONG = 4096 };
    const int64_t most = (qkv_cpu_features() & QKV_CPU_AVX512) ? 1 << 19 : 1 << 18;
    const struct qkv_attention_work *w = u->c->r.w;
    const struct qkv_attention *a = &w->a;
    if (heads > LONG || u->r.item.S > LONG || a->E + a->F > LONG) return false;
    return u->r.row == 0 && u->r.rows == u->r.item.T * w->heads &&
           (u->r.rows * a->E + u->r.item.S * (a->E + a->F)) * heads * (int64_t)w->size <= most;
}
// Returns whether the thread prefetches all heads of the next unit token by token. It does so if
// the unit is a short sequence whose heads are adjacent in memory: reading all heads of a token at
// once is much faster than reading one head of every token.
static bool whole_rows(const struct unit *u)
{
    const struct qkv_attention *a = &u->c->r.w->a;
    const int64_t heads = u->g_end - u->r.g;
    return heads > 1 && short_rows(u, heads) && a->q_strides.h == a->E && a->k_strides.h == a->E &&
           a->v_strides.h == a->F;
}
// Finds the rows of `heads` key heads of unit x, and how many of their lines each of `steps` steps
// prefetches.
static void find_rows(struct unit_rows *to, const struct unit *x, int64_t heads, int64_t steps)
{
    const struct qkv_attention_work *w = x->c->r.w;
    const struct qkv_attention *a = &w->a;
    const int64_t size = (int64_t)w->size, h = x->r.g * w->heads;
    const int64_t T = x->r.item.T, S = x->r.item.S;
    int64_t lines = 0;
    *to = (struct unit_rows){
        .of = { { x->c->r.q + qkv_rows_place(&x->r, &a->q_strides, x->r.item.row, h),
                  (ptrdiff_t)(a->q_strides.t * size), T, heads * w->heads * a->E * size },
                { item_key(x, x->r.g, 0), (ptrdiff_t)(a->k_strides.t * size), S,
                  heads * a->E * size },
                { item_value(x, x->r.g, 0), (ptrdiff_t)(a->v_strides.t * size), S,
                  heads * a->F * size },
                { x->c->r.out + qkv_rows_place(&x->r, &a->out_strides, x->r.item.row, h),
                  (ptrdiff_t)(a->out_strides.t * size), T, heads * w->heads * a->F * size } },
        .tokens = qkv_max64(T, S),
    };
    for (int i = 0; i < 4; i++)
        lines += to->of[i].tokens * qkv_ceil_div(to->of[i].bytes, QKV_CACHE_LINE);
    to->lines = qkv_ceil_div(lines, steps);
}
static void fetch_next(struct unit_rows *x)
{
    for (int64_t n = x->lines; n > 0 && x->token < x->tokens;) {
        const char *row = x->of[x->array].at + x->token * x->of[x->array].step;
        const int64_t bytes = x->token < x->of[x->array].tokens ? x->of[x->array].bytes : 0;
        for (; n > 0 && x->byte < bytes; n--, x->byte += QKV_CACHE_LINE)
            __builtin_prefetch(row + x->byte, 0, 2);
        if (x->byte < bytes) return;
        x->byte = 0;
        x->array = (x->array + 1) % 4;
        if (!x->array) x->token++;
    }
}

// Returns the keys of this call that at least one row of the unit may see.
static struct qkv_attention_keys keys_here(const struct unit *u)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const struct qkv_attention_part *part = u->c->part;
    struct qkv_attention_keys k = {
        .lo = qkv_attention_keys(w, &u->r.item, qkv_rows_token(&u->r, 0)).lo,
        .hi = qkv_attention_keys(w, &u->r.item, qkv_rows_token(&u->r, u->r.rows - 1)).hi,
    };
    if (!part) return k;
    k.lo = qkv_max64(k.lo, part->first - u->r.item.key);
    k.hi = qkv_min64(k.hi, part->first + part->n - u->r.item.key);
    return k;
}

// Selects the sums of the unit's rows among the sums of all rows of a batch item.
static void find_sums(struct unit *u, const struct qkv_rows_sums *all)
{
    const struct qkv_attention_work *w = u->c->r.w;
    const int64_t first = u->r.item.row * w->a.H + u->r.g * u->r.item.T * w->heads + u->r.row;
    u->sums = (struct qkv_rows_sums){ .o = all->o + first * w->kernel->width(w->a.F),
                                      .top = all->top + first,
                                      .sum = all->sum + first,
                                      .begun = all->begun + first };
}

static void run_head(struct unit *u)
{
    struct qkv_rows_group p;
    const struct qkv_attention_work *w = u->c->r.w;
    const struct qkv_attention_part *part = u->c->part;
    const bool finish = !part || part->finish;
    const struct qkv_attention_keys keys = keys_here(u);
    if (part) find_sums(u, &part->sums);
    if (!part || part->begin) {
        qkv_rows_begin_sums(&u->r, &u->sums);
        qkv_rows_begin_weights(&u->r);
    }
    if (keys.lo >= keys.hi) { // no row of the block sees a key of this call
        for (int64_t g = 0; finish && g < u->r.groups; g++) qkv_rows_finish(&u->r, &u->sums, g);
        return;
    }
    // If the keys are more than one chunk, each chunk reads the queries again: the queries are first
    // copied into adjacent rows.
    u->copied = w->kernel->pack_query || keys.hi - keys.lo > w->chunk;
    for (int64_t r = 0; u->copied && r < u->r.rows; r++)
        if (w->kernel->pack_query)
            w->kernel->pack_query(query(u, r), row_query(u, r), w->a.E);
        else
            memcpy(query(u, r), row_query(u, r), u->row_bytes);
    for (int64_t chunk = keys.lo / w->chunk * w->chunk; chunk < keys.hi; chunk += w->chunk) {
        const bool finite =
            pack(u, chunk, qkv_max64(keys.lo, chunk), qkv_min64(keys.hi, chunk + w->chunk));
        const struct ahead next = find_next(u, chunk, keys.lo, keys.hi);
        for (int64_t g = 0; g < u->r.groups; g++) {
            if (u->next)
                fetch_next(u->next);
            else
                fetch(u, &next, g);
            if (qkv_rows_find(&u->r, g, chunk, &p)) run_group(u, &p, finite);
            if (finish && chunk + w->chunk >= keys.hi) qkv_rows_finish(&u->r, &u->sums, g);
        }
    }
}

// Lets a unit whose sequence is short prefetch its next head, or the first head of the next unit.
static void find_next_head(struct unit *u, const struct unit *next, struct unit_rows *rows)
{
    struct unit after = *u;
    u->next = NULL;
    if (++after.r.g == u->g_end) {
        if (!next) return;
        after = *next;
    }
    if (!short_rows(&after, 1)) return;
    find_rows(rows, &after, 1, u->r.groups);
    u->next = rows;
}

static void run_unit(void *ctx, int64_t i, int thread)
{
    const struct call *c = ctx;
    struct unit u = { .r.call = &c->r, .c = c };
    find_unit(&u, c->first_unit + i);
    take_scratch(&u, thread);
    struct unit next = { .r.call = &c->r, .c = c };
    struct unit_rows rows;
    const int64_t then = i + u.c->r.w->threads;
    const bool ahead = !c->part && short_rows(&u, 1), more = ahead && then < u.c->r.w->units;
    if (more) find_unit(&next, then);
    const bool whole = more && whole_rows(&u) && whole_rows(&next);
    if (whole) {
        find_rows(&rows, &next, next.g_end - next.r.g, (u.g_end - u.r.g) * u.r.groups);
        u.next = &rows;
    }
    for (; u.r.g < u.g_end; u.r.g++) {
        if (ahead && !whole) find_next_head(&u, more ? &next : NULL, &rows);
        run_head(&u);
    }
}

// Collects the requested attention statistics. Their workspace is the scratch, which forward no
// longer needs.
static qkv_status run_probe(const struct qkv_attention_work *w, const void *q, const void *k,
                            const real *lse, void *scratch)
{
    struct qkv_probe_work x;
    qkv_status status =
        qkv_probe_resolve(&x, w, w->a.probe, &(struct qkv_attention_reason){ NULL, 0 });
    if (!status) status = qkv_probe_check(&x, q, k, lse, scratch);
    return status ? status : qkv_probe_run(&x, q, k, lse, scratch);
}

// Sets the members of a call that depend on its work: the exponent, and the table of row blocks at the
// start of scratch.
static void begin_call(struct call *c, void *scratch)
{
    const struct qkv_attention_work *w = c->r.w;
    c->scratch = (char *)scratch + w->table;
    qkv_rows_exponent(&c->r);
    if (!w->table) return;
    int64_t *table = scratch;
    table[0] = 0;
    for (int64_t n = 0; n < w->items; n++)
        table[n + 1] = table[n] + qkv_attention_blocks(w, qkv_attention_item(w, n).T);
    c->table = table;
}

qkv_status qkv_attention_run(void *out, real *lse, real *weights, const void *q, const void *k,
                             const void *v, const struct qkv_attention_work *w, void *scratch)
{
    if (!w->units) return w->a.probe ? run_probe(w, q, k, lse, scratch) : QKV_OK;
    if (w->a.S && (!k || !v)) return QKV_ERR_USAGE;
    const qkv_status status = qkv_attention_check_arrays(
        w, &(struct qkv_attention_arrays){ out, q, k, v, scratch, lse, weights });
    if (status) return status;
    if (w->a.probe && !lse) lse = (real *)(void *)((char *)scratch + w->lse);
    struct call c = { .r = { .w = w, .out = out, .lse = lse, .weights = weights, .q = q },
                      .k = k,
                      .v = v };
    begin_call(&c, scratch);
    qkv_parallel_for_most(w->units, w->threads, run_unit, &c);
    return w->a.probe ? run_probe(w, q, k, c.r.lse, scratch) : QKV_OK;
}

bool qkv_attention_place_sums(struct qkv_rows_sums *x, const struct qkv_attention_work *w,
                              struct qkv_arena *to)
{
    const int64_t rows = w->a.T * w->a.H;
    *x = (struct qkv_rows_sums){
        .o = qkv_arena_rows(to, rows, w->kernel->width(w->a.F), sizeof(real)),
        .top = qkv_arena_alloc(to, (size_t)rows, sizeof(real)),
        .sum = qkv_arena_alloc(to, (size_t)rows, sizeof(real)),
        .begun = qkv_arena_alloc(to, (size_t)rows, 1),
    };
    return !qkv_arena_full(to);
}

void qkv_attention_run_part(void *out, real *lse, const void *q, const void *k, const void *v,
                            const struct qkv_attention_work *w,
                            const struct qkv_attention_part *part, void *scratch)
{
    const struct qkv_strides *ks = &w->a.k_strides, *vs = &w->a.v_strides;
    const ptrdiff_t size = (ptrdiff_t)w->size;
    struct call c = { .r = { .w = w, .out = out, .lse = lse, .q = q },
                      .k = k,
                      .v = v,
                      .part = part,
                      .k_before = (ptrdiff_t)(part->b * ks->b + part->first * ks->t) * size,
                      .v_before = (ptrdiff_t)(part->b * vs->b + part->first * vs->t) * size };
    if (!w->units) return;
    begin_call(&c, scratch);
    c.first_unit = part->b * (w->units / w->a.B);
    qkv_parallel_for_most(w->units / w->a.B, w->threads, run_unit, &c);
}

#ifndef QKV_DOUBLE
QKV_API qkv_status qkv_attention_forward(void *out, float *lse, float *weights, const void *q,
                                         const void *k, const void *v,
                                         const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_work w;
    if (!a) return QKV_ERR_USAGE;
    const qkv_status status = qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, NULL, 0);
    return status ? status : qkv_attention_run(out, lse, weights, q, k, v, &w, scratch);
}

QKV_API void qkv_softmax_rows(float *y, const float *x, int64_t rows, int64_t n, int64_t ldy,
                              int64_t ldx)
{
    if (rows > 0 && n > 0 && y && x) qkv_kernel()->softmax_rows(y, x, rows, n, ldy, ldx);
}
#endif

// If H is a power of two, the slopes are a geometric series. For any other H, the slopes for the
// largest power of two below H come first, followed by every other slope for twice that power:
// Press et al. 2022, section 3 and their published code.
QKV_API void qkv_alibi_slopes(float *slopes, int64_t H)
{
    int64_t power = 1;
    if (!slopes) return;
    while (power * 2 <= H) power *= 2;
    for (int64_t h = 0; h < H; h++)
        slopes[h] = (float)(h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                                      : exp2(-4.0 * (double)(2 * (h - power) + 1) / (double)power));
}
