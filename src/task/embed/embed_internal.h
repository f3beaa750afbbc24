// SPDX-License-Identifier: MIT
// embed_internal.h: declares the steps from texts to vectors: the settings of
// sentence-transformers, batches of tokens, and pooling.
#ifndef QKV_TASK_EMBED_INTERNAL_H
#define QKV_TASK_EMBED_INTERNAL_H

#include "base/base.h"
#include "model/model.h"
#include "text/text.h"
#include <qkv/task.h>

// ---- vector_steps.c: the modules of sentence-transformers after the pooling ---------------------
enum qkv_step_kind { QKV_STEP_NORMALIZE = 0, QKV_STEP_DENSE, QKV_STEP_LAYER_NORM };
struct qkv_step {
    enum qkv_step_kind kind;
    char *dir;       // folder of the module, for messages
    int64_t in, out; // widths of its input and of its result; 0: any (Normalize)
    // true: it keeps a sum over tokens a sum over tokens, except for its length: it is Normalize,
    // or linear without a bias
    bool sums_tokens;
    qkv_packed *linear, *residual; // Dense; residual NULL: none
    bool adds_input;               // Dense: the input is added to the result
    double (*activation)(double);  // Dense; NULL: none
    float *scale, *shift;          // LayerNorm, [in]
};
struct qkv_steps {
    struct qkv_step *at;
    int64_t count, capacity;
};
// Reads the module in the folder `dir` and appends it to the list; dir NULL: it is a Normalize
// without a folder. err must be zeroed and must not be NULL.
qkv_status qkv_steps_add(struct qkv_steps *list, enum qkv_step_kind kind, const char *dir,
                         qkv_error *err);
// Checks that each module reads what the preceding one writes. *width is the width of the input of
// the list and receives that of its result; *widest receives the largest width.
qkv_status qkv_steps_width(const struct qkv_steps *list, int64_t *width, int64_t *widest,
                           qkv_error *err);
// Applies the first `count` modules to R vectors, (*rows)[R][width]. *other is memory for R of the
// widest vectors, as is *rows; a call may swap the two: the result is in *rows.
qkv_status qkv_steps_run(const struct qkv_steps *list, int64_t count, float **rows, float **other,
                         int64_t R, int64_t width);
// Returns true if every module of the list is of this kind.
bool qkv_steps_are(const struct qkv_steps *list, enum qkv_step_kind kind);
void qkv_steps_free(struct qkv_steps *list);

// ---- sentence_modules.c: settings that sentence-transformers stores in a model folder -----------
enum { QKV_POOLS_MOST = 16 };
struct qkv_modules {
    // folder of the model: the folder that modules.json names, or the root folder
    char *model;
    // how rows are pooled; the vectors of several poolings are concatenated. QKV_POOL_FILE is
    // already replaced by the mode in the file
    enum qkv_pool pools[QKV_POOLS_MOST];
    int pool_count;
    struct qkv_steps steps; // the modules after the pooling
    int64_t max_length;     // maximum tokens of a text; 0: no limit
    bool lowercase;         // texts are converted to lower case before they are tokenized
    // width of hidden states that the pooling settings expect; 0: they do not say
    int64_t width;
    bool include_prompt;  // false: the tokens of the prompt are left out of the pooling
    char *prompt;         // text that is put before each text; NULL: none
    int64_t truncate_dim; // number of elements of a vector that are kept; 0: all
};
// Reads modules.json and the modules that it names, sentence_bert_config.json and
// config_sentence_transformers.json of dir. prompt: name of a prompt, as in struct
// qkv_embedder_options. If modules.json does not exist, the settings are: the model in dir, mean
// pooling, vectors scaled to length 1. Returns QKV_ERR_UNSUPPORTED for an unknown module, which
// would change the vectors.
qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, const char *prompt,
                            qkv_error *err);
void qkv_modules_free(struct qkv_modules *m);

