// SPDX-License-Identifier: MIT
// regex_syntax.c: translates an expression of Oniguruma into PCRE2 syntax with the same meaning.
//
// These parts of an expression differ and are translated:
//   - nested sets and their intersections
//   - \s \w \d \b, \h (a hexadecimal digit), \v (one character), \O
//   - {1,3}+, which repeats and is not possessive, and other quantifiers of a quantified atom; {,n}
//   - (?m), which is (?s) in PCRE2; options without a group, which extend over alternatives
//   - \p{..} of scripts and of characters that PCRE2 with Unicode 14 does not know
//   - \Q, \L and other escaped letters that mean the letter
// Options of PCRE2 (regex.c) select the meaning of ^ and $.
// Source: doc/RE of Oniguruma 6.9 (its default syntax); pcre2pattern(3).
#include "text/regex/regex_set.h"
#include <stdio.h>
#include <string.h>

struct group {
    int64_t start; // in out
    int closes;    // option groups opened inside it, to be closed with it
};

struct reader {
    struct qkv_set_reader in; // the expression and its error
    struct qkv_regex_buffer out;
    struct qkv_syntax *result;
    int64_t from_capacity;
    struct group groups[QKV_REGEX_DEPTH + 1];
    int depth, wraps;
    int64_t atom;    // offset in out of the last atom, -1: none that can be repeated
    bool quantified; // the last atom has a quantifier
    bool simple;     // that quantifier is *, + or ?, the last byte of out
};

static bool fail(struct reader *r, qkv_status status, const char *reason)
{
    return qkv_set_fail(&r->in, status, reason);
}

// Inserts text[n], the translation of the current token of the expression, into out before byte
// `at`.
static bool insert(struct reader *r, int64_t at, const char *text, int64_t n)
{
    void *p = r->result->from;
    if (!qkv_set_insert(&r->in, &r->out, at, text, n)) return false;
    if (!qkv_reserve(&p, &r->from_capacity, r->out.count, sizeof *r->result->from))
        return fail(r, QKV_ERR_LIMIT, NULL);
    int32_t *from = r->result->from = p;
    const int64_t moved = r->out.count - n - at;
    if (moved) memmove(from + at + n, from + at, (size_t)moved * sizeof *from);
    for (int64_t i = 0; i < n; i++) from[at + i] = (int32_t)r->in.token;
    return true;
}

static bool put(struct reader *r, const char *text, int64_t n)
{
    return insert(r, r->out.count, text, n);
}

static bool put_text(struct reader *r, const char *text)
{
    return put(r, text, (int64_t)strlen(text));
}

// Appends text[n] to out as a new atom, to which a quantifier may follow.
static bool put_atom(struct reader *r, const char *text, int64_t n)
{
    r->atom = r->out.count;
    r->quantified = false;
    return put(r, text, n);
}

// Appends text that is no atom: it matches no character or cannot be repeated.
static bool put_plain(struct reader *r, const char *text)
{
    r->atom = -1;
    r->quantified = false;
    return put_text(r, text);
}

static char peek(const struct reader *r, int64_t ahead)
{
    const int64_t at = r->in.at + ahead;
    return at < r->in.size ? r->in.text[at] : 0;
}

// ---- quantifiers -------------------------------------------------------------------------------
// Returns the number of bytes of {n}, {n,}, {n,m} or {,m} at the current position; 0 if the brace
// is an ordinary character; -1 if a number is too large.
static int64_t interval(const struct reader *r, char out[32], bool *exact)
{
    int64_t i = 1, number[2] = { -1, -1 };
    int k = 0;
    for (; peek(r, i) && peek(r, i) != '}'; i++) {
        const char c = peek(r, i);
        if (c == ',' && k == 0) {
            k = 1;
        } else if (c >= '0' && c <= '9') {
            number[k] = (number[k] < 0 ? 0 : number[k]) * 10 + (c - '0');
            if (number[k] > 100000) return -1;
        } else {
            return 0;
        }
    }
    if (peek(r, i) != '}' || (number[0] < 0 && number[1] < 0)) return 0;
    *exact = k == 0;
    if (k == 0)
        snprintf(out, 32, "{%d}", (int)number[0]);
    else if (number[1] < 0)
        snprintf(out, 32, "{%d,}", (int)number[0]);
    else
        snprintf(out, 32, "{%d,%d}", (int)qkv_max64(number[0], 0), (int)number[1]);
    return i + 1;
}

