// SPDX-License-Identifier: MIT
// page_plan.c: chooses the encoding of each layer so that the page fits into its budget of bytes.
// From short to long texts:
//
//   short    every weight as a float (at most FLOAT_BYTES for all layers of the page), with queries
//            and keys of 4 decimals
//   brief    every weight in 8 bits, with queries and keys of 4 decimals
//   longer   queries and keys of 16 bits, or of 8 bits: the page computes any weight from them
//   long     the 16 largest weights of a row (or fewer, at least 2) and the matrix as blocks;
//            queries and keys only of the layers that the caller requests
// Values and input rows are stored if the budget has space left.
#include "view/page/page_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MODEST = 6000000, DENSE_TOKENS = 192, FLOAT_BYTES = 1 << 19 };

// The encodings, from fine to coarse. top: number of weights per row for VIEW_TOP.
static const struct rung {
    enum view_code code;
    int64_t top;
    bool floats;
} rungs[] = {
    { VIEW_DENSE, 0, true }, { VIEW_DENSE, 0, false }, { VIEW_QK16, 0, false },
    { VIEW_QK8, 0, false },  { VIEW_TOP, 16, false },  { VIEW_TOP, 12, false },
    { VIEW_TOP, 8, false },  { VIEW_TOP, 6, false },   { VIEW_TOP, 4, false },
    { VIEW_TOP, 3, false },  { VIEW_TOP, 2, false },
};
enum { RUNGS = sizeof rungs / sizeof *rungs };

static bool asked_for(const struct qkv_view_options *o, int64_t layer)
{
    for (int64_t i = 0; i < o->exact_count; i++)
        if (o->exact[i] == layer) return true;
    return false;
}

static struct view_encoding how_of(const struct view_stack *v, int64_t layer, const struct rung *r,
                                   int64_t side, bool exact)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    const bool brief = T <= DENSE_TOKENS && S <= DENSE_TOKENS;
    struct view_encoding how = { .code = r->code, .top = r->top ? r->top : 16, .side = side };
    if (l->probe.k) how.top = qkv_min64(how.top, l->probe.k);
    while (how.side > 16 && how.side * how.side * 4 > T * S) how.side /= 2;
    if (l->weights && r->code < VIEW_TOP) how.code = VIEW_DENSE;
    if (!l->weights && l->q && r->code == VIEW_DENSE && !brief) how.code = VIEW_QK16;
    if (!l->weights && !l->q) how.code = VIEW_TOP;
    how.floats = how.code == VIEW_DENSE && r->floats;
    if (how.code == VIEW_TOP && exact && l->q) how.code = r->top > 8 ? VIEW_QK16 : VIEW_QK8;
    return how;
}

// ---- the stacks of a page -----------------------------------------------------------------------
static int64_t count_stacks(const qkv_view *v)
{
    return v->shape.stacks * (1 + (v->against != NULL) + v->frames);
}

static qkv_status take_stacks(struct view_plan *p, const qkv_view *v, qkv_error *err)
{
    p->stacks = count_stacks(v);
    p->of = qkv_alloc_zero((size_t)p->stacks, sizeof *p->of);
    p->stack = qkv_alloc_zero((size_t)p->stacks, sizeof *p->stack);
    if (!p->of || !p->stack) return qkv_fail_memory(err, NULL);
    int64_t n = 0;
    for (int64_t s = 0; s < v->shape.stacks; s++) p->of[n++] = &v->stack[s];
    for (int64_t s = 0; v->against && s < v->shape.stacks; s++) p->of[n++] = &v->against->stack[s];
    for (int64_t f = 0; f < v->frames; f++)
        for (int64_t s = 0; s < v->shape.stacks; s++) p->of[n++] = &v->frame[f].view->stack[s];
    for (int64_t s = 0; s < p->stacks; s++) {
        struct view_kept *k = &p->stack[s];
        k->how = qkv_alloc_zero((size_t)p->of[s]->shape.layers, sizeof *k->how);
        k->arrays = qkv_alloc_zero((size_t)p->of[s]->shape.layers, sizeof *k->arrays);
        if (!k->how || !k->arrays) return qkv_fail_memory(err, NULL);
    }
    return QKV_OK;
}

void view_plan_free(struct view_plan *p)
{
    for (int64_t s = 0; p->stack && s < p->stacks; s++) {
        qkv_free(p->stack[s].how);
        qkv_free(p->stack[s].arrays);
    }
    qkv_free(p->stack);
    qkv_free(p->of);
    view_packed_free(&p->packed);
    view_block_free(&p->block);
    *p = (struct view_plan){ 0 };
}

