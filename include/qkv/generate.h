// SPDX-License-Identifier: MIT
/** generate.h: generates text: decoders continue a prompt, encoder-decoders translate a source.
 *
 *      const struct qkv_generate_options o = { .sampling.temperature = .8,
 *                                                .token = print };
 *      if (!qkv_generator_open(&g, dir, NULL, &err))
 *          s = qkv_generate(g, &prompt, NULL, 1, &o, &err);
 */
#ifndef QKV_GENERATE_H
#define QKV_GENERATE_H

#include <qkv/task.h>

QKV_BEGIN_DECLS

/** Options that determine how the next token is chosen from the logits.  Zero is the default: the
 *  most likely token is chosen, and of equally likely tokens the token with the smallest id.  The
 *  steps have the order of the logits processors of transformers; presence and frequency, which
 *  transformers lacks, are as in vLLM.  In these steps x is the logit of a token:
 *
 *      bias             x += value for the token id; -INFINITY excludes it
 *      repetition r     each token of prompt and output: x becomes x / r if x > 0, otherwise x * r
 *      presence,        each token of the output: x -= presence + frequency * count, where count is
 *      frequency        the number of times that the output contains the token
 *      no_repeat_ngram  a token that would repeat n tokens of prompt and output is excluded
 *      min_tokens       (qkv_generate_options) end tokens are excluded before so many tokens
 *      temperature t    x becomes x / t
 *      top_k            keep the k largest logits and all logits equal to the k-th
 *      top_p            keep the fewest most likely tokens whose probabilities sum to p or more
 *      min_p            keep tokens of at least p times the largest probability
 *
 *  Then the token is sampled from softmax(x) with the random number that Philox4x32-10 generates
 *  for (seed, sequence, position), which does not depend on other sequences.  Beam search applies
 *  only the steps from bias to min_tokens. */
struct qkv_sampling {
    double temperature; /**< divisor of the logits, at most 100; 0: choose the most likely token */
    int64_t top_k;      /**< number of most likely tokens to keep; 0: keep all tokens */
    /** keep the fewest most likely tokens whose probabilities sum to at least top_p (top_p <= 1);
     *  0: keep all tokens */
    double top_p;
    double min_p;      /**< keep tokens of at least min_p times the largest probability, 0 .. 1 */
    double repetition; /**< repetition penalty, 1e-30 .. 100; 0 means 1: no penalty */
    double presence;   /**< presence penalty, -100 .. 100 */
    double frequency;  /**< frequency penalty, -100 .. 100 */
    int64_t no_repeat_ngram; /**< length of token sequences that must not repeat; 0: no limit */
    const struct qkv_token_value *bias; /**< [biases] numbers added to the logits of tokens */
    int64_t biases;
    uint64_t seed;
};
/** Checks the options.  V is the size of the vocabulary; with V = 0 the ids of biases are not
 *  checked.
 *  Returns: QKV_OK; QKV_ERR_USAGE: err names the member, its range and its value. */
QKV_API QKV_MUST_CHECK qkv_status qkv_sampling_check(const struct qkv_sampling *s, int64_t V,
                                                     qkv_error *err);

/** A sampler for a decoding loop that the caller writes (decode.h).  Each thread needs its own
 *  sampler. */
