// SPDX-License-Identifier: MIT
// buffer.c: text that grows as it is written, and the JSON of a tokenizer put into it.
#include "text/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void qkv_text_put(struct qkv_text_buffer *b, const char *text, size_t bytes)
{
    void *p = b->bytes;
    if (b->failed) return;
    b->failed = bytes >= (size_t)(INT64_MAX - b->count) ||
                !qkv_reserve(&p, &b->capacity, b->count + (int64_t)bytes + 1, 1);
    b->bytes = p;
    if (b->failed) return;
    if (bytes) memcpy(b->bytes + b->count, text, bytes);
    b->count += (int64_t)bytes;
    b->bytes[b->count] = 0;
}

void qkv_text_say(struct qkv_text_buffer *b, const char *text)
{
    qkv_text_put(b, text, strlen(text));
}

void qkv_text_number(struct qkv_text_buffer *b, int64_t n)
{
    char text[32];
    qkv_text_put(b, text, (size_t)snprintf(text, sizeof text, "%" PRId64, n));
}

void qkv_text_real(struct qkv_text_buffer *b, double x)
{
    char text[400];
    const int n = snprintf(text, sizeof text, "%.8f", x);
    for (int i = 0; i < n; i++)
        if ((text[i] < '0' || text[i] > '9') && text[i] != '-') text[i] = '.';
    qkv_text_put(b, text, (size_t)n);
}

void qkv_text_quoted(struct qkv_text_buffer *b, const char *text, size_t bytes)
{
    qkv_text_say(b, "\"");
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t c = (uint8_t)text[i];
        char escape[8] = { '\\', (char)c, 0 };
        if (c < 0x20 || c == 0x7F) snprintf(escape, sizeof escape, "\\u%04X", c);
        if (c < 0x20 || c == 0x7F || c == '"' || c == '\\')
            qkv_text_say(b, escape);
        else
            qkv_text_put(b, text + i, 1);
    }
    qkv_text_say(b, "\"");
}