// Sets the encoding of every layer to a row of `rungs`. Returns false if no layer's encoding
// changes.
static bool lay_rung(struct view_plan *p, const struct rung *r, int64_t side,
                     const struct qkv_view_options *o)
{
    bool changed = false;
    for (int64_t s = 0; s < p->stacks; s++) {
        p->stack[s].code = VIEW_DENSE;
        for (int64_t l = 0; l < p->of[s]->shape.layers; l++) {
            const struct view_encoding how = how_of(p->of[s], l, r, side, asked_for(o, l));
            struct view_encoding *was = &p->stack[s].how[l];
            const bool same = was->top && was->code == how.code && was->floats == how.floats &&
                              (how.code != VIEW_TOP || was->top == how.top);
            changed |= !same;
            *was = how;
            if (how.code > p->stack[s].code) p->stack[s].code = how.code;
        }
    }
    return changed;
}

// Returns true if the weights of all layers of the page, as floats, have at most FLOAT_BYTES bytes.
static bool few_weights(const struct view_plan *p)
{
    int64_t all = 0;
    for (int64_t s = 0; s < p->stacks; s++) {
        int64_t bytes;
        if (__builtin_mul_overflow(p->of[s]->shape.tokens, p->of[s]->shape.keys, &bytes) ||
            __builtin_mul_overflow(bytes, 4 * p->of[s]->shape.heads, &bytes) ||
            __builtin_mul_overflow(bytes, p->of[s]->shape.layers, &bytes) ||
            __builtin_add_overflow(all, bytes, &all))
            return false;
    }
    return all <= FLOAT_BYTES;
}

// Computes the size of all layers before compression, *raw, and the smallest size that compression
// can reach, *least. Returns false if the size overflows.
static bool plan_bytes(const struct view_plan *p, int64_t *raw, double *least)
{
    static const double leaves[VIEW_CODES] = { .2, .8, .85, .3 };
    *raw = 0;
    *least = 0;
    for (int64_t s = 0; s < p->stacks; s++)
        for (int64_t l = 0; l < p->of[s]->shape.layers; l++) {
            const struct view_encoding *how = &p->stack[s].how[l];
            const int64_t bytes = view_layer_bytes(p->of[s], l, how);
            if (bytes < 0 || __builtin_add_overflow(*raw, bytes, raw)) return false;
            *least += leaves[how->code] * (double)bytes;
        }
    return true;
}

// Encodes the weights of a layer, and counts their arrays.
static qkv_status encode_layer(struct view_plan *p, int64_t s, int64_t l, qkv_error *err)
{
    struct view_kept *k = &p->stack[s];
    const int64_t count = p->block.count;
    const qkv_status status = view_encode(&p->block, &k->loss, p->of[s], s, l, &k->how[l], err);
    k->arrays[l] = p->block.count - count;
    return status;
}

// Copies n arrays of a block, from array[from] on.
static qkv_status copy_arrays(struct view_block *b, const struct view_block *block, int64_t from,
                              int64_t n, qkv_error *err)
{
    for (int64_t i = from; i < from + n; i++) {
        const struct view_array *a = &block->array[i];
        uint8_t *to = view_array_add(b, a->name, a->kind, a->stack, a->layer, a->shape[0],
                                     a->shape[1], a->shape[2], a->bytes);
        if (!to) return qkv_fail_memory(err, NULL);
        memcpy(to, block->bytes + a->offset, (size_t)a->bytes);
    }
    return QKV_OK;
}

// Adds the arrays of view_encode_numbers() of all layers to the block, and compresses it.
static qkv_status finish(struct view_plan *p, const struct view_block *before, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t s = 0; s < p->stacks && !status; s++)
        for (int64_t l = 0; l < p->of[s]->shape.layers && !status; l++)
            if (p->stack[s].how[l].numbers)
                status = view_encode_numbers(&p->block, p->of[s], s, l, err);
    if (status) return status;
    view_block_sum(&p->block);
    return view_block_pack(&p->packed, &p->block, before, err);
}

// Encodes all layers to a block of about `bytes` bytes, and compresses it. before: the block of
// the same layers without optional arrays, from which their arrays are copied; NULL: encodes them.
static qkv_status encode(struct view_plan *p, const struct view_block *before, int64_t bytes,
                         qkv_error *err)
{
    int64_t from = 0;
    p->block = (struct view_block){ 0 };
    for (int64_t s = 0; s < p->stacks; s++)
        for (int64_t l = 0; l < p->of[s]->shape.layers; l++)
            bytes += view_numbers_bytes(p->of[s], l); // they may follow later
    if (!qkv_reserve((void **)&p->block.bytes, &p->block.capacity, bytes, 1))
        return qkv_fail_memory(err, NULL);
    qkv_status status = QKV_OK;
    for (int64_t s = 0; s < p->stacks && !status; s++) {
        if (!before) p->stack[s].loss = (struct view_loss){ 0 };
        for (int64_t l = 0; l < p->of[s]->shape.layers && !status; l++) {
            const struct view_kept *k = &p->stack[s];
            status = before ? copy_arrays(&p->block, before, from, k->arrays[l], err)
                            : encode_layer(p, s, l, err);
            from += k->arrays[l];
            if (!status) status = view_encode_vectors(&p->block, p->of[s], s, l, &k->how[l], err);
        }
    }
    return status ? status : finish(p, before, err);
}

