// SPDX-License-Identifier: MIT
// attention_back_tile.c: runs the backward pass for one tile: a group of rows and a chunk of keys.
//
//   P = exp(score - lse),  dP = dout v^T,  dS = P (drop(dP) - dout . out),  X = dS (1 - (s/cap)^2)
//   dv += drop(P)^T dout,   dk += X^T q,   dq += X k,   tables += dS
//
// drop is dropout, tables are the gradients of relative bias, bias and ALiBi. The packed operands
// of the products to dv, dk and dq contain 0 in place of nonfinite numbers, because a masked row or
// key may contain any numbers, and 0 times NaN is NaN. add_not_finite then adds the nonfinite
// numbers to the sums of those rows and keys that are not masked.
#include "layer/attention/attention_back_work.h"
#include <math.h>
#include <string.h>

// The rows and columns of one tile. Its spans are the n ranges of columns for which products are
// computed.
struct tile {
    int64_t group, first; // index of the group in the block, its first row
    int rows;
    int64_t chunk; // index of the key in column 0
    // columns that each row may see: lo[i] .. hi[i]-1
    int32_t lo[QKV_BACK_ROWS_MAX], hi[QKV_BACK_ROWS_MAX];
    // columns that at least one row may see: from .. to-1
    int32_t from, to;
    struct qkv_columns spans[QKV_SPANS_MAX];
    int n;
};
// Returns the number of rows to allocate for a packed operand of n rows, so that the next operand
// begins at a multiple of 64 bytes.
static size_t capacity(const struct qkv_attention_back *b, int64_t n)
{
    return qkv_round_up((size_t)n, (size_t)qkv_max64(b->kernel->rows, b->kernel->keys));
}

bool qkv_back_memory(struct qkv_back_memory *m, size_t *bytes, const struct qkv_attention_back *b,
                     char *at)
{
    const struct qkv_attention_back_kernels *k = b->kernel;
    const int64_t E = b->w.a.E, F = b->w.a.F;
    const size_t block = (size_t)b->block, groups = block / (size_t)k->rows, one = sizeof(real);
    const size_t chunk = (size_t)b->chunk, tile = (size_t)k->rows * QKV_CHUNK;
    const size_t keys = qkv_round_up((size_t)b->keys, chunk);
    struct qkv_arena a = { at, SIZE_MAX, 0 };
    m->keys = qkv_arena_alloc(&a, chunk, k->key_bytes(E));
    m->values = qkv_arena_alloc(&a, chunk, k->key_bytes(F));
    m->keys_right = qkv_arena_alloc(&a, capacity(b, b->chunk), k->right_bytes(E));
    m->q = qkv_arena_alloc(&a, block, k->row_bytes(E));
    m->dout = qkv_arena_alloc(&a, block, k->row_bytes(F));
    m->q_right = qkv_arena_alloc(&a, groups * capacity(b, k->rows), k->right_bytes(E));
    m->dout_right = qkv_arena_alloc(&a, groups * capacity(b, k->rows), k->right_bytes(F));
    m->q_finite = qkv_arena_alloc(&a, groups, 1);
    m->dout_finite = qkv_arena_alloc(&a, groups, 1);
    m->k_finite = qkv_arena_alloc(&a, 1, 1);
    m->base = qkv_arena_alloc(&a, block, one);
    m->rest = qkv_arena_alloc(&a, block, one);
    m->d = qkv_arena_alloc(&a, block, one);
    m->slope = qkv_arena_alloc(&a, block, one);
    m->before = qkv_arena_alloc(&a, block, one);
    m->after = qkv_arena_alloc(&a, block, one);
    m->s = qkv_arena_alloc(&a, tile, one);
    m->ds = qkv_arena_alloc(&a, tile, one);
    m->gain = qkv_arena_alloc(&a, b->w.a.softcap != 0 ? tile : 0, one);
    m->w_operand = qkv_arena_alloc(&a, k->operand_bytes, 1);
    m->x_operand = qkv_arena_alloc(&a, k->operand_bytes, 1);
    m->word = qkv_arena_alloc(&a, QKV_CHUNK, sizeof(uint32_t));
    m->relative = qkv_arena_alloc(&a, QKV_CHUNK, sizeof(float));
    m->dq = qkv_arena_alloc(&a, block * (size_t)k->width(E), one);
    m->dq_part = qkv_arena_alloc(&a, block * (size_t)k->width(E), one);
    m->dk = qkv_arena_alloc(&a, keys * (size_t)k->width(E), one);
    m->dv = qkv_arena_alloc(&a, keys * (size_t)k->width(F), one);
    *bytes = qkv_round_up(a.used, 64);
    return !qkv_arena_full(&a);
}

