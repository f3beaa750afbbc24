// SPDX-License-Identifier: MIT
// cmd_view.c: `qkv view`: the attention of a model on a text: a picture here, and one HTML file.
#include "tokens.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const themes[] = { "auto", "light", "dark", NULL };

static struct {
    const char *output, *heads, *token, *budget;
    int64_t layer, width;
    int theme;
    bool terminal, all, special;
    struct token_options tokens;
} o = { .layer = -1 };

static const struct opt opts[] = {
    OPT_TEXT('o', "output", &o.output, "FILE.html",
             "where to write (default: view.html, or the first free of view-2.html, ...); '-' is "
             "standard output, without the picture"),
    OPT_FLAG(0, "terminal", &o.terminal,
             "only the picture in the terminal, a file only where -o names it"),
    OPT_GROUP("What is shown first"),
    OPT_INT(0, "layer", &o.layer, 0, 100000, "L", "layer, from 0 (default: the most telling)"),
    OPT_TEXT(0, "heads", &o.heads, "H,H,...", "heads that are lit, from 0 (default: chosen)"),
    OPT_TEXT(0, "token", &o.token, "WORD|N", "the token whose row is marked, or its number"),
    OPT_FLAG(0, "special", &o.special, "show [CLS], [SEP] too"),
    OPT_CHOICE(0, "theme", &o.theme, themes, "NAME",
               "auto, light or dark (auto: the reader's system; here COLORFGBG, else dark)"),
    OPT_INT(0, "width", &o.width, 1, 500, "N",
            "columns of the terminal picture (default: the terminal's)"),
    OPT_FLAG(0, "all", &o.all, "the whole matrix, also where it is wider than the terminal"),
    OPT_TEXT(0, "budget", &o.budget, "SIZE", "largest HTML file: 4M, 900K, bytes (default: 16M)"),
    TOKEN_OPTIONS(o.tokens),
    OPT_END
};

// ---- tokens ------------------------------------------------------------------------------------
struct shown {
    struct qkv_view_token *token;
    char (*number)[16]; // "#101": ids without a tokenizer
};

// The tokens as they stand in the texts; raw text is the tokenizer's and stays until it is closed.
static void shown_make(struct shown *s, const struct tokens *t, const qkv_tokenizer *k,
                       const char *const *texts)
{
    const qkv_encoding *e = &t->encoding;
    s->token = cmd_alloc((size_t)t->length, sizeof *s->token);
    s->number = cmd_alloc((size_t)t->length, sizeof *s->number);
    for (int64_t i = 0; i < t->length; i++) {
        struct qkv_view_token *x = &s->token[i];
        *x = (struct qkv_view_token){ .raw = k ? qkv_tokenizer_token(k, t->ids[i]) : NULL };
        snprintf(s->number[i], sizeof *s->number, "#%ld", (long)t->ids[i]);
        if (!x->raw) x->raw = s->number[i];
        x->special = k && qkv_tokenizer_special(k, t->ids[i]);
        x->part = t->types[i] == 1;
        if (!texts[0] || e->text[i] > 1) continue;
        x->special = false; // text that spells a special token is text
        x->part = e->text[i];
        x->begin = e->begin[i];
        x->end = e->end[i];
        if (!texts[x->part] || x->end <= x->begin) continue;
        x->text = texts[x->part] + x->begin;
        x->text_bytes = (size_t)(x->end - x->begin);
    }
}

static bool same_text(const char *a, size_t n, const char *b, bool fold)
{
    if (strlen(b) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (fold ? tolower((unsigned char)a[i]) != tolower((unsigned char)b[i]) : a[i] != b[i])
            return false;
    return true;
}

// --token: the word as the text has it (then in either case), else a number.
static qkv_status find_token(int64_t *out, const struct shown *s, int64_t n, qkv_error *err)
{
    for (int fold = 0; fold < 2; fold++)
        for (int64_t i = 0; i < n; i++) {
            const struct qkv_view_token *x = &s->token[i];
            if ((x->text && same_text(x->text, x->text_bytes, o.token, fold)) ||
                same_text(x->raw, strlen(x->raw), o.token, fold)) {
                *out = i;
                return QKV_OK;
            }
        }
    if (cmd_parse_int(o.token, out) && *out >= 0 && *out < n) return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--token: expected a token of the text or its number, 0 to %lld, found '%s'",
                     (long long)n - 1, o.token);
}

