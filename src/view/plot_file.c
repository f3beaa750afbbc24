// SPDX-License-Identifier: MIT
// plot_file.c: what stands around curves in a file: an SVG picture, or one HTML page that asks
// nobody for anything.
#include "view/plot.h"
#include <inttypes.h>
#include <string.h>

enum {
    LINE = 112,
    PAGE_BINS = 240
}; // characters of a line of the sentence in SVG; points of a series in a page

// The sentence as lines of SVG text; returns the y below.
static double draw_sentence(struct view_text *t, const char *text, double y)
{
    for (const char *at = text; *at;) {
        size_t n = strlen(at);
        if (n > LINE) {
            for (n = LINE; n && at[n] != ' ';) n--;
            if (!n) n = LINE;
        }
        view_say(t, "<text class=\"sentence\" x=\"0\" y=\"");
        view_number(t, y, 0);
        view_say(t, "\">");
        view_html_text(t, at, n);
        view_say(t, "</text>\n");
        at += n;
        while (*at == ' ') at++;
        y += 22;
    }
    return y;
}

static void open_svg(struct view_text *t, const struct qkv_plot *p, const char *sentence,
                     double height)
{
    view_say(t,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"curves\" viewBox=\"-24 0 %d %d\" "
             "width=\"%d\" height=\"%d\" role=\"img\" aria-labelledby=\"what finding\">\n"
             "<title id=\"what\">%s</title>\n<desc id=\"finding\">",
             PLOT_WIDTH + 48, (int)height, PLOT_WIDTH + 48, (int)height, plot_question(p));
    view_html_text(t, sentence, strlen(sentence));
    view_say(t, "</desc>\n");
}

// Body of the curves from y on, and where they end.
static double draw_body(struct view_text *t, struct view_text *frame, const struct qkv_plot *p,
                        double y)
{
    return p->probes ? plot_draw_heads(t, frame, p, y) : plot_draw(t, frame, p, y);
}

static void write_svg(struct view_text *t, const struct qkv_plot *p, const char *sentence,
                      enum qkv_view_theme theme)
{
    struct view_text body = { 0 }, head = { 0 };
    double y = draw_sentence(&head, sentence, 66);
    y = draw_body(&body, NULL, p, y - 16);
    open_svg(t, p, sentence, y + 12);
    view_say(t, "<style>");
    view_put(t, (const char *)view_plot_style, view_plot_style_size);
    view_say(t,
             "</style>\n<g%s>\n<rect class=\"paper\" x=\"-24\" y=\"0\" width=\"%d\" "
             "height=\"%d\"/>\n<text class=\"question\" x=\"0\" y=\"36\">%s</text>\n",
             theme == QKV_THEME_DARK    ? " data-theme=\"dark\""
             : theme == QKV_THEME_LIGHT ? " data-theme=\"light\""
                                        : "",
             PLOT_WIDTH + 48, (int)y + 12, plot_question(p));
    t->failed |= head.failed || body.failed;
    if (head.at) view_put(t, head.at, (size_t)head.used);
    if (body.at) view_put(t, body.at, (size_t)body.used);
    view_say(t, "</g>\n</svg>\n");
    view_text_free(&head);
    view_text_free(&body);
}

// ---- the page ----------------------------------------------------------------------------------
static void write_policy(struct view_text *t)
{
    char script[45] = "", style[45] = "";
    view_base64(script, view_plot_script_sha256, 32);
    view_base64(style, view_plot_style_sha256, 32);
    view_say(t,
             "default-src 'none'; script-src 'sha256-%.44s'; style-src 'sha256-%.44s'; "
             "base-uri 'none'; form-action 'none'",
             script, style);
}

// Series as [[step, value], ...] for the reader's pointer.
static void write_series(struct view_text *t, const struct qkv_plot *p, const struct plot_series *s)
{
    struct plot_bin b[PLOT_BINS];
    const int n = plot_bins(b, s, p->first, p->last, PAGE_BINS);
    view_put(t, "[", 1);
    for (int i = 0; i < n; i++) {
        view_say(t, i ? ",[" : "[");
        view_number(t, b[i].step, 0);
        view_put(t, ",", 1);
        chart_json(t, b[i].mean);
        view_put(t, "]", 1);
    }
    view_put(t, "]", 1);
}

static void write_data(struct view_text *t, const struct qkv_plot *p, const struct view_text *frame)
{
    static const char *const names[PLOT_KINDS] = { "loss", "valid", "rate", "norm" };
    view_say(t, "{\"first\":%" PRId64 ",\"last\":%" PRId64 ",\"left\":%d,\"right\":%d,\"panels\":[",
             p->first, p->last, PLOT_LEFT, PLOT_WIDTH - PLOT_RIGHT);
    if (frame->at) view_put(t, frame->at, (size_t)frame->used);
    view_say(t, "],\"runs\":[");
    for (int64_t r = 0; r < p->runs && !p->probes; r++) {
        view_say(t, r ? ",{\"name\":" : "{\"name\":");
        view_json_text(t, p->run[r].name, strlen(p->run[r].name));
        for (int k = 0; k < PLOT_KINDS; k++) {
            view_say(t, ",\"%s\":", names[k]);
            write_series(t, p, &p->run[r].series[k]);
        }
        view_put(t, "}", 1);
    }
    view_say(t, "]}");
}

