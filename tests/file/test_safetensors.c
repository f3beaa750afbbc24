// SPDX-License-Identifier: MIT
// test_safetensors.c: checks valid .safetensors files and each kind of malformed one.
#include "base/faults.h"
#include "file/fixtures.h"

#define T(name, fields)     "\"" name "\":{" fields "}"
#define F32(shape, offsets) "\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets

static void refused(const char *header, size_t data, qkv_status status, int64_t at,
                    const char *text)
{
    fixture_refused(fixture_safetensors("bad.safetensors", header, strlen(header), data), status,
                    at, "", text);
}
static qkv_tensors *accepted(const char *header, size_t data)
{
    return fixture_open(fixture_safetensors("good.safetensors", header, strlen(header), data),
                        false);
}
// Writes a file of these bytes, size field included, and expects its refusal.
static void refused_bytes(const void *bytes, size_t n, qkv_status status, int64_t at,
                          const char *text)
{
    fixture_refused(fixture_file("bad.safetensors", bytes, n), status, at, "", text);
}

TEST(a_file_is_read_as_it_was_written)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"who\":\"a\\u00e9\\\"\"}"
        "," T("b", "\"dtype\":\"I16\",\"shape\":[2,1,3],\"data_offsets\":["
                   "8,20]") "," T("a", F32("[2]",
                                           "[0,8]")) "," T("caf\\u00e9",
                                                           "\"shape\":[],\"data_offsets\":[20,21],"
                                                           "\"dtype\":\"U8\"") "}  \n";
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        qkv_tensors *t = fixture_open(
            fixture_safetensors("ok.safetensors", header, strlen(header), 21), no_mmap);
        CHECK_EQ(qkv_tensors_count(t), 3);
        CHECK_TEXT(qkv_tensors_at(t, 0)->name, "a");
        CHECK_TEXT(qkv_tensors_at(t, 1)->name, "b");
        CHECK_TEXT(qkv_tensors_at(t, 2)->name, "caf\xc3\xa9");
        CHECK(qkv_tensors_at(t, 3) == NULL);
        CHECK(qkv_tensors_at(t, -1) == NULL);
        const struct qkv_tensor *b = qkv_tensors_find(t, "b");
        CHECK_EQ(b->dtype, QKV_I16);
        CHECK_EQ(b->rank, 3);
        CHECK_EQ(b->shape[0], 2);
        CHECK_EQ(b->shape[2], 3);
        CHECK_EQ(b->bytes, 12);
        CHECK_EQ(((const uint8_t *)b->data)[0], 9);
        const struct qkv_tensor *c = qkv_tensors_find(t, "caf\xc3\xa9");
        CHECK_EQ(c->rank, 0);
        CHECK_EQ(qkv_tensor_count(c), 1);
        CHECK_EQ(((const uint8_t *)c->data)[0], 21);
        CHECK(qkv_tensors_find(t, "cafe") == NULL);
        CHECK(qkv_tensors_find(t, "") == NULL);
        CHECK_TEXT(qkv_tensors_metadata(t, "format"), "pt");
        CHECK_TEXT(qkv_tensors_metadata(t, "who"), "a\xc3\xa9\"");
        CHECK(qkv_tensors_metadata(t, "absent") == NULL);
        fixture_walk(t);
        qkv_tensors_close(t);
    }
}

TEST(a_file_too_short_for_its_size_says_how_short) // S1 S2 S3 S4
{
    refused_bytes("", 0, QKV_ERR_FORMAT, 0,
                  "file too short, expected 8 bytes of header size, found 0");
    refused_bytes("\1\2\3\4\5\6\7", 7, QKV_ERR_FORMAT, 0,
                  "file too short, expected 8 bytes of header size, found 7");
    refused("", 0, QKV_ERR_FORMAT, 8, "malformed header, expected '{', found the end");
    refused("{", 0, QKV_ERR_FORMAT, 9,
            "malformed header, expected a text in quotes, found the end");
}

