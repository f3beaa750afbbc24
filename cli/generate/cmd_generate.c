// SPDX-License-Identifier: MIT
// cmd_generate.c: implements `qkv generate`: continues texts with a decoder.
#include "generate/generate_command.h"
#include <unistd.h>

static struct {
    bool stream, whole, echo;
} o;

// clang-format off
static const struct opt opts[] = {
    GENERATE_OUTPUT_OPTIONS("1", 0, "; 0: only read the text"),
    GENERATE_SAMPLING_OPTIONS,
    GENERATE_RUN_OPTIONS,
    OPT_FLAG(0, "stream", &o.stream, "print each token as soon as it is generated (default on a terminal)"),
    OPT_FLAG(0, "no-stream", &o.whole, "print each output when it is complete"),
    OPT_FLAG(0, "echo", &o.echo, "print each text before its continuation (default while tokens are printed on a "
             "terminal with colors, where it is dim), and with --logprobs its tokens"),
    OPT_END
};
// clang-format on

// Decides whether tokens are printed as they are generated, which is only possible if there is one
// output at a time.
static qkv_status choose_streaming(struct generate_call *s, qkv_error *err)
{
    const bool can = generate_o.beams <= 1 && generate_o.n_best <= 1;
    if (o.stream && o.whole)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--stream cannot be combined with --no-stream");
    if (o.stream && !can)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--stream cannot be combined with --beam or --n-best");
    s->streaming = o.stream || (can && !o.whole && !common.json && isatty(1));
    // on a terminal with colors a color separates the prompt from what the model adds
    s->dim = cmd_color(stdout);
    s->echo = o.echo || (s->streaming && s->dim);
    s->logs_prompts = o.echo && s->how.logprobs;
    if (s->streaming) s->open.items = 1;
    return QKV_OK;
}

static qkv_status run(void *model, const char *const *texts, const size_t *bytes, int64_t n,
                      const struct qkv_generate_options *how, qkv_error *err)
{
    return qkv_generate(model, texts, bytes, n, how, err);
}

static int run_generate(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct generate_call s = { 0 };
    qkv_generator *g = NULL;
    char dir[CMD_PATH];
    if (generate_begin(&s, argc, argv, &err) || choose_streaming(&s, &err) ||
        cmd_model_find_for(QKV_JOB_GENERATE, dir, NULL, &err) ||
        qkv_generator_open(&g, dir, &s.open, &err) ||
        generate_check_sampling(&s, qkv_generator_sampling(g), &err))
        goto done;
    s.model = qkv_generator_model(g);
    s.tokenizer = qkv_generator_tokenizer(g);
    generate_note_ignored(qkv_generator_ignored(g));
    generate_set_callbacks(&s);
    if (!s.streaming) s.how.progress = cmd_progress_begin("texts");
    generate_run(&s, run, g, &err);
done:
    qkv_generator_close(g);
    generate_free(&s);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_generate = {
    .name = "generate",
    .brief = "continue texts with a decoder",
    .usage = "[TEXT] [-f FILE] [options]",
    .about = "Continues each text with a decoder. The next token is the most probable one, or is sampled "
             "with --temperature or if generation_config.json of the model has do_sample, which qkv "
             "train writes for a decoder trained from scratch; with "
             "--beam a beam search finds the best sequence of tokens. The texts of a file are decoded together; the output for a text is "
             "bit-identical alone, in a batch, and with any number of threads. Without --model, "
             "the first installed model that supports the command is used. A text with more tokens "
             "than the model has positions is an error; with --truncate its beginning is cut.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .max_args = 1,
    .examples = {
        { "qkv generate \"In the beginning\" -n 40", "40 tokens, the most probable one each time" },
        { "qkv generate \"And he said\" -t 0.8 --top-p 0.9 --seed 7", "sampled tokens; another seed changes the output" },
        { "qkv generate -f prompts.txt --json --logprobs 3", "one JSON object for each line of the file" },
        { "qkv generate \"In the beginning\" -n 0 --echo --logprobs 1", "the log-probability of each token of a text" },
        { "qkv generate \"Blessed are\" --beam 4 --n-best 4 -n 20", "the four best outputs of a beam search" },
    },
    .run = run_generate,
};
