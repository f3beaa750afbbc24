// SPDX-License-Identifier: MIT
// format_text.c: appends tokens and numbers to a growing text.
//
// Numbers are converted to digits here and not by printf, whose decimal point depends on the
// locale.
#include "view/format_text.h"
#include <qkv/chart.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum { TOKEN_BYTES = 160 }; // maximum bytes of a token; a longer token is cut and ends with "…"

void view_put(struct view_text *t, const char *bytes, size_t n)
{
    if (t->failed) return;
    if (n > INT64_MAX / 2 ||
        !qkv_reserve((void **)&t->at, &t->capacity, t->used + (int64_t)n + 1, 1)) {
        t->failed = true;
        return;
    }
    if (n) memcpy(t->at + t->used, bytes, n);
    t->used += (int64_t)n;
    t->at[t->used] = 0;
}

void view_say(struct view_text *t, const char *format, ...)
{
    char small[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(small, sizeof small, format, list);
    va_end(list);
    if (n >= 0 && (size_t)n < sizeof small) {
        view_put(t, small, (size_t)n);
        return;
    }
    char *large = n < 0 ? NULL : qkv_alloc((size_t)n + 1, 1);
    if (!large) {
        t->failed = true;
        return;
    }
    va_start(list, format);
    vsnprintf(large, (size_t)n + 1, format, list);
    va_end(list);
    view_put(t, large, (size_t)n);
    qkv_free(large);
}

void view_text_copy(char *out, size_t size, const struct view_text *t)
{
    size_t n = t->at && !t->failed ? (size_t)qkv_min64(t->used, (int64_t)size - 1) : 0;
    if (n < (size_t)t->used)
        while (n && qkv_utf8_continues(t->at[n])) n--; // do not cut inside a character
    if (n) memcpy(out, t->at, n);
    out[n] = 0;
}

void view_text_free(struct view_text *t)
{
    qkv_free(t->at);
    *t = (struct view_text){ 0 };
}

// Writes |x| rounded to `digits` decimals.
static void put_digits(struct view_text *t, double x, int digits, bool leading_zero)
{
    int64_t unit = 1;
    int used = 0; // no more decimals than fit 64 bits
    for (; used < digits && used < 17 && x * (double)unit < 1e17; used++) unit *= 10;
    digits = used;
    const int64_t all = (int64_t)floor(x * (double)unit + 0.5), whole = all / unit;
    if (whole || leading_zero || !digits) view_say(t, "%" PRId64, whole);
    if (digits) view_say(t, ".%0*" PRId64, digits, all % unit);
}

void view_number(struct view_text *t, double x, int digits)
{
    if (!isfinite(x)) {
        view_say(t, "!");
        return;
    }
    if (fabs(x) > 1e12) { // such as 3.2e31
        int e = (int)floor(log10(fabs(x)) + 1e-12);
        double m = fabs(x) / pow(10, e);
        if (m >= 9.95) {
            m /= 10;
            e++;
        }
        if (x < 0) view_say(t, "-");
        put_digits(t, m, fabs(m - floor(m + .5)) < .05 ? 0 : 1, true);
        view_say(t, "e%d", e);
        return;
    }
    // write no minus sign if x is rounded to 0
    if (x < 0 && fabs(x) * pow(10, digits) >= .5) view_say(t, "-");
    put_digits(t, fabs(x), digits, true);
}

void view_signed(struct view_text *t, double x, int digits)
{
    struct view_text plain = { 0 };
    view_number(&plain, x, digits);
    const bool minus = plain.at && plain.at[0] == '-';
    if (minus) view_say(t, "−");
    t->failed |= plain.failed;
    if (plain.at) view_put(t, plain.at + minus, (size_t)(plain.used - minus));
    view_text_free(&plain);
}

void view_weight(struct view_text *t, double w, int digits)
{
    if (!isfinite(w))
        view_say(t, "!");
    else
        put_digits(t, w < 0 ? 0 : fmin(w, 1e12), digits, false);
}

const char *qkv_weight_text(char out[QKV_WEIGHT_BYTES], double w, int digits)
{
    // At most 13 digits, a point and 17 decimals: the text never grows, so nothing is allocated.
    struct view_text t = { .at = out, .capacity = QKV_WEIGHT_BYTES };
    view_weight(&t, w, digits < 0 ? 0 : digits);
    return out;
}

void view_count(struct view_text *t, int64_t n)
{
    char digits[32];
    const int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') view_put(t, ",", 1);
        view_put(t, digits + i, 1);
    }
}

