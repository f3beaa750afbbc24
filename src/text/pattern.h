// SPDX-License-Identifier: MIT
// pattern.h: words that pattern.c and pattern_runs.c share.
#ifndef QKV_TEXT_PATTERN_H
#define QKV_TEXT_PATTERN_H

#include "text/text.h"

enum {
    QKV_KIND_LETTERS = QKV_KIND_UPPER | QKV_KIND_LOWER | QKV_KIND_LETTER, // \p{L}
    QKV_KIND_SPACES = QKV_KIND_SPACE | QKV_KIND_NEWLINE                   // \s
};
extern const uint16_t qkv_ascii_kind[128];

// Code of the character at text[at] and its bytes.
static inline uint32_t qkv_code_at(const uint8_t *text, int64_t at, int64_t end, int *n)
{
    uint32_t code;
    const int used = qkv_utf8_read(text + at, (size_t)(end - at), &code);
    *n = used < 0 ? -used : used;
    return code;
}

// Kind of the character at text[at] and its bytes.
static inline unsigned qkv_kind_at(const uint8_t *text, int64_t at, int64_t end, int *n)
{
    const uint8_t b = text[at];
    if (b >= 0x80) return qkv_unicode_kind(qkv_code_at(text, at, end, n));
    *n = 1;
    return qkv_ascii_kind[b];
}

// Behind the run of characters of `kinds` that starts at `at`.
int64_t qkv_run_of(const uint8_t *text, int64_t at, int64_t end, unsigned kinds);
// \s+(?!\S)|\s+, behind \s*[\r\n]+ when lines, at a white space.
int64_t qkv_run_spaces(const uint8_t *text, int64_t at, int64_t end, bool lines);
#endif
