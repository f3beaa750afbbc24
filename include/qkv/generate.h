// SPDX-License-Identifier: MIT
/** generate.h: models that speak: decoders go on with a prompt, encoder-decoders translate.
 *
 *      const struct qkv_generate_options o = { .sampling.temperature = .8,
 *                                                .token = print };
 *      if (!qkv_generator_open(&g, dir, NULL, &err))
 *          s = qkv_generate(g, &prompt, NULL, 1, &o, &err);
 */
#ifndef QKV_GENERATE_H
#define QKV_GENERATE_H

#include <qkv/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a token is chosen of the logits; zero is the default: the likeliest (of equal ones the
 *  smallest id).  In this order, which is that of transformers' processors; presence and frequency,
 *  which it lacks, as vLLM has them:
 *
 *      bias             x[id] += value; -INFINITY: never
 *      repetition r     each token of prompt and output: x / r where x > 0, x * r below
 *      presence,        each token of the output: x -= presence + frequency * times
 *      frequency
 *      no_repeat_ngram  what would repeat n tokens of prompt and output is never chosen
 *      min_tokens       (qkv_generate_options) no end before
 *      temperature t    x / t
 *      top_k            the k largest, and what equals the last of them
 *      top_p            the fewest of the likeliest whose probabilities reach p
 *      min_p            those of at least p times the likeliest one's probability
 *
 *  then a draw of softmax(x) by the number that Philox4x32-10 has for (seed, sequence, position):
 *  the same whatever runs beside it.  A search of beams leaves out all behind min_tokens. */
struct qkv_sampling {
    double temperature;      /**< 0: the likeliest; up to 100 */
    int64_t top_k;           /**< 0: all */
    double top_p;            /**< above 0, up to 1; 0: all */
    double min_p;            /**< 0 .. 1 */
    double repetition;       /**< above 0, up to 100; 0: 1 */
    double presence;         /**< -100 .. 100 */
    double frequency;        /**< -100 .. 100 */
    int64_t no_repeat_ngram; /**< 0: off */
    const struct qkv_token_value *bias;
    int64_t biases;
    uint64_t seed;
};
/** V: of the vocabulary; 0: ids of biases are not looked at.
 *  Returns QKV_OK; QKV_ERR_USAGE: err names the member, its range and what was found. */
QKV_API QKV_MUST_CHECK qkv_status qkv_sampling_check(const struct qkv_sampling *s, int64_t V,
                                                     qkv_error *err);

/** Chooses tokens for a loop of the caller's own (decode.h); one a thread. */
typedef struct qkv_sampler qkv_sampler;
QKV_API QKV_MUST_CHECK qkv_status qkv_sampler_new(qkv_sampler **out, int64_t V,
                                                  const struct qkv_sampling *s, qkv_error *err);
QKV_API void qkv_sampler_free(qkv_sampler *s); /**< NULL is fine */
/** The token behind history[n], whose first `prompt` are the prompt.
 *  Out: *id; logits[V] as the samplers leave them (-INFINITY: cannot be chosen).
 *  sequence: which of many that are generated with one seed.
 *  Returns QKV_OK; QKV_ERR_USAGE: an id outside the vocabulary, or nothing is left to choose (NaN
 *  too); QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_sampler_next(qkv_sampler *s, int32_t *id, float *logits,
                                                   const int32_t *history, int64_t n,
                                                   int64_t prompt, uint64_t sequence,
                                                   qkv_error *err);

/** A token of an output, as it is chosen.  Pointers are valid during the call. */
struct qkv_token_seen {
    int64_t prompt;   /**< which of the call's */
    int64_t rank;     /**< which of its outputs */
    int64_t position; /**< of the token in its output */
    int32_t id;       /**< -1: none, what was held back for a stop string that did not come */
    float logprob;    /**< as the model has it, before any sampler; NaN without logprobs */
    const struct qkv_token_value *top; /**< [tops] the likeliest, best first */
    int64_t tops;
    const char *text; /**< what it adds to the output: whole characters of UTF-8, or "" */
    size_t bytes;
};

/** Why an output ends. */
enum qkv_ending {
    QKV_END_TOKEN = 0, /**< the model said so */
    QKV_END_STOP,      /**< a stop string */
    QKV_END_TOKENS,    /**< max_tokens */
    QKV_END_POSITIONS  /**< the model has no more */
};

/** An output.  Pointers are valid during the call. */
struct qkv_generated {
    int64_t prompt, rank; /**< which of the call's prompts; which of its outputs, best first */
    const char *text; /**< valid UTF-8, terminated; the prefix stands before it, no stop string */
    size_t bytes;
    const int32_t *ids;    /**< [tokens] those of the prefix first; without the end */
    const float *logprobs; /**< [tokens]; NULL without logprobs */
    int64_t tokens;
    enum qkv_ending ending;
    int32_t end;           /**< the token of QKV_END_TOKEN, else -1 */
    double score;          /**< beams: sum of log-probabilities / length^penalty; else NaN */
    int64_t prompt_tokens; /**< fed: with specials, after a cut */
    int64_t cut;           /**< tokens of the prompt that did not fit and were left out */
    int64_t replaced, replaced_at; /**< places of invalid UTF-8 in it; byte of the first */
    /** With alignment: where each token looked, its weights of the source's tokens, the end's too:
     *  [tokens + (ending == QKV_END_TOKEN)][source_tokens]; each row sums to 1. */
    const float *alignment;
    const int32_t *source_ids; /**< [source_tokens] */
    int64_t source_tokens;
};

