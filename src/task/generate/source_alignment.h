// SPDX-License-Identifier: MIT
// source_alignment.h: computes how much each token of a translation attends to each token of its
// source.
#ifndef QKV_TASK_SOURCE_ALIGNMENT_H
#define QKV_TASK_SOURCE_ALIGNMENT_H

#include "base/base.h"
#include <qkv/decode.h>

// Computes the cross-attention weights of one layer (from 0), averaged over its heads: *weights
// [rows][n], a new array that the caller frees. ids[rows]: the decoder input before each output
// token. source[n]: ids of the source.
qkv_status qkv_align(const qkv_model *m, float **weights, const int32_t *ids, int64_t rows,
                     const int32_t *source, int64_t n, int64_t layer, qkv_error *err);
// The same for a model that only decodes (without QKV_CAN_RUN): item `item` of d, which no output
// uses, decodes the ids with the source.
qkv_status qkv_align_decoder(qkv_decoder *d, int64_t item, float **weights, const int32_t *ids,
                             int64_t rows, const int32_t *source, int64_t n, qkv_error *err);
#endif
