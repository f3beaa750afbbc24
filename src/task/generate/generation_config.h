// SPDX-License-Identifier: MIT
// generation_config.h: declares the default settings of generation that a model folder contains.
#ifndef QKV_TASK_GENERATION_CONFIG_H
#define QKV_TASK_GENERATION_CONFIG_H

#include "base/base.h"
#include <qkv/generate.h>

struct qkv_generation_config {
    // ends: tokens that end an output; suppressed: tokens that are never chosen
    int32_t *ends, *suppressed;
    int64_t end_count, suppressed_count;
    // bos: the token that begins a text; start: first token of the decoder's input. -1: the folder
    // names no such token
    int32_t bos, start;
    int32_t forced_first; // the first token of every output; -1: any token
    int32_t forced_last;  // token to force when an output has its maximum length; -1: any token
    // Defaults of the options of a call; 0: the folder does not say. A limit of the length counts
    // the prompt (or the start token) and the prefix, a limit of new tokens the forced first token.
    int64_t beams, max_length, max_new, min_length, min_new, no_repeat_ngram;
    double repetition, length_penalty; // length_penalty: -1: no penalty
    double length_reward; // a negative length_penalty of the file, which favors short outputs; or 0
    // temperature, top_k, top_p, min_p of a decoder with do_sample; otherwise all are 0
    struct qkv_sampling sampling;
    enum qkv_early early;
    // Sequences of two and more tokens that must not occur: sequence i is
    // banned[banned_offsets[i] .. banned_offsets[i + 1] - 1].
    int32_t *banned;
    int64_t *banned_offsets;
    int64_t banned_count;
    int64_t source_positions; // maximum number of tokens of a source
    char ignored[200]; // names of keys that would change outputs and are not applied; "": none
};
// Reads generation_config.json of dir or, if dir has no such file, config.json. Fields that are
// missing get the model's values. Returns QKV_ERR_FORMAT, with file and field in err, if a field is
// invalid.
qkv_status qkv_generation_config_read(struct qkv_generation_config *c, const char *dir,
                                      const qkv_model *model, qkv_error *err);
// Reads only the file: a field that it lacks keeps its value in *c. V: size of the vocabulary;
// decoder: the model continues prompts. err must not be NULL.
qkv_status qkv_generation_file_read(struct qkv_generation_config *c, const char *dir, int64_t V,
                                    bool decoder, qkv_error *err);
void qkv_generation_config_free(struct qkv_generation_config *c); // accepts a zeroed struct
#endif
