// SPDX-License-Identifier: MIT
// regex.h: declares the regular expressions of tokenizer files.
//
// The expressions in a tokenizer file have the syntax of Oniguruma, the engine of Hugging Face
// tokenizers.  The expressions of well-known tokenizers are recognized by their text and matched by
// hand-written scanners in linear time (pattern.c, pattern_runs.c).  regex_syntax.c translates
// every other expression for PCRE2, and regex.c runs it within limits.
#ifndef QKV_TEXT_REGEX_H
#define QKV_TEXT_REGEX_H

#include "base/base.h"

// ---- pattern.c, pattern_runs.c: scanners of well-known expressions -----------------------------
// Finds the first match in text[*at .. end), which is not empty and valid UTF-8.  Writes the start
// of the match to *at and returns its end; if there is no match, *at and the result are `end`.  If
// a caller walks through a text, all calls together read each byte a bounded number of times.
typedef int64_t qkv_pattern_fn(const uint8_t *text, int64_t *at, int64_t end);
qkv_pattern_fn *qkv_pattern_find(const char *regex); // NULL: not listed in tokenizer.def
// Returns true if words, both matches and the text between them, always end before a space that
// follows an ASCII letter or digit.
bool qkv_pattern_cuts_at_spaces(qkv_pattern_fn *fn);
#define QKV_PATTERN(name, regex) qkv_pattern_fn qkv_pattern_##name;
#include "text/tokenizer.def"

// ---- regex_syntax.c: Oniguruma to PCRE2 --------------------------------------------------------
struct qkv_syntax {
    char *text; // for PCRE2; qkv_free
    int64_t bytes;
    int32_t *from; // [bytes] the byte of the expression that each byte was made from; qkv_free
};
enum { QKV_REGEX_BYTES = 1 << 16, QKV_REGEX_DEPTH = 200 };
struct qkv_regex_error {
    int64_t offset;    // byte of the expression
    qkv_status status; // QKV_ERR_FORMAT, _UNSUPPORTED, _LIMIT (reason NULL: out of memory)
    const char *reason;
};
bool qkv_syntax_read(struct qkv_syntax *out, const char *regex, struct qkv_regex_error *error);
void qkv_syntax_free(struct qkv_syntax *s);
int qkv_regex_property(const char *name); // whether PCRE2 knows \p{name}: 1, 0; -1: out of memory

// ---- regex.c: matching -------------------------------------------------------------------------
struct qkv_regex;       // immutable after creation: any number of threads may use it
struct qkv_expression { // at most one member is set
    qkv_pattern_fn *known;
    struct qkv_regex *regex;
};
static inline bool qkv_expression_any(const struct qkv_expression *x)
{
    return x->known || x->regex;
}
// Compiles the expression at key `key` of at->object.  Returns false if at->err contains an error.
bool qkv_expression_new(struct qkv_expression *out, const struct qkv_json_at *at, const char *key,
                        const char *regex);
void qkv_expression_free(struct qkv_expression *x); // a zeroed struct is allowed

// The number of PCRE2 steps that all expressions of a tokenizer may use for one text.
struct qkv_effort {
    qkv_error *err;   // receives the error when no steps are left
    int64_t steps;    // left
    const char *file; // path of the tokenizer for the error, or NULL
};
struct qkv_effort qkv_effort_for(int64_t bytes, const char *file, qkv_error *err);

// A walk over the matches in a text.
struct qkv_matches {
    const struct qkv_expression *expression;
    struct qkv_effort *effort, own;
    const uint8_t *text;
    int64_t size, at, last; // last: end of the preceding match, -1: none
    void *data, *context;   // of PCRE2
};
// Begins a walk over the matches in a text.  Steps of PCRE2 count against the budget *effort or, if
// effort is NULL, against a new budget in m for a text of `bytes` bytes.  Returns false if memory
// is exhausted.  m must not be copied or moved.
bool qkv_matches_open(struct qkv_matches *m, const struct qkv_expression *x, int64_t bytes,
                      struct qkv_effort *effort);
void qkv_matches_text(struct qkv_matches *m, const uint8_t *text, int64_t size); // valid UTF-8
// Finds the next match.  Returns 1 with the range *begin .. *end of the match; 0 if there is no
// further match; -1 for QKV_ERR_LIMIT: memory is exhausted, or the budget is used up and
// effort->err has the error.
int qkv_matches_next(struct qkv_matches *m, int64_t *begin, int64_t *end);
void qkv_matches_close(struct qkv_matches *m); // a zeroed struct is allowed
#endif