// Returns the length in bytes of the first character of s[n]. *code becomes its code point, or -1
// if the bytes are not valid UTF-8; the length is then 1.
static size_t next_code(int32_t *code, const char *s, size_t n)
{
    utf8proc_int32_t c;
    const utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    *code = len > 0 ? c : -1;
    return len > 0 ? (size_t)len : 1;
}

int64_t view_units(const char *s, int64_t n)
{
    int64_t units = 0;
    for (int64_t i = 0; i < n;) {
        int32_t c;
        i += (int64_t)next_code(&c, s + i, (size_t)(n - i));
        units += c > 0xffff ? 2 : 1;
    }
    return units;
}

void view_json_text(struct view_text *t, const char *s, size_t n)
{
    view_put(t, "\"", 1);
    for (size_t i = 0; i < n;) {
        int32_t c;
        const size_t len = next_code(&c, s + i, n - i);
        if (c < 0)
            view_put(t, "\xEF\xBF\xBD", 3);
        else if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' ||
                 c == 0x7f || c == 0x2028 || c == 0x2029)
            // characters with a special meaning in HTML or JavaScript
            view_say(t, "\\u%04x", (unsigned)c);
        else
            view_put(t, s + i, len);
        i += len;
    }
    view_put(t, "\"", 1);
}

// Returns true if XML or cairo refuses the character: a noncharacter of Unicode, such as U+FFFE or
// U+1FFFF.  A token may contain one.
static bool is_noncharacter(int32_t c)
{
    return (c >= 0xfdd0 && c <= 0xfdef) || (c >= 0 && (c & 0xfffe) == 0xfffe);
}

void view_html_text(struct view_text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int32_t c;
        const size_t len = next_code(&c, s + i, n - i);
        const bool control = c < 0x20 && c != '\t' && c != '\n' && c != '\r'; // also invalid bytes
        if (control || is_noncharacter(c))
            view_put(t, "\xEF\xBF\xBD", 3);
        else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            view_say(t, "&#%d;", (int)c);
        else
            view_put(t, s + i, len);
        i += len;
    }
}

// Returns true if printing the character would move, hide or reverse the characters around it.
bool view_is_control(int32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

void view_plain_text(struct view_text *t, const char *s, size_t n, int64_t most)
{
    const int64_t start = t->used;
    for (size_t i = 0; i < n;) {
        int32_t c;
        const size_t len = next_code(&c, s + i, n - i);
        if (t->used - start > most) {
            view_say(t, "…");
            return;
        }
        if (c < 0)
            view_say(t, "<0x%02X>", (unsigned)(unsigned char)s[i]);
        else if (c == '\n')
            view_say(t, "⏎");
        else if (is_noncharacter(c))
            view_put(t, "\xEF\xBF\xBD", 3);
        else if (view_is_control(c))
            view_say(t, c < 0x100 ? "<0x%02X>" : "<U+%04X>", (unsigned)c);
        else
            view_put(t, s + i, len);
        i += len;
    }
}

const char *view_token_bytes(const struct qkv_view_token *k, size_t *n)
{
    const bool own = !k->text || !k->text_bytes;
    const char *s = own ? k->raw : k->text;
    *n = own ? strlen(k->raw) : k->text_bytes;
    if (own || *n < 2 || s[0] != ' ') return s;
    --*n;
    return s + 1;
}

void view_token_text(struct view_text *t, const struct qkv_view_token *k, bool raw)
{
    size_t n = strlen(k->raw);
    const char *s = raw ? k->raw : view_token_bytes(k, &n);
    // a token that is a single space is shown as a symbol
    if (!raw && n == 1 && s[0] == ' ') s = "\u2423", n = strlen(s);
    view_plain_text(t, s, n, TOKEN_BYTES);
}

size_t view_name_place(const char *text, size_t n)
{
    size_t place = 0;
    while (n - place >= 3 && !memcmp(text + n - place - 3, "\xE2\x82", 2) &&
           (unsigned char)(text[n - place - 1] - '\x80') < 10)
        place += 3;
    return place;
}