TEST(a_header_larger_than_its_file_is_refused_before_memory_is_taken) // S5 S6 S7 S8
{
    faults_begin(0, false);
    refused_bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, QKV_ERR_FORMAT, 0,
                  "header too large, expected at most 2 bytes, found 18446744073709551615");
    refused_bytes("\0\0\0\0\0\0\0\x80{}", 10, QKV_ERR_FORMAT, 0,
                  "header too large, expected at most 2 bytes, found 9223372036854775808");
    refused_bytes("\x01\xe1\xf5\x05\0\0\0\0{}", 10, QKV_ERR_FORMAT, 0,
                  "header too large, expected at most 2 bytes, found 100000001");
    refused_bytes("\3\0\0\0\0\0\0\0{}", 10, QKV_ERR_FORMAT, 0,
                  "header too large, expected at most 2 bytes, found 3");
    CHECK(atomic_load(&faults_peak) < 65536);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(a_header_over_the_limit_is_a_limit) // S7
{
    const char *path = fixture_file("huge.safetensors", "\x01\xe1\xf5\x05\0\0\0\0{}", 10);
    CHECK_EQ(truncate(path, 100000001 + 8), 0); // sparse
    qkv_tensors *t;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tensors_open(&t, path, NULL, &err), QKV_ERR_LIMIT);
    CHECK_TEXT(err.text, "header too large, expected at most 100000000 bytes, found 100000001");
    CHECK(t == NULL);
}

TEST(a_size_that_cuts_the_header_names_the_byte) // S9
{
    static const char whole[] = "{" T("a", F32("[2]", "[0,8]")) "}";
    refused_bytes("\x05\0\0\0\0\0\0\0{\"a\":{\"dtype", 20, QKV_ERR_FORMAT, 13,
                  "malformed header, expected the { of a tensor, found the end");
    for (size_t n = 1; n < sizeof whole - 1;
         n++) { // cut anywhere: malformed, at the cut or before it
        const char *path = fixture_safetensors("cut.safetensors", whole, n, 8);
        qkv_tensors *t;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_tensors_open(&t, path, NULL, &err), QKV_ERR_FORMAT);
        CHECK(err.has_offset && err.offset <= 8 + (int64_t)n);
    }
}

TEST(data_need_not_be_aligned) // S10
{
    static const char header[] =
        "{" T("a", "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]") "," T(
            "b", F32("[1]", "[1,5]")) "}";
    qkv_tensors *t = accepted(header, 5);
    float x;
    qkv_tensor_to_f32(&x, qkv_tensors_find(t, "b"));
    const uint32_t bits = 0x05040302;
    CHECK_BITS(&x, &bits, 4);
    qkv_tensors_close(t);
}

TEST(a_file_without_tensors_is_a_file) // S11
{
    qkv_tensors *t = accepted("{}", 0);
    CHECK_EQ(qkv_tensors_count(t), 0);
    CHECK(qkv_tensors_find(t, "x") == NULL);
    qkv_tensors_close(t);
    t = accepted("{\"__metadata__\":{}}", 0);
    CHECK_EQ(qkv_tensors_count(t), 0);
    qkv_tensors_close(t);
}

TEST(data_fills_the_file_exactly) // S12 S13 S14 S15
{
    refused(
        "{" T("a", F32("[4]", "[0,16]")) "}", 15, QKV_ERR_FORMAT, 9,
        "data of tensor \"a\" is truncated, expected bytes 0..16, found the end of the file at 15");
    refused("{" T("a", F32("[1]", "[0,4]")) "}", 5, QKV_ERR_FORMAT, 66,
            "bytes after the last tensor, expected the end of the file, found 1 more bytes");
    refused("{}", 3, QKV_ERR_FORMAT, 10,
            "bytes after the last tensor, expected the end of the file, found 3 more bytes");
    refused("{" T("a", F32("[1]", "[0,4]")) "," T("b", F32("[1]", "[8,12]")) "}", 12,
            QKV_ERR_FORMAT, 62,
            "unused bytes before tensor \"b\", expected it at data byte 4, found it at 8");
    refused("{" T("a", F32("[1]", "[4,8]")) "}", 8, QKV_ERR_FORMAT, 9,
            "unused bytes before tensor \"a\", expected it at data byte 0, found it at 4");
}

