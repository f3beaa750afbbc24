// SPDX-License-Identifier: MIT
// config.c: reads config.json of a model folder strictly; config.h states the rules of each key.
#include "file/set.h"
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Accepts 8-bit weights that qkv wrote and refuses every other quantization; otherwise the user
// would get an error about a missing tensor later.
static qkv_status check_quantised(const struct qkv_config *c)
{
    const json_t *how = json_object_get(c->root, "quantization_config");
    if (!how || json_is_null(how)) return QKV_OK;
    const json_t *method = json_object_get(how, "quant_method");
    const char *name = json_is_string(method) ? json_string_value(method) : "none";
    if (strcmp(name, QKV_EIGHT_METHOD) == 0) return QKV_OK;
    return qkv_fail(
        c->err, QKV_ERR_UNSUPPORTED,
        &(struct qkv_location){ .file = c->file, .path = "$.quantization_config.quant_method" },
        "unsupported quantization of the weights, expected the method \"%s\", found \"%.64s\"",
        QKV_EIGHT_METHOD, name);
}

// Fails if dir is a file of weights: with the reason why its format is not read, or because
// config.json is next to it.
static qkv_status check_folder(const char *dir, qkv_error *err)
{
    struct stat st;
    qkv_tensors *t = NULL;
    qkv_error why = { 0 };
    if (stat(dir, &st) != 0 || !S_ISREG(st.st_mode)) return QKV_OK;
    const qkv_status status = qkv_tensors_open(&t, dir, NULL, &why);
    qkv_tensors_close(t);
    if (status == QKV_ERR_UNSUPPORTED && err) *err = why;
    if (status) return status == QKV_ERR_UNSUPPORTED ? status : QKV_OK;
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                    "expected a model folder with config.json, found a file of weights: use its "
                    "folder");
}

qkv_status qkv_config_open(struct qkv_config *c, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    memset(c, 0, sizeof *c);
    c->err = err;
    if (qkv_llama2c_find(path, dir)) {
        qkv_status status = qkv_llama2c_config(&c->root, path, err);
        if (!status && !(c->file = qkv_copy_text(path, strlen(path))))
            status = qkv_fail_memory(err, path);
        if (status) qkv_config_close(c);
        return status;
    }
    char below[QKV_PATH]; // of a run: the folder of its newest model
    qkv_status status = check_folder(dir, err);
    if (!status) status = qkv_path_join(path, dir, "config.json", err);
    if (!status && !qkv_path_may_exist(path) &&
        !qkv_path_join(below, dir, "model/config.json", NULL) && qkv_path_may_exist(below))
        return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = dir },
                        "no config.json in this folder, expected a model folder; its subfolder "
                        "model/ is a model folder");
    if (!status && !qkv_path_may_exist(path) &&
        !qkv_path_join(below, dir, "adapter_config.json", NULL) && qkv_path_may_exist(below))
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = dir },
                        "this folder is an adapter (LoRA), expected a model folder with "
                        "config.json; merge the adapter into its base model (merge_and_unload of "
                        "peft), save the result and use that folder");
    if (!status) status = qkv_json_file(&c->root, path, QKV_CONFIG_BYTES_MAX, err);
    if (!status && !(c->file = qkv_copy_text(path, strlen(path))))
        status = qkv_fail_memory(err, path);
    if (!status) status = check_quantised(c);
    if (status) qkv_config_close(c);
    return status;
}

void qkv_config_close(struct qkv_config *c)
{
    json_decref(c->root);
    qkv_free(c->file);
    memset(c, 0, sizeof *c);
}

static struct qkv_json_at here(const struct qkv_config *c)
{
    return (struct qkv_json_at){ .object = c->root, .file = c->file, .path = "$", .err = c->err };
}

bool qkv_config_refuse(const struct qkv_config *c, qkv_status status, const char *key,
                       const char *format, ...)
{
    char path[256], text[sizeof c->err->text];
    snprintf(path, sizeof path, "$.%s", key);
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    qkv_fail(c->err, status, &(struct qkv_location){ .file = c->file, .path = path }, "%s", text);
    return false;
}

bool qkv_config_int(const struct qkv_config *c, const char *key, bool need, int64_t *out,
                    int64_t min, int64_t max)
{
    const struct qkv_json_at at = here(c);
    return qkv_json_limited(&at, key, need, out, min, max);
}

