// SPDX-License-Identifier: MIT
// cmd_plot.c: `qkv plot`: how runs of training went: curves here, as SVG or PNG, or in one offline
// HTML file.
#include "cmd.h"
#include <qkv/plot.h>
#include <stdlib.h>
#include <string.h>

static const char *const themes[] = { "auto", "light", "dark", NULL };

static struct {
    const char *output;
    int64_t width;
    int theme;
    bool probes;
} o;

static const struct opt opts[] = {
    OPT_TEXT('o', "output", &o.output, "FILE",
             "write FILE.svg, FILE.png or FILE.html too; '-' is standard output (SVG), without the "
             "picture"),
    OPT_FLAG(0, "probes", &o.probes,
             "the entropy of every head over the steps (of a run with --probe)"),
    OPT_CHOICE(0, "theme", &o.theme, themes, "NAME",
               "auto, light or dark (auto: the reader's system; here COLORFGBG, else dark)"),
    OPT_INT(0, "width", &o.width, 1, 500, "N",
            "columns of the terminal picture (default: the terminal's)"),
    OPT_END
};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

// Nothing, .svg, .png or .html.
static qkv_status choose_kind(bool *html, qkv_error *err)
{
    *html = o.output && (ends_with(o.output, ".html") || ends_with(o.output, ".htm"));
    if (!o.output || *html || ends_with(o.output, ".svg") || ends_with(o.output, ".png") ||
        !strcmp(o.output, "/dev/stdout"))
        return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "-o: expected a name that ends with .svg, .png or .html, found '%s'",
                     o.output);
}

static void print_json(const qkv_plot *p, int n)
{
    char sentence[1024];
    fputs("{\"runs\":[", stdout);
    for (int i = 0; i < n; i++) {
        const struct qkv_plot_info r = qkv_plot_info(p, i);
        fputs(i ? ",{\"name\":" : "{\"name\":", stdout);
        cmd_json_text(stdout, r.name, strlen(r.name));
        printf(",\"steps\":%lld", (long long)r.steps);
        const struct {
            const char *name;
            double x;
        } rows[] = { { "first_loss", r.first },
                     { "loss", r.last },
                     { "valid_loss", r.valid },
                     { "best_valid_loss", r.best } };
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            printf(",\"%s\":", rows[k].name);
            cmd_json_float(stdout, (float)rows[k].x);
        }
        printf(",\"best_step\":%lld}", (long long)r.best_step);
    }
    fputs("],\"sentence\":", stdout);
    qkv_plot_sentence(p, sentence, sizeof sentence);
    cmd_json_text(stdout, sentence, strlen(sentence));
    puts("}");
}

static qkv_status print_picture(const qkv_plot *p, qkv_error *err)
{
    const char *depth = getenv("COLORTERM");
    char *text;
    const struct qkv_plot_options how = {
        .theme = o.theme      ? (enum qkv_view_theme)o.theme
                 : cmd_dark() ? QKV_THEME_DARK
                              : QKV_THEME_LIGHT,
        .columns = o.width ? (int)o.width : cmd_columns(),
        .color = cmd_color(stdout),
        .truecolor = depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit")),
        .utf8 = cmd_utf8(),
    };
    const qkv_status s = qkv_plot_terminal(p, &text, &how, err);
    if (!s) fputs(text, stdout);
    qkv_view_text_free(text);
    return s;
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_plot *plot = NULL;
    struct qkv_plot_options how = { .theme = (enum qkv_view_theme)o.theme };
    if (!argc) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "no run given, expected its folder");
        goto done;
    }
    if (cmd_output_stdout(&o.output, &err) || choose_kind(&how.html, &err)) goto done;
    if (o.output && cmd_output_check(o.output, NULL, 0, &err)) goto done;
    if (qkv_plot_open(&plot, (const char *const *)argv, argc, o.probes, &err)) goto done;
    if (o.output && qkv_plot_file(plot, o.output, common.force, &how, &err)) goto done;
    const bool to_stdout = o.output && !strcmp(o.output, "/dev/stdout");
    if (common.json && !to_stdout)
        print_json(plot, argc);
    else if (!to_stdout && print_picture(plot, &err))
        goto done;
    if (o.output && !to_stdout && !common.json) printf("\n%s\n", o.output);
done:
    qkv_plot_close(plot);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_plot = {
    .name = "plot",
    .brief = "how runs of training went: loss, learning rate, gradient; heads as they form",
    .usage = "RUN... [options]",
    .about = "Draws what a run has written so far, also while it runs: loss and validation loss, learning rate "
             "and length of the gradient over the steps; several runs lie in one picture. In an HTML file the "
             "numbers of each step are under the pointer. The training loss named in words and tables is the mean of "
             "the last 20 steps.",
    .opts = opts,
    .uses = USES_OUTPUT | USES_JSON,
    .max_args = -1,
    .examples = {
        { "qkv plot run/", "curves in the terminal" },
        { "qkv plot run/ -o curve.svg", "and as a picture" },
        { "qkv plot small/ large/ -o compare.html", "two runs, one page" },
        { "qkv plot run/ --probes", "which heads have become sharp, and when" },
    },
    .run = run,
};
