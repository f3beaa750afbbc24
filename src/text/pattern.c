// SPDX-License-Identifier: MIT
// pattern.c: the regular expressions that cut a text into words for byte-level BPE, as scanners.
//
// Each follows its expression alternative by alternative, in their order; the rows are in
// tokenizer.def, next to the text that a file must have for it.  Those of this file match
// everywhere: what one call leaves begins the next.  The others are in pattern_runs.c.
#include "text/pattern.h"
#include <string.h>

#define UPPER   QKV_KIND_UPPER
#define LOWER   QKV_KIND_LOWER
#define LETTER  QKV_KIND_LETTER // of no case
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

// 's|'t|'re|'ve|'m|'ll|'d at text[at]: its bytes, 0: none.
static int contraction(const uint8_t *text, int64_t at, int64_t end)
{
    const int64_t left = end - at;
    if (left < 2 || text[at] != '\'') return 0;
    const uint8_t a = text[at + 1], b = left > 2 ? text[at + 2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d): the long s is one, too.
static int contraction_any_case(const uint8_t *text, int64_t at, int64_t end)
{
    const int64_t left = end - at;
    if (left < 2 || text[at] != '\'') return 0;
    const uint8_t a = text[at + 1] | 32, b = left > 2 ? text[at + 2] | 32 : 0;
    if (text[at + 1] >= 0x80) return left > 2 && memcmp(text + at + 1, "\xC5\xBF", 2) == 0 ? 3 : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

int64_t qkv_run_of(const uint8_t *text, int64_t at, int64_t end, unsigned kinds)
{
    int n;
    while (at < end && qkv_kind_at(text, at, end, &n) & kinds) at += n;
    return at;
}

int64_t qkv_run_spaces(const uint8_t *text, int64_t at, int64_t end, bool lines)
{
    int64_t i = at, last = at, line = at; // where the last one starts; behind the last CR or LF
    for (int n; i < end; i += n) {
        const unsigned kind = qkv_kind_at(text, i, end, &n);
        if (!(kind & QKV_KIND_SPACES)) break;
        last = i;
        if (kind == NEWLINE) line = i + n;
    }
    if (lines && line > at) return line;
    // A run before something else leaves its last character to that, if it has two.
    return i == end || last == at ? i : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
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

// ---- the family of cl100k ----------------------------------------------------------------------
// Alternatives of (?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?WORD | \p{N}{1,digits}
//               | ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
struct shape {
    bool first; // contractions stand before all other alternatives
    bool tail;  // or behind a word
    bool cased; // WORD is an upper run and a lower one, else letters
    bool marks; // among letters, and not among what is neither letter nor digit
    bool line;  // [\r\n]* follows signs
    bool slash; // and / among it
    int digits;
};

// [UB]*[LB]+ | [UB]+[LB]* from text[at], U upper, L lower case, B what has none:
// where it ends, at: it does not match.
//
// The first takes the whole run of UB, and of LB what follows; where no L follows it gives back up
// to the last B.  Only where the run has no B either the second matches.
static int64_t cased_word(const uint8_t *text, int64_t at, int64_t end)
{
    int64_t i = at, both = -1; // behind the last B
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
