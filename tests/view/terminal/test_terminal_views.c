// SPDX-License-Identifier: MIT
// test_terminal_views.c: the views of the terminal keep their width and characters, show the
// numbers of the rows, and survive failing memory.
#include "base/faults.h"
#include "view/made.h"
#include "view/made_output.h"
#include "view/terminal/terminal_views.h"

static struct made made;

static char *told(const qkv_view *v, const char *view, const struct qkv_view_options *how)
{
    struct qkv_view_options o = *how;
    qkv_error err = { 0 };
    static char *text;
    o.view = view;
    if (qkv_view_terminal(v, &text, &o, &err)) fail_msg("%s: %s", view, err.text);
    return text;
}

#define TERMINAL_OWN(name) #name,
#define TERMINAL_HEADS(name)
#define QKV_VIEW(name, key, picture, terminal, needs, question) TERMINAL_##terminal(name)
static const char *const views[] = {
#include <qkv/view.def>
};
#undef QKV_VIEW

TEST(every_view_keeps_its_width_and_its_character_set)
{
    static const int widths[] = { 1, 20, 31, 47, 60, 80, 151, 200 };
    static const int64_t lengths[] = { 1, 2, 14, 90 };
    EACH(T, lengths)
    {
        make(&made, *T, 2, 20, 4, 8, *T == 90);
        made.token[*T / 2].text = "\xe6\x97\xa5\xe6\x9c\xac\x1b[31m",
                        made.token[*T / 2].text_bytes = 11;
        made.stack.width = 8;
        qkv_view *v = view_of(&made);
        give_stream(v, &made);
        CHECK_EQ(give_output(v, *T, 2,
                             *T == 1    ? QKV_VIEW_OUTPUT_LABELS
                             : *T == 2  ? QKV_VIEW_OUTPUT_SHARES
                             : *T == 14 ? QKV_VIEW_OUTPUT_NEXT
                                        : QKV_VIEW_OUTPUT_TOKEN_LABELS),
                 QKV_OK);
        float *effect = zeros(2 * 20, sizeof *effect);
        for (int i = 0; i < 40; i++) effect[i] = (float)(i - 5) * .003f;
        CHECK_EQ(qkv_view_effects(v, 0, effect, "nats", NULL, 0, NULL), QKV_OK);
        free(effect);
        EACH(view, views)
        EACH(w, widths)
        for (int k = 0; k < 8; k++) {
            const struct qkv_view_options o = {
                .columns = *w, .utf8 = k & 1, .color = k & 2, .truecolor = k & 4
            };
            const struct text_canvas s = { .utf8 = true };
            char *text = told(v, *view, &o);
            for (const char *at = text; *at;) {
                const size_t n = strcspn(at, "\n");
                if (text_canvas_width(&s, at, n) > (*w < 20 ? 20 : *w))
                    fail_msg("%s of %d tokens, width %d, mode %d: %.*s", *view, (int)*T, *w, k,
                             (int)n, at);
                at += n + (at[n] == '\n');
            }
            for (const unsigned char *c = (const unsigned char *)text; *c; c++)
                CHECK((*c >= 0x20 || *c == '\n' || ((k & 2) && *c == '\033')) &&
                      ((k & 1) || *c < 0x80));
            qkv_view_text_free(text);
        }
        qkv_view_free(v);
        unmake(&made);
    }
}

