// SPDX-License-Identifier: MIT
// test_json.c: checks the strict JSON parser: accepted texts, errors with their location, typed
// members.
#include "base/base.h"
#include "base/faults.h"
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

static json_t *parsed(const char *text)
{
    json_t *v = NULL;
    qkv_error err = { 0 };
    errno = 77;
    if (qkv_json_parse(&v, text, strlen(text), "f", 0, &err) != QKV_OK)
        fail_msg("%s: %s", text, err.text);
    CHECK_EQ(errno, 77);
    return v;
}
static void refused_bytes(const char *text, size_t n, int64_t at, const char *says)
{
    // In a separate block, so that a read past its end is detected.
    char *copy = fenced(n);
    memcpy(copy, text, n);
    json_t *v = (json_t *)1;
    qkv_error err = { 0 };
    const qkv_status status = qkv_json_parse(&v, copy, n, "f", 1000, &err);
    fence_free();
    if (status != QKV_ERR_FORMAT || v) fail_msg("%s: %s", text, qkv_status_name(status));
    if (err.offset != 1000 + at)
        fail_msg("%s: at %lld, expected %lld (%s)", text, (long long)err.offset - 1000,
                 (long long)at, err.text);
    CHECK_TEXT(err.text, says);
}
static void refused(const char *text, int64_t at, const char *says)
{
    refused_bytes(text, strlen(text), at, says);
}

TEST(a_text_becomes_its_tree)
{
    json_t *v = parsed(
        "{\"a\": [1, -2, 9223372036854775807, -9223372036854775808, 1.5, -2e3, 1E-2, 0, -0, 0.0],\n"
        " \"b\": {\"\": \"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"}, \"c\\u0041\": [true, "
        "false, null, [], {}]}");
    const json_t *a = json_object_get(v, "a");
    CHECK_EQ(json_array_size(a), 10);
    CHECK_EQ(json_integer_value(json_array_get(a, 1)), -2);
    CHECK(json_integer_value(json_array_get(a, 2)) == INT64_MAX);
    CHECK(json_integer_value(json_array_get(a, 3)) == INT64_MIN);
    CHECK(json_real_value(json_array_get(a, 4)) == 1.5);
    CHECK(json_real_value(json_array_get(a, 5)) == -2000);
    CHECK(json_real_value(json_array_get(a, 6)) == 0.01);
    CHECK(json_is_integer(json_array_get(a, 8)) && json_is_real(json_array_get(a, 9)));
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(v, "b"), "")),
               "\xc3\xa9\xf0\x9f\x98\x80\"\\/\b\f\n\r\t");
    const json_t *c = json_object_get(v, "cA");
    CHECK(json_is_true(json_array_get(c, 0)) && json_is_false(json_array_get(c, 1)) &&
          json_is_null(json_array_get(c, 2)));
    CHECK(json_is_array(json_array_get(c, 3)) && json_is_object(json_array_get(c, 4)));
    json_decref(v);
    json_decref(parsed("{} \n\t\r"));
}

TEST(a_root_that_is_no_object_is_refused_at_its_first_byte)
{
    refused("", 0, "not a JSON object, expected '{', found the end");
    refused(" {}", 0, "not a JSON object, expected '{', found byte 0x20");
    refused("\xef\xbb\xbf{}", 0, "not a JSON object, expected '{', found byte 0xef");
    refused("[]", 0, "not a JSON object, expected '{', found '['");
    refused("null", 0, "not a JSON object, expected '{', found 'n'");
}

TEST(bytes_after_the_object_are_refused)
{
    refused("{}x", 2, "bytes after the JSON object, expected the end, found 'x'");
    refused("{} {}", 3, "bytes after the JSON object, expected the end, found '{'");
    refused("{}//", 2, "bytes after the JSON object, expected the end, found '/'");
    refused_bytes("{}\0", 3, 2, "bytes after the JSON object, expected the end, found byte 0x00");
}

