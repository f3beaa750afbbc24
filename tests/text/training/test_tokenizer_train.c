// SPDX-License-Identifier: MIT
// test_tokenizer_train.c: checks trained tokenizers: the reference reads the files with the same
// results, training is deterministic, and refused settings leave no file.
#include "text/golden_text.h"
#include "text/training/trainer.h"
#include <qkv/train.h>
#include <unistd.h>

#define PATH "build/.trained.json"

// Settings of a run of the golden file; the texts are borrowed from it.
struct run {
    struct qkv_tokenizer_training how;
    const char *special[8];
};

static struct run run_of(const json_t *how)
{
    struct run r = { 0 };
    const json_t *special = json_object_get(how, "special");
    for (size_t i = 0; i < json_array_size(special); i++)
        r.special[i] = json_string_value(json_array_get(special, i));
    r.how = (struct qkv_tokenizer_training){
        .kind = json_string_value(json_object_get(how, "kind")),
        .vocab = json_integer_value(json_object_get(how, "vocab")),
        .least = json_integer_value(json_object_get(how, "least")),
        .specials = (int64_t)json_array_size(special),
        .lowercase = json_is_true(json_object_get(how, "lowercase")),
        .unknown = json_string_value(json_object_get(how, "unknown")),
        .begin = json_string_value(json_object_get(how, "begin")),
        .end = json_string_value(json_object_get(how, "end"))
    };
    return r;
}

static void learn(const struct run *r, const char *const *texts, const size_t *bytes, int64_t n)
{
    qkv_error err = { 0 };
    struct qkv_tokenizer_training how = r->how;
    how.special = r->special;
    if (qkv_tokenizer_train(PATH, texts, bytes, n, &how, true, &err))
        fail_msg("%s: %s", r->how.kind, err.text);
}

static char *file_text(size_t *size)
{
    FILE *f = fopen(PATH, "rb");
    CHECK(f);
    char *text = malloc(1 << 22);
    *size = fread(text, 1, 1 << 22, f);
    text[*size] = 0;
    fclose(f);
    return text;
}

