// SPDX-License-Identifier: MIT
// read_tokenizer_json.c: reads a tokenizer.json: finds the types of its components in
// tokenizer.def, reads and checks the components, and completes the tokenizer.
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- members and components --------------------------------------------------------------------
bool qkv_text_fail(const struct qkv_json_at *at, const char *key, qkv_status status,
                   const char *format, ...)
{
    char path[256], text[768];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(path, sizeof path, "%s%s%s", at->path, key ? "." : "", key ? key : "");
    qkv_fail(at->err, status, &(struct qkv_location){ .file = at->file, .path = path }, "%s", text);
    return false;
}

const json_t *qkv_json_member(const struct qkv_json_at *at, const char *key, bool need,
                              bool want_array, char path[256], bool *ok)
{
    const json_t *v = json_object_get(at->object, key);
    snprintf(path, 256, "%s.%s", at->path, key);
    *ok = true;
    if (json_is_null(v)) v = NULL;
    if (!v && !need) return NULL;
    if (v && (want_array ? json_is_array(v) : json_is_object(v))) return v;
    *ok = false;
    if (v)
        qkv_text_fail(at, key, QKV_ERR_FORMAT, "value of the wrong type, expected an %s",
                      want_array ? "array" : "object");
    else
        qkv_text_fail(at, key, QKV_ERR_FORMAT,
                      "required member is missing, expected a value, found none");
    return NULL;
}

bool qkv_component_list(qkv_tokenizer *t, const struct qkv_json_at *at, const char *key,
                        qkv_component_fn *read)
{
    char path[256];
    bool ok;
    const json_t *list = qkv_json_member(at, key, true, true, path, &ok);
    if (!list) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        char here[256];
        snprintf(here, sizeof here, "%.220s[%zu]", path, i);
        const struct qkv_json_at item = { json_array_get(list, i), at->file, here, at->err };
        if (!json_is_object(item.object))
            return qkv_text_fail(&item, NULL, QKV_ERR_FORMAT,
                                 "value of the wrong type, expected an object");
        if (!read(t, &item)) return false;
    }
    return true;
}

struct component {
    const char *type;
    qkv_component_fn *read;
};
static const struct component normalizers[] = {
#define QKV_NORMALIZER(type, fn) { type, qkv_normalizer_##fn },
#include "text/tokenizer.def"
    { NULL, NULL }
};
static const struct component pre_tokenizers[] = {
#define QKV_PRE_TOKENIZER(type, fn) { type, qkv_pre_tokenizer_##fn },
#include "text/tokenizer.def"
    { NULL, NULL }
};
static const struct component post_processors[] = {
#define QKV_POST_PROCESSOR(type, fn) { type, qkv_post_processor_##fn },
#include "text/tokenizer.def"
    { NULL, NULL }
};
static const struct component decoders[] = {
#define QKV_DECODER(type, fn) { type, qkv_text_decoder_##fn },
#include "text/tokenizer.def"
    { NULL, NULL }
};
static const struct qkv_text_model *const models[] = {
#define QKV_TEXT_MODEL(type, table) &qkv_model_##table,
#include "text/tokenizer.def"
    NULL
};

static bool read_component(qkv_tokenizer *t, const struct qkv_json_at *at,
                           const struct component *rows, const char *what)
{
    const char *type = NULL;
    char known[512] = "";
    if (!qkv_json_text(at, "type", true, &type)) return false;
    for (const struct component *c = rows; c->type; c++) {
        if (strcmp(c->type, type) == 0) return c->read(t, at);
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", c->type);
    }
    return qkv_text_fail(at, "type", QKV_ERR_UNSUPPORTED,
                         "unknown %s, expected one of %s, found \"%s\"", what, known, type);
}

bool qkv_normalizer_read(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return read_component(t, at, normalizers, "normalizer");
}
bool qkv_pre_tokenizer_read(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return read_component(t, at, pre_tokenizers, "pre-tokenizer");
}
bool qkv_text_decoder_read(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return read_component(t, at, decoders, "decoder");
}
bool qkv_post_processor_read(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return read_component(t, at, post_processors, "post-processor");
}

// ---- opening -----------------------------------------------------------------------------------
// Returns the type of the model in a file written before 2021, which has no "type" and is
// recognised by its members.
static const char *old_model_type(const json_t *model)
{
    if (json_object_get(model, "merges")) return "BPE";
    if (json_is_array(json_object_get(model, "vocab"))) return "Unigram";
    return json_object_get(model, "continuing_subword_prefix") ? "WordPiece" : NULL;
}

static bool read_model(qkv_tokenizer *t, const struct qkv_json_at *root)
{
    char path[256], known[256] = "";
    bool ok;
    const json_t *model = qkv_json_member(root, "model", true, false, path, &ok);
    if (!model) return false;
    const struct qkv_json_at at = { model, root->file, path, root->err };
    const char *type = old_model_type(model);
    if (!qkv_json_text(&at, "type", type == NULL, &type)) return false;
    for (const struct qkv_text_model *const *m = models; *m && !t->kind; m++) {
        if (strcmp((*m)->name, type) == 0) t->kind = *m;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", (*m)->name);
    }
    if (!t->kind)
        return qkv_text_fail(&at, "type", QKV_ERR_UNSUPPORTED,
                             "unknown tokenizer model, expected one of %s, found \"%s\"", known,
                             type);
    return t->kind->open(t, &at);
}

