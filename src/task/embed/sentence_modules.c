// SPDX-License-Identifier: MIT
// sentence_modules.c: reads the settings of sentence-transformers: modules.json,
// 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json.
//
// modules.json is a list of modules: Transformer (with the folder of the model), Pooling and
// optionally Normalize.
#include "task/embed/embed_internal.h"
#include <stdio.h>
#include <string.h>

enum { JSON_BYTES = 1 << 20 }; // maximum size of each JSON file

// Returns true if the folder of a module is a relative path that stays inside the model folder.
static bool inside(const char *path)
{
    if (path[0] == '/') return false;
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (p[0] == '.' && p[1] == '.' && (p[2] == 0 || p[2] == '/')) return false;
    return true;
}

// Reads the pooling mode from 1_Pooling/config.json. Older files have a flag per mode; newer files
// name the mode.
static qkv_status read_pooling(struct qkv_modules *m, const char *dir, qkv_error *err)
{
    static const struct {
        const char *flag, *name;
        enum qkv_pool pool; // the mode of this flag; QKV_POOL_FILE: a mode that is not supported
    } modes[] = {
        { "pooling_mode_cls_token", "cls", QKV_POOL_CLS },
        { "pooling_mode_mean_tokens", "mean", QKV_POOL_MEAN },
        { "pooling_mode_max_tokens", "max", QKV_POOL_MAX },
        { "pooling_mode_lasttoken", "lasttoken", QKV_POOL_LAST },
        { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", QKV_POOL_FILE },
        { "pooling_mode_weightedmean_tokens", "weightedmean", QKV_POOL_FILE },
    };
    char path[QKV_PATH];
    json_t *root = NULL;
    if (qkv_path_join(path, dir, "config.json", err) || qkv_json_file(&root, path, JSON_BYTES, err))
        return err->status;
    const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
    const char *name = NULL, *found = NULL;
    int count = 0;
    bool ok = qkv_json_limited(&at, "word_embedding_dimension", false, &m->width, 1, INT32_MAX) &&
              qkv_json_bool(&at, "include_prompt", false, &m->include_prompt) &&
              (!json_is_string(json_object_get(root, "pooling_mode")) ||
               qkv_json_text(&at, "pooling_mode", false, &name));
    for (size_t i = 0; ok && i < sizeof modes / sizeof modes[0]; i++) {
        bool on = false;
        if (name)
            on = strcmp(name, modes[i].name) == 0;
        else
            ok = qkv_json_bool(&at, modes[i].flag, false, &on);
        if (!on) continue;
        count++;
        found = modes[i].flag;
        m->pool = modes[i].pool;
    }
    const struct qkv_location place = { .file = path, .path = "$" };
    if (ok && count != 1)
        qkv_fail(err, count || name ? QKV_ERR_UNSUPPORTED : QKV_ERR_FORMAT, &place,
                 "unsupported pooling, expected one of mean, cls, max, lasttoken, found %s",
                 count  ? "several"
                 : name ? name
                        : "none");
    else if (ok && m->pool == QKV_POOL_FILE)
        qkv_fail(err, QKV_ERR_UNSUPPORTED, &place,
                 "unsupported pooling, expected one of mean, cls, max, lasttoken, found %s", found);
    json_decref(root);
    return err->status;
}

// Reads one entry of modules.json. Each kind of module is a bit; *seen has the bits of the entries
// before this one.
static qkv_status read_module(struct qkv_modules *m, const char *dir, const json_t *entry,
                              size_t number, const char *file, unsigned *seen, qkv_error *err)
{
    enum { TRANSFORMER = 1, POOLING = 2, NORMALIZE = 4 };
    char here[64], path[QKV_PATH];
    snprintf(here, sizeof here, "$[%zu]", number);
    const struct qkv_location place = { .file = file, .path = here };
    const struct qkv_json_at at = { .object = entry, .file = file, .path = here, .err = err };
    const char *type = NULL, *folder = "";
    if (!json_is_object(entry))
        return qkv_fail(err, QKV_ERR_FORMAT, &place,
                        "module has the wrong type, expected an object");
    if (!qkv_json_text(&at, "type", true, &type) || !qkv_json_text(&at, "path", false, &folder))
        return err->status;
    if (!inside(folder))
        return qkv_fail(err, QKV_ERR_FORMAT, &place,
                        "path of a module is outside of the model folder, expected a folder in it, "
                        "found \"%.200s\"",
                        folder);
    const char *last = strrchr(type, '.');
    last = last ? last + 1 : type;
    const unsigned kind = strcmp(last, "Transformer") == 0 ? TRANSFORMER
                          : strcmp(last, "Pooling") == 0   ? POOLING
                          : strcmp(last, "Normalize") == 0 ? NORMALIZE
                                                           : 0;
    // Vectors are only right in this order, each module at most once: Transformer, Pooling,
    // Normalize.
    if (!kind || *seen != kind - 1)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &place,
                        "unsupported module, expected Transformer, Pooling and optionally "
                        "Normalize, in this order, found \"%.100s\"",
                        last);
    *seen |= kind;
    if (kind == NORMALIZE) m->normalize = true;
    if (kind == NORMALIZE || (kind == TRANSFORMER && !*folder)) return QKV_OK;
    qkv_status status = qkv_path_join(path, dir, folder, err);
    if (status || kind == POOLING) return status ? status : read_pooling(m, path, err);
    qkv_free(m->model);
    m->model = qkv_copy_text(path, strlen(path));
    return m->model ? QKV_OK : qkv_fail_memory(err, path);
}

