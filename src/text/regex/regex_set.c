// SPDX-License-Identifier: MIT
// regex_set.c: translates the character sets of Oniguruma, which may have nested sets,
// intersections and properties, to PCRE2.
//
// A set is a union of items that PCRE2 accepts in brackets, and of nested sets, which become
// alternatives: [a[^b]] becomes (?:[a]|[^b]).  An intersection becomes a lookahead: [a-z&&[^b]]
// becomes (?:(?=[a-z])[^b]).
#include "text/regex/regex_set.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    SET_DEPTH = 32,
    WRITTEN = 1 << 22 // maximum length of a translated expression
};

bool qkv_set_fail(struct qkv_set_reader *in, qkv_status status, const char *reason)
{
    if (in->error->status) return false;
    *in->error = (struct qkv_regex_error){ in->token, status, reason };
    return false;
}

bool qkv_set_insert(struct qkv_set_reader *in, struct qkv_regex_buffer *b, int64_t at,
                    const char *text, int64_t n)
{
    void *p = b->at;
    if (b->count + n > WRITTEN)
        return qkv_set_fail(in, QKV_ERR_UNSUPPORTED, "a character set is too large");
    if (!qkv_reserve(&p, &b->capacity, b->count + n + 1, 1))
        return qkv_set_fail(in, QKV_ERR_LIMIT, NULL);
    b->at = p;
    if (at < b->count) memmove(b->at + at + n, b->at + at, (size_t)(b->count - at));
    if (n) memcpy(b->at + at, text, (size_t)n);
    b->count += n;
    return true;
}

static bool add(struct qkv_set_reader *in, struct qkv_regex_buffer *b, const char *text)
{
    return qkv_set_insert(in, b, b->count, text, (int64_t)strlen(text));
}

static bool add_buffer(struct qkv_set_reader *in, struct qkv_regex_buffer *b,
                       const struct qkv_regex_buffer *x)
{
    return qkv_set_insert(in, b, b->count, x->at, x->count);
}

static char peek(const struct qkv_set_reader *in, int64_t ahead)
{
    return in->at + ahead < in->size ? in->text[in->at + ahead] : 0;
}

// ---- characters --------------------------------------------------------------------------------
// Writes \x{CODE} to text, without a NUL, and returns its end.
static char *put_code(char *text, uint32_t code)
{
    int shift = 28;
    while (shift && !(code >> shift)) shift -= 4;
    memcpy(text, "\\x{", 3);
    for (text += 3; shift >= 0; shift -= 4) *text++ = "0123456789ABCDEF"[code >> shift & 15];
    *text++ = '}';
    return text;
}

