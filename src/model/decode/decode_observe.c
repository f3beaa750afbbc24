// SPDX-License-Identifier: MIT
// decode_observe.c: passes the attention of new tokens of one item to an observer, for each piece
// and each layer.
#include "model/decode/decode.h"
#include <math.h>
#include <string.h>

// The recorded results of self-attention or cross-attention of one layer, for the rows of the
// observed item.
struct view {
    struct qkv_heads_trace trace;
    struct qkv_probe probe;
    int64_t keys[2]; // offsets of the key sequence: 0, S
};

struct qkv_decoder_observation {
    struct qkv_observer observer;
    int64_t *row; // [observer.probe.rows] copy of the caller's row indices
    int64_t item;
    // memory of the arrays for the current piece; it grows to the largest size that a piece needs
    void *memory;
    size_t bytes;
    int64_t place, R;   // index of the observed item in the current piece; number of its rows
    int64_t queries[2]; // offsets of the query sequence: 0, R
    float *hidden;      // [R][D] output of the last layer after the final norm
    struct view own, cross;
    float *logs, *zeros; // for a GRU: logarithms of the weights [R][S]; zeros [2 R + S]
};

static void take_view(struct view *v, struct qkv_arena *a, const struct qkv_decoder_observation *l,
                      const struct qkv_heads *heads, int64_t S)
{
    const struct qkv_probe_request *w = &l->observer.probe;
    const size_t rows = (size_t)(l->R * heads->H);
    v->keys[0] = 0;
    v->keys[1] = S;
    v->trace.place = l->place;
    v->trace.q = qkv_arena_alloc(a, rows, (size_t)heads->E * sizeof(float));
    v->trace.lse = qkv_arena_alloc(a, rows, sizeof(float));
    v->trace.weights =
        l->observer.weights ? qkv_arena_alloc(a, rows, (size_t)S * sizeof(float)) : NULL;
    v->trace.probe = NULL;
    if (!qkv_probe_requested(w)) return;
    v->probe = (struct qkv_probe){ .row = w->row };
    while (v->probe.rows < w->rows && w->row[v->probe.rows] < l->R) v->probe.rows++;
    qkv_probe_take(&v->probe, a, w, heads->H, l->R, S);
    v->trace.probe = &v->probe;
}

static void take(qkv_decoder *d, struct qkv_arena *a, int64_t source)
{
    struct qkv_decoder_observation *l = d->observation;
    const struct qkv_block *b = &d->stack->block[0];
    l->hidden = qkv_arena_alloc(a, (size_t)l->R, (size_t)d->m->is.size.width * sizeof(float));
    take_view(&l->own, a, l, &b->heads, d->length[l->item]);
    if (b->cross.H) take_view(&l->cross, a, l, &b->cross, source);
}

// Grows the memory of the observation to the size that `count` has counted. Returns false if memory
// is exhausted.
static bool reserve_observation(struct qkv_decoder_observation *l, const struct qkv_arena *count)
{
    if (qkv_arena_full(count)) return false;
    if (count->used <= l->bytes) return true;
    qkv_free(l->memory);
    l->memory = qkv_alloc(count->used, 1);
    l->bytes = l->memory ? count->used : 0;
    return l->memory != NULL;
}

qkv_status qkv_decoder_observe_begin(qkv_decoder *d, const struct qkv_heads_trace **own,
                                     const struct qkv_heads_trace **cross)
{
    struct qkv_decoder_observation *l = d->observation;
    const struct qkv_decoder_piece *p = &d->piece;
    struct qkv_arena count = { .size = SIZE_MAX };
    for (l->place = 0; l->place < p->n && p->items[l->place] != l->item; l->place++) {
    }
    if (l->place == p->n) return QKV_OK;
    l->R = l->queries[1] = p->offsets[l->place + 1] - p->offsets[l->place];
    const int64_t source = d->two ? qkv_cache_length(d->cross[0], p->slots[l->place]) : 0;
    take(d, &count, source);
    if (!reserve_observation(l, &count)) return QKV_ERR_LIMIT;
    struct qkv_arena arena = { l->memory, l->bytes, 0 };
    take(d, &arena, source);
    *own = &l->own.trace;
    if (d->two) *cross = &l->cross.trace;
    return QKV_OK;
}

static qkv_status tell(const qkv_decoder *d, struct qkv_layer_output *output, struct view *v,
                       const struct qkv_heads *heads, const struct qkv_attention *a)
{
    const struct qkv_decoder_observation *l = d->observation;
    qkv_observe_heads(output, heads, a);
    output->S = v->keys[1];
    output->k_offsets = v->keys;
    if (output->layer >= 0) {
        output->q = v->trace.q;
        output->lse = v->trace.lse;
        output->weights = v->trace.weights;
        output->probe = v->trace.probe;
    }
    return l->observer.layer(l->observer.user, output) ? QKV_ERR_INTERRUPTED : QKV_OK;
}

// Returns the rows of the observed item in x, the stream after a layer. If it is the last layer,
// applies the final norm.
static const float *hidden(const qkv_decoder *d, int64_t layer, const float *x)
{
    const struct qkv_decoder_observation *l = d->observation;
    const float *rows = x + d->piece.offsets[l->place] * d->m->is.size.width;
    if (layer + 1 < d->stack->layers || !d->stack->final_norm.D) return rows;
    qkv_norm_kind_forward(l->hidden, 0, NULL, rows, l->R, &d->stack->final_norm,
                          d->m->is.norm_kind);
    return l->hidden;
}