// The files must be equal; scores within the differences between math libraries.
static void same_file(const char *got, const char *want)
{
    json_error_t why;
    json_t *a = json_loads(got, 0, &why), *b = json_loads(want, 0, &why);
    CHECK(a && b);
    json_t *models[2] = { json_object_get(a, "model"), json_object_get(b, "model") };
    json_t *va = json_object_get(models[0], "vocab"), *vb = json_object_get(models[1], "vocab");
    if (json_is_array(vb)) {
        CHECK_EQ(json_array_size(va), json_array_size(vb));
        for (size_t i = 0; i < json_array_size(vb); i++) {
            const json_t *x = json_array_get(va, i), *y = json_array_get(vb, i);
            CHECK_TEXT(json_string_value(json_array_get(x, 0)),
                       json_string_value(json_array_get(y, 0)));
            CHECK_NEAR(json_real_value(json_array_get(x, 1)), json_real_value(json_array_get(y, 1)),
                       1e-6);
        }
        json_object_del(models[0], "vocab");
        json_object_del(models[1], "vocab");
    }
    CHECK(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

TEST(every_kind_writes_a_file_that_the_reference_uses_alike)
{
    json_error_t why;
    json_t *all = json_load_file("tests/golden/text/trained.json", JSON_ALLOW_NUL, &why);
    CHECK(all);
    const json_t *list = json_object_get(all, "texts"), *runs = json_object_get(all, "runs");
    const char *texts[8];
    size_t bytes[8];
    const int64_t n = (int64_t)json_array_size(list);
    for (int64_t i = 0; i < n; i++) {
        texts[i] = json_string_value(json_array_get(list, (size_t)i));
        bytes[i] = json_string_length(json_array_get(list, (size_t)i));
    }
    static const struct qkv_encode_options plain = { 0 };
    qkv_encoding e = { 0 };
    CHECK(json_array_size(runs) >= 9);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *one = json_array_get(runs, i), *cases = json_object_get(one, "cases"),
                     *back = json_object_get(one, "decode");
        const struct run r = run_of(json_object_get(one, "how"));
        learn(&r, texts, bytes, n);
        size_t size;
        char *got = file_text(&size);
        same_file(got, json_string_value(json_object_get(one, "file")));
        qkv_tokenizer *t = NULL;
        CHECK_EQ(qkv_tokenizer_open(&t, PATH, NULL), QKV_OK);
        if (r.how.vocab) CHECK(qkv_tokenizer_size(t) <= r.how.vocab);
        for (size_t k = 0; k < json_array_size(cases); k++)
            golden_case(t, json_array_get(cases, k), &plain, &e);
        for (size_t k = 0; k < json_array_size(back); k++)
            golden_decode(t, json_array_get(back, k));
        qkv_tokenizer_close(t);
        free(got);
    }
    qkv_encoding_free(&e);
    json_decref(all);
    unlink(PATH);
}

static const char *const trainer_names[] = { "bytes", "characters", "bpe", "wordpiece", "unigram" };

// Words over an alphabet of a few letters, some more often than others.
static char *made_text(size_t bytes)
{
    char *text = malloc(bytes + 1);
    size_t n = 0;
    while (n < bytes) {
        const int letters = 1 + (int)((check_random() + 1) * 3);
        for (int i = 0; i < letters && n < bytes; i++) {
            const double x = (check_random() + 1) / 2;
            text[n++] = (char)('a' + (int)(x * x * 12));
        }
        if (n < bytes) text[n++] = check_random() > 0.8 ? '\n' : ' ';
    }
    text[bytes] = 0;
    return text;
}

TEST(the_same_texts_give_the_same_file_for_any_number_of_threads_and_cuts)
{
    enum { BYTES = 60000, HALF = 30001 };
    char *text = made_text(BYTES);
    text[HALF - 1] = '\n';
    text[HALF - 2] = text[HALF] = 'a';
    EACH(kind, trainer_names)
    {
        const struct run r = { .how = { .kind = *kind, .vocab = 400 } };
        char *files[3];
        size_t sizes[3];
        for (int i = 0; i < 3; i++) {
            const char *parts[2] = { text, text + HALF };
            const size_t whole[2] = { BYTES, 0 }, halves[2] = { HALF, BYTES - HALF };
            CHECK_EQ(qkv_threads_set(i == 1 ? 3 : 1), QKV_OK);
            // A text ends with a line end, which no word extends across.
            learn(&r, parts, i == 2 && strcmp(*kind, "unigram") != 0 ? halves : whole,
                  i == 2 ? 2 : 1);
            files[i] = file_text(&sizes[i]);
        }
        for (int i = 1; i < 3; i++) {
            CHECK_EQ(sizes[i], sizes[0]);
            CHECK_BITS(files[i], files[0], sizes[0]);
        }
        for (int i = 0; i < 3; i++) free(files[i]);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    free(text);
    unlink(PATH);
}

// Every byte has a token; encoded texts decode to themselves.
TEST(bytes_and_byte_pairs_give_back_any_text)
{
    char text[4000];
    size_t n = 0;
    while (n < sizeof text - 4) {
        const uint32_t code = (uint32_t)((check_random() + 1) / 2 * 0x2FFFF);
        if (code >= 0xD800 && code < 0xE000) continue;
        n += (size_t)qkv_utf8_write((uint8_t *)text + n, check_random() > 0 ? code & 0x7F : code);
    }
    for (int k = 0; k < 2; k++) {
        const struct run r = { .how = { .kind = k ? "bpe" : "bytes", .vocab = 300 } };
        const char *texts[] = { text };
        learn(&r, texts, &n, 1);
        qkv_tokenizer *t = NULL;
        qkv_encoding e = { 0 };
        char back[sizeof text + 1];
        size_t need;
        CHECK_EQ(qkv_tokenizer_open(&t, PATH, NULL), QKV_OK);
        CHECK_EQ(qkv_tokenizer_size(t), k ? 300 : 256);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, text, n, NULL, 0, NULL, NULL), QKV_OK);
        if (!k) {
            CHECK_EQ(e.count, n);
            for (int64_t i = 0; i < e.count; i++) CHECK_EQ(e.ids[i], (uint8_t)text[i]);
        }
        CHECK_EQ(qkv_tokenizer_decode(t, back, sizeof back, &need, e.ids, e.count, false, NULL),
                 QKV_OK);
        CHECK_EQ(need, n);
        CHECK_BITS(back, text, n);
        qkv_encoding_free(&e);
        qkv_tokenizer_close(t);
    }
    unlink(PATH);
}

