// SPDX-License-Identifier: MIT
// test_scan.c: checks the scanner of JSON at every byte where it decides: UTF-8, escapes, numbers,
// sizes, and the ends of values.
#include "base/base_internal.h"
#include "check.h"

// The number of bytes of a character that begins with a and b and is continued by 0x80 (RFC 3629).
static size_t utf8_by_table(int a, int b)
{
    static const struct {
        int first, last, from, to;
        size_t bytes;
    } rows[] = { { 0x00, 0x7F, 0x00, 0xFF, 1 }, { 0xC2, 0xDF, 0x80, 0xBF, 2 },
                 { 0xE0, 0xE0, 0xA0, 0xBF, 3 }, { 0xE1, 0xEC, 0x80, 0xBF, 3 },
                 { 0xED, 0xED, 0x80, 0x9F, 3 }, { 0xEE, 0xEF, 0x80, 0xBF, 3 },
                 { 0xF0, 0xF0, 0x90, 0xBF, 4 }, { 0xF1, 0xF3, 0x80, 0xBF, 4 },
                 { 0xF4, 0xF4, 0x80, 0x8F, 4 } };
    EACH(r, rows)
    if (a >= r->first && a <= r->last && b >= r->from && b <= r->to) return r->bytes;
    return 0;
}

TEST(utf8_is_what_its_table_says)
{
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            for (int bad = 0; bad < 3; bad++) { // which of the last two bytes continues nothing
                const char text[4] = { (char)a, (char)b, bad == 1 ? 'x' : '\x80',
                                       bad == 2 ? '\xC0' : '\xBF' };
                const size_t want = utf8_by_table(a, b), good = bad ? (size_t)bad + 1 : 4;
                for (size_t left = 0; left <= 4; left++) {
                    const size_t got = qkv_utf8_bytes(text, left);
                    if (got != (want <= left && want <= good ? want : 0))
                        fail_msg("%02x %02x: %zu of %zu bytes", a, b, got, left);
                }
            }
}

TEST(a_byte_continues_a_character_as_char_and_as_unsigned_char)
{
    for (int a = 0; a < 256; a++) {
        const bool want = a >= 0x80 && a <= 0xBF;
        CHECK_EQ(qkv_utf8_continues((unsigned char)a), want);
        CHECK_EQ(qkv_utf8_continues((char)a), want);
        CHECK_EQ(qkv_utf8_continues((signed char)a), want);
    }
}

// Scans a text of which `at` bytes are to be read, and then, unless want is NULL, that is missing.
static void scans(bool (*read)(struct qkv_scan *s), const char *text, size_t at, const char *want)
{
    struct qkv_scan s = { .data = text, .size = strlen(text) };
    const bool ok = read(&s);
    if (ok != !want || s.at != at || (want && (!s.want || strcmp(s.want, want) != 0)))
        fail_msg("%s: byte %zu, %s", text, s.at, s.want ? s.want : "no error");
}

static bool number(struct qkv_scan *s)
{
    bool integer = false;
    const bool ok = qkv_scan_number(s, &integer);
    if (ok) CHECK_EQ(integer, strcspn(s->data, ".eE") == s->size);
    return ok;
}

TEST(a_number_ends_where_its_grammar_ends)
{
    static const char digit[] = "a digit", zeros[] = "a number without leading zeros";
    scans(number, "0", 1, NULL);
    scans(number, " -0", 3, NULL);
    scans(number, "12,", 2, NULL);
    scans(number, "-1.25e+10]", 9, NULL);
    scans(number, "1E5", 3, NULL);
    scans(number, "1e-5", 4, NULL);
    scans(number, "0.5", 3, NULL);
    scans(number, "", 0, digit);
    scans(number, "-", 1, digit);
    scans(number, "-x", 1, digit);
    scans(number, "/", 0, digit);
    scans(number, ":", 0, digit);
    scans(number, "01", 1, zeros);
    scans(number, "1.", 2, digit);
    scans(number, "1.e", 2, digit);
    scans(number, "1e", 2, digit);
    scans(number, "1e+", 3, digit);
    scans(number, "1E-x", 3, digit);
}

static bool size(struct qkv_scan *s)
{
    uint64_t n = 77;
    const bool ok = qkv_scan_size(s, &n, "a size");
    CHECK_EQ(n, ok ? strtoull(s->data, NULL, 10) : 77);
    return ok;
}

TEST(a_size_is_a_whole_number_of_64_bits)
{
    scans(size, "0", 1, NULL);
    scans(size, " 7,", 2, NULL);
    scans(size, "18446744073709551615", 20, NULL);
    scans(size, "18446744073709551616", 0, "a size");
    scans(size, "184467440737095516150", 0, "a size");
    scans(size, "", 0, "a size");
    scans(size, "-1", 0, "a size");
    scans(size, "00", 0, "a size");
    scans(size, "1.0", 0, "a size");
    scans(size, "1e3", 0, "a size");
    scans(size, "1E3", 0, "a size");
    struct qkv_scan s = { .data = "12\0003", .size = 4 }; // a NUL is no part of ".eE"
    uint64_t n;
    CHECK(qkv_scan_size(&s, &n, "a size") && n == 12 && s.at == 2);
}