// The end of each run as a table: the same for those who do not see curves.
static void write_table(struct view_text *t, const struct qkv_plot *p)
{
    view_say(t,
             "<table>\n<caption>At the end</caption>\n<thead><tr><th>run</th><th>steps</th>"
             "<th>training</th><th>validation</th><th>least</th><th>at step</th></tr></thead>\n");
    for (int64_t r = 0; r < p->runs; r++) {
        const struct qkv_plot_info i = qkv_plot_info(p, r);
        const double numbers[] = { i.last, i.valid, i.best };
        view_say(t, "<tr><td><i class=\"swatch b%d\"></i>", (int)(r % 16));
        view_html_text(t, i.name, strlen(i.name));
        view_say(t, "</td><td>");
        view_count(t, i.steps);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            view_say(t, "</td><td>");
            if (numbers[k] == numbers[k]) view_number(t, numbers[k], 4);
        }
        view_say(t, "</td><td>");
        if (i.best_step >= 0) view_count(t, i.best_step);
        view_say(t, "</td></tr>\n");
    }
    view_say(t, "</table>\n");
}

static void write_names(struct view_text *t, const struct qkv_plot *p)
{
    for (int64_t r = 0; r < p->runs && r < 6; r++) {
        if (r) view_say(t, ", ");
        view_html_text(t, p->run[r].name, strlen(p->run[r].name));
    }
    if (p->runs > 6) view_say(t, " and %" PRId64 " more", p->runs - 6);
}

static void write_page(struct view_text *t, const struct qkv_plot *p, const char *sentence,
                       enum qkv_view_theme theme)
{
    struct view_text body = { 0 }, frame = { 0 };
    const double y = draw_body(&body, &frame, p, 0);
    view_say(t,
             "<!doctype html>\n<html lang=\"en\"%s>\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"",
             theme == QKV_THEME_DARK    ? " data-theme=\"dark\""
             : theme == QKV_THEME_LIGHT ? " data-theme=\"light\""
                                        : "");
    write_policy(t);
    view_say(t, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<title>qkv: ");
    write_names(t, p);
    view_say(t, "</title>\n<style>");
    view_put(t, (const char *)view_plot_style, view_plot_style_size);
    view_say(t, "</style>\n<script>");
    view_put(t, (const char *)view_plot_script, view_plot_script_size);
    view_say(t,
             "</script>\n</head>\n<body>\n<header><span class=\"wordmark\">qkv</span>"
             "<span class=\"here\">%s</span><span class=\"model\">",
             p->probes ? "Probes" : "Learning");
    write_names(t, p);
    view_say(t,
             "</span><button id=\"theme\" type=\"button\">Theme <kbd>D</kbd></button></header>\n"
             "<main>\n<section>\n<h1>%s</h1>\n<p class=\"sentence\">",
             plot_question(p));
    view_html_text(t, sentence, strlen(sentence));
    view_say(t, "</p>\n<div id=\"stage\" tabindex=\"0\" role=\"group\" aria-label=\"curves\">\n");
    open_svg(t, p, sentence, y + 12);
    t->failed |= body.failed || frame.failed;
    if (body.at) view_put(t, body.at, (size_t)body.used);
    view_say(t, "</svg>\n</div>\n</section>\n<aside>\n");
    if (!p->probes) {
        write_table(t, p);
        view_say(t, "<p id=\"under\" aria-live=\"polite\"></p>\n<table id=\"numbers\"></table>\n");
    }
    view_say(t,
             "</aside>\n</main>\n<footer>%s</footer>\n<script type=\"application/json\" "
             "id=\"data\">",
             p->probes ? "<span><kbd>D</kbd> theme</span>"
                       : "<span><kbd>\xE2\x86\x90 \xE2\x86\x92</kbd> step</span>"
                         "<span><kbd>D</kbd> theme</span><span>bands: least to largest of the "
                         "steps a point stands for</span>");
    write_data(t, p, &frame);
    view_say(t, "</script>\n</body>\n</html>\n");
    view_text_free(&body);
    view_text_free(&frame);
}

qkv_status qkv_plot_file(const qkv_plot *p, const char *path, bool force,
                         const struct qkv_plot_options *o, qkv_error *err)
{
    static const struct qkv_plot_options plain;
    struct view_text t = { 0 }, sentence = { 0 };
    struct qkv_output out = { .fd = -1 };
    if (!p || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_plot_file, expected a plot and a path");
    if (!o) o = &plain;
    plot_sentence(&sentence, p);
    const char *words = sentence.at ? sentence.at : "";
    qkv_status s = sentence.failed ? qkv_fail_memory(err, path) : QKV_OK;
    if (!s && o->html) write_page(&t, p, words, o->theme);
    if (!s && !o->html) write_svg(&t, p, words, o->theme);
    if (!s && t.failed) s = qkv_fail_memory(err, path);
    if (!s) s = qkv_output_open(&out, path, force, err);
    if (!s) s = qkv_output_write(&out, t.at, (size_t)t.used, err);
    if (!s) s = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    view_text_free(&t);
    view_text_free(&sentence);
    return s;
}
