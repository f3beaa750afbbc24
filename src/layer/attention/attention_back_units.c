// SPDX-License-Identifier: MIT
// attention_back_units.c: finds the items, heads, keys and sums of a unit of the attention backward
// pass.
#include "layer/attention/attention_back_work.h"

// Returns the first key of the cut with this index, of an item with S keys.
static int64_t cut_key(const struct qkv_attention_back *b, int64_t S, int64_t cut)
{
    const int64_t part = qkv_attention_back_part(b, S);
    return qkv_min64(b->run ? cut * b->run * b->chunk : cut * b->parts / b->cuts * part, S);
}

void qkv_back_find_pair(struct qkv_back_rows *u, int64_t n, int64_t g, int64_t cut)
{
    const struct qkv_attention_back *b = u->b;
    u->at.item = qkv_attention_item(&b->w, n);
    u->at.g = g;
    u->from = b->cuts > 1 ? cut_key(b, u->at.item.S, cut) : 0;
    u->end = b->cuts > 1 ? cut_key(b, u->at.item.S, cut + 1) : u->at.item.S;
    u->at.row = 0;
    u->at.rows = qkv_min64(b->block, u->at.item.T * b->w.heads);
}

struct qkv_back_pairs qkv_back_unit_pairs(const struct qkv_attention_back *b, int64_t i)
{
    const int64_t share = i / b->cuts % b->shares, slice = i / b->cuts / b->shares;
    const int64_t items = b->w.items, heads = b->w.a.G, g = share * heads / b->shares;
    return (struct qkv_back_pairs){ .n = slice * items / b->slices,
                                    .n_end = (slice + 1) * items / b->slices,
                                    .g = g,
                                    .g_from = g,
                                    .g_end = (share + 1) * heads / b->shares,
                                    .cut = i % b->cuts };
}
bool qkv_back_pairs_next(struct qkv_back_pairs *p)
{
    if (++p->g < p->g_end) return true;
    p->g = p->g_from;
    return ++p->n < p->n_end;
}

struct qkv_back_columns qkv_back_unit_columns(const struct qkv_attention_back *b,
                                              const struct qkv_attention_tables *g,
                                              struct qkv_back_pairs at)
{
    struct qkv_back_rows u = { .b = b };
    int64_t first = INT64_MAX, end = 0;
    if (!qkv_bias_of_columns(b, g)) return (struct qkv_back_columns){ 0 };
    const int64_t lines = b->w.a.bias.h ? (at.g_end - at.g_from) * b->w.heads : 1;
    for (bool more = at.n < at.n_end; more; more = qkv_back_pairs_next(&at)) {
        qkv_back_find_pair(&u, at.n, at.g, at.cut);
        if (u.from == u.end) continue; // no columns of this cut
        first = qkv_min64(first, u.from);
        end = qkv_max64(end, u.end);
    }
    if (first >= end) return (struct qkv_back_columns){ 0 };
    return (struct qkv_back_columns){ lines, first, end - first };
}

int64_t qkv_back_sums_rows(const struct qkv_attention_back *b, const struct qkv_attention_item *m)
{
    return qkv_ceil_div(m->T * b->w.heads, b->kernel->rows) * b->kernel->rows;
}

size_t qkv_attention_back_sums(const struct qkv_attention_back *b,
                               const struct qkv_attention_tables *g, int64_t i)
{
    const struct qkv_attention *a = &b->w.a;
    struct qkv_back_rows u = { .b = b };
    struct qkv_back_pairs at = qkv_back_unit_pairs(b, i);
    const size_t width = (size_t)(b->kernel->width(a->E) + b->kernel->width(a->F));
    const size_t heads = (size_t)((at.g_end - at.g_from) * b->w.heads);
    size_t n = 0;
    if (g->relative) n += heads * (size_t)(2 * a->relative.reach + 1);
    if (g->alibi) n += heads;
    if (g->sinks && at.cut == 0) n += heads;
    n *= (size_t)qkv_back_unit_copies(b, at.n, at.n_end);
    const struct qkv_back_columns x = qkv_back_unit_columns(b, g, at);
    n += (size_t)(x.lines * x.n);
    for (bool more = at.n < at.n_end; more; more = qkv_back_pairs_next(&at)) {
        qkv_back_find_pair(&u, at.n, at.g, at.cut);
        n += (size_t)(u.end - u.from) * width;
    }
    return n * sizeof(real);
}

bool qkv_attention_back_keys(struct qkv_back_keys *k, const struct qkv_attention_back *b, int64_t i,
                             int64_t n)
{
    const struct qkv_back_pairs at = qkv_back_unit_pairs(b, i);
    const int64_t heads = at.g_end - at.g_from;
    struct qkv_back_rows u = { .b = b };
    if (n >= (at.n_end - at.n) * heads) return false;
    qkv_back_find_pair(&u, at.n + n / heads, at.g_from + n % heads, at.cut);
    *k = (struct qkv_back_keys){ .b = u.at.item.b,
                                 .g = u.at.g,
                                 .first = u.at.item.key + u.from,
                                 .n = u.end - u.from,
                                 .all = u.at.item.S,
                                 .rows = qkv_back_sums_rows(b, &u.at.item) };
    return true;
}
