// SPDX-License-Identifier: MIT
// data.h: text to tokens on disk to batches.  Part of the door task.h.
//
// A dataset is a folder:
//   index.json              what it holds: objective, counts, sizes and SHA-256 of the files; written last
//   train.tokens  valid...  ids of 4 bytes, little-endian, sequence behind sequence
//   train.offsets           where they begin, 8 bytes each, one more than there are; a pair has two
//   train.bytes             causal: text bytes before each sequence's targets, 8 bytes each
//   train.labels labels.txt classification: 4 bytes a sequence; the names, a line each
// Shards are memory-mapped.  Without index.json there is no dataset: it is made whole or not at
// all.
//
// A batch is a pure function of (dataset, options, seed, position): sequences are drawn by a
// permutation of their numbers that is computed, not stored, one an epoch; so the position of a run
// is one number.
#ifndef QKV_TASK_DATA_H
#define QKV_TASK_DATA_H

// ---- corpus.c: files of text as documents, pairs, labelled texts --------------------------------
typedef struct qkv_corpus qkv_corpus; // opened; const, threads may share it

// Names of enum qkv_objective; NULL ends them.
extern const char *const task_objectives[QKV_OBJECTIVES + 1];

// Files are struct qkv_text_source: folders give every file below whose name begins with no dot, in
// the order of names; "-", standard input, is read to its end when opened.  TSV: columns 1 and 2
// where none are named.
// One text, or two.  Valid until the cursor moves or is closed; borrowed: as long as the corpus.
struct qkv_example {
    const char *text, *second; // second: target, partner or label; NULL: the objective has none
    size_t bytes, second_bytes;
    bool borrowed;
    const char *file; // and line where it begins, for messages
    int64_t line;
};
// Returns QKV_OK; QKV_ERR_USAGE (format, columns, plain text where two are asked for), QKV_ERR_IO,
// QKV_ERR_LIMIT
qkv_status qkv_corpus_open(qkv_corpus **out, const struct qkv_text_source *s,
                           enum qkv_objective objective, qkv_error *err);
void qkv_corpus_close(qkv_corpus *c);                                 // NULL is fine
int64_t qkv_corpus_bytes(const qkv_corpus *c);                        // of all its files
void qkv_corpus_hash(const qkv_corpus *c, char hex[QKV_SHA256_TEXT]); // of their contents, in order
struct qkv_corpus_cursor {
    const qkv_corpus *corpus;
    int64_t file, line;
    size_t at;      // byte in that file
    bool skim;      // only that there is an example: no texts, JSON is not looked into
    char *texts[2]; // of a JSONL line
    int64_t room[2];
};
// The next example, from a cursor that is zero but for corpus and skim; *more false: the end.
// Lines of white space alone are passed over.
// Returns QKV_OK; QKV_ERR_FORMAT with file and line: a TSV line with too few columns, JSON;
// QKV_ERR_LIMIT
qkv_status qkv_corpus_next(struct qkv_corpus_cursor *c, struct qkv_example *out, bool *more,
                           qkv_error *err);
void qkv_corpus_cursor_free(struct qkv_corpus_cursor *c);

// ---- data_make.c: a dataset is made -------------------------------------------------------------
struct qkv_data_options {
    enum qkv_objective objective;
    struct qkv_text_source train, valid; // valid.n 0: split off train
    // These sources where they are open already (standard input is there only once), or NULL
    const qkv_corpus *train_opened, *valid_opened;
    // 0: .01 of the documents or pairs, drawn by seed, at least one; of a single document its end
    double valid_share;
    int64_t context; // tokens of a sequence at most (with its specials)
    uint64_t seed;
    bool strict;     // invalid UTF-8 is QKV_ERR_FORMAT
    bool any_length; // text shorter than one context will do: to evaluate on
    bool ends;       // causal: `end` is put behind each document, for a template that does not
    int32_t end;
    struct qkv_progress progress;
};
// Tokenises into dir (made when missing).
//   causal       documents (with what the tokenizer's template puts around them) are cut into windows of context +
//                1 tokens that overlap by one, so that each token but a document's first is a target once; a short
//                document, or a rest, is a sequence of its own: batches pack them without attention across
//   masked       windows of `context` tokens, the template's tokens around each
//   seq2seq      source as the template has it; target without: draws put bos before and eos behind.  A pair that
//                does not fit the context is left out and counted
//   contrastive, classify   texts longer than the context are cut and counted.  Labels: dir/labels.txt, in order
//                of first appearance
// tokenizer_b (NULL: the same): of the target side.
// Returns QKV_OK; QKV_ERR_USAGE (a dataset is there already, options); QKV_ERR_FORMAT: empty or
// one-token data, less of it than one context, no validation left, a TSV line without tab (its
// line), a label of valid that train has not; QKV_ERR_IO; QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED:
// nothing is left behind.
// Repeats: the same files for the same texts and options, with any number of threads.
qkv_status qkv_data_make(const char *dir, const struct qkv_data_options *o,
                         const qkv_tokenizer *tokenizer, const qkv_tokenizer *tokenizer_b,
                         qkv_error *err);

// ---- data.c: a dataset opened -------------------------------------------------------------------
typedef struct qkv_data qkv_data; // an opened dataset; threads may share it
// Every file is read once: sizes, SHA-256 and ids are checked, so that what was changed is
// QKV_ERR_FORMAT that names the file.
qkv_status qkv_data_open(qkv_data **out, const char *dir, qkv_error *err);
void qkv_data_close(qkv_data *d);
struct qkv_data_info {
    enum qkv_objective objective;
    int64_t sequences[2], tokens[2]; // train, valid
    int64_t bytes[2]; // of text; causal: of the text that the targets stand for, for bits per byte
    int64_t context, labels, vocab; // vocab: ids are below
    int64_t cut, skipped, replaced; // texts shortened, pairs left out, places of invalid UTF-8
    char hash[QKV_SHA256_TEXT];     // of the content
    char source_hash
        [QKV_SHA256_TEXT]; // of the files it was made from: qkv_corpus_hash of train (and valid)
};
struct qkv_data_info qkv_data_info(const qkv_data *d);
const char *qkv_data_label(const qkv_data *d, int64_t label); // its name; NULL: no such label

// ---- data_draw.c: batches -----------------------------------------------------------------------
// How batches are drawn.
struct qkv_draw {
    int64_t tokens;    // a batch has at most so many rows (in + source); at least one sequence
    int64_t sequences; // and at most so many sequences (pairs); 0: no such limit
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
    int64_t targets;            // rows with a target; contrastive: pairs; classify: sequences
    int64_t bytes;              // of text that the targets stand for (causal), else 0
    void *room;                 // owned
};
// The batch that begins at sequence `position` of the endless shuffled train split.
qkv_status qkv_data_draw(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                         const struct qkv_draw *how, qkv_error *err);
// Batch of the valid split from sequence `position`, in order, never shuffled, masked the same each
// time;
// out->sequences 0: the end.
qkv_status qkv_data_valid(const qkv_data *d, struct qkv_drawn *out, int64_t position,
                          const struct qkv_draw *how, qkv_error *err);
void qkv_drawn_free(struct qkv_drawn *b); // a zeroed struct is fine

// The permutation that draws: number i of 0 .. n - 1 under a key; each number has one place.
int64_t qkv_shuffle(int64_t i, int64_t n, uint64_t key);
#endif
