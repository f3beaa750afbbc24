// SPDX-License-Identifier: MIT
// test_chart.c: charts draw the given data, in valid files and in a terminal of any width.
#include "base/faults.h"
#include "model/folder.h"
#include "view/chart/chart_internal.h"
#include "view/xml.h"

enum { N = 8 };
static double at_x[N], at_y[N], low[N], high[N];
static float cells[6 * 5];
static const char evil[] = "</svg><script>alert(1)</script>&\"'\x1b[31m\xff\xe2\x80\xae\n]]>";
static const char *const names[N] = { "the",   "animal", "日本語", evil,
                                      "cross", "",       NULL,     "a very long name of a place" };
static const char *const figures[] = { "layer", "path", evil, "n^2 d", NULL, "1" };

// One chart with every feature; foreign texts everywhere.
static struct qkv_chart whole(void)
{
    static struct qkv_chart_line line[5];
    static struct qkv_chart_mark mark[3];
    static struct qkv_chart_grid grid[3];
    static struct qkv_chart_panel panel[5];
    static const struct qkv_chart_table table = { evil, figures, 3, 2 };
    for (int i = 0; i < N; i++) {
        at_x[i] = 64 << i;
        at_y[i] = i == 5 ? NAN : at_x[i] * at_x[i] * 1e-5;
        low[i] = .8 * at_x[i] * at_x[i] * 1e-5;
        high[i] = 1.3 * at_x[i] * at_x[i] * 1e-5;
    }
    for (int i = 0; i < 30; i++) cells[i] = i == 7 ? (float)NAN : (float)(i - 12) / 20;
    for (int k = 0; k < 5; k++)
        line[k] = (struct qkv_chart_line){ .name = k ? names[k] : evil,
                                           .x = at_x,
                                           .y = at_y,
                                           .low = k ? NULL : low,
                                           .high = k ? NULL : high,
                                           .text = k == 4 ? names : NULL,
                                           .n = N,
                                           .style = k };
    mark[0] = (struct qkv_chart_mark){ 500, NAN, evil, QKV_CHART_RED, 0, 0 };
    mark[1] = (struct qkv_chart_mark){ NAN, 3, "level", QKV_CHART_QUIET, 0, 0 };
    mark[2] = (struct qkv_chart_mark){ 700, 5, "here", 3, 0, 0 };
    panel[0] = (struct qkv_chart_panel){ .name = evil,
                                         .note = evil,
                                         .x = { .name = evil, .log = true },
                                         .y = { .name = "ms", .log = true },
                                         .line = line,
                                         .lines = 5,
                                         .mark = mark,
                                         .marks = 3 };
    line[4].style = QKV_CHART_POINTS;
    static struct qkv_chart_line bars[2];
    bars[0] = (struct qkv_chart_line){ .name = "up", .y = at_y, .n = N, .style = QKV_CHART_BARS };
    bars[1] = (struct qkv_chart_line){
        .name = "down", .y = low, .n = N, .hue = QKV_CHART_RED, .style = QKV_CHART_BARS
    };
    panel[1] =
        (struct qkv_chart_panel){ .x = { .label = names, .labels = N }, .line = bars, .lines = 2 };
    for (int k = 0; k < 3; k++) {
        grid[k] = (struct qkv_chart_grid){ .value = cells,
                                           .rows = 6,
                                           .columns = 5,
                                           .row_label = names,
                                           .column_label = k ? names : NULL,
                                           .ramp = (enum qkv_chart_ramp)k,
                                           .digits = 2 };
        panel[2 + k] = (struct qkv_chart_panel){ .name = "cells", .grid = &grid[k] };
    }
    return (struct qkv_chart){ evil, evil, panel, 5, 2, false, &table, evil, evil };
}

