// SPDX-License-Identifier: MIT
// cmd_plot.c: implements `qkv plot`: draws the curves of training runs in the terminal, as SVG or
// PNG, or as an HTML file that works offline.
#include "frame/charts.h"
#include <qkv/plot.h>
#include <string.h>

static struct {
    struct chart_output picture;
    bool probes;
} o;

static const struct opt opts[] = {
    OPT_FLAG(0, "probes", &o.probes,
             "plot the entropy of every head over the steps (for a run with --probe)"),
    CHART_OPTIONS(o.picture), OPT_END
};

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
    const struct qkv_chart_options how = chart_terminal(&o.picture);
    char *text;
    const qkv_status status = qkv_plot_terminal(p, &text, &how, err);
    if (!status) fputs(text, stdout);
    qkv_view_text_free(text);
    return status;
}

static int run_plot(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_plot *plot = NULL;
    const struct qkv_chart_options how = { .theme = (enum qkv_view_theme)o.picture.theme };
    if (!argc) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "no run is given, expected the folder of a run");
        goto done;
    }
    if (chart_output_check(&o.picture, &err)) goto done;
    const char *const path = o.picture.path;
    if (qkv_plot_open(&plot, (const char *const *)argv, argc, o.probes, &err)) goto done;
    if (path && cmd_plot_file(plot, path, &how, &err)) goto done;
    if (chart_takes_stdout(&o.picture)) goto done;
    if (common.json) {
        print_json(plot, argc);
    } else if (!print_picture(plot, &err) && path) {
        chart_print_path(path);
    }
done:
    qkv_plot_close(plot);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_plot = {
    .name = "plot",
    .brief = "plot training runs: loss, learning rate, gradient norm, entropy of heads",
    .usage = "RUN... [options]",
    .about = "Draws the log of a run, which may still be running: training loss and validation "
             "loss, learning rate and gradient norm over the steps. Several runs are drawn "
             "together. In an HTML file, the pointer shows the numbers of each step. In sentences "
             "and tables, the training loss is the mean over the last 20 steps.",
    .opts = opts,
    .uses = USES_OUTPUT | USES_JSON | READS_OPERANDS,
    .max_args = -1,
    .examples = {
        { "qkv plot run/", "curves in the terminal" },
        { "qkv plot run/ -o curve.svg", "the same curves as a picture" },
        { "qkv plot small/ large/ -o compare.html", "two runs on one page" },
        { "qkv plot run/ --probes", "the entropy of every head over the steps" },
    },
    .run = run_plot,
};
