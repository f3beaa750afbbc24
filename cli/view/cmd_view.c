// SPDX-License-Identifier: MIT
// cmd_view.c: implements `qkv view`: shows the attention of a model on a text, in the terminal and
// as an HTML file.
#include "frame/charts.h"
#include "view_source.h"
#include "view/model_run.h"
#include "serve/page/live.h"
#include <qkv/picture.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QKV_VIEW(name, key, picture, terminal, needs, question) #name,
static const char *const views[] = {
#include <qkv/view.def>
    NULL
};
#undef QKV_VIEW
// the names of the views for the help, such as " heads model ..."
#define QKV_VIEW(name, key, picture, terminal, needs, question) " " #name
static const char view_help[] =
    "the view that is shown first (default: chosen by the length of the text):"
#include <qkv/view.def>
    ;
#undef QKV_VIEW

// the names of enum qkv_view_size
static const char *const sizes[] = { "free", "column", "page", NULL };

static struct {
    const char *output, *heads, *token, *budget, *stack, *layers;
    const char *attention, *names, *key_names, *against, *training;
    struct chart_output picture; // only its theme and width are used, not its path
    int64_t layer, generate;
    int view, size;
    bool terminal, all, special, values, map, plain, live;
    struct token_options tokens;
} o = { .layer = -1, .view = -1 };

static const struct opt opts[] = {
    OPT_OUTPUT(
        'o', "output", &o.output, "FILE",
        "output file, whose format follows from its ending: .html (default: view.html, or the "
        "first free name of view-2.html, ...), .svg or .png for a picture of the view, .csv "
        "or .npy for the weights that are shown; '-' is standard output, which gets the page. "
        "With -o only a line about the file is printed, unless --terminal asks for the picture"),
    OPT_FLAG(0, "terminal", &o.terminal,
             "print the picture in the terminal; write a file only if -o names it"),
    OPT_FLAG(0, "live", &o.live,
             "serve the page to a browser of this machine, with a field for the text: prints its "
             "address and runs until Ctrl-C. Selected heads can be switched off"),
    OPT_GROUP("What is shown first"),
    OPT_CHOICE(0, "view", &o.view, views, "VIEW", view_help),
    OPT_TEXT(
        0, "stack", &o.stack, "NAME",
        "attention of an encoder-decoder that is shown: encoder, decoder or cross (default: cross; "
        "for --view residual decoder)"),
    OPT_INT(0, "layer", &o.layer, 0, 100000, "L",
            "layer (default: that of the link with the largest weight x distance x rarity: of the "
            "marked row, or of any row)"),
    OPT_TEXT(0, "heads", &o.heads, "H,H,...",
             "heads that are selected (default: the head of that link)"),
    OPT_TEXT(0, "token", &o.token, "WORD|N",
             "token whose row is marked, as a word or its index (default: the row of that link)"),
    OPT_FLAG(0, "special", &o.special,
             "also show special tokens such as [CLS] and [SEP]; with --pad also [PAD], masked"),
    CHART_LOOK_OPTIONS(o.picture),
    OPT_FLAG(0, "all", &o.all, "print the whole matrix, even if it is wider than the terminal"),
    OPT_FLAG(0, "plain", &o.plain,
             "draw a picture (.svg, .png) without its question and its sentence, for papers"),
    OPT_CHOICE(
        0, "size", &o.size, sizes, "NAME",
        "printed width of a picture (.svg, .png): free (as wide as its view needs, the default), "
        "column (84 mm) or page (174 mm), with texts of at least 6.5 points"),
    OPT_GROUP("What the file stores"),
    OPT_TEXT(0, "budget", &o.budget, "SIZE",
             "maximum size of the HTML file: 4M, 900K or a number of bytes (default: 16M)"),
    OPT_TEXT(
        0, "layers", &o.layers, "L,L,...",
        "layers of a long text of which all weights are stored (default: as many layers as fit)"),
    OPT_FLAG(0, "values", &o.values,
             "store values and input rows of every layer as far as the budget allows (default: as "
             "far as a page of 6 MB allows)"),
    OPT_GROUP("What is compared or added"),
    OPT_INT(
        0, "generate", &o.generate, 1, 1 << 20, "N",
        "first generate N tokens with a decoder, then show the prompt and the generated tokens"),
    OPT_INPUT(
        0, "against", &o.against, "DIR|TEXT",
        "compare with another model or checkpoint on the same text, or with the same model on "
        "another text: heads are ranked by their change, and the head that changed most is "
        "shown first"),
    OPT_INPUT(0, "training", &o.training, "RUN",
              "show the checkpoints of a training run, one frame for each ('qkv train --keep' "
              "keeps more of them); without TEXT on the text of its probes or its first "
              "validation text"),
    OPT_FLAG(0, "ablate-map", &o.map,
             "also measure and show the effect of ablating each head on the text"),
    OPT_GROUP("Weights from a file"),
    OPT_INPUT(
        0, "attention", &o.attention, "FILE",
        "attention weights instead of a model: .npy with axes (layer, batch, head, row, key), "
        "or .safetensors"),
    OPT_INPUT(0, "tokens", &o.names, "FILE", "file with the tokens of the rows, one per line"),
    OPT_INPUT(0, "key-tokens", &o.key_names, "FILE",
              "file with the tokens of the keys, if they differ from those that --tokens names"),
    TOKEN_OPTIONS(o.tokens),
    OPT_END
};

