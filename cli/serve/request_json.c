// SPDX-License-Identifier: MIT
// request_json.c: reads the JSON body of a request into variables, with the path of an error.
#include "serve/server.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The most values of a body; the memory of an object, an array and any other value, about.
enum { VALUES = 1 << 18, OBJECT_BYTES = 256, ARRAY_BYTES = 128, VALUE_BYTES = 64 };

static bool wrong_kind(struct serve_call *c, const char *path, const char *want, const qkv_json *v)
{
    serve_fail(c, 400, path, "%s: value of the wrong type, expected %s, found %s", path, want,
               qkv_json_kind_name(v));
    return false;
}

static bool store_integer(struct serve_call *c, const struct serve_field *f, const char *path,
                          const qkv_json *v)
{
    int64_t n;
    double x;
    // 5.0 is an integer for some clients
    if (!qkv_json_get_integer(v, &n)) {
        if (!qkv_json_get_number(v, &x) || x != floor(x) || fabs(x) > 9e15)
            return wrong_kind(c, path, "an integer", v);
        n = (int64_t)x;
    }
    if (n < (int64_t)f->min || n > (int64_t)f->max) {
        serve_fail(c, 400, path, "%s: number out of range, expected %lld to %lld, found %lld", path,
                   (long long)f->min, (long long)f->max, (long long)n);
        return false;
    }
    *(int64_t *)f->to = n;
    return true;
}

static bool store_number(struct serve_call *c, const struct serve_field *f, const char *path,
                         const qkv_json *v)
{
    double x;
    if (!qkv_json_get_number(v, &x)) return wrong_kind(c, path, "a number", v);
    if (!(x >= f->min && x <= f->max)) {
        serve_fail(c, 400, path, "%s: number out of range, expected %g to %g, found %g", path,
                   f->min, f->max, x);
        return false;
    }
    *(double *)f->to = x;
    return true;
}

static bool store(struct serve_call *c, const struct serve_field *f, const char *path,
                  const qkv_json *v)
{
    if (qkv_json_kind_of(v) == QKV_JSON_NULL) return true;
    switch (f->kind) {
    case FIELD_TEXT:
        *(const char **)f->to = qkv_json_get_string(v, NULL);
        return *(const char **)f->to || wrong_kind(c, path, "a text", v);
    case FIELD_INTEGER: return store_integer(c, f, path, v);
    case FIELD_NUMBER: return store_number(c, f, path, v);
    case FIELD_BOOLEAN:
        return qkv_json_get_boolean(v, f->to) || wrong_kind(c, path, "true or false", v);
    case FIELD_ANY: *(const qkv_json **)f->to = v; return true;
    case FIELD_IGNORED: return true;
    case FIELD_REFUSED: break;
    }
    serve_fail(c, 400, path, "%s is not supported by qkv serve", path);
    return false;
}

bool serve_members(struct serve_call *c, const qkv_json *object, const char *path,
                   const struct serve_field *fields)
{
    if (qkv_json_kind_of(object) != QKV_JSON_OBJECT)
        return wrong_kind(c, path, "an object", object);
    for (const char *key = NULL; (key = qkv_json_next_key(object, key));) {
        char at[256], clean[128];
        const struct serve_field *f = fields;
        while (f->name && strcmp(f->name, key) != 0) f++;
        snprintf(at, sizeof at, "%s.%s", path, qkv_escape(clean, sizeof clean, key));
        if (!f->name) {
            serve_fail(c, 400, at, "%s: no member of this request has this name", at);
            return false;
        }
        if (!store(c, f, at, qkv_json_lookup(object, key))) return false;
    }
    return true;
}

// Counts the memory of the values of a body before it is parsed: a value of two bytes becomes an
// object of hundreds.  Returns false if the call was answered with an error.
static bool hold_values(struct serve_call *c, const char *text, size_t bytes)
{
    size_t objects = 0, arrays = 0, others = 1;
    bool inside = false; // a string
    for (size_t i = 0; i < bytes; i++) {
        if (inside && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            inside = !inside;
        } else if (!inside) {
            objects += text[i] == '{';
            arrays += text[i] == '[';
            others += text[i] == ',';
        }
    }
    if (objects + arrays + others > VALUES) {
        serve_fail(c, 413, "$", "the body has too many values, expected at most %d", VALUES);
        return false;
    }
    if (connection_hold(c, objects * OBJECT_BYTES + arrays * ARRAY_BYTES + others * VALUE_BYTES))
        return true;
    serve_fail(c, 503, NULL, "too many large requests");
    return false;
}

bool serve_body(struct serve_call *c, const struct serve_field *fields)
{
    qkv_error err = { 0 };
    const struct http_request *r = c->request;
    if (!hold_values(c, r->body ? r->body : "", r->body_bytes)) return false;
    if (qkv_json_read(&c->body, r->body ? r->body : "", r->body_bytes, &err)) {
        if (err.status == QKV_ERR_LIMIT)
            serve_fail_with(c, &err, NULL);
        else
            serve_fail(c, 400, "$", "at byte %lld of the body: %s", (long long)err.offset,
                       err.text);
        return false;
    }
    return serve_members(c, c->body, "$", fields);
}

bool serve_direction(struct serve_call *c, const char *direction, bool *left)
{
    if (!direction || strcasecmp(direction, "right") == 0) return true;
    if (left && strcasecmp(direction, "left") == 0) {
        *left = true;
        return true;
    }
    serve_fail(c, 400, "$.truncation_direction",
               "$.truncation_direction: expected \"Right\"%s, found \"%s\"",
               left ? " or \"Left\"" : "", direction);
    return false;
}

