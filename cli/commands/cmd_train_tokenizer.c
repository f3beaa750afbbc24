// SPDX-License-Identifier: MIT
// cmd_train_tokenizer.c: implements `qkv train-tokenizer`: trains a tokenizer on texts, and writes
// it as a tokenizer.json.
#include "frame/cmd.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = { "bpe", "wordpiece", "unigram", "characters", "bytes", NULL };
enum { KIND_BPE, KIND_WORDPIECE, KIND_UNIGRAM, KIND_CHARACTERS, KIND_BYTES };

static struct {
    int kind;
    int64_t vocab, least;
    const char *output, *special, *unknown, *begin, *end;
    bool lowercase;
} o = { .vocab = -1 };

static const struct opt opts[] = {
    OPT_CHOICE('k', "kind", &o.kind, kinds, "KIND",
               "kind of tokenizer: bpe (byte pairs, starting from bytes), wordpiece, unigram, "
               "characters or bytes (default: bpe)"),
    OPT_INT(0, "vocab", &o.vocab, 1, 1 << 24, "N",
            "size of the vocabulary, including special tokens (default: 8192; characters: all "
            "characters; bytes: 256 and the special tokens)"),
    OPT_OUTPUT('o', "output", &o.output, "FILE", "the tokenizer.json to write (required)"),
    OPT_TEXT(0, "special", &o.special, "A,B,...",
             "special tokens, which get the ids 0, 1, ... (bytes: 256, 257, ...)"),
    OPT_TEXT(0, "unknown", &o.unknown, "TOKEN",
             "unknown token, for text that no other token covers (default: wordpiece [UNK]; "
             "unigram and characters <unk>)"),
    OPT_TEXT(0, "begin", &o.begin, "TOKEN",
             "special token that is put before each text when it is encoded"),
    OPT_TEXT(0, "end", &o.end, "TOKEN",
             "special token that is put after each text when it is encoded"),
    OPT_FLAG(0, "lowercase", &o.lowercase,
             "convert texts to lower case first (for wordpiece, also remove accents)"),
    OPT_INT(0, "least", &o.least, 1, INT64_MAX, "N",
            "how often a pair or word must occur to become a token (default: 2)"),
    OPT_END
};

// ---- reading texts; each file is one text ------------------------------------------------------
struct texts {
    char **text;
    size_t *bytes;
    int64_t count;
    size_t total;
};

static qkv_status read_text(struct texts *t, const char *path, qkv_error *err)
{
    const qkv_status status = cmd_read_file(&t->text[t->count], &t->bytes[t->count], path, err);
    t->total += t->bytes[t->count++];
    return status;
}

static qkv_status read_texts(struct texts *t, int argc, char **argv, qkv_error *err)
{
    static char *standard[] = { "-" };
    if (!argc && isatty(0))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "no text is given, expected files, or text on standard input");
    if (!argc) argv = standard;
    const int n = argc ? argc : 1;
    t->text = cmd_alloc((size_t)n, sizeof *t->text);
    t->bytes = cmd_alloc((size_t)n, sizeof *t->bytes);
    qkv_status status = QKV_OK;
    for (int i = 0; i < n && !status; i++) status = read_text(t, argv[i], err);
    return status;
}

static void texts_free(struct texts *t)
{
    for (int64_t i = 0; i < t->count; i++) free(t->text[i]);
    free(t->text);
    free(t->bytes);
}

// ---- parsing special tokens, which are separated by commas -------------------------------------
static const char **split_special(char *list, int64_t *count)
{
    *count = 0;
    if (!list) return NULL;
    size_t most = 1;
    for (const char *p = list; *p; p++) most += *p == ',';
    const char **names = cmd_alloc(most, sizeof *names);
    for (char *p = list; p;) {
        names[(*count)++] = p;
        p = strchr(p, ',');
        if (p) *p++ = 0;
    }
    return names;
}

