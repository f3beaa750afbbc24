// SPDX-License-Identifier: MIT
// test_normalize_ranges.c: normalizes every character of Unicode, and compares which of them a
// step removes, replaces or surrounds with spaces with tables of ranges.
#include "check.h"
#include "text/text_internal.h"
#include <jansson.h>

enum { CODES = 0x110000 };
struct range {
    uint32_t first, last;
};

static bool within(const struct range *r, int n, uint32_t code)
{
    for (int i = 0; i < n; i++)
        if (code >= r[i].first && code <= r[i].last) return true;
    return false;
}
#define WITHIN(table, code) within(table, (int)(sizeof table / sizeof *table), code)

// Opens a normalizer of one step: what the function `add` of normalize.c adds for this JSON.
static void open_normalizer(qkv_tokenizer *t,
                            bool (*add)(qkv_tokenizer *t, const struct qkv_json_at *at),
                            const char *json)
{
    json_t *object = json_loads(json, 0, NULL);
    qkv_error err = { 0 };
    const struct qkv_json_at at = { object, "made", "$", &err };
    memset(t, 0, sizeof *t);
    CHECK(object != NULL);
    if (!add(t, &at)) fail_msg("%s: %s", json, err.text);
    json_decref(object);
}

// Writes all characters between two letters to *in and normalizes them to it.
static void normalize_all(const qkv_tokenizer *t, struct qkv_chars *in)
{
    struct qkv_chars other = { 0 };
    memset(in, 0, sizeof *in);
    for (uint32_t code = 0; code < CODES; code++)
        if (code < 0xD800 || code > 0xDFFF) CHECK(qkv_chars_add(in, code, code, 1));
    CHECK(qkv_normalize(&t->normalizer, in, &other));
    qkv_free(other.at);
}

TEST(the_rules_nmt_remove_controls_and_replace_blanks)
{
    static const struct range removed[] = { { 1, 8 },       { 0x0B, 0x0B }, { 0x0E, 0x1F },
                                            { 0x7F, 0x7F }, { 0x8F, 0x8F }, { 0x9F, 0x9F } };
    static const struct range blank[] = { { 9, 10 },          { 12, 13 },
                                          { 0x1680, 0x1680 }, { 0x200B, 0x200F },
                                          { 0x2028, 0x2029 }, { 0x2581, 0x2581 },
                                          { 0xFEFF, 0xFEFF }, { 0xFFFD, 0xFFFD } };
    qkv_tokenizer t;
    struct qkv_chars c;
    open_normalizer(&t, qkv_normalizer_nmt, "{}");
    normalize_all(&t, &c);
    int64_t at = 0;
    for (uint32_t code = 0; code < CODES; code++) {
        if ((code >= 0xD800 && code <= 0xDFFF) || WITHIN(removed, code)) continue;
        CHECK(at < c.count);
        const struct qkv_char got = c.at[at++];
        if (got.begin != code || got.code != (WITHIN(blank, code) ? ' ' : code))
            fail_msg("U+%04X: U+%04X of U+%04X", (unsigned)code, (unsigned)got.code,
                     (unsigned)got.begin);
    }
    CHECK_EQ(at, c.count);
    qkv_free(c.at);
    qkv_normalizer_free(&t.normalizer);
}

TEST(ideographs_and_no_other_characters_have_spaces_around_them)
{
    static const struct range ideographs[] = { { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },
                                               { 0xF900, 0xFAFF },   { 0x20000, 0x2A6DF },
                                               { 0x2A700, 0x2B73F }, { 0x2B740, 0x2B81F },
                                               { 0x2B920, 0x2CEAF }, { 0x2F800, 0x2FA1F } };
    qkv_tokenizer t;
    struct qkv_chars c;
    open_normalizer(&t, qkv_normalizer_bert,
                    "{\"clean_text\":false,\"handle_chinese_chars\":true,\"lowercase\":false,"
                    "\"strip_accents\":null}");
    normalize_all(&t, &c);
    int64_t at = 0;
    for (uint32_t code = 0; code < CODES; code++) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        const bool around = WITHIN(ideographs, code);
        CHECK(at + 2 * around < c.count);
        if (c.at[at + around].code != code || c.at[at].begin != code ||
            (around && (c.at[at].code != ' ' || c.at[at + 2].code != ' ')))
            fail_msg("U+%04X: U+%04X", (unsigned)code, (unsigned)c.at[at].code);
        at += 1 + 2 * around;
    }
    CHECK_EQ(at, c.count);
    qkv_free(c.at);
    qkv_normalizer_free(&t.normalizer);
}

// Each member is read, and one that is missing or no boolean is refused by its name.
TEST(the_options_of_a_normalizer_are_checked)
{
    static const char *const names[] = { "clean_text",    "handle_chinese_chars", "lowercase",
                                         "strip_accents", "strip_left",           "strip_right",
                                         "prepend" };
    EACH(name, names)
    for (int missing = 0; missing < 2; missing++) {
        json_t *object = json_loads(
            "{\"clean_text\":true,\"handle_chinese_chars\":true,\"lowercase\":true,"
            "\"strip_accents\":true,\"strip_left\":true,\"strip_right\":true,\"prepend\":\"x\"}",
            0, NULL);
        qkv_error err = { 0 };
        const struct qkv_json_at at = { object, "made", "$", &err };
        qkv_tokenizer t;
        char path[64];
        memset(&t, 0, sizeof t);
        CHECK(qkv_normalizer_bert(&t, &at) && qkv_normalizer_strip(&t, &at) &&
              qkv_normalizer_prepend(&t, &at));
        if (missing)
            json_object_del(object, *name);
        else
            json_object_set_new(object, *name, json_integer(3));
        const bool bert = qkv_normalizer_bert(&t, &at), strip = qkv_normalizer_strip(&t, &at),
                   prepend = qkv_normalizer_prepend(&t, &at);
        // strip_accents may be missing: it is that of lowercase
        CHECK_EQ(bert + strip + prepend, missing && strcmp(*name, "strip_accents") == 0 ? 3 : 2);
        snprintf(path, sizeof path, "$.%s", *name);
        if (bert + strip + prepend == 2) {
            CHECK_EQ(err.status, QKV_ERR_FORMAT);
            CHECK(strcmp(err.path, path) == 0 || strstr(err.text, *name));
        }
        qkv_normalizer_free(&t.normalizer);
        json_decref(object);
    }
}

CHECK_MAIN(CASE(the_rules_nmt_remove_controls_and_replace_blanks),
           CASE(ideographs_and_no_other_characters_have_spaces_around_them),
           CASE(the_options_of_a_normalizer_are_checked))
