// SPDX-License-Identifier: MIT
// error.c: names status values and writes error messages.
#include "base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *qkv_version(void)
{
    return TEXT(QKV_VERSION_MAJOR) "." TEXT(QKV_VERSION_MINOR) "." TEXT(QKV_VERSION_PATCH);
}

const char *qkv_status_name(qkv_status status)
{
    switch (status) {
    case QKV_OK: return "ok";
    case QKV_ERR_INTERNAL: return "internal";
    case QKV_ERR_USAGE: return "usage";
    case QKV_ERR_FORMAT: return "format";
    case QKV_ERR_UNSUPPORTED: return "unsupported";
    case QKV_ERR_LIMIT: return "limit";
    case QKV_ERR_IO: return "io";
    case QKV_ERR_INTERRUPTED: return "interrupted";
    }
    return "unknown";
}

// Returns the number of bytes of the character at p.  *plain becomes true if the character is
// printed unchanged; it is false for control characters (also U+0080..9F), bidirectional controls
// (U+202A..E, U+2066..9), Unicode line separators and invalid UTF-8.
static size_t character(const unsigned char *p, bool *plain)
{
    const size_t n = qkv_utf8_bytes((const char *)p, strnlen((const char *)p, 4));
    *plain = n > 0;
    if (n == 1) *plain = p[0] >= 0x20 && p[0] != 0x7f;
    if (n == 2) *plain = p[0] != 0xC2 || p[1] >= 0xA0;
    if (n == 3 && p[0] == 0xE2 && p[1] == 0x80) *plain = p[2] < 0xA8 || p[2] > 0xAE;
    if (n == 3 && p[0] == 0xE2 && p[1] == 0x81) *plain = p[2] < 0xA6 || p[2] > 0xA9;
    return n ? n : 1;
}

char *qkv_escape(char *out, size_t size, const char *text)
{
    if (!size) return out;
    static const char hex[] = "0123456789abcdef";
    size_t n = 0, fits = 0; // fits: the largest n after which "..." still fits
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        bool plain;
        const size_t bytes = character(p, &plain), need = plain ? bytes : 4 * bytes;
        if (n + need >= size) {
            snprintf(out + fits, size - fits, "...");
            return out;
        }
        for (size_t i = 0; i < bytes; i++) {
            if (!plain) out[n++] = '\\', out[n++] = 'x', out[n++] = hex[p[i] >> 4];
            out[n++] = plain ? (char)p[i] : hex[p[i] & 15];
        }
        p += bytes;
        if (n + 4 <= size) fits = n;
    }
    out[n] = 0;
    return out;
}

qkv_status qkv_fail(qkv_error *err, qkv_status status, const struct qkv_location *at,
                    const char *format, ...)
{
    if (!err || err->status != QKV_OK) return status;
    char text[sizeof err->text * 2];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    memset(err, 0, sizeof *err);
    err->status = status;
    qkv_escape(err->text, sizeof err->text, text);
    if (at) {
        if (at->file) qkv_escape(err->file, sizeof err->file, at->file);
        if (at->path) qkv_escape(err->path, sizeof err->path, at->path);
        err->has_offset = at->has_offset;
        err->offset = at->offset;
    }
    return status;
}

qkv_status qkv_fail_memory(qkv_error *err, const char *file)
{
    return qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = file }, "out of memory");
}

qkv_status qkv_fail_errno(qkv_error *err, const char *file, const char *what, int code)
{
    char why[128];
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *text = strerror_r(code, why, sizeof why);
#else
    const char *text = strerror_r(code, why, sizeof why) == 0 ? why : "unknown error";
#endif
    return qkv_fail(err, code == ENOMEM ? QKV_ERR_LIMIT : QKV_ERR_IO,
                    &(struct qkv_location){ .file = file }, "%s: %s", what, text);
}

char *qkv_error_line(char *out, size_t size, const qkv_error *err)
{
    char place[400] = "";
    if (!out || !size) return out;
    out[0] = 0;
    if (!err) return out;
    if (err->has_offset && err->path[0])
        snprintf(place, sizeof place, "at byte %" PRId64 " (%s): ", err->offset, err->path);
    else if (err->has_offset)
        snprintf(place, sizeof place, "at byte %" PRId64 ": ", err->offset);
    else if (err->path[0])
        snprintf(place, sizeof place, "at %s: ", err->path);
    const int n =
        snprintf(out, size, "%s%s%s%s", err->file, err->file[0] ? ": " : "", place, err->text);
    if (n < 0 || (size_t)n < size || size < 4) return out;
    size_t end = size - 4;
    // do not cut inside a character
    while (end > 0 && qkv_utf8_continues(out[end])) end--;
    memcpy(out + end, "...", 4);
    return out;
}
