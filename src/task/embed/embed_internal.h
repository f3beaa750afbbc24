// SPDX-License-Identifier: MIT
// embed_internal.h: declares the steps from texts to vectors: settings of sentence-transformers,
// batches of tokens, pooling.
#ifndef QKV_TASK_EMBED_INTERNAL_H
#define QKV_TASK_EMBED_INTERNAL_H

#include "base/base.h"
#include "model/model.h"
#include <qkv/task.h>

// ---- sentence_modules.c: settings that sentence-transformers stores in a model folder -----------
struct qkv_modules {
    char *model;        // folder of the model: the root, or the folder that modules.json names
    enum qkv_pool pool; // never QKV_POOL_FILE
    bool normalize;
    int64_t max_length; // 0: no limit
    int64_t width;      // width of the rows that pooling expects; 0: not given
};
// Reads modules.json, <pooling>/config.json and sentence_bert_config.json of dir. Without
// modules.json, the settings are: the model in dir, mean pooling, vectors scaled to length 1.
// Returns QKV_ERR_UNSUPPORTED for an unknown module, since it would change the vectors.
qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, qkv_error *err);
void qkv_modules_free(struct qkv_modules *m);

// ---- text_batch.c: batches of tokens from texts -------------------------------------------------
// The packed tokens of several texts.
struct qkv_batch {
    int64_t first, texts; // texts first .. first + texts - 1 of the call
    int64_t *offsets;     // [texts + 1] first token of each text
    int64_t *lengths;     // [texts] number of tokens without padding
    int32_t *ids, *types; // [offsets[texts]] token ids and token types
    int64_t offsets_capacity, lengths_capacity, ids_capacity, types_capacity;
    qkv_status status; // not QKV_OK: the batch could not be made; err has the reason
    qkv_error err;
};
// The texts of a call, and the batches made from them.
struct qkv_feed {
    const qkv_tokenizer *tokenizer;
    const char *const *texts; // [n] texts of bytes[n] bytes (bytes NULL: NUL-terminated), or NULL
    const size_t *bytes;
    const int32_t *ids; // texts NULL: text i is ids[offsets[i] .. offsets[i + 1] - 1]
    const int64_t *offsets;
    int64_t n;
    struct qkv_encode_options how; // options; max_length and truncate apply to ids as well
    int64_t budget;                // maximum tokens of a batch; a longer text is a batch of its own
    bool pad;                      // each text is padded to max_length tokens
    struct qkv_prefetch *ahead;    // prefetcher that can stop the feed; or NULL
    int64_t at;                    // number of texts already in batches
    // text `at` was counted (and tokenized) and did not fit into the budget
    bool waiting;
    qkv_encoding encoding;
    struct qkv_embed_report counted;
    struct qkv_batch batch[2];
};
// Makes the next batch in batch[slot]; called by qkv_prefetch with ctx = the feed.
bool qkv_batch_next(void *ctx, int slot);
void qkv_feed_free(struct qkv_feed *f); // a zeroed struct is allowed

// ---- pooling.c: one vector from the rows of a text ----------------------------------------------
// Pools the rows hidden[n][D], n >= 1, of one text to out[D].
void qkv_pool_rows(float *out, const float *hidden, int64_t n, int64_t D, enum qkv_pool pool);
// Scales x[D] to length 1; a vector of length 0 is unchanged.
void qkv_unit_length(float *x, int64_t D);

// Tokenizes one text with the options of the embedder, which must have a tokenizer.
qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err);
#endif
