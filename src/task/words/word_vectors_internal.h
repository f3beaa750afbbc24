// SPDX-License-Identifier: MIT
// word_vectors_internal.h: declares the word list of a corpus, which word_vectors_text.c builds and
// word_vectors_train.c reads.
#ifndef QKV_TASK_WORDS_WORK_H
#define QKV_TASK_WORDS_WORK_H
#include "task/data/data.h"
#include "task/words/word_vectors.h"

// The different words of a corpus and their counts.
struct words_entry {
    int64_t text; // offset in pool
    int64_t count;
    uint32_t bytes;
    int32_t id; // 0: the word has no vector
};
struct words {
    char *pool;
    int64_t pool_used, pool_capacity;
    struct words_entry *entry; // [entries] the words
    int64_t entries, entry_capacity;
    int32_t *slot; // [1 << bits] hash table: entry + 1; 0: free
    int bits;
    int32_t *order; // [vocab] entry of id i + 1; ordered by count
    int64_t vocab, seen;
    int32_t *stream; // [length] ids of the text, without words that have no vector
    int64_t length, stream_capacity;
    int64_t *end; // [documents] end of each document in the stream
    int64_t documents, end_capacity;
};
qkv_status words_count(struct words *w, const qkv_corpus *c, qkv_error *err);
// Assigns ids to the words that occur `least` times or more, at most `most` of them (0: all),
// ordered by count, then by their bytes.
qkv_status words_choose(struct words *w, int64_t least, int64_t most, qkv_error *err);
qkv_status words_read(struct words *w, const qkv_corpus *c, qkv_error *err); // fills the stream
void words_free(struct words *w);
// Writes a tokenizer.json whose tokens are these words.
qkv_status words_tokenizer(const struct words *w, const char *path, bool force, qkv_error *err);
#endif
