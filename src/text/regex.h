// SPDX-License-Identifier: MIT
// regex.h: regular expressions of a tokenizer.json, inside of room text.
//
// What a file writes is the syntax of Oniguruma, the reference's engine.  Expressions of well-known
// tokenizers are known by their text and run by scanners of our own, linear in the text
// (pattern.c, pattern_runs.c).  Any other goes through regex_syntax.c, which writes it for PCRE2
// with the same meaning, to regex.c, which runs it within limits.
#ifndef QKV_TEXT_REGEX_H
#define QKV_TEXT_REGEX_H

#include "base/base.h"

// ---- unicode.c: categories as the reference's engine has them ----------------------------------
enum {                         // each character has one of these bits
    QKV_KIND_UPPER = 1 << 0,   // Lu, Lt
    QKV_KIND_LOWER = 1 << 1,   // Ll
    QKV_KIND_LETTER = 1 << 2,  // Lm, Lo
    QKV_KIND_MARK = 1 << 3,    // M*
    QKV_KIND_DIGIT = 1 << 4,   // N*
    QKV_KIND_SPACE = 1 << 5,   // \s but for
    QKV_KIND_NEWLINE = 1 << 6, // CR and LF
    QKV_KIND_PUNCT = 1 << 7,   // P*
    QKV_KIND_SYMBOL = 1 << 8,  // S*
    QKV_KIND_OTHER = 1 << 9
};
unsigned qkv_unicode_kind(uint32_t code);
// What Unicode 14 does not have, by code: PCRE2 may know no more.
struct qkv_later {
    uint32_t first, last;
    uint8_t category; // place of its name in qkv_category_names
};
extern const char qkv_category_names[30][3]; // "", "Lu", "Ll", ...
const struct qkv_later *qkv_unicode_later(int *count);

// ---- pattern.c, pattern_runs.c: expressions known by their text --------------------------------
// The first match in text[*at .. end), *at < end, valid UTF-8: *at is where it begins, the result
// where it ends; none: *at = end, and so is the result.  Looks at each byte a bounded number of
// times, over all the calls that walk a text.
typedef int64_t qkv_pattern_fn(const uint8_t *text, int64_t *at, int64_t end);
qkv_pattern_fn *qkv_pattern_find(const char *regex); // NULL: none of those in tokenizer.def
// Its words, matches or not, always end before a space behind an ASCII letter or digit.
bool qkv_pattern_cuts_at_spaces(qkv_pattern_fn *fn);
#define QKV_PATTERN(name, regex) qkv_pattern_fn qkv_pattern_##name;
#include "text/tokenizer.def"

// ---- regex_syntax.c ----------------------------------------------------------------------------
struct qkv_syntax {
    char *text; // for PCRE2; qkv_free
    int64_t bytes;
    int32_t *from; // for each byte the byte of the expression it stands for; qkv_free
};
enum { QKV_REGEX_BYTES = 1 << 16, QKV_REGEX_DEPTH = 200 };
struct qkv_regex_wrong {
    int64_t offset;    // byte of the expression
    qkv_status status; // QKV_ERR_FORMAT, _UNSUPPORTED, _LIMIT (why NULL: no memory)
    const char *why;
};
bool qkv_syntax_read(struct qkv_syntax *out, const char *regex, struct qkv_regex_wrong *wrong);
void qkv_syntax_free(struct qkv_syntax *s);
int qkv_regex_property(const char *name); // PCRE2 knows \p{name}: 1, 0; -1: no memory

// ---- regex.c -----------------------------------------------------------------------------------
struct qkv_regex; // const once made: any number of threads may use it
struct qkv_expression {
    qkv_pattern_fn *known; // one of the two, or
    struct qkv_regex *regex;
};
static inline bool qkv_expression_any(const struct qkv_expression *x)
{
    return x->known || x->regex;
}
// The expression at $.<key> of at; false: at->err is filled.
bool qkv_expression_new(struct qkv_expression *out, const struct qkv_json_at *at, const char *key,
                        const char *regex);
void qkv_expression_free(struct qkv_expression *x); // zeroed struct is fine

// What the expressions of a tokenizer may take for a text, all of them together.
struct qkv_effort {
    qkv_error *err; // filled when it is used up
    int64_t steps;  // left
};
struct qkv_effort qkv_effort_for(int64_t bytes, qkv_error *err);

// A walk over the matches in texts.
struct qkv_matches {
    const struct qkv_expression *expression;
    struct qkv_effort *effort, own;
    const uint8_t *text;
    int64_t size, at, last; // last: end of the match before, -1: none
    void *data, *context;   // of PCRE2
};
// effort NULL: one of its own for texts of `bytes`.  false: no memory.  m stays where it is.
bool qkv_matches_open(struct qkv_matches *m, const struct qkv_expression *x, int64_t bytes,
                      struct qkv_effort *effort);
void qkv_matches_text(struct qkv_matches *m, const uint8_t *text, int64_t size); // valid UTF-8
// 1: one at *begin .. *end; 0: no more; -1: no memory, or effort's err is filled (both
// QKV_ERR_LIMIT).
int qkv_matches_next(struct qkv_matches *m, int64_t *begin, int64_t *end);
void qkv_matches_close(struct qkv_matches *m); // zeroed struct is fine
#endif