// ---- packing -----------------------------------------------------------------------------------
static const void *row_at(const struct qkv_back_rows *u, const void *array,
                          const struct qkv_strides *s, int64_t row)
{
    return (const char *)array + qkv_rows_row(&u->at, s, row);
}

// Returns the address of a key of the item, and of its value.
static const void *key_at(const struct qkv_back_rows *u, int64_t key)
{
    const struct qkv_attention *a = &u->b->w.a;
    if (u->b->blockwise) return u->k + (size_t)((key - u->from) * a->E) * u->b->w.size;
    return (const char *)u->x->k +
           qkv_rows_place(&u->at, &a->k_strides, u->at.item.key + key, u->at.g);
}
static const void *value_at(const struct qkv_back_rows *u, int64_t key)
{
    const struct qkv_attention *a = &u->b->w.a;
    if (u->b->blockwise) return u->v + (size_t)((key - u->from) * a->F) * u->b->w.size;
    return (const char *)u->x->v +
           qkv_rows_place(&u->at, &a->v_strides, u->at.item.key + key, u->at.g);
}

void qkv_back_fetch_rows(const struct qkv_back_rows *u, int64_t first, int64_t n)
{
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t size = (int64_t)u->b->w.size, end = qkv_min64(first + n, u->at.rows);
    for (int64_t r = first; r < end; r++) {
        qkv_attention_fetch(row_at(u, u->at.call->q, &a->q_strides, r), a->E * size);
        qkv_attention_fetch(row_at(u, u->x->dout, &a->out_strides, r), a->F * size);
        qkv_attention_fetch(row_at(u, u->x->dq, &a->q_strides, r), a->E * size);
    }
}

void qkv_back_fetch_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi)
{
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t size = (int64_t)u->b->w.size;
    for (int64_t j = lo; j < hi && !u->b->blockwise; j++) {
        qkv_attention_fetch(key_at(u, j), a->E * size);
        qkv_attention_fetch(value_at(u, j), a->F * size);
    }
}

// Sets base, rest and d of row r in u->m (members of struct qkv_softmax_grad) and adds the
// contribution of the row to the gradient of the sink. A row that sees no key has lse -INFINITY,
// and its dout is not read.
static void find_row(const struct qkv_back_rows *u, int64_t r)
{
    const struct qkv_attention *a = &u->b->w.a;
    const real lse = u->x->lse[qkv_rows_index(&u->at, r)];
    u->m.base[r] = u->m.rest[r] = u->m.d[r] = 0;
    u->m.slope[r] = u->m.before[r] = u->m.after[r] = 0;
    if (lse == -(real)INFINITY) return;
    qkv_rows_base(&u->m.base[r], &u->m.rest[r], lse);
    u->m.d[r] = u->d[qkv_rows_index(&u->at, r)];
    if (u->tables.sinks) {
        const int64_t h = qkv_rows_head(&u->at, r);
        u->tables.sinks[h] -= (real)exp((double)a->sinks[h] - (double)lse) * u->m.d[r];
    }
}