// ---- text_batch.c: batches of tokens from texts -------------------------------------------------
// The packed tokens of several texts.
struct qkv_batch {
    int64_t first, texts; // the batch has the texts first .. first + texts - 1 of the call
    int64_t *offsets;     // [texts + 1] first token of each text
    int64_t *lengths;     // [texts] number of tokens without padding
    int32_t *ids, *types; // [offsets[texts]] token ids and token types
    int64_t offsets_capacity, lengths_capacity, ids_capacity, types_capacity;
    qkv_status status; // QKV_OK, or why the batch could not be made; err has the message
    qkv_error err;
};
// The texts of a call, and the batches made from them.
struct qkv_feed {
    const qkv_tokenizer *tokenizer;
    // [n] texts, with bytes[n] lengths; bytes NULL: the texts end with NUL; texts NULL: see ids
    const char *const *texts;
    const size_t *bytes;
    const char *prompt; // text that is put before each text; NULL: none
    char *joined;       // the prompt with the current text
    int64_t joined_capacity;
    const int32_t *ids; // used if texts is NULL: text i is ids[offsets[i] .. offsets[i + 1] - 1]
    const int64_t *offsets;
    int64_t n;
    // options of tokenization; max_length and truncate apply to ids too
    struct qkv_encode_options how;
    int64_t budget; // maximum tokens of a batch; a longer text is a batch of its own
    bool pad;       // true: each text is padded to max_length tokens
    // the prefetcher that makes batches in advance and can stop; or NULL
    struct qkv_prefetch *ahead;
    int64_t at; // index of the first text that is in no batch yet
    // true: text `at` is already counted and tokenized, but did not fit into the last batch
    bool waiting;
    qkv_encoding encoding;
    struct qkv_embed_report counted;
    struct qkv_batch batch[2];
};
// Makes the next batch in f->batch[slot]. ctx is the struct qkv_feed f; qkv_prefetch calls this
// function.
bool qkv_batch_next(void *ctx, int slot);
// Replaces *text by the prompt of the feed with the text, which the feed then owns. Returns false
// if memory is exhausted.
bool qkv_join_prompt(struct qkv_feed *f, const char **text, size_t *bytes);
void qkv_feed_free(struct qkv_feed *f); // accepts a zeroed struct

// ---- pooling.c: one vector from the rows of a text ----------------------------------------------
// Pools the rows hidden[skip .. n-1][D], n >= 1, of one text to out[D]. Without such a row the
// result is row 0 for QKV_POOL_CLS, otherwise zeros.
void qkv_pool_rows(float *out, const float *hidden, int64_t skip, int64_t n, int64_t D,
                   enum qkv_pool pool);
// Returns the weight of a row in the sum that a pooling to a mean forms.
double qkv_pool_weight(enum qkv_pool pool, int64_t row);
// Scales x[D] to length 1. A vector of length 0 stays unchanged.
void qkv_unit_length(float *x, int64_t D);

// Computes p[n], the softmax of x[n], in double; p may be x (classify.c).
void qkv_label_softmax(float *p, const float *x, int64_t n);

// How the vector v of a text is a sum over its tokens, if it is one except for its length:
//   v = L(sum_r weight(r) h_r),   L linear without a bias: the Dense modules
struct qkv_sum {
    enum qkv_pool pool;    // weight(r) is qkv_pool_weight(pool, r) ...
    int64_t skip;          // ... but 0 for r < skip
    int64_t whole, widest; // elements of L(h), and the most between the modules
};
// Returns QKV_OK, or QKV_ERR_UNSUPPORTED with the reason why the vectors of e are no such sums.
qkv_status qkv_embedder_sum(const qkv_embedder *e, struct qkv_sum *sum, qkv_error *err);
// Returns QKV_OK if the vectors of e are sums over tokens in the sense of qkv_shares (lens.h), with
// sum->pool the pooling; else QKV_ERR_UNSUPPORTED with the reason.
qkv_status qkv_embedder_parts(const qkv_embedder *e, struct qkv_sum *sum, qkv_error *err);
// Applies L to R hidden states; rows and other are as in qkv_steps_run.
qkv_status qkv_embedder_map(const qkv_embedder *e, float **rows, float **other, int64_t R);

// Tokenizes one text, after the prompt, with the options of the embedder, which must have a
// tokenizer.
qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err);

// ---- files_digest.c ----------------------------------------------------------------------------
// Computes the SHA-256 of the lines "SHA256  NAME", one per file of `paths` (each with NUL), sorted
// by name.  The name of a file in `dir` is its path from there; of others the last component.
qkv_status qkv_files_digest(char hex[QKV_SHA256_TEXT], const char *dir,
                            const struct qkv_text_buffer *paths, qkv_error *err);
#endif
