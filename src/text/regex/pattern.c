// SPDX-License-Identifier: MIT
// pattern.c: matches well-known regular expressions of byte-level BPE by hand-written scanners.
//
// Each scanner tries the alternatives of its expression in their order; tokenizer.def lists the
// scanners with the text of their expressions.  The expressions of this file match every character,
// so each match starts where the previous match ended.  pattern_runs.c contains the other
// expressions.
#include "text/regex/pattern.h"
#include <string.h>

#define UPPER   QKV_KIND_UPPER
#define LOWER   QKV_KIND_LOWER
#define LETTER  QKV_KIND_LETTER // a letter without case
#define MARK    QKV_KIND_MARK
#define DIGIT   QKV_KIND_DIGIT
#define NEWLINE QKV_KIND_NEWLINE
#define PUNCT   QKV_KIND_PUNCT
#define SYMBOL  QKV_KIND_SYMBOL
#define OTHER   QKV_KIND_OTHER
#define BLANK   QKV_KIND_SPACE

const uint16_t qkv_ascii_kind[128] = {
    OTHER,  OTHER, OTHER,   OTHER,  OTHER,  OTHER,   OTHER,  OTHER, // NUL
    OTHER,  BLANK, NEWLINE, BLANK,  BLANK,  NEWLINE, OTHER,  OTHER, // HT LF VT FF CR
    OTHER,  OTHER, OTHER,   OTHER,  OTHER,  OTHER,   OTHER,  OTHER, // DLE
    OTHER,  OTHER, OTHER,   OTHER,  OTHER,  OTHER,   OTHER,  OTHER, // CAN
    BLANK,  PUNCT, PUNCT,   PUNCT,  SYMBOL, PUNCT,   PUNCT,  PUNCT, // ' ' ! " # $ % & '
    PUNCT,  PUNCT, PUNCT,   SYMBOL, PUNCT,  PUNCT,   PUNCT,  PUNCT, // ( ) * + , - . /
    DIGIT,  DIGIT, DIGIT,   DIGIT,  DIGIT,  DIGIT,   DIGIT,  DIGIT, // 0
    DIGIT,  DIGIT, PUNCT,   PUNCT,  SYMBOL, SYMBOL,  SYMBOL, PUNCT, // 8 9 : ; < = > ?
    PUNCT,  UPPER, UPPER,   UPPER,  UPPER,  UPPER,   UPPER,  UPPER, // @ A
    UPPER,  UPPER, UPPER,   UPPER,  UPPER,  UPPER,   UPPER,  UPPER, // H
    UPPER,  UPPER, UPPER,   UPPER,  UPPER,  UPPER,   UPPER,  UPPER, // P
    UPPER,  UPPER, UPPER,   PUNCT,  PUNCT,  PUNCT,   SYMBOL, PUNCT, // X Y Z [ \ ] ^ _
    SYMBOL, LOWER, LOWER,   LOWER,  LOWER,  LOWER,   LOWER,  LOWER, // ` a
    LOWER,  LOWER, LOWER,   LOWER,  LOWER,  LOWER,   LOWER,  LOWER, // h
    LOWER,  LOWER, LOWER,   LOWER,  LOWER,  LOWER,   LOWER,  LOWER, // p
    LOWER,  LOWER, LOWER,   PUNCT,  SYMBOL, PUNCT,   SYMBOL, OTHER  // x y z { | } ~ DEL
};