void qkv_back_pack_rows(const struct qkv_back_rows *u)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    const void *q[QKV_BACK_ROWS_MAX], *dout[QKV_BACK_ROWS_MAX];
    for (int64_t r = 0; r < u->at.rows; r++) find_row(u, r);
    for (int64_t r = 0, g = 0; r < u->at.rows; r += k->rows, g++) {
        const int n = (int)qkv_min64(k->rows, u->at.rows - r);
        for (int i = 0; i < n; i++) {
            q[i] = row_at(u, u->at.call->q, &a->q_strides, r + i);
            dout[i] = row_at(u, u->x->dout, &a->out_strides, r + i);
        }
        const size_t at = (size_t)g * capacity(u->b, k->rows);
        u->m.q_finite[g] = u->b->additive;
        if (!u->b->additive) k->pack_rows(u->m.q + (size_t)r * k->row_bytes(a->E), q, n, a->E);
        k->pack_rows(u->m.dout + (size_t)r * k->row_bytes(a->F), dout, n, a->F);
        if (!u->b->additive)
            u->m.q_finite[g] =
                k->pack_right(u->m.q_right + at * k->right_bytes(a->E), q, 0, n, a->E);
        u->m.dout_finite[g] =
            k->pack_right(u->m.dout_right + at * k->right_bytes(a->F), dout, 0, n, a->F);
    }
}

void qkv_back_pack_keys(const struct qkv_back_rows *u, int64_t chunk, int64_t lo, int64_t hi)
{
    const struct qkv_attention_back_kernels *kernel = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    const void *k[QKV_CHUNK], *v[QKV_CHUNK];
    const int at = (int)((lo - chunk) / kernel->keys * kernel->keys), n = (int)(hi - chunk) - at;
    for (int j = 0; j < n; j++) {
        k[j] = key_at(u, chunk + at + j);
        v[j] = value_at(u, chunk + at + j);
    }
    kernel->pack_keys(u->m.values, v, at, n, a->F);
    *u->m.k_finite = true;
    if (u->b->additive) return;
    kernel->pack_keys(u->m.keys, k, at, n, a->E);
    *u->m.k_finite = kernel->pack_right(u->m.keys_right, k, at, n, a->E);
}

// ---- visible columns ---------------------------------------------------------------------------
static bool find_tile(const struct qkv_back_rows *u, int64_t g, int64_t chunk, struct tile *p)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    p->group = g;
    p->first = g * k->rows;
    p->rows = (int)qkv_min64(k->rows, u->at.rows - p->first);
    p->chunk = chunk;
    p->from = QKV_CHUNK;
    p->to = 0;
    for (int i = 0; i < p->rows; i++) {
        const struct qkv_attention_keys x = qkv_rows_keys(&u->at, p->first + i);
        const bool none = u->x->lse[qkv_rows_index(&u->at, p->first + i)] == -(real)INFINITY;
        const int64_t end = chunk + u->b->chunk;
        p->lo[i] = (int32_t)(qkv_min64(qkv_max64(x.lo, chunk), end) - chunk);
        p->hi[i] = (int32_t)(qkv_min64(qkv_max64(x.hi, chunk), end) - chunk);
        if (none || p->lo[i] >= p->hi[i]) p->lo[i] = p->hi[i] = 0;
        if (p->lo[i] == p->hi[i]) continue;
        if (p->lo[i] < p->from) p->from = p->lo[i];
        if (p->hi[i] > p->to) p->to = p->hi[i];
    }
    if (p->from >= p->to) return false;
    const struct qkv_rows_reach reach = { .first = p->first,
                                          .rows = p->rows,
                                          .chunk = chunk,
                                          .lo = p->lo,
                                          .hi = p->hi,
                                          .from = p->from,
                                          .to = p->to };
    p->n = qkv_rows_spans(p->spans, &u->at, &reach, k->lanes, k->keys);
    return p->n > 0;
}

// Sets *c to the columns of p->spans[n], a range of columns, that row i sees; returns false if row
// i sees none of them.
static bool seen_columns(const struct tile *p, int i, int n, struct qkv_columns *c)
{
    c->from = p->lo[i] > p->spans[n].from ? p->lo[i] : p->spans[n].from;
    c->to = p->hi[i] < p->spans[n].to ? p->hi[i] : p->spans[n].to;
    return c->from < c->to;
}

