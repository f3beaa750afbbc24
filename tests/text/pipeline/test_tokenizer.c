// SPDX-License-Identifier: MIT
// test_tokenizer.c: checks the contract of encode and decode: pairs, truncation, padding, special
// tokens, threads.
#include "text/tiny_text.h"
#include <inttypes.h>
#include <pthread.h>

static const char tiny_bert[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":2,\"content\":\"[CLS]\",\"special\":true,"
    "\"normalized\":false},"
    "{\"id\":3,\"content\":\"[SEP]\",\"special\":true,\"normalized\":false}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":" TINY_MODEL
    "}";

static void encode(const qkv_tokenizer *t, qkv_encoding *e, const char *text, const char *pair,
                   const struct qkv_encode_options *o)
{
    qkv_error err = { 0 };
    if (qkv_tokenizer_encode(t, e, text, strlen(text), pair, pair ? strlen(pair) : 0, o, &err))
        fail_msg("%s", err.text);
}

static void ids_are(const qkv_encoding *e, const int32_t *want, int64_t n)
{
    CHECK_EQ(e->count, n);
    for (int64_t i = 0; i < n; i++) CHECK_EQ(e->ids[i], want[i]);
}
#define IDS_ARE(e, ...)                                                                            \
    do {                                                                                           \
        const int32_t want_[] = { __VA_ARGS__ };                                                   \
        ids_are(e, want_, (int64_t)(sizeof want_ / sizeof want_[0]));                              \
    } while (0)

TEST(a_pair_has_types_and_offsets_in_its_own_texts)
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    encode(t, &e, "hello a", " ab", NULL);
    IDS_ARE(&e, 2, 4, 5, 6, 3, 6, 7, 3);
    const int32_t types[] = { 0, 0, 0, 0, 0, 1, 1, 1 };
    const uint8_t text[] = { 2, 0, 0, 0, 2, 1, 1, 2 };
    const int64_t begin[] = { 0, 0, 2, 6, 0, 1, 2, 0 }, end[] = { 0, 2, 5, 7, 0, 2, 3, 0 };
    CHECK_BITS(e.types, types, sizeof types);
    CHECK_BITS(e.text, text, sizeof text);
    CHECK_BITS(e.begin, begin, sizeof begin);
    CHECK_BITS(e.end, end, sizeof end);
    for (int64_t i = 0; i < e.count; i++) CHECK_EQ(e.attend[i], 1);
    encode(t, &e, "a", "", NULL); // an empty second text is a second text
    IDS_ARE(&e, 2, 6, 3, 3);
    CHECK_EQ(e.types[3], 1);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(nothing_and_blanks_give_the_specials_alone) // X3
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, NULL, 0, NULL, 0, NULL, NULL), QKV_OK);
    IDS_ARE(&e, 2, 3);
    encode(t, &e, " \t\r\n\xc2\xa0\xe3\x80\x80", NULL, NULL);
    IDS_ARE(&e, 2, 3);
    const struct qkv_encode_options bare = { .no_special = true };
    encode(t, &e, "", NULL, &bare);
    CHECK_EQ(e.count, 0);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(nul_is_a_character) // X2
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "he\0llo a", 8, NULL, 0, NULL, NULL), QKV_OK);
    IDS_ARE(&e, 2, 4, 5, 6, 3); // BERT removes control characters
    CHECK_EQ(e.begin[2], 3);
    CHECK_EQ(e.end[2], 6);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(text_that_spells_a_special_token_is_one_unless_disabled) // X10
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    encode(t, &e, "a[SEP]a", NULL, NULL);
    IDS_ARE(&e, 2, 6, 3, 6, 3);
    CHECK_EQ(e.text[2], 0); // it came from the text
    CHECK_EQ(e.begin[2], 1);
    CHECK_EQ(e.end[2], 6);
    const struct qkv_encode_options bare = { .no_special = true };
    encode(t, &e, "a[SEP]a", NULL, &bare);
    IDS_ARE(&e, 6, 1, 1, 1, 6); // a [ sep ] a
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(a_text_over_the_limit_is_refused_or_cut) // X12
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    struct qkv_encode_options o = { .max_length = 5 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a a a a a a", 11, NULL, 0, &o, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "text too long, expected at most 5 tokens, found 8");
    CHECK_EQ(e.count, 0);
    o.truncate = true;
    encode(t, &e, "hello a hello", NULL, &o);
    IDS_ARE(&e, 2, 4, 5, 6, 3);
    CHECK_EQ(e.cut, 2);
    CHECK_EQ(e.end[3], 7);
    o.cut_left = true;
    encode(t, &e, "hello a hello", NULL, &o);
    IDS_ARE(&e, 2, 6, 4, 5, 3);
    CHECK_EQ(e.begin[1], 6);
    o.max_length = 1; // less than the specials
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, &o, &err), QKV_ERR_USAGE);
    CHECK_TEXT(
        err.text,
        "the maximum length leaves no space for the special tokens, expected at least 2 tokens, "
        "found 1");
    o.max_length = -1;
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, &o, NULL), QKV_ERR_USAGE);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

