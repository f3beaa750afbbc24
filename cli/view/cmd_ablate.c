// SPDX-License-Identifier: MIT
// cmd_ablate.c: implements `qkv ablate`: measures the effect on a text of ablating each head alone,
// or some heads together.
#include "view_source.h"
#include <qkv/chart.h>
#include "frame/charts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *output;
    int64_t count;
    int kind;
    bool scan;
    struct token_options tokens;
} o = { .count = 10 };

static const struct opt opts[] = {
    OPT_FLAG(0, "scan", &o.scan,
             "ablate each head in turn (the default without --ablate); together with --ablate, "
             "scan the model without the heads of --ablate"),
    OPT_CHOICE(0, "kind", &o.kind, effects_kind_names, "KIND",
               "by what a scan replaces the output of a head: zero, mean, uniform (default: zero)"),
    OPT_INT('n', "count", &o.count, 1, 1 << 20, "N",
            "number of heads, or of tokens, to list (default: 10)"),
    OPT_OUTPUT('o', "output", &o.output, "FILE.html",
               "also write the page of 'qkv view' with the effect of each head; a click on a head "
               "shows the tokens that change most"),
    TOKEN_OPTIONS(o.tokens),
    OPT_END
};

// Writes a number as the page prints an effect: with three decimals or, below .01, with four, such
// as ".077" or "−1.204".
static char *figures(char out[24], double x)
{
    char size[QKV_WEIGHT_BYTES];
    qkv_weight_text(size, fabs(x), fabs(x) < .01 ? 4 : 3);
    snprintf(out, 24, "%s%.19s", x < 0 ? (cmd_utf8() ? "−" : "-") : "", size);
    return out;
}

// Prints how an ablation changes one token, such as "it .31" or "cat .31 -> .12".
static int print_change(const struct effects *e, const struct qkv_change *c)
{
    char word[EFFECTS_WORD], before[24], after[24];
    const char *text = effects_word(e, e->of.stacks - 1, c->token, word);
    const int width = cmd_width(text, strlen(text)), shown = width < 20 ? width : 20;
    figures(before, (double)c->before);
    figures(after, (double)c->after);
    cmd_print_cell(stdout, text, strlen(text), 0, 20);
    if (e->info.kind == QKV_KIND_ENCODER) {
        printf(" %s", after);
        return shown + 1 + cmd_width(after, strlen(after));
    }
    printf(" %s %s %s", before, cmd_utf8() ? "→" : "->", after);
    return shown + 3 + cmd_width(before, strlen(before)) + cmd_width(after, strlen(after)) +
           (cmd_utf8() ? 1 : 2);
}

// Prints as many changes as fit into the line, of which `at` columns are used.
static void print_changes(const struct effects *e, const struct effects_place *p, int at)
{
    enum { WIDEST = 36 };
    const struct qkv_change *c = effects_changes(e, p);
    for (int64_t i = 0; i < e->of.changes && c[i].token >= 0; i++) {
        if (i && at + WIDEST > cmd_columns()) break;
        fputs("  ", stdout);
        at += 2 + print_change(e, &c[i]);
    }
    putchar('\n');
}

// Prints an effect as a bar of the range from low (<= 0) to high (>= 0): to the right of 0 or, if
// it is negative, to the left. An axis marks the 0 if low is negative. Returns the number of
// columns.
static int print_bar(double x, double low, double high)
{
    enum { MOST = 16 };
    const double scale = high > low ? MOST / (high - low) : 0;
    const int left = low < 0 ? (int)fmax(1, round(-low * scale)) : 0;
    const int most = x < 0 ? left : MOST - left;
    const int n = isfinite(x) ? (int)fmin(most, round(fabs(x) * scale)) : 0;
    const int from = x < 0 ? left - n : left;
    for (int i = 0; i < MOST; i++) {
        if (i == left && low < 0) fputs(cmd_utf8() ? "│" : "|", stdout);
        fputs(i >= from && i < from + n ? (cmd_utf8() ? "█" : "#") : " ", stdout);
    }
    if (left == MOST) fputs(cmd_utf8() ? "│" : "|", stdout);
    return MOST + (low < 0);
}

static const char *unit_words(const struct effects *e)
{
    return e->info.kind == QKV_KIND_ENCODER ? "1 - cosine of the text's vector"
                                            : "increase of the loss in nats per token";
}

static void print_scan(const struct effects *e)
{
    static const char *const gives[] = { "zeros", "its mean", "uniform weights" };
    int64_t n;
    struct effects_place *p = effects_rank(e, &n);
    char name[48], x[24];
    printf("%lld tokens, each of %lld heads in turn replaced by %s. Effect: %s\n",
           (long long)e->of.stack[0].tokens, (long long)n, gives[e->kind], unit_words(e));
    if (e->info.kind != QKV_KIND_ENCODER)
        printf("loss without ablation: %.4f nats per token\n", e->of.loss);
    putchar('\n');
    double low = 0, high = 0;
    for (int64_t i = 0; i < n && i < o.count; i++) {
        low = fmin(low, (double)p[i].effect);
        high = fmax(high, (double)p[i].effect);
    }
    for (int64_t i = 0; i < n && i < o.count; i++) {
        figures(x, (double)p[i].effect);
        printf("%4lld  %-14s %*s%s  ", (long long)i + 1, effects_name(name, e, &p[i]),
               9 - cmd_width(x, strlen(x)), "", x);
        print_changes(e, &p[i], 33 + print_bar((double)p[i].effect, low, high));
    }
    if (n > o.count)
        printf("\nmedian effect of all %lld heads: %s\n", (long long)n,
               figures(x, (double)p[n / 2].effect));
    free(p);
}

