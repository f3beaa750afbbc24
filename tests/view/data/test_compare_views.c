// SPDX-License-Identifier: MIT
// test_compare_views.c: compares two views: alignment of tokens, divergence of heads.
#include "view/made.h"
#include <float.h>

// Makes tokens of words between blanks, with their offsets in the source.
struct words {
    char copy[200];
    struct qkv_view_token token[40];
    struct qkv_view_text text;
};

static void split(struct words *w, const char *source, const char *pieces, bool places)
{
    *w = (struct words){ .text = { .token = w->token } };
    snprintf(w->copy, sizeof w->copy, "%s", pieces);
    const char *at = source;
    for (char *p = strtok(w->copy, " "); p; p = strtok(NULL, " ")) {
        struct qkv_view_token *t = &w->token[w->text.tokens++];
        *t = (struct qkv_view_token){ .raw = p, .special = *p == '[' };
        if (!places || t->special) continue;
        at = strstr(at, *p == '#' ? p + 2 : p);
        if (!at) fail_msg("'%s' is not in '%s'", p, source);
        t->begin = at - source;
        t->end = t->begin + (int64_t)strlen(*p == '#' ? p + 2 : p);
        at = source + t->end;
    }
    if (!places) return;
    w->text.source[0] = source;
    w->text.source_bytes[0] = strlen(source);
}

TEST(tokens_are_aligned_by_place_or_by_the_longest_common_run)
{
    static const struct {
        const char *source, *a, *b;
        int64_t want[8];
    } pairs[] = {
        { NULL, "a b c d", "a b c d", { 0, 1, 2, 3 } },
        { NULL, "a b c d", "a x b c d", { 0, 2, 3, 4 } },
        { NULL, "a x b c d", "a b c d", { 0, -1, 1, 2, 3 } },
        { NULL, "p q r s t", "s t p q r", { 2, 3, 4, -1, -1 } },
        { NULL, "a b", "c d", { -1, -1 } },
        { "unbelievable bears",
          "[CLS] un ##believ ##able bears [SEP]",
          "[S] unbe ##liev ##able be ##ars [E]",
          { 0, 1, 2, 3, 5, 6 } },
        { "one two", "one two", "[S] one t ##wo [E]", { 1, 3 } },
    };
    EACH(p, pairs)
    {
        struct words a, b;
        int64_t to[40];
        split(&a, p->source ? p->source : p->a, p->a, p->source != NULL);
        split(&b, p->source ? p->source : p->b, p->b, p->source != NULL);
        CHECK_EQ(view_align_tokens(to, &a.text, &b.text, NULL), QKV_OK);
        for (int64_t i = 0; i < a.text.tokens; i++) CHECK_EQ(to[i], p->want[i]);
    }
}

TEST(a_picture_beside_itself_has_moved_exactly_nothing)
{
    static const int64_t lengths[] = { 7, 200 };
    EACH(T, lengths)
    {
        struct made *m = malloc(sizeof *m);
        make(m, *T, 2, 4, 2, 8, *T == 7);
        qkv_view *v = view_of(m), *w = view_of(m);
        int64_t count;
        CHECK_EQ(qkv_view_compare(v, w, NULL), QKV_OK);
        const struct qkv_view_divergence *moved = qkv_view_divergence(v, &count);
        CHECK_EQ(count, 8);
        for (int64_t i = 0; i < count; i++) {
            CHECK(moved[i].bits == 0);
            CHECK_EQ(moved[i].rows, *T);
        }
        char *html = html_of(v, NULL, NULL);
        struct page p;
        CHECK(page_open(&p, html));
        const json_t *against = json_object_get(p.about, "against");
        CHECK_EQ(json_array_size(json_object_get(against, "moved")), 8);
        CHECK_EQ(json_array_size(json_object_get(against, "stacks")), 1);
        p.at = 1; // the arrays of the other view follow
        CHECK(array(&p, *T > 192 ? "q" : "w", 1));
        page_close(&p);
        free(html);
        qkv_view_free(v);
        qkv_view_free(w);
        unmake(m);
        free(m);
    }
}

// Head 0 attends to key `to` in every row; head 1 half to the same key, half to key 0.
static qkv_view *attends_to(const struct words *w, int64_t to)
{
    static float rows[2 * 40 * 40];
    const int64_t T = w->text.tokens;
    const struct qkv_view_stack k = { "attention", 0, 0, 1, 2, .causal = false };
    const struct qkv_view_shape shape = { "m", &w->text, 1, &k, 1 };
    const struct qkv_view_layer_data seen = { .weights = rows };
    qkv_view *v;
    memset(rows, 0, sizeof rows);
    for (int64_t i = 0; i < T; i++) {
        rows[i * T + to] = 1;
        rows[(T + i) * T + to] += .5f;
        rows[(T + i) * T] += .5f;
    }
    CHECK_EQ(qkv_view_new(&v, &shape, NULL), QKV_OK);
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, NULL), QKV_OK);
    return v;
}