qkv_status qkv_decoder_observe_layer(qkv_decoder *d, int64_t layer, const float *x)
{
    struct qkv_decoder_observation *l = d->observation;
    const struct qkv_block *b = &d->stack->block[qkv_max64(layer, 0)];
    struct qkv_layer_output output = { .part = QKV_PART_CROSS,
                                       .layer = layer,
                                       .R = l->R,
                                       .q_offsets = l->queries,
                                       .first = d->length[l->item] - l->R };
    qkv_status status = QKV_OK;
    if (d->two && layer >= 0) {
        status = tell(d, &output, &l->cross, &b->cross, &d->across);
        if (status) return status;
    }
    const struct qkv_attention own = qkv_block_attention(b, b->local ? &d->local : &d->attention);
    output.part = d->two ? QKV_PART_DECODER : QKV_PART_STACK;
    output.hidden = hidden(d, layer, x);
    return tell(d, &output, &l->own, &b->heads, &own);
}

// ---- a GRU -------------------------------------------------------------------------------------
bool qkv_decoder_observes(const qkv_decoder *d, int64_t item)
{
    return d->observation && d->observation->item == item;
}

static void take_states(struct qkv_decoder_observation *l, struct qkv_arena *a,
                        struct qkv_observed_states *to, size_t states)
{
    const size_t R = (size_t)to->R, S = (size_t)to->S;
    struct qkv_probe *p = &l->cross.probe;
    to->states = qkv_arena_alloc(a, states, 1);
    to->weights = qkv_arena_alloc(a, R, S * sizeof(float));
    to->lse = qkv_arena_alloc(a, R, sizeof(float));
    l->cross.trace.probe = NULL;
    if (!qkv_probe_requested(&l->observer.probe)) return;
    l->logs = qkv_arena_alloc(a, R, S * sizeof(float));
    l->zeros = qkv_arena_alloc(a, 2 * R + S, sizeof(float));
    *p = (struct qkv_probe){ .row = l->observer.probe.row };
    while (p->rows < l->observer.probe.rows && p->row[p->rows] < to->R) p->rows++;
    qkv_probe_take(p, a, &l->observer.probe, 1, to->R, to->S);
    l->cross.trace.probe = p;
}

qkv_status qkv_decoder_observe_states(qkv_decoder *d, struct qkv_observed_states *to, size_t states)
{
    struct qkv_decoder_observation *l = d->observation;
    struct qkv_arena count = { .size = SIZE_MAX };
    take_states(l, &count, to, states);
    if (!reserve_observation(l, &count)) return QKV_ERR_LIMIT;
    struct qkv_arena arena = { l->memory, l->bytes, 0 };
    take_states(l, &arena, to, states);
    l->R = l->queries[1] = to->R;
    l->cross.keys[1] = to->S;
    return QKV_OK;
}

// Computes the probe statistics of given attention weights P. It probes an attention with scores 0
// and bias ln P, whose lse is 0 and whose weights are therefore P.
static qkv_status probe_weights(const struct qkv_decoder_observation *l,
                                const struct qkv_observed_states *of)
{
    const struct qkv_attention a = {
        .B = 1, .T = of->R, .S = of->S, .H = 1, .E = 1, .bias = { .at = l->logs, .t = of->S }
    };
    const float *zeros = l->zeros;
    memset(l->zeros, 0, (size_t)(2 * of->R + of->S) * sizeof *zeros);
    for (int64_t i = 0; i < of->R * of->S; i++) l->logs[i] = logf(of->weights[i]);
    return qkv_attention_real_probe(l->cross.trace.probe, zeros, zeros + of->R,
                                    zeros + of->R + of->S, &a);
}

qkv_status qkv_decoder_observe_gru(qkv_decoder *d, const struct qkv_observed_states *of)
{
    struct qkv_decoder_observation *l = d->observation;
    const struct qkv_layer_output output = { .part = QKV_PART_CROSS,
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
                                             .probe = l->cross.trace.probe };
    const qkv_status status = l->cross.trace.probe ? probe_weights(l, of) : QKV_OK;
    if (status) return status;
    return l->observer.layer(l->observer.user, &output) ? QKV_ERR_INTERRUPTED : QKV_OK;
}

size_t qkv_decoder_observe_bytes(const qkv_decoder *d)
{
    return sizeof *d->observation + d->observation->bytes +
           (size_t)d->observation->observer.probe.rows * sizeof *d->observation->row;
}

void qkv_decoder_observe_free(qkv_decoder *d)
{
    if (!d->observation) return;
    qkv_free(d->observation->memory);
    qkv_free(d->observation->row);
    qkv_free(d->observation);
    d->observation = NULL;
}

qkv_status qkv_decoder_observe(qkv_decoder *d, const struct qkv_observer *observer, int64_t item,
                               qkv_error *err)
{
    if (!d || item < 0 || item >= d->items)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_decoder_observe: expected a decoder and one of its items, found item %lld",
            (long long)item);
    qkv_status status = observer ? qkv_probe_request_check(&observer->probe, err) : QKV_OK;
    if (status) return status;
    if (!observer || !observer->layer) {
        qkv_decoder_observe_free(d);
        return QKV_OK;
    }
    const size_t rows = (size_t)observer->probe.rows;
    struct qkv_decoder_observation *l = qkv_alloc_zero(1, sizeof *l);
    int64_t *row = rows ? qkv_alloc(rows, sizeof *row) : NULL;
    if (!l || (rows && !row)) {
        qkv_free(l);
        qkv_free(row);
        return qkv_fail_memory(err, d->m->dir);
    }
    if (row) memcpy(row, observer->probe.row, rows * sizeof *row);
    l->observer = *observer;
    l->observer.probe.row = l->row = row;
    l->item = item;
    qkv_decoder_observe_free(d);
    d->observation = l;
    return QKV_OK;
}
