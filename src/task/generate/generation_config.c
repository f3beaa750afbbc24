// SPDX-License-Identifier: MIT
// generation_config.c: reads generation settings from a model folder: the tokens that begin
// outputs, the tokens that end them, the tokens that are never chosen, and defaults of options.
#include "task/generate/generation_config.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 22 };

// A set of token ids below `most`, one bit each, so that lists of many ids are compared in linear
// time.
struct id_set {
    uint8_t *bits;
    int64_t most;
};

static bool has_id(const struct id_set *s, int32_t id)
{
    return id >= 0 && id < s->most && s->bits[id / 8] >> id % 8 & 1;
}

// Adds an id below s->most.  Returns false if the set contains it.
static bool insert_id(struct id_set *s, int32_t id)
{
    const bool is_new = !has_id(s, id);
    s->bits[id / 8] = (uint8_t)(s->bits[id / 8] | 1 << id % 8);
    return is_new;
}

// Makes the set of the ids of a list, all below `most`.  Returns false if memory is exhausted.
static bool id_set_of(struct id_set *s, const int32_t *list, int64_t n, int64_t most)
{
    *s = (struct id_set){ qkv_alloc_zero((size_t)most / 8 + 1, 1), most };
    for (int64_t i = 0; s->bits && i < n; i++) insert_id(s, list[i]);
    return s->bits != NULL;
}

// Grows a list by space for `more` ids. Returns false if memory is exhausted.
static bool reserve_ids(int32_t **list, int64_t n, size_t more)
{
    int32_t *grown = qkv_alloc((size_t)n + more, sizeof *grown);
    if (!grown) return false;
    if (n) memcpy(grown, *list, (size_t)n * sizeof *grown);
    qkv_free(*list);
    *list = grown;
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
    struct id_set seen;
    qkv_status status = QKV_OK;
    if (!value || json_is_null(value)) return QKV_OK;
    if (!reserve_ids(list, *n, count) || !id_set_of(&seen, *list, *n, V))
        return qkv_fail_memory(at->err, NULL);
    snprintf(path, sizeof path, "$.%s", key);
    for (size_t i = 0; i < count && !status; i++) {
        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;
        if (json_is_array(one)) {
            if (json_array_size(one) != 1) continue;
            one = json_array_get(one, 0);
        }
        const json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id < 0 || id >= V)
            status = qkv_fail(at->err, QKV_ERR_FORMAT,
                              &(struct qkv_location){ .file = at->file, .path = path },
                              "token id out of range, expected 0 to %" PRId64, V - 1);
        else if (insert_id(&seen, (int32_t)id))
            (*list)[(*n)++] = (int32_t)id;
    }
    qkv_free(seen.bits);
    return status;
}

static qkv_status read_id(const struct qkv_json_at *at, const char *key, int64_t V, int32_t *out)
{
    int64_t id = *out;
    if (!qkv_json_int(at, key, false, &id, -1, V - 1))
        return at->err ? at->err->status : QKV_ERR_FORMAT;
    *out = (int32_t)id;
    return QKV_OK;
}

// Reads forced_eos_token_id: one id or a list of one id.
static qkv_status read_forced_last(struct qkv_generation_config *c, const struct qkv_json_at *at,
                                   int64_t V)
{
    int32_t *list = NULL;
    int64_t n = 0;
    if (!json_is_array(json_object_get(at->object, "forced_eos_token_id")))
        return read_id(at, "forced_eos_token_id", V, &c->forced_last);
    qkv_status status = read_ids(at, "forced_eos_token_id", V, &list, &n);
    if (!status && n > 1)
        status =
            qkv_fail(at->err, QKV_ERR_UNSUPPORTED,
                     &(struct qkv_location){ .file = at->file, .path = "$.forced_eos_token_id" },
                     "several forced tokens, expected one token, found %" PRId64, n);
    if (!status && n) c->forced_last = list[0];
    qkv_free(list);
    return status;
}

// Reads the sequences of bad_words_ids that have two or more tokens.
static qkv_status read_banned(struct qkv_generation_config *c, const struct qkv_json_at *at,
                              int64_t V)
{
    const json_t *list = json_object_get(at->object, "bad_words_ids");
    const size_t n = json_array_size(list);
    size_t tokens = 0;
    for (size_t i = 0; i < n; i++) tokens += json_array_size(json_array_get(list, i));
    if (!n) return QKV_OK;
    c->banned = qkv_alloc(tokens + 1, sizeof *c->banned);
    c->banned_offsets = qkv_alloc(n + 1, sizeof *c->banned_offsets);
    if (!c->banned || !c->banned_offsets) return qkv_fail_memory(at->err, NULL);
    int64_t count = 0;
    c->banned_offsets[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(list, i);
        if (json_array_size(word) < 2) continue; // read_ids has read words of one token
        for (size_t k = 0; k < json_array_size(word); k++) {
            const json_t *one = json_array_get(word, k);
            const json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
            if (id < 0 || id >= V)
                return qkv_fail(
                    at->err, QKV_ERR_FORMAT,
                    &(struct qkv_location){ .file = at->file, .path = "$.bad_words_ids" },
                    "token id out of range, expected 0 to %" PRId64, V - 1);
            c->banned[count++] = (int32_t)id;
        }
        c->banned_offsets[++c->banned_count] = count;
    }
    return QKV_OK;
}