TEST(each_syntax_error_is_reported_at_its_byte)
{
    refused("{", 1, "malformed JSON, expected a text in quotes, found the end");
    refused("{\"a\"", 4, "malformed JSON, expected a colon after a key, found the end");
    refused("{\"a\":", 5, "malformed JSON, expected a value, found the end");
    refused("{\"a\":1", 6, "malformed JSON, expected ',' or '}', found the end");
    refused("{\"a\":[1 2]}", 8, "malformed JSON, expected ',' or ']', found '2'");
    refused("{\"a\":1,}", 7, "malformed JSON, expected a text in quotes, found '}'");
    refused("{\"a\":[1,]}", 8, "malformed JSON, expected a value, found ']'");
    refused("{a:1}", 1, "malformed JSON, expected a text in quotes, found 'a'");
    refused("{'a':1}", 1, "malformed JSON, expected a text in quotes, found '''");
    refused("{\"a\":tru}", 5, "malformed JSON, expected a value, found 't'");
    refused("{\"a\":NaN}", 5, "malformed JSON, expected a value, found 'N'");
    refused("{\"a\":Infinity}", 5, "malformed JSON, expected a value, found 'I'");
    refused("{\"a\":+1}", 5, "malformed JSON, expected a value, found '+'");
    refused("{\"a\":.5}", 5, "malformed JSON, expected a value, found '.'");
    refused("{\"a\":01}", 6, "malformed JSON, expected a number without leading zeros, found '1'");
    refused("{\"a\":-}", 6, "malformed JSON, expected a digit, found '}'");
    refused("{\"a\":1.}", 7, "malformed JSON, expected a digit, found '}'");
    refused("{\"a\":1e}", 7, "malformed JSON, expected a digit, found '}'");
    refused("{\"a\":1e+}", 8, "malformed JSON, expected a digit, found '}'");
    refused("{\"a\":0x10}", 6, "malformed JSON, expected ',' or '}', found 'x'");
    refused("{\"a\":/*c*/1}", 5, "malformed JSON, expected a value, found '/'");
}

TEST(texts_are_utf8_without_nul)
{
    refused("{\"\xff\":1}", 2, "malformed JSON, expected valid UTF-8, found byte 0xff");
    refused("{\"a\":\"\xc0\x80\"}", 6, "malformed JSON, expected valid UTF-8, found byte 0xc0");
    refused("{\"a\":\"\xed\xa0\x80\"}", 6, "malformed JSON, expected valid UTF-8, found byte 0xed");
    refused("{\"a\":\"\xf4\x90\x80\x80\"}", 6,
            "malformed JSON, expected valid UTF-8, found byte 0xf4");
    refused("{\"a\":\"\xe2\x82", 6, "malformed JSON, expected valid UTF-8, found byte 0xe2");
    refused("{\"a\\u0000b\":1}", 4,
            "malformed JSON, expected a string without NUL characters, found 'u'");
    refused_bytes(
        "{\"a\":\"\0\"}", 9, 6,
        "malformed JSON, expected control characters to be written as escapes, found byte 0x00");
    refused(
        "{\"a\":\"\n\"}", 6,
        "malformed JSON, expected control characters to be written as escapes, found byte 0x0a");
    refused("{\"a\":\"\\x\"}", 7,
            "malformed JSON, expected a valid JSON escape such as \\n, found 'x'");
    refused("{\"a\":\"\\u12g4\"}", 7,
            "malformed JSON, expected four hexadecimal digits after \\u, found 'u'");
    refused("{\"a\":\"\\udc00\"}", 7,
            "malformed JSON, expected a high surrogate before a low surrogate, found 'u'");
    refused("{\"a\":\"\\ud800x\"}", 12,
            "malformed JSON, expected a low surrogate after a high surrogate, found 'x'");
    refused("{\"a\":\"\\ud800\\u0041\"}", 12,
            "malformed JSON, expected a low surrogate after a high surrogate, found '\\'");
    refused("{\"a\":\"x", 7,
            "malformed JSON, expected the closing quote of a string, found the end");
    refused("{\"a\":\"\\", 7, "malformed JSON, expected an escape, found the end");
}

TEST(duplicate_keys_are_refused)
{
    refused("{\"a\":1,\"b\":2,\"a\":3}", 13,
            "duplicate key in a JSON object, expected each key once, found \"a\"");
    refused("{\"a\":1,\"\\u0061\":3}", 7,
            "duplicate key in a JSON object, expected each key once, found \"\\u0061\"");
    refused("{\"x\":{\"\":1,\"\":2}}", 11,
            "duplicate key in a JSON object, expected each key once, found \"\"");
    json_decref(parsed("{\"a\":{\"a\":{\"a\":1}}}"));
}

