// SPDX-License-Identifier: MIT
/** text.h: converts text to token ids, with the byte range of each token in the text, and token ids
 *  back to text.
 *
 *  It reads tokenizer.json of Hugging Face tokenizers (BPE, Unigram, WordLevel, WordPiece), models
 *  of SentencePiece and Marian, vocabularies of WordPiece and GPT-2, and tokenizers of llama2.c,
 *  and writes tokenizers trained from texts as tokenizer.json.
 */
#ifndef QKV_TEXT_H
#define QKV_TEXT_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** An opened tokenizer.  It does not change after open, so any number of threads may use it at the
 *  same time. */
typedef struct qkv_tokenizer qkv_tokenizer;

/** Opens the tokenizer at path, which is not referenced after the call:
 *    a folder                 the first file of qkv_tokenizer_file() that the folder contains
 *    FILE.model, FILE.spm     SentencePiece; FILE.spm next to vocab.json: one side of Marian
 *    vocab.json               byte-level BPE, if merges.txt is in the same folder
 *    FILE.txt                 WordPiece, one token per line
 *    FILE.bin                 llama2.c: a tokenizer if the name begins with "tok", otherwise a
 *                             checkpoint, whose folder contains its tokenizer
 *    another name             tokenizer.json of Hugging Face tokenizers
 *  Settings are read from tokenizer_config.json in the same folder, if the format has none of its
 *  own; docs/formats.md lists them.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT; QKV_ERR_UNSUPPORTED (an unknown
 *           component that would change the tokens); QKV_ERR_LIMIT.  After an error *out is
 *           NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_open(qkv_tokenizer **out, const char *path,
                                                     qkv_error *err);
QKV_API void qkv_tokenizer_close(qkv_tokenizer *t); /**< NULL is fine */

/** Returns the name of the n-th tokenizer file, n >= 0, in the order in which qkv_tokenizer_open
 *  looks for them in a folder: "tokenizer.json", ...; NULL if n is negative or past the last.
 *  Out: *second (may be NULL): the name of the file that the reader of this file opens too, in the
 *       same folder, such as "merges.txt" for "vocab.json"; NULL if there is none. */
QKV_API const char *qkv_tokenizer_file(int n, const char **second);

/** The tokens of a text or of a pair of texts.  The caller owns this struct, zeroes it before the
 *  first use and frees it with qkv_encoding_free; later calls reuse its memory. */
typedef struct qkv_encoding {
    int64_t count; /**< number of tokens, with special tokens and padding */
    int32_t *ids;  /**< [count] token ids */
    /** [count] token types, as the post-processor of the tokenizer file sets them */
    int32_t *types;
    /** [count] start of the byte range [begin, end) of each token in the text that contains it; 0
     *  for special tokens */
    int64_t *begin;
    int64_t *end; /**< [count] end of the byte range of each token; 0 for special tokens */
    /** [count] origin of each token: 0 first text, 1 second text, 2 special token, 3 padding */
    uint8_t *text;
    uint8_t *attend;     /**< [count] attention mask: 0 for padding, 1 for all other tokens */
    int64_t cut;         /**< number of tokens removed by truncation */
    int64_t replaced;    /**< number of invalid UTF-8 sequences that were replaced by U+FFFD */
    int64_t replaced_at; /**< byte offset of the first replaced sequence */
    /** number of characters left out, because neither the vocabulary has a token for them nor the
     *  tokenizer an unknown token (BPE, as in Hugging Face tokenizers) */
    int64_t dropped;
    int64_t dropped_at; /**< byte offset of the first word with such a character */
    int64_t capacity;
} qkv_encoding;
QKV_API void qkv_encoding_free(qkv_encoding *e); /**< NULL is fine */

/** The text of a pair that truncation shortens. */
enum qkv_cut {
    QKV_CUT_LONGEST = 0, /**< the longer text, until both texts are equally long, then both */
    QKV_CUT_FIRST,
    QKV_CUT_SECOND
};

