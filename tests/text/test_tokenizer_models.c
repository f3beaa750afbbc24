// SPDX-License-Identifier: MIT
// test_tokenizer_models.c: ids, types, places and decoded texts of every model as the reference has them,
// with the pre-tokenizers, decoders and post-processors that go with each.
#include "golden_text.h"

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
TEST(wordpiece_behind_other_splits_answers_as_the_reference)
{
    golden_replay("tests/golden/text/wordpiece_steps.json", NULL);
}
TEST(regular_expressions_answer_as_the_reference)
{
    golden_replay("tests/golden/text/regex.json", NULL);
}

CHECK_MAIN(CASE(byte_level_bpe_answers_as_the_reference),
           CASE(bpe_of_characters_answers_as_the_reference), CASE(unigram_answers_as_the_reference),
           CASE(whole_words_answer_as_the_reference),
           CASE(wordpiece_behind_other_splits_answers_as_the_reference),
           CASE(regular_expressions_answer_as_the_reference))
