// SPDX-License-Identifier: MIT
// scan.c: scans JSON byte by byte without allocation or recursion, and reports the exact byte of
// every error.
// Source: RFC 8259 (grammar), RFC 3629 (UTF-8).
//
// json.c uses this scanner to check the syntax while it builds a tree of jansson.  The headers of
// checkpoints are scanned without a tree, because a tree of a million entries would cost seconds
// and a gigabyte.
#include "base/base_internal.h"
#include <stdio.h>
#include <string.h>

QKV_API size_t qkv_utf8_bytes(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    if (!text || !bytes) return 0;
    if (p[0] < 0x80) return 1;
    const size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || bytes < n) return 0;
    for (size_t i = 1; i < n; i++)
        if (!qkv_utf8_continues(p[i])) return 0;
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0; // overlong
    if (p[0] == 0xED && p[1] > 0x9F) return 0; // surrogate
    if (p[0] == 0xF0 && p[1] < 0x90) return 0; // overlong
    if (p[0] == 0xF4 && p[1] > 0x8F) return 0; // past U+10FFFF
    return n;
}

static bool fail(struct qkv_scan *s, const char *want)
{
    if (!s->want) s->want = want;
    return false;
}

void qkv_scan_space(struct qkv_scan *s)
{
    while (s->at < s->size) {
        const char c = s->data[s->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') break;
        s->at++;
    }
}

bool qkv_scan_take(struct qkv_scan *s, char c)
{
    qkv_scan_space(s);
    if (s->at >= s->size || s->data[s->at] != c) return false;
    s->at++;
    return true;
}

bool qkv_scan_need(struct qkv_scan *s, char c, const char *want)
{
    return qkv_scan_take(s, c) || fail(s, want);
}

// Returns the value of the four hexadecimal digits at byte `at`, or -1 if they are malformed.
static int hex4(const struct qkv_scan *s, size_t at)
{
    if (s->size - at < 4) return -1;
    int u = 0;
    for (size_t i = at; i < at + 4; i++) {
        const char c = s->data[i];
        const int d = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
        if (d < 0) return -1;
        u = u * 16 + d;
    }
    return u;
}

// Scans an escape; s->at is after the backslash.
static bool escape(struct qkv_scan *s)
{
    if (s->at >= s->size) return fail(s, "an escape");
    const char c = s->data[s->at];
    if (c != 'u') {
        if (c == 0 || !strchr("\"\\/bfnrt", c)) return fail(s, "a valid JSON escape such as \\n");
        s->at++;
        return true;
    }
    const int u = hex4(s, s->at + 1);
    if (u < 0) return fail(s, "four hexadecimal digits after \\u");
    if (u == 0) return fail(s, "a string without NUL characters");
    if (u >= 0xDC00 && u < 0xE000) return fail(s, "a high surrogate before a low surrogate");
    s->at += 5;
    if (u < 0xD800 || u >= 0xE000) return true;
    if (s->size - s->at < 6 || s->data[s->at] != '\\' || s->data[s->at + 1] != 'u')
        return fail(s, "a low surrogate after a high surrogate");
    const int low = hex4(s, s->at + 2);
    if (low < 0xDC00 || low >= 0xE000) return fail(s, "a low surrogate after a high surrogate");
    s->at += 6;
    return true;
}

bool qkv_scan_string(struct qkv_scan *s, struct qkv_span *raw)
{
    if (!qkv_scan_need(s, '"', "a text in quotes")) return false;
    raw->at = s->data + s->at;
    raw->escaped = false;
    const size_t start = s->at;
    for (;;) {
        if (s->at >= s->size) return fail(s, "the closing quote of a string");
        const unsigned char c = (unsigned char)s->data[s->at];
        if (c == '"') break;
        if (c < 0x20) return fail(s, "control characters to be written as escapes");
        if (c == '\\') {
            s->at++;
            raw->escaped = true;
            if (!escape(s)) return false;
        } else {
            const size_t n = qkv_utf8_bytes(s->data + s->at, s->size - s->at);
            if (!n) return fail(s, "valid UTF-8");
            s->at += n;
        }
    }
    raw->bytes = s->at - start;
    s->at++;
    return true;
}

static size_t put_utf8(char *out, unsigned u)
{
    if (u < 0x80) {
        out[0] = (char)u;
        return 1;
    }
    const size_t n = u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, u >>= 6) out[i] = (char)(0x80 | (u & 0x3F));
    static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    out[0] = (char)(lead[n] | u);
    return n;
}

