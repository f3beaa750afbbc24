// SPDX-License-Identifier: MIT
// test_error.c: checks error lines: escaped, cut at a character, the first error is kept.
#include "check.h"
#include "base/base.h"
#include <errno.h>

static const char *line(char out[2000], const qkv_error *err)
{
    return qkv_error_line(out, 2000, err);
}

TEST(a_line_says_file_place_and_what)
{
    char out[2000];
    qkv_error err = { 0 };
    struct qkv_location at = { .file = "m.safetensors", .has_offset = true, .offset = 4096 };
    CHECK_EQ(qkv_fail(&err, QKV_ERR_FORMAT, &at, "size, expected %d, found %d", 1, 2),
             QKV_ERR_FORMAT);
    CHECK_TEXT(line(out, &err), "m.safetensors: at byte 4096: size, expected 1, found 2");
    memset(&err, 0, sizeof err);
    at.path = "$.a.b";
    qkv_fail(&err, QKV_ERR_FORMAT, &at, "x");
    CHECK_TEXT(line(out, &err), "m.safetensors: at byte 4096 ($.a.b): x");
    memset(&err, 0, sizeof err);
    at.has_offset = false;
    qkv_fail(&err, QKV_ERR_FORMAT, &at, "x");
    CHECK_TEXT(line(out, &err), "m.safetensors: at $.a.b: x");
    memset(&err, 0, sizeof err);
    qkv_fail(&err, QKV_ERR_USAGE, NULL, "x");
    CHECK_TEXT(line(out, &err), "x");
    CHECK_TEXT(line(out, &(qkv_error){ 0 }), "");
    CHECK_TEXT(line(out, NULL), "");
}

TEST(the_first_error_stays)
{
    qkv_error err = { 0 };
    qkv_fail(&err, QKV_ERR_IO, NULL, "first");
    CHECK_EQ(qkv_fail(&err, QKV_ERR_FORMAT, NULL, "second"), QKV_ERR_FORMAT);
    CHECK_EQ(err.status, QKV_ERR_IO);
    CHECK_TEXT(err.text, "first");
    CHECK_EQ(qkv_fail(NULL, QKV_ERR_LIMIT, NULL, "not stored"), QKV_ERR_LIMIT);
}

TEST(terminal_controls_are_escaped)
{
    static const struct {
        const char *raw, *shown;
    } cases[] = {
        { "a\nb\tc", "a\\x0ab\\x09c" },
        { "\x1b[31mred", "\\x1b[31mred" },
        { "\x7f", "\\x7f" },
        { "caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80" },
        { "\xff\xfe", "\\xff\\xfe" },
        { "cut \xc3", "cut \\xc3" },
        { "\xc2\x9b[0m", "\\xc2\\x9b[0m" }, // the one-character form of ESC [
        { "a\xe2\x80\xae"
          "b",
          "a\\xe2\\x80\\xae"
          "b" }, // right-to-left override
        { "a\xe2\x81\xa6"
          "b",
          "a\\xe2\\x81\\xa6"
          "b" }, // isolate
        { "a\xe2\x80\xa8"
          "b",
          "a\\xe2\\x80\\xa8"
          "b" },                               // line separator
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, // a surrogate
        { "100% \\ fine", "100% \\ fine" },
    };
    EACH(c, cases)
    {
        qkv_error err = { 0 };
        qkv_fail(&err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = c->raw, .path = c->raw },
                 "%s", c->raw);
        CHECK_TEXT(err.text, c->shown);
        CHECK_TEXT(err.file, c->shown);
        CHECK_TEXT(err.path, c->shown);
    }
}

TEST(a_long_text_is_cut_at_a_character)
{
    for (size_t n = 500; n < 520; n++) {
        char name[600];
        memset(name, 'x', n);
        name[n] = 0;
        qkv_error err = { 0 };
        qkv_fail(&err, QKV_ERR_IO, &(struct qkv_location){ .file = name }, "x");
        if (n < sizeof err.file)
            CHECK_TEXT(err.file, name);
        else
            CHECK_TEXT(err.file + sizeof err.file - 5, "x...");
    }
    for (size_t lead = 0; lead < 8;
         lead++) { // four-byte characters end at every distance from the end
        char text[2000] = "";
        memset(text, '-', lead);
        for (size_t i = 0; i < 300; i++) memcpy(text + lead + 4 * i, "\xf0\x9f\x98\x80", 5);
        qkv_error err = { 0 };
        qkv_fail(&err, QKV_ERR_IO, NULL, "%s", text);
        const size_t n = strlen(err.text);
        CHECK(n < sizeof err.text && n > sizeof err.text - 9);
        CHECK_TEXT(err.text + n - 3, "...");
        CHECK_EQ((n - 3 - lead) % 4, 0);
    }
}

