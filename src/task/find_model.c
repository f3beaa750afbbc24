// SPDX-License-Identifier: MIT
// find_model.c: finds the first model folder whose model supports a job such as embedding or
// generation, and names the commands that a model supports.
#include "task/find_model.h"
#include <qkv/task.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDERS_MOST = 1000 };

static bool supports_job(enum qkv_job job, const char *dir)
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
    case QKV_JOB_CLASSIFY_TOKENS: fits = (info.can & QKV_CAN_TOKEN_LABELS) != 0; break;
    case QKV_JOB_CLASSIFY: fits = (info.can & QKV_CAN_LABELS) != 0; break;
    }
    qkv_model_close(m);
    return fits;
}

// Returns the sorted names in the folder `place`, and their number in *n, which is 0 if the folder
// is empty or cannot be read to its end.
static char **list_names(const char *place, int64_t *n)
{
    char **names = NULL;
    int64_t capacity = 0;
    DIR *d = opendir(place);
    qkv_status status = QKV_OK;
    *n = 0;
    if (!d) return NULL;
    for (const struct dirent *e;
         *n < FOLDERS_MOST && (e = qkv_disk_entry(d, place, &status, NULL)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        if (!qkv_reserve((void **)&names, &capacity, *n + 1, sizeof *names)) break;
        if (!(names[*n] = qkv_copy_text(e->d_name, strlen(e->d_name)))) break;
        ++*n;
    }
    closedir(d);
    while (status && *n) qkv_free(names[--*n]);
    if (*n) qsort(names, (size_t)*n, sizeof *names, qkv_compare_texts);
    return names;
}

// Finds the first model folder in `place` whose model supports the job. Returns false if no model
// does.
static bool find_in(char path[QKV_PATH], const char *place, enum qkv_job job)
{
    int64_t n;
    bool found = false;
    char **names = list_names(place, &n);
    for (int64_t i = 0; i < n; i++) {
        found = found || (!qkv_path_join(path, place, names[i], NULL) && supports_job(job, path));
        qkv_free(names[i]);
    }
    qkv_free(names);
    return found;
}

qkv_status qkv_model_find_for(enum qkv_job job, char *out, size_t size, char *why, size_t why_size,
                              const char *dir, qkv_error *err)
{
    static const char *const jobs[] = { "generates", "fills in masks", "translates", "classifies",
                                        "classifies tokens" };
    const char *request = getenv("QKV_MODEL");
    if ((int)job < 0 || job > QKV_JOB_CLASSIFY_TOKENS || !out || !size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_find_for: expected a job and a buffer for the path, found NULL");
    if ((dir && *dir) || (request && *request))
        return qkv_model_find(out, size, why, why_size, dir, err);
    char place[3900], path[QKV_PATH], looked[640] = "";
    for (int n = 0; qkv_model_search_directory(place, sizeof place, n); n++) {
        if (!place[0]) continue;
        const size_t at = strlen(looked);
        snprintf(looked + at, sizeof looked - at, "%s%.200s", at ? ", " : "", place);
        if (!find_in(path, place, job)) continue;
        const int used = snprintf(out, size, "%s", path);
        if (used < 0 || (size_t)used >= size)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "path of the model is too long, expected at most %zu bytes, found %d",
                            size - 1, used);
        if (why && why_size)
            snprintf(why, why_size, "the first model that %s, found in %s", jobs[job], looked);
        return QKV_OK;
    }
    return qkv_fail(
        err, QKV_ERR_USAGE, NULL,
        "no model found that %s, expected --model DIR, or a model in one of the folders %s",
        jobs[job], looked);
}

qkv_status qkv_unfit(const qkv_model *m, const char *wanted, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(m);
    static const char *const kinds[] = { "an encoder", "a decoder", "an encoder-decoder" };
    const char *fits;
    if (info.can & QKV_CAN_TOKEN_LABELS)
        fits = "qkv classify --tokens";
    else if (info.can & QKV_CAN_LABELS)
        fits = "qkv classify";
    else if (info.kind == QKV_KIND_ENCODER_DECODER)
        fits = "qkv translate";
    else if (info.kind == QKV_KIND_DECODER)
        fits = info.can & QKV_CAN_TOKENS ? "qkv generate" : "qkv embed, qkv view";
    else
        fits = info.can & QKV_CAN_TOKENS ? "qkv fill, qkv embed" : "qkv embed, qkv view";
    const struct qkv_location at = { .file = info.name };
    const char *needs, *class_name = qkv_model_missing_head(m, &needs);
    if (class_name)
        return qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &at,
            "wrong kind of model, expected %s, found the class %s, whose output head %s%s; "
            "without it this is %s (%s), which is for %s",
            wanted, class_name,
            needs ? "is not supported: it needs "
                  : "was not found: the file has no tensors of one that qkv supports",
            needs ? needs : "", kinds[info.kind], info.family, fits);
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                    "wrong kind of model, expected %s, found %s (%s), which is for %s", wanted,
                    kinds[info.kind], info.family, fits);
}
