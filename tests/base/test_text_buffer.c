// SPDX-License-Identifier: MIT
// test_text_buffer.c: checks growing text: numbers, JSON strings, failed allocations.
#include <locale.h>
#include "base/base.h"
#include "base/faults.h"

TEST(text_is_appended_and_terminated)
{
    struct qkv_text_buffer b = { 0 };
    char large[2000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    qkv_text_append(&b, "a\0b", 3);
    qkv_text_append(&b, NULL, 0);
    qkv_text_append_string(&b, "cd");
    CHECK_EQ(b.count, 5);
    CHECK(memcmp(b.bytes, "a\0bcd", 6) == 0);
    qkv_text_append_format(&b, "%s|%d", large, 7); // longer than the buffer on the stack
    CHECK_EQ(b.count, 5 + 1999 + 2);
    CHECK_TEXT(b.bytes + b.count - 2, "|7");
    qkv_text_buffer_free(&b);
    CHECK(!b.bytes && !b.count && !b.capacity);
    qkv_text_buffer_free(&b);
}

TEST(numbers_are_the_same_in_every_locale)
{
    struct qkv_text_buffer b = { 0 };
    (void)setlocale(LC_ALL, "de_DE.UTF-8"); // decimal comma, where it is installed
    qkv_text_append_integer(&b, INT64_MIN);
    qkv_text_append_string(&b, " ");
    qkv_text_append_real(&b, -1.5);
    (void)setlocale(LC_ALL, "C");
    CHECK_TEXT(b.bytes, "-9223372036854775808 -1.50000000");
    qkv_text_buffer_free(&b);
}

TEST(a_json_string_is_escaped)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *plain, *html;
    } cases[] = {
        { "", 0, "\"\"", "\"\"" },
        { "a\"\\/", 4, "\"a\\\"\\\\/\"", "\"a\\u0022\\u005c/\"" },
        { "\0\n\x1f\x7f", 4, "\"\\u0000\\u000a\\u001f\\u007f\"",
          "\"\\u0000\\u000a\\u001f\\u007f\"" },
        { "<&>", 3, "\"<&>\"", "\"\\u003c\\u0026\\u003e\"" },
        { "\u2028\u2029\u202a", 9, "\"\u2028\u2029\u202a\"", "\"\\u2028\\u2029\u202a\"" },
        { "\u00e9\U0001F600", 6, "\"\u00e9\U0001F600\"", "\"\u00e9\U0001F600\"" },
        { "\xE2\x80z\xFF", 4, "\"\xE2\x80z\xFF\"", "\"\uFFFD\uFFFDz\uFFFD\"" },
    };
    EACH(c, cases)
    {
        struct qkv_text_buffer plain = { 0 }, html = { 0 };
        qkv_text_append_json(&plain, c->text, c->bytes, QKV_JSON_PLAIN);
        qkv_text_append_json(&html, c->text, c->bytes, QKV_JSON_HTML);
        CHECK_TEXT(plain.bytes, c->plain);
        CHECK_TEXT(html.bytes, c->html);
        qkv_text_buffer_free(&plain);
        qkv_text_buffer_free(&html);
    }
}

TEST(after_a_failed_allocation_nothing_is_appended)
{
    struct qkv_text_buffer b = { 0 };
    faults_begin(0, false);
    qkv_text_append_string(&b, "0123456789");
    qkv_text_append(&b, "x", (size_t)INT64_MAX);
    CHECK(b.failed);
    qkv_text_append_string(&b, "y");
    qkv_text_append_format(&b, "%d", 1);
    CHECK_EQ(b.count, 10);
    CHECK_TEXT(b.bytes, "0123456789");
    qkv_text_buffer_free(&b);
    CHECK_EQ(faults_end(NULL), 0);
    for (int fault = 1; fault <= 3; fault++) {
        char large[700];
        memset(large, 'x', sizeof large - 1);
        large[sizeof large - 1] = 0;
        faults_begin(fault, false);
        qkv_text_append_string(&b, "a");
        qkv_text_append_format(&b, "%s", large);
        CHECK(b.failed);
        qkv_text_buffer_free(&b);
        CHECK_EQ(faults_end(NULL), 0);
    }
}

CHECK_MAIN(CASE(text_is_appended_and_terminated), CASE(numbers_are_the_same_in_every_locale),
           CASE(a_json_string_is_escaped), CASE(after_a_failed_allocation_nothing_is_appended))
