// SPDX-License-Identifier: MIT
// cmd_tokenize.c: implements `qkv tokenize`: prints the tokens, ids and byte ranges of a text, or
// decodes ids to text.
#include "frame/tokens.h"
#include <stdlib.h>
#include <string.h>

static struct {
    const char *file, *tokenizer, *pair, *decode;
    int64_t max_length;
    bool ids, pad, no_special, strict;
} o;

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE",
              "file with more texts, one per line; '-' is standard input"),
    OPT_INPUT(
        0, "tokenizer", &o.tokenizer, "FILE",
        "tokenizer.json, a .model or .spm of SentencePiece, vocab.txt, vocab.json with merges.txt, "
        "tokenizer.bin of llama2.c, or a folder with one of them (default: the model's tokenizer)"),
    OPT_TEXT(0, "pair", &o.pair, "TEXT", "second text that makes a pair with each text"),
    OPT_FLAG(0, "ids", &o.ids, "print only the ids, one line per text"),
    OPT_INPUT(0, "decode", &o.decode, "N,N|FILE",
              "print the text of these ids: a list, or a file with one list per line; '-' is "
              "standard input"),
    OPT_INT(0, "max-length", &o.max_length, 1, 1 << 24, "N",
            "at most N tokens, with special tokens: a longer text is trimmed at its end"),
    OPT_FLAG(0, "pad", &o.pad, "pad a shorter text to --max-length with tokens that are masked"),
    OPT_FLAG(0, "no-special", &o.no_special,
             "do not add special tokens such as [CLS]; text that spells a special token is plain "
             "text; with --decode, leave out special tokens"),
    OPT_FLAG(0, "strict", &o.strict, "fail on invalid UTF-8 and on characters without a token"),
    OPT_END
};

// ---- from text to tokens -----------------------------------------------------------------------
struct shown {
    const qkv_tokenizer *t;
    const qkv_encoding *e;
    // the text and the second text of the pair; the second is NULL without a pair
    const char *text[2];
    size_t bytes[2];
};

static void print_ids(const struct shown *s, char between)
{
    for (int64_t i = 0; i < s->e->count; i++) {
        if (i) putchar(between);
        printf("%d", s->e->ids[i]);
    }
}

static void print_json(const struct shown *s)
{
    const qkv_encoding *e = s->e;
    fputs("{\"text\":", stdout);
    cmd_json_text(stdout, s->text[0], s->bytes[0]);
    if (s->text[1]) fputs(",\"pair\":", stdout);
    if (s->text[1]) cmd_json_text(stdout, s->text[1], s->bytes[1]);
    fputs(",\"ids\":[", stdout);
    print_ids(s, ',');
    fputs("],\"tokens\":[", stdout);
    for (int64_t i = 0; i < e->count; i++) {
        const char *token = qkv_tokenizer_token(s->t, e->ids[i]);
        if (i) putchar(',');
        cmd_json_text(stdout, token, strlen(token));
    }
    fputs("],\"offsets\":[", stdout);
    for (int64_t i = 0; i < e->count; i++)
        printf(i ? ",[%lld,%lld]" : "[%lld,%lld]", (long long)e->begin[i], (long long)e->end[i]);
    fputs("],\"special\":[", stdout);
    for (int64_t i = 0; i < e->count; i++)
        fputs(i ? e->text[i] > 1 ? ",true" : ",false" : e->text[i] > 1 ? "true" : "false", stdout);
    fputs("],\"types\":[", stdout);
    for (int64_t i = 0; i < e->count; i++) printf(i ? ",%d" : "%d", e->types[i]);
    if (o.max_length) {
        fputs("],\"attend\":[", stdout);
        for (int64_t i = 0; i < e->count; i++) printf(i ? ",%d" : "%d", e->attend[i]);
        printf("],\"trimmed\":%lld", (long long)e->cut);
        puts("}");
        return;
    }
    puts("]}");
}

