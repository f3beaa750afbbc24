// SPDX-License-Identifier: MIT
// test_marian_absent.c: compares a tokenizer of Marian whose vocab.json lacks some of the pieces
// with MarianTokenizer of transformers (tools/golden_marian.py).
#include "base/faults.h"
#include "text/golden_text.h"
#include "text/readers/readers.h"

#define PLACE "tests/golden/text/marian_absent"

static json_t *load(qkv_tokenizer **t)
{
    qkv_error err = { 0 };
    json_error_t parse;
    json_t *root = json_load_file(PLACE "/texts.json", 0, &parse);
    if (!root) fail_msg("%s", parse.text);
    if (qkv_tokenizer_open(t, PLACE, &err)) fail_msg("%s: %s", err.path, err.text);
    return root;
}

static int64_t id_at(const json_t *ids, int64_t i)
{
    return (int64_t)json_integer_value(json_array_get(ids, (size_t)i));
}

TEST(texts_have_the_ids_of_the_reference)
{
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    json_t *root = load(&t);
    const json_t *rows = json_object_get(root, "encode");
    int64_t unknown = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *text = json_string_value(json_array_get(json_array_get(rows, i), 0));
        const json_t *want = json_array_get(json_array_get(rows, i), 1);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, &err), QKV_OK);
        if (e.count != (int64_t)json_array_size(want))
            fail_msg("\"%s\": %d ids, expected %d", text, (int)e.count, (int)json_array_size(want));
        for (int64_t k = 0; k < e.count; k++) {
            if (e.ids[k] != id_at(want, k))
                fail_msg("\"%s\": id %d is %d, expected %d", text, (int)k, (int)e.ids[k],
                         (int)id_at(want, k));
            unknown += e.ids[k] == 1;
            CHECK(e.begin[k] <= e.end[k] && e.end[k] <= (int64_t)strlen(text));
        }
    }
    CHECK(unknown > 50); // several in a row among them
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    json_decref(root);
}

TEST(decoded_texts_have_no_spaces_at_their_ends)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    json_t *root = load(&t);
    const json_t *rows = json_object_get(root, "decode");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *list = json_array_get(json_array_get(rows, i), 0);
        const char *want = json_string_value(json_array_get(json_array_get(rows, i), 1));
        const int64_t n = (int64_t)json_array_size(list);
        int32_t ids[16];
        char text[256];
        CHECK(n <= 16);
        for (int64_t k = 0; k < n; k++) ids[k] = (int32_t)id_at(list, k);
        CHECK_EQ(qkv_tokenizer_decode(t, text, sizeof text, NULL, ids, n, true, &err), QKV_OK);
        CHECK_TEXT(text, want);
    }
    qkv_tokenizer_close(t);
    json_decref(root);
}

static qkv_status open_it(void *ctx, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    (void)ctx;
    const qkv_status status = qkv_tokenizer_open(&t, PLACE, err);
    qkv_tokenizer_close(t);
    return status;
}
TEST(every_failed_allocation_is_survived)
{
    CHECK(faults_walk(open_it, NULL, false) > 30); // the cache of words is optional
}

CHECK_MAIN(CASE(texts_have_the_ids_of_the_reference),
           CASE(decoded_texts_have_no_spaces_at_their_ends),
           CASE(every_failed_allocation_is_survived))
