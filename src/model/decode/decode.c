// SPDX-License-Identifier: MIT
// decode.c: decodes text token by token with a KV cache.
//
// An item is a sequence of the decoder. Tokens pass through the layers in pieces of at most `chunk`
// rows. A long prompt is divided into several pieces; the next tokens of many items are one piece.
// Each layer appends the keys and values of a piece to its cache and attends to the cache. If a
// call fails, its tokens are removed from every cache.
#include "model/decode/decode.h"
#include <inttypes.h>
#include <string.h>

enum { CHUNK = 512 }; // default maximum of tokens in a piece

// ---- made and freed ----------------------------------------------------------------------------
static struct qkv_cache_shape shape_of(const qkv_decoder *d, const struct qkv_heads *heads,
                                       int64_t capacity)
{
    return (struct qkv_cache_shape){ .B = d->items,
                                     .G = heads->G,
                                     .E = heads->E,
                                     .F = heads->F,
                                     .capacity = capacity,
                                     .precision = d->precision };
}

static qkv_status make_caches(qkv_decoder *d, qkv_error *err)
{
    const struct qkv_stack *stack = d->stack;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; !status && i < stack->layers; i++) {
        const struct qkv_block *b = &stack->block[i];
        const struct qkv_cache_shape own = shape_of(d, &b->heads, d->capacity);
        const struct qkv_cache_shape cross = shape_of(d, &b->cross, d->m->positions);
        status = qkv_cache_new(&d->own[i], &own, err);
        if (!status && b->cross.H) status = qkv_cache_new(&d->cross[i], &cross, err);
    }
    return status;
}

static void hold(qkv_decoder *d, struct qkv_arena *a)
{
    const size_t items = (size_t)d->items, layers = (size_t)d->stack->layers;
    d->own = qkv_arena_alloc(a, layers, sizeof *d->own);
    d->cross = qkv_arena_alloc(a, layers, sizeof *d->cross);
    d->length = qkv_arena_alloc(a, items, sizeof *d->length);
    d->slot = qkv_arena_alloc(a, items, sizeof *d->slot);
    d->users = qkv_arena_alloc(a, items, sizeof *d->users);
    d->mark = qkv_arena_alloc(a, items, sizeof *d->mark);
    d->was = qkv_arena_alloc(a, items, sizeof *d->was);
    qkv_decoder_sums_hold(d, a);
}

static qkv_status make(qkv_decoder *d, qkv_error *err)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    hold(d, &count);
    d->held = qkv_arena_full(&count) ? NULL : qkv_alloc_zero(count.used, 1);
    if (!d->held) return qkv_fail_memory(err, d->m->dir);
    struct qkv_arena arena = { d->held, count.used, 0 };
    hold(d, &arena);
    for (int64_t i = 0; i < d->items; i++) d->slot[i] = -1;
    return make_caches(d, err);
}

// Allocates the memory of a piece from the arena. Called twice: first to count the bytes, then to
// set the pointers.
static void take(qkv_decoder *d, struct qkv_arena *a, size_t scratch)
{
    const struct qkv_model *m = d->m;
    const size_t R = (size_t)d->chunk, D = (size_t)m->is.size.width;
    d->piece.items = qkv_arena_alloc(a, R, sizeof *d->piece.items);
    d->piece.slots = qkv_arena_alloc(a, R, sizeof *d->piece.slots);
    d->piece.offsets = qkv_arena_alloc(a, R + 1, sizeof *d->piece.offsets);
    d->ids = qkv_arena_alloc(a, R, sizeof *d->ids);
    d->positions = qkv_arena_alloc(a, R, sizeof *d->positions);
    d->wanted = qkv_arena_alloc(a, R, sizeof *d->wanted);
    qkv_embedding_alloc(&d->embedding, a, d->chunk, m, d->two);
    d->x = qkv_arena_alloc(a, R, D * sizeof(float));
    d->spare = qkv_arena_alloc(a, R, D * sizeof(float));
    d->normed = m->is.norm == QKV_NORM_POST ? NULL : qkv_arena_alloc(a, R, D * sizeof(float));
    d->last = qkv_arena_alloc(a, R, D * sizeof(float));
    d->dense = m->tokens.dense.K ? qkv_arena_alloc(a, R, D * sizeof(float)) : NULL;
    d->scratch = qkv_arena_alloc(a, scratch, 1);
}

