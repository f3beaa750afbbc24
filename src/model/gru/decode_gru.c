// SPDX-License-Identifier: MIT
// decode_gru.c: decodes with a GRU. An item (sequence) has no KV cache: it has states, which each
// token overwrites, and refers to the encoder output of its source.
//
// The weights belong to a trainable model (net_gru.h). An earlier state cannot be restored, so an
// item can be cut only to length 0.
#include "model/decode/decode.h"
#include "model/gru/net_gru.h"
#include <inttypes.h>
#include <string.h>

struct qkv_decoder_gru {
    qkv_net *net;
    struct qkv_gru_writer w;
    // [items][decoders][D] state: current states of each item; first: initial states for the source
    // in each slot
    real *state, *first;
    struct qkv_gru_read *read; // [items] encoder output of the source in each slot
    void **left;               // [items] memory of the arrays in `read` for each slot
    struct qkv_gru_read *rows; // [items] source of each row in a step
    int32_t *tokens;           // [items] token of each row in a step
    int64_t *place;            // [items] index of the sequence of each row in the call of feed
    real *workspace;           // scores of each thread, with space for the longest source so far
    int64_t longest;
    float *logits; // [items][V] logits of a step
    size_t bytes;
    void *memory;
};

static void hold(struct qkv_decoder_gru *g, struct qkv_arena *a, int64_t items, int64_t V)
{
    const size_t n = (size_t)items, row = (size_t)(g->w.r.decoders * g->w.r.D) * sizeof(real);
    g->state = qkv_arena_alloc(a, n, row);
    g->first = qkv_arena_alloc(a, n, row);
    g->read = qkv_arena_alloc(a, n, sizeof *g->read);
    g->left = qkv_arena_alloc(a, n, sizeof *g->left);
    g->rows = qkv_arena_alloc(a, n, sizeof *g->rows);
    g->tokens = qkv_arena_alloc(a, n, sizeof *g->tokens);
    g->place = qkv_arena_alloc(a, n, sizeof *g->place);
    g->logits = qkv_arena_alloc(a, n, (size_t)V * sizeof *g->logits);
}

qkv_status qkv_decoder_gru_open(qkv_decoder *d, qkv_error *err)
{
    const struct qkv_net_options o = { .precision = d->m->precision };
    struct qkv_decoder_gru *g = qkv_alloc_zero(1, sizeof *g);
    if (!g) return qkv_fail_memory(err, d->m->dir);
    d->gru = g;
    const qkv_status status = qkv_net_open(&g->net, d->m->dir, &o, 0, 0, err);
    if (status) return status;
    struct qkv_arena count = { .size = SIZE_MAX };
    if (qkv_gru_writer_open(&g->w, g->net, d->items)) return qkv_fail_memory(err, d->m->dir);
    hold(g, &count, d->items, g->w.logits.V);
    g->memory = qkv_arena_full(&count) ? NULL : qkv_alloc_zero(count.used, 1);
    if (!g->memory) return qkv_fail_memory(err, d->m->dir);
    struct qkv_arena arena = { g->memory, count.used, 0 };
    hold(g, &arena, d->items, g->w.logits.V);
    g->bytes = count.used;
    return QKV_OK;
}

void qkv_decoder_gru_close(qkv_decoder *d)
{
    struct qkv_decoder_gru *g = d->gru;
    if (!g) return;
    for (int64_t i = 0; g->memory && i < d->items; i++) qkv_free(g->left[i]);
    qkv_gru_writer_close(&g->w);
    qkv_free(g->workspace);
    qkv_free(g->memory);
    qkv_net_free(g->net);
    qkv_free(g);
    d->gru = NULL;
}

size_t qkv_decoder_gru_bytes(const qkv_decoder *d)
{
    size_t bytes = d->gru->bytes;
    for (int64_t i = 0; i < d->items; i++)
        if (d->gru->left[i])
            bytes +=
                (size_t)(d->gru->read[i].n * (d->gru->w.r.A + 2 * d->gru->w.r.D)) * sizeof(real);
    return bytes;
}