bool qkv_config_real(const struct qkv_config *c, const char *key, bool need, double *out,
                     double min, double max)
{
    const struct qkv_json_at at = here(c);
    double x = *out;
    if (!qkv_json_real(&at, key, need, &x)) return false;
    if (json_is_number(json_object_get(c->root, key)) && !(x >= min && x <= max))
        return qkv_config_refuse(c, QKV_ERR_FORMAT, key,
                                 "number out of range, expected %g .. %g, found %g", min, max, x);
    *out = x;
    return true;
}

bool qkv_config_flag(const struct qkv_config *c, const char *key, bool need, bool *out)
{
    const struct qkv_json_at at = here(c);
    return qkv_json_bool(&at, key, need, out);
}

// Writes the texts of names[] to list[size], separated by ", ".
static void join(char *list, size_t size, const char *const *names)
{
    size_t at = 0;
    list[0] = 0;
    for (; *names && at < size; names++)
        at += (size_t)snprintf(list + at, size - at, "%s%s", at ? ", " : "", *names);
}

bool qkv_config_choice(const struct qkv_config *c, const char *key, bool need, int *out,
                       const char *const *names)
{
    const struct qkv_json_at at = here(c);
    const char *text = NULL;
    if (!qkv_json_text(&at, key, need, &text)) return false;
    if (!text) return true;
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return true;
        }
    char list[384];
    join(list, sizeof list, names);
    return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, key,
                             "unknown value, expected one of %s, found \"%.64s\"", list, text);
}

const char *qkv_config_model_type(const struct qkv_config *c, const char *known)
{
    const struct qkv_json_at at = here(c);
    const char *text = NULL;
    if (!qkv_json_text(&at, "model_type", false, &text)) return NULL;
    if (!text)
        qkv_config_refuse(c, QKV_ERR_FORMAT, "model_type",
                          "required member is missing, expected one of %s, found none", known);
    return text;
}

bool qkv_config_sizes(const struct qkv_config *c, const struct qkv_config_keys *k,
                      struct qkv_config_sizes *s)
{
    const struct {
        const char *key;
        int64_t *out, max;
        bool need;
    } rows[] = {
        { k->width, &s->width, QKV_WIDTH_MAX, true },
        { k->inner, &s->inner, QKV_INNER_MAX, true },
        { k->layers, &s->layers, QKV_LAYERS_MAX, true },
        { k->heads, &s->heads, QKV_HEADS_MAX, true },
        { k->kv_heads, &s->kv_heads, QKV_HEADS_MAX, false },
        { k->vocab, &s->vocab, QKV_VOCAB_MAX, true },
        { k->positions, &s->positions, QKV_POSITIONS_MAX, true },
        { k->types, &s->types, QKV_WIDTH_MAX, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].key &&
            !qkv_config_int(c, rows[i].key, rows[i].need, rows[i].out, 1, rows[i].max))
            return false;
    if (!s->kv_heads) s->kv_heads = s->heads;
    if (!k->free_heads && s->width % s->heads)
        return qkv_config_refuse(
            c, QKV_ERR_FORMAT, k->heads,
            "number of heads does not divide the width, expected a divisor of %" PRId64
            ", found %" PRId64,
            s->width, s->heads);
    if (s->heads % s->kv_heads)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, k->kv_heads,
                                 "number of key/value heads does not divide the number of heads, "
                                 "expected a divisor of %" PRId64 ", found %" PRId64,
                                 s->heads, s->kv_heads);
    // An epsilon below FLT_MIN could become 0 in float, and the norm of a constant row would divide
    // by 0.
    if (k->eps && !qkv_config_real(c, k->eps, false, &s->eps, FLT_MIN, 1)) return false;
    if (k->pad && !qkv_config_int(c, k->pad, false, &s->pad, -1, INT64_MAX)) return false;
    if (s->pad >= s->vocab)
        return qkv_config_refuse(
            c, QKV_ERR_FORMAT, k->pad,
            "token id out of range, expected an id below the vocabulary size %" PRId64
            ", found %" PRId64,
            s->vocab, s->pad);
    for (size_t i = 0; i < sizeof k->dropout / sizeof k->dropout[0]; i++) {
        double rate = 0;
        if (k->dropout[i] && !qkv_config_real(c, k->dropout[i], false, &rate, 0, 1)) return false;
    }
    double theta = 1; // the value is not used, but an invalid one is refused
    return qkv_config_real(c, "rope_theta", false, &theta, DBL_MIN, DBL_MAX);
}