TEST(tensors_that_share_bytes_are_named_both) // S16 S17
{
    refused("{" T("a", F32("[2]", "[0,8]")) "," T("b", F32("[2]", "[4,12]")) "}", 12,
            QKV_ERR_FORMAT, 62,
            "tensors \"a\" and \"b\" overlap, expected data byte 8 or later, found 4");
    refused("{" T("x", F32("[1]", "[0,4]")) "," T("y", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT,
            62, "tensors \"x\" and \"y\" overlap, expected data byte 4 or later, found 0");
}

TEST(offsets_are_two_numbers_in_order) // S18 S19 S20 S21
{
    static const char want[] =
        "malformed header, expected two whole numbers >= 0 below 2^64, found ";
    char text[200];
    refused("{" T("a", F32("[1]", "[4,0]")) "}", 4, QKV_ERR_FORMAT, 9,
            "invalid data_offsets of tensor \"a\", expected an end of at least 4, found 0");
    snprintf(text, sizeof text, "%s'-'", want);
    refused("{" T("a", F32("[1]", "[-4,0]")) "}", 4, QKV_ERR_FORMAT, 56, text);
    refused("{" T("a", F32("[1]", "[0,18446744073709551615]")) "}", 4, QKV_ERR_FORMAT, 9,
            "data of tensor \"a\" is truncated, expected bytes 0..18446744073709551615, found the "
            "end of the file "
            "at 4");
    snprintf(text, sizeof text, "%s'1'", want);
    refused("{" T("a", F32("[1]", "[0,18446744073709551616]")) "}", 4, QKV_ERR_FORMAT, 58, text);
    snprintf(text, sizeof text, "%s']'", want);
    refused("{" T("a", F32("[1]", "[4]")) "}", 4, QKV_ERR_FORMAT, 57, text);
    refused("{" T("a", F32("[1]", "[0,4,4]")) "}", 4, QKV_ERR_FORMAT, 59,
            "malformed header, expected a ] after two numbers, found ','");
    refused("{" T("a", F32("[1]", "[]")) "}", 4, QKV_ERR_FORMAT, 56, text);
}

TEST(sizes_are_whole_numbers) // S22
{
    static const struct {
        const char *dim, *text;
    } bad[] = {
        { "-2", "malformed header, expected a whole number >= 0 below 2^64, found '-'" },
        { "2.0", "malformed header, expected a whole number >= 0 below 2^64, found '2'" },
        { "2e0", "malformed header, expected a whole number >= 0 below 2^64, found '2'" },
        { "\"2\"", "malformed header, expected a whole number >= 0 below 2^64, found '\"'" },
        { "null", "malformed header, expected a whole number >= 0 below 2^64, found 'n'" },
        { "[2]", "malformed header, expected a whole number >= 0 below 2^64, found '['" },
        { "02", "malformed header, expected a whole number >= 0 below 2^64, found '0'" },
        { "18446744073709551616",
          "malformed header, expected a whole number >= 0 below 2^64, found '1'" },
    };
    EACH(b, bad)
    {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[0,8]}}", b->dim);
        refused(header, 8, QKV_ERR_FORMAT, 37, b->text);
    }
}

TEST(sizes_that_overflow_are_refused) // S23 S24 S25
{
    refused("{" T("a", F32("[4294967296,4294967296]", "[0,0]")) "}", 0, QKV_ERR_FORMAT, 9,
            "shape of tensor \"a\" is too large, expected less than 2^63 bytes, found more");
    refused(
        "{" T("a", F32("[0,9223372036854775808,9223372036854775808]", "[0,0]")) "}", 0,
        QKV_ERR_FORMAT, 39,
        "shape of tensor \"a\" is too large, expected sizes up to 2^48, found 9223372036854775808");
    refused("{" T("a", F32("[0,281474976710656,281474976710656]", "[0,0]")) "}", 0, QKV_ERR_FORMAT,
            9, "shape of tensor \"a\" is too large, expected less than 2^63 bytes, found more");
    refused(
        "{" T("a", F32("[4611686018427387904]", "[0,0]")) "}", 0, QKV_ERR_FORMAT, 37,
        "shape of tensor \"a\" is too large, expected sizes up to 2^48, found 4611686018427387904");
    qkv_tensors *t = accepted("{" T("a", F32("[0,281474976710656]", "[0,0]")) "}", 0);
    CHECK_EQ(qkv_tensor_count(qkv_tensors_find(t, "a")), 0);
    qkv_tensors_close(t);
}

