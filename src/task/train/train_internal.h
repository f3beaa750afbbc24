// SPDX-License-Identifier: MIT
// train_internal.h: declares the state of a training run and the functions that its files share.
#ifndef QKV_TASK_TRAIN_WORK_H
#define QKV_TASK_TRAIN_WORK_H
#include "task/data/data.h"
#include "task/embed/embed_internal.h"
#include "task/train/optim.h"
#include "task/words/word_vectors.h"

// ---- train_options.c: the options of a run, from the caller, run.json and defaults --------------
struct train_config {
    struct qkv_train_options o; // texts and lists point into root or paths, or are constants
    json_t *root;               // content of run.json
    const char **paths[2];      // paths of the train and valid sources
    bool fresh;                 // there was no run.json
    bool any_context;           // fresh, and the caller did not set the context
};
// Returns the index of name in names[] (terminated by NULL); -1: not found.
int train_word(const char *const *names, const char *name);
// Writes names[] as "a, b, c", for a message.
const char *train_words(char text[200], const char *const *names);
extern const char *const train_optimizers[], *const train_schedules[], *const train_norms[];
// Names of activations, and of kinds of tokenizers
extern const char *const train_activations[], *const train_kinds[];
// Each list has the order of its enum: qkv_optimizer_kind, qkv_schedule_kind, qkv_norm_place,
// qkv_activation.

// Combines the caller's options with RUN/run.json. Options that differ are QKV_ERR_FORMAT, whose
// message lists all of them.
qkv_status train_config_read(struct train_config *c, const struct qkv_train_options *given,
                             qkv_error *err);
// Sets the defaults that depend only on other options; checks ranges and names.
qkv_status train_config_defaults(struct train_config *c, qkv_error *err);
// Writes the current options to RUN/run.json.
qkv_status train_config_write(struct train_config *c, qkv_error *err);
void train_config_free(struct train_config *c);
// Returns the value of an option that can be 0: a negative `given` means 0, and 0 means the default
// `otherwise`.
static inline double train_real(double given, double otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}
static inline int64_t train_int(int64_t given, int64_t otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}

#define TRAIN_DATA_NEW "data.new" // new data folder, which replaces data/ when complete

// ---- train_folder.c: the lock of a run, its logs ------------------------------------------------
// Checks that the folder is a run, empty or missing; with resume, that it is a run.
qkv_status train_folder_check(const char *run, bool resume, qkv_error *err);
bool train_folder_is_run(const char *run);
// Removes temporary files that a killed trainer left.
void train_folder_tidy(const char *run);
// Removes the files of a run that failed before its first step.
void train_folder_clear(const char *run);
struct train_lock {
    int fd; // file descriptor; 0: none
    char path[QKV_PATH];
    uint64_t device, file;
};
// Locks the folder, after creating it if missing. *stale: process id of a trainer that was killed,
// 0: none. Returns QKV_ERR_IO if another trainer has the lock (the message gives its process id),
// or if no file can be written to the folder.
qkv_status train_lock_take(struct train_lock *l, const char *run, int64_t *stale, qkv_error *err);
void train_lock_leave(struct train_lock *l);

// Copies a file, completely or not at all.
qkv_status train_copy(const char *from, const char *to, bool force, qkv_error *err);

// A file to which lines are appended.
struct train_log {
    int fd; // file descriptor; 0: none
    char path[QKV_PATH];
    int64_t bytes;
    qkv_status status; // status of the last line
    qkv_error err;
};
// Opens a log and truncates it to `bytes` if it is longer: the steps after the checkpoint are
// logged again.
qkv_status train_log_open(struct train_log *l, const char *run, const char *name, int64_t bytes,
                          qkv_error *err);
// writes an object as one line; line NULL: memory is exhausted
void train_log_line(struct train_log *l, const json_t *line);
qkv_status train_log_sync(struct train_log *l, qkv_error *err);
void train_log_close(struct train_log *l);

