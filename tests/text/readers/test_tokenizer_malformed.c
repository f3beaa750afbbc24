// SPDX-License-Identifier: MIT
// test_tokenizer_malformed.c: checks that a malformed tokenizer.json is refused with status,
// location and reason, and that no text does harm.  T and X number the cases of the list of
// malformed input.
#include "text/tiny_text.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

struct bad {
    const char *from, *to; // a change to TINY
    qkv_status status;
    const char *path, *text;
};

static void refused(const struct bad *b)
{
    char *json = tiny_with(b->from, b->to);
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_parse(&t, json, strlen(json), "tiny", &err);
    if (status != b->status || err.status != status || t || strcmp(err.path, b->path) != 0 ||
        strcmp(err.text, b->text) != 0 || strcmp(err.file, "tiny") != 0)
        fail_msg("%s -> %s:\n found %d %s: %s\n want  %d %s: %s", b->from, b->to, status, err.path,
                 err.text, b->status, b->path, b->text);
    CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "tiny", NULL),
             b->status); // also with no error
    CHECK(t == NULL);
    free(json);
}

static void all_refused(const struct bad *b, size_t count)
{
    for (size_t i = 0; i < count; i++) refused(&b[i]);
}
#define REFUSED(list) all_refused(list, sizeof list / sizeof list[0])

#define F QKV_ERR_FORMAT
#define U QKV_ERR_UNSUPPORTED
#define L QKV_ERR_LIMIT

TEST(the_small_tokenizer_itself_is_valid)
{
    qkv_tokenizer *t = tiny_open(TINY);
    qkv_encoding e = { 0 };
    char out[64];
    const char text[] = "H\xc3\xa9llo aB, new  tok zzb";
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, NULL), QKV_OK);
    const int32_t want[] = {
        2, 3, 4, 5, 6, 7, 1, 1, 1, 6, 7
    }; // hello a b , [UNK] [UNK] zz -> a, b
    CHECK_EQ(e.count, 11);
    CHECK_BITS(e.ids, want, sizeof want);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "a  New Tok  a", 13, NULL, 0, NULL, NULL), QKV_OK);
    const int32_t added[] = { 2, 3, 6, 9, 6 };
    CHECK_EQ(e.count, 5);
    CHECK_BITS(e.ids, added, sizeof added);
    CHECK_EQ(e.begin[3], 1);
    CHECK_EQ(e.end[3], 12);
    CHECK_EQ(qkv_tokenizer_decode(t, out, sizeof out, NULL, e.ids, e.count, true, NULL), QKV_OK);
    CHECK_TEXT(out, "[SEP]a"
                    "new toka");
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(a_cut_off_file_is_refused_with_line_and_column) // T1
{
    const char *path = "build/.tiny_tokenizer.json";
    mkdir("build", 0777);
    FILE *f = fopen(path, "wb");
    CHECK(f);
    fwrite(TINY, 1, 100, f);
    fclose(f);
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tokenizer_open(&t, path, &err), F);
    CHECK_TEXT(err.file, path);
    CHECK_TEXT(err.path, "2:83");
    CHECK_TEXT(err.text, "malformed JSON, expected the closing quote of a string, found the end");
    CHECK(t == NULL);
    unlink(path);
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_tokenizer_open(&t, path, &err), QKV_ERR_IO);
    CHECK_TEXT(err.file, path);
    err = (qkv_error){ 0 };
    CHECK_EQ(qkv_tokenizer_open(&t, "tests", &err), QKV_ERR_IO); // a folder without one
    CHECK_TEXT(err.file, "tests/tokenizer.json");
    CHECK_EQ(qkv_tokenizer_open(NULL, path, NULL), QKV_ERR_USAGE);
}

