// SPDX-License-Identifier: MIT
// attention_backward_plan.c: validates a request for the attention backward pass and computes its
// units and scratch.
//
// The division of work into units depends on the shape and on the requested gradients, never on the
// number of threads. Each pair of an item and a key/value head is a unit; if there are few pairs, a
// unit has only some parts of the keys. If several pairs add to the same number of a gradient table
// (of a bias without a head axis, for example), either one unit processes them, or each unit adds
// to a copy of the table, and the copies are summed in order.
#include "layer/attention/attention_back_work.h"
#include <math.h>

// number of units to aim for: enough for an even distribution, few copies of tables and of dq
enum { UNITS = 16 };
// the keys of an item are divided into at most PARTS_MAX parts of at least PART_CHUNKS chunks each
enum { PARTS_MAX = 16, PART_CHUNKS = 2 };

int64_t qkv_attention_back_part(const struct qkv_attention_back *b, int64_t S)
{
    const int64_t chunks = qkv_ceil_div(S, b->chunk);
    return qkv_max64(PART_CHUNKS, qkv_ceil_div(chunks, PARTS_MAX)) * b->chunk;
}

// Returns the number of rows of a block. The packed rows and their sums must fit into a
// second-level cache together with the keys of a chunk.
static int64_t block_rows(const struct qkv_attention_back *b, int64_t T)
{
    const int64_t rows = b->kernel->rows, all = qkv_ceil_div(qkv_max64(T, 1) * b->w.heads, rows);
#ifdef QKV_TINY_TILES
    const int64_t most = 2;
#else
    enum { NUMBERS = 196608, ROWS = 1024 };
    const struct qkv_attention *a = &b->w.a;
    const int64_t most = qkv_max64(1, qkv_min64(ROWS, NUMBERS / (a->E + a->F)) / rows);
#endif
    return qkv_min64(most, all) * rows;
}

// Sets b->bias_heads and b->bias_items: whether several heads, and several items, add to the same
// number of the bias gradient.
static void find_shared_bias(struct qkv_attention_back *b, const struct qkv_attention_tables *g)
{
    const struct qkv_attention *a = &b->w.a;
    if (!g->bias) return;
    b->bias_heads = a->bias.h == 0 && a->G > 1;
    b->bias_items = a->sequences ? a->bias.t == 0 : a->bias.b == 0 && a->B > 1;
}

// Returns whether units may have only some parts of the keys. Items of different lengths have parts
// that begin at different keys, so two units with different parts might add to the same column of
// the bias gradient.
static bool may_cut(const struct qkv_attention_back *b)
{
    return !(b->bias_items && (b->w.a.sequences || b->w.a.k_lengths));
}

static void cut_units(struct qkv_attention_back *b, const struct qkv_attention_tables *g)
{
    const struct qkv_attention *a = &b->w.a;
    const int64_t items = b->w.items;
    const bool tables = qkv_tables_of_rows(g), columns = qkv_bias_of_columns(b, g);
    b->slices = items;
    b->shares = a->G;
    // Each rank may have some rows of every batch item. So a unit that sums over all rows has one batch
    // item, and for a bias without an axis of rows one head: its sums run over rows in ascending order.
    // Copies of a bias with an axis of rows, which batch items share, are too large for that.
    if (a->sequences ? b->bias_items || tables : b->bias_items && !columns)
        b->slices = qkv_min64(items, qkv_max64(1, UNITS / (b->bias_heads && !columns ? 1 : a->G)));
    if (b->bias_heads && !columns)
        b->shares = qkv_min64(a->G, qkv_max64(1, UNITS / qkv_max64(1, b->slices)));
    const int64_t most = UNITS / qkv_max64(1, b->slices * b->shares);
    b->cuts = most > 1 && may_cut(b) ? qkv_min64(most, b->parts) : 1;
    b->bias_copied = (b->bias_items && b->slices > 1) || (b->bias_heads && b->shares > 1);
}

