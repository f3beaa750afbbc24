// SPDX-License-Identifier: MIT
// words_work.h: words.c (vectors) and words_text.c (words of a corpus) share.
#ifndef QKV_TASK_WORDS_WORK_H
#define QKV_TASK_WORDS_WORK_H
#include "task/task.h"

// The words of a corpus and how often each is there.
struct words_entry {
    int64_t text; // in pool
    int64_t count;
    uint32_t bytes;
    int32_t id; // 0: no vector
};
struct words {
    char *pool;
    int64_t pool_used, pool_room;
    struct words_entry *entry; // [entries]
    int64_t entries, entry_room;
    int32_t *slot; // [1 << bits] entry + 1; 0: free
    int bits;
    int32_t *order; // [vocab] entry of id i + 1, by count
    int64_t vocab, seen;
    int32_t *stream; // [length] ids of the text, words without a vector left out
    int64_t length, stream_room;
    int64_t *end; // [documents] of each document in the stream
    int64_t documents, end_room;
};
qkv_status words_count(struct words *w, const qkv_corpus *c, qkv_error *err);
// Ids: words seen `least` times or more, `most` of them (0: all), by count, then by their bytes.
qkv_status words_choose(struct words *w, int64_t least, int64_t most, qkv_error *err);
qkv_status words_read(struct words *w, const qkv_corpus *c, qkv_error *err); // the stream
void words_free(struct words *w);
// tokenizer.json that finds these words.
qkv_status words_tokenizer(const struct words *w, const char *path, bool force, qkv_error *err);
#endif
