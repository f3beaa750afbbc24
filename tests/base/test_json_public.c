// SPDX-License-Identifier: MIT
// test_json_public.c: tests the JSON reader for host programs, by its public header only.
#include "check.h"
#include <qkv/json.h>

TEST(values_are_found_by_key_and_index)
{
    static const char text[] =
        " \n{\"a\": [1, -2.5, \"x\\u00e9\", true, null], \"b\": {\"c\": 9007199254740993}} ";
    qkv_json *root = NULL;
    qkv_error err = { 0 };
    int64_t i = 0;
    double r = 0;
    bool b = false;
    size_t bytes = 0;
    CHECK(qkv_json_read(&root, text, strlen(text), &err) == QKV_OK);
    CHECK(qkv_json_kind_of(root) == QKV_JSON_OBJECT && qkv_json_length(root) == 2);
    const qkv_json *a = qkv_json_lookup(root, "a");
    CHECK(qkv_json_kind_of(a) == QKV_JSON_ARRAY && qkv_json_length(a) == 5);
    CHECK(qkv_json_get_integer(qkv_json_element(a, 0), &i) && i == 1);
    CHECK(!qkv_json_get_integer(qkv_json_element(a, 1), &i) && i == 1);
    CHECK(qkv_json_get_number(qkv_json_element(a, 0), &r) && r == 1);
    CHECK(qkv_json_get_number(qkv_json_element(a, 1), &r) && r == -2.5);
    const char *s = qkv_json_get_string(qkv_json_element(a, 2), &bytes);
    CHECK(s && bytes == 3 && strcmp(s, "x\xc3\xa9") == 0);
    CHECK(qkv_json_get_boolean(qkv_json_element(a, 3), &b) && b);
    CHECK(qkv_json_kind_of(qkv_json_element(a, 4)) == QKV_JSON_NULL);
    CHECK(qkv_json_element(a, 5) == NULL && qkv_json_lookup(a, "a") == NULL);
    // a double would round this number
    CHECK(qkv_json_get_integer(qkv_json_lookup(qkv_json_lookup(root, "b"), "c"), &i));
    CHECK(i == 9007199254740993);
    CHECK(strcmp(qkv_json_kind_name(a), "an array") == 0);
    qkv_json_free(root);
}

TEST(each_key_is_visited_once)
{
    char text[4096] = "{";
    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"k%d\":%d", i ? "," : "", i,
                 i);
    strcat(text, "}");
    qkv_json *root = NULL;
    bool seen[200] = { false };
    int count = 0;
    CHECK(qkv_json_read(&root, text, strlen(text), NULL) == QKV_OK);
    for (const char *k = NULL; (k = qkv_json_next_key(root, k)); count++) {
        const int n = atoi(k + 1);
        int64_t value = -1;
        CHECK(n >= 0 && n < 200 && !seen[n]);
        CHECK(qkv_json_get_integer(qkv_json_lookup(root, k), &value) && value == n);
        seen[n] = true;
    }
    CHECK(count == 200);
    qkv_json_free(root);
}

