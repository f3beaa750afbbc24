// SPDX-License-Identifier: MIT
// chart_file.c: writes a chart to a file: as SVG, as PNG, or as an HTML page that needs no other
// file.
#include "view/chart/chart_internal.h"
#include "view/page/compress.h"
#include <string.h>

// ---- the page -----------------------------------------------------------------------------------
// A page has a drawing for each of these widths; chart.css selects the one for the screen.
enum { DRAWINGS = 3 };
static const double drawing_width[DRAWINGS] = { CHART_WIDTH - 2 * CHART_MARGIN, 560, 340 };
static const char *const drawing_id[DRAWINGS] = { "wide", "medium", "narrow" };
struct page {
    struct canvas drawing[DRAWINGS];
    struct chart_frame frame[DRAWINGS];
};

static void put_plain(struct view_text *t, const char *text)
{
    struct view_text plain = { 0 };
    if (!text) return;
    view_plain_text(&plain, text, strlen(text), 1 << 16);
    t->failed |= plain.failed;
    if (plain.at) view_html_text(t, plain.at, (size_t)plain.used);
    view_text_free(&plain);
}

// Writes the content security policy of the page. It contains the hash of `style` (the style of the
// page and of the picture), which is computed here, since every picture has another style.
static void put_policy(struct view_text *t, const struct view_text *style)
{
    char script[45] = "", observation[45] = "", hex[QKV_SHA256_TEXT];
    uint8_t sum[32];
    qkv_sha256(hex, style->at ? style->at : "", (size_t)style->used);
    for (int i = 0; i < 32; i++) {
        const char *d = hex + 2 * i;
        const int a = d[0] <= '9' ? d[0] - '0' : d[0] - 'a' + 10;
        const int b = d[1] <= '9' ? d[1] - '0' : d[1] - 'a' + 10;
        sum[i] = (uint8_t)(16 * a + b);
    }
    view_base64(script, view_chart_script_sha256, 32);
    view_base64(observation, sum, 32);
    view_say(t,
             "default-src 'none'; script-src 'sha256-%.44s'; style-src 'sha256-%.44s'; "
             "base-uri 'none'; form-action 'none'",
             script, observation);
}

// Writes a cell of a table. A negative number has the minus sign of the picture.
static void put_cell(struct view_text *t, const char *text)
{
    if (!text || text[0] != '-' || !text[1] || text[1 + strspn(text + 1, "0123456789.e+-")]) {
        put_plain(t, text);
        return;
    }
    for (; *text; text++)
        if (*text == '-')
            view_say(t, "−");
        else
            view_put(t, text, 1);
}

// Writes the numbers of a chart as an HTML table, for readers who do not see the picture.
static void put_table(struct view_text *t, const struct qkv_chart_table *table)
{
    if (!table) return;
    view_say(t, "<table>\n<caption>");
    put_plain(t, table->name);
    view_say(t, "</caption>\n");
    for (int64_t r = 0; r < table->rows; r++) {
        view_say(t, r ? "<tr>" : "<thead><tr>");
        for (int64_t c = 0; c < table->columns; c++) {
            view_say(t, r ? "<td>" : "<th>");
            put_cell(t, table->cell[r * table->columns + c]);
            view_say(t, r ? "</td>" : "</th>");
        }
        view_say(t, r ? "</tr>\n" : "</tr></thead>\n");
    }
    view_say(t, "</table>\n");
}

