// SPDX-License-Identifier: MIT
// format_text.h: declares the functions that write tokens, numbers and texts of users, for people
// and in JSON and HTML.
#ifndef QKV_VIEW_FORMAT_TEXT_H
#define QKV_VIEW_FORMAT_TEXT_H

#include "base/base.h"
#include <qkv/view.h>

// ---- format_text.c ------------------------------------------------------------------------------
// A growing text. If an allocation fails, `failed` is set, and the text no longer changes.
struct view_text {
    char *at;
    int64_t used, capacity;
    bool failed;
};
void view_put(struct view_text *t, const char *bytes, size_t n);
void view_say(struct view_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Writes a number with `digits` decimals and a decimal point, whatever the locale; NaN is written
// as !.
void view_number(struct view_text *t, double x, int digits);
// Writes a number as view_number() does, but with the minus sign U+2212.
void view_signed(struct view_text *t, double x, int digits);
void view_weight(struct view_text *t, double w, int digits); // ".64", "1.00"
void view_count(struct view_text *t, int64_t n);             // "12,168"
void view_json_text(struct view_text *t, const char *s,
                    // writes a JSON string in quotes, as valid UTF-8 and with '<' as \u003c
                    size_t n);
int64_t view_units(const char *s, int64_t n); // returns the number of UTF-16 units of s[n]
void view_html_text(struct view_text *t, const char *s, size_t n);
// returns true if the character would move, hide or reverse other characters
bool view_is_control(int32_t code);
// Writes a text of the user or of a file for reading: as valid UTF-8, with control characters made
// visible. A text of more than `most` bytes is cut and ends with "…".
void view_plain_text(struct view_text *t, const char *s, size_t n, int64_t most);
// Writes a token for reading: as valid UTF-8, at most 160 bytes, with control characters made
// visible, and without the marks that join tokens to words (such as "##").
void view_token_text(struct view_text *t, const struct qkv_view_token *k, bool raw);
// Returns the bytes of a token that are shown, *n of them: its text without the space before it or,
// if it has none, its spelling in the vocabulary.
const char *view_token_bytes(const struct qkv_view_token *k, size_t *n);
// Returns how many bytes the place of a repeated word takes at the end of a name text[n], such as
// “₁₂”; 0: none.
size_t view_name_place(const char *text, size_t n);
// Copies the text to out[size], size > 0. A text that does not fit is cut between two characters.
// If an allocation failed, out becomes "".
void view_text_copy(char *out, size_t size, const struct view_text *t);
void view_text_free(struct view_text *t);
#endif