// ---- names and sizes ---------------------------------------------------------------------------
// Writes the name of the output file to path: the value of -o or, without -o, a name that no file
// has, so that no view is overwritten.
static void output_name(char path[CMD_PATH])
{
    snprintf(path, CMD_PATH, "%s", o.output ? o.output : "view.html");
    for (int n = 2; !o.output && !common.force && n < 10000; n++) {
        FILE *f = fopen(path, "rb");
        if (!f) return;
        fclose(f);
        snprintf(path, CMD_PATH, "view-%d.html", n);
    }
}

static qkv_status parse_budget(int64_t *out, qkv_error *err)
{
    char digits[24] = "";
    double x = 0, unit = 1;
    *out = 0;
    if (!o.budget) return QKV_OK;
    const size_t n = strlen(o.budget), last = n ? n - 1 : 0;
    const char *units = "KMG",
               *at = n ? strchr(units, toupper((unsigned char)o.budget[last])) : NULL;
    if (at && *at) unit = at[0] == 'K' ? 1e3 : at[0] == 'M' ? 1e6 : 1e9;
    snprintf(digits, sizeof digits, "%.*s", (int)(n - (unit > 1)), o.budget);
    if (n >= sizeof digits || !cmd_parse_real(digits, &x) || x * unit < 1 || x * unit > 1e15)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--budget: expected a size such as 16M, 900K or 4000000, found '%s'",
                         o.budget);
    *out = (int64_t)floor(x * unit);
    return QKV_OK;
}

// Parses a list of numbers. A number that occurs twice is an error.
static qkv_status parse_list(const char *option, const char *text, int64_t **list, int64_t *count,
                             qkv_error *err)
{
    const qkv_status status = cmd_parse_ints(option, text, 0, 100000, list, count, err);
    for (int64_t i = 0; !status && i < *count; i++)
        for (int64_t k = 0; k < i; k++)
            if ((*list)[i] == (*list)[k])
                return cmd_error(err, QKV_ERR_USAGE, NULL,
                                 "%s: number %lld occurs twice, expected each number once", option,
                                 (long long)(*list)[i]);
    return status;
}

// What is written to a file, according to the ending of its name: the page, the weights as numbers,
// or a picture of one view. A device or a pipe gets the page.
enum written { PAGE, NUMBERS, DRAWN, UNKNOWN };
static enum written kind_of(const char *path)
{
    static const struct {
        const char *end;
        enum written kind;
    } rows[] = { { ".html", PAGE }, { ".htm", PAGE },    { ".svg", DRAWN },
                 { ".png", DRAWN }, { ".csv", NUMBERS }, { ".npy", NUMBERS } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cmd_ends_with(path, rows[i].end)) return rows[i].kind;
    return cmd_output_direct(path) ? PAGE : UNKNOWN;
}