// ---- the run -----------------------------------------------------------------------------------
struct job {
    qkv_view *view;
    int64_t T, layers;
    float *lse; // [H][T] when the run is padded
    struct qkv_progress progress;
    qkv_error err;
};

static int layer(void *user, const struct qkv_layer_seen *s)
{
    struct job *j = user;
    if (j->progress.step(j->progress.user, "run", s->layer + 1, j->layers)) return 1;
    if (s->layer < 0) return 0;
    const float *lse = s->lse;
    if (s->R > j->T) { // rows of padding are not shown
        if (!j->lse) j->lse = cmd_alloc((size_t)(s->H * j->T), sizeof *j->lse);
        for (int64_t h = 0; h < s->H; h++)
            memcpy(j->lse + h * j->T, s->lse + h * s->R, (size_t)j->T * sizeof *lse);
        lse = j->lse;
    }
    const struct qkv_view_seen seen = { .q = s->q,
                                        .k = s->k,
                                        .v = s->v,
                                        .lse = lse,
                                        .relative = s->relative,
                                        .reach = s->reach,
                                        .scale = s->scale,
                                        .softcap = s->softcap,
                                        .window = true,
                                        .left = s->left,
                                        .right = s->right };
    return qkv_view_layer(j->view, 0, s->layer, &seen, &j->err) != QKV_OK;
}

static qkv_status collect(struct job *j, const qkv_model *m, const struct tokens *t, qkv_error *err)
{
    const struct qkv_model_info i = qkv_model_info(m);
    const int64_t offsets[] = { 0, t->count };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .lengths = &t->length, .ids = t->ids, .types = t->types
    };
    const struct qkv_watch watch = { .layer = layer, .user = j };
    float *hidden = cmd_alloc((size_t)(t->count * i.width), sizeof *hidden);
    j->T = t->length;
    j->layers = i.layers;
    j->progress = cmd_progress_begin("layers");
    qkv_status s = qkv_model_run(m, hidden, &in, &watch, err);
    cmd_progress_end();
    if (j->err.status) { // the cause, where the run only knows that it was stopped
        *err = j->err;
        s = err->status;
    }
    free(hidden);
    free(j->lse);
    return s;
}

// ---- the pictures ------------------------------------------------------------------------------
static bool dark_terminal(void)
{
    const char *c = getenv("COLORFGBG"); // "15;0": text, ground
    const char *ground = c ? strrchr(c, ';') : NULL;
    return !ground || (strcmp(ground, ";7") != 0 && strcmp(ground, ";15") != 0);
}

// to NULL: only what the picture is asked for is checked.
static qkv_status print_picture(FILE *to, const qkv_view *v, struct qkv_view_options p,
                                qkv_error *err)
{
    const char *depth = getenv("COLORTERM");
    p.columns = o.width ? (int)o.width : cmd_columns();
    p.color = cmd_color(stdout);
    p.truecolor = depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit"));
    p.utf8 = cmd_utf8();
    p.all = o.all;
    if (!p.theme) p.theme = dark_terminal() ? QKV_THEME_DARK : QKV_THEME_LIGHT;
    char *text;
    const qkv_status s = qkv_view_terminal(v, &text, &p, err);
    if (!s && to) fputs(text, to);
    qkv_view_text_free(text);
    return s;
}

// -o, or a name that is free: a picture is asked for again and again, and none is lost.
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

