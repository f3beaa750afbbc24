// SPDX-License-Identifier: MIT
// unicode.c: reads and writes UTF-8 and looks up properties of characters, with the same results as
// Hugging Face tokenizers.
//
// Categories, case and decomposition come from libutf8proc (2.8: Unicode 15.0).  The components of
// Hugging Face tokenizers use tables of other Unicode versions (punctuation and marks of BERT: 8,
// \w: 16, ...); unicode_fix.h lists the ranges where these tables differ from libutf8proc, measured
// over all code points by tools/golden_text.py.
#include "text/text_internal.h"
#include <string.h>
#include <utf8proc.h>

// A range of code points for which Hugging Face tokenizers and utf8proc disagree about a property.
// Lists of ranges are sorted.
struct fix {
    uint32_t first, last;
    bool has;
};
// A range of code points: the lower case of each code in first .. last is code + add.
struct fix_lower {
    uint32_t first, last;
    int32_t add;
};
#include "text/unicode/unicode_fix.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static bool fixed(const struct fix *f, int count, uint32_t code, bool has)
{
    int low = 0, high = count;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (f[mid].last < code)
            low = mid + 1;
        else
            high = mid;
    }
    return low < count && f[low].first <= code ? f[low].has : has;
}

int qkv_utf8_read(const uint8_t *p, size_t n, uint32_t *code)
{
    const uint8_t a = p[0];
    if (a < 0x80) {
        *code = a;
        return 1;
    }
    const int want = a >= 0xC2 && a <= 0xDF   ? 2
                     : a >= 0xE0 && a <= 0xEF ? 3
                     : a >= 0xF0 && a <= 0xF4 ? 4
                                              : 1;
    // Some lead bytes restrict the second byte, to exclude overlong forms, surrogates and
    // characters above U+10FFFF.
    const uint8_t low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
    uint32_t c = want == 2 ? a & 0x1Fu : want == 3 ? a & 0x0Fu : a & 0x07u;
    int i = 1;
    for (; i < want && (size_t)i < n; i++) {
        if (i == 1 ? p[i] < low || p[i] > high : !qkv_utf8_continues(p[i])) break;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    if (want > 1 && i == want) {
        *code = c;
        return want;
    }
    *code = 0xFFFD;
    return -i;
}

int qkv_utf8_write(uint8_t *p, uint32_t code)
{
    if (code < 0x80) {
        p[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        p[0] = (uint8_t)(0xC0 | code >> 6);
        p[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        p[0] = (uint8_t)(0xE0 | code >> 12);
        p[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        p[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    p[0] = (uint8_t)(0xF0 | code >> 18);
    p[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    p[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    p[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

static int category(uint32_t code)
{
    return utf8proc_get_property((utf8proc_int32_t)code)->category;
}

static bool is_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
    const int c = category(code);
    return code == 0x85 || c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL ||
           c == UTF8PROC_CATEGORY_ZP;
}

static bool is_punct(uint32_t code)
{
    if (code < 0x80)
        return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
               (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
    const int c = category(code);
    return fixed(fix_punct, COUNT(fix_punct), code,
                 c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO);
}

static bool is_number(uint32_t code)
{
    if (code < 0x80) return code >= '0' && code <= '9';
    const int c = category(code);
    return fixed(fix_number, COUNT(fix_number), code,
                 c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

static bool is_word(uint32_t code)
{
    if (code < 0x80)
        return code == '_' || (code >= '0' && code <= '9') ||
               ((code | 32) >= 'a' && (code | 32) <= 'z');
    const int c = category(code);
    return fixed(fix_word, COUNT(fix_word), code,
                 (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) ||
                     c == UTF8PROC_CATEGORY_PC);
}

// ---- categories for regular expressions --------------------------------------------------------
const char qkv_category_names[30][3] = {
    "",   "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"
}; // in the order of utf8proc

const struct qkv_later *qkv_unicode_later(int *count)
{
    *count = COUNT(fix_later);
    return fix_later;
}

unsigned qkv_unicode_kind(uint32_t code)
{
    if (is_space(code)) return code == '\n' || code == '\r' ? QKV_KIND_NEWLINE : QKV_KIND_SPACE;
    int c = category(code), low = 0, high = code < fix_later[0].first ? 0 : COUNT(fix_later);
    while (low < high) {
        const int mid = (low + high) / 2;
        if (fix_later[mid].last < code)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < COUNT(fix_later) && fix_later[low].first <= code) c = fix_later[low].category;
    if (c == UTF8PROC_CATEGORY_LL) return QKV_KIND_LOWER;
    if (c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT) return QKV_KIND_UPPER;
    if (c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO) return QKV_KIND_LETTER;
    if (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) return QKV_KIND_MARK;
    if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) return QKV_KIND_DIGIT;
    if (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO) return QKV_KIND_PUNCT;
    return c >= UTF8PROC_CATEGORY_SM && c <= UTF8PROC_CATEGORY_SO ? QKV_KIND_SYMBOL
                                                                  : QKV_KIND_OTHER;
}

unsigned qkv_unicode_class(uint32_t code, unsigned wanted)
{
    unsigned has = 0;
    if (wanted & QKV_CLASS_SPACE && is_space(code)) has |= QKV_CLASS_SPACE;
    if (wanted & QKV_CLASS_PUNCT && is_punct(code)) has |= QKV_CLASS_PUNCT;
    if (wanted & QKV_CLASS_NUMBER && is_number(code)) has |= QKV_CLASS_NUMBER;
    if (wanted & QKV_CLASS_WORD && is_word(code)) has |= QKV_CLASS_WORD;
    return has;
}

// Returns true for the class "other" of Hugging Face tokenizers: control, format and private use
// characters, but not unassigned code points.
bool qkv_unicode_other(uint32_t code)
{
    const int c = category(code);
    return fixed(fix_other, COUNT(fix_other), code,
                 c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
                     c == UTF8PROC_CATEGORY_CO);
}

bool qkv_unicode_mark(uint32_t code, bool nonspacing)
{
    if (code < 0x300) return false;
    const int c = category(code);
    if (nonspacing)
        return fixed(fix_nonspacing, COUNT(fix_nonspacing), code, c == UTF8PROC_CATEGORY_MN);
    return fixed(fix_mark, COUNT(fix_mark), code,
                 c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME);
}

int qkv_unicode_lower(uint32_t out[3], uint32_t code)
{
    if (code == 0x130) { // the only character whose lower case has two characters: i and a dot
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    for (int i = 0; i < COUNT(fix_lower); i++)
        if (code >= fix_lower[i].first && code <= fix_lower[i].last)
            out[0] = (uint32_t)((int32_t)code + fix_lower[i].add);
    return 1;
}

int qkv_unicode_decompose(uint32_t out[18], uint32_t code, bool compatible)
{
    out[0] = code;
    if (code < 0x80 ||
        utf8proc_get_property((utf8proc_int32_t)code)->decomp_seqindex == UINT16_MAX) {
        if (code < 0xAC00 || code > 0xD7A3) return 1;
    }
    if (compatible ? fixed(fix_no_compatible, COUNT(fix_no_compatible), code, false)
                   : fixed(fix_no_canonical, COUNT(fix_no_canonical), code, false))
        return 1;
    utf8proc_int32_t got[18];
    int boundary = 0;
    const utf8proc_option_t how =
        compatible ? UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT : UTF8PROC_DECOMPOSE;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)code, got, 18, how, &boundary);
    if (n < 1 || n > 18) return 1; // the longest decomposition has 18 characters
    for (int i = 0; i < n; i++) out[i] = (uint32_t)got[i];
    return (int)n;
}

int qkv_unicode_ccc(uint32_t code)
{
    if (code < 0x300) return 0;
    const int ccc = utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
    return ccc && fixed(fix_starter, COUNT(fix_starter), code, false) ? 0 : ccc;
}

uint32_t qkv_unicode_compose(uint32_t a, uint32_t b)
{
    if (b < 0x300) return 0; // no composition has a second character below U+0300
    utf8proc_int32_t pair[2] = { (utf8proc_int32_t)a, (utf8proc_int32_t)b };
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1) return 0;
    const uint32_t joined = (uint32_t)pair[0];
    return fixed(fix_no_canonical, COUNT(fix_no_canonical), joined, false) ? 0 : joined;
}

bool qkv_unicode_apart(uint32_t code)
{
    const int c = category(code);
    const bool jamo = (code >= 0x1100 && code <= 0x11FF) || (code >= 0xA960 && code <= 0xA97F) ||
                      (code >= 0xD7B0 && code <= 0xD7FF);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO && !jamo;
}