// Lengths n1, n2 of the texts and their remaining tokens, 3 special tokens; the rule of the
// reference.
TEST(the_longer_text_of_a_pair_is_cut_first)
{
    static const struct {
        int64_t n1, n2, max, keep1, keep2;
    } rows[] = { { 5, 1, 6, 2, 1 }, { 1, 5, 6, 1, 2 }, { 4, 4, 8, 2, 3 },  { 4, 5, 9, 3, 3 },
                 { 9, 9, 4, 0, 1 }, { 2, 9, 9, 2, 4 }, { 9, 2, 9, 4, 2 },  { 3, 3, 9, 3, 3 },
                 { 9, 8, 3, 0, 0 }, { 0, 9, 5, 0, 2 }, { 6, 3, 10, 4, 3 }, { 7, 8, 8, 2, 3 } };
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char a[32] = "", b[32] = "";
        for (int64_t k = 0; k < rows[i].n1; k++) strcat(a, "a ");
        for (int64_t k = 0; k < rows[i].n2; k++) strcat(b, "he ");
        const struct qkv_encode_options o = { .max_length = rows[i].max, .truncate = true };
        encode(t, &e, a, b, &o);
        int64_t left[4] = { 0 };
        for (int64_t k = 0; k < e.count; k++) left[e.text[k]]++;
        CHECK_EQ(left[0], rows[i].keep1);
        CHECK_EQ(left[1], rows[i].keep2);
        CHECK_EQ(left[2], 3);
        CHECK_EQ(e.cut, rows[i].n1 + rows[i].n2 - rows[i].keep1 - rows[i].keep2);
    }
    qkv_error err = { 0 };
    const struct qkv_encode_options only = { .max_length = 6,
                                             .truncate = true,
                                             .cut = QKV_CUT_FIRST };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, "he he he he", 11, &only, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text,
               "text A is too short to be truncated, expected more than the 2 tokens that "
               "must be removed from it, found 1");
    const struct qkv_encode_options second = { .max_length = 6,
                                               .truncate = true,
                                               .cut = QKV_CUT_SECOND };
    encode(t, &e, "a", "he he he he", &second);
    IDS_ARE(&e, 2, 6, 3, 4, 4, 3);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

// The refusal comes before the memory: of 2^62 padding tokens too.
TEST(padding_has_a_limit)
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    static const int64_t lengths[] = { QKV_PADDING_MOST + INT64_C(4), INT64_C(1) << 62 };
    for (int i = 0; i < 2; i++) {
        qkv_encoding e = { 0 };
        qkv_error err = { 0 };
        const struct qkv_encode_options o = { .max_length = lengths[i], .pad = true };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, &o, &err), QKV_ERR_LIMIT);
        char want[200];
        snprintf(want, sizeof want,
                 "too much padding, expected at most 16777216 tokens of padding, found %" PRId64,
                 lengths[i] - 3);
        CHECK_TEXT(err.text, want);
        qkv_encoding_free(&e);
    }
    qkv_tokenizer_close(t);
}

