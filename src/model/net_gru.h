// SPDX-License-Identifier: MIT
// net_gru.h: inside of a model that learns: the encoder-decoder before the Transformer, and one run
// of it.
//
//   encoder   embeddings, then layers of two GRUs, one each way; h^e = [forward, backward] of the last layer
//   decoder   h^d_i = GRU([embedding of token i; c_i], h^d_(i-1)),   c_i = sum_j a_ij h^e_j
//             a_i = softmax_j(v . tanh(W_q h^d_(i-1) + W_k h^e_j + b_k))
//             above it plain GRUs; each state begins as tanh(W h^e_first + b) of the backward half
//   readout   t_i = tanh(W_s h_i + W_t e_i + W_c c_i + b),  logits = t_i W_o^T + b_o
//
// Bahdanau et al. 2015 (arXiv 1409.0473), with gates as torch.nn.GRU has them; the readout is the
// attentional state of Luong et al. 2015 (arXiv 1508.04025) with the token beside it.
// Sequences run side by side, the longest output first, so that those still running are the first
// few; scores and weights of one step exist one sequence at a time, so that memory is linear in
// tokens.
#ifndef QKV_MODEL_NET_GRU_H
#define QKV_MODEL_NET_GRU_H
#include "model/net_parts.h"

struct qkv_gru_weights {
    struct qkv_weight w_i, w_h, b_i, b_h;
};
struct qkv_net_gru_body {
    struct qkv_weight source_word, target_word;
    struct qkv_gru_weights *encoder; // [2 layers]: forward and backward, owned
    struct qkv_gru_weights *decoder; // [decoder layers]; of the first w_i is the token's part
    struct qkv_net_linear *begin;    // [decoder layers]
    struct qkv_weight context;       // the first decoder's other part of w_i: [3D][2D]
    struct qkv_weight query;         // [A][D], behind w_h of the first decoder
    struct qkv_net_linear key;       // [A][2D]
    struct qkv_weight score;         // [A]
    struct qkv_net_linear state, token, mixed; // of the readout; the bias is state's
    struct qkv_weight logits, logits_bias;     // logits.value NULL: tied to target_word
};

// A run over sequences in an order of its own.  R rows of the encoder, P of the decoder, n
// sequences, D width, A units of a score.
struct qkv_gru_run {
    qkv_net *n;
    const struct qkv_net_gru_body *body;
    int64_t D, A, layers, decoders, R, P, sequences;
    int threads;
    uint64_t seed, step;
    bool drops, backward;
    bool apart; // memory of its own, the caller's to free, in place of the net's
    void *memory;
    // In the order of the run.
    int64_t *order;     // [n] which sequence of the caller's
    int64_t *from, *to; // [n + 1] rows of encoder and decoder
    int32_t *source, *target_in, *target_out;
    // Encoder.
    real *x;           // [R][D] embeddings
    real **h, **gates; // [2 layers]: [R][D], [R][4D]
    real **y;          // [layers]: [R][2D], both ways side by side
    real *keys;        // [R][A]
    // Decoder.
    real *e;                       // [P][D] embeddings
    real *last;                    // [n][D] where states begin from
    real **argument, **first;      // [decoders]: [n][D] before and after tanh
    real **s, **s_gates;           // [decoders]: [P][D], [P][4D]
    real *context, *queries, *lse; // [P][2D], [P][A], [P]
    real *before, *out;            // [P][D] argument of the readout's tanh, and its value
    // One step: [n] rows.
    real *state, *units, *mixed, *added,
        *room;       // D, A + 3D, 2D, 3D; scores [threads][longest source]
    int64_t longest; // tokens of the longest source
    char *pack_state, *pack_context;
    struct qkv_linear of_state, of_context;
    int64_t t, running; // the step, and sequences that have it
    real *weights;      // [T][S] of one pair, for a reader; NULL: nobody
    // Backward.
    real *d_out, *d_s[2], *d_context, *d_e, *d_y[2], *d_half, *d_keys, *d_first, *d_last, *d_x;
    real *d_input, *d_hidden, *previous; // [P][3D], [P][3D + A], [P][D]
    real *d_score;                       // [n][A]
    real *four;                          // [threads][4D] what one row's gates give
    struct qkv_linear back_state, back_context;
    char *pack_back_state, *pack_back_context;
    void *scratch;
    size_t scratch_bytes, activations;
};

