// SPDX-License-Identifier: MIT
// attention_backward.c: runs the backward pass of attention over units, blocks of rows and chunks
// of keys.
//
//   for each item and key/value head of the unit:
//       dk, dv = 0
//       for each block of rows:  dq = 0
//           for each part of the keys:  share = 0
//               for each chunk of the part, for each group of rows:  share, dk, dv += tile
//               dq += share
//           store dq
//       store dk, dv
//
// Terms as in attention_back_work.h. The sums of a key run over all rows in ascending order, the
// sums of a row over chunks and then over parts. This order does not depend on blocks, units or
// threads. A unit with only some of the parts of the keys stores the share of dq of each part; a
// second pass adds the shares in the same order. In a blockwise call the units of a stream run in the
// order of the keys instead, and the sums of dq pass from unit to unit.
//
// Dao et al. 2022 (arXiv 2205.14135) algorithm 4.
#include "layer/attention/attention_back_work.h"
#include <string.h>

// ---- storing gradients -------------------------------------------------------------------------
static char *key_row(const struct qkv_back_rows *u, void *array, const struct qkv_strides *s,
                     int64_t key)
{
    return (char *)array + qkv_rows_place(&u->at, s, key, u->at.g);
}

// Sets dk and dv to 0 for keys lo .. hi-1, which are counted from the first key of the batch item.
static void clear_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi)
{
    const struct qkv_attention *a = &u->b->w.a;
    for (int64_t j = lo; j < hi; j++) {
        memset(key_row(u, u->x->dk, &a->k_strides, j), 0, (size_t)a->E * u->b->w.size);
        memset(key_row(u, u->x->dv, &a->v_strides, j), 0, (size_t)a->F * u->b->w.size);
    }
}

static void store_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    for (int64_t j = lo; j < hi; j++) {
        const int64_t key = u->at.item.key + j, n = j - u->from;
        char *dk = u->b->blockwise ? u->k + (size_t)(n * a->E) * u->b->w.size
                                   : key_row(u, u->x->dk, &a->k_strides, key);
        char *dv = u->b->blockwise ? u->v + (size_t)(n * a->F) * u->b->w.size
                                   : key_row(u, u->x->dv, &a->v_strides, key);
        k->store(dk, u->m.dk + n * k->width(a->E), (real)a->scale, a->E);
        k->store(dv, u->m.dv + n * k->width(a->F), 1, a->F);
    }
}

// Returns the address of the row of token t and head h of item m in the array of dq of each part of
// the keys, [parts][B][T][H][width].
static real *partial_row(const struct qkv_back_call *c, const struct qkv_attention_item *m,
                         int64_t part, int64_t t, int64_t h)
{
    const struct qkv_attention *a = &c->b->w.a;
    const int64_t row = ((part * a->B + m->b) * a->T + m->row + t) * a->H + h;
    return c->arrays.partial + row * c->b->kernel->width(a->E);
}

// Prefetches dk and dv of keys lo .. hi-1 of the item.
static void fetch_gradients(const struct qkv_back_rows *u, int64_t lo, int64_t hi)
{
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t size = (int64_t)u->b->w.size;
    if (u->b->blockwise || !u->x->dk || !u->x->dv) return;
    for (int64_t j = u->at.item.key + lo; j < u->at.item.key + hi; j++) {
        qkv_attention_fetch(key_row(u, u->x->dk, &a->k_strides, j), a->E * size);
        qkv_attention_fetch(key_row(u, u->x->dv, &a->v_strides, j), a->F * size);
    }
}

// ---- a block of rows ---------------------------------------------------------------------------
// Prefetches the data that the thread needs after this tile. Before the last chunk these are the
// keys of the next chunk. In the last chunk they are the next block of rows, in this item or in the
// next unit, group by group, and its first keys.
static void fetch_ahead(const struct qkv_back_rows *u, int64_t chunk, int64_t last, int64_t g)
{
    const struct qkv_attention_back *b = u->b;
    const int64_t rows = b->kernel->rows, then = chunk + b->chunk;
    const int64_t groups = qkv_ceil_div(u->at.rows, rows);
    if (then < last) {
        const int64_t n = qkv_min64(b->chunk, last - then);
        qkv_back_fetch_keys(u, then + g * n / groups, then + (g + 1) * n / groups);
        return;
    }
    struct qkv_back_rows next = *u;
    next.at.row += u->at.rows;
    const bool same = next.at.row < u->at.item.T * b->w.heads;
    if (same) {
        next.at.rows = qkv_min64(b->block, u->at.item.T * b->w.heads - next.at.row);
    } else if (u->next) {
        next = *u->next;
    } else
        return;
    const int64_t n = qkv_min64(b->chunk, next.end - next.from);
    const int64_t from = next.from + g * n / groups, to = next.from + (g + 1) * n / groups;
    qkv_back_fetch_rows(&next, g * rows, rows);
    qkv_back_fetch_keys(&next, from, to);
    // the gradients of the keys are stored after all rows: soon, if the next item is one chunk
    if (!same && next.end - next.from <= b->chunk) fetch_gradients(&next, from, to);
}

