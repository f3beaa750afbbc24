// SPDX-License-Identifier: MIT
// template_value.c: the values of a chat template: their members, tests, filters and methods.
#include "serve/template/template_value.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_DEPTH = 128 }; // values in values that are compared

struct value template_fail(struct template *t, const char *format, ...)
{
    char what[256];
    long line = 1;
    va_list args;
    if (t->err->status) return (struct value){ 0 };
    for (size_t i = 0; i < t->at && i < t->bytes; i++) line += t->source[i] == '\n';
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    cmd_error(t->err, QKV_ERR_UNSUPPORTED, NULL, "chat template of the model, line %ld: %s", line,
              what);
    return (struct value){ 0 };
}

bool template_work(struct template *t, size_t steps)
{
    t->work += steps;
    if (t->work > TEMPLATE_WORK) template_fail(t, "the messages need too many steps");
    return !t->err->status;
}

void *template_alloc(struct template *t, size_t bytes)
{
    const size_t need = sizeof(struct block) + 16 + bytes;
    if (bytes > TEMPLATE_MEMORY || need > TEMPLATE_MEMORY - t->memory) {
        template_fail(t, "the messages need more than %d MB of memory", TEMPLATE_MEMORY >> 20);
        return NULL;
    }
    struct block *b = t->err->status ? NULL : calloc(1, need);
    if (!b) {
        if (!t->err->status) cmd_no_memory(t->err);
        return NULL;
    }
    t->memory += need;
    b->next = t->blocks;
    t->blocks = b;
    return (char *)b + 16;
}

struct value value_text(struct template *t, const char *text, size_t bytes)
{
    char *copy = template_alloc(t, bytes + 1);
    if (!copy) return (struct value){ 0 };
    memcpy(copy, text, bytes);
    return (struct value){ .kind = VALUE_TEXT, .text = copy, .bytes = bytes };
}

struct value value_boolean(bool b)
{
    return (struct value){ .kind = VALUE_BOOLEAN, .number = b };
}
struct value value_integer(int64_t n)
{
    return (struct value){ .kind = VALUE_INTEGER, .number = n };
}

struct value value_json(struct template *t, const qkv_json *v)
{
    struct value x = { 0 };
    bool b = false;
    if (!v) return x;
    switch (qkv_json_kind_of(v)) {
    case QKV_JSON_NULL: x.kind = VALUE_NONE; break;
    case QKV_JSON_BOOLEAN:
        qkv_json_get_boolean(v, &b);
        x = value_boolean(b);
        break;
    case QKV_JSON_INTEGER:
        x.kind = VALUE_INTEGER;
        qkv_json_get_integer(v, &x.number);
        break;
    case QKV_JSON_STRING:
        x.kind = VALUE_TEXT;
        x.text = qkv_json_get_string(v, &x.bytes);
        break;
    case QKV_JSON_OBJECT:
        x.kind = VALUE_OBJECT;
        x.object = v;
        break;
    case QKV_JSON_ARRAY: {
        const int64_t n = qkv_json_length(v);
        struct value *list = template_alloc(t, (size_t)n * sizeof *list);
        for (int64_t i = 0; list && i < n; i++) list[i] = value_json(t, qkv_json_element(v, i));
        x = (struct value){ .kind = VALUE_LIST, .number = list ? n : 0, .list = list };
        break;
    }
    case QKV_JSON_REAL: return template_fail(t, "a number with a fraction");
    }
    return x;
}

bool value_true(const struct value *v)
{
    if (v->kind == VALUE_TEXT) return v->bytes > 0;
    if (v->kind == VALUE_OBJECT) return qkv_json_length(v->object) > 0;
    return v->kind == VALUE_SPACE || v->number != 0;
}

static bool equal(struct template *t, const struct value *a, const struct value *b, int depth);

static bool equal_objects(struct template *t, const qkv_json *a, const qkv_json *b, int depth)
{
    bool same = qkv_json_length(a) == qkv_json_length(b);
    for (const char *key = NULL; same && (key = qkv_json_next_key(a, key));) {
        const struct value x = value_json(t, qkv_json_lookup(a, key));
        const struct value y = value_json(t, qkv_json_lookup(b, key));
        same = equal(t, &x, &y, depth);
    }
    return same;
}

static bool equal(struct template *t, const struct value *a, const struct value *b, int depth)
{
    const bool numbers = (a->kind == VALUE_INTEGER || a->kind == VALUE_BOOLEAN) &&
                         (b->kind == VALUE_INTEGER || b->kind == VALUE_BOOLEAN);
    if (depth > VALUE_DEPTH) template_fail(t, "values that are nested too deep");
    if (!template_work(t, 1)) return false;
    if (numbers) return a->number == b->number;
    if (a->kind != b->kind) return false;
    if (a->kind == VALUE_TEXT)
        return a->bytes == b->bytes && template_work(t, a->bytes) &&
               !memcmp(a->text, b->text, a->bytes);
    if (a->kind == VALUE_OBJECT)
        return a->object == b->object || equal_objects(t, a->object, b->object, depth + 1);
    bool same = a->number == b->number && a->space == b->space;
    for (int64_t i = 0; a->kind == VALUE_LIST && same && i < a->number; i++)
        same = equal(t, &a->list[i], &b->list[i], depth + 1);
    return same;
}