static void put_header(struct view_text *t, const struct qkv_chart *c,
                       const struct view_text *style, enum qkv_view_theme theme)
{
    view_say(t,
             "<!doctype html>\n<html lang=\"en\"%s>\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"",
             theme == QKV_THEME_DARK    ? " data-theme=\"dark\""
             : theme == QKV_THEME_LIGHT ? " data-theme=\"light\""
                                        : "");
    put_policy(t, style);
    view_say(t, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<title>qkv: ");
    put_plain(t, c->subject ? c->subject : c->title);
    view_say(t, "</title>\n<style>");
    view_put(t, style->at ? style->at : "", (size_t)style->used);
    view_say(t, "</style>\n<script>");
    view_put(t, (const char *)view_chart_script, view_chart_script_size);
    view_say(t, "</script>\n</head>\n<body>\n<header><span class=\"wordmark\">qkv</span>"
                "<span class=\"here\">");
    put_plain(t, c->view ? c->view : "Chart");
    view_say(t, "</span><span class=\"model\">");
    put_plain(t, c->subject);
    view_say(t,
             "</span><button id=\"theme\" type=\"button\">Theme <kbd>D</kbd></button></header>\n");
}

static void put_page(struct view_text *t, const struct qkv_chart *c, const struct page *page,
                     enum qkv_view_theme theme)
{
    struct view_text style = { 0 };
    view_put(&style, (const char *)view_chart_style, view_chart_style_size);
    canvas_page_style(&style, page->drawing, DRAWINGS);
    put_header(t, c, &style, theme);
    view_say(t, "<main>\n<section>\n<h1>");
    put_plain(t, c->title);
    view_say(t, "</h1>\n<p class=\"sentence\">");
    put_plain(t, c->sentence);
    view_say(t, "</p>\n<div id=\"stage\" tabindex=\"0\" role=\"group\" aria-label=\"");
    put_plain(t, c->title);
    view_say(t, "\">\n");
    for (int i = 0; i < DRAWINGS; i++)
        canvas_svg_inner(t, page->drawing, DRAWINGS, i, drawing_id[i]);
    view_say(t, "</div>\n</section>\n<aside>\n");
    put_table(t, c->table);
    view_say(t, "<p id=\"under\" aria-live=\"polite\"></p>\n<table id=\"numbers\"></table>\n"
                "</aside>\n</main>\n<footer><span><kbd>\xE2\x86\x90 \xE2\x86\x92</kbd> next numbers"
                "</span><span><kbd>\xE2\x86\x91 \xE2\x86\x93</kbd> row, panel</span>"
                "<span><kbd>D</kbd> theme</span></footer>\n"
                "<script type=\"application/json\" id=\"data\">[");
    for (int i = 0; i < DRAWINGS; i++) {
        const struct view_text *frame = &page->frame[i].text;
        view_say(t, i ? ",[" : "[");
        if (frame->at) view_put(t, frame->at, (size_t)frame->used);
        view_put(t, "]", 1);
        t->failed |= frame->failed || canvas_failed(&page->drawing[i]);
    }
    view_say(t, "]</script>\n</body>\n</html>\n");
    t->failed |= style.failed;
    view_text_free(&style);
}

static qkv_status write_page(const struct qkv_chart *c, chart_drawing *draw, const void *of,
                             const char *path, bool force, enum qkv_view_theme theme,
                             qkv_error *err)
{
    struct page page = { .drawing = { { .width = 0 } } };
    struct view_text t = { 0 };
    struct qkv_output out = { .fd = -1 };
    for (int i = 0; i < DRAWINGS; i++) {
        canvas_init(&page.drawing[i], path);
        canvas_new(&page.drawing[i], drawing_width[i], c->title, c->sentence);
        page.frame[i].only_places = i > 0;
        draw(&page.drawing[i], of, false, &page.frame[i]);
    }
    put_page(&t, c, &page, theme);
    qkv_status status = t.failed ? qkv_fail_memory(err, path) : QKV_OK;
    if (!status) status = qkv_output_open(&out, path, force, err);
    if (!status) status = qkv_output_write(&out, t.at, (size_t)t.used, err);
    if (!status) status = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    view_text_free(&t);
    for (int i = 0; i < DRAWINGS; i++) {
        canvas_free(&page.drawing[i]);
        view_text_free(&page.frame[i].text);
    }
    return status;
}

qkv_status chart_write(const struct qkv_chart *c, chart_drawing *draw, const void *of,
                       const char *path, bool force, enum qkv_view_theme theme, qkv_error *err)
{
    const bool html = path && (qkv_ends_with(path, ".html") || qkv_ends_with(path, ".htm"));
    struct canvas s;
    if (!path || !(html || canvas_is_picture_name(path)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "the chart has an unknown format, expected a name that ends with .svg, "
                        ".png or .html, found '%s'",
                        path ? path : "");
    if (html) return write_page(c, draw, of, path, force, theme, err);
    canvas_init(&s, path);
    canvas_new(&s, CHART_WIDTH, c->title, c->sentence);
    draw(&s, of, true, NULL);
    const qkv_status status = canvas_file(&s, path, force, theme, err);
    canvas_free(&s);
    return status;
}

static void draw_chart(struct canvas *s, const void *of, bool head, struct chart_frame *frame)
{
    chart_draw(s, of, head, frame);
}

qkv_status qkv_chart_file(const struct qkv_chart *c, const char *path, bool force,
                          const struct qkv_chart_options *o, qkv_error *err)
{
    struct chart_minus m;
    qkv_status status = chart_check(c, false, err);
    if (!status) status = chart_minus(&m, c, err);
    if (status) return status;
    status = chart_write(&m.chart, draw_chart, &m.chart, path, force, o ? o->theme : QKV_THEME_AUTO,
                         err);
    chart_minus_free(&m);
    return status;
}