static qkv_status check_kind(const char *path, qkv_error *err)
{
    const char *view = o.view >= 0 ? views[o.view] : "";
    if (kind_of(path) == NUMBERS && (strcmp(view, "residual") == 0 || strcmp(view, "output") == 0))
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "-o: --view %s shows no attention weights, which .csv and .npy files "
                         "contain; expected .html, .svg or .png, found '%s'",
                         view, path);
    if (kind_of(path) != UNKNOWN) return QKV_OK;
    return cmd_error(
        err, QKV_ERR_USAGE, NULL,
        "-o: expected a name that ends with .html, .svg, .png, .csv or .npy, found '%s'", path);
}

// ---- the pictures ------------------------------------------------------------------------------
// Prints the picture of a view in the terminal.  to NULL: only checks that the requested picture
// can be drawn.
static qkv_status print_picture(FILE *to, const qkv_view *v, struct qkv_view_options p,
                                qkv_error *err)
{
    const struct qkv_chart_options here = chart_terminal(&o.picture);
    p.columns = here.columns;
    p.color = here.color;
    p.truecolor = here.truecolor;
    p.utf8 = here.utf8;
    p.all = o.all;
    p.theme = here.theme;
    char *text;
    const qkv_status status = qkv_view_terminal(v, &text, &p, err);
    if (!status && to) fputs(text, to);
    qkv_view_text_free(text);
    return status;
}

// In a comparison of two views, selects the row that changed most, and its head; if the options
// name a layer or heads, only these count. Returns false if they name a token or no row changed.
static bool show_moved(const struct source *s, struct qkv_view_options *p)
{
    int64_t count;
    const struct qkv_view_divergence *m = qkv_view_divergence(s->view, &count), *best = NULL;
    if (p->token) return false;
    for (int64_t i = 0; i < count; i++) {
        bool named = !p->heads && (!o.stack || m[i].stack == p->stack);
        for (int64_t h = 0; h < p->head_count && p->heads; h++)
            named |= m[i].stack == p->stack && m[i].head == p->heads[h];
        if (p->layer && m[i].layer != *p->layer) named = false;
        if (named && m[i].row >= 0 && m[i].row_change > (best ? best->row_change : 0)) best = &m[i];
    }
    if (!best) return false;
    p->stack = best->stack;
    p->layer = &best->layer;
    p->token = &best->row;
    if (p->heads) return true;
    p->heads = &best->head;
    p->head_count = 1;
    return true;
}

// Fails if a view needs arrays that the recurrent encoder-decoder does not have.
static qkv_status check_recurrent(const struct source *s, const char *view, qkv_error *err)
{
    static const struct {
        const char *view, *missing;
    } rows[] = {
        { "neuron", "queries and keys whose products are the scores: its scores are additive" },
        { "steps", "queries and keys whose products are the scores: its scores are additive" },
        { "residual", "residual stream: its state is replaced at each step" }
    };
    if (s->given || !cmd_is_recurrent(&s->of.info) || !view) return QKV_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(view, rows[i].view) == 0)
            return cmd_error(err, QKV_ERR_UNSUPPORTED, s->of.dir,
                             "--view %s requires a Transformer; this model is %s, which has no %s",
                             view, s->of.info.family, rows[i].missing);
    return QKV_OK;
}

// Returns the stack that is shown if --stack names none: of an encoder-decoder its cross-attention
// or, for the residual stream, the decoder.
static int64_t first_stack(const struct source *s, const char *view)
{
    if (s->shape.stacks == 1) return 0;
    return view && strcmp(view, "residual") == 0 ? 1 : 2;
}

static bool is_output(const char *view)
{
    return view && strcmp(view, "output") == 0;
}

