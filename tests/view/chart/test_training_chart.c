// SPDX-License-Identifier: MIT
// test_training_chart.c: the chart of a run draws the data of the logs; broken logs; failing
// memory.
#include "base/faults.h"
#include "model/folder.h"
#include "view/chart/training_chart.h"

// A run of n steps whose loss falls from 4 to 1 + floor, evaluated each `every` steps.
static void write_run(const char *name, int n, int every, double floor)
{
    char path[64];
    mkdir(folder_name(name), 0700);
    snprintf(path, sizeof path, "%s/log.jsonl", name);
    FILE *f = fopen(folder_name(path), "w");
    if (!f) fail_msg("no file");
    for (int s = 1; s <= n; s++) {
        const double loss = 1 + floor + 3.0 * (n - s) / n;
        fprintf(f, "{\"step\": %d, \"loss\": %.6f, \"rate\": %.3e, \"norm\": %.3f}\n", s, loss,
                1e-3 * s / n, 2.0 + s % 3);
        if (s % every == 0) fprintf(f, "{\"step\": %d, \"valid_loss\": %.6f}\n", s, loss + .25);
    }
    fclose(f);
}

static qkv_plot *opened(const char *const *names, int64_t n, bool probes)
{
    static char paths[4][1024];
    const char *list[4];
    qkv_plot *p = NULL;
    qkv_error err = { 0 };
    for (int64_t i = 0; i < n; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", folder_name(names[i]));
        list[i] = paths[i];
    }
    if (qkv_plot_open(&p, list, n, probes, &err))
        fail_msg("%s %s %s", err.file, err.path, err.text);
    return p;
}

TEST(a_run_comes_to_its_last_and_least_losses)
{
    static const char *const names[] = { "run" };
    folder_new();
    write_run("run", 400, 100, 0);
    qkv_plot *p = opened(names, 1, false);
    const struct qkv_plot_info i = qkv_plot_info(p, 0);
    CHECK_TEXT(i.name, "run");
    CHECK_EQ(i.steps, 400);
    CHECK_EQ(i.best_step, 400);
    CHECK_NEAR(i.valid, 1.25, 1e-9);
    CHECK_NEAR(i.first, 1 + 3.0 * 399 / 400, 1e-6);
    CHECK_NEAR(i.last, 1 + 3.0 * 9.5 / 400, 1e-6); // mean of the last 20
    char sentence[300];
    qkv_plot_sentence(p, sentence, sizeof sentence);
    CHECK(strstr(sentence, "After 400 steps") && strstr(sentence, "1.250"));
    CHECK(qkv_plot_info(p, 1).name == NULL);
    qkv_plot_close(p);
}

TEST(of_several_runs_the_lowest_is_named)
{
    static const char *const names[] = { "one", "two" };
    folder_new();
    write_run("one", 100, 50, .5);
    write_run("two", 200, 50, 0);
    qkv_plot *p = opened(names, 2, false);
    char sentence[300], tiny[12];
    qkv_plot_sentence(p, sentence, sizeof sentence);
    CHECK(strstr(sentence, "two") && !strstr(sentence, "one"));
    CHECK(strlen(qkv_plot_sentence(p, tiny, sizeof tiny)) < sizeof tiny);
    qkv_plot_close(p);
}

TEST(a_step_done_again_counts_once_and_half_a_line_not)
{
    static const char *const names[] = { "log.jsonl" };
    folder_new();
    folder_text("log.jsonl", "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 9}\n"
                             "{\"step\": 2, \"loss\": 2}\n{\"step\": 3, \"loss\": null}\n"
                             "{\"step\": 4, \"loss\": 1}\n{\"step\": 5, \"lo");
    qkv_plot *p = opened(names, 1, false);
    const struct training_series *s = &p->run[0].series[TRAINING_LOSS];
    CHECK_EQ(s->n, 3);
    CHECK_EQ(s->at[1].step, 2);
    CHECK_NEAR(s->at[1].value, 2, 0);
    CHECK_EQ(s->at[2].step, 4);
    qkv_plot_close(p);
}

