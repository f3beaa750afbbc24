// SPDX-License-Identifier: MIT
// cmd_classify.c: implements `qkv classify`: prints the labels of texts, of pairs of texts, or of
// the tokens of texts.
#include "classify/classify_tokens.h"
#include "frame/arrays.h"
#include <stdlib.h>
#include <string.h>

static const char *const aggregations[] = { "none", "simple", "first", "average", "max", NULL };

static struct {
    const char *file;
    bool pairs, truncate, strict, tokens;
    int64_t count;
    int aggregate; // index in aggregations; -1: the option is not given
} o = { .aggregate = -1 };

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE",
              "file with one text per line, a blank line too; '-' is standard input"),
    OPT_FLAG(0, "pairs", &o.pairs,
             "each line of the file is a pair of texts, separated by a tab (for cross-encoders)"),
    OPT_FLAG(0, "tokens", &o.tokens,
             "label each token, with a model for named entities: the token, its label and "
             "probability, and its byte range in the text"),
    OPT_CHOICE(0, "aggregate", &o.aggregate, aggregations, "KIND",
               "print the entities that the labels of tokens form, without those labelled O: each "
               "token (none), adjacent tokens with the same kind of label (simple), or adjacent "
               "words, each labelled by its first token (first), by the mean of its tokens "
               "(average) or by its most probable token (max)"),
    OPT_INT('n', "count", &o.count, 1, 1000, "N",
            "number of labels to print, most probable first (default: all)"),
    OPT_FLAG(0, "truncate", &o.truncate,
             "truncate texts that exceed the model's positions, instead of failing"),
    OPT_FLAG(0, "strict", &o.strict, "fail on invalid UTF-8 and on characters without a token"),
    OPT_END
};

struct classified {
    struct cmd_source source;
    struct cmd_texts t; // the texts of the current chunk
    const char **pair;  // [t.count] second text of each pair; NULL: the texts are no pairs
    float *scores, *p;  // [t.count][labels] logits, and probabilities
    int64_t labels;
    bool raw; // a decoder with one label, a reward model: its score is printed, not its probability
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
};

// Opens the texts or pairs of texts. A pair is two operands, or a line with two parts.
static qkv_status open_texts(struct classified *c, int argc, char **argv, qkv_error *err)
{
    const bool two = argc == 2;
    if (two && o.file)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "a pair of texts cannot be combined with -f FILE");
    if (o.pairs && argc && !o.file)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--pairs requires -f FILE");
    return cmd_source_open(&c->source, two ? 1 : argc, argv, o.file, err);
}

// Divides the lines of a chunk into pairs.
static qkv_status split_pairs(struct classified *c, qkv_error *err)
{
    c->pair = cmd_grow(c->pair, (size_t)c->t.count + 1, sizeof *c->pair);
    for (int64_t i = 0; i < c->t.count; i++) {
        char *tab = memchr(c->t.text[i], '\t', c->t.bytes[i]);
        if (!tab) {
            cmd_error(err, QKV_ERR_FORMAT, NULL,
                      "line is no pair, expected two texts separated by a tab, found one text");
            snprintf(err->path, sizeof err->path, "text %lld", (long long)i + 1);
            cmd_text_place(err, c->source.before, c->source.argc, c->source.file);
            return err->status;
        }
        *tab = 0;
        c->t.bytes[i] = (size_t)(tab - c->t.text[i]);
        c->pair[i] = tab + 1;
    }
    return QKV_OK;
}

static void print_one(const struct classified *c, int64_t i)
{
    const float *p = c->p + i * c->labels, *scores = c->scores + i * c->labels;
    const int64_t most = o.count && o.count < c->labels ? o.count : c->labels;
    struct cmd_ranked *order = cmd_alloc((size_t)c->labels, sizeof *order);
    cmd_rank(order, p, c->labels);
    if (common.json) {
        fputs("{\"text\":", stdout);
        cmd_json_text(stdout, c->t.text[i], c->t.bytes[i]);
        if (c->pair) {
            fputs(",\"pair\":", stdout);
            cmd_json_text(stdout, c->pair[i], strlen(c->pair[i]));
        }
        fputs(",\"labels\":[", stdout);
    }
    for (int64_t k = 0; k < most; k++) {
        const int64_t best = order[k].index;
        const char *name = qkv_model_label(c->model, best);
        if (!name) name = "";
        if (common.json) {
            fputs(k ? ",{\"label\":" : "{\"label\":", stdout);
            cmd_json_text(stdout, name, strlen(name));
            fputs(",\"probability\":", stdout);
            cmd_json_float(stdout, p[best]);
            fputs(",\"score\":", stdout);
            cmd_json_float(stdout, scores[best]);
            putchar('}');
        } else {
            fputs(k ? "  " : "", stdout);
            cmd_print_cell(stdout, name, strlen(name), 0, 40);
            printf(" %.4f", (double)(c->raw ? scores : p)[best]);
        }
    }
    if (common.json) {
        fputs("],", stdout);
        cmd_json_computed(stdout);
        putchar('}');
    }
    putchar('\n');
    free(order);
}

// Checks the options of labels of tokens, which have no pairs.
static qkv_status check_tokens(int argc, qkv_error *err)
{
    const char *option = o.tokens ? "--tokens" : "--aggregate";
    if (o.tokens && o.aggregate >= 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--tokens cannot be combined with --aggregate, expected one of them");
    if (argc == 2 || o.pairs)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s cannot be combined with pairs, expected one text per operand or line, "
                         "found a pair",
                         option);
    if (o.count)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s cannot be combined with --count", option);
    return QKV_OK;
}