static char *written(const struct qkv_chart *c, const char *name, const struct qkv_chart_options *o,
                     size_t *bytes)
{
    char path[1024];
    qkv_error err = { 0 };
    snprintf(path, sizeof path, "%s", folder_name(name));
    if (qkv_chart_file(c, path, true, o, &err)) fail_msg("%s: %s", err.file, err.text);
    return folder_load(path, bytes);
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

TEST(svg_is_well_formed_and_the_same_twice)
{
    const struct qkv_chart c = whole();
    folder_new();
    for (int theme = 0; theme < 3; theme++) {
        const struct qkv_chart_options o = { .theme = (enum qkv_view_theme)theme };
        size_t n, m;
        char *a = written(&c, "a.svg", &o, &n), *b = written(&c, "b.svg", &o, &m);
        const char *wrong = xml_wrong(a);
        if (wrong) fail_msg("%s", wrong);
        CHECK(n == m && !memcmp(a, b, n));
        CHECK_EQ(occurrences(a, "prefers-color-scheme:dark"), theme == 0);
        CHECK(strstr(a, "<script") == NULL && strstr(a, " style=") == NULL);
        CHECK(strstr(a, "<desc id=\"finding\">") != NULL);
        for (const char *at = a; (at = strstr(at, "://")) != NULL; at++)
            CHECK(!strncmp(at - 4, "http://www.w3.org/", 18)); // the name of SVG, no address
        free(a);
        free(b);
    }
}

// Points in two dense groups: the boxes of their words, as wide as in the widest common font.
TEST(no_word_covers_another_word_or_a_point)
{
    enum { POINTS = 26, MOST = 2 * POINTS };
    static double x[POINTS], y[POINTS], box[MOST][4];
    static char name[POINTS][24];
    static const char *text[POINTS];
    int n = 0;
    for (int i = 0; i < POINTS; i++) {
        uint32_t r[4];
        qkv_philox(r, 8, 0, (uint64_t)i);
        x[i] = (i % 2 ? 10 : 0) + r[0] * 0x1p-32;
        y[i] = (i % 2 ? 5 : 0) + r[1] * 0x1p-31;
        snprintf(name[i], sizeof name[i], "word%.*s%d", i % 5, "abcd", i);
        text[i] = name[i];
    }
    struct qkv_chart_line line = { .x = x, .y = y, .n = POINTS, .text = text };
    line.style = QKV_CHART_POINTS;
    struct qkv_chart_panel panel = { .line = &line, .lines = 1 };
    const struct qkv_chart c = { .title = "?", .sentence = "!", .panel = &panel, .panels = 1 };
    size_t bytes;
    folder_new();
    char *svg = written(&c, "words.svg", NULL, &bytes);
    for (const char *at = svg; (at = strstr(at, "<text")) != NULL; at++) {
        char word[32];
        double left, base;
        if (sscanf(at, "<text class=\"%*[^\"]\" x=\"%lf\" y=\"%lf\">%30[^<]", &left, &base, word) <
            3)
            continue;
        if (strncmp(word, "word", 4) != 0) continue;
        CHECK(n < POINTS);
        double *b = box[n++];
        b[0] = left, b[1] = base - 9,
        b[2] = left + canvas_width(&(struct canvas){ 0 }, word, strlen(word), 11, 0);
        b[3] = base + 2;
    }
    CHECK_EQ(n, POINTS); // none is left out
    for (const char *at = svg; (at = strstr(at, "<circle")) != NULL; at++) {
        double *b = box[n++], px = 0, py = 0;
        CHECK(n <= MOST && sscanf(strstr(at, " cx="), " cx=\"%lf\" cy=\"%lf\"", &px, &py) == 2);
        b[0] = px - 3, b[1] = py - 3, b[2] = px + 3, b[3] = py + 3;
    }
    CHECK_EQ(n, MOST);
    for (int i = 0; i < POINTS; i++)
        for (int k = i + 1; k < MOST; k++)
            if (box[i][0] < box[k][2] && box[k][0] < box[i][2] && box[i][1] < box[k][3] &&
                box[k][1] < box[i][3])
                fail_msg("word %d covers %s %d", i, k < POINTS ? "word" : "point", k % POINTS);
    free(svg);
}

TEST(a_page_asks_nobody_and_takes_names_for_text)
{
    const struct qkv_chart c = whole();
    size_t n;
    folder_new();
    char *html = written(&c, "a.html", NULL, &n);
    CHECK_EQ(occurrences(html, "<script"), 2); // the page's own and its numbers
    CHECK_EQ(occurrences(html, "</script>"), 2);
    CHECK(strstr(html, "default-src 'none'") != NULL && strstr(html, "alert(1)</script>") == NULL);
    CHECK(strstr(html, " style=") == NULL);
    const char *from = strstr(html, "id=\"data\">");
    CHECK(from != NULL);
    json_error_t e;
    const char *end = strstr(from, "</script>");
    json_t *data = json_loadb(from + 10, (size_t)(end - from - 10), JSON_REJECT_DUPLICATES, &e);
    if (!data) fail_msg("%s", e.text);
    CHECK_EQ(json_array_size(data), 3); // a drawing for each width, of which the first has numbers
    for (size_t i = 0; i < 3; i++) CHECK_EQ(json_array_size(json_array_get(data, i)), 5);
    CHECK(!json_object_get(json_array_get(json_array_get(data, 1), 2), "values"));
    json_t *values = json_object_get(json_array_get(json_array_get(data, 0), 2), "values");
    CHECK_EQ(json_array_size(values), 30);
    CHECK(json_is_null(json_array_get(values, 7)));
    for (size_t i = 0; i < 30; i++)
        if (i != 7)
            CHECK_NEAR(json_number_value(json_array_get(values, i)), (double)cells[i], 1e-6);
    json_decref(data);
    free(html);
}

TEST(rotated_names_do_not_touch_and_sparse_names_are_all_drawn)
{
    enum { MOST = 70 };
    static float value[MOST];
    static const char *every[MOST], *sparse[MOST];
    for (int i = 0; i < MOST; i++) {
        every[i] = "notebooks";
        sparse[i] = i % 11 == 0 ? "frame" : NULL; // 0, 11, 22, ..., 66
    }
    folder_new();
    for (int64_t columns = 40; columns <= MOST; columns++)
        for (int few = 0; few < 2; few++) {
            const struct qkv_chart_grid grid = {
                .value = value, .rows = 1, .columns = columns, .column_label = few ? sparse : every
            };
            const struct qkv_chart_panel panel = { .name = "cells", .grid = &grid };
            const struct qkv_chart c = {
                .title = "title", .sentence = "sentence", .panel = &panel, .panels = 1, .across = 1
            };
            size_t bytes;
            double last = -INFINITY, x;
            int drawn = 0;
            char *svg = written(&c, "a.svg", NULL, &bytes);
            for (const char *at = svg; (at = strstr(at, "rotate(-50 ")) != NULL; at++, drawn++) {
                CHECK_EQ(sscanf(at, "rotate(-50 %lf", &x), 1);
                CHECK((x - last) * .766 > 12); // the sine; a line of 11 units is 12 high
                last = x;
            }
            CHECK(few ? drawn == (columns + 10) / 11 : drawn > 15);
            free(svg);
        }
}

// Checks that `text` has one element with the id `name`, which is `n` bytes long.
static void check_id(const char *text, const char *name, size_t n)
{
    char want[80];
    snprintf(want, sizeof want, " id=\"%.*s\"", (int)n, name);
    if (occurrences(text, want) != 1)
        fail_msg("%d elements with%s, expected 1", occurrences(text, want), want);
}

TEST(each_id_of_a_page_is_there_once_and_each_reference_leads_to_one)
{
    const struct qkv_chart c = whole();
    size_t n;
    folder_new();
    char *html = written(&c, "ids.html", NULL, &n), *svg = written(&c, "ids.svg", NULL, &n);
    for (int page = 0; page < 2; page++) {
        const char *text = page ? html : svg, *from = text;
        int hatches = 0, drawings = 0;
        for (const char *at = text; (at = strstr(at, " id=\"")) != NULL; at++)
            check_id(text, at + 5, strcspn(at + 5, "\""));
        for (; (from = strstr(from, "url(#")) != NULL; from++, hatches++)
            check_id(text, from + 5, strcspn(from + 5, ")"));
        for (from = text; (from = strstr(from, "aria-labelledby=\"")) != NULL; from++, drawings++)
            for (const char *at = from + 17; at[-1] != '"' || at == from + 17;) {
                const size_t bytes = strcspn(at, " \"");
                check_id(text, at, bytes);
                at += bytes + 1;
            }
        CHECK(hatches > 0);
        CHECK_EQ(drawings, page ? 3 : 1);
    }
    free(html);
    free(svg);
}

TEST(png_has_two_pixels_a_unit_and_carries_the_words)
{
    const struct qkv_chart c = whole();
    struct png light, again, dark;
    const struct qkv_chart_options o = { .theme = QKV_THEME_DARK };
    size_t n, svg_size;
    int w = 0, h = 0;
    folder_new();
    char *svg = written(&c, "a.svg", NULL, &svg_size), *at = strstr(svg, "width=\"");
    CHECK(at && sscanf(at, "width=\"%d\" height=\"%d\"", &w, &h) == 2);
    char *a = written(&c, "a.png", NULL, &n);
    CHECK(png_read(&light, (const uint8_t *)a, n));
    CHECK_EQ(light.width, 2 * w);
    CHECK_EQ(light.height, 2 * h);
    CHECK(light.title && light.words);
    free(a);
    a = written(&c, "b.png", NULL, &n);
    CHECK(png_read(&again, (const uint8_t *)a, n) && again.color == light.color);
    free(a);
    a = written(&c, "c.png", &o, &n);
    CHECK(png_read(&dark, (const uint8_t *)a, n));
    CHECK(dark.color != light.color);
    free(a);
    free(svg);
}

TEST(a_negative_number_of_a_table_has_a_minus_sign)
{
    static const char *const texts[] = { "distance", "-",  "-0.958", "-1e-05", "-3.2e+31",
                                         "a -5",     "-x", "1 - 5",  "-5 ms",  "0.5" };
    static const struct qkv_chart_table table = { "cosines", texts, 5, 2 };
    struct qkv_chart c = whole();
    size_t n;
    c.table = &table;
    folder_new();
    char *page = written(&c, "a.html", NULL, &n);
    CHECK(strstr(page, "<th>-</th>") && strstr(page, "<td>−0.958</td>"));
    CHECK(strstr(page, "<td>−1e−05</td>") && strstr(page, "<td>−3.2e+31</td>"));
    CHECK(strstr(page, "<td>a -5</td>") && strstr(page, "<td>-x</td>"));
    CHECK(strstr(page, "<td>1 - 5</td>") && strstr(page, "<td>-5 ms</td>"));
    free(page);
    char *text;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_OK); // to copy: ASCII
    CHECK(strstr(text, "-0.958") && !strstr(text, "−"));
    qkv_view_text_free(text);
}

