// SPDX-License-Identifier: MIT
// page_picture.c: prints a page that has a picture of attention, the six steps of one query: in the
// terminal, to a file, or its numbers as JSON.
#include "explain/explain.h"
#include <qkv/picture.h>
#include <string.h>

static void put_text(const char *text)
{
    cmd_json_text(stdout, text, strlen(text));
}

static void put_array(const struct page_array *x)
{
    putchar(',');
    put_text(x->name);
    putchar(':');
    if (x->n >= 0) putchar('[');
    for (int64_t i = 0; i < (x->n < 0 ? 1 : x->n); i++) {
        if (i) putchar(',');
        if (x->text)
            put_text(x->text[i]);
        else
            cmd_json_float(stdout, (float)x->number[i]);
    }
    if (x->n >= 0) putchar(']');
}

static void print_json(const struct page *p, const char *path)
{
    fputs("{\"title\":", stdout);
    put_text(p->title);
    fputs(",\"sentence\":", stdout);
    put_text(p->sentence);
    fputs(",\"file\":", stdout);
    if (path)
        put_text(path);
    else
        fputs("null", stdout);
    for (int i = 0; i < p->arrays; i++) put_array(&p->array[i]);
    puts("}");
}

qkv_status page_print_picture(const struct page *p, const struct chart_output *to, qkv_error *err)
{
    const struct qkv_chart_options here = chart_terminal(to);
    struct qkv_view_options o = { .layer = &p->layer,
                                  .heads = &p->head,
                                  .head_count = 1,
                                  .token = &p->token,
                                  .special = p->special,
                                  .theme = (enum qkv_view_theme)to->theme,
                                  .view = "steps",
                                  .columns = here.columns,
                                  .color = here.color,
                                  .truecolor = here.truecolor,
                                  .utf8 = here.utf8 };
    const bool page =
        to->path && (cmd_ends_with(to->path, ".html") || cmd_ends_with(to->path, ".htm"));
    qkv_status status = QKV_OK;
    if (page)
        status = qkv_view_html(p->picture, to->path, common.force, &o, NULL, err);
    else if (to->path)
        status = cmd_view_picture(p->picture, to->path, &o, err);
    if (status || chart_takes_stdout(to)) return status;
    if (common.json) {
        print_json(p, to->path);
        return QKV_OK;
    }
    char *text;
    o.theme = here.theme;
    status = qkv_view_terminal(p->picture, &text, &o, err);
    if (status) return status;
    fputs(text, stdout);
    qkv_view_text_free(text);
    if (p->after) fputs(p->after, stdout);
    if (to->path) chart_print_path(to->path);
    return QKV_OK;
}