// Computes what keys lo .. hi-1 of a part contribute to dq of the block of query rows, and adds to dk
// and dv of these keys.
static void run_part(const struct qkv_back_rows *u, int64_t lo, int64_t hi)
{
    const struct qkv_attention_back *b = u->b;
    const int64_t groups = qkv_ceil_div(u->at.rows, b->kernel->rows);
    const int64_t first = qkv_max64(lo, qkv_rows_keys(&u->at, 0).lo);
    const int64_t last = qkv_min64(hi, qkv_rows_keys(&u->at, u->at.rows - 1).hi);
    const size_t row = (size_t)b->kernel->width(b->w.a.E) * sizeof(real);
    if (lo % qkv_attention_back_part(b, u->at.item.S) == 0)
        memset(u->m.dq_part, 0, (size_t)u->at.rows * row);
    for (int64_t chunk = first / b->chunk * b->chunk; chunk < last; chunk += b->chunk) {
        qkv_back_pack_keys(u, chunk, qkv_max64(first, chunk), qkv_min64(last, chunk + b->chunk));
        for (int64_t g = 0; g < groups; g++) {
            fetch_ahead(u, chunk, last, g);
            qkv_back_tile(u, g, chunk);
        }
    }
}

static void store_rows(const struct qkv_back_rows *u, const real *dq)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    for (int64_t r = 0; r < u->at.rows; r++)
        k->store((char *)u->x->dq + qkv_rows_row(&u->at, &a->q_strides, r), dq + r * k->width(a->E),
                 u->at.item.S ? (real)a->scale : 1, a->E); // 0 without a sign if there are no keys
}

// Processes a block of rows with all parts of the keys in order, and stores its dq.
static void run_block(const struct qkv_back_rows *u)
{
    const struct qkv_attention_back *b = u->b;
    const int64_t S = u->at.item.S, keys = qkv_attention_back_part(b, S);
    const int64_t numbers = u->at.rows * b->kernel->width(b->w.a.E);
    if (S > 0 && S <= keys) {
        run_part(u, 0, S);
        store_rows(u, u->m.dq_part);
        return;
    }
    memset(u->m.dq, 0, (size_t)numbers * sizeof(real));
    for (int64_t lo = 0; lo < S; lo += keys) {
        run_part(u, lo, qkv_min64(lo + keys, S));
        b->kernel->add(u->m.dq, u->m.dq_part, numbers);
    }
    store_rows(u, u->m.dq);
}

// Processes a block of rows with the parts of a cut unit, and stores the share of dq of each part
// for the second pass.
static void run_shares(const struct qkv_back_call *c, const struct qkv_back_rows *u)
{
    const int64_t width = c->b->kernel->width(c->b->w.a.E), S = u->at.item.S;
    const int64_t keys = qkv_attention_back_part(c->b, S);
    for (int64_t lo = u->from; lo < u->end; lo += keys) {
        run_part(u, lo, qkv_min64(lo + keys, S));
        for (int64_t r = 0; r < u->at.rows; r++)
            memcpy(partial_row(c, &u->at.item, lo / keys, qkv_rows_token(&u->at, r),
                               qkv_rows_head(&u->at, r)),
                   u->m.dq_part + r * width, (size_t)width * sizeof(real));
    }
}

