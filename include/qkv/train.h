// SPDX-License-Identifier: MIT
/** train.h: trains models on text and evaluates them.  A run is a folder; it can be stopped at
 *  any moment and continued with bit-identical results. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/model.h>
#include <qkv/ranks.h>

QKV_BEGIN_DECLS

/** Returns the names of the architectures that can be trained from random weights, for `arch` of
 *  qkv_train_options; the list ends with NULL. */
QKV_API const char *const *qkv_train_architectures(void);

/** The files from which texts are read, and their format. */
struct qkv_text_source {
    /** [n] paths of files or folders; a folder means all files below it, and "-" means standard
     *  input */
    const char *const *paths;
    int64_t n;
    /** format of the files: "text", "jsonl" or "tsv"; NULL: by the ending of each file name */
    const char *format;
    /** field selects the text, field_b the second text or the label.  In JSONL each is the name of
     *  a member (field NULL: "text"; field_b NULL: "text_b" or "label"); in TSV each is the number
     *  of a column (field NULL: 1; field_b NULL: 2) */
    const char *field, *field_b;
    /** documents of text files.  true: each line is a document; false: blank lines separate
     *  documents */
    bool per_line;
};

/** Options of a training run.  Zero or NULL means the default (docs/training.md) or, if an existing
 *  run is continued, the value of that run.  Where 0 is itself a valid value, a negative number
 *  means 0. */
struct qkv_train_options {
    const char *run; /**< folder of the run; created if missing */
    /** true: continue the run, which must exist; false: continue the run if it exists, otherwise
     *  start a new run */
    bool resume;
    /** texts for training and for validation; with valid.n = 0, a share of the training texts is
     *  used for validation */
    struct qkv_text_source train, valid;
    double valid_share; /**< share of the training texts that is used for validation; default .01 */

    /** training objective: "causal", "masked", "seq2seq", "contrastive", "classify"; NULL: by the
     *  architecture, or contrastive if `from` contains modules.json and all texts are .tsv files.
     *  Contrastive training from a folder with other modules than mean pooling and Normalize
     *  returns QKV_ERR_UNSUPPORTED */
    const char *objective;
    const char *from; /**< model folder with the initial weights; NULL: random weights */
    const char *arch; /**< architecture: "gpt", "vaswani", ... (net.def) */
    int64_t layers, decoder_layers, heads, kv_heads, width, d_k, d_v, inner;
    const char *norm;       /**< position of the norms: "pre", "post", "both" */
    const char *activation; /**< activation: "relu", "gelu", "gelu-tanh", "silu", "tanh" */
    int64_t context;        /**< the most tokens of a sequence */
    /** path of a tokenizer file or its folder, in any format of qkv_tokenizer_open, or kind of a
     *  tokenizer to train on the text: "bytes", "characters", "bpe", "wordpiece", "unigram" */
    const char *tokenizer;
    int64_t vocab; /**< vocabulary size of a tokenizer to train */
    bool lowercase;

    int64_t steps;
    double epochs; /**< number of passes through the data; give either steps or epochs */
    int64_t batch_tokens, batch_sequences, accumulate;
    const char *optimizer; /**< optimizer: "adamw", "sgd" */
    /** schedule of the learning rate: "cosine", "linear", "inverse-sqrt", "constant" */
    const char *schedule;
    double rate, last; /**< peak learning rate; final learning rate as a share of the peak */
    int64_t warmup;    /**< number of warmup steps; negative: no warmup */
    double decay, clip, beta1, beta2, eps, momentum;
    double dropout, smoothing, temperature, mask_share;
    const char *precision; /**< precision of the products: "f32", "bf16", ...; weights are floats */
    bool recompute;        /**< recompute activations in backward instead of storing them */
    int64_t seed;

    int64_t eval_every, save_every; /**< steps between evaluations; steps between checkpoints */
    /** Checkpoints that stay, in addition to the best: the last keep_last ones (0: two; negative:
     *  all) and, if keep_every > 0, one every keep_every steps, which is saved for this purpose
     *  whatever save_every is. */
    int64_t keep_last, keep_every;
    /** number of evaluations without improvement after which training stops; 0: never stop early */
    int64_t patience;
    int64_t probe_every;    /**< steps between attention probes; 0: no probes */
    const char *probe_text; /**< text for the probes; NULL: the first validation text */

