// SPDX-License-Identifier: MIT
// train_save.c: writes and reads the checkpoints of a run. A checkpoint is a model folder that also
// contains the moments of the optimizer and the training state.
#include "task/train/train_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOMENTS_FILE "optimizer.safetensors"
#define STATE_FILE   "state.json"
enum { STATE_MAX = 1 << 20, STATE_VERSION = 1, NAME = 512 };
// largest integer that every JSON reader represents exactly (2^53)
static const int64_t step_most = (int64_t)1 << 53;

// ---- state -------------------------------------------------------------------------------------
static const struct count {
    const char *key;
    size_t at;
    int64_t least;
} counts[] = {
    { "step", offsetof(struct train_state, step), 0 },
    { "position", offsetof(struct train_state, position), 0 },
    { "targets", offsetof(struct train_state, targets), 0 },
    { "updates", offsetof(struct train_state, updates), 0 },
    { "bad_steps", offsetof(struct train_state, bad_steps), 0 },
    { "bad_evaluations", offsetof(struct train_state, bad_evaluations), 0 },
    { "best_step", offsetof(struct train_state, best_step), -1 },
    { "log_bytes", offsetof(struct train_state, log_bytes), 0 },
    { "probe_bytes", offsetof(struct train_state, probe_bytes), 0 },
};
static const struct {
    const char *key;
    size_t at;
} numbers[] = {
    { "loss", offsetof(struct train_state, loss) },
    { "valid_loss", offsetof(struct train_state, valid_loss) },
    { "best_loss", offsetof(struct train_state, best_loss) },
    { "epoch", offsetof(struct train_state, epoch) },
};
enum { COUNTS = sizeof counts / sizeof counts[0], NUMBERS = sizeof numbers / sizeof numbers[0] };

static qkv_status state_write(const struct train_state *s, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, dir, STATE_FILE, err);
    if (status) return status;
    json_t *root = json_pack("{siss}", "version", (int)STATE_VERSION, "data", s->data);
    bool ok = root != NULL;
    for (int i = 0; i < COUNTS && ok; i++) {
        const int64_t v = *(const int64_t *)(const void *)((const char *)s + counts[i].at);
        ok = json_object_set_new(root, counts[i].key, json_integer(v)) == 0;
    }
    for (int i = 0; i < NUMBERS && ok; i++) {
        const double v = *(const double *)(const void *)((const char *)s + numbers[i].at);
        ok = json_object_set_new(root, numbers[i].key, isfinite(v) ? json_real(v) : json_null()) ==
             0;
    }
    status = ok ? qkv_json_write(path, root, false, err) : qkv_fail_memory(err, path);
    json_decref(root);
    return status;
}

qkv_status train_state_read(struct train_state *s, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    const char *data = NULL;
    int64_t version = 0;
    qkv_status status = qkv_path_join(path, dir, STATE_FILE, err);
    if (!status) status = qkv_json_file(&root, path, STATE_MAX, err);
    if (status) return status;
    const struct qkv_json_at at = { root, path, "$", err };
    bool ok = qkv_json_int(&at, "version", true, &version, 1, INT32_MAX);
    if (ok && version > STATE_VERSION)
        status = qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = path },
                          "format of the training state is too new, expected version %d or "
                          "earlier, found %" PRId64,
                          (int)STATE_VERSION, version);
    ok = ok && !status && qkv_json_text(&at, "data", true, &data);
    for (int i = 0; i < COUNTS && ok; i++)
        ok = qkv_json_int(&at, counts[i].key, true, (int64_t *)(void *)((char *)s + counts[i].at),
                          counts[i].least, step_most);
    for (int i = 0; i < NUMBERS && ok; i++) {
        double *to = (double *)(void *)((char *)s + numbers[i].at);
        *to = (double)NAN;
        ok = qkv_json_real(&at, numbers[i].key, false, to);
    }
    if (ok) snprintf(s->data, sizeof s->data, "%s", data);
    json_decref(root);
    return status ? status : ok ? QKV_OK : QKV_ERR_FORMAT;
}

// Several parameters may be parts of the same tensor and share its name. Returns which part
// parameter i is, counted from 1; the second part is saved as NAME#2.
static int64_t part_of(const struct train *t, int64_t i)
{
    int64_t part = 1;
    for (int64_t k = i - 1; k >= 0; k--) part += !strcmp(t->p[k].name, t->p[i].name);
    return part;
}

static void moment_name(char out[NAME], const struct train *t, int64_t i, bool second)
{
    const int64_t part = part_of(t, i);
    char suffix[24] = "";
    if (part > 1) snprintf(suffix, sizeof suffix, "#%" PRId64, part);
    snprintf(out, NAME, "%s.%.400s%s", second ? "exp_avg_sq" : "exp_avg", t->p[i].name, suffix);
}