TEST(unknown_or_missing_models_and_versions_are_refused) // T2, T3
{
    static const struct bad list[] = {
        { "\"model\":" TINY_MODEL, "\"model\":null", F, "$.model",
          "required member is missing, expected a value, found none" },
        { "\"model\":" TINY_MODEL, "\"model\":[]", F, "$.model",
          "value of the wrong type, expected an object" },
        { "\"type\":\"WordPiece\",\"unk_token\"", "\"type\":\"Morse\",\"unk_token\"", U,
          "$.model.type",
          "unknown tokenizer model, expected one of BPE, Unigram, WordLevel, WordPiece, found "
          "\"Morse\"" },
        { "\"type\":\"WordPiece\",\"unk_token\"", "\"type\":7,\"unk_token\"", F, "$.model.type",
          "value of the wrong type, expected a text, found an integer" },
        { "\"type\":\"WordPiece\",\"unk_token\"", "\"merges\":7,\"unk_token\"", F, "$.model.merges",
          "value of the wrong type, expected an array" },
        { "\"version\":\"1.0\"", "\"version\":\"2.0\"", U, "$.version",
          "unknown version of tokenizer.json, expected \"1.0\", found \"2.0\"" },
        { "\"version\":\"1.0\"", "\"version\":1.0", F, "$.version",
          "value of the wrong type, expected a text, found a real number" },
        { "\"vocab\":" TINY_VOCAB, "\"vocab\":[]", F, "$.model.vocab",
          "value of the wrong type, expected an object" },
        { ",\"vocab\":" TINY_VOCAB, "", F, "$.model.vocab",
          "required member is missing, expected a value, found none" },
        { "\"continuing_subword_prefix\":\"##\",", "", F, "$.model.continuing_subword_prefix",
          "required member is missing, expected a value, found none" },
        { "\"max_input_chars_per_word\":20", "\"max_input_chars_per_word\":0", F,
          "$.model.max_input_chars_per_word", "number out of range, expected 1 .. 1000, found 0" },
        { "\"max_input_chars_per_word\":20", "\"max_input_chars_per_word\":1001", L,
          "$.model.max_input_chars_per_word",
          "number out of range, expected 1 .. 1000, found 1001" },
    };
    REFUSED(list);
}

TEST(ids_of_the_vocabulary_are_small_whole_numbers_and_each_is_one_token) // T11-T15
{
    static const struct bad list[] = {
        { "\"he\":4", "\"he\":-1", F, "$.model.vocab.he",
          "token id out of range, expected 0 .. 16777215, found -1" },
        { "\"he\":4", "\"he\":1.5", F, "$.model.vocab.he",
          "token id has the wrong type, expected an integer" },
        { "\"he\":4", "\"he\":\"4\"", F, "$.model.vocab.he",
          "token id has the wrong type, expected an integer" },
        { "\"he\":4", "\"he\":4294967296", F, "$.model.vocab.he",
          "token id out of range, expected 0 .. 16777215, found 4294967296" },
        { "\"he\":4", "\"he\":4294967295", F, "$.model.vocab.he",
          "token id out of range, expected 0 .. 16777215, found 4294967295" },
        { "\"he\":4", "\"he\":5", F, "$.model.vocab",
          "two tokens have the same id, expected an id for each, found 5 for \"he\" and "
          "\"##llo\"" },
        { "\"id\":9,", "\"id\":8,", F, "$.added_tokens",
          "two tokens have the same id, expected an id for each, found 8 for \"\xc3\xa9\" and "
          "\"New "
          "Tok\"" },
        { "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"<unk>\"", F, "$.model.unk_token",
          "unknown token is not in the vocabulary, expected a token of the vocabulary, found "
          "\"<unk>\"" },
        { "\"unk_token\":\"[UNK]\"", "\"unk_token\":null", F, "$.model.unk_token",
          "required member is missing, expected a value, found none" },
    };
    REFUSED(list);
    // A gap is allowed: the model checks whether an embedding row exists.
    char *json = tiny_with("\"\\u00e9\":8", "\"\\u00e9\":999999");
    qkv_tokenizer *t = tiny_open(json);
    CHECK_EQ(qkv_tokenizer_size(t), 1000000);
    CHECK_TEXT(qkv_tokenizer_token(t, 999999), "\xc3\xa9");
    CHECK(qkv_tokenizer_token(t, 999998) == NULL);
    CHECK(qkv_tokenizer_token(t, -1) == NULL);
    CHECK_EQ(qkv_tokenizer_id(t, "\xc3\xa9"), 999999);
    qkv_tokenizer_close(t);
    free(json);
}

