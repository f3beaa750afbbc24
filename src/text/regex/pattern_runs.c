// SPDX-License-Identifier: MIT
// pattern_runs.c: matches well-known regular expressions that leave gaps between their matches:
// runs of one kind of character, and the expressions of CLIP, BLOOM and DeepSeek.
//
// If an expression does not match at a position, the scanner has examined a bounded number of
// characters, or it skips the whole run that it examined; so the search takes linear time.
#include "text/regex/pattern.h"
#include <string.h>

// ---- runs --------------------------------------------------------------------------------------
struct run {
    unsigned kind_bits;         // kinds of the characters; 0: `has` decides
    bool (*has)(uint32_t code); // whether the character belongs to the run
    int least, most;            // number of characters; most 0: no limit
    unsigned before;            // kinds of white space that may precede the run
    bool blank;                 // only U+0020 may precede it
};

static bool in_run(const struct run *r, const uint8_t *text, int64_t at, int64_t end, int *n)
{
    if (r->kind_bits) return qkv_kind_at(text, at, end, n) & r->kind_bits;
    return r->has(qkv_code_at(text, at, end, n));
}

// Finds the next run. A run shorter than `least` is skipped completely, because a run that starts
// later in it would be even shorter.
static int64_t find_run(const struct run *r, const uint8_t *text, int64_t *at, int64_t end)
{
    int64_t space = -1; // the white space before i
    int n;
    for (int64_t i = *at; i < end;) {
        const int64_t begin = i;
        int64_t count = 0;
        for (; i < end && (!r->most || count < r->most) && in_run(r, text, i, end, &n); i += n)
            count++;
        if (count && count >= r->least) {
            *at = space >= 0 ? space : begin;
            return i;
        }
        if (count) {
            space = -1;
            continue;
        }
        const unsigned kind = qkv_kind_at(text, i, end, &n);
        space = kind & r->before && (!r->blank || text[i] == ' ') ? i : -1;
        i += n;
    }
    return *at = end;
}

static bool is_line_end(uint32_t c)
{
    return c == '\r' || c == '\n';
}
static bool is_ascii_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}
static bool is_blank(uint32_t c)
{
    return c == ' ';
}
static bool is_han_or_kana(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}
static bool is_east(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x800 && c <= 0x4E00) ||
           (c >= 0xAC00 && c <= 0xD7FF);
}
// Returns true if c is in the set [^(\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])], which
// contains a nested set.
static bool is_bloom(uint32_t c)
{
    if (c < 0x80) return !strchr("(|.,!?) \t\n\v\f\r", (int)c) || !c;
    return c != 0x2026 && c != 0x3002 && c != 0xFF0C && c != 0x3001 && c != 0x964 && c != 0x6D4 &&
           c != 0x60C && !(qkv_unicode_kind(c) & QKV_KIND_SPACES);
}

#define RUN(name, ...)                                                                             \
    int64_t qkv_pattern_##name(const uint8_t *text, int64_t *at, int64_t end)                      \
    {                                                                                              \
        static const struct run r = { __VA_ARGS__ };                                               \
        return find_run(&r, text, at, end);                                                        \
    }
RUN(line_end, .has = is_line_end, .most = 1)
RUN(digit, .kind_bits = QKV_KIND_DIGIT, .most = 1)
RUN(digits_3, .kind_bits = QKV_KIND_DIGIT, .most = 3)
RUN(digits, .kind_bits = QKV_KIND_DIGIT)
RUN(ascii_digit, .has = is_ascii_digit, .most = 1)
RUN(ascii_digits_3, .has = is_ascii_digit, .least = 3, .most = 3)
RUN(spaces, .kind_bits = QKV_KIND_SPACES)
RUN(blanks, .has = is_blank)
RUN(blanks_2, .has = is_blank, .least = 2)
RUN(letters, .kind_bits = QKV_KIND_LETTERS, .before = QKV_KIND_SPACES)
RUN(punctuation, .kind_bits = QKV_KIND_PUNCT, .before = QKV_KIND_SPACES)
RUN(han_or_kana, .has = is_han_or_kana)
RUN(east, .has = is_east)
RUN(bloom, .has = is_bloom, .before = QKV_KIND_SPACE, .blank = true)