bool value_equal(struct template *t, const struct value *a, const struct value *b)
{
    return equal(t, a, b, 0);
}

void value_print(struct template *t, struct serve_bytes *to, const struct value *v)
{
    char number[32];
    if (to->count > TEMPLATE_OUT) {
        template_fail(t, "the prompt is too long");
        return;
    }
    switch (v->kind) {
    case VALUE_UNDEFINED: break;
    case VALUE_NONE: serve_bytes_add(to, "None", 4); break;
    case VALUE_BOOLEAN: serve_bytes_add(to, v->number ? "True" : "False", v->number ? 4 : 5); break;
    case VALUE_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)v->number);
        serve_bytes_add(to, number, strlen(number));
        break;
    case VALUE_TEXT: serve_bytes_add(to, v->text, v->bytes); break;
    case VALUE_LIST:
    case VALUE_OBJECT:
    case VALUE_SPACE: template_fail(t, "a list or an object is printed");
    }
}

struct value value_join(struct template *t, const struct value *a, const struct value *b)
{
    struct serve_bytes x = { 0 };
    value_print(t, &x, a);
    value_print(t, &x, b);
    if (x.failed) template_fail(t, "out of memory");
    const struct value v = value_text(t, x.at ? x.at : "", x.count);
    serve_bytes_free(&x);
    return v;
}

// ---- members ------------------------------------------------------------------------------------
struct space *space_new(struct template *t)
{
    return template_alloc(t, sizeof(struct space));
}

void space_set(struct template *t, struct space *s, const char *name, struct value v)
{
    for (int i = 0; s && i < s->count; i++)
        if (strcmp(s->member[i].name, name) == 0) {
            s->member[i].value = v;
            return;
        }
    if (!s || s->count == SPACE_MEMBERS) {
        template_fail(t, "too many members of a namespace");
        return;
    }
    snprintf(s->member[s->count].name, sizeof s->member[0].name, "%s", name);
    s->member[s->count++].value = v;
}

// Joins the parts of the content of a message to one text, with a line end between them.
static struct value join_parts(struct template *t, const qkv_json *parts)
{
    struct serve_bytes x = { 0 };
    const int64_t n = qkv_json_length(parts);
    for (int64_t i = 0; i < n && template_work(t, 1); i++) {
        size_t bytes = 0;
        const qkv_json *part = qkv_json_element(parts, i);
        const char *text = qkv_json_get_string(qkv_json_lookup(part, "text"), &bytes);
        if (i) serve_bytes_add(&x, "\n", 1);
        serve_bytes_add(&x, text ? text : "", text ? bytes : 0);
    }
    if (x.failed) template_fail(t, "out of memory");
    const struct value v = value_text(t, x.at ? x.at : "", x.failed ? 0 : x.count);
    serve_bytes_free(&x);
    return v;
}

struct value value_member(struct template *t, const struct value *of, const char *name)
{
    if (of->kind == VALUE_OBJECT) {
        const qkv_json *v = qkv_json_lookup(of->object, name);
        const bool parts = qkv_json_kind_of(v) == QKV_JSON_ARRAY && strcmp(name, "content") == 0 &&
                           qkv_json_lookup(of->object, "role");
        return parts ? join_parts(t, v) : value_json(t, v);
    }
    for (int i = 0; of->kind == VALUE_SPACE && i < of->space->count; i++)
        if (strcmp(of->space->member[i].name, name) == 0) return of->space->member[i].value;
    if (of->kind == VALUE_UNDEFINED)
        return template_fail(t, "member %s of an undefined value", name);
    return (struct value){ 0 };
}

struct value value_index(struct template *t, const struct value *of, const struct value *index)
{
    if (index->kind == VALUE_TEXT) return value_member(t, of, index->text);
    if (index->kind != VALUE_INTEGER || (of->kind != VALUE_LIST && of->kind != VALUE_TEXT))
        return template_fail(t, "an index that is no text and no number");
    if (of->kind == VALUE_TEXT) return text_index(t, of, index->number);
    const int64_t i = index->number < 0 ? index->number + of->number : index->number;
    return i < 0 || i >= of->number ? (struct value){ 0 } : of->list[i];
}

struct value value_slice(struct template *t, const struct value *of, const struct value *from,
                         const struct value *to, const struct value *step)
{
    const struct value *given[3] = { from, to, step };
    bool valid = of->kind == VALUE_LIST;
    for (int i = 0; i < 3; i++) valid = valid && (!given[i] || given[i]->kind == VALUE_INTEGER);
    const int64_t n = of->number, by = step ? step->number : 1;
    if (!valid || (by != 1 && by != -1) || (by < 0 && (from || to)))
        return template_fail(t, "a slice that is not list[a:b] or list[::-1]");
    int64_t a = from ? from->number : 0, b = to ? to->number : n;
    a = a < 0 ? a + n : a;
    b = b < 0 ? b + n : b;
    if (a < 0) a = 0;
    if (b > n) b = n;
    if (a > b) a = b < 0 ? 0 : b;
    const int64_t count = b > a ? b - a : 0;
    struct value *list = template_alloc(t, (size_t)count * sizeof *list);
    for (int64_t i = 0; list && i < count; i++)
        list[i] = of->list[by > 0 ? a + i : a + count - 1 - i];
    return (struct value){ .kind = VALUE_LIST, .number = list ? count : 0, .list = list };
}

