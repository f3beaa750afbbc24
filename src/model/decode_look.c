// SPDX-License-Identifier: MIT
// decode_look.c: a decoder watched: what the new tokens of one item do in each layer, a piece at a
// time.
#include "model/decode.h"
#include <math.h>
#include <string.h>

// What one attention of a layer leaves of the item's rows.
struct view {
    struct qkv_heads_seen seen;
    struct qkv_probe probe;
    int64_t keys[2]; // offsets: 0, S
};

struct qkv_decoder_look {
    struct qkv_watch watch;
    int64_t *row; // [watch.probe.rows] a copy
    int64_t item;
    void *memory; // of the piece, as much as any needed so far
    size_t bytes;
    // The piece: its place of the item, R rows.
    int64_t place, R;
    int64_t queries[2]; // offsets: 0, R
    float *hidden;      // [R][D] behind the last norm
    struct view own, cross;
    float *logs, *zeros; // of a GRU: ln of the weights [R][S]; [2 R + S]
};

static void take_view(struct view *v, struct qkv_arena *a, const struct qkv_decoder_look *l,
                      const struct qkv_heads *heads, int64_t S)
{
    const struct qkv_probe_wish *w = &l->watch.probe;
    const size_t rows = (size_t)(l->R * heads->H);
    v->keys[0] = 0;
    v->keys[1] = S;
    v->seen.place = l->place;
    v->seen.q = qkv_arena_take(a, rows, (size_t)heads->E * sizeof(float));
    v->seen.lse = qkv_arena_take(a, rows, sizeof(float));
    v->seen.weights = l->watch.weights ? qkv_arena_take(a, rows, (size_t)S * sizeof(float)) : NULL;
    v->seen.probe = NULL;
    if (!qkv_probe_wished(w)) return;
    v->probe = (struct qkv_probe){ .row = w->row };
    while (v->probe.rows < w->rows && w->row[v->probe.rows] < l->R) v->probe.rows++;
    qkv_probe_take(&v->probe, a, w, heads->H, l->R, S);
    v->seen.probe = &v->probe;
}

static void take(qkv_decoder *d, struct qkv_arena *a, int64_t source)
{
    struct qkv_decoder_look *l = d->look;
    const struct qkv_block *b = &d->stack->block[0];
    l->hidden = qkv_arena_take(a, (size_t)l->R, (size_t)d->m->is.size.width * sizeof(float));
    take_view(&l->own, a, l, &b->heads, d->length[l->item]);
    if (b->cross.H) take_view(&l->cross, a, l, &b->cross, source);
}

// Memory of a piece, as much as any needed so far; false: none.
static bool make_room(struct qkv_decoder_look *l, const struct qkv_arena *count)
{
    if (qkv_arena_full(count)) return false;
    if (count->used <= l->bytes) return true;
    qkv_free(l->memory);
    l->memory = qkv_alloc(count->used, 1);
    l->bytes = l->memory ? count->used : 0;
    return l->memory != NULL;
}

qkv_status qkv_decoder_look_begin(qkv_decoder *d, const struct qkv_heads_seen **own,
                                  const struct qkv_heads_seen **cross)
{
    struct qkv_decoder_look *l = d->look;
    const struct qkv_decoder_piece *p = &d->piece;
    struct qkv_arena count = { .size = SIZE_MAX };
    for (l->place = 0; l->place < p->n && p->items[l->place] != l->item; l->place++) {
    }
    if (l->place == p->n) return QKV_OK;
    l->R = l->queries[1] = p->offsets[l->place + 1] - p->offsets[l->place];
    const int64_t source = d->two ? qkv_cache_length(d->cross[0], p->slots[l->place]) : 0;
    take(d, &count, source);
    if (!make_room(l, &count)) return QKV_ERR_LIMIT;
    struct qkv_arena arena = { l->memory, l->bytes, 0 };
    take(d, &arena, source);
    *own = &l->own.seen;
    if (d->two) *cross = &l->cross.seen;
    return QKV_OK;
}

static qkv_status tell(const qkv_decoder *d, struct qkv_layer_seen *seen, struct view *v,
                       const struct qkv_heads *heads, const struct qkv_attention *a)
{
    const struct qkv_decoder_look *l = d->look;
    qkv_look_like(seen, heads, a);
    seen->S = v->keys[1];
    seen->k_offsets = v->keys;
    if (seen->layer >= 0) {
        seen->q = v->seen.q;
        seen->lse = v->seen.lse;
        seen->weights = v->seen.weights;
        seen->probe = v->seen.probe;
    }
    return l->watch.layer(l->watch.user, seen) ? QKV_ERR_INTERRUPTED : QKV_OK;
}

// The rows of the item behind a layer; behind the last, through the norm that follows.
static const float *hidden(const qkv_decoder *d, int64_t layer, const float *x)
{
    const struct qkv_decoder_look *l = d->look;
    const float *rows = x + d->piece.offsets[l->place] * d->m->is.size.width;
    if (layer + 1 < d->stack->layers || !d->stack->final_norm.D) return rows;
    qkv_norm_kind_forward(l->hidden, 0, NULL, rows, l->R, &d->stack->final_norm,
                          d->m->is.norm_kind);
    return l->hidden;
}