TEST(depth_ends_at_sixty_four)
{
    enum { DEEP = 100000 };
    char *text = malloc(2 * DEEP + 8);
    for (int depth = 63; depth <= 65; depth++) {
        memcpy(text, "{\"a\":", 5);
        memset(text + 5, '[', (size_t)depth - 1);
        memset(text + 4 + depth, ']', (size_t)depth - 1);
        strcpy(text + 4 + 2 * depth - 1, "}");
        if (depth <= 64)
            json_decref(parsed(text));
        else
            refused(text, 5 + 63, "JSON nested too deep, expected at most 64 levels, found '['");
    }
    memset(text + 5, '[', DEEP);
    text[5 + DEEP] = 0;
    refused(text, 5 + 63, "JSON nested too deep, expected at most 64 levels, found '['");
    free(text);
    // The scanner counts depth as the parser does.
    struct qkv_scan s = { .data = "[[[[1],{\"a\":[2]}]]]", .size = 19 };
    CHECK(qkv_scan_value(&s));
    CHECK_EQ(s.at, 19);
}

TEST(a_number_fits_or_is_refused)
{
    refused("{\"a\":9223372036854775808}", 5,
            "number too large for JSON, expected an integer of at most 64 bits, found "
            "9223372036854775808");
    refused("{\"a\":-9223372036854775809}", 5,
            "number too large for JSON, expected an integer of at most 64 bits, found "
            "-9223372036854775809");
    refused("{\"a\":1e999}", 5,
            "number too large for JSON, expected an integer of at most 64 bits, found 1e999");
    refused("{\"a\":-1.5e400}", 5,
            "number too large for JSON, expected an integer of at most 64 bits, found -1.5e400");
    enum { LONG = 1000000 };
    char *text = malloc(LONG + 20);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '7', LONG);
    strcpy(text + 5 + LONG, "}");
    char says[200] = "number too large for JSON, expected an integer of at most 64 bits, found ";
    memset(says + strlen(says), '7', 64);
    refused(text, 5, says);
    memcpy(text + 5, "0.", 2); // long, but a number
    json_t *v = parsed(text);
    CHECK(json_real_value(json_object_get(v, "a")) == 7.0 / 9);
    json_decref(v);
    free(text);
}

TEST(a_number_does_not_depend_on_the_locale)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "C" };
    for (size_t i = 0; i < 3; i++)
        if (setlocale(LC_NUMERIC, names[i])) break;
    json_t *v = parsed("{\"a\":1.5}");
    CHECK(json_real_value(json_object_get(v, "a")) == 1.5);
    json_decref(v);
    setlocale(LC_NUMERIC, "C");
}

TEST(locations_in_files_are_line_and_column)
{
    char path[] = "/tmp/qkv-json-XXXXXX";
    const int fd = mkstemp(path);
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": tru\n}";
    CHECK_EQ(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    json_t *v;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_json_file(&v, path, 1000, &err), QKV_ERR_FORMAT);
    CHECK_TEXT(err.path, "3:8");
    CHECK(!err.has_offset);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_json_file(&v, path, 10, &err), QKV_ERR_LIMIT);
    CHECK_TEXT(err.text, "file too large, expected at most 10 bytes, found 24");
    unlink(path);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_json_file(&v, path, 10, &err), QKV_ERR_IO);
    CHECK(v == NULL);
}

