// SPDX-License-Identifier: MIT
// test_tokenizer_malformed_models.c: checks that malformed BPE, Unigram and WordLevel models and
// their components are refused with status, location and reason.
#include "check.h"
#include <stdlib.h>
#include "text/text_internal.h"

#define VOCAB  "{\"<unk>\":0,\"a\":1,\"b\":2,\"ab\":3,\"c\":4}"
#define MERGES "[[\"a\",\"b\"]]"
#define BPE                                                                                        \
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"   \
    "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":{\"type\":"                      \
    "\"RobertaProcessing\","                                                                       \
    "\"sep\":[\"b\",2],\"cls\":[\"a\",1],\"trim_offsets\":true,\"add_prefix_space\":true},"        \
    "\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"},\"model\":{\"type\":\"BPE\","       \
    "\"dropout\":null,\"unk_token\":\"<unk>\",\"vocab\":" VOCAB ",\"merges\":" MERGES "}}"
#define UNIGRAM                                                                                    \
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","        \
    "\"prepend_scheme\":\"always\",\"split\":true},\"post_processor\":{\"type\":\"Sequence\","     \
    "\"processors\":[{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]}]},"         \
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"                                                \
    "\"vocab\":[[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2]]}}"

struct bad {
    const char *from, *to;
    qkv_status status;
    const char *path, *text;
};
#define F QKV_ERR_FORMAT
#define U QKV_ERR_UNSUPPORTED

static char *with(const char *whole, const char *from, const char *to)
{
    const char *at = strstr(whole, from);
    if (!at) fail_msg("no such text: %s", from);
    const size_t before = (size_t)(at - whole), size = strlen(whole) + strlen(to) + 1;
    char *out = malloc(size);
    memcpy(out, whole, before);
    snprintf(out + before, size - before, "%s%s", to, at + strlen(from));
    return out;
}

static void all_refused(const char *whole, const struct bad *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct bad *b = &list[i];
        char *json = with(whole, b->from, b->to);
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        const qkv_status status = qkv_tokenizer_parse(&t, json, strlen(json), "made", &err);
        if (status != b->status || t || strcmp(err.path, b->path) != 0 ||
            strcmp(err.text, b->text) != 0)
            fail_msg("%s -> %s:\n found %d %s: %s\n want  %d %s: %s", b->from, b->to, status,
                     err.path, err.text, b->status, b->path, b->text);
        free(json);
    }
}
#define REFUSED(whole, list) all_refused(whole, list, sizeof list / sizeof list[0])

static void valid(const char *json)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    if (qkv_tokenizer_parse(&t, json, strlen(json), "made", &err))
        fail_msg("%s: %s", err.path, err.text);
    qkv_tokenizer_close(t);
}

TEST(merges_are_pairs_of_tokens_that_make_a_token)
{
    static const struct bad list[] = {
        { MERGES, "[[\"a\",\"x\"]]", F, "$.model.merges[0]",
          "a part of a merge is not in the vocabulary, expected a token of the vocabulary, found "
          "\"x\"" },
        { MERGES, "[[\"a\",\"b\"],[\"b\",\"a\"]]", F, "$.model.merges[1]",
          "the result of a merge is not in the vocabulary, expected a token of the vocabulary, "
          "found \"ba\"" },
        { MERGES, "[\"a b\",\"ab\"]", F, "$.model.merges[1]",
          "malformed merge, expected two tokens separated by a space, found \"ab\"" },
        { MERGES, "[\"a b c\"]", F, "$.model.merges[0]",
          "malformed merge, expected two tokens separated by a space, found \"a b c\"" },
        { MERGES, "[7]", F, "$.model.merges[0]",
          "malformed merge, expected two tokens separated by a space" },
        { MERGES, "[[\"a\",7]]", F, "$.model.merges[0]",
          "malformed merge, expected a list of two tokens, found another list" },
        { MERGES, "[[\"a\",\"b\",\"c\"]]", F, "$.model.merges[0]",
          "malformed merge, expected a list of two tokens, found another list" },
        { ",\"merges\":" MERGES, "", F, "$.model.merges",
          "required member is missing, expected a value, found none" },
        { VOCAB, "[]", F, "$.model.vocab", "value of the wrong type, expected an object" },
        { "\"b\":2", "\"b\":1", F, "$.model.vocab",
          "two tokens have the same id, expected an id for each, found 1 for \"a\" and \"b\"" },
        { "\"unk_token\":\"<unk>\"", "\"unk_token\":\"?\"", F, "$.model.unk_token",
          "unknown token is not in the vocabulary, expected a token of the vocabulary, found "
          "\"?\"" },
        { "\"dropout\":null", "\"dropout\":0.1", U, "$.model.dropout",
          "dropout of merges is not supported, expected \"dropout\" null or 0, found 0.1" },
        { "\"dropout\":null", "\"byte_fallback\":1", F, "$.model.byte_fallback",
          "value of the wrong type, expected true or false, found an integer" },
        { "\"sep\":[\"b\",2]", "\"sep\":[\"b\",9]", F, "$.post_processor.sep",
          "token id is not in the vocabulary, expected the id of a token, found 9" },
        { "\"suffix\":\"</w>\"", "\"suffix\":\"\"", F, "$.decoder.suffix",
          "suffix is empty, expected at least one character" },
        { "\"use_regex\":true", "\"use_regex\":\"yes\"", F, "$.pre_tokenizer.use_regex",
          "value of the wrong type, expected true or false, found a text" },
    };
    valid(BPE);
    REFUSED(BPE, list);
}