TEST(bytes_match_dtype_and_shape) // S26 S27
{
    refused("{" T("a", F32("[3]", "[0,8]")) "}", 8, QKV_ERR_FORMAT, 9,
            "size of tensor \"a\" is wrong, expected 12 bytes for its dtype and shape, found 8");
    refused("{" T("a", "\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]") "}", 8,
            QKV_ERR_FORMAT, 9,
            "size of tensor \"a\" is wrong, expected 16 bytes for its dtype and shape, found 8");
}

TEST(a_dtype_is_known_or_refused_by_class) // S28
{
    static const struct {
        const char *dtype;
        qkv_status status;
    } bad[] = { { "\"F8_E4M3\"", QKV_ERR_UNSUPPORTED },
                { "\"F8_E5M2\"", QKV_ERR_UNSUPPORTED },
                { "\"F4\"", QKV_ERR_UNSUPPORTED },
                { "\"C64\"", QKV_ERR_UNSUPPORTED },
                { "\"f32\"", QKV_ERR_FORMAT },
                { "\"float\"", QKV_ERR_FORMAT },
                { "\"\"", QKV_ERR_FORMAT } };
    EACH(b, bad)
    {
        char header[200], text[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":%s,\"shape\":[2],\"data_offsets\":[0,8]}}", b->dtype);
        snprintf(text, sizeof text,
                 "unsupported dtype of tensor \"a\", expected F64, F32, F16, BF16, I64..I8, "
                 "U64..U8 or BOOL, found %s",
                 b->dtype);
        refused(header, 8, b->status, 22, text);
    }
    refused("{\"a\":{\"dtype\":null,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, QKV_ERR_FORMAT, 22,
            "malformed header, expected a text in quotes, found 'n'");
}

TEST(every_dtype_is_read)
{
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        char header[200];
        const size_t size = qkv_dtype_size((qkv_dtype)d);
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                 qkv_dtype_name((qkv_dtype)d), 3 * size);
        qkv_tensors *t = accepted(header, 3 * size);
        CHECK_EQ(qkv_tensors_find(t, "a")->dtype, d);
        qkv_tensors_close(t);
    }
}

TEST(a_rank_over_eight_is_a_limit) // S29
{
    qkv_tensors *t = accepted("{" T("a", F32("[1,1,1,1,1,1,1,1]", "[0,4]")) "}", 4);
    CHECK_EQ(qkv_tensors_find(t, "a")->rank, 8);
    qkv_tensors_close(t);
    refused("{" T("a", F32("[1,1,1,1,1,1,1,1,1]", "[0,4]")) "}", 4, QKV_ERR_LIMIT, 53,
            "rank of tensor \"a\" is too large, expected at most 8 axes, found more");
}