/** The most padding tokens of an encoding; more are QKV_ERR_LIMIT. */
enum { QKV_PADDING_MOST = 1 << 24 };

/** Options of qkv_tokenizer_encode; zero is the default. */
struct qkv_encode_options {
    /** the most tokens of the encoding, including special tokens; 0: no limit, not even the limit
     *  in the tokenizer file */
    int64_t max_length;
    /** what happens to more than max_length tokens.  true: they are truncated as `cut` says; false:
     *  the call returns QKV_ERR_USAGE, and err has both numbers */
    bool truncate;
    bool pad; /**< pad to max_length with at most QKV_PADDING_MOST padding tokens */
    /** truncate and pad as tokenizer.json says, and ignore max_length, truncate, pad, cut, cut_left
     *  and pad_left */
    bool file_limits;
    enum qkv_cut cut;
    bool cut_left; /**< truncation removes tokens at the start of a text instead of its end */
    bool pad_left; /**< put the padding before the tokens instead of after them */
    /** add no special tokens such as [CLS], and treat text that spells a special token as plain
     *  text */
    bool no_special;
    /** add no special tokens, but recognize those that the text spells, as add_special_tokens=False
     *  of transformers */
    bool no_template;
    /** true: invalid UTF-8 and characters that would be left out (qkv_encoding.dropped) are
     *  QKV_ERR_FORMAT with their byte offset; false: invalid UTF-8 becomes U+FFFD */
    bool strict;
};

/** Encodes text[bytes], and pair[pair_bytes] unless pair is NULL, as tokens.  o may be NULL.  A NUL
 *  byte is encoded like any other character.
 *  Returns: QKV_OK; QKV_ERR_USAGE; _FORMAT; _LIMIT (memory, too much padding, or a regular
 *           expression of the tokenizer file that takes too long on this text).  After an error e
 *           contains no tokens. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_encode(const qkv_tokenizer *t, qkv_encoding *e,
                                                       const char *text, size_t bytes,
                                                       const char *pair, size_t pair_bytes,
                                                       const struct qkv_encode_options *o,
                                                       qkv_error *err);

/** Decodes ids[n] to text with the decoder of the tokenizer file.  With skip_special, special
 *  tokens are omitted; ids that have no token are always omitted.
 *  Out: out[size], NUL-terminated; a text that is too long is truncated at a character boundary;
 *       *need (may be NULL): bytes of the complete text without the NUL.
 *  Returns: QKV_OK (also for a truncated text); QKV_ERR_USAGE; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_decode(const qkv_tokenizer *t, char *out,
                                                       size_t size, size_t *need,
                                                       const int32_t *ids, int64_t n,
                                                       bool skip_special, qkv_error *err);

/** Writes the bytes that the token `id` adds to a text in which other tokens precede it: " Hello"
 *  for "▁Hello" and for "ĠHello", "ing" for "##ing", the byte 0xC3 for "<0xC3>" and for the
 *  "Ã" of a byte-level vocabulary.  They need be no valid UTF-8, and may contain NUL.
 *  Out: out[size], NUL-terminated; bytes that are too many are truncated, before a byte that may
 *       begin a character; *need (may be NULL): number of all bytes, 0 if there is no such id.
 *  Returns: QKV_OK (also for truncated bytes); QKV_ERR_USAGE; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_token_bytes(const qkv_tokenizer *t, char *out,
                                                            size_t size, size_t *need, int32_t id,
                                                            qkv_error *err);

/** Decodes ids one at a time during generation.  Each call returns only complete characters that no
 *  later id can change; their concatenation equals qkv_tokenizer_decode of the same ids.  The
 *  stream withholds text that later ids may still change, according to the decoder of the
 *  tokenizer file:
 *    ByteLevel       the bytes of an incomplete character
 *    ByteFallback    a run of <0x..> bytes that has not ended
 *    BPEDecoder      the last token
 *    Strip           white space that the decoder may remove
 *    WordPiece, CTC, or a regular expression after Fuse: the whole text
 *  One thread at a time may use a stream. */
