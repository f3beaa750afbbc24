// SPDX-License-Identifier: MIT
// data.h: declares corpora (files of text), datasets (tokens on disk) and batches drawn from them.
//
// A dataset is a folder:
//   index.json              objective, counts, sizes and SHA-256 of the files; written last
//   train.tokens  valid...  ids of 4 bytes, little-endian, all sequences consecutively
//   train.offsets           start of each sequence and end of the last, 8 bytes each (a pair: two)
//   train.bytes             causal: text bytes before each sequence's targets, 8 bytes each
//   train.labels labels.txt classification: 4 bytes per sequence; the names, one per line
// Shards are memory-mapped. index.json is written last: a folder without it is not a dataset.
//
// A batch is a pure function of (dataset, options, seed, position). Each epoch draws the sequences
// by a permutation that is computed, not stored, so one number describes the position of a run.
#ifndef QKV_TASK_DATA_H
#define QKV_TASK_DATA_H

#include "base/base.h"
#include "model/model.h"
#include <qkv/train.h>

// ---- corpus.c: files of text as documents, pairs, labeled texts ---------------------------------
typedef struct qkv_corpus qkv_corpus; // open files of text; constant, threads may share it

// Names of enum qkv_objective, terminated by NULL.
extern const char *const task_objectives[QKV_OBJECTIVES + 1];

// struct qkv_text_source names the files. A folder means all files below it whose names do not
// begin with a dot, sorted by name; "-" is standard input, which is read to its end when opened. In
// TSV files, the texts are columns 1 and 2 unless the caller names others.
//
// One example: one text or two. The texts are valid until the cursor moves or is closed; if
// `borrowed`, until the corpus is closed.
struct qkv_example {
    const char *text, *second; // second: target, partner or label; NULL: the objective has none
    size_t bytes, second_bytes;
    bool borrowed;
    const char *file; // file and first line, for messages
    int64_t line;
};
// Opens a corpus. Returns QKV_OK; QKV_ERR_USAGE (format, columns, plain text for an objective with
// two texts), QKV_ERR_IO, QKV_ERR_LIMIT.
qkv_status qkv_corpus_open(qkv_corpus **out, const struct qkv_text_source *s,
                           enum qkv_objective objective, qkv_error *err);
void qkv_corpus_close(qkv_corpus *c); // c may be NULL
// returns the total size of its files
int64_t qkv_corpus_bytes(const qkv_corpus *c);
// writes the SHA-256 of all contents, in order
void qkv_corpus_hash(const qkv_corpus *c, char hex[QKV_SHA256_TEXT]);
struct qkv_corpus_cursor {
    const qkv_corpus *corpus;
    int64_t file, line;
    size_t at;      // byte offset in the file
    bool skim;      // only count examples: texts are not returned, JSON is not parsed
    char *texts[2]; // strings of a JSONL line
    int64_t capacity[2];
};
// Reads the next example, or sets *more to false at the end. Before the first call, the caller
// zeroes the cursor and sets corpus and skim. Skips lines with only white space. Returns QKV_OK;
// QKV_ERR_FORMAT, with file and line, for invalid JSON or a TSV line with too few columns;
// QKV_ERR_LIMIT.
qkv_status qkv_corpus_next(struct qkv_corpus_cursor *c, struct qkv_example *out, bool *more,
                           qkv_error *err);
void qkv_corpus_cursor_free(struct qkv_corpus_cursor *c);