static bool put_quantifier(struct reader *r, const char *text, int64_t bytes, bool lazy,
                           bool possessive)
{
    const bool star = text[0] == '*' && !strchr("?+", peek(r, bytes) ? peek(r, bytes) : '.');
    if (r->quantified && r->simple && star) { // a**, a+*, a?* are a*
        r->out.at[r->out.count - 1] = '*';
        r->in.at += bytes;
        return true;
    }
    if (r->quantified && r->atom >= 0) { // a second quantifier repeats the whole
        if (++r->wraps > QKV_REGEX_DEPTH)
            return fail(r, QKV_ERR_UNSUPPORTED, "there are too many consecutive quantifiers");
        if (!insert(r, r->atom, "(?:", 3) || !put(r, ")", 1)) return false;
    }
    r->in.at += bytes;
    if (!put_text(r, text)) return false;
    const char c = peek(r, 0);
    const bool more = (c == '?' && lazy) || (c == '+' && possessive);
    r->simple = !more && r->atom >= 0 && text[0] != '{';
    r->quantified = true;
    if (!more) return true;
    r->in.at++;
    return put(r, &c, 1);
}

static bool read_quantifier(struct reader *r, char c)
{
    char text[32] = { c, 0 };
    bool exact = false;
    if (c != '{') return put_quantifier(r, text, 1, true, true);
    const int64_t bytes = interval(r, text, &exact);
    if (bytes < 0) return fail(r, QKV_ERR_FORMAT, "a quantifier has more than 100000 repeats");
    if (bytes) return put_quantifier(r, text, bytes, !exact, false);
    r->in.at++;
    return put_atom(r, "\\{", 2);
}

// ---- groups ------------------------------------------------------------------------------------
static bool open_group(struct reader *r, int64_t bytes)
{
    if (r->depth == QKV_REGEX_DEPTH)
        return fail(r, QKV_ERR_UNSUPPORTED, "groups are nested too deep");
    r->groups[++r->depth] = (struct group){ r->out.count, 0 };
    if (!put(r, r->in.text + r->in.at, bytes)) return false;
    r->in.at += bytes;
    r->atom = -1;
    r->quantified = false;
    return true;
}

// Reads the options of a group, (?imx-imx:...) or (?imx-imx).
static bool options(struct reader *r)
{
    char text[32] = "(?";
    size_t n = 2;
    int64_t i = 2;
    bool minus = false;
    for (; peek(r, i) && peek(r, i) != ':' && peek(r, i) != ')'; i++) {
        const char c = peek(r, i);
        if (c == '-' ? minus : c != 'i' && c != 'm' && c != 'x')
            return fail(r, strchr("WDSPyLC", c) ? QKV_ERR_UNSUPPORTED : QKV_ERR_FORMAT,
                        "unknown group option");
        minus = minus || c == '-';
        if (n < sizeof text - 2) text[n++] = c == 'm' ? 's' : c;
    }
    const char last = peek(r, i);
    if (!last) return fail(r, QKV_ERR_FORMAT, "a group without its closing )");
    text[n] = ':';
    if (r->depth == QKV_REGEX_DEPTH)
        return fail(r, QKV_ERR_UNSUPPORTED, "groups are nested too deep");
    if (last == ':')
        r->groups[++r->depth] = (struct group){ r->out.count, 0 };
    else if (++r->groups[r->depth].closes + r->depth > QKV_REGEX_DEPTH)
        return fail(r, QKV_ERR_UNSUPPORTED, "groups are nested too deep");
    r->in.at += i + 1;
    return put_plain(r, text);
}