TEST(the_terminal_keeps_its_width_and_its_character_set)
{
    const struct qkv_chart c = whole();
    for (int columns = 34; columns <= 200; columns += 83)
        for (int how = 0; how < 8; how++) {
            const struct qkv_chart_options o = {
                .columns = columns, .color = how & 1, .utf8 = how & 2, .truecolor = how & 4
            };
            char *text;
            CHECK_EQ(qkv_chart_terminal(&c, &text, &o, NULL), QKV_OK);
            const struct text_canvas s = { .utf8 = true };
            for (const char *at = text; *at;) {
                const size_t n = strcspn(at, "\n");
                if (text_canvas_width(&s, at, n) > columns)
                    fail_msg("%d columns, mode %d: %.*s", columns, how, (int)n, at);
                at += n + (at[n] == '\n');
            }
            for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
                CHECK((how & 2) || *at < 0x80);
                CHECK(*at >= 0x20 || *at == '\n' || ((how & 1) && *at == '\033'));
            }
            CHECK(strstr(text, "[31m\xe2\x80\xae") == NULL);
            qkv_view_text_free(text);
        }
}

TEST(numbers_of_a_small_grid_are_told)
{
    static const float w[4] = { 1, .25f, -.5f, 12.75f };
    const struct qkv_chart_grid g = { .value = w, .rows = 2, .columns = 2, .digits = 2 };
    const struct qkv_chart_panel p = { .grid = &g };
    const struct qkv_chart c = { .panel = &p, .panels = 1 };
    const struct qkv_chart_options o = { .columns = 60 };
    char *text;
    CHECK_EQ(qkv_chart_terminal(&c, &text, &o, NULL), QKV_OK);
    CHECK(strstr(text, "1.00") && strstr(text, "0.25") && strstr(text, "-0.50") &&
          strstr(text, "12.75"));
    qkv_view_text_free(text);
}