// Returns the bytes of scratch that suffice for every block. Returns SIZE_MAX if attention refuses
// a block; *s is then the reason.
static size_t scratch_of(const qkv_decoder *d, qkv_status *s)
{
    size_t most = 0;
    for (int64_t i = 0; i < d->stack->blocks; i++) {
        const struct qkv_block *b = &d->stack->block[i];
        const struct qkv_attention *a = b->local ? &d->local : &d->attention;
        size_t bytes[3] = { 0 };
        if (b->heads.H) bytes[0] = qkv_heads_cached_scratch(&b->heads, a, d->own[i], d->chunk, s);
        if (!*s && b->cross.H)
            bytes[1] = qkv_heads_cached_scratch(&b->cross, &d->across, d->cross[i], d->chunk, s);
        if (*s) return SIZE_MAX;
        if (b->mlp.up.K) bytes[2] = qkv_mlp_scratch(&b->mlp, d->chunk);
        for (int k = 0; k < 3; k++)
            if (bytes[k] > most) most = bytes[k];
    }
    return most;
}

// Allocates the memory of a piece for the current number of threads.
static qkv_status plan(qkv_decoder *d, qkv_error *err)
{
    const int threads = qkv_threads();
    qkv_status status = QKV_OK;
    struct qkv_arena count = { .size = SIZE_MAX };
    if (d->memory && d->threads == threads) return QKV_OK;
    const size_t scratch = scratch_of(d, &status);
    if (status)
        return qkv_fail(err, status, NULL,
                        "attention over chunks of %" PRId64 " tokens cannot run: %s", d->chunk,
                        qkv_status_name(status));
    take(d, &count, scratch);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_alloc(count.used, 1);
    qkv_free(d->memory);
    d->memory = memory;
    d->bytes = memory ? count.used : 0;
    d->threads = threads;
    if (!memory) return qkv_fail_memory(err, d->m->dir);
    struct qkv_arena arena = { memory, count.used, 0 };
    take(d, &arena, scratch);
    return QKV_OK;
}

static qkv_status check_options(const qkv_model *m, const struct qkv_decoder_options *o,
                                qkv_error *err)
{
    if (o->items < 1 || o->items > INT32_MAX || o->capacity < 0 || o->chunk < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid options of a decoder, expected items >= 1, capacity >= 0 and "
                        "chunk >= 0, found %" PRId64 ", %" PRId64 ", %" PRId64,
                        o->items, o->capacity, o->chunk);
    if (!qkv_precision_name(o->cache))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown precision of the KV cache, expected f32, bf16, f16 or int8 (enum "
                        "qkv_precision), found %d",
                        (int)o->cache);
    if (m->is.kind == QKV_NET_ENCODER)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = m->dir },
                        "decoding requires a decoder or an encoder-decoder; this model is %s",
                        m->model_type);
    return QKV_OK;
}

qkv_status qkv_decoder_new(qkv_decoder **out, const qkv_model *m,
                           const struct qkv_decoder_options *o, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !m || !o)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_decoder_new: expected a pointer for the decoder, a model and options, found NULL");
    qkv_status status = check_options(m, o, err);
    if (!status && m->stacks) status = qkv_tokens_ready(m, err);
    if (!status && m->stacks && qkv_model_pack((struct qkv_model *)m, QKV_PACK_BODY))
        status = qkv_fail_memory(err, m->dir);
    if (status) return status;
    qkv_decoder *d = qkv_alloc_zero(1, sizeof *d);
    if (!d) return qkv_fail_memory(err, m->dir);
    d->m = m;
    d->two = m->is.kind != QKV_NET_DECODER;
    d->stack = &m->stack[d->two];
    d->items = o->items;
    d->capacity = qkv_described_decoded(&m->is);
    if (o->capacity) d->capacity = qkv_min64(o->capacity, d->capacity);
    d->chunk = qkv_min64(o->chunk ? o->chunk : CHUNK, qkv_max64(d->capacity, d->items));
    d->precision = o->cache ? o->cache : qkv_precision_attention(m->precision);
    d->sums.stride = m->sums;
    d->attention = qkv_stack_attention(m, d->two, false);
    d->local = qkv_stack_attention(m, d->two, true);
    d->across = qkv_cross_attention(m);
    d->attention.precision = d->local.precision = d->across.precision = d->precision;
    status = make(d, err);
    if (!status) status = m->stacks ? plan(d, err) : qkv_decoder_gru_open(d, err);
    if (status) {
        qkv_decoder_free(d);
        return status;
    }
    *out = d;
    return QKV_OK;
}

void qkv_decoder_free(qkv_decoder *d)
{
    if (!d) return;
    for (int64_t i = 0; d->held && i < d->stack->layers; i++) {
        qkv_cache_free(d->own[i]);
        qkv_cache_free(d->cross[i]);
    }
    qkv_decoder_gru_close(d);
    qkv_decoder_observe_free(d);
    if (d->held) qkv_decoder_sums_free(d);
    qkv_free(d->held);
    qkv_free(d->memory);
    qkv_free(d);
}

