// SPDX-License-Identifier: MIT
// speaker.h: what a generator and a translator are.
#ifndef QKV_TASK_SPEAKER_H
#define QKV_TASK_SPEAKER_H

#include "task/speak.h"

// manners.c: generation_config.json of dir, where it is; else config.json; what neither says as the
// model has it.
qkv_status qkv_manners_read(struct qkv_manners *m, const char *dir, const qkv_model *model,
                            qkv_error *err);
void qkv_manners_free(struct qkv_manners *m); // a zeroed struct is fine

// align.c: where the tokens of a translation looked, as weights[rows][source] of a new array, the
// caller's to free: heads of one layer of cross-attention, averaged.  ids[rows]: what the decoder
// reads before each of them.  layer from 0.
qkv_status qkv_align(const qkv_model *m, float **weights, const int32_t *ids, int64_t rows,
                     const int32_t *source, int64_t n, int64_t layer, qkv_error *err);

// A job that the model has no parts for: QKV_ERR_UNSUPPORTED says what it is, and what takes it.
qkv_status qkv_unfit(const qkv_model *m, const char *wanted, qkv_error *err);
#endif