// More decimals than 64 bits hold are left out; numbers above 1e12 have an exponent.
TEST(numbers_of_a_grid_may_be_large_and_have_many_digits)
{
    static const float w[4] = { 1e12f, -.5f, -3.2e31f, .25f };
    static const int digits[] = { 2, 8, 19, 60 };
    EACH(n, digits)
    {
        const struct qkv_chart_grid g = { .value = w, .rows = 2, .columns = 2, .digits = *n };
        const struct qkv_chart_panel p = { .grid = &g };
        const struct qkv_chart c = { .panel = &p, .panels = 1 };
        const struct qkv_chart_options o = { .columns = 200 };
        char *text;
        CHECK_EQ(qkv_chart_terminal(&c, &text, &o, NULL), QKV_OK);
        if (!strstr(text, "-3.2e31") || !strstr(text, "-0.50") || strstr(text, "0.-") ||
            strstr(text, "-9223372036854775808"))
            fail_msg("%d digits: %s", *n, text);
        qkv_view_text_free(text);
    }
}

TEST(the_terminal_shows_a_table_alone)
{
    static const char *const ids[] = { "token", "id", "the", "1996", "cat", "4937" };
    const struct qkv_chart_table table = { "ids", ids, 3, 2 };
    const struct qkv_chart c = { .title = "Which ids?", .table = &table };
    char *text;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_OK);
    CHECK(!strcmp(text, "Which ids?\n\nids\ntoken    id\nthe    1996\ncat    4937\n"));
    qkv_view_text_free(text);
    folder_new();
    CHECK_EQ(qkv_chart_file(&c, folder_name("table.svg"), true, NULL, &err), QKV_ERR_USAGE);
}