typedef struct qkv_sampler qkv_sampler;
/** Makes a sampler for V tokens; s NULL: the defaults.  s and its biases are copied.
 *  Returns: QKV_OK; errors of qkv_sampling_check; QKV_ERR_LIMIT.  After an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_sampler_new(qkv_sampler **out, int64_t V,
                                                  const struct qkv_sampling *s, qkv_error *err);
QKV_API void qkv_sampler_free(qkv_sampler *s); /**< NULL is fine */
/** Chooses the token after history[n], whose first `prompt` ids are the prompt.
 *  Out: *id; logits[V] after all processors (-INFINITY: excluded).
 *  In:  sequence is the index of the sequence among the sequences that use one seed.
 *  Returns: QKV_OK; QKV_ERR_USAGE: an id outside the vocabulary, or no token remains (also with
 *  NaN); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_sampler_next(qkv_sampler *s, int32_t *id, float *logits,
                                                   const int32_t *history, int64_t n,
                                                   int64_t prompt, uint64_t sequence,
                                                   qkv_error *err);

/** A generated token, for a callback.  Pointers are valid during the call of the callback. */
struct qkv_generated_token {
    int64_t prompt;   /**< index of the prompt in the call */
    int64_t rank;     /**< index of the output of that prompt */
    int64_t position; /**< position of the token in its output */
    /** token id; -1: no token, only text that was withheld until now because it could have been the
     *  start of a stop string */
    int32_t id;
    /** log-probability of the token before any logits processor; NaN unless the option logprobs is
     *  set */
    float logprob;
    const struct qkv_token_value *top; /**< [tops] the most likely tokens, best first */
    int64_t tops;
    const char *text; /**< text that the token adds: whole characters of UTF-8, or "" */
    size_t bytes;
    /** number of characters (code points) of the output's text before the token, whether `text` of
     *  this call or a later one has them; 0 if id is -1 */
    int64_t offset;
};

/** The reason why an output ended. */
enum qkv_ending {
    QKV_END_TOKEN = 0, /**< the model generated an end token */
    QKV_END_STOP,      /**< the text contains a stop string */
    QKV_END_TOKENS,    /**< the output has max_tokens tokens */
    QKV_END_POSITIONS  /**< the sequence has the maximum number of positions */
};

/** A complete output, for a callback.  Pointers are valid during the call of the callback. */
struct qkv_generated {
    int64_t prompt, rank; /**< index of the prompt; index among its outputs, best first */
    /** text of the output with the prefix and without a stop string: valid UTF-8, NUL-terminated */
    const char *text;
    size_t bytes;
    const int32_t *ids; /**< [tokens] token ids with the prefix, without the end token */
    /** [tokens] log-probabilities; NULL unless the option logprobs is set */
    const float *logprobs;
    int64_t tokens;
    enum qkv_ending ending;
    int32_t end; /**< id of the end token if ending is QKV_END_TOKEN; otherwise -1 */
    /** score of the beam: sum of log-probabilities / length^penalty; NaN without beam search */
    double score;
    /** number of tokens of the prompt, including special tokens, after truncation */
    int64_t prompt_tokens;
    int64_t cut; /**< number of tokens that truncation removed from the prompt */
    /** number of invalid UTF-8 sequences in the prompt; byte offset of the first of them */
    int64_t replaced, replaced_at;
    /** number of characters of the prompt that were left out, and byte offset of the first word
     *  that lost a character (qkv_encoding.dropped) */
    int64_t dropped, dropped_at;
    /** [tokens + (ending == QKV_END_TOKEN)][source_tokens] cross-attention weights over the tokens
     *  of the source: row t is the decoder step that writes token t, the last row the step that
     *  writes the end token, so row 0 is the step that reads the start token.  Each row sums to 1
     *  (Bahdanau et al. 2015, arXiv 1409.0473, call it the alignment).  NULL unless the
     *  option alignment is set. */
    const float *alignment;
    const int32_t *source_ids; /**< [source_tokens] token ids of the source */
    int64_t source_tokens;
};

/** The condition under which a beam search ends: the values False, True and "never" of
 *  early_stopping in transformers. */
enum qkv_early {
    QKV_EARLY_MODEL = 0, /**< as generation_config.json says, otherwise QKV_EARLY_LIKELY */
    /** early_stopping False: the search ends when the best running beam is no better than the
     *  worst finished beam */
    QKV_EARLY_LIKELY,
    /** early_stopping True: the search ends when as many beams have finished as it has beams */
    QKV_EARLY_FULL,
    /** early_stopping "never": the search ends when the best running beam could not beat the
     *  worst finished beam at any length */
    QKV_EARLY_NEVER
};