TEST(byte_pairs_are_merged_by_count_then_by_id)
{
    // ab occurs 4 times, bc 3 times, cd 3 times; then abc would occur 3 times.
    const char *texts[] = { "ab abcd abcd abcd" };
    const size_t bytes[] = { 17 };
    const struct run r = { .how = { .kind = "bpe", .vocab = 260 } };
    learn(&r, texts, bytes, 1);
    qkv_tokenizer *t = NULL;
    CHECK_EQ(qkv_tokenizer_open(&t, PATH, NULL), QKV_OK);
    // " a" occurs 3 times as "cd" and "abc"... do: of equals the pair with the smaller ids is
    // first.
    CHECK_TEXT(qkv_tokenizer_token(t, 256), "ab");
    CHECK_TEXT(qkv_tokenizer_token(t, 257), "\xc4\xa0"
                                            "ab");
    CHECK_TEXT(qkv_tokenizer_token(t, 258), "cd");
    CHECK_TEXT(qkv_tokenizer_token(t, 259), "\xc4\xa0"
                                            "abcd");
    qkv_tokenizer_close(t);
    unlink(PATH);
}

// Of 64 words with one occurrence each, a unigram model keeps their common parts.
TEST(a_unigram_model_finds_the_parts_of_words)
{
    static const char *const first[] = { "under", "over",  "out",   "after",
                                         "fore",  "inter", "cross", "down" },
                             *const last[] = { "stand", "take", "look", "line",
                                               "come",  "mark", "cast", "turn" };
    char text[8192] = "";
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 8; k++)
            for (int many = 0; many < 5; many++) {
                strcat(text, first[i]);
                strcat(text, last[k]);
                strcat(text, " ");
            }
    const char *texts[] = { text };
    const size_t bytes[] = { strlen(text) };
    const struct run r = { .how = { .kind = "unigram", .vocab = 48 } };
    learn(&r, texts, bytes, 1);
    qkv_tokenizer *t = NULL;
    CHECK_EQ(qkv_tokenizer_open(&t, PATH, NULL), QKV_OK);
    for (int k = 0; k < 8; k++) CHECK(qkv_tokenizer_id(t, last[k]) >= 0);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "outstand", 8, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(e.count, 2);
    CHECK_EQ(e.end[0], 3);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    unlink(PATH);
}

// ---- what is refused ---------------------------------------------------------------------------
static void refused(const struct qkv_tokenizer_training *how, qkv_status want, const char *text)
{
    const char *texts[] = { "some words, some words" };
    const size_t bytes[] = { 22 };
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_train(PATH, texts, bytes, 1, how, false, &err);
    if (status != want || err.status != status || strcmp(err.text, text) != 0)
        fail_msg("found %d: %s\nwant  %d: %s", status, err.text, want, text);
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, bytes, 1, how, false, NULL), want);
    CHECK(access(PATH, F_OK) != 0);
}

