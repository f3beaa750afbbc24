// SPDX-License-Identifier: MIT
/** train.h: models that learn from text: one call trains, another evaluates; a run is a folder that can be
 *  stopped at any moment and continued to the same bits. */
#ifndef QKV_TRAIN_H
#define QKV_TRAIN_H

#include <qkv/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Trains a tokenizer and writes tokenizer.json, as Hugging Face tokenizers reads it.
 *  kind: "bytes", "characters", "bpe" (byte-level), "wordpiece", "unigram". */
struct qkv_tokenizer_training {
    const char *kind;
    int64_t vocab;              /**< tokens wanted, specials included */
    int64_t least;              /**< a pair or word seen less often is left alone; 0: 2 */
    const char *const *special; /**< [specials] tokens with the ids 0, 1, ... */
    int64_t specials;
    bool lowercase; /**< normalise to lower case, accents stripped (wordpiece) */
    const char
        *unknown; /**< wordpiece, unigram, characters: one of special; NULL: its own default */
    const char *begin,
        *end; /**< put before and after each text by its post-processor; NULL: none */
    struct qkv_progress progress;
};
/** Texts [n] of bytes[n]; writes path (force: over an older one).
 *  Returns QKV_OK; QKV_ERR_USAGE (kind, a vocabulary smaller than its alphabet); QKV_ERR_FORMAT (no text);
 *  QKV_ERR_LIMIT; QKV_ERR_IO; QKV_ERR_INTERRUPTED.  Repeats: the same texts give the same file. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_train(const char *path, const char *const *texts,
                                                      const size_t *bytes, int64_t n,
                                                      const struct qkv_tokenizer_training *how,
                                                      bool force, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
