// SPDX-License-Identifier: MIT
// prompt_tokens.h: declares the tokens of a prompt and the maximum number of tokens of its output.
#ifndef QKV_TASK_PROMPT_TOKENS_H
#define QKV_TASK_PROMPT_TOKENS_H

#include "task/generate/generation.h"

struct qkv_prompt_tokens {
    int32_t *ids; // [count] first input of the decoder: prompt or start token, then prefix
    int64_t count, capacity;
    int64_t prefix;      // number of prefix tokens, the last of ids and the first of the output
    int32_t *source_ids; // [source_count] input of the encoder; source_count 0 for a decoder
    int64_t source_count, source_capacity;
    int64_t cut, replaced, replaced_at; // as in struct qkv_generated
    int64_t most;                       // maximum number of tokens to choose for the output
    // most is less than requested because of the model's positions
    bool limited;
    qkv_encoding encoding;
};
// Tokenizes prompt number `prompt` of the call. QKV_ERR_USAGE: too long, or without a token;
// QKV_ERR_FORMAT (options.strict); QKV_ERR_LIMIT. The caller zeroes p before its first use; later
// prompts reuse its memory.
qkv_status qkv_prompt_tokenize(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                               int64_t prompt, qkv_error *err);
void qkv_prompt_tokens_free(struct qkv_prompt_tokens *p); // a zeroed struct is allowed
#endif