// Processes a block of rows with the keys of a unit of a blockwise call, which may begin and end
// within a part. After the last key, stores dq of the block.
static void run_keys(const struct qkv_back_rows *unit)
{
    const struct qkv_attention_back *b = unit->b;
    const int64_t width = b->kernel->width(b->w.a.E), S = unit->at.item.S;
    const int64_t keys = qkv_attention_back_part(b, S), numbers = unit->at.rows * width;
    struct qkv_back_rows u = *unit; // with the sums of its block
    u.m.dq += u.at.row * width;
    u.m.dq_part += u.at.row * width;
    if (!S) memset(u.m.dq, 0, (size_t)numbers * sizeof(real));
    for (int64_t lo = u.from, hi; lo < u.end; lo = hi) {
        const int64_t part = lo / keys * keys;
        hi = qkv_min64(part + keys, u.end);
        run_part(&u, lo, hi);
        if (hi < S && hi < part + keys) continue; // the next unit continues the part
        if (part)
            b->kernel->add(u.m.dq, u.m.dq_part, numbers);
        else
            memcpy(u.m.dq, u.m.dq_part, (size_t)numbers * sizeof(real));
    }
    if (u.end == S) store_rows(&u, u.m.dq);
}

// ---- a unit ------------------------------------------------------------------------------------
// Sets dk and dv to 0 for keys that no query sees. Item n is a sequence: its keys beyond its
// length. Item n consists of the rows before or after all packed sequences: the keys before or
// after all sequences.
static void clear_unseen(const struct qkv_back_rows *u, int64_t n)
{
    const struct qkv_attention *a = &u->b->w.a;
    const struct qkv_attention_item *m = &u->at.item;
    if (a->sequences && n == a->sequences)
        clear_keys(u, 0, a->k_offsets[0]);
    else if (a->sequences && n > a->sequences)
        clear_keys(u, a->k_offsets[a->sequences], a->S);
    else
        clear_keys(u, m->key + m->S, m->key + m->all);
}

// Copies n bytes to the sums that leave the unit (out) or from the sums that enter it, and moves on
// in these; does nothing if they are NULL.
static void take(void *to, const char **in, size_t n)
{
    if (!*in) return;
    memcpy(to, *in, n);
    *in += n;
}
static void give(char **out, const void *from, size_t n)
{
    if (!*out) return;
    memcpy(*out, from, n);
    *out += n;
}

// Points a unit of a blockwise call to the keys, values and sums of dq of its item and key/value
// head, and moves on to the next ones.
static void take_block(struct qkv_back_rows *u, struct qkv_back_sums *sums)
{
    const struct qkv_attention_back *b = u->b;
    const int64_t keys = u->end - u->from;
    const int64_t numbers = qkv_back_sums_rows(b, &u->at.item) * b->kernel->width(b->w.a.E);
    u->k = sums->keys;
    u->v = u->k + (size_t)(keys * b->w.a.E) * b->w.size;
    sums->keys = u->v + (size_t)(keys * b->w.a.F) * b->w.size;
    u->m.dq = sums->dq;
    u->m.dq_part = sums->dq + numbers;
    sums->dq += 2 * numbers;
}

static void run_pair(const struct qkv_back_call *c, struct qkv_back_rows *u, int64_t n, int64_t cut,
                     struct qkv_back_sums *sums)
{
    const struct qkv_attention_back *b = c->b;
    const int64_t rows = u->at.item.T * b->w.heads;
    const size_t keys = qkv_round_up((size_t)(u->end - u->from), (size_t)b->chunk);
    const size_t dk = (size_t)b->kernel->width(b->w.a.E) * sizeof(real);
    const size_t dv = (size_t)b->kernel->width(b->w.a.F) * sizeof(real);
    const size_t own = (size_t)(u->end - u->from);
    if (b->blockwise)
        take_block(u, sums);
    else if (cut == 0 && !sums->out)
        clear_unseen(u, n);
    if (cut > 0 && u->from >= u->end) return;
    memset(u->m.dk, 0, keys * dk);
    memset(u->m.dv, 0, keys * dv);
    take(u->m.dk, &sums->in, own * dk);
    take(u->m.dv, &sums->in, own * dv);
    for (; u->at.row < rows; u->at.row += b->block) {
        u->at.rows = qkv_min64(b->block, rows - u->at.row);
        qkv_back_pack_rows(u);
        if (b->blockwise)
            run_keys(u);
        else if (b->cuts > 1)
            run_shares(c, u);
        else
            run_block(u);
        qkv_back_add_rows(u);
    }
    if (!sums->out) store_keys(u, u->from, u->end);
    give(&sums->out, u->m.dk, own * dk);
    give(&sums->out, u->m.dv, own * dv);
}

