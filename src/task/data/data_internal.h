// SPDX-License-Identifier: MIT
// data_internal.h: declares the folder of a dataset, which data_make.c writes and data.c reads.
#ifndef QKV_TASK_DATA_INTERNAL_H
#define QKV_TASK_DATA_INTERNAL_H
#include "task/data/data.h"

enum { DATA_VERSION = 1, DATA_LABELS = 1 << 16, DATA_LABEL_BYTES = 1 << 10 };
enum data_split { DATA_TRAIN = 0, DATA_VALID, DATA_SPLITS };
enum data_file { DATA_TOKENS = 0, DATA_OFFSETS, DATA_BYTES, DATA_LABEL, DATA_FILES };
#define DATA_INDEX      "index.json"
#define DATA_LABEL_LIST "labels.txt"

extern const char *const data_split_names[DATA_SPLITS]; // the names "train" and "valid"
extern const char *const data_file_names[DATA_FILES];   // "tokens", ...

// Returns true if a dataset for this objective has a file of kind f.
static inline bool data_has(enum qkv_objective o, enum data_file f)
{
    return f <= DATA_OFFSETS || (f == DATA_BYTES && o == QKV_OBJECTIVE_CAUSAL) ||
           (f == DATA_LABEL && o == QKV_OBJECTIVE_CLASSIFY);
}
// Returns the number of sequences per example: 2 for a pair of texts, 1 for a single text.
static inline int data_parts(enum qkv_objective o)
{
    return o == QKV_OBJECTIVE_SEQ2SEQ || o == QKV_OBJECTIVE_CONTRASTIVE ? 2 : 1;
}

// Size and hash of one file, as recorded in the index.
struct data_sum {
    int64_t bytes;
    char hash[QKV_SHA256_TEXT];
};
// Computes the hash of the whole dataset: objective, context, and name, size and hash of every
// file.
void data_hash(char hex[QKV_SHA256_TEXT], const struct qkv_data_info *info,
               const struct data_sum sums[DATA_SPLITS][DATA_FILES], const struct data_sum *labels);

struct data_shard {
    struct qkv_map map[DATA_FILES];
    const int32_t *tokens, *label;
    // [parts * sequences + 1] start of each sequence in `tokens`; last element: end of the last
    // sequence
    const int64_t *offsets;
    const int64_t *bytes; // [sequences + 1] bytes of text before the targets of each sequence
};
struct qkv_data {
    struct qkv_data_info info;
    struct data_shard shard[DATA_SPLITS];
    int32_t *special; // [specials] ids of the special tokens, ascending
    int64_t specials;
    struct qkv_map label_list;
    int64_t *label_at; // [labels + 1] offset of each name in label_names
    char *label_names; // names of the labels, each terminated by NUL
};
#endif
