// SPDX-License-Identifier: MIT
// error.c: status names and the one way an error is filled and written.
#include "base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

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

// out[size] = text with control bytes as \xNN and bytes that are not ASCII kept; cut with "...".
static void copy_escaped(char *out, size_t size, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const size_t need = c < 0x20 || c == 0x7f ? 4 : 1;
        if (n + need + 4 > size) { // leaves room for "..." and the end
            while (n && ((unsigned char)out[n - 1] & 0xC0) == 0x80) n--; // never half a character
            if (n && (unsigned char)out[n - 1] >= 0xC0) n--;
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        if (need == 4) {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = hex[c >> 4];
            out[n++] = hex[c & 15];
        } else {
            out[n++] = (char)c;
        }
    }
    out[n] = 0;
}

qkv_status qkv_fail(qkv_error *err, qkv_status status, const struct qkv_place *at, const char *format, ...)
{
    if (!err || err->status != QKV_OK) return status;
    char text[sizeof err->text * 2];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    memset(err, 0, sizeof *err);
    err->status = status;
    copy_escaped(err->text, sizeof err->text, text);
    if (at) {
        if (at->file) copy_escaped(err->file, sizeof err->file, at->file);
        if (at->path) copy_escaped(err->path, sizeof err->path, at->path);
        err->has_offset = at->has_offset;
        err->offset = at->offset;
    }
    return status;
}

qkv_status qkv_fail_memory(qkv_error *err, const char *file)
{
    return qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_place){ .file = file }, "out of memory");
}

qkv_status qkv_fail_errno(qkv_error *err, const char *file, const char *what, int code)
{
    char why[128];
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *text = strerror_r(code, why, sizeof why);
#else
    const char *text = strerror_r(code, why, sizeof why) == 0 ? why : "unknown error";
#endif
    return qkv_fail(err, QKV_ERR_IO, &(struct qkv_place){ .file = file }, "%s: %s", what, text);
}

char *qkv_error_line(char *out, size_t size, const qkv_error *err)
{
    if (!size) return out;
    char place[400] = "";
    if (err->has_offset && err->path[0])
        snprintf(place, sizeof place, "at byte %" PRId64 " (%s): ", err->offset, err->path);
    else if (err->has_offset)
        snprintf(place, sizeof place, "at byte %" PRId64 ": ", err->offset);
    else if (err->path[0])
        snprintf(place, sizeof place, "at %s: ", err->path);
    const int n = snprintf(out, size, "%s%s%s%s", err->file, err->file[0] ? ": " : "", place, err->text);
    if (n >= 0 && (size_t)n >= size && size > 4) memcpy(out + size - 4, "...", 4);
    return out;
}
