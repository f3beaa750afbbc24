// SPDX-License-Identifier: MIT
// data_work.h: the folder of a dataset, as data_make.c writes and data.c reads it.
#ifndef QKV_TASK_DATA_WORK_H
#define QKV_TASK_DATA_WORK_H
#include "task/task.h"

enum { DATA_VERSION = 1, DATA_LABELS = 1 << 16, DATA_LABEL_BYTES = 1 << 10 };
enum data_split { DATA_TRAIN = 0, DATA_VALID, DATA_SPLITS };
enum data_file { DATA_TOKENS = 0, DATA_OFFSETS, DATA_BYTES, DATA_LABEL, DATA_FILES };
#define DATA_INDEX      "index.json"
#define DATA_LABEL_LIST "labels.txt"

extern const char *const data_split_names[DATA_SPLITS]; // "train", "valid"
extern const char *const data_file_names[DATA_FILES];   // "tokens", ...

// Whether a dataset of this objective has such a file.
static inline bool data_has(enum qkv_objective o, enum data_file f)
{
    return f <= DATA_OFFSETS || (f == DATA_BYTES && o == QKV_OBJECTIVE_CAUSAL) ||
           (f == DATA_LABEL && o == QKV_OBJECTIVE_CLASSIFY);
}
// Runs of tokens of one example: a pair has two.
static inline int data_parts(enum qkv_objective o)
{
    return o == QKV_OBJECTIVE_SEQ2SEQ || o == QKV_OBJECTIVE_CONTRASTIVE ? 2 : 1;
}

// What the index says of one file, and how it was when the content was hashed.
struct data_sum {
    int64_t bytes;
    char hash[QKV_SHA256_TEXT];
};
// Of the whole: objective, context and every file's name, size and sum.
void data_hash(char hex[QKV_SHA256_TEXT], const struct qkv_data_info *info,
               const struct data_sum sums[DATA_SPLITS][DATA_FILES], const struct data_sum *labels);

struct data_shard {
    struct qkv_map map[DATA_FILES];
    const int32_t *tokens, *label;
    const int64_t *offsets; // [parts * sequences + 1]
    const int64_t *bytes;   // [sequences + 1]
};
struct qkv_data {
    struct qkv_data_info info;
    struct data_shard shard[DATA_SPLITS];
    int32_t *special; // [specials] ascending
    int64_t specials;
    struct qkv_map label_list;
    int64_t *label_at; // [labels + 1] where names begin
    char *label_names; // each terminated
};
#endif
