// SPDX-License-Identifier: MIT
// data_build.h: declares the state of making a dataset: examples are tokenized by pieces in
// parallel and cut into sequences in order.
#ifndef QKV_TASK_DATA_BUILD_H
#define QKV_TASK_DATA_BUILD_H
#include "task/data/data_internal.h"
#include "text/text.h"

// A text, or a part of a long document, that is tokenized independently.
struct build_piece {
    const char *text; // the text; NULL: it is at offset `at` of build.copies
    int64_t at;
    size_t bytes;
    int which;              // index of the tokenizer in build.tokenizer
    int split, part, label; // train or valid; text 0 or 1 of a pair; number of the label
    bool begin, end;        // the piece is the first of its document; the last
    const char *file;
    int64_t line;
    // The result, without the template's tokens:
    int32_t *ids;
    int64_t *upto; // causal: bytes of the piece up to the end of each token
    int64_t count, ids_capacity, upto_capacity, replaced;
    qkv_status status;
};
struct build_file {
    struct qkv_output out;
    struct qkv_sha256 sum;
};
// Special tokens that the tokenizer puts around a text.
struct build_template {
    int32_t before[16], after[16];
    int64_t befores, afters;
};
struct build_labels {
    struct qkv_trie ids;
    char *text; // the names of the labels, one per line
    int64_t used, capacity;
    int32_t count;
    bool ready, closed; // closed: an unknown label is an error
};
// The sequence (window of tokens) that is being built.
struct build_window {
    int32_t *ids;
    int64_t count, capacity;
    int64_t first, last; // causal: text bytes of the document up to the first and the last token
    int64_t before;      // text bytes of the document up to the current piece
    int64_t source;      // seq2seq, contrastive: number of tokens of the first part
    bool short_part;     // the first part does not fit, or is empty
};
struct build {
    const struct qkv_data_options *options;
    const qkv_tokenizer *tokenizer[2];
    struct build_template template[2];
    struct qkv_data_info info;
    int64_t seen[DATA_SPLITS]; // number of examples
    int64_t done, total;       // bytes, for progress reports
    struct build_file file[DATA_SPLITS][DATA_FILES];
    struct build_labels labels;
    struct build_piece *piece; // [pieces] pieces to tokenize; later elements keep memory for reuse
    int64_t pieces, piece_capacity, pieces_made;
    char *copies;                             // copies of texts that are not borrowed
    int64_t copied, copies_capacity, waiting; // waiting: total bytes of the pieces
    qkv_encoding *encoding;                   // [threads] scratch of each thread
    int threads;
    struct build_window window;
};
qkv_status build_begin(struct build *b, qkv_error *err);
void build_end(struct build *b);
qkv_status build_example(struct build *b, int split, const struct qkv_example *e, qkv_error *err);
// Tokenizes and writes all collected pieces.
qkv_status build_flush(struct build *b, qkv_error *err);
qkv_status build_put(struct build *b, int split, enum data_file f, const void *data, size_t bytes,
                     qkv_error *err);
// Appends the tokens of one piece to the sequences; must be called in the order of the pieces
// (data_sequences.c).
qkv_status build_take(struct build *b, const struct build_piece *p, qkv_error *err);
#endif
