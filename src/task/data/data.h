// SPDX-License-Identifier: MIT
// data.h: declares corpora (files of text), datasets (tokens on disk) and batches drawn from them.
//
// A dataset is a folder. The split train has the files listed here; valid.tokens, valid.offsets,
// ... are the same for the split valid.
//   index.json       objective, counts, and the size and SHA-256 of every file; written last
//   train.tokens     the token ids of all sequences, 4 bytes each, little-endian
//   train.offsets    the start of each sequence and the end of the last, 8 bytes each; a pair of
//                    texts is two sequences
//   train.bytes      objective causal only: how many bytes of text precede the targets of each
//                    sequence, 8 bytes each
//   train.labels     objective classify only: the label number of each sequence, 4 bytes each
//   labels.txt       objective classify only: the names of the labels, one per line
// The files are memory-mapped. A folder without index.json is not a dataset.
//
// A batch is a pure function of (dataset, options, seed, position). In each epoch the sequences are
// drawn in the order of a permutation that is computed, not stored, so one number describes the
// position of a run.
#ifndef QKV_TASK_DATA_H
#define QKV_TASK_DATA_H

#include "base/base.h"
#include "model/model.h"
#include <qkv/train.h>

// ---- corpus.c: files of text as documents, pairs, labeled texts ---------------------------------
// open files of text; read-only, so that threads may share them
typedef struct qkv_corpus qkv_corpus;

// Names of enum qkv_objective; the last element is NULL.
extern const char *const task_objectives[QKV_OBJECTIVES + 1];

// An example is one text, or two texts if the objective needs pairs or labels. The texts are valid
// until the cursor moves or is closed; if `borrowed` is true, until the corpus is closed.
struct qkv_example {
    // second: the target, the partner text or the label; NULL if the objective needs one text
    const char *text, *second;
    size_t bytes, second_bytes;
    bool borrowed;
    const char *file; // file and first line of the example, for error messages
    int64_t line;
};
// Opens a corpus of the files that *s names. A folder means all files below it whose names do not
// begin with a dot, sorted by name. "-" means standard input, which is read to its end when the
// corpus is opened. In TSV files, the texts are columns 1 and 2 unless the caller names others.
// Returns QKV_OK; QKV_ERR_USAGE (an invalid format or column, or plain text for an objective that
// needs two texts), QKV_ERR_IO, QKV_ERR_LIMIT.
qkv_status qkv_corpus_open(qkv_corpus **out, const struct qkv_text_source *s,
                           enum qkv_objective objective, qkv_error *err);
void qkv_corpus_close(qkv_corpus *c); // c may be NULL
// Returns the total size of the files.
int64_t qkv_corpus_bytes(const qkv_corpus *c);
// Writes the SHA-256 of the contents of all files, in their order.
void qkv_corpus_hash(const qkv_corpus *c, char hex[QKV_SHA256_TEXT]);
struct qkv_corpus_cursor {
    const qkv_corpus *corpus;
    int64_t file, line;
    size_t at;      // offset of the next byte to read in the current file
    bool skim;      // only count the examples: return no texts and parse no JSON
    char *texts[2]; // JSONL: the decoded strings of the current line
    int64_t capacity[2];
};
// Reads the next example, or sets *more to false at the end. Before the first call, the caller
// zeroes the cursor and sets corpus and skim. Skips lines with only white space. Returns QKV_OK;
// QKV_ERR_FORMAT, with file and line, for invalid JSON or a TSV line with too few columns;
// QKV_ERR_LIMIT.
qkv_status qkv_corpus_next(struct qkv_corpus_cursor *c, struct qkv_example *out, bool *more,
                           qkv_error *err);
void qkv_corpus_cursor_free(struct qkv_corpus_cursor *c);