// Returns the tables that unit i adds to for item n.
static struct qkv_back_tables unit_tables(const struct qkv_back_call *c, int64_t i, int64_t n)
{
    const struct qkv_attention_back *b = c->b;
    const struct qkv_attention *a = &b->w.a;
    const int64_t slice = i / b->cuts / b->shares, share = i / b->cuts % b->shares;
    const int64_t cut = i % b->cuts, line = 2 * a->relative.reach + 1;
    const int64_t copy = (a->sequences ? slice : n) * b->cuts + cut;
    struct qkv_back_tables t = { .bias = { c->g->bias, a->bias.b, a->bias.h, a->bias.t } };
    if (b->bias_copied) {
        const int64_t at = (b->bias_items ? slice : 0) * (b->bias_heads ? b->shares : 1) +
                           (b->bias_heads ? share : 0);
        t.bias.at = c->arrays.bias + at * b->bias_size;
        t.bias.b = b->bias_b;
        t.bias.h = b->bias_h;
        t.bias.t = b->bias_t;
    }
    if (c->g->relative) t.relative = c->arrays.relative + copy * a->H * line;
    if (c->g->alibi) t.alibi = c->arrays.alibi + copy * a->H;
    // Only the first cut adds to the gradient of the sinks, since each row counts once.
    if (c->g->sinks && cut == 0) t.sinks = c->arrays.sinks + copy * a->H;
    return t;
}

// Copies the gradients of tables of the unit's heads from `in`, or to `out`, and moves on in these;
// returns their bytes.
static size_t pass_copy(const struct qkv_back_call *c, const struct qkv_back_tables *t,
                        const struct qkv_back_pairs *at, struct qkv_back_sums *sums)
{
    const int64_t heads = c->b->w.heads, line = 2 * c->b->w.a.relative.reach + 1;
    const struct {
        real *at;
        int64_t line;
    } tables[] = { { t->relative, line }, { t->alibi, 1 }, { t->sinks, 1 } };
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (!tables[i].at) continue;
        real *mine = tables[i].at + at->g_from * heads * tables[i].line;
        const size_t n = (size_t)((at->g_end - at->g_from) * heads * tables[i].line) * sizeof(real);
        take(mine, &sums->in, n);
        give(&sums->out, mine, n);
        bytes += n;
    }
    return bytes;
}

// The gradients of tables that unit `unit` adds to come first in its sums, item by item. Copies them
// from `in`, or to `out`, and moves on in these; returns their bytes.
static size_t pass_tables(const struct qkv_back_call *c, int64_t unit,
                          const struct qkv_back_pairs *at, struct qkv_back_sums *sums)
{
    const int64_t copies = qkv_back_unit_copies(c->b, at->n, at->n_end), heads = c->b->w.heads;
    size_t bytes = 0;
    for (int64_t n = at->n; n < at->n + copies; n++) {
        const struct qkv_back_tables item = unit_tables(c, unit, n);
        bytes += pass_copy(c, &item, at, sums);
    }
    const struct qkv_back_columns x = qkv_back_unit_columns(c->b, c->g, *at);
    const struct qkv_back_tables t = unit_tables(c, unit, at->n);
    const int64_t b = qkv_attention_item(&c->b->w, at->n).b;
    for (int64_t i = 0; i < x.lines; i++) {
        real *mine = t.bias.at + b * t.bias.b + (at->g_from * heads + i) * t.bias.h + x.first;
        const size_t n = (size_t)x.n * sizeof(real);
        take(mine, &sums->in, n);
        give(&sums->out, mine, n);
        bytes += n;
    }
    return bytes;
}

static int64_t unit_of(const struct qkv_back_call *c, int64_t index)
{
    return c->sums ? c->sums[index].unit : index;
}

