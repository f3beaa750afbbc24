// SPDX-License-Identifier: MIT
// fuzz_outputs.h: checks files that the library wrote to memory: UTF-8, well-formed XML, the JSON
// and the scripts of a page.
#ifndef QKV_FUZZ_OUTPUTS_H
#define QKV_FUZZ_OUTPUTS_H
#include "fuzz/fuzz.h"
#include "view/xml.h"

// Checks that the text is UTF-8.
static inline void fuzz_utf8(const char *text)
{
    const size_t size = strlen(text);
    for (size_t n, i = 0; i < size; i += n)
        FUZZ_CHECK((n = qkv_utf8_bytes(text + i, size - i)) > 0);
}

// Returns a copy of the file, terminated, which the caller frees; a file has no zero byte.
static inline char *fuzz_written(const char *path)
{
    size_t size = 0;
    const uint8_t *data = memory_contents(path, &size);
    FUZZ_CHECK(data);
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    FUZZ_CHECK(strlen(text) == size);
    fuzz_utf8(text);
    return text;
}

// Checks an SVG: the characters of XML 1.0, which lack U+FFFE and U+FFFF, and well-formed tags.
static inline void fuzz_svg(const char *path)
{
    char *text = fuzz_written(path);
    FUZZ_CHECK(!strstr(text, "\xEF\xBF\xBE") && !strstr(text, "\xEF\xBF\xBF"));
    const char *wrong = xml_wrong(text);
    if (wrong) fprintf(stderr, "%s: %s\n", path, wrong);
    FUZZ_CHECK(!wrong);
    free(text);
}

static inline size_t fuzz_count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
    return n;
}

// Checks a page: no text in it ends a script or a style, so that every page has the same number of
// such ends, and its element `id` contains JSON.
static inline void fuzz_page(const char *path, const char *id)
{
    static size_t scripts, styles;
    char begin[64], *text = fuzz_written(path);
    if (!scripts) scripts = fuzz_count(text, "</script");
    if (!styles) styles = fuzz_count(text, "</style");
    FUZZ_CHECK(fuzz_count(text, "</script") == scripts && fuzz_count(text, "</style") == styles);
    snprintf(begin, sizeof begin, "<script type=\"application/json\" id=\"%s\">", id);
    const char *json = strstr(text, begin), *end = json ? strstr(json, "</script") : NULL;
    FUZZ_CHECK(json && end);
    json += strlen(begin);
    json_t *root = json_loadb(json, (size_t)(end - json), JSON_REJECT_DUPLICATES, NULL);
    FUZZ_CHECK(root);
    json_decref(root);
    free(text);
}
#endif