// Returns the number of bytes that 's|'t|'re|'ve|'m|'ll|'d matches at text[at]; 0 if it does not
// match.
static int contraction(const uint8_t *text, int64_t at, int64_t end)
{
    const int64_t left = end - at;
    if (left < 2 || text[at] != '\'') return 0;
    const uint8_t a = text[at + 1], b = left > 2 ? text[at + 2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Returns the number of bytes that (?i:'s|'t|'re|'ve|'m|'ll|'d) matches at text[at]; 0 if it does
// not match.  The long s (U+017F) counts as s.
static int contraction_any_case(const uint8_t *text, int64_t at, int64_t end)
{
    const int64_t left = end - at;
    if (left < 2 || text[at] != '\'') return 0;
    const uint8_t a = text[at + 1] | 32, b = left > 2 ? text[at + 2] | 32 : 0;
    if (text[at + 1] >= 0x80) return left > 2 && memcmp(text + at + 1, "\xC5\xBF", 2) == 0 ? 3 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

int64_t qkv_run_of(const uint8_t *text, int64_t at, int64_t end, unsigned kind_bits)
{
    int n;
    while (at < end && qkv_kind_at(text, at, end, &n) & kind_bits) at += n;
    return at;
}

int64_t qkv_run_spaces(const uint8_t *text, int64_t at, int64_t end, bool lines)
{
    int64_t i = at, last = at, line = at; // start of the last character; end of the last CR or LF
    for (int n; i < end; i += n) {
        const unsigned kind = qkv_kind_at(text, i, end, &n);
        if (!(kind & QKV_KIND_SPACES)) break;
        last = i;
        if (kind == NEWLINE) line = i + n;
    }
    if (lines && line > at) return line;
    // If another character follows the run, and the run has at least two characters, its last
    // character belongs to the next match.
    return i == end || last == at ? i : last;
}

// Matches 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
int64_t qkv_pattern_gpt2(const uint8_t *text, int64_t *from, int64_t end)
{
    static const unsigned sets[3] = { QKV_KIND_LETTERS, DIGIT,
                                      ~(unsigned)(QKV_KIND_LETTERS | DIGIT | QKV_KIND_SPACES) };
    const int64_t at = *from;
    int n;
    const int short_form = contraction(text, at, end);
    if (short_form) return at + short_form;
    int64_t first = at;
    unsigned kind = qkv_kind_at(text, first, end, &n);
    if (text[at] == ' ' && at + 1 < end) kind = qkv_kind_at(text, ++first, end, &n);
    for (int i = 0; i < 3; i++)
        if (kind & sets[i]) return qkv_run_of(text, first + n, end, sets[i]);
    return qkv_run_spaces(text, at, end, false);
}

// ---- cl100k and its variants -------------------------------------------------------------------
// Alternatives of (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?WORD | \p{N}{1,digits}
//               | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
struct shape {
    bool first; // contractions come before all other alternatives
    bool tail;  // or at the end of a word
    bool cased; // WORD is a run of upper case followed by lower case; otherwise letters
    bool marks; // marks count as letters and do not match [^\s\p{L}\p{N}]
    bool line;  // [\r\n]* after [^\s\p{L}\p{N}]+
    bool slash; // and / in that set
    int digits;
};

// Returns the end of the match of [UB]*[LB]+ | [UB]+[LB]* at text[at], where U is a letter of upper
// case, L of lower case and B without case; returns `at` if it does not match.
//
// The first alternative matches the whole run of U and B and the run of L and B after it; if no L
// follows, it backtracks to the last B.  The second alternative is used only if the run contains no
// B.
static int64_t cased_word(const uint8_t *text, int64_t at, int64_t end)
{
    int64_t i = at, both = -1; // end of the last B
    unsigned kind = 0;
    for (int n; i < end; i += n) {
        kind = qkv_kind_at(text, i, end, &n);
        if (!(kind & (UPPER | LETTER | MARK))) break;
        if (kind != UPPER) both = i + n;
    }
    if (i < end && kind == LOWER) return qkv_run_of(text, i, end, LOWER | LETTER | MARK);
    return both >= 0 ? both : i;
}

static int64_t word_from(const struct shape *s, const uint8_t *text, int64_t at, int64_t end)
{
    int64_t to = at;
    if (!s->cased)
        to = qkv_run_of(text, at, end, QKV_KIND_LETTERS | (s->marks ? MARK : 0));
    else
        to = cased_word(text, at, end);
    return to > at && s->tail ? to + contraction_any_case(text, to, end) : to;
}

static inline int64_t like_cl100k(const struct shape *s, const uint8_t *text, int64_t at,
                                  int64_t end)
{
    const unsigned no_sign = QKV_KIND_LETTERS | DIGIT | QKV_KIND_SPACES;
    const unsigned sign = ~(s->marks ? no_sign | MARK : no_sign);
    const unsigned in_word = QKV_KIND_LETTERS | (s->marks || s->cased ? MARK : 0);
    int n, more;
    const int short_form = s->first ? contraction_any_case(text, at, end) : 0;
    if (short_form) return at + short_form;
    const unsigned kind = qkv_kind_at(text, at, end, &n);
    if (kind & in_word) return word_from(s, text, at, end);
    if (kind == DIGIT) {
        int64_t i = at + n;
        for (int k = 1; k < s->digits && i < end; k++, i += n)
            if (qkv_kind_at(text, i, end, &n) != DIGIT) break;
        return i;
    }
    if (kind != NEWLINE) {
        const int64_t to = word_from(s, text, at + n, end);
        if (to > at + n) return to;
    }
    const int64_t first = text[at] == ' ' ? at + 1 : at;
    if (first < end && qkv_kind_at(text, first, end, &more) & sign) {
        int64_t i = qkv_run_of(text, first + more, end, sign);
        while (s->line && i < end &&
               (text[i] == '\r' || text[i] == '\n' || (s->slash && text[i] == '/')))
            i++;
        return i;
    }
    return qkv_run_spaces(text, at, end, true);
}

#define LIKE_CL100K(name, ...)                                                                     \
    int64_t qkv_pattern_##name(const uint8_t *text, int64_t *at, int64_t end)                      \
    {                                                                                              \
        static const struct shape s = { __VA_ARGS__ };                                             \
        return like_cl100k(&s, text, *at, end);                                                    \
    }
LIKE_CL100K(cl100k, .first = true, .line = true, .digits = 3)
LIKE_CL100K(qwen2, .first = true, .line = true, .digits = 1)
LIKE_CL100K(qwen35, .first = true, .line = true, .digits = 1, .marks = true)
LIKE_CL100K(o200k, .tail = true, .cased = true, .line = true, .slash = true, .digits = 3)
LIKE_CL100K(o200k_digit, .tail = true, .cased = true, .line = true, .slash = true, .digits = 1)
LIKE_CL100K(tekken, .cased = true, .line = true, .slash = true, .digits = 1)

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

bool qkv_pattern_cuts_at_spaces(qkv_pattern_fn *fn)
{
    qkv_pattern_fn *const all[] = {
        qkv_pattern_gpt2,  qkv_pattern_cl100k,       qkv_pattern_qwen2,  qkv_pattern_qwen35,
        qkv_pattern_o200k, qkv_pattern_o200k_digit,  qkv_pattern_tekken, qkv_pattern_deepseek3,
        qkv_pattern_clip,  qkv_pattern_clip_special, qkv_pattern_bloom,  qkv_pattern_spaces,
        qkv_pattern_blanks
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] == fn) return true;
    return false;
}
