// SPDX-License-Identifier: MIT
// pattern.c: the regular expressions of well-known tokenizers, run as linear scanners.
//
// Each follows its expression alternative by alternative, in their order; the rows are in
// tokenizer.def, next to the text that a file must have for it.
#include "text/text.h"
#include <string.h>

#define LETTER QKV_CLASS_LETTER
#define DIGIT  QKV_CLASS_DIGIT
#define SPACE  QKV_CLASS_SPACE
#define OTHER  0

// Class of the character at text[at] and its bytes.
static inline unsigned class_at(const uint8_t *text, int64_t at, int64_t end, int *n)
{
    const uint8_t b = text[at];
    if (b < 0x80) {
        *n = 1;
        if ((uint8_t)((b | 32) - 'a') < 26) return LETTER;
        if ((uint8_t)(b - '0') < 10) return DIGIT;
        return b == ' ' || (b >= 9 && b <= 13) ? SPACE : OTHER;
    }
    uint32_t code;
    const int used = qkv_utf8_read(text + at, (size_t)(end - at), &code);
    *n = used < 0 ? -used : used;
    return qkv_unicode_regex_class(code);
}

// Behind the run of characters of class `class` that starts at `at`.
static inline int64_t run_of(const uint8_t *text, int64_t at, int64_t end, unsigned class)
{
    int n;
    while (at < end && class_at(text, at, end, &n) == class) at += n;
    return at;
}

// 's|'t|'re|'ve|'m|'ll|'d at text[at]: its bytes, 0: none.
static int contraction(const uint8_t *text, int64_t at, int64_t end)
{
    const int64_t left = end - at;
    if (left < 2 || text[at] != '\'') return 0;
    const uint8_t a = text[at + 1], b = left > 2 ? text[at + 2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
int64_t qkv_pattern_gpt2(const uint8_t *text, int64_t at, int64_t end)
{
    int n;
    const int short_form = contraction(text, at, end);
    if (short_form) return at + short_form;
    unsigned class = class_at(text, at, end, &n);
    if (class != SPACE) return run_of(text, at + n, end, class);
    int64_t last = at; // where the last white space of the run starts
    if (text[at] == ' ' && at + 1 < end) {
        class = class_at(text, at + 1, end, &n);
        if (class != SPACE) return run_of(text, at + 1 + n, end, class);
    }
    int64_t i = at;
    while (i < end && class_at(text, i, end, &n) == SPACE) {
        last = i;
        i += n;
    }
    // A run before something else leaves its last character to that, if it has two.
    return i == end || last == at ? i : last;
}

qkv_pattern_fn *qkv_pattern_find(const char *regex)
{
    static const struct {
        const char *regex;
        qkv_pattern_fn *fn;
    } rows[] = {
#define QKV_PATTERN(name, regex) { regex, qkv_pattern_##name },
#include "text/tokenizer.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].regex, regex) == 0) return rows[i].fn;
    return NULL;
}
