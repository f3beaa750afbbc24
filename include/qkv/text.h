// SPDX-License-Identifier: MIT
/** text.h: text to token ids and back, with the place of each token in the text.
 *
 *  Reads tokenizer.json of Hugging Face tokenizers (BPE, Unigram, WordLevel, WordPiece), and writes
 *  one that it learns from texts.
 */
#ifndef QKV_TEXT_H
#define QKV_TEXT_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A tokenizer.json opened; const after open: any number of threads may use it. */
typedef struct qkv_tokenizer qkv_tokenizer;

/** path: tokenizer.json or a folder with it; not kept.
 *  Returns QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT; QKV_ERR_UNSUPPORTED (a component that
 *  would change the tokens and is not known here); QKV_ERR_LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_open(qkv_tokenizer **out, const char *path,
                                                     qkv_error *err);
QKV_API void qkv_tokenizer_close(qkv_tokenizer *t); /**< NULL is fine */

/** A text as tokens.  Owned by the caller, zero before the first use; reuse keeps the memory. */
typedef struct qkv_encoding {
    int64_t count;       /**< tokens, specials and padding included */
    int32_t *ids;        /**< [count] */
    int32_t *types;      /**< [count] token type: 0 first text, 1 second */
    int64_t *begin;      /**< [count] bytes begin .. end - 1 of the token's own text of the pair; */
    int64_t *end;        /**<         begin = end = 0 for specials */
    uint8_t *text;       /**< [count] 0 first text, 1 second, 2 special, 3 padding */
    uint8_t *attend;     /**< [count] 1, or 0 for padding */
    int64_t cut;         /**< tokens that truncation left out */
    int64_t replaced;    /**< places of invalid UTF-8 that became U+FFFD */
    int64_t replaced_at; /**< byte of the first of them */
    int64_t capacity;
} qkv_encoding;
QKV_API void qkv_encoding_free(qkv_encoding *e);

/** Which text of a pair truncation shortens. */
enum qkv_cut {
    QKV_CUT_LONGEST = 0, /**< the longer one first, then both alike */
    QKV_CUT_FIRST,
    QKV_CUT_SECOND
};

/** How to encode; zero is the default. */
struct qkv_encode_options {
    int64_t max_length; /**< tokens with specials; 0: no limit, also not the file's own */
    bool truncate; /**< past max_length: cut as `cut` says; else QKV_ERR_USAGE names both counts */
    bool pad;      /**< fill up to max_length with the padding token */
    bool file_limits; /**< truncate and pad as the file's own sections say: max_length, truncate,
                              pad, cut and the two sides here are not read */
    enum qkv_cut cut;
    bool cut_left;   /**< tokens go from the start of a text instead of its end */
    bool pad_left;   /**< padding comes before the tokens */
    bool no_special; /**< no [CLS], [SEP] around; text that spells a special token is plain text */
    bool strict;     /**< invalid UTF-8 is QKV_ERR_FORMAT with its byte, instead of U+FFFD */
};

/** text[bytes] (and pair[pair_bytes] unless NULL) to tokens.  o may be NULL.  NUL is a character.
 *  Returns QKV_OK; QKV_ERR_USAGE; _FORMAT; _LIMIT (memory, or a regular expression of the file that
 *  would take too long on this text): e holds no tokens. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_encode(const qkv_tokenizer *t, qkv_encoding *e,
                                                       const char *text, size_t bytes,
                                                       const char *pair, size_t pair_bytes,
                                                       const struct qkv_encode_options *o,
                                                       qkv_error *err);

/** The text of ids[n], as the file's decoder joins them; skip_special leaves specials out, ids that
 *  no token has are left out always.
 *  Out: out[size] cut at a character, terminated; *need (may be NULL): bytes of the whole without
 *  the NUL.  Returns QKV_OK (also when cut); QKV_ERR_USAGE; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, char *out,
                                                       size_t size, size_t *need,
                                                       const int32_t *ids, int64_t n,
                                                       bool skip_special, qkv_error *err);

/** Ids to text one by one, as they are generated: what comes out are whole characters that nothing
 *  behind them can change, and all of it together is the text that qkv_tokenizer_decode has of the
 *  same ids.  Text waits for the ids behind it where a decoder needs them: bytes of a character
 *  (ByteLevel) until it is complete, a run of <0x..> bytes (ByteFallback) until it ends, the last
 *  token (BPEDecoder), white space that Strip may take away; all text for WordPiece, CTC or a
 *  regular expression behind Fuse.  One thread at a time. */
typedef struct qkv_decode_stream qkv_decode_stream;

/** t is kept: close it after the stream.  Returns QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_new(qkv_decode_stream **out,
                                                        const qkv_tokenizer *t, bool skip_special,
                                                        qkv_error *err);
/** One id more.  Out: *text, *bytes: what is new, maybe nothing; terminated, the stream's own until
 *  its next call.  Returns QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT (the stream is of no more use). */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_put(qkv_decode_stream *s, int32_t id,
                                                        const char **text, size_t *bytes,
                                                        qkv_error *err);
/** No id follows: what waited (cut-off bytes are U+FFFD).  The stream is as new after it. */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_end(qkv_decode_stream *s, const char **text,
                                                        size_t *bytes, qkv_error *err);
QKV_API void qkv_decode_stream_free(qkv_decode_stream *s); /**< NULL is fine */

QKV_API int64_t qkv_tokenizer_size(const qkv_tokenizer *t); /**< highest id + 1 */
/** Token text as the file has it ("##ing"); NULL: no such id.  Borrowed until close. */
QKV_API const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id);
QKV_API int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token); /**< -1: not there */
QKV_API bool qkv_tokenizer_special(const qkv_tokenizer *t, int32_t id); /**< [CLS], [SEP], ... */
QKV_API const char *qkv_tokenizer_kind(const qkv_tokenizer *t); /**< "BPE", "Unigram", ... */

/** Trains a tokenizer and writes tokenizer.json, as Hugging Face tokenizers reads it.
 *  kind: "bytes", "characters", "bpe" (byte-level), "wordpiece", "unigram". */
struct qkv_tokenizer_training {
    const char *kind;
    int64_t vocab; /**< tokens wanted, specials included; 0: all (characters, bytes) */
    int64_t least; /**< a pair or word seen less often is left alone; 0: 2 */
    const char *const
        *special; /**< [specials] tokens with the ids 0, 1, ... (bytes: 256, 257, ...) */
    int64_t specials;
    bool lowercase; /**< normalise to lower case, accents stripped (wordpiece) */
    const char
        *unknown; /**< wordpiece, unigram, characters: joins special; NULL: [UNK], or <unk> */
    const char *begin,
        *end; /**< put before and after each text by its post-processor, join special; NULL: none */
    struct qkv_progress progress;
};
/** Texts [n] of bytes[n]; writes path (force: over an older one).
 *  Returns QKV_OK; QKV_ERR_USAGE (kind, a vocabulary without room for bytes and specials);
 *  QKV_ERR_FORMAT (no text); QKV_ERR_LIMIT; QKV_ERR_IO; QKV_ERR_INTERRUPTED.
 *  Repeats: the same texts give the same file. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_train(const char *path, const char *const *texts,
                                                      const size_t *bytes, int64_t n,
                                                      const struct qkv_tokenizer_training *how,
                                                      bool force, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
