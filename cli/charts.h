// SPDX-License-Identifier: MIT
// charts.h: how a command shows a chart: in the terminal, as a file, as JSON; always the same
// numbers.
#ifndef QKV_CHARTS_H
#define QKV_CHARTS_H

#include "cmd.h"

struct chart_output {
    const char *path; // NULL: the terminal alone
    int theme;        // enum qkv_view_theme
    int64_t width;    // columns; 0: the terminal's
};
extern const char *const chart_themes[];
#define CHART_LOOK_OPTIONS(to)                                                                     \
    OPT_CHOICE(0, "theme", &(to).theme, chart_themes, "NAME",                                      \
               "auto, light or dark (auto: the reader's system; here COLORFGBG, else dark)"),      \
        OPT_INT(0, "width", &(to).width, 1, 500, "N",                                              \
                "columns of the terminal picture (default: the terminal's)")
#define CHART_OPTIONS(to)                                                                          \
    OPT_GROUP("Picture"),                                                                          \
        OPT_TEXT('o', "output", &(to).path, "FILE",                                                \
                 "also write the picture: .svg, .png or .html by the name's end; '-' is standard " \
                 "output (SVG), without the picture here"),                                        \
        CHART_LOOK_OPTIONS(to)

// Before any compute: may the file be written, and is it of a kind that charts have?
qkv_status chart_output_check(struct chart_output *to, qkv_error *err);
// Is the file standard output, so that nothing else may be printed there?
bool chart_takes_stdout(const struct chart_output *to);
// A picture on this terminal, with the theme and the width that were asked for.
struct qkv_chart_options chart_terminal(const struct chart_output *to);
// The file, if one was asked for, then the picture here; with --json the numbers instead of it.
qkv_status chart_print(const struct qkv_chart *c, const struct chart_output *to, qkv_error *err);
#endif
