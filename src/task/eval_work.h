// SPDX-License-Identifier: MIT
// eval_work.h: inside of room task: an evaluation under way.
#ifndef QKV_TASK_EVAL_WORK_H
#define QKV_TASK_EVAL_WORK_H
#include "task/train_work.h"

struct eval {
    const struct qkv_eval_options *o;
    struct qkv_eval_watch watch;
    struct qkv_eval_result *result;
    struct train_config config; // of a run
    bool run;
    char model[QKV_PATH];
    enum qkv_objective objective;
    int64_t context;
    qkv_tokenizer *tokenizer;
    qkv_net *net;
    struct qkv_net_options how;
    qkv_data *data, *trained; // trained: the run's own, for its labels
    struct qkv_data_info info;
    struct qkv_draw draw;
};
// 0, or QKV_ERR_INTERRUPTED where the caller's progress says so.
qkv_status eval_progress(const struct eval *e, const char *what, int64_t done, int64_t total,
                         qkv_error *err);

// ---- eval_pairs.c: encoder-decoders: what they make of each source ------------------------------
qkv_status eval_pairs(struct eval *e, qkv_error *err);
// ---- eval_texts.c: encoders ---------------------------------------------------------------------
qkv_status eval_retrieval(struct eval *e, qkv_error *err);
qkv_status eval_labels(struct eval *e, qkv_error *err);

// ---- eval_edits.c -------------------------------------------------------------------------------
// Fewest insertions, deletions and changes from a[n] to b[m]; -1: no memory.
int64_t eval_edits(const int32_t *a, int64_t n, const int32_t *b, int64_t m);
// Same over tokens (by white space) and characters of texts; *length: of the reference.
struct eval_distance {
    int64_t tokens, token_length, characters, character_length;
};
bool eval_distance(struct eval_distance *d, const char *output, const char *reference);
#endif