// ---- what the marks of tokens mean -------------------------------------------------------------
// TOKEN: a whole token; PREFIX: what a token begins with, or the whole token; PIECE: a prefix that
// only WordPiece uses, before other characters.
enum mark_place { TOKEN, PREFIX, PIECE };
#define MARK_MASK    "special token in the place of a hidden token"
#define MARK_UNKNOWN "a word or character for which the vocabulary has no token"
#define MARK_PAD     "padding to equal length; masked, so that no token attends to it"
#define MARK_SPACE   "a space"
static const struct mark {
    const char *text;
    enum mark_place place;
    const char *meaning;
} marks[] = {
    { "[CLS]", TOKEN, "special token before the text; a classifier reads its vector" },
    { "[SEP]", TOKEN, "special token after each text" },
    { "[MASK]", TOKEN, MARK_MASK },
    { "<mask>", TOKEN, MARK_MASK },
    { "[UNK]", TOKEN, MARK_UNKNOWN },
    { "<unk>", TOKEN, MARK_UNKNOWN },
    { "[PAD]", TOKEN, MARK_PAD },
    { "<pad>", TOKEN, MARK_PAD },
    { "<s>", TOKEN, "special token that begins a text" },
    { "</s>", TOKEN, "special token that ends a text" },
    { "<|endoftext|>", TOKEN, "special token that separates texts" },
    { "##", PIECE, "continues the word before it; pieces follow frequency, not meaning" },
    { "Ġ", PREFIX, MARK_SPACE },
    { "▁", PREFIX, MARK_SPACE },
    { "Ċ", PREFIX, "a line break" },
};
enum { MARKS = sizeof marks / sizeof *marks };
static bool seen[MARKS]; // the marks of the tokens that were printed

static void note_marks(const qkv_tokenizer *t, const char *token)
{
    const bool pieces = strcmp(qkv_tokenizer_kind(t), "WordPiece") == 0;
    for (int i = 0; i < MARKS; i++) {
        const size_t n = strlen(marks[i].text);
        const enum mark_place place = marks[i].place;
        if (strncmp(token, marks[i].text, n) != 0) continue;
        seen[i] |= place == TOKEN ? !token[n] : place == PREFIX || (pieces && token[n]);
    }
}

static void print_marks(void)
{
    const char *before = "\n";
    int widest = 5;
    for (int i = 0; i < MARKS; i++)
        if (seen[i] && (int)strlen(marks[i].text) > widest) widest = (int)strlen(marks[i].text);
    for (int i = 0; i < MARKS; i++) {
        if (!seen[i]) continue;
        printf("%s%s", before, marks[i].text);
        for (int k = cmd_width(marks[i].text, strlen(marks[i].text)); k < widest + 2; k++)
            putchar(' ');
        puts(marks[i].meaning);
        before = "";
    }
}

// Returns the color of token i. Adjacent tokens have different colors; special tokens are dim.
static const char *colour_of(const qkv_encoding *e, int64_t i)
{
    static const char *const codes[] = { "\033[36m", "\033[33m", "\033[32m", "\033[35m" };
    return e->text[i] > 1 ? "\033[2m" : codes[i % 4];
}

// Prints text 0 or 1 (`which`) in the colors of its tokens.  A byte that belongs to several tokens
// has the color of the first.
static void print_coloured(const struct shown *s, uint8_t which)
{
    const qkv_encoding *e = s->e;
    int64_t at = 0;
    for (int64_t i = 0; i < e->count; i++) {
        if (e->text[i] != which || e->end[i] <= at) continue;
        const int64_t begin = e->begin[i] > at ? e->begin[i] : at;
        cmd_print_cell(stdout, s->text[which] + at, (size_t)(begin - at), 0, 0);
        fputs(colour_of(e, i), stdout);
        cmd_print_cell(stdout, s->text[which] + begin, (size_t)(e->end[i] - begin), 0, 0);
        fputs("\033[0m", stdout);
        at = e->end[i];
    }
    cmd_print_cell(stdout, s->text[which] + at, s->bytes[which] - (size_t)at, 0, 0);
    putchar('\n');
}

static int digits(int64_t n)
{
    return snprintf(NULL, 0, "%lld", (long long)n);
}