// ---- scores ------------------------------------------------------------------------------------
static void shape_row(const struct qkv_back_rows *u, const struct tile *p, int i)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t row = p->first + i;
    const float *bias = qkv_rows_bias(&u->at, row);
    const uint8_t *mask = qkv_rows_mask(&u->at, row);
    real *const s = u->m.s + i * QKV_CHUNK;
    struct qkv_columns c;
    const bool capped = a->softcap != 0;
    const struct qkv_score_modifiers how = {
        .scale = capped || !u->at.call->shaped ? 1 : (real)a->scale,
        .bias = bias ? bias + p->chunk : NULL,
        .mask = mask ? mask + p->chunk : NULL,
        .relative = a->relative.at ? u->m.relative : NULL,
        .slope = a->alibi ? (real)a->alibi[qkv_rows_head(&u->at, row)] : 0,
        .distance = qkv_rows_distance(&u->at, row, p->chunk),
        .masked = -(real)INFINITY
    };
    for (int n = 0; n < p->n; n++) {
        if (!seen_columns(p, i, n, &c)) continue;
        if (capped)
            k->cap(s, u->m.gain + i * QKV_CHUNK, c.from, c.to, (real)a->scale, (real)a->softcap);
        if (a->relative.at) qkv_rows_relative(u->m.relative, &u->at, row, p->chunk, c.from, c.to);
        k->modify(s, c.from, c.to, &how);
    }
}

static void grade_row(const struct qkv_back_rows *u, const struct tile *p, int i)
{
    const int64_t row = p->first + i;
    const bool drops = u->b->w.a.dropout.p > 0;
    const struct qkv_softmax_grad how = { .c = u->at.call->c,
                                          .base = u->m.base[row],
                                          .rest = u->m.rest[row],
                                          .d = u->m.d[row],
                                          .word = drops ? u->m.word : NULL,
                                          .less = u->less,
                                          .times = u->times };
    for (int n = 0; drops && n < p->n; n++)
        qkv_rows_words(u->m.word, &u->at, row, p->chunk, p->spans[n].from, p->spans[n].to);
    u->b->kernel->softmax_grad(u->m.s + i * QKV_CHUNK, u->m.ds + i * QKV_CHUNK, p->spans, p->n,
                               p->lo[i], p->hi[i], &how);
}

// ---- gradient tables ---------------------------------------------------------------------------
static void add_tables(const struct qkv_back_rows *u, const struct tile *p, int i)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_back_tables *t = &u->tables;
    const int64_t row = p->first + i, h = qkv_rows_head(&u->at, row);
    const real *ds = u->m.ds + i * QKV_CHUNK;
    struct qkv_columns c;
    for (int n = 0; n < p->n; n++) {
        if (!seen_columns(p, i, n, &c)) continue;
        if (t->bias.at) {
            real *to = t->bias.at + u->at.item.b * t->bias.b + h * t->bias.h +
                       (u->at.item.row + qkv_rows_token(&u->at, row)) * t->bias.t + p->chunk;
            k->add(to + c.from, ds + c.from, c.to - c.from);
        }
        if (t->relative)
            qkv_rows_add_relative(t->relative + h * (2 * u->b->w.a.relative.reach + 1),
                                  &u->m.before[row], &u->m.after[row], u->b->w.a.relative.reach,
                                  -qkv_rows_distance(&u->at, row, p->chunk), ds, c, k);
        if (t->alibi)
            u->m.slope[row] +=
                k->moment(ds, c.from, c.to, qkv_rows_distance(&u->at, row, p->chunk));
    }
}

void qkv_back_add_rows(const struct qkv_back_rows *u)
{
    const struct qkv_back_tables *t = &u->tables;
    const int64_t reach = u->b->w.a.relative.reach;
    for (int64_t r = 0; (t->relative || t->alibi) && r < u->at.rows; r++) {
        const int64_t h = qkv_rows_head(&u->at, r);
        if (t->relative) {
            real *line = t->relative + h * (2 * reach + 1);
            line[0] += u->m.before[r];
            line[2 * reach] += u->m.after[r];
        }
        if (t->alibi) t->alibi[h] -= u->m.slope[r];
    }
}

