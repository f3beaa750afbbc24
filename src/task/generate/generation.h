// SPDX-License-Identifier: MIT
// generation.h: declares the settings that all prompts of one call of qkv_generate or qkv_translate
// share. The headers of this folder, each of which uses only those above it:
//
//   stop_strings.h, token_history.h, sampling.h    text and tokens of one output, choice of a token
//   generation_config.h                            generation_config.json of a model folder
//   generation.h                                   settings of a call
//   prompt_tokens.h, output_builder.h              tokens of a prompt; tokens and text of an output
//   prompt_logprobs.h                              log-probabilities of the tokens of a prompt
//   beam_search.h                                  the hypotheses of one prompt
//   generate_slot.h                                one prompt that is being decoded
//   pending_outputs.h, generate_request.h          finished outputs; the queue of prompts
//   scheduler/                                     prompts that arrive while others run
#ifndef QKV_TASK_GENERATION_H
#define QKV_TASK_GENERATION_H

#include "task/generate/generation_config.h"
#include "task/generate/stop_strings.h"
#include "task/generate/token_history.h"
#include <qkv/decode.h>
#include <qkv/generate.h>

// The source of logits: a decoder or, in a test, a function. An item is a sequence with its own KV
// cache. decode.h has the contracts of the functions.
struct qkv_logits_source {
    int64_t V, positions; // V: size of the vocabulary; positions: maximum tokens of an item
    // encodes n sources together, ids[offsets[i]] .. ids[offsets[i + 1] - 1] for item first + i
    qkv_status (*encode)(void *ctx, int64_t first, const int32_t *ids, const int64_t *offsets,
                         int64_t n, qkv_error *err);
    qkv_status (*feed)(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                       qkv_error *err);
    qkv_status (*copy)(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                       qkv_error *err);
    qkv_status (*clear)(void *ctx, int64_t item); // empties the item's KV cache
    void *ctx;
};

struct qkv_generation {
    const struct qkv_logits_source *source;
    const qkv_tokenizer *tokenizer;
    const struct qkv_generation_config *config;
    // the caller's options; every option that was 0 has its default
    struct qkv_generate_options options;
    const char *const *prompts; // [n] texts of the prompts
    // [n] lengths of the prompts in bytes; NULL: each prompt ends with NUL
    const size_t *bytes;
    // The sources of a translation as token ids, if the prompts are not texts. Source i is
    // source_ids[source_offsets[i] .. source_offsets[i + 1] - 1], with special tokens. NULL: the
    // prompts are texts.
    const int32_t *source_ids;
    const int64_t *source_offsets;
    int64_t n;
    bool translates; // true: the prompts are sources for an encoder-decoder
    // qkv_generation_init sets the members below.
    int64_t width; // items per slot: the number of beams; without beams 1
    int64_t draws; // jobs per prompt: the number of sampled outputs; with beams 1
    struct qkv_stop_strings stops;
    int32_t *prefix; // [prefix_count] tokens with which every output begins
    int64_t prefix_count;
    // number of jobs whose outputs the caller has received; jobs are delivered in order
    int64_t delivered;
};

// Checks the stop strings and tokenizes the prefix. The caller has set the members down to
// `translates`. Returns QKV_ERR_USAGE for an invalid stop string, or QKV_ERR_LIMIT.
qkv_status qkv_generation_init(struct qkv_generation *g, qkv_error *err);
void qkv_generation_free(struct qkv_generation *g); // frees the memory of qkv_generation_init
// Returns true if this token ends an output.
bool qkv_generation_ends(const struct qkv_generation *g, int32_t id);
// The state of an output before its next token.
struct qkv_generation_step {
    int64_t tokens, least, most;       // its tokens; the fewest before it may end; the most
    const struct qkv_history *history; // tokens of the prompt and the output
};
// Sets the logits of forbidden tokens to -INFINITY. Forbidden are suppressed tokens, the last token
// of a suppressed sequence, and, while the output has fewer than `least` tokens, the tokens that
// would end it. At the last of `most` tokens all tokens but the forced last token are forbidden.
void qkv_generation_suppress(const struct qkv_generation *g, float *logits,
                             const struct qkv_generation_step *at);
// Fills err with QKV_ERR_INTERRUPTED and the number of finished prompts, and returns that status.
qkv_status qkv_generation_interrupted(const struct qkv_generation *g, qkv_error *err);
// Fills err with the message that no token is possible after `tokens` tokens, because the options
// exclude all. Returns QKV_ERR_USAGE.
qkv_status qkv_generation_no_token(int64_t tokens, qkv_error *err);
// The same for logits of the model that are NaN, +inf, or all -inf. Returns QKV_ERR_INTERNAL.
qkv_status qkv_generation_not_finite(int64_t tokens, qkv_error *err);

// Runs qkv_translate (generator.c) on sources that are token ids, including special tokens. Source
// i is ids[offsets[i] .. offsets[i + 1] - 1].
qkv_status qkv_translate_ids(qkv_translator *t, const int32_t *ids, const int64_t *offsets,
                             int64_t n, const struct qkv_generate_options *o, qkv_error *err);
// Returns the settings of a translator, such as the tokens that begin and end its outputs.
const struct qkv_generation_config *qkv_translator_config(const qkv_translator *t);

// What a scheduler takes from a generator (generator.c).
// Sets the tokenizer, the folder's settings and the options of *to, with the defaults of this
// model.  o may be NULL.  Returns QKV_ERR_USAGE for an invalid option.
qkv_status qkv_generator_settings(const qkv_generator *g, struct qkv_generation *to,
                                  const struct qkv_generate_options *o, qkv_error *err);
// Makes a decoder of `items` sequences for the model, and the source of its logits.
qkv_status qkv_generator_decoder(const qkv_generator *g, int64_t items, qkv_decoder **decoder,
                                 struct qkv_logits_source *source, qkv_error *err);
#endif