static bool read_optional(qkv_tokenizer *t, const struct qkv_json_at *root, const char *key,
                          qkv_component_fn *read)
{
    char path[256];
    bool ok;
    const json_t *v = qkv_json_member(root, key, false, false, path, &ok);
    if (!v) return ok;
    const struct qkv_json_at at = { v, root->file, path, root->err };
    return read(t, &at);
}

// Sorts the vocabulary and checks that no two tokens have the same id.
static bool finish_vocab(qkv_tokenizer *t, const struct qkv_json_at *root, const char *where)
{
    int64_t twice;
    qkv_vocab_finish(&t->vocab, &twice);
    if (twice < 0) return true;
    const struct qkv_token *a = qkv_vocab_token(&t->vocab, twice);
    while (a > t->vocab.tokens && a[-1].id == twice) a--;
    return qkv_text_fail(root, where, QKV_ERR_FORMAT,
                         "two tokens have the same id, expected an id for each, found %" PRId64
                         " for \"%s\" and \"%s\"",
                         twice, t->vocab.pool + a[0].text, t->vocab.pool + a[1].text);
}

static bool read_all(qkv_tokenizer *t, const struct qkv_json_at *root)
{
    const char *version = "1.0";
    if (!qkv_json_text(root, "version", false, &version)) return false;
    if (strcmp(version, "1.0") != 0)
        return qkv_text_fail(root, "version", QKV_ERR_UNSUPPORTED,
                             "unknown version of tokenizer.json, expected \"1.0\", found \"%s\"",
                             version);
    if (!read_model(t, root) || !finish_vocab(t, root, "model.vocab")) return false;
    if (!read_optional(t, root, "normalizer", qkv_normalizer_read)) return false;
    if (t->assembly.add_steps && !t->assembly.add_steps(t, root)) return false;
    t->cache = qkv_word_cache_new();
    if (!t->cache || !qkv_normalizer_finish(&t->normalizer)) {
        qkv_fail_memory(root->err, root->file);
        return false;
    }
    if (!read_optional(t, root, "pre_tokenizer", qkv_pre_tokenizer_read)) return false;
    qkv_word_masks_finish(&t->masks);
    qkv_pre_tokenizer_finish(t);
    if (!qkv_added_read(t, root) || !finish_vocab(t, root, "added_tokens")) return false;
    for (int64_t i = 0; i < t->added.count; i++) {
        const struct qkv_added_token *a = &t->added.tokens[i];
        struct qkv_token *v =
            t->vocab.tokens + (qkv_vocab_token(&t->vocab, a->id) - t->vocab.tokens);
        v->flags |= (uint8_t)(QKV_TOKEN_ADDED | (a->special ? QKV_TOKEN_SPECIAL : 0));
    }
    if (!read_optional(t, root, "post_processor", qkv_post_processor_read)) return false;
    if (!t->post.one.count && !qkv_post_default(t)) {
        qkv_fail_memory(root->err, root->file);
        return false;
    }
    return read_optional(t, root, "decoder", qkv_text_decoder_read) && qkv_limits_read(t, root);
}

// Parses data[size], without the vocabulary if qkv_vocab_scan could read it.  If reread is true,
// data is the complete file, so errors give line and column.
static qkv_status parse_json(qkv_tokenizer *t, json_t **json, const char *data, size_t size,
                             const char *file, bool reread, qkv_error *err)
{
    size_t begin = 0, end = 0;
    if (qkv_vocab_scan(&t->vocab, data, size, &begin, &end)) {
        char *rest = qkv_alloc(size - (end - begin) + 2, 1);
        qkv_status status = rest ? QKV_OK : qkv_fail_memory(err, file);
        if (rest) {
            // The offsets of an error in this shortened text would be wrong, so the error is
            // ignored; parsing the complete text below reports it.
            qkv_error ignored = { 0 };
            memcpy(rest, data, begin);
            memcpy(rest + begin, "{}", 2);
            memcpy(rest + begin + 2, data + end, size - end);
            status = qkv_json_parse(json, rest, size - (end - begin) + 2, file, 0, &ignored);
        }
        qkv_free(rest);
        if (!status || !rest) return status;
        qkv_vocab_free(&t->vocab);
    }
    if (reread) return qkv_json_file(json, file, QKV_TOKENIZER_BYTES, err);
    return qkv_json_parse(json, data, size, file, 0, err);
}

qkv_status qkv_tokenizer_new(qkv_tokenizer **out, const char *file, qkv_error *err)
{
    qkv_tokenizer *t = qkv_alloc_zero(1, sizeof *t);
    if (t) t->file = qkv_copy_text(file, strlen(file));
    if (t) t->unknown = -1;
    *out = t && t->file ? t : NULL;
    if (*out) return QKV_OK;
    qkv_tokenizer_close(t);
    return qkv_fail_memory(err, file);
}

