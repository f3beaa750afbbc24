// SPDX-License-Identifier: MIT
// charts.h: declares the output of a chart: printed in the terminal, written to a file, or printed
// as JSON, with the same numbers.
#ifndef QKV_CHARTS_H
#define QKV_CHARTS_H

#include "frame/cmd.h"

struct chart_output {
    const char *path; // output file; NULL: only the terminal
    int theme;        // enum qkv_view_theme
    int64_t width;    // width of the picture in columns; 0: the width of the terminal
};
extern const char *const chart_themes[];
#define CHART_LOOK_OPTIONS(to)                                                                     \
    OPT_CHOICE(0, "theme", &(to).theme, chart_themes, "NAME",                                      \
               "auto, light or dark (auto: as the reader's system; in the terminal COLORFGBG, "    \
               "else dark)"),                                                                      \
        OPT_INT(0, "width", &(to).width, 1, 500, "N",                                              \
                "columns of the terminal picture (default: the terminal's)")
#define CHART_OPTIONS(to)                                                                          \
    OPT_GROUP("Picture"),                                                                          \
        OPT_TEXT('o', "output", &(to).path, "FILE",                                                \
                 "also write the picture: .svg, .png or .html by the ending; '-' is standard "     \
                 "output (SVG), without the picture in the terminal"),                             \
        CHART_LOOK_OPTIONS(to)

// Checks, before any computation, that the file can be written and has the ending of a chart.
qkv_status chart_output_check(struct chart_output *to, qkv_error *err);
// Returns whether the chart is written to standard output: then nothing else may be printed there.
bool chart_takes_stdout(const struct chart_output *to);
// Returns the options for printing a picture on this terminal, with the theme and the width of
// `to`.
struct qkv_chart_options chart_terminal(const struct chart_output *to);
// Writes the chart to the output file, if there is one, and prints it as a picture; with --json it
// prints the numbers instead of the picture.
qkv_status chart_print(const struct qkv_chart *c, const struct chart_output *to, qkv_error *err);
#endif
