// SPDX-License-Identifier: MIT
// test_residual.c: checks the numbers of the residual stream: norms and cosines equal their formula
// and the numbers of the page, and wrong arguments are refused.
#include "base/faults.h"
#include "view/data/residual.h"
#include "view/made.h"

enum { T = 30, L = 3, D = 10 };
static struct made made;
static float rows[3][T * D];
static float *const at[3] = { rows[0], rows[1], rows[2] };

static qkv_view *view_new(void)
{
    make(&made, T, L, 2, 2, 8, false);
    made.stack.width = D;
    qkv_view *v = view_of(&made);
    give_stream(v, &made);
    return v;
}

static double norm_of(const float *x)
{
    double sum = 0;
    for (int e = 0; e < D; e++) sum += (double)x[e] * (double)x[e];
    return sqrt(sum);
}

// The numbers of what turns `before` into `after`.
static struct view_added truth(const float *before, const float *after)
{
    float d[D];
    double product = 0;
    for (int e = 0; e < D; e++) {
        d[e] = after[e] - before[e];
        product += (double)d[e] * (double)before[e];
    }
    const struct view_added a = { norm_of(before), norm_of(d), 0, norm_of(after) };
    return (struct view_added){ a.before, a.added, product / a.before / a.added, a.after };
}

static void check_near(struct view_added found, struct view_added want, double off)
{
    CHECK_NEAR(found.before, want.before, off * want.before);
    CHECK_NEAR(found.added, want.added, off * (want.before + want.after)); // d cancels digits
    CHECK_NEAR(found.cosine, want.cosine, 4 * off);
    CHECK_NEAR(found.after, want.after, off * want.after);
}

TEST(numbers_are_norms_and_cosines)
{
    qkv_view *v = view_new();
    double mean = 0;
    int64_t all[T];
    for (int64_t t = 0; t < T; t++) all[t] = t;
    for (int64_t l = 0; l < L; l++) {
        const struct view_residual r = view_residual_layer(v->stack, l);
        made_stream((float **)at, &made, l);
        CHECK(r.before && r.sublayer[0] && !r.sublayer[1] && r.sublayer[2]);
        for (int64_t t = 0; t < T; t++) {
            // floats of what doubles come to
            check_near(view_residual_token(&r, 0, t), truth(at[0] + t * D, at[1] + t * D), 0x1p-20);
            check_near(view_residual_token(&r, 2, t), truth(at[1] + t * D, at[2] + t * D), 0x1p-20);
            mean += norm_of(at[2] + t * D) / T;
        }
        CHECK_NEAR(view_residual_mean(&r, 2, all, T).after, mean, 1e-5 * mean);
        mean = 0;
    }
    qkv_view_free(v);
    unmake(&made);
}

// ---- the page ----------------------------------------------------------------------------------
// Number k of token t of an array of kind h16.
static double half_of(const uint8_t *b, const int64_t shape[3], int64_t t, int64_t k)
{
    const int64_t K = shape[2], n = shape[1] * K, i = t * K + k;
    return (double)qkv_f16_to_f32((uint16_t)(b[i] | b[n + i] << 8)) * plane_float(b + 2 * n, K, k);
}

