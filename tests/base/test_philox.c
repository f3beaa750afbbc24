// SPDX-License-Identifier: MIT
// test_philox.c: compares random numbers with the published answers and checks the dropout
// threshold.
#include "check.h"
#include "base/base.h"

// Known answers of the authors' Random123: philox4x32, 10 rounds.
TEST(words_equal_the_published_answers)
{
    static const struct {
        uint64_t seed, site, block;
        uint32_t want[4];
    } known[] = {
        { 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { 0x299f31d0a4093822,
          0x0370734413198a2e,
          0x85a308d3243f6a88,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    EACH(x, known)
    {
        uint32_t out[4];
        qkv_philox(out, x->seed, x->site, x->block);
        for (int i = 0; i < 4; i++) CHECK_EQ(out[i], x->want[i]);
    }
}

TEST(the_fraction_below_a_threshold_is_the_dropout_probability)
{
    enum { N = 1 << 18 };
    static const double shares[] = { 0, .1, .5, .999 };
    EACH(p, shares)
    {
        const uint32_t less = qkv_dropout_threshold(*p);
        int64_t dropped = 0;
        for (uint64_t block = 0; block < N / 4; block++) {
            uint32_t out[4];
            qkv_philox(out, 7, 11, block);
            for (int i = 0; i < 4; i++) dropped += out[i] < less;
        }
        // Five standard deviations of a binomial.
        CHECK_NEAR((double)dropped, N * *p, 5 * sqrt(N * *p * (1 - *p)));
    }
}

CHECK_MAIN(CASE(words_equal_the_published_answers),
           CASE(the_fraction_below_a_threshold_is_the_dropout_probability))