// ---- data_make.c: makes a dataset from text ----------------------------------------------------
struct qkv_data_options {
    enum qkv_objective objective;
    // valid.n 0: the validation split is taken from the texts of train
    struct qkv_text_source train, valid;
    // The corpora of train and valid if the caller has already opened them (standard input can be
    // read only once); NULL if they must be opened.
    const qkv_corpus *train_opened, *valid_opened;
    // Fraction of the documents or pairs that becomes the validation split: at least one of them,
    // drawn with the seed. 0 means .01. If there is only one document, the validation split is this
    // fraction of its text, cut from its end.
    double valid_share;
    int64_t context; // maximum tokens of a sequence, including special tokens
    uint64_t seed;
    bool strict; // invalid UTF-8 is an error, QKV_ERR_FORMAT
    // for evaluation: accept a text that is shorter than one context, and texts of one label
    bool evaluation;
    // causal: true if the token `end` must be appended to each document, because the tokenizer's
    // template does not append it
    bool ends;
    int32_t end;
    struct qkv_progress progress;
};
// Tokenizes texts and writes a dataset to dir, which is created if missing. How a text becomes
// sequences depends on the objective:
//   causal       a document, with the special tokens of the tokenizer's template, is cut into
//                windows of context + 1 tokens. Consecutive windows overlap by one token, so that
//                each token except a document's first is a target once. A short document, or the
//                short end of a document, is a sequence of its own; a batch packs such sequences
//                without attention between them.
//   masked       a document is cut into windows of `context` tokens, including the template's
//                special tokens around each window
//   seq2seq      a source has the template's special tokens, a target has none: a batch adds bos
//                (and `forced`) before the target and eos after it. Pairs longer than the context
//                are skipped and counted.
//   contrastive, classify   a text longer than the context is cut and counted; labels.txt lists the
//                labels in order of first appearance
// tokenizer_b: the tokenizer of the targets; NULL: `tokenizer` for both sides.
// Returns QKV_OK; QKV_ERR_USAGE (dir has a dataset, or an option is invalid); QKV_ERR_FORMAT (no
// text, fewer than two tokens, a text shorter than one context, no text left for validation, a TSV
// line without tab, a label that only the validation split has; the error names the line);
// QKV_ERR_IO; QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED. After an error, no files remain.
// Repeats: the files are identical for the same texts and options, with any number of threads.
qkv_status qkv_data_make(const char *dir, const struct qkv_data_options *o,
                         const qkv_tokenizer *tokenizer, const qkv_tokenizer *tokenizer_b,
                         qkv_error *err);

// ---- data.c: opens a dataset -------------------------------------------------------------------
typedef struct qkv_data qkv_data; // an opened dataset, which threads may share
// Opens a dataset. Reads every file once to check its size, its SHA-256 and its ids. Returns
// QKV_ERR_FORMAT, with the file's name in err, if a file was changed.
qkv_status qkv_data_open(qkv_data **out, const char *dir, qkv_error *err);
void qkv_data_close(qkv_data *d);
struct qkv_data_info {
    enum qkv_objective objective;
    int64_t sequences[2], tokens[2]; // [0]: of the train split, [1]: of the valid split
    // [0] train, [1] valid: bytes of text; causal: bytes of the text of the targets, for bits per
    // byte
    int64_t bytes[2];
    // context: maximum tokens of a sequence; vocab: every id is smaller
    int64_t context, labels, vocab;
    // cut: texts that were shortened; skipped: pairs or texts that were left out; replaced: places
    // with invalid UTF-8
    int64_t cut, skipped, replaced;
    char hash[QKV_SHA256_TEXT]; // SHA-256 of the dataset (data_hash in data_internal.h)
    // SHA-256 of the texts: qkv_corpus_hash of train or, if valid has files of its own, a hash of
    // both hashes
    char source_hash[QKV_SHA256_TEXT];
};
struct qkv_data_info qkv_data_info(const qkv_data *d);
// Returns the name of a label; NULL: no such label.
const char *qkv_data_label(const qkv_data *d, int64_t label);

// ---- data_draw.c: draws batches from a dataset -------------------------------------------------
// How batches are drawn.
struct qkv_draw {
    // maximum rows of a batch, targets and sources together; one sequence is always allowed
    int64_t tokens;
    int64_t sequences; // maximum sequences (or pairs) of a batch; 0: no limit
    uint64_t seed;
    // ids of special tokens; vocab: random tokens of masked batches have smaller ids
    int32_t bos, eos, pad, mask, vocab;
    // pairs: if true, every target begins with bos and the token `forced`
    bool forces;
    int32_t forced;
    // masked: fraction of the tokens that become targets, 0: .15. Of the targets, 80 % are replaced
    // by the mask, 10 % by a random token, and 10 % are unchanged.
    double mask_share;
};
// A batch and its memory, which the next batch reuses.
struct qkv_drawn {
    struct qkv_net_batch batch; // points into `workspace`
    int64_t sequences;          // number of examples in the batch
    int64_t next;               // position at which the next batch begins
    // epoch that `next` is in, with its fraction: 1.5 is the middle of the second epoch
    double epoch;
    // number of targets for the mean loss: rows with a target; contrastive: pairs; classify:
    // sequences
    int64_t targets;
    int64_t bytes;   // causal: bytes of the text of the targets; 0 for other objectives
    void *workspace; // owned
};
// Draws the batch that begins at sequence number `position` of the train split. The split is
// repeated endlessly, in another random order in each epoch.
qkv_status qkv_data_draw(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                         const struct qkv_draw *how, qkv_error *err);
// Makes the batch of the valid split that begins at sequence `position`. Sequences are not
// shuffled, and masks are the same in every call. At the end, out->sequences is 0.
qkv_status qkv_data_valid(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                          const struct qkv_draw *how, qkv_error *err);
void qkv_drawn_free(struct qkv_drawn *b); // accepts a zeroed struct

// Returns element i of a permutation of 0 .. n - 1. The key selects the permutation.
int64_t qkv_shuffle(int64_t i, int64_t n, uint64_t key);
#endif