// Computes the strides and the size of a copy of the bias gradient. A copy has only the axes that
// the bias has.
static bool place_bias(struct qkv_attention_back *b)
{
    const struct qkv_attention *a = &b->w.a;
    int64_t size = a->S;
    if (!b->bias_copied) return true;
    b->bias_t = a->bias.t ? size : 0;
    if (a->bias.t && __builtin_mul_overflow(size, a->T, &size)) return false;
    b->bias_h = a->bias.h ? size : 0;
    if (a->bias.h && __builtin_mul_overflow(size, a->H, &size)) return false;
    b->bias_b = a->bias.b ? size : 0;
    if (a->bias.b && __builtin_mul_overflow(size, a->B, &size)) return false;
    b->bias_size = size;
    const int64_t copies = (b->bias_items ? b->slices : 1) * (b->bias_heads ? b->shares : 1);
    return qkv_mul_size(&b->bias, (size_t)copies * sizeof(real), (size_t)size) &&
           b->bias <= SIZE_MAX / 4;
}

static bool count_scratch(struct qkv_attention_back *b, const struct qkv_attention_tables *g)
{
    const struct qkv_attention *a = &b->w.a;
    struct qkv_back_memory memory;
    size_t line = 0;
    const size_t rows = (size_t)(a->B * a->T * a->H);
    b->dots = rows * sizeof(real);
    b->partial = 0;
    if (b->cuts > 1 && !b->blockwise) {
        if (!qkv_mul_size(&b->partial, rows, (size_t)b->kernel->width(a->E) * sizeof(real)) ||
            !qkv_mul_size(&b->partial, b->partial, (size_t)b->parts))
            return false;
    }
    if (!place_bias(b)) return false;
    line += g->relative ? (size_t)(2 * a->relative.reach + 1) : 0;
    line += (g->alibi ? 1 : 0) + (g->sinks ? 1 : 0);
    if (!qkv_mul_size(&b->tables, line, (size_t)a->H * sizeof(real)) ||
        !qkv_mul_size(&b->tables, b->tables, (size_t)(qkv_attention_back_copies(b) * b->cuts)))
        return false;
    // padding: six arrays, and the end of scratch, are at multiples of 64 bytes
    enum { EDGES = 7 * 64 };
    if (!qkv_back_memory(&memory, &b->scratch_thread, b, NULL)) return false;
    const int64_t units = b->slices * b->shares * b->cuts;
    return qkv_mul_size(&b->scratch, b->scratch_thread,
                        (size_t)qkv_max64(1, qkv_min64(b->w.threads, units))) &&
           qkv_add_size(&b->scratch, b->scratch, b->dots) &&
           qkv_add_size(&b->scratch, b->scratch, b->partial) &&
           qkv_add_size(&b->scratch, b->scratch, b->bias) &&
           qkv_add_size(&b->scratch, b->scratch, b->tables) &&
           qkv_add_size(&b->scratch, b->scratch, EDGES) &&
           (b->scratch = b->scratch / 64 * 64) <= PTRDIFF_MAX;
}

struct qkv_back_arrays qkv_attention_back_arrays(const struct qkv_attention_back *b,
                                                 const struct qkv_attention_tables *g,
                                                 void *scratch)
{
    const struct qkv_attention *a = &b->w.a;
    struct qkv_arena to = { scratch, b->scratch, 0 };
    struct qkv_back_arrays x = { 0 };
    const size_t copies = (size_t)(qkv_attention_back_copies(b) * b->cuts * a->H);
    const size_t one = sizeof(real);
    x.d = qkv_arena_alloc(&to, b->dots, 1);
    if (b->partial) x.partial = qkv_arena_alloc(&to, b->partial, 1);
    if (b->bias) x.bias = qkv_arena_alloc(&to, b->bias, 1);
    if (g->relative)
        x.relative = qkv_arena_alloc(&to, copies * (size_t)(2 * a->relative.reach + 1), one);
    if (g->alibi) x.alibi = qkv_arena_alloc(&to, copies, one);
    if (g->sinks) x.sinks = qkv_arena_alloc(&to, copies, one);
    x.threads = (char *)scratch + qkv_round_up(to.used, 64);
    return x;
}

