// SPDX-License-Identifier: MIT
// pending_outputs.h: declares the store of finished outputs, which keeps them until all earlier
// jobs are delivered.
#ifndef QKV_TASK_PENDING_OUTPUTS_H
#define QKV_TASK_PENDING_OUTPUTS_H

#include "base/base.h"
#include <qkv/generate.h>

// A copy of an output; the outputs of one job are a list, best first.
struct qkv_pending_output {
    struct qkv_generated g;
    char *text;
    int32_t *ids, *source_ids;
    float *logprobs, *alignment;
    struct qkv_pending_output *next;
};
struct qkv_pending_outputs {
    struct qkv_pending_output **first; // [jobs] NULL: the job is not finished, or was delivered
    int64_t jobs;
};
bool qkv_pending_new(struct qkv_pending_outputs *p, int64_t jobs); // false: memory is exhausted
void qkv_pending_free(struct qkv_pending_outputs *p);              // a zeroed struct is allowed
// Appends a copy of an output to the outputs of a job. NULL: memory is exhausted.
struct qkv_pending_output *qkv_pending_add(struct qkv_pending_outputs *p, int64_t job,
                                           const struct qkv_generated *g);
// Frees the outputs of a job that was delivered.
void qkv_pending_drop(struct qkv_pending_outputs *p, int64_t job);
#endif