TEST(a_chart_that_is_not_whole_is_refused)
{
    const struct qkv_chart good = whole();
    struct qkv_chart_panel p[5];
    struct qkv_chart_line l = *good.panel[0].line;
    struct qkv_chart_grid g = *good.panel[2].grid;
    struct qkv_chart c = good;
    char *text;
    memcpy(p, good.panel, sizeof p);
    c.panel = p;
    c.panels = 0;
    c.table = NULL;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_ERR_USAGE);
    CHECK(text == NULL);
    c.panels = 5;
    c.table = good.table;
    l.y = NULL;
    p[0].line = &l, p[0].lines = 1;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_ERR_USAGE);
    l = *good.panel[0].line;
    l.high = NULL;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_ERR_USAGE);
    l = *good.panel[0].line;
    l.hue = 17;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_ERR_USAGE);
    p[0] = good.panel[0];
    g.rows = INT64_MAX;
    p[2].grid = &g;
    CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_ERR_USAGE);
    qkv_error err = { 0 };
    folder_new();
    CHECK_EQ(qkv_chart_file(&good, folder_name("a.gif"), true, NULL, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, ".svg") != NULL);
    CHECK_EQ(qkv_chart_file(NULL, "a.svg", true, NULL, NULL), QKV_ERR_USAGE);
}

// Data without a range, without a point, of one point: still a picture.
TEST(data_at_their_edges_are_drawn)
{
    static const double same[3] = { 2, 2, 2 }, none[3] = { NAN, INFINITY, -INFINITY },
                        below[3] = { -1, 0, 1 };
    const struct qkv_chart_line l[4] = { { .y = same, .n = 3 },
                                         { .y = none, .n = 3 },
                                         { .y = same, .n = 1, .style = QKV_CHART_BARS },
                                         { .n = 0 } };
    folder_new();
    for (int i = 0; i < 5; i++)
        for (int log = 0; log < 2; log++) {
            const struct qkv_chart_line odd = { .y = below, .n = 3 };
            const struct qkv_chart_panel p = {
                .line = i < 4 ? &l[i] : &odd, .lines = 1, .y.log = log, .x.log = log
            };
            const struct qkv_chart c = { .panel = &p, .panels = 1 };
            size_t n;
            char *svg = written(&c, "a.svg", NULL, &n), *text;
            CHECK(!xml_wrong(svg) && !strstr(svg, "nan") && !strstr(svg, "inf\""));
            CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_OK);
            qkv_view_text_free(text);
            free(svg);
        }
}

