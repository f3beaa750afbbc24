// SPDX-License-Identifier: MIT
// net_gru.h: declares the trainable GRU encoder-decoder, the predecessor of the Transformer, and
// the state of a run.
//
//   encoder   embeddings, then layers of two GRUs, one per direction;
//             h^e = [forward, backward] of the last layer
//   decoder   h^d_i = GRU([embedding of token i; c_i], h^d_(i-1)),   c_i = sum_j a_ij h^e_j
//             a_i = softmax_j(v . tanh(W_q h^d_(i-1) + W_k h^e_j + b_k))
//             then layers of plain GRUs; initial states: tanh(W h^e_first + b) of the backward half
//   readout   t_i = tanh(W_s h_i + W_t e_i + W_c c_i + b),  logits = t_i W_o^T + b_o
//
// Bahdanau et al. 2015 (arXiv 1409.0473), with the gates of torch.nn.GRU; the readout is the
// attentional state of Luong et al. 2015 (arXiv 1508.04025) with the token as additional input. The
// sequences of a batch advance together and are sorted by output length, longest first, so that a
// step runs the first sequences of this order. Each thread stores the scores and weights of one
// sequence and one step only, so that memory is linear in the tokens.
#ifndef QKV_MODEL_NET_GRU_H
#define QKV_MODEL_NET_GRU_H
#include "model/params/trainable.h"

struct qkv_gru_weights {
    struct qkv_weight w_i, w_h, b_i, b_h;
};
struct qkv_net_gru_layers {
    struct qkv_weight source_word, target_word;
    // [2 layers] forward and backward GRU of each layer; owned
    struct qkv_gru_weights *encoder;
    // [decoder layers] owned; w_i of the first layer has only the columns for the token
    struct qkv_gru_weights *decoder;
    // [decoder layers] projections W to the initial states
    struct qkv_linear *begin;
    // [3D][2D] input weights of the first decoder layer for the context vector (w_i of that layer
    // has only the columns for the token)
    struct qkv_weight context;
    // [A][D] projection W_q of the state; follows w_h of the first decoder layer in memory
    struct qkv_weight query;
    struct qkv_linear key;                 // [A][2D] projection of encoder outputs to keys
    struct qkv_weight score;               // [A] weights of the score
    struct qkv_linear state, token, mixed; // W_s, W_t and W_c of the readout; b is in `state`
    // output projection and its bias; logits.value NULL: the projection is tied to target_word
    struct qkv_weight logits, logits_bias;
};

// The state of a run of n sequences, in the order of output length. Sizes: R rows of the encoder, P
// rows of the decoder, width D, A hidden units of a score.
struct qkv_gru_run {
    qkv_net *n;
    const struct qkv_net_gru_layers *body;
    int64_t D, A, layers, decoders, R, P, sequences;
    struct qkv_linear_once work; // settings and scratch of the products of this run
    uint64_t seed, step;
    bool drops, backward;
    // true: all cells of the encoder share one array of states and one of gates, and all layers of
    // the decoder one of gates; backward runs a cell again to recompute them
    bool recompute;
    // true: the run allocates memory of its own, which the caller frees; false: it uses the model's
    // arena
    bool apart;
    void *memory;
    // The order of the sequences:
    int64_t *order; // [n] index of each sequence in the caller's batch
    // [n + 1] first row of each sequence; from: in the encoder, to: in the decoder
    int64_t *from, *to;
    int32_t *source, *target_in, *target_out;
    // Encoder:
    real *x;           // [R][D] embeddings
    real **h, **gates; // [2 layers]: [R][D] states, [R][4D] gates
    real **y;          // [layers]: [R][2D] outputs, both directions in one row
    real *keys;        // [R][A] attention keys
    // Decoder:
    real *e;                       // [P][D] embeddings
    real *last;                    // [n][D] encoder rows from which initial states are computed
    real **argument, **first;      // [decoders]: [n][D] initial states before tanh; after tanh
    real **s, **s_gates;           // [decoders]: [P][D] states, [P][4D] gates
    real *context, *queries, *lse; // [P][2D] context vectors, [P][A] projected states, [P] lse
    real *before, *out;            // [P][D] readout before tanh; after tanh
    // Arrays of one step. state [n][D]: states; units [n][A + 3D]: products of the weights with the
    // states; mixed [n][2D]: context vectors; added [n][3D]: products of the weights with the
    // context vectors; workspace [threads][2 longest]: attention weights of one sequence, and in
    // backward the gradients of its scores.
    real *state, *units, *mixed, *added, *workspace;
    int64_t longest; // tokens of the longest source
    char *pack_state, *pack_context;
    struct qkv_linear of_state, of_context;
    // t: index of the current step; running: number of sequences that have this step
    int64_t t, running;
    // Backward:
    real *d_out, *d_s[2], *d_context, *d_e, *d_y[2], *d_half, *d_keys, *d_first, *d_last, *d_x;
    // d_input [P][3D]: gradient of the products of weights and inputs; d_hidden [P][3D + A]:
    // gradient of the products of weights and states; previous [P][D]: state before each row
    real *d_input, *d_hidden, *previous;
    real *d_score; // [n][A] gradient of `score`, per sequence
    real *four;    // [threads][4D] gate gradients of one row
    struct qkv_linear back_state, back_context;
    char *pack_back_state, *pack_back_context;
    size_t scratch_bytes, activations;
};