TEST(a_key_listed_twice_is_refused_at_its_byte) // T14
{
    static const struct {
        const char *from, *to;
        int64_t at; // in `to`
    } twice[] = { { "\"he\":4", "\"he\":4,\"he\":4", 7 },
                  { "\"version\":\"1.0\"", "\"version\":\"1.0\",\"version\":\"1.0\"", 16 },
                  { "\"vocab\":{", "\"vocab\":{},\"vocab\":{", 11 } };
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++) {
        char *json = tiny_with(twice[i].from, twice[i].to);
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "tiny", &err), F);
        CHECK(err.has_offset);
        CHECK_EQ(err.offset, strstr(json, twice[i].to) - json + twice[i].at);
        CHECK(strncmp(err.text, "duplicate key in a JSON object, expected each key once, found \"",
                      63) == 0);
        free(json);
    }
}

TEST(unknown_components_are_refused_by_name) // T17-T21, T26
{
    static const struct bad list[] = {
        { "{\"type\":\"NFC\"}", "{\"type\":\"NFX\"}", U, "$.normalizer.normalizers[0].type",
          "unknown normalizer, expected one of BertNormalizer, ByteLevel, Lowercase, NFC, NFD, "
          "NFKC, "
          "NFKD, Nmt, Precompiled, "
          "Prepend, Replace, Sequence, Strip, StripAccents, found \"NFX\"" },
        { "{\"type\":\"NFC\"}", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", F,
          "$.normalizer.normalizers[0].precompiled_charsmap",
          "malformed normalization table, expected the size of the trie, the trie and the "
          "replacement texts" },
        { "{\"type\":\"NFC\"}", "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}", F,
          "$.normalizer.normalizers[0].precompiled_charsmap",
          "normalization table is not in base64, expected letters, digits, + and /" },
        { "{\"type\":\"BertPreTokenizer\"}", "{\"type\":\"Scripts\"}", U,
          "$.pre_tokenizer.pretokenizers[0].type",
          "unknown pre-tokenizer, expected one of BertPreTokenizer, ByteLevel, CharDelimiterSplit, "
          "Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, UnicodeScripts, "
          "Whitespace, WhitespaceSplit, found \"Scripts\"" },
        { "{\"type\":\"BertPreTokenizer\"}", "{\"type\":\"FixedLength\",\"length\":0}", F,
          "$.pre_tokenizer.pretokenizers[0].length",
          "number out of range, expected 1 .. 9223372036854775807, found 0" },
        { "{\"type\":\"BertPreTokenizer\"}",
          "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"ab\"}", F,
          "$.pre_tokenizer.pretokenizers[0].delimiter",
          "text has the wrong length, expected one character, found \"ab\"" },
        { "\"type\":\"TemplateProcessing\"", "\"type\":\"Processing\"", U, "$.post_processor.type",
          "unknown post-processor, expected one of BertProcessing, ByteLevel, RobertaProcessing, "
          "Sequence, TemplateProcessing, found \"Processing\"" },
        { "{\"type\":\"Fuse\"}", "{\"type\":\"CTX\"}", U, "$.decoder.decoders[2].type",
          "unknown decoder, expected one of BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, "
          "Metaspace, "
          "Replace, Sequence, Strip, WordPiece, found \"CTX\"" },
        { "{\"String\":\"zz\"}", "{\"Regex\":\"a(b\"}", F,
          "$.normalizer.normalizers[2].pattern.Regex",
          "regular expression is malformed or not supported, at its byte 3: a group without its "
          "closing ), "
          "found \"a(b\"" },
        { "{\"String\":\"zz\"}", "{\"String\":\"\"}", F,
          "$.normalizer.normalizers[2].pattern.String",
          "pattern is empty, expected at least one character" },
        { "{\"type\":\"NFC\"}", "{}", F, "$.normalizer.normalizers[0].type",
          "required member is missing, expected a value, found none" },
        { "{\"type\":\"NFC\"}", "7", F, "$.normalizer.normalizers[0]",
          "value of the wrong type, expected an object" },
        { "\"normalizer\":{", "\"normalizer\":\"NFC\",\"other\":{", F, "$.normalizer",
          "value of the wrong type, expected an object" },
        { "\"lowercase\":true", "\"lowercase\":1", F, "$.normalizer.normalizers[1].lowercase",
          "value of the wrong type, expected true or false, found an integer" },
        { "\"behavior\":\"Contiguous\"", "\"behavior\":\"Kept\"", F,
          "$.pre_tokenizer.pretokenizers[2].behavior",
          "unknown behavior of a split, expected Removed, Isolated, MergedWithPrevious, "
          "MergedWithNext or Contiguous, found \"Kept\"" },
        { "\"content\":\" \",\"start\"", "\"content\":\"ab\",\"start\"", F,
          "$.decoder.decoders[1].content",
          "text has the wrong length, expected one character, found \"ab\"" },
        { "\"start\":1", "\"start\":-1", F, "$.decoder.decoders[1].start",
          "number out of range, expected 0 .. 9223372036854775807, found -1" },
    };
    REFUSED(list);
}