TEST(heads_are_ranked_by_how_far_they_moved)
{
    struct words a, b;
    int64_t count;
    split(&a, "", "z p q r", false);
    split(&b, "", "z p n q r", false);
    qkv_view *v = attends_to(&a, 2), *w = attends_to(&b, 1); // q, then p
    CHECK_EQ(qkv_view_compare(v, w, NULL), QKV_OK);
    const struct qkv_view_divergence *m = qkv_view_divergence(v, &count);
    CHECK_EQ(count, 2);
    CHECK(m[0].head == 0 && m[1].head == 1);
    CHECK_NEAR(m[0].bits, 1, 1e-6);  // no key in common
    CHECK_NEAR(m[1].bits, .5, 1e-6); // half of the weight stays
    CHECK_EQ(m[0].rows, 4);
    qkv_view_free(w);
    w = attends_to(&b, 3); // q again, at another place
    CHECK_EQ(qkv_view_compare(v, w, NULL), QKV_OK);
    m = qkv_view_divergence(v, &count);
    CHECK(m[0].bits == 0 && m[1].bits == 0);
    qkv_view_free(w);
    qkv_view_free(v);
}

// As attends_to, with weights that are all `x`.
static qkv_view *all_of(const struct words *w, float x)
{
    static float rows[2 * 40 * 40];
    const int64_t T = w->text.tokens;
    const struct qkv_view_stack k = { "attention", 0, 0, 1, 2, .causal = false };
    const struct qkv_view_shape shape = { "m", &w->text, 1, &k, 1 };
    const struct qkv_view_layer_data seen = { .weights = rows };
    qkv_view *v;
    for (int64_t i = 0; i < 2 * T * T; i++) rows[i] = x;
    CHECK_EQ(qkv_view_new(&v, &shape, NULL), QKV_OK);
    CHECK_EQ(qkv_view_layer(v, 0, 0, &seen, NULL), QKV_OK);
    return v;
}

// The row with the largest change of a weight times its distance, by the definition.
TEST(the_row_that_changed_most_is_found)
{
    struct made *m = malloc(sizeof *m), *n = malloc(sizeof *n);
    make(m, 20, 1, 2, 2, 8, false);
    make(n, 20, 1, 2, 2, 8, false);
    for (int64_t i = 0; i < 20; i++) n->k[i * 2 * 8] += i == 7 ? 3 : 0; // another key of token 7
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 20; i++) {
            double sum = 0, score[20];
            for (int64_t j = 0; j < 20; j++) {
                score[j] = 0;
                for (int64_t e = 0; e < 8; e++)
                    score[j] += .25 * (double)n->q[(i * 2 + h) * 8 + e] * n->k[(j * 2 + h) * 8 + e];
                sum += exp(score[j]);
            }
            n->lse[h * 20 + i] = (float)log(sum);
        }
    qkv_view *v = view_of(m), *w = view_of(n);
    CHECK_EQ(qkv_view_compare(v, w, NULL), QKV_OK);
    int64_t count;
    const struct qkv_view_divergence *moved = qkv_view_divergence(v, &count);
    for (int64_t x = 0; x < count; x++) {
        float a[20], b[20];
        double most = 0;
        int64_t row = -1;
        for (int64_t i = 0; i < 20; i++) {
            if (m->token[i].special) continue;
            qkv_view_row(v, a, 0, 0, moved[x].head, i);
            qkv_view_row(w, b, 0, 0, moved[x].head, i);
            for (int64_t j = 0; j < 20; j++) {
                const double d = fabs((double)i - (double)j);
                const double far = d < 1 ? .004 : d < 2 ? .02 : fmin(1, log2(d + 1) / 5);
                const double change = fabs((double)a[j] - (double)b[j]) * far;
                if (!m->token[j].special && change > most) most = change, row = i;
            }
        }
        CHECK_EQ(moved[x].row, row);
        CHECK_NEAR(moved[x].row_change, most, 4 * FLT_EPSILON); // the factor is a float
    }
    qkv_view_free(v);
    qkv_view_free(w);
    unmake(m);
    unmake(n);
    free(m);
    free(n);
}

TEST(rows_that_are_no_numbers_are_not_taken_as_alike_and_huge_ones_leave_the_page_whole)
{
    static const float odd[] = { NAN, INFINITY, 1e13f, 3e38f };
    struct words a;
    split(&a, "", "z p q r s t u v w", false);
    EACH(x, odd)
    {
        int64_t count;
        qkv_view *v = attends_to(&a, 2), *w = all_of(&a, *x);
        CHECK_EQ(qkv_view_compare(v, w, NULL), QKV_OK);
        const struct qkv_view_divergence *m = qkv_view_divergence(v, &count);
        for (int64_t i = 0; i < count; i++) CHECK_EQ(m[i].rows, isfinite(*x) ? 9 : 0);
        for (int which = 0; which < 2; which++) {
            char *html = html_of(which ? w : v, NULL, NULL);
            struct page p;
            CHECK(page_open(&p, html));
            page_close(&p);
            free(html);
        }
        qkv_view_free(v);
        qkv_view_free(w);
    }
}