TEST(padding_fills_up_and_is_not_attended)
{
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    struct qkv_encode_options o = { .max_length = 6, .pad = true };
    encode(t, &e, "a", NULL, &o);
    IDS_ARE(&e, 2, 6, 3, 0, 0, 0);
    for (int64_t i = 0; i < 6; i++) {
        CHECK_EQ(e.attend[i], i < 3);
        CHECK_EQ(e.text[i], i >= 3 ? 3 : i == 1 ? 0 : 2);
    }
    o.pad_left = true;
    encode(t, &e, "a", NULL, &o);
    IDS_ARE(&e, 0, 0, 0, 2, 6, 3);
    CHECK_EQ(e.end[4], 1);
    qkv_tokenizer_close(t);
    char *bare = malloc(sizeof tiny_bert);
    strcpy(bare, tiny_bert);
    memcpy(strstr(bare, "[PAD]"), "[pad]", 5);
    t = tiny_open(bare);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, &o, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text,
               "tokenizer has no padding token, expected a padding section, [PAD] or <pad>");
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(bare);
}

TEST(a_word_over_the_limit_of_characters_is_one_unknown)
{
    qkv_tokenizer *t = tiny_open(tiny_bert); // 20 characters
    qkv_encoding e = { 0 };
    encode(t, &e, "abbbbbbbbbbbbbbbbbbb", NULL, NULL); // 20
    CHECK_EQ(e.count, 22);
    encode(t, &e, "abbbbbbbbbbbbbbbbbbbb a", NULL, NULL);
    IDS_ARE(&e, 2, 1, 6, 3);
    CHECK_EQ(e.begin[1], 0);
    CHECK_EQ(e.end[1], 21);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(decoding_joins_cleans_and_cuts_at_a_character)
{
    char *json = tiny_with(TINY_DECODER, "null");
    qkv_tokenizer *t = tiny_open(tiny_bert), *spaced = tiny_open(json);
    const int32_t ids[] = { 2, 4, 5, 6, 7, 8, 3, 12345, -1 };
    char out[64];
    size_t need = 0;
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, &need, ids, 9, true, NULL), QKV_OK);
    CHECK_TEXT(out, "hello ab \xc3\xa9"); // ids without a token are omitted
    CHECK_EQ(need, 11);
    CHECK_EQ(qkv_tokenizer_decode(t, out, 11, &need, ids, 9, true, NULL), QKV_OK);
    CHECK_TEXT(out, "hello ab "); // never inside a character
    CHECK_EQ(need, 11);
    CHECK_EQ(qkv_tokenizer_decode(t, NULL, 0, &need, ids, 9, false, NULL), QKV_OK);
    CHECK_EQ(need, strlen("[CLS] hello ab \xc3\xa9 [SEP]"));
    CHECK_EQ(qkv_tokenizer_decode(spaced, out, sizeof out, NULL, ids, 6, true, NULL), QKV_OK);
    CHECK_TEXT(out, "he ##llo a ##b \xc3\xa9");
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, &need, NULL, 0, true, NULL), QKV_OK);
    CHECK_TEXT(out, "");
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, &need, NULL, 1, true, NULL), QKV_ERR_USAGE);
    qkv_tokenizer_close(t);
    qkv_tokenizer_close(spaced);
    free(json);
}

// ---- many threads, one tokenizer ---------------------------------------------------------------
enum { THREADS = 8, ROUNDS = 200, TEXTS = 40 };
struct shared {
    const qkv_tokenizer *t;
    const qkv_encoding *want;
    char (*texts)[64];
    int wrong;
};

static void *worker(void *p)
{
    struct shared *s = p;
    qkv_encoding e = { 0 };
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const int k = i % TEXTS;
        if (qkv_tokenizer_encode(s->t, &e, s->texts[k], strlen(s->texts[k]), NULL, 0, NULL, NULL))
            wrong++;
        else if (e.count != s->want[k].count || memcmp(e.ids, s->want[k].ids, (size_t)e.count * 4))
            wrong++;
        else if (memcmp(e.end, s->want[k].end, (size_t)e.count * 8))
            wrong++;
    }
    qkv_encoding_free(&e);
    s->wrong = wrong;
    return NULL;
}

