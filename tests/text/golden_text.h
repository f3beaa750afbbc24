// SPDX-License-Identifier: MIT
// golden_text.h: replays the golden files of tools/golden_text.py: texts with ids, types and
// offsets of the reference.
#ifndef QKV_GOLDEN_TEXT_H
#define QKV_GOLDEN_TEXT_H
#include "check.h"
#include <stdlib.h>
#include "text/text_internal.h"

// data[*size] of a case: its "KEY", or "KEY_hex" for texts that are not UTF-8.  NULL: neither.
static inline char *golden_text(const json_t *row, const char *key, size_t *size)
{
    char name[32];
    snprintf(name, sizeof name, "%s_hex", key);
    const json_t *text = json_object_get(row, key), *hex = json_object_get(row, name);
    if (!text && !hex) return NULL;
    const char *from = json_string_value(text ? text : hex);
    *size = json_string_length(text ? text : hex) / (text ? 1 : 2);
    char *out = malloc(*size + 1);
    if (text) memcpy(out, from, *size);
    for (size_t i = 0; hex && i < *size; i++) {
        unsigned byte;
        CHECK_EQ(sscanf(from + 2 * i, "%2x", &byte), 1);
        out[i] = (char)byte;
    }
    out[*size] = 0;
    return out;
}

static inline void golden_case(const qkv_tokenizer *t, const json_t *row,
                               const struct qkv_encode_options *o, qkv_encoding *e)
{
    size_t bytes = 0, pair_bytes = 0;
    char *text = golden_text(row, "text", &bytes), *pair = golden_text(row, "pair", &pair_bytes);
    qkv_error err = { 0 };
    CHECK(text);
    CHECK_EQ(qkv_tokenizer_encode(t, e, text, bytes, pair, pair_bytes, o, &err), QKV_OK);
    const json_t *ids = json_object_get(row, "ids"), *types = json_object_get(row, "types"),
                 *at = json_object_get(row, "at");
    if ((size_t)e->count != json_array_size(ids))
        fail_msg("\"%s\": %lld tokens, expected %zu", text, (long long)e->count,
                 json_array_size(ids));
    int64_t last = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const size_t k = (size_t)i;
        const int64_t begin = last + json_integer_value(json_array_get(at, 2 * k));
        last = begin + json_integer_value(json_array_get(at, 2 * k + 1));
        if (e->ids[i] != json_integer_value(json_array_get(ids, k)))
            fail_msg("\"%s\": token %lld is %d, expected %lld", text, (long long)i, e->ids[i],
                     (long long)json_integer_value(json_array_get(ids, k)));
        CHECK_EQ(e->types[i], json_integer_value(json_array_get(types, k))); // no types: 0
        if (e->begin[i] != begin || e->end[i] != last)
            fail_msg("\"%s\": token %lld at %lld..%lld, expected %lld..%lld", text, (long long)i,
                     (long long)e->begin[i], (long long)e->end[i], (long long)begin,
                     (long long)last);
    }
    free(text);
    free(pair);
}

// Decodes ids one by one in a stream: the same text in complete characters.
static inline void golden_stream(const qkv_tokenizer *t, const int32_t *ids, size_t n,
                                 const char *want, size_t size)
{
    qkv_decode_stream *s = NULL;
    const char *text;
    size_t bytes, at = 0;
    CHECK_EQ(qkv_decode_stream_new(&s, t, true, NULL), QKV_OK);
    for (size_t i = 0; i <= n; i++) {
        CHECK_EQ(i < n ? qkv_decode_stream_put(s, ids[i], &text, &bytes, NULL)
                       : qkv_decode_stream_end(s, &text, &bytes, NULL),
                 QKV_OK);
        CHECK(bytes <= size - at && !text[bytes]);
        if (memcmp(want + at, text, bytes) != 0) fail_msg("\"%s\" of \"%s\"", text, want + at);
        CHECK((text[0] & 0xC0) != 0x80);
        at += bytes;
    }
    CHECK_EQ(at, size);
    qkv_decode_stream_free(s);
}

static inline void golden_decode(const qkv_tokenizer *t, const json_t *row)
{
    const json_t *list = json_array_get(row, 0);
    const json_t *want = json_array_get(row, 1);
    const size_t n = json_array_size(list);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    size_t need = 0;
    CHECK_EQ(qkv_tokenizer_decode(t, NULL, 0, &need, ids, (int64_t)n, true, NULL), QKV_OK);
    CHECK_EQ(need, json_string_length(want));
    char *out = malloc(need + 1);
    CHECK_EQ(qkv_tokenizer_decode(t, out, need + 1, &need, ids, (int64_t)n, true, NULL), QKV_OK);
    CHECK_TEXT(out, json_string_value(want));
    golden_stream(t, ids, n, out, need);
    free(out);
    free(ids);
}

// A golden file: for every group its patch over the tokenizer.json (NULL: over the file's own
// "base"), as text, and its cases.
static inline void golden_groups(const char *golden, const char *tokenizer,
                                 void (*each)(char *json, const json_t *group, void *user),
                                 void *user)
{
    json_error_t why;
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    json_t *all = json_load_file(golden, JSON_ALLOW_NUL, &why);
    json_t *base =
        tokenizer ? json_load_file(tokenizer, 0, &why) : json_incref(json_object_get(all, "base"));
    CHECK(all && base);
    const json_t *groups = json_object_get(all, "groups");
    for (size_t g = 0; g < json_array_size(groups); g++) {
        const json_t *group = json_array_get(groups, g);
        json_t *whole = json_copy(base);
        json_object_update(whole, json_object_get(group, "patch"));
        char *text = json_dumps(whole, JSON_COMPACT);
        json_decref(whole);
        each(text, group, user);
        give(text);
    }
    json_decref(all);
    json_decref(base);
}

static inline void golden_replay_group(char *json, const json_t *group, void *cases)
{
    const json_t *rows = json_object_get(group, "cases"), *back = json_object_get(group, "decode"),
                 *patch = json_object_get(group, "patch");
    const struct qkv_encode_options o = { .file_limits =
                                              json_object_get(patch, "truncation") != NULL };
    qkv_encoding e = { 0 };
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    if (qkv_tokenizer_parse(&t, json, strlen(json), "patched", &err))
        fail_msg("%s: %s", err.path, err.text);
    for (size_t i = 0; i < json_array_size(rows); i++)
        golden_case(t, json_array_get(rows, i), &o, &e);
    for (size_t i = 0; i < json_array_size(back); i++) golden_decode(t, json_array_get(back, i));
    *(int64_t *)cases += (int64_t)json_array_size(rows);
    qkv_tokenizer_close(t);
    qkv_encoding_free(&e);
}

static inline void golden_replay(const char *golden, const char *tokenizer)
{
    int64_t cases = 0;
    golden_groups(golden, tokenizer, golden_replay_group, &cases);
    CHECK(cases >= 100);
}
#endif
