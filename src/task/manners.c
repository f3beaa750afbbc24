// SPDX-License-Identifier: MIT
// manners.c: what a folder says of the outputs of its model: what ends them, what never comes.
#include "task/speaker.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 22 };

static bool holds(const int32_t *list, int64_t n, int32_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

// false: no memory.
static bool add(int32_t **list, int64_t *n, int32_t id)
{
    if (holds(*list, *n, id)) return true;
    int32_t *more = qkv_alloc((size_t)*n + 1, sizeof *more);
    if (!more) return false;
    if (*n) memcpy(more, *list, (size_t)*n * sizeof *more);
    more[(*n)++] = id;
    qkv_free(*list);
    *list = more;
    return true;
}

// One id or a list of ids to *list; of words (lists) those of one token alone.
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
                            &(struct qkv_place){ .file = at->file, .path = path },
                            "not a token, expected an id of 0 to %" PRId64, V - 1);
        if (!add(list, n, (int32_t)id)) return qkv_fail_memory(at->err, NULL);
    }
    return QKV_OK;
}

static qkv_status read_one(const struct qkv_json_at *at, const char *key, int64_t V, int32_t *out)
{
    int64_t id = *out;
    if (!qkv_json_int(at, key, false, &id, -1, V - 1))
        return at->err ? at->err->status : QKV_ERR_FORMAT;
    *out = (int32_t)id;
    return QKV_OK;
}

static qkv_status read_file(struct qkv_manners *m, const char *path, int64_t V, qkv_error *err)
{
    json_t *root = NULL;
    qkv_status s = qkv_json_file(&root, path, CONFIG_BYTES, err);
    if (s) return s;
    const struct qkv_json_at at = { root, path, "$", err };
    s = read_ids(&at, "eos_token_id", V, &m->ends, &m->n_ends);
    if (!s) s = read_ids(&at, "bad_words_ids", V, &m->never, &m->n_never);
    if (!s) s = read_ids(&at, "suppress_tokens", V, &m->never, &m->n_never);
    if (!s) s = read_one(&at, "decoder_start_token_id", V, &m->start);
    if (!s) s = read_one(&at, "forced_bos_token_id", V, &m->forced);
    if (!s) s = read_one(&at, "forced_eos_token_id", V, &m->forced_end);
    if (!s && !qkv_json_int(&at, "num_beams", false, &m->beams, 1, 1024)) s = err->status;
    json_decref(root);
    return s;
}

qkv_status qkv_manners_read(struct qkv_manners *m, const char *dir, const qkv_model *model,
                            qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(model);
    const bool two = info.kind == QKV_KIND_ENCODER_DECODER;
    qkv_error own = { 0 };
    char path[QKV_PATH];
    if (!err) err = &own;
    *m = (struct qkv_manners){ .start = two ? info.start : info.bos,
                               .forced = two ? info.forced : -1,
                               .forced_end = -1,
                               .source_positions = info.positions };
    qkv_status s = qkv_path_join(path, dir, "generation_config.json", err);
    if (s) return s;
    if (!qkv_path_exists(path)) s = qkv_path_join(path, dir, "config.json", err);
    if (!s) s = read_file(m, path, info.vocab, err);
    if (!two) { // these are of targets
        m->start = info.bos;
        m->forced = m->forced_end = -1;
    }
    for (int64_t i = 0; !s && i < info.stop_count; i++)
        if (!add(&m->ends, &m->n_ends, info.stops[i])) s = qkv_fail_memory(err, NULL);
    // A token that both ends an output and never comes would never end one.
    for (int64_t i = 0; !s && i < m->n_never; i++)
        if (holds(m->ends, m->n_ends, m->never[i])) m->never[i--] = m->never[--m->n_never];
    if (s) qkv_manners_free(m);
    return s;
}

void qkv_manners_free(struct qkv_manners *m)
{
    qkv_free(m->ends);
    qkv_free(m->never);
    *m = (struct qkv_manners){ 0 };
}
