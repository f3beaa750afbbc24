// SPDX-License-Identifier: MIT
// data.h: text to tokens on disk to batches.  Part of the door task.h.
//
// A dataset is a folder: index.json (format, objective, tokenizer hash, counts, hash of the content), and for each split
// (train, valid) a shard of tokens (ids of 4 bytes, little-endian) with offsets of its sequences (8 bytes), memory-
// mapped.  It is made once, written whole or not at all.
// A batch is a pure function of (dataset, options, seed, position): sequences are drawn by a permutation of
// their numbers that is computed, not stored, one an epoch; so the position of a run is one number.
#ifndef QKV_TASK_DATA_H
#define QKV_TASK_DATA_H

// Where text comes from.
struct qkv_data_source {
    const char *const
        *paths; // [n] files, directories (every file below, in the order of names), "-": stdin
    int64_t n;
    const char *
        format; // "text" (a blank line, or with per_line each line, ends a document), "jsonl", "tsv";
                // NULL: by the name's end
    const char *field,
        *field_b; // JSONL: members (default "text", "text_b"/"label"); TSV: numbers of columns from 1
    bool per_line;
};
struct qkv_data_options {
    enum qkv_objective objective;
    struct qkv_data_source train, valid; // valid.n 0: split off train
    double valid_share; // 0: .01 (of documents or pairs, drawn by seed; at least one)
    int64_t context;    // tokens of a sequence at most (with its specials)
    uint64_t seed;
    bool strict; // invalid UTF-8 is QKV_ERR_FORMAT
    struct qkv_progress progress;
};
// Tokenises into dir (made when missing).  Causal: documents are cut into windows of context + 1 tokens, short
// ones packed several to a window as sequences of their own.  Labels of classification: dir/labels.txt,
// in order of first appearance.  tokenizer_b (NULL: the same): of the target side.
// Returns QKV_OK; QKV_ERR_FORMAT: empty or one-token data, no validation left, a TSV line without tab (its
// line), unknown label in valid; QKV_ERR_IO ...
qkv_status qkv_data_make(const char *dir, const struct qkv_data_options *o,
                         const qkv_tokenizer *tokenizer, qkv_error *err);

typedef struct qkv_data qkv_data; // an opened dataset; threads may share it
qkv_status qkv_data_open(qkv_data **out, const char *dir, qkv_error *err);
void qkv_data_close(qkv_data *d);
struct qkv_data_info {
    enum qkv_objective objective;
    int64_t sequences[2], tokens[2]; // train, valid
    int64_t bytes[2];                // of text these tokens stand for: for bits per byte
    int64_t context, labels;
    char hash[65]; // of the content, hexadecimal SHA-256
};
struct qkv_data_info qkv_data_info(const qkv_data *d);

// How batches are drawn.
struct qkv_draw {
    int64_t tokens; // a batch has at most so many rows (in + source); at least one sequence
    uint64_t seed;
    int32_t bos, eos, pad, mask,
        vocab;         // masked LM: 15 % of tokens: 80 % mask, 10 % random, 10 % kept
    double mask_share; // 0: .15
};
// Room of a batch, reused from one to the next.
struct qkv_drawn {
    struct qkv_net_batch batch; // points into what follows
    int64_t sequences;          // taken
    int64_t next;               // position behind this batch
    double epoch;               // of that position
    int64_t targets;            // rows with a target
    int64_t bytes;              // of text that the targets stand for (causal), else 0
    void *room;                 // owned
};
// The batch that begins at sequence `position` of the endless shuffled train split.
qkv_status qkv_data_draw(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                         const struct qkv_draw *how, qkv_error *err);
// Batch of the valid split from sequence `position`, in order, never shuffled, masked the same each time;
// out->sequences 0: the end.
qkv_status qkv_data_valid(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                          const struct qkv_draw *how, qkv_error *err);
void qkv_drawn_free(struct qkv_drawn *b);
#endif
