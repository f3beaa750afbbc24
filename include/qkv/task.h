// SPDX-License-Identifier: MIT
/** task.h: performs complete tasks: computes vectors and labels of texts, finds the nearest words,
 *  predicts masked tokens, and measures perplexity. */
#ifndef QKV_TASK_H
#define QKV_TASK_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/** How the hidden states h_1 .. h_n of the tokens of a text become one vector. */
enum qkv_pool {
    QKV_POOL_FILE = 0,  /**< the poolings of modules.json; without that file: mean */
    QKV_POOL_MEAN,      /**< sum_i h_i / n */
    QKV_POOL_CLS,       /**< h_1 */
    QKV_POOL_MAX,       /**< the maximum of each element */
    QKV_POOL_LAST,      /**< h_n */
    QKV_POOL_MEAN_SQRT, /**< sum_i h_i / sqrt(n) */
    QKV_POOL_WEIGHTED   /**< sum_i i h_i / sum_i i */
};

/** Options of qkv_embedder_open; zero is the default. */
struct qkv_embedder_options {
    struct qkv_model_options model;
    enum qkv_pool pool;
    /** true: do not normalise the vectors at the end; false: normalise them to length 1 if
     *  modules.json says so or does not exist */
    bool no_normalize;
    /** tokens per batch, which affects speed but no bit of the vectors; 0: 1024 per thread, at
     *  most 8192 */
    int64_t batch_tokens;
    /** the most tokens of a text; 0: the limit in sentence_bert_config.json or, without that file,
     *  the positions of the model */
    int64_t max_length;
    /** what happens to a text longer than max_length.  true: it is truncated, and the report counts
     *  it; false: the call returns QKV_ERR_USAGE */
    bool truncate;
    bool pad; /**< pad every text to max_length and mask the padding; changes no bit of a vector */
    bool no_tokenizer; /**< do not open a tokenizer; only qkv_embed_ids is then possible */
    /** true: invalid UTF-8 is QKV_ERR_FORMAT with its byte offset; false: it becomes U+FFFD */
    bool strict;
    /** do not add [CLS] and [SEP], and treat text that spells a special token as plain text */
    bool no_special;
    /** name of the prompt in config_sentence_transformers.json that is put before each text; NULL:
     *  default_prompt_name of that file, if any; "": no prompt */
    const char *prompt;
    struct qkv_progress progress;
    /** the model of the folder, if the caller has opened it already: the embedder uses it, ignores
     *  `model` and does not close it, so it must stay open; NULL: open the model */
    const qkv_model *opened;
};

/** A model with its tokenizer, pooling and length limit. */
typedef struct qkv_embedder qkv_embedder;

/** Opens dir, a model folder.  modules.json and the files that it names determine the pooling (or
 *  several, whose vectors are concatenated), the layers after it (Dense, LayerNorm, Normalize), the
 *  length limit and the prompt; without modules.json, pooling is the mean and vectors are
 *  normalised to length 1.  o may be NULL and is copied.
 *  Returns: as qkv_model_open and qkv_tokenizer_open; also QKV_ERR_UNSUPPORTED for a module that
 *           would change the vectors and is not supported.  After an error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_embedder_open(qkv_embedder **out, const char *dir,
                                                    const struct qkv_embedder_options *o,
                                                    qkv_error *err);
QKV_API void qkv_embedder_close(qkv_embedder *e); /**< NULL is fine */
/** Returns the number of dimensions of a vector: the width of the model or, with several poolings
 *  or a Dense module, the width of their result; or truncate_dim of
 *  config_sentence_transformers.json if that is smaller. */
QKV_API int64_t qkv_embedder_width(const qkv_embedder *e);
/** Returns the maximum number of tokens of a text. */
QKV_API int64_t qkv_embedder_max_length(const qkv_embedder *e);
/** Returns the pooling in use, the first if there are several; never QKV_POOL_FILE. */
QKV_API enum qkv_pool qkv_embedder_pool(const qkv_embedder *e);
/** Returns the text that is put before each text; "" if there is none.  It is valid until the
 *  embedder is closed. */
QKV_API const char *qkv_embedder_prompt(const qkv_embedder *e);
/** Returns true if the tokens of a prompt are pooled with the tokens of the text: the vector of a
 *  prompt and a text is then the vector of both joined.  Returns false if include_prompt is false
 *  in config.json of the pooling: only the prompt in the options is left out of the pooling. */
QKV_API bool qkv_embedder_pools_prompt(const qkv_embedder *e);
/** Returns the model of the embedder, valid until the embedder is closed. */
QKV_API const qkv_model *qkv_embedder_model(const qkv_embedder *e);
/** Returns the tokenizer of the embedder, valid until the embedder is closed; NULL with
 *  no_tokenizer. */
