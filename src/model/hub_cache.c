// SPDX-License-Identifier: MIT
// hub_cache.c: finds models by their names in the cache of the Hugging Face Hub.
#include "model/model.h"
#include <qkv/hub.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- names -------------------------------------------------------------------------------------
static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

// Returns true if text[bytes] is a part of the name of a repository.
static bool is_part(const char *text, size_t bytes)
{
    if (!bytes || strchr("-.", text[0]) || strchr("-.", text[bytes - 1])) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (!is_name_byte(text[i])) return false;
        if (i && text[i] == text[i - 1] && (text[i] == '-' || text[i] == '.')) return false;
    }
    return true;
}

static bool is_repo(const char *text, size_t bytes)
{
    const char *const slash = memchr(text, '/', bytes);
    if (bytes >= QKV_HUB_REPO || (bytes >= 4 && !memcmp(text + bytes - 4, ".git", 4))) return false;
    if (!slash) return is_part(text, bytes);
    const size_t org = (size_t)(slash - text);
    return is_part(text, org) && is_part(slash + 1, bytes - org - 1);
}

// The rules of git check-ref-format: a revision is also the path of a file below refs/.
static bool is_revision(const char *text)
{
    const size_t n = strlen(text);
    if (!n || n >= QKV_HUB_REVISION || strstr(text, "..") || strstr(text, "//") ||
        strstr(text, "@{") || strstr(text, "/.") || strstr(text, ".lock/") ||
        qkv_ends_with(text, ".lock") || strchr("/.-@", text[0]) || strchr("/.", text[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127 ||
            strchr("~^:?*[\\", text[i]))
            return false;
    return true;
}

bool qkv_hub_is_commit(const char *text)
{
    return text && strspn(text, "0123456789abcdef") == QKV_HUB_COMMIT - 1 &&
           !text[QKV_HUB_COMMIT - 1];
}

bool qkv_hub_name_parse(struct qkv_hub_name *out, const char *text)
{
    if (!out || !text) return false;
    const size_t bytes = strcspn(text, "@");
    const char *const revision = text[bytes] ? text + bytes + 1 : "main";
    if (!is_repo(text, bytes) || !is_revision(revision)) return false;
    memcpy(out->repo, text, bytes);
    out->repo[bytes] = 0;
    memcpy(out->revision, revision, strlen(revision) + 1);
    return true;
}

// ---- the cache ---------------------------------------------------------------------------------
// The variables that say where the cache is, in order, and its path below their value.
static const struct {
    const char *variable, *below;
} places[] = {
    { "HF_HUB_CACHE", "" },
    { "HUGGINGFACE_HUB_CACHE", "" },
    { "HF_HOME", "/hub" },
    { "XDG_CACHE_HOME", "/huggingface/hub" },
    { "HOME", "/.cache/huggingface/hub" },
};

qkv_status qkv_hub_cache(char *out, size_t size, qkv_error *err)
{
    const char *const home = getenv("HOME");
    if (!out || !size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "expected a buffer for the path, found NULL");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        if (!value || !*value) continue;
        const bool tilde = home && value[0] == '~' && (!value[1] || value[1] == '/');
        const int n =
            snprintf(out, size, "%s%s%s", tilde ? home : "", value + tilde, places[i].below);
        if (n > 0 && (size_t)n < size) return QKV_OK;
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "%s: path of the cache is too long, expected at most %zu bytes, found %d",
                        places[i].variable, size - 1, n);
    }
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "the folder of the cache is not known, expected a value of HF_HUB_CACHE, "
                    "HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME, found none or empty "
                    "values");
}