typedef struct qkv_decode_stream qkv_decode_stream;

/** Makes a stream.  The stream refers to t: free the stream before closing t.  Returns: QKV_OK;
 *  QKV_ERR_USAGE; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_new(qkv_decode_stream **out,
                                                        const qkv_tokenizer *t, bool skip_special,
                                                        qkv_error *err);
/** Adds an id.  Out: *text is the new text, possibly empty, *bytes its length; it is NUL-terminated
 *  and valid until the next call for the stream.  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT
 *  (the stream can only be freed). */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_put(qkv_decode_stream *s, int32_t id,
                                                        const char **text, size_t *bytes,
                                                        qkv_error *err);
/** Ends the list of ids.  Out: *text is the text withheld until now, in which incomplete characters
 *  become U+FFFD, *bytes its length.  The stream is then empty and can be used again. */
QKV_API QKV_MUST_CHECK qkv_status qkv_decode_stream_end(qkv_decode_stream *s, const char **text,
                                                        size_t *bytes, qkv_error *err);
QKV_API void qkv_decode_stream_free(qkv_decode_stream *s); /**< NULL is fine */

QKV_API int64_t qkv_tokenizer_size(const qkv_tokenizer *t); /**< Returns the highest id + 1. */
/** Returns the token as spelled in the vocabulary ("##ing"), in memory of t; NULL if there is no
 *  such id. */
QKV_API const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id);
/** Returns the id of a token; -1 if there is no such token. */
QKV_API int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token);
/** Returns true for special tokens: [CLS], [SEP], ... */
QKV_API bool qkv_tokenizer_special(const qkv_tokenizer *t, int32_t id);
/** Returns the type of the tokenizer model: "BPE", "Unigram", ... */
QKV_API const char *qkv_tokenizer_kind(const qkv_tokenizer *t);

/** Options of qkv_tokenizer_train.
 *  The kinds of tokenizer are "bytes", "characters", "bpe" (byte-level), "wordpiece" and
 *  "unigram". */
struct qkv_tokenizer_training {
    const char *kind;
    /** size of the vocabulary, including special tokens; 0 means no limit and is valid for
     *  "characters" and "bytes" only */
    int64_t vocab;
    /** minimum count of a pair that is merged or of a word that is kept; 0 means 2 */
    int64_t least;
    /** [specials] special tokens; their ids are 0, 1, ..., or 256, 257, ... if kind is "bytes" */
    const char *const *special;
    int64_t specials;
    bool lowercase; /**< convert texts to lower case and strip accents (wordpiece) */
    /** unknown token of wordpiece, unigram and characters, which is added to the special tokens;
     *  NULL: [UNK] for wordpiece, <unk> for the others */
    const char *unknown;
    /** special token that the post-processor puts before each text (begin) or after each text
     *  (end); NULL: no token */
    const char *begin, *end;
    struct qkv_progress progress;
};
/** Trains a tokenizer on texts[n] of bytes[n] bytes and writes it to path as a tokenizer.json that
 *  Hugging Face tokenizers can read; force replaces an existing file.
 *  Returns: QKV_OK; QKV_ERR_USAGE (an unknown kind; a vocabulary too small for the bytes and
 *           special tokens); QKV_ERR_FORMAT (no text); QKV_ERR_LIMIT; QKV_ERR_IO;
 *           QKV_ERR_INTERRUPTED.
 *  Repeats: the same texts give the same file. */
QKV_API QKV_MUST_CHECK qkv_status qkv_tokenizer_train(const char *path, const char *const *texts,
                                                      const size_t *bytes, int64_t n,
                                                      const struct qkv_tokenizer_training *how,
                                                      bool force, qkv_error *err);

QKV_END_DECLS
#endif
