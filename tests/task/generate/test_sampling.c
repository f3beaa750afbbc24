// SPDX-License-Identifier: MIT
// test_sampling.c: checks laws of samplers, compares the selection with a plain sort, and with the
// logits processors of transformers (tests/golden/sampling.json).
#include "check.h"
#include "task/generate/sampling.h"
#include "task/generate/stop_strings.h"
#include <float.h>
#include <stdlib.h>

static qkv_sampler *new_sampler(int64_t V, const struct qkv_sampling *s)
{
    qkv_error err = { 0 };
    qkv_sampler *p = NULL;
    if (qkv_sampler_new(&p, V, s, &err)) fail_msg("%s", err.text);
    return p;
}

static int32_t next(qkv_sampler *s, float *x, const int32_t *history, int64_t n, int64_t prompt,
                    uint64_t sequence)
{
    qkv_error err = { 0 };
    int32_t id = -1;
    if (qkv_sampler_next(s, &id, x, history, n, prompt, sequence, &err)) fail_msg("%s", err.text);
    return id;
}

// ---- goldens ------------------------------------------------------------------------------------
static double real_of(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static int64_t ids_of(int32_t *out, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int64_t)json_array_size(list);
}

TEST(samplers_leave_what_transformers_processors_leave)
{
    qkv_error err = { 0 };
    json_t *cases = NULL;
    if (qkv_json_list_file(&cases, "tests/golden/sampling.json", 1 << 20, &err))
        fail_msg("%s", err.text);
    CHECK(json_array_size(cases) >= 10);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *s = json_object_get(c, "settings");
        const json_t *logits = json_object_get(c, "logits"), *want = json_object_get(c, "want");
        const json_t *bias = json_object_get(s, "bias");
        const int64_t V = (int64_t)json_array_size(logits);
        struct qkv_token_value biases[8];
        int32_t ids[64];
        float x[64];
        for (size_t k = 0; k < json_array_size(bias); k++)
            biases[k] = (struct qkv_token_value){
                (int32_t)json_integer_value(json_array_get(json_array_get(bias, k), 0)),
                (float)json_number_value(json_array_get(json_array_get(bias, k), 1))
            };
        const struct qkv_sampling how = {
            .temperature = real_of(s, "temperature"),
            .top_k = (int64_t)real_of(s, "top_k"),
            .top_p = real_of(s, "top_p"),
            .min_p = real_of(s, "min_p"),
            .repetition = real_of(s, "repetition"),
            .presence = real_of(s, "presence"),
            .frequency = real_of(s, "frequency"),
            .no_repeat_ngram = (int64_t)real_of(s, "no_repeat_ngram"),
            .bias = biases,
            .biases = (int64_t)json_array_size(bias),
        };
        const int64_t prompt = ids_of(ids, json_object_get(c, "prompt"));
        const int64_t n = prompt + ids_of(ids + prompt, json_object_get(c, "output"));
        for (int64_t v = 0; v < V; v++)
            x[v] = (float)json_number_value(json_array_get(logits, (size_t)v));
        qkv_sampler *p = new_sampler(V, &how);
        const int32_t id = next(p, x, ids, n, prompt, 0);
        CHECK(x[id] > -INFINITY);
        for (int64_t v = 0; v < V; v++) {
            const json_t *w = json_array_get(want, (size_t)v);
            const char *name = json_string_value(json_object_get(c, "name"));
            if (json_is_null(w) != !(x[v] > -INFINITY))
                fail_msg("%s: token %d is %s", name, (int)v, json_is_null(w) ? "kept" : "left out");
            // a chain of at most five roundings; the file has 6 digits after the decimal point
            if (!json_is_null(w) && fabs(json_number_value(w) - (double)x[v]) >
                                        6 * FLT_EPSILON * fabs((double)x[v]) + 1e-6)
                fail_msg("%s: token %d is %g, expected %g", name, (int)v, (double)x[v],
                         json_number_value(w));
        }
        qkv_sampler_free(p);
    }
    json_decref(cases);
}

// ---- laws ---------------------------------------------------------------------------------------
enum { V = 5000 };

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

