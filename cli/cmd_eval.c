// SPDX-License-Identifier: MIT
// cmd_eval.c: `qkv eval`: how good a model is.
#include "cmd.h"
#include "eval_print.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) NAME,
static const char *const objectives[] = {
#include <qkv/objective.def>
    NULL
};
#undef QKV_OBJECTIVE_ROW
static const char *const precisions[] = { "f32", "f32-strict", "f32-fast", "bf16", "f16", NULL };
static const char *const formats[] = { "text", "jsonl", "tsv", NULL };
static struct {
    int objective, precision, format;
    int64_t beam, show, seed;
    double penalty;
    bool alignment;
} c = { .objective = -1, .precision = -1, .format = -1, .seed = -1, .penalty = (double)NAN };
static struct qkv_eval_options o;
static int64_t shown;

// clang-format off
static const struct opt opts[] = {
    OPT_CHOICE(0, "objective", &c.objective, objectives, "WORD", "causal, masked, seq2seq, contrastive, classify (default: the run's, else what the model is for)"),
    OPT_CHOICE(0, "format", &c.format, formats, "WORD", "text, jsonl, tsv (default: by each name's end)"),
    OPT_TEXT(0, "field", &o.texts.field, "NAME", "member of a JSON line, column of a table (default: text, 1)"),
    OPT_TEXT(0, "field-b", &o.texts.field_b, "NAME", "of the second text or the label (default: text_b, label, 2)"),
    OPT_FLAG(0, "per-line", &o.texts.per_line, "each line is a document (default: a blank line ends one)"),
    OPT_INT(0, "context", &o.context, 2, 1 << 24, "N", "tokens of a sequence at most (default: the run's, else the model's positions, at most 1024)"),
    OPT_INT(0, "batch-tokens", &o.batch_tokens, 1, 1 << 30, "N", "tokens of a batch at most (default: 4096)"),
    OPT_CHOICE(0, "precision", &c.precision, precisions, "P", "f32, f32-strict, f32-fast, bf16, f16 (default: f32)"),
    OPT_INT(0, "seed", &c.seed, 0, INT64_MAX, "N", "of the masks of masked models (default: the run's)"),
    OPT_GROUP("Pairs"),
    OPT_INT(0, "beam", &c.beam, 1, 256, "N", "outputs kept side by side while one is sought; 1: greedy (default: 4)"),
    OPT_REAL(0, "penalty", &c.penalty, "X", "of length: log-probability / length^X (default: 1)"),
    OPT_INT(0, "most", &o.most, 1, 1 << 30, "N", "sources that are decoded (default: all)"),
    OPT_INT(0, "show", &c.show, 1, 1 << 30, "N", "print the first N sources, outputs and references"),
    OPT_FLAG(0, "alignment", &c.alignment, "with --show: where each token of the output looked (heads of the last layer, averaged); darker is more, < the most"),
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

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct qkv_eval_result r;
    o.dir = argv[0];
    o.texts.paths = (const char *const *)argv + 1;
    o.texts.n = argc - 1;
    o.texts.format = word(formats, c.format);
    o.objective = word(objectives, c.objective);
    o.precision = word(precisions, c.precision);
    o.beam = (int)c.beam;
    o.seed = c.seed < 0 ? 0 : c.seed ? c.seed : -1; // the library takes 0 as not given
    o.penalty = isnan(c.penalty) ? 0 : c.penalty == 0 ? -1 : c.penalty;
    if (c.penalty < 0) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--penalty: expected no number below 0, found %g",
                  c.penalty);
        return cmd_fail(&err);
    }
    const struct qkv_eval_watch watch = { .example = on_example,
                                          .alignment = c.alignment && c.show,
                                          .progress = cmd_progress_begin("sequences") };
    const qkv_status s = qkv_evaluate(&o, &watch, &r, &err);
    cmd_progress_end();
    if (!s) eval_print_result(&r);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_eval = {
    .name = "eval",
    .brief = "how good a model is, on its validation text or on files",
    .usage = "RUN|DIR [FILE...] [options]",
    .about = "Loss and perplexity; of decoders also bits per byte of text. Pairs (encoder-decoders) are decoded: "
             "the share that is exactly one of a source's references, and the edits to the nearest of them, a "
             "token (split at white space) and a character. Contrastive models: the share of first texts whose "
             "nearest second text is their own. Labels: the share that is right. RUN is a folder of 'qkv train', "
             "which has its own validation text; a model's folder needs files.",
    .opts = opts,
    .uses = USES_THREADS | USES_JSON,
    .min_args = 1,
    .max_args = -1,
    .examples = {
        { "qkv eval run", "the newest model of a run on its validation text" },
        { "qkv eval models/verse book.txt", "bits per byte of another text" },
        { "qkv eval run test.tsv --show 5 --alignment", "five outputs, and where they looked" },
    },
    .run = run,
};
