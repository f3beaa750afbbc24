// SPDX-License-Identifier: MIT
// view_training.c: opens the checkpoints of a training run as views, one per checkpoint.
#include "view_source.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct checkpoint {
    int64_t step;
    char dir[CMD_PATH];
};

static int by_step(const void *a, const void *b)
{
    const struct checkpoint *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

// Returns true if the file can be read without waiting for a writer.
static bool is_readable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

// Returns true if a checkpoint is complete; an incomplete one has no manifest.
static bool is_whole(const char *dir)
{
    char manifest[CMD_PATH + 40];
    snprintf(manifest, sizeof manifest, "%s/manifest.json", dir);
    return is_readable(manifest);
}

// Lists the folders RUN/checkpoint-N of complete checkpoints, in ascending order of N.
static qkv_status find_checkpoints(struct checkpoint **all, int64_t *count, const char *run,
                                   qkv_error *err)
{
    static const char prefix[] = "checkpoint-";
    DIR *d = opendir(run);
    *count = 0;
    *all = NULL;
    if (!d)
        return cmd_error(err, cmd_io_status(errno), run, "cannot open the folder: %s",
                         strerror(errno));
    errno = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL; errno = 0) {
        struct checkpoint c;
        if (strncmp(e->d_name, prefix, sizeof prefix - 1) != 0) continue;
        char *end;
        c.step = strtoll(e->d_name + sizeof prefix - 1, &end, 10);
        const int n = snprintf(c.dir, sizeof c.dir, "%s/%s", run, e->d_name);
        if (*end || n < 0 || (size_t)n >= sizeof c.dir) continue;
        if (!is_whole(c.dir)) continue;
        *all = cmd_grow(*all, (size_t)*count + 1, sizeof **all);
        (*all)[(*count)++] = c;
    }
    const int code = errno;
    closedir(d);
    if (code)
        return cmd_error(err, cmd_io_status(code), run, "cannot read the folder: %s",
                         strerror(code));
    if (!*count)
        return cmd_error(err, QKV_ERR_FORMAT, run,
                         "folder without checkpoints, expected the folder of a training run, with "
                         "folders checkpoint-N");
    qsort(*all, (size_t)*count, sizeof **all, by_step);
    return QKV_OK;
}

// Returns the number after "name": in a line of the log; NaN: the line has no such member.
static double number_of(const char *line, const char *name)
{
    char key[40];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    if (!at) return NAN;
    at += strlen(key);
    at += strspn(at, " ");
    double x;
    char text[40];
    snprintf(text, sizeof text, "%.*s", (int)(strcspn(at, ",} ") < 39 ? strcspn(at, ",} ") : 39),
             at);
    return cmd_parse_real(text, &x) ? x : (double)NAN;
}

// Reads the loss at each checkpoint from log.jsonl: from the line of its step or, if there is none,
// from the last line before it.
static void read_losses(double *loss, const struct checkpoint *all, int64_t count, const char *run)
{
    char path[CMD_PATH + 16];
    struct cmd_lines l;
    qkv_error none = { 0 };
    int64_t bytes = 0;
    for (int64_t c = 0; c < count; c++) loss[c] = NAN;
    snprintf(path, sizeof path, "%s/log.jsonl", run);
    if (!is_readable(path) || cmd_lines_open(&l, path, &none)) return;
    while (!cmd_lines_next(&l, &bytes, &none) && bytes >= 0) {
        const double step = number_of(l.line, "step"), x = number_of(l.line, "loss");
        for (int64_t c = 0; c < count && x == x; c++)
            if (step <= (double)all[c].step) loss[c] = x;
    }
    cmd_lines_close(&l);
}

// Returns true if an error is a fault of the files of the checkpoint in dir, rather than of an
// option or a text.
static bool is_damaged(const char *dir, const qkv_error *e)
{
    const bool kind = e->status == QKV_ERR_FORMAT || e->status == QKV_ERR_IO;
    return kind && strncmp(e->file, dir, strlen(dir)) == 0;
}

static void leave_out(int64_t step, const qkv_error *e)
{
    char line[1024];
    cmd_note("the checkpoint of step %lld is left out: %s", (long long)step,
             qkv_error_line(line, sizeof line, e));
}

qkv_status source_training(struct source *s, struct source **frames, int64_t *count,
                           const char *run, const char *const *texts,
                           const struct source_request *w, qkv_error *err)
{
    struct checkpoint *all;
    int64_t n;
    *frames = NULL;
    *count = 0;
    qkv_status status = find_checkpoints(&all, &n, run, err);
    if (status) {
        free(all);
        return status;
    }
    struct qkv_view_frame *frame = cmd_alloc((size_t)n, sizeof *frame);
    double *loss = cmd_alloc((size_t)n, sizeof *loss);
    struct source_request each = *w, last = *w;
    qkv_error missed = { 0 };
    each.map = false;
    *frames = cmd_alloc((size_t)n, sizeof **frames);
    memset(*frames, 0, (size_t)n * sizeof **frames);
    read_losses(loss, all, n, run);
    for (int64_t c = 0; c < n && !status; c++) {
        struct source *f = &(*frames)[*count];
        each.model = all[c].dir;
        status = source_open(f, texts, &each, err);
        if (!status) {
            frame[(*count)++] = (struct qkv_view_frame){ all[c].step, loss[c], f->view };
            continue;
        }
        source_close(f);
        if (is_whole(all[c].dir)) {
            if (!is_damaged(all[c].dir, err)) break;
            leave_out(all[c].step, err);
        } // otherwise training, which is still running, has deleted this checkpoint
        missed = *err;
        *err = (qkv_error){ 0 };
        status = QKV_OK;
    }
    if (!status && !*count) {
        *err = missed;
        status = missed.status;
    }
    // the page shows the last checkpoint first
    for (int64_t c = 0; !status && c < n; c++)
        if (all[c].step == frame[*count - 1].step) last.model = all[c].dir;
    if (!status) status = source_open(s, texts, &last, err);
    if (!status) status = qkv_view_training(s->view, frame, *count, err);
    free(frame);
    free(loss);
    free(all);
    return status;
}
