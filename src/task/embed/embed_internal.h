// SPDX-License-Identifier: MIT
// embed_internal.h: declares the steps from texts to vectors: the settings of
// sentence-transformers, batches of tokens, and pooling.
#ifndef QKV_TASK_EMBED_INTERNAL_H
#define QKV_TASK_EMBED_INTERNAL_H

#include "base/base.h"
#include "model/model.h"
#include <qkv/task.h>

// ---- sentence_modules.c: settings that sentence-transformers stores in a model folder -----------
struct qkv_modules {
    // folder of the model: the folder that modules.json names, or the root folder
    char *model;
    // how rows are pooled; QKV_POOL_FILE is already replaced by the mode in the file
    enum qkv_pool pool;
    bool normalize;
    int64_t max_length; // maximum tokens of a text; 0: no limit
    // width of hidden states that the pooling settings expect; 0: they do not say
    int64_t width;
    // false: the tokens of a prompt are left out of the pooling, which is not supported
    bool include_prompt;
    char *prompt;         // text that is put before each text; NULL: none
    int64_t truncate_dim; // number of elements of a vector that are kept; 0: all
};
// Reads modules.json, <pooling>/config.json, sentence_bert_config.json and
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
void qkv_feed_free(struct qkv_feed *f); // accepts a zeroed struct

// ---- pooling.c: one vector from the rows of a text ----------------------------------------------
// Pools the rows hidden[n][D], n >= 1, of one text to out[D].
void qkv_pool_rows(float *out, const float *hidden, int64_t n, int64_t D, enum qkv_pool pool);
// Scales x[D] to length 1. A vector of length 0 stays unchanged.
void qkv_unit_length(float *x, int64_t D);

// Computes p[n], the softmax of x[n], in double; p may be x (classify.c).
void qkv_label_softmax(float *p, const float *x, int64_t n);

// Tokenizes one text with the options of the embedder, which must have a tokenizer.
qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err);
#endif
