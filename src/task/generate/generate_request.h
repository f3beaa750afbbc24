// SPDX-License-Identifier: MIT
// generate_request.h: runs one call of qkv_generate or qkv_translate: the queue of prompts, the
// slots that decode several of them concurrently, and the outputs in the order of their prompts.
#ifndef QKV_TASK_GENERATE_REQUEST_H
#define QKV_TASK_GENERATE_REQUEST_H

#include "task/generate/generation.h"

struct qkv_generate_request {
    struct qkv_generation g; // the caller sets the members up to `translates`
    // maximum number of sequences decoded at once (items of the logits source)
    int64_t items;
    // Computes the alignment of an output before the caller receives it: *alignment becomes a new
    // array. NULL: not requested.
    qkv_status (*align)(void *ctx, const struct qkv_generated *g, float **alignment,
                        qkv_error *err);
    void *align_ctx;
};
// Returns as qkv_generate; with several prompts err->path names the prompt.
qkv_status qkv_generate_request(struct qkv_generate_request *r, qkv_error *err);
#endif