static int64_t moment_arrays(const struct train *t)
{
    return (t->optimizer.m ? t->n : 0) + (t->optimizer.v ? t->n : 0);
}
// Returns array k of the optimizer's moments: first the first moments of all parameters, then their
// second moments.
static real *moment_at(const struct train *t, int64_t k)
{
    return k < t->n ? t->optimizer.m[k] : t->optimizer.v[k - t->n];
}

// Collects array k of the moments on rank 0, and returns it there.
static const real *moments_collect(const struct train *t, int64_t k, qkv_status *status)
{
    const struct qkv_comm *c = &t->comm;
    const struct qkv_weights own = train_rank_weights(t, k % t->n, c->rank);
    if (c->size == 1) return moment_at(t, k);
    if (c->rank && own.n && !*status)
        *status = qkv_ranks_send(c, 0, moment_at(t, k), (size_t)own.n * sizeof(real));
    if (c->rank) return NULL;
    memcpy(t->ranks.array + own.first, moment_at(t, k), (size_t)own.n * sizeof(real));
    for (int64_t r = 1; r < c->size && !*status; r++) {
        const struct qkv_weights w = train_rank_weights(t, k % t->n, r);
        if (w.n)
            *status = qkv_ranks_receive(c, r, t->ranks.array + w.first, (size_t)w.n * sizeof(real));
    }
    return t->ranks.array;
}

// Sends the moments of this rank to rank 0, or there receives and drops them.
static void moments_pass(const struct train *t)
{
    qkv_status status = QKV_OK;
    if (t->comm.size > 1)
        for (int64_t k = 0; k < moment_arrays(t); k++) moments_collect(t, k, &status);
}

static qkv_status moments_append(const struct train *t, qkv_safetensors_writer *w, qkv_error *err)
{
    qkv_status status = QKV_OK, reached = QKV_OK;
    for (int64_t k = 0; k < moment_arrays(t); k++) {
        const real *x = moments_collect(t, k, &reached);
        const size_t bytes = (size_t)t->p[k % t->n].count * sizeof(real);
        if (!status && !reached) status = qkv_safetensors_append(w, x, bytes, err);
    }
    if (reached) return qkv_ranks_lost(reached, err);
    return status;
}

static qkv_status moments_write(const struct train *t, const char *dir, qkv_error *err)
{
    const int64_t n = moment_arrays(t);
    char path[QKV_PATH];
    qkv_safetensors_writer *w = NULL;
    qkv_status status = qkv_path_join(path, dir, MOMENTS_FILE, err);
    if (status || !n) {
        moments_pass(t);
        return status;
    }
    struct qkv_tensor *list = qkv_alloc_zero((size_t)n, sizeof *list);
    char(*names)[NAME] = qkv_alloc((size_t)n, sizeof *names);
    if (!list || !names) status = qkv_fail_memory(err, path);
    for (int64_t k = 0; k < n && !status; k++) {
        const struct qkv_parameter *p = &t->p[k % t->n];
        moment_name(names[k], t, k % t->n, k >= t->n);
        list[k] = (struct qkv_tensor){
            .name = names[k], .dtype = QKV_REAL, .rank = 1, .shape = { p->count }
        };
    }
    if (!status) status = qkv_safetensors_create(&w, path, list, n, NULL, false, err);
    if (status)
        moments_pass(t);
    else
        status = moments_append(t, w, err);
    if (!status) status = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    qkv_free(list);
    qkv_free(names);
    return status;
}

qkv_status train_moments_read(struct train *t, const char *dir, qkv_error *err)
{
    const int64_t n = moment_arrays(t);
    char path[QKV_PATH], name[NAME];
    qkv_tensors *set = NULL;
    t->optimizer.steps = t->state.updates;
    qkv_status status = qkv_path_join(path, dir, MOMENTS_FILE, err);
    if (status || !n) return status;
    status = qkv_tensors_open(&set, path, NULL, err);
    for (int64_t k = 0; k < n && !status; k++) {
        const int64_t count = t->p[k % t->n].count;
        const struct qkv_weights own = train_rank_weights(t, k % t->n, t->comm.rank);
        moment_name(name, t, k % t->n, k >= t->n);
        const struct qkv_tensor *from = qkv_tensors_find(set, name);
        if (!from || from->dtype != QKV_REAL || qkv_tensor_count(from) != count)
            status =
                qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                         "optimizer state belongs to another model, expected \"%.100s\" of %" PRId64
                         " numbers, found %s",
                         name, count, from ? "a tensor of another size or type" : "none");
        else
            memcpy(moment_at(t, k), (const real *)(const void *)from->data + own.first,
                   (size_t)own.n * sizeof(real));
    }
    qkv_tensors_close(set);
    return status;
}

