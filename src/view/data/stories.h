// SPDX-License-Identifier: MIT
// stories.h: declares the search for links that are worth showing first: strong, far, and unusual
// for their head.
#ifndef QKV_VIEW_STORIES_H
#define QKV_VIEW_STORIES_H

#include "view/data/head_stats.h"
#include "view/data/initial_selection.h"

// A row and its largest weight on a key that is not special. score = weight x distance x rarity:
//   distance  log2(1 + d) / 5 for tokens d apart, at most 1; 1 between two texts; .02 for
//             neighbours and parts of one word; .004 for the token itself; a tenth of this if a
//             token has no letter or digit
//   rarity    sum over keys of max(0, weight - mean weight of the key in the head), from 0 (the
//             row is the head's mean row) to 1
struct view_story {
    int64_t layer, head, row, key; // row -1: no link
    float weight, score;
};

// Returns the factor `distance` of a row and a key.
float view_story_distance(const struct view_stack *v, int64_t row, int64_t key);

// ---- the rows of one head, while it is measured -------------------------------------------------
// Starts the search in a head: sets the mean row of the head, and the counts, to 0.
void view_stories_begin(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                        int64_t head, float *seen);
// Adds a row w[S]. best: its first largest weight above 0 on a key that is not special; from = -1:
// there is none.
void view_stories_add_row(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                          int64_t row, const float *w, const struct view_pair *best);
// Adds a row of which only the `top` largest weights, on the keys key[top], are known.
void view_stories_add_top(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                          int64_t row, const int32_t *key, const float *w, int64_t top);
// Divides the mean row, and writes the pair with the largest score. row[S] is scratch.
void view_stories_end(struct view_stats *out, const struct view_candidates *c,
                      const struct view_stack *v, int64_t layer, int64_t head, float *row);

// ---- of all heads -------------------------------------------------------------------------------
// Returns the story of a row of a head. row[S] is scratch.
struct view_story view_story_of_row(const struct view_stack *v, int64_t layer, int64_t head,
                                    int64_t token, float *row);
// Returns the story of a head.
struct view_story view_story_of_head(const struct view_stack *v, int64_t layer, int64_t head);
// Writes the story of the head and row that a selection shows; row -1: it shows none.
void view_story_shown(struct view_story *out, const struct view_stack *v,
                      const struct view_selection *st);
// Writes at most `most` stories to `out`, best first: each of another head and another pair of
// words. first: a story that is not repeated. Returns their number.
int64_t view_stories(struct view_story *out, int64_t most, const struct view_stack *v,
                     const struct view_story *first);

#endif
