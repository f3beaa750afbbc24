// SPDX-License-Identifier: MIT
// test_tokenizer_golden.c: ids, types, places and decoded texts as the reference has them, on a
// small tokenizer with every component in many mixes.
#include "golden_text.h"

TEST(every_component_answers_as_the_reference)
{
    golden_replay("tests/golden/text/small.json", "tests/golden/text/tokenizer.json");
}

CHECK_MAIN(CASE(every_component_answers_as_the_reference))