TEST(top_k_and_top_p_keep_what_a_sort_would)
{
    static float x[V], sorted[V], left[V];
    for (int round = 0; round < 40; round++) {
        const int64_t k = 1 + round * 37 % 400;
        const double p = .02 + .024 * round;
        for (int i = 0; i < V; i++) // with equal values among them
            x[i] = sorted[i] = (float)floor(check_gauss() * 40) / (round % 2 ? 8 : -3);
        qsort(sorted, V, sizeof *sorted, by_size);
        qkv_sampler *s = new_sampler(V, &(struct qkv_sampling){ .temperature = 1, .top_k = k });
        memcpy(left, x, sizeof left);
        next(s, left, NULL, 0, 0, 0);
        for (int i = 0; i < V; i++) CHECK_EQ(left[i] > -INFINITY, x[i] >= sorted[k - 1]);
        qkv_sampler_free(s);
        // the smallest set that reaches p: without its least likely token it would not
        s = new_sampler(V, &(struct qkv_sampling){ .temperature = 1, .top_p = p });
        memcpy(left, x, sizeof left);
        next(s, left, NULL, 0, 0, 0);
        double total = 0, kept = 0, least = INFINITY, most_left_out = -INFINITY;
        for (int i = 0; i < V; i++) total += exp((double)x[i]);
        for (int i = 0; i < V; i++) {
            if (left[i] > -INFINITY) {
                kept += exp((double)x[i]) / total;
                least = fmin(least, (double)x[i]);
            } else {
                most_left_out = fmax(most_left_out, (double)x[i]);
            }
        }
        CHECK(kept >= p - 1e-9);
        CHECK(kept - exp(least) / total < p + 1e-9);
        CHECK(most_left_out <= least);
        qkv_sampler_free(s);
    }
}

TEST(draws_come_as_often_as_the_probabilities_say)
{
    enum { DRAWS = 20000, N = 6 };
    const float logits[N] = { 0, 1, -1, 2, -INFINITY, .5f };
    int64_t count[N] = { 0 };
    double p[N], total = 0;
    qkv_sampler *s = new_sampler(N, &(struct qkv_sampling){ .temperature = 1, .seed = 6 });
    for (uint64_t i = 0; i < DRAWS; i++) {
        float x[N];
        memcpy(x, logits, sizeof x);
        count[next(s, x, NULL, 0, 0, i)]++;
    }
    for (int i = 0; i < N; i++) total += p[i] = exp((double)logits[i]);
    CHECK_EQ(count[4], 0);
    for (int i = 0; i < N; i++) { // five standard deviations of a count
        const double q = p[i] / total;
        CHECK_NEAR((double)count[i], DRAWS * q, 5 * sqrt(DRAWS * q * (1 - q)));
    }
    qkv_sampler_free(s);
}

TEST(a_draw_belongs_to_its_seed_sequence_and_position)
{
    const struct qkv_sampling how = { .temperature = 1, .seed = 3 };
    int32_t seen[4][16], history[16] = { 0 };
    for (int kind = 0; kind < 4; kind++) {
        struct qkv_sampling other = how;
        if (kind == 2) other.seed = 4;
        qkv_sampler *s = new_sampler(V, &other);
        for (int64_t n = 0; n < 16; n++) {
            static float x[V];
            memset(x, 0, sizeof x);
            seen[kind][n] = next(s, x, history, n, 0, kind == 3);
        }
        qkv_sampler_free(s);
    }
    CHECK_BITS(seen[0], seen[1], sizeof seen[0]);
    CHECK(memcmp(seen[0], seen[2], sizeof seen[0]) != 0);
    CHECK(memcmp(seen[0], seen[3], sizeof seen[0]) != 0);
    CHECK(seen[0][0] != seen[0][1]);
}

TEST(greedy_takes_the_smallest_of_equal_ids)
{
    float x[] = { 1, 3, 3, -INFINITY, 2 };
    qkv_sampler *s = new_sampler(5, NULL);
    CHECK_EQ(next(s, x, NULL, 0, 0, 0), 1);
    qkv_sampler_free(s);
}

