// SPDX-License-Identifier: MIT
// train_internal.h: declares the state of a training run, and the functions that the files of this
// folder share.
#ifndef QKV_TASK_TRAIN_INTERNAL_H
#define QKV_TASK_TRAIN_INTERNAL_H
#include "task/data/data.h"
#include "task/embed/embed_internal.h"
#include "task/train/optim.h"
#include "task/words/word_vectors.h"
#include <qkv/ranks.h>

struct train;

// ---- train_options.c: combines options of the caller, options in run.json, and defaults --------
struct train_config {
    struct qkv_train_options o; // its texts and lists belong to root or paths, or are constants
    json_t *root;               // the parsed run.json
    // paths of the files with the train texts [0] and the valid texts [1]
    const char **paths[2];
    bool fresh;       // true: the folder had no run.json
    bool any_context; // true: a new run whose caller did not set the context
};
// Returns the index of `name` in names[], whose last element is NULL; -1: names[] does not contain
// it.
int train_word(const char *const *names, const char *name);
// Writes the elements of names[] as "a, b, c", for an error message.
const char *train_words(char text[200], const char *const *names);
// The names of enum qkv_optimizer_kind, qkv_schedule_kind and qkv_norm_place (without
// QKV_NORM_INSIDE), in the order of the enum; the last element is NULL.
extern const char *const train_optimizers[], *const train_schedules[], *const train_norms[];
// The names of enum qkv_activation, in the order of the enum, and the names of the tokenizers that
// can be trained; the last element is NULL.
extern const char *const train_activations[], *const train_kinds[];

// Combines the caller's options with the options in RUN/run.json, where RUN is the folder of the
// run. Returns QKV_ERR_FORMAT if they contradict each other; the message lists all options that
// differ.
qkv_status train_config_read(struct train_config *c, const struct qkv_train_options *given,
                             qkv_error *err);
// Sets all defaults that depend only on other options, and checks the ranges and names of options.
qkv_status train_config_defaults(struct train_config *c, qkv_error *err);
// Writes all options to RUN/run.json.
qkv_status train_config_write(struct train_config *c, qkv_error *err);
void train_config_free(struct train_config *c);
// Returns the value of an option whose default is `otherwise`. Since `given` 0 means the default, a
// negative `given` means the value 0.
static inline double train_real(double given, double otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}
static inline int64_t train_int(int64_t given, int64_t otherwise)
{
    return given < 0 ? 0 : given > 0 ? given : otherwise;
}

#define TRAIN_DATA_NEW "data.new" // folder of a new dataset, which is renamed to data when complete

// ---- train_folder.c: the lock and the log files of a run ---------------------------------------
// Checks that the folder contains a run, is empty, or does not exist. With `resume`, the folder
// must contain a run.
qkv_status train_folder_check(const char *run, bool resume, qkv_error *err);
bool train_folder_is_run(const char *run);
// Removes temporary files of a trainer that was killed.
void train_folder_tidy(const char *run);
// Removes the files of a run that failed before its first step.
void train_folder_clear(const char *run);
struct train_lock {
    int fd; // file descriptor; 0: not locked
    char path[QKV_PATH];
    uint64_t device, file;
};
// Locks the folder, which is created if missing. *stale becomes the process id of a previous
// trainer that was killed, or 0. Returns QKV_ERR_IO if another trainer has the lock (the message
// has its process id), or if the folder is not writable.
qkv_status train_lock_take(struct train_lock *l, const char *run, int64_t *stale, qkv_error *err);
void train_lock_leave(struct train_lock *l);

// Copies a file. If copying fails, no partial copy remains.
qkv_status train_copy(const char *from, const char *to, bool force, qkv_error *err);

// ---- run_files.c: files of the tokenizer and of generation --------------------------------------
// Copies the tokenizer that the options name (o->tokenizer, else that of o->from), in any format,
// to the run, after checking that it is valid, under names that qkv_tokenizer_open looks for in a
// folder; from o->from also generation_config.json.
qkv_status train_files_gather(const struct qkv_train_options *o, qkv_error *err);
// Copies these files from the run to a model folder. If the run has tokenizer.json and no
// tokenizer_config.json, writes one, so that transformers opens tokenizer.json as it is.  A decoder
// that is trained from scratch gets a generation_config.json that samples.
qkv_status train_files_write(const struct train *t, const char *dir, qkv_error *err);
// Removes these files from a run.
void train_files_remove(const char *run);
// Returns true if name[bytes] is the name of one of these files.
bool train_file_is_copied(const char *name, size_t bytes);