// ---- feeding -----------------------------------------------------------------------------------
static int64_t item_of(const struct qkv_decoder_tokens *t, int64_t i)
{
    return t->items ? t->items[i] : i;
}

static int64_t offset_of(const struct qkv_decoder_tokens *t, int64_t i)
{
    return t->offsets ? t->offsets[i] : i;
}

static qkv_status check_place(const qkv_decoder *d, const struct qkv_decoder_tokens *t, int64_t i,
                              qkv_error *err)
{
    const int64_t item = item_of(t, i), from = offset_of(t, i), to = offset_of(t, i + 1);
    if (item < 0 || item >= d->items || d->mark[item])
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid item to feed, expected each of the items 0 .. %" PRId64
                        " at most once, found item %" PRId64 "%s",
                        d->items - 1, item, item >= 0 && item < d->items ? " twice" : "");
    d->mark[item] = 1;
    if (to <= from)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no tokens in entry %" PRId64
                        " of the tokens to feed, expected one or more, found none",
                        i);
    if (to - from > d->capacity - d->length[item])
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "too many tokens for the decoder: item %" PRId64 " would have %" PRId64
                        " tokens, expected at most %" PRId64,
                        item, d->length[item] + (to - from), d->capacity);
    if (d->two && d->slot[item] < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "item %" PRId64
                        " has no source, expected one, since the model is an encoder-decoder",
                        item);
    for (int64_t r = from; r < to; r++)
        if (t->ids[r] < 0 || t->ids[r] >= d->stack->vocab)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "token id out of range, expected an id below %" PRId64
                            ", found %" PRId32,
                            d->stack->vocab, t->ids[r]);
    return QKV_OK;
}

