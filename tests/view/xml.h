// SPDX-License-Identifier: MIT
// xml.h: checks that a picture is well-formed XML, and reads PNG files. These readers are
// independent of the library, so that the files are right for any reader.
#ifndef QKV_VIEW_XML_H
#define QKV_VIEW_XML_H
#include "check.h"
#include <ctype.h>
#include <stdlib.h>
#include <zlib.h>

// "&#60;", "&amp;"; returns its bytes, 0: not a reference.
static inline size_t xml_reference(const char *s)
{
    const size_t n = strcspn(s, ";");
    if (s[0] != '&' || s[n] != ';' || n < 2 || n > 9) return 0;
    for (size_t i = 1; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !(i == 1 && s[1] == '#')) return 0;
    return n + 1;
}

// Returns NULL if well-formed, else the error. Tags match, attributes are quoted and unique in a
// tag, no '<' or bare '&' in texts, no control characters.
static inline const char *xml_wrong(const char *s)
{
    char open[64][32];
    int depth = 0, roots = 0;
    while (*s) {
        if ((unsigned char)*s < 0x20 && *s != '\n') return "a control character";
        if (*s == '&') {
            const size_t n = xml_reference(s);
            if (!n) return "a bare '&'";
            s += n;
            continue;
        }
        if (*s != '<') {
            if (!depth && *s != '\n') return "text outside of the root";
            s++;
            continue;
        }
        const bool closes = s[1] == '/';
        s += 1 + closes;
        size_t n = 0;
        while (isalnum((unsigned char)s[n])) n++;
        if (!n || n > 31) return "a tag without a name";
        if (closes) {
            if (!depth || strlen(open[depth - 1]) != n || strncmp(open[--depth], s, n) != 0)
                return "tags that do not match";
            if (s[n] != '>') return "an end tag with more in it";
            s += n + 1;
            continue;
        }
        if (!depth && roots++) return "a second root";
        if (depth == 64) return "too deep";
        snprintf(open[depth], sizeof open[depth], "%.*s", (int)n, s);
        s += n;
        while (*s == ' ') {
            s++;
            while (isalnum((unsigned char)*s) || *s == '-' || *s == ':') s++;
            if (s[0] != '=' || s[1] != '"') return "an attribute without its quotes";
            s += 2;
            while (*s && *s != '"') {
                if (*s == '<') return "'<' in an attribute";
                if (*s == '&' && !xml_reference(s)) return "a bare '&' in an attribute";
                s++;
            }
            if (*s++ != '"') return "an attribute without its end";
        }
        if (*s == '/')
            s++;
        else
            depth++;
        if (*s++ != '>') return "a tag without its end";
    }
    return depth ? "a tag that is not closed" : roots ? NULL : "nothing";
}

struct png {
    uint32_t width, height;
    bool title, words; // iTXt chunks
    uint64_t color;    // sum of all bytes of all lines: two different pictures differ here
    uint32_t density;  // pixels per metre (pHYs); 0: not stated
};
static inline uint32_t png_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
// Returns false if it is not a valid PNG: chunks, checksums, all lines.
static inline bool png_read(struct png *out, const uint8_t *p, size_t n)
{
    static const uint8_t signature[8] = { 0x89, 'P', 'N', 'G', 13, 10, 26, 10 };
    uint8_t *packed = malloc(n), *lines = NULL;
    size_t at = 8, size = 0;
    bool end = false, good = false;
    *out = (struct png){ 0 };
    if (!packed || n < 8 || memcmp(p, signature, 8) != 0) goto done;
    while (at + 12 <= n && !end) {
        const uint32_t len = png_u32(p + at);
        const uint8_t *body = p + at + 8;
        if (len > n - at - 12 || crc32(0, p + at + 4, len + 4) != png_u32(body + len)) goto done;
        if (!memcmp(p + at + 4, "IHDR", 4))
            out->width = png_u32(body), out->height = png_u32(body + 4);
        if (!memcmp(p + at + 4, "pHYs", 4)) {
            if (len != 9 || memcmp(body, body + 4, 4) != 0 || body[8] != 1) goto done;
            out->density = png_u32(body);
        }
        if (!memcmp(p + at + 4, "iTXt", 4)) {
            out->title |= !strcmp((const char *)body, "Title");
            out->words |= !strcmp((const char *)body, "Description");
        }
        if (!memcmp(p + at + 4, "IDAT", 4)) {
            memcpy(packed + size, body, len);
            size += len;
        }
        end = !memcmp(p + at + 4, "IEND", 4);
        at += 12 + len;
    }
    uLongf all = (uLongf)(1 + 3 * (size_t)out->width) * out->height, got = all;
    lines = malloc(all + 1);
    if (!end || at != n || !lines || uncompress(lines, &got, packed, size) != Z_OK || got != all)
        goto done;
    for (size_t i = 0; i < all; i++) out->color += lines[i];
    good = true;
done:
    free(packed);
    free(lines);
    return good;
}
#endif