// A log file, to which lines are appended.
struct train_log {
    int fd; // file descriptor; 0: not open
    char path[QKV_PATH];
    int64_t bytes;
    qkv_status status; // QKV_OK, or the error of the last line
    qkv_error err;
};
// Opens a log file. If it is longer than `bytes`, its length at the last checkpoint, truncates it:
// the steps after that checkpoint are run and logged again.
qkv_status train_log_open(struct train_log *l, const char *run, const char *name, int64_t bytes,
                          qkv_error *err);
// Writes a JSON object as one line. line NULL: memory was exhausted, which becomes l->status.
void train_log_line(struct train_log *l, const json_t *line);
qkv_status train_log_sync(struct train_log *l, qkv_error *err);
void train_log_close(struct train_log *l);

// The state in a checkpoint: everything that the next step depends on, except weights and moments.
struct train_state {
    int64_t step, position, targets, updates, bad_steps;
    // bad_evaluations: evaluations since the best one; best_step: step of the best evaluation, -1:
    // no evaluation yet
    int64_t bad_evaluations, best_step;
    double loss, valid_loss, best_loss, epoch;
    int64_t log_bytes, probe_bytes;
    char data[QKV_SHA256_TEXT];
};
// The vocabulary of a model and the ids of its special tokens; -1: no such token. For pairs of
// texts, bos is the first token of the decoder's input, and forced is the second, which every
// output begins with.
struct train_ids {
    int64_t vocab;
    int32_t bos, forced, eos, pad, mask;
};
// ---- train_ranks.c: one run on several processes ------------------------------------------------
enum { TRAIN_NODES = 64 }; // more than the nodes that any run of leaves can form
struct train_ranks {
    // the ranks that share the rows of each batch with this one; size 1: this process alone
    struct qkv_comm share;
    struct qkv_ranks_group group;
    int64_t blocks, weights;     // of all parameters
    struct qkv_tree_nodes nodes; // whose leaves are batches of a step
    // gradients: of the nodes of this rank, all weights; of nodes of all ranks, the weights of this
    // rank
    real *sum[TRAIN_NODES], *part[TRAIN_NODES];
    double *squares;       // [blocks] squared gradients
    struct qkv_loss *loss; // [accumulate] of each batch of a step
    real *array;           // rank 0: moments of one parameter
    size_t *at;            // [2 P] places and sizes of what is collected
};
struct train {
    struct qkv_comm comm; // the ranks that train the model; size 1: this process alone
    struct train_ranks ranks;
    struct train_config config;
    const struct qkv_train_options *o; // &config.o
    struct qkv_train_observer observer;
    enum qkv_objective objective;
    struct train_lock lock;
    qkv_tokenizer *tokenizer;
    struct train_ids ids;
    qkv_data *data;
    struct qkv_data_info info;
    qkv_net *net;
    struct qkv_net_options how; // options of the model that apply during training, such as dropout
    struct qkv_parameter *p;
    int64_t n;
    struct qkv_optimizer optimizer;
    struct qkv_schedule schedule;
    struct qkv_draw draw;
    struct train_state state;
    struct train_log log, probes;
    // saved_step: step of the newest checkpoint, -1: no checkpoint yet; from_step: step at which
    // this process resumed the run
    int64_t saved_step, from_step;
    qkv_error save_error;   // error of the last save; its status is QKV_OK if the save succeeded
    qkv_error log_error;    // error of the first log line that could not be written
    struct qkv_drawn valid; // memory for the batches of evaluations
};
void train_note(const struct train *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Returns whether this is rank 0, which writes all files.
bool train_leads(const struct train *t);
// Sets the ranks that share the rows of each batch. Returns QKV_ERR_USAGE if their number does not
// divide the number of ranks.
qkv_status train_groups(struct train *t, int64_t size, qkv_error *err);
// Lets these ranks share the rows. Returns QKV_ERR_USAGE or QKV_ERR_UNSUPPORTED if the options or
// the model do not allow it.
qkv_status train_share(struct train *t, qkv_error *err);
// Returns the number of groups of ranks that share the rows of a batch.
static inline int64_t train_group_count(const struct train *t)
{
    return t->comm.size / t->ranks.share.size;
}
qkv_status train_ranks_begin(struct train *t, qkv_error *err);
void train_ranks_end(struct train *t);
// Returns whether this rank computes batch i of a step.
bool train_runs_batch(const struct train *t, int64_t i);
// Returns the weights of parameter i that a rank updates.
struct qkv_weights train_rank_weights(const struct train *t, int64_t i, int64_t rank);
// Adds the gradients of batch i, which the model has, to the batches of this rank before it.
qkv_status train_sum_batch(struct train *t, int64_t i, qkv_error *err);
// Completes the gradients of the weights that this rank updates.
qkv_status train_sum_ranks(struct train *t, qkv_error *err);
// These functions make t->ranks.loss, t->ranks.squares and the weights complete on all ranks.
qkv_status train_collect_losses(struct train *t, qkv_error *err);
qkv_status train_collect_squares(struct train *t, qkv_error *err);
qkv_status train_collect_weights(struct train *t, qkv_error *err);
// If a rank has an error, returns it on all ranks, with the number of the rank in the message.
qkv_status train_agree(struct train *t, qkv_status status, qkv_error *err);
// Sets *any to true on all ranks if it is true on one.
qkv_status train_any(struct train *t, bool *any, qkv_error *err);
// Returns QKV_ERR_USAGE if the ranks have another text, checkpoint or weights.
qkv_status train_same(struct train *t, qkv_error *err);

// ---- train_setup.c: prepares tokenizer, data and model of a run ---------------------------------
qkv_status train_setup(struct train *t, qkv_error *err);
// Fills err with the message that the requested context is longer than the model allows. Returns
// QKV_ERR_USAGE.
qkv_status train_fail_context(const char *model, int64_t asked, int64_t most, int64_t positions,
                              qkv_error *err);
// Returns the objective that fits the kind of model best.
enum qkv_objective train_objective_of(const qkv_net *n);

// ---- special_tokens.c: the special tokens of training and evaluation ----------------------------
// Reads the ids of the model in dir from config.json and, where it names none, from
// generation_config.json, as transformers does. Tokens of the tokenizer are used by their spelling
// ([MASK], <mask>, [PAD], <pad>) only where no published config.json names them, and only if the
// tokenizer says that they are special. dir NULL: a model from scratch, whose ids are the special
// tokens with the names of net.def.
qkv_status train_ids_read(struct train_ids *ids, const char *dir, enum qkv_objective objective,
                          const qkv_tokenizer *tokenizer, qkv_error *err);
// Sets o->ends and o->end, so that eos is appended to each document, unless the tokenizer's
// template already appends it. eos -1: the model names no end token, and nothing is appended.
qkv_status train_ends(const qkv_tokenizer *t, int32_t eos, struct qkv_data_options *o,
                      qkv_error *err);
// Sets the options of drawing batches for a model. vocab: size of the vocabulary of the dataset.
qkv_status train_draw(struct qkv_draw *d, const struct qkv_train_options *o,
                      enum qkv_objective objective, const struct train_ids *ids,
                      const qkv_tokenizer *tokenizer, int64_t vocab, qkv_error *err);

// ---- train_save.c: checkpoints of a run ---------------------------------------------------------
// Saves t->state, t->net and t->optimizer in a new checkpoint. If saving fails, t->save_error has
// the error, and the run continues.
void train_save(struct train *t);
// Removes the checkpoints that the run no longer keeps.
qkv_status train_tidy(const struct train *t, qkv_error *err);
// Reads the training state from the checkpoint in dir.
qkv_status train_state_read(struct train_state *s, const char *dir, qkv_error *err);
// Reads the moments of the optimizer from the checkpoint in dir.
qkv_status train_moments_read(struct train *t, const char *dir, qkv_error *err);

// Exports the model to o->export_dir in the format of its family. With early stopping, the model of
// the best checkpoint is exported.
qkv_status train_export(struct train *t, qkv_error *err);
qkv_status train_export_check(const struct qkv_train_options *o, qkv_error *err);

// ---- train_probe.c: attention statistics of each head -------------------------------------------
qkv_status train_probe(struct train *t, qkv_error *err);

// Sums over the whole valid split. The loss is computed without dropout and label smoothing.
struct train_valid {
    struct qkv_loss loss;
    int64_t sequences, targets, bytes;
};
qkv_status train_validate(struct train_valid *v, qkv_net *net, const struct qkv_net_options *how,
                          const qkv_data *data, const struct qkv_draw *draw,
                          struct qkv_drawn *workspace, const struct qkv_progress *progress,
                          qkv_error *err);
#endif