// Reads a number under `key`, which must be above least and at most `most`.
static qkv_status read_real(const struct qkv_json_at *at, const char *key, double *out,
                            double least, double most)
{
    double x = *out;
    char path[64];
    if (!qkv_json_real(at, key, false, &x)) return at->err ? at->err->status : QKV_ERR_FORMAT;
    snprintf(path, sizeof path, "$.%s", key);
    if (json_is_number(json_object_get(at->object, key)) && !(x > least && x <= most))
        return qkv_fail(
            at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = path },
            "number out of range, expected above %g, at most %g, found %g", least, most, x);
    *out = x;
    return QKV_OK;
}

// The value of max_length that transformers uses if a folder names none, and that its older
// versions write to every config.json.
enum { USUAL_LENGTH = 20 };

static qkv_status read_defaults(struct qkv_generation_config *c, const struct qkv_json_at *at)
{
    const struct {
        const char *key;
        int64_t *out, least, most;
    } rows[] = { { "num_beams", &c->beams, 1, 1024 },
                 { "max_length", &c->max_length, 0, INT32_MAX },
                 { "max_new_tokens", &c->max_new, 0, INT32_MAX },
                 { "min_length", &c->min_length, 0, INT32_MAX },
                 { "min_new_tokens", &c->min_new, 0, INT32_MAX },
                 { "no_repeat_ngram_size", &c->no_repeat_ngram, 0, INT32_MAX } };
    const json_t *early = json_object_get(at->object, "early_stopping");
    double length = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!qkv_json_limited(at, rows[i].key, false, rows[i].out, rows[i].least, rows[i].most))
            return at->err->status;
    if (c->max_length == USUAL_LENGTH) c->max_length = 0;
    qkv_status status = read_real(at, "repetition_penalty", &c->repetition, 1e-30, 100);
    if (!status) status = read_real(at, "length_penalty", &length, -10, 100);
    c->length_penalty = length == 0 ? -1 : length > 0 ? length : 0;
    c->length_reward = length < 0 ? length : 0;
    if (json_is_boolean(early))
        c->early = json_is_true(early) ? QKV_EARLY_FULL : QKV_EARLY_LIKELY;
    else if (json_is_string(early) && !strcmp(json_string_value(early), "never"))
        c->early = QKV_EARLY_NEVER;
    else if (!status && early && !json_is_null(early))
        status = qkv_fail(at->err, QKV_ERR_FORMAT,
                          &(struct qkv_location){ .file = at->file, .path = "$.early_stopping" },
                          "unknown value, expected false, true or \"never\"");
    return status;
}

// The value of top_k that transformers uses for do_sample if a folder names none.
enum { USUAL_TOP_K = 50 };

// Reads how a decoder samples if do_sample is true.
static qkv_status read_sampling(struct qkv_sampling *s, const struct qkv_json_at *at)
{
    const json_t *top_k = json_object_get(at->object, "top_k");
    if (!json_is_true(json_object_get(at->object, "do_sample"))) return QKV_OK;
    *s = (struct qkv_sampling){ .temperature = 1, .top_k = json_is_null(top_k) ? 0 : USUAL_TOP_K };
    if (!qkv_json_limited(at, "top_k", false, &s->top_k, 0, INT32_MAX)) return at->err->status;
    qkv_status status = read_real(at, "temperature", &s->temperature, 0, 100);
    if (!status) status = read_real(at, "top_p", &s->top_p, -1e-9, 1);
    if (!status) status = read_real(at, "min_p", &s->min_p, -1e-9, 1);
    if (s->top_p == 1)
        s->top_p = 0; // no limit
    else if (json_is_number(json_object_get(at->object, "top_p")))
        s->top_p = fmax(s->top_p, (double)FLT_MIN); // 0: the most probable token only
    return status;
}

