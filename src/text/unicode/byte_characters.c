// SPDX-License-Identifier: MIT
// byte_characters.c: maps bytes to the characters that represent them in byte-level vocabularies
// (Radford et al. 2019): a byte that is a printable Latin-1 character is represented by this
// character; the other bytes, in their order, are represented by the characters from U+0100 on.
#include "text/text_internal.h"

// The characters that represent the bytes 0x00-0x20 (LOW) and 0x7F-0xA0 (MIDDLE). CHAR(b) is the
// character of any byte b; the remaining byte without a printable character is 0xAD.
#define LOW(b)    (0x100 + (b))
#define MIDDLE(b) (0x121 + (b)-0x7F)
#define CHAR(b)                                                                                    \
    (uint16_t)((b) <= 0x20                  ? LOW(b)                                               \
               : (b) >= 0x7F && (b) <= 0xA0 ? MIDDLE(b)                                            \
               : (b) == 0xAD                ? 0x143                                                \
                                            : (b))
#define FOUR(b)    CHAR(b), CHAR((b) + 1), CHAR((b) + 2), CHAR((b) + 3)
#define SIXTEEN(b) FOUR(b), FOUR((b) + 4), FOUR((b) + 8), FOUR((b) + 12)
const uint16_t qkv_byte_char[256] = { SIXTEEN(0x00), SIXTEEN(0x10), SIXTEEN(0x20), SIXTEEN(0x30),
                                      SIXTEEN(0x40), SIXTEEN(0x50), SIXTEEN(0x60), SIXTEEN(0x70),
                                      SIXTEEN(0x80), SIXTEEN(0x90), SIXTEEN(0xA0), SIXTEEN(0xB0),
                                      SIXTEEN(0xC0), SIXTEEN(0xD0), SIXTEEN(0xE0), SIXTEEN(0xF0) };

int qkv_char_byte(uint32_t code)
{
    if (code < 256) return qkv_byte_char[code] == code ? (int)code : -1;
    if (code < 0x121) return (int)(code - 0x100);
    if (code < 0x143) return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}