// Computes the output of the model for a page, in which it may be missing, or for --view output.
static qkv_status add_output(struct source *s, const struct qkv_view_options *p, int64_t token,
                             bool page, qkv_error *err)
{
    qkv_error none = { 0 };
    if (!page && !is_output(p->view)) return QKV_OK;
    // the positions are rows of the decoder and its cross-attention, not of the encoder
    const int64_t at = s->shape.stacks > 1 && p->stack == 0 ? -1 : token;
    const qkv_status status = source_output(s, at, is_output(p->view) ? err : &none);
    // a page of a model without such an output is complete; a failure is none of its properties
    const bool failed = status && status != QKV_ERR_UNSUPPORTED && status != QKV_ERR_USAGE;
    if (!is_output(p->view) && failed && err) *err = none;
    return is_output(p->view) || failed ? status : QKV_OK;
}

// Writes the file `path` (NULL: no file) and prints the report.  Only one of these is written to
// standard output: the page, JSON, or the picture.
static qkv_status show(struct source *s, struct qkv_view_options p, const char *path,
                       qkv_error *err)
{
    struct qkv_view_report report;
    const enum written kind = path ? kind_of(path) : UNKNOWN;
    const bool numbers = kind == NUMBERS, drawn = kind == DRAWN, page = kind == PAGE;
    int64_t *heads = NULL, token = -1;
    p.stack = first_stack(s, p.view);
    qkv_status status = check_recurrent(s, p.view, err);
    if (!status) status = source_stack(&p.stack, s, o.stack, err);
    if (!status && o.heads) {
        status = parse_list("--heads", o.heads, &heads, &p.head_count, err);
        p.heads = heads;
    }
    if (!status && o.token) {
        status = source_token(&token, s, p.stack, o.token, err);
        p.token = &token;
        if (!status && s->shown[s->stack[p.stack].rows].token[token].special) p.special = true;
    }
    const bool moved = !status && show_moved(s, &p);
    if (o.against && !p.view && (page ? moved : !path)) p.view = "compare";
    if (page && o.training && !p.view) p.view = "training";
    if (numbers) p.token = token >= 0 ? &token : NULL; // all rows, unless --token names one
    if (!status) status = add_output(s, &p, token, page, err);
    if (!status && numbers) status = export_view(s, &p, path, err);
    if (!status && drawn) status = cmd_view_picture(s->view, path, &p, err);
    if (!status && page) status = qkv_view_html(s->view, path, common.force, &p, &report, err);
    if (status) goto done;
    if (common.json) {
        if (!path) status = print_picture(NULL, s->view, p, err);
        if (!status) print_view_json(s, &p, page ? path : NULL, &report);
    } else if (!(path && cmd_is_stdout(path))) {
        const bool only_file = (o.output || (common.quiet && path)) && !o.terminal;
        if (!only_file) status = print_picture(stdout, s->view, p, err);
        if (!status && !only_file) print_view_moved(s, 12);
        if (!status && path && !only_file) putchar('\n');
        if (!status && (numbers || drawn)) {
            cmd_print_name(stdout, path);
            puts(numbers ? ": the weights that are shown" : ": picture of the view");
        }
        if (!status && page) print_view_report(path, &report);
    }
done:
    free(heads);
    return status;
}

// ---- the view to compare with (--against) ------------------------------------------------------
static bool is_folder(const char *path)
{
    char config[CMD_PATH + 16];
    snprintf(config, sizeof config, "%s/config.json", path);
    FILE *f = fopen(config, "rb");
    if (f) fclose(f);
    return f != NULL;
}

// Opens the view to compare with: another model on the same text, or the same model on another
// text.
static qkv_status open_against(struct source *other, const char *const *texts,
                               const struct source_request *w, qkv_error *err)
{
    const char *const second[2] = { o.against, NULL };
    const bool folder = is_folder(o.against);
    struct source_request each = *w;
    each.map = false;
    if (folder) each.model = o.against;
    return source_open(other, folder ? texts : second, &each, err);
}

