// SPDX-License-Identifier: MIT
/** task.h: whole jobs: texts to vectors, words to neighbours, masks to words, texts to labels, how
 *  likely a text is. */
#ifndef QKV_TASK_H
#define QKV_TASK_H

#include <qkv/model.h>

#ifdef __cplusplus
extern "C" {
#endif

enum qkv_pool {
    QKV_POOL_FILE = 0, /**< as 1_Pooling/config.json says; mean without it */
    QKV_POOL_MEAN,
    QKV_POOL_CLS,
    QKV_POOL_MAX,
    QKV_POOL_LAST
};

/** Zero is the default. */
struct qkv_embedder_options {
    struct qkv_model_options model;
    enum qkv_pool pool;
    bool no_normalize;    /**< as pooled; default: as modules.json says, length 1 without it */
    int64_t batch_tokens; /**< tokens run at once; 0: 512 a thread, 1024 .. 8192; changes no bit */
    int64_t max_length; /**< tokens a text may have; 0: sentence_bert_config.json, else positions */
    bool truncate;      /**< cut a longer text (counted), instead of QKV_ERR_USAGE */
    bool pad;           /**< fill every text up to max_length and mask it: same bits */
    bool no_tokenizer;  /**< none is opened: for qkv_embed_ids alone */
    bool strict;        /**< invalid UTF-8 is QKV_ERR_FORMAT with its byte, instead of U+FFFD */
    bool no_special;    /**< no [CLS], [SEP]; text that spells a special token is plain text */
    struct qkv_progress progress;
};

typedef struct qkv_embedder qkv_embedder; /**< a model folder with its tokenizer, pooling, length */

/** dir: a model folder; modules.json and what it names say pooling, length and normalisation
 *  (without it: mean, length 1).  o may be NULL and is copied.
 *  Returns as qkv_model_open and qkv_tokenizer_open; QKV_ERR_UNSUPPORTED also for a module that
 *  would change the vectors and is not known here: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_embedder_open(qkv_embedder **out, const char *dir,
                                                    const struct qkv_embedder_options *o,
                                                    qkv_error *err);
QKV_API void qkv_embedder_close(qkv_embedder *e);
QKV_API int64_t qkv_embedder_width(const qkv_embedder *e);      /**< numbers in a vector */
QKV_API int64_t qkv_embedder_max_length(const qkv_embedder *e); /**< tokens a text may have */
QKV_API enum qkv_pool qkv_embedder_pool(const qkv_embedder *e); /**< as it pools; never FILE */
/** The embedder's own, valid until it is closed. */
QKV_API const qkv_model *qkv_embedder_model(const qkv_embedder *e);
/** NULL with no_tokenizer. */
QKV_API const qkv_tokenizer *qkv_embedder_tokenizer(const qkv_embedder *e);

/** What a call to qkv_embed met; may be NULL. */
struct qkv_embed_report {
    int64_t tokens;                     /**< run, specials included */
    int64_t cut_texts, cut_tokens;      /**< shortened to max_length; tokens lost in all */
    int64_t replaced;                   /**< places of invalid UTF-8 that became U+FFFD */
    int64_t replaced_text, replaced_at; /**< the first of them: which text, its byte there */
};

/** out[n][width]: one vector a text; texts of mixed length are packed, nothing is padded.
 *  bytes[n]: lengths of texts; NULL: each ends at its NUL.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (also: a text too long without truncate), QKV_ERR_FORMAT
 *            (strict), QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED (progress said so); err->path names the
 *            text
 *  Threads:  with more than one, the next batch is tokenised on a thread beside while this one
 *            runs, unless a host lends its pool; progress and errors come as one thread would tell
 *            them
 *  Edge:     a text without a token gives zeros
 *  Repeats:  a text's vector has the same bits whatever stands beside it */
QKV_API QKV_MUST_CHECK qkv_status qkv_embed(const qkv_embedder *e, float *out,
                                            const char *const *texts, const size_t *bytes,
                                            int64_t n, struct qkv_embed_report *report,
                                            qkv_error *err);

/** As qkv_embed, of token ids (specials included): text i is ids[offsets[i] .. offsets[i + 1] - 1].
 *  Token types are 0; a text that is too long loses its last ids with truncate. */
QKV_API QKV_MUST_CHECK qkv_status qkv_embed_ids(const qkv_embedder *e, float *out,
                                                const int32_t *ids, const int64_t *offsets,
                                                int64_t n, struct qkv_embed_report *report,
                                                qkv_error *err);

/** cosine of a[n] and b[n]; 0 when one of them is 0. */
QKV_API float qkv_cosine(const float *a, const float *b, int64_t n);

/** Nearest words by mean-centred input embeddings: sum_i sign[i] * word[i].
 *  Whole words of letters only (no ## parts, no specials); the inputs are excluded.
 *  Out: ids[want], cosines[want], best first; *found of them.  In: words[n], signs[n].
 *  Returns QKV_OK; QKV_ERR_USAGE (no such token, words that cancel), QKV_ERR_LIMIT.
 *  Source: Mikolov, Yih, Zweig 2013 (NAACL, N13-1090). */
QKV_API QKV_MUST_CHECK qkv_status qkv_analogy(const qkv_model *m, const qkv_tokenizer *t,
                                              int32_t *ids, float *cosines, int64_t *found,
                                              int64_t want, const int32_t *words,
                                              const float *signs, int64_t n, qkv_error *err);

/** A token with a number of its own: a probability, a log-probability, a bias. */
struct qkv_token_value {
    int32_t id;
    float value;
};

/** The likeliest tokens for each mask of a text ("[MASK]", as the model's tokenizer spells it).
 *  Out: tokens[most][top] with their probabilities, best first; at[most] the mask's byte in the
 *       text; *masks how many there are (of which `most` at most are answered)
 *  Returns QKV_OK; QKV_ERR_USAGE (no mask, too long), QKV_ERR_UNSUPPORTED (a model that is no
 *  masked encoder: err says what it is), QKV_ERR_FORMAT, QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_fill(const qkv_model *m, const qkv_tokenizer *t,
                                           struct qkv_token_value *tokens, int64_t *at,
                                           int64_t *masks, int64_t most, int64_t top,
                                           const char *text, size_t bytes, qkv_error *err);

struct qkv_classify_options {
    bool truncate; /**< a longer text loses its end, counted in *cut, instead of QKV_ERR_USAGE */
    bool strict;   /**< invalid UTF-8 is refused instead of replaced */
    int64_t *cut;  /**< tokens left out; NULL: not wanted */
    struct qkv_progress progress; /**< of texts */
};
/** scores[n][labels], as the head leaves them, of texts[n], or of pairs (text, pair) for
 *  cross-encoders (pairs NULL: none); bytes, pair_bytes as above.  o may be NULL.
 *  probabilities (NULL: not wanted): softmax of the scores; of one label, or of problem_type
 *  multi_label_classification: the logistic function of each.
 *  Returns QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED (no labels: err says what the model is),
 *  QKV_ERR_FORMAT, QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED; err->path names the text. */
