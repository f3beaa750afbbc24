// SPDX-License-Identifier: MIT
// data_build.h: declares the state of making a dataset. Examples are split into pieces of text,
// pieces are tokenized in parallel, and their tokens are cut into sequences in order.
#ifndef QKV_TASK_DATA_BUILD_H
#define QKV_TASK_DATA_BUILD_H
#include "task/data/data_internal.h"
#include "text/text.h"

// A text, or a part of a long document, that is tokenized independently.
struct build_piece {
    const char *text; // the text; NULL: the text is build.copies + at
    int64_t at;
    size_t bytes;
    int which; // index in build.tokenizer: 0, or 1 for the target of a pair
    // split: DATA_TRAIN or DATA_VALID; part: 0 for the first text of a pair, 1 for the second;
    // label: number of the label
    int split, part, label;
    bool begin, end; // begin: the document's first piece; end: its last piece
    const char *file;
    int64_t line;
    // Result: the tokens, without the special tokens of the template.
    int32_t *ids;
    int64_t *upto; // causal: bytes of the piece up to the end of each token
    int64_t count, ids_capacity, upto_capacity, replaced;
    qkv_status status;
};
struct build_file {
    struct qkv_output out;
    struct qkv_sha256 sum;
};
// The special tokens that the tokenizer puts before and after each text.
struct build_template {
    int32_t before[16], after[16];
    int64_t befores, afters;
};
struct build_labels {
    struct qkv_trie ids;
    char *text; // the names of the labels, one per line
    int64_t used, capacity;
    int32_t count;
    // ready: ids is initialized; closed: a label that is not in the list is an error
    bool ready, closed;
};
// The sequence that is being built.
struct build_window {
    int32_t *ids;
    int64_t count, capacity;
    // causal: number of bytes from the start of the document to the end of the window's first token
    // (first) and to the end of its last token (last)
    int64_t first, last;
    int64_t before;  // bytes of the document before the current piece
    int64_t source;  // pairs: number of tokens of the first text
    bool short_part; // the first text has no token, or more than fit, so the pair is skipped
};
struct build {
    const struct qkv_data_options *options;
    const qkv_tokenizer *tokenizer[2];
    struct build_template template[2];
    struct qkv_data_info info;
    int64_t seen[DATA_SPLITS]; // number of examples in each split
    int64_t done, total;       // bytes, for progress reports
    struct build_file file[DATA_SPLITS][DATA_FILES];
    struct build_labels labels;
    // [pieces] pieces to tokenize; elements from `pieces` on are unused, but own memory to reuse
    struct build_piece *piece;
    int64_t pieces, piece_capacity, pieces_made;
    char *copies; // copies of the texts that the corpus will overwrite
    // copied: bytes in `copies`; waiting: bytes of all pieces
    int64_t copied, copies_capacity, waiting;
    qkv_encoding *encoding; // [threads] scratch of each thread
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
// Appends the tokens of one piece to the sequences (data_sequences.c). Must be called in the order
// of the pieces.
qkv_status build_take(struct build *b, const struct build_piece *p, qkv_error *err);
#endif
