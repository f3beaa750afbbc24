// SPDX-License-Identifier: MIT
// data_build.h: examples on their way into a dataset: tokenised by pieces in parallel, cut into
// sequences in order.
#ifndef QKV_TASK_DATA_BUILD_H
#define QKV_TASK_DATA_BUILD_H
#include "task/data_work.h"
#include "text/text.h"

// A text, or a part of a long document, that is tokenised by itself.
struct build_piece {
    const char *text; // NULL: text number `at` of the copies
    int64_t at;
    size_t bytes;
    int which;              // tokenizer
    int split, part, label; // part of a pair
    bool begin, end;        // of its document
    const char *file;
    int64_t line;
    // What comes of it, without the template's tokens.
    int32_t *ids;
    int64_t *upto; // causal: bytes of the piece up to each token's end
    int64_t count, ids_room, upto_room, replaced;
    qkv_status status;
};
struct build_file {
    struct qkv_output out;
    struct qkv_sha256 sum;
};
// What the tokenizer puts around a text.
struct build_template {
    int32_t before[16], after[16];
    int64_t befores, afters;
};
struct build_labels {
    struct qkv_trie ids;
    char *text; // the names, a line each
    int64_t used, room;
    int32_t count;
    bool ready, closed; // closed: a new name is an error
};
// The sequence under construction.
struct build_window {
    int32_t *ids;
    int64_t count, room;
    int64_t first, last; // causal: text bytes of the document up to the first and the last token
    int64_t before;      // and up to the piece
    int64_t source;      // seq2seq, contrastive: tokens of the first part
    bool short_part;     // and it does not fit
};
struct build {
    const struct qkv_data_options *options;
    const qkv_tokenizer *tokenizer[2];
    struct build_template template[2];
    struct qkv_data_info info;
    int64_t seen[DATA_SPLITS]; // examples
    int64_t done, total;       // bytes, for progress
    struct build_file file[DATA_SPLITS][DATA_FILES];
    struct build_labels labels;
    struct build_piece *piece; // [pieces] waiting; those behind keep their memory
    int64_t pieces, piece_room, pieces_made;
    char *copies;                         // texts that do not stay
    int64_t copied, copies_room, waiting; // waiting: bytes of the pieces
    qkv_encoding *encoding;               // [threads]
    int threads;
    struct build_window window;
};
qkv_status build_begin(struct build *b, qkv_error *err);
void build_end(struct build *b);
qkv_status build_example(struct build *b, int split, const struct qkv_example *e, qkv_error *err);
// What waits is tokenised and written.
qkv_status build_flush(struct build *b, qkv_error *err);
qkv_status build_put(struct build *b, int split, enum data_file f, const void *data, size_t bytes,
                     qkv_error *err);
// data_sequences.c: the tokens of one piece, in order.
qkv_status build_take(struct build *b, const struct build_piece *p, qkv_error *err);
#endif