TEST(members_have_the_type_they_are_asked_for)
{
    json_t *v = parsed("{\"i\":5,\"r\":1.5,\"t\":\"x\",\"b\":true,\"n\":null,\"big\":1000}");
    qkv_error err = { 0 };
    const struct qkv_json_at at = { v, "f", "$.m", &err };
    int64_t i = 7;
    double r = 7;
    bool b = false;
    const char *t = "old";
    CHECK(qkv_json_int(&at, "i", true, &i, 0, 10) && i == 5);
    CHECK(qkv_json_real(&at, "r", true, &r) && r == 1.5);
    CHECK(qkv_json_real(&at, "i", true, &r) && r == 5);
    CHECK(qkv_json_bool(&at, "b", true, &b) && b);
    CHECK(qkv_json_text(&at, "t", true, &t) && strcmp(t, "x") == 0);
    i = 7;
    CHECK(qkv_json_int(&at, "no", false, &i, 0, 10) && i == 7); // keeps its value
    CHECK(qkv_json_int(&at, "n", false, &i, 0, 10) && i == 7);  // null counts as missing
    CHECK_EQ(err.status, QKV_OK);
#define REFUSED(call, want, where, says)                                                           \
    memset(&err, 0, sizeof err);                                                                   \
    CHECK(!(call));                                                                                \
    CHECK_EQ(err.status, want);                                                                    \
    CHECK_TEXT(err.path, where);                                                                   \
    CHECK_TEXT(err.text, says)
    REFUSED(qkv_json_int(&at, "no", true, &i, 0, 10), QKV_ERR_FORMAT, "$.m.no",
            "required member is missing, expected a value, found none");
    REFUSED(qkv_json_int(&at, "n", true, &i, 0, 10), QKV_ERR_FORMAT, "$.m.n",
            "required member is missing, expected a value, found none");
    REFUSED(qkv_json_int(&at, "r", true, &i, 0, 10), QKV_ERR_FORMAT, "$.m.r",
            "value of the wrong type, expected an integer, found a real number");
    REFUSED(qkv_json_int(&at, "b", true, &i, 0, 10), QKV_ERR_FORMAT, "$.m.b",
            "value of the wrong type, expected an integer, found true");
    REFUSED(qkv_json_int(&at, "i", true, &i, 6, 10), QKV_ERR_FORMAT, "$.m.i",
            "number out of range, expected 6 .. 10, found 5");
    REFUSED(qkv_json_limited(&at, "big", true, &i, 6, 10), QKV_ERR_LIMIT, "$.m.big",
            "number out of range, expected 6 .. 10, found 1000");
    REFUSED(qkv_json_real(&at, "t", true, &r), QKV_ERR_FORMAT, "$.m.t",
            "value of the wrong type, expected a number, found a text");
    REFUSED(qkv_json_bool(&at, "i", true, &b), QKV_ERR_FORMAT, "$.m.i",
            "value of the wrong type, expected true or false, found an integer");
    REFUSED(qkv_json_text(&at, "b", true, &t), QKV_ERR_FORMAT, "$.m.b",
            "value of the wrong type, expected a text, found true");
    json_decref(v);
}

TEST(a_list_file_contains_an_array)
{
    static const struct {
        const char *text, *place, *says;
    } cases[] = {
        { "[1, {\"a\": 2}]\n", NULL, NULL },
        { "[]", NULL, NULL },
        { "{}", "1:1", "not a JSON array, expected '[', found '{'" },
        { "", "1:1", "not a JSON array, expected '[', found the end" },
        { "[1,]", "1:4", "malformed JSON, expected a value, found ']'" },
        { "[1]]", "1:4", "bytes after the JSON array, expected the end, found ']'" },
    };
    EACH(c, cases)
    {
        char path[] = "/tmp/qkv-json-XXXXXX";
        const int fd = mkstemp(path);
        CHECK_EQ(write(fd, c->text, strlen(c->text)), strlen(c->text));
        close(fd);
        json_t *v;
        qkv_error err = { 0 };
        const qkv_status status = qkv_json_list_file(&v, path, 1000, &err);
        unlink(path);
        CHECK_EQ(status, c->says ? QKV_ERR_FORMAT : QKV_OK);
        CHECK(c->says ? v == NULL : json_is_array(v));
        if (c->says) {
            CHECK_TEXT(err.path, c->place);
            CHECK_TEXT(err.text, c->says);
        }
        json_decref(v);
    }
}

TEST(a_huge_file_is_refused_before_it_is_read)
{
    char path[] = "/tmp/qkv-json-XXXXXX";
    const int fd = mkstemp(path);
    CHECK_EQ(ftruncate(fd, (off_t)1 << 40), 0); // sparse
    close(fd);
    json_t *v;
    qkv_error err = { 0 };
    faults_begin(0, false);
    const qkv_status status = qkv_json_file(&v, path, 1 << 20, &err);
    unlink(path);
    CHECK_EQ(status, QKV_ERR_LIMIT);
    CHECK_TEXT(err.text, "file too large, expected at most 1048576 bytes, found 1099511627776");
    CHECK(atomic_load(&faults_peak) < 65536);
    CHECK_EQ(faults_end(NULL), 0);
}