// Computes y[R][N] = x w^T + b, plus residual unless that is NULL, for a linear layer l of the
// model.
static inline void qkv_gru_product(const struct qkv_gru_run *r, real *y, const real *x, int64_t R,
                                   const struct qkv_linear *l, const real *residual)
{
    struct qkv_linear own = *l;
    own.once = &r->work;
    qkv_linear_forward((void *[]){ y }, NULL, x, R, &own,
                       &(struct qkv_after){ .residual = residual });
}
static inline void qkv_gru_product_backward(const struct qkv_gru_run *r,
                                            const struct qkv_linear_rows *rows, int64_t R,
                                            const struct qkv_linear *l)
{
    struct qkv_linear own = *l;
    own.once = &r->work;
    qkv_linear_layer_backward(rows, R, &own);
}
// Sets the members of a run that do not depend on its sequences: weights, sizes, number of threads
// (net_gru_run.c).
void qkv_gru_sizes(struct qkv_gru_run *r, qkv_net *n);
// Describes the products that every step computes, in the members of_state and of_context, and
// their counterparts for backward, in back_state and back_context.
void qkv_gru_products(struct qkv_gru_run *r);
// Sorts the sequences of a run and allocates its arrays. in: input of the decoder; NULL: only the
// encoder runs.
qkv_status qkv_gru_run_begin(struct qkv_gru_run *r, qkv_net *n, const struct qkv_sequences *in,
                             const struct qkv_sequences *source, const int32_t *targets,
                             qkv_error *err);
struct qkv_gru qkv_gru_cell(const struct qkv_gru_run *r, const struct qkv_gru_weights *w,
                            int64_t D_in, bool reverse);
void qkv_gru_encode(struct qkv_gru_run *r); // sets y, keys, last and first of the run
void qkv_gru_encode_backward(struct qkv_gru_run *r);

// Runs the first decoder layer step by step (net_gru_steps.c).
void qkv_gru_steps(struct qkv_gru_run *r);
void qkv_gru_steps_backward(struct qkv_gru_run *r);
// Computes the context vector context[2D] of one query: u[A] is its projected state, keys and y are
// the n rows of its source. workspace[n] receives the attention weights. Returns lse.
real qkv_gru_attend(const struct qkv_gru_run *r, real *context, real *workspace, const real *u,
                    const real *keys, const real *y, int64_t n);

// The encoder output of one source of n tokens (net_gru_write.c).
struct qkv_gru_read {
    const real *keys, *y; // [n][A] keys and [n][2D] outputs of the encoder
    int64_t n;
};
// A decoder that runs one step at a time: one token of each of several rows (sequences).
struct qkv_gru_writer {
    struct qkv_gru_run r;  // sizes, weights and threads; has no sequences
    int64_t rows;          // maximum rows of a step
    struct qkv_linear *of; // [products] packed weights of the products of a step
    int64_t products;
    void *memory; // memory of the following arrays
    real **h;     // [decoders]: [rows][D] states; a step reads and writes the first rows
    real *spare;  // [rows][D] scratch
    real *e, *gates, *units, *added, *context, *before, *out;
    real *workspace; // [threads][longest] scores; owned by the caller
    int64_t longest; // maximum tokens of a source
    struct qkv_cross_entropy logits;
    // The following members describe the current step.
    const struct qkv_gru_read *read;
    real *below; // states of the layer below the current layer
    // receives the attention weights of row `observation`, and shown_lse its lse; NULL: not
    // requested
    real *shown;
    int64_t observation;
    real shown_lse;
};
// Opens a writer for at most `rows` rows. Returns QKV_OK or QKV_ERR_LIMIT; the caller must close
// the writer in both cases.
qkv_status qkv_gru_writer_open(struct qkv_gru_writer *w, qkv_net *n, int64_t rows);
void qkv_gru_writer_close(struct qkv_gru_writer *w); // a zeroed writer is allowed
// Runs one step with tokens[R]: updates the states w->h and computes logits[R][V] for the following
// tokens. read[r]: the encoder output of the source of row r.
void qkv_gru_write(struct qkv_gru_writer *w, real *logits, const int32_t *tokens,
                   const struct qkv_gru_read *read, int64_t R);
#endif
