// SPDX-License-Identifier: MIT
// cmd_translate.c: implements `qkv translate`: translates texts with an encoder-decoder.
#include "generate/generate_command.h"
#include <unistd.h>

static struct {
    bool alignment;
    int64_t layer;
} o = { .layer = -1 };

// clang-format off
static const struct opt opts[] = {
    GENERATE_OUTPUT_OPTIONS("from the model's files, or 4", 1, ""),
    OPT_GROUP("Alignment"),
    OPT_FLAG(0, "alignment", &o.alignment, "print, for each token that is written, the attention of its step to each token of the text: the mean of all heads of cross-attention; darker is larger, < marks the largest"),
    OPT_INT(0, "layer", &o.layer, 0, 1 << 16, "L", "layer whose cross-attention --alignment prints, counted from 0 (default: the last)"),
    GENERATE_SAMPLING_OPTIONS,
    GENERATE_RUN_OPTIONS,
    OPT_END
};
// clang-format on

static qkv_status run(void *model, const char *const *texts, const size_t *bytes, int64_t n,
                      const struct qkv_generate_options *how, qkv_error *err)
{
    return qkv_translate(model, texts, bytes, n, how, err);
}

static int run_translate(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct generate_call s = { 0 };
    qkv_translator *t = NULL;
    char dir[CMD_PATH];
    if (o.layer >= 0 && !o.alignment) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--layer requires --alignment");
        goto done;
    }
    if (generate_begin(&s, argc, argv, &err) || generate_check_sampling(&s, NULL, &err) ||
        cmd_model_find_for(QKV_JOB_TRANSLATE, dir, NULL, &err) ||
        qkv_translator_open(&t, dir, &s.open, &err))
        goto done;
    if (!common.model && isatty(STDERR_FILENO)) cmd_note("the model is %s", dir);
    s.how.alignment = o.alignment;
    s.how.alignment_layer = o.layer >= 0 ? &o.layer : NULL;
    // with sampling, the default is no beam search
    if (!s.how.beams && s.how.sampling.temperature > 0) s.how.beams = 1;
    s.model = qkv_translator_model(t);
    s.tokenizer = qkv_translator_tokenizer(t);
    generate_note_ignored(qkv_translator_ignored(t));
    generate_set_callbacks(&s);
    s.how.progress = cmd_progress_begin("texts");
    generate_run(&s, run, t, &err);
done:
    qkv_translator_close(t);
    generate_free(&s);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_translate = {
    .name = "translate",
    .brief = "translate texts with an encoder-decoder",
    .usage = "[TEXT] [-f FILE] [options]",
    .about = "An encoder reads each text, and a decoder writes its translation. A beam search "
             "finds the best translation; with --beam 1 the next token is always the most probable "
             "one. The texts of a file are decoded together without changing each other's results. "
             "--alignment prints to which tokens of the text each output token attends. Without "
             "--model, the first installed model that supports the command is used.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .max_args = 1,
    .examples = {
        { "qkv translate \"the third of May 1987\" -m models/dates", "1987-05-03" },
        { "qkv translate \"12 Jan 2031\" -m models/dates --alignment", "also print to which tokens of the text each digit attends" },
        { "qkv translate -f dates.txt --json --n-best 3", "one JSON object for each output, with its score" },
    },
    .run = run_translate,
};