QKV_API QKV_MUST_CHECK qkv_status qkv_classify(const qkv_model *m, const qkv_tokenizer *t,
                                               float *scores, float *probabilities,
                                               const char *const *texts, const size_t *bytes,
                                               const char *const *pairs, const size_t *pair_bytes,
                                               int64_t n, const struct qkv_classify_options *o,
                                               qkv_error *err);

struct qkv_perplexity_options {
    int64_t window; /**< tokens seen at once; 0: the model's positions, at most 1024 */
    int64_t stride; /**< tokens from one window to the next; 0: half a window */
    bool strict;    /**< invalid UTF-8 is refused instead of replaced */
    struct qkv_progress progress; /**< of tokens */
};
struct qkv_perplexity {
    int64_t tokens, targets, windows; /**< of the text; of these predicted */
    double loss, perplexity;          /**< mean of -ln p(target), nats; e^loss */
    double bits_per_byte;             /**< sum of -log2 p / bytes of text */
    int64_t replaced, replaced_at;    /**< places of invalid UTF-8; byte of the first */
};
/** How well a decoder foretells a text: windows of tokens, each `stride` behind the one before; a
 *  token counts once, in the first window that has it, seen with what stands before it there.  The
 *  first token counts where the tokenizer puts another before it.  o may be NULL.
 *  Returns QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED (no decoder), QKV_ERR_FORMAT, QKV_ERR_LIMIT,
 *  QKV_ERR_INTERRUPTED. */
QKV_API QKV_MUST_CHECK qkv_status qkv_perplexity(const qkv_model *m, const qkv_tokenizer *t,
                                                 struct qkv_perplexity *out, const char *text,
                                                 size_t bytes,
                                                 const struct qkv_perplexity_options *o,
                                                 qkv_error *err);

enum qkv_job { QKV_JOB_GENERATE = 0, QKV_JOB_FILL, QKV_JOB_TRANSLATE, QKV_JOB_CLASSIFY };
/** As qkv_model_find; where neither dir nor QKV_MODEL says which: the first folder that can do the
 *  job.  Returns QKV_ERR_USAGE: none can. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_find_for(enum qkv_job job, char *out, size_t size,
                                                     char *why, size_t why_size, const char *dir,
                                                     qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
