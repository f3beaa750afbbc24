// SPDX-License-Identifier: MIT
// find_for.c: the first model folder that can do a job, where none is named.
#include "task/speaker.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDERS_MOST = 1000 };

static bool can(enum qkv_job job, const char *dir)
{
    qkv_model *m = NULL;
    if (qkv_model_open(&m, dir, NULL, NULL)) return false;
    const struct qkv_model_info info = qkv_model_info(m);
    const bool tokens = (info.can & QKV_CAN_TOKENS) != 0;
    bool fits = false;
    switch (job) {
    case QKV_JOB_GENERATE: fits = tokens && info.kind == QKV_KIND_DECODER; break;
    case QKV_JOB_FILL: fits = tokens && info.kind == QKV_KIND_ENCODER; break;
    case QKV_JOB_TRANSLATE: fits = tokens && info.kind == QKV_KIND_ENCODER_DECODER; break;
    case QKV_JOB_CLASSIFY: fits = (info.can & QKV_CAN_LABELS) != 0; break;
    }
    qkv_model_close(m);
    return fits;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Names in a folder, in order; *n of them.  NULL: none, or no memory.
static char **names_of(const char *place, int64_t *n)
{
    char **names = NULL;
    int64_t capacity = 0;
    DIR *d = opendir(place);
    *n = 0;
    if (!d) return NULL;
    for (const struct dirent *e; *n < FOLDERS_MOST && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        if (!qkv_reserve((void **)&names, &capacity, *n + 1, sizeof *names)) break;
        if (!(names[*n] = qkv_copy_text(e->d_name, strlen(e->d_name)))) break;
        ++*n;
    }
    closedir(d);
    if (*n) qsort(names, (size_t)*n, sizeof *names, by_name);
    return names;
}

// The first folder of place that can; false: none.
static bool look(char path[QKV_PATH], const char *place, enum qkv_job job)
{
    int64_t n;
    bool found = false;
    char **names = names_of(place, &n);
    for (int64_t i = 0; i < n; i++) {
        found = found || (!qkv_path_join(path, place, names[i], NULL) && can(job, path));
        qkv_free(names[i]);
    }
    qkv_free(names);
    return found;
}

qkv_status qkv_model_find_for(enum qkv_job job, char *out, size_t size, char *why, size_t why_size,
                              const char *dir, qkv_error *err)
{
    static const char *const jobs[] = { "generates", "fills in masks", "translates", "classifies" };
    const char *wish = getenv("QKV_MODEL");
    if ((int)job < 0 || job > QKV_JOB_CLASSIFY || !out || !size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_find_for, expected a job and room for a path");
    if ((dir && *dir) || (wish && *wish)) return qkv_model_find(out, size, why, why_size, dir, err);
    char place[3900], path[QKV_PATH], looked[640] = "";
    for (int n = 0; qkv_model_shelf(place, sizeof place, n); n++) {
        if (!place[0]) continue;
        const size_t at = strlen(looked);
        snprintf(looked + at, sizeof looked - at, "%s%.200s", at ? ", " : "", place);
        if (!look(path, place, job)) continue;
        const int used = snprintf(out, size, "%s", path);
        if (used < 0 || (size_t)used >= size)
            return qkv_fail(err, QKV_ERR_USAGE, NULL, "the path of the model is too long");
        if (why && why_size)
            snprintf(why, why_size, "the first that %s, looking in %s", jobs[job], looked);
        return QKV_OK;
    }
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "no model found that %s, expected --model, or one in %s", jobs[job], looked);
}