static void run_unit(void *ctx, int64_t index, int thread)
{
    const struct qkv_back_call *c = ctx;
    const struct qkv_attention_back *b = c->b;
    const int64_t i = unit_of(c, index), then = index + b->w.threads;
    struct qkv_back_sums sums = { 0 };
    if (c->sums) sums = c->sums[index];
    const double p = (double)b->w.a.dropout.p;
    struct qkv_back_pairs at = qkv_back_unit_pairs(b, i);
    struct qkv_back_rows u = { .b = b,
                               .x = c->x,
                               .at = { .call = &c->rows },
                               .times = (real)(1 / (1 - p)),
                               .less = qkv_dropout_threshold(p),
                               .d = c->arrays.d,
                               .plain = !c->rows.shaped && !b->w.a.mask.at && p == 0 };
    size_t bytes;
    qkv_back_memory(&u.m, &bytes, b, c->arrays.threads + (size_t)thread * b->scratch_thread);
    const struct qkv_back_pairs whole = at;
    struct qkv_back_sums tables = { .out = sums.out };
    struct qkv_back_sums enter = { .in = sums.in };
    const size_t first = pass_tables(c, i, &whole, &enter);
    if (sums.in) sums.in += first;
    if (sums.out) sums.out += first;
    for (bool more = true; more;) {
        struct qkv_back_rows next = u;
        const int64_t n = at.n, cut = at.cut;
        qkv_back_find_pair(&u, n, at.g, cut);
        u.tables = unit_tables(c, i, n);
        more = qkv_back_pairs_next(&at);
        if (!more && then < c->units) at = qkv_back_unit_pairs(b, unit_of(c, then));
        u.next = more || then < c->units ? &next : NULL;
        if (u.next) qkv_back_find_pair(&next, at.n, at.g, at.cut);
        run_pair(c, &u, n, cut, &sums);
    }
    pass_tables(c, i, &whole, &tables);
}

// ---- D = dout . out ----------------------------------------------------------------------------
enum { DOT_TOKENS = 64 };

// Computes D = dout . out of the rows of DOT_TOKENS tokens of a batch item and all heads, in the
// order in which the rows are stored: reading adjacent rows is much faster than reading the rows of
// one head.
static void find_dots(void *ctx, int64_t i, int thread)
{
    const struct qkv_back_call *c = ctx;
    const struct qkv_attention *a = &c->b->w.a;
    const struct qkv_strides *s = &a->out_strides;
    const int64_t blocks = qkv_ceil_div(a->T, DOT_TOKENS), item = i / blocks;
    const int64_t first = i % blocks * DOT_TOKENS, T = qkv_min64(DOT_TOKENS, a->T - first);
    // true: the heads of a token are adjacent in memory
    const bool heads = llabs(s->h) < llabs(s->t);
    (void)thread;
    for (int64_t n = 0; n < (heads ? T : a->H); n++)
        for (int64_t m = 0; m < (heads ? a->H : T); m++) {
            const int64_t h = heads ? m : n, t = first + (heads ? n : m);
            const ptrdiff_t at =
                (ptrdiff_t)(item * s->b + t * s->t + h * s->h) * (ptrdiff_t)c->b->w.size;
            c->arrays.d[(item * a->H + h) * a->T + t] = c->b->kernel->dot(
                (const char *)c->x->dout + at, (const char *)c->x->out + at, a->F);
        }
}

// ---- adding the results of several units -------------------------------------------------------
// Adds the shares of dq of one token of the item over the parts in order, for all heads, and stores
// dq.
static void add_shares(void *ctx, int64_t t, int thread)
{
    const struct qkv_back_call *c = ctx;
    const struct qkv_attention *a = &c->b->w.a;
    const struct qkv_attention_back_kernels *k = c->b->kernel;
    const int64_t parts = qkv_attention_back_parts(c->b, c->item.S);
    (void)thread;
    for (int64_t h = 0; h < a->H; h++) {
        const int64_t at =
            c->item.b * a->q_strides.b + (c->item.row + t) * a->q_strides.t + h * a->q_strides.h;
        char *to = (char *)c->x->dq + (ptrdiff_t)at * (ptrdiff_t)c->b->w.size;
        if (!parts) {
            memset(to, 0, (size_t)a->E * c->b->w.size);
            continue;
        }
        real *sum = partial_row(c, &c->item, 0, t, h);
        for (int64_t p = 1; p < parts; p++) k->add(sum, partial_row(c, &c->item, p, t, h), a->E);
        k->store(to, sum, (real)a->scale, a->E);
    }
}

// Adds row n of every copy of the bias gradient to the caller's array.
static void add_bias(void *ctx, int64_t n, int thread)
{
    const struct qkv_back_call *c = ctx;
    const struct qkv_attention_back *b = c->b;
    const struct qkv_attention *a = &b->w.a;
    const int64_t copies = (b->bias_items ? b->slices : 1) * (b->bias_heads ? b->shares : 1);
    const int64_t T = b->bias_t ? a->T : 1, H = b->bias_h ? a->H : 1;
    real *to = c->g->bias + n / T / H * a->bias.b + n / T % H * a->bias.h + n % T * a->bias.t;
    (void)thread;
    for (int64_t i = 0; i < copies; i++)
        b->kernel->add(to, c->arrays.bias + i * b->bias_size + n * a->S, a->S);
}