// Prints how ablating several heads together changes each token, one line per token.
static void print_together(const struct effects *e)
{
    const struct qkv_change *c = e->of.stack[0].change;
    char word[EFFECTS_WORD], x[24], names[512];
    int width = 8;
    printf("without %s: %s %s\n", cmd_ablated(names, sizeof names),
           figures(x, (double)e->of.stack[0].effect[0]), unit_words(e));
    if (e->info.kind != QKV_KIND_ENCODER)
        printf("loss without ablation: %.4f nats per token\n", e->of.loss);
    putchar('\n');
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < e->of.changes && i < o.count && c[i].token >= 0; i++) {
            const char *text = effects_word(e, 0, c[i].token, word);
            const int w = cmd_width(text, strlen(text));
            if (!pass && w > width) width = w < 40 ? w : 40;
            if (!pass) continue;
            printf("%5lld  ", (long long)c[i].token);
            cmd_print_cell(stdout, text, strlen(text), width, 40);
            if (e->info.kind == QKV_KIND_ENCODER)
                printf("  1 - cosine %s\n", figures(x, (double)c[i].after));
            else
                printf("  p %.4f %s %.4f\n", (double)c[i].before, cmd_utf8() ? "→" : "->",
                       (double)c[i].after);
        }
    }
}

static qkv_status check_options(bool every, qkv_error *err)
{
    if (!every && o.kind)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--kind requires --scan; to choose the replacement without a scan, append "
                         "=%s to the heads of --ablate",
                         effects_kind_names[o.kind]);
    if (!o.output) return QKV_OK;
    if (!every)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "-o requires --scan: the page shows the effects of a scan");
    if (!cmd_ends_with(o.output, ".html"))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "-o: expected a name that ends with .html, found '%s'", o.output);
    return cmd_output_check(o.output, err);
}

// Measures the effects, and writes the page of `qkv view`, on which the head with the largest
// effect is selected.
static qkv_status measure_page(struct source *s, const char *const *texts, qkv_error *err)
{
    const struct source_request w = { .tokens = &o.tokens, .map = true };
    struct qkv_view_report report;
    const qkv_status status = source_open(s, texts, &w, err);
    if (status) return status;
    int64_t n;
    struct effects_place *p = effects_rank(&s->of, &n);
    const struct qkv_view_options first = {
        .view = "model", .stack = p->stack, .layer = &p->layer, .heads = &p->head, .head_count = 1
    };
    const qkv_status written = qkv_view_html(s->view, o.output, common.force, &first, &report, err);
    free(p);
    return written;
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct source *s = cmd_alloc(1, sizeof *s);
    struct effects *e = &s->of;
    const char *texts[2];
    const bool every = o.scan || !common.ablations;
    *s = (struct source){ .of.kind = (enum qkv_ablation_kind)o.kind };
    if (check_options(every, &err) || tokens_operands(&o.tokens, 0, 2, &argc, &argv, &err))
        goto done;
    for (int i = 0; i < 2; i++) texts[i] = argc > i ? argv[i] : NULL;
    if (o.output ? measure_page(s, texts, &err)
                 : effects_open(e, NULL, &o.tokens, texts, &err) || effects_measure(e, every, &err))
        goto done;
    if (common.json)
        effects_print_json(stdout, e, every);
    else if (every)
        print_scan(e);
    else
        print_together(e);
    if (o.output && !common.json) chart_print_path(o.output);
done:
    source_close(s);
    free(s);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_ablate = {
    .name = "ablate",
    .brief = "measure how much a model's output changes without each head",
    .usage = "TEXT [TEXT_B] [--scan] [-o FILE.html] [options]\nTEXT [TEXT_B] --ablate HEADS [options]",
    .about = "Runs a text through the model once for each head, with this head ablated, and ranks "
             "the heads by their effect. The effect for encoders is 1 - cosine of the text's "
             "vector with and without the head; the tokens whose hidden states change most are "
             "listed. The effect for decoders is the increase of the loss in nats per token (if "
             "negative, the text became more likely); the tokens whose probabilities change most "
             "are listed, with their probabilities before and after. For encoder-decoders TEXT is "
             "the source and TEXT_B the output (default: the model's own output).\n"
             "\n"
             "The layers before a head run once for all heads of its layer, and the layers after "
             "it run for many heads in one batch; every number equals that of a separate run. With "
             "--ablate and without --scan all heads of --ablate are ablated together, and the "
             "change of each token is listed.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT,
    .max_args = 2,
    .examples = {
        { "qkv ablate \"The animal did not cross: it was too tired\"", "ablate each head; print the ten largest effects" },
        { "qkv ablate \"time flies like an arrow\" -o map.html", "also show the effects as a map in the page of qkv view" },
        { "qkv ablate \"time flies\" --ablate L5.H11=mean,L2.H3", "ablate two heads together, list the change of each token" },
        { "qkv ablate \"In the beginning\" -m models/verse --kind uniform --json", "scan a decoder, print the effects as JSON" },
    },
    .run = run,
};