// Allocates, for each thread, memory for the scores of a source of n tokens. Returns false if
// memory is exhausted.
static bool reserve_observation(struct qkv_decoder_gru *g, int64_t n)
{
    size_t each;
    if (g->workspace && n <= g->longest) return true;
    if (!qkv_mul_size(&each, (size_t)n, sizeof *g->workspace)) return false;
    real *workspace = qkv_alloc((size_t)g->w.r.work.threads, each);
    if (!workspace) return false;
    qkv_free(g->workspace);
    g->workspace = g->w.workspace = workspace;
    g->longest = g->w.longest = n;
    return true;
}

// Copies the encoder output of sequence i to newly allocated memory of a slot; false: memory is
// exhausted.
static bool keep(struct qkv_decoder_gru *g, const struct qkv_gru_run *r, int64_t i, int64_t slot)
{
    const int64_t from = r->from[i], n = r->from[i + 1] - from, A = r->A, D = r->D;
    real *at = qkv_alloc((size_t)n, (size_t)(A + 2 * D) * sizeof *at);
    if (!at) return false;
    memcpy(at, r->keys + from * A, (size_t)(n * A) * sizeof *at);
    memcpy(at + n * A, r->y[r->layers - 1] + from * 2 * D, (size_t)(n * 2 * D) * sizeof *at);
    qkv_free(g->left[slot]);
    g->left[slot] = at;
    g->read[slot] = (struct qkv_gru_read){ at, at + n * A, n };
    for (int64_t l = 0; l < r->decoders; l++)
        memcpy(g->first + (slot * r->decoders + l) * D, r->first[l] + i * D,
               (size_t)D * sizeof *at);
    return true;
}

void qkv_decoder_gru_begin(qkv_decoder *d, int64_t item)
{
    const struct qkv_gru_run *r = &d->gru->w.r;
    const int64_t row = r->decoders * r->D;
    if (d->slot[item] < 0) return;
    memcpy(d->gru->state + item * row, d->gru->first + d->slot[item] * row,
           (size_t)row * sizeof(real));
}

qkv_status qkv_decoder_gru_source(qkv_decoder *d, int64_t first, const int32_t *ids,
                                  const int64_t *offsets, const int64_t *slots, int64_t n,
                                  qkv_error *err)
{
    struct qkv_decoder_gru *g = d->gru;
    const struct qkv_sequences source = { .n = n, .offsets = offsets, .ids = ids };
    struct qkv_gru_run r = { .apart = true };
    qkv_status status = qkv_gru_run_begin(&r, g->net, NULL, &source, NULL, err);
    if (!status && !reserve_observation(g, r.longest)) status = qkv_fail_memory(err, d->m->dir);
    if (!status) qkv_gru_encode(&r);
    for (int64_t i = 0; !status && i < n; i++) {
        if (!keep(g, &r, i, slots[i])) status = qkv_fail_memory(err, d->m->dir);
        if (!status) qkv_decoder_gru_begin(d, first + i);
    }
    qkv_free(r.memory);
    return status;
}

// Collects the rows of a step: token `step` of every sequence of the call that has more than `step`
// tokens. Returns the number of rows.
static int64_t gather(qkv_decoder *d, const struct qkv_decoder_tokens *t, int64_t step)
{
    struct qkv_decoder_gru *g = d->gru;
    const int64_t D = g->w.r.D, decoders = g->w.r.decoders;
    int64_t R = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t item = t->items ? t->items[i] : i;
        const int64_t from = t->offsets ? t->offsets[i] : i,
                      to = t->offsets ? t->offsets[i + 1] : i + 1;
        if (step >= to - from) continue;
        g->tokens[R] = t->ids[from + step];
        g->rows[R] = g->read[d->slot[item]];
        for (int64_t l = 0; l < decoders; l++)
            memcpy(g->w.h[l] + R * D, g->state + (item * decoders + l) * D,
                   (size_t)D * sizeof(real));
        g->place[R++] = i;
    }
    return R;
}