    bool skip_bad;          /**< skip steps whose loss or gradient is not finite */
    bool allow_data_change; /**< continue a run whose texts have changed, with the new texts */
    /** folder for the final model (after an early stop: the best model), written as a whole.
     *  QKV_ERR_USAGE if it is neither new nor empty, unless export_force is set and it is a model
     *  folder, which is replaced with all that is in it */
    const char *export_dir;
    bool export_force;
    const char *export_type; /**< type of the weights in export_dir: "f32", "bf16", "f16" */
    /** The processes that train the run together (qkv/ranks.h), which all call qkv_train with equal
     *  options; NULL: this process alone.  Of the `accumulate` batches of a step each rank computes
     *  consecutive ones, and updates a part of the weights, of which alone it has the moments.  The
     *  folder of the run is visible to all; rank 0 writes it.  The observer of rank 0 is called */
    const struct qkv_comm *ranks;
    /** ranks that share the rows of each batch, so that a long context needs less memory on each; a
     *  divisor of the number of ranks: groups of as many consecutive ranks train in parallel.
     *  0: 1.  QKV_ERR_USAGE or QKV_ERR_UNSUPPORTED: more than 1 with a context of at most 768
     *  tokens, with probe_every, or with a model that is no decoder, has relative positions, or
     *  has layers that share their weights.  collect_limit of `ranks` limits the keys and values of
     *  a layer that a rank collects; it changes no bit */
    int64_t context_ranks;
};

/** Progress after one training step, for an observer; a number that is not known yet is NaN. */
struct qkv_train_step {
    int64_t step, steps;  /**< number of steps done; number of steps of the run */
    double epoch;         /**< passes through the data so far */
    int64_t tokens;       /**< target tokens of this step */
    double tokens_second; /**< rows computed per second, over the last steps */
    double loss;          /**< mean loss over the target tokens of this step */
    double valid_loss;    /**< validation loss of the last evaluation */
    double rate, norm;    /**< learning rate; gradient norm before clipping */
    double left;          /**< estimated seconds until the end */
};
struct qkv_train_observer {
    /** Called after each step.  A result other than 0 saves the run and stops it with
     *  QKV_ERR_INTERRUPTED. */
    int (*step)(void *user, const struct qkv_train_step *seen);
    /** Receives a one-line note about an unexpected situation. */
    void (*note)(void *user, const char *text);
    void *user;
    struct qkv_progress progress; /**< progress of the work before the first step */
};
struct qkv_train_result {
    /** number of steps done in total; number of steps done before this call */
    int64_t steps, from_step;
    int64_t parameters;
    double loss;                  /**< loss of the last step */
    double valid_loss, best_loss; /**< last and lowest validation loss; NaN: never evaluated */
    int64_t best_step;
    int64_t tokens;    /**< target tokens in total */
    double seconds;    /**< seconds of this call */
    int64_t bad_steps; /**< skipped steps whose loss or gradient was not finite */
    bool stopped_early;
    char model[4096]; /**< folder of the newest checkpoint */
};
/** Trains the run in the folder o->run to its end, starting from its newest checkpoint if it has a
 *  checkpoint.  observer and result may be NULL.  The folder of a run has the files run.json (all
 *  options with their values), tokenizer.json or the files of a tokenizer in another format, under
 *  the names of qkv_tokenizer_file(), data/, log.jsonl, probes.jsonl, checkpoint-NNNNNNNN/
 *  (a model folder and the state of training), model (a link to the newest checkpoint), best (only
 *  with patience) and lock; docs/formats.md describes these files.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (an invalid option; no run to resume; a folder that is not a
 *            run); QKV_ERR_FORMAT (malformed data; options that differ from the options of the run;
 *            data or a checkpoint that has changed); QKV_ERR_UNSUPPORTED; QKV_ERR_LIMIT; QKV_ERR_IO
 *            (another process trains this run; the last save failed); QKV_ERR_INTERRUPTED (the run
 *            is saved); QKV_ERR_INTERNAL (the loss is not finite; err names the step and the
 *            tensor, and the last finite weights are saved)
 *  Repeats:  bit-identical for any number of threads and of ranks, and for any number of stops and
 *            resumes, also with another number of ranks: the gradients of the `accumulate` batches
 *            are added up in a binary tree, which depends on `accumulate` only; for decoders with
 *            a context of more than 768 tokens, the gradients of a batch in a binary tree of blocks
 *            of rows, which depends on the lengths of its sequences only */
QKV_API QKV_MUST_CHECK qkv_status qkv_train(const struct qkv_train_options *o,
                                            const struct qkv_train_observer *observer,
                                            struct qkv_train_result *result, qkv_error *err);

/** Writes the text on which a run is shown: its probe_text or, without one, the first 24 tokens of
 *  its first validation text, decoded; of the objective seq2seq the first validation pair, source
 *  and target.
 *  Out:     text[size]; second[second_size]: the target of a pair, otherwise "".  Both are
 *           NUL-terminated and truncated at a character boundary
 *  Returns: QKV_OK; QKV_ERR_USAGE (also if run is not the folder of a run); QKV_ERR_FORMAT (data
 *           that has changed); QKV_ERR_LIMIT; QKV_ERR_IO */
QKV_API QKV_MUST_CHECK qkv_status qkv_train_text(const char *run, char *text, size_t size,
                                                 char *second, size_t second_size, qkv_error *err);

