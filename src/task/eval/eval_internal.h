// SPDX-License-Identifier: MIT
// eval_internal.h: declares the state of an evaluation, and a function per objective that measures
// the model.
#ifndef QKV_TASK_EVAL_INTERNAL_H
#define QKV_TASK_EVAL_INTERNAL_H
#include "task/find_model.h"
#include "task/generate/generation.h"
#include "task/train/train_internal.h"

struct eval {
    const struct qkv_eval_options *o;
    struct qkv_eval_observer observer;
    struct qkv_eval_result *result;
    struct train_config config; // options of the training run, valid if `run` is true
    bool run;                   // true: the evaluated model is from the folder of a training run
    char dir[QKV_PATH];         // path of the model folder
    enum qkv_objective objective;
    int64_t context;
    // For an encoder-decoder, the translator owns the model and the tokenizer. If translator is
    // NULL, `opened` and `read` own them.
    qkv_translator *translator;
    qkv_model *opened;
    qkv_tokenizer *read;
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
    struct qkv_model_info is;
    struct train_ids ids;
    // data: the dataset to evaluate on; trained: the dataset of the training run, which has the
    // names of the labels
    qkv_data *data, *trained;
    qkv_corpus *corpus; // the texts of `data`; NULL: they are the validation text of the run
    struct qkv_data_info info;
    struct qkv_draw draw;
    // temporary folder of the data: index in the table of temporary files, descriptor of the lock
    int slot, lock;
};
enum { EVAL_SOURCES = 64 }; // maximum number of sources that are decoded at the same time
// Reports progress to the caller's callback. Returns QKV_OK, or QKV_ERR_INTERRUPTED if the callback
// requests a stop.
qkv_status eval_progress(const struct eval *e, const char *what, int64_t done, int64_t total,
                         qkv_error *err);

// Returns the sequences of a batch as the input of a model.
static inline struct qkv_model_input eval_input(const struct qkv_sequences *s)
{
    return (struct qkv_model_input){
        .sequences = s->n, .offsets = s->offsets, .ids = s->ids, .types = s->types
    };
}

// ---- eval_tokens.c: loss of tokens (objectives causal, masked and seq2seq) ---------------------
qkv_status eval_tokens(struct eval *e, qkv_error *err);
// ---- eval_pairs.c: comparison of translations with references ----------------------------------
qkv_status eval_pairs(struct eval *e, qkv_error *err);
// ---- eval_texts.c: accuracy of vectors and labels of texts -------------------------------------
qkv_status eval_vectors(struct eval *e, qkv_error *err);
qkv_status eval_labels(struct eval *e, qkv_error *err);

// ---- eval_loss.c --------------------------------------------------------------------------------
// Adds the cross-entropy of n rows of logits to *loss: -ln softmax(logits[i])[want[i]] for row i.
void eval_add_rows(struct qkv_loss *loss, const float *logits, int64_t V, const int32_t *want,
                   int64_t n);

// ---- eval_edits.c -------------------------------------------------------------------------------
// Returns the minimum number of insertions, deletions and replacements that change a[n] to b[m];
// -1: memory is exhausted.
int64_t eval_edits(const int32_t *a, int64_t n, const int32_t *b, int64_t m);
// Edit distances between an output and its reference. tokens counts edits of words (separated by
// white space), characters counts edits of characters. *_length: the length of the reference in
// words or characters.
struct eval_distance {
    int64_t tokens, token_length, characters, character_length;
};
// Computes both edit distances. Returns false if memory is exhausted.
bool eval_distance(struct eval_distance *d, const char *output, const char *reference);
#endif
