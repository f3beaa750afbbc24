// SPDX-License-Identifier: MIT
/** train.h: models that learn from text: one call trains, another evaluates; a run is a folder that
 *  can be stopped at any moment and continued to the same bits. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where text comes from. */
struct qkv_text_source {
    const char *const *paths; /**< [n] files, folders (all files below), "-": standard input */
    int64_t n;
    const char *format; /**< "text", "jsonl", "tsv"; NULL: by each name's end */
    /** JSONL: members (NULL: "text", and "text_b" or "label"); TSV: numbers of columns (1, 2) */
    const char *field, *field_b;
    bool per_line; /**< text: each line is a document; else a blank line ends one */
};

/** What a run is: zero, and NULL, is the default that the run chooses (docs/training.md); of
 *  numbers that may be 0 themselves, a negative one says so.  When a run is continued: as the run
 *  has it. */
struct qkv_train_options {
    const char *run; /**< folder; made when missing */
    bool resume;     /**< the run must be there; else it is begun, or continued where it is there */
    struct qkv_text_source train, valid; /**< valid.n 0: a share of train */
    double valid_share;                  /**< .01 */

    const char *objective; /**< "causal", "masked", "seq2seq", "contrastive", "classify" */
    const char *from;      /**< model folder to begin with; NULL: from scratch */
    const char *arch;      /**< "gpt", "llama", "bert", "vaswani", "gru-attention" */
    int64_t layers, decoder_layers, heads, kv_heads, width, d_k, d_v, inner;
    const char *norm;       /**< "pre", "post", "both" */
    const char *activation; /**< "relu", "gelu", "gelu-tanh", "silu" */
    int64_t context;        /**< tokens of a sequence at most */
    const char *tokenizer;  /**< a tokenizer.json or its folder, or what is trained from the text:
                                 "bytes", "characters", "bpe", "wordpiece", "unigram" */
    int64_t vocab;          /**< of a tokenizer that is trained */
    bool lowercase;

    int64_t steps;
    double epochs; /**< in place of steps: so many times through the data */
    int64_t batch_tokens, batch_sequences, accumulate;
    const char *optimizer; /**< "adamw", "sgd" */
    const char *schedule;  /**< "cosine", "linear", "inverse-sqrt", "constant" */
    double rate, last;     /**< peak; share of it at the end */
    int64_t warmup;        /**< negative: none */
    double decay, clip, beta1, beta2, eps, momentum;
    double dropout, smoothing, temperature, mask_share;
    const char *precision; /**< "f32", "bf16", ...: of products; weights are floats */
    bool recompute;        /**< activations are made again for backward instead of kept */
    int64_t seed;

    int64_t eval_every, save_every; /**< steps */
    int64_t patience;       /**< evaluations without a better one until it stops; 0: never */
    int64_t probe_every;    /**< 0: no probes */
    const char *probe_text; /**< NULL: the first text of validation */

    bool skip_bad;           /**< a step whose loss or gradient is not finite is left out */
    bool allow_data_change;  /**< a run goes on although its text has changed: it is read anew */
    const char *export_dir;  /**< takes the model at the end (of early stop: the best) */
    const char *export_type; /**< "f32", "bf16", "f16" */
};

/** One step seen from outside; NaN: not known yet. */
struct qkv_train_seen {
    int64_t step, steps;  /**< done; of all */
    double epoch;         /**< times through the data so far */
    int64_t tokens;       /**< targets of this step */
    double tokens_second; /**< rows that were run a second, over the last steps */
    double loss;          /**< mean over the targets of this step */
    double valid_loss;    /**< of the last evaluation */
    double rate, norm;    /**< learning rate; gradient norm before clipping */
    double left;          /**< seconds to the end */
};
struct qkv_train_watch {
    /** After each step; a result other than 0: save and stop with QKV_ERR_INTERRUPTED. */
    int (*step)(void *user, const struct qkv_train_seen *seen);
    /** Something the user may not expect, in one line. */
    void (*note)(void *user, const char *text);
    void *user;
    struct qkv_progress progress; /**< of what comes before the first step */
};
struct qkv_train_result {
    int64_t steps, from_step; /**< done in all; the step it was continued from */
    int64_t parameters;
    double loss;                  /**< of the last step */
    double valid_loss, best_loss; /**< last and least; NaN: never evaluated */
    int64_t best_step;
    int64_t tokens;    /**< targets seen in all */
    double seconds;    /**< of this call */
    int64_t bad_steps; /**< left out because they were not finite */
    bool stopped_early;
    char model[4096]; /**< folder of the newest checkpoint */
};
/** Trains o->run to its end, from its newest checkpoint where there is one.  watch, result may be
 *  NULL.  A run is a folder: run.json (the options, resolved), tokenizer.json, data/, log.jsonl,
 *  probes.jsonl, checkpoint-NNNNNNNN/ (a model folder and more), model (a link to the newest), best
 *  (with patience), lock.  docs/formats.md
 *  Returns:  QKV_OK; QKV_ERR_USAGE (an option; nothing to resume; a folder that is no run);
 *            QKV_ERR_FORMAT (data; other options than the run has; data or checkpoint changed);
 *            QKV_ERR_UNSUPPORTED; QKV_ERR_LIMIT; QKV_ERR_IO (another trainer is at it; the last
 *            save failed); QKV_ERR_INTERRUPTED (saved); QKV_ERR_INTERNAL: the loss is not finite,
 *            the step and the tensor are named, the last finite weights are saved
 *  Repeats:  the same bits for any number of threads, and however often it was stopped and
 *            resumed */