// The line of every key has the weight of qkv_view_row, in three digits.
TEST(steps_tell_the_weights_of_the_row)
{
    float row[14];
    make(&made, 14, 2, 4, 2, 8, false);
    qkv_view *v = view_of(&made);
    for (int64_t i = 0; i < 14; i++) {
        const int64_t layer = 1, head = 2;
        const struct qkv_view_options o = { .layer = &layer,
                                            .heads = &head,
                                            .head_count = 1,
                                            .token = &i,
                                            .special = true,
                                            .columns = 70 };
        char *text = told(v, "steps", &o), *at = strstr(text, "\nkey");
        CHECK(at != NULL);
        qkv_view_row(v, row, 0, 1, 2, i);
        double sum = 0;
        for (int j = 0; j < 14; j++) {
            char weight[16];
            at = strchr(at + 1, '\n');
            struct view_text t = { 0 };
            view_weight(&t, (double)row[j], 3);
            snprintf(weight, sizeof weight, "%9s", t.at);
            view_text_free(&t);
            CHECK(at && strlen(at) > 36);
            char *line = strndup(at + 1, strcspn(at + 1, "\n"));
            if (!strstr(line, weight)) fail_msg("key %d: %s in '%s'", j, weight, line);
            free(line);
            sum += (double)row[j];
        }
        CHECK_NEAR(sum, 1, 1e-5);
        qkv_view_text_free(text);
    }
    qkv_view_free(v);
    unmake(&made);
}

TEST(all_products_of_a_neuron_sum_to_its_score)
{
    make(&made, 14, 1, 2, 2, 8, false);
    qkv_view *v = view_of(&made);
    const int64_t head = 1, token = 4;
    const struct qkv_view_options o = {
        .heads = &head, .head_count = 1, .token = &token, .all = true, .columns = 80
    };
    char *text = told(v, "neuron", &o), *at = strstr(text, "\ndimension");
    double sum = 0, last = 0;
    CHECK(at != NULL);
    at = strchr(at + 1, '\n');
    for (int e = 0; e < 8; e++) {
        int place = -1;
        double q = 0, k = 0, product = 0;
        CHECK(at && sscanf(at, "%d %lf %lf %lf %lf", &place, &q, &k, &product, &last) == 5);
        CHECK_EQ(place, e);
        CHECK_NEAR(product, q * k, .005 * (fabs(q) + fabs(k)) + .01); // each rounded to two digits
        sum += product;
        at = strchr(at + 1, '\n');
    }
    CHECK_NEAR(sum, last, 8 * .005 + .01);
    qkv_view_text_free(text);
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_view_without_queries_says_so)
{
    make(&made, 5, 1, 1, 1, 8, false);
    qkv_view *v = NULL;
    CHECK_EQ(qkv_view_new(&v, &made.shape, NULL), QKV_OK);
    float w[25] = { 0 };
    for (int i = 0; i < 5; i++) w[i * 5 + i / 2] = 1;
    const struct qkv_view_layer_data seen = { .weights = w };
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, NULL), QKV_OK);
    struct qkv_view_options o = { .view = "steps" };
    qkv_error err = { 0 };
    char *text;
    CHECK_EQ(qkv_view_terminal(v, &text, &o, &err), QKV_ERR_UNSUPPORTED);
    CHECK(text == NULL && strstr(err.text, "layer 0") != NULL);
    o.view = "model";
    CHECK_EQ(qkv_view_terminal(v, &text, &o, NULL), QKV_OK);
    qkv_view_text_free(text);
    qkv_view_free(v);
    unmake(&made);
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const qkv_view *v = ctx;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof views / sizeof *views && !status; i++) {
        const struct qkv_view_options o = { .view = views[i], .color = true, .utf8 = true };
        char *text = NULL;
        status = qkv_view_terminal(v, &text, &o, err);
        qkv_view_text_free(text);
    }
    return status;
}

TEST(failed_allocations_are_survived)
{
    make(&made, 5, 1, 2, 2, 8, true);
    made.stack.width = 8;
    qkv_view *v = view_of(&made);
    give_stream(v, &made);
    CHECK_EQ(give_output(v, 5, 1, QKV_VIEW_OUTPUT_NEXT), QKV_OK);
    CHECK(faults_walk(flow, v, true) > 20);
    qkv_view_free(v);
    unmake(&made);
}

CHECK_MAIN(CASE(every_view_keeps_its_width_and_its_character_set),
           CASE(steps_tell_the_weights_of_the_row), CASE(all_products_of_a_neuron_sum_to_its_score),
           CASE(a_view_without_queries_says_so), CASE(failed_allocations_are_survived))
