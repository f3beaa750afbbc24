// SPDX-License-Identifier: MIT
// test_model_output.c: checks the output of a model in a view: the position that is shown, its
// sentence, the numbers of the page, and refused arguments.
#include "base/faults.h"
#include "model/folder.h"
#include "view/data/model_output.h"
#include "view/made.h"
#include "view/made_output.h"

static struct made made;

static void check_text(struct view_text *t, const char *want)
{
    CHECK_TEXT(t->at ? t->at : "", want);
    view_text_free(t);
    *t = (struct view_text){ 0 };
}

TEST(numbers_have_three_digits)
{
    static const struct {
        int32_t units;
        const char *text;
    } rows[] = { { 0, ".000" },       { 49, ".000" },
                 { 50, ".001" },      { 42123, ".421" },
                 { 99950, "1.000" },  { 100000, "1.000" },
                 { 123456, "1.235" }, { -1250, "\xe2\x88\x92.013" },
                 { -20, ".000" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct view_text t = { 0 };
        view_output_number(&t, rows[i].units);
        check_text(&t, rows[i].text);
    }
}

TEST(the_sentence_names_position_token_and_layer)
{
    enum { T = 9, L = 3 };
    make(&made, T, L, 2, 2, 8, true);
    qkv_view *v = view_of(&made);
    const struct view_stack *k = &v->stack[0];
    struct view_selection st = { .token = 4 };
    struct view_text t = { 0 }, name = { 0 };
    char want[300];
    qkv_error err = { 0 };
    CHECK_EQ(view_output_check(k, &err), QKV_ERR_UNSUPPORTED);
    CHECK_EQ(give_output(v, T, L, QKV_VIEW_OUTPUT_NEXT), QKV_OK);
    CHECK_EQ(view_output_check(k, &err), QKV_OK);
    CHECK_EQ(view_output_place(k, &st, true), 4);
    CHECK_EQ(view_output_place(k, &st, false), T - 1);
    view_output_name(&name, k, 4);
    // rows: embeddings and layer 0 have one order, layer 1 and the output another
    snprintf(want, sizeof want,
             "The most likely token after %s is “z” .300; it is first from the output of layer 1 "
             "on. The text continues with “a name that is longer than any cell” .012, place 12346.",
             name.at);
    view_output_sentence(&t, k, 4);
    check_text(&t, want);
    view_text_free(&name);
    CHECK_EQ(give_output(v, T, L, QKV_VIEW_OUTPUT_MASKED),
             QKV_OK); // position T - 1 has no own token: the mask
    CHECK_EQ(view_output_place(k, &st, false), T - 1);
    CHECK_EQ(give_output(v, T, L, QKV_VIEW_OUTPUT_SHARES), QKV_OK);
    view_output_name(&name, k, 1);
    snprintf(want, sizeof want,
             "%s has the largest share of the vector of the text: .156; an equal share would be "
             ".111.",
             name.at);
    view_output_sentence(&t, k, 0);
    check_text(&t, want);
    view_text_free(&name);
    CHECK_EQ(give_output(v, T, L, QKV_VIEW_OUTPUT_LABELS), QKV_OK);
    view_output_sentence(&t, k, 0);
    check_text(&t, "The most likely label of the text is “alpha” .600.");
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_long_list_keeps_its_sum)
{
    enum { T = 90, MOST = 20 };
    int64_t list[MOST], rest, sum = 0, all = 0;
    make(&made, T, 1, 2, 2, 8, false);
    qkv_view *v = view_of(&made);
    CHECK_EQ(give_output(v, T, 1, QKV_VIEW_OUTPUT_SHARES), QKV_OK);
    const struct view_output *o = v->output;
    CHECK_EQ(view_output_list(list, MOST, o, &rest), MOST);
    CHECK_EQ(list[0], 0); // the largest by size, below 0
    for (int i = 0; i < MOST; i++) sum += o->value[list[i]];
    for (int64_t i = 0; i < T; i++) all += o->value[i];
    CHECK_EQ(sum + rest, all);
    for (int i = 1; i < MOST; i++) CHECK(list[i] > list[i - 1]);
    qkv_view_free(v);
    unmake(&made);
}

TEST(the_page_has_the_numbers)
{
    enum { T = 9, L = 3 };
    qkv_error err = { 0 };
    size_t bytes;
    char want[200];
    make(&made, T, L, 2, 2, 8, true);
    qkv_view *v = view_of(&made);
    CHECK_EQ(give_output(v, T, L, QKV_VIEW_OUTPUT_NEXT), QKV_OK);
    folder_new();
    CHECK_EQ(qkv_view_html(v, folder_name("a.html"), false, NULL, NULL, &err), QKV_OK);
    char *page = folder_load(folder_name("a.html"), &bytes);
    snprintf(want, sizeof want,
             "\"output\":{\"kind\":\"next\",\"stacks\":[0],\"stack\":0,\"rows\":%d,\"top\":%d,"
             "\"all\":%d,\"detail\":\"mean\",\"at\":[0,1,2,3,4,5,6,7,8],\"names\":[\"alpha\"",
             L + 1, MADE_TOP, T);
    CHECK(strstr(page, want));
    // the numbers of position 0: rows of .6, .3, .2, then of a half and a third of them
    CHECK(strstr(page, "\"values\":[60000,30000,20000,30000,15000,10000,20000,10000,6667,60000"));
    CHECK(strstr(page, "\"targets\":[0,1,2,3,4,5,6,0,-1]"));
    free(page);
    qkv_view_free(v);
    unmake(&made);
}

TEST(wrong_outputs_are_refused)
{
    static const char *const names[] = { "a" };
    const int64_t twice[] = { 1, 1 }, outside[] = { 5 };
    const int32_t entry[] = { 0, 0 }, no_name[] = { 1 };
    const float value[] = { 1, 1 };
    qkv_error err = { 0 };
    make(&made, 5, 1, 2, 2, 8, false);
    qkv_view *v = view_of(&made);
    const struct qkv_view_output good = { .positions = 1,
                                          .rows = 1,
                                          .top = 1,
                                          .name = names,
                                          .names = 1,
                                          .entry = entry,
                                          .value = value };
    struct qkv_view_output o = good;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_OK);
    CHECK_EQ(qkv_view_output_add(NULL, 0, &o, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_output_add(v, 0, NULL, &err), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_output_add(v, 1, &o, &err), QKV_ERR_USAGE);
    o.positions = 2;
    o.at = twice;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_ERR_USAGE);
    o = good;
    o.at = outside;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_ERR_USAGE);
    o = good;
    o.entry = no_name;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_ERR_USAGE);
    o = good;
    o.target = no_name;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_ERR_USAGE);
    o = good;
    o.rows = 0;
    CHECK_EQ(qkv_view_output_add(v, 0, &o, &err), QKV_ERR_USAGE);
    qkv_view_free(v);
    unmake(&made);
}

CHECK_MAIN(CASE(numbers_have_three_digits), CASE(the_sentence_names_position_token_and_layer),
           CASE(a_long_list_keeps_its_sum), CASE(the_page_has_the_numbers),
           CASE(wrong_outputs_are_refused))