static qkv_status parse_free(void *ctx, qkv_error *err)
{
    json_t *v = NULL;
    const qkv_status status = qkv_json_parse(&v, ctx, strlen(ctx), "f", 0, err);
    if (status == QKV_OK) { // never an incomplete tree: the parser of jansson drops bytes here
        const json_t *list = json_object_get(v, "a key of more than sixteen bytes");
        CHECK_TEXT(json_string_value(json_array_get(list, 2)),
                   "a text that is longer than sixteen \xc3\xa9");
        CHECK(json_integer_value(json_array_get(list, 0)) == 1234567890123456789);
        CHECK(json_real_value(json_array_get(list, 1)) == 1.2345678901234567890);
    }
    json_decref(v);
    return status;
}

TEST(reals_are_written_with_the_fewest_digits_that_read_back)
{
    static const struct {
        const char *text;
        double x;
    } numbers[] = { { "0.8", .8 },
                    { "1e-12", 1e-12 },
                    { "10000.0", 1e4 },
                    { "0.3333333333333333", 1. / 3 },
                    { "0.30000000000000004", .1 + .2 },
                    { "0.10000000149011612", (double).1f } };
    char path[] = "/tmp/qkv-json-XXXXXX";
    qkv_error err = { 0 };
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_t *root = json_pack("{s[f]}", "list", numbers[i].x), *back = NULL;
        CHECK_EQ(qkv_json_write(path, root, true, &err), QKV_OK);
        char text[64] = "";
        FILE *f = fopen(path, "r");
        CHECK(fread(text, 1, sizeof text - 1, f) > 0);
        fclose(f);
        if (!strstr(text, numbers[i].text)) fail_msg("%s, expected %s", text, numbers[i].text);
        CHECK_EQ(qkv_json_file(&back, path, 1000, &err), QKV_OK);
        CHECK(json_equal(root, back));
        json_decref(root);
        json_decref(back);
    }
    unlink(path);
}

// The text of jansson, except that each real has its own number of digits.
TEST(a_long_real_does_not_lengthen_the_others)
{
    static const char text[] = "{\n"
                               "  \"none\": [],\n"
                               "  \"list\": [\n"
                               "    0.1,\n"
                               "    0.30000000000000004,\n"
                               "    {\n"
                               "      \"a \\\"key\\\"\": 1e-12,\n"
                               "      \"empty\": {}\n"
                               "    },\n"
                               "    null,\n"
                               "    [\n"
                               "      true,\n"
                               "      -7\n"
                               "    ]\n"
                               "  ],\n"
                               "  \"0.8\": 0.8\n"
                               "}\n";
    char path[] = "/tmp/qkv-json-XXXXXX", got[512] = "";
    json_error_t wrong;
    qkv_error err = { 0 };
    close(mkstemp(path));
    json_t *root = json_loads(text, 0, &wrong);
    CHECK(root != NULL);
    CHECK_EQ(qkv_json_write(path, root, true, &err), QKV_OK);
    FILE *f = fopen(path, "r");
    CHECK(fread(got, 1, sizeof got - 1, f) > 0);
    fclose(f);
    CHECK_TEXT(got, text);
    json_decref(root);
    unlink(path);
}

TEST(every_failed_allocation_is_survived)
{
    char text[] =
        "{\"a key of more than sixteen bytes\":[1234567890123456789,1.2345678901234567890,"
        "\"a text that is longer than sixteen "
        "\\u00e9\",true,null,{}],\"b\":1,\"c\":2,\"d\":3,\"e\":4,"
        "\"f\":5,\"g\":6,\"h\":7,\"i\":8,\"j\":[[[]]],\"k\":\"\"}";
    CHECK(faults_walk(parse_free, text, true) >= 25);
}

CHECK_MAIN(CASE(a_text_becomes_its_tree),
           CASE(a_root_that_is_no_object_is_refused_at_its_first_byte),
           CASE(bytes_after_the_object_are_refused),
           CASE(each_syntax_error_is_reported_at_its_byte), CASE(texts_are_utf8_without_nul),
           CASE(duplicate_keys_are_refused), CASE(depth_ends_at_sixty_four),
           CASE(a_number_fits_or_is_refused), CASE(a_number_does_not_depend_on_the_locale),
           CASE(locations_in_files_are_line_and_column),
           CASE(members_have_the_type_they_are_asked_for), CASE(a_list_file_contains_an_array),
           CASE(a_huge_file_is_refused_before_it_is_read),
           CASE(reals_are_written_with_the_fewest_digits_that_read_back),
           CASE(a_long_real_does_not_lengthen_the_others),
           CASE(every_failed_allocation_is_survived))
