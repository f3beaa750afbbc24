// SPDX-License-Identifier: MIT
// regex_set.h: declares the translation of character sets, for regex_syntax.c.
#ifndef QKV_TEXT_REGEX_SET_H
#define QKV_TEXT_REGEX_SET_H

#include "text/text_internal.h"

// A growing text of PCRE2 syntax, to which text is appended or inserted.
struct qkv_regex_buffer {
    char *at;
    int64_t count, capacity;
};
struct qkv_set_reader {
    const char *text; // the expression, UTF-8
    int64_t size, at; // at: the next byte to read
    int64_t token;    // first byte of the current token
    int depth;        // of nested sets
    struct qkv_regex_error *error;
};
// Writes status, reason and the offset of the current token to in->error; always returns false.
bool qkv_set_fail(struct qkv_set_reader *in, qkv_status status, const char *reason);
// Inserts text[n] into b before byte `at`.  Returns false if in->error contains an error.
bool qkv_set_insert(struct qkv_set_reader *in, struct qkv_regex_buffer *b, int64_t at,
                    const char *text, int64_t n);
// Each of these functions reads from in->at on and advances in->at. It returns false if in->error
// contains an error.
bool qkv_set_read(struct qkv_set_reader *in, struct qkv_regex_buffer *out); // [...]
// Reads an escape for a class of characters, such as \d or \p{..}, and appends it as a set [...].
bool qkv_set_escape(struct qkv_set_reader *in, struct qkv_regex_buffer *out);
bool qkv_set_character(struct qkv_set_reader *in, uint32_t *code); // one character, maybe escaped
// Appends what a PCRE2 set must contain for \d, \h, \s or \w; `which` is the letter.
bool qkv_set_shorthand(struct qkv_set_reader *in, struct qkv_regex_buffer *out, char which);
// Writes the character `code` in a form that PCRE2 reads as this character anywhere in an
// expression; returns the number of bytes.
int64_t qkv_set_spell(char text[16], uint32_t code);
#endif
