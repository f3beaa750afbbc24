// SPDX-License-Identifier: MIT
// decode.h: what a decoder holds, for the files that feed it and give it a source.
#ifndef QKV_MODEL_DECODE_H
#define QKV_MODEL_DECODE_H

#include "model/model.h"

// Rows that go through the layers at once: places one behind the other, each some tokens of an
// item.
struct qkv_decoder_piece {
    int64_t n;
    int64_t *items, *slots; // [n] of the caches of layers, of sources
    int64_t *offsets;       // [n + 1]
};

struct qkv_decoder {
    const qkv_model *m;
    const struct qkv_stack *stack;
    bool two;                    // items read a source
    struct qkv_decoder_gru *gru; // states in place of caches; NULL: a Transformer
    int64_t items, capacity, chunk;
    qkv_precision precision;  // of the caches
    qkv_cache **own, **cross; // [layers] what the items have read; what they read of a source
    int64_t *length;          // [items] tokens
    int64_t *slot,
        *users;          // [items] which item of `cross` an item reads, -1: none; how many read it
    int64_t *mark, *was; // [items] scratch of checks and copies
    // Of ablated heads with a mean (decode_ablate.c): what the sums of each item's tokens have come
    // to, [tokens][stride]; the rows of a piece's places; stride 0: there are none.
    struct qkv_decoder_sums {
        int64_t stride;
        double **of;   // [items] with room for [room] numbers
        int64_t *room; // [items]
        double **rows; // [items]
        int64_t *before;
    } sums;
    void *held;                    // memory of the arrays above
    struct qkv_decoder_look *look; // who looks at an item (decode_look.c); NULL: nobody

    // Of a piece, in memory planned for so many threads.
    int threads;
    void *memory;
    size_t bytes;
    struct qkv_decoder_piece piece;
    int32_t *ids, *positions;
    int64_t *wanted; // rows of the piece whose logits are wanted
    float *words, *x, *spare, *normed, *last, *dense;
    void *scratch;
    struct qkv_attention attention, local, across;
    struct qkv_places places;
};

// decode_source.c
void qkv_decoder_forget_source(qkv_decoder *d, int64_t item);
// decode_ablate.c.  room: for `more` tokens of an item behind those it has; false: no memory.  rows:
// those of the piece at hand, whose tokens its items count already; NULL: no sums are kept.  copy:
// those of items from[n] put aside (false: no memory, nothing is), then left to items to[n] whose
// lengths are set, or dropped.
void qkv_decoder_sums_hold(qkv_decoder *d, struct qkv_arena *a);
void qkv_decoder_sums_free(qkv_decoder *d);
bool qkv_decoder_sums_room(qkv_decoder *d, int64_t item, int64_t more);
const struct qkv_heads_sums *qkv_decoder_sums_rows(qkv_decoder *d, struct qkv_heads_sums *to);
bool qkv_decoder_sums_copy(qkv_decoder *d, const int64_t *from, int64_t n);
void qkv_decoder_sums_leave(qkv_decoder *d, const int64_t *to, int64_t n);
void qkv_decoder_sums_drop(qkv_decoder *d, int64_t n);
// decode_look.c.  begin: of the piece at hand, whose tokens its items count already; *own and *cross
// are what layers leave to it, NULL where the item is not in the piece.  show: layer -1 is what goes
// into the first; x: the stream behind the layer.
qkv_status qkv_decoder_look_begin(qkv_decoder *d, const struct qkv_heads_seen **own,
                                  const struct qkv_heads_seen **cross);
qkv_status qkv_decoder_look_show(qkv_decoder *d, int64_t layer, const float *x);
// Of a GRU: memory for the weights [R][S] and lse [R] of R new tokens and `states` bytes, then what
// they hold is shown: the attention of the one layer that has any.
struct qkv_look_states {
    int64_t R, S;
    float *weights, *lse;
    void *states;
};
bool qkv_decoder_looks_at(const qkv_decoder *d, int64_t item);
qkv_status qkv_decoder_look_states(qkv_decoder *d, struct qkv_look_states *to, size_t states);
qkv_status qkv_decoder_look_states_show(qkv_decoder *d, const struct qkv_look_states *of);
size_t qkv_decoder_look_bytes(const qkv_decoder *d);
void qkv_decoder_look_free(qkv_decoder *d);
// decode_gru.c: the same calls for what has states; arguments were checked.
qkv_status qkv_decoder_gru_open(qkv_decoder *d, qkv_error *err);
void qkv_decoder_gru_close(qkv_decoder *d);
size_t qkv_decoder_gru_bytes(const qkv_decoder *d);
// Sequence i of ids, packed at offsets, is what item first + i reads, by slots[i].
qkv_status qkv_decoder_gru_source(qkv_decoder *d, int64_t first, const int32_t *ids,
                                  const int64_t *offsets, const int64_t *slots, int64_t n,
                                  qkv_error *err);
void qkv_decoder_gru_begin(qkv_decoder *d, int64_t item); // before its first token
qkv_status qkv_decoder_gru_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t);
void qkv_decoder_gru_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n);
#endif
