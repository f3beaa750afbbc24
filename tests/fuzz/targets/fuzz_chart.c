// SPDX-License-Identifier: MIT
// fuzz_chart.c: draws a chart of any texts and numbers as SVG, HTML and for the terminal: each
// output is well-formed.  The input is four bytes of settings, texts separated by zero bytes, and
// the bytes of all are the numbers.
// Inputs have up to 256 bytes.
#include "fuzz/fuzz_outputs.h"
#include <math.h>
#include <qkv/chart.h>

enum { TEXTS = 8, POINTS = 12 };

static double number(uint8_t b)
{
    static const double values[] = { 0,      -0.,    NAN,    INFINITY, -INFINITY, 1e308,
                                     -1e308, 1e-308, 5e-324, 1e31,     1e12,      -1e12,
                                     .1,     99.5,   1e15,   123456789 };
    return b < 128 ? b - 64 : values[b & 15];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { MEMORY_FOLDER "/c.svg", MEMORY_FOLDER "/c.html" };
    if (size < 4) return 0;
    const uint8_t *set = data;
    struct fuzz_part part[TEXTS];
    char *text[TEXTS];
    fuzz_split(part, TEXTS, data + 4, size - 4);
    for (int i = 0; i < TEXTS; i++) {
        text[i] = fuzz_string(&part[i]);
        FUZZ_CHECK(text[i]);
    }
    double x[POINTS], y[POINTS];
    float cells[POINTS];
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = number(data[i % size]);
        y[i] = number(data[(i + POINTS) % size]);
        cells[i] = (float)y[i];
    }
    const char *labels[POINTS];
    for (int i = 0; i < POINTS; i++) labels[i] = text[i % TEXTS];
    const struct qkv_chart_line line[] = {
        { .name = text[0],
          .x = set[0] & 1 ? x : NULL,
          .y = y,
          .n = set[1] % (POINTS + 1),
          .text = set[0] & 2 ? labels : NULL,
          .hue = set[2] % 19 - 2,
          .style = (enum qkv_chart_style)(set[2] % QKV_CHART_STYLES),
          .low = set[0] & 4 ? x : NULL,
          .high = set[0] & 4 ? y : NULL },
        { .name = text[1], .y = x, .n = POINTS },
    };
    const struct qkv_chart_mark mark = { .x = x[0], .y = y[0], .text = text[2] };
    const struct qkv_chart_grid grid = { .value = cells,
                                         .rows = 1 + set[1] % 3,
                                         .columns = 1 + set[1] / 3 % 4,
                                         .row_label = labels,
                                         .column_label = set[0] & 8 ? labels : NULL,
                                         .ramp = (enum qkv_chart_ramp)(set[2] % QKV_CHART_RAMPS),
                                         .low = x[1],
                                         .high = y[1],
                                         .digits = set[3] % 24 - 1 };
    const struct qkv_chart_panel panel = { .name = text[3],
                                           .note = text[4],
                                           .line = line,
                                           .lines = 2,
                                           .mark = &mark,
                                           .marks = 1,
                                           .grid = set[0] & 16 ? &grid : NULL,
                                           .x = { .name = text[5],
                                                  .log = set[0] & 32,
                                                  .zero = set[0] & 64,
                                                  .label = set[3] & 1 ? labels : NULL,
                                                  .labels = set[3] & 1 ? 3 : 0 },
                                           .y = { .name = text[6],
                                                  .log = set[3] & 2,
                                                  .low = set[3] & 4 ? x[2] : 0,
                                                  .high = set[3] & 4 ? y[2] : 0 },
                                           .height = set[3] & 8 ? number(set[3]) : 0 };
    const struct qkv_chart_panel both[] = { panel, panel };
    const struct qkv_chart_table table = { text[7], labels, 2, 3 };
    const struct qkv_chart chart = { .title = text[0],
                                     .sentence = text[1],
                                     .panel = both,
                                     .panels = 1 + (set[3] >> 7),
                                     .across = set[3] >> 6 & 1,
                                     .same_x = set[3] & 16,
                                     .table = &table,
                                     .view = text[2],
                                     .subject = text[3] };
    qkv_error err = { 0 };
    char *shown = NULL;
    const struct qkv_chart_options o = {
        .columns = set[1], .color = set[2] & 1, .utf8 = set[2] & 2, .truecolor = set[2] & 4
    };
    fuzz_success(qkv_chart_file(&chart, paths[0], true, NULL, &err), &err);
    fuzz_svg(paths[0]);
    if (set[0] >= 240) { // a page is large
        fuzz_success(qkv_chart_file(&chart, paths[1], true, NULL, &err), &err);
        fuzz_page(paths[1], "data");
    }
    const qkv_status status = qkv_chart_terminal(&chart, &shown, &o, &err);
    FUZZ_CHECK(status == QKV_OK || status == QKV_ERR_USAGE);
    if (shown) fuzz_utf8(shown);
    qkv_view_text_free(shown);
    for (int i = 0; i < TEXTS; i++) free(text[i]);
    return 0;
}
