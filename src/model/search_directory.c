// SPDX-License-Identifier: MIT
// search_directory.c: finds the model folder to use when the user names none.
#include "model/model.h"
#include <errno.h>
#include <qkv/hub.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef QKV_DATADIR
#define QKV_DATADIR "/usr/local/share" // if the build does not define it
#endif

static const char *const names[] = { "all-MiniLM-L6-v2", "verse" };

// Returns true if a folder has a model.  If it cannot be examined, sets *code, unless code is NULL,
// to the error number.
static bool is_model(const char *dir, int *code)
{
    char path[QKV_PATH];
    struct stat st;
    if (qkv_path_join(path, dir, "config.json", NULL)) return false;
    if (stat(path, &st) == 0) return S_ISREG(st.st_mode);
    if (code && errno != ENOENT && errno != ENOTDIR) *code = errno;
    return false;
}

bool qkv_model_search_directory(char *out, size_t size, int n)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME"),
               *given = getenv("QKV_MODELS");
    int used = 0;
    if (!out || !size) return false;
    switch (n) {
    case 0: used = snprintf(out, size, "%s", given && *given ? given : "models"); break;
    case 1:
        if (data && *data)
            used = snprintf(out, size, "%s/qkv/models", data);
        else if (home && *home)
            used = snprintf(out, size, "%s/.local/share/qkv/models", home);
        break;
    case 2: used = snprintf(out, size, "%s/qkv/models", QKV_DATADIR); break;
    default: return false;
    }
    if (used <= 0 || (size_t)used >= size) out[0] = 0;
    return true;
}

static qkv_status found(char *out, size_t size, char *why, size_t why_size, const char *dir,
                        const char *reason, qkv_error *err)
{
    const int n = snprintf(out, size, "%s", dir);
    if (n < 0 || (size_t)n >= size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "path of the model is too long, expected at most %zu bytes, found %d",
                        size ? size - 1 : 0, n);
    if (why_size) snprintf(why, why_size, "%s", reason);
    return QKV_OK;
}

// Finds a model by the last part of its name in the folders that are searched without a name.
static bool installed(char *out, size_t size, const struct qkv_hub_name *name)
{
    const char *slash = strrchr(name->repo, '/');
    char place[3900], path[QKV_PATH];
    for (int n = 0; qkv_model_search_directory(place, sizeof place, n); n++) {
        if (!place[0] || qkv_path_join(path, place, slash ? slash + 1 : name->repo, NULL)) continue;
        const int used = snprintf(out, size, "%s", path);
        if (used > 0 && (size_t)used < size && is_model(path, NULL)) return true;
    }
    return false;
}

// Writes the model folder that the user names: the path, if something has it; otherwise the folder
// of a model of this name in the cache, or in a folder of models.  A path that is no name of a
// model is not examined.
static qkv_status named(char *out, size_t size, char *why, size_t why_size, const char *dir,
                        const char *reason, qkv_error *err)
{
    struct qkv_hub_name name;
    qkv_error missing = { 0 };
    if (qkv_path_may_exist(dir) || !qkv_hub_name_parse(&name, dir))
        return found(out, size, why, why_size, dir, reason, err);
    const qkv_status status = qkv_hub_find(out, size, dir, &missing);
    // QKV_ERR_USAGE: the place of the cache is unknown, as without HOME.
    const bool absent = status == QKV_ERR_USAGE || (status == QKV_ERR_IO && !missing.file[0]);
    if (absent && !strchr(dir, '@') && installed(out, size, &name)) {
        if (why_size) snprintf(why, why_size, "%s, in a folder of models", reason);
        return QKV_OK;
    }
    if (absent)
        return qkv_fail(err, status, NULL, "no file or folder %s, and %s", dir, missing.text);
    if (status) {
        if (err) *err = missing;
        return status;
    }
    if (why_size) snprintf(why, why_size, "%s, in the cache of the Hugging Face Hub", reason);
    return QKV_OK;
}

qkv_status qkv_model_find(char *out, size_t size, char *why, size_t why_size, const char *dir,
                          qkv_error *err)
{
    const char *request = getenv("QKV_MODEL");
    if (dir && *dir) return named(out, size, why, why_size, dir, "as given", err);
    if (request && *request)
        return named(out, size, why, why_size, request, "from the variable QKV_MODEL", err);
    char place[3900], path[QKV_PATH], reason[QKV_PATH + 100], looked[640] = "";
    char denied[QKV_PATH] = "";
    int code = 0;
    for (int n = 0; qkv_model_search_directory(place, sizeof place, n); n++) {
        if (!place[0]) continue;
        const size_t at = strlen(looked);
        snprintf(looked + at, sizeof looked - at, "%s%.200s", at ? ", " : "", place);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            snprintf(path, sizeof path, "%s/%s", place, names[i]);
            const int before = code;
            if (!is_model(path, &code)) {
                if (code != before) snprintf(denied, sizeof denied, "%s", path);
                continue;
            }
            snprintf(reason, sizeof reason, "the first model found, in %s", looked);
            return found(out, size, why, why_size, path, reason, err);
        }
    }
    if (code) return qkv_fail_errno(err, denied, "cannot look for a model", code);
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "no model found, expected all-MiniLM-L6-v2 or verse in one of the folders %s",
                    looked);
}
