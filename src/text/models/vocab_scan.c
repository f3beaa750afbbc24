// SPDX-License-Identifier: MIT
// vocab_scan.c: reads $.model.vocab directly from the bytes of a tokenizer.json.
//
// The vocabulary is most of the file; to parse it into a tree of JSON values would take ten times
// as much time and memory.  This scanner accepts only the usual form, an object of plain texts and
// ids.  For any other form it returns false; the caller then parses with jansson, which also
// reports errors.
#include "text/text_internal.h"
#include <string.h>

struct scan {
    const char *p, *end;
};

static void blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

static bool eat(struct scan *s, char c)
{
    blanks(s);
    if (s->p >= s->end || *s->p != c) return false;
    s->p++;
    return true;
}

// Skips the JSON string at s->p; *from and *size are the bytes between its quotes.  Returns false
// if there is no complete string at s->p.
static bool skip_text(struct scan *s, const char **from, size_t *size)
{
    if (!eat(s, '"')) return false;
    *from = s->p;
    while (s->p < s->end && *s->p != '"') s->p += *s->p == '\\' ? 2 : 1;
    if (s->p >= s->end) return false;
    *size = (size_t)(s->p++ - *from);
    return true;
}

// Moves s->p after the '{' of the object $.model.vocab.  Returns false if there is no such object.
// The function only counts brackets; jansson checks the rest of the syntax.
static bool find_vocab(struct scan *s)
{
    const char *key[2] = { "", "" }, *text = "";
    size_t key_size[2] = { 0, 0 }, size = 0;
    int depth = 0;
    while (s->p < s->end) {
        const char c = *s->p;
        if (c == '"') {
            if (!skip_text(s, &text, &size)) return false;
            continue;
        }
        s->p++;
        if (c == ':' && (depth == 1 || depth == 2)) {
            key[depth - 1] = text;
            key_size[depth - 1] = size;
        }
        if (c == '}' || c == ']') depth--;
        if (c != '{' && c != '[') continue;
        if (depth == 2 && c == '{' && key_size[0] == 5 && memcmp(key[0], "model", 5) == 0 &&
            key_size[1] == 5 && memcmp(key[1], "vocab", 5) == 0)
            return true;
        if (++depth < 1) return false;
    }
    return false;
}

static bool hex4(const char *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int digit = c >= '0' && c <= '9'                 ? c - '0'
                          : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                               : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

// Decodes the escape sequence after a backslash and writes its character to *to.
static bool escape(const char **from, const char *end, uint8_t **to)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *p = *from;
    if (p >= end) return false;
    const char *name = *p ? strchr(names, *p) : NULL;
    if (name) {
        *(*to)++ = (uint8_t)means[name - names];
        *from = p + 1;
        return true;
    }
    uint32_t code, low;
    if (*p != 'u' || end - p < 5 || !hex4(p + 1, &code) || code == 0) return false;
    p += 5;
    if (code >= 0xD800 && code <= 0xDFFF) {
        if (code > 0xDBFF || end - p < 6 || p[0] != '\\' || p[1] != 'u' || !hex4(p + 2, &low))
            return false;
        if (low < 0xDC00 || low > 0xDFFF) return false;
        code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
        p += 6;
    }
    *to += qkv_utf8_write(*to, code);
    *from = p;
    return true;
}

// Decodes a JSON string into out, which has space for the bytes between the quotes.  Returns false
// if the string is not in the plain form.
static bool read_text(struct scan *s, uint8_t *out, size_t *size)
{
    uint8_t *to = out;
    const char *p, *end;
    size_t n;
    if (!skip_text(s, &p, &n)) return false;
    for (end = p + n; p < end;) {
        const uint8_t c = (uint8_t)*p;
        if (c < 0x20) return false;
        if (c == '\\') {
            p++;
            if (!escape(&p, end, &to)) return false;
        } else if (c < 0x80) {
            *to++ = c;
            p++;
        } else {
            uint32_t code;
            const int used = qkv_utf8_read((const uint8_t *)p, (size_t)(end - p), &code);
            if (used < 0) return false;
            memcpy(to, p, (size_t)used);
            to += used;
            p += used;
        }
    }
    *to = 0;
    *size = (size_t)(to - out);
    return true;
}

static bool read_id(struct scan *s, int32_t *id)
{
    blanks(s);
    const char *from = s->p;
    int64_t n = 0;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9' && n < QKV_TOKEN_IDS; s->p++)
        n = n * 10 + *s->p - '0';
    if (s->p == from || n >= QKV_TOKEN_IDS || (*from == '0' && s->p - from > 1)) return false;
    *id = (int32_t)n;
    return true;
}

static bool read_entries(struct scan *s, struct qkv_vocab *v)
{
    // `guess` is an estimate of the number of entries, so that the tables rarely grow
    const size_t guess = (size_t)(s->end - s->p) / 15 + 1;
    void *pool = NULL;
    if (!qkv_trie_init(&v->trie, guess < QKV_TOKEN_IDS ? guess : QKV_TOKEN_IDS)) return false;
    if (eat(s, '}')) return true;
    if (!qkv_reserve(&pool, &v->pool_capacity, s->end - s->p + 1, 1))
        return false; // no token is longer
    v->pool = pool;
    do {
        int32_t id, got;
        size_t size;
        const int64_t at = v->pool_count;
        void *tokens = v->tokens;
        blanks(s);
        if (!read_text(s, (uint8_t *)v->pool + at, &size) || !eat(s, ':') || !read_id(s, &id))
            return false;
        const bool reserved =
            v->count < QKV_TOKEN_IDS &&
            qkv_reserve(&tokens, &v->capacity, v->count < 1 ? (int64_t)guess : v->count + 1,
                        sizeof *v->tokens);
        v->tokens = tokens;
        if (!reserved || !qkv_trie_add(&v->trie, v->pool + at, size, id, &got)) return false;
        v->tokens[v->count++] = (struct qkv_token){ (uint32_t)at, (uint32_t)size, id, 0 };
        v->pool_count = at + (int64_t)size + 1;
    } while (eat(s, ','));
    return eat(s, '}') && v->trie.texts == v->count; // fewer: a token is listed twice
}

bool qkv_vocab_scan_object(struct qkv_vocab *v, const char *data, size_t size)
{
    struct scan s = { data, data + size };
    v->scanned = eat(&s, '{') && read_entries(&s, v);
    if (v->scanned) blanks(&s);
    if (v->scanned && s.p == s.end) return true;
    qkv_vocab_free(v);
    return false;
}

bool qkv_vocab_scan(struct qkv_vocab *v, const char *data, size_t size, size_t *begin, size_t *end)
{
    struct scan s = { data, data + size };
    if (!find_vocab(&s)) return false;
    *begin = (size_t)(s.p - data) - 1;
    if (!read_entries(&s, v)) {
        qkv_vocab_free(v);
        return false;
    }
    *end = (size_t)(s.p - data);
    v->scanned = true;
    return true;
}