/** Options of one call; zero is the default.  Where generation_config.json of the model has a value
 *  (max_new_tokens or max_length, min_new_tokens, min_length, repetition_penalty,
 *  no_repeat_ngram_size, length_penalty, early_stopping; for a translator num_beams; for a
 *  generator with do_sample true also temperature, top_k, top_p, min_p), it is the default instead
 *  of the value below. */
struct qkv_generate_options {
    /** true: `sampling` alone determines how tokens are chosen, whatever do_sample in
     *  generation_config.json is; with the temperature 0 the most likely token */
    bool own_sampling;
    /** top_k, min_p and no_repeat_ngram -1: no limit in spite of the file; top_p 1 likewise */
    struct qkv_sampling sampling;
    /** the most tokens of an output without its prefix, limited to the remaining positions; 0:
     *  256; -1, for qkv_generate without beams: none, only the prompt is read */
    int64_t max_tokens;
    int64_t min_tokens; /**< the minimum number of tokens before the end token; -1: 0 in any case */
    bool ignore_end;    /**< treat end tokens as ordinary tokens, until max_tokens */
    /** [stops] texts that end an output, even where one begins or ends inside a token; they are not
     *  part of the output. */
    const char *const *stop;
    int64_t stops;
    /** number of most likely tokens with log-probabilities, at most 1000; 0: no
     *  log-probabilities */
    int64_t logprobs;
    const char *prefix; /**< text with which every output begins; NULL: no prefix */
    /** number of beams of a beam search.  0: qkv_generate does not search; qkv_translate uses the
     *  number in generation_config.json, or 4 if that file has none */
    int64_t beams;
    /** outputs per prompt: the best beams, or without beams independent samples; 0 means 1 */
    int64_t n_best;
    /** exponent of the length by which the score of a beam is divided; 0 means 1; negative: no
     *  division */
    double length_penalty;
    enum qkv_early early;
    /** what happens to a prompt that is too long.  true: it loses its first tokens, and a source of
     *  qkv_translate its last tokens, until max_tokens or half of the positions remain for the
     *  output; `cut` is the number of lost tokens.  false: a prompt that is too long is
     *  QKV_ERR_USAGE. */
    bool truncate;
    /** true: invalid UTF-8 is QKV_ERR_FORMAT with its byte offset; false: it becomes U+FFFD */
    bool strict;
    /** add no special token, and treat text that spells a special token as plain text */
    bool no_special;
    /** add no special token, but recognize those that the prompt spells: for a prompt that a chat
     *  template made; ignored by qkv_translate, as no_special is */
    bool no_template;
    bool alignment; /**< qkv_translate: compute the alignment (struct qkv_generated) */
    /** layer whose cross-attention, as the mean over its heads, is the alignment, counted from 0;
     *  NULL: the last layer */
    const int64_t *alignment_layer;
    /** index of prompts[0] among the prompts of several calls, 0 to 2^52, by which their random
     *  numbers do not depend on how the prompts are divided into calls */
    int64_t first;
    /** [prompt_id_count] token ids of the prompt, special tokens included, instead of its text, for
     *  a call with one prompt; its text is then the text of these tokens.  NULL: the text.  Not for
     *  qkv_translate */
    const int32_t *prompt_ids;
    int64_t prompt_id_count;
    /** Callbacks, each of which may be NULL.  A result other than 0 stops the call with
     *  QKV_ERR_INTERRUPTED.  `token` receives each token when it is generated, interleaved over the
     *  prompts; it is not called with beams, whose tokens are known only at the end.  `output`
     *  receives each complete output, in the order of the prompts.  `prompt_token` receives each
     *  token of a prompt, special tokens included, while the model reads it: with the option
     *  logprobs, and not in qkv_translate.  Its `position` is the
     *  index in the prompt, `logprob` the log-probability after the tokens before it (NaN for the
     *  first token, which has no `top`), `offset` the number of characters of the prompt's text
     *  before it, and `text` is empty. */
    int (*token)(void *user, const struct qkv_generated_token *t);
    int (*output)(void *user, const struct qkv_generated *g);
    int (*prompt_token)(void *user, const struct qkv_generated_token *t);
    void *user;
    struct qkv_progress progress; /**< called at every step; counts finished prompts */
};