TEST(threads_may_share_a_tokenizer)
{
    qkv_tokenizer *t = tiny_open(tiny_bert), *fresh = tiny_open(tiny_bert);
    qkv_encoding want[TEXTS] = { { 0 } };
    static char texts[TEXTS][64];
    for (int k = 0; k < TEXTS;
         k++) { // other characters in each, so that the memo is written while read
        snprintf(texts[k], sizeof texts[k], "hello \xc3%c \xd0%c\xd1%c a\xcc%cb \xe4%c%c",
                 0xA0 + k % 32, 0x90 + k % 48, 0x80 + k % 64, 0x80 + k, 0xB8 + k % 8, 0x80 + k);
        encode(t, &want[k], texts[k], NULL, NULL);
    }
    struct shared s[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        s[i] = (struct shared){ fresh, want, texts, 0 };
        CHECK_EQ(pthread_create(&threads[i], NULL, worker, &s[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(s[i].wrong, 0);
    for (int k = 0; k < TEXTS; k++) qkv_encoding_free(&want[k]);
    qkv_tokenizer_close(fresh);
    qkv_tokenizer_close(t);
}

// A text may be cut between two characters that do not join: its tokens are the tokens of its
// words.
TEST(long_texts_are_their_words_in_a_row)
{
    static const char *const words[] = { "hello",
                                         "ab",
                                         "\xc3\xa9",
                                         "e\xcc\x81",
                                         "\xe4\xbd\xa0",
                                         "a\xcc\xa3\xcc\x81",
                                         "\xd8\xa8\xd9\x8e",
                                         "he,llo",
                                         "\xec\x95\x88",
                                         "\xf0\x9f\x98\x80",
                                         "H\001e" };
    enum { COUNT = sizeof words / sizeof words[0], MANY = 20000 };
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 }, one[COUNT] = { { 0 } };
    const struct qkv_encode_options bare = { .no_special = true };
    for (int k = 0; k < COUNT; k++) encode(t, &one[k], words[k], NULL, &bare);
    char *text = malloc(MANY * 12);
    size_t bytes = 0;
    int *which = malloc(MANY * sizeof *which);
    for (int i = 0; i < MANY; i++) {
        which[i] = (int)((check_random() + 1) / 2 * COUNT);
        const char *blank = i % 7 ? " " : "\xe3\x80\x80";
        bytes += (size_t)sprintf(text + bytes, "%s%s", words[which[i]], blank);
    }
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, bytes, NULL, 0, &bare, NULL), QKV_OK);
    int64_t at = 0, place = 0;
    for (int i = 0; i < MANY; i++) {
        const qkv_encoding *w = &one[which[i]];
        for (int64_t k = 0; k < w->count; k++, at++) {
            CHECK(at < e.count);
            CHECK_EQ(e.ids[at], w->ids[k]);
            CHECK_EQ(e.begin[at], place + w->begin[k]);
            CHECK_EQ(e.end[at], place + w->end[k]);
        }
        place += (int64_t)strlen(words[which[i]]) + (i % 7 ? 1 : 3);
    }
    CHECK_EQ(at, e.count);
    for (int k = 0; k < COUNT; k++) qkv_encoding_free(&one[k]);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(text);
    free(which);
}

// A step that needs the complete text and changes nothing makes a tokenizer that never cuts.
TEST(cutting_a_text_into_stretches_changes_nothing)
{
    static const char *const steps[] = {
        "{\"type\":\"NFC\"}", "{\"type\":\"NFKC\"}", "{\"type\":\"NFD\"}",
        "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
        "\"strip_accents\":false,\"lowercase\":true},{\"type\":\"NFC\"}",
        "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
        "\"strip_accents\":true,\"lowercase\":true}"
    };
    static const uint32_t letters[] = { 0x61,    0x65,   0xE9,    0x301,  0x323,  0x308,  0x345,
                                        0x334,   0x5D0,  0x5BC,   0x94D,  0x915,  0x1100, 0x1161,
                                        0x11A8,  0xAC00, 0x3099,  0x304B, 0x4E2D, 0xFB01, 0x200D,
                                        0x1,     0x20,   0x3000,  0x344,  0xF73,  0xF71,  0x16FF0,
                                        0x1D15E, 0x130,  0x10D50, 0x2126 };
    enum { KINDS = sizeof letters / sizeof letters[0], CHARS = 30000 };
    uint8_t *text = malloc(CHARS * 4);
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
        char cut[1024], whole[1024];
        snprintf(cut, sizeof cut, "{\"type\":\"Sequence\",\"normalizers\":[%s]}", steps[k]);
        snprintf(whole, sizeof whole,
                 "{\"type\":\"Sequence\",\"normalizers\":[%s,{\"type\":\"Replace\",\"pattern\":"
                 "{\"String\":\"\\u0002\\u0002\"},\"content\":\"\"}]}",
                 steps[k]);
        char *json[2] = { tiny_with(TINY_NORMALIZER, cut), tiny_with(TINY_NORMALIZER, whole) };
        qkv_tokenizer *t[2];
        qkv_encoding e[2] = { { 0 } };
        for (int i = 0; i < 2; i++) {
            char *at = strstr(json[i], "\"added_tokens\""); // none: they would make both whole
            memcpy(at, "\"other_tokens\"", 14);
            t[i] = tiny_open(json[i]);
        }
        for (int ascii = 0; ascii < 2; ascii++) { // also with no ASCII letter to cut at
            size_t bytes = 0;
            for (int i = 0; i < CHARS; i++) {
                uint32_t code = letters[(int)((check_random() + 1) / 2 * KINDS)];
                if (!ascii && code < 0x80) code = 0x915;
                bytes += (size_t)qkv_utf8_write(text + bytes, code);
            }
            for (int i = 0; i < 2; i++)
                CHECK_EQ(
                    qkv_tokenizer_encode(t[i], &e[i], (char *)text, bytes, NULL, 0, NULL, NULL),
                    QKV_OK);
            CHECK_EQ(e[0].count, e[1].count);
            CHECK_BITS(e[0].ids, e[1].ids, (size_t)e[0].count * sizeof *e[0].ids);
            CHECK_BITS(e[0].begin, e[1].begin, (size_t)e[0].count * sizeof *e[0].begin);
            CHECK_BITS(e[0].end, e[1].end, (size_t)e[0].count * sizeof *e[0].end);
        }
        for (int i = 0; i < 2; i++) {
            qkv_encoding_free(&e[i]);
            qkv_tokenizer_close(t[i]);
            free(json[i]);
        }
    }
    free(text);
}

