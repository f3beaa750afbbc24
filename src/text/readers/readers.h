// SPDX-License-Identifier: MIT
// readers.h: declares the readers of tokenizers in other formats than tokenizer.json.
#ifndef QKV_TEXT_READERS_H
#define QKV_TEXT_READERS_H

#include "text/text_internal.h"

// ---- assemble.c --------------------------------------------------------------------------------
bool qkv_assembly_add_merge(struct qkv_assembly *a, struct qkv_merge merge); // false: no memory
// Adds a token to the model, after qkv_trie_init(&t->vocab.trie).  Returns false if err contains an
// error: memory is exhausted, or the token exists already.  `what` and `number` name the entry in
// the message, such as "piece 5".
bool qkv_assembly_add_token(qkv_tokenizer *t, const char *text, size_t bytes, int32_t id,
                            const char *what, int64_t number, qkv_error *err);
// Derives the merges of byte pair encoding from scores: two neighbors whose joined text is a token
// are merged, in the order of the scores of these tokens, highest score first.  Tokens with score
// -INFINITY are never merged or made.  Returns false if err contains an error.
bool qkv_assembly_derive_merges(qkv_tokenizer *t, qkv_error *err);
// Appends an entry `{"id":ID,"content":TEXT,...}` of "added_tokens", after a comma unless *first is
// true.
void qkv_assembly_append_added(struct qkv_text_buffer *json, bool *first, int32_t id,
                               const char *text, bool special, bool normalized, bool lstrip);
// Appends a template that puts the token `before` before each text and the token `after` after it;
// -1 means no token.
void qkv_assembly_append_template(struct qkv_text_buffer *json, const qkv_tokenizer *t,
                                  int32_t before, int32_t after);

// ---- tokenizer_open.c --------------------------------------------------------------------------
// The contents of a tokenizer_config.json; all 0 if the folder has no such file.
struct qkv_text_config {
    json_t *json;
    const char *kind; // "tokenizer_class" without Fast, NULL: absent
    char name[64];
};
// Opens the tokenizer_config.json that is in the same folder as the file `sibling`.
qkv_status qkv_text_config_open(struct qkv_text_config *c, const char *sibling, qkv_error *err);
void qkv_text_config_free(struct qkv_text_config *c);
bool qkv_text_config_is(const struct qkv_text_config *c, const char *kind);

// Writes the path of the file `name` in the folder of `path`.
qkv_status qkv_path_sibling(char out[QKV_PATH], const char *path, const char *name, qkv_error *err);

// ---- spm_protobuf.c: a SentencePiece model -----------------------------------------------------
enum qkv_spm_type {
    QKV_SPM_NORMAL = 1,
    QKV_SPM_UNKNOWN,
    QKV_SPM_CONTROL,
    QKV_SPM_USER,
    QKV_SPM_UNUSED,
    QKV_SPM_BYTE
};
struct qkv_spm {
    struct qkv_spm_piece {
        const char *text; // points into the file, not terminated
        size_t bytes;
        float score;
        enum qkv_spm_type type;
    } * pieces;
    int64_t count, capacity;
    int64_t unknown;             // index of the unknown piece
    int64_t model;               // 1 unigram, 2 bpe, 3 word, 4 char
    bool fallback;               // characters without a piece become byte pieces
    bool suffix;                 // white space is at the end of words
    bool prefix, single, escape; // add a leading space; collapse spaces; replace them by the mark
    const char *surface;         // decoded text of the unknown piece, not terminated
    size_t surface_bytes;
    const uint8_t *charsmap; // NULL: none
    size_t charsmap_size;
};
qkv_status qkv_spm_read(struct qkv_spm *m, const uint8_t *data, size_t size, const char *file,
                        qkv_error *err);
void qkv_spm_free(struct qkv_spm *m);

// ---- read_spm.c: shared with read_marian.c -----------------------------------------------------
struct qkv_spm_steps { // context of struct qkv_assembly
    struct qkv_spaces spaces;
    const struct qkv_spm *model;
    bool decodes; // also add the decoder
};
bool qkv_spm_steps(qkv_tokenizer *t, const struct qkv_json_at *at);
void qkv_spm_steps_init(struct qkv_spm_steps *s, const qkv_tokenizer *t, const struct qkv_spm *m);
#define QKV_SPM_MARK   "\xE2\x96\x81" // U+2581, which replaces spaces in pieces
#define QKV_SPM_ABSENT 0xFF           // the unknown piece in the decoder: a byte that no piece has

// ---- decode_pieces.c ---------------------------------------------------------------------------
// Adds the decoder of SentencePiece; the unknown piece is QKV_SPM_ABSENT in its input.
bool qkv_pieces_add_decoder(qkv_tokenizer *t, const struct qkv_json_at *at,
                            const struct qkv_spm *m);

// ---- read_vocab.c ------------------------------------------------------------------------------
// Reads a vocabulary from data[size], which contains only the object {"text": id, ...}.  Returns
// false if err contains an error.
bool qkv_vocab_object(struct qkv_vocab *v, const char *data, size_t size, const char *file,
                      qkv_error *err);

// ---- the formats: each reads a file in memory --------------------------------------------------
typedef qkv_status qkv_text_reader(qkv_tokenizer **out, const uint8_t *data, size_t size,
                                   const char *file, qkv_error *err);
qkv_text_reader qkv_read_spm;        // SentencePiece .model: read_spm.c
qkv_text_reader qkv_read_marian;     // .spm with vocab.json in the same folder: read_marian.c
qkv_text_reader qkv_read_llama2c;    // tokenizer.bin: read_llama2c.c
qkv_text_reader qkv_read_vocab_list; // vocab.txt: read_vocab.c
qkv_text_reader qkv_read_vocab_pair; // vocab.json with merges.txt in the same folder: read_vocab.c
#endif