static void print_table(const struct shown *s, bool colour)
{
    const qkv_encoding *e = s->e;
    int64_t id = 0, place = 0;
    int widest = 0;
    for (int64_t i = 0; i < e->count; i++) {
        const char *token = qkv_tokenizer_token(s->t, e->ids[i]);
        const int width = cmd_width(token, strlen(token));
        if (e->ids[i] > id) id = e->ids[i];
        if (e->end[i] > place) place = e->end[i];
        if (width > widest) widest = width;
    }
    if (colour) print_coloured(s, 0);
    if (colour && s->text[1]) print_coloured(s, 1);
    if (widest > 40) widest = 40;
    const int ids = digits(id), places = digits(place), columns = cmd_columns();
    const int most = columns - ids - 2 * places - widest - 8;
    for (int64_t i = 0; i < e->count; i++) {
        const char *token = qkv_tokenizer_token(s->t, e->ids[i]);
        note_marks(s->t, token);
        printf("%*d  ", ids, e->ids[i]);
        if (colour) fputs(colour_of(e, i), stdout);
        cmd_print_cell(stdout, token, strlen(token), e->text[i] > 1 ? 0 : widest, 40);
        if (colour) fputs("\033[0m", stdout);
        if (e->text[i] <= 1) {
            printf("  %*lld..%-*lld  ", places, (long long)e->begin[i], places,
                   (long long)e->end[i]);
            cmd_print_cell(stdout, s->text[e->text[i]] + e->begin[i],
                           (size_t)(e->end[i] - e->begin[i]), 0, most < 16 ? 16 : most);
        }
        putchar('\n');
    }
    if (e->cut)
        printf("%lld token%s trimmed by --max-length %lld\n", (long long)e->cut,
               e->cut == 1 ? "" : "s", (long long)o.max_length);
}

// Prints the tokens of text `number` of the source, from 1.
static qkv_status print_tokens(const qkv_tokenizer *t, qkv_encoding *e, const char *text,
                               size_t bytes, int64_t number, const struct cmd_source *source,
                               qkv_error *err)
{
    const struct qkv_encode_options how = { .no_special = o.no_special,
                                            .strict = o.strict,
                                            .max_length = o.max_length,
                                            .truncate = true,
                                            .pad = o.pad };
    const struct shown s = { t, e, { text, o.pair }, { bytes, o.pair ? strlen(o.pair) : 0 } };
    const qkv_status status =
        qkv_tokenizer_encode(t, e, text, bytes, o.pair, s.bytes[1], &how, err);
    if (status) {
        cmd_text_place(err, number - 1, source->argc, source->file);
        return status;
    }
    if (e->replaced)
        cmd_note("text %lld: invalid UTF-8 was replaced by U+FFFD in %lld place%s, the first at "
                 "byte %lld",
                 (long long)number, (long long)e->replaced, e->replaced == 1 ? "" : "s",
                 (long long)e->replaced_at);
    if (e->dropped) tokens_note_dropped(e->dropped, e->dropped_at, number);
    if (common.json) {
        print_json(&s);
    } else if (o.ids) {
        print_ids(&s, ' ');
        putchar('\n');
    } else {
        if (number > 1) putchar('\n');
        print_table(&s, cmd_color(stdout));
    }
    return cmd_written(stdout, "standard output", err);
}

static qkv_status tokenize_texts(const qkv_tokenizer *t, int argc, char **argv, qkv_error *err)
{
    struct cmd_source source;
    struct cmd_texts texts = { 0 };
    qkv_encoding e = { 0 };
    qkv_status status = cmd_source_open(&source, argc, argv, o.file, err);
    while (!status && !(status = cmd_source_next(&source, &texts, err)) && texts.count)
        for (int64_t i = 0; i < texts.count && !status; i++)
            status = print_tokens(t, &e, texts.text[i], texts.bytes[i], source.before + i + 1,
                                  &source, err);
    cmd_texts_free(&texts);
    cmd_source_close(&source);
    qkv_encoding_free(&e);
    if (!status && !common.json && !o.ids) print_marks();
    return status ? status : cmd_written(stdout, "standard output", err);
}

