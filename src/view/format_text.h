// SPDX-License-Identifier: MIT
// format_text.h: declares the functions that write tokens, numbers and foreign text for people,
// JSON and HTML.
#ifndef QKV_VIEW_FORMAT_TEXT_H
#define QKV_VIEW_FORMAT_TEXT_H

#include "base/base.h"
#include <qkv/view.h>

// ---- format_text.c ------------------------------------------------------------------------------
// A growing text. After a failed allocation the text does not change any more, and `failed` is set.
struct view_text {
    char *at;
    int64_t used, capacity;
    bool failed;
};
void view_put(struct view_text *t, const char *bytes, size_t n);
void view_say(struct view_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Writes "12.3" in any locale; NaN: "!"
void view_number(struct view_text *t, double x, int digits);
void view_signed(struct view_text *t, double x, int digits); // the same with U+2212 as minus
void view_weight(struct view_text *t, double w, int digits); // ".64", "1.00"
void view_count(struct view_text *t, int64_t n);             // "12,168"
void view_json_text(struct view_text *t, const char *s,
                    size_t n);                // quoted; '<' as \u003c; valid UTF-8
int64_t view_units(const char *s, int64_t n); // returns the number of UTF-16 units
void view_html_text(struct view_text *t, const char *s, size_t n);
bool view_is_control(int32_t code); // would move, hide or reverse its neighbours
// Writes foreign text for readers as valid UTF-8, with control characters made visible; a text of
// more than `most` bytes is cut and ends with "…".
void view_plain_text(struct view_text *t, const char *s, size_t n, int64_t most);
// Writes a token for readers as valid UTF-8, without joiner marks and with control characters made
// visible, at most 160 bytes.
void view_token_text(struct view_text *t, const struct qkv_view_token *k, bool raw);
void view_quote(struct view_text *t, const struct qkv_view_token *k); // “it”
// Copies the text to out[size > 0]; a text that does not fit is cut between characters. out is ""
// if an allocation failed.
void view_text_copy(char *out, size_t size, const struct view_text *t);
void view_text_free(struct view_text *t);
#endif