bool value_contains(struct template *t, const struct value *in, const struct value *x)
{
    if (in->kind == VALUE_TEXT && x->kind == VALUE_TEXT) return text_find(t, in, x) != NULL;
    if (in->kind == VALUE_OBJECT && x->kind == VALUE_TEXT)
        return qkv_json_lookup(in->object, x->text) != NULL;
    for (int64_t i = 0; in->kind == VALUE_LIST && i < in->number; i++)
        if (value_equal(t, &in->list[i], x)) return true;
    if (in->kind != VALUE_LIST) template_fail(t, "'in' of a value that is no list, text or object");
    return false;
}

// ---- tests, filters, methods --------------------------------------------------------------------
struct value value_test(struct template *t, const struct value *v, const char *name)
{
    static const struct {
        const char *name;
        unsigned kinds; // the kinds for which the test is true
    } rows[] = { { "defined", ~(1u << VALUE_UNDEFINED) },
                 { "undefined", 1u << VALUE_UNDEFINED },
                 { "none", 1u << VALUE_NONE },
                 { "string", 1u << VALUE_TEXT },
                 { "mapping", 1u << VALUE_OBJECT },
                 { "sequence", 1u << VALUE_LIST | 1u << VALUE_TEXT | 1u << VALUE_OBJECT },
                 { "iterable", 1u << VALUE_LIST | 1u << VALUE_TEXT | 1u << VALUE_OBJECT },
                 { "boolean", 1u << VALUE_BOOLEAN },
                 { "number", 1u << VALUE_INTEGER | 1u << VALUE_BOOLEAN } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return value_boolean((rows[i].kinds >> v->kind & 1) != 0);
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0)
        return value_boolean(v->kind == VALUE_BOOLEAN && (v->number != 0) == (*name == 't'));
    return template_fail(t, "the test '%s' is not supported", name);
}

struct value value_filter(struct template *t, const struct value *v, const char *name,
                          const struct value *argument)
{
    const bool text = v->kind == VALUE_TEXT, list = v->kind == VALUE_LIST;
    const struct value first = value_integer(0), last = value_integer(-1);
    if (strcmp(name, "default") == 0 && argument)
        return v->kind == VALUE_UNDEFINED ? *argument : *v;
    if (strcmp(name, "trim") == 0 && text && (!argument || argument->kind == VALUE_TEXT))
        return text_strip(t, v, argument, true, true);
    if (argument)
        return template_fail(t, "the filter '%s' with an argument is not supported", name);
    if (strcmp(name, "upper") == 0 && text) return text_case(t, v, true);
    if (strcmp(name, "lower") == 0 && text) return text_case(t, v, false);
    if (strcmp(name, "string") == 0) return value_join(t, v, &(struct value){ .kind = VALUE_TEXT });
    if (strcmp(name, "list") == 0 && list) return *v;
    if (strcmp(name, "first") == 0 && list) return value_index(t, v, &first);
    if (strcmp(name, "last") == 0 && list) return value_index(t, v, &last);
    if ((strcmp(name, "length") == 0 || strcmp(name, "count") == 0) && (list || text))
        return value_integer(list ? v->number : text_length(t, v));
    return template_fail(t, "the filter '%s' is not supported", name);
}

struct value value_method(struct template *t, const struct value *of, const char *name,
                          const struct value *argument)
{
    const struct value *a = argument && argument->kind == VALUE_TEXT ? argument : NULL;
    if (of->kind == VALUE_OBJECT && strcmp(name, "get") == 0 && a)
        return qkv_json_lookup(of->object, a->text) ? value_member(t, of, a->text)
                                                    : (struct value){ .kind = VALUE_NONE };
    if (of->kind == VALUE_TEXT && (a || !argument)) {
        const size_t n = a ? a->bytes : 0;
        if (strcmp(name, "strip") == 0) return text_strip(t, of, a, true, true);
        if (strcmp(name, "lstrip") == 0) return text_strip(t, of, a, true, false);
        if (strcmp(name, "rstrip") == 0) return text_strip(t, of, a, false, true);
        if (!a && strcmp(name, "upper") == 0) return text_case(t, of, true);
        if (!a && strcmp(name, "lower") == 0) return text_case(t, of, false);
        if (strcmp(name, "split") == 0 && n) return text_split(t, of, a);
        if (strcmp(name, "startswith") == 0 && a)
            return value_boolean(of->bytes >= n && !memcmp(of->text, a->text, n));
        if (strcmp(name, "endswith") == 0 && a)
            return value_boolean(of->bytes >= n && !memcmp(of->text + of->bytes - n, a->text, n));
    }
    return template_fail(t, "the method '%s' is not supported", name);
}