// Their axes have ends and ticks, and the numbers of the page are valid JSON.
TEST(numbers_at_the_ends_of_doubles_are_left_out)
{
    static const double odd[] = { 5e-324, 1e308, -1e308, -INFINITY, NAN, 0, 2, 3 };
    static const float one = 1;
    const struct qkv_chart_line line = { .name = "a", .x = odd, .y = odd, .n = N };
    const struct qkv_chart_grid grid = { .value = &one, .rows = 1, .columns = 1 };
    struct qkv_chart_panel panel[3] = { { .line = &line, .lines = 1 },
                                        { .line = &line, .lines = 1 },
                                        { .grid = &grid, .height = 5e-324 } };
    folder_new();
    for (int how = 0; how < 16; how++) {
        char *text;
        size_t n;
        panel[0].x.log = panel[1].y.log =
            how & 1; // one of two that share the axis below each other
        panel[0].y =
            (struct qkv_chart_axis){ .low = how & 2 ? 2 : 0, .high = how & 2 ? -INFINITY : 0 };
        panel[0].height = how & 4 ? 1e-300 : 0;
        const struct qkv_chart c = {
            .title = "odd", .panel = panel, .panels = 3, .same_x = how & 8
        };
        CHECK_EQ(qkv_chart_terminal(&c, &text, NULL, NULL), QKV_OK);
        qkv_view_text_free(text);
        char *svg = written(&c, "odd.svg", NULL, &n), *html = written(&c, "odd.html", NULL, &n);
        const char *wrong = xml_wrong(svg);
        if (wrong) fail_msg("%s", wrong);
        const char *from = strstr(html, "id=\"data\">") + 10, *end = strstr(from, "</script>");
        json_t *data = json_loadb(from, (size_t)(end - from), 0, NULL);
        CHECK(data != NULL);
        json_decref(data);
        free(svg);
        free(html);
    }
}

TEST(inks_can_be_read_on_the_ramp)
{
    for (int dark = 0; dark < 2; dark++)
        for (int color = PALETTE_RAMP; color < PALETTE_OVER; color++) {
            const uint32_t c[2] = { palette_rgb(color, dark),
                                    palette_rgb(palette_over(color), dark) };
            double l[2];
            for (int k = 0; k < 2; k++) {
                static const double share[3] = { .2126, .7152, .0722 };
                l[k] = 0;
                for (int i = 0; i < 3; i++) {
                    const double x = (c[k] >> (16 - 8 * i) & 255) / 255.0;
                    l[k] += share[i] * (x <= .04045 ? x / 12.92 : pow((x + .055) / 1.055, 2.4));
                }
            }
            CHECK((fmax(l[0], l[1]) + .05) / (fmin(l[0], l[1]) + .05) >= 4.5); // WCAG 2.2, AA
        }
    CHECK_EQ(palette_weight(0), PALETTE_RAMP);
    CHECK_EQ(palette_weight(1), PALETTE_RAMP + PALETTE_STEPS);
    CHECK_EQ(palette_rgb(PALETTE_RAMP + PALETTE_STEPS, false), view_ramp_rgb[0][8]);
    // the ramps of kinds go from paper to the colour of the kind at three quarters
    for (int kind = 0; kind < PALETTE_KINDS; kind++)
        for (int dark = 0; dark < 2; dark++) {
            const int ramp = PALETTE_KIND + kind * (PALETTE_SHADES + 1);
            CHECK_EQ(palette_rgb(ramp, dark), palette_rgb(PALETTE_PAPER, dark));
            CHECK_EQ(palette_rgb(ramp + PALETTE_SHADES * 3 / 4, dark),
                     palette_rgb(palette_kind(kind), dark));
        }
}