TEST(moments_of_a_run_follow_each_other)
{
    struct words a;
    split(&a, "", "z p q r", false);
    qkv_view *v = attends_to(&a, 2), *w = attends_to(&a, 1);
    const struct qkv_view_frame frames[] = { { 10, 2.5, w }, { 20, (double)NAN, v } };
    const struct qkv_view_frame twice[] = { { 10, 2.5, w }, { 10, 2, v } };
    CHECK_EQ(qkv_view_training(v, twice, 2, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_training(v, frames, 2, NULL), QKV_OK);
    char *html = html_of(v, NULL, NULL);
    struct page p;
    CHECK(page_open(&p, html));
    const json_t *all = json_object_get(json_object_get(p.about, "training"), "frames");
    CHECK_EQ(json_array_size(all), 2);
    CHECK_EQ(number(json_array_get(all, 1), "step"), 20);
    CHECK(json_is_null(json_object_get(json_array_get(all, 1), "loss")));
    double row[4];
    p.at = 1; // the first frame's arrays
    page_row(&p, row, 0, 0, 3);
    CHECK_NEAR(row[1], 1, 1e-6);
    p.at = 2;
    page_row(&p, row, 0, 0, 3);
    CHECK_NEAR(row[2], 1, 1e-6);
    page_close(&p);
    free(html);
    qkv_view_free(v);
    qkv_view_free(w);
}

TEST(other_stacks_are_refused)
{
    struct made *m = malloc(sizeof *m), *n = malloc(sizeof *n);
    make(m, 6, 2, 4, 2, 8, false);
    make(n, 6, 1, 4, 2, 8, false);
    qkv_view *v = view_of(m), *w = view_of(n);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_view_compare(v, w, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "1 layers x 4 heads, expected 2 x 4"));
    CHECK(qkv_view_divergence(v, NULL) == NULL);
    qkv_view_free(v);
    qkv_view_free(w);
    unmake(m);
    unmake(n);
    free(m);
    free(n);
}

// Probes, effects, two views, a run, and a page with a budget for the largest weights only.
static qkv_status all_of_it(const struct made *m)
{
    qkv_view *v = NULL, *w = NULL;
    qkv_error err = { 0 };
    struct view_probe kept = { 0 };
    const float effect[8] = { 1 };
    const struct qkv_view_change change[8] = { { 1, .5f, .25f } };
    qkv_status status = fill(&v, m, &err);
    if (!status) status = fill(&w, m, &err);
    if (!status) status = view_probe_gather(&kept, v->stack, 1, 3, 16, &err);
    const struct qkv_probe probe = { .top_k = 3,
                                     .top_weight = kept.weight,
                                     .top_key = kept.key,
                                     .entropy = kept.entropy,
                                     .received = kept.received,
                                     .side = 16,
                                     .tile_max = kept.max,
                                     .tile_mean = kept.mean };
    const struct qkv_view_layer_data seen = { .probe = &probe };
    const struct qkv_view_frame frames[] = { { 1, 2, w } };
    const struct qkv_view_options o = { .budget = view_code_bytes() + 130000 };
    if (!status) status = qkv_view_layer(v, 0, 1, &seen, &err);
    if (!status) status = qkv_view_effects(v, 0, effect, "nats", change, 1, &err);
    if (!status) status = qkv_view_compare(v, w, &err);
    if (!status) status = qkv_view_training(v, frames, 1, &err);
    if (!status) status = qkv_view_html(v, place("alloc.html"), true, &o, NULL, &err);
    if (status) CHECK(strstr(err.text, "out of memory"));
    view_probe_free(&kept);
    qkv_view_free(v);
    qkv_view_free(w);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    const struct qkv_allocator counted = { counted_alloc, counted_free, NULL };
    struct made *m = malloc(sizeof *m);
    make(m, 100, 2, 4, 2, 4, false);
    qkv_allocator_set(&counted);
    qkv_status status = QKV_ERR_LIMIT;
    int64_t n = 0;
    for (; status; n += n < 200 ? 1 : 29) {
        allowed = n;
        live = 0;
        status = all_of_it(m);
        CHECK(status == QKV_OK || status == QKV_ERR_LIMIT);
        CHECK_EQ(live, 0);
        CHECK(n < 100000);
    }
    qkv_allocator_set(NULL);
    CHECK(n > 60 && exists(place("alloc.html")));
    unmake(m);
    free(m);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(tokens_are_aligned_by_place_or_by_the_longest_common_run),
        CASE(a_picture_beside_itself_has_moved_exactly_nothing),
        CASE(heads_are_ranked_by_how_far_they_moved),
        CASE(the_row_that_changed_most_is_found),
        CASE(rows_that_are_no_numbers_are_not_taken_as_alike_and_huge_ones_leave_the_page_whole),
        CASE(moments_of_a_run_follow_each_other),
        CASE(other_stacks_are_refused),
        CASE(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