// A history that grows token by token forbids the same tokens as one that is built at once.
TEST(no_repeat_ngram_knows_every_place_of_a_long_text)
{
    enum { N = 600, W = 5 };
    int32_t history[N];
    float grown[W], plain[W];
    for (int64_t gram = 1; gram <= 4; gram++) {
        const struct qkv_sampling how = { .no_repeat_ngram = gram };
        struct qkv_history h = { 0 };
        CHECK(qkv_history_begin(&h, &how, W, NULL, 0));
        for (int64_t n = 0; n < N; n++) {
            for (int i = 0; i < W; i++) grown[i] = plain[i] = (float)i;
            for (int64_t at = gram - 1; at < n; at++) {
                bool same = true;
                for (int64_t k = 1; k < gram; k++) same = same && history[at - k] == history[n - k];
                if (same && n >= gram) plain[history[at]] = -INFINITY;
            }
            qkv_history_penalise(grown, &h);
            CHECK_BITS(grown, plain, sizeof plain);
            history[n] = (int32_t)(check_random() * 2 + 2.5); // 0 .. 4
            CHECK(history[n] >= 0 && history[n] < W);
            CHECK(qkv_history_add(&h, history[n]));
        }
        qkv_history_free(&h);
    }
}

TEST(the_likeliest_are_in_order_with_their_logarithms)
{
    const float x[] = { 1, 4, 2, 4, -INFINITY, 3 };
    struct qkv_token_value top[6];
    const double sum = qkv_sampling_log_sum(x, 6);
    CHECK_NEAR(sum, log(exp(1) + 2 * exp(4) + exp(2) + exp(3)), 1e-12);
    for (int64_t n = 1; n <= 6; n++) {
        static const int32_t order[] = { 1, 3, 5, 2, 0, 4 };
        qkv_sampling_top(top, n, x, 6, sum);
        for (int64_t i = 0; i < n; i++) CHECK_EQ(top[i].id, order[i]);
    }
    CHECK_NEAR((double)top[2].value, 3 - sum, 1e-6);
}

// ---- refusals -----------------------------------------------------------------------------------
TEST(zeros_of_both_signs_are_equal)
{
    static const float x[] = { 0.0F, -0.0F, -1, -0.0F, 0.0F };
    static const int32_t want[] = { 0, 1, 3, 4 };
    for (int64_t n = 1; n <= 4; n++) {
        struct qkv_token_value top[4] = { { -7, 0 }, { -7, 0 }, { -7, 0 }, { -7, 0 } };
        qkv_sampling_top(top, n, x, 5, 0);
        for (int64_t i = 0; i < n; i++) CHECK_EQ(top[i].id, want[i]);
    }
}

TEST(a_temperature_that_floats_do_not_bear_draws_of_the_likeliest)
{
    static const double tiny[] = { 1e-37, 1e-40, 1e-46, 1e-300 };
    static const float rows[][4] = { { 3, 9, 9, -INFINITY }, { -7, -2, -2, -9 }, { -1, 0, 0, -3 } };
    EACH(t, tiny)
    EACH(row, rows)
    {
        const struct qkv_sampling how = { .temperature = *t, .top_p = .999, .top_k = 3 };
        qkv_sampler *p = new_sampler(4, &how);
        int times[4] = { 0 };
        for (uint64_t i = 0; i < 40; i++) {
            float x[4];
            memcpy(x, *row, sizeof x);
            times[next(p, x, NULL, 0, 0, i)]++;
        }
        CHECK(times[1] > 0 && times[2] > 0);
        CHECK_EQ(times[1] + times[2], 40);
        qkv_sampler_free(p);
    }
}

