// SPDX-License-Identifier: MIT
// template_value.c: the values of a chat template: their members, tests, filters and methods.
#include "serve/template/template_value.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

void *template_alloc(struct template *t, size_t bytes)
{
    const size_t need = sizeof(struct block) + 16 + bytes;
    if (bytes > TEMPLATE_MEMORY || need > TEMPLATE_MEMORY - t->memory) {
        template_fail(t, "the messages need more than %d MB of memory", TEMPLATE_MEMORY >> 20);
        return NULL;
    }
    struct block *b = t->err->status ? NULL : calloc(1, need);
    if (!b) {
        if (!t->err->status) cmd_error(t->err, QKV_ERR_LIMIT, NULL, "out of memory");
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

bool value_equal(const struct value *a, const struct value *b)
{
    const bool numbers = (a->kind == VALUE_INTEGER || a->kind == VALUE_BOOLEAN) &&
                         (b->kind == VALUE_INTEGER || b->kind == VALUE_BOOLEAN);
    if (numbers) return a->number == b->number;
    if (a->kind != b->kind) return false;
    if (a->kind == VALUE_TEXT) return a->bytes == b->bytes && !memcmp(a->text, b->text, a->bytes);
    if (a->kind == VALUE_LIST) {
        bool same = a->number == b->number;
        for (int64_t i = 0; same && i < a->number; i++)
            same = value_equal(&a->list[i], &b->list[i]);
        return same;
    }
    return a->object == b->object && a->space == b->space;
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

struct value value_member(struct template *t, const struct value *of, const char *name)
{
    if (of->kind == VALUE_OBJECT) return value_json(t, qkv_json_lookup(of->object, name));
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
    const int64_t n = of->kind == VALUE_LIST ? of->number : (int64_t)of->bytes;
    const int64_t i = index->number < 0 ? index->number + n : index->number;
    if (i < 0 || i >= n) return (struct value){ 0 };
    return of->kind == VALUE_LIST ? of->list[i] : value_text(t, of->text + i, 1);
}

struct value value_slice(struct template *t, const struct value *of, const struct value *from,
                         const struct value *to, const struct value *step)
{
    const int64_t n = of->kind == VALUE_LIST ? of->number : 0, by = step ? step->number : 1;
    if (of->kind != VALUE_LIST || (by != 1 && by != -1) || (by < 0 && (from || to)))
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

static const char *find(const struct value *in, const char *what, size_t bytes)
{
    for (size_t i = 0; i + bytes <= in->bytes; i++)
        if (!memcmp(in->text + i, what, bytes)) return in->text + i;
    return NULL;
}

bool value_contains(struct template *t, const struct value *in, const struct value *x)
{
    if (in->kind == VALUE_TEXT && x->kind == VALUE_TEXT) return find(in, x->text, x->bytes) != NULL;
    if (in->kind == VALUE_OBJECT && x->kind == VALUE_TEXT)
        return qkv_json_lookup(in->object, x->text) != NULL;
    for (int64_t i = 0; in->kind == VALUE_LIST && i < in->number; i++)
        if (value_equal(&in->list[i], x)) return true;
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

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Removes white space, or the characters of `what`, at the start and the end.
static struct value strip(struct template *t, const struct value *v, const struct value *what,
                          bool left, bool right)
{
    size_t a = 0, b = v->bytes;
#define STRIPPED(c) (what ? memchr(what->text, c, what->bytes) != NULL : is_space(c))
    while (left && a < b && STRIPPED(v->text[a])) a++;
    while (right && b > a && STRIPPED(v->text[b - 1])) b--;
#undef STRIPPED
    return value_text(t, v->text + a, b - a);
}

static struct value change_case(struct template *t, const struct value *v, char from, int add)
{
    struct value x = value_text(t, v->text, v->bytes);
    char *text = (char *)x.text;
    for (size_t i = 0; text && i < x.bytes; i++)
        if (text[i] >= from && text[i] < from + 26) text[i] = (char)(text[i] + add);
    return x;
}

struct value value_filter(struct template *t, const struct value *v, const char *name,
                          const struct value *argument)
{
    const bool text = v->kind == VALUE_TEXT, list = v->kind == VALUE_LIST;
    const struct value first = value_integer(0), last = value_integer(-1);
    if (strcmp(name, "default") == 0 && argument)
        return v->kind == VALUE_UNDEFINED ? *argument : *v;
    if (strcmp(name, "trim") == 0 && text) return strip(t, v, NULL, true, true);
    if (strcmp(name, "upper") == 0 && text) return change_case(t, v, 'a', 'A' - 'a');
    if (strcmp(name, "lower") == 0 && text) return change_case(t, v, 'A', 'a' - 'A');
    if (strcmp(name, "string") == 0) return value_join(t, v, &(struct value){ .kind = VALUE_TEXT });
    if (strcmp(name, "list") == 0 && list) return *v;
    if (strcmp(name, "first") == 0 && list) return value_index(t, v, &first);
    if (strcmp(name, "last") == 0 && list) return value_index(t, v, &last);
    if ((strcmp(name, "length") == 0 || strcmp(name, "count") == 0) && (list || text))
        return value_integer(list ? v->number : (int64_t)v->bytes);
    return template_fail(t, "the filter '%s' is not supported", name);
}

static struct value split(struct template *t, const struct value *v, const struct value *by)
{
    int64_t n = 1;
    struct value rest = *v;
    for (const char *at; (at = find(&rest, by->text, by->bytes)); n++) {
        rest.bytes -= (size_t)(at - rest.text) + by->bytes;
        rest.text = at + by->bytes;
    }
    struct value *list = template_alloc(t, (size_t)n * sizeof *list);
    rest = *v;
    for (int64_t i = 0; list && i < n; i++) {
        const char *at = i + 1 < n ? find(&rest, by->text, by->bytes) : rest.text + rest.bytes;
        list[i] = value_text(t, rest.text, (size_t)(at - rest.text));
        rest.bytes -= (size_t)(at - rest.text) + (i + 1 < n ? by->bytes : 0);
        rest.text = at + (i + 1 < n ? by->bytes : 0);
    }
    return (struct value){ .kind = VALUE_LIST, .number = list ? n : 0, .list = list };
}

struct value value_method(struct template *t, const struct value *of, const char *name,
                          const struct value *argument)
{
    const struct value *a = argument && argument->kind == VALUE_TEXT ? argument : NULL;
    if (of->kind == VALUE_OBJECT && strcmp(name, "get") == 0 && a)
        return value_member(t, of, a->text);
    if (of->kind == VALUE_TEXT && (a || !argument)) {
        const size_t n = a ? a->bytes : 0;
        if (strcmp(name, "strip") == 0) return strip(t, of, a, true, true);
        if (strcmp(name, "lstrip") == 0) return strip(t, of, a, true, false);
        if (strcmp(name, "rstrip") == 0) return strip(t, of, a, false, true);
        if (strcmp(name, "upper") == 0 || strcmp(name, "lower") == 0)
            return value_filter(t, of, name, NULL);
        if (strcmp(name, "split") == 0 && n) return split(t, of, a);
        if (strcmp(name, "startswith") == 0 && a)
            return value_boolean(of->bytes >= n && !memcmp(of->text, a->text, n));
        if (strcmp(name, "endswith") == 0 && a)
            return value_boolean(of->bytes >= n && !memcmp(of->text + of->bytes - n, a->text, n));
    }
    return template_fail(t, "the method '%s' is not supported", name);
}