QKV_API const qkv_tokenizer *qkv_embedder_tokenizer(const qkv_embedder *e);

/** Computes the SHA-256 of the files that qkv_embedder_open has read: of the lines "SHA256  NAME",
 *  sorted by name, one for each file of the model folder that determines the vectors.  It reads
 *  these files again.
 *  Returns: QKV_OK; QKV_ERR_USAGE: an argument is NULL, or the caller had opened the model;
 *           QKV_ERR_IO, _LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_embedder_digest(const qkv_embedder *e, char hex[65],
                                                      qkv_error *err);

/** Counts of one call of qkv_embed. */
struct qkv_embed_report {
    int64_t tokens; /**< number of tokens computed, including special tokens */
    /** number of texts truncated to max_length; number of tokens removed in total */
    int64_t cut_texts, cut_tokens;
    int64_t replaced; /**< invalid UTF-8 sequences that were replaced by U+FFFD */
    /** index of the text with the first invalid sequence; byte offset of the sequence in that
     *  text */
    int64_t replaced_text, replaced_at;
    int64_t dropped;                  /**< characters left out (qkv_encoding.dropped) */
    int64_t dropped_text, dropped_at; /**< text and byte offset of the first of them */
};

/** Computes one vector per text: out[n][width].  Texts of different lengths are packed without
 *  padding.  bytes[n] are the lengths of the texts; with a NULL bytes each text ends at its NUL.
 *  report may be NULL.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (also: a text is too long and truncate is false), QKV_ERR_FORMAT
 *            (invalid UTF-8 with strict), QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED (by the progress
 *            callback); err->path names the text
 *  Threads:  with more than one thread, a second thread tokenizes the next batch while the current
 *            batch runs, unless the host program set a thread pool; progress calls and errors are
 *            the same as with one thread
 *  Edge:     the vector of a text without tokens is zero
 *  Repeats:  the vector of a text is bit-identical whatever the other texts of the call are */
QKV_API QKV_MUST_CHECK qkv_status qkv_embed(const qkv_embedder *e, float *out,
                                            const char *const *texts, const size_t *bytes,
                                            int64_t n, struct qkv_embed_report *report,
                                            qkv_error *err);

/** Computes vectors as qkv_embed does, from token ids that include special tokens: text i is
 *  ids[offsets[i]] .. ids[offsets[i + 1] - 1].  All token types are 0.  With the option truncate, a
 *  text that is too long loses its last ids. */
QKV_API QKV_MUST_CHECK qkv_status qkv_embed_ids(const qkv_embedder *e, float *out,
                                                const int32_t *ids, const int64_t *offsets,
                                                int64_t n, struct qkv_embed_report *report,
                                                qkv_error *err);

/** Computes the vector of one text, out[width], from hidden[n][D], the last hidden states of its
 *  tokens that qkv_model_run has written for the model of the embedder: the pooling and the modules
 *  after it.  So a run with an observer or with options (struct qkv_run_options) needs no second
 *  run for the vector.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT.
 *  Edge:    n = 0: the vector is zero
 *  Repeats: the bits of qkv_embed_ids of these tokens, if the run had no options */
QKV_API QKV_MUST_CHECK qkv_status qkv_embed_hidden(const qkv_embedder *e, float *out,
                                                   const float *hidden, int64_t n, qkv_error *err);

/** Returns the cosine of the vectors a[n] and b[n]; 0 if one of the vectors is 0. */
QKV_API float qkv_cosine(const float *a, const float *b, int64_t n);

/** Finds the words nearest to sum_i sign[i] * word[i], by the cosine of mean-centred input
 *  embeddings.
 *  Candidates are tokens that are whole words of letters (no "##" parts, no special tokens), except
 *  the words of the input.
 *  Out: ids[want], cosines[want], best first; *found is the number of words found.  In: words[n],
 *  signs[n].
 *  Returns: QKV_OK; QKV_ERR_USAGE (no such token, word vectors whose sum is 0), QKV_ERR_LIMIT,
 *  QKV_ERR_INTERNAL (NaN or Inf in the embeddings).
 *  Source: Mikolov, Yih, Zweig 2013 (NAACL, N13-1090). */
QKV_API QKV_MUST_CHECK qkv_status qkv_analogy(const qkv_model *m, const qkv_tokenizer *t,
                                              int32_t *ids, float *cosines, int64_t *found,
                                              int64_t want, const int32_t *words,
                                              const float *signs, int64_t n, qkv_error *err);

/** A token id with a number: a probability, a log-probability, or a bias. */
struct qkv_token_value {
    int32_t id;
    float value;
};