static void note_cut(int64_t cut)
{
    if (cut)
        cmd_note("texts were truncated; number of tokens that were dropped in total: %lld",
                 (long long)cut);
}

static int run_tokens(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct classified c = { .t = { 0 } };
    const struct classify_tokens how = {
        .every = o.aggregate < 0,
        .aggregate = o.aggregate < 0 ? QKV_AGGREGATE_NONE : (enum qkv_aggregation)o.aggregate,
        .truncate = o.truncate,
        .strict = o.strict,
    };
    int64_t cut = 0;
    qkv_status status = check_tokens(argc, &err);
    if (!status) status = open_texts(&c, argc, argv, &err);
    if (!status) status = classify_tokens(&c.source, &how, &cut, &err);
    if (!status) note_cut(cut);
    cmd_source_close(&c.source);
    return status ? cmd_fail(&err) : QKV_OK;
}

// Computes and prints the labels of a chunk.
static qkv_status classify(struct classified *c, const struct qkv_classify_options *how,
                           qkv_error *err)
{
    const size_t cells = array_count(2, (int64_t[]){ c->t.count + 1, c->labels + 1 });
    if (o.pairs && split_pairs(c, err)) return err->status;
    c->scores = cmd_grow(c->scores, cells, sizeof *c->scores);
    c->p = cmd_grow(c->p, cells, sizeof *c->p);
    cmd_progress_piece(c->source.before, c->source.total);
    qkv_status status =
        qkv_classify(c->model, c->tokenizer, c->scores, c->p, (const char *const *)c->t.text,
                     c->t.bytes, c->pair, NULL, c->t.count, how, err);
    for (int64_t i = 0; i < c->t.count && !status; i++) {
        status = cmd_check_finite(c->scores + i * c->labels, c->labels, "score of a label", err);
        if (status && c->t.count > 1)
            snprintf(err->path, sizeof err->path, "text %lld", (long long)i + 1);
    }
    if (status) cmd_text_place(err, c->source.before, c->source.argc, c->source.file);
    cmd_progress_clear();
    for (int64_t i = 0; i < c->t.count && !status; i++) print_one(c, i);
    return status ? status : cmd_written(stdout, "standard output", err);
}

static int run_classify(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_model *model = NULL;
    qkv_tokenizer *tokenizer = NULL;
    struct classified c = { .t = { 0 } };
    char dir[CMD_PATH];
    int64_t cut = 0, total = 0;
    const struct qkv_model_options options = cmd_model_options();
    if (o.tokens || o.aggregate >= 0) return run_tokens(argc, argv);
    if (open_texts(&c, argc, argv, &err) || cmd_model_find_for(QKV_JOB_CLASSIFY, dir, NULL, &err) ||
        qkv_model_open(&model, dir, &options, &err) || qkv_tokenizer_open(&tokenizer, dir, &err))
        goto done;
    c.model = model;
    c.tokenizer = tokenizer;
    c.labels = qkv_model_info(model).labels;
    c.raw = c.labels == 1 && qkv_model_info(model).kind == QKV_KIND_DECODER;
    if (argc == 2) {
        c.pair = cmd_grow(NULL, 1, sizeof *c.pair);
        c.pair[0] = argv[1];
    }
    const struct qkv_classify_options how = { .truncate = o.truncate,
                                              .strict = o.strict,
                                              .cut = &cut,
                                              .progress = cmd_progress_begin("texts") };
    do { // an input without texts is run once, which checks the model
        if (cmd_source_next(&c.source, &c.t, &err) || classify(&c, &how, &err)) break;
        total += cut;
    } while (c.t.count);
    cmd_progress_end();
    if (!err.status) note_cut(total);
done:
    cmd_source_close(&c.source);
    cmd_texts_free(&c.t);
    free(c.pair);
    free(c.scores);
    free(c.p);
    qkv_tokenizer_close(tokenizer);
    qkv_model_close(model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_classify = {
    .name = "classify",
    .brief = "classify texts, pairs or tokens: labels with probabilities",
    .usage = "[TEXT [TEXT_B]] [-f FILE] [options]",
    .about = "Prints the labels that a model's classification head assigns to each text, the most "
             "probable first. A cross-encoder reads a pair of texts, and scores how they relate. "
             "Probabilities are a softmax over the labels. If there is a single label, or if "
             "config.json says multi_label_classification, the probability of a label is the "
             "logistic function of its score. A decoder with a single label is a reward model: "
             "its score is printed as it is; --json has both. "
             "With --tokens or --aggregate, a model with labels of tokens (named entities, parts of "
             "speech) labels each token or finds the entities of each text; --json gives them the "
             "members of transformers' token-classification pipeline, with start and end in "
             "characters, and bytes.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .max_args = 2,
    .examples = {
        { "qkv classify \"what a film\" -m sentiment", "the labels with their probabilities" },
        { "qkv classify \"who wrote it?\" \"Jane Austen did\" -m ranker", "a pair" },
        { "qkv classify \"Emily lived in Amherst\" -m ner --aggregate simple", "the named entities" },
        { "qkv classify -f pairs.tsv --pairs --json -n 1", "one JSON object per line, with the best label" },
    },
    .run = run_classify,
};
