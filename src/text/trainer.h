// SPDX-License-Identifier: MIT
// trainer.h: what the trainers of tokenizers share.
//
// A trainer (a row of tokenizer.def) counts the words of the texts, cut by the very components that
// the file will name, learns tokens from the counts, and trainer_write.c writes the tokenizer.json.
// Everything is a function of the texts and the settings: no order of a hash table, no thread, no
// clock takes part.
#ifndef QKV_TEXT_TRAINER_H
#define QKV_TEXT_TRAINER_H

#include <qkv/text.h>
#include "text/text.h"

// ---- trainer_words.c: each word once, in the order they were first seen -------------------------
struct qkv_word_counts {
    struct qkv_word_count {
        int64_t at; // in pool
        int32_t bytes;
        uint32_t hash;
        int64_t count;
    } * words;
    int64_t count, capacity;
    uint8_t *pool;
    int64_t pool_count, pool_capacity;
    int32_t *slots; // index + 1, 0: free
    int64_t slot_count;
    int64_t word_chars; // longer words are left out, 0: none
};
void qkv_word_counts_free(struct qkv_word_counts *c);

// ---- what a training has and makes -------------------------------------------------------------
struct qkv_training {
    const struct qkv_tokenizer_training *how;
    const struct qkv_trainer *trainer;
    const char *const *texts;
    const size_t *bytes;
    int64_t n;
    qkv_error *err;

    const char *
        *special; // those asked for, then the unknown token, begin and end unless among them
    int64_t specials;
    int32_t unknown, begin, end; // indices of special, -1: none
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
    // Parts of the file, as JSON; plain and with how.lowercase.
    const char *normalizer, *lowercase, *pre_tokenizer, *decoder;
    const char *model;   // "BPE", "WordPiece", "Unigram"
    const char *unknown; // of its own, NULL: there are none
    bool specials_last;  // their ids follow the others
};
#define QKV_TRAINER(name) extern const struct qkv_trainer qkv_trainer_##name;
#include "text/tokenizer.def"

qkv_status qkv_training_memory(const struct qkv_training *t); // QKV_ERR_LIMIT
// Asks the caller whether to go on.
qkv_status qkv_training_step(const struct qkv_training *t, const char *what, int64_t done,
                             int64_t total);
// The token text[bytes] gets the next id, unless it is there; *id (may be NULL) is what it has.
bool qkv_training_token(struct qkv_training *t, const char *text, size_t bytes, int32_t *id);
qkv_status qkv_training_specials(struct qkv_training *t);
// Words of all texts, as a tokenizer of this training cuts them.
qkv_status qkv_training_count(struct qkv_training *t, struct qkv_word_counts *c);

// ---- trainer_merge.c ----------------------------------------------------------------------------
// Tokens that symbols of neighbours make, the most frequent pair first, until there are how->vocab
// of them.  symbols: those of word w at [start[w], start[w + 1]), ids of t->vocab; changed.
// prefix: of tokens inside of a word, "" none.
qkv_status qkv_training_merge(struct qkv_training *t, const struct qkv_word_counts *c,
                              int32_t *symbols, const int64_t *start, const char *prefix);

// ---- trainer_write.c ----------------------------------------------------------------------------
// The file in memory: out is the caller's to free.  model NULL: as far as it is known before
// training, with a model that loads.
void qkv_training_json(const struct qkv_training *t, struct qkv_text_buffer *out, bool learned);
#endif