static qkv_status check(const qkv_decoder *d, const struct qkv_decoder_tokens *t, qkv_error *err)
{
    if (t->n < 0 || t->n > d->items || (t->n && !t->ids) || (t->offsets && t->offsets[0] != 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid tokens to feed, expected an array of ids, 0 .. %" PRId64
                        " entries and offsets that begin with 0, found %" PRId64 " entries",
                        d->items, t->n);
    qkv_status status = QKV_OK;
    memset(d->mark, 0, (size_t)d->items * sizeof *d->mark);
    for (int64_t i = 0; !status && i < t->n; i++) status = check_place(d, t, i, err);
    return status;
}

// The progress of one call of qkv_decoder_feed.
struct feeding {
    const struct qkv_decoder_tokens *t;
    // place: index, in the call, of the sequence that is fed next; at: number of its tokens that
    // have been fed
    int64_t place, at;
    float *logits; // output array for the logits; NULL: not requested
    int64_t rows;  // number of logits rows already written
};

// Fills the next piece with as many tokens as fit: writes their ids, positions and offsets, and to
// wanted[] the indices of the rows whose logits are requested. Returns the number of these indices.
static int64_t next_piece(qkv_decoder *d, struct feeding *f, int64_t *wanted)
{
    const struct qkv_decoder_tokens *t = f->t;
    struct qkv_decoder_piece *p = &d->piece;
    int64_t rows = 0, want = 0;
    p->n = 0;
    p->offsets[0] = 0;
    while (f->place < t->n && rows < d->chunk) {
        const int64_t item = item_of(t, f->place), from = offset_of(t, f->place) + f->at;
        const int64_t left = offset_of(t, f->place + 1) - from;
        const int64_t n = qkv_min64(left, d->chunk - rows);
        for (int64_t r = 0; r < n; r++, rows++) {
            d->ids[rows] = t->ids[from + r];
            d->positions[rows] = (int32_t)(d->length[item] + d->m->is.position_offset + r);
            if (t->every || r + 1 == left) wanted[want++] = rows;
        }
        d->length[item] += n;
        p->items[p->n] = item;
        p->slots[p->n] = d->two ? d->slot[item] : 0;
        p->offsets[++p->n] = rows;
        f->at = n < left ? f->at + n : 0;
        f->place += n == left;
    }
    return want;
}

static qkv_status piece_layers(qkv_decoder *d, struct qkv_stream *stream)
{
    const struct qkv_stack *stack = d->stack;
    const struct qkv_decoder_piece *p = &d->piece;
    struct qkv_heads_sums rows;
    const struct qkv_heads_sums *sums = qkv_decoder_sums_rows(d, &rows);
    const struct qkv_heads_trace *trace = NULL, *trace_cross = NULL;
    qkv_status status =
        d->observation ? qkv_decoder_observe_begin(d, &trace, &trace_cross) : QKV_OK;
    if (!status && trace) status = qkv_decoder_observe_layer(d, -1, stream->x);
    for (int64_t i = 0; !status && i < stack->blocks; i++) {
        struct qkv_heads_cache own = { NULL, p->n, p->items, p->offsets, true, sums, trace };
        struct qkv_heads_cache cross = {
            NULL, p->n, p->slots, p->offsets, false, sums, trace_cross
        };
        if (i < stack->layers) {
            own.cache = d->own[i];
            cross.cache = d->cross[i];
        }
        stream->cache = &own;
        stream->cross_cache = &cross;
        status = qkv_block_forward(stream, &stack->block[i], NULL);
        if (!status && trace && (i + 1 < stack->layers || i + 1 == stack->blocks))
            status = qkv_decoder_observe_layer(d, qkv_min64(i, stack->layers - 1), stream->x);
    }
    return status;
}

// Runs the piece through the layers and computes the logits of the rows wanted[want].
static qkv_status run_piece(qkv_decoder *d, struct feeding *f, const int64_t *wanted, int64_t want)
{
    const struct qkv_model *m = d->m;
    const int64_t R = d->piece.offsets[d->piece.n], D = m->is.size.width;
    struct qkv_stream stream =
        qkv_stream_of(&m->is, R, &d->places, &d->attention, &d->local, &d->across);
    stream.positions = d->positions;
    stream.x = d->x;
    stream.spare = d->spare;
    stream.normed = d->normed;
    stream.scratch = d->scratch;
    qkv_embedding(stream.x, &d->embedding, d->ids, NULL, d->positions, R, &d->places, m, d->two);
    const qkv_status status = piece_layers(d, &stream);
    if (status || !f->logits || !want) return status;
    for (int64_t i = 0; i < want; i++)
        memcpy(d->last + i * D, stream.x + wanted[i] * D, (size_t)D * sizeof(float));
    if (d->stack->final_norm.D)
        qkv_norm_kind_forward(d->last, 0, NULL, d->last, want, &d->stack->final_norm,
                              m->is.norm_kind);
    qkv_tokens_forward(f->logits + f->rows * m->tokens.out.part[0].N, d->last, d->dense, want, m);
    f->rows += want;
    return QKV_OK;
}

// Undoes a call that failed: cuts every item that the call has fed, back to the item's length
// before the call.
static void take_back(qkv_decoder *d, const struct qkv_decoder_tokens *t, const struct feeding *f)
{
    for (int64_t i = 0; i < t->n && i <= f->place; i++) {
        const int64_t item = item_of(t, i), all = offset_of(t, i + 1) - offset_of(t, i);
        d->length[item] -= i < f->place ? all : f->at;
        for (int64_t k = 0; k < d->stack->layers; k++)
            (void)!qkv_cache_cut(d->own[k], item, d->length[item]);
    }
}

// In layers with a window, releases the keys and values to which no later query can attend, in
// multiples of STEP tokens.
static void forget(qkv_decoder *d, const struct qkv_decoder_tokens *t)
{
    enum { STEP = 256 };
    for (int64_t k = 0; d->stack->locals && k < d->stack->layers; k++)
        for (int64_t i = 0; d->stack->block[k].local && i < t->n; i++) {
            const int64_t item = item_of(t, i);
            const int64_t n = (d->length[item] - d->local.window.left) / STEP * STEP;
            if (n > 0) (void)!qkv_cache_forget(d->own[k], item, n);
        }
}

static qkv_status failed(const qkv_decoder *d, qkv_status s, qkv_error *err)
{
    return s == QKV_ERR_INTERRUPTED ? qkv_fail(err, s, NULL, "stopped")
                                    : qkv_fail_memory(err, d->m->dir);
}
static qkv_status feed_states(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t,
                              qkv_error *err)
{
    const qkv_status status = qkv_decoder_gru_feed(d, logits, t);
    return status ? failed(d, status, err) : QKV_OK;
}

qkv_status qkv_decoder_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t,
                            qkv_error *err)
{
    if (!d || !t)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_decoder_feed: expected a decoder and tokens, found NULL");
    int64_t deepest = 0;
    qkv_status status = check(d, t, err);
    if (!status && d->gru) status = feed_states(d, logits, t, err);
    if (status || d->gru || !t->n) return status;
    status = plan(d, err);
    if (status) return status;
    for (int64_t i = 0; i < t->n; i++) {
        const int64_t item = item_of(t, i), more = offset_of(t, i + 1) - offset_of(t, i);
        deepest = qkv_max64(deepest, d->length[item] + more);
        if (!qkv_decoder_reserve_sums(d, item, more)) return qkv_fail_memory(err, d->m->dir);
    }
    if (qkv_places_ready(&d->places, d->m, d->two, deepest)) return qkv_fail_memory(err, d->m->dir);
    struct feeding f = { .t = t, .logits = logits };
    while (!status && f.place < t->n) {
        const int64_t want = next_piece(d, &f, d->wanted);
        status = run_piece(d, &f, d->wanted, want);
    }
    // Some layers may already have the new tokens: cut every item to its length before the call.
    if (status) {
        take_back(d, t, &f);
        return failed(d, status, err);
    }
    forget(d, t);
    return QKV_OK;
}