// The vocabulary is read from the bytes; an escape in its key sends it through the JSON tree
// instead.
TEST(both_ways_to_read_a_vocabulary_agree)
{
    const char *vocab = "\"\\u00e9\":8 , \"\\ud83d\\ude00\" : "
                        "9,\n\t\"\\\"\\\\\\/\\b\\f\\n\\r\\t\":10,\"\\u0041\":11,"
                        "\"\":12,\"\xf0\x9f\x98\x81\":13,\"}{\":14,\"vocab\":16777215";
    char *scanned = tiny_with("\"\\u00e9\":8", vocab);
    memcpy(strstr(scanned, "\"added_tokens\""), "\"other_tokens\"", 14);
    char *tree = malloc(strlen(scanned) + 6), *key = strstr(scanned, "\"vocab\":{");
    sprintf(tree, "%.*s\"v\\u006fcab\":{%s", (int)(key - scanned), scanned, key + 9);
    qkv_tokenizer *a = tiny_open(scanned), *b = tiny_open(tree);
    CHECK(a->vocab.scanned && !b->vocab.scanned);
    CHECK_EQ(qkv_tokenizer_size(a), 1 << 24);
    CHECK_EQ(a->vocab.count, b->vocab.count);
    for (int64_t i = 0; i < a->vocab.count; i++) {
        const int32_t id = a->vocab.tokens[i].id;
        CHECK_EQ(id, b->vocab.tokens[i].id);
        CHECK_TEXT(qkv_tokenizer_token(a, id), qkv_tokenizer_token(b, id));
        CHECK_EQ(qkv_tokenizer_id(a, qkv_tokenizer_token(a, id)), id);
        CHECK_EQ(qkv_tokenizer_id(b, qkv_tokenizer_token(b, id)), id);
    }
    CHECK_TEXT(qkv_tokenizer_token(a, 9), "\xf0\x9f\x98\x80");
    CHECK_TEXT(qkv_tokenizer_token(a, 10), "\"\\/\b\f\n\r\t");
    qkv_tokenizer_close(a);
    qkv_tokenizer_close(b);
    free(scanned);
    free(tree);
}

