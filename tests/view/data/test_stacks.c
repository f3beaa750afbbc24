// SPDX-License-Identifier: MIT
// test_stacks.c: two texts, every formula of scores, weights from a file, probes of long texts: C
// and the reader of the page have the same numbers.
#include "view/made.h"

enum { H = 4, G = 2, E = 8, MOST = 220, REACH = 4 };

// One layer of random numbers with every array that a score may depend on.
struct odd {
    struct qkv_view_token token[2][MOST];
    char name[MOST][8];
    struct qkv_view_text text[2];
    float q[MOST * H * E], k[MOST * G * E], lse[H * MOST];
    float relative[H * (2 * REACH + 1)], alibi[H];
    double weights[H * MOST * MOST];
    struct qkv_view_layer_data seen;
    int64_t T, S;
    bool causal;
};

static bool odd_sees(const struct odd *o, int64_t i, int64_t j)
{
    if (o->causal && j > i) return false;
    if (!o->seen.window) return true;
    return (o->seen.left < 0 || i - j <= o->seen.left) &&
           (o->seen.right < 0 || j - i <= o->seen.right);
}

static double odd_score(const struct odd *o, int64_t h, int64_t i, int64_t j)
{
    double s = 0;
    for (int64_t e = 0; e < E; e++)
        s += (double)o->q[(i * H + h) * E + e] * (double)o->k[(j * G + h / (H / G)) * E + e];
    s *= (double)o->seen.scale;
    if (o->seen.softcap > 0) s = (double)o->seen.softcap * tanh(s / (double)o->seen.softcap);
    int64_t d = j - i;
    d = d < -REACH ? -REACH : d > REACH ? REACH : d;
    if (o->seen.relative) s += (double)o->relative[h * (2 * REACH + 1) + REACH + d];
    if (o->seen.alibi) s -= (double)o->alibi[h] * fabs((double)(i - j));
    return s;
}

// T queries attend to S keys; what: the members of the layer that define scores.
static struct odd *odd_make(int64_t T, int64_t S, bool causal, struct qkv_view_layer_data what,
                            bool relative, bool alibi)
{
    struct odd *o = zeros(1, sizeof *o);
    check_seed = (uint64_t)(T * 31 + S);
    o->T = T;
    o->S = S;
    o->causal = causal;
    o->seen = what;
    for (int64_t i = 0; i < MOST; i++) {
        snprintf(o->name[i], sizeof o->name[i], "w%d", (int)(i % 23));
        o->token[0][i] = o->token[1][i] = (struct qkv_view_token){ .raw = o->name[i] };
    }
    o->text[0] = (struct qkv_view_text){ .token = o->token[0], .tokens = S };
    o->text[1] = (struct qkv_view_text){ .token = o->token[1], .tokens = T };
    for (int64_t i = 0; i < T * H * E; i++) o->q[i] = (float)(2 * check_gauss());
    for (int64_t i = 0; i < S * G * E; i++) o->k[i] = (float)check_gauss();
    for (int64_t i = 0; i < H * (2 * REACH + 1); i++) o->relative[i] = (float)check_gauss();
    for (int h = 0; h < H; h++) o->alibi[h] = 1.f / (float)(2 << h);
    if (relative) o->seen.relative = o->relative, o->seen.reach = REACH;
    if (alibi) o->seen.alibi = o->alibi;
    o->seen.q = o->q;
    o->seen.k = o->k;
    o->seen.lse = o->lse;
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < T; i++) {
            double *w = o->weights + (h * T + i) * S, sum = 0;
            for (int64_t j = 0; j < S; j++)
                sum += w[j] = odd_sees(o, i, j) ? exp(odd_score(o, h, i, j)) : 0;
            for (int64_t j = 0; j < S; j++) w[j] /= sum > 0 ? sum : 1;
            o->lse[h * T + i] = (float)log(sum);
        }
    return o;
}

static qkv_view *odd_view(const struct odd *o)
{
    const bool across = o->T != o->S;
    const struct qkv_view_stack stack = {
        across ? "cross" : "attention", across, 0, 1, H, G, E, .causal = o->causal
    };
    const struct qkv_view_shape shape = { "odd", o->text, across ? 2 : 1, &stack, 1 };
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (qkv_view_new(&v, &shape, &err) || qkv_view_layer(v, 0, 0, &o->seen, &err))
        fail_msg("%s", err.text);
    return v;
}