// Fails if the requested view needs an option (view.def) that is not given.
static qkv_status check_view(qkv_error *err)
{
    enum { NOTHING, AGAINST, TRAINING };
#define QKV_VIEW(name, key, picture, terminal, needs, question) needs,
    static const int needs[] = {
#include <qkv/view.def>
    };
#undef QKV_VIEW
    const int needed = o.view < 0 ? NOTHING : needs[o.view];
    if (needed == AGAINST && !o.against)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--view %s requires --against DIR|TEXT",
                         views[o.view]);
    if (needed == TRAINING && !o.training)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--view %s requires --training RUN",
                         views[o.view]);
    if (o.against && strchr(o.against, '/') && !is_folder(o.against))
        cmd_note("--against: %s is not a model folder and is used as a text", o.against);
    return QKV_OK;
}

static qkv_status check_words(int argc, char **argv, qkv_error *err)
{
    for (int i = 0; i < argc; i++)
        if (!argv[i][strspn(argv[i], " \t\r\n")])
            return cmd_error(err, QKV_ERR_USAGE, NULL, "the text is empty, expected words");
    if (o.attention && (argc || o.tokens.ids || o.against || o.training || o.generate || o.map ||
                        common.model || common.ablations))
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--attention cannot be combined with a text or a model: its file contains the weights");
    if (!o.attention && (o.names || o.key_names))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--tokens and --key-tokens require --attention FILE");
    return QKV_OK;
}

// With --training and no text, sets texts[2] to the text of the run.
static qkv_status run_texts(const char *texts[2], qkv_error *err)
{
    static char text[8192], second[8192];
    if (!o.training || texts[0] || o.tokens.ids) return QKV_OK;
    const qkv_status status =
        qkv_train_text(o.training, text, sizeof text, second, sizeof second, err);
    if (status) return status;
    texts[0] = text;
    texts[1] = *second ? second : NULL;
    return QKV_OK;
}