TEST(broken_logs_are_named_by_their_line)
{
    static const struct {
        const char *text;
        qkv_status status;
        const char *at;
    } rows[] = {
        { "", QKV_ERR_FORMAT, "" },
        { "{\"step\": 1, \"loss\": 3}\nnonsense\n", QKV_ERR_FORMAT, "line 2" },
        { "{\"loss\": 3}\n", QKV_ERR_FORMAT, "line 1" },
        { "{\"step\": -1, \"loss\": 3}\n", QKV_ERR_FORMAT, "line 1" },
        { "{\"step\": 1.5, \"loss\": 3}\n", QKV_ERR_FORMAT, "line 1" },
    };
    EACH(r, rows)
    {
        folder_new();
        folder_text("log.jsonl", r->text);
        const char *path = folder_path;
        qkv_plot *p = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_plot_open(&p, &path, 1, false, &err), r->status);
        CHECK(p == NULL && strstr(err.path, r->at) != NULL);
    }
    const char *none = "/nowhere/at/all";
    qkv_plot *p = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_plot_open(&p, &none, 1, false, &err), QKV_ERR_IO);
}

TEST(bins_keep_mean_least_and_largest)
{
    struct training_point points[1000];
    struct training_bin b[TRAINING_BINS];
    struct training_series s = { points, 1000, 1000 };
    for (int i = 0; i < 1000; i++) points[i] = (struct training_point){ i, i % 10 };
    const int n = training_bins(b, &s, 0, 999, 100);
    CHECK_EQ(n, 100);
    for (int i = 0; i < n; i++) {
        CHECK_NEAR(b[i].mean, 4.5, 1e-12);
        CHECK_NEAR(b[i].step, 10 * i + 4.5, 1e-9);
        CHECK_NEAR(b[i].low, 0, 0);
        CHECK_NEAR(b[i].high, 9, 0);
    }
}

TEST(ticks_are_round_and_inside)
{
    static const struct chart_scale scales[] = { { 0, 1, false },      { 1.2, 8.1, true },
                                                 { 1e-5, 1, true },    { 0, 3e-4, false },
                                                 { -3, 7.5, false },   { .9, 1.1, true },
                                                 { 0, 123456, false }, { 1e-9, 1e9, true } };
    EACH(s, scales)
    {
        double tick[CHART_TICKS];
        const int n = chart_ticks(tick, s, 5);
        CHECK(n >= 2 && n <= CHART_TICKS);
        for (int i = 0; i < n; i++) {
            CHECK(tick[i] >= s->low * (1 - 1e-6) - 1e-12 || s->low < 0);
            CHECK(tick[i] <= s->high * (1 + 1e-6));
            CHECK(!i || tick[i] > tick[i - 1]);
        }
    }
}

static const struct {
    double x;
    const char *text;
} numbers[] = { { 0, "0" },       { 1.5, "1.5" },      { 1.534, "1.53" }, { 12, "12" },
                { 123.4, "123" }, { 12345, "12,345" }, { 3e-4, "3e-4" },  { 2.5e-5, "2.5e-5" },
                { .02, "0.02" },  { 9.99e-5, "1e-4" }, { -2, "-2" } };
TEST(numbers_are_as_short_as_they_can_be)
{
    EACH(n, numbers)
    {
        struct view_text t = { 0 };
        chart_number(&t, n->x);
        CHECK_TEXT(t.at, n->text);
        view_text_free(&t);
    }
}

// ---- pictures -----------------------------------------------------------------------------------
static void write_probes(int steps)
{
    FILE *f = fopen(folder_name("probes.jsonl"), "w");
    if (!f) fail_msg("no file");
    for (int s = 0; s < steps; s++)
        fprintf(
            f,
            "{\"step\": %d, \"tokens\": [\"a\", \"b\", \"c\", \"d\"], \"heads\": [[{\"entropy\": "
            "2}, {\"entropy\": %.3f}], [{\"entropy\": 1.5}, {\"entropy\": 1.75}]]}\n",
            s * 10, 2.0 - 1.5 * s / steps);
    fclose(f);
}

TEST(the_head_that_fell_most_is_named)
{
    static const char *const names[] = { "probes.jsonl" };
    folder_new();
    write_probes(10);
    qkv_plot *p = opened(names, 1, true);
    char sentence[300];
    qkv_plot_sentence(p, sentence, sizeof sentence);
    CHECK(strstr(sentence, "L0.H1 fell most, from 2.00 to 0.65"));
    CHECK(strstr(sentence, "1 of 4 heads"));
    qkv_plot_close(p);
}