static qkv_status read_list(struct qkv_modules *m, const char *dir, const char *file,
                            qkv_error *err)
{
    json_t *list = NULL;
    unsigned seen = 0;
    qkv_status status = qkv_json_list_file(&list, file, JSON_BYTES, err);
    for (size_t i = 0; !status && i < json_array_size(list); i++)
        status = read_module(m, dir, json_array_get(list, i), i, file, &seen, err);
    if (!status && seen < 3)
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = "$" },
                          "module is missing, expected Transformer and Pooling, found %s",
                          seen ? "only Transformer" : "none");
    json_decref(list);
    return status;
}

// Reads the maximum length of a text from sentence_bert_config.json in the model's folder.
static qkv_status read_length(struct qkv_modules *m, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    bool lower = false;
    qkv_status status = qkv_path_join(path, m->model, "sentence_bert_config.json", err);
    if (status || !qkv_path_may_exist(path)) return status;
    status = qkv_json_file(&root, path, JSON_BYTES, err);
    if (status) return status;
    const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
    if (!qkv_json_limited(&at, "max_seq_length", false, &m->max_length, 1, INT32_MAX) ||
        !qkv_json_bool(&at, "do_lower_case", false, &lower))
        status = err->status;
    else if (lower)
        status = qkv_fail(err, QKV_ERR_UNSUPPORTED,
                          &(struct qkv_location){ .file = path, .path = "$.do_lower_case" },
                          "lower-casing before the tokenizer is not supported, expected "
                          "do_lower_case false, found true");
    json_decref(root);
    return status;
}

// Finds the text of the prompt `name` (NULL: of the default) in config_sentence_transformers.json.
static qkv_status choose_prompt(struct qkv_modules *m, const struct qkv_json_at *at,
                                const char *name, qkv_error *err)
{
    const bool by_default = !name;
    if (by_default && json_is_string(json_object_get(at->object, "default_prompt_name")))
        name = json_string_value(json_object_get(at->object, "default_prompt_name"));
    if (!name || !*name) return QKV_OK;
    const json_t *text = json_object_get(json_object_get(at->object, "prompts"), name);
    if (!json_is_string(text))
        return qkv_fail(err, by_default ? QKV_ERR_FORMAT : QKV_ERR_USAGE,
                        &(struct qkv_location){ .file = at->file, .path = "$.prompts" },
                        "unknown prompt, expected the name of one of the prompts in this member, "
                        "found \"%.80s\"",
                        name);
    if (!*json_string_value(text)) return QKV_OK;
    if (!m->include_prompt)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = at->file },
                        "prompt whose tokens are left out of the pooling is not supported, "
                        "expected include_prompt true in the pooling's config.json, found false");
    m->prompt = qkv_copy_text(json_string_value(text), json_string_length(text));
    return m->prompt ? QKV_OK : qkv_fail_memory(err, at->file);
}

static qkv_status read_prompts(struct qkv_modules *m, const char *dir, const char *prompt,
                               qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    qkv_status status = qkv_path_join(path, dir, "config_sentence_transformers.json", err);
    if (status) return status;
    const bool there = qkv_path_exists(path);
    if (!there && (!prompt || !*prompt)) return QKV_OK;
    if (!there)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = dir },
                        "model has no prompts, expected config_sentence_transformers.json with "
                        "prompts, found no such file");
    status = qkv_json_file(&root, path, JSON_BYTES, err);
    if (status) return status;
    const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
    if (!qkv_json_int(&at, "truncate_dim", false, &m->truncate_dim, 1, INT32_MAX))
        status = err->status;
    if (!status) status = choose_prompt(m, &at, prompt, err);
    json_decref(root);
    return status;
}

// Reads all settings files. err must be zeroed and must not be NULL: JSON errors are recognized by
// err->status.
static qkv_status read_all(struct qkv_modules *m, const char *dir, const char *prompt,
                           qkv_error *err)
{
    char path[QKV_PATH];
    m->model = qkv_copy_text(dir, strlen(dir));
    if (!m->model) return qkv_fail_memory(err, dir);
    qkv_status s = qkv_path_join(path, dir, "modules.json", err);
    if (!s && qkv_path_may_exist(path))
        s = read_list(m, dir, path, err);
    else
        m->normalize = true;
    if (!s) s = read_length(m, err);
    return s ? s : read_prompts(m, dir, prompt, err);
}

qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, const char *prompt,
                            qkv_error *err)
{
    qkv_error found = { 0 };
    *m = (struct qkv_modules){ .pool = QKV_POOL_MEAN, .include_prompt = true };
    const qkv_status status = read_all(m, dir, prompt, &found);
    if (!status) return QKV_OK;
    qkv_modules_free(m);
    if (err && !err->status) *err = found;
    return status;
}

void qkv_modules_free(struct qkv_modules *m)
{
    qkv_free(m->model);
    qkv_free(m->prompt);
    memset(m, 0, sizeof *m);
}