TEST(settings_that_make_no_sense_are_refused)
{
    static const char *const twice[] = { "<s>", "<s>" }, *const none[] = { NULL },
                             *const empty[] = { "" }, *const bad[] = { "\xff" };
    const struct {
        struct qkv_tokenizer_training how;
        const char *text;
    } list[] = {
        { { .kind = "morse", .vocab = 300 },
          "unknown kind of tokenizer to train, expected one of bytes, characters, bpe, wordpiece, "
          "unigram, "
          "found \"morse\"" },
        { { .vocab = 300 },
          "unknown kind of tokenizer to train, expected one of bytes, characters, bpe, wordpiece, "
          "unigram, "
          "found \"\"" },
        { { .kind = "bpe", .vocab = 255 },
          "vocabulary too small, expected at least 256 bytes and 0 special tokens, found a size of "
          "255" },
        { { .kind = "bpe" },
          "vocabulary too small, expected at least 256 bytes and 0 special tokens, found a size of "
          "0" },
        { { .kind = "bytes", .vocab = 257, .special = twice, .specials = 1, .end = "</s>" },
          "vocabulary too small, expected at least 256 bytes and 2 special tokens, found a size of "
          "257" },
        { { .kind = "wordpiece", .vocab = 2 },
          "vocabulary too small, expected at least 2 tokens in addition to its 1 special tokens, "
          "found a size of 2" },
        { { .kind = "unigram", .vocab = 2 },
          "vocabulary too small, expected at least 2 tokens in addition to its 1 special tokens, "
          "found a size of 2" },
        { { .kind = "characters", .vocab = 1 },
          "vocabulary too small, expected more than its 1 special tokens, found a size of 1" },
        { { .kind = "bpe", .vocab = -1 },
          "tokenizer training: expected a vocabulary of 0 .. 16777216 tokens and a minimum count "
          "of 0 or more, found -1 and 0" },
        { { .kind = "bpe", .vocab = 300, .least = -2 },
          "tokenizer training: expected a vocabulary of 0 .. 16777216 tokens and a minimum count "
          "of 0 or more, found 300 and -2" },
        { { .kind = "bpe", .vocab = 300, .special = twice, .specials = 2 },
          "duplicate special token, expected each special token once, found \"<s>\" again" },
        { { .kind = "bpe", .vocab = 300, .special = none, .specials = 1 },
          "invalid special token, expected 1 to 1024 bytes of UTF-8, found \"\"" },
        { { .kind = "bpe", .vocab = 300, .special = empty, .specials = 1 },
          "invalid special token, expected 1 to 1024 bytes of UTF-8, found \"\"" },
        { { .kind = "bpe", .vocab = 300, .special = bad, .specials = 1 },
          "invalid special token, expected 1 to 1024 bytes of UTF-8, found \"\\xff\"" },
        { { .kind = "bpe", .vocab = 300, .specials = 1 },
          "number of special tokens is out of range, expected 0 .. 65536, found 1" },
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        refused(&list[i].how, QKV_ERR_USAGE, list[i].text);
}

TEST(no_text_is_refused_and_an_older_file_is_kept)
{
    const struct qkv_tokenizer_training how = { .kind = "bytes" };
    const char *texts[] = { "", NULL };
    const size_t nothing[] = { 0, 0 }, one[] = { 0, 1 };
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, nothing, 2, &how, false, NULL), QKV_ERR_FORMAT);
    CHECK_EQ(qkv_tokenizer_train(PATH, NULL, NULL, 0, &how, false, NULL), QKV_ERR_FORMAT);
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, one, 2, &how, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_train(NULL, texts, one, 1, &how, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_train(PATH, NULL, NULL, 1, &how, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, one, 1, NULL, false, NULL), QKV_ERR_USAGE);
    texts[0] = "text";
    const size_t four[] = { 4 };
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, four, 1, &how, false, NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, four, 1, &how, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_train(PATH, texts, four, 1, &how, true, NULL), QKV_OK);
    unlink(PATH);
    CHECK_EQ(qkv_tokenizer_train("build/no/such/folder/t.json", texts, four, 1, &how, false, NULL),
             QKV_ERR_IO);
}

static int stop(void *user, const char *what, int64_t done, int64_t total)
{
    CHECK(what && done >= 0 && done <= total);
    return --*(int *)user < 0;
}

TEST(a_stopped_training_leaves_no_file)
{
    char *text = made_text(20000);
    const char *texts[] = { text };
    const size_t bytes[] = { 20000 };
    EACH(kind, trainer_names)
    {
        if (strcmp(*kind, "bytes") == 0) continue; // nothing to wait for
        int steps = 0;
        struct qkv_tokenizer_training how = { .kind = *kind,
                                              .vocab = 1000,
                                              .progress = { stop, &steps } };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_tokenizer_train(PATH, texts, bytes, 1, &how, false, &err),
                 QKV_ERR_INTERRUPTED);
        CHECK(access(PATH, F_OK) != 0);
    }
    free(text);
}

TEST(a_full_vocabulary_is_a_stated_limit)
{
    qkv_error err = { 0 };
    struct qkv_training t = { .err = &err };
    CHECK_EQ(qkv_training_full(&t), QKV_ERR_LIMIT);
    CHECK_TEXT(err.text, "out of memory");
    memset(&err, 0, sizeof err);
    t.vocab.trie.nodes = QKV_TRIE_NODES;
    CHECK_EQ(qkv_training_full(&t), QKV_ERR_LIMIT);
    CHECK(strstr(err.text, "tokens are too long, expected together at most 16777216 bytes"));
}

CHECK_MAIN(CASE(a_full_vocabulary_is_a_stated_limit),
           CASE(every_kind_writes_a_file_that_the_reference_uses_alike),
           CASE(the_same_texts_give_the_same_file_for_any_number_of_threads_and_cuts),
           CASE(bytes_and_byte_pairs_give_back_any_text),
           CASE(byte_pairs_are_merged_by_count_then_by_id),
           CASE(a_unigram_model_finds_the_parts_of_words),
           CASE(settings_that_make_no_sense_are_refused),
           CASE(no_text_is_refused_and_an_older_file_is_kept),
           CASE(a_stopped_training_leaves_no_file))
