// SPDX-License-Identifier: MIT
// test_tokenizer_memory.c: makes every single allocation fail: an error status, no leak, and
// earlier results stay valid.  Checks the memory of long texts.
#include "base/faults.h"
#include "text/tiny_text.h"

static qkv_status open_close(void *json, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_parse(&t, json, strlen(json), "tiny", err);
    CHECK((status == QKV_OK) == (t != NULL));
    CHECK_EQ(err->status, status);
    qkv_tokenizer_close(t);
    return status;
}

TEST(every_allocation_of_opening_may_fail)
{
    CHECK(faults_sample(open_close, (void *)(uintptr_t)TINY, INT64_MAX) > 100);
    // An escape that the scanner does not accept sends the vocabulary through the JSON tree.
    char *json = tiny_with("\"vocab\":{", "\"v\\u006fcab\":{");
    CHECK(faults_sample(open_close, json, INT64_MAX) > 100);
    free(json);
}

static qkv_status open_file(void *path, qkv_error *err)
{
    qkv_tokenizer *t = NULL;
    const qkv_status status = qkv_tokenizer_open(&t, path, err);
    qkv_tokenizer_close(t);
    return status;
}

TEST(every_allocation_of_opening_a_file_may_fail)
{
    static const char path[] = "tests/golden/text/tokenizer.json";
    CHECK(faults_sample(open_file, (void *)(uintptr_t)path, INT64_MAX) > 100);
}

struct encode {
    const qkv_tokenizer *t;
    const struct qkv_encode_options *o;
    const char *text, *pair;
    size_t bytes;
};

static qkv_status encode_free(void *ctx, qkv_error *err)
{
    const struct encode *x = ctx;
    qkv_encoding e = { 0 };
    char out[4096];
    qkv_status status = qkv_tokenizer_encode(x->t, &e, x->text, x->bytes, x->pair,
                                             x->pair ? strlen(x->pair) : 0, x->o, err);
    CHECK_EQ(err->status, status);
    if (status)
        CHECK_EQ(e.count, 0);
    else
        status = qkv_tokenizer_decode(x->t, out, sizeof out, NULL, e.ids, e.count, false, err);
    qkv_encoding_free(&e);
    return status;
}

TEST(every_allocation_of_encoding_and_decoding_may_fail)
{
    static const struct qkv_encode_options pad = { .max_length = 4000, .pad = true };
    char text[3000];
    const char part[] = "hello e\xcc\x81\xcc\xa3\xcc\xa3 New Tok [CLS] \xe4\xbd\xa0 \xff ";
    for (size_t i = 0; i < sizeof text; i++) text[i] = part[i % (sizeof part - 1)];
    char *json = tiny_with(TINY_NORMALIZER, "{\"type\":\"NFD\"}"),
         *plain = tiny_with(TINY_ADDED, "[]");
    const char *files[] = { TINY, json, plain };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        qkv_tokenizer *t = tiny_open(files[i]);
        struct encode x = { t, NULL, text, "pair \xc3\xa9 e\xcc\x81", sizeof text };
        CHECK(faults_sample(encode_free, &x, INT64_MAX) > 20);
        x.o = &pad;
        CHECK(faults_sample(encode_free, &x, INT64_MAX) > 20);
        qkv_tokenizer_close(t);
    }
    free(json);
    free(plain);
}