/** Options of qkv_generator_open and qkv_translator_open; zero is the default. */
struct qkv_generator_options {
    struct qkv_model_options model;
    qkv_precision cache; /**< precision of the KV cache, as in struct qkv_decoder_options */
    /** the most concurrent sequences, where each beam counts as one sequence; 0 means 8, for a
     *  translator 8 sources with their beams, at most 64; increased to the number of beams if that
     *  is larger */
    int64_t items;
    int64_t positions; /**< the most tokens of a sequence; 0: the positions of the model */
};

/** A generator is a decoder with its tokenizer, a translator an encoder-decoder with its tokenizer.
 *  Only one thread at a time may use it. */
typedef struct qkv_generator qkv_generator;
typedef struct qkv_translator qkv_translator;

/** Opens dir, a model folder.  generation_config.json, if present, determines the end tokens, the
 *  excluded tokens and sequences, defaults of the options of a call, and for a translator also the
 *  forced first and last tokens.
 *  o may be NULL.
 *  Returns: as qkv_model_open and qkv_tokenizer_open; also QKV_ERR_UNSUPPORTED for another kind of
 *  model: err names the kind found and the kinds expected. */
QKV_API QKV_MUST_CHECK qkv_status qkv_generator_open(qkv_generator **out, const char *dir,
                                                     const struct qkv_generator_options *o,
                                                     qkv_error *err);
QKV_API void qkv_generator_close(qkv_generator *g); /**< g may be NULL */
QKV_API const qkv_model *qkv_generator_model(const qkv_generator *g);
QKV_API const qkv_tokenizer *qkv_generator_tokenizer(const qkv_generator *g);
/** Returns how tokens are chosen by default: with do_sample in generation_config.json its
 *  temperature, top_k, top_p and min_p, otherwise all are 0 (the most likely token); valid until
 *  close. */
QKV_API const struct qkv_sampling *qkv_generator_sampling(const qkv_generator *g);
/** Returns the names of the keys of generation_config.json that change the outputs of transformers
 *  and are not applied here ("typical_p, penalty_alpha"), valid until close; NULL: there are none. */
QKV_API const char *qkv_generator_ignored(const qkv_generator *g);
QKV_API QKV_MUST_CHECK qkv_status qkv_translator_open(qkv_translator **out, const char *dir,
                                                      const struct qkv_generator_options *o,
                                                      qkv_error *err);
QKV_API void qkv_translator_close(qkv_translator *t);
QKV_API const qkv_model *qkv_translator_model(const qkv_translator *t);
QKV_API const qkv_tokenizer *qkv_translator_tokenizer(const qkv_translator *t);
QKV_API const char *qkv_translator_ignored(const qkv_translator *t);

/** Continues prompts[n].  bytes[n] are the lengths of the prompts; with a NULL bytes each prompt
 *  ends at its NUL.  Prompts of any length run in one batch, and the slot of a finished prompt is
 *  reused by the next prompt.  The random numbers of an output depend on the seed and on
 *  (first + prompt) * n_best + rank.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (an invalid option, which err names; a prompt that is too long
 *            or has no token), QKV_ERR_FORMAT (invalid UTF-8 with the option strict),
 *            QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED; err->path names the prompt
 *  Repeats:  an output is bit-identical for any number of threads, whatever the other prompts
 *            are */
QKV_API QKV_MUST_CHECK qkv_status qkv_generate(qkv_generator *g, const char *const *prompts,
                                               const size_t *bytes, int64_t n,
                                               const struct qkv_generate_options *o,
                                               qkv_error *err);
/** Translates sources[n]; arguments and results are as in qkv_generate.  With 1 beam there is no
 *  search: struct qkv_sampling determines the tokens. */
QKV_API QKV_MUST_CHECK qkv_status qkv_translate(qkv_translator *t, const char *const *sources,
                                                const size_t *bytes, int64_t n,
                                                const struct qkv_generate_options *o,
                                                qkv_error *err);

QKV_END_DECLS
#endif
