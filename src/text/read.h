// SPDX-License-Identifier: MIT
// read.h: readers of tokenizers in other formats than tokenizer.json, and what they share.
#ifndef QKV_TEXT_READ_H
#define QKV_TEXT_READ_H

#include "text/text.h"

// ---- given.c -----------------------------------------------------------------------------------
bool qkv_given_merge(struct qkv_given *g, struct qkv_given_merge merge); // false: no memory
// A token of the model more; false: err is filled: no memory, or it is there already (what, number:
// its place: "piece 5").  qkv_trie_init(&t->vocab.trie) comes before.
bool qkv_given_token(qkv_tokenizer *t, const char *text, size_t bytes, int32_t id, const char *what,
                     int64_t number, qkv_error *err);
// Merges of byte pair encoding by scores: two neighbours whose text together is a token become one,
// the greatest score first; of tokens with a score other than -INFINITY.  false: err is filled.
bool qkv_given_merges(qkv_tokenizer *t, qkv_error *err);
// Parts of the JSON: `{"id":ID,"content":TEXT,...}` of added_tokens, with a comma before all but
// the
// first; a template with what stands before and behind each text (-1: nothing).
void qkv_given_added(struct qkv_text_buffer *json, bool *first, int32_t id, const char *text,
                     bool special, bool normalized, bool lstrip);
void qkv_given_around(struct qkv_text_buffer *json, const qkv_tokenizer *t, int32_t before,
                      int32_t behind);

// ---- open.c: which reader ----------------------------------------------------------------------
// What tokenizer_config.json beside a file says; zero: there is none.
struct qkv_text_config {
    json_t *json;
    const char *kind; // "tokenizer_class" without Fast, NULL: not said
    char name[64];
};
qkv_status qkv_text_config_open(struct qkv_text_config *c, const char *beside, qkv_error *err);
void qkv_text_config_free(struct qkv_text_config *c);
bool qkv_text_config_is(const struct qkv_text_config *c, const char *kind);

// The file `name` in the folder of `path`.
qkv_status qkv_path_beside(char out[QKV_PATH], const char *path, const char *name, qkv_error *err);

// ---- spaces.c: white space as SentencePiece has it ---------------------------------------------
// Steps of normaliser and pre-tokenizer; context of struct qkv_given.
struct qkv_spaces {
    const char *mark; // stands for a space
    bool single;      // of spaces side by side one stays, at the ends none
    bool prefix;      // one before the text
    enum qkv_spaces_cut {
        QKV_SPACES_TOGETHER, // tokens may go across a mark: a text is one word
        QKV_SPACES_RUNS,     // words begin with all marks of a run
        QKV_SPACES_EACH      // with one
    } cut;
};
bool qkv_spaces_add(qkv_tokenizer *t, const struct qkv_json_at *at, const struct qkv_spaces *s);
// How words can be cut: what every token of the vocabulary (scores: those not -INFINITY) allows.
enum qkv_spaces_cut qkv_spaces_cut_of(const qkv_tokenizer *t, const char *mark);

// ---- charsmap.c --------------------------------------------------------------------------------
// data[size] as SentencePiece writes it, copied.  longest: at each place the longest rule counts,
// as in SentencePiece; else as in Hugging Face's Precompiled.  at NULL: err is not filled.
bool qkv_charsmap_add(qkv_tokenizer *t, const struct qkv_json_at *at, const uint8_t *data,
                      size_t size, bool longest);

// ---- spm.c: a SentencePiece model, as its protobuf has it --------------------------------------
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
        const char *text; // borrowed from the file, not terminated
        size_t bytes;
        float score;
        enum qkv_spm_type type;
    } * pieces;
    int64_t count, capacity;
    int64_t unknown;             // which piece
    int64_t model;               // 1 unigram, 2 bpe, 3 word, 4 char
    bool fallback;               // bytes for what no piece has
    bool suffix;                 // white space at the end of words
    bool prefix, single, escape; // a space before the text; one of many stays; the mark for it
    const uint8_t *charsmap;     // NULL: none
    size_t charsmap_size;
};
qkv_status qkv_spm_read(struct qkv_spm *m, const uint8_t *data, size_t size, const char *file,
                        qkv_error *err);
void qkv_spm_free(struct qkv_spm *m);

// ---- read_spm.c: what the two readers of such a model share ------------------------------------
struct qkv_spm_steps { // context of struct qkv_given
    struct qkv_spaces spaces;
    const struct qkv_spm *model;
};
bool qkv_spm_steps(qkv_tokenizer *t, const struct qkv_json_at *at);
void qkv_spm_steps_of(struct qkv_spm_steps *s, const qkv_tokenizer *t, const struct qkv_spm *m);
void qkv_spm_say_decoder(struct qkv_text_buffer *json, const struct qkv_spm *m);

// {"text": id, ...} is all of data[size]; false: err is filled (read_vocab.c).
bool qkv_vocab_object(struct qkv_vocab *v, const char *data, size_t size, const char *file,
                      qkv_error *err);

// ---- the formats: a file in memory -------------------------------------------------------------
typedef qkv_status qkv_text_reader(qkv_tokenizer **out, const uint8_t *data, size_t size,
                                   const char *file, qkv_error *err);
qkv_text_reader qkv_read_spm;        // SentencePiece .model: read_spm.c
qkv_text_reader qkv_read_marian;     // .spm with vocab.json beside it: read_marian.c
qkv_text_reader qkv_read_llama2c;    // tokenizer.bin: read_llama2c.c
qkv_text_reader qkv_read_vocab_list; // vocab.txt: read_vocab.c
qkv_text_reader qkv_read_vocab_pair; // vocab.json, with merges.txt beside it: read_vocab.c
#endif