static qkv_status check_gradients(const struct qkv_attention *a,
                                  const struct qkv_attention_tables *g,
                                  const struct qkv_attention_reason *say)
{
    const struct {
        const real *wanted;
        const void *given;
        const char *name;
    } tables[] = { { g->bias, a->bias.at, "bias" },
                   { g->relative, a->relative.at, "relative" },
                   { g->alibi, a->alibi, "alibi" },
                   { g->sinks, a->sinks, "sinks" } };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].wanted && !tables[i].given)
            return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                        "the gradient of %s is requested, expected a call with %s, "
                                        "found a call without it",
                                        tables[i].name, tables[i].name);
    if (qkv_attention_rows_meet(&a->q_strides, a->B, a->T, a->H, a->E) ||
        qkv_attention_rows_meet(&a->k_strides, a->B, a->S, a->G, a->E) ||
        qkv_attention_rows_meet(&a->v_strides, a->B, a->S, a->G, a->F))
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "rows of dq, dk or dv overlap, expected strides of q, k and v "
                                    "that keep rows apart");
    // An axis that the bias lacks (stride 0) counts as an axis of size 1. Rows along the other axes
    // must not overlap.
    const struct qkv_strides s = { a->bias.b, a->bias.t, a->bias.h };
    if (g->bias && qkv_attention_rows_meet(&s, s.b ? a->B : qkv_min64(a->B, 1),
                                           s.t ? a->T : qkv_min64(a->T, 1), s.h ? a->H : 1, a->S))
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "rows of the bias gradient overlap, expected strides of the "
                                    "bias that keep rows apart");
    return QKV_OK;
}

static void find_longest(struct qkv_attention_back *b)
{
    const struct qkv_attention_work *w = &b->w;
    const bool alike = !w->a.sequences && !w->a.k_lengths;
    int64_t keys = 0, part = 0, rows = 0;
    for (int64_t n = 0; n < (alike ? qkv_min64(w->items, 1) : w->items); n++) {
        const struct qkv_attention_item m = qkv_attention_item(w, n);
        keys = qkv_max64(keys, m.S);
        rows = qkv_max64(rows, m.whole);
        const int64_t run = qkv_ceil_div(b->parts, b->cuts) * qkv_attention_back_part(b, m.S);
        part = qkv_max64(part, qkv_min64(m.S, b->run ? b->run * b->chunk : run));
        b->parts = qkv_max64(b->parts, qkv_attention_back_parts(b, m.S));
    }
    b->block = block_rows(b, rows);
    b->keys = b->cuts > 1 ? part : keys;
}

int64_t qkv_attention_back_multiple(const struct qkv_attention_back *b)
{
    const int64_t rows = b->kernel->rows;
    int64_t n = rows, heads = b->w.heads;
    while (heads) { // n becomes the greatest common divisor
        const int64_t rest = n % heads;
        n = heads;
        heads = rest;
    }
    return rows / n;
}