// ---- data_make.c: making a dataset --------------------------------------------------------------
struct qkv_data_options {
    enum qkv_objective objective;
    struct qkv_text_source train, valid; // valid.n 0: split off from train
    // These sources if they are already open (standard input can be read only once), or NULL.
    const qkv_corpus *train_opened, *valid_opened;
    // Fraction of the documents or pairs that are used for validation (at least one, drawn with the
    // seed); 0: .01. If there is only one document, this fraction of its text is cut from its end.
    double valid_share;
    int64_t context; // maximum tokens of a sequence, including special tokens
    uint64_t seed;
    bool strict;     // invalid UTF-8 is QKV_ERR_FORMAT
    bool any_length; // accept text shorter than one context, for evaluation
    // causal: append `end` to each document, for a tokenizer whose template does not
    bool ends;
    int32_t end;
    struct qkv_progress progress;
};
// Tokenizes texts and writes a dataset to dir, creating it if missing.
//   causal       documents, with the special tokens of the tokenizer's template, are cut into
//                windows of context + 1 tokens that overlap by one, so that each token except a
//                document's first is a target once; a short document or remainder is a sequence of
//                its own, which batches pack without attention across sequences
//   masked       windows of `context` tokens, each with the template's special tokens
//   seq2seq      the source has the template's tokens, the target has none: batches add bos (and
//                `forced`) before and eos after it; pairs longer than the context are skipped and
//                counted
//   contrastive, classify   texts longer than the context are cut and counted; labels.txt lists the
//                labels in order of first appearance
// tokenizer_b: tokenizer of the target side; NULL: the same.
// Returns QKV_OK; QKV_ERR_USAGE (dir has a dataset, invalid options); QKV_ERR_FORMAT: no data or
// only one token, less than one context, nothing left for validation, a TSV line without tab (gives
// the line), a label of valid that train lacks; QKV_ERR_IO; QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED. An
// error leaves no files.
// Repeats: the files are identical for the same texts and options, with any number of threads.
qkv_status qkv_data_make(const char *dir, const struct qkv_data_options *o,
                         const qkv_tokenizer *tokenizer, const qkv_tokenizer *tokenizer_b,
                         qkv_error *err);

// ---- data.c: opening a dataset ------------------------------------------------------------------
typedef struct qkv_data qkv_data; // an opened dataset; threads may share it
// Opens a dataset. Reads every file once to check sizes, SHA-256 and ids: a file that was changed
// is QKV_ERR_FORMAT that names it.
qkv_status qkv_data_open(qkv_data **out, const char *dir, qkv_error *err);
void qkv_data_close(qkv_data *d);
struct qkv_data_info {
    enum qkv_objective objective;
    int64_t sequences[2], tokens[2]; // of train, of valid
    // bytes of text; causal: bytes of the targets, for bits per byte
    int64_t bytes[2];
    int64_t context, labels, vocab; // vocab: exclusive upper limit of the ids
    // number of texts cut, pairs skipped, places of invalid UTF-8 replaced
    int64_t cut, skipped, replaced;
    char hash[QKV_SHA256_TEXT]; // hash of the content
    // qkv_corpus_hash of the source files: of train, or of train and valid
    char source_hash[QKV_SHA256_TEXT];
};
struct qkv_data_info qkv_data_info(const qkv_data *d);
// returns the label's name; NULL: no such label
const char *qkv_data_label(const qkv_data *d, int64_t label);

// ---- data_draw.c: batches -----------------------------------------------------------------------
// Options of drawing batches.
struct qkv_draw {
    int64_t tokens;    // maximum rows of a batch (in + source); a batch has at least one sequence
    int64_t sequences; // maximum sequences (pairs); 0: no limit
    uint64_t seed;
    // special ids; vocab: for random tokens in masked batches
    int32_t bos, eos, pad, mask, vocab;
    // pairs: the token after bos with which every target begins
    bool forces;
    int32_t forced;
    // masked: fraction of tokens that become targets (80 % mask, 10 % random, 10 % unchanged); 0:
    // .15
    double mask_share;
};
// A batch and its memory, which the next batch reuses.
struct qkv_drawn {
    struct qkv_net_batch batch; // points into `workspace`
    int64_t sequences;          // number of examples in the batch
    int64_t next;               // position after this batch
    double epoch;               // epoch of that position
    // number of rows with a target; contrastive: pairs; classify: sequences
    int64_t targets;
    int64_t bytes;   // bytes of the targets' text (causal); 0 for other objectives
    void *workspace; // owned
};
// Draws the batch that begins at sequence number `position` of the train split, which is repeated
// endlessly and shuffled in each epoch.
qkv_status qkv_data_draw(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                         const struct qkv_draw *how, qkv_error *err);
// Makes the batch of the valid split that begins at sequence `position`. Sequences are not
// shuffled, and masks are the same in every call. At the end, out->sequences is 0.
qkv_status qkv_data_valid(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                          const struct qkv_draw *how, qkv_error *err);
void qkv_drawn_free(struct qkv_drawn *b); // a zeroed struct is allowed

// Returns number i of a permutation of 0 .. n - 1 that key selects.
int64_t qkv_shuffle(int64_t i, int64_t n, uint64_t key);
#endif
