// SPDX-License-Identifier: MIT
// word_vectors_internal.h: declares the word list of a corpus. word_vectors_text.c builds it,
// word_vectors_train.c reads it.
#ifndef QKV_TASK_WORD_VECTORS_INTERNAL_H
#define QKV_TASK_WORD_VECTORS_INTERNAL_H
#include "task/data/data.h"
#include "task/words/word_vectors.h"

// A word of the corpus and its count; its text is in words.pool.
struct words_entry {
    int64_t text; // offset of the word's text in words.pool
    int64_t count;
    uint32_t bytes;
    int32_t id; // id of the word; 0: the word has no vector
};
struct words {
    char *pool;
    int64_t pool_used, pool_capacity;
    struct words_entry *entry; // [entries] the different words of the corpus
    int64_t entries, entry_capacity;
    int32_t *slot; // [1 << bits] hash table: index in `entry` plus 1; 0: free
    int bits;
    int32_t *order; // [vocab] the word with id i + 1 is entry[order[i]]; ordered by count
    int64_t vocab, seen;
    int32_t *stream; // [length] ids of the words of the text, without words that have no vector
    int64_t length, stream_capacity;
    int64_t *end; // [documents] index in `stream` of the end of each document
    int64_t documents, end_capacity;
};
qkv_status words_count(struct words *w, const qkv_corpus *c, qkv_error *err);
// Assigns ids to the words that occur at least `least` times, ordered by count, then by their
// bytes. Only the first `most` of them get an id; most 0: all.
qkv_status words_choose(struct words *w, int64_t least, int64_t most, qkv_error *err);
// fills w->stream with the corpus
qkv_status words_read(struct words *w, const qkv_corpus *c, qkv_error *err);
void words_free(struct words *w);
// Writes a tokenizer.json whose vocabulary is these words.
qkv_status words_tokenizer(const struct words *w, const char *path, bool force, qkv_error *err);
#endif
