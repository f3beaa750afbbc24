// SPDX-License-Identifier: MIT
// training_log.c: reads the log files of a training run, and stores each quantity as a series of
// points.
#include "view/chart/training_chart.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_BYTES = 16 << 20, HEADS = 1 << 14 };

static bool add(struct training_series *s, int64_t step, double value)
{
    if (!isfinite(value)) return true;
    // a resumed run logs some steps again: the later line replaces the earlier one
    while (s->n && s->at[s->n - 1].step >= step) s->n--;
    void *at = s->at;
    if (!qkv_reserve(&at, &s->capacity, s->n + 1, sizeof *s->at)) return false;
    s->at = at;
    s->at[s->n++] = (struct training_point){ step, value };
    return true;
}

// Reads one line of log.jsonl.
static bool read_step(struct training_run *run, const json_t *line, int64_t step)
{
    static const char *const keys[TRAINING_KINDS] = { "loss", "valid_loss", "rate", "norm" };
    for (int k = 0; k < TRAINING_KINDS; k++) {
        const json_t *v = json_object_get(line, keys[k]);
        if (json_is_number(v) && !add(&run->series[k], step, json_number_value(v))) return false;
    }
    return true;
}

static qkv_status fail_line(qkv_error *err, const char *file, int64_t number, const char *what)
{
    char at[32];
    snprintf(at, sizeof at, "line %" PRId64, number);
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = at }, "%s",
                    what);
}

// Reads one line of probes.jsonl. Every line must have the same layers and heads as the first.
static qkv_status read_probe(struct training_run *run, const json_t *line, int64_t step,
                             const char *file, int64_t number, qkv_error *err)
{
    const json_t *layers = json_object_get(line, "heads");
    const size_t L = json_array_size(layers), H = json_array_size(json_array_get(layers, 0));
    const char *shape = "\"heads\" has the wrong shape, expected a list of layers, each a list of "
                        "heads, with the same sizes in all lines";
    if (!L || !H || L > HEADS / H) return fail_line(err, file, number, shape);
    if (!run->head) {
        run->head = qkv_alloc_zero(L * H, sizeof *run->head);
        if (!run->head) return qkv_fail_memory(err, file);
        run->layers = (int64_t)L;
        run->heads = (int64_t)H;
        run->tokens = (int64_t)json_array_size(json_object_get(line, "tokens"));
    }
    if (L != (size_t)run->layers) return fail_line(err, file, number, shape);
    for (size_t l = 0; l < L; l++) {
        const json_t *heads = json_array_get(layers, l);
        if (json_array_size(heads) != (size_t)run->heads)
            return fail_line(err, file, number, shape);
        for (size_t h = 0; h < H; h++) {
            const json_t *v = json_object_get(json_array_get(heads, h), "entropy");
            if (json_is_number(v) && !add(&run->head[l * H + h], step, json_number_value(v)))
                return qkv_fail_memory(err, file);
        }
    }
    return QKV_OK;
}

static qkv_status read_line(struct training_run *run, bool probes, const char *text, size_t bytes,
                            const char *file, int64_t number, int64_t base, qkv_error *err)
{
    json_t *line = NULL;
    qkv_error found = { 0 };
    int64_t step;
    qkv_status status = bytes > LINE_BYTES ? fail_line(&found, file, number,
                                                       "line too long, expected at most 16 MiB")
                                           : qkv_json_parse(&line, text, bytes, file, base, &found);
    if (status && !found.path[0]) snprintf(found.path, sizeof found.path, "line %" PRId64, number);
    if (!status) {
        const json_t *v = json_object_get(line, "step");
        step = json_integer_value(v);
        if (!json_is_integer(v) || step < 0 || step > (int64_t)1 << 53)
            status =
                fail_line(&found, file, number,
                          "\"step\" is missing or invalid, expected an integer from 0 to 2^53");
        else if (probes)
            status = read_probe(run, line, step, file, number, &found);
        else if (!read_step(run, line, step))
            status = qkv_fail_memory(&found, file);
    }
    json_decref(line);
    if (status && err && !err->status) *err = found;
    return status;
}

static qkv_status read_file(struct training_run *run, const char *path, bool probes, qkv_error *err)
{
    struct qkv_map m;
    qkv_status status = qkv_map_open(&m, path, false, err);
    if (status) return status;
    const char *data = (const char *)m.data;
    int64_t number = 1;
    for (size_t at = 0; at < m.size && !status; number++) {
        const char *end = memchr(data + at, '\n', m.size - at);
        if (!end) break; // the last line is not complete, since the run is still writing it
        const size_t bytes = (size_t)(end - (data + at));
        if (bytes)
            status = read_line(run, probes, data + at, bytes, path, number, (int64_t)at, err);
        at += bytes + 1;
    }
    qkv_map_close(&m);
    return status;
}

// Finds the log file. `run` is the folder of a run, or the log file itself.
static qkv_status find_file(char out[QKV_PATH], const char *run, bool probes, qkv_error *err)
{
    struct stat st;
    if (stat(run, &st) == 0 && S_ISDIR(st.st_mode)) {
        const qkv_status status =
            qkv_path_join(out, run, probes ? "probes.jsonl" : "log.jsonl", err);
        if (status || stat(out, &st) == 0 || errno != ENOENT) return status;
        return qkv_fail(
            err, QKV_ERR_IO, &(struct qkv_location){ .file = run }, "%s",
            probes ? "the folder has no file probes.jsonl, expected a run with --probe every=N"
                   : "the folder has no file log.jsonl, expected the folder of a training run");
    }
    return qkv_path_join(out, "", run, err);
}