static void add_bias_copies(const struct qkv_back_call *c)
{
    const struct qkv_attention_back *b = c->b;
    struct qkv_back_call call = *c;
    if (b->bias_copied && b->bias_size)
        qkv_parallel_for_most(b->bias_size / b->w.a.S, b->w.threads, add_bias, &call);
}

void qkv_attention_back_tables(const struct qkv_back_call *c)
{
    const struct qkv_attention_back *b = c->b;
    const struct qkv_attention *a = &b->w.a;
    const int64_t line = a->H * (2 * a->relative.reach + 1);
    if (qkv_bias_of_columns(b, c->g)) add_bias_copies(c);
    for (int64_t i = 0; i < qkv_attention_back_copies(b) * b->cuts; i++) {
        if (c->g->relative) b->kernel->add(c->g->relative, c->arrays.relative + i * line, line);
        if (c->g->alibi) b->kernel->add(c->g->alibi, c->arrays.alibi + i * a->H, a->H);
        if (c->g->sinks) b->kernel->add(c->g->sinks, c->arrays.sinks + i * a->H, a->H);
    }
}

// ---- the call ----------------------------------------------------------------------------------
void qkv_attention_back_begin_blocks(struct qkv_back_call *c, const struct qkv_attention_back *b,
                                     const struct qkv_attention_tables *g,
                                     const struct qkv_attention_back_given *x)
{
    *c = (struct qkv_back_call){ .b = b, .g = g, .x = x };
    c->arrays = qkv_attention_back_arrays(b, g, x->scratch);
    char *const tables = (char *)x->scratch + qkv_round_up(b->dots, 64) + b->partial;
    memset(tables, 0, (size_t)(c->arrays.threads - tables));
    c->rows = (struct qkv_rows_call){ .w = &b->w, .q = x->q };
    qkv_rows_exponent(&c->rows);
    qkv_parallel_for_most(b->w.a.B * qkv_ceil_div(b->w.a.T, DOT_TOKENS), b->w.threads, find_dots,
                          c);
}

qkv_status qkv_attention_back_begin(struct qkv_back_call *c, const struct qkv_attention_back *b,
                                    const struct qkv_attention_tables *g,
                                    const struct qkv_attention_back_given *x)
{
    const qkv_status status = qkv_attention_back_check(b, g, x);
    if (!status) qkv_attention_back_begin_blocks(c, b, g, x);
    return status;
}

void qkv_attention_back_units(struct qkv_back_call *c, int64_t units,
                              const struct qkv_back_sums *sums)
{
    c->units = units;
    c->sums = sums;
    qkv_parallel_for_most(units, c->b->w.threads, run_unit, c);
}

void qkv_attention_back_rows(struct qkv_back_call *c)
{
    const struct qkv_attention_back *b = c->b;
    for (int64_t n = 0; b->cuts > 1 && !b->blockwise && n < b->w.items; n++) {
        c->item = qkv_attention_item(&b->w, n);
        qkv_parallel_for_most(c->item.T, b->w.threads, add_shares, c);
    }
    if (!qkv_bias_of_columns(b, c->g)) add_bias_copies(c);
}

qkv_status qkv_attention_back_run(const struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g,
                                  const struct qkv_attention_back_given *x)
{
    struct qkv_back_call c;
    if (!b->w.items || (!b->w.a.T && !b->w.a.S)) return QKV_OK;
    const qkv_status status = qkv_attention_back_begin(&c, b, g, x);
    if (status) return status;
    qkv_attention_back_units(&c, qkv_attention_back_count(b), NULL);
    qkv_attention_back_rows(&c);
    qkv_attention_back_tables(&c);
    return QKV_OK;
}

#ifndef QKV_DOUBLE
QKV_API qkv_status qkv_attention_backward(void *dq, void *dk, void *dv,
                                          const struct qkv_attention_gradients *g, const void *dout,
                                          const void *q, const void *k, const void *v,
                                          const void *out, const float *lse,
                                          const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_back b;
    if (!a) return QKV_ERR_USAGE;
    const struct qkv_attention_tables t = qkv_attention_tables(g);
    const qkv_status status = qkv_attention_back_resolve(&b, a, &t, NULL, 0);
    if (status) return status;
    return qkv_attention_back_run(
        &b, &t, &(struct qkv_attention_back_given){ dq, dk, dv, dout, q, k, v, out, scratch, lse });
}
#endif
