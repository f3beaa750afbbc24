// SPDX-License-Identifier: MIT
// cmd_eval.c: implements `qkv eval`: evaluates a model on text.
#include "frame/cmd.h"
#include "eval/eval_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) NAME,
static const char *const objectives[] = {
#include <qkv/objective.def>
    NULL
};
#undef QKV_OBJECTIVE_ROW
static const char *const precisions[] = { "f32", "f32-strict", "f32-fast", "bf16",
                                          "f16", "int8",       NULL };
static const char *const formats[] = { "text", "jsonl", "tsv", NULL };
static struct {
    int objective, precision, format;
    int64_t beam, show, seed;
    double penalty;
    bool alignment;
    const char *model, *perplexity;
    int64_t window, stride;
} c = { .objective = -1, .precision = -1, .format = -1, .seed = -1, .penalty = (double)NAN };
static struct qkv_eval_options o;
static int64_t shown;

// clang-format off
static const struct opt opts[] = {
    OPT_INPUT('m', "model", &c.model, "RUN|DIR", "the run or model folder, or its name; all operands are files then"),
    OPT_CHOICE(0, "objective", &c.objective, objectives, "WORD", "what to evaluate: causal, masked, seq2seq, contrastive or classify (default: as in the run; without a run, by the kind of model)"),
    OPT_CHOICE(0, "format", &c.format, formats, "WORD", "format of the files: text, jsonl or tsv (default: by the ending of each name)"),
    OPT_TEXT(0, "field", &o.texts.field, "NAME", "JSON member, or column of a table, that has the text (default: member text, column 1)"),
    OPT_TEXT(0, "field-b", &o.texts.field_b, "NAME", "JSON member, or column of a table, that has the second text or the label (default: member text_b or label, column 2)"),
    OPT_FLAG(0, "per-line", &o.texts.per_line, "each line is a document (default: a blank line ends a document)"),
    OPT_INT(0, "context", &o.context, 2, 1 << 24, "N", "maximum length of a sequence in tokens (default: as in the run; without a run the model's positions, at most 1024)"),
    OPT_INT(0, "batch-tokens", &o.batch_tokens, 1, 1 << 30, "N", "maximum number of tokens in a batch (default: 4096)"),
    OPT_CHOICE(0, "precision", &c.precision, precisions, "P", "precision of products: f32, f32-strict, f32-fast, bf16, f16 or int8 (default: f32)"),
    OPT_INT(0, "seed", &c.seed, 0, INT64_MAX, "N", "seed of the random masks, for masked models (default: as in the run)"),
    OPT_GROUP("Pairs"),
    OPT_INT(0, "beam", &c.beam, 1, 256, "N", "number of hypotheses of the beam search; 1: greedy (default: 4)"),
    OPT_REAL(0, "penalty", &c.penalty, "X", "length penalty: the score of a hypothesis is its log-probability / length^X (default: 1)"),
    OPT_INT(0, "most", &o.most, 1, 1 << 30, "N", "number of sources to translate (default: all)"),
    OPT_INT(0, "show", &c.show, 1, 1 << 30, "N", "print the first N sources with their outputs and references"),
    OPT_FLAG(0, "alignment", &c.alignment, "with --show, print how much each output token attends to the source (last layer, mean over heads); darker is more, < marks the largest"),
    OPT_GROUP("A single file of any length"),
    OPT_INPUT(0, "perplexity", &c.perplexity, "FILE", "print the perplexity of a decoder on FILE, read as one text in overlapping windows; '-' is standard input"),
    OPT_INT(0, "window", &c.window, 2, 1 << 24, "N", "number of tokens in a window (default: the model's positions, at most 1024)"),
    OPT_INT(0, "stride", &c.stride, 1, 1 << 24, "N", "number of tokens from the start of one window to the start of the next; a smaller stride gives each token more context and takes longer (default: half a window)"),
    OPT_END
};
// clang-format on

static int on_example(void *user, const struct qkv_eval_example *e)
{
    (void)user;
    if (shown < c.show) {
        cmd_progress_clear();
        eval_print_example(e);
        shown++;
    }
    return cmd_interrupted();
}

static const char *word(const char *const *names, int i)
{
    return i < 0 ? NULL : names[i];
}

// Returns the model folder. If dir is the folder of a training run, that is the run's newest model.
static const char *model_of(char newest[CMD_PATH], const char *dir)
{
    char run[CMD_PATH];
    const int n = snprintf(newest, CMD_PATH, "%s/model", dir);
    const int k = snprintf(run, CMD_PATH, "%s/run.json", dir);
    const bool is = n > 0 && n < CMD_PATH && k > 0 && k < CMD_PATH && access(run, F_OK) == 0;
    return is ? newest : dir;
}

