// SPDX-License-Identifier: MIT
// test_trainer_seed.c: compares the candidates for pieces of a Unigram vocabulary with a count of
// every string of a small text.
#include "check.h"
#include "text/training/trainer_unigram.h"
#include <stdlib.h>

enum { TEXT = 60, MOST_STRINGS = TEXT * TEXT };

struct string {
    int at, bytes, count;
};
static uint8_t text[TEXT + 1]; // a segment ends with 0

// Returns how often the string occurs; *next: the character that follows each time, -1 if these
// differ or one is at the end of the text.
static int occurrences(const uint8_t *s, int bytes, int *next)
{
    int n = 0;
    for (int i = 0; i + bytes <= TEXT; i++) {
        if (memcmp(text + i, s, (size_t)bytes) != 0) continue;
        const int then = i + bytes < TEXT ? text[i + bytes] : -1;
        *next = n++ && *next != then ? -1 : then;
    }
    return n;
}

static int by_score(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// Computes the scores of all candidates, greatest first; returns their number.
static int all_scores(double *scores, int least)
{
    int n = 0;
    for (int i = 0; i < TEXT; i++)
        for (int bytes = 2; i + bytes <= TEXT && bytes <= QKV_PIECE_CHARS; bytes++) {
            int next = -1, before = 0;
            const int count = occurrences(text + i, bytes, &next);
            for (int j = 0; j < i && !before; j++)
                before = memcmp(text + j, text + i, (size_t)bytes) == 0;
            if (before || count < least || next >= 0) continue;
            scores[n++] = (double)count * bytes;
        }
    qsort(scores, (size_t)n, sizeof *scores, by_score);
    return n;
}

TEST(seeds_are_the_strings_with_the_greatest_scores)
{
    static double want[MOST_STRINGS], got[MOST_STRINGS];
    for (int round = 0; round < 40; round++) {
        check_seed = (uint64_t)round;
        for (int i = 0; i < TEXT; i++) text[i] = (uint8_t)(check_random() < .2 ? 'a' : 'b');
        const int all = all_scores(want, 2), most = round % 4 ? 1 + all * (round % 4) / 4 : 1000;
        struct qkv_segment segment = { text, 0, 1, TEXT };
        const struct qkv_segments segments = { &segment, 1, 1, text, TEXT, TEXT };
        struct qkv_pieces pieces = { 0 };
        CHECK(qkv_pieces_seed(&pieces, &segments, most, 2));
        CHECK_EQ(pieces.count, all < most ? all : most);
        for (int64_t i = 0; i < pieces.count; i++) {
            int next = -1;
            const struct qkv_piece *u = &pieces.at[i];
            CHECK_EQ(u->chars, u->bytes);
            CHECK(u->score == (double)u->chars * occurrences(u->text, u->bytes, &next));
            got[i] = u->score;
        }
        qsort(got, (size_t)pieces.count, sizeof *got, by_score);
        for (int64_t i = 0; i < pieces.count; i++) CHECK(got[i] == want[i]);
        qkv_free(pieces.at);
    }
}

CHECK_MAIN(CASE(seeds_are_the_strings_with_the_greatest_scores))