static qkv_status flow(void *ctx, qkv_error *err)
{
    const struct qkv_chart *c = ctx;
    char path[1024], *text = NULL;
    qkv_status status = qkv_chart_terminal(c, &text, NULL, err);
    static const char *const ends[] = { "a.svg", "a.html", "a.png" }; // the slowest last: it is
    for (int i = 0; i < 3 && !status;
         i++) { // painted again only for the allocations that are its own
        snprintf(path, sizeof path, "%s", folder_name(ends[i]));
        status = qkv_chart_file(c, path, true, NULL, err);
    }
    qkv_view_text_free(text);
    return status;
}

TEST(texts_have_the_minus_sign_of_the_numbers)
{
    static const double y[3] = { 1, -2, 3 };
    const struct qkv_chart_line l = { .y = y, .n = 3 };
    const struct qkv_chart_panel p = {
        .name = "s = q - k", .note = "2^(-8 h)", .line = &l, .lines = 1
    };
    const struct qkv_chart c = {
        .title = "A-b 1-2?", .sentence = "From -0.5 to -.2 by --x.", .panel = &p, .panels = 1
    };
    size_t n;
    folder_new();
    for (int page = 0; page < 2; page++) {
        char *text = written(&c, page ? "minus.html" : "minus.svg", NULL, &n);
        CHECK(strstr(text, "s = q − k") && strstr(text, "2^(−8 h)"));
        CHECK(strstr(text, "From −0.5 to −.2 by --x.") && strstr(text, "A-b 1-2?"));
        free(text);
    }
}

TEST(failed_allocations_are_survived)
{
    static const float w[4] = { 1, .25f, -.5f, 12.75f };
    static const double y[3] = { 1, 2, 3 };
    const struct qkv_chart_grid g = { .value = w, .rows = 2, .columns = 2 };
    const struct qkv_chart_line l = { .name = "line", .y = y, .n = 3 };
    const struct qkv_chart_panel p[2] = { { .name = "cells", .grid = &g },
                                          { .name = "lines", .line = &l, .lines = 1 } };
    struct qkv_chart c = { .title = "What?", .sentence = "This.", .panel = p, .panels = 2 };
    folder_new();
    CHECK(faults_walk(flow, &c, true) > 20);
}

TEST(the_text_of_a_weight_needs_no_memory)
{
    static const struct {
        double w;
        int digits;
        const char *text;
    } rows[] = { { .64, 3, ".640" },
                 { 1, 3, "1.000" },
                 { -.5, 2, ".00" },
                 { .00543, 4, ".0054" },
                 { NAN, 3, "!" },
                 { INFINITY, 3, "!" },
                 { .5, -1, "1" },
                 { 1e30, 0, "1000000000000" },
                 { .5, 99, ".50000000000000000" } };
    EACH(r, rows)
    {
        char out[QKV_WEIGHT_BYTES];
        bool hit;
        faults_begin(1, true);
        CHECK_TEXT(qkv_weight_text(out, r->w, r->digits), r->text);
        CHECK_EQ(faults_end(&hit), 0);
        CHECK(!hit);
    }
}

CHECK_MAIN(CASE(the_text_of_a_weight_needs_no_memory), CASE(svg_is_well_formed_and_the_same_twice),
           CASE(no_word_covers_another_word_or_a_point),
           CASE(a_page_asks_nobody_and_takes_names_for_text),
           CASE(each_id_of_a_page_is_there_once_and_each_reference_leads_to_one),
           CASE(rotated_names_do_not_touch_and_sparse_names_are_all_drawn),
           CASE(png_has_two_pixels_a_unit_and_carries_the_words),
           CASE(a_negative_number_of_a_table_has_a_minus_sign),
           CASE(texts_have_the_minus_sign_of_the_numbers),
           CASE(the_terminal_keeps_its_width_and_its_character_set),
           CASE(numbers_of_a_small_grid_are_told),
           CASE(numbers_of_a_grid_may_be_large_and_have_many_digits),
           CASE(the_terminal_shows_a_table_alone), CASE(a_chart_that_is_not_whole_is_refused),
           CASE(data_at_their_edges_are_drawn), CASE(numbers_at_the_ends_of_doubles_are_left_out),
           CASE(inks_can_be_read_on_the_ramp), CASE(failed_allocations_are_survived))