TEST(a_sequence_nested_150_deep_is_refused_without_recursion) // T22
{
    char deep[8192] = "";
    for (int i = 0; i < 150; i++) strcat(deep, "{\"type\":\"Sequence\",\"normalizers\":[");
    strcat(deep, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 150; i++) strcat(deep, "]}");
    char *json = tiny_with("{\"type\":\"NFC\"}", deep);
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "tiny", &err), F);
    CHECK(err.has_offset);
    CHECK_TEXT(err.text, "JSON nested too deep, expected at most 64 levels, found '['");
    free(json);
}

TEST(added_tokens_agree_with_the_vocabulary) // T23
{
    char *longer = malloc(QKV_ADDED_BYTES + 40);
    strcpy(longer, "\"content\":\"");
    memset(longer + 11, 'x', QKV_ADDED_BYTES + 1);
    strcpy(longer + 11 + QKV_ADDED_BYTES + 1, "\"");
    const struct bad list[] = {
        { "{\"id\":2,", "{\"id\":4,", F, "$.added_tokens[0].id",
          "wrong id of the added token \"[CLS]\", expected its id in the vocabulary, 2, found 4" },
        { "{\"id\":9,", "{\"id\":-9,", F, "$.added_tokens[1].id",
          "token id out of range, expected 0 .. 16777215, found -9" },
        { "{\"id\":9,", "{", F, "$.added_tokens[1].id",
          "required member is missing, expected a value, found none" },
        { "{\"id\":9,", "{\"id\":\"9\",", F, "$.added_tokens[1].id",
          "value of the wrong type, expected an integer, found a text" },
        { "\"content\":\"New Tok\"", "\"content\":\"\"", F, "$.added_tokens[1].content",
          "empty added token, expected at least one character" },
        { "\"content\":\"New Tok\"", "\"content\":\"\\u0001\"", F, "$.added_tokens[1].content",
          "added token is empty after normalization, expected at least one character, found "
          "\"\\x01\"" },
        { "{\"id\":9,\"content\":\"New Tok\"", "{\"id\":2,\"content\":\"[CLS]\"", F,
          "$.added_tokens[1].content",
          "duplicate added token, expected each added token once, found \"[CLS]\" again" },
        { "\"content\":\"New Tok\"", longer, L, "$.added_tokens[1].content",
          "added token too long, expected at most 1024 bytes, found 1025" },
        { "\"added_tokens\":[", "\"added_tokens\":[[],", F, "$.added_tokens[0]",
          "value of the wrong type, expected an object" },
    };
    REFUSED(list);
    free(longer);
}