// Encodes all layers again, with their optional arrays. Queries and keys that are stored in
// addition to weights are encoded together with them; other arrays do not change those that the
// block has, and if none lies between these, the block is continued.
static qkv_status encode_extras(struct view_plan *p, qkv_error *err)
{
    struct view_block before = p->block;
    bool same = true, between = false;
    for (int64_t s = 0; s < p->stacks; s++)
        for (int64_t l = 0; l < p->of[s]->shape.layers; l++) {
            const struct view_encoding *how = &p->stack[s].how[l];
            same &= !how->with_qk;
            between |= how->values || how->input;
        }
    if (same && !between) return finish(p, &p->block, err);
    if (!same) view_block_free(&p->block);
    const qkv_status status = encode(p, same ? &before : NULL, before.size + p->extra, err);
    if (same) view_block_free(&before);
    return status;
}

static int64_t needed(const struct view_plan *p, int64_t frame)
{
    return frame + (p->packed.size + 2) / 3 * 4 + 110 * p->block.count;
}

// ---- the rest of the budget ---------------------------------------------------------------------
static int64_t base64(int64_t bytes)
{
    return bytes / 3 * 4 + 200;
}

// Sets the encoding of a layer to `with`, which stores one array more, if the array fits into
// *capacity. Returns true if it fits.
static bool grant(struct view_plan *p, int64_t s, int64_t l, const struct view_encoding *with,
                  int64_t *capacity)
{
    struct view_encoding *how = &p->stack[s].how[l];
    const int64_t before = view_layer_bytes(p->of[s], l, how),
                  bytes = view_layer_bytes(p->of[s], l, with) - before, cost = base64(bytes);
    if (with->code != how->code || cost > *capacity) return false;
    *capacity -= cost;
    p->extra += bytes;
    *how = *with;
    return true;
}

// Adds the named arrays of each layer (struct view_numbers), as far as they fit into the budget.
static bool take_numbers(struct view_plan *p, int64_t *capacity)
{
    bool any = false;
    for (int64_t s = 0; s < p->stacks; s++)
        for (int64_t l = 0; l < p->of[s]->shape.layers; l++) {
            struct view_encoding with = p->stack[s].how[l];
            with.numbers = view_numbers_bytes(p->of[s], l) > 0;
            if (with.numbers) any |= grant(p, s, l, &with, capacity);
        }
    return any;
}

// Adds the optional arrays of all layers, as far as they fit: first queries and keys of layers that
// are stored as weights, then values, then input rows.
static bool take_extras(struct view_plan *p, int64_t own, int64_t capacity)
{
    bool any = false;
    for (int what = 0; what < 3; what++)
        for (int64_t s = 0; s < p->stacks; s++)
            for (int64_t l = 0; l < p->of[s]->shape.layers; l++) {
                const struct view_layer *x = &p->of[s]->layer[l];
                struct view_encoding with = p->stack[s].how[l];
                if (what == 0) with.with_qk = x->q && with.code == VIEW_DENSE;
                if (what == 1) with.values = x->v != NULL;
                if (what == 2) with.input = x->x != NULL;
                if ((what == 0 && !with.with_qk) || (what == 1 && !with.values) ||
                    (what == 2 && !with.input))
                    continue;
                const bool fits = grant(p, s, l, &with, &capacity);
                any |= fits;
                p->values_left += what == 1 && !fits && s < own;
            }
    return any;
}

qkv_status view_plan_make(struct view_plan *p, const qkv_view *v, const struct qkv_view_options *o,
                          int64_t frame, qkv_error *err)
{
    const int64_t budget = view_budget(o->budget), side = view_block_side(v, budget);
    qkv_status status = take_stacks(p, v, err);
    int64_t need = -1, raw = 0;
    double least = 0;
    for (int r = 0; r < RUNGS && !status; r++) {
        if (rungs[r].floats && !few_weights(p)) continue;
        if (!lay_rung(p, &rungs[r], side, o)) continue;
        if (!plan_bytes(p, &raw, &least)) continue;
        if (least * 4 / 3 + (double)frame > (double)budget) continue;
        view_block_free(&p->block);
        status = encode(p, NULL, raw, err);
        if (status) return status;
        need = needed(p, frame);
        if (need <= budget) break;
    }
    if (status) return status;
    if (need < 0 || need > budget) {
        if (need < 0) need = frame + (int64_t)fmin(least * 1.5, 9e18);
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "page too large, found about %" PRId64
                        " bytes, expected at most the budget of %" PRId64
                        ": choose a larger budget, fewer layers or fewer tokens",
                        need, budget);
    }
    int64_t rest = budget - need;
    const bool numbers = take_numbers(p, &rest), whole = o->values || o->budget > 0;
    if (take_extras(p, v->shape.stacks, whole ? rest : qkv_min64(rest, MODEST - need)) || numbers)
        status = encode_extras(p, err);
    return status;
}
