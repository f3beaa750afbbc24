// SPDX-License-Identifier: MIT
// train_work.h: inside of room task: a run under way, and what its files share.
#ifndef QKV_TASK_TRAIN_WORK_H
#define QKV_TASK_TRAIN_WORK_H
#include "task/task.h"

// ---- train_options.c: what is asked for, what the run has, what is left to defaults -------------
struct train_config {
    struct qkv_train_options o; // texts and lists point into root, paths, or are constants
    json_t *root;               // run.json
    const char **paths[2];      // of train and valid
    bool fresh;                 // there was no run.json
    bool any_context;           // fresh, and the context was left to us
};
// Index of name in names[] (ends with NULL); -1: none.
int train_word(const char *const *names, const char *name);
// "a, b, c" of names[] for a message.
const char *train_words(char text[200], const char *const *names);
extern const char *const train_optimizers[], *const train_schedules[], *const train_norms[];
extern const char *const train_activations[], *const train_kinds[]; // of tokenizers
// In the order of their enums: qkv_optimizer_kind, qkv_schedule_kind, qkv_norm_place; activations:
// enum of train_activation().

// c from what is given and RUN/run.json: a difference is QKV_ERR_FORMAT that lists all of them.
qkv_status train_config_read(struct train_config *c, const struct qkv_train_options *given,
                             qkv_error *err);
// What depends on nothing but options; also checks ranges and words.
qkv_status train_config_defaults(struct train_config *c, qkv_error *err);
// o as it is now to RUN/run.json.
qkv_status train_config_write(struct train_config *c, qkv_error *err);
void train_config_free(struct train_config *c);
// A value that may be 0 itself: negative 0, 0 the default.
static inline double train_real(double given, double otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}
static inline int64_t train_int(int64_t given, int64_t otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}

#define TRAIN_DATA_NEW "data.new" // data under way that take the place of data/

// ---- train_folder.c: the lock of a run, its logs ------------------------------------------------
// Is it a run, or empty, or not there?  resume: a run.
qkv_status train_folder_check(const char *run, bool resume, qkv_error *err);
bool train_folder_is_run(const char *run);
// Removes files that a kill left half written.
void train_folder_tidy(const char *run);
// Takes away what a run that had no step has made.
void train_folder_clear(const char *run);
struct train_lock {
    int fd; // 0: none
    char path[QKV_PATH];
    uint64_t device, file;
};
// The folder is made when missing.  stale: pid of a trainer that was killed, 0: none.
// QKV_ERR_IO: another trainer holds it (its pid), or the folder takes no file.
qkv_status train_lock_take(struct train_lock *l, const char *run, int64_t *stale, qkv_error *err);
void train_lock_leave(struct train_lock *l);

// The bytes of a file to another, whole or not at all.
qkv_status train_copy(const char *from, const char *to, bool force, qkv_error *err);

// A file that lines are added to; lines lost to a full disk are counted.
struct train_log {
    int fd; // 0: none
    char path[QKV_PATH];
    int64_t bytes;
    qkv_status status; // of the last line
    qkv_error err;
};
// Opened, and cut to `bytes` when it is longer: what came after the checkpoint is said again.
qkv_status train_log_open(struct train_log *l, const char *run, const char *name, int64_t bytes,
                          qkv_error *err);
void train_log_line(struct train_log *l, const json_t *line); // object on one line; NULL: no memory
qkv_status train_log_sync(struct train_log *l, qkv_error *err);
void train_log_close(struct train_log *l);

// ---- a run --------------------------------------------------------------------------------------
// What a checkpoint keeps beside weights and moments: all that the next step depends on.
struct train_state {
    int64_t step, position, targets, updates, bad_steps;
    int64_t bad_evaluations, best_step; // in a row without a better one; -1: none yet
    double loss, valid_loss, best_loss, epoch;
    int64_t log_bytes, probe_bytes;
    char data[QKV_SHA256_TEXT];
};
struct train {
    struct train_config config;
    const struct qkv_train_options *o; // config.o
    struct qkv_train_watch watch;
    enum qkv_objective objective;
    struct train_lock lock;
    qkv_tokenizer *tokenizer;
    qkv_data *data;
    struct qkv_data_info info;
    qkv_net *net;
    struct qkv_net_options how; // of the net while it trains
    struct qkv_parameter *p;
    int64_t n;
    struct qkv_optimizer optimizer;
    struct qkv_schedule schedule;
    struct qkv_draw draw;
    struct train_state state;
    struct train_log log, probes;
    int64_t saved_step, from_step; // of the newest checkpoint; -1: none.  Step of the resume
    qkv_error save_error;          // of the last save, status QKV_OK: it is there
    qkv_error log_error;           // of the first line that was lost
    struct qkv_drawn valid;        // room of evaluations
};
void train_note(const struct train *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ---- train_setup.c: tokenizer, data, net, from options and what is in the folder ----------------
qkv_status train_setup(struct train *t, qkv_error *err);
// Ids of a tokenizer's special tokens by their usual names, -1: none.
struct train_specials {
    int32_t pad, bos, eos, mask;
};
struct train_specials train_specials_of(const qkv_tokenizer *tokenizer);

// Fills o->ends and o->end: the tokenizer's last token behind each document, unless its template
// puts it.
qkv_status train_ends(const qkv_tokenizer *t, struct qkv_data_options *o, qkv_error *err);
// QKV_ERR_USAGE: the context that was asked for is more than the model's positions take.
qkv_status train_fail_context(const char *model, int64_t asked, int64_t most, const qkv_net *n,
                              qkv_error *err);
// What a model is for, when nothing is said.
enum qkv_objective train_objective_of(const qkv_net *n);
// How batches are drawn for a net; vocab: of the dataset.
qkv_status train_draw(struct qkv_draw *d, const struct qkv_train_options *o,
                      enum qkv_objective objective, const qkv_net *net,
                      const qkv_tokenizer *tokenizer, int64_t vocab, qkv_error *err);

// ---- train_save.c: checkpoints of a run ---------------------------------------------------------
// t->state, t->net, t->optimizer to a new checkpoint.  On error the run goes on: t->save_error.
void train_save(struct train *t);
// State and moments of a checkpoint; the net was opened from it.
qkv_status train_state_read(struct train_state *s, const char *dir, qkv_error *err);
qkv_status train_moments_read(struct train *t, const char *dir, qkv_error *err);

// The model to o->export_dir as others read it: where it stops early, the best.
qkv_status train_export(struct train *t, qkv_error *err);
qkv_status train_export_check(const struct qkv_train_options *o, qkv_error *err);

// ---- train_probe.c: what heads look at ----------------------------------------------------------
qkv_status train_probe(struct train *t, qkv_error *err);

// ---- train_valid.c ------------------------------------------------------------------------------
// Sums of a pass over the valid split, without dropout and smoothing.
struct train_valid {
    struct qkv_loss loss;
    int64_t sequences, targets, bytes;
};
qkv_status train_validate(struct train_valid *v, qkv_net *net, const struct qkv_net_options *how,
                          const qkv_data *data, const struct qkv_draw *draw, struct qkv_drawn *room,
                          const struct qkv_progress *progress, qkv_error *err);
#endif
