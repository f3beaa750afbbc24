// SPDX-License-Identifier: MIT
// text_buffer.c: appends bytes, numbers and JSON strings to a text that grows.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"

void qkv_text_append(struct qkv_text_buffer *b, const char *text, size_t bytes)
{
    void *grown = b->bytes;
    if (b->failed) return;
    b->failed = bytes >= (size_t)(INT64_MAX - b->count) ||
                !qkv_reserve(&grown, &b->capacity, b->count + (int64_t)bytes + 1, 1);
    b->bytes = grown;
    if (b->failed) return;
    if (bytes) memcpy(b->bytes + b->count, text, bytes);
    b->count += (int64_t)bytes;
    b->bytes[b->count] = 0;
}

void qkv_text_append_string(struct qkv_text_buffer *b, const char *text)
{
    qkv_text_append(b, text, strlen(text));
}

void qkv_text_append_format(struct qkv_text_buffer *b, const char *format, ...)
{
    char small[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(small, sizeof small, format, list);
    va_end(list);
    if (n >= 0 && (size_t)n < sizeof small) {
        qkv_text_append(b, small, (size_t)n);
        return;
    }
    char *large = n < 0 ? NULL : qkv_alloc((size_t)n + 1, 1);
    if (!large) {
        b->failed = true;
        return;
    }
    va_start(list, format);
    vsnprintf(large, (size_t)n + 1, format, list);
    va_end(list);
    qkv_text_append(b, large, (size_t)n);
    qkv_free(large);
}

void qkv_text_append_integer(struct qkv_text_buffer *b, int64_t n)
{
    char text[32];
    qkv_text_append(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, n));
}

void qkv_text_append_real(struct qkv_text_buffer *b, double x)
{
    char text[400];
    const int n = snprintf(text, sizeof text, "%.8f", x);
    for (int i = 0; i < n; i++)
        if ((text[i] < '0' || text[i] > '9') && text[i] != '-') text[i] = '.';
    qkv_text_append(b, text, (size_t)n);
}

// Returns the code point of the character text[n], which is n >= 1 bytes of valid UTF-8.
static unsigned decode_character(const unsigned char *text, size_t n)
{
    if (n == 1) return text[0];
    unsigned code = text[0] & (0x7FU >> n);
    for (size_t i = 1; i < n; i++) code = code << 6 | (text[i] & 0x3FU);
    return code;
}

// Returns whether HTML or JavaScript would interpret the character inside a script element.
static bool is_html_special(unsigned code)
{
    return code == '<' || code == '>' || code == '&' || code == 0x2028 || code == 0x2029;
}

void qkv_text_append_json(struct qkv_text_buffer *b, const char *text, size_t bytes,
                          enum qkv_json_escapes escapes)
{
    const bool html = escapes == QKV_JSON_HTML;
    qkv_text_append(b, "\"", 1);
    for (size_t i = 0; i < bytes;) {
        const size_t valid = qkv_utf8_bytes(text + i, bytes - i), n = valid ? valid : 1;
        const unsigned code = decode_character((const unsigned char *)text + i, n);
        if (html && !valid)
            qkv_text_append_string(b, "\xEF\xBF\xBD");
        else if (code < 0x20 || code == 0x7F ||
                 (html && (is_html_special(code) || code == '"' || code == '\\')))
            qkv_text_append_format(b, "\\u%04x", code);
        else if (code == '"' || code == '\\')
            qkv_text_append_format(b, "\\%c", (int)code);
        else
            qkv_text_append(b, text + i, n);
        i += n;
    }
    qkv_text_append(b, "\"", 1);
}

void qkv_text_buffer_free(struct qkv_text_buffer *b)
{
    qkv_free(b->bytes);
    *b = (struct qkv_text_buffer){ 0 };
}