// Reads the components of json into *t; on an error the caller closes *t.
static qkv_status read_components(qkv_tokenizer **t, const json_t *json, const char *file,
                                  qkv_error *own)
{
    const struct qkv_json_at root = { json, file, "$", own };
    if (!read_all(*t, &root) && !own->status)
        qkv_fail(own, QKV_ERR_INTERNAL, NULL,
                 "tokenizer cannot be used, and no reason was reported");
    qkv_assembly_free(&(*t)->assembly);
    return own->status;
}

static qkv_status hand_over(qkv_tokenizer **out, qkv_tokenizer *t, qkv_error *err,
                            const qkv_error *own)
{
    if (own->status) {
        qkv_tokenizer_close(t);
        t = NULL;
        if (err && !err->status) *err = *own;
    }
    *out = t;
    return own->status;
}

// Reads a tokenizer from data[size], or from the file if data is NULL.
static qkv_status open_json(qkv_tokenizer **out, const char *data, size_t size, const char *file,
                            qkv_error *err)
{
    qkv_error own = { 0 }; // the caller's err may be NULL, but readers need the status
    json_t *json = NULL;
    struct qkv_map map = { 0 };
    qkv_tokenizer *t = NULL;
    const bool read = data == NULL;
    if (qkv_tokenizer_new(&t, file, &own)) goto done;
    if (read) { // read, not mapped: the file may shrink while it is used
        if (qkv_map_open(&map, file, true, &own)) goto done;
        data = map.data ? (const char *)map.data : "";
        size = map.size;
    }
    if (size > QKV_TOKENIZER_BYTES) {
        qkv_fail(&own, QKV_ERR_LIMIT, &(struct qkv_location){ .file = file },
                 "file too large, expected at most %d bytes, found %zu", QKV_TOKENIZER_BYTES, size);
        goto done;
    }
    if (parse_json(t, &json, data, size, file, read, &own)) goto done;
    read_components(&t, json, file, &own);
done:
    json_decref(json);
    qkv_map_close(&map);
    return hand_over(out, t, err, &own);
}

qkv_status qkv_tokenizer_parse(qkv_tokenizer **out, const char *data, size_t size, const char *file,
                               qkv_error *err)
{
    return open_json(out, data ? data : "", size, file, err);
}

qkv_status qkv_tokenizer_read(qkv_tokenizer **out, const char *file, qkv_error *err)
{
    return open_json(out, NULL, 0, file, err);
}

qkv_status qkv_tokenizer_assemble(qkv_tokenizer **out, qkv_tokenizer *t,
                                  struct qkv_text_buffer *rest, qkv_error *err)
{
    qkv_error own = { 0 };
    json_t *json = NULL;
    if (rest->failed)
        qkv_fail_memory(&own, t->file);
    else if (!qkv_json_parse(&json, rest->bytes, (size_t)rest->count, t->file, 0, &own))
        read_components(&t, json, t->file, &own);
    json_decref(json);
    return hand_over(out, t, err, &own);
}

void qkv_tokenizer_close(qkv_tokenizer *t)
{
    if (!t) return;
    if (t->kind) t->kind->close(t->model);
    qkv_vocab_free(&t->vocab);
    qkv_normalizer_free(&t->normalizer);
    qkv_pre_tokenizer_free(&t->pre_tokenizer);
    qkv_free(t->cache);
    qkv_added_free(&t->added);
    qkv_post_free(&t->post);
    qkv_text_decoder_free(&t->decoder);
    qkv_assembly_free(&t->assembly);
    qkv_free(t->file);
    qkv_free(t);
}

// ---- properties --------------------------------------------------------------------------------
int64_t qkv_tokenizer_size(const qkv_tokenizer *t)
{
    if (!t) return 0;
    return t && t->vocab.count ? t->vocab.tokens[t->vocab.count - 1].id + 1 : 0;
}

const char *qkv_tokenizer_token(const qkv_tokenizer *t, int32_t id)
{
    if (!t) return NULL;
    const struct qkv_token *token = t ? qkv_vocab_token(&t->vocab, id) : NULL;
    return token ? t->vocab.pool + token->text : NULL;
}

int32_t qkv_tokenizer_id(const qkv_tokenizer *t, const char *token)
{
    if (!t || !token) return -1;
    const size_t bytes = strlen(token);
    const int32_t added = qkv_trie_find(&t->added.names, token, bytes);
    return added >= 0 ? t->added.tokens[added].id : qkv_trie_find(&t->vocab.trie, token, bytes);
}

bool qkv_tokenizer_special(const qkv_tokenizer *t, int32_t id)
{
    if (!t) return false;
    const struct qkv_token *token = t ? qkv_vocab_token(&t->vocab, id) : NULL;
    return token && token->flags & QKV_TOKEN_SPECIAL;
}

int32_t qkv_tokenizer_unknown(const qkv_tokenizer *t)
{
    return t->unknown;
}

bool qkv_tokenizer_marks_parts(const qkv_tokenizer *t)
{
    return t->parts_marked;
}

const char *qkv_tokenizer_kind(const qkv_tokenizer *t)
{
    return t ? t->kind->name : "";
}