static bool to_stdout(const char *path)
{
    return path && (!strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1"));
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

// What was written and found, for a program; path NULL: no file.
static void print_json(const qkv_view *v, const struct qkv_view_options *p,
                       const struct qkv_model_info *m, int64_t T, const char *path,
                       const struct qkv_view_report *r)
{
    char sentence[4096];
    fputs("{\"file\":", stdout);
    if (path)
        cmd_json_text(stdout, path, strlen(path));
    else
        fputs("null", stdout);
    fputs(",\"model\":", stdout);
    cmd_json_text(stdout, m->name, strlen(m->name));
    printf(",\"precision\":\"%s\",\"tokens\":%lld,\"layers\":%lld,\"heads\":%lld",
           qkv_precision_name(m->precision), (long long)T, (long long)m->layers,
           (long long)m->heads);
    if (path) {
        printf(",\"bytes\":%lld,\"kind\":\"%s\",\"weights\":%lld,\"not_numbers\":%lld,\"error\":",
               (long long)r->bytes, r->kind, (long long)r->weights, (long long)r->not_numbers);
        cmd_json_float(stdout, (float)r->error);
    }
    fputs(",\"sentence\":", stdout);
    qkv_view_sentence(v, p, sentence, sizeof sentence);
    cmd_json_text(stdout, sentence, strlen(sentence));
    puts("}");
}

static void print_report(const char *path, const struct qkv_view_report *r)
{
    printf("%s: %.*f %s, all %lld weights", path, r->bytes < 1000000 ? 0 : 1,
           (double)r->bytes / (r->bytes < 1000000 ? 1e3 : 1e6), r->bytes < 1000000 ? "kB" : "MB",
           (long long)r->weights);
    printf(", error %s %.4f\n", cmd_utf8() ? "≤" : "<=", ceil(r->error * 1e4) / 1e4);
    if (r->not_numbers)
        cmd_note("%lld rows are not numbers: the model's weights hold NaN or Inf",
                 (long long)r->not_numbers);
}

// --heads without repeats.
static qkv_status parse_heads(int64_t **heads, int64_t *count, qkv_error *err)
{
    const qkv_status s = cmd_parse_ints("--heads", o.heads, 0, 100000, heads, count, err);
    for (int64_t i = 0; !s && i < *count; i++)
        for (int64_t k = 0; k < i; k++)
            if ((*heads)[i] == (*heads)[k])
                return cmd_error(err, QKV_ERR_USAGE, NULL,
                                 "--heads: %lld is named twice, expected each once",
                                 (long long)(*heads)[i]);
    return s;
}

// path NULL: no file.  What goes to standard output is one thing: the page, JSON, or the picture.
static qkv_status show(qkv_view *v, const struct shown *s, const struct qkv_model_info *m,
                       int64_t T, const char *path, int64_t budget, qkv_error *err)
{
    int64_t *heads = NULL, token = -1;
    struct qkv_view_options p = { .layer = o.layer >= 0 ? &o.layer : NULL,
                                  .special = o.special,
                                  .theme = (enum qkv_view_theme)o.theme,
                                  .budget = budget };
    struct qkv_view_report report;
    qkv_status status = QKV_OK;
    if (o.heads) {
        status = parse_heads(&heads, &p.head_count, err);
        p.heads = heads;
    }
    if (!status && o.token) {
        status = find_token(&token, s, T, err);
        p.token = &token;
        if (!status && s->token[token].special) p.special = true;
    }
    if (!status && path) status = qkv_view_html(v, path, common.force, &p, &report, err);
    if (!status && common.json) {
        if (!path) status = print_picture(NULL, v, p, err);
        if (!status) print_json(v, &p, m, T, path, &report);
    } else if (!status && !to_stdout(path)) {
        status = print_picture(stdout, v, p, err);
        if (!status && path) {
            putchar('\n');
            print_report(path, &report);
        }
    }
    free(heads);
    return status;
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_model *model = NULL;
    qkv_tokenizer *tokenizer = NULL;
    struct tokens t = { 0 };
    struct shown shown = { NULL, NULL };
    struct job job = { 0 };
    char dir[CMD_PATH], path[CMD_PATH];
    int64_t budget;
    const char *texts[2] = { argc > 0 ? argv[0] : NULL, argc > 1 ? argv[1] : NULL };
    const struct qkv_model_options options = { .precision = common.precision };
    for (int i = 0; i < argc; i++)
        if (!argv[i][strspn(argv[i], " \t\r\n")]) {
            cmd_error(&err, QKV_ERR_USAGE, NULL, "empty text, expected words");
            goto done;
        }
    if (cmd_output_stdout(&o.output, &err)) goto done;
    output_name(path);
    const bool file = o.output || !o.terminal;
    if (to_stdout(path) && (common.json || o.terminal)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "-o: standard output takes the page or what is said of it, expected a file");
        goto done;
    }
    if (parse_budget(&budget, &err)) goto done;
    if (file && cmd_output_check(path, NULL, 0, &err)) goto done;
    if (cmd_model_find(dir, &err)) goto done;
    if (qkv_model_open(&model, dir, &options, &err)) goto done;
    const struct qkv_model_info i = qkv_model_info(model);
    if (i.kind == QKV_KIND_ENCODER_DECODER) {
        cmd_error(&err, QKV_ERR_UNSUPPORTED, dir,
                  "two stacks have no picture yet, expected an encoder or a decoder, found a %s%s",
                  i.family,
                  i.can & QKV_CAN_RUN ? "; `qkv trace --what attention` writes the weights of both"
                                      : "");
        goto done;
    }
    if (tokens_read(&t, &o.tokens, dir, model, texts, &err)) goto done;
    if (qkv_tokenizer_open(&tokenizer, dir, texts[0] ? &err : NULL) && texts[0]) goto done;
    shown_make(&shown, &t, tokenizer, texts);
    const struct qkv_view_text text = { .token = shown.token,
                                        .tokens = t.length,
                                        .source = { texts[0], texts[0] ? texts[1] : NULL },
                                        .source_bytes = { texts[0] ? strlen(texts[0]) : 0,
                                                          texts[1] ? strlen(texts[1]) : 0 } };
    const struct qkv_view_stack stack = { .name = "attention",
                                          .layers = i.layers,
                                          .heads = i.heads,
                                          .kv_heads = i.kv_heads,
                                          .head_width = i.head_width,
                                          .value_width = i.value_width,
                                          .causal = i.causal };
    const struct qkv_view_shape shape = {
        .model = i.name, .text = &text, .texts = 1, .stack = &stack, .stacks = 1
    };
    if (qkv_view_new(&job.view, &shape, &err)) goto done;
    if (collect(&job, model, &t, &err)) goto done;
    show(job.view, &shown, &i, t.length, file ? path : NULL, budget, &err);
done:
    qkv_view_free(job.view);
    free(shown.token);
    free(shown.number);
    tokens_free(&t);
    qkv_tokenizer_close(tokenizer);
    qkv_model_close(model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_view = {
    .name = "view",
    .brief = "the attention of a model on a text: a picture here and one offline HTML file",
    .usage = "TEXT [TEXT_B] [options]\n--ids N,N,... [options]",
    .about = "Runs the model on a text, or a pair of texts, and shows which words read which: in the terminal an "
             "atlas of all heads, the matrix of one and the marked token's row as bars; in the HTML file every "
             "layer and head, with links, numbers and keys (press ? in it). The file needs no network and no other "
             "file.\n\n"
             "Layers, heads and tokens are counted from 0. Weights are never renormalised: what is hidden (special "
             "tokens, links below the threshold) is said with its share. Short texts keep every weight in 8 bits, "
             "longer ones queries and keys from which the page computes any row again; the error of either is "
             "measured and printed.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT,
    .max_args = 2,
    .examples = {
        { "qkv view \"time flies like an arrow\" \"fruit flies like a banana\"", "two sentences, picture and page" },
        { "qkv view \"The animal did not cross: it was too tired\" --token it",
          "what one word reads" },
        { "qkv view \"I love bears\" --terminal --layer 3 --heads 1,7", "given heads, in the terminal alone" },
    },
    .run = run,
};