static bool read_group(struct reader *r)
{
    if (peek(r, 1) == '*') return fail(r, QKV_ERR_UNSUPPORTED, "a callout");
    if (peek(r, 1) != '?') return open_group(r, 1);
    switch (peek(r, 2)) {
    case '#':
        while (r->in.at < r->in.size && peek(r, 0) != ')')
            r->in.at += peek(r, 0) == '\\' && peek(r, 1) ? 2 : 1;
        if (r->in.at >= r->in.size)
            return fail(r, QKV_ERR_FORMAT, "a comment without its closing )");
        r->in.at++;
        return true;
    case ':':
    case '=':
    case '!':
    case '>': return open_group(r, 3);
    case '<':
        if (peek(r, 3) == '=' || peek(r, 3) == '!') return open_group(r, 4);
        return open_group(r, 3); // a named group
    case '~': return fail(r, QKV_ERR_UNSUPPORTED, "absent operator");
    case '(':
    case '{':
        return fail(r, QKV_ERR_UNSUPPORTED, "conditional groups and callouts are not supported");
    default: return options(r);
    }
}

static bool close_groups(struct reader *r)
{
    while (r->groups[r->depth].closes > 0) {
        r->groups[r->depth].closes--;
        if (!put(r, ")", 1)) return false;
    }
    return true;
}

static bool end_group(struct reader *r)
{
    if (!r->depth) return fail(r, QKV_ERR_FORMAT, "a ) without an open group");
    if (!close_groups(r) || !put(r, ")", 1)) return false;
    r->atom = r->groups[r->depth--].start;
    r->quantified = false;
    r->in.at++;
    return true;
}

// ---- characters --------------------------------------------------------------------------------
// Appends a translation of \b (or \B) with the word characters of Oniguruma, because in PCRE2 marks
// are no word characters.
static bool word_edge(struct reader *r, bool edge)
{
    struct qkv_regex_buffer word = { 0 };
    bool ok = qkv_set_shorthand(&r->in, &word, 'w');
    static const char *const parts[2][5] = { { "(?:(?<=[", "])(?![", "])|(?<![", "])(?=[", "]))" },
                                             { "(?:(?<=[", "])(?=[", "])|(?<![", "])(?![",
                                               "]))" } };
    const int64_t start = r->out.count;
    for (int i = 0; i < 5 && ok; i++)
        ok = put_text(r, parts[edge ? 0 : 1][i]) && (i == 4 || put(r, word.at, word.count));
    qkv_free(word.at);
    r->atom = start;
    r->quantified = false;
    return ok;
}

// Copies an escape that has the same meaning in PCRE2, with its brackets or digits; in->at is after
// its letter.
static bool pass_escape(struct reader *r, char c)
{
    char text[80] = { '\\', c };
    size_t n = 2;
    const char open = peek(r, 0), close = open == '<' ? '>' : 0;
    if ((c == 'k' || c == 'g') && close) {
        while (r->in.at < r->in.size && n < sizeof text - 2) {
            text[n++] = r->in.text[r->in.at];
            if (r->in.text[r->in.at++] == close) break;
        }
        if (text[n - 1] != close) return fail(r, QKV_ERR_FORMAT, "the name of a group has no end");
    } else if (c >= '0' && c <= '9') {
        while (peek(r, 0) >= '0' && peek(r, 0) <= '9' && n < 5) text[n++] = r->in.text[r->in.at++];
    } else if (c == 'c' && peek(r, 0)) {
        text[n++] = r->in.text[r->in.at++];
    }
    return put_atom(r, text, (int64_t)n);
}

