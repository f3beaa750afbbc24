// SPDX-License-Identifier: MIT
// cmd_fill.c: implements `qkv fill "Paris is the [MASK] of France"`: prints the most probable
// tokens for each mask.
#include "frame/tokens.h"
#include <stdlib.h>
#include <string.h>

static struct {
    int64_t count;
} o = { .count = 5 };

static const struct opt opts[] = {
    OPT_INT('n', "count", &o.count, 1, 1000, "N",
            "number of tokens to print per mask, 1 to 1000 (default: 5)"),
    OPT_END
};

struct filled {
    const char *text;
    const qkv_tokenizer *tokenizer;
    struct qkv_token_value *tokens; // [masks][count] the most probable tokens for each mask
    int64_t *at;                    // [masks] position of each mask
    int64_t masks;
};

static void print_table(const struct filled *f)
{
    char text[256];
    int width = 8;
    for (int64_t i = 0; i < f->masks * o.count; i++) {
        tokens_spell(text, sizeof text, f->tokenizer, f->tokens[i].id, false);
        const int w = cmd_width(text, strlen(text));
        if (w > width) width = w < 40 ? w : 40;
    }
    for (int64_t m = 0; m < f->masks; m++) {
        if (f->masks > 1)
            printf("%smask %lld, at byte %lld\n", m ? "\n" : "", (long long)m + 1,
                   (long long)f->at[m]);
        for (int64_t i = 0; i < o.count; i++) {
            const struct qkv_token_value *t = &f->tokens[m * o.count + i];
            tokens_spell(text, sizeof text, f->tokenizer, t->id, false);
            printf("%4lld  ", (long long)i + 1);
            cmd_print_cell(stdout, text, strlen(text), width, 40);
            printf("  %.4f\n", (double)t->value);
        }
    }
}

static void print_json(const struct filled *f)
{
    char text[256];
    fputs("{\"text\":", stdout);
    cmd_json_text(stdout, f->text, strlen(f->text));
    putchar(',');
    cmd_json_computed(stdout);
    fputs(",\"masks\":[", stdout);
    for (int64_t m = 0; m < f->masks; m++) {
        printf("%s{\"at\":%lld,\"tokens\":[", m ? "," : "", (long long)f->at[m]);
        for (int64_t i = 0; i < o.count; i++) {
            const struct qkv_token_value *t = &f->tokens[m * o.count + i];
            tokens_spell(text, sizeof text, f->tokenizer, t->id, false);
            printf("%s{\"id\":%d,\"text\":", i ? "," : "", t->id);
            cmd_json_text(stdout, text, strlen(text));
            fputs(",\"probability\":", stdout);
            cmd_json_float(stdout, t->value);
            putchar('}');
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

static int run_fill(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_model *model = NULL;
    qkv_tokenizer *tokenizer = NULL;
    struct filled f = { .text = argv[0] };
    char dir[CMD_PATH];
    const struct qkv_model_options options = cmd_model_options();
    (void)argc;
    if (cmd_model_find_for(QKV_JOB_FILL, dir, NULL, &err) ||
        qkv_model_open(&model, dir, &options, &err) || qkv_tokenizer_open(&tokenizer, dir, &err))
        goto done;
    f.tokenizer = tokenizer;
    const int64_t vocab = qkv_model_info(model).vocab, most = (int64_t)strlen(f.text);
    if (o.count > vocab) o.count = vocab;
    // Each mask takes at least one byte of the text, so there are at most as many masks as bytes.
    f.masks = most < 4096 ? most + 1 : 4096;
    f.tokens = cmd_alloc((size_t)f.masks, (size_t)o.count * sizeof *f.tokens);
    f.at = cmd_alloc((size_t)f.masks, sizeof *f.at);
    const int64_t capacity = f.masks;
    if (qkv_fill(model, tokenizer, f.tokens, f.at, &f.masks, capacity, o.count, f.text,
                 strlen(f.text), &err))
        goto done;
    if (f.masks > capacity) f.masks = capacity;
    (common.json ? print_json : print_table)(&f);
done:
    free(f.tokens);
    free(f.at);
    qkv_tokenizer_close(tokenizer);
    qkv_model_close(model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_fill = {
    .name = "fill",
    .brief = "predict the masked tokens of a text (masked encoders)",
    .usage = "TEXT [options]",
    .about = "Prints the most probable tokens for each mask of TEXT, with their probabilities. A mask is written as in the model's tokenizer, such as [MASK] or <mask>. Each mask is predicted while the others remain masks. Without --model, the first installed model that supports the command is used.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .min_args = 1,
    .max_args = 1,
    .examples = {
        { "qkv fill \"Paris is the [MASK] of France\"", "five words, with their probabilities" },
        { "qkv fill \"the [MASK] sat on the [MASK]\" -n 2 --json", "two tokens for each of two masks, as JSON" },
    },
    .run = run_fill,
};