TEST(values_out_of_range_are_refused_by_name)
{
    const struct qkv_token_value outside = { 9, 1 }, endless = { 1, INFINITY }, none = { 1, NAN };
    static const char *const names[] = { "top_p",      "top_p",    "temperature", "temperature",
                                         "top_k",      "min_p",    "repetition",  "repetition",
                                         "repetition", "presence", "frequency",   "no_repeat",
                                         "bias",       "bias",     "bias" };
    const struct qkv_sampling bad[] = {
        { .top_p = 2 },
        { .top_p = NAN },
        { .temperature = -1 },
        { .temperature = 1e9 },
        { .top_k = -1 },
        { .min_p = 1.5 },
        { .repetition = -2 },
        { .repetition = 1e-46 },
        { .repetition = 1e-38 },
        { .presence = 1e6 },
        { .frequency = -INFINITY },
        { .no_repeat_ngram = -1 },
        { .bias = &outside, .biases = 1 },
        { .bias = &endless, .biases = 1 },
        { .bias = &none, .biases = 1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qkv_error err = { 0 };
        qkv_sampler *s = NULL;
        CHECK_EQ(qkv_sampler_new(&s, 5, &bad[i], &err), QKV_ERR_USAGE);
        CHECK(!s);
        if (!strstr(err.text, names[i])) fail_msg("%s, expected %s in it", err.text, names[i]);
    }
}

TEST(nothing_to_choose_is_an_error)
{
    const float bad[][3] = { { -INFINITY, -INFINITY, -INFINITY },
                             { 1, NAN, 2 },
                             { 1, INFINITY, 2 } };
    for (int hot = 0; hot < 2; hot++) EACH(x, bad)
        {
            qkv_error err = { 0 };
            float copy[3];
            int32_t id;
            memcpy(copy, *x, sizeof copy);
            qkv_sampler *s = new_sampler(3, &(struct qkv_sampling){ .temperature = hot });
            CHECK_EQ(qkv_sampler_next(s, &id, copy, NULL, 0, 0, 0, &err), QKV_ERR_USAGE);
            qkv_sampler_free(s);
        }
}

// ---- stop strings -------------------------------------------------------------------------------
// Feeds text in pieces of `step` bytes; the emitted text never includes part of a stop string.
static void stop_after(const char *text, const char *const *stops, int64_t n, const char *want)
{
    const size_t bytes = strlen(text);
    for (size_t piece = 1; piece <= bytes; piece++) {
        struct qkv_stop_strings s;
        struct qkv_output_text t = { 0 };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_stop_strings_new(&s, stops, n, &err), QKV_OK);
        CHECK(qkv_output_text_begin(&t, &s));
        for (size_t at = 0; at < bytes && !t.stopped; at += piece) {
            CHECK(
                qkv_output_text_add(&t, text + at, bytes - at < piece ? bytes - at : piece, true));
            CHECK(t.safe <= (int64_t)strlen(want)); // nothing that must be removed later
            CHECK(!memcmp(t.at, want, (size_t)t.safe));
        }
        CHECK_TEXT(t.at, want);
        CHECK_EQ(t.stopped, strcmp(text, want) != 0);
        qkv_output_text_free(&t);
        qkv_stop_strings_free(&s);
    }
}

TEST(a_stop_string_ends_text_wherever_its_pieces_border)
{
    static const char *const one[] = { "abab" }, *const two[] = { "\n\n", "END" };
    static const char *const nested[] = { "bcd", "abcde" };
    stop_after("xxababyy", one, 1, "xx");
    stop_after("aababab", one, 1, "a");
    stop_after("abaabbab aba", one, 1, "abaabbab aba");
    stop_after("a\nb\n\nc", two, 2, "a\nb");
    stop_after("the ENEND\n", two, 2, "the EN");
    stop_after("xabcdef", nested, 2, "xa"); // the first complete stop string ends the text
    stop_after("nothing", NULL, 0, "nothing");
}

TEST(stop_strings_that_are_none_are_refused)
{
    static char longest[4098];
    memset(longest, 'a', sizeof longest - 1);
    const char *const bad[] = { "", "\xff", longest, NULL };
    EACH(b, bad)
    {
        struct qkv_stop_strings s;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_stop_strings_new(&s, b, 1, &err), QKV_ERR_USAGE);
        qkv_stop_strings_free(&s);
    }
}

CHECK_MAIN(CASE(samplers_leave_what_transformers_processors_leave),
           CASE(top_k_and_top_p_keep_what_a_sort_would),
           CASE(draws_come_as_often_as_the_probabilities_say),
           CASE(a_draw_belongs_to_its_seed_sequence_and_position),
           CASE(greedy_takes_the_smallest_of_equal_ids),
           CASE(no_repeat_ngram_knows_every_place_of_a_long_text),
           CASE(the_likeliest_are_in_order_with_their_logarithms),
           CASE(zeros_of_both_signs_are_equal),
           CASE(a_temperature_that_floats_do_not_bear_draws_of_the_likeliest),
           CASE(values_out_of_range_are_refused_by_name), CASE(nothing_to_choose_is_an_error),
           CASE(a_stop_string_ends_text_wherever_its_pieces_border),
           CASE(stop_strings_that_are_none_are_refused))
