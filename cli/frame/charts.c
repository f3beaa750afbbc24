// SPDX-License-Identifier: MIT
// charts.c: prints a chart in the terminal, writes it to a file, or prints its numbers as JSON.
#include "frame/charts.h"
#include <stdlib.h>
#include <string.h>

const char *const chart_themes[] = { "auto", "light", "dark", NULL };

bool chart_takes_stdout(const struct chart_output *to)
{
    return to->path && cmd_is_stdout(to->path);
}

qkv_status chart_output_check(struct chart_output *to, qkv_error *err)
{
    static const char *const endings[] = { ".svg", ".png", ".html", ".htm" };
    const qkv_status status = cmd_output_stdout(&to->path, err);
    if (status || !to->path) return status;
    bool known = chart_takes_stdout(to);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        known = known || cmd_ends_with(to->path, endings[i]);
    if (!known)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "-o: expected a name that ends with .svg, .png or .html, found '%s'",
                         to->path);
    return cmd_output_check(to->path, err);
}

// ---- JSON --------------------------------------------------------------------------------------
static void put_text(const char *text)
{
    if (text)
        cmd_json_text(stdout, text, strlen(text));
    else
        fputs("null", stdout);
}

static void put_texts(const char *const *text, int64_t n)
{
    putchar('[');
    for (int64_t i = 0; i < n; i++) {
        if (i) putchar(',');
        put_text(text[i]);
    }
    putchar(']');
}

static void put_numbers(const double *x, int64_t n)
{
    putchar('[');
    for (int64_t i = 0; i < n; i++) {
        if (i) putchar(',');
        cmd_json_float(stdout, (float)x[i]);
    }
    putchar(']');
}

static void put_line(const struct qkv_chart_line *l)
{
    fputs("{\"name\":", stdout);
    put_text(l->name);
    if (l->x) {
        fputs(",\"x\":", stdout);
        put_numbers(l->x, l->n);
    }
    fputs(",\"y\":", stdout);
    put_numbers(l->y, l->n);
    if (l->text) {
        fputs(",\"text\":", stdout);
        put_texts(l->text, l->n);
    }
    putchar('}');
}

static void put_grid(const struct qkv_chart_grid *g)
{
    if (g->row_label) {
        fputs(",\"rows\":", stdout);
        put_texts(g->row_label, g->rows);
    }
    if (g->column_label) {
        fputs(",\"columns\":", stdout);
        put_texts(g->column_label, g->columns);
    }
    fputs(",\"values\":[", stdout);
    for (int64_t i = 0; i < g->rows; i++) {
        fputs(i ? ",[" : "[", stdout);
        for (int64_t j = 0; j < g->columns; j++) {
            if (j) putchar(',');
            cmd_json_float(stdout, g->value[i * g->columns + j]);
        }
        putchar(']');
    }
    putchar(']');
}

static void put_panel(const struct qkv_chart_panel *p)
{
    fputs("{\"name\":", stdout);
    put_text(p->name);
    fputs(",\"x\":", stdout);
    put_text(p->x.name);
    fputs(",\"y\":", stdout);
    put_text(p->y.name);
    if (p->grid) {
        put_grid(p->grid);
    } else {
        fputs(",\"lines\":[", stdout);
        for (int64_t i = 0; i < p->lines; i++) {
            if (i) putchar(',');
            put_line(&p->line[i]);
        }
        putchar(']');
    }
    putchar('}');
}

static void print_json(const struct qkv_chart *c, const char *path)
{
    fputs("{\"title\":", stdout);
    put_text(c->title);
    fputs(",\"sentence\":", stdout);
    put_text(c->sentence);
    fputs(",\"file\":", stdout);
    put_text(path);
    fputs(",\"panels\":[", stdout);
    for (int64_t i = 0; i < c->panels; i++) {
        if (i) putchar(',');
        put_panel(&c->panel[i]);
    }
    fputs("],\"table\":[", stdout);
    for (int64_t i = 0; c->table && i < c->table->rows; i++) {
        if (i) putchar(',');
        put_texts(c->table->cell + i * c->table->columns, c->table->columns);
    }
    puts("]}");
}

// ---- printing the picture ----------------------------------------------------------------------
struct qkv_chart_options chart_terminal(const struct chart_output *to)
{
    const char *depth = getenv("COLORTERM");
    const enum qkv_view_theme ground = cmd_dark() ? QKV_THEME_DARK : QKV_THEME_LIGHT;
    return (struct qkv_chart_options){
        .theme = to->theme ? (enum qkv_view_theme)to->theme : ground,
        .columns = to->width ? (int)to->width : cmd_columns(),
        .color = cmd_color(stdout),
        .truecolor = depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit")),
        .utf8 = cmd_utf8(),
    };
}

static qkv_status print_picture(const struct qkv_chart *c, const struct chart_output *to,
                                qkv_error *err)
{
    const struct qkv_chart_options how = chart_terminal(to);
    char *text;
    const qkv_status status = qkv_chart_terminal(c, &text, &how, err);
    if (!status) fputs(text, stdout);
    qkv_view_text_free(text);
    return status;
}

void chart_print_path(const char *path)
{
    putchar('\n');
    cmd_print_name(stdout, path);
    putchar('\n');
}

qkv_status chart_print(const struct qkv_chart *c, const struct chart_output *to, qkv_error *err)
{
    const struct qkv_chart_options how = { .theme = (enum qkv_view_theme)to->theme };
    qkv_status status = QKV_OK;
    if (to->path) status = cmd_chart_file(c, to->path, &how, err);
    if (status || chart_takes_stdout(to)) return status;
    if (common.json) {
        print_json(c, to->path);
        return QKV_OK;
    }
    status = print_picture(to->told ? to->told : c, to, err);
    if (!status && to->path) chart_print_path(to->path);
    return status;
}