// Prints the number of tokens in the vocabulary, and the mean bytes per token of the first text.
static qkv_status report(const struct texts *t, qkv_error *err)
{
    enum { SAMPLE = 1 << 20 };
    static const struct qkv_encode_options plain = { .no_special = true };
    qkv_tokenizer *tokenizer = NULL;
    qkv_encoding e = { 0 };
    const size_t bytes = t->bytes[0] < SAMPLE ? t->bytes[0] : SAMPLE;
    qkv_status status = qkv_tokenizer_open(&tokenizer, o.output, err);
    if (!status)
        status = qkv_tokenizer_encode(tokenizer, &e, t->text[0], bytes, NULL, 0, &plain, err);
    if (!status) {
        const long long size = (long long)qkv_tokenizer_size(tokenizer);
        const double each = e.count ? (double)bytes / (double)e.count : 0;
        if (common.json) {
            fputs("{\"path\":", stdout);
            cmd_json_text(stdout, o.output, strlen(o.output));
            printf(",\"kind\":\"%s\",\"model\":\"%s\",\"tokens\":%lld,\"bytes\":%lld,"
                   "\"bytes_per_token\":%.3f}\n",
                   kinds[o.kind], qkv_tokenizer_kind(tokenizer), size, (long long)t->total, each);
        } else {
            cmd_print_name(stdout, o.output);
            printf(": %s, %lld tokens, %.2f bytes per token\n", kinds[o.kind], size, each);
        }
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(tokenizer);
    return status;
}

static int run_train_tokenizer(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct texts t = { 0 };
    char *list = NULL;
    const char **special = NULL;
    int64_t specials = 0;
    if (!o.output)
        cmd_error(&err, QKV_ERR_USAGE, NULL, "no output file is given, expected -o FILE");
    if (err.status || cmd_output_stdout(&o.output, &err) || cmd_output_check(o.output, &err) ||
        read_texts(&t, argc, argv, &err))
        goto done;
    if (o.special) list = strcpy(cmd_alloc(strlen(o.special) + 1, 1), o.special);
    special = split_special(list, &specials);
    if (o.vocab < 0) o.vocab = o.kind == KIND_BYTES || o.kind == KIND_CHARACTERS ? 0 : 8192;
    const struct qkv_tokenizer_training how = { .kind = kinds[o.kind],
                                                .vocab = o.vocab,
                                                .least = o.least,
                                                .special = special,
                                                .specials = specials,
                                                .lowercase = o.lowercase,
                                                .unknown = o.unknown,
                                                .begin = o.begin,
                                                .end = o.end,
                                                .progress = cmd_progress_begin("steps") };
    const qkv_status status = qkv_tokenizer_train(o.output, (const char *const *)t.text, t.bytes,
                                                  t.count, &how, common.force, &err);
    cmd_progress_end();
    if (!status && !cmd_output_direct(o.output)) report(&t, &err);
done:
    texts_free(&t);
    free(special);
    free(list);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_train_tokenizer = {
    .name = "train-tokenizer",
    .brief = "train a tokenizer on texts",
    .usage = "FILE... -o tokenizer.json [options]\n-o tokenizer.json [options] <text",
    .about =
        "Trains a tokenizer on texts, and writes it as a tokenizer.json, which qkv and Hugging "
        "Face tokenizers read in the same way. Each file is one text; without files, the text is "
        "read from standard input. The same texts and options always result in the same file.\n"
        "\n"
        "bpe starts from bytes, so it can encode every text. wordpiece and unigram split words "
        "into parts, and know only the characters that the texts contain.",
    .opts = opts,
    .uses = USES_OUTPUT | USES_JSON | READS_OPERANDS,
    .max_args = -1,
    .examples = {
        { "qkv train-tokenizer book.txt --vocab 4096 -o tokenizer.json", "byte pairs, with 4096 tokens" },
        { "qkv train-tokenizer *.txt --kind wordpiece --lowercase -o tokenizer.json",
          "like BERT's tokenizer, with --special '[PAD],[UNK],[CLS],[SEP],[MASK]' --begin '[CLS]' --end '[SEP]'" },
        { "zcat dump.gz | qkv train-tokenizer --kind unigram -o tokenizer.json --json", "texts from a pipe" },
    },
    .run = run_train_tokenizer,
};