// ---- texts and token ids ------------------------------------------------------------------------
static bool reserve_texts(struct serve_call *c, struct serve_texts *t, int64_t texts, int64_t ids)
{
    const size_t n = (size_t)texts + 1, m = (size_t)ids + 1;
    t->text = calloc(n, sizeof *t->text);
    t->bytes = calloc(n, sizeof *t->bytes);
    t->offsets = calloc(n, sizeof *t->offsets);
    t->ids = ids >= 0 ? calloc(m, sizeof *t->ids) : NULL;
    if (t->text && t->bytes && t->offsets && (t->ids || ids < 0)) return true;
    serve_fail(c, 503, NULL, "out of memory");
    return false;
}

// Appends the ids of one text.
static bool read_ids(struct serve_call *c, struct serve_texts *t, const qkv_json *list,
                     const char *path)
{
    const int64_t n = qkv_json_length(list), from = t->offsets[t->count];
    for (int64_t i = 0; i < n; i++) {
        int64_t id;
        if (!qkv_json_get_integer(qkv_json_element(list, i), &id) || id < 0 || id > INT32_MAX) {
            serve_fail(c, 400, path, "%s: element %lld is no token id", path, (long long)i);
            return false;
        }
        t->ids[from + i] = (int32_t)id;
    }
    t->offsets[++t->count] = from + n;
    return true;
}

static bool read_list(struct serve_call *c, struct serve_texts *t, const qkv_json *v,
                      const char *path, unsigned allowed)
{
    const int64_t n = qkv_json_length(v);
    const enum qkv_json_kind kind = qkv_json_kind_of(qkv_json_element(v, 0));
    int64_t ids = 0;
    for (int64_t i = 0; i < n; i++) {
        const qkv_json *one = qkv_json_element(v, i);
        if (qkv_json_kind_of(one) != kind) {
            serve_fail(c, 400, path, "%s: element %lld has another type, expected only texts%s",
                       path, (long long)i,
                       allowed & TEXTS_IDS ? " or only lists of token ids" : "");
            return false;
        }
        ids += qkv_json_length(one);
    }
    if (!reserve_texts(c, t, n, kind == QKV_JSON_ARRAY ? ids : -1)) return false;
    for (int64_t i = 0; i < n; i++) {
        char at[256];
        const qkv_json *one = qkv_json_element(v, i);
        snprintf(at, sizeof at, "%s[%lld]", path, (long long)i);
        if (kind == QKV_JSON_ARRAY) {
            if (!read_ids(c, t, one, at)) return false;
        } else {
            t->text[t->count] = qkv_json_get_string(one, &t->bytes[t->count]);
            t->count++;
        }
    }
    return true;
}

bool serve_texts_read(struct serve_call *c, struct serve_texts *t, const qkv_json *v,
                      const char *path, int64_t most, unsigned allowed)
{
    const char *want = allowed & TEXTS_IDS ? "a text, token ids, or an array of them"
                                           : "a text or an array of texts";
    const enum qkv_json_kind kind = qkv_json_kind_of(v),
                             first = qkv_json_kind_of(qkv_json_element(v, 0));
    const int64_t n = qkv_json_length(v);
    *t = (struct serve_texts){ 0 };
    if (kind == QKV_JSON_STRING) {
        t->single = true;
        if (!reserve_texts(c, t, 1, -1)) return false;
        t->text[0] = qkv_json_get_string(v, &t->bytes[0]);
        t->count = 1;
        return true;
    }
    if (!v) {
        serve_fail(c, 400, path, "%s: required member is missing, expected %s", path, want);
        return false;
    }
    if (kind != QKV_JSON_ARRAY) return wrong_kind(c, path, want, v);
    if (!n && !(allowed & TEXTS_EMPTY)) {
        serve_fail(c, 400, path, "%s: the array is empty, expected %s", path, want);
        return false;
    }
    if (first == QKV_JSON_INTEGER && allowed & TEXTS_IDS) {
        t->single = true;
        return reserve_texts(c, t, 1, n) && read_ids(c, t, v, path);
    }
    if (n > most) {
        serve_fail(c, 413, path, "%s: too many texts, expected at most %lld, found %lld", path,
                   (long long)most, (long long)n);
        return false;
    }
    if (n && first != QKV_JSON_STRING && !(first == QKV_JSON_ARRAY && allowed & TEXTS_IDS))
        return wrong_kind(c, path, want, qkv_json_element(v, 0));
    return read_list(c, t, v, path, allowed);
}

qkv_status serve_ids_check(const int32_t *ids, int64_t n, int64_t vocab, qkv_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= vocab)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "invalid token id, expected an id below %lld, found %d",
                             (long long)vocab, ids[i]);
    return QKV_OK;
}

int64_t serve_text_cost(const struct serve_texts *t, int64_t i)
{
    return t->ids ? t->offsets[i + 1] - t->offsets[i] + 2 : (int64_t)t->bytes[i] / 4 + 2;
}

void serve_texts_free(struct serve_texts *t)
{
    free(t->text);
    free(t->bytes);
    free(t->ids);
    free(t->offsets);
    *t = (struct serve_texts){ 0 };
}

void serve_floats(FILE *to, const float *x, int64_t n)
{
    putc('[', to);
    for (int64_t i = 0; i < n; i++) {
        if (i) putc(',', to);
        cmd_json_float(to, x[i]);
    }
    putc(']', to);
}