// ---- items -------------------------------------------------------------------------------------
qkv_status qkv_decoder_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n,
                            qkv_error *err)
{
    if (!d || n < 0 || (n && (!to || !from)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_decoder_copy: expected a decoder and items, found NULL");
    memset(d->mark, 0, (size_t)d->items * sizeof *d->mark);
    for (int64_t i = 0; i < n; i++) {
        if (to[i] < 0 || to[i] >= d->items || from[i] < 0 || from[i] >= d->items || d->mark[to[i]])
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid items to copy, expected items of 0 .. %" PRId64
                            ", each written once, found item %" PRId64 " copied from item %" PRId64,
                            d->items - 1, to[i], from[i]);
        d->mark[to[i]] = 1;
    }
    qkv_status status = QKV_OK;
    const bool sums = qkv_decoder_sums_copy(d, from, n);
    if (!sums) status = qkv_fail_memory(err, d->m->dir);
    for (int64_t k = 0; !status && k < d->stack->layers; k++)
        status = qkv_cache_copy(d->own[k], to, from, n, err);
    if (status) {
        for (int64_t i = 0; i < n; i++) {
            (void)!qkv_decoder_cut(d, to[i], 0);
            qkv_decoder_forget_source(d, to[i]);
        }
        if (sums) qkv_decoder_sums_drop(d, n);
        return status;
    }
    // Reads the length and slot of every item in `from` before it changes an item in `to`.
    if (d->gru) qkv_decoder_gru_copy(d, to, from, n);
    for (int64_t i = 0; i < n; i++) {
        d->mark[i] = d->slot[from[i]];
        d->was[i] = d->length[from[i]];
        if (d->mark[i] >= 0) d->users[d->mark[i]]++;
    }
    for (int64_t i = 0; i < n; i++) {
        qkv_decoder_forget_source(d, to[i]);
        d->slot[to[i]] = d->mark[i];
        d->length[to[i]] = d->was[i];
    }
    qkv_decoder_sums_leave(d, to, n);
    return QKV_OK;
}

qkv_status qkv_decoder_cut(qkv_decoder *d, int64_t item, int64_t n)
{
    if (!d || item < 0 || item >= d->items || n < 0) return QKV_ERR_USAGE;
    if (n >= d->length[item]) return QKV_OK;
    if (d->gru && n > 0) return QKV_ERR_USAGE;
    if (d->gru) qkv_decoder_gru_begin(d, item);
    // All local layers have released the same tokens, other layers none, so if the first local
    // layer can be cut, all layers can.
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < d->stack->layers; k++)
            if (d->stack->block[k].local == (pass == 0)) {
                const qkv_status status = qkv_cache_cut(d->own[k], item, n);
                if (status) return status;
            }
    d->length[item] = n;
    return QKV_OK;
}

int64_t qkv_decoder_length(const qkv_decoder *d, int64_t item)
{
    return d && item >= 0 && item < d->items ? d->length[item] : 0;
}

int64_t qkv_decoder_capacity(const qkv_decoder *d)
{
    return d ? d->capacity : 0;
}

size_t qkv_decoder_bytes(const qkv_decoder *d)
{
    size_t bytes = d ? sizeof *d + d->bytes : 0;
    if (d && d->gru) bytes += qkv_decoder_gru_bytes(d);
    if (d && d->observation) bytes += qkv_decoder_observe_bytes(d);
    for (int64_t i = 0; d && d->sums.stride && i < d->items; i++)
        bytes += (size_t)d->sums.capacity[i] * sizeof **d->sums.of;
    for (int64_t k = 0; d && k < d->stack->layers; k++) {
        bytes += qkv_cache_bytes(d->own[k]);
        if (d->cross[k]) bytes += qkv_cache_bytes(d->cross[k]);
    }
    return bytes;
}