// The part of a checkpoint in addition to weights and moments: everything else that the next step
// depends on.
struct train_state {
    int64_t step, position, targets, updates, bad_steps;
    // consecutive evaluations without improvement; best step, -1: no evaluation yet
    int64_t bad_evaluations, best_step;
    double loss, valid_loss, best_loss, epoch;
    int64_t log_bytes, probe_bytes;
    char data[QKV_SHA256_TEXT];
};
struct train {
    struct train_config config;
    const struct qkv_train_options *o; // &config.o
    struct qkv_train_observer observer;
    enum qkv_objective objective;
    struct train_lock lock;
    qkv_tokenizer *tokenizer;
    qkv_data *data;
    struct qkv_data_info info;
    qkv_net *net;
    struct qkv_net_options how; // options of the model during training
    struct qkv_parameter *p;
    int64_t n;
    struct qkv_optimizer optimizer;
    struct qkv_schedule schedule;
    struct qkv_draw draw;
    struct train_state state;
    struct train_log log, probes;
    // step of the newest checkpoint, -1: no checkpoint yet; step at which the run resumed
    int64_t saved_step, from_step;
    qkv_error save_error;   // error of the last save; status QKV_OK: it succeeded
    qkv_error log_error;    // error of the first lost log line
    struct qkv_drawn valid; // memory for batches of evaluations
};
void train_note(const struct train *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ---- train_setup.c: prepares tokenizer, data and model of a run ---------------------------------
qkv_status train_setup(struct train *t, qkv_error *err);
// Finds the ids of a tokenizer's special tokens by their usual names; -1: the vocabulary lacks the
// token.
struct train_specials {
    int32_t pad, bos, eos, mask;
};
struct train_specials train_specials_of(const qkv_tokenizer *tokenizer);

// Fills o->ends and o->end: the tokenizer's end token is appended to each document, unless its
// template already does so.
qkv_status train_ends(const qkv_tokenizer *t, struct qkv_data_options *o, qkv_error *err);
// Returns QKV_ERR_USAGE: the requested context is longer than the positions of the model.
qkv_status train_fail_context(const char *model, int64_t asked, int64_t most, int64_t positions,
                              qkv_error *err);
// Returns the default objective for a model.
enum qkv_objective train_objective_of(const qkv_net *n);
// The vocabulary of a model, and the ids that its config.json names; -1: none. bos: for pairs, the
// first token of the decoder input; forced: the second, which the model must write first.
struct train_ids {
    int64_t vocab;
    int32_t bos, forced, eos, pad, mask;
};
// Fills in how batches are drawn for a model; vocab: of the dataset.
qkv_status train_draw(struct qkv_draw *d, const struct qkv_train_options *o,
                      enum qkv_objective objective, const struct train_ids *ids,
                      const qkv_tokenizer *tokenizer, int64_t vocab, qkv_error *err);

// ---- train_save.c: checkpoints of a run ---------------------------------------------------------
// Saves t->state, t->net and t->optimizer in a new checkpoint. After an error, found in
// t->save_error, the run continues.
void train_save(struct train *t);
// Reads the state of the checkpoint from which the model was opened.
qkv_status train_state_read(struct train_state *s, const char *dir, qkv_error *err);
// Reads the optimizer's moments of that checkpoint.
qkv_status train_moments_read(struct train *t, const char *dir, qkv_error *err);

// Exports the model to o->export_dir in the format of its family; with early stopping, the best
// checkpoint.
qkv_status train_export(struct train *t, qkv_error *err);
qkv_status train_export_check(const struct qkv_train_options *o, qkv_error *err);

// ---- train_probe.c: attention statistics of each head -------------------------------------------
qkv_status train_probe(struct train *t, qkv_error *err);

// Sums over one pass of the valid split, computed without dropout and label smoothing.
struct train_valid {
    struct qkv_loss loss;
    int64_t sequences, targets, bytes;
};
qkv_status train_validate(struct train_valid *v, qkv_net *net, const struct qkv_net_options *how,
                          const qkv_data *data, const struct qkv_draw *draw,
                          struct qkv_drawn *workspace, const struct qkv_progress *progress,
                          qkv_error *err);
#endif
