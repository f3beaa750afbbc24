// SPDX-License-Identifier: MIT
// sentence_modules.c: reads the settings of sentence-transformers: modules.json,
// 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json.
//
// modules.json is a list of modules: Transformer (with the folder of the model), Pooling, then any
// number of Dense, LayerNorm, Normalize (vector_steps.c) and Dropout, which has no effect.
#include "task/embed/embed_internal.h"
#include <stdio.h>
#include <string.h>

// maximum sizes of each JSON file, and of tokenizer_config.json, which may contain all added tokens
enum { JSON_BYTES = 1 << 20, TOKENIZER_BYTES = 1 << 26 };

// Returns true if the folder of a module is a relative path that stays inside the model folder.
static bool inside(const char *path)
{
    if (path[0] == '/') return false;
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (p[0] == '.' && p[1] == '.' && (p[2] == 0 || p[2] == '/')) return false;
    return true;
}

// ---- pooling -----------------------------------------------------------------------------------
// Older files have a flag per mode; the vectors of several are concatenated in the order of this
// table. Newer files name the mode, or a list of modes.
static const struct {
    const char *flag, *name;
    enum qkv_pool pool;
} modes[] = {
    { "pooling_mode_cls_token", "cls", QKV_POOL_CLS },
    { "pooling_mode_max_tokens", "max", QKV_POOL_MAX },
    { "pooling_mode_mean_tokens", "mean", QKV_POOL_MEAN },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", QKV_POOL_MEAN_SQRT },
    { "pooling_mode_weightedmean_tokens", "weightedmean", QKV_POOL_WEIGHTED },
    { "pooling_mode_lasttoken", "lasttoken", QKV_POOL_LAST },
};
enum { MODES = sizeof modes / sizeof modes[0] };

static bool add_mode(struct qkv_modules *m, const struct qkv_json_at *at, const json_t *value)
{
    const struct qkv_location place = { .file = at->file, .path = "$.pooling_mode" };
    const char *name = json_is_string(value) ? json_string_value(value) : "no text";
    if (m->pool_count == QKV_POOLS_MOST) {
        qkv_fail(at->err, QKV_ERR_LIMIT, &place, "too many poolings, expected at most %d",
                 QKV_POOLS_MOST);
        return false;
    }
    for (size_t i = 0; i < MODES; i++)
        if (strcmp(name, modes[i].name) == 0) {
            m->pools[m->pool_count++] = modes[i].pool;
            return true;
        }
    qkv_fail(at->err, QKV_ERR_UNSUPPORTED, &place,
             "unsupported pooling, expected cls, max, mean, mean_sqrt_len_tokens, weightedmean, "
             "lasttoken, or a list of them, found %.80s",
             name);
    return false;
}

static bool read_modes(struct qkv_modules *m, const struct qkv_json_at *at)
{
    const json_t *named = json_object_get(at->object, "pooling_mode");
    m->pool_count = 0;
    if (json_is_array(named) && json_array_size(named)) {
        for (size_t i = 0; i < json_array_size(named); i++)
            if (!add_mode(m, at, json_array_get(named, i))) return false;
        return true;
    }
    if (named && !json_is_null(named)) return add_mode(m, at, named);
    for (size_t i = 0; i < MODES; i++) {
        bool on = false;
        if (!qkv_json_bool(at, modes[i].flag, false, &on)) return false;
        if (on) m->pools[m->pool_count++] = modes[i].pool;
    }
    if (!m->pool_count) m->pools[m->pool_count++] = QKV_POOL_MEAN; // the default of the reference
    return true;
}

static qkv_status read_pooling(struct qkv_modules *m, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    if (qkv_path_join(path, dir, "config.json", err) || qkv_json_file(&root, path, JSON_BYTES, err))
        return err->status;
    const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
    (void)(qkv_json_limited(&at, "word_embedding_dimension", false, &m->width, 1, INT32_MAX) &&
           qkv_json_limited(&at, "embedding_dimension", false, &m->width, 1, INT32_MAX) &&
           qkv_json_bool(&at, "include_prompt", false, &m->include_prompt) && read_modes(m, &at));
    json_decref(root);
    return err->status;
}

