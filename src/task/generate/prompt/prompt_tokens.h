// SPDX-License-Identifier: MIT
// prompt_tokens.h: declares the tokens of a prompt, and how many tokens its output may have.
#ifndef QKV_TASK_PROMPT_TOKENS_H
#define QKV_TASK_PROMPT_TOKENS_H

#include "task/generate/generation.h"

struct qkv_prompt_tokens {
    // [count] first input of the decoder: the prompt or the start token, then the prefix
    int32_t *ids;
    int64_t count, capacity;
    // number of prefix tokens, which are both the last tokens of ids and the first tokens of the
    // output
    int64_t prefix;
    // [source_count] input of the encoder; source_count is 0 without an encoder
    int32_t *source_ids;
    int64_t source_count, source_capacity;
    int64_t cut, replaced, replaced_at; // the same as the members of struct qkv_generated
    int64_t dropped, dropped_at;
    // number of tokens that the output must have after the prefix before it may end, and that it
    // may have at most; most 0: only the prompt is read
    int64_t least, most;
    // true: the model's positions, not an option or generation_config.json, determine `most`
    bool limited;
    qkv_encoding encoding;
};
// Tokenizes prompt number `prompt` of the call. Returns QKV_ERR_USAGE if it is too long or has no
// token, QKV_ERR_FORMAT if its UTF-8 is invalid (options.strict), or QKV_ERR_LIMIT. The caller
// zeroes p before its first use; later prompts reuse its memory.
qkv_status qkv_prompt_tokenize(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                               int64_t prompt, qkv_error *err);
void qkv_prompt_tokens_free(struct qkv_prompt_tokens *p); // accepts a zeroed struct
#endif
