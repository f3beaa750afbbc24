// SPDX-License-Identifier: MIT
// models.c: opens the models that a server is started with, and closes them.
#include "serve/service.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Returns the name in requests of a model that is given as `word`, and found in dir: the part
// before '=', the name of the Hub without its revision, or the name of the folder.  *bytes: its
// length.
static const char *name_of(const char *word, const char *equal, const char *dir, size_t *bytes)
{
    struct qkv_hub_name name;
    const char *last = strrchr(dir, '/');
    const char *from = last ? last + 1 : dir;
    *bytes = strlen(from);
    if (equal || (word && access(word, F_OK) != 0 && qkv_hub_name_parse(&name, word))) {
        from = word;
        *bytes = equal ? (size_t)(equal - word) : strlen(name.repo);
    }
    return from;
}

// Opens a model that is given as DIR, as a name of the Hub, or as NAME=DIR.
static qkv_status open_model(const char *word, qkv_error *err)
{
    struct serve_model *m = &serve_models[serve_model_count++];
    const char *equal = word ? strchr(word, '=') : NULL, *slash = word ? strchr(word, '/') : NULL;
    const bool named = equal && (!slash || equal < slash);
    char dir[CMD_PATH];
    qkv_status status = named  ? cmd_model_find_named(dir, equal + 1, err)
                        : word ? cmd_model_find_named(dir, word, err)
                               : cmd_model_find(dir, err);
    if (status) return status;
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') dir[--n] = 0;
    size_t bytes;
    const char *from = name_of(word, named ? equal : NULL, dir, &bytes);
    char *name = cmd_alloc(bytes + 1, 1);
    memcpy(name, from, bytes);
    name[bytes] = 0;
    status = service_open(m, name, dir, err);
    for (const struct serve_model *other = serve_models; other < m && !status; other++)
        if (strcmp(other->name, name) == 0)
            status = cmd_error(err, QKV_ERR_USAGE, NULL,
                               "two models have the name %s; name one of them: -m NAME=DIR", name);
    return status;
}

qkv_status service_models_open(const struct cmd_words *models, qkv_error *err)
{
    const int64_t n = models->count ? models->count : 1;
    qkv_status status = QKV_OK;
    serve_models = cmd_alloc((size_t)n, sizeof *serve_models);
    memset(serve_models, 0, (size_t)n * sizeof *serve_models);
    for (int64_t i = 0; i < n && !status; i++)
        status = open_model(models->count ? models->text[i] : NULL, err);
    return status;
}

void service_models_close(void)
{
    for (int64_t i = 0; i < serve_model_count; i++) {
        char *name = (char *)(uintptr_t)serve_models[i].name;
        service_close(&serve_models[i]);
        free(name);
    }
    free(serve_models);
}
