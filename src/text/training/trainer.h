// SPDX-License-Identifier: MIT
// trainer.h: declares the state and the functions that the trainers of tokenizers share.
//
// A trainer (a row of tokenizer.def) splits the texts into words with the components that the file
// will contain, counts the words, and learns tokens from the counts; trainer_write.c writes the
// tokenizer.json.  The result depends only on the texts and the settings, not on the order of a
// hash table, on threads or on time.
#ifndef QKV_TEXT_TRAINER_H
#define QKV_TEXT_TRAINER_H

#include "text/text_internal.h"

// ---- trainer_words.c: each word once, in the order of first occurrence --------------------------
struct qkv_word_counts {
    struct qkv_word_count {
        int64_t at; // offset in pool
        int32_t bytes;
        uint32_t hash;
        int64_t count;
    } * words;
    int64_t count, capacity;
    uint8_t *pool;
    int64_t pool_count, pool_capacity;
    int32_t *slots; // hash table: index + 1, 0: free
    int64_t slot_count;
    int64_t word_chars; // longer words are omitted, 0: no limit
};
void qkv_word_counts_free(struct qkv_word_counts *c);

// ---- trainer_characters.c: how often each character occurs --------------------------------------
enum { QKV_CODES = 0x110000, QKV_BLOCK_CODES = 256 };
struct qkv_character_counts { // a zeroed struct has no characters
    struct qkv_character_block {
        int64_t counts[QKV_BLOCK_CODES];
    } * blocks[QKV_CODES / QKV_BLOCK_CODES];
    int64_t most; // the largest count
};
bool qkv_characters_add(struct qkv_character_counts *c, uint32_t code, int64_t n);
int64_t qkv_characters_count(const struct qkv_character_counts *c, uint32_t code);
// Returns the first character from code `from` on that occurs, or QKV_CODES.
uint32_t qkv_characters_next(const struct qkv_character_counts *c, uint32_t from);
// Returns the smallest number such that the characters that occur at least that often need at most
// `tokens` tokens: one each, and one more for each character that also occurs in *inside, which may
// be NULL.
int64_t qkv_characters_threshold(const struct qkv_character_counts *c,
                                 const struct qkv_character_counts *inside, int64_t tokens);
void qkv_characters_free(struct qkv_character_counts *c);

// ---- state of a training -----------------------------------------------------------------------
struct qkv_training {
    const struct qkv_tokenizer_training *settings;
    const struct qkv_trainer *trainer;
    const char *const *texts;
    const size_t *bytes;
    int64_t n;
    qkv_error *err;

    // The requested special tokens, followed by the unknown token and the tokens begin and end, if
    // these are not among the requested tokens.
    const char **special;
    int64_t specials;
    int32_t unknown, begin, end; // indices into special, -1: none
    int64_t least;

    struct qkv_vocab vocab; // tokens in the order of their ids
    double *scores;         // unigram
    int64_t scores_capacity;
    struct qkv_merge_pair {
        int32_t left, right;
    } * merges;
    int64_t merge_count, merge_capacity;
};
struct qkv_trainer {
    const char *kind;
    qkv_status (*learn)(struct qkv_training *t);
    // Sections of the file as JSON; if settings.lowercase is true, `lowercase` is used instead of
    // `normalizer`.
    const char *normalizer, *lowercase, *pre_tokenizer, *decoder;
    const char *model;   // "BPE", "WordPiece", "Unigram"
    const char *unknown; // its unknown token, NULL: no token can be unknown
    bool specials_last;  // special tokens have the last ids
};
#define QKV_TRAINER(name) extern const struct qkv_trainer qkv_trainer_##name;
#include "text/tokenizer.def"

qkv_status qkv_training_memory(const struct qkv_training *t); // reports QKV_ERR_LIMIT
// Calls the progress function of the caller, which may stop the training.
qkv_status qkv_training_step(const struct qkv_training *t, const char *what, int64_t done,
                             int64_t total);
// Reports that a token could not be added: the limit that is reached, or exhausted memory.
qkv_status qkv_training_full(const struct qkv_training *t);
// Adds the token text[bytes] with the next id unless it exists.  *id (id may be NULL) becomes the
// id of the token.
bool qkv_training_token(struct qkv_training *t, const char *text, size_t bytes, int32_t *id);
qkv_status qkv_training_specials(struct qkv_training *t);
// Counts the words of all texts, split as a tokenizer of this training splits them.
qkv_status qkv_training_count(struct qkv_training *t, struct qkv_word_counts *c);

// ---- trainer_merge.c ----------------------------------------------------------------------------
// Merges neighboring symbols into tokens, the most frequent pair first, until there are
// settings->vocab tokens.  The symbols of word w are symbols[start[w] .. start[w + 1]-1], ids of
// t->vocab; the function modifies them.  `prefix` marks tokens inside a word; "" for no mark.
qkv_status qkv_training_merge(struct qkv_training *t, const struct qkv_word_counts *c,
                              int32_t *symbols, const int64_t *start, const char *prefix);

// ---- trainer_write.c ----------------------------------------------------------------------------
// Writes the tokenizer.json to *out, which the caller frees.  If `learned` is false, the file has a
// provisional model, with which the tokenizer can be opened before training.
void qkv_training_json(const struct qkv_training *t, struct qkv_text_buffer *out, bool learned);
#endif
