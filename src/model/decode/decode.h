// SPDX-License-Identifier: MIT
// decode.h: declares the state of a decoder, for the files that feed tokens, encode sources,
// observe and ablate.
#ifndef QKV_MODEL_DECODE_H
#define QKV_MODEL_DECODE_H

#include "model/forward/observe.h"
#include "model/forward/stream.h"

// A piece: the rows that go through the layers in one pass. They are divided into n places; the
// rows of a place are consecutive tokens of one item (a sequence of the decoder).
struct qkv_decoder_piece {
    int64_t n;
    int64_t *items,
        *slots;       // [n] item of each place; the item's slot in the cross-attention caches
    int64_t *offsets; // [n + 1] first row of each place
};

struct qkv_decoder {
    const qkv_model *m;
    const struct qkv_stack *stack;
    bool two; // the model is an encoder-decoder: items attend to the encoder output of a source
    // hidden states of a GRU, used in place of caches; NULL: a Transformer
    struct qkv_decoder_gru *gru;
    int64_t items, capacity, chunk;
    qkv_precision precision; // precision of the caches
    // [layers] KV caches. own: keys and values of the items, for self-attention; cross: of their
    // sources, for cross-attention
    qkv_cache **own, **cross;
    int64_t *length; // [items] number of tokens of each item
    // slot: [items] slot of each item's source in the `cross` caches, -1: the item has no source;
    // users: [items] number of items that use each slot
    int64_t *slot, *users;
    int64_t *mark, *was; // [items] scratch for checks and copies of items
    // Running sums for heads ablated to their mean (decode_ablate.c). Each token of an item has a
    // row of `stride` numbers: the sums over the item's tokens up to this token. stride 0: no head
    // is ablated to its mean.
    struct qkv_decoder_sums {
        int64_t stride;
        double **of;       // [items] running sums of each item, `capacity` numbers
        int64_t *capacity; // [items] allocated numbers
        // [items] pointer to the sums of the first new token of each place in the current piece;
        // while items are copied, pointer to the copied sums of each item (qkv_decoder_sums_copy)
        double **rows;
        int64_t *before;
    } sums;
    void *held; // the block of memory that contains the arrays above
    // observer of one item (decode_observe.c); NULL: no observer is set
    struct qkv_decoder_observation *observation;

    // The following members are the memory in which the tokens of a piece run through the layers.
    int threads; // number of threads for which the memory was allocated
    void *memory;
    size_t bytes;
    struct qkv_decoder_piece piece;
    int32_t *ids, *positions;
    int64_t *wanted; // rows of the piece whose logits are requested
    struct qkv_embedding_arrays embedding;
    float *x, *spare, *normed, *last, *dense;
    void *scratch;
    struct qkv_attention attention, local, across;
    struct qkv_places places;
};

// Removes the source of the item; its slot is free if no other item uses it (decode_cross.c).
void qkv_decoder_forget_source(qkv_decoder *d, int64_t item);
// The following functions manage the running sums of heads ablated to their mean (decode_ablate.c).

// Allocates the arrays of d->sums from the arena.
void qkv_decoder_sums_hold(qkv_decoder *d, struct qkv_arena *a);
void qkv_decoder_sums_free(qkv_decoder *d);
// Allocates memory for the sums of `more` new tokens of an item. Returns false if memory is
// exhausted.
bool qkv_decoder_reserve_sums(qkv_decoder *d, int64_t item, int64_t more);
// Sets *to to the sums of the current piece, whose tokens are already included in d->length.
// Returns `to`, or NULL if no head is ablated to its mean.
const struct qkv_heads_sums *qkv_decoder_sums_rows(qkv_decoder *d, struct qkv_heads_sums *to);
// Copies the sums of items from[n] to temporary memory. Returns false, and copies nothing, if
// memory is exhausted.
bool qkv_decoder_sums_copy(qkv_decoder *d, const int64_t *from, int64_t n);
// Gives the n temporary copies to items to[n], whose d->length is already set.
void qkv_decoder_sums_leave(qkv_decoder *d, const int64_t *to, int64_t n);
// Frees the n temporary copies.
void qkv_decoder_sums_drop(qkv_decoder *d, int64_t n);
// The following functions pass results to the observer of a decoder (decode_observe.c).

// Sets *own and *cross to the structs in which layers record self-attention and cross-attention of
// the current piece, whose tokens are already included in d->length. If the observed item has no
// tokens in the piece, sets them to NULL.
qkv_status qkv_decoder_observe_begin(qkv_decoder *d, const struct qkv_heads_trace **own,
                                     const struct qkv_heads_trace **cross);
// Passes the results of one layer to the observer. layer -1: passes the input of the first layer.
// x: the residual stream after the layer.
qkv_status qkv_decoder_observe_layer(qkv_decoder *d, int64_t layer, const float *x);
// Recorded attention of a GRU: weights [R][S] and lse [R] of R new tokens to S source tokens, and
// memory for its states.
struct qkv_observed_states {
    int64_t R, S;
    float *weights, *lse;
    void *states;
};
// Returns true if an observer of this item is set.
bool qkv_decoder_observes(const qkv_decoder *d, int64_t item);
// Allocates the arrays of *to for to->R and to->S, and `states` bytes for to->states.
qkv_status qkv_decoder_observe_states(qkv_decoder *d, struct qkv_observed_states *to,
                                      size_t states);
// Passes the recorded attention to the observer, as the result of the only layer with attention.
qkv_status qkv_decoder_observe_gru(qkv_decoder *d, const struct qkv_observed_states *of);
size_t qkv_decoder_observe_bytes(const qkv_decoder *d);
void qkv_decoder_observe_free(qkv_decoder *d);
// The following functions implement the operations of a decoder for a GRU, whose items have states
// instead of KV caches (decode_gru.c). Callers have checked the arguments.
qkv_status qkv_decoder_gru_open(qkv_decoder *d, qkv_error *err);
void qkv_decoder_gru_close(qkv_decoder *d);
size_t qkv_decoder_gru_bytes(const qkv_decoder *d);
// Encodes n sources. Sequence i of ids, packed at offsets, becomes the source of item first + i;
// its encoder output is stored in slot slots[i].
qkv_status qkv_decoder_gru_source(qkv_decoder *d, int64_t first, const int32_t *ids,
                                  const int64_t *offsets, const int64_t *slots, int64_t n,
                                  qkv_error *err);
// Sets an item to its state before the first token.
void qkv_decoder_gru_begin(qkv_decoder *d, int64_t item);
qkv_status qkv_decoder_gru_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t);
void qkv_decoder_gru_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n);
#endif