TEST(the_page_has_the_same_numbers_in_16_bits)
{
    static const char *const names[] = { "residual.attention", "residual.cross",
                                         "residual.feedforward" };
    qkv_view *v = view_new();
    struct page p;
    char *html = html_of(v, NULL, NULL);
    int64_t shape[3];
    CHECK(page_open(&p, html));
    for (int64_t l = 0; l < L; l++) {
        const struct view_residual r = view_residual_layer(v->stack, l);
        const uint8_t *before = find_array(&p, "residual.before", l, shape);
        CHECK(before && shape[0] == 1 && shape[1] == T && shape[2] == 1);
        for (int64_t t = 0; t < T; t++)
            CHECK_NEAR(half_of(before, shape, t, 0), (double)r.before[t],
                       0x1p-11 * (double)r.before[t]);
        CHECK(!find_array(&p, names[1], l, NULL));
        for (int k = 0; k < 3; k += 2) {
            const uint8_t *b = find_array(&p, names[k], l, shape);
            CHECK(b && shape[1] == T && shape[2] == 2);
            for (int64_t i = 0; i < 2 * T; i++) // halves of at most 1
                CHECK_NEAR(half_of(b, shape, i / 2, i % 2), (double)r.sublayer[k][i],
                           0x1p-11 * fabs((double)r.sublayer[k][i]) + 0x1p-20);
        }
        const uint8_t *after = find_array(&p, "residual.after", l, shape);
        CHECK_EQ(after != NULL, l + 1 == L);
        for (int64_t t = 0; after && t < T; t++)
            CHECK_NEAR(half_of(after, shape, t, 0), (double)r.after[t],
                       0x1p-11 * (double)r.after[t]);
    }
    page_close(&p);
    free(html);
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_page_without_the_space_leaves_the_numbers_out)
{
    qkv_view *v = view_new();
    struct page p;
    struct qkv_view_options o = { .budget = view_code_bytes() + 20000 };
    while (qkv_view_html(v, place("page.html"), true, &o, NULL, NULL)) o.budget += 100;
    char *html = html_of(v, &o, NULL); // of the smallest budget that a page fits into
    CHECK(page_open(&p, html));
    CHECK(!find_array(&p, "residual.before", L - 1, NULL));
    page_close(&p);
    free(html);
    qkv_view_free(v);
    unmake(&made);
}

// ---- misuse ------------------------------------------------------------------------------------
TEST(what_has_no_stream_is_refused)
{
    qkv_view *v = view_new();
    const float *const after[3] = { at[1], NULL, NULL };
    CHECK_EQ(qkv_view_residual(NULL, 0, 0, at[0], after, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_residual(v, 0, 0, NULL, after, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_residual(v, 0, 0, at[0], NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_residual(v, 1, 0, at[0], after, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_residual(v, 0, L, at[0], after, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_view_residual(v, 0, -1, at[0], after, NULL), QKV_ERR_USAGE);
    qkv_view_free(v);
    made.stack.width = 0;
    v = view_of(&made);
    CHECK_EQ(qkv_view_residual(v, 0, 0, at[0], after, NULL), QKV_ERR_USAGE);
    CHECK_EQ(view_residual_check(v->stack, NULL), QKV_ERR_UNSUPPORTED);
    qkv_view_free(v);
    unmake(&made);
}

TEST(a_stream_of_nothing_or_of_no_numbers_has_numbers)
{
    qkv_view *v = view_new();
    const float *const after[3] = { at[0], NULL, at[1] };
    memset(rows, 0, sizeof rows);
    at[1][0] = NAN;
    CHECK_EQ(qkv_view_residual(v, 0, 0, at[0], after, NULL), QKV_OK);
    const struct view_residual r = view_residual_layer(v->stack, 0);
    const struct view_added none = view_residual_token(&r, 0, 1),
                            nan = view_residual_token(&r, 2, 0);
    CHECK(none.before == 0 && none.added == 0 && none.cosine == 0 && none.after == 0);
    CHECK_NEAR(view_residual_share(&none), 0, 0);
    CHECK(nan.added != nan.added && nan.cosine != nan.cosine);
    free(html_of(v, NULL, NULL));
    qkv_view_free(v);
    unmake(&made);
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const float *const after[3] = { at[1], NULL, at[2] };
    qkv_view *v = NULL;
    (void)ctx;
    qkv_status status = fill(&v, &made, err);
    for (int64_t l = 0; l < L && !status; l++)
        status = qkv_view_residual(v, 0, l, at[0], after, err);
    if (!status) status = qkv_view_html(v, place("page.html"), true, NULL, NULL, err);
    qkv_view_free(v);
    return status;
}
TEST(failed_allocations_are_survived)
{
    qkv_view *v = view_new();
    qkv_view_free(v);
    CHECK(faults_walk(flow, NULL, true) > 20);
    unmake(&made);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(numbers_are_norms_and_cosines),
        CASE(the_page_has_the_same_numbers_in_16_bits),
        CASE(a_page_without_the_space_leaves_the_numbers_out),
        CASE(what_has_no_stream_is_refused),
        CASE(a_stream_of_nothing_or_of_no_numbers_has_numbers),
        CASE(failed_allocations_are_survived),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