static qkv_status resolve(struct qkv_attention_back *b, const struct qkv_attention_kernels *forward,
                          const struct qkv_attention *a, const struct qkv_attention_tables *g,
                          char *reason, size_t size)
{
    const struct qkv_attention_reason say = { reason, size };
    *b = (struct qkv_attention_back){ .parts = 1, .cuts = 1 };
    b->additive = forward && forward == qkv_kernel()->additive;
    struct qkv_attention alone = *a; // the request without probes, which only forward collects
    alone.probe = NULL;
    qkv_status status = qkv_attention_resolve(&b->w, forward, &alone, reason, size);
    if (status) return status;
    b->kernel = qkv_kernel()->attention_back[a->precision];
    if (!b->kernel)
        return qkv_attention_refuse(&say, QKV_ERR_UNSUPPORTED,
                                    "backward of attention is not supported in precision %s, since "
                                    "integers have no gradient",
                                    qkv_precision_name(a->precision));
    if (a->no_softmax)
        return qkv_attention_refuse(&say, QKV_ERR_UNSUPPORTED,
                                    "backward of attention is not supported without softmax");
    if (a->native && !qkv_kernel()->attention[a->precision]->native)
        return qkv_attention_refuse(
            &say, QKV_ERR_UNSUPPORTED,
            "products in %s are not available in the backward pass of the %s kernels",
            qkv_precision_name(a->precision), qkv_isa());
    status = check_gradients(&b->w.a, g, &say);
    if (status) return status;
    b->chunk = qkv_attention_chunk(&b->w.a, b->kernel->keys);
    find_longest(b);
    find_shared_bias(b, g);
    cut_units(b, g);
    find_longest(b); // computed again, because a cut unit accumulates dk and dv of fewer keys
    if (!count_scratch(b, g))
        return qkv_attention_refuse(&say, QKV_ERR_LIMIT, "scratch does not fit into memory");
    return QKV_OK;
}

qkv_status qkv_attention_back_resolve(struct qkv_attention_back *b, const struct qkv_attention *a,
                                      const struct qkv_attention_tables *g, char *reason,
                                      size_t size)
{
    return resolve(b, qkv_attention_kernel_table(a), a, g, reason, size);
}

qkv_status qkv_attention_back_additive(struct qkv_attention_back *b, const struct qkv_attention *a,
                                       const struct qkv_attention_tables *g, char *reason,
                                       size_t size)
{
    return resolve(b, qkv_kernel()->additive, a, g, reason, size);
}

qkv_status qkv_attention_back_cut(struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g, int64_t units)
{
    const int64_t pairs = qkv_max64(1, b->slices * b->shares);
    if (qkv_tables_of_rows(g) || !may_cut(b)) return QKV_OK;
    b->cuts = qkv_max64(b->cuts, qkv_min64(b->parts, qkv_ceil_div(units, pairs)));
    find_longest(b);
    return count_scratch(b, g) ? QKV_OK : QKV_ERR_LIMIT;
}

qkv_status qkv_attention_back_blocks(struct qkv_attention_back *b,
                                     const struct qkv_attention_tables *g, int64_t chunks)
{
    b->blockwise = true;
    // All items are cut at the same keys, so that two units add to no column of the bias gradient.
    if (!g->relative && !g->alibi) {
        b->run = chunks;
        b->cuts = 1;
        find_longest(b);
        b->cuts = qkv_max64(1, qkv_ceil_div(b->keys, b->run * b->chunk));
    }
    find_longest(b);
    return count_scratch(b, g) ? QKV_OK : QKV_ERR_LIMIT;
}

#ifndef QKV_DOUBLE
QKV_API struct qkv_attention_plan
qkv_attention_backward_plan(const struct qkv_attention *a, const struct qkv_attention_gradients *g)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE, .reason = "the attention is NULL" };
    struct qkv_attention_back b;
    if (!a) return p;
    const struct qkv_attention_tables t = qkv_attention_tables(g);
    p.reason[0] = 0;
    p.status = qkv_attention_back_resolve(&b, a, &t, p.reason, sizeof p.reason);
    if (p.status) return p;
    p.kernel = "fused backward";
    p.isa = b.kernel->isa;
    p.arithmetic = b.kernel->arithmetic;
    p.scratch = b.scratch;
    p.scratch_thread = b.scratch_thread;
    qkv_attention_count(&p, &b.w,
                        &(struct qkv_attention_tiling){
                            .block = b.kernel->rows,
                            .rows = b.kernel->rows,
                            .keys = b.kernel->keys,
                            .flops = 2.0 * (double)(3 * b.w.a.E + 2 * b.w.a.F),
                        });
    return p;
}
#endif