// Fails if an option is given that a live page does not have.
static qkv_status check_live(int argc, qkv_error *err)
{
    const struct {
        const char *name;
        bool given;
    } rows[] = { { "-o", o.output },
                 { "--terminal", o.terminal },
                 { "--json", common.json },
                 { "--view", o.view >= 0 },
                 { "--stack", o.stack },
                 { "--layer", o.layer >= 0 },
                 { "--heads", o.heads },
                 { "--token", o.token },
                 { "--special", o.special },
                 { "--budget", o.budget },
                 { "--layers", o.layers },
                 { "--values", o.values },
                 { "--generate", o.generate > 0 },
                 { "--against", o.against },
                 { "--training", o.training },
                 { "--ablate-map", o.map },
                 { "--attention", o.attention },
                 { "--ids", o.tokens.ids },
                 { "--tokens", o.names },
                 { "--max-length", o.tokens.max_length > 0 },
                 { "--pad", o.tokens.pad },
                 { "--truncate", o.tokens.truncate },
                 { "--strict", o.tokens.strict },
                 { "--no-special", o.tokens.no_special },
                 { "--all", o.all },
                 { "--plain", o.plain },
                 { "a second text", argc > 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given)
            return cmd_error(err, QKV_ERR_USAGE, NULL, "--live cannot be combined with %s",
                             rows[i].name);
    return QKV_OK;
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct source s = { 0 }, other = { 0 }, *frames = NULL;
    char path[CMD_PATH];
    int64_t frame_count = 0, *layers = NULL;
    const char *texts[2];
    struct source_request w = {
        .tokens = &o.tokens, .generate = o.generate, .padding = o.special, .map = o.map
    };
    struct qkv_view_options p = { .layer = o.layer >= 0 ? &o.layer : NULL,
                                  .special = o.special,
                                  .plain = o.plain,
                                  .size = (enum qkv_view_size)o.size,
                                  .theme = (enum qkv_view_theme)o.picture.theme,
                                  .view = o.view >= 0 ? views[o.view] : NULL,
                                  .values = o.values };
    if (tokens_operands(&o.tokens, 0, 2, &argc, &argv, &err)) goto done;
    for (int i = 0; i < 2; i++) texts[i] = argc > i ? argv[i] : NULL;
    if (check_words(argc, argv, &err) || check_view(&err)) goto done;
    if (o.live) {
        if (!check_live(argc, &err)) live_run(texts[0], &err);
        goto done;
    }
    if (cmd_output_stdout(&o.output, &err)) goto done;
    output_name(path);
    const bool file = o.output || !o.terminal;
    if (cmd_is_stdout(path) && (common.json || o.terminal)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "-o: standard output cannot receive both the page and the report, expected the "
                  "name of a file");
        goto done;
    }
    if (parse_budget(&w.budget, &err)) goto done;
    if (o.output && check_kind(path, &err)) goto done;
    if (file && cmd_output_check(path, &err)) goto done;
    if (o.layers && parse_list("--layers", o.layers, &layers, &w.exact_count, &err)) goto done;
    w.exact = p.exact = layers;
    p.exact_count = w.exact_count;
    p.budget = w.budget;
    if (run_texts(texts, &err)) goto done;
    if (o.attention) {
        if (source_given(&s, o.attention, o.names, o.key_names, &err)) goto done;
    } else if (o.training) {
        if (source_training(&s, &frames, &frame_count, o.training, texts, &w, &err)) goto done;
    } else if (source_open(&s, texts, &w, &err)) {
        goto done;
    }
    if (o.against &&
        (open_against(&other, texts, &w, &err) || qkv_view_compare(s.view, other.view, &err)))
        goto done;
    show(&s, p, file ? path : NULL, &err);
done:
    source_close(&s);
    source_close(&other);
    for (int64_t i = 0; i < frame_count; i++) source_close(&frames[i]);
    free(frames);
    free(layers);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_view = {
    .name = "view",
    .brief = "show the attention of a model on a text: in the terminal and as one offline HTML file",
    .usage = "TEXT [TEXT_B] [options]\n-f FILE [-f FILE_B] [options]\n--training RUN [TEXT [TEXT_B]] [options]\n--ids N,N,... [options]\n--attention FILE --tokens FILE\n--live [TEXT] [-m DIR]",
    .about = "Runs the model on a text, or a pair of texts, and shows which words attend to which: "
             "in the terminal an overview of all heads, the matrix of one head and the weights of "
             "one token as bars; in the HTML file every layer and head, with links and numbers "
             "(press ? for its keys). The HTML file needs no network and no other file. With "
             "--quiet only the line about the file is printed. For an "
             "encoder-decoder TEXT is the source and TEXT_B the output (default: the model's own "
             "output); encoder, decoder and cross-attention are shown. A row of "
             "cross-attention is the step that writes its token, as in 'qkv translate --alignment'; "
             "a row of the decoder's self-attention is the step that reads its token.\n"
             "\n"
             "Layers, heads and tokens are counted from 0. Weights are never renormalized: the "
             "share of the weights that are hidden (weights of special tokens and below the "
             "threshold of links) is shown. For short texts the file stores every "
             "weight; for longer texts it stores the queries and keys, from which the page computes "
             "any row; for very long texts it stores the largest weights of each row and the "
             "maxima of blocks. The error is measured and printed.\n"
             "\n"
             "The page and --view output also show what comes out of the model: the most likely tokens "
             "after each layer (decoders, encoder-decoders, masked words), the labels of a classifier, "
             "or the share of each token in the vector of an embedder. Tokens and labels take one more "
             "run and, for each position and layer, one row of the output head.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT | USES_ABLATE,
    .max_args = 2,
    .examples = {
        { "qkv view \"time flies like an arrow\" \"fruit flies like a banana\"", "two sentences: a picture in the terminal and a page" },
        { "qkv view \"The animal did not cross: it was too tired\" --token it",
          "to which words one word attends" },
        { "qkv view \"I love bears\" --terminal --layer 3 --heads 1,7", "two given heads, only in the terminal" },
        { "qkv view \"ACT I\" -m models/verse --view output -o output.svg", "a single view as a picture: here the next token, after each layer" },
        { "qkv view \"I love bears\" --against \"I love birds\"", "the heads that differ most between two sentences" },
        { "qkv view \"ACT I\" -m models/verse --generate 60 -o verse.html", "generate text with a decoder, then show all of it" },
    },
    .run = run,
};