// Compares rows of the library with the true weights, and rows of the page with the library.
static void check_odd(const struct odd *o, const char *kind)
{
    qkv_view *v = odd_view(o);
    float row[MOST];
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < o->T; i++) {
            qkv_view_row(v, row, 0, 0, h, i);
            for (int64_t j = 0; j < o->S; j++) {
                const double w = o->weights[(h * o->T + i) * o->S + j];
                // sums of 8 products below 60 and a log of as much, each rounded
                CHECK_NEAR((double)row[j], w, w * 64 * 12 * 0x1p-24 + 1e-37);
            }
        }
    struct qkv_view_report r;
    struct page p;
    char *html = html_of(v, NULL, &r);
    CHECK(page_open(&p, html));
    CHECK_TEXT(r.kind, kind);
    CHECK_NEAR(page_error(&p, v, 1), r.error, 1e-4 * (r.error + .01));
    page_close(&p);
    free(html);
    qkv_view_free(v);
}

TEST(every_formula_of_scores_is_right_in_c_and_in_the_page)
{
    static const struct {
        bool causal, relative, alibi;
        struct qkv_view_layer_data seen;
    } formulas[] = {
        { false, false, false, { .scale = .5f, .softcap = 3 } },
        { false, true, false, { .scale = 1 } },
        { true, false, true, { .scale = .3f } },
        { true, false, false, { .scale = .4f, .window = true, .left = 5, .right = -1 } },
        { false,
          true,
          true,
          { .scale = .3f, .softcap = 2, .window = true, .left = 7, .right = 2 } },
    };
    static const int64_t lengths[] = { 40, 200 };
    EACH(f, formulas) EACH(T, lengths)
    {
        struct odd *o = odd_make(*T, *T, f->causal, f->seen, f->relative, f->alibi);
        check_odd(o, *T > 192 ? "qk16" : "dense");
        free(o);
    }
}

TEST(rows_of_one_text_read_another)
{
    static const int64_t shapes[][2] = { { 9, 13 }, { 13, 2 }, { 1, 7 }, { 210, 195 } };
    EACH(s, shapes)
    {
        struct odd *o = odd_make((*s)[0], (*s)[1], false,
                                 (struct qkv_view_layer_data){ .scale = .4f }, false, false);
        check_odd(o, (*s)[0] > 192 ? "qk16" : "dense");
        qkv_view *v = odd_view(o);
        CHECK(qkv_view_head(v, 0, 0, 0).distance == 0.f);
        char *text;
        const struct qkv_view_options plain = { .utf8 = true };
        CHECK_EQ(qkv_view_terminal(v, &text, &plain, NULL), QKV_OK);
        qkv_view_text_free(text);
        qkv_view_free(v);
        free(o);
    }
}

// Only weights: a row that sums to 2, one to a half, one of NaN.
TEST(weights_from_elsewhere_are_drawn_as_they_are)
{
    enum { T = 200 };
    struct odd *o =
        odd_make(T, T, false, (struct qkv_view_layer_data){ .scale = .4f }, false, false);
    float *w = zeros(H * T * T, sizeof *w);
    for (int64_t i = 0; i < H * T * T; i++) w[i] = (float)o->weights[i];
    for (int64_t j = 0; j < T; j++) {
        w[3 * T + j] *= 2;
        w[(T + 5) * T + j] *= .5f;
        w[(2 * T + 7) * T + j] = NAN;
    }
    o->seen = (struct qkv_view_layer_data){ .weights = w };
    static const int64_t budgets[] = { 0, 90000 }; // 90000: only the largest weights fit
    EACH(b, budgets)
    {
        qkv_view *v = odd_view(o);
        struct qkv_view_report r;
        struct page p;
        const int64_t capacity = view_code_bytes() + *b;
        const struct qkv_view_options options = { .budget = *b ? capacity : 0 };
        char *html = html_of(v, &options, &r);
        CHECK(page_open(&p, html));
        CHECK_TEXT(r.kind, *b ? "top" : "dense");
        CHECK_EQ(r.not_numbers, 1);
        CHECK_EQ(r.not_one, 2);
        CHECK(strstr(html, "2 rows do not sum to 1") && strstr(html, "1 row contains NaN or Inf"));
        float row[T];
        double shown[T];
        for (int64_t h = 0; h < 3; h++)
            for (int64_t i = 3; i < 8; i++) {
                qkv_view_row(v, row, 0, 0, h, i);
                page_row(&p, shown, 0, h, i);
                for (int64_t j = 0; j < T; j++)
                    if (h == 2 && i == 7)
                        CHECK(shown[j] != shown[j]);
                    else if (!*b || shown[j] > 0)
                        CHECK_NEAR(shown[j], (double)row[j], r.error + 1e-6);
            }
        page_close(&p);
        free(html);
        qkv_view_free(v);
    }
    free(w);
    free(o);
}