// ---- save --------------------------------------------------------------------------------------
static qkv_status fill(struct train *t, const char *dir, qkv_error *err)
{
    qkv_status status = train_log_sync(&t->log, err);
    if (!status) status = train_log_sync(&t->probes, err);
    t->state.log_bytes = t->log.bytes;
    t->state.probe_bytes = t->probes.bytes;
    t->state.updates = t->optimizer.steps;
    if (!status) status = qkv_net_save(t->net, dir, QKV_F32, err);
    if (!status) status = train_files_write(t, dir, err);
    if (status)
        moments_pass(t);
    else
        status = moments_write(t, dir, err);
    return status ? status : state_write(&t->state, dir, err);
}

// Writes the name of the best checkpoint; returns false if the run keeps none.
static bool name_best(char best[QKV_CHECKPOINT_NAME], const struct train *t)
{
    snprintf(best, QKV_CHECKPOINT_NAME, "checkpoint-%08" PRId64, t->state.best_step);
    return t->o->patience > 0 && t->state.best_step >= 0;
}

qkv_status train_tidy(const struct train *t, qkv_error *err)
{
    char best[QKV_CHECKPOINT_NAME];
    const struct qkv_checkpoint_kept kept = { .name = name_best(best, t) ? best : NULL,
                                              .last = t->o->keep_last,
                                              .every = t->o->keep_every };
    return qkv_checkpoint_tidy(t->o->run, &kept, err);
}

static qkv_status write_checkpoint(struct train *t, qkv_error *err)
{
    struct qkv_checkpoint c = { 0 };
    char best[QKV_CHECKPOINT_NAME];
    qkv_status status = qkv_checkpoint_begin(&c, t->o->run, t->state.step, err);
    if (status)
        moments_pass(t);
    else
        status = fill(t, c.dir, err);
    if (!status) status = qkv_checkpoint_commit(&c, err);
    qkv_checkpoint_abort(&c);
    if (!status && name_best(best, t) && t->state.best_step == t->state.step)
        status = qkv_checkpoint_link(t->o->run, "best", best, err);
    return status ? status : train_tidy(t, err);
}

void train_save(struct train *t)
{
    qkv_error *err = &t->save_error;
    if (t->saved_step == t->state.step) return;
    memset(err, 0, sizeof *err);
    qkv_status status = train_leads(t) ? write_checkpoint(t, err) : QKV_OK;
    if (!train_leads(t)) moments_pass(t);
    status = train_agree(t, status, err);
    if (!status) {
        t->saved_step = t->state.step;
        return;
    }
    char line[1024];
    train_note(t, "checkpoint of step %" PRId64 " could not be saved, training continues: %s",
               t->state.step, qkv_error_line(line, sizeof line, err));
}

static const struct {
    const char *name;
    qkv_dtype type;
} types[] = { { "f32", QKV_F32 }, { "bf16", QKV_BF16 }, { "f16", QKV_F16 } };
enum { TYPES = sizeof types / sizeof types[0] };

static int type_named(const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (!name || !strcmp(types[i].name, name)) return i;
    return -1;
}

qkv_status train_export_check(const struct qkv_train_options *o, qkv_error *err)
{
    struct qkv_folder f;
    if (type_named(o->export_type) < 0)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "unknown type of the exported model, expected one of f32, bf16, f16, found '%.40s'",
            o->export_type);
    if (!o->export_dir) return QKV_OK;
    const qkv_status status = qkv_folder_begin(&f, o->export_dir, o->export_force, err);
    qkv_folder_abort(&f, NULL);
    return status;
}

qkv_status train_export(struct train *t, qkv_error *err)
{
    const struct qkv_train_options *o = t->o;
    qkv_net *best = NULL;
    char dir[QKV_PATH];
    struct qkv_folder f;
    if (!o->export_dir) return QKV_OK;
    qkv_status status = qkv_folder_begin(&f, o->export_dir, o->export_force, err);
    if (!status && o->patience > 0 && t->state.best_step >= 0 &&
        t->state.best_step != t->state.step) {
        status = qkv_path_join(dir, o->run, "best", err);
        if (!status) status = qkv_net_open(&best, dir, &t->how, 0, 0, err);
    }
    const qkv_dtype type = types[type_named(o->export_type)].type;
    if (!status) status = qkv_net_save(best ? best : t->net, f.dir, type, err);
    qkv_net_free(best);
    if (!status) status = train_files_write(t, f.dir, err);
    if (!status) status = qkv_folder_commit(&f, err);
    qkv_folder_abort(&f, err);
    return status;
}
