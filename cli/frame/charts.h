// SPDX-License-Identifier: MIT
// charts.h: declares how commands output a chart: in the terminal, to a file, or as JSON, always
// with the same numbers.
#ifndef QKV_CHARTS_H
#define QKV_CHARTS_H

#include "frame/cmd.h"

struct chart_output {
    const char *path; // name of the output file; NULL: the chart is only printed
    int theme;        // enum qkv_view_theme
    int64_t width;    // width of the printed picture in columns; 0: as wide as the terminal
    const struct qkv_chart *told; // chart that the terminal shows instead; NULL: the same
};
extern const char *const chart_themes[];
#define CHART_LOOK_OPTIONS(to)                                                                     \
    OPT_CHOICE(0, "theme", &(to).theme, chart_themes, "NAME",                                      \
               "auto, light or dark (auto: in a file as the reader's system, in the terminal as "  \
               "set in COLORFGBG, or dark)"),                                                      \
        OPT_INT(                                                                                   \
            0, "width", &(to).width, 1, 500, "N",                                                  \
            "width of the picture in the terminal, in columns (default: that of the terminal)")
#define CHART_OPTIONS(to)                                                                          \
    OPT_GROUP("Picture"),                                                                          \
        OPT_OUTPUT(                                                                                \
            'o', "output", &(to).path, "FILE",                                                     \
            "also write the picture to FILE, as .svg, .png or .html; '-' is standard output, "     \
            "which gets the SVG and no picture for the terminal"),                                 \
        CHART_LOOK_OPTIONS(to)

// Checks that the output file has an ending for charts and can be written. Called before the
// command computes anything.
qkv_status chart_output_check(struct chart_output *to, qkv_error *err);
// Returns true if the chart file is written to standard output; nothing else may then be printed
// there.
bool chart_takes_stdout(const struct chart_output *to);
// Returns the options for printing a picture on this terminal, with the theme and the width of
// `to`.
struct qkv_chart_options chart_terminal(const struct chart_output *to);
// Prints the name of the file to which a chart was written, after an empty line.
void chart_print_path(const char *path);
// Writes the chart to its file, if it has one. Also prints it as a picture or, with --json, its
// numbers.
qkv_status chart_print(const struct qkv_chart *c, const struct chart_output *to, qkv_error *err);

// ---- picture files (pictures.c) ----------------------------------------------------------------
// A PNG file is written by a child process: cairo and fontconfig, which paint it, may end their
// process when memory runs out, and that must be an error of the command like any other.
//
// These functions call the function of the library of the same name, with common.force. For PNG
// they return QKV_ERR_LIMIT, which names the file, if the child process was ended by a signal or
// by a library.
qkv_status cmd_chart_file(const struct qkv_chart *c, const char *path,
                          const struct qkv_chart_options *o, qkv_error *err);
qkv_status cmd_plot_file(const qkv_plot *p, const char *path, const struct qkv_chart_options *o,
                         qkv_error *err);
qkv_status cmd_view_picture(const qkv_view *v, const char *path, const struct qkv_view_options *o,
                            qkv_error *err);
qkv_status cmd_diagram_file(const struct qkv_structure *m, const char *name, const char *path,
                            enum qkv_view_theme theme, qkv_error *err);
#endif