// ---- nonfinite numbers -------------------------------------------------------------------------
static real probability(const struct qkv_back_rows *u, const void *operand, int i, int32_t j)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    return k->probability ? k->probability(operand, i, j)
                          : ((const real *)operand)[i * QKV_CHUNK + j];
}

static bool sees(const struct qkv_back_rows *u, const struct tile *p, int i, int32_t j)
{
    const uint8_t *mask = qkv_rows_mask(&u->at, p->first + i);
    const float *bias = qkv_rows_bias(&u->at, p->first + i);
    return j >= p->lo[i] && j < p->hi[i] && !(mask && !mask[p->chunk + j]) &&
           !(bias && bias[p->chunk + j] == -INFINITY);
}

// Adds the nonfinite elements of x, times the weights of row i, to the sums of the columns that row
// i sees; x is row i of q or dout.
static void spread_row(const struct qkv_back_rows *u, const struct tile *p, int i, const char *x,
                       const void *operand, real *sums, int64_t W)
{
    for (int64_t f = 0; f < W; f++) {
        const real odd = qkv_real_at(x + (size_t)f * u->b->w.size, u->b->kernel->type);
        for (int32_t j = p->lo[i]; !isfinite(odd) && j < p->hi[i]; j++)
            if (sees(u, p, i, j))
                sums[j * u->b->kernel->width(W) + f] += probability(u, operand, i, j) * odd;
    }
}

static void add_not_finite(const struct qkv_back_rows *u, const struct tile *p,
                           const void *w_operand, const void *x_operand, real *dk, real *dv)
{
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t width = u->b->kernel->width(a->E);
    for (int i = 0; i < p->rows; i++) {
        const int64_t row = p->first + i;
        if (!u->m.dout_finite[p->group])
            spread_row(u, p, i, row_at(u, u->x->dout, &a->out_strides, row), w_operand, dv, a->F);
        if (!u->m.q_finite[p->group])
            spread_row(u, p, i, row_at(u, u->at.call->q, &a->q_strides, row), x_operand, dk, a->E);
    }
    for (int32_t j = p->from; !*u->m.k_finite && j < p->to; j++) {
        const char *key = key_at(u, p->chunk + j);
        for (int64_t e = 0; e < a->E; e++) {
            const real odd = qkv_real_at(key + (size_t)e * u->b->w.size, u->b->kernel->type);
            for (int i = 0; !isfinite(odd) && i < p->rows; i++)
                if (sees(u, p, i, j))
                    u->m.dq_part[(p->first + i) * width + e] +=
                        probability(u, x_operand, i, j) * odd;
        }
    }
}

// ---- additive scores ---------------------------------------------------------------------------
// Computes the additive scores of row i. Queries and keys are read from the caller's arrays. A
// query of E numbers consists of u[E/2] and w[E/2]; a key consists of p[E/2] and E/2 numbers that
// are not read and have gradient 0.
static void additive_scores(const struct qkv_back_rows *u, const struct tile *p, int i, real *s)
{
    const struct qkv_attention *a = &u->b->w.a;
    const real *q = row_at(u, u->at.call->q, &a->q_strides, p->first + i);
    struct qkv_columns c;
    for (int n = 0; n < p->n; n++)
        if (seen_columns(p, i, n, &c))
            qkv_kernel()->additive_row(s + c.from, q, q + a->E / 2, key_at(u, p->chunk + c.from),
                                       a->k_strides.t, c.to - c.from, a->E / 2);
}

static void additive_back(const struct qkv_back_rows *u, const struct tile *p, int i,
                          const struct qkv_back_tile *t)
{
    const struct qkv_attention *a = &u->b->w.a;
    const int64_t d = a->E / 2, width = u->b->kernel->width(a->E);
    const real *q = row_at(u, u->at.call->q, &a->q_strides, p->first + i);
    real *dq = t->dq + i * width;
    struct qkv_columns c;
    for (int n = 0; n < p->n; n++)
        if (seen_columns(p, i, n, &c))
            qkv_kernel()->additive_row_backward(
                dq, dq + d, t->dk + c.from * width, width, t->ds + i * QKV_CHUNK + c.from, q, q + d,
                key_at(u, p->chunk + c.from), a->k_strides.t, c.to - c.from, d);
}