// Copies the new states of a step to their items, and the requested rows of logits to `logits`.
static void scatter(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t, int64_t step,
                    int64_t R)
{
    struct qkv_decoder_gru *g = d->gru;
    const int64_t D = g->w.r.D, decoders = g->w.r.decoders, V = g->w.logits.V;
    for (int64_t r = 0; r < R; r++) {
        const int64_t i = g->place[r], item = t->items ? t->items[i] : i;
        const int64_t from = t->offsets ? t->offsets[i] : i,
                      to = t->offsets ? t->offsets[i + 1] : i + 1;
        for (int64_t l = 0; l < decoders; l++)
            memcpy(g->state + (item * decoders + l) * D, g->w.h[l] + r * D,
                   (size_t)D * sizeof(real));
        if (logits && (t->every || step + 1 == to - from))
            memcpy(logits + (t->every ? from + step : i) * V, g->logits + r * V,
                   (size_t)V * sizeof *logits);
    }
}

// Returns the index of the observed item in the call; -1: no observer is set, or the call does not
// feed the item.
static int64_t observed_row(const qkv_decoder *d, const struct qkv_decoder_tokens *t)
{
    for (int64_t i = 0; i < t->n; i++)
        if (qkv_decoder_observes(d, t->items ? t->items[i] : i)) return i;
    return -1;
}

// Adds the number of fed tokens to the length of each item (sign 1), or subtracts it (sign -1).
static void go_on(qkv_decoder *d, const struct qkv_decoder_tokens *t, int sign)
{
    for (int64_t i = 0; i < t->n; i++)
        d->length[t->items ? t->items[i] : i] +=
            sign * (t->offsets ? t->offsets[i + 1] - t->offsets[i] : 1);
}

qkv_status qkv_decoder_gru_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t)
{
    struct qkv_decoder_gru *g = d->gru;
    const size_t states = (size_t)(d->items * g->w.r.decoders * g->w.r.D) * sizeof(real);
    const int64_t place = observed_row(d, t);
    struct qkv_observed_states to = { 0 };
    int64_t steps = 0;
    if (place >= 0) {
        const int64_t item = t->items ? t->items[place] : place;
        to.R = t->offsets ? t->offsets[place + 1] - t->offsets[place] : 1;
        to.S = g->read[d->slot[item]].n;
        const qkv_status status = qkv_decoder_observe_states(d, &to, states);
        if (status) return status;
        memcpy(to.states, g->state, states);
    }
    for (int64_t i = 0; i < t->n; i++)
        steps = qkv_max64(steps, t->offsets ? t->offsets[i + 1] - t->offsets[i] : 1);
    go_on(d, t, 1);
    for (int64_t step = 0; step < steps; step++) {
        const int64_t R = gather(d, t, step);
        g->w.shown = NULL;
        for (int64_t r = 0; place >= 0 && r < R; r++)
            if (g->place[r] == place) {
                g->w.observation = r;
                g->w.shown = to.weights + step * to.S;
            }
        qkv_gru_write(&g->w, logits ? g->logits : NULL, g->tokens, g->rows, R);
        if (g->w.shown) to.lse[step] = g->w.shown_lse;
        scatter(d, logits, t, step, R);
    }
    const qkv_status status = place >= 0 ? qkv_decoder_observe_gru(d, &to) : QKV_OK;
    if (!status) return QKV_OK;
    memcpy(g->state, to.states, states);
    go_on(d, t, -1);
    return status;
}

void qkv_decoder_gru_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n)
{
    // Copies via the state rows of the writer (g->w.h), since an item may occur both in `to` and in
    // `from`.
    struct qkv_decoder_gru *g = d->gru;
    const int64_t D = g->w.r.D, decoders = g->w.r.decoders;
    for (int64_t l = 0; l < decoders; l++)
        for (int64_t i = 0; i < n; i++)
            memcpy(g->w.h[l] + i * D, g->state + (from[i] * decoders + l) * D,
                   (size_t)D * sizeof(real));
    for (int64_t l = 0; l < decoders; l++)
        for (int64_t i = 0; i < n; i++)
            memcpy(g->state + (to[i] * decoders + l) * D, g->w.h[l] + i * D,
                   (size_t)D * sizeof(real));
}
