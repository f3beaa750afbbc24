// SPDX-License-Identifier: MIT
// pending_outputs.h: declares the store of outputs that are finished, but must wait until the
// outputs of all earlier jobs are delivered.
#ifndef QKV_TASK_PENDING_OUTPUTS_H
#define QKV_TASK_PENDING_OUTPUTS_H

#include "base/base.h"
#include <qkv/generate.h>

// A copy of a finished output. The outputs of one job form a linked list, best first.
struct qkv_pending_output {
    struct qkv_generated g;
    char *text;
    int32_t *ids, *source_ids;
    float *logprobs, *alignment;
    struct qkv_pending_output *next;
};
struct qkv_pending_outputs {
    // [jobs] first output of each job; NULL: the job is not finished, or is already delivered
    struct qkv_pending_output **first;
    int64_t jobs;
};
bool qkv_pending_new(struct qkv_pending_outputs *p, int64_t jobs); // false: out of memory
void qkv_pending_free(struct qkv_pending_outputs *p);              // accepts a zeroed struct
// Appends a copy of an output to the outputs of a job. Returns NULL if memory is exhausted.
struct qkv_pending_output *qkv_pending_add(struct qkv_pending_outputs *p, int64_t job,
                                           const struct qkv_generated *g);
// Frees the outputs of a job after they were delivered.
void qkv_pending_drop(struct qkv_pending_outputs *p, int64_t job);
#endif
