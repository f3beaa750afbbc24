// SPDX-License-Identifier: MIT
// index_settings.c: the settings of an index, which its passages and vectors depend on.
#include "index/index.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *option; // what a message calls it; NULL: not compared
} rows[INDEX_SETTINGS] = {
    [INDEX_MODEL] = { "model", "--model" },
    [INDEX_PRECISION] = { "precision", "--precision" },
    [INDEX_ABLATE] = { "ablate", "--ablate" },
    [INDEX_PROMPT] = { "prompt", "--prompt" },
    [INDEX_LENGTH] = { "max_length", "length limit of the model" },
    [INDEX_WIDTH] = { "width", "width of the vectors" },
    [INDEX_STORED] = { "vectors", "--vectors" },
    [INDEX_SPLIT] = { "split", "--split" },
    [INDEX_CHUNK] = { "chunk", "--chunk" },
    [INDEX_OVERLAP] = { "overlap", "--overlap" },
    [INDEX_FIELD] = { "field", "--field" },
    [INDEX_FOLDER] = { "model_folder", NULL },
    [INDEX_FILES] = { "model_files", NULL },
};

void index_setting(struct index_settings *s, enum index_setting_id id, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    s->value[id] = cmd_grow(s->value[id], (size_t)n + 1, 1);
    va_start(args, format);
    vsnprintf(s->value[id], (size_t)n + 1, format, args);
    va_end(args);
}

void index_settings_free(struct index_settings *s)
{
    for (int i = 0; i < INDEX_SETTINGS; i++) free(s->value[i]);
    *s = (struct index_settings){ { NULL } };
}

qkv_status index_settings_write(const struct index_settings *s, const struct store_engine *engine,
                                struct store *store, const char *path, qkv_error *err)
{
    struct store_reason why;
    for (int i = 0; i < INDEX_SETTINGS; i++) {
        const enum store_status status = engine->set(store, rows[i].name, s->value[i], &why);
        if (status) return index_store_error(status, &why, path, err);
    }
    return QKV_OK;
}

qkv_status index_settings_read(struct index_settings *s, const struct store_engine *engine,
                               struct store *store, const char *path, qkv_error *err)
{
    for (int i = 0; i < INDEX_SETTINGS; i++) {
        struct store_reason why;
        struct store_text t;
        const enum store_status status = engine->get(store, rows[i].name, &t, &why);
        if (status == STORE_NONE)
            return cmd_error(err, QKV_ERR_FORMAT, path, "the index has no setting '%s'",
                             rows[i].name);
        if (status) return index_store_error(status, &why, path, err);
        index_setting(s, (enum index_setting_id)i, "%s", t.at);
    }
    return QKV_OK;
}

qkv_status index_settings_same(const struct index_settings *s, const struct index_settings *other,
                               const char *path, qkv_error *err)
{
    for (int i = 0; i < INDEX_SETTINGS; i++) {
        if (!rows[i].option || !strcmp(s->value[i], other->value[i])) continue;
        if (i == INDEX_MODEL)
            return cmd_error(err, QKV_ERR_USAGE, path,
                             "the index was made with another model, expected the model that was "
                             "in %s (digest %.12s...), found %s (%.12s...)",
                             s->value[INDEX_FOLDER], s->value[i], other->value[INDEX_FOLDER],
                             other->value[i]);
        return cmd_error(err, QKV_ERR_USAGE, path,
                         "%s differs from that of the index, expected '%s', found '%s'; give the "
                         "same options, or make the index again with --force",
                         rows[i].option, s->value[i], other->value[i]);
    }
    return QKV_OK;
}

void index_settings_digest(const struct index_settings *s, struct qkv_digest *d)
{
    for (int i = 0; i < INDEX_SETTINGS; i++)
        if (rows[i].option) qkv_digest_add(d, s->value[i], strlen(s->value[i]) + 1);
}
