// SPDX-License-Identifier: MIT
// cmd_translate.c: `qkv translate`: a text through an encoder-decoder.
#include "speak.h"
#include <stdlib.h>

static struct {
    bool alignment;
    int64_t layer;
} o;

// clang-format off
static const struct opt opts[] = {
    SPEAK_OUTPUT_OPTIONS("as the model's files say, else 4"),
    OPT_GROUP("Alignment"),
    OPT_FLAG(0, "alignment", &o.alignment, "where each token of the output looked: cross-attention, heads averaged; darker is more, < the most"),
    OPT_INT(0, "layer", &o.layer, 1, 1 << 16, "L", "whose (default: the last)"),
    SPEAK_SAMPLING_OPTIONS,
    SPEAK_RUN_OPTIONS,
    OPT_END
};
// clang-format on

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct speak s = { 0 };
    qkv_translator *t = NULL;
    char dir[CMD_PATH];
    if (o.layer && !o.alignment) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--layer: expected --alignment beside it");
        goto done;
    }
    if (speak_begin(&s, argc, argv, &err) || cmd_model_find_for(QKV_JOB_TRANSLATE, dir, &err) ||
        qkv_translator_open(&t, dir, &s.open, &err))
        goto done;
    s.how.alignment = o.alignment;
    s.how.alignment_layer = o.layer;
    // draws are no search, unless one is asked for
    if (!s.how.beams && s.how.sampling.temperature > 0) s.how.beams = 1;
    s.model = qkv_translator_model(t);
    s.tokenizer = qkv_translator_tokenizer(t);
    speak_watch(&s);
    s.how.progress = cmd_progress_begin("texts");
    const qkv_status status = qkv_translate(t, (const char *const *)s.texts.text, s.texts.bytes,
                                            s.texts.count, &s.how, &err);
    speak_over(&s, status, &err);
done:
    qkv_translator_close(t);
    speak_end(&s);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_translate = {
    .name = "translate",
    .brief = "a text to another one (encoder-decoders)",
    .usage = "[TEXT] [-f FILE] [options]",
    .about = "An encoder reads each text, a decoder writes its translation: the likeliest that a search of beams "
             "finds (--beam 1: the likeliest token each time). Texts of a file run side by side and do not change "
             "each other. --alignment shows which tokens of the text each token of the output looked at. Without "
             "--model the first model found that can.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .max_args = 1,
    .examples = {
        { "qkv translate \"the third of May 1987\" -m models/dates", "1987-05-03" },
        { "qkv translate \"12 Jan 2031\" -m models/dates --alignment", "and where each digit was read" },
        { "qkv translate -f dates.txt --json --n-best 3", "a JSON object an output, with its score" },
    },
    .run = run,
};