TEST(duplicate_fields_are_refused) // S30 S31
{
    refused("{" T("a", F32("[1]", "[0,4]")) "," T("b", F32("[0]", "[0,0]")) "," T(
                "a", F32("[1]", "[4,8]")) "}",
            8, QKV_ERR_FORMAT, 115, "duplicate tensor, expected each name once, found \"a\" twice");
    refused("{" T("a", F32("[1]", "[0,4]")) "," T("\\u0061", F32("[1]", "[4,8]")) "}", 8,
            QKV_ERR_FORMAT, 62, "duplicate tensor, expected each name once, found \"a\" twice");
    refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
            QKV_ERR_FORMAT, 28,
            "duplicate field of tensor \"a\", expected each field once, found dtype twice");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, QKV_ERR_FORMAT, 9,
            "missing field of tensor \"a\", expected dtype, shape and data_offsets, found no "
            "data_offsets");
    refused(
        "{\"a\":{}}", 0, QKV_ERR_FORMAT, 9,
        "missing field of tensor \"a\", expected dtype, shape and data_offsets, found no dtype");
    refused(
        "{\"a\":{\"dtype\":\"F32\",\"stride\":[1]}}", 4, QKV_ERR_FORMAT, 28,
        "unknown field of tensor \"a\", expected dtype, shape or data_offsets, found \"stride\"");
    refused("{\"a\":3}", 0, QKV_ERR_FORMAT, 13,
            "malformed header, expected the { of a tensor, found '3'");
}

TEST(an_empty_tensor_may_share_an_offset) // S32
{
    qkv_tensors *t = accepted("{" T("c", F32("[1]", "[4,8]")) "," T("a", F32("[1]", "[0,4]")) "," T(
                                  "b", F32("[0,7]", "[4,4]")) "," T("d", F32("[0]", "[4,4]")) "}",
                              8);
    CHECK_EQ(qkv_tensors_count(t), 4);
    CHECK_EQ(qkv_tensors_find(t, "b")->bytes, 0);
    qkv_tensors_close(t);
    refused("{" T("a", F32("[1]", "[0,4]")) "," T("b", F32("[0]", "[2,2]")) "}", 4, QKV_ERR_FORMAT,
            62, "tensors \"a\" and \"b\" overlap, expected data byte 4 or later, found 2");
}

