// SPDX-License-Identifier: MIT
// net_layers.h: declares a trainable Transformer: the stacks and blocks of a model that runs
// (model_internal.h), with gradients, and its output heads.
#ifndef QKV_MODEL_NET_LAYERS_H
#define QKV_MODEL_NET_LAYERS_H
#include "model/model_internal.h"
#include "model/params/trainable.h"

struct qkv_net_stack {
    // is.layers = 0: the model lacks this stack. is.relative is `relative` expanded to one bias per
    // distance, [H][2 reach + 1]; owned
    struct qkv_stack is;
    struct qkv_weight position; // table of learned positions
    struct qkv_weight relative; // [buckets][H] biases of relative positions
    real *d_relative;           // gradient of is.relative; owned; NULL: no relative positions
};

struct qkv_net_layers {
    // token embeddings; words[1]: of the decoder, if it has its own table
    struct qkv_weight words[2];
    struct qkv_weight type;
    struct qkv_net_stack encoder, decoder;
    struct qkv_weight logits; // output projection, unless it is tied to a table in `words`
    struct qkv_weight logits_bias;
    struct {
        struct qkv_linear dense;
        struct qkv_norm norm;
    } masked;
    struct {
        struct qkv_linear dense, out;
        struct qkv_norm norm;
    } classify;
    // settings of the products of a run; every linear layer points to them
    struct qkv_linear_once once;
    // Tables of fixed positions, owned: sinusoids [rows][D], or cosines and sines of rotary
    // positions [rows][2 pairs]. table[1]: for local layers, if they have another base. A run that
    // needs more rows replaces the tables by larger ones.
    real *table[2];
    int64_t table_rows;
    real *shifted; // owned; norm weights plus norm_offset, to which w of the norms points
};

// Returns the table of token embeddings that a stack uses.
static inline const struct qkv_weight *qkv_net_words(const struct qkv_net_layers *body,
                                                     const struct qkv_net_stack *s)
{
    return &body->words[s == &body->decoder && body->words[1].value];
}

// Extends the tables of fixed positions, if the model has any, to at least `rows` rows. Returns
// QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_net_positions(const qkv_net *n, int64_t rows);
// Recomputes the arrays that are derived from the current values of the parameters: `shifted` (norm
// weights plus norm_offset), is.relative of both stacks, and the layers that share weights. Returns
// QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_net_derive(const qkv_net *n);

// Runs a batch through a Transformer, as qkv_net_run describes (net_losses.c).
qkv_status qkv_net_transformer_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                                   bool gradients, real scale, uint64_t seed, uint64_t step,
                                   qkv_error *err);
#endif