// 27 bytes per token, twice that while a table grows, and the memory of one stretch of the text:
// nothing else grows with the text.
TEST(a_long_line_takes_memory_for_its_tokens_only) // X4
{
    static const struct {
        const char *part;
        size_t bytes;
    } rows[] = { { "hello ab  ", 16 << 20 },       // words
                 { "aaaaaaaaaaaaaaaa", 16 << 20 }, // one word
                 { "\xd9\x8e\xd8\xa8", 4 << 20 },  // no blank, marks on letters
                 { "\xe4\xbd\xa0\xe5\xa5\xbd", 4 << 20 } };
    char *json = tiny_with(TINY_ADDED, "[]");
    char *local = malloc(strlen(json) + 1);
    const char *from = strstr(json, TINY_NORMALIZER);
    snprintf(local, strlen(json) + 1, "%.*snull%s", (int)(from - json), json,
             from + strlen(TINY_NORMALIZER));
    char *bert = malloc(strlen(json) + 400);
    snprintf(bert, strlen(json) + 400,
             "%.*s{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
             "\"strip_accents\":true,\"lowercase\":true}%s",
             (int)(from - json), json, from + strlen(TINY_NORMALIZER));
    const char *files[] = { local, bert };
    for (size_t f = 0; f < 2; f++) {
        qkv_tokenizer *t = tiny_open(files[f]);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            char *text = malloc(rows[r].bytes);
            const size_t n = strlen(rows[r].part);
            for (size_t i = 0; i < rows[r].bytes; i++) text[i] = rows[r].part[i % n];
            qkv_encoding e = { 0 };
            faults_begin(0, false);
            CHECK_EQ(qkv_tokenizer_encode(t, &e, text, rows[r].bytes, NULL, 0, NULL, NULL), QKV_OK);
            CHECK(atomic_load(&faults_peak) <= 27 * 3 * e.count + (2 << 20));
            qkv_encoding_free(&e);
            faults_end(NULL);
            free(text);
        }
        qkv_tokenizer_close(t);
    }
    free(json);
    free(local);
    free(bert);
}

// Needs a stable sort by class that is not quadratic: otherwise the test times out.
TEST(a_million_marks_on_one_letter_are_put_in_order) // X5
{
    enum { MARKS = 1000000 };
    char *json = tiny_with(TINY_NORMALIZER, "{\"type\":\"NFC\"}");
    char *whole = malloc(strlen(json) + 10);
    const char *cut = strstr(json, TINY_SPLIT);
    snprintf(whole, strlen(json) + 10, "%.*snull%s", (int)(cut - json), json,
             cut + strlen(TINY_SPLIT));
    qkv_tokenizer *t = tiny_open(whole);
    char *text = malloc(2 * MARKS + 1);
    text[0] = 'a';
    for (size_t i = 0; i < MARKS; i++) memcpy(text + 1 + 2 * i, i % 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, 2 * MARKS + 1, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(e.count, 3); // two specials and an unknown word of a million characters
    CHECK_EQ(e.ids[2], 1);
    CHECK_EQ(e.begin[2], 0);
    CHECK_EQ(e.end[2], 2 * MARKS + 1);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(text);
    free(whole);
    free(json);
}

// Twenty steps that each double the text: a small file must not allocate a terabyte.
TEST(a_text_that_grows_without_end_is_a_limit)
{
    char steps[4096] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}";
    char back[4096] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}";
    for (int i = 0; i < 30; i++) {
        strcat(steps, ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}");
        strcat(back, ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"h\"},\"content\":\"hh\"}");
    }
    strcat(steps, "]}");
    strcat(back, "]}");
    char *grows = tiny_with(TINY_NORMALIZER, steps), *decodes = tiny_with(TINY_DECODER, back);
    qkv_tokenizer *t = tiny_open(grows);
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    faults_begin(0, false);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "aaaa", 4, NULL, 0, NULL, &err), QKV_ERR_LIMIT);
    CHECK_EQ(e.count, 0);
    CHECK(atomic_load(&faults_peak) < 16 << 20);
    faults_end(NULL);
    qkv_tokenizer_close(t);
    t = tiny_open(decodes);
    const int32_t ids[] = { 4, 4, 4 };
    char out[8];
    faults_begin(0, false);
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, NULL, ids, 3, true, NULL), QKV_ERR_LIMIT);
    CHECK(atomic_load(&faults_peak) < 16 << 20);
    faults_end(NULL);
    qkv_tokenizer_close(t);
    qkv_encoding_free(&e);
    free(grows);
    free(decodes);
}

int main(void)
{
    const struct CMUnitTest cases[] = { CASE(every_allocation_of_opening_may_fail),
                                        CASE(every_allocation_of_opening_a_file_may_fail),
                                        CASE(every_allocation_of_encoding_and_decoding_may_fail),
                                        CASE(a_long_line_takes_memory_for_its_tokens_only),
                                        CASE(a_million_marks_on_one_letter_are_put_in_order),
                                        CASE(a_text_that_grows_without_end_is_a_limit) };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
