// SPDX-License-Identifier: MIT
/** utf8.h: finds the characters of a text in UTF-8, to cut, count or check it. */
#ifndef QKV_UTF8_H
#define QKV_UTF8_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** Returns true if this byte continues a character: in valid UTF-8, a text may be cut before every
 *  other byte, and has as many characters as other bytes.
 *  byte: of type char, signed or not, or unsigned char. */
static inline bool qkv_utf8_continues(int byte)
{
    return (byte & 0xC0) == 0x80;
}

/** Returns the number of bytes of the first character of text[bytes], or 0 if bytes is 0 or the
 *  character is not valid UTF-8: incomplete, overlong, a surrogate, or past U+10FFFF.
 *  Async-signal-safe. */
QKV_API size_t qkv_utf8_bytes(const char *text, size_t bytes);

QKV_END_DECLS
#endif