TEST(names_are_texts_and_never_paths) // S33 S34
{
    qkv_tensors *t =
        accepted("{" T("", F32("[]", "[0,4]")) "," T("../../x", F32("[]", "[4,8]")) "}", 8);
    CHECK_EQ(qkv_tensors_find(t, "")->rank, 0);
    CHECK(qkv_tensors_find(t, "../../x") != NULL);
    qkv_tensors_close(t);
    refused("{" T("a\\u0000b", F32("[]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 12,
            "malformed header, expected a string without NUL characters, found 'u'");
    refused_bytes(
        "\4\0\0\0\0\0\0\0{\"\0\"", 12, QKV_ERR_FORMAT, 10,
        "malformed header, expected control characters to be written as escapes, found byte 0x00");
    enum { LONG = 1000000 };
    char *header = malloc(LONG + 200);
    header[0] = '{';
    header[1] = '"';
    memset(header + 2, 'x', LONG);
    strcpy(header + 2 + LONG, "\":{" F32("[]", "[0,4]") "}}");
    refused(header, 4, QKV_ERR_LIMIT, 9,
            "name of a tensor is too long, expected at most 4096 bytes, found 1000000");
    free(header);
}

TEST(a_header_is_strict_json) // S35
{
    static const char good[] = "{" T("a", F32("[1]", "[0,4]")) "}";
    static const struct {
        const char *before, *after;
        int64_t at;
        const char *text;
    } bad[] = {
        { "\xef\xbb\xbf", "", 8, "malformed header, expected '{', found byte 0xef" },
        { " ", "", 8, "malformed header, expected '{', found byte 0x20" },
        { "", "{}", 62,
          "malformed header, expected nothing but white space after the header, found '{'" },
        { "", ",", 62,
          "malformed header, expected nothing but white space after the header, found ','" },
        { "", " //", 63,
          "malformed header, expected nothing but white space after the header, found '/'" },
        { "[", "]", 8, "malformed header, expected '{', found '['" },
    };
    EACH(b, bad)
    {
        char header[200];
        snprintf(header, sizeof header, "%s%s%s", b->before, good, b->after);
        refused(header, 4, QKV_ERR_FORMAT, b->at, b->text);
    }
    char nul[100];
    memcpy(nul, good, sizeof good); // its closing NUL is one byte too many
    fixture_refused(
        fixture_safetensors("nul.safetensors", nul, sizeof good, 4), QKV_ERR_FORMAT, 62, "",
        "malformed header, expected nothing but white space after the header, found byte 0x00");
    refused("{" T("\xff", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 10,
            "malformed header, expected valid UTF-8, found byte 0xff");
    refused("{" T("\xc0\x80", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 10,
            "malformed header, expected valid UTF-8, found byte 0xc0");
    refused("{" T("\\ud800", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 16,
            "malformed header, expected a low surrogate after a high surrogate, found '\"'");
    refused("{" T("\\udc00", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 11,
            "malformed header, expected a high surrogate before a low surrogate, found 'u'");
    refused("[]", 0, QKV_ERR_FORMAT, 8, "malformed header, expected '{', found '['");
    refused("{" T("a", F32("[1]", "[0,4]")) ",}", 4, QKV_ERR_FORMAT, 62,
            "malformed header, expected a text in quotes, found '}'");
    qkv_tensors *t = accepted("{" T("\\ud83d\\ude00", F32("[1]", "[0,4]")) "}    ", 4);
    CHECK(qkv_tensors_find(t, "\xf0\x9f\x98\x80") != NULL);
    qkv_tensors_close(t);
}

TEST(deep_nesting_ends_at_the_first_wrong_level) // S35
{
    enum { DEPTH = 100000 };
    char *header = malloc(2 * DEPTH + 8);
    memset(header, '[', DEPTH);
    memcpy(header, "{\"a\":", 5);
    header[DEPTH] = 0;
    refused(header, 0, QKV_ERR_FORMAT, 13,
            "malformed header, expected the { of a tensor, found '['");
    memcpy(header, "{\"__metadata__\":{\"a\":", 21);
    refused(header, 0, QKV_ERR_FORMAT, 29,
            "malformed header, expected a text in quotes, found '['");
    free(header);
}

TEST(metadata_is_texts_by_name) // S36
{
    refused("{\"__metadata__\":{\"a\":1}}", 0, QKV_ERR_FORMAT, 29,
            "malformed header, expected a text in quotes, found '1'");
    refused("{\"__metadata__\":{\"a\":{}}}", 0, QKV_ERR_FORMAT, 29,
            "malformed header, expected a text in quotes, found '{'");
    refused("{\"__metadata__\":null}", 0, QKV_ERR_FORMAT, 24,
            "malformed header, expected a { before the metadata, found 'n'");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, QKV_ERR_FORMAT, 27,
            "duplicate __metadata__, expected it once, found it twice");
    refused("{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}}", 0, QKV_ERR_FORMAT, 9,
            "duplicate key in __metadata__, expected each key once, found \"a\" twice");
    refused("{" T("\\u005f_metadata__", F32("[1]", "[0,4]")) "}", 4, QKV_ERR_FORMAT, 9,
            "reserved name of a tensor, expected another name, found __metadata__");
}

TEST(a_million_and_one_keys_of_metadata_are_a_limit)
{
    enum { N = 1000001 };
    char *header = malloc((size_t)N * 16);
    size_t n = (size_t)sprintf(header, "{\"__metadata__\":{");
    for (int i = 0; i < N; i++) n += (size_t)sprintf(header + n, "%s\"%d\":\"\"", i ? "," : "", i);
    strcpy(header + n, "}}");
    refused(header, 0, QKV_ERR_LIMIT, 9,
            "too many keys in __metadata__, expected at most 1000000 keys, found more");
    free(header);
}

static const char *many(int n)
{
    const char *path = fixture("many.safetensors");
    FILE *f = fopen(path, "w+b");
    uint64_t size = 0;
    fwrite(&size, 8, 1, f);
    fputc('{', f);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
                i ? "," : "", i);
    fputc('}', f);
    size = (uint64_t)ftell(f) - 8;
    rewind(f);
    fwrite(&size, 8, 1, f);
    fclose(f);
    return path;
}

TEST(a_million_empty_tensors_open_in_bounded_memory) // S36
{
    const char *path = many(1000000);
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    faults_begin(0, false);
    qkv_tensors *t = fixture_open(path, false);
    CHECK_EQ(qkv_tensors_count(t), 1000000);
    CHECK_TEXT(qkv_tensors_at(t, 1)->name, "t1");
    CHECK_TEXT(qkv_tensors_at(t, 2)->name, "t10");
    CHECK_TEXT(qkv_tensors_find(t, "t999999")->name, "t999999");
    CHECK(atomic_load(&faults_peak) <
          4 * st.st_size + (8 << 20)); // the documented limit: 4 times the header
    qkv_tensors_close(t);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(a_million_and_one_tensors_are_a_limit) // S36
{
    qkv_tensors *t;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tensors_open(&t, many(1000001), NULL, &err), QKV_ERR_LIMIT);
    CHECK_TEXT(err.text, "too many tensors, expected at most 1000000, found more");
}

TEST(names_come_back_in_order_whatever_the_order_of_the_file)
{
    enum { N = 5000 };
    char *header = malloc(N * 100);
    size_t n = 1;
    header[0] = '{';
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(
            header + n,
            "%s\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
            i ? "," : "", i * 7919 % N, N - 1 - i, N - i);
    strcpy(header + n, "}");
    qkv_tensors *t = accepted(header, N);
    free(header);
    CHECK_EQ(qkv_tensors_count(t), N);
    for (int i = 1; i < N; i++)
        CHECK(strcmp(qkv_tensors_at(t, i - 1)->name, qkv_tensors_at(t, i)->name) < 0);
    for (int i = 0; i < N; i++) {
        char name[40];
        sprintf(name, "layer.%d.weight", i * 7919 % N);
        CHECK_EQ(*(const uint8_t *)qkv_tensors_find(t, name)->data, (uint8_t)(N - i));
    }
    qkv_tensors_close(t);
}

static qkv_status open_close(void *ctx, qkv_error *err)
{
    qkv_tensors *t = NULL;
    const struct qkv_tensors_options how = { .no_mmap = true };
    const qkv_status status = qkv_tensors_open(&t, ctx, &how, err);
    if (status) CHECK(t == NULL);
    qkv_tensors_close(t);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    static const char header[] = "{\"__metadata__\":{\"b\":\"1\",\"a\":\"2\"}," T(
        "b", F32("[1]", "[4,8]")) "," T("a", F32("[1]", "[0,4]")) "}";
    char path[512];
    strcpy(path, fixture_safetensors("faults.safetensors", header, strlen(header), 8));
    CHECK(faults_walk(open_close, path, true) >= 10);
}

CHECK_MAIN(CASE(a_file_is_read_as_it_was_written),
           CASE(a_file_too_short_for_its_size_says_how_short),
           CASE(a_header_larger_than_its_file_is_refused_before_memory_is_taken),
           CASE(a_header_over_the_limit_is_a_limit),
           CASE(a_size_that_cuts_the_header_names_the_byte), CASE(data_need_not_be_aligned),
           CASE(a_file_without_tensors_is_a_file), CASE(data_fills_the_file_exactly),
           CASE(tensors_that_share_bytes_are_named_both), CASE(offsets_are_two_numbers_in_order),
           CASE(sizes_are_whole_numbers), CASE(sizes_that_overflow_are_refused),
           CASE(bytes_match_dtype_and_shape), CASE(a_dtype_is_known_or_refused_by_class),
           CASE(every_dtype_is_read), CASE(a_rank_over_eight_is_a_limit),
           CASE(duplicate_fields_are_refused), CASE(an_empty_tensor_may_share_an_offset),
           CASE(names_are_texts_and_never_paths), CASE(a_header_is_strict_json),
           CASE(deep_nesting_ends_at_the_first_wrong_level), CASE(metadata_is_texts_by_name),
           CASE(a_million_and_one_keys_of_metadata_are_a_limit),
           CASE(a_million_empty_tensors_open_in_bounded_memory),
           CASE(a_million_and_one_tensors_are_a_limit),
           CASE(names_come_back_in_order_whatever_the_order_of_the_file),
           CASE(every_failed_allocation_is_survived))