// A probe that stored every weight has the statistics of the rows.
TEST(a_head_is_the_same_kind_from_a_probe_as_from_its_rows)
{
    struct odd *o =
        odd_make(120, 120, true, (struct qkv_view_layer_data){ .scale = .6f }, false, false);
    qkv_view *v = odd_view(o), *probed;
    struct view_probe all;
    CHECK_EQ(view_probe_gather(&all, v->stack, 0, 120, 16, NULL), QKV_OK);
    const struct qkv_probe probe = { .top_k = 120,
                                     .top_weight = all.weight,
                                     .top_key = all.key,
                                     .received = all.received,
                                     .entropy = all.entropy,
                                     .side = 16,
                                     .tile_max = all.max,
                                     .tile_mean = all.mean };
    const struct qkv_view_layer_data rows = o->seen;
    o->seen = (struct qkv_view_layer_data){ .probe = &probe };
    probed = odd_view(o);
    for (int64_t h = 0; h < H; h++) {
        const struct qkv_view_head a = qkv_view_head(v, 0, 0, h),
                                   b = qkv_view_head(probed, 0, 0, h);
        CHECK_TEXT(a.kind, b.kind);
        CHECK_NEAR((double)a.strength, (double)b.strength, 1e-4);
        CHECK_NEAR((double)a.effective_keys, (double)b.effective_keys, 1e-3);
        CHECK_NEAR((double)a.distance, (double)b.distance, 1e-3);
        CHECK_NEAR((double)a.focus, (double)b.focus, 1e-4);
    }
    struct qkv_view_report r;
    struct page p;
    char *html = html_of(probed, NULL, &r);
    CHECK(page_open(&p, html));
    CHECK_TEXT(r.kind, "top");
    CHECK_EQ(r.top, 16);
    CHECK(r.kept > .5 && r.kept < 1);
    CHECK_NEAR(page_error(&p, probed, 1), r.error, 1e-4 * (r.error + .01));
    CHECK(r.error <= .004);
    page_close(&p);
    free(html);
    o->seen = rows;
    view_probe_free(&all);
    qkv_view_free(probed);
    qkv_view_free(v);
    free(o);
}

TEST(a_long_text_asks_for_a_probe)
{
    struct qkv_view_token *token = zeros(100000, sizeof *token);
    for (int64_t i = 0; i < 100000; i++) token[i].raw = "w";
    static const struct {
        int64_t T, L, H;
        int64_t budget, most, side;
    } sizes[] = { { 1000, 6, 12, 0, 0, 0 },
                  { 4096, 6, 12, 0, 16, 128 },
                  { 100000, 1, 12, 25000000, 10, 256 },
                  { 100000, 12, 12, 0, 2, 64 } };
    EACH(s, sizes)
    {
        const struct qkv_view_text text = { .token = token, .tokens = s->T };
        const struct qkv_view_stack stack = { "attention", 0, 0, s->L, s->H, .head_width = 64 };
        const struct qkv_view_shape shape = { "m", &text, 1, &stack, 1 };
        struct qkv_probe_request request;
        qkv_view *v;
        CHECK_EQ(qkv_view_new(&v, &shape, NULL), QKV_OK);
        CHECK_EQ(qkv_view_probe_request(v, s->budget, &request), s->most > 0);
        CHECK(request.top_k <= s->most && (!s->most || request.top_k >= 2));
        CHECK_EQ(request.side, s->side);
        qkv_view_free(v);
    }
    free(token);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(every_formula_of_scores_is_right_in_c_and_in_the_page),
        CASE(rows_of_one_text_read_another),
        CASE(weights_from_elsewhere_are_drawn_as_they_are),
        CASE(a_head_is_the_same_kind_from_a_probe_as_from_its_rows),
        CASE(a_long_text_asks_for_a_probe),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