// ---- modules.json ------------------------------------------------------------------------------
enum kind { TRANSFORMER, POOLING, STEP, NO_EFFECT, REFUSED };
static const struct module {
    const char *name;
    enum kind kind;
    enum qkv_step_kind step; // of kind STEP
    const char *what;        // of kind REFUSED: describes the module, for the message
} known[] = {
    { "Transformer", TRANSFORMER, 0, NULL },
    { "Pooling", POOLING, 0, NULL },
    { "Dense", STEP, QKV_STEP_DENSE, NULL },
    { "LayerNorm", STEP, QKV_STEP_LAYER_NORM, NULL },
    { "Normalize", STEP, QKV_STEP_NORMALIZE, NULL },
    { "Dropout", NO_EFFECT, 0, NULL }, // only training drops numbers
    // unsupported, with a description for the message
    { "WordEmbeddings", REFUSED, 0, "static vectors of words, without a Transformer" },
    { "StaticEmbedding", REFUSED, 0, "static vectors of tokens, without a Transformer" },
    { "BoW", REFUSED, 0, "counts of words, without a Transformer" },
    { "CNN", REFUSED, 0, "a convolution over tokens" },
    { "LSTM", REFUSED, 0, "a recurrent layer over tokens" },
    { "WordWeights", REFUSED, 0, "a weight for each word" },
    { "WeightedLayerPooling", REFUSED, 0, "a weighted mean of several layers" },
    { "CLIPModel", REFUSED, 0, "a model of images and texts" },
    { "Router", REFUSED, 0, "different modules for queries and documents" },
    { "Asym", REFUSED, 0, "different modules for queries and documents" },
    { "SpladePooling", REFUSED, 0, "sparse vectors of the size of the vocabulary" },
    { "MultiVectorMask", REFUSED, 0, "a vector for each token" },
    { "LogitScore", REFUSED, 0, "scores of pairs, which are for qkv classify or qkv generate" },
    { NULL, REFUSED, 0, "a kind that qkv does not know" },
};

// Finds a module by the name of its class, such as "sentence_transformers.models.Dense". Returns
// NULL and reports an error if it is not supported after `number` other modules.
static const struct module *find_module(const char *type, size_t number,
                                        const struct qkv_location *place, qkv_error *err)
{
    const char *last = strrchr(type, '.');
    const struct module *k = known;
    if (strncmp(type, "sentence_transformers.", 22) != 0) {
        qkv_fail(err, QKV_ERR_UNSUPPORTED, place,
                 "module is code of the model's own, which qkv does not run, expected a class of "
                 "sentence_transformers, found \"%.100s\"",
                 type);
        return NULL;
    }
    while (k->name && strcmp(last + 1, k->name) != 0) k++;
    const bool right = number == 0   ? k->kind == TRANSFORMER
                       : number == 1 ? k->kind == POOLING
                                     : k->kind == STEP || k->kind == NO_EFFECT;
    if (right) return k;
    qkv_fail(err, QKV_ERR_UNSUPPORTED, place,
             "unsupported module, expected Transformer, then Pooling, then any of Dense, "
             "LayerNorm, Normalize and Dropout, found %.80s%s%s",
             last + 1, k->what ? ": " : " in another place", k->what ? k->what : "");
    return NULL;
}

// Reads entry `number` of modules.json.
static qkv_status read_module(struct qkv_modules *m, const char *dir, const json_t *entry,
                              size_t number, const char *file, qkv_error *err)
{
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
    const struct module *k = find_module(type, number, &place, err);
    if (!k || k->kind == NO_EFFECT) return err->status;
    if (k->kind == TRANSFORMER && !*folder) return QKV_OK;
    const qkv_status status = qkv_path_join(path, dir, folder, err);
    if (status) return status;
    if (k->kind == POOLING) return read_pooling(m, path, err);
    if (k->kind == STEP) return qkv_steps_add(&m->steps, k->step, path, err);
    qkv_free(m->model);
    m->model = qkv_copy_text(path, strlen(path));
    return m->model ? QKV_OK : qkv_fail_memory(err, path);
}

static qkv_status read_list(struct qkv_modules *m, const char *dir, const char *file,
                            qkv_error *err)
{
    json_t *list = NULL;
    qkv_status status = qkv_json_list_file(&list, file, JSON_BYTES, err);
    const size_t count = json_array_size(list);
    for (size_t i = 0; !status && i < count; i++)
        status = read_module(m, dir, json_array_get(list, i), i, file, err);
    if (!status && count < 2)
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = "$" },
                          "module is missing, expected Transformer and Pooling, found %s",
                          count ? "only Transformer" : "none");
    json_decref(list);
    return status;
}

// ---- sentence_bert_config.json -----------------------------------------------------------------
// Refuses settings that change which numbers of the model are pooled.
static bool pools_hidden_states(const struct qkv_json_at *at)
{
    const json_t *modality = json_object_get(at->object, "modality_config");
    const json_t *kwargs = json_object_get(at->object, "processing_kwargs");
    const struct {
        const char *key, *path, *expected;
        const json_t *object;
    } rows[] = {
        { "transformer_task", "$.transformer_task", "feature-extraction", at->object },
        { "module_output_name", "$.module_output_name", "token_embeddings", at->object },
        { "method_output_name", "$.modality_config.text.method_output_name", "last_hidden_state",
          json_object_get(modality, "text") },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const json_t *value = json_object_get(rows[i].object, rows[i].key);
        const char *text = json_is_string(value) ? json_string_value(value) : "no text";
        if (!value || json_is_null(value) || strcmp(text, rows[i].expected) == 0) continue;
        qkv_fail(at->err, QKV_ERR_UNSUPPORTED,
                 &(struct qkv_location){ .file = at->file, .path = rows[i].path },
                 "output of the model is not supported for vectors of texts, expected \"%s\", "
                 "found \"%.80s\"",
                 rows[i].expected, text);
        return false;
    }
    if (!json_object_size(kwargs)) return true;
    qkv_fail(at->err, QKV_ERR_UNSUPPORTED,
             &(struct qkv_location){ .file = at->file, .path = "$.processing_kwargs" },
             "options of the tokenizer are not supported, expected none, found %zu",
             json_object_size(kwargs));
    return false;
}