static bool string(struct qkv_scan *s)
{
    struct qkv_span raw;
    char text[64];
    if (!qkv_scan_string(s, &raw)) return false;
    const size_t n = qkv_span_decode(text, &raw);
    CHECK(n < sizeof text);
    text[n] = 0;
    CHECK_EQ(raw.escaped, memchr(raw.at, '\\', raw.bytes) != NULL);
    CHECK_EQ(qkv_span_is(&raw, "plain"), strcmp(text, "plain") == 0);
    CHECK(!qkv_span_is(&raw, "plaic"));
    if (raw.escaped)
        CHECK_TEXT(text, "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEE\x80\x80z");
    return true;
}

TEST(escapes_are_checked_and_decoded)
{
    static const char high[] = "a high surrogate before a low surrogate",
                      low[] = "a low surrogate after a high surrogate",
                      four[] = "four hexadecimal digits after \\u",
                      valid[] = "a valid JSON escape such as \\n";
    scans(string, "\"plain\"", 7, NULL);
    scans(string, "\"plan\"", 6, NULL);
    scans(string, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\\uE000z\"", 55,
          NULL);
    scans(string, "\"\\u00g0\"", 2, four);
    scans(string, "\"\\u00:0\"", 2, four);
    scans(string, "\"\\u0@00\"", 2, four);
    scans(string, "\"\\u000", 2, four);
    scans(string, "\"\\u0000\"", 2, "a string without NUL characters");
    scans(string, "\"\\uDC00\"", 2, high);
    scans(string, "\"\\uDFFF\"", 2, high);
    scans(string, "\"\\uD800\"", 7, low);
    scans(string, "\"\\uD800\\n12345\"", 7, low);
    scans(string, "\"\\uDBFF\\uDBFF\"", 7, low);
    scans(string, "\"\\uDBFF\\uE000\"", 7, low);
    scans(string, "\"\\uDBFF\\u00zz\"", 7, low);
    scans(string, "\"\\uDBFFxuDC00\"", 7, low);
    scans(string, "\"\\v\"", 2, valid);
    scans(string, "\"\\", 2, "an escape");
    scans(string, "\"a", 2, "the closing quote of a string");
    scans(string, "\"\x1f\"", 1, "control characters to be written as escapes");
    scans(string, "\"\xC3\"", 1, "valid UTF-8");
    scans(string, "x", 0, "a text in quotes");
}

TEST(a_value_is_scanned_to_its_end)
{
    scans(qkv_scan_value, "{\"a\":[1,{},[],\"x\",true,false,null,-1.5],\"b\":{\"c\":0}} ", 52,
          NULL);
    scans(qkv_scan_value, "\t\r\n true,", 8, NULL);
    scans(qkv_scan_value, "tru", 0, "a value");
    scans(qkv_scan_value, "falsy", 0, "a value");
    scans(qkv_scan_value, "nul", 0, "a value");
    scans(qkv_scan_value, "", 0, "a value");
    scans(qkv_scan_value, "[1 2]", 3, "',' or ']'");
    scans(qkv_scan_value, "{\"a\":1 2}", 7, "',' or '}'");
    scans(qkv_scan_value, "{\"a\":[1}", 7, "',' or ']'");
    scans(qkv_scan_value, "{\"a\" 1}", 5, "a colon after a key");
    scans(qkv_scan_value, "{\"a\":1,}", 7, "a text in quotes");
    scans(qkv_scan_value, "{1:2}", 1, "a text in quotes");
    scans(qkv_scan_value, "[1,]", 3, "a value");
    scans(qkv_scan_value, "[;]", 1, "a value");
    char deep[QKV_JSON_DEPTH + 2];
    memset(deep, '[', sizeof deep);
    deep[QKV_JSON_DEPTH + 1] = 0;
    scans(qkv_scan_value, deep, QKV_JSON_DEPTH, QKV_SCAN_TOO_DEEP);
    deep[QKV_JSON_DEPTH] = 0;
    scans(qkv_scan_value, deep, QKV_JSON_DEPTH, "a value");
}

TEST(the_byte_that_was_found_is_printed)
{
    char found[16];
    static const struct {
        const char *text, *want;
    } rows[] = { { "", "the end" },    { "x", "'x'" },          { "~", "'~'" },
                 { " ", "byte 0x20" }, { "\x7f", "byte 0x7f" }, { "\x80", "byte 0x80" } };
    EACH(r, rows)
    {
        const struct qkv_scan s = { .data = r->text, .size = strlen(r->text) };
        qkv_scan_found(found, &s);
        CHECK_TEXT(found, r->want);
    }
}

CHECK_MAIN(CASE(utf8_is_what_its_table_says),
           CASE(a_byte_continues_a_character_as_char_and_as_unsigned_char),
           CASE(a_number_ends_where_its_grammar_ends), CASE(a_size_is_a_whole_number_of_64_bits),
           CASE(escapes_are_checked_and_decoded), CASE(a_value_is_scanned_to_its_end),
           CASE(the_byte_that_was_found_is_printed))
