// SPDX-License-Identifier: MIT
// prompt_logprobs.h: declares how a prompt is read if the log-probabilities of its tokens are
// requested: with logits after every token.
#ifndef QKV_TASK_PROMPT_LOGPROBS_H
#define QKV_TASK_PROMPT_LOGPROBS_H

#include "task/generate/prompt/prompt_tokens.h"

// The prompt of one output, and how much of its text the emitted tokens have.
struct qkv_logged_prompt {
    const struct qkv_generation *g;
    const struct qkv_prompt_tokens *tokens;
    int64_t prompt, item; // index of the prompt; the item that reads it
    // end: bytes of the text up to the end of the last emitted token; counted: bytes whose
    // characters were counted
    int64_t end, counted, characters;
    qkv_decode_stream *stream; // of a prompt of token ids: gives the text of these
};
// Returns true if the options request the log-probabilities of the tokens of prompts.
bool qkv_logs_prompts(const struct qkv_generation *g);
// Begins a prompt: none of its tokens was read.  The caller zeroes p before its first use.
void qkv_logged_prompt_begin(struct qkv_logged_prompt *p, const struct qkv_generation *g,
                             const struct qkv_prompt_tokens *tokens, int64_t prompt, int64_t item);
void qkv_logged_prompt_free(struct qkv_logged_prompt *p); // accepts a zeroed struct
// Feeds the n >= 1 tokens from index `at` on to the item, and emits each token of the prompt whose
// log-probability is then known to the caller's callback: the first one, and all that follow a
// token that was fed. Writes the logits after the last of the n tokens to last[V].
qkv_status qkv_logged_prompt_feed(struct qkv_logged_prompt *p, int64_t at, int64_t n, float *last,
                                  qkv_error *err);
#endif