/** Options of qkv_train_words; zero is the default (docs/training.md). */
struct qkv_word_options {
    bool cbow;        /**< true: continuous bag of words; false: skip-gram */
    int64_t width;    /**< dimensions of a vector; default 100 */
    int64_t window;   /**< the most context words on each side; default 5 */
    int64_t negative; /**< number of noise words per pair of words (negative sampling); default 5 */
    int64_t least;    /**< minimum count of a word that gets a vector; default 5 */
    int64_t most;     /**< maximum number of words, the most frequent first; 0: all words */
    int64_t epochs;   /**< passes through the text; default 5 */
    double rate;      /**< initial learning rate; default .025 for skip-gram, .1 for CBOW */
    /** threshold of the subsampling of frequent words; default 1e-3; negative: no subsampling */
    double sample;
    int64_t seed;
    bool force; /**< replace an existing model */
    struct qkv_progress progress;
};
struct qkv_word_result {
    int64_t words, vocab; /**< number of words in the text; number of words with a vector */
    double loss;          /**< mean loss of the last epoch in nats per predicted word */
    double seconds;
};
/** Trains word vectors on texts and writes a model folder, which qkv_model_open opens for
 *  qkv_analogy; result may be NULL.
 *  Returns: as qkv_train; an interrupted call writes no file.
 *  Repeats: bit-identical for any number of threads.
 *  Source: Mikolov et al. 2013 (arXiv 1301.3781, 1310.4546). */
QKV_API QKV_MUST_CHECK qkv_status qkv_train_words(const char *dir,
                                                  const struct qkv_text_source *texts,
                                                  const struct qkv_word_options *o,
                                                  struct qkv_word_result *result, qkv_error *err);

/** Options of qkv_evaluate; zero is the default. */
struct qkv_eval_options {
    /** folder of a run, whose newest model and validation text are used, or a model folder */
    const char *dir;
    /** texts to evaluate on; with texts.n = 0, the run's validation text */
    struct qkv_text_source texts;
    /** objective; NULL: the objective of the run, or for a model folder the objective that fits the
     *  kind of the model */
    const char *objective;
    const char *precision; /**< precision of the model; NULL: "f32" */
    /** tokens of a sequence; more than the positions of the model is QKV_ERR_USAGE.  0: as in the
     *  run, or for a model folder the positions of the model, but at most 1024 */
    int64_t context;
    int64_t batch_tokens; /**< tokens of a batch; 0: 4096 */
    /** number of beams of the beam search of seq2seq; 0 means 4; 1: greedy search */
    int beam;
    /** exponent of the length by which the score of a beam is divided; 0 means 1; negative: no
     *  division */
    double penalty;
    int64_t most; /**< the most sources to decode; 0: all sources */
    /** seed of the masks for masked models; 0: the seed of the run; negative: seed 0 */
    int64_t seed;
    /** [ablations] heads to ablate (qkv_model_ablate) */
    const struct qkv_ablation *ablate;
    int64_t ablations;
};
/** One source text with the output of the model. */
struct qkv_eval_example {
    const char *source, *output;
    const char *const *references; /**< [n_references] all targets of this source */
    int64_t n_references;
    bool right; /**< the output equals one of the references */
    /** [out_tokens][source_tokens] attention weights of each output token, including the end token,
     *  over the source tokens, as the mean over the heads of the last layer.  NULL: the observer
     *  did not request the alignment. */
    const float *alignment;
    int64_t out_tokens, source_tokens;
    /** [out_tokens] and [source_tokens] texts of the tokens */
    const char *const *out_token, *const *source_token;
};
struct qkv_eval_observer {
    /** seq2seq: called for each source in order; a result other than 0 stops the call with
     *  QKV_ERR_INTERRUPTED. */
    int (*example)(void *user, const struct qkv_eval_example *e);
    void *user;
    bool alignment; /**< compute the alignment of each example */
    struct qkv_progress progress;
};
/** The results of an evaluation; numbers that do not apply to the objective are NaN. */
struct qkv_eval_result {
    const char *objective;
    int64_t sequences, targets;
    double loss, perplexity; /**< mean loss in nats per target, without label smoothing; e^loss */
    double bits_per_byte;    /**< causal: bits per byte of the text */
    /** share of correct predictions.  classify: correct labels.  contrastive: first texts of a pair
     *  whose nearest second text in the batch is the second text of the same pair.  Other
     *  objectives: target tokens whose logit is the largest */
    double accuracy;
    /** contrastive: share of first texts whose nearest second text, among the second texts of all
     *  pairs, is the second text of the same pair */
    double retrieval;
    /** seq2seq: number of decoded sources; a source with several references counts once */
    int64_t sources;
    double exact; /**< seq2seq: share of outputs that equal one of the references */
    /** seq2seq: number of edits that turn an output into its nearest reference, per token
     *  (separated by white space) and per character of that reference */
    double token_errors, character_errors;
    double seconds;
};
/** Evaluates a model; observer may be NULL.  Returns: as qkv_train. */
QKV_API QKV_MUST_CHECK qkv_status qkv_evaluate(const struct qkv_eval_options *o,
                                               const struct qkv_eval_observer *observer,
                                               struct qkv_eval_result *result, qkv_error *err);

QKV_END_DECLS
#endif