TEST(malformed_text_has_its_byte)
{
    static const struct {
        const char *text;
        int64_t offset;
    } rows[] = { { "  {\"a\":1,\"a\":2}", 9 },
                 { "  [1,]", 5 },
                 { " 5", 1 },
                 { "[1] x", 4 },
                 { "[NaN]", 1 },
                 { "", 0 },
                 { "{\"a\":\"\\u0000\"}", 7 },
                 { "[1e999]", 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qkv_json *root = NULL;
        qkv_error err = { 0 };
        CHECK(qkv_json_read(&root, rows[i].text, strlen(rows[i].text), &err) == QKV_ERR_FORMAT);
        CHECK(root == NULL && err.has_offset);
        if (err.offset != rows[i].offset)
            fprintf(stderr, "%s: byte %lld\n", rows[i].text, (long long)err.offset);
        CHECK(err.offset == rows[i].offset);
    }
    char deep[200];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    qkv_json *root = NULL;
    CHECK(qkv_json_read(&root, deep, sizeof deep, NULL) == QKV_ERR_FORMAT && !root);
    CHECK(qkv_json_read(&root, deep + 36, 128, NULL) == QKV_OK);
    qkv_json_free(root);
}

TEST(null_is_a_value_without_contents)
{
    qkv_json *root = NULL;
    qkv_error err = { 0 };
    int64_t i = 7;
    double r = 7;
    bool b = true;
    CHECK(qkv_json_kind_of(NULL) == QKV_JSON_NULL);
    CHECK(strcmp(qkv_json_kind_name(NULL), "null") == 0);
    CHECK(qkv_json_length(NULL) == 0 && !qkv_json_element(NULL, 0) && !qkv_json_lookup(NULL, "a"));
    CHECK(!qkv_json_next_key(NULL, NULL) && !qkv_json_get_string(NULL, NULL));
    CHECK(!qkv_json_get_integer(NULL, &i) && !qkv_json_get_number(NULL, &r));
    CHECK(!qkv_json_get_boolean(NULL, &b) && i == 7 && r == 7 && b);
    qkv_json_free(NULL);
    CHECK(qkv_json_read(NULL, "{}", 2, &err) == QKV_ERR_USAGE);
    CHECK(qkv_json_read(&root, NULL, 2, &err) == QKV_ERR_USAGE && !root);
    CHECK(strcmp(err.text, "qkv_json_read: expected a text and a pointer, found NULL") == 0);
    err = (qkv_error){ 0 };
    CHECK(qkv_json_read_file(NULL, "x.json", 9, &err) == QKV_ERR_USAGE);
    CHECK(qkv_json_read_file(&root, NULL, 9, &err) == QKV_ERR_USAGE && !root);
    CHECK(strcmp(err.text, "qkv_json_read_file: expected a path and a pointer, found NULL") == 0);
}

TEST(a_value_of_another_kind_is_not_returned)
{
    static const char text[] = "{\"t\": true, \"f\": false, \"n\": 3, \"s\": \"\", \"r\": .5e1}";
    static const char good[] = "{\"t\": true, \"f\": false, \"n\": 3, \"s\": \"\", \"r\": 5e1}";
    qkv_json *root = NULL;
    int64_t i = 7;
    double r = 7;
    bool b = true;
    CHECK(qkv_json_read(&root, text, strlen(text), NULL) == QKV_ERR_FORMAT);
    CHECK(qkv_json_read(&root, good, strlen(good), NULL) == QKV_OK);
    CHECK(qkv_json_get_boolean(qkv_json_lookup(root, "f"), &b) && !b);
    CHECK(qkv_json_get_boolean(qkv_json_lookup(root, "t"), &b) && b);
    CHECK(!qkv_json_get_boolean(qkv_json_lookup(root, "n"), &b) && b);
    CHECK(!qkv_json_get_boolean(qkv_json_lookup(root, "t"), NULL));
    CHECK(!qkv_json_get_integer(qkv_json_lookup(root, "r"), &i) && i == 7);
    CHECK(!qkv_json_get_integer(qkv_json_lookup(root, "n"), NULL));
    CHECK(!qkv_json_get_number(qkv_json_lookup(root, "s"), &r) && r == 7);
    CHECK(!qkv_json_get_number(qkv_json_lookup(root, "n"), NULL));
    const qkv_json *s = qkv_json_lookup(root, "s");
    CHECK(qkv_json_kind_of(s) == QKV_JSON_STRING && strcmp(qkv_json_get_string(s, NULL), "") == 0);
    CHECK(qkv_json_kind_of(qkv_json_lookup(root, "f")) == QKV_JSON_BOOLEAN);
    CHECK(qkv_json_kind_of(qkv_json_lookup(root, "n")) == QKV_JSON_INTEGER);
    CHECK(qkv_json_kind_of(qkv_json_lookup(root, "r")) == QKV_JSON_REAL);
    CHECK(!qkv_json_get_string(root, NULL) && !qkv_json_lookup(root, NULL));
    CHECK(!qkv_json_element(root, 0) && !qkv_json_element(root, -1));
    CHECK(!qkv_json_next_key(s, NULL) && !qkv_json_next_key(root, "absent"));
    qkv_json_free(root);
}

CHECK_MAIN(CASE(values_are_found_by_key_and_index), CASE(each_key_is_visited_once),
           CASE(malformed_text_has_its_byte), CASE(null_is_a_value_without_contents),
           CASE(a_value_of_another_kind_is_not_returned))
