// SPDX-License-Identifier: MIT
// decode.h: declares the state of a decoder, for the files that feed tokens and encode sources.
#ifndef QKV_MODEL_DECODE_H
#define QKV_MODEL_DECODE_H

#include "model/forward/observe.h"
#include "model/forward/stream.h"

// A piece: the rows that go through the layers in one pass. It has n places, stored consecutively;
// each place contains consecutive tokens of one item (a sequence with its own cache).
struct qkv_decoder_piece {
    int64_t n;
    int64_t *items,
        *slots;       // [n] item of each place; the item's slot in the cross-attention caches
    int64_t *offsets; // [n + 1] first row of each place
};

struct qkv_decoder {
    const qkv_model *m;
    const struct qkv_stack *stack;
    bool two; // the model is an encoder-decoder: items attend to a source
    // hidden states of a GRU, used in place of caches; NULL: a Transformer
    struct qkv_decoder_gru *gru;
    int64_t items, capacity, chunk;
    qkv_precision precision; // precision of the caches
    // [layers] KV caches: own: self-attention of the items; cross: cross-attention to their sources
    qkv_cache **own, **cross;
    int64_t *length; // [items] number of tokens of each item
    // [items] source slot of each item, -1: the item has no source; [items] number of items that
    // use each slot
    int64_t *slot, *users;
    int64_t *mark, *was; // [items] scratch for checks and copies of items
    // Running sums for heads ablated to their mean (decode_ablate.c). Each token of an item has a
    // row of `stride` numbers: the sums over the item's tokens up to this one. stride 0: no such
    // heads.
    struct qkv_decoder_sums {
        int64_t stride;
        double **of;       // [items] running sums of each item, `capacity` numbers
        int64_t *capacity; // [items] allocated numbers
        // [items] pointer to the sums of the first new token of each place in the current piece;
        // between sums_copy and sums_drop, pointer to the copied sums of each item
        double **rows;
        int64_t *before;
    } sums;
    void *held; // the block of memory that contains the arrays above
    // observer of one item (decode_observe.c); NULL: no observer is set
    struct qkv_decoder_observation *observation;

    // The memory of a piece (all following members) is allocated for this number of threads.
    int threads;
    void *memory;
    size_t bytes;
    struct qkv_decoder_piece piece;
    int32_t *ids, *positions;
    int64_t *wanted; // rows of the piece whose logits are requested
    float *words, *x, *spare, *normed, *last, *dense;
    void *scratch;
    struct qkv_attention attention, local, across;
    struct qkv_places places;
};

// Detaches the item from its source slot (decode_cross.c).
void qkv_decoder_forget_source(qkv_decoder *d, int64_t item);
// The following functions (decode_ablate.c) manage the running sums of heads ablated to their mean.

// Allocates the arrays of d->sums from the arena.
void qkv_decoder_sums_hold(qkv_decoder *d, struct qkv_arena *a);
void qkv_decoder_sums_free(qkv_decoder *d);
// Allocates space for the sums of `more` tokens after the existing tokens of an item. Returns false
// if memory is exhausted.
bool qkv_decoder_reserve_sums(qkv_decoder *d, int64_t item, int64_t more);
// Sets *to to the sums of the tokens in the current piece, which d->length already counts. Returns
// `to`, or NULL if no head is ablated to its mean.
const struct qkv_heads_sums *qkv_decoder_sums_rows(qkv_decoder *d, struct qkv_heads_sums *to);
// Copies the sums of items from[n] to temporary memory. Returns false, and copies nothing, if
// memory is exhausted.
bool qkv_decoder_sums_copy(qkv_decoder *d, const int64_t *from, int64_t n);
// Moves the n temporary copies to items to[n], whose lengths are already set.
void qkv_decoder_sums_leave(qkv_decoder *d, const int64_t *to, int64_t n);
// Frees the n temporary copies.
void qkv_decoder_sums_drop(qkv_decoder *d, int64_t n);
// The following functions (decode_observe.c) pass results to the observer of a decoder.

// Sets *own and *cross to the structs in which layers record self-attention and cross-attention of
// the current piece, whose tokens d->length already counts; to NULL if the observed item is not in
// the piece.
qkv_status qkv_decoder_observe_begin(qkv_decoder *d, const struct qkv_heads_trace **own,
                                     const struct qkv_heads_trace **cross);
// Passes the results of one layer to the observer; layer -1: the input of the first layer. x: the
// residual stream after the layer.
qkv_status qkv_decoder_observe_layer(qkv_decoder *d, int64_t layer, const float *x);
// Recorded attention of a GRU: weights [R][S] and lse [R] of R new tokens to S source tokens, and
// the states.
struct qkv_observed_states {
    int64_t R, S;
    float *weights, *lse;
    void *states;
};
// Returns true if an observer of this item is set.
bool qkv_decoder_observes(const qkv_decoder *d, int64_t item);
// Allocates the arrays of *to for its R and S, and `states` bytes for the states.
qkv_status qkv_decoder_observe_states(qkv_decoder *d, struct qkv_observed_states *to,
                                      size_t states);
// Passes the recorded attention to the observer, as the only layer with attention.
qkv_status qkv_decoder_observe_gru(qkv_decoder *d, const struct qkv_observed_states *of);
size_t qkv_decoder_observe_bytes(const qkv_decoder *d);
void qkv_decoder_observe_free(qkv_decoder *d);
// The following functions (decode_gru.c) implement the operations of a decoder for a GRU, whose
// items have states instead of caches. Callers have checked the arguments.
qkv_status qkv_decoder_gru_open(qkv_decoder *d, qkv_error *err);
void qkv_decoder_gru_close(qkv_decoder *d);
size_t qkv_decoder_gru_bytes(const qkv_decoder *d);
// Encodes the sources: sequence i of ids, packed at offsets, becomes the source of item first + i,
// stored in slots[i].
qkv_status qkv_decoder_gru_source(qkv_decoder *d, int64_t first, const int32_t *ids,
                                  const int64_t *offsets, const int64_t *slots, int64_t n,
                                  qkv_error *err);
// resets the item to its state before the first token
void qkv_decoder_gru_begin(qkv_decoder *d, int64_t item);
qkv_status qkv_decoder_gru_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t);
void qkv_decoder_gru_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n);
#endif
