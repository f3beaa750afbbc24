// SPDX-License-Identifier: MIT
// word_operand.c: finds a word of the command line in a text: all its occurrences, or the token
// that it names.
#include "frame/word_operand.h"
#include <ctype.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

// Returns the first character of text[bytes], bytes > 0, in lower case. *n becomes its length in
// bytes.
static wint_t folded(const char *text, size_t bytes, size_t *n)
{
    wchar_t w;
    mbstate_t state = { 0 };
    *n = mbrtowc(&w, text, bytes, &state);
    if (*n == (size_t)-1 || *n == (size_t)-2 || *n == 0) {
        *n = 1;
        return (unsigned char)*text;
    }
    return towlower((wint_t)w);
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

// Returns how many bytes at the start of text spell the word, ignoring case; 0: the text does not
// begin with the word.
static size_t spells(const char *text, size_t bytes, const char *word)
{
    size_t at = 0, left = strlen(word), n, m;
    while (left) {
        if (at >= bytes || folded(text + at, bytes - at, &n) != folded(word, left, &m)) return 0;
        at += n;
        word += m;
        left -= m;
    }
    return at;
}

bool word_next(size_t *begin, size_t *end, const char *text, size_t bytes, const char *word,
               bool stems)
{
    for (size_t at = *end; at < bytes; at++) {
        if (at && in_word(text[at - 1]) && in_word(text[at])) continue;
        const size_t n = spells(text + at, bytes - at, word);
        if (!n) continue;
        size_t last = at + n;
        const bool more = last < bytes && in_word(text[last]) && in_word(text[last - 1]);
        if (more && !stems) continue;
        while (more && last < bytes && in_word(text[last])) last++;
        *begin = at;
        *end = last;
        return true;
    }
    return false;
}

// ---- tokens ------------------------------------------------------------------------------------
static bool goes_by(const struct token_name *name, const char *word, bool fold)
{
    const char *text = name->text;
    size_t n = name->bytes;
    if (!text) return false;
    while (n > 1 && *text == ' ') text++, n--;
    return fold ? n && spells(text, n, word) == n : strlen(word) == n && !memcmp(text, word, n);
}

qkv_status token_find(int64_t *out, const struct token_name *names, int64_t tokens, int64_t each,
                      const char *option, const char *word, qkv_error *err)
{
    for (int fold = 0; fold < 2; fold++)
        for (int64_t i = 0; i < tokens * each; i++)
            if (goes_by(&names[i], word, fold)) {
                *out = i / each;
                return QKV_OK;
            }
    if (cmd_parse_int(word, out) && *out >= 0 && *out < tokens) return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "%s%sexpected a token of the text or its index from 0 to %lld, found '%s'",
                     option ? option : "", option ? ": " : "", (long long)tokens - 1, word);
}