TEST(files_say_what_is_in_them_and_nothing_comes_from_outside)
{
    static const char *const names[] = { "a<b>&\"c", "two" };
    folder_new();
    write_run("a<b>&\"c", 300, 50, 0);
    write_run("two", 300, 50, 1);
    qkv_plot *p = opened(names, 2, false);
    for (int html = 0; html < 2; html++) {
        const struct qkv_chart_options o = { 0 };
        char path[1024];
        qkv_error err = { 0 };
        size_t bytes;
        snprintf(path, sizeof path, "%s", folder_name(html ? "curve.html" : "curve.svg"));
        CHECK_EQ(qkv_plot_file(p, path, true, &o, &err), QKV_OK);
        CHECK_EQ(qkv_plot_file(p, path, false, &o, &err), QKV_ERR_USAGE);
        char *text = folder_load(path, &bytes);
        CHECK(strstr(text, "a<b>") == NULL); // a name is text
        CHECK(strstr(text, "&#60;b&#62;") != NULL);
        CHECK(strstr(text, "<desc") != NULL && strstr(text, "lowest") != NULL);
        for (const char *at = text; (at = strstr(at, "://")) != NULL; at++)
            CHECK(!strncmp(at - 4, "http://www.w3.org/", 18)); // the name of SVG, no address
        CHECK(!html || strstr(text, "default-src 'none'"));
        CHECK(strstr(text, " style=") == NULL);
        free(text);
    }
    qkv_plot_close(p);
}

TEST(the_terminal_keeps_its_width_and_its_character_set)
{
    static const char *const names[] = { "one", "two" };
    folder_new();
    write_run("one", 300, 50, 0);
    write_run("two", 200, 1000, 1);
    write_probes(10);
    static const char *const probes[] = { "probes.jsonl" };
    for (int kind = 0; kind < 3; kind++)
        for (int columns = 34; columns <= 200; columns += 83)
            for (int how = 0; how < 4; how++) {
                qkv_plot *p = opened(kind < 2 ? names : probes, kind == 1 ? 2 : 1, kind == 2);
                const struct qkv_chart_options o = { .columns = columns,
                                                     .color = how & 1,
                                                     .utf8 = how & 2 };
                char *text = NULL;
                CHECK_EQ(qkv_plot_terminal(p, &text, &o, NULL), QKV_OK);
                struct text_canvas s = { .utf8 = true };
                for (const char *at = text; *at;) {
                    const size_t n = strcspn(at, "\n");
                    CHECK(text_canvas_width(&s, at, n) <= columns);
                    at += n + (at[n] == '\n');
                }
                for (const char *c = text; *c; c++) {
                    if (!(how & 2) && (unsigned char)*c >= 0x80) fail_msg("not ASCII");
                    if (!(how & 1) && *c == '\033') fail_msg("a colour");
                }
                qkv_view_text_free(text);
                qkv_plot_close(p);
            }
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const struct qkv_chart_options o = { .utf8 = true };
    const char *path = ctx;
    qkv_plot *p = NULL;
    char *text = NULL, out[1024];
    snprintf(out, sizeof out, "%s", folder_name("curve.html"));
    qkv_status status = qkv_plot_open(&p, &path, 1, false, err);
    if (!status) status = qkv_plot_file(p, out, true, &o, err);
    if (!status) status = qkv_plot_terminal(p, &text, &o, err);
    qkv_view_text_free(text);
    qkv_plot_close(p);
    return status;
}

TEST(failed_allocations_are_survived)
{
    char path[1024];
    folder_new();
    write_run("run", 20, 5, 0);
    snprintf(path, sizeof path, "%s", folder_name("run"));
    CHECK(faults_walk(flow, path, true) > 20);
}

CHECK_MAIN(CASE(a_run_comes_to_its_last_and_least_losses),
           CASE(of_several_runs_the_lowest_is_named),
           CASE(a_step_done_again_counts_once_and_half_a_line_not),
           CASE(broken_logs_are_named_by_their_line), CASE(bins_keep_mean_least_and_largest),
           CASE(ticks_are_round_and_inside), CASE(numbers_are_as_short_as_they_can_be),
           CASE(the_head_that_fell_most_is_named),
           CASE(files_say_what_is_in_them_and_nothing_comes_from_outside),
           CASE(the_terminal_keeps_its_width_and_its_character_set),
           CASE(failed_allocations_are_survived))