TEST(a_line_that_is_too_long_is_cut_with_dots)
{
    qkv_error err = { 0 };
    qkv_fail(&err, QKV_ERR_IO, &(struct qkv_location){ .file = "f" }, "caf\xc3\xa9 caf\xc3\xa9");
    static const char whole[] = "f: caf\xc3\xa9 caf\xc3\xa9";
    for (size_t size = 0; size < sizeof whole + 3; size++) {
        char out[40];
        memset(out, '#', sizeof out);
        CHECK(qkv_error_line(out, size, &err) == out);
        CHECK_EQ(out[size], '#');
        if (size == 0) continue;
        const size_t n = strlen(out);
        CHECK(n < size);
        if (size >= sizeof whole) {
            CHECK_TEXT(out, whole);
        } else if (size >= 4) {
            CHECK_TEXT(out + n - 3, "...");
            for (size_t i = 0; i < n - 3;) { // only whole characters before the dots
                const size_t k = qkv_utf8_bytes(out + i, n - 3 - i);
                CHECK(k > 0);
                i += k;
            }
        }
    }
}

TEST(each_status_has_a_name_and_errno_a_text)
{
    CHECK_TEXT(qkv_status_name(QKV_OK), "ok");
    CHECK_TEXT(qkv_status_name(QKV_ERR_INTERNAL), "internal");
    CHECK_TEXT(qkv_status_name(QKV_ERR_USAGE), "usage");
    CHECK_TEXT(qkv_status_name(QKV_ERR_FORMAT), "format");
    CHECK_TEXT(qkv_status_name(QKV_ERR_UNSUPPORTED), "unsupported");
    CHECK_TEXT(qkv_status_name(QKV_ERR_LIMIT), "limit");
    CHECK_TEXT(qkv_status_name(QKV_ERR_IO), "io");
    CHECK_TEXT(qkv_status_name(QKV_ERR_INTERRUPTED), "interrupted");
    CHECK_TEXT(qkv_status_name((qkv_status)99), "unknown");
    char out[2000];
    qkv_error err = { 0 };
    CHECK_EQ(qkv_fail_errno(&err, "f", "cannot open", ENOENT), QKV_ERR_IO);
    CHECK_TEXT(line(out, &err), "f: cannot open: No such file or directory");
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_fail_memory(&err, "f"), QKV_ERR_LIMIT);
    CHECK_TEXT(line(out, &err), "f: out of memory");
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR,
             QKV_VERSION_PATCH);
    CHECK_TEXT(qkv_version(), version);
}

TEST(a_size_of_zero_is_no_error)
{
    char out[8] = "kept";
    qkv_error err = { 0 };
    CHECK(qkv_escape(out, 0, "text") == out);
    CHECK_TEXT(out, "kept");
    CHECK(qkv_error_line(out, 0, &err) == out);
    CHECK(qkv_error_line(NULL, sizeof out, &err) == NULL);
    CHECK_TEXT(out, "kept");
    CHECK_EQ(qkv_fail_errno(&err, "f", "cannot open", ENAMETOOLONG), QKV_ERR_IO);
    CHECK_TEXT(qkv_error_line(out, 3, &err), "f:");
    // the marks of direction U+2066 to U+2069 are escaped, their neighbours are not
    char wide[64];
    CHECK_TEXT(qkv_escape(wide, sizeof wide, "\xe2\x81\x82\xe2\x81\xaa"),
               "\xe2\x81\x82\xe2\x81\xaa");
    CHECK(strcmp(qkv_escape(wide, sizeof wide, "\xe2\x81\xa6"), "\xe2\x81\xa6") != 0);
}

CHECK_MAIN(CASE(a_size_of_zero_is_no_error), CASE(a_line_says_file_place_and_what),
           CASE(the_first_error_stays), CASE(terminal_controls_are_escaped),
           CASE(a_long_text_is_cut_at_a_character), CASE(a_line_that_is_too_long_is_cut_with_dots),
           CASE(each_status_has_a_name_and_errno_a_text))