static bool read_escape(struct reader *r)
{
    const char c = peek(r, 1);
    if (!c) return fail(r, QKV_ERR_FORMAT, "a backslash without a following character");
    if (strchr("dDsSwWhHpP", c)) { // sets
        r->atom = r->out.count;
        r->quantified = false;
        struct qkv_regex_buffer set = { 0 };
        const bool ok = qkv_set_escape(&r->in, &set) && put(r, set.at, set.count);
        qkv_free(set.at);
        return ok;
    }
    if (c == 'b' || c == 'B') {
        r->in.at += 2;
        return word_edge(r, c == 'b');
    }
    if (strchr("AzZK", c)) {
        r->in.at += 2;
        return put_plain(r, (char[]){ '\\', c, 0 });
    }
    if (strchr("RXNkgc0123456789", c)) {
        r->in.at += 2;
        return pass_escape(r, c);
    }
    if (c == 'O') {
        r->in.at += 2;
        return put_atom(r, "(?s:.)", 6);
    }
    if (strchr("yYCMG", c)) return fail(r, QKV_ERR_UNSUPPORTED, "unknown escape");
    uint32_t code;
    char text[16];
    if (!qkv_set_character(&r->in, &code)) return false;
    return put_atom(r, text, qkv_set_spell(text, code));
}

static bool read_one(struct reader *r)
{
    const char c = peek(r, 0);
    r->in.token = r->in.at;
    switch (c) {
    case '\\': return read_escape(r);
    case '(': return read_group(r);
    case ')': return end_group(r);
    case '*':
    case '+':
    case '?':
    case '{': return read_quantifier(r, c);
    case '[': {
        struct qkv_regex_buffer set = { 0 };
        const bool ok = qkv_set_read(&r->in, &set) && put_atom(r, set.at, set.count);
        qkv_free(set.at);
        return ok;
    }
    case '|':
    case '^':
    case '$': r->in.at++; return put_plain(r, (char[]){ c, 0 });
    default: {
        size_t n = qkv_utf8_bytes(r->in.text + r->in.at, (size_t)(r->in.size - r->in.at));
        if (!n) n = 1; // no NUL occurs, and the file is valid UTF-8
        r->in.at += (int64_t)n;
        return put_atom(r, r->in.text + r->in.token, (int64_t)n);
    }
    }
}

// Allocates memory for a translation of this length at once.
static bool reserve(struct reader *r, int64_t bytes)
{
    void *text = NULL, *from = NULL;
    const bool ok = qkv_reserve(&text, &r->out.capacity, bytes, 1) &&
                    qkv_reserve(&from, &r->from_capacity, bytes, sizeof *r->result->from);
    r->out.at = text;
    r->result->from = from;
    return ok || fail(r, QKV_ERR_LIMIT, NULL);
}

bool qkv_syntax_read(struct qkv_syntax *out, const char *regex, struct qkv_regex_error *error)
{
    struct reader r = { .in = { .text = regex, .size = (int64_t)strlen(regex), .error = error },
                        .result = out,
                        .atom = -1 };
    memset(out, 0, sizeof *out);
    memset(error, 0, sizeof *error);
    bool ok = r.in.size <= QKV_REGEX_BYTES ||
              fail(&r, QKV_ERR_UNSUPPORTED, "the expression has more than 65536 bytes");
    ok = ok && reserve(&r, 2 * r.in.size + 64); // most translations are shorter
    while (ok && r.in.at < r.in.size) ok = read_one(&r);
    r.in.token = r.in.size;
    ok = ok && close_groups(&r);
    if (ok && r.depth) ok = fail(&r, QKV_ERR_FORMAT, "a group without its closing )");
    ok = ok && put(&r, "", 1); // NUL-terminated
    out->text = r.out.at;
    out->bytes = ok ? r.out.count - 1 : 0;
    if (!ok) qkv_syntax_free(out);
    return ok;
}

void qkv_syntax_free(struct qkv_syntax *s)
{
    qkv_free(s->text);
    qkv_free(s->from);
    memset(s, 0, sizeof *s);
}
