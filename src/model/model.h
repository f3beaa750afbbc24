// SPDX-License-Identifier: MIT
// model.h: declares the interface of module model: models that run, and (net.h) models that are
// trained.
#ifndef QKV_MODULE_MODEL_H
#define QKV_MODULE_MODEL_H

#include "file/file.h"
#include "layer/layer.h"
#include <qkv/decode.h>
#include <qkv/model.h>

#include "model/net.h"

// Position of the norms around a sublayer f (attention or feed-forward):
//   post  norm(x + f(x))      pre  x + f(norm(x))      both  norm_out(x + f(norm_in(x)))
//   inside  x + norm_out(f(norm_in(x)))
enum qkv_norm_place { QKV_NORM_POST = 0, QKV_NORM_PRE, QKV_NORM_BOTH, QKV_NORM_INSIDE };

// Returns the path of the model folder (model.c).
const char *qkv_model_dir(const qkv_model *m);

// Returns the heads of a layer in the given part, which the model must have (ablate.c).
struct qkv_heads *qkv_part_heads(const struct qkv_model *m, enum qkv_attention_part part,
                                 int64_t layer);
// A run of a stack from a given layer to the last one, for n copies of one sequence of T tokens.
// Each copy may have other ablated heads in the given layer; its result is bit-identical to a
// complete run with the same ablation (forward_from_layer.c).
struct qkv_run_from_layer {
    // the part whose heads are ablated; the stack that contains this part runs
    enum qkv_attention_part part;
    int64_t layer; // the first layer that runs
    int64_t n, T, S;
    const int32_t *ids; // [T] token ids of the sequence
    const float *x;     // [T][D] input of the first layer that runs, the same for all copies
    // [n][S][D] output of the encoder of an encoder-decoder; NULL for other models
    const float *memory;
    // [n][H] QKV_HEADS_* of each head of the first layer, per copy; NULL: the model's own ablation
    const unsigned char *gives;
};
// Returns true if `a` must run with n = 1. This is the case if it ablates heads to uniform weights
// (QKV_HEADS_UNIFORM) in a stack with relative positions, because all copies of a run share one
// relative-position table. Reads only the members part, n and gives.
bool qkv_run_from_layer_alone(const struct qkv_model *m, const struct qkv_run_from_layer *a);
// Writes hidden[n][T][D], the same last hidden states as qkv_model_run. Returns QKV_OK,
// QKV_ERR_LIMIT, or the reason why a layer was refused.
qkv_status qkv_model_run_from_layer(const struct qkv_model *m, float *hidden,
                                    const struct qkv_run_from_layer *a, qkv_error *err);
// Computes logits[R][V] from rows[R][D], the output of a layer as an observer receives it (layer -1:
// of the embeddings). Before the last layer it first replaces the rows by their norm, the norm that
// follows the last layer, if the model has one. The model must be a Transformer. Returns as
// qkv_model_logits (layer_logits.c).
qkv_status qkv_model_layer_logits(const qkv_model *m, float *logits, float *rows, int64_t R,
                                  int64_t layer, qkv_error *err);
#endif