/** When a search of beams is over, as transformers' early_stopping. */
enum qkv_early {
    QKV_EARLY_LIKELY = 0, /**< False: when the best beam at its length beats no finished one */
    QKV_EARLY_FULL,       /**< True: as soon as there are as many finished as beams */
    QKV_EARLY_NEVER       /**< "never": when none can be beaten at any length */
};

/** One call; zero is the default. */
struct qkv_generate_options {
    struct qkv_sampling sampling;
    /** Of an output, without its prefix; 0: 256, or as many as positions are left. */
    int64_t max_tokens;
    int64_t min_tokens; /**< before the end */
    bool ignore_end;    /**< the end is a token like others, until max_tokens */
    /** [stops] texts that end an output, wherever tokens border; never shown. */
    const char *const *stop;
    int64_t stops;
    int64_t logprobs;      /**< 0: none; N: of each token, and of the N likeliest (at most 1000) */
    const char *prefix;    /**< what each output begins with; NULL: nothing */
    int64_t beams;         /**< 0: no search (qkv_translate: as the folder says, else 4) */
    int64_t n_best;        /**< outputs a prompt: the best of a search, else so many draws; 0: 1 */
    double length_penalty; /**< 0: 1; negative: none, the sum itself */
    enum qkv_early early;
    /** A prompt past the positions loses its first tokens (a source its last), told in `cut`, until
     *  max_tokens, or half the positions, are left for the output; else it is QKV_ERR_USAGE. */
    bool truncate;
    bool strict; /**< invalid UTF-8 is QKV_ERR_FORMAT with its byte, instead of U+FFFD */
    /** Nothing before the prompt; text that spells a special token is plain text. */
    bool no_special;
    bool alignment;          /**< qkv_translate: wanted */
    int64_t alignment_layer; /**< of cross-attention, from 1; 0: the last; its heads are averaged */
    /** A result other than 0 stops the call with QKV_ERR_INTERRUPTED; NULL: not wanted.
     *  token: as tokens come, prompts in turn; not of beams, whose tokens are known at the end
     *  output: each output, prompts in order */
    int (*token)(void *user, const struct qkv_token_seen *t);
    int (*output)(void *user, const struct qkv_generated *g);
    void *user;
    struct qkv_progress progress; /**< of prompts; asked at every step */
};

/** How to open; zero is the default. */
struct qkv_generator_options {
    struct qkv_model_options model;
    qkv_precision cache; /**< of keys and values that stay: F32, BF16, F16, INT8 */
    int64_t
        items; /**< sequences (beams too) that run at once at most; 0: 8, of a search as needed */
    int64_t positions; /**< a sequence may have; 0: the model's */
};

/** A decoder, or an encoder-decoder, with its tokenizer.  Both: one call at a time. */
typedef struct qkv_generator qkv_generator;
typedef struct qkv_translator qkv_translator;

/** dir: a model folder; generation_config.json, where there is one, says what ends an output, what
 *  it begins with and what is never chosen, and the beams of a translator.  o may be NULL.
 *  Returns as qkv_model_open and qkv_tokenizer_open; QKV_ERR_UNSUPPORTED for another kind of model:
 *  err says what it is and what fits. */
QKV_API QKV_MUST_CHECK qkv_status qkv_generator_open(qkv_generator **out, const char *dir,
                                                     const struct qkv_generator_options *o,
                                                     qkv_error *err);
QKV_API void qkv_generator_close(qkv_generator *g); /**< NULL is fine */
QKV_API const qkv_model *qkv_generator_model(const qkv_generator *g);
QKV_API const qkv_tokenizer *qkv_generator_tokenizer(const qkv_generator *g);
QKV_API QKV_MUST_CHECK qkv_status qkv_translator_open(qkv_translator **out, const char *dir,
                                                      const struct qkv_generator_options *o,
                                                      qkv_error *err);
QKV_API void qkv_translator_close(qkv_translator *t);
QKV_API const qkv_model *qkv_translator_model(const qkv_translator *t);
QKV_API const qkv_tokenizer *qkv_translator_tokenizer(const qkv_translator *t);

/** Goes on with prompts[n]; bytes[n]: their lengths; NULL: each ends at its NUL.  Prompts of any
 *  lengths run together, and the place of one that is done goes to the next.  A prompt's sequence
 *  (for the seed) is its number times n_best plus the rank.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (an option, named; a prompt too long or without a token),
 *            QKV_ERR_FORMAT (strict), QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED; err->path: which prompt
 *  Repeats:  an output has the same bits for any threads and whatever stands beside it */
QKV_API QKV_MUST_CHECK qkv_status qkv_generate(qkv_generator *g, const char *const *prompts,
                                               const size_t *bytes, int64_t n,
                                               const struct qkv_generate_options *o,
                                               qkv_error *err);
/** The same of sources: an output is a target.  Beams 1: by the samplers. */
QKV_API QKV_MUST_CHECK qkv_status qkv_translate(qkv_translator *t, const char *const *sources,
                                                const size_t *bytes, int64_t n,
                                                const struct qkv_generate_options *o,
                                                qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
