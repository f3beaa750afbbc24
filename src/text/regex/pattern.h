// SPDX-License-Identifier: MIT
// pattern.h: classifies characters for the scanners of pattern.c and pattern_runs.c.
#ifndef QKV_TEXT_PATTERN_H
#define QKV_TEXT_PATTERN_H

#include "text/text_internal.h"

enum {
    QKV_KIND_LETTERS = QKV_KIND_UPPER | QKV_KIND_LOWER | QKV_KIND_LETTER, // \p{L}
    QKV_KIND_SPACES = QKV_KIND_SPACE | QKV_KIND_NEWLINE                   // \s
};
extern const uint16_t qkv_ascii_kind[128];

// Returns the code point of the character at text[at]; *n becomes the number of its bytes.
static inline uint32_t qkv_code_at(const uint8_t *text, int64_t at, int64_t end, int *n)
{
    uint32_t code;
    const int used = qkv_utf8_read(text + at, (size_t)(end - at), &code);
    *n = used < 0 ? -used : used;
    return code;
}

// Returns the kind (QKV_KIND_*) of the character at text[at]; *n becomes the number of its bytes.
static inline unsigned qkv_kind_at(const uint8_t *text, int64_t at, int64_t end, int *n)
{
    const uint8_t b = text[at];
    if (b >= 0x80) return qkv_unicode_kind(qkv_code_at(text, at, end, n));
    *n = 1;
    return qkv_ascii_kind[b];
}

// Returns the end of the run of characters of `kind_bits` that starts at `at`.
int64_t qkv_run_of(const uint8_t *text, int64_t at, int64_t end, unsigned kind_bits);
// Returns the end of the match of \s+(?!\S)|\s+ at a white space, or, if `lines` is true, of
// \s*[\r\n]+|\s+(?!\S)|\s+
int64_t qkv_run_spaces(const uint8_t *text, int64_t at, int64_t end, bool lines);
#endif