// Checks the bytes of a token of a tokenizer with this decoder and vocabulary.
static void check_bytes(const char *decoder, const char *token, const char *expected, size_t bytes)
{
    char json[1024], out[64];
    size_t need = 99;
    qkv_error err = { 0 };
    qkv_tokenizer *t;
    snprintf(json, sizeof json,
             "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"decoder\":%s,"
             "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"<s>\":1,"
             "\"%s\":2}}}",
             decoder, token);
    if (qkv_tokenizer_parse(&t, json, strlen(json), "f", &err)) fail_msg("%s: %s", json, err.text);
    CHECK(!qkv_tokenizer_token_bytes(t, out, sizeof out, &need, 2, NULL));
    if (need != bytes || memcmp(out, expected, bytes) || out[need])
        fail_msg("%s of %s: expected %s, found %s", token, decoder, expected, out);
    CHECK(!qkv_tokenizer_token_bytes(t, NULL, 0, &need, 2, NULL));
    CHECK_EQ(need, bytes);
    CHECK(!qkv_tokenizer_token_bytes(t, out, 2, &need, 2, NULL));
    CHECK_EQ(need, bytes);
    CHECK(strlen(out) <= 1);
    CHECK(!qkv_tokenizer_token_bytes(t, out, sizeof out, &need, 77, NULL));
    CHECK_EQ(need, 0);
    qkv_tokenizer_close(t);
}

TEST(a_token_has_the_bytes_that_it_adds_to_a_text)
{
    static const char level[] = "{\"type\":\"ByteLevel\"}",
                      meta[] = "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
                               "\"prepend_scheme\":\"always\"}",
                      pieces[] = "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
                      bpe[] = "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
                      llama[] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                                "\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},"
                                "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                                "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
                      ctc[] = "{\"type\":\"CTC\",\"pad_token\":\"<pad>\","
                              "\"word_delimiter_token\":\"|\",\"cleanup\":true}";
    check_bytes(level, "\u00c3", "\xc3", 1); // the first byte of é
    check_bytes(level, "\u0120a", " a", 2);
    check_bytes(level, "\u0100", "\0", 1);
    check_bytes(level, "\u20ac", "\xe2\x82\xac", 3); // no character of a byte: itself
    check_bytes(meta, "\u2581a", " a", 2);
    check_bytes(meta, "a", "a", 1);
    check_bytes(pieces, "a", " a", 2);
    check_bytes(pieces, "##a", "a", 1);
    check_bytes(bpe, "a</w>", "a ", 2);
    check_bytes(llama, "\u2581\u2581a", "  a", 3);
    check_bytes(llama, "<0xC3>", "\xc3", 1);
    check_bytes(ctc, "|", " ", 1);
    check_bytes(ctc, "<pad>", "", 0);
    check_bytes("null", "a", " a", 2);
}

