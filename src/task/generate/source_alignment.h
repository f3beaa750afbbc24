// SPDX-License-Identifier: MIT
// source_alignment.h: declares the alignment of a translation: how much each of its tokens attends
// to each token of the source.
#ifndef QKV_TASK_SOURCE_ALIGNMENT_H
#define QKV_TASK_SOURCE_ALIGNMENT_H

#include "base/base.h"
#include <qkv/decode.h>

// Computes the cross-attention weights of one layer (counted from 0), averaged over its heads.
// *weights becomes a new array [rows][n], which the caller frees. ids[rows]: the token that the
// decoder reads before each output token. source[n]: the ids of the source.
qkv_status qkv_align(const qkv_model *m, float **weights, const int32_t *ids, int64_t rows,
                     const int32_t *source, int64_t n, int64_t layer, qkv_error *err);
// Computes the cross-attention weights of a model that can only decode (without QKV_CAN_RUN) and
// has one layer with attention, of one head. Decodes the ids in item `item` of d, which must be
// free. The other arguments and *weights are as in qkv_align.
qkv_status qkv_align_decoder(qkv_decoder *d, int64_t item, float **weights, const int32_t *ids,
                             int64_t rows, const int32_t *source, int64_t n, qkv_error *err);
#endif