qkv_status qkv_decoder_look_show(qkv_decoder *d, int64_t layer, const float *x)
{
    struct qkv_decoder_look *l = d->look;
    const struct qkv_block *b = &d->stack->block[qkv_max64(layer, 0)];
    struct qkv_layer_seen seen = { .part = QKV_SEEN_CROSS,
                                   .layer = layer,
                                   .R = l->R,
                                   .q_offsets = l->queries,
                                   .first = d->length[l->item] - l->R };
    qkv_status s = QKV_OK;
    if (d->two && layer >= 0) {
        s = tell(d, &seen, &l->cross, &b->cross, &d->across);
        if (s) return s;
    }
    const struct qkv_attention own = qkv_block_attention(b, b->local ? &d->local : &d->attention);
    seen.part = d->two ? QKV_SEEN_DECODER : QKV_SEEN_STACK;
    seen.hidden = hidden(d, layer, x);
    return tell(d, &seen, &l->own, &b->heads, &own);
}

// ---- a GRU -------------------------------------------------------------------------------------
bool qkv_decoder_looks_at(const qkv_decoder *d, int64_t item)
{
    return d->look && d->look->item == item;
}

static void take_states(struct qkv_decoder_look *l, struct qkv_arena *a, struct qkv_look_states *to,
                        size_t states)
{
    const size_t R = (size_t)to->R, S = (size_t)to->S;
    struct qkv_probe *p = &l->cross.probe;
    to->states = qkv_arena_take(a, states, 1);
    to->weights = qkv_arena_take(a, R, S * sizeof(float));
    to->lse = qkv_arena_take(a, R, sizeof(float));
    l->cross.seen.probe = NULL;
    if (!qkv_probe_wished(&l->watch.probe)) return;
    l->logs = qkv_arena_take(a, R, S * sizeof(float));
    l->zeros = qkv_arena_take(a, 2 * R + S, sizeof(float));
    *p = (struct qkv_probe){ .row = l->watch.probe.row };
    while (p->rows < l->watch.probe.rows && p->row[p->rows] < to->R) p->rows++;
    qkv_probe_take(p, a, &l->watch.probe, 1, to->R, to->S);
    l->cross.seen.probe = p;
}

qkv_status qkv_decoder_look_states(qkv_decoder *d, struct qkv_look_states *to, size_t states)
{
    struct qkv_decoder_look *l = d->look;
    struct qkv_arena count = { .size = SIZE_MAX };
    take_states(l, &count, to, states);
    if (!make_room(l, &count)) return QKV_ERR_LIMIT;
    struct qkv_arena arena = { l->memory, l->bytes, 0 };
    take_states(l, &arena, to, states);
    l->R = l->queries[1] = to->R;
    l->cross.keys[1] = to->S;
    return QKV_OK;
}

// Probes of weights that are there: those of scores 0 with ln P as their bias, and lse 0.
static qkv_status probe_weights(const struct qkv_decoder_look *l, const struct qkv_look_states *of)
{
    const struct qkv_attention a = {
        .B = 1, .T = of->R, .S = of->S, .H = 1, .E = 1, .bias = { .at = l->logs, .t = of->S }
    };
    const float *zeros = l->zeros;
    memset(l->zeros, 0, (size_t)(2 * of->R + of->S) * sizeof *zeros);
    for (int64_t i = 0; i < of->R * of->S; i++) l->logs[i] = logf(of->weights[i]);
    return qkv_attention_real_probe(l->cross.seen.probe, zeros, zeros + of->R,
                                    zeros + of->R + of->S, &a);
}

qkv_status qkv_decoder_look_states_show(qkv_decoder *d, const struct qkv_look_states *of)
{
    struct qkv_decoder_look *l = d->look;
    const struct qkv_layer_seen seen = { .part = QKV_SEEN_CROSS,
                                         .R = of->R,
                                         .H = 1,
                                         .G = 1,
                                         .S = of->S,
                                         .q_offsets = l->queries,
                                         .k_offsets = l->cross.keys,
                                         .left = -1,
                                         .right = -1,
                                         .lse = of->lse,
                                         .weights = of->weights,
                                         .scale = 1,
                                         .first = d->length[l->item] - of->R,
                                         .probe = l->cross.seen.probe };
    const qkv_status s = l->cross.seen.probe ? probe_weights(l, of) : QKV_OK;
    if (s) return s;
    return l->watch.layer(l->watch.user, &seen) ? QKV_ERR_INTERRUPTED : QKV_OK;
}

size_t qkv_decoder_look_bytes(const qkv_decoder *d)
{
    return sizeof *d->look + d->look->bytes +
           (size_t)d->look->watch.probe.rows * sizeof *d->look->row;
}

void qkv_decoder_look_free(qkv_decoder *d)
{
    if (!d->look) return;
    qkv_free(d->look->memory);
    qkv_free(d->look->row);
    qkv_free(d->look);
    d->look = NULL;
}

qkv_status qkv_decoder_watch(qkv_decoder *d, const struct qkv_watch *watch, int64_t item,
                             qkv_error *err)
{
    if (!d || item < 0 || item >= d->items)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_decoder_watch, expected a decoder and one of its items, found %lld",
                        (long long)item);
    qkv_status s = watch ? qkv_probe_wish_check(&watch->probe, err) : QKV_OK;
    if (s) return s;
    if (!watch || !watch->layer) {
        qkv_decoder_look_free(d);
        return QKV_OK;
    }
    const size_t rows = (size_t)watch->probe.rows;
    struct qkv_decoder_look *l = qkv_alloc_zero(1, sizeof *l);
    int64_t *row = rows ? qkv_alloc(rows, sizeof *row) : NULL;
    if (!l || (rows && !row)) {
        qkv_free(l);
        qkv_free(row);
        return qkv_fail_memory(err, d->m->dir);
    }
    if (row) memcpy(row, watch->probe.row, rows * sizeof *row);
    l->watch = *watch;
    l->watch.probe.row = l->row = row;
    l->item = item;
    qkv_decoder_look_free(d);
    d->look = l;
    return QKV_OK;
}