// Reads the maximum length of a text, and whether texts are converted to lower case, from the first
// of the files that this module had in versions of sentence-transformers.
static qkv_status read_transformer(struct qkv_modules *m, qkv_error *err)
{
    static const char *const names[] = {
        "sentence_bert_config.json",       "sentence_roberta_config.json",
        "sentence_distilbert_config.json", "sentence_camembert_config.json",
        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
        "sentence_xlnet_config.json",
    };
    char path[QKV_PATH];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *root = NULL;
        if (qkv_path_join(path, m->model, names[i], err)) return err->status;
        if (!qkv_path_may_exist(path)) continue;
        if (qkv_json_file(&root, path, JSON_BYTES, err)) return err->status;
        const struct qkv_json_at at = { .object = root, .file = path, .path = "$", .err = err };
        (void)(qkv_json_limited(&at, "max_seq_length", false, &m->max_length, 1, INT32_MAX) &&
               qkv_json_bool(&at, "do_lower_case", false, &m->lowercase) &&
               pools_hidden_states(&at));
        json_decref(root);
        break;
    }
    return err->status;
}

// Reads the maximum length from tokenizer_config.json, where new versions of sentence-transformers
// store it. Numbers above the positions of any model mean that there is no limit.
static qkv_status read_tokenizer_length(struct qkv_modules *m, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    if (qkv_path_join(path, m->model, "tokenizer_config.json", err)) return err->status;
    if (!qkv_path_may_exist(path)) return QKV_OK;
    if (qkv_json_wide_file(&root, path, TOKENIZER_BYTES, err)) return err->status;
    const json_int_t length = json_integer_value(json_object_get(root, "model_max_length"));
    if (length >= 1 && length <= INT32_MAX) m->max_length = length;
    json_decref(root);
    return QKV_OK;
}

// ---- config_sentence_transformers.json ---------------------------------------------------------
// Writes the names of the prompts with commas between them; names that do not fit become "...".
static void list_prompts(char *out, size_t size, json_t *prompts)
{
    const char *name;
    json_t *text;
    size_t n = 0;
    *out = 0;
    json_object_foreach(prompts, name, text)
    {
        if (!json_is_string(text)) continue;
        const bool fits = strlen(name) + 8 < size - n;
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", fits ? name : "...");
        if (!fits) return;
    }
}

// Finds the text of the prompt `name` (NULL: of the default) in config_sentence_transformers.json.
static qkv_status choose_prompt(struct qkv_modules *m, const struct qkv_json_at *at,
                                const char *name, qkv_error *err)
{
    const bool by_default = !name;
    if (by_default && json_is_string(json_object_get(at->object, "default_prompt_name")))
        name = json_string_value(json_object_get(at->object, "default_prompt_name"));
    if (!name || !*name) return QKV_OK;
    json_t *const prompts = json_object_get(at->object, "prompts");
    const json_t *text = json_object_get(prompts, name);
    if (!json_is_string(text)) {
        char names[256];
        list_prompts(names, sizeof names, prompts);
        return qkv_fail(err, by_default ? QKV_ERR_FORMAT : QKV_ERR_USAGE,
                        &(struct qkv_location){ .file = at->file, .path = "$.prompts" },
                        "unknown prompt, expected one of the names %s, found \"%.80s\"",
                        *names ? names : "(there are none)", name);
    }
    if (!*json_string_value(text)) return QKV_OK;
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
    const bool there = qkv_path_may_exist(path);
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
    const bool listed = !s && qkv_path_may_exist(path);
    if (!s)
        s = listed ? read_list(m, dir, path, err)
                   : qkv_steps_add(&m->steps, QKV_STEP_NORMALIZE, NULL, err);
    if (!s) s = read_transformer(m, err);
    if (!s && listed && !m->max_length) s = read_tokenizer_length(m, err);
    return s ? s : read_prompts(m, dir, prompt, err);
}

qkv_status qkv_modules_read(struct qkv_modules *m, const char *dir, const char *prompt,
                            qkv_error *err)
{
    qkv_error found = { 0 };
    *m =
        (struct qkv_modules){ .pools = { QKV_POOL_MEAN }, .pool_count = 1, .include_prompt = true };
    const qkv_status status = read_all(m, dir, prompt, &found);
    if (!status) return QKV_OK;
    qkv_modules_free(m);
    if (err && !err->status) *err = found;
    return status;
}

void qkv_modules_free(struct qkv_modules *m)
{
    qkv_steps_free(&m->steps);
    qkv_free(m->model);
    qkv_free(m->prompt);
    memset(m, 0, sizeof *m);
}
