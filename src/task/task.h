// SPDX-License-Identifier: MIT
// task.h: the door of room task: whole jobs, made of models and tokenizers.
#ifndef QKV_ROOM_TASK_H
#define QKV_ROOM_TASK_H

#include "base/base.h"
#include "model/model.h"
#include <pthread.h>
#include <qkv/ablate.h>
#include <qkv/train.h>
#include <stdatomic.h>

// ---- modules.c: what sentence-transformers writes beside a model --------------------------------
struct qkv_modules {
    char *model;        // folder of the model: the root, or the one modules.json names
    enum qkv_pool pool; // never QKV_POOL_FILE
    bool normalize;
    int64_t max_length; // 0: not said
    int64_t width;      // of the rows that pooling expects, 0: not said
};
// Reads modules.json, <pooling>/config.json and sentence_bert_config.json of dir.  Without
// modules.json: dir itself, mean, length 1.  What changes the vectors and is not known here is
// QKV_ERR_UNSUPPORTED, never left out in silence.
qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, qkv_error *err);
void qkv_modules_free(struct qkv_modules *m);

// ---- ahead.c: pieces made one ahead -------------------------------------------------------------
struct qkv_ahead {
    bool (*make)(void *ctx, int slot);
    void *ctx;
    pthread_t thread; // with its lock only when threaded
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool stop;
    bool threaded;
    bool full[2]; // made and not yet left by the caller
    int slot;     // the caller's; -1: none yet
    int last;     // slot of the last piece, once it is made; -1 before
};
// make(ctx, slot) makes the next piece, in slot 0, 1, 0, ...; false: it is the last.  It runs here,
// or on a thread beside where qkv_threads_beside() says so, never twice at once.  begin .. next ..
// next .. end.
void qkv_ahead_begin(struct qkv_ahead *a, bool (*make)(void *ctx, int slot), void *ctx);
// The slot of the next piece, which stays the caller's until the next call; -1: the last one is
// past.
int qkv_ahead_next(struct qkv_ahead *a);
bool qkv_ahead_stopped(struct qkv_ahead *a); // for make: nobody waits for what it does
void qkv_ahead_end(struct qkv_ahead *a);     // at any time; waits for a piece being made

// ---- batch.c: texts to batches of tokens --------------------------------------------------------
// Tokens that wait for their run.
struct qkv_batch {
    int64_t first, texts; // texts first .. first + texts - 1 of the call
    int64_t *offsets;     // [texts + 1]
    int64_t *lengths;     // [texts] tokens that are not padding
    int32_t *ids, *types; // [offsets[texts]]
    int64_t offsets_capacity, lengths_capacity, ids_capacity, types_capacity;
    qkv_status status; // other than QKV_OK: there is no batch, err says why
    qkv_error err;
};
// What a call was given, and how far it has come.
struct qkv_feed {
    const qkv_tokenizer *tokenizer;
    const char *const *texts; // [n] with bytes[n] (NULL: up to NUL); or
    const size_t *bytes;
    const int32_t *ids; // texts NULL: text i is ids[offsets[i] .. offsets[i + 1] - 1]
    const int64_t *offsets;
    int64_t n;
    struct qkv_encode_options how; // max_length and truncate are for ids too
    int64_t budget;                // tokens of a batch; a longer text is a batch of its own
    bool pad;                      // each text takes max_length tokens
    struct qkv_ahead *ahead;       // who may stop it, or NULL
    int64_t at;                    // texts that are in batches
    bool waiting;                  // text `at` is counted (and tokenised) and had no room
    qkv_encoding encoding;
    struct qkv_embed_report counted;
    struct qkv_batch batch[2];
};
// The next batch into batch[slot], for qkv_ahead; ctx: the feed.
bool qkv_batch_next(void *ctx, int slot);
void qkv_feed_free(struct qkv_feed *f); // what it took; a zeroed struct is fine

// ---- pool.c: rows of a text to one vector -------------------------------------------------------
// out[D] of hidden[n][D], n >= 1.
void qkv_pool_rows(float *out, const float *hidden, int64_t n, int64_t D, enum qkv_pool pool);
// x[D] to length 1; a vector of length 0 stays.
void qkv_unit_length(float *x, int64_t D);

// ---- embedder.c ---------------------------------------------------------------------------------
// One text as the embedder's own calls tokenise it; it was opened with a tokenizer.
qkv_status qkv_embedder_encode(const qkv_embedder *e, qkv_encoding *to, const char *text,
                               size_t bytes, qkv_error *err);

#include "task/data.h"
#include "task/optim.h"
#include "task/words.h"
#endif
