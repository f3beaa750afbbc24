// SPDX-License-Identifier: MIT
// cmd_generate.c: `qkv generate`: a decoder goes on with a text.
#include "speak.h"
#include <stdlib.h>
#include <unistd.h>

static struct {
    bool stream, whole, echo;
} o;

// clang-format off
static const struct opt opts[] = {
    SPEAK_OUTPUT_OPTIONS("1"),
    SPEAK_SAMPLING_OPTIONS,
    SPEAK_RUN_OPTIONS,
    OPT_FLAG(0, "stream", &o.stream, "print tokens as they come (default on a terminal)"),
    OPT_FLAG(0, "no-stream", &o.whole, "print outputs when they are done"),
    OPT_FLAG(0, "echo", &o.echo, "print the text before what goes on with it"),
    OPT_END
};
// clang-format on

// Only what comes one after the other can be printed as it comes.
static qkv_status streaming(struct speak *s, qkv_error *err)
{
    const bool can = speak_o.beams <= 1 && speak_o.n_best <= 1;
    if (o.stream && o.whole)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--stream: expected it or --no-stream");
    if (o.stream && !can)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--stream: one output of a text, expected no --beam and no --n-best");
    s->streaming = o.stream || (can && !o.whole && !common.json && isatty(1));
    s->echo = o.echo;
    if (s->streaming) s->open.items = 1;
    return QKV_OK;
}

// With --echo a stream has its text in front of it: one text a call.
static qkv_status generate(struct speak *s, qkv_generator *g, qkv_error *err)
{
    const char *const *texts = (const char *const *)s->texts.text;
    if (s->streaming && s->echo && !common.json && s->texts.count == 1)
        speak_print_text(stdout, texts[0], s->texts.bytes[0]);
    return qkv_generate(g, texts, s->texts.bytes, s->texts.count, &s->how, err);
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct speak s = { 0 };
    qkv_generator *g = NULL;
    char dir[CMD_PATH];
    if (speak_begin(&s, argc, argv, &err) || streaming(&s, &err) ||
        cmd_model_find_for(QKV_JOB_GENERATE, dir, &err) ||
        qkv_generator_open(&g, dir, &s.open, &err))
        goto done;
    s.model = qkv_generator_model(g);
    s.tokenizer = qkv_generator_tokenizer(g);
    speak_watch(&s);
    if (!s.streaming) s.how.progress = cmd_progress_begin("texts");
    const qkv_status status = generate(&s, g, &err);
    if (s.streaming && status && !common.json) putchar('\n');
    speak_over(&s, status, &err);
done:
    qkv_generator_close(g);
    speak_end(&s);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_generate = {
    .name = "generate",
    .brief = "go on with a text (decoders)",
    .usage = "[TEXT] [-f FILE] [options]",
    .about = "A decoder goes on with each text, token by token: the likeliest one, with --temperature a drawn "
             "one, with --beam the likeliest sequence that a search finds. Texts of a file run side by side; an "
             "output has the same bits alone, beside others, and for any number of threads. Without --model the "
             "first model found that can. A text longer than the model's positions is refused unless --truncate "
             "says to leave out its beginning.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .max_args = 1,
    .examples = {
        { "qkv generate \"In the beginning\" -n 40", "40 tokens, the likeliest each time" },
        { "qkv generate \"And he said\" -t 0.8 --top-p 0.9 --seed 7", "drawn; another seed, another text" },
        { "qkv generate -f prompts.txt --json --logprobs 3", "a JSON object a line of the file" },
        { "qkv generate \"Blessed are\" --beam 4 --n-best 4 -n 20", "the four best that a search finds" },
    },
    .run = run,
};