// net_gru_run.c: what a run knows before its sequences: weights, sizes, the threads of now; the
// weights that every step multiplies by.
void qkv_gru_sizes(struct qkv_gru_run *r, qkv_net *n);
void qkv_gru_products(struct qkv_gru_run *r);
// Sizes, the order, and memory of n's arena for a run over these sequences; `in` NULL: the encoder
// alone.
qkv_status qkv_gru_run_begin(struct qkv_gru_run *r, qkv_net *n, const struct qkv_sequences *in,
                             const struct qkv_sequences *source, const int32_t *targets,
                             qkv_error *err);
struct qkv_gru qkv_gru_cell(const struct qkv_gru_run *r, const struct qkv_gru_weights *w,
                            int64_t D_in, bool reverse);
void qkv_gru_encode(struct qkv_gru_run *r); // to y, keys, last, first
void qkv_gru_encode_backward(struct qkv_gru_run *r);
// The product of rows by a linear layer, += gradients.
void qkv_gru_product(struct qkv_gru_run *r, real *y, const real *x, int64_t R,
                     const struct qkv_net_linear *l, const real *residual);
void qkv_gru_product_backward(struct qkv_gru_run *r, real *dx, const real *dx_add, const real *dy,
                              int64_t lddy, const real *x, int64_t R,
                              const struct qkv_net_linear *l);

// net_gru_steps.c: the first decoder, step by step.
void qkv_gru_steps(struct qkv_gru_run *r);
void qkv_gru_steps_backward(struct qkv_gru_run *r);
// context[2D] of one query's units u[A] over n rows of keys and of y; returns lse; room: [n] takes
// the weights.
real qkv_gru_attend(const struct qkv_gru_run *r, real *context, real *room, const real *u,
                    const real *keys, const real *y, int64_t n);

// net_gru_write.c: the decoder a token at a time, each row with states and a source of its own.
struct qkv_gru_read {
    const real *keys, *y; // [n][A], [n][2D] that the encoder left
    int64_t n;
};
struct qkv_gru_writer {
    struct qkv_gru_run r;  // sizes, weights and threads of a run without sequences
    int64_t rows;          // most of a step
    struct qkv_linear *of; // [products] packed once
    int64_t products;
    void *memory; // of all that follows
    real **h;     // [decoders]: [rows][D] states: a step reads and writes its first rows
    real *spare;  // [rows][D]
    real *e, *gates, *units, *added, *context, *before, *out;
    real *room;      // [threads][longest] scores; the caller's
    int64_t longest; // tokens of a source that room is for
    struct qkv_cross_entropy logits;
    // Of a step.
    const struct qkv_gru_read *read;
    real *below; // states of the layer at work
    real *shown; // takes the weights of row `look`, and shown_lse its lse; NULL: nobody looks
    int64_t look;
    real shown_lse;
};
// QKV_OK or QKV_ERR_LIMIT; a failed one is freed as any.
qkv_status qkv_gru_writer_open(struct qkv_gru_writer *w, qkv_net *n, int64_t rows);
void qkv_gru_writer_close(struct qkv_gru_writer *w); // a zeroed one is fine
// logits[R][V] behind tokens[R]; states w->h go on.
void qkv_gru_write(struct qkv_gru_writer *w, real *logits, const int32_t *tokens,
                   const struct qkv_gru_read *read, int64_t R);

// net_gru_decode.c
qkv_status qkv_gru_decode_begin(void **state, qkv_net *n, const struct qkv_sequences *source,
                                int beam, int64_t most, qkv_error *err);
qkv_status qkv_gru_decode_step(void *state, real *logits, const int32_t *tokens, int64_t t,
                               qkv_error *err);
void qkv_gru_decode_reorder(void *state, const int64_t *parent, int64_t t);
void qkv_gru_decode_end(void *state);
#endif
