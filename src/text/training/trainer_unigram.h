// SPDX-License-Identifier: MIT
// trainer_unigram.h: declares the segments and pieces from which a unigram model is learned.
#ifndef QKV_TEXT_TRAINER_UNIGRAM_H
#define QKV_TEXT_TRAINER_UNIGRAM_H

#include "text/training/trainer.h"

enum {
    QKV_PIECE_CHARS = 16,   // maximum length of a piece
    QKV_SEGMENT_CHARS = 64, // maximum length of a segment; longer words are cut
    QKV_SEGMENT_BYTES = 4 * QKV_SEGMENT_CHARS
};

// Segments are words or parts of words whose characters are all pieces; a NUL follows each segment.
struct qkv_segments {
    struct qkv_segment {
        const uint8_t *text; // set when all segments are present
        int64_t at, count;   // offset in pool; number of occurrences
        int32_t bytes;
    } * at;
    int64_t count, capacity;
    uint8_t *pool;
    int64_t pool_count, pool_capacity;
};

struct qkv_pieces {
    struct qkv_piece {
        const uint8_t *text; // points into the segments
        int32_t bytes, chars;
        double score; // seeds: count * chars; then the logarithm of the probability
    } * at;
    int64_t count, capacity;
    int64_t single; // number of single characters, which come first and are never dropped
};

// ---- trainer_seed.c: candidates for pieces ------------------------------------------------------
// Adds the strings of 2 .. QKV_PIECE_CHARS characters that occur at least `least` times; if there
// are more than `most`, those with the greatest count * chars.  If a string is always followed by
// the same character, only the longer string is added.
bool qkv_pieces_seed(struct qkv_pieces *p, const struct qkv_segments *s, int64_t most,
                     int64_t least);
bool qkv_pieces_add(struct qkv_pieces *p, struct qkv_piece unit);

// ---- trainer_em.c: probabilities of pieces ------------------------------------------------------
// Computes one step of expectation maximization and drops pieces that are hardly ever used, except
// single characters.  Returns false if memory is exhausted.
bool qkv_pieces_improve(struct qkv_pieces *p, const struct qkv_segments *s);
// Drops pieces until `most` remain, starting with the pieces whose replacement by other pieces
// costs least.
bool qkv_pieces_prune(struct qkv_pieces *p, const struct qkv_segments *s, int64_t most);
// Sorts the pieces from index `from` on stably by score, greatest first.
bool qkv_pieces_sort(struct qkv_pieces *p, int64_t from);
#endif
