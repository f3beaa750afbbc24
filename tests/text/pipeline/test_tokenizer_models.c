// SPDX-License-Identifier: MIT
// test_tokenizer_models.c: compares ids, types, offsets and decoded texts of every model with the
// reference, with the pre-tokenizers, decoders and post-processors used with each.
#include "text/golden_text.h"

TEST(byte_level_bpe_answers_as_the_reference)
{
    golden_replay("tests/golden/text/bpe_bytes.json", NULL);
}
TEST(bpe_of_characters_answers_as_the_reference)
{
    golden_replay("tests/golden/text/bpe_chars.json", NULL);
}
TEST(unigram_answers_as_the_reference)
{
    golden_replay("tests/golden/text/unigram.json", NULL);
}
TEST(whole_words_answer_as_the_reference)
{
    golden_replay("tests/golden/text/wordlevel.json", NULL);
}
TEST(wordpiece_after_other_splits_answers_as_the_reference)
{
    golden_replay("tests/golden/text/wordpiece_steps.json", NULL);
}
// The reference leaves the characters out without a word.
TEST(characters_that_bpe_leaves_out_are_counted) // T16
{
    static const char json[] =
        "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":"
        "\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    const struct qkv_encode_options strict = { .strict = true };
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tokenizer_parse(&t, json, sizeof json - 1, "made", NULL), QKV_OK);
    for (int again = 0; again < 3; again++) { // also when words come from the cache
        CHECK_EQ(qkv_tokenizer_encode(t, &e, "ab abcZb c ab", 13, NULL, 0, NULL, NULL), QKV_OK);
        CHECK_EQ(e.count, 4);
        CHECK_EQ(e.dropped, 3);
        CHECK_EQ(e.dropped_at, 3);
        CHECK_EQ(qkv_tokenizer_encode(t, &e, "ab a", 4, NULL, 0, &strict, NULL), QKV_OK);
        CHECK_EQ(e.dropped, 0);
    }
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "ab abcZb", 8, NULL, 0, &strict, &err), QKV_ERR_FORMAT);
    CHECK_EQ(e.count, 0);
    CHECK(err.has_offset && err.offset == 3);
    CHECK(strstr(err.text, "text has characters without a token, expected "));
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

// x yy y and x y yy have sums that differ only in the last bit, which depends on how the numbers
// are parsed.
TEST(ties_between_segmentations_are_resolved_as_by_the_reference)
{
    static const char json[] =
        "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0.0],"
        "[\"x\",-9.461974184283127],[\"y\",-6.875806061435594],[\"yy\",-9.824790008318576]]}}";
    static const int32_t want[] = { 1, 2, 3 };
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_parse(&t, json, sizeof json - 1, "made", NULL), QKV_OK);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, "xyyy", 4, NULL, 0, NULL, NULL), QKV_OK);
    CHECK_EQ(e.count, 3);
    CHECK_BITS(e.ids, want, sizeof want);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
}

TEST(regular_expressions_answer_as_the_reference)
{
    golden_replay("tests/golden/text/regex.json", NULL);
}

TEST(components_that_are_seldom_answer_as_the_reference)
{
    golden_replay("tests/golden/text/components.json", NULL);
}

TEST(edges_of_offsets_marks_and_scores_answer_as_the_reference)
{
    golden_replay("tests/golden/text/edges.json", NULL);
}

CHECK_MAIN(CASE(components_that_are_seldom_answer_as_the_reference),
           CASE(edges_of_offsets_marks_and_scores_answer_as_the_reference),
           CASE(byte_level_bpe_answers_as_the_reference),
           CASE(bpe_of_characters_answers_as_the_reference), CASE(unigram_answers_as_the_reference),
           CASE(whole_words_answer_as_the_reference),
           CASE(wordpiece_after_other_splits_answers_as_the_reference),
           CASE(characters_that_bpe_leaves_out_are_counted),
           CASE(ties_between_segmentations_are_resolved_as_by_the_reference),
           CASE(regular_expressions_answer_as_the_reference))