TEST(templates_use_declared_tokens_of_the_vocabulary) // T24
{
    static const struct bad list[] = {
        { "{\"id\":\"c\",\"type_id\":0}", "{\"id\":\"d\",\"type_id\":0}", F,
          "$.post_processor.single[0].SpecialToken.id",
          "special token of a template is not declared, expected a key of special_tokens, found "
          "\"d\"" },
        { "\"ids\":[2,3]", "\"ids\":[2,99]", F, "$.post_processor.special_tokens.c.ids[1]",
          "token id is not in the vocabulary, expected the id of a token, found 99" },
        { "\"ids\":[2,3]", "\"ids\":[2,-1]", F, "$.post_processor.special_tokens.c.ids[1]",
          "token id is not in the vocabulary, expected the id of a token, found -1" },
        { "\"ids\":[2,3]", "\"ids\":[2,\"3\"]", F, "$.post_processor.special_tokens.c.ids[1]",
          "token id has the wrong type, expected an integer" },
        { "\"ids\":[2,3]", "\"ids\":[2]", F, "$.post_processor.special_tokens.c.tokens",
          "special token has another number of tokens than of ids, expected 1 tokens, found 2" },
        { "{\"id\":\"A\",\"type_id\":0}", "{\"id\":\"B\",\"type_id\":0}", F,
          "$.post_processor.single[1].Sequence.id",
          "unknown sequence in a template, expected A, found \"B\"" },
        { "{\"id\":\"A\",\"type_id\":0}", "{\"id\":\"A\",\"type_id\":-1}", F,
          "$.post_processor.single[1].Sequence.type_id",
          "number out of range, expected 0 .. 2147483647, found -1" },
        { "{\"id\":\"B\",\"type_id\":1}", "{\"id\":\"A\",\"type_id\":1}", U,
          "$.post_processor.pair[1].Sequence.id",
          "duplicate sequence in one template, expected each sequence once, found \"A\" again" },
        { ",{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}", "", F, "$.post_processor.pair",
          "sequence is missing in a template, expected a Sequence A and a Sequence B" },
        { "{\"Sequence\":{\"id\":\"A\"", "{\"Other\":{\"id\":\"A\"", F,
          "$.post_processor.single[1]",
          "unknown part of a template, expected SpecialToken or Sequence" },
        { TINY_POST, "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",99]}",
          F, "$.post_processor.cls",
          "token id is not in the vocabulary, expected the id of a token, found 99" },
        { TINY_POST, "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\"],\"cls\":[\"[CLS]\",2]}", F,
          "$.post_processor.sep",
          "malformed special token, expected [token, id], found 1 members" },
    };
    REFUSED(list);
}

TEST(limits_of_the_file_make_sense) // T25
{
    static const struct bad list[] = {
        { "\"max_length\":8", "\"max_length\":0", F, "$.truncation.max_length",
          "number out of range, expected at least 1, found 0" },
        { "\"stride\":2", "\"stride\":8", F, "$.truncation.stride",
          "number out of range, expected 0 .. max_length - 1 = 7, found 8" },
        { "\"stride\":2", "\"stride\":-1", F, "$.truncation.stride",
          "number out of range, expected 0 .. max_length - 1 = 7, found -1" },
        { "\"strategy\":\"LongestFirst\"", "\"strategy\":\"Longest\"", F, "$.truncation.strategy",
          "unknown strategy of truncation, expected LongestFirst, OnlyFirst or OnlySecond, found "
          "\"Longest\"" },
        { "\"direction\":\"Right\"", "\"direction\":\"Up\"", F, "$.truncation.direction",
          "unknown direction of truncation or padding, expected Left or Right, found \"Up\"" },
        { "{\"Fixed\":4}", "{\"Fixed\":-4}", F, "$.padding.strategy",
          "unknown strategy of padding, expected \"BatchLongest\" or {\"Fixed\": length}" },
        { "\"pad_id\":0", "\"pad_id\":77", F, "$.padding.pad_id",
          "token id is not in the vocabulary, expected the id of a token, found 77" },
        { "\"pad_to_multiple_of\":4", "\"pad_to_multiple_of\":-4", F,
          "$.padding.pad_to_multiple_of",
          "number out of range, expected 0 .. 2147483647, found -4" },
    };
    REFUSED(list);
}

