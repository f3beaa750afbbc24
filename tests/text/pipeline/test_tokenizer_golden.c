// SPDX-License-Identifier: MIT
// test_tokenizer_golden.c: compares ids, types, offsets and decoded texts with the reference, for a
// small tokenizer with every component in many combinations.
#include "text/golden_text.h"

TEST(every_component_answers_as_the_reference)
{
    golden_replay("tests/golden/text/small.json", "tests/golden/text/tokenizer.json");
}

CHECK_MAIN(CASE(every_component_answers_as_the_reference))
