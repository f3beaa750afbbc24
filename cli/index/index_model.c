// SPDX-License-Identifier: MIT
// index_model.c: opens the model of an index, and checks that it is the same model.
#include "index/index.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The names that sentence-transformers looks for in encode_document and encode_query.
const char *const index_document_prompts[] = { "document", "passage", "corpus", NULL };
const char *const index_query_prompts[] = { "query", NULL };

qkv_status index_embedder(qkv_embedder **out, const char *dir, struct qkv_embedder_options *how,
                          const char *const *names, qkv_error *err)
{
    for (;; names++) {
        qkv_error trial = { 0 };
        how->prompt = *names;
        const qkv_status status = qkv_embedder_open(out, dir, how, &trial);
        // a prompt that the model does not have is found before the model is read
        if (status == QKV_ERR_USAGE && *names) continue;
        if (status) *err = trial;
        return status;
    }
}

qkv_status index_model_folder(char **out, const char *dir, qkv_error *err)
{
    char *real = realpath(dir, NULL);
    if (!real) return cmd_error(err, cmd_io_status(errno), dir, "cannot open: %s", strerror(errno));
    *out = cmd_valid_text(real);
    free(real);
    return QKV_OK;
}

qkv_status index_model_files(char **out, const char *dir, qkv_error *err)
{
    struct index_files f = { NULL, 0 };
    char *text = cmd_grow(NULL, 1, 1);
    size_t used = 0;
    qkv_status status = index_files_model(&f, dir, err);
    text[0] = 0;
    for (int64_t i = 0; i < f.count && !status; i++) {
        struct stat st;
        const char *name = f.at[i].name + strlen(dir);
        const size_t most = strlen(name) + 80;
        if (stat(f.at[i].name, &st) != 0) {
            status = cmd_error(err, cmd_io_status(errno), f.at[i].name, "cannot read: %s",
                               strerror(errno));
            break;
        }
        text = cmd_grow(text, used + most, 1);
        used +=
            (size_t)snprintf(text + used, most, "%s %lld %lld.%09ld\n", name, (long long)st.st_size,
                             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    }
    index_files_free(&f);
    *out = cmd_valid_text(text); // a name that is no UTF-8
    free(text);
    return status;
}

qkv_status index_model_find(const struct index *x, char dir[CMD_PATH], qkv_error *err)
{
    struct stat st;
    const char *folder = x->settings.value[INDEX_FOLDER];
    if (common.model) return cmd_model_find(dir, err);
    if (stat(folder, &st) == 0) return cmd_model_find_named(dir, folder, err);
    if (errno == ENOENT || errno == ENOTDIR) return cmd_model_find(dir, err);
    return cmd_error(err, cmd_io_status(errno), folder, "cannot look for the model: %s",
                     strerror(errno));
}

qkv_status index_model_check(const struct index *x, const qkv_embedder *e, const char *dir,
                             qkv_error *err)
{
    char digest[65];
    char *files = NULL, *folder = NULL;
    qkv_error ignored = { 0 }; // if they cannot be read, the digest decides
    const bool same = !index_model_files(&files, dir, &ignored) && *files &&
                      !index_model_folder(&folder, dir, &ignored) &&
                      !strcmp(files, x->settings.value[INDEX_FILES]) &&
                      !strcmp(folder, x->settings.value[INDEX_FOLDER]);
    free(files);
    free(folder);
    if (same) return QKV_OK;
    const qkv_status status = qkv_embedder_digest(e, digest, err);
    if (status || !strcmp(digest, x->settings.value[INDEX_MODEL])) return status;
    return cmd_error(err, QKV_ERR_USAGE, x->path,
                     "the index was made with another model, expected the model that was in %s "
                     "(digest %.12s...), found %s (%.12s...)",
                     x->settings.value[INDEX_FOLDER], x->settings.value[INDEX_MODEL], dir, digest);
}