// Matches \s+$, where $ matches before each line feed and at the end of the text.
int64_t qkv_pattern_spaces_end(const uint8_t *text, int64_t *at, int64_t end)
{
    for (int64_t i = *at; i < end;) {
        const int64_t begin = i;
        int64_t line = -1; // the last line feed of the run that follows a white space
        int n = 1;
        for (; i < end && qkv_kind_at(text, i, end, &n) & QKV_KIND_SPACES; i += n)
            if (text[i] == '\n' && i > begin) line = i;
        if (i > begin && (i == end || line >= 0)) {
            *at = begin;
            return i == end ? i : line;
        }
        if (i == begin) i += n;
    }
    return *at = end;
}

// ---- expressions of single tokenizers ----------------------------------------------------------
static int64_t starts(const uint8_t *text, int64_t at, int64_t end, const char *name)
{
    const int64_t n = (int64_t)strlen(name);
    return end - at >= n && memcmp(text + at, name, (size_t)n) == 0 ? n : 0;
}

// Finds a match of 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+ if first is 2; if
// first is 0, the expression begins with the alternatives <\|startoftext\|>|<\|endoftext\|>.
static int64_t find_clip(const uint8_t *text, int64_t *at, int64_t end, size_t first)
{
    static const char *const names[] = {
        "<|startoftext|>", "<|endoftext|>", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"
    };
    const unsigned sign = ~(unsigned)(QKV_KIND_LETTERS | QKV_KIND_DIGIT | QKV_KIND_SPACES);
    int n;
    const int64_t i = *at = qkv_run_of(text, *at, end, QKV_KIND_SPACES);
    if (i == end) return end;
    for (size_t k = first; k < sizeof names / sizeof names[0]; k++) {
        const int64_t found = starts(text, i, end, names[k]);
        if (found) return i + found;
    }
    const unsigned kind = qkv_kind_at(text, i, end, &n);
    if (kind == QKV_KIND_DIGIT) return i + n;
    return qkv_run_of(text, i + n, end, kind & sign ? sign : QKV_KIND_LETTERS);
}

int64_t qkv_pattern_clip(const uint8_t *text, int64_t *at, int64_t end)
{
    return find_clip(text, at, end, 2);
}

int64_t qkv_pattern_clip_special(const uint8_t *text, int64_t *at, int64_t end)
{
    return find_clip(text, at, end, 0);
}

static bool is_ascii_letter(uint8_t b)
{
    return (uint8_t)((b | 32) - 'a') < 26;
}

// Matches [!-/:-@\[-`{-~][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ | ?[\p{P}\p{S}]+[\r\n]* |
// \s*[\r\n]+ | \s+(?!\S) | \s+
int64_t qkv_pattern_deepseek3(const uint8_t *text, int64_t *at, int64_t end)
{
    const unsigned word = QKV_KIND_LETTERS | QKV_KIND_MARK;
    const unsigned sign = QKV_KIND_PUNCT | QKV_KIND_SYMBOL;
    int n, more = 0;
    for (int64_t i = *at; i < end; i += n) {
        const unsigned kind = qkv_kind_at(text, i, end, &n);
        const unsigned next = i + n < end ? qkv_kind_at(text, i + n, end, &more) : 0;
        *at = i;
        if (kind & sign && text[i] < 0x80 && i + 1 < end && is_ascii_letter(text[i + 1])) {
            for (i += 2; i < end && is_ascii_letter(text[i]);) i++;
            return i;
        }
        if (kind & word) return qkv_run_of(text, i + n, end, word);
        if (!(kind & (sign | QKV_KIND_NEWLINE)) && next & word)
            return qkv_run_of(text, i + n + more, end, word);
        if (kind & sign || (text[i] == ' ' && next & sign)) {
            i = qkv_run_of(text, i + n, end, sign);
            while (i < end && (text[i] == '\r' || text[i] == '\n')) i++;
            return i;
        }
        if (kind & QKV_KIND_SPACES) return qkv_run_spaces(text, i, end, true);
    }
    return *at = end;
}