// Lists the keys that would change the outputs of transformers and that qkv does not apply. A value
// that has no effect, such as 0 or false, does not count.
static void list_ignored(struct qkv_generation_config *c, const json_t *root, bool decoder)
{
    enum { DECODER = 1, TRANSLATOR = 2, SAMPLING = 4 };
    static const struct {
        const char *key;
        double neutral; // number without effect
        int only;       // where the key counts; 0: always
    } rows[] = { { "do_sample", 0, TRANSLATOR },
                 { "num_beams", 1, DECODER },
                 { "num_return_sequences", 1, 0 },
                 { "temperature", 1, TRANSLATOR | SAMPLING },
                 { "top_k", 50, TRANSLATOR | SAMPLING },
                 { "top_p", 1, TRANSLATOR | SAMPLING },
                 { "min_p", 0, TRANSLATOR | SAMPLING },
                 { "typical_p", 1, SAMPLING },
                 { "epsilon_cutoff", 0, SAMPLING },
                 { "eta_cutoff", 0, SAMPLING },
                 { "top_h", -1, SAMPLING }, // every number has an effect
                 { "max_time", -1, 0 },
                 { "token_healing", 0, 0 },
                 { "penalty_alpha", 0, 0 },
                 { "num_beam_groups", 1, 0 },
                 { "diversity_penalty", 0, 0 },
                 { "encoder_repetition_penalty", 1, 0 },
                 { "encoder_no_repeat_ngram_size", 0, 0 },
                 { "exponential_decay_length_penalty", 0, 0 },
                 { "begin_suppress_tokens", 0, 0 },
                 { "forced_decoder_ids", 0, 0 },
                 { "force_words_ids", 0, 0 },
                 { "sequence_bias", 0, 0 },
                 { "guidance_scale", 1, 0 },
                 { "dola_layers", 0, 0 },
                 { "renormalize_logits", 0, 0 },
                 { "stop_strings", 0, 0 },
                 { "watermarking_config", 0, 0 } };
    const bool samples = json_is_true(json_object_get(root, "do_sample"));
    size_t n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && n < sizeof c->ignored; i++) {
        const json_t *v = json_object_get(root, rows[i].key);
        if (!v || json_is_null(v) || json_is_false(v)) continue;
        if (json_is_number(v) && json_number_value(v) == rows[i].neutral) continue;
        if (rows[i].only & (decoder ? TRANSLATOR : DECODER)) continue;
        if (rows[i].only & SAMPLING && !samples) continue;
        n += (size_t)snprintf(c->ignored + n, sizeof c->ignored - n, "%s%s", n ? ", " : "",
                              rows[i].key);
    }
}

qkv_status qkv_generation_file_read(struct qkv_generation_config *c, const char *dir, int64_t V,
                                    bool decoder, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    bool there = false;
    qkv_status status = qkv_path_join(path, dir, "generation_config.json", err);
    if (!status) status = qkv_path_find(&there, path, err);
    if (!status && !there) {
        status = qkv_path_join(path, dir, "config.json", err);
        if (!status) status = qkv_path_find(&there, path, err);
    }
    if (status || !there) return status; // a llama2.c checkpoint has neither file
    status = qkv_json_file(&root, path, CONFIG_BYTES, err);
    if (status) return status;
    const struct qkv_json_at at = { root, path, "$", err };
    status = read_ids(&at, "eos_token_id", V, &c->ends, &c->end_count);
    if (!status) status = read_ids(&at, "bad_words_ids", V, &c->suppressed, &c->suppressed_count);
    if (!status) status = read_ids(&at, "suppress_tokens", V, &c->suppressed, &c->suppressed_count);
    if (!status) status = read_id(&at, "bos_token_id", V, &c->bos);
    if (!status) status = read_id(&at, "decoder_start_token_id", V, &c->start);
    if (!status) status = read_id(&at, "forced_bos_token_id", V, &c->forced_first);
    if (!status) status = read_forced_last(c, &at, V);
    if (!status) status = read_banned(c, &at, V);
    if (!status) status = read_defaults(c, &at);
    if (!status && decoder) status = read_sampling(&c->sampling, &at);
    if (!status) list_ignored(c, root, decoder);
    json_decref(root);
    return status;
}

// Adds the end tokens of the model to c->ends if the settings have none, and removes all end tokens
// from the suppressed tokens: if no end token could be chosen, no output would end.
static qkv_status add_stops(struct qkv_generation_config *c, const struct qkv_model_info *info,
                            qkv_error *err)
{
    struct id_set ends;
    const int64_t added = c->end_count ? 0 : info->stop_count;
    int64_t kept = 0, most = info->vocab;
    for (int64_t i = 0; i < added; i++) most = qkv_max64(most, info->stops[i] + 1);
    if (!reserve_ids(&c->ends, c->end_count, (size_t)added + 1) ||
        !id_set_of(&ends, c->ends, c->end_count, most))
        return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < added; i++)
        if (info->stops[i] >= 0 && insert_id(&ends, info->stops[i]))
            c->ends[c->end_count++] = info->stops[i];
    for (int64_t i = 0; i < c->suppressed_count; i++)
        if (!has_id(&ends, c->suppressed[i])) c->suppressed[kept++] = c->suppressed[i];
    c->suppressed_count = kept;
    qkv_free(ends.bits);
    return QKV_OK;
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
                                         .forced_first = -1,
                                         .forced_last = -1,
                                         .source_positions = info.positions };
    qkv_status status = qkv_generation_file_read(c, dir, info.vocab, !two, err);
    if (!two) { // decoder_start_token_id and the forced tokens apply to translations only
        c->start = c->bos;
        c->forced_first = c->forced_last = -1;
    }
    if (!status) status = add_stops(c, &info, err);
    if (status) qkv_generation_config_free(c);
    return status;
}

void qkv_generation_config_free(struct qkv_generation_config *c)
{
    qkv_free(c->ends);
    qkv_free(c->suppressed);
    qkv_free(c->banned);
    qkv_free(c->banned_offsets);
    *c = (struct qkv_generation_config){ 0 };
}
