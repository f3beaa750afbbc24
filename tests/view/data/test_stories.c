// SPDX-License-Identifier: MIT
// test_stories.c: checks which links are shown first: weight x distance x rarity, neighbours and
// special tokens last, and each offered story of another head and another pair of words.
#include "view/data/stories.h"
#include "view/made.h"
#include <float.h>
#include <string.h>

enum { T = 8, H = 4 };
static float weights[H * T * T];
static struct qkv_view_token token[T];
static char name[T][16];

static float *row(int h, int i)
{
    return weights + (h * T + i) * T;
}

// A view of T words, in one layer with H heads of uniform weights that a test changes before.
static qkv_view *view_new(void)
{
    qkv_view *v;
    qkv_error err = { 0 };
    const struct qkv_view_text text = { .token = token, .tokens = T };
    const struct qkv_view_stack stack = { "attention", 0, 0, 1, H, .causal = false };
    const struct qkv_view_shape shape = { "m", &text, 1, &stack, 1 };
    CHECK_EQ(qkv_view_new(&v, &shape, &err), QKV_OK);
    const struct qkv_view_layer_data seen = { .weights = weights };
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, &err), QKV_OK);
    return v;
}

static void words(void)
{
    for (int i = 0; i < T; i++) {
        snprintf(name[i], sizeof name[i], "w%d", i);
        token[i] = (struct qkv_view_token){ .raw = name[i] };
    }
    for (int i = 0; i < H * T * T; i++) weights[i] = 1.f / T;
}

// Gives key j the weight w in row i of head h; the other keys share the rest.
static void give(int h, int i, int j, float w)
{
    for (int k = 0; k < T; k++) row(h, i)[k] = k == j ? w : (1 - w) / (T - 1);
}

// Returns the key of the story of a head in which row 1 has .8 on key 6, and row 2 a little less on
// key 7.
static int64_t key_of_story(void)
{
    give(0, 1, 6, .8f);
    give(0, 2, 7, .7f);
    qkv_view *v = view_new();
    const int64_t key = view_story_of_head(&v->stack[0], 0, 0).key;
    qkv_view_free(v);
    return key;
}

TEST(equal_words_and_parts_of_words_come_later)
{
    words();
    CHECK_EQ(key_of_story(), 6);
    snprintf(name[1], sizeof name[1], "Word");
    snprintf(name[6], sizeof name[6], "word");
    CHECK_EQ(key_of_story(), 7); // the same word but for its case
    words();
    for (int i = 0; i < T; i++) token[i].begin = 4 * i, token[i].end = 4 * i + 3;
    CHECK_EQ(key_of_story(), 6);
    token[6].begin = token[5].end; // 5 and 6 are one word
    CHECK_EQ(key_of_story(), 7);
    token[5].special = true; // nothing continues a special token
    CHECK_EQ(key_of_story(), 6);
    words();
    for (int i = 0; i < T; i++) token[i].begin = 4 * i, token[i].end = 4 * i + 3;
    token[2].begin = token[1].end; // 1 and 2 are one word: both links lose
    CHECK_EQ(key_of_story(), 6);
}

TEST(score_is_weight_times_distance_times_rarity)
{
    words();
    give(0, 1, 6, .8f);
    qkv_view *v = view_new();
    const struct view_story s = view_story_of_head(&v->stack[0], 0, 0);
    // the mean row has (7/8 + .8) / 8 on key 6 and (7/8 + .2 / 7) / 8 on each other key
    const double rarity = .8 - (7. / 8 + .8) / 8, want = .8 * log2(1 + 5) / 5 * rarity;
    CHECK(s.row == 1 && s.key == 6);
    CHECK_NEAR(s.score, want, 30 * FLT_EPSILON); // sums of 8 floats below 1, three products
    CHECK_NEAR(s.weight, .8, FLT_EPSILON);
    qkv_view_free(v);
}

TEST(a_head_in_which_every_row_attends_to_one_key_has_no_story)
{
    words();
    for (int i = 0; i < T; i++) give(0, i, 6, .9f);
    give(1, 2, 7, .3f);
    qkv_view *v = view_new();
    CHECK_EQ(view_story_of_head(&v->stack[0], 0, 0).row, -1);
    struct qkv_view_chosen c;
    CHECK_EQ(qkv_view_choose(v, NULL, &c, NULL), QKV_OK);
    CHECK(c.layer == 0 && c.head_count == 1 && c.heads[0] == 1 && c.token == 2);
    qkv_view_free(v);
}

TEST(neighbours_parts_of_a_word_marks_and_special_tokens_are_last)
{
    words();
    const char text[] = "aabbccdd";
    for (int i = 0; i < 4; i++) { // w0 to w3 are the parts of one word
        token[i] = (struct qkv_view_token){
            .raw = name[i], .text = text + 2 * i, .text_bytes = 2, .begin = 2 * i, .end = 2 * i + 2
        };
    }
    token[5].raw = ",";
    token[7] = (struct qkv_view_token){ .raw = "[SEP]", .special = true };
    give(0, 3, 4, .95f); // a neighbour
    give(1, 0, 3, .95f); // one word
    give(2, 1, 5, .95f); // a mark
    give(2, 2, 7, .95f); // a special token
    give(3, 1, 6, .4f);
    qkv_view *v = view_new();
    struct qkv_view_chosen c;
    CHECK_EQ(qkv_view_choose(v, NULL, &c, NULL), QKV_OK);
    CHECK(c.heads[0] == 3 && c.token == 1);
    // of a row that the options name, the head whose largest weight is not on a neighbour
    const int64_t third = 3;
    give(1, 3, 6, .5f);
    qkv_view_free(v);
    v = view_new();
    const struct qkv_view_options o = { .token = &third };
    CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
    CHECK(c.heads[0] == 1 && c.head_count == 1 && c.token == 3);
    char sentence[200];
    CHECK_TEXT(qkv_view_sentence(v, &o, sentence, sizeof sentence),
               "“dd” attends to “w6” .50, “aa” .07 (L0.H1).");
    qkv_view_free(v);
}