size_t qkv_span_decode(char *out, const struct qkv_span *raw)
{
    const struct qkv_scan s = { .data = raw->at, .size = raw->bytes };
    size_t n = 0;
    for (size_t i = 0; i < raw->bytes;) {
        if (raw->at[i] != '\\') {
            out[n++] = raw->at[i++];
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *plain = strchr(from, raw->at[i + 1]);
        if (plain) {
            out[n++] = to[plain - from];
            i += 2;
            continue;
        }
        unsigned u = (unsigned)hex4(&s, i + 2);
        i += 6;
        if (u >= 0xD800 && u < 0xDC00) {
            u = 0x10000 + ((u - 0xD800) << 10) + ((unsigned)hex4(&s, i + 2) - 0xDC00);
            i += 6;
        }
        n += put_utf8(out + n, u);
    }
    return n;
}

bool qkv_span_is(const struct qkv_span *raw, const char *text)
{
    const size_t n = strlen(text);
    return !raw->escaped && raw->bytes == n && memcmp(raw->at, text, n) == 0;
}

static bool is_digit(const struct qkv_scan *s)
{
    return s->at < s->size && s->data[s->at] >= '0' && s->data[s->at] <= '9';
}

static bool skip_digits(struct qkv_scan *s)
{
    if (!is_digit(s)) return fail(s, "a digit");
    while (is_digit(s)) s->at++;
    return true;
}

bool qkv_scan_number(struct qkv_scan *s, bool *integer)
{
    qkv_scan_space(s);
    if (s->at < s->size && s->data[s->at] == '-') s->at++;
    if (s->at < s->size && s->data[s->at] == '0') {
        s->at++;
        if (is_digit(s)) return fail(s, "a number without leading zeros");
    } else if (!skip_digits(s)) {
        return false;
    }
    *integer = true;
    if (s->at < s->size && s->data[s->at] == '.') {
        s->at++;
        *integer = false;
        if (!skip_digits(s)) return false;
    }
    if (s->at < s->size && (s->data[s->at] == 'e' || s->data[s->at] == 'E')) {
        s->at++;
        *integer = false;
        if (s->at < s->size && (s->data[s->at] == '+' || s->data[s->at] == '-')) s->at++;
        if (!skip_digits(s)) return false;
    }
    return true;
}

bool qkv_scan_size(struct qkv_scan *s, uint64_t *out, const char *want)
{
    qkv_scan_space(s);
    const size_t start = s->at;
    uint64_t n = 0;
    bool ok = is_digit(s);
    for (; ok && is_digit(s); s->at++)
        ok = !__builtin_mul_overflow(n, 10u, &n) &&
             !__builtin_add_overflow(n, (uint64_t)(s->data[s->at] - '0'), &n);
    if (ok && s->at - start > 1 && s->data[start] == '0') ok = false;
    if (ok && s->at < s->size && strchr(".eE", s->data[s->at]) && s->data[s->at]) ok = false;
    if (!ok) {
        s->at = start;
        return fail(s, want);
    }
    *out = n;
    return true;
}

static bool scan_word(struct qkv_scan *s, const char *text)
{
    const size_t n = strlen(text);
    if (s->size - s->at < n || memcmp(s->data + s->at, text, n) != 0) return fail(s, "a value");
    s->at += n;
    return true;
}

static bool scalar(struct qkv_scan *s, char c)
{
    struct qkv_span raw;
    bool integer;
    if (c == '"') return qkv_scan_string(s, &raw);
    if (c == 't') return scan_word(s, "true");
    if (c == 'f') return scan_word(s, "false");
    if (c == 'n') return scan_word(s, "null");
    if (c == '-' || (c >= '0' && c <= '9')) return qkv_scan_number(s, &integer);
    return fail(s, "a value");
}

static bool scan_key(struct qkv_scan *s)
{
    struct qkv_span raw;
    return qkv_scan_string(s, &raw) && qkv_scan_need(s, ':', "a colon after a key");
}

bool qkv_scan_value(struct qkv_scan *s)
{
    // one bit per level, the innermost level in the lowest bit: 1 for an object, 0 for an array
    uint64_t objects = 0;
    for (int depth = 0;;) {
        qkv_scan_space(s);
        const char c = s->at < s->size ? s->data[s->at] : 0;
        if (c == '{' || c == '[') {
            if (depth == QKV_JSON_DEPTH) return fail(s, QKV_SCAN_TOO_DEEP);
            depth++;
            objects = objects << 1 | (c == '{');
            s->at++;
            if (!qkv_scan_take(s, c == '{' ? '}' : ']')) {
                if (c == '{' && !scan_key(s)) return false;
                continue;
            }
            depth--;
            objects >>= 1;
        } else if (!scalar(s, c)) {
            return false;
        }
        // A value has ended: scan a comma, before the next value, or the ends of the objects and
        // arrays that contain the value.
        for (;; depth--, objects >>= 1) {
            if (depth == 0) return true;
            if (qkv_scan_take(s, ',')) {
                if ((objects & 1) && !scan_key(s)) return false;
                break;
            }
            if (!qkv_scan_need(s, objects & 1 ? '}' : ']',
                               objects & 1 ? "',' or '}'" : "',' or ']'"))
                return false;
        }
    }
}

void qkv_scan_found(char out[16], const struct qkv_scan *s)
{
    if (s->at >= s->size) {
        memcpy(out, "the end", 8);
        return;
    }
    const unsigned char c = (unsigned char)s->data[s->at];
    snprintf(out, 16, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
}
