// SPDX-License-Identifier: MIT
// generation.h: declares the settings that all prompts of one call of qkv_generate or qkv_translate
// share. The folder's headers, each of which uses only those before it:
//
//   stop_strings.h, token_history.h, sampling.h     text and logits of one output
//   generation_config.h                             generation_config.json of a model folder
//   generation.h                                    settings of a call
//   prompt_tokens.h, output_builder.h               tokens in; tokens and text out
//   beam_search.h                                   the hypotheses of one prompt
//   generate_slot.h                                 one prompt that is being decoded
//   pending_outputs.h, generate_request.h           the queue of prompts, outputs in their order
#ifndef QKV_TASK_GENERATION_H
#define QKV_TASK_GENERATION_H

#include "task/generate/generation_config.h"
#include "task/generate/stop_strings.h"
#include <qkv/decode.h>
#include <qkv/generate.h>

// The source of logits: a decoder, or a function of a test. An item is a sequence with its own KV
// cache. The contracts of the functions are in decode.h.
struct qkv_logits_source {
    int64_t V, positions; // size of the vocabulary; maximum tokens of an item
    qkv_status (*encode)(void *ctx, int64_t item, const int32_t *ids, int64_t n, qkv_error *err);
    qkv_status (*feed)(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                       qkv_error *err);
    qkv_status (*copy)(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                       qkv_error *err);
    qkv_status (*clear)(void *ctx, int64_t item); // sets the item's length to 0
    void *ctx;
};

struct qkv_generation {
    const struct qkv_logits_source *source;
    const qkv_tokenizer *tokenizer;
    const struct qkv_generation_config *config;
    struct qkv_generate_options options; // every default filled in
    const char *const *prompts;          // [n] texts of the prompts
    const size_t *bytes;                 // [n] their lengths; NULL: each is terminated by NUL
    // Token ids of the sources of a translation, with special tokens: source i is
    // source_ids[source_offsets[i] .. source_offsets[i + 1] - 1]. NULL: the prompts are texts.
    const int32_t *source_ids;
    const int64_t *source_offsets;
    int64_t n;
    bool translates; // prompts are sources of an encoder-decoder
    // Set by qkv_generation_init:
    int64_t width; // items per slot: the number of beams, or 1
    int64_t draws; // jobs per prompt: the number of sampled outputs; 1 with beams
    struct qkv_stop_strings stops;
    int32_t *prefix; // [prefix_count] tokens with which every output begins
    int64_t prefix_count;
    int64_t delivered; // number of jobs whose outputs the caller has received
};

// Checks the stop strings and tokenizes the prefix; the caller has set the members up to
// `translates`. QKV_ERR_USAGE: an invalid stop string; QKV_ERR_LIMIT.
qkv_status qkv_generation_init(struct qkv_generation *g, qkv_error *err);
void qkv_generation_free(struct qkv_generation *g); // frees what qkv_generation_init allocated
// Returns true if this token ends an output.
bool qkv_generation_ends(const struct qkv_generation *g, int32_t id);
// Sets the logits of forbidden tokens to -INFINITY: suppressed tokens, and, in an output of fewer
// than min_tokens tokens, tokens that would end it.
void qkv_generation_suppress(const struct qkv_generation *g, float *logits, int64_t tokens);
// Fills err with QKV_ERR_INTERRUPTED and the number of finished prompts, and returns that status.
qkv_status qkv_generation_interrupted(const struct qkv_generation *g, qkv_error *err);
// Fills err with QKV_ERR_USAGE: the logits after `tokens` tokens allow no token.
qkv_status qkv_generation_no_token(int64_t tokens, qkv_error *err);

// Runs qkv_translate (generator.c) on sources that are token ids: source i is ids[offsets[i] ..
// offsets[i + 1] - 1], special tokens included.
qkv_status qkv_translate_ids(qkv_translator *t, const int32_t *ids, const int64_t *offsets,
                             int64_t n, const struct qkv_generate_options *o, qkv_error *err);
// Returns the settings of a translator: the tokens that begin and end its outputs.
const struct qkv_generation_config *qkv_translator_config(const qkv_translator *t);
#endif