// Returns the name of a run: the last component of its path, without the file name extension.
static char *name_of(const char *path)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/') end--;
    for (begin = end; begin && path[begin - 1] != '/';) begin--;
    static const char *const ends[] = { ".jsonl", "/log", "/probes" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        if (end - begin > n && !memcmp(path + end - n, ends[i], n)) end -= n;
    }
    return qkv_copy_text(path + begin, end - begin);
}

static bool has_points(const struct training_run *run)
{
    bool any = false;
    for (int k = 0; k < TRAINING_KINDS; k++) any |= run->series[k].n > 0;
    for (int64_t h = 0; h < run->layers * run->heads; h++) any |= run->head[h].n > 0;
    return any;
}

static void widen(struct qkv_plot *p, const struct training_series *s)
{
    if (!s->n) return;
    p->first = qkv_min64(p->first, s->at[0].step);
    p->last = qkv_max64(p->last, s->at[s->n - 1].step);
}

static qkv_status read_run(struct qkv_plot *p, struct training_run *run, const char *path,
                           qkv_error *err)
{
    char file[QKV_PATH];
    run->name = name_of(path);
    if (!run->name) return qkv_fail_memory(err, path);
    qkv_status status = find_file(file, path, p->probes, err);
    if (!status) status = read_file(run, file, p->probes, err);
    if (!status && !has_points(run))
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file },
                          "the log contains no numbers yet, expected at least one step");
    for (int k = 0; k < TRAINING_KINDS; k++) widen(p, &run->series[k]);
    for (int64_t h = 0; h < run->layers * run->heads; h++) widen(p, &run->head[h]);
    return status;
}

qkv_status qkv_plot_open(qkv_plot **out, const char *const *runs, int64_t n, bool probes,
                         qkv_error *err)
{
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_plot_open: expected a pointer for the plot, found NULL");
    *out = NULL;
    if (!runs || n < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "no training run to plot, expected the folder of a run");
    if (probes && n > 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "too many runs: the probes of only one run can be plotted, expected one "
                        "folder, found %" PRId64,
                        n);
    struct qkv_plot *p = qkv_alloc_zero(1, sizeof *p);
    if (!p) return qkv_fail_memory(err, NULL);
    p->probes = probes;
    p->first = INT64_MAX;
    p->run = qkv_alloc_zero((size_t)n, sizeof *p->run);
    qkv_status status = p->run ? QKV_OK : qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n && !status; i++) {
        p->runs = i + 1;
        status = runs[i] ? read_run(p, &p->run[i], runs[i], err)
                         : qkv_fail(err, QKV_ERR_USAGE, NULL,
                                    "the name of a run is NULL, expected the folder of a run");
    }
    if (status)
        qkv_plot_close(p);
    else
        *out = p;
    return status;
}

void qkv_plot_close(qkv_plot *p)
{
    if (!p) return;
    for (int64_t i = 0; i < p->runs; i++) {
        struct training_run *run = &p->run[i];
        for (int k = 0; k < TRAINING_KINDS; k++) qkv_free(run->series[k].at);
        for (int64_t h = 0; h < run->layers * run->heads; h++) qkv_free(run->head[h].at);
        qkv_free(run->head);
        qkv_free(run->name);
    }
    qkv_free(p->run);
    qkv_free(p);
}

struct qkv_plot_info qkv_plot_info(const qkv_plot *p, int64_t i)
{
    // the last loss is reported as the mean over this many steps, since the loss of one step varies
    enum { LAST = 20 };
    struct qkv_plot_info info = { .best_step = -1,
                                  .first = (double)NAN,
                                  .last = (double)NAN,
                                  .valid = (double)NAN,
                                  .best = (double)NAN };
    if (!p || i < 0 || i >= p->runs) return (struct qkv_plot_info){ 0 };
    const struct training_run *run = &p->run[i];
    const struct training_series *loss = &run->series[TRAINING_LOSS],
                                 *valid = &run->series[TRAINING_VALID];
    info.name = run->name;
    for (int k = 0; k < TRAINING_KINDS; k++)
        if (run->series[k].n)
            info.steps = qkv_max64(info.steps, run->series[k].at[run->series[k].n - 1].step);
    if (run->head && run->head[0].n) info.steps = run->head[0].at[run->head[0].n - 1].step;
    if (loss->n) {
        double sum = 0;
        const int64_t from = qkv_max64(0, loss->n - LAST);
        for (int64_t k = from; k < loss->n; k++) sum += loss->at[k].value;
        info.first = loss->at[0].value;
        info.last = sum / (double)(loss->n - from);
    }
    for (int64_t k = 0; k < valid->n; k++) {
        info.valid = valid->at[k].value;
        if (k && info.valid >= info.best) continue;
        info.best = info.valid;
        info.best_step = valid->at[k].step;
    }
    return info;
}