QKV_API QKV_MUST_CHECK qkv_status qkv_train(const struct qkv_train_options *o,
                                            const struct qkv_train_watch *watch,
                                            struct qkv_train_result *result, qkv_error *err);

/** Vectors of words; zero is the default (docs/training.md). */
struct qkv_word_options {
    bool cbow;        /**< continuous bag of words; else skip-gram */
    int64_t width;    /**< numbers of a vector; 100 */
    int64_t window;   /**< words on each side at most; 5 */
    int64_t negative; /**< noise words; 5 */
    int64_t least;    /**< a word seen less often has no vector; 5 */
    int64_t most;     /**< words with a vector, the most frequent; 0: all */
    int64_t epochs;   /**< 5 */
    double rate;      /**< .025 of skip-gram, .1 of CBOW */
    double sample;    /**< how frequent words are left out; 1e-3, negative: they are not */
    int64_t seed;
    bool force; /**< over a model that is there */
    struct qkv_progress progress;
};
struct qkv_word_result {
    int64_t words, vocab; /**< of the text; with a vector */
    double loss;          /**< mean of the last epoch, nats a word that was asked for */
    double seconds;
};
/** Learns vectors of words from texts and writes a model folder that qkv_analogy opens; result may
 *  be NULL.
 *  Returns as qkv_train; what is stopped leaves nothing.  Repeats: the same bits for any number of
 *  threads.
 *  Source: Mikolov et al. 2013 (arXiv 1301.3781, 1310.4546). */
QKV_API QKV_MUST_CHECK qkv_status qkv_train_words(const char *dir,
                                                  const struct qkv_text_source *texts,
                                                  const struct qkv_word_options *o,
                                                  struct qkv_word_result *result, qkv_error *err);

/** What is evaluated. */
struct qkv_eval_options {
    const char *dir; /**< a run (its newest model, its validation text) or a model folder */
    struct qkv_text_source texts; /**< n 0: the run's validation text */
    const char *objective;        /**< NULL: the run's, else by the kind of model */
    const char *precision;
    int64_t context; /**< 0: the run's, else as many as the model has positions, at most 1024; more
                          than these is QKV_ERR_USAGE */
    int64_t batch_tokens; /**< 0: 4096 */
    int beam;             /**< seq2seq: 0: 4; 1: greedy */
    double penalty;       /**< of length: score / length^penalty; 0: 1, negative: none */
    int64_t most;         /**< sources decoded, 0: all */
    int64_t seed;         /**< of the masks of masked models; 0: the run's; negative: 0 */
    /** [ablations] heads to do without, ZERO or UNIFORM; a MEAN is QKV_ERR_UNSUPPORTED. */
    const struct qkv_ablation *ablate;
    int64_t ablations;
};
/** One source with what the model made of it. */
struct qkv_eval_example {
    const char *source, *output;
    const char *const *references; /**< [n_references] every target this source has */
    int64_t n_references;
    bool right; /**< output is one of them */
    /** Where each token of the output (its end included) looked: heads of the last layer, averaged
     *  [out_tokens][source_tokens].  NULL: a model without such weights. */
    const float *alignment;
    int64_t out_tokens, source_tokens;
    const char *const *out_token, *const *source_token; /**< their texts */
};
struct qkv_eval_watch {
    /** seq2seq: each source, in order; a result other than 0 stops: QKV_ERR_INTERRUPTED. */
    int (*example)(void *user, const struct qkv_eval_example *e);
    void *user;
    bool alignment; /**< example wants it */
    struct qkv_progress progress;
};
/** Numbers that an objective does not have are NaN. */
struct qkv_eval_result {
    const char *objective;
    int64_t sequences, targets;
    double loss, perplexity; /**< nats a target, without smoothing; e^loss */
    double bits_per_byte;    /**< causal: of the text */
    double accuracy;  /**< targets that were the likeliest; classify: labels; contrastive: a pair's
                          second text is the nearest of its batch */
    double retrieval; /**< contrastive: share of texts whose nearest of all seconds is their own */
    int64_t sources;  /**< seq2seq: decoded, each once */
    double exact;     /**< share of outputs that are one of the references */
    double token_errors,
        character_errors; /**< edits to the nearest reference, a token (split at white
                                                space) or a character of it */
    double seconds;
};
/** Evaluates; watch may be NULL.  Returns as qkv_train. */
QKV_API QKV_MUST_CHECK qkv_status qkv_evaluate(const struct qkv_eval_options *o,
                                               const struct qkv_eval_watch *watch,
                                               struct qkv_eval_result *result, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