#define PREFIXED                                                                                   \
    "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"##\","       \
    "\"vocab\":{\"a\":0,\"##b\":1,\"ab\":2},\"merges\":[[\"a\",\"##b\"]]}}"
TEST(prefixes_are_parts_of_the_right_token_and_not_long) // T10
{
    char *longer = malloc(QKV_AFFIX_BYTES + 80);
    char *suffix = malloc(QKV_AFFIX_BYTES + 80);
    char dots[QKV_AFFIX_BYTES + 2];
    memset(dots, '.', sizeof dots - 1);
    dots[sizeof dots - 1] = 0;
    sprintf(longer, "\"continuing_subword_prefix\":\"%s\"", dots);
    sprintf(suffix, "\"end_of_word_suffix\":\"%s\",\"vocab\"", dots);
    const struct bad list[] = {
        { "\"##\"", "\"####\"", F, "$.model.merges[0]",
          "right part of a merge is shorter than continuing_subword_prefix, expected at least 4 "
          "bytes, found \"##b\"" },
        { "\"continuing_subword_prefix\":\"##\"", longer, QKV_ERR_LIMIT,
          "$.model.continuing_subword_prefix",
          "text too long, expected at most 256 bytes, found 257" },
        { "\"vocab\"", suffix, QKV_ERR_LIMIT, "$.model.end_of_word_suffix",
          "text too long, expected at most 256 bytes, found 257" },
    };
    valid(PREFIXED);
    REFUSED(PREFIXED, list);
    free(longer);
    free(suffix);
}

TEST(scores_are_numbers_and_each_token_is_there_once)
{
    static const struct bad list[] = {
        { "-1.5", "\"-1.5\"", F, "$.model.vocab[1]",
          "malformed entry of the vocabulary, expected [token, score]" },
        { "-1.5", "null", F, "$.model.vocab[1]",
          "malformed entry of the vocabulary, expected [token, score]" },
        { "[\"a\",-1.5]", "[\"a\"]", F, "$.model.vocab[1]",
          "malformed entry of the vocabulary, expected [token, score]" },
        { "[\"b\",-2]", "[\"a\",-2]", F, "$.model.vocab[2]",
          "duplicate token in the vocabulary, expected each token once, found \"a\" again" },
        { "\"unk_id\":0", "\"unk_id\":3", QKV_ERR_FORMAT, "$.model.unk_id",
          "number out of range, expected 0 .. 2, found 3" },
        { "\"unk_id\":0", "\"unk_id\":null", U, "$.model.unk_id",
          "vocabulary has no unknown token, expected the id of one, since a text may contain "
          "characters that no token covers" },
        { "[[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2]]", "[]", F, "$.model.vocab",
          "empty vocabulary, expected at least one token" },
        { "[[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2]]", "7", F, "$.model.vocab",
          "value of the wrong type, expected an array" },
        { "\"replacement\":\"_\"", "\"replacement\":\"__\"", F, "$.pre_tokenizer.replacement",
          "text has the wrong length, expected one character, found \"__\"" },
        { "\"always\"", "\"sometimes\"", F, "$.pre_tokenizer.prepend_scheme",
          "unknown value of prepend_scheme, expected always, first or never, found \"sometimes\"" },
        { "\"split\":true", "\"add_prefix_space\":false", F, "$.pre_tokenizer.add_prefix_space",
          "add_prefix_space contradicts prepend_scheme, expected add_prefix_space true, found "
          "false" },
        { "\"cls\":[\"a\",1]}", "\"cls\":[\"a\",1]},{\"type\":\"BertProcessing\"}", U,
          "$.post_processor.processors[1]",
          "two post-processors add special tokens, expected at most one" },
    };
    valid(UNIGRAM);
    REFUSED(UNIGRAM, list);
    // NaN is not JSON, nor is a number too large for a double.
    static const char *const none[] = { "NaN", "-Infinity", "1e999" };
    EACH(score, none)
    {
        char *json = with(UNIGRAM, "-1.5", *score);
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "made", &err), F);
        CHECK(err.text[0]);
        free(json);
    }
}

