// SPDX-License-Identifier: MIT
// cmd_analogy.c: implements `qkv analogy Paris - France + Italy`: adds and subtracts the input
// embeddings of words, and prints the nearest words.
#include "analogy/analogy_picture.h"
#include <stdlib.h>
#include <string.h>

enum { TERMS = 32 };
static struct {
    int64_t count;
    bool picture;
    struct chart_output to;
} o = { .count = 10 };

static const struct opt opts[] = { OPT_INT('n', "count", &o.count, 1, 1000, "N",
                                           "number of words to list, 1 to 1000 (default: 10)"),
                                   OPT_FLAG(0, "picture", &o.picture,
                                            "also draw the sum as arrows in the terminal"),
                                   CHART_OPTIONS(o.to), OPT_END };

struct term {
    char word[256];
    float sign;
    int32_t id;
};

// Parses one operand: "+", "-", "word", "+word" or "-word". If it has a word, appends the word to
// terms. *sign is the sign of the next word; 0: a sign must come before the next word.
static qkv_status part(struct term *terms, int *n, float *sign, const char *p, size_t bytes,
                       qkv_error *err)
{
    if (*p == '+' || *p == '-') {
        if (*sign != 0 && *n)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "two consecutive signs in the sum, expected a word, found '%.*s'",
                             (int)bytes, p);
        *sign = *p == '-' ? -1.0f : 1.0f;
        p++;
        bytes--;
        if (!bytes) return QKV_OK;
    } else if (*sign == 0) {
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "two consecutive words in the sum, expected + or - before '%.*s'",
                         (int)(bytes < 200 ? bytes : 200), p);
    }
    if (*n == TERMS)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "too many words in the sum, expected at most %d",
                         TERMS);
    if (bytes >= sizeof terms->word)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "word of the sum is too long, found '%.40s...'",
                         p);
    memcpy(terms[*n].word, p, bytes);
    terms[*n].word[bytes] = 0;
    terms[(*n)++].sign = *sign;
    *sign = 0;
    return QKV_OK;
}

static qkv_status parse(struct term *terms, int *n, int argc, char **argv, qkv_error *err)
{
    float sign = 1; // the first word needs no sign
    for (int i = 0; i < argc; i++)
        for (const char *p = argv[i] + strspn(argv[i], " \t"); *p; p += strspn(p, " \t")) {
            const size_t bytes = strcspn(p, " \t");
            const qkv_status status = part(terms, n, &sign, p, bytes, err);
            if (status) return status;
            p += bytes;
        }
    if (!*n)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "no words are given, expected a sum such as: paris - france + italy");
    if (sign != 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "sum ends with a sign, expected a word after it");
    return QKV_OK;
}

// Finds the token of a word.  The word must be a single token.
static qkv_status find_term(struct term *t, const qkv_tokenizer *tokenizer, qkv_error *err)
{
    qkv_encoding e = { 0 };
    const struct qkv_encode_options how = { .no_special = true };
    qkv_status status =
        qkv_tokenizer_encode(tokenizer, &e, t->word, strlen(t->word), NULL, 0, &how, err);
    if (!status && e.count != 1) {
        char parts[256] = "";
        for (int64_t i = 0; i < e.count && strlen(parts) < 160; i++) {
            const size_t used = strlen(parts);
            snprintf(parts + used, sizeof parts - used, "%s%.60s", i ? " " : "",
                     qkv_tokenizer_token(tokenizer, e.ids[i]));
        }
        status = cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "'%s' is not a word of the model's vocabulary, expected a single token, found %lld: %s",
            t->word, (long long)e.count, parts);
    }
    if (!status && qkv_tokenizer_special(tokenizer, e.ids[0]))
        status =
            cmd_error(err, QKV_ERR_USAGE, NULL,
                      "'%s' is not a word of the model's vocabulary, expected a word, found the "
                      "special token %s",
                      t->word, qkv_tokenizer_token(tokenizer, e.ids[0]));
    if (!status) t->id = e.ids[0];
    qkv_encoding_free(&e);
    return status;
}

static void print_json(const struct term *terms, int n, const qkv_tokenizer *tokenizer,
                       const int32_t *ids, const float *cosines, int64_t found)
{
    putchar('{');
    cmd_json_computed(stdout);
    fputs(",\"terms\":[", stdout);
    for (int i = 0; i < n; i++) {
        printf("%s{\"sign\":%d,\"word\":", i ? "," : "", terms[i].sign < 0 ? -1 : 1);
        cmd_json_text(stdout, terms[i].word, strlen(terms[i].word));
        printf(",\"id\":%d}", terms[i].id);
    }
    fputs("],\"nearest\":[", stdout);
    for (int64_t i = 0; i < found; i++) {
        const char *word = qkv_tokenizer_token(tokenizer, ids[i]);
        fputs(i ? ",{\"word\":" : "{\"word\":", stdout);
        cmd_json_text(stdout, word, strlen(word));
        printf(",\"id\":%d,\"cosine\":", ids[i]);
        cmd_json_float(stdout, cosines[i]);
        putchar('}');
    }
    puts("]}");
}