TEST(offered_stories_are_of_other_heads_and_words)
{
    words();
    give(0, 1, 6, .9f);
    give(1, 1, 6, .8f); // the same words
    give(1, 2, 7, .5f);
    give(2, 0, 4, .7f);
    give(3, 5, 2, .09f); // too faint to offer
    qkv_view *v = view_new();
    struct view_story out[4];
    const int64_t n = view_stories(out, 4, &v->stack[0], NULL);
    CHECK(n == 2 && out[0].head == 0 && out[1].head == 2);
    CHECK(view_stories(out, 4, &v->stack[0], &(struct view_story){ 0, 2, 0, 4, 0, 0 }) == 1);
    CHECK(out[0].head == 0 && out[0].row == 1 && out[0].key == 6);
    qkv_view_free(v);
}

// A list of no heads is the same as no list. The array has one head, so that a read past it shows.
TEST(an_empty_list_of_heads_selects_by_story)
{
    words();
    give(2, 1, 6, .9f);
    qkv_view *v = view_new();
    static const int64_t tokens[] = { 4, 1 };
    for (int i = -1; i < 2; i++) {
        int64_t *none = malloc(sizeof *none);
        *none = H + 1000000;
        const struct qkv_view_options o = { .heads = none, .token = i < 0 ? NULL : tokens + i };
        const struct qkv_view_options plain = { .token = o.token };
        struct qkv_view_chosen c, want;
        CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
        CHECK_EQ(qkv_view_choose(v, &plain, &want, NULL), QKV_OK);
        CHECK(c.layer == want.layer && c.token == want.token && c.head_count == want.head_count);
        CHECK_EQ(c.heads[0], want.heads[0]);
        free(none);
    }
    qkv_view_free(v);
}

// The views "steps" and "neuron" show one query of one head, also if no link is a story.
TEST(a_view_of_one_query_has_a_row_and_one_head)
{
    static const char *const views[] = { "steps", "neuron" };
    static const int64_t heads[] = { 1, 2 };
    words();
    give(1, 2, 7, .5f);
    for (int i = 0; i < 2; i++) {
        qkv_view *v = view_new();
        struct qkv_view_options o = { .heads = heads, .head_count = 2 };
        struct qkv_view_chosen c;
        CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
        CHECK(c.token == -1 && c.head_count == 2);
        o.view = views[i];
        CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
        CHECK(c.token == 2 && c.head_count == 2);
        o.heads = NULL;
        CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
        CHECK(c.token == 2 && c.head_count == 1 && c.heads[0] == 1);
        qkv_view_free(v);
    }
    words();
    for (int r = 0; r < T; r++) { // two kinds of head, and no link that is worth a look
        memset(name[r], '.', (size_t)r + 1);
        name[r][r + 1] = 0;
        give(0, r, r, .45f);
        give(1, r, 3, .6f);
    }
    qkv_view *v = view_new();
    const struct qkv_view_options plain = { 0 }, o = { .view = "steps" };
    struct qkv_view_chosen c;
    CHECK_EQ(qkv_view_choose(v, &plain, &c, NULL), QKV_OK);
    CHECK(c.head_count > 1);
    CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
    CHECK(c.head_count == 1 && c.token >= 0);
    qkv_view_free(v);
}

TEST(unknown_views_are_refused_everywhere)
{
    words();
    qkv_view *v = view_new();
    static const char *const wrong[] = { "x", "", "Heads", "heads " };
    for (int i = 0; i < 4; i++) {
        const struct qkv_view_options o = { .view = wrong[i] };
        struct qkv_view_chosen c;
        qkv_error err = { 0 };
        char *text = NULL, want[200];
        snprintf(
            want, sizeof want,
            "unknown view '%s', expected one of heads, model, neuron, steps, residual, output, "
            "matrix, compare, training",
            wrong[i]);
        CHECK_EQ(qkv_view_choose(v, &o, &c, &err), QKV_ERR_USAGE);
        CHECK_TEXT(err.text, want);
        CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_ERR_USAGE);
        CHECK(!text);
        CHECK_EQ(qkv_view_html(v, "no/such/folder/x.html", true, &o, NULL, NULL), QKV_ERR_USAGE);
    }
    const struct qkv_view_options o = { .view = "training" };
    struct qkv_view_chosen c;
    CHECK_EQ(qkv_view_choose(v, &o, &c, NULL), QKV_OK);
    qkv_view_free(v);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(equal_words_and_parts_of_words_come_later),
        CASE(score_is_weight_times_distance_times_rarity),
        CASE(a_head_in_which_every_row_attends_to_one_key_has_no_story),
        CASE(neighbours_parts_of_a_word_marks_and_special_tokens_are_last),
        CASE(offered_stories_are_of_other_heads_and_words),
        CASE(an_empty_list_of_heads_selects_by_story),
        CASE(a_view_of_one_query_has_a_row_and_one_head),
        CASE(unknown_views_are_refused_everywhere),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
