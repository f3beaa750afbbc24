// SPDX-License-Identifier: MIT
// decode_cross.c: encodes the sources of decoder items (sequences) and stores the keys and values
// of cross-attention, once per source.
//
// An item refers to one slot of the cross-attention caches; copies of the item (beams) share its
// slot. There are as many slots as items, so an item that gives up its slot always finds a free
// one.
#include "model/decode/decode.h"
#include <inttypes.h>
#include <string.h>

void qkv_decoder_forget_source(qkv_decoder *d, int64_t item)
{
    if (d->slot[item] >= 0) d->users[d->slot[item]]--;
    d->slot[item] = -1;
}

static qkv_status check(const qkv_decoder *d, int64_t first, const struct qkv_model_input *in,
                        qkv_error *err)
{
    if (!d->two)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "a source requires an encoder-decoder; this model is a decoder");
    if (in->sequences < 0 || first < 0 || first > d->items - in->sequences)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid items for a source, expected items of 0 .. %" PRId64
                        ", found %" PRId64 " items from item %" PRId64,
                        d->items - 1, in->sequences, first);
    if (!in->offsets || in->offsets[0] != 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid offsets of sequences, expected offsets that begin with 0");
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        if (n < 1 || (in->lengths && (in->lengths[i] < 1 || in->lengths[i] > n)))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "source of item %" PRId64 " is empty, expected tokens, found none",
                            first + i);
    }
    return QKV_OK;
}

// The tokens of all sources, packed consecutively without padding.
struct compact {
    int32_t *ids;
    int64_t *offsets, *slots;
    float *hidden;
    void *scratch;
    void *memory;
};

static void take(struct compact *c, struct qkv_arena *a, int64_t R, int64_t n, int64_t D,
                 size_t scratch)
{
    c->ids = qkv_arena_alloc(a, (size_t)R, sizeof *c->ids);
    c->offsets = qkv_arena_alloc(a, (size_t)n + 1, sizeof *c->offsets);
    c->slots = qkv_arena_alloc(a, (size_t)n, sizeof *c->slots);
    c->hidden = qkv_arena_alloc(a, (size_t)R, (size_t)D * sizeof *c->hidden);
    c->scratch = qkv_arena_alloc(a, scratch, 1);
}

static bool compact(struct compact *c, const qkv_decoder *d, const struct qkv_model_input *in)
{
    const int64_t n = in->sequences, D = d->m->is.size.width;
    int64_t R = 0;
    for (int64_t i = 0; i < n; i++)
        R += in->lengths ? in->lengths[i] : in->offsets[i + 1] - in->offsets[i];
    struct qkv_arena count = { .size = SIZE_MAX };
    const size_t scratch = d->gru ? 0
                                  : qkv_heads_remember_scratch(&d->stack->block[0].cross,
                                                               qkv_precision_type(d->precision), R);
    take(c, &count, R, n, D, scratch);
    c->memory = qkv_arena_full(&count) ? NULL : qkv_alloc(count.used, 1);
    if (!c->memory) return false;
    struct qkv_arena arena = { c->memory, count.used, 0 };
    take(c, &arena, R, n, D, scratch);
    c->offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t used = in->lengths ? in->lengths[i] : in->offsets[i + 1] - in->offsets[i];
        memcpy(c->ids + c->offsets[i], in->ids + in->offsets[i], (size_t)used * sizeof *c->ids);
        c->offsets[i + 1] = c->offsets[i] + used;
    }
    return true;
}

// Empties items first .. first+n-1 and assigns a free slot to each of them.
static void begin(qkv_decoder *d, int64_t first, int64_t n, int64_t *slots)
{
    int64_t slot = 0;
    for (int64_t i = first; i < first + n; i++) {
        qkv_decoder_forget_source(d, i);
        (void)!qkv_decoder_cut(d, i, 0);
    }
    for (int64_t i = 0; i < n; i++) {
        while (d->users[slot]) slot++;
        d->users[slot] = 1;
        d->slot[first + i] = slots[i] = slot;
    }
}

static qkv_status remember(qkv_decoder *d, const struct compact *c, int64_t n)
{
    const qkv_dtype type = qkv_precision_type(d->precision);
    qkv_status status = QKV_OK;
    for (int64_t k = 0; !status && k < d->stack->layers; k++) {
        for (int64_t i = 0; !status && i < n; i++)
            status = qkv_cache_cut(d->cross[k], c->slots[i], 0);
        if (!status)
            status = qkv_heads_remember(d->cross[k], c->slots, c->offsets, n, c->hidden,
                                        &d->stack->block[k].cross, type, c->scratch);
    }
    return status;
}

// Runs the encoder on the sources, then stores the keys and values of its output for every layer.
static qkv_status encode(qkv_decoder *d, int64_t first, int64_t n, const struct compact *c,
                         qkv_error *err)
{
    const struct qkv_model_input in = { .sequences = n, .offsets = c->offsets, .ids = c->ids };
    qkv_status status = qkv_model_encode(d->m, c->hidden, &in, err);
    if (status) return status;
    begin(d, first, n, c->slots);
    status = remember(d, c, n);
    return status ? qkv_fail_memory(err, d->m->dir) : QKV_OK;
}

// Encodes the sources for a GRU. Checks their lengths and token ids first, since the following
// steps do not.
static qkv_status encode_states(qkv_decoder *d, int64_t first, int64_t n, const struct compact *c,
                                qkv_error *err)
{
    const int64_t V = d->stack->vocab;
    for (int64_t i = 0; i < n; i++)
        if (c->offsets[i + 1] - c->offsets[i] > d->m->positions)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "sequence too long for the model, expected at most %" PRId64
                            " tokens, found %" PRId64,
                            d->m->positions, c->offsets[i + 1] - c->offsets[i]);
    for (int64_t r = 0; r < c->offsets[n]; r++)
        if (c->ids[r] < 0 || c->ids[r] >= V)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "token id out of range, expected an id below %" PRId64
                            ", found %" PRId32,
                            V, c->ids[r]);
    begin(d, first, n, c->slots);
    return qkv_decoder_gru_source(d, first, c->ids, c->offsets, c->slots, n, err);
}

qkv_status qkv_decoder_source(qkv_decoder *d, int64_t first, const struct qkv_model_input *source,
                              qkv_error *err)
{
    if (!d || !source)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_decoder_source: expected a decoder and a source, found NULL");
    struct compact c = { 0 };
    const int64_t n = source->sequences;
    qkv_status status = check(d, first, source, err);
    if (status || !n) return status;
    if (!source->ids)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "tokens have no ids, expected an array of ids, found NULL");
    if (!compact(&c, d, source))
        status = qkv_fail_memory(err, d->m->dir);
    else
        status = d->gru ? encode_states(d, first, n, &c, err) : encode(d, first, n, &c, err);
    for (int64_t i = first; status == QKV_ERR_LIMIT && i < first + n; i++) {
        qkv_decoder_forget_source(d, i);
        (void)!qkv_decoder_cut(d, i, 0);
    }
    qkv_free(c.memory);
    return status;
}
