// SPDX-License-Identifier: MIT
// generate_request.h: declares one call of qkv_generate or qkv_translate: it keeps the queue of
// prompts, decodes several of them concurrently, and delivers outputs in the order of their
// prompts.
#ifndef QKV_TASK_GENERATE_REQUEST_H
#define QKV_TASK_GENERATE_REQUEST_H

#include "task/generate/generation.h"

// the most sources that are encoded together
enum { QKV_SOURCES_AHEAD = 16 };

struct qkv_generate_request {
    struct qkv_generation g; // the caller sets the members down to `translates`
    // maximum number of sequences that are decoded at once; a translation also uses the
    // QKV_SOURCES_AHEAD items that follow them
    int64_t items;
    // Computes how the tokens of an output align with its source, before the caller receives the
    // output, and sets *alignment to a new array. NULL: alignments are not requested.
    qkv_status (*align)(void *ctx, const struct qkv_generated *g, float **alignment,
                        qkv_error *err);
    void *align_ctx;
};
// Returns the same status as qkv_generate. If there are several prompts, err->path names the
// prompt.
qkv_status qkv_generate_request(struct qkv_generate_request *r, qkv_error *err);
#endif
