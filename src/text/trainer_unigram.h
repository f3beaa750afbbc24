// SPDX-License-Identifier: MIT
// trainer_unigram.h: what learning a unigram model is made of: texts cut into segments, and pieces.
#ifndef QKV_TEXT_TRAINER_UNIGRAM_H
#define QKV_TEXT_TRAINER_UNIGRAM_H

#include "text/trainer.h"

enum {
    QKV_PIECE_CHARS = 16,   // of a piece at most
    QKV_SEGMENT_CHARS = 64, // longer words are cut
    QKV_SEGMENT_BYTES = 4 * QKV_SEGMENT_CHARS
};

// Words, or parts of them, in characters that are pieces; a NUL behind each.
struct qkv_segments {
    struct qkv_segment {
        const uint8_t *text; // once all are there
        int64_t at, count;   // in pool; how often it is there
        int32_t bytes;
    } * at;
    int64_t count, capacity;
    uint8_t *pool;
    int64_t pool_count, pool_capacity;
};

struct qkv_pieces {
    struct qkv_unit {
        const uint8_t *text; // borrowed from the segments
        int32_t bytes, chars;
        double score; // seeds: count * chars; then the logarithm of the probability
    } * at;
    int64_t count, capacity;
    int64_t single; // so many single characters come first; they stay
};

// ---- trainer_seed.c: what may become a piece ----------------------------------------------------
// Adds strings of 2 .. QKV_PIECE_CHARS characters that are there `least` times or more, the `most`
// with the greatest count * chars.  Of a string that always goes on the same way only the longest
// one is taken.
bool qkv_pieces_seed(struct qkv_pieces *p, const struct qkv_segments *s, int64_t most,
                     int64_t least);
bool qkv_pieces_add(struct qkv_pieces *p, struct qkv_unit unit);

// ---- trainer_em.c: probabilities of pieces ------------------------------------------------------
// Expectation and maximisation, once; pieces that are hardly ever used go, but for single ones.
// false: no memory.
bool qkv_pieces_improve(struct qkv_pieces *p, const struct qkv_segments *s);
// All but `most` pieces go: those that cost least when others have to stand for them.
bool qkv_pieces_prune(struct qkv_pieces *p, const struct qkv_segments *s, int64_t most);
// In the order of score, greatest first; of equals as they were.
bool qkv_pieces_sort(struct qkv_pieces *p, int64_t from);
#endif