/** Computes the most likely tokens for each mask of a text ("[MASK]", or the mask token of the
 *  tokenizer).
 *  Out: tokens[most][top] with their probabilities, best first; at[most] the byte offset of each
 *       mask in the text; *masks the number of masks in the text; only the first `most` masks are
 *       computed
 *  Returns: QKV_OK; QKV_ERR_USAGE (no mask, a text that is too long), QKV_ERR_UNSUPPORTED (not a
 *           masked encoder: err names the kind of the model), QKV_ERR_FORMAT, QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_fill(const qkv_model *m, const qkv_tokenizer *t,
                                           struct qkv_token_value *tokens, int64_t *at,
                                           int64_t *masks, int64_t most, int64_t top,
                                           const char *text, size_t bytes, qkv_error *err);

struct qkv_classify_options {
    /** what happens to a text longer than the positions of the model.  true: it is truncated, and
     *  *cut counts the removed tokens; false: the call returns QKV_ERR_USAGE */
    bool truncate;
    bool strict;  /**< true: invalid UTF-8 is QKV_ERR_FORMAT; false: it becomes U+FFFD */
    int64_t *cut; /**< receives the number of tokens removed by truncation; may be NULL */
    struct qkv_progress progress; /**< counts texts */
    int64_t *failed; /**< receives the index of the text that the error is about, -1: of none or
                      *   no error; may be NULL */
};
/** Computes scores[n][labels], the logits of the output head for labels.  A cross-encoder scores
 *  the pairs (texts[i], pairs[i]); every other model scores texts[n], and pairs is NULL.  bytes and
 *  pair_bytes are as in qkv_embed.  o may be NULL.
 *  probabilities, unless NULL, receives the softmax of the scores; if the model has one label, or
 *  its problem_type is multi_label_classification, it receives the logistic function of each score.
 *  Returns: QKV_OK; QKV_ERR_USAGE (also: a text without tokens), QKV_ERR_UNSUPPORTED (no output
 *           head for labels: err names the kind of the model), QKV_ERR_FORMAT, QKV_ERR_LIMIT,
 *           QKV_ERR_INTERRUPTED; of several texts, err->path names the one. */
QKV_API QKV_MUST_CHECK qkv_status qkv_classify(const qkv_model *m, const qkv_tokenizer *t,
                                               float *scores, float *probabilities,
                                               const char *const *texts, const size_t *bytes,
                                               const char *const *pairs, const size_t *pair_bytes,
                                               int64_t n, const struct qkv_classify_options *o,
                                               qkv_error *err);

struct qkv_perplexity_options {
    int64_t window; /**< tokens of a window; 0: the positions of the model, but at most 1024 */
    int64_t stride; /**< tokens between the starts of consecutive windows; 0: half a window */
    bool strict;    /**< true: invalid UTF-8 is QKV_ERR_FORMAT; false: it becomes U+FFFD */
    struct qkv_progress progress; /**< counts tokens */
};
struct qkv_perplexity {
    /** number of tokens of the text; number of predicted tokens; number of windows */
    int64_t tokens, targets, windows;
    double loss, perplexity; /**< mean of -ln p(target) in nats; e^loss */
    double bits_per_byte;    /**< sum of -log2 p(target), divided by the bytes of the text */
    /** number of invalid UTF-8 sequences; byte offset of the first of them */
    int64_t replaced, replaced_at;
};
/** Measures how well a decoder predicts a text.  Each window of tokens starts `stride` tokens after
 *  the preceding one.  Every token counts once, in the first window that contains it, predicted
 *  from the preceding tokens of that window.  The first token of the text counts only if the
 *  tokenizer puts a token before it.  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED (not a decoder), QKV_ERR_FORMAT,
 *           QKV_ERR_LIMIT, QKV_ERR_INTERRUPTED. */
QKV_API QKV_MUST_CHECK qkv_status qkv_perplexity(const qkv_model *m, const qkv_tokenizer *t,
                                                 struct qkv_perplexity *out, const char *text,
                                                 size_t bytes,
                                                 const struct qkv_perplexity_options *o,
                                                 qkv_error *err);

enum qkv_job {
    QKV_JOB_GENERATE = 0,
    QKV_JOB_FILL,
    QKV_JOB_TRANSLATE,
    QKV_JOB_CLASSIFY,
    QKV_JOB_CLASSIFY_TOKENS
};
/** Finds a model folder for a job: dir or QKV_MODEL as in qkv_model_find, but if neither is set,
 *  the first of the searched folders whose model supports the job.  Returns: QKV_OK; the errors of
 *  qkv_model_find. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_find_for(enum qkv_job job, char *out, size_t size,
                                                     char *why, size_t why_size, const char *dir,
                                                     qkv_error *err);

QKV_END_DECLS
#endif
