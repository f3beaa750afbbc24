// SPDX-License-Identifier: MIT
// template_text.c: the texts of a chat template: their characters, white space and letter case, as
// in Python.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // memmem
#endif
#include "serve/template/template_value.h"
#include <string.h>

// Returns the number of bytes of the character at p.
static size_t bytes_of(const char *p)
{
    const unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// Returns the number of bytes of the character before p.
static size_t bytes_before(const char *p)
{
    size_t n = 1;
    while (qkv_utf8_continues(p[-(ptrdiff_t)n])) n++;
    return n;
}

static uint32_t character(const char *p)
{
    const size_t n = bytes_of(p);
    uint32_t code = (unsigned char)*p & (n == 1 ? 0x7Fu : 0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) code = code << 6 | ((unsigned char)p[i] & 0x3Fu);
    return code;
}

bool text_add_character(struct serve_bytes *to, int64_t code)
{
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    if (code < 1 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    for (int i = more; i >= 0; i--) {
        const int64_t bits = code >> 6 * i;
        const int64_t first = more ? (0xF00 >> (more + 1) & 0xFF) | bits : bits;
        const unsigned char c = (unsigned char)(i == more ? first : 0x80 | (bits & 0x3F));
        serve_bytes_add(to, &c, 1);
    }
    return true;
}

int64_t text_length(struct template *t, const struct value *v)
{
    int64_t n = 0;
    template_work(t, v->bytes);
    for (size_t i = 0; i < v->bytes; i += bytes_of(v->text + i)) n++;
    return n;
}

struct value text_index(struct template *t, const struct value *v, int64_t index)
{
    size_t at = 0;
    if (index < 0) index += text_length(t, v);
    if (index < 0 || index >= (int64_t)v->bytes || !template_work(t, v->bytes))
        return (struct value){ 0 };
    for (; at < v->bytes && index; index--) at += bytes_of(v->text + at);
    return at < v->bytes ? value_text(t, v->text + at, bytes_of(v->text + at))
                         : (struct value){ 0 };
}

const char *text_find(struct template *t, const struct value *in, const struct value *what)
{
    const char *at = memmem(in->text, in->bytes, what->text, what->bytes);
    template_work(t, (at ? (size_t)(at - in->text) : in->bytes) + what->bytes);
    return at;
}

// The white space of Python.
static bool is_space(uint32_t c)
{
    return (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= ' ') || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// Returns true if the character of n bytes at p is white space or, if `what` is given, one of its
// characters.
static bool is_stripped(struct template *t, const char *p, size_t n, const struct value *what)
{
    if (!template_work(t, n + (what ? what->bytes : 0))) return false;
    return what ? memmem(what->text, what->bytes, p, n) != NULL : is_space(character(p));
}

struct value text_strip(struct template *t, const struct value *v, const struct value *what,
                        bool left, bool right)
{
    const char *a = v->text, *b = v->text + v->bytes;
    for (size_t n; left && a < b && is_stripped(t, a, n = bytes_of(a), what); a += n) continue;
    while (right && b > a) {
        const size_t n = bytes_before(b);
        if (!is_stripped(t, b - n, n, what)) break;
        b -= n;
    }
    return value_text(t, a, (size_t)(b - a));
}

struct value text_case(struct template *t, const struct value *v, bool upper)
{
    struct value x = value_text(t, v->text, v->bytes);
    char *text = (char *)x.text;
    const char from = upper ? 'a' : 'A';
    for (size_t i = 0; text && i < x.bytes; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return template_fail(t, "upper or lower of a text that is not ASCII is not supported");
        if (text[i] >= from && text[i] < from + 26) text[i] = (char)(text[i] ^ 0x20);
    }
    return x;
}

struct value text_split(struct template *t, const struct value *v, const struct value *by)
{
    int64_t n = 1;
    struct value rest = *v;
    for (const char *at; (at = text_find(t, &rest, by)) && !t->err->status; n++) {
        rest.bytes -= (size_t)(at - rest.text) + by->bytes;
        rest.text = at + by->bytes;
    }
    struct value *list = template_alloc(t, (size_t)n * sizeof *list);
    rest = *v;
    for (int64_t i = 0; list && i < n; i++) {
        const char *at = i + 1 < n ? text_find(t, &rest, by) : rest.text + rest.bytes;
        list[i] = value_text(t, rest.text, (size_t)(at - rest.text));
        rest.bytes -= (size_t)(at - rest.text) + (i + 1 < n ? by->bytes : 0);
        rest.text = at + (i + 1 < n ? by->bytes : 0);
    }
    return (struct value){ .kind = VALUE_LIST, .number = list ? n : 0, .list = list };
}