// SentencePiece: the bytes of all tokens but the first are the rest of the text.
TEST(bytes_of_pieces_follow_each_other)
{
    const char *text = "Hello  world, \xc3\xa9\xe2\x98\x83 naive";
    qkv_encoding e = { 0 };
    qkv_tokenizer *t;
    qkv_error err = { 0 };
    if (qkv_tokenizer_open(&t, "tests/golden/text/formats/bpe.model", &err))
        fail_msg("%s", err.text);
    CHECK(!qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, NULL));
    char all[256], rest[256] = "";
    size_t at = 0, need;
    for (int64_t i = 0; i < e.count; i++) {
        CHECK(!qkv_tokenizer_token_bytes(t, rest + at, sizeof rest - at, &need, e.ids[i], NULL));
        at += need;
    }
    CHECK(!qkv_tokenizer_decode(t, all, sizeof all, &need, e.ids, e.count, false, NULL));
    CHECK(at > 10);
    CHECK_TEXT(rest + (at > need && rest[0] == ' '), all);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

// no_template: the tokens that a text spells, without those that the template adds.
TEST(special_tokens_of_the_text_alone)
{
    const struct qkv_encode_options alone = { .no_template = true }, plain = { .no_special = true };
    qkv_tokenizer *t = tiny_open(tiny_bert);
    qkv_encoding e = { 0 };
    const int32_t cls = qkv_tokenizer_id(t, "[CLS]");
    CHECK(!qkv_tokenizer_encode(t, &e, "[CLS] a", 7, NULL, 0, &alone, NULL));
    CHECK_EQ(e.count, 2);
    CHECK_EQ(e.ids[0], cls);
    CHECK_EQ(e.ids[1], qkv_tokenizer_id(t, "a"));
    CHECK(!qkv_tokenizer_encode(t, &e, "[CLS] a", 7, NULL, 0, &plain, NULL));
    CHECK(e.count > 2 && e.ids[0] != cls);
    CHECK(!qkv_tokenizer_encode(t, &e, "[CLS] a", 7, NULL, 0, NULL, NULL));
    CHECK(e.count > 2 && e.ids[0] == cls && e.ids[1] == cls);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(null_arguments_are_answered)
{
    qkv_encoding e = { 0 };
    qkv_tokenizer *t = tiny_open(tiny_bert);
    CHECK_EQ(qkv_tokenizer_size(NULL), 0);
    CHECK(qkv_tokenizer_token(NULL, 0) == NULL);
    CHECK_EQ(qkv_tokenizer_id(NULL, "a"), -1);
    CHECK_EQ(qkv_tokenizer_id(t, NULL), -1);
    CHECK(!qkv_tokenizer_special(NULL, 0));
    CHECK_TEXT(qkv_tokenizer_kind(NULL), "");
    CHECK_EQ(qkv_tokenizer_encode(NULL, &e, "a", 1, NULL, 0, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_encode(t, NULL, "a", 1, NULL, 0, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, NULL, 1, NULL, 0, NULL, NULL), QKV_ERR_USAGE);
    qkv_tokenizer_close(t);
    CHECK_EQ(qkv_tokenizer_open(&t, NULL, NULL), QKV_ERR_USAGE);
    CHECK(t == NULL);
    qkv_tokenizer_close(NULL);
    qkv_encoding_free(NULL);
}

CHECK_MAIN(CASE(a_pair_has_types_and_offsets_in_its_own_texts),
           CASE(nothing_and_blanks_give_the_specials_alone), CASE(nul_is_a_character),
           CASE(text_that_spells_a_special_token_is_one_unless_disabled),
           CASE(a_text_over_the_limit_is_refused_or_cut),
           CASE(the_longer_text_of_a_pair_is_cut_first), CASE(padding_fills_up_and_is_not_attended),
           CASE(padding_has_a_limit), CASE(a_word_over_the_limit_of_characters_is_one_unknown),
           CASE(decoding_joins_cleans_and_cuts_at_a_character), CASE(threads_may_share_a_tokenizer),
           CASE(long_texts_are_their_words_in_a_row),
           CASE(cutting_a_text_into_stretches_changes_nothing),
           CASE(both_ways_to_read_a_vocabulary_agree),
           CASE(a_token_has_the_bytes_that_it_adds_to_a_text),
           CASE(bytes_of_pieces_follow_each_other), CASE(special_tokens_of_the_text_alone),
           CASE(null_arguments_are_answered))