static void perplexity(const char *dir, qkv_error *err)
{
    char found[CMD_PATH], newest[CMD_PATH], *text = NULL;
    size_t bytes;
    qkv_model *m = NULL;
    qkv_tokenizer *t = NULL;
    struct qkv_perplexity p;
    struct qkv_model_options how = cmd_model_options();
    if (c.precision >= 0) (void)qkv_precision_parse(&how.precision, precisions[c.precision]);
    const char *model = dir ? model_of(newest, dir) : NULL;
    if (cmd_model_find_for(QKV_JOB_GENERATE, found, model, err) ||
        cmd_read_file(&text, &bytes, c.perplexity, err) || qkv_model_open(&m, found, &how, err) ||
        qkv_tokenizer_open(&t, found, err))
        goto done;
    const struct qkv_perplexity_options window = { .window = c.window,
                                                   .stride = c.stride,
                                                   .progress = cmd_progress_begin("tokens") };
    const qkv_status status = qkv_perplexity(m, t, &p, text, bytes, &window, err);
    cmd_progress_end();
    if (status == QKV_ERR_FORMAT || status == QKV_ERR_USAGE) // an error of the text
        if (!err->file[0]) qkv_escape(err->file, sizeof err->file, c.perplexity);
    if (status) goto done;
    eval_print_perplexity(&p);
    (void)cmd_check_finite(&(float){ (float)p.loss }, 1, "loss", err);
    if (p.replaced)
        cmd_note("invalid UTF-8 was replaced by U+FFFD in %lld place%s, the first at byte %lld",
                 (long long)p.replaced, p.replaced == 1 ? "" : "s", (long long)p.replaced_at);
done:
    free(text);
    qkv_tokenizer_close(t);
    qkv_model_close(m);
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct qkv_eval_result r;
    char folder[CMD_PATH];
    const char *dir = c.model;
    if (!dir && argc) dir = *argv++, argc--;
    if (cmd_model_path(&dir, folder, &err)) return cmd_fail(&err);
    if (c.perplexity && argc)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--perplexity: expected a model folder as the only operand, found '%.100s'",
                  argv[0]);
    else if (c.perplexity)
        perplexity(dir, &err);
    else if (c.window || c.stride)
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--%s requires --perplexity FILE",
                  c.window ? "window" : "stride");
    else if (!dir)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "eval: too few operands, expected: qkv eval RUN|DIR [FILE...] [options]");
    if (err.status || c.perplexity) return err.status ? cmd_fail(&err) : QKV_OK;
    o.dir = dir;
    o.texts.paths = (const char *const *)argv;
    o.texts.n = argc;
    o.texts.format = word(formats, c.format);
    o.objective = word(objectives, c.objective);
    o.precision = word(precisions, c.precision);
    o.ablate = common.ablate;
    o.ablations = common.ablations;
    o.beam = (int)c.beam;
    // the library reads 0 as "not given" and -1 as 0
    o.seed = c.seed < 0 ? 0 : c.seed ? c.seed : -1;
    o.penalty = isnan(c.penalty) ? 0 : c.penalty == 0 ? -1 : c.penalty;
    if (c.penalty < 0) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--penalty: expected a number of at least 0, found %g",
                  c.penalty);
        return cmd_fail(&err);
    }
    const struct qkv_eval_observer observer = { .example = on_example,
                                                .alignment = c.alignment && c.show,
                                                .progress = cmd_progress_begin("sequences") };
    const qkv_status status = qkv_evaluate(&o, &observer, &r, &err);
    cmd_progress_end();
    if (!status) {
        eval_print_result(&r);
        (void)cmd_check_finite(&(float){ (float)r.loss }, 1, "loss", &err);
    }
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_eval = {
    .name = "eval",
    .brief = "evaluate a model on its validation text or on files",
    .usage = "RUN|DIR [FILE...] [options]\n"
             "-m RUN|DIR [FILE...] [options]\n"
             "[RUN|DIR] --perplexity FILE [options]",
    .about = "Prints the loss and the perplexity, for decoders also the bits per byte of text. An "
             "encoder-decoder translates the sources of the pairs: printed are the share of "
             "outputs that equal a reference of their source, and the number of edits to the "
             "nearest reference, per token (separated by white space) and per character. For a "
             "contrastive model: the share of first texts whose nearest second text is their own. "
             "For labels: the share of correct labels. RUN is a folder of 'qkv train', which has "
             "its own validation text; for a model folder, files must be given. --perplexity reads "
             "a file as one text, in overlapping windows; each token counts once.",
    .opts = opts,
    .uses = USES_THREADS | USES_ABLATE | USES_JSON | READS_OPERANDS,
    .max_args = -1,
    .examples = {
        { "qkv eval run", "the newest model of a run, on its validation text" },
        { "qkv eval models/verse book.txt", "bits per byte of another text" },
        { "qkv eval models/verse --perplexity book.txt --stride 64", "perplexity with at least 192 tokens of context" },
        { "qkv eval run test.tsv --show 5 --alignment", "five outputs and their alignment" },
        { "qkv eval run --ablate L3.H5=mean", "the loss if the output of a head is replaced by its mean" },
    },
    .run = run,
};