// Uses an opened tokenizer: both texts of a pair, with the limits of the file and without.
static void try_file(const char *json, size_t size, int64_t *loaded)
{
    static const char text[] =
        "Hello [CLS] new tok \xc3\xa9 e\xcc\x81 \xff 12, zzab \xe4\xbd\xa0\x01";
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_parse(&t, json, size, "tiny", &err);
    CHECK_EQ(err.status, status);
    if (status) {
        CHECK(t == NULL && err.text[0]);
        CHECK(status == F || status == U || status == L);
        return;
    }
    (*loaded)++;
    qkv_encoding e = { 0 };
    const struct qkv_encode_options o = { .file_limits = true };
    char out[256];
    (void)!qkv_tokenizer_encode(t, &e, text, sizeof text, NULL, 0, NULL, NULL);
    (void)!qkv_tokenizer_encode(t, &e, text, sizeof text, "a b", 3, &o, NULL);
    (void)!qkv_tokenizer_decode(t, out, sizeof out, NULL, e.ids, e.count, false, NULL);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(every_truncation_is_refused_or_loads)
{
    const size_t size = strlen(TINY);
    int64_t loaded = 0;
    for (size_t n = 0; n <= size; n++) {
        char *copy =
            // its end is the end of the block: a sanitizer detects a read past it
            malloc(n ? n : 1);
        memcpy(copy, TINY, n);
        try_file(copy, n, &loaded);
        free(copy);
    }
    CHECK_EQ(loaded, 2); // whole, and without the last newline
}

TEST(every_flipped_bit_is_refused_or_loads)
{
    const size_t size = strlen(TINY);
    int64_t loaded = 0;
    char *copy = malloc(size);
    for (size_t i = 0; i < size * 8; i++) {
        memcpy(copy, TINY, size);
        copy[i / 8] = (char)(copy[i / 8] ^ 1 << i % 8);
        try_file(copy, size, &loaded);
    }
    free(copy);
    CHECK(loaded > 0 && loaded < (int64_t)size * 8);
}

// ---- texts -------------------------------------------------------------------------------------
TEST(invalid_utf8_is_replaced_and_counted_or_refused_when_strict) // X1
{
    static const struct {
        const char *text;
        int64_t places, at;
    } rows[] = { { "a\x80z", 1, 1 },           { "\xc0\x80", 2, 0 },   { "a \xed\xa0\x80", 3, 2 },
                 { "\xf4\x90\x80\x80", 4, 0 }, { "ab\xe4\xbd", 1, 2 }, { "\xf0\x9f\x98 x", 1, 0 },
                 { "\xff\xfe", 2, 0 },         { "ok", 0, 0 } };
    char *json = tiny_with(TINY_NORMALIZER, "null");
    qkv_tokenizer *t = tiny_open(json);
    qkv_encoding e = { 0 };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n = strlen(rows[i].text);
        qkv_error err = { 0 };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, rows[i].text, n, NULL, 0, NULL, &err), QKV_OK);
        CHECK_EQ(e.replaced, rows[i].places);
        CHECK_EQ(e.replaced_at, rows[i].at);
        const struct qkv_encode_options o = { .strict = true };
        const qkv_status status = qkv_tokenizer_encode(t, &e, rows[i].text, n, NULL, 0, &o, &err);
        CHECK_EQ(status, rows[i].places ? QKV_ERR_FORMAT : QKV_OK);
        if (!status) continue;
        CHECK_EQ(e.count, 0);
        CHECK(err.has_offset);
        CHECK_EQ(err.offset, rows[i].at);
        CHECK_TEXT(
            err.text,
            "text is not valid UTF-8, expected a character, found an invalid sequence of bytes");
        err = (qkv_error){ 0 };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, "a", 1, rows[i].text, n, &o, &err), QKV_ERR_FORMAT);
        CHECK_TEXT(
            err.text,
            "text B is not valid UTF-8, expected a character, found an invalid sequence of bytes");
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(json);
}

CHECK_MAIN(CASE(the_small_tokenizer_itself_is_valid),
           CASE(a_cut_off_file_is_refused_with_line_and_column),
           CASE(unknown_or_missing_models_and_versions_are_refused),
           CASE(ids_of_the_vocabulary_are_small_whole_numbers_and_each_is_one_token),
           CASE(a_key_listed_twice_is_refused_at_its_byte),
           CASE(unknown_components_are_refused_by_name),
           CASE(a_sequence_nested_150_deep_is_refused_without_recursion),
           CASE(added_tokens_agree_with_the_vocabulary),
           CASE(templates_use_declared_tokens_of_the_vocabulary),
           CASE(limits_of_the_file_make_sense), CASE(every_truncation_is_refused_or_loads),
           CASE(every_flipped_bit_is_refused_or_loads),
           CASE(invalid_utf8_is_replaced_and_counted_or_refused_when_strict))
