// SPDX-License-Identifier: MIT
// unicode.h: declares the Unicode properties that normalizers, pre-tokenizers and regular
// expressions use.
#ifndef QKV_TEXT_UNICODE_H
#define QKV_TEXT_UNICODE_H

#include "text/text.h"

// ---- unicode.c: properties and decomposition ---------------------------------------------------
bool qkv_unicode_other(uint32_t code);                 // Cc, Cf, Co
bool qkv_unicode_mark(uint32_t code, bool nonspacing); // Mn only, or any M*
// Writes the full decomposition of code, before canonical ordering; returns the number of
// characters.
int qkv_unicode_decompose(uint32_t out[18], uint32_t code, bool compatible);
int qkv_unicode_ccc(uint32_t code);                   // canonical combining class
uint32_t qkv_unicode_compose(uint32_t a, uint32_t b); // 0: a and b do not compose
// Returns true if code is a letter that normalization neither composes with the preceding character
// nor reorders before it.
bool qkv_unicode_apart(uint32_t code);

// ---- unicode.c: categories as in Oniguruma -----------------------------------------------------
enum {                         // each character has exactly one of these bits
    QKV_KIND_UPPER = 1 << 0,   // Lu, Lt
    QKV_KIND_LOWER = 1 << 1,   // Ll
    QKV_KIND_LETTER = 1 << 2,  // Lm, Lo
    QKV_KIND_MARK = 1 << 3,    // M*
    QKV_KIND_DIGIT = 1 << 4,   // N*
    QKV_KIND_SPACE = 1 << 5,   // \s except CR and LF
    QKV_KIND_NEWLINE = 1 << 6, // CR and LF
    QKV_KIND_PUNCT = 1 << 7,   // P*
    QKV_KIND_SYMBOL = 1 << 8,  // S*
    QKV_KIND_OTHER = 1 << 9
};
unsigned qkv_unicode_kind(uint32_t code);
// Characters that were added to Unicode after version 14, in ascending order, which the installed
// PCRE2 may not know.
struct qkv_later {
    uint32_t first, last;
    uint8_t category; // index into qkv_category_names
};
extern const char qkv_category_names[30][3]; // "", "Lu", "Ll", ...
const struct qkv_later *qkv_unicode_later(int *count);

// ---- byte_characters.c: the characters that represent bytes in byte-level vocabularies ----------
extern const uint16_t qkv_byte_char[256]; // the character for each byte
int qkv_char_byte(uint32_t code);         // the inverse, -1: code represents no byte
#endif
