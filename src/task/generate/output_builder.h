// SPDX-License-Identifier: MIT
// output_builder.h: declares the builder of one output, which collects its tokens, their
// log-probabilities and its text.
#ifndef QKV_TASK_OUTPUT_BUILDER_H
#define QKV_TASK_OUTPUT_BUILDER_H

#include "task/generate/generation.h"

struct qkv_output_builder {
    int32_t *ids; // [count] tokens of the output
    // [count] log-probability of each token, NaN for the prefix; NULL if options.logprobs is 0
    float *logprobs;
    int64_t count, ids_capacity, logprobs_capacity;
    qkv_decode_stream *stream; // decodes prompt and output as one text
    // bytes of the prompt's text that the stream still has to return; they are skipped
    size_t skip;
    struct qkv_output_text text;
    int64_t counted, characters; // bytes of text before the last token, and their characters
    bool keep_logprobs;
};

struct qkv_output_token {
    int32_t id;
    float logprob;
    bool forced; // a token of the prefix, whose text is not searched for stop strings
    bool last;   // the last token of the output
};

// Begins an empty output after prompt[n]. n is 0 for a translation, which does not follow its
// prompt. The caller zeroes b before its first use; later outputs reuse its memory.
qkv_status qkv_output_begin(struct qkv_output_builder *b, const struct qkv_generation *g,
                            const int32_t *prompt, int64_t n, qkv_error *err);
// Appends a token and its text.  Sets b->text.stopped if a stop string ends the output.
qkv_status qkv_output_add(struct qkv_output_builder *b, const struct qkv_output_token *t,
                          qkv_error *err);
// Appends the text that the stream still holds after the last token.
qkv_status qkv_output_end(struct qkv_output_builder *b, qkv_error *err);
// Points *text to the text that became final since the last call. Returns its length in bytes.
size_t qkv_output_emit(struct qkv_output_builder *b, const char **text);
void qkv_output_free(struct qkv_output_builder *b); // accepts a zeroed struct
#endif
