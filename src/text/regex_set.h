// SPDX-License-Identifier: MIT
// regex_set.h: sets of characters inside of an expression, for regex_syntax.c.
#ifndef QKV_TEXT_REGEX_SET_H
#define QKV_TEXT_REGEX_SET_H

#include "text/text.h"

struct qkv_buffer {
    char *at;
    int64_t count, capacity;
};
struct qkv_set_reader {
    const char *text; // the expression, UTF-8
    int64_t size, at; // at: the place that is read next
    int64_t token;    // where what is read now begins
    int depth;        // of sets inside of sets
    struct qkv_regex_wrong *wrong;
};
// Always false: in->wrong says status, why and where.
bool qkv_set_wrong(struct qkv_set_reader *in, qkv_status status, const char *why);
// text[n] into b at `at`.  false: in->wrong says why.
bool qkv_set_insert(struct qkv_set_reader *in, struct qkv_buffer *b, int64_t at, const char *text,
                    int64_t n);
// Each of them moves the place; false: in->wrong says why.
bool qkv_set_read(struct qkv_set_reader *in, struct qkv_buffer *out);   // [...]
bool qkv_set_escape(struct qkv_set_reader *in, struct qkv_buffer *out); // \d \p{..} ... as [...]
bool qkv_set_character(struct qkv_set_reader *in, uint32_t *code);      // one, may be escaped
// What PCRE2 takes between brackets for \d, \h, \s, \w.
bool qkv_set_shorthand(struct qkv_set_reader *in, struct qkv_buffer *out, char which);
int64_t qkv_set_spell(char text[16], uint32_t code); // its bytes; anywhere in an expression
#endif