static void print_table(const struct term *terms, int n, const qkv_tokenizer *tokenizer,
                        const int32_t *ids, const float *cosines, int64_t found)
{
    int width = 4;
    for (int64_t i = 0; i < found; i++) {
        const char *word = qkv_tokenizer_token(tokenizer, ids[i]);
        const int w = cmd_width(word, strlen(word));
        if (w > width) width = w;
    }
    for (int i = 0; i < n; i++) {
        fputs(i ? terms[i].sign < 0 ? " - " : " + " : terms[i].sign < 0 ? "- " : "", stdout);
        cmd_print_cell(stdout, terms[i].word, strlen(terms[i].word), 0, 0);
    }
    puts(" is nearest to");
    for (int64_t i = 0; i < found; i++) {
        const char *word = qkv_tokenizer_token(tokenizer, ids[i]);
        printf("%4lld  ", (long long)i + 1);
        cmd_print_cell(stdout, word, strlen(word), width, 60);
        printf("  %6.3f\n", (double)cosines[i]);
    }
}

// Draws the sum, if --picture or -o requests it.
static qkv_status draw(const qkv_model *model, const struct term *terms, int n,
                       const qkv_tokenizer *tokenizer, const int32_t *ids, const float *cosines,
                       int64_t found, qkv_error *err)
{
    const char *words[TERMS], **near = cmd_alloc((size_t)found + 1, sizeof *near);
    float signs[TERMS];
    int32_t own[TERMS];
    for (int i = 0; i < n; i++) {
        words[i] = terms[i].word;
        signs[i] = terms[i].sign;
        own[i] = terms[i].id;
    }
    for (int64_t i = 0; i < found; i++) near[i] = qkv_tokenizer_token(tokenizer, ids[i]);
    const struct analogy a = { model, words, signs, own, n, near, ids, cosines, found };
    if (!common.json && !chart_takes_stdout(&o.to)) putchar('\n');
    const qkv_status status = analogy_picture(&a, &o.to, err);
    free(near);
    return status;
}

static int run_analogy(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_model *model = NULL;
    qkv_tokenizer *tokenizer = NULL;
    struct term terms[TERMS];
    int32_t words[TERMS], *ids = NULL;
    float signs[TERMS], *cosines = NULL;
    char dir[CMD_PATH];
    int n = 0;
    int64_t found = 0;
    const struct qkv_model_options options = { .precision = common.precision };
    if (parse(terms, &n, argc, argv, &err) || chart_output_check(&o.to, &err) ||
        cmd_model_find(dir, &err) || qkv_model_open(&model, dir, &options, &err) ||
        qkv_tokenizer_open(&tokenizer, dir, &err))
        goto done;
    for (int i = 0; i < n; i++) {
        if (find_term(&terms[i], tokenizer, &err)) goto done;
        words[i] = terms[i].id;
        signs[i] = terms[i].sign;
    }
    ids = cmd_alloc((size_t)o.count, sizeof *ids);
    cosines = cmd_alloc((size_t)o.count, sizeof *cosines);
    if (qkv_analogy(model, tokenizer, ids, cosines, &found, o.count, words, signs, n, &err))
        goto done;
    if (cmd_check_finite(cosines, found, "cosine with a word", &err)) goto done;
    if (!chart_takes_stdout(&o.to))
        (common.json ? print_json : print_table)(terms, n, tokenizer, ids, cosines, found);
    if (o.picture || o.to.path) (void)draw(model, terms, n, tokenizer, ids, cosines, found, &err);
done:
    free(ids);
    free(cosines);
    qkv_tokenizer_close(tokenizer);
    qkv_model_close(model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_analogy = {
    .name = "analogy",
    .brief = "add and subtract words: paris - france + italy",
    .usage = "WORD [+|- WORD]... [options]",
    .about = "Adds and subtracts the input embeddings of words (after subtracting the mean over "
             "the vocabulary), and lists the words that are nearest to the sum by cosine, without "
             "the words of the sum. Each word must be a single token of the model. A sign is an "
             "operand of its own, or precedes its word; the whole sum may also be one operand in "
             "quotes. --picture and -o draw the sum as arrows: a - b + c in the plane of its four "
             "corners, with the nearest words.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT | SIGNED_WORDS,
    .min_args = 1,
    .max_args = -1,
    .examples = {
        { "qkv analogy Paris - France + Italy", "a word such as Rome" },
        { "qkv analogy -n 3 king - man + woman", "the three nearest words" },
        { "qkv analogy king - man + woman -o king.svg", "the sum as arrows in a plane" },
        { "qkv analogy --json \"king - man + woman\"", "the words as JSON, with their ids" },
    },
    .run = run_analogy,
};