// Writes the folder of a repository in a cache; cache NULL: that of the environment.
static qkv_status folder_in(char *out, size_t size, const char *cache,
                            const struct qkv_hub_name *name, qkv_error *err)
{
    char own[QKV_PATH], repo[2 * QKV_HUB_REPO];
    if (!out || !size || !name)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "expected a name and a buffer for the path, found NULL");
    const qkv_status status = cache ? QKV_OK : qkv_hub_cache(own, sizeof own, err);
    if (status) return status;
    const size_t org = strcspn(name->repo, "/");
    snprintf(repo, sizeof repo, "%.*s%s%s", (int)org, name->repo, name->repo[org] ? "--" : "",
             name->repo + org + (name->repo[org] != 0));
    const int n = snprintf(out, size, "%s/models--%s", cache ? cache : own, repo);
    if (n > 0 && (size_t)n < size) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "path of the model is too long, expected at most %zu bytes, found %d", size - 1,
                    n);
}

qkv_status qkv_hub_folder(char *out, size_t size, const struct qkv_hub_name *name, qkv_error *err)
{
    return folder_in(out, size, NULL, name, err);
}

// Writes the commit that a cache has for the revision of a name, as qkv_hub_commit.
static qkv_status commit_in(char out[QKV_HUB_COMMIT], const char *cache,
                            const struct qkv_hub_name *name, qkv_error *err)
{
    enum { REF_BYTES = 1024 };
    char folder[QKV_PATH], path[QKV_PATH + QKV_HUB_REVISION + 16];
    struct stat st;
    struct qkv_map ref;
    if (!out) return qkv_fail(err, QKV_ERR_USAGE, NULL, "expected a buffer, found NULL");
    out[0] = 0;
    qkv_status status = folder_in(folder, sizeof folder, cache, name, err);
    if (status) return status;
    if (qkv_hub_is_commit(name->revision)) {
        snprintf(path, sizeof path, "%s/snapshots/%s", folder, name->revision);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            memcpy(out, name->revision, QKV_HUB_COMMIT);
        return QKV_OK;
    }
    snprintf(path, sizeof path, "%s/refs/%s", folder, name->revision);
    if (!qkv_path_may_exist(path)) return QKV_OK;
    if ((status = qkv_map_read(&ref, path, REF_BYTES, err))) return status;
    size_t n = ref.size;
    while (n && strchr(" \r\n", ref.data[n - 1])) n--;
    if (n == QKV_HUB_COMMIT - 1) memcpy(out, ref.data, n);
    out[n == QKV_HUB_COMMIT - 1 ? n : 0] = 0;
    if (!qkv_hub_is_commit(out)) {
        out[0] = 0;
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                          "file of a revision, expected a commit of 40 hexadecimal digits");
    }
    qkv_map_close(&ref);
    return status;
}

qkv_status qkv_hub_commit(char out[QKV_HUB_COMMIT], const struct qkv_hub_name *name, qkv_error *err)
{
    return commit_in(out, NULL, name, err);
}

qkv_status qkv_hub_find(char *out, size_t size, const char *name, qkv_error *err)
{
    return qkv_hub_find_in(out, size, NULL, name, err);
}

qkv_status qkv_hub_find_in(char *out, size_t size, const char *cache, const char *name,
                           qkv_error *err)
{
    struct qkv_hub_name parts;
    char folder[QKV_PATH], commit[QKV_HUB_COMMIT];
    struct stat st;
    if (!out || !size || !qkv_hub_name_parse(&parts, name))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "expected a name such as org/name or org/name@revision");
    qkv_status status = folder_in(folder, sizeof folder, cache, &parts, err);
    if (!status) status = commit_in(commit, cache, &parts, err);
    if (status) return status;
    const int n = commit[0] ? snprintf(out, size, "%s/snapshots/%s", folder, commit) : 0;
    if (n < 0 || (size_t)n >= size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "path of the model is too long, expected at most %zu bytes, found %d",
                        size - 1, n);
    if (n && stat(out, &st) == 0 && S_ISDIR(st.st_mode)) return QKV_OK;
    out[0] = 0;
    char own[QKV_PATH];
    if (!cache && (status = qkv_hub_cache(own, sizeof own, err))) return status;
    return qkv_fail(err, QKV_ERR_IO, NULL, "no model of the name %s in the cache %.400s", name,
                    cache ? cache : own);
}