// ---- from ids to text --------------------------------------------------------------------------
static qkv_status decode_one(const qkv_tokenizer *t, const int32_t *ids, int64_t n, qkv_error *err)
{
    size_t need = 0;
    for (int64_t i = 0; i < n; i++)
        if (!qkv_tokenizer_token(t, ids[i]))
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--decode: token id out of range, expected 0 to %lld, found %d",
                             (long long)qkv_tokenizer_size(t) - 1, ids[i]);
    qkv_status status = qkv_tokenizer_decode(t, NULL, 0, &need, ids, n, o.no_special, err);
    if (status) return status;
    char *text = cmd_alloc(need + 1, 1);
    status = qkv_tokenizer_decode(t, text, need + 1, &need, ids, n, o.no_special, err);
    if (!status && common.json) {
        fputs("{\"ids\":[", stdout);
        for (int64_t i = 0; i < n; i++) printf(i ? ",%d" : "%d", ids[i]);
        fputs("],\"text\":", stdout);
        cmd_json_text(stdout, text, need);
        fputc('}', stdout);
    } else if (!status) {
        cmd_print_text(stdout, text, need);
    }
    putchar('\n');
    free(text);
    return status ? status : cmd_written(stdout, "standard output", err);
}

static qkv_status decode(const qkv_tokenizer *t, qkv_error *err)
{
    struct id_lists l;
    qkv_status status = id_lists_read(&l, o.decode, err);
    for (int64_t i = 0; i < l.count && !status; i++)
        status = decode_one(t, l.ids + l.offsets[i], l.offsets[i + 1] - l.offsets[i], err);
    id_lists_free(&l);
    return status;
}

static int run_tokenize(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_tokenizer *t = NULL;
    char dir[CMD_PATH];
    if (o.decode && (argc || o.file || o.pair || o.ids)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "texts cannot be combined with --decode");
        goto done;
    }
    if (o.decode && (o.max_length || o.pad || o.strict)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "%s cannot be combined with --decode",
                  o.max_length ? "--max-length"
                  : o.pad      ? "--pad"
                               : "--strict");
        goto done;
    }
    if (o.pad && !o.max_length) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--pad requires --max-length");
        goto done;
    }
    if (o.tokenizer ? cmd_model_path(&o.tokenizer, dir, &err) : cmd_model_find(dir, &err))
        goto done;
    if (qkv_tokenizer_open(&t, o.tokenizer ? o.tokenizer : dir, &err)) goto done;
    if (o.decode)
        decode(t, &err);
    else
        tokenize_texts(t, argc, argv, &err);
done:
    qkv_tokenizer_close(t);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_tokenize = {
    .name = "tokenize",
    .brief = "print the tokens, ids and byte ranges of a text, or the text of ids",
    .usage = "[TEXT...] [-f FILE] [options]\n--decode IDS [options]",
    .about = "Prints a line for each token: its id, the token, its byte range in the text, and "
             "those bytes, and at the end the meaning of marks such as [CLS] and ##. On a terminal, the text is printed first, in the colors of its tokens. "
             "Texts come from the operands and from the lines of -f; if there are neither, from "
             "standard input. Tokenizers can be tokenizer.json, SentencePiece, source.spm with "
             "vocab.json (Marian), vocab.txt, vocab.json with merges.txt, or tokenizer.bin of "
             "llama2.c.",
    .opts = opts,
    .uses = USES_MODEL | USES_JSON,
    .max_args = -1,
    .examples = {
        { "qkv tokenize \"unbelievable tokens\"", "tokens of a text, by the default model" },
        { "qkv tokenize --pad --max-length 8 \"a short text\"", "padding, as a batch has it" },
        { "qkv tokenize --ids -f lines.txt", "a line of ids for each line of a file" },
        { "qkv tokenize --decode 101,7592,2088,102", "the text of ids" },
        { "qkv tokenize --tokenizer spiece.model --json hello", "one JSON object per text" },
    },
    .run = run_tokenize,
};
