// SPDX-License-Identifier: MIT
// output_builder.h: declares the builder of one output: its tokens, their log-probabilities and its
// text.
#ifndef QKV_TASK_OUTPUT_BUILDER_H
#define QKV_TASK_OUTPUT_BUILDER_H

#include "task/generate/generation.h"

struct qkv_output_builder {
    int32_t *ids;    // [count] tokens of the output
    float *logprobs; // [count] NaN for tokens of the prefix; NULL without options.logprobs
    int64_t count, ids_capacity, logprobs_capacity;
    qkv_decode_stream *stream; // decodes prompt and output as one text
    size_t skip;               // bytes of the prompt's text that the stream has not returned yet
    struct qkv_output_text text;
    bool keep_logprobs;
};

struct qkv_output_token {
    int32_t id;
    float logprob;
    bool forced; // token of the prefix: not searched for stop strings
    bool last;   // no token follows
};

// Begins an empty output after prompt[n] (n 0: a target, which follows nothing). The caller zeroes
// b before its first use; later outputs reuse its memory.
qkv_status qkv_output_begin(struct qkv_output_builder *b, const struct qkv_generation *g,
                            const int32_t *prompt, int64_t n, qkv_error *err);
// Appends a token and its text.  b->text.stopped: a stop string ended the output.
qkv_status qkv_output_add(struct qkv_output_builder *b, const struct qkv_output_token *t,
                          qkv_error *err);
// Appends the remaining text of the stream after the last token.
qkv_status qkv_output_end(struct qkv_output_builder *b, qkv_error *err);
// Finds the text that became final since the last call, in *text; returns its bytes.
size_t qkv_output_emit(struct qkv_output_builder *b, const char **text);
void qkv_output_free(struct qkv_output_builder *b); // a zeroed struct is allowed
#endif
