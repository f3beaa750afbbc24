// SPDX-License-Identifier: MIT
// task.h: the door of room task: whole jobs, made of models and tokenizers.
#ifndef QKV_ROOM_TASK_H
#define QKV_ROOM_TASK_H

#include "base/base.h"
#include <qkv/task.h>

// ---- modules.c: what sentence-transformers writes beside a model ---------------------------------
struct qkv_modules {
    char *model;        // folder of the model: the root, or the one modules.json names
    enum qkv_pool pool; // never QKV_POOL_FILE
    bool normalize;
    int64_t max_length; // 0: not said
    int64_t width;      // of the rows that pooling expects, 0: not said
};
// Reads modules.json, <pooling>/config.json and sentence_bert_config.json of dir.  Without
// modules.json: dir itself, mean, length 1.  What changes the vectors and is not known here is
// QKV_ERR_UNSUPPORTED, never left out in silence.
qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, qkv_error *err);
void qkv_modules_free(struct qkv_modules *m);

// ---- pool.c: rows of a text to one vector --------------------------------------------------------
// out[D] of hidden[n][D], n >= 1.
void qkv_pool_rows(float *out, const float *hidden, int64_t n, int64_t D, enum qkv_pool pool);
// x[D] to length 1; a vector of length 0 stays.
void qkv_unit_length(float *x, int64_t D);
#endif
