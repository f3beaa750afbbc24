// SPDX-License-Identifier: MIT
// stream.h: declares the steps of a run: positions, embeddings, blocks, output heads.
#ifndef QKV_MODEL_STREAM_H
#define QKV_MODEL_STREAM_H

#include "model/model_internal.h"

// Computes positions[r], the row of the position table for token ids[r], for n sequences packed at
// offsets[0 .. n]: the index of the token in its sequence + `first` + position_offset. If the
// description has position_after_pad, the index counts only tokens other than padding and begins at
// pad + 1; a padding token has row pad (position_number.c).
void qkv_position_number(int32_t *positions, const struct qkv_description *d, const int32_t *ids,
                         const int64_t *offsets, int64_t n, int32_t first);
// A position table that position_rows.c computes, or converts from a table in the file that is not
// aligned floats.
struct qkv_rows_made {
    int64_t rows;
    // the smaller table before it, which runs may still read; freed with the model
    struct qkv_rows_made *older;
    float *at; // the table [rows][D]; for rotary positions [rows][2 pairs]
};
// Sets *out to a position table of this kind with at least `rows` rows. Several threads may call
// this function at once. Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_position_rows(const float **out, struct qkv_model *m, enum qkv_rows_kind kind,
                             int64_t rows);
// Returns the number of rotated pairs of dimensions in a head (rope_scale.c).
int64_t qkv_rope_pairs(const struct qkv_description *d);
// Writes to step[] the angle per position of each rotated pair, for base theta, scaled as the
// description requires. Returns the factor with which cosines and sines are multiplied.
double qkv_rope_scaled(double *step, const struct qkv_description *d, double theta);
// Writes table[rows][2 pairs]: cosines and sines of the rotated pairs, for base theta. Returns
// false if memory is exhausted.
bool qkv_rope_turns(real *table, int64_t rows, const struct qkv_description *d, double theta);
// These functions return attention as a description defines it: self-attention in normal or `local`
// layers, and cross-attention. The caller sets sizes, offsets, precision and relative positions.
static inline struct qkv_attention qkv_described_attention(const struct qkv_description *d,
                                                           bool causal, bool local)
{
    return (struct qkv_attention){ .causal = causal,
                                   .scale = (float)d->attention_scale,
                                   .softcap = (float)d->softcap,
                                   .window = { .on = local,
                                               .left = local ? d->window_left : 0,
                                               .right = !local   ? 0
                                                        : causal ? -1
                                                                 : d->window_right } };
}
static inline struct qkv_attention qkv_described_cross_attention(const struct qkv_description *d)
{
    return (struct qkv_attention){ .scale = (float)d->attention_scale };
}
// Returns true if rotary positions have another base in local layers than in normal layers.
static inline bool qkv_described_two_turns(const struct qkv_description *d)
{
    return d->theta_local > 0 && d->theta_local != d->theta;
}
// Expands the relative-position biases buckets[buckets][H] of a stack to one bias per distance,
// table[H][2 reach + 1] with reach = distance (relative.c).
void qkv_relative_table(float *table, const real *buckets, int64_t H,
                        const struct qkv_relative_buckets *b, bool causal);
// Adds the gradient of the expanded table, table[H][2 reach + 1], to the gradient of the biases,
// buckets[buckets][H].
void qkv_relative_backward(real *buckets, const real *table, int64_t H,
                           const struct qkv_relative_buckets *b, bool causal);

// The position tables of a run (embedding.c).
struct qkv_places {
    // rows of the position table; NULL: the stack has no table of position embeddings
    const float *rows;
    struct qkv_rope turn[2]; // rotary positions of normal and of local layers; table NULL: unused
};
// Sets *p to position tables of a stack for at least the positions 0 .. deepest-1; computes the
// rows that no earlier run has computed. Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_places_ready(struct qkv_places *p, const struct qkv_model *m, int stack,
                            int64_t deepest);
// The scratch arrays that qkv_embedding needs. words: true if it needs words[R][D]; kinds: true if
// it needs kinds[types][D].
struct qkv_embedding_memory {
    bool words, kinds;
};
struct qkv_embedding_memory qkv_embedding_memory(const struct qkv_model *m, int stack);
// Computes the embeddings x[R][D]. words, kinds: scratch, or NULL if qkv_embedding_memory does not
// require it. If words is not NULL, the function overwrites ids.
void qkv_embedding(float *x, float *words, float *kinds, int32_t *ids, const int32_t *types,
                   const int32_t *positions, int64_t R, const struct qkv_places *p,
                   const struct qkv_model *m, int stack);