int64_t qkv_set_spell(char text[16], uint32_t code)
{
    const bool plain = (code | 32) - 'a' < 26 || code - '0' < 10;
    char *end = plain ? text + 1 : put_code(text, code);
    if (plain) text[0] = (char)code;
    *end = 0;
    return end - text;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    const char low = (char)(c | 32);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

// Reads a number of up to `most` hexadecimal digits and returns the number of digits.
static int read_hex(struct qkv_set_reader *in, int most, uint32_t *out)
{
    int n = 0;
    for (*out = 0; n < most && hex(peek(in, 0)) >= 0; n++)
        *out = *out << 4 | (uint32_t)hex(in->text[in->at++]);
    return n;
}

// Reads {code} or two hexadecimal digits after \x.  Consecutive \x with values from 80 on are the
// bytes of one character in UTF-8.
static bool read_byte(struct qkv_set_reader *in, uint32_t *code)
{
    uint8_t bytes[4];
    uint32_t one;
    size_t n = 0;
    if (peek(in, 0) == '{') {
        in->at++;
        if (!read_hex(in, 8, code) || peek(in, 0) != '}')
            return qkv_set_fail(in, QKV_ERR_FORMAT, "invalid code point");
        in->at++;
        return true;
    }
    read_hex(in, 2, code);
    if (*code < 0x80) return true;
    for (bytes[n++] = (uint8_t)*code; n < 4 && peek(in, 0) == '\\' && peek(in, 1) == 'x'; n++) {
        if ((size_t)qkv_utf8_read(bytes, n, code) == n) break;
        in->at += 2;
        read_hex(in, 2, &one);
        bytes[n] = (uint8_t)one;
    }
    return (size_t)qkv_utf8_read(bytes, n, code) == n ||
           qkv_set_fail(in, QKV_ERR_FORMAT, "consecutive \\x bytes are not a UTF-8 character");
}

static bool read_escaped(struct qkv_set_reader *in, uint32_t *code)
{
    static const char names[] = "n\nt\tr\rf\fa\ae\033v\vb\b";
    const char c = peek(in, 1);
    if (!c) return qkv_set_fail(in, QKV_ERR_FORMAT, "a backslash without a following character");
    in->at++;
    for (const char *p = names; *p; p += 2)
        if (*p == c) {
            in->at++;
            *code = (uint32_t)p[1];
            return true;
        }
    if (c == 'x' || c == 'u') {
        in->at++;
        if (c == 'x') return read_byte(in, code);
        return read_hex(in, 4, code) == 4 || qkv_set_fail(in, QKV_ERR_FORMAT, "invalid code point");
    }
    if (c == 'c' && peek(in, 1)) {
        *code = (uint32_t)(peek(in, 1) & 0x1F);
        in->at += 2;
        return true;
    }
    if (c >= '0' && c <= '7') {
        *code = 0;
        for (int i = 0; i < 3 && peek(in, 0) >= '0' && peek(in, 0) <= '7'; i++)
            *code = *code * 8 + (uint32_t)(in->text[in->at++] - '0');
        return true;
    }
    const int n =
        qkv_utf8_read((const uint8_t *)in->text + in->at, (size_t)(in->size - in->at), code);
    in->at += n < 0 ? -n : n;
    return true;
}

bool qkv_set_character(struct qkv_set_reader *in, uint32_t *code)
{
    if (peek(in, 0) == '\\') {
        if (!read_escaped(in, code)) return false;
        return (*code < 0x110000 && (*code < 0xD800 || *code > 0xDFFF)) ||
               qkv_set_fail(in, QKV_ERR_FORMAT, "invalid code point");
    }
    const int n =
        qkv_utf8_read((const uint8_t *)in->text + in->at, (size_t)(in->size - in->at), code);
    in->at += n < 0 ? -n : n;
    return true;
}

// ---- properties --------------------------------------------------------------------------------
// Returns true if a general category has a name that begins with `prefix`, one or two letters.
static bool begins(int category, const char *prefix)
{
    const char *name = qkv_category_names[category];
    return name[0] == prefix[0] && (!prefix[1] || name[1] == prefix[1]);
}

// Appends the ranges of recent characters, which PCRE2 may not know, whose category has a name that
// begins with `prefix`, one or two letters.
static bool later(struct qkv_set_reader *in, struct qkv_regex_buffer *out, const char *prefix)
{
    enum { MOST = 32 }; // bytes of a range
    int count;
    const struct qkv_later *l = qkv_unicode_later(&count);
    char text[16 * MOST], *end = text;
    for (int i = 0; i < count; i++) {
        if (!begins(l[i].category, prefix)) continue;
        end = put_code(end, l[i].first);
        *end++ = '-';
        end = put_code(end, l[i].last);
        if (end <= text + sizeof text - MOST) continue;
        if (!qkv_set_insert(in, out, out->count, text, end - text)) return false;
        end = text;
    }
    return qkv_set_insert(in, out, out->count, text, end - text);
}

// Sets *known to whether PCRE2 knows \p{name}.  Returns false if memory is exhausted.
static bool ask(struct qkv_set_reader *in, const char *name, bool *known)
{
    const int answer = qkv_regex_property(name);
    *known = answer > 0;
    return answer >= 0 || qkv_set_fail(in, QKV_ERR_LIMIT, NULL);
}

static bool category(struct qkv_set_reader *in, struct qkv_regex_buffer *out, const char *name)
{
    return add(in, out, "\\p{") && add(in, out, name) && add(in, out, "}") && later(in, out, name);
}

// Properties that are appended where PCRE2 knows them.  PCRE2 is asked once: the answer costs the
// compilation of an expression.
enum optional { ALPHABETIC, UPPERCASE, LOWERCASE, OPTIONAL };
static bool optional(struct qkv_set_reader *in, struct qkv_regex_buffer *out, enum optional which)
{
    static const char *const names[OPTIONAL] = { "Alphabetic", "Uppercase", "Lowercase" };
    static _Atomic signed char answers[OPTIONAL]; // 1: known, -1: not known, 0: not yet asked
    signed char answer = atomic_load_explicit(&answers[which], memory_order_relaxed);
    if (!answer) {
        bool known;
        if (!ask(in, names[which], &known)) return false;
        answer = known ? 1 : -1;
        atomic_store_explicit(&answers[which], answer, memory_order_relaxed);
    }
    return answer < 0 || (add(in, out, "\\p{") && add(in, out, names[which]) && add(in, out, "}"));
}

static bool alphabetic(struct qkv_set_reader *in, struct qkv_regex_buffer *out)
{
    return category(in, out, "L") && category(in, out, "Nl") && optional(in, out, ALPHABETIC);
}

static bool put_word_class(struct qkv_set_reader *in, struct qkv_regex_buffer *out)
{
    return alphabetic(in, out) && category(in, out, "M") && category(in, out, "Nd") &&
           category(in, out, "Pc");
}

bool qkv_set_shorthand(struct qkv_set_reader *in, struct qkv_regex_buffer *out, char which)
{
    switch (which) {
    case 'd': return category(in, out, "Nd");
    case 'h': return add(in, out, "0-9A-Fa-f");
    case 's': // without U+180E, unlike in PCRE2
        return add(in, out,
                   "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}"
                   "\\x{2029}\\x{202F}\\x{205F}\\x{3000}");
    default: // includes the superscripts and fractions of Latin-1, whatever their category
        return put_word_class(in, out) && add(in, out, "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}");
    }
}

// The long names of categories, each followed by its short name.
static const char long_names[] =
    "letter L uppercaseletter Lu lowercaseletter Ll titlecaseletter Lt modifierletter Lm "
    "otherletter Lo mark M nonspacingmark Mn spacingmark Mc enclosingmark Me number N "
    "decimalnumber Nd letternumber Nl othernumber No punctuation P connectorpunctuation Pc "
    "dashpunctuation Pd openpunctuation Ps closepunctuation Pe initialpunctuation Pi "
    "finalpunctuation Pf otherpunctuation Po symbol S mathsymbol Sm currencysymbol Sc "
    "modifiersymbol Sk othersymbol So separator Z spaceseparator Zs lineseparator Zl "
    "paragraphseparator Zp other C control Cc format Cf privateuse Co unassigned Cn ";

static bool short_name(const char *name, char code[3])
{
    const size_t n = strlen(name);
    for (const char *p = long_names; *p;) {
        const size_t one = strcspn(p, " "), two = strcspn(p + one + 1, " ");
        if (one == n && memcmp(p, name, n) == 0) {
            memcpy(code, p + one + 1, two);
            code[two] = 0;
            return true;
        }
        p += one + two + 2;
    }
    return false;
}

static bool put_posix_class(struct qkv_set_reader *in, struct qkv_regex_buffer *out,
                            const char *name, bool *found)
{
    *found = true;
    if (strcmp(name, "digit") == 0) return qkv_set_shorthand(in, out, 'd');
    if (strcmp(name, "space") == 0) return qkv_set_shorthand(in, out, 's');
    if (strcmp(name, "word") == 0) return put_word_class(in, out);
    if (strcmp(name, "xdigit") == 0) return qkv_set_shorthand(in, out, 'h');
    if (strcmp(name, "alpha") == 0) return alphabetic(in, out);
    if (strcmp(name, "alnum") == 0) return alphabetic(in, out) && category(in, out, "Nd");
    if (strcmp(name, "punct") == 0) return category(in, out, "P") && category(in, out, "S");
    if (strcmp(name, "cntrl") == 0) return add(in, out, "\\p{Cc}");
    if (strcmp(name, "ascii") == 0) return add(in, out, "\\x00-\\x7F");
    if (strcmp(name, "blank") == 0) return add(in, out, "\\t\\p{Zs}");
    if (strcmp(name, "any") == 0) return add(in, out, "\\x00-\\x{10FFFF}");
    const bool upper = strcmp(name, "upper") == 0;
    if (upper || strcmp(name, "lower") == 0)
        return category(in, out, upper ? "Lu" : "Ll") &&
               optional(in, out, upper ? UPPERCASE : LOWERCASE);
    return *found = false;
}

// Returns whether a general category has this name, or names that begin with this letter: PCRE2
// knows all of them.
static bool is_category(const char code[3])
{
    const int count = sizeof qkv_category_names / sizeof qkv_category_names[0];
    for (int i = 1; i < count; i++)
        if (begins(i, code)) return true;
    return false;
}

// Appends what a PCRE2 set must contain for the property `name`, which consists of lower-case
// letters and digits.
static bool property(struct qkv_set_reader *in, struct qkv_regex_buffer *out, const char *name)
{
    char script[64];
    bool found, known = false, scripted;
    const size_t n = strlen(name);
    char code[3] = { 0 };
    if (n == 1 || n == 2) { // L, Lu, ...
        code[0] = (char)(name[0] - 32);
        code[1] = n == 2 ? name[1] : 0;
        known = is_category(code);
        if (!known && !ask(in, code, &known)) return false;
        if (known) return category(in, out, code);
    }
    if (short_name(name, code)) return category(in, out, code);
    if (strcmp(name, "word") == 0) return qkv_set_shorthand(in, out, 'w');
    if (strcmp(name, "punct") == 0) return category(in, out, "P");
    if (put_posix_class(in, out, name, &found) || found) return in->error->status == QKV_OK;
    snprintf(script, sizeof script, "sc:%.48s", name);
    if (!ask(in, script, &scripted) || !ask(in, name, &known)) return false;
    if (!scripted && !known)
        return qkv_set_fail(in, QKV_ERR_UNSUPPORTED, "unknown character property");
    return add(in, out, "\\p{") && add(in, out, scripted ? script : name) && add(in, out, "}");
}

// Reads a name up to and including the character `close`, and writes it in lower case without
// spaces, hyphens and underscores.
static bool read_name(struct qkv_set_reader *in, char close, char name[48], bool *negative)
{
    size_t n = 0;
    if (peek(in, 0) == '^') {
        *negative = !*negative;
        in->at++;
    }
    for (; peek(in, 0) && peek(in, 0) != close; in->at++) {
        const char c = peek(in, 0), low = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        if (c == ' ' || c == '-' || c == '_') continue;
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9')) || n == 47)
            return qkv_set_fail(in, QKV_ERR_FORMAT, "invalid name of a character property");
        name[n++] = low;
    }
    name[n] = 0;
    if (!n || !peek(in, 0))
        return qkv_set_fail(in, QKV_ERR_FORMAT, "a character property without a name");
    in->at++;
    return true;
}

// Reads one of \d \D \s \S \w \W \h \H \p{..} \P{..} \pL and appends what a PCRE2 set must contain
// for it.
static bool read_property(struct qkv_set_reader *in, struct qkv_regex_buffer *out, bool *negative)
{
    const char c = peek(in, 1), low = (char)(c | 32);
    char name[48] = "";
    *negative = c < 'a';
    in->at += 2;
    if (low != 'p') return qkv_set_shorthand(in, out, low);
    if (peek(in, 0) != '{') return qkv_set_fail(in, QKV_ERR_FORMAT, "\\p without {name}");
    in->at++;
    return read_name(in, '}', name, negative) && property(in, out, name);
}

bool qkv_set_escape(struct qkv_set_reader *in, struct qkv_regex_buffer *out)
{
    struct qkv_regex_buffer set = { 0 };
    bool negative;
    const bool ok = read_property(in, &set, &negative) && add(in, out, negative ? "[^" : "[") &&
                    add_buffer(in, out, &set) && add(in, out, "]");
    qkv_free(set.at);
    return ok;
}

// ---- sets --------------------------------------------------------------------------------------
struct set {
    struct qkv_regex_buffer simple; // between brackets
    struct qkv_regex_buffer others; // alternatives
    struct qkv_regex_buffer before; // (?=..) of the intersected sets
    bool negated;
};

static void set_free(struct set *s)
{
    qkv_free(s->simple.at);
    qkv_free(s->others.at);
    qkv_free(s->before.at);
}

// Appends the union that was read last, which may be negated, as an expression.
static bool put_union(struct qkv_set_reader *in, struct qkv_regex_buffer *out, const struct set *s)
{
    const bool simple = s->simple.count > 0, others = s->others.count > 0;
    if (!simple && !others) return qkv_set_fail(in, QKV_ERR_FORMAT, "empty character set");
    return (!others || add(in, out, "(?:")) &&
           (!simple ||
            (add(in, out, "[") && add_buffer(in, out, &s->simple) && add(in, out, "]"))) &&
           (!simple || !others || add(in, out, "|")) && add_buffer(in, out, &s->others) &&
           (!others || add(in, out, ")"));
}

static bool put_set(struct qkv_set_reader *in, struct qkv_regex_buffer *out, const struct set *s)
{
    if (s->negated && !s->others.count && !s->before.count && s->simple.count)
        return add(in, out, "[^") && add_buffer(in, out, &s->simple) && add(in, out, "]");
    return add(in, out, s->negated ? "(?:(?!" : "(?:") && add_buffer(in, out, &s->before) &&
           put_union(in, out, s) && add(in, out, s->negated ? ")(?s:.))" : ")");
}

static bool add_other(struct qkv_set_reader *in, struct set *s, const char *open,
                      const struct qkv_regex_buffer *x, const char *close)
{
    return (!s->others.count || add(in, &s->others, "|")) && add(in, &s->others, open) &&
           add_buffer(in, &s->others, x) && add(in, &s->others, close);
}

static bool read_set(struct qkv_set_reader *in, struct set *out);

// Reads a set that is nested in s.
static bool read_inner(struct qkv_set_reader *in, struct set *s)
{
    struct set inner = { 0 };
    struct qkv_regex_buffer text = { 0 };
    bool ok = read_set(in, &inner);
    if (ok && !inner.negated && !inner.others.count && !inner.before.count && inner.simple.count)
        ok = add_buffer(in, &s->simple, &inner.simple);
    else
        ok = ok && put_set(in, &text, &inner) && add_other(in, s, "", &text, "");
    qkv_free(text.at);
    set_free(&inner);
    return ok;
}

// Reads [:name:] and appends it to s; *is becomes false if the text at this position does not have
// that form.
static bool read_posix(struct qkv_set_reader *in, struct set *s, bool *is)
{
    struct qkv_regex_buffer text = { 0 };
    char name[48];
    bool negative = false, found = false;
    int64_t i = 2;
    while (peek(in, i) == '^' || (peek(in, i) >= 'a' && peek(in, i) <= 'z')) i++;
    *is = peek(in, 1) == ':' && i > 2 && peek(in, i) == ':' && peek(in, i + 1) == ']';
    if (!*is) return true;
    in->at += 2;
    bool ok = read_name(in, ':', name, &negative);
    in->at++;
    ok = ok && put_posix_class(in, &text, name, &found);
    if (!found) ok = qkv_set_fail(in, QKV_ERR_UNSUPPORTED, "unknown POSIX class");
    ok = ok && (negative ? add_other(in, s, "[^", &text, "]") : add_buffer(in, &s->simple, &text));
    qkv_free(text.at);
    return ok;
}

static bool is_property(const struct qkv_set_reader *in, int64_t ahead)
{
    const char c = peek(in, ahead + 1);
    return peek(in, ahead) == '\\' && c && strchr("dDsSwWhHpP", c);
}

// Reads a character or a range of characters.
static bool read_range(struct qkv_set_reader *in, struct set *s)
{
    uint32_t first, last;
    char text[16];
    if (!qkv_set_character(in, &first)) return false;
    last = first;
    if (peek(in, 0) == '-' && peek(in, 1) && peek(in, 1) != ']' && peek(in, 1) != '[') {
        in->at++;
        if (is_property(in, 0))
            return qkv_set_fail(in, QKV_ERR_FORMAT, "a character set as the end of a range");
        if (!qkv_set_character(in, &last)) return false;
    }
    if (last < first)
        return qkv_set_fail(in, QKV_ERR_FORMAT, "a character range that ends before it begins");
    qkv_set_spell(text, first);
    if (!add(in, &s->simple, text)) return false;
    if (last == first) return true;
    qkv_set_spell(text, last);
    return add(in, &s->simple, "-") && add(in, &s->simple, text);
}

static bool read_item(struct qkv_set_reader *in, struct set *s)
{
    struct qkv_regex_buffer text = { 0 };
    bool is = false, negative = false;
    in->token = in->at;
    if (peek(in, 0) == '[') {
        if (!read_posix(in, s, &is)) return false;
        return is || read_inner(in, s);
    }
    if (peek(in, 0) == '&' && peek(in, 1) == '&') {
        in->at += 2;
        bool ok =
            add(in, &s->before, "(?=") && put_union(in, &s->before, s) && add(in, &s->before, ")");
        s->simple.count = s->others.count = 0;
        return ok;
    }
    if (!is_property(in, 0)) return read_range(in, s);
    const bool ok =
        read_property(in, &text, &negative) &&
        (negative ? add_other(in, s, "[^", &text, "]") : add_buffer(in, &s->simple, &text));
    qkv_free(text.at);
    return ok;
}

static bool read_set(struct qkv_set_reader *in, struct set *out)
{
    if (in->depth == SET_DEPTH)
        return qkv_set_fail(in, QKV_ERR_UNSUPPORTED, "character sets are nested too deep");
    in->depth++;
    in->at++;
    if (peek(in, 0) == '^') {
        out->negated = true;
        in->at++;
    }
    // A ] at the start of a set is a character if another ] follows.
    bool first = peek(in, 0) == ']' && in->at + 1 < in->size &&
                 memchr(in->text + in->at + 1, ']', (size_t)(in->size - in->at - 1));
    while (first || peek(in, 0) != ']') {
        if (in->at >= in->size)
            return qkv_set_fail(in, QKV_ERR_FORMAT, "a character set without its closing ]");
        if (!read_item(in, out)) return false;
        first = false;
    }
    in->at++;
    in->depth--;
    return true;
}

bool qkv_set_read(struct qkv_set_reader *in, struct qkv_regex_buffer *out)
{
    struct set s = { 0 };
    const bool ok = read_set(in, &s) && put_set(in, out, &s);
    set_free(&s);
    return ok;
}