TEST(patterns_that_cannot_be_run_are_refused_by_name)
{
    const char *known =
        "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"Removed\","
        "\"invert\":false}";
    char *whole = with(BPE,
                       "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                       "\"use_regex\":true}",
                       known);
    static const struct bad list[] = {
        { "{\"String\":\" \"}", "{\"Regex\":\"(a+)+[\"}", F, "$.pre_tokenizer.pattern.Regex",
          "regular expression is malformed or not supported, at its byte 5: a character set "
          "without its closing ], found \"(a+)+[\"" },
        { "{\"String\":\" \"}", "{}", F, "$.pre_tokenizer.pattern.String",
          "required member is missing, expected a value, found none" },
        { "\"Removed\"", "\"Kept\"", F, "$.pre_tokenizer.behavior",
          "unknown behavior of a split, expected Removed, Isolated, MergedWithPrevious, "
          "MergedWithNext or Contiguous, found \"Kept\"" },
    };
    valid(whole);
    REFUSED(whole, list);
    free(whole);
}

// Long words use another algorithm than short ones, and texts in pieces another than complete ones.
TEST(a_word_of_any_length_is_merged_from_the_left)
{
    qkv_tokenizer *t = NULL;
    char *json = with(BPE,
                      "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                      "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":{\"type\":"
                      "\"RobertaProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1],"
                      "\"trim_offsets\":true,\"add_prefix_space\":true},",
                      "");
    CHECK_EQ(qkv_tokenizer_parse(&t, json, strlen(json), "made", NULL), QKV_OK);
    qkv_encoding e = { 0 };
    enum { MOST = 3000000 };
    char *text = malloc(MOST);
    for (int i = 0; i < MOST; i++) text[i] = "abcb"[i & 3];
    static const int64_t sizes[] = { 1, 2, 3, 47, 48, 49, 50, 97, 1000, MOST };
    EACH(n, sizes)
    {
        CHECK_EQ(qkv_tokenizer_encode(t, &e, text, (size_t)*n, NULL, 0, NULL, NULL), QKV_OK);
        int64_t at = 0;
        for (int64_t i = 0; i < e.count; i++) { // ab c b ab c b
            const bool pair = at % 4 == 0 && at + 1 < *n;
            CHECK_EQ(e.ids[i], pair ? 3 : text[at] == 'a' ? 1 : text[at] == 'b' ? 2 : 4);
            CHECK_EQ(e.begin[i], at);
            at += pair ? 2 : 1;
            CHECK_EQ(e.end[i], at);
        }
        CHECK_EQ(at, *n);
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(text);
    free(json);
}

CHECK_MAIN(CASE(merges_are_pairs_of_tokens_that_make_a_token),
           CASE(prefixes_are_parts_of_the_right_token_and_not_long),
           CASE(scores_are_numbers_and_each_token_is_there_once),
           CASE(patterns_that_cannot_be_run_are_refused_by_name),
           CASE(a_word_of_any_length_is_merged_from_the_left))