// Copies, for an observer, of the stream after each sublayer of a layer.
struct qkv_sublayer_streams {
    real *at[QKV_SUBLAYERS]; // each [caller's rows][width]; padding rows are 0
    // bit k: the stream after sublayer k has been copied since the last call of the observer
    unsigned stored;
    int64_t width;
    // [R] the caller's row of each computed row; NULL: no padding, row r is row r
    const int64_t *place;
};
// The residual stream x[R][D] of a run, and the settings and memory with which a block runs
// (block.c). Without a tape, each sublayer swaps x and spare.
struct qkv_stream {
    int64_t R, D;
    enum qkv_norm_kind norm;
    enum qkv_norm_place place;
    const struct qkv_places *places;
    const int32_t *positions;
    real *x, *spare; // x: [R][D] the stream; spare: [R][D] array that the next sublayer writes
    // [R][D] output, of type `type`, of the norm before a sublayer; NULL: no such norm
    void *normed;
    // settings of self-attention in normal layers, of self-attention in local layers, and of
    // cross-attention
    const struct qkv_attention *attention, *local, *across;
    const real *memory; // encoder output that cross-attention reads
    // arrays that receive q, k, v and lse for an observer; NULL: not recorded
    const struct qkv_heads_keep *keep, *keep_cross;
    // KV caches of this layer; NULL: the rows are packed sequences without a cache
    struct qkv_heads_cache *cache, *cross_cache;
    struct qkv_sublayer_streams *sublayers; // copies of the stream for an observer; NULL: no copies
    void *scratch;
    // The following members are for training; they are 0 in a run without a tape.
    qkv_dtype type; // element type of normed and branch; 0: real
    // [R][D] output of the last projection of a sublayer, before dropout; NULL: no dropout
    void *branch;
    // dropout probability and seed; site is the first number of the random streams of this stack
    // and step (qkv_stream_dropout)
    struct qkv_dropout drop;
};
// Runs one layer: replaces s->x by the stream after the layer. tape: NULL, or an array with one
// entry (tape.h) for each sublayer that the block has; the arrays of the entries receive the
// activations that backward reads. With a tape, s->x becomes the array `value` of the last entry.
struct qkv_tape;
qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b,
                             const struct qkv_tape *tape);
// qkv_stack_attention returns the self-attention of a stack, in its normal or its local layers;
// qkv_cross_attention returns the cross-attention of a model. The caller sets sizes and offsets.
struct qkv_attention qkv_stack_attention(const struct qkv_model *m, int stack, bool local);
struct qkv_attention qkv_cross_attention(const struct qkv_model *m);
// Returns *a, the attention of a stack, with the relative-position table of this block if it has
// its own.
static inline struct qkv_attention qkv_block_attention(const struct qkv_block *b,
                                                       const struct qkv_attention *a)
{
    struct qkv_attention own = *a;
    if (b->relative) own.relative.at = b->relative;
    return own;
}
// Returns the bytes of scratch that suffice for every block of a stack, without a tape. SIZE_MAX: a
// block was refused, and *status is the reason. a, across: settings of self-attention and
// cross-attention.
size_t qkv_block_scratch(const struct qkv_stack *stack, const struct qkv_attention *a,
                         const struct qkv_attention *across, qkv_status *status);

// Runs only the encoder of an encoder-decoder and writes its output hidden[R][D] (forward.c).
qkv_status qkv_model_encode(const struct qkv_model *m, float *hidden,
                            const struct qkv_model_input *in, qkv_error *err);
// Packs the weights of the output head for tokens, unless an earlier call has done so. Returns
// QKV_OK; QKV_ERR_UNSUPPORTED if the model has no such head; QKV_ERR_LIMIT (output_heads.c).
qkv_status qkv_tokens_ready(const struct qkv_model *m, qkv_error *err);
// Computes logits as qkv_model_logits does; spare[R][D] is scratch (NULL if m->tokens has no dense
// layer).
void qkv_tokens_forward(float *logits, const float *hidden, float *spare, int64_t R,
                        const struct qkv_model *m);
#endif
