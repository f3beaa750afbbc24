// SPDX-License-Identifier: MIT
// generation_config.h: declares the default settings of generation, read from a model folder.
#ifndef QKV_TASK_GENERATION_CONFIG_H
#define QKV_TASK_GENERATION_CONFIG_H

#include "base/base.h"
#include <qkv/model.h>

struct qkv_generation_config {
    int32_t *ends, *suppressed; // tokens that end an output; tokens that are never chosen
    int64_t end_count, suppressed_count;
    int32_t start;            // first input token of the decoder; -1: not given
    int32_t forced_first;     // the first token of every output; -1: any token
    int32_t forced_last;      // the last token of an output at its maximum length; -1: any token
    int64_t beams;            // number of beams; 0: not given
    int64_t source_positions; // maximum tokens of a source
};
// Reads generation_config.json of dir, or config.json if dir has no such file; fields that the file
// lacks get the model's values. QKV_ERR_FORMAT: err names file and field.
qkv_status qkv_generation_config_read(struct qkv_generation_config *c, const char *dir,
                                      const qkv_model *model, qkv_error *err);
void qkv_generation_config_free(struct qkv_generation_config *c); // a zeroed struct is allowed
#endif
