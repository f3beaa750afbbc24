// SPDX-License-Identifier: MIT
// generation_config.c: reads generation settings from a model folder: the tokens that begin
// outputs, the tokens that end them, and the tokens that are never chosen.
#include "task/generate/generation_config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 22 };

static bool contains_id(const int32_t *list, int64_t n, int32_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

// Appends an id to the list unless the list contains it. Returns false if memory is exhausted.
static bool add_id(int32_t **list, int64_t *n, int32_t id)
{
    if (contains_id(*list, *n, id)) return true;
    int32_t *more = qkv_alloc((size_t)*n + 1, sizeof *more);
    if (!more) return false;
    if (*n) memcpy(more, *list, (size_t)*n * sizeof *more);
    more[(*n)++] = id;
    qkv_free(*list);
    *list = more;
    return true;
}

// Adds the value of `key`, one id or a list of ids, to *list. An element of the list may itself be
// a list, the tokens of a word: it is added only if the word has a single token.
static qkv_status read_ids(const struct qkv_json_at *at, const char *key, int64_t V, int32_t **list,
                           int64_t *n)
{
    const json_t *value = json_object_get(at->object, key);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    char path[64];
    if (!value || json_is_null(value)) return QKV_OK;
    snprintf(path, sizeof path, "$.%s", key);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_array(one)) {
            if (json_array_size(one) != 1) continue;
            one = json_array_get(one, 0);
        }
        const json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id < 0 || id >= V)
            return qkv_fail(at->err, QKV_ERR_FORMAT,
                            &(struct qkv_location){ .file = at->file, .path = path },
                            "token id out of range, expected 0 to %" PRId64, V - 1);
        if (!add_id(list, n, (int32_t)id)) return qkv_fail_memory(at->err, NULL);
    }
    return QKV_OK;
}

static qkv_status read_id(const struct qkv_json_at *at, const char *key, int64_t V, int32_t *out)
{
    int64_t id = *out;
    if (!qkv_json_int(at, key, false, &id, -1, V - 1))
        return at->err ? at->err->status : QKV_ERR_FORMAT;
    *out = (int32_t)id;
    return QKV_OK;
}

qkv_status qkv_generation_file_read(struct qkv_generation_config *c, const char *dir, int64_t V,
                                    qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    qkv_status status = qkv_path_join(path, dir, "generation_config.json", err);
    if (!status && !qkv_path_exists(path)) status = qkv_path_join(path, dir, "config.json", err);
    // a llama2.c checkpoint has neither file
    if (status || !qkv_path_exists(path)) return status;
    status = qkv_json_file(&root, path, CONFIG_BYTES, err);
    if (status) return status;
    const struct qkv_json_at at = { root, path, "$", err };
    status = read_ids(&at, "eos_token_id", V, &c->ends, &c->end_count);
    if (!status) status = read_ids(&at, "bad_words_ids", V, &c->suppressed, &c->suppressed_count);
    if (!status) status = read_ids(&at, "suppress_tokens", V, &c->suppressed, &c->suppressed_count);
    if (!status) status = read_id(&at, "bos_token_id", V, &c->bos);
    if (!status) status = read_id(&at, "decoder_start_token_id", V, &c->start);
    if (!status) status = read_id(&at, "forced_bos_token_id", V, &c->forced_first);
    if (!status) status = read_id(&at, "forced_eos_token_id", V, &c->forced_last);
    if (!status && !qkv_json_int(&at, "num_beams", false, &c->beams, 1, 1024)) status = err->status;
    json_decref(root);
    return status;
}

qkv_status qkv_generation_config_read(struct qkv_generation_config *c, const char *dir,
                                      const qkv_model *model, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(model);
    const bool two = info.kind == QKV_KIND_ENCODER_DECODER;
    qkv_error own = { 0 };
    if (!err) err = &own;
    *c = (struct qkv_generation_config){ .bos = info.bos,
                                         .start = two ? info.start : info.bos,
                                         .forced_first = two ? info.forced : -1,
                                         .forced_last = -1,
                                         .source_positions = info.positions };
    qkv_status status = qkv_generation_file_read(c, dir, info.vocab, err);
    if (!two) { // decoder_start_token_id and the forced tokens apply to translations only
        c->start = c->bos;
        c->forced_first = c->forced_last = -1;
    }
    for (int64_t i = 0; !status && i < info.stop_count; i++)
        if (!add_id(&c->ends, &c->end_count, info.stops[i])) status = qkv_fail_memory(err, NULL);
    // Remove the end tokens from the suppressed tokens: if no end token could be chosen, no output
    // would end.
    for (int64_t i = 0; !status && i < c->suppressed_count; i++)
        if (contains_id(c->ends, c->end_count, c->suppressed[i]))
            c->suppressed[i--] = c->suppressed[--c->suppressed_count];
    if (status) qkv_generation_config_free(c);
    return status;
}

void qkv_generation_config_free(struct qkv_generation_config *c)
{
    qkv_free(c->ends);
    qkv_free(c->suppressed);
    *c = (struct qkv_generation_config){ 0 };
}