// ---- the tile ----------------------------------------------------------------------------------
// Returns the arguments of the tile kernel: the packed operands of the group and the chunk, and the
// sums to which the kernel adds.
static struct qkv_back_tile operands(const struct qkv_back_rows *u, const struct tile *p)
{
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    const size_t right = (size_t)p->group * capacity(u->b, k->rows), first = (size_t)p->first;
    return (struct qkv_back_tile){
        .rows = p->rows,
        .E = a->E,
        .F = a->F,
        .span = p->spans[0],
        .lo = p->lo,
        .hi = p->hi,
        .c = u->at.call->c,
        .base = u->m.base + p->first,
        .rest = u->m.rest + p->first,
        .d = u->m.d + p->first,
        .q = u->m.q + first * k->row_bytes(a->E),
        .dout = u->m.dout + first * k->row_bytes(a->F),
        .q_right = u->m.q_right + right * k->right_bytes(a->E),
        .dout_right = u->m.dout_right + right * k->right_bytes(a->F),
        .k_right = u->m.keys_right,
        .k = u->m.keys,
        .v = u->m.values,
        .dq = u->m.dq_part + p->first * k->width(a->E),
        .dk = u->m.dk + (p->chunk - u->from) * k->width(a->E),
        .dv = u->m.dv + (p->chunk - u->from) * k->width(a->F),
        .s = u->m.s,
        .ds = u->m.ds,
        .w_operand = u->m.w_operand,
        .x_operand = u->m.x_operand,
    };
}

void qkv_back_tile(const struct qkv_back_rows *u, int64_t g, int64_t chunk)
{
    struct tile p;
    const struct qkv_attention_back_kernels *k = u->b->kernel;
    const struct qkv_attention *a = &u->b->w.a;
    const struct qkv_back_tables *tables = &u->tables;
    if (!find_tile(u, g, chunk, &p)) return;
    const struct qkv_back_tile t = operands(u, &p);
    const bool finite = u->m.q_finite[g] && u->m.dout_finite[g] && *u->m.k_finite;
    if (u->plain && finite && k->fused && !u->b->additive) {
        k->fused(&t);
        return;
    }
    for (int n = 0; n < p.n; n++) {
        if (!u->b->additive) k->scores(t.s, t.q, p.rows, t.k, a->E, p.spans[n]);
        k->scores(t.ds, t.dout, p.rows, t.v, a->F, p.spans[n]);
    }
    for (int i = 0; i < p.rows; i++) {
        struct qkv_columns c;
        if (u->b->additive) additive_scores(u, &p, i, t.s + i * QKV_CHUNK);
        if (!u->plain) shape_row(u, &p, i);
        grade_row(u, &p, i);
        if (tables->bias.at || tables->relative || tables->alibi) add_tables(u, &p, i);
        for (int n = 0; a->softcap != 0 && n < p.n; n++)
            if (seen_columns(&p, i, n, &c))
                k->gain(t.ds + i * QKV_CHUNK, u->m.gain + i * QKV_CHUNK, c.from, c.to);
    }
    const void *w_operand = t.s, *x_operand = t.ds;
    if (k->pack_operand) {
        k->pack_operand(t.w_operand, t.s, p.rows, p.spans, p.n);
        k->pack_operand(t.x_operand, t.ds, p.rows, p.spans, p.n);
        w_operand = t.w_operand;
        x_operand = t.x_operand;
    }
    k->add_transposed(t.dv, w_operand, p.rows, t.dout_right, a->F, p.spans, p.n);
    for (int i = 0; u->b->additive && i < p.rows; i++) additive_back(u, &p, i, &t);
    if (!u->b->additive) {
        k->add_transposed(t.dk, x_operand, p.rows, t.q_right, a->E, p.spans, p.n);
        k->add_product(t.dq, x_operand, p.rows, t.k_right, a->E, p.spans, p.n);
    }
    if (!finite) add_not_finite(u, &p, w_operand, x_operand, t.dk, t.dv);
}
