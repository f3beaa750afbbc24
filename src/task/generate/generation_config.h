// SPDX-License-Identifier: MIT
// generation_config.h: declares the default settings of generation that a model folder contains.
#ifndef QKV_TASK_GENERATION_CONFIG_H
#define QKV_TASK_GENERATION_CONFIG_H

#include "base/base.h"
#include <qkv/model.h>

struct qkv_generation_config {
    // ends: tokens that end an output; suppressed: tokens that are never chosen
    int32_t *ends, *suppressed;
    int64_t end_count, suppressed_count;
    // bos: the token that begins a text; start: first token of the decoder's input. -1: the folder
    // names no such token
    int32_t bos, start;
    int32_t forced_first;     // the first token of every output; -1: any token
    int32_t forced_last;      // token to force when an output has its maximum length; -1: any token
    int64_t beams;            // number of beams; 0: the folder does not say
    int64_t source_positions; // maximum number of tokens of a source
};
// Reads generation_config.json of dir or, if dir has no such file, config.json. Fields that are
// missing get the model's values. Returns QKV_ERR_FORMAT, with file and field in err, if a field is
// invalid.
qkv_status qkv_generation_config_read(struct qkv_generation_config *c, const char *dir,
                                      const qkv_model *model, qkv_error *err);
// Reads only the file: a field that it lacks keeps its value in *c. V: size of the vocabulary.
qkv_status qkv_generation_file_read(struct qkv_generation_config *c, const char *dir, int64_t V,
                                    qkv_error *err);
void qkv_generation_config_free(struct qkv_generation_config *c); // accepts a zeroed struct
#endif
