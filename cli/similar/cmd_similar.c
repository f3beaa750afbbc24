// SPDX-License-Identifier: MIT
// cmd_similar.c: implements `qkv similar`: prints the cosine of every two texts; with --token, the
// cosine of every two occurrences of a word in the texts.
#include "similar/similar_nearest.h"
#include "similar/similar_query.h"
#include "similar/similar_terms.h"
#include "frame/tokens.h"
#include "frame/word_operand.h"
#include <stdlib.h>
#include <string.h>

static struct {
    const char *file, *word, *with, *query;
    int64_t count, nearest;
    bool truncate, why;
    struct chart_output picture;
} o = { 0 };

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE",
              "file with more texts, one per line, a blank line too; '-' is standard input; with "
              "--query also vectors of qkv embed, FILE.npy"),
    OPT_TEXT('q', "query", &o.query, "TEXT",
             "print the texts, counted from 1, or the rows of FILE.npy, counted from 0, that are "
             "nearest to this text"),
    OPT_INT('k', "count", &o.count, 1, 1000000, "N",
            "with --query: how many texts to print (default: 10)"),
    OPT_TEXT('t', "token", &o.word, "WORD",
             "compare the vectors of this word in the texts, ignoring case, and its static "
             "embedding; in a text without the word, words that begin with it count; a text with "
             "neither is skipped with a note"),
    OPT_TEXT(0, "with", &o.with, "WORD,WORD",
             "with --token: also compare with these words, each as a text of its own"),
    OPT_INT(
        0, "nearest", &o.nearest, 1, 1000, "N",
        "with --token: also print the N words of the vocabulary whose vectors are nearest, each "
        "as a text of its own (runs the model on every word: seconds to minutes)"),
    OPT_FLAG(
        0, "why", &o.why,
        "for two texts: print the cosine as a sum over pairs of their tokens, drawn as a matrix"),
    OPT_FLAG(0, "truncate", &o.truncate,
             "truncate texts that exceed the model's positions, instead of failing"),
    CHART_OPTIONS(o.picture),
    OPT_END
};

// ---- tables ------------------------------------------------------------------------------------
struct row {
    int64_t text;
    size_t begin, end; // the word is bytes begin .. end - 1 of the text; 0, 0: the whole text
};

// Prints the text of a row, with the word in [brackets], in at most `most` columns: a long text
// is cut at its end, and also at its start if the word would be cut off.
static void print_label(const struct cmd_texts *t, const struct row *r, int most)
{
    const char *text = t->text[r->text];
    const size_t bytes = t->bytes[r->text];
    if (!r->end) {
        cmd_print_cell(stdout, text, bytes, 0, most);
        return;
    }
    char *marked = cmd_alloc(bytes + 3, 1);
    const int n = snprintf(marked, bytes + 3, "%.*s[%.*s]", (int)r->begin, text,
                           (int)(r->end - r->begin), text + r->begin);
    memcpy(marked + n, text + r->end, bytes - r->end + 1);
    size_t start = 0;
    const int after = cmd_width(text + r->end, bytes - r->end);
    if (cmd_width(marked, bytes + 2) > most)
        while (start < r->begin &&
               (start ? 3 : 0) + cmd_width(marked + start, (size_t)n - start) + (after ? 3 : 0) >
                   most) {
            start++;
            while (start < r->begin && qkv_utf8_continues(marked[start])) start++;
        }
    if (start) fputs("...", stdout);
    cmd_print_cell(stdout, marked + start, bytes + 2 - start, 0, most - (start ? 3 : 0));
    free(marked);
}

// Prints the cosines of the vectors v[n][width] as a table. Each vector has a row, which ends with
// its text, and a column.
static void print_table(const struct cmd_texts *t, const struct row *rows, int64_t n,
                        const float *v, int64_t width)
{
    const int columns = cmd_columns(), most = columns - 6 - 7 * (int)(n < 1000 ? n : 1000) - 2;
    fputs("     ", stdout);
    for (int64_t j = 0; j < n; j++) printf(" %6lld", (long long)j + 1);
    putchar('\n');
    for (int64_t i = 0; i < n; i++) {
        printf("%5lld", (long long)i + 1);
        for (int64_t j = 0; j < n; j++)
            printf(" %6.3f", (double)qkv_cosine(v + i * width, v + j * width, width));
        fputs("  ", stdout);
        print_label(t, &rows[i], most < 16 ? 16 : most);
        putchar('\n');
    }
}

// Prints the two vectors with the largest cosine, such as "nearest: 1 and 2, .873".
static void print_nearest(int64_t n, const float *v, int64_t width)
{
    int64_t at[2] = { 0, 1 };
    float best = -2;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            const float c = qkv_cosine(v + i * width, v + j * width, width);
            if (c <= best) continue;
            best = c;
            at[0] = i;
            at[1] = j;
        }
    if (n > 2)
        printf("\nnearest: %lld and %lld, %.3f\n", (long long)at[0] + 1, (long long)at[1] + 1,
               (double)best);
}

static void print_matrix_json(const char *name, int64_t n, const float *v, int64_t width)
{
    printf(",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) {
        fputs(i ? ",[" : "[", stdout);
        for (int64_t j = 0; j < n; j++) {
            if (j) putchar(',');
            cmd_json_float(stdout, qkv_cosine(v + i * width, v + j * width, width));
        }
        putchar(']');
    }
    putchar(']');
}

static void print_texts_json(const struct cmd_texts *t)
{
    putchar('{');
    cmd_json_computed(stdout);
    fputs(",\"texts\":[", stdout);
    for (int64_t i = 0; i < t->count; i++) {
        if (i) putchar(',');
        cmd_json_text(stdout, t->text[i], t->bytes[i]);
    }
    putchar(']');
}

// ---- comparing whole texts ---------------------------------------------------------------------
static qkv_status whole(struct cmd_texts *t, const char *dir, qkv_error *err)
{
    qkv_embedder *e = NULL;
    struct row *rows = cmd_alloc((size_t)t->count, sizeof *rows);
    struct qkv_embed_report report = { 0 };
    float *v = NULL;
    const struct qkv_embedder_options how = { .model = cmd_model_options(),
                                              .truncate = o.truncate,
                                              .progress = cmd_progress_begin("texts") };
    qkv_status status = qkv_embedder_open(&e, dir, &how, err);
    if (status) goto done;
    const int64_t width = qkv_embedder_width(e);
    v = cmd_alloc(array_count(2, (int64_t[]){ t->count, width }), sizeof *v);
    status = qkv_embed(e, v, (const char *const *)t->text, t->bytes, t->count, &report, err);
    if (status) {
        cmd_text_place(err, 0, t->operands, t->file);
        goto done;
    }
    cmd_progress_end();
    status = cmd_check_finite(v, t->count * width, "vector of a text", err);
    if (status) goto done;
    tokens_notes(&report, t->count, qkv_embedder_max_length(e));
    for (int64_t i = 0; i < t->count; i++) rows[i] = (struct row){ i, 0, 0 };
    if (common.json) {
        print_texts_json(t);
        print_matrix_json("cosine", t->count, v, width);
        puts("}");
    } else {
        print_table(t, rows, t->count, v, width);
        print_nearest(t->count, v, width);
    }
done:
    cmd_progress_end();
    free(v);
    free(rows);
    qkv_embedder_close(e);
    return status;
}

// ---- comparing occurrences of a word -----------------------------------------------------------
// Appends each occurrence of the word in text i to rows. Returns the new number of rows.
static int64_t find_places(const struct cmd_texts *t, int64_t i, bool stems, struct row **rows,
                           int64_t count)
{
    size_t begin, end = 0;
    while (word_next(&begin, &end, t->text[i], t->bytes[i], o.word, stems)) {
        *rows = cmd_grow(*rows, (size_t)count + 1, sizeof **rows);
        (*rows)[count++] = (struct row){ i, begin, end };
    }
    return count;
}

enum { SHORT = 64 };
// Copies the beginning of text i for a message. The copy ends between two characters.
static char *shorten(char out[SHORT], const struct cmd_texts *t, int64_t i)
{
    size_t n = t->bytes[i];
    if (n >= SHORT) {
        n = SHORT - 4;
        while (n && qkv_utf8_continues(t->text[i][n])) n--;
        memcpy(out + n, "...", 4);
    } else {
        out[n] = 0;
    }
    memcpy(out, t->text[i], n);
    return out;
}

// Appends each word of --with, without the spaces around it, as a text of its own, and as a row
// that is this whole text.
static qkv_status add_with(struct cmd_texts *t, struct row **rows, int64_t *count, int64_t *added,
                           qkv_error *err)
{
    for (const char *at = o.with; at;) {
        at += strspn(at, " \t\r\n");
        const size_t all = strcspn(at, ",");
        size_t n = all;
        while (n && strchr(" \t\r\n", at[n - 1])) n--;
        if (!n)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--with: expected words separated by commas, found an empty word in "
                             "'%.60s'",
                             o.with);
        *rows = cmd_grow(*rows, (size_t)*count + 1, sizeof **rows);
        (*rows)[(*count)++] = (struct row){ t->count, 0, n };
        cmd_texts_add(t, at, n);
        ++*added;
        at = at[all] ? at + all + 1 : NULL;
    }
    return QKV_OK;
}

// Finds the occurrences of the word in every text.  A text without the word is skipped, and a note
// says so; if no text has the word, that is an error.
static qkv_status find_rows(const struct cmd_texts *t, struct row **rows, int64_t *count,
                            qkv_error *err)
{
    char text[SHORT];
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t before = *count;
        *count = find_places(t, i, false, rows, *count);
        if (*count == before) *count = find_places(t, i, true, rows, *count);
    }
    if (!*count && t->count == 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--token: word '%.60s' does not occur in '%s'",
                         o.word, shorten(text, t, 0));
    if (!*count)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--token: word '%.60s' does not occur in any of the %lld texts", o.word,
                         (long long)t->count);
    for (int64_t i = 0, r = 0; i < t->count; i++) {
        if (r >= *count || (*rows)[r].text != i)
            cmd_note("--token: word '%.60s' does not occur in '%s': the text is skipped", o.word,
                     shorten(text, t, i));
        while (r < *count && (*rows)[r].text == i) r++;
    }
    return QKV_OK;
}

struct word_job {
    const struct cmd_texts *t;
    struct row *rows;
    // count: number of occurrences, the last `with` of them words of --with; kept: number of them
    // whose tokens were not truncated, which are moved to the front
    int64_t count, with, kept, width;
    // [count][width] for each occurrence, the mean hidden state and the mean embedding of its
    // tokens
    float *context, *fixed;
    struct near_words near; // of context, with --nearest
    qkv_encoding e;
};

// Computes the mean hidden state and the mean embedding of the tokens of occurrence r.  Skips the
// occurrence if its tokens were truncated.
static qkv_status one_word(struct word_job *j, int64_t r, const qkv_model *m, const float *hidden,
                           qkv_error *err)
{
    float *c = j->context + j->kept * j->width, *f = j->fixed + j->kept * j->width;
    float *one = cmd_alloc((size_t)j->width, sizeof *one);
    int64_t n = 0;
    qkv_status status = QKV_OK;
    memset(c, 0, (size_t)j->width * sizeof *c);
    memset(f, 0, (size_t)j->width * sizeof *f);
    for (int64_t i = 0; !status && i < j->e.count; i++) {
        const bool inside = j->e.text[i] == 0 && j->e.begin[i] < (int64_t)j->rows[r].end &&
                            j->e.end[i] > (int64_t)j->rows[r].begin;
        if (!inside) continue;
        status = qkv_model_embedding(m, one, j->e.ids[i]);
        if (status)
            cmd_error(err, status, NULL, "token id %d has no embedding in the model", j->e.ids[i]);
        n++;
        for (int64_t d = 0; !status && d < j->width; d++) {
            c[d] += hidden[i * j->width + d];
            f[d] += one[d];
        }
    }
    for (int64_t d = 0; n && d < j->width; d++) {
        c[d] /= (float)n;
        f[d] /= (float)n;
    }
    free(one);
    char text[SHORT];
    const char *why = j->e.cut ? "was truncated" : "has no tokens";
    if (!status && n)
        j->rows[j->kept++] = j->rows[r];
    else if (!status && r >= j->count - j->with)
        cmd_note("--with: word '%s' %s: it is skipped", shorten(text, j->t, j->rows[r].text), why);
    else if (!status)
        cmd_note("--token: word '%.60s' of '%s' %s: this occurrence is skipped", o.word,
                 shorten(text, j->t, j->rows[r].text), why);
    return status;
}

static qkv_status run_texts(struct word_job *j, const qkv_model *m, const qkv_tokenizer *tokenizer,
                            qkv_error *err)
{
    const struct qkv_encode_options how = { .max_length = qkv_model_info(m).positions,
                                            .truncate = o.truncate };
    qkv_status status = QKV_OK;
    for (int64_t r = 0; !status && r < j->count;) {
        const int64_t i = j->rows[r].text;
        status = qkv_tokenizer_encode(tokenizer, &j->e, j->t->text[i], j->t->bytes[i], NULL, 0,
                                      &how, err);
        if (status) break;
        const int64_t offsets[] = { 0, j->e.count };
        const struct qkv_model_input in = {
            .sequences = 1, .offsets = offsets, .ids = j->e.ids, .types = j->e.types
        };
        float *hidden =
            cmd_alloc(array_count(2, (int64_t[]){ j->e.count, j->width }), sizeof *hidden);
        status = qkv_model_run(m, hidden, &in, NULL, err);
        for (; !status && r < j->count && j->rows[r].text == i; r++)
            status = one_word(j, r, m, hidden, err);
        free(hidden);
    }
    if (!status && !j->kept)
        status = cmd_error(err, QKV_ERR_USAGE, NULL,
                           "--token: every occurrence of '%.60s' was truncated or has no tokens, "
                           "expected one among the first tokens",
                           o.word);
    j->count = j->kept;
    if (!status)
        status = cmd_check_finite(j->context, j->count * j->width, "hidden state of the word", err);
    if (!status)
        status = cmd_check_finite(j->fixed, j->count * j->width, "embedding of the word", err);
    return status;
}

static void print_near_json(const struct near_words *w)
{
    fputs(",\"nearest\":[", stdout);
    for (int64_t r = 0; r < w->rows; r++) {
        fputs(r ? ",[" : "[", stdout);
        for (int64_t i = 0; i < w->count; i++) {
            const struct near_word *one = &w->word[r * w->count + i];
            fputs(i ? ",{\"word\":" : "{\"word\":", stdout);
            cmd_json_text(stdout, one->text, strlen(one->text));
            fputs(",\"cosine\":", stdout);
            cmd_json_float(stdout, one->cosine);
            putchar('}');
        }
        putchar(']');
    }
    putchar(']');
}

static void print_near(const struct word_job *j)
{
    const struct near_words *w = &j->near;
    printf("\nnearest of %lld words of the vocabulary, each as a text of its own\n",
           (long long)w->tried);
    for (int64_t r = 0; r < w->rows; r++) {
        printf("%5lld  ", (long long)r + 1);
        print_label(j->t, &j->rows[r], cmd_columns() - 9);
        fputs("\n      ", stdout);
        for (int64_t i = 0; i < w->count; i++)
            printf(" %s %.3f", w->word[r * w->count + i].text,
                   (double)w->word[r * w->count + i].cosine);
        putchar('\n');
    }
}

static void print_words(const struct word_job *j)
{
    if (common.json) {
        print_texts_json(j->t);
        fputs(",\"word\":", stdout);
        cmd_json_text(stdout, o.word, strlen(o.word));
        fputs(",\"places\":[", stdout);
        for (int64_t r = 0; r < j->count; r++)
            printf("%s{\"text\":%lld,\"begin\":%zu,\"end\":%zu}", r ? "," : "",
                   (long long)j->rows[r].text, j->rows[r].begin, j->rows[r].end);
        putchar(']');
        print_matrix_json("context", j->count, j->context, j->width);
        print_matrix_json("static", j->count, j->fixed, j->width);
        if (o.nearest) print_near_json(&j->near);
        puts("}");
        return;
    }
    fputs("in context (last hidden state of the word)\n", stdout);
    print_table(j->t, j->rows, j->count, j->context, j->width);
    fputs("\nstatic (input embedding, the same in every sentence)\n", stdout);
    print_table(j->t, j->rows, j->count, j->fixed, j->width);
    if (o.nearest) print_near(j);
}

static qkv_status words(struct cmd_texts *t, const char *dir, qkv_error *err)
{
    qkv_model *m = NULL;
    qkv_tokenizer *tokenizer = NULL;
    struct row *rows = NULL;
    struct word_job j = { .t = t };
    const struct qkv_model_options options = cmd_model_options();
    qkv_status status;
    if ((status = find_rows(t, &rows, &j.count, err)) ||
        (status = add_with(t, &rows, &j.count, &j.with, err)) ||
        (status = qkv_model_open(&m, dir, &options, err)) ||
        (status = qkv_tokenizer_open(&tokenizer, dir, err)))
        goto done;
    j.rows = rows;
    j.width = qkv_model_info(m).width;
    j.context = cmd_alloc(array_count(2, (int64_t[]){ j.count, j.width }), sizeof *j.context);
    j.fixed = cmd_alloc(array_count(2, (int64_t[]){ j.count, j.width }), sizeof *j.fixed);
    status = run_texts(&j, m, tokenizer, err);
    if (!status && o.nearest)
        status = near_words_find(&j.near, m, tokenizer, j.context, j.count, o.nearest, o.word, err);
    if (!status) print_words(&j);
done:
    near_words_free(&j.near);
    qkv_encoding_free(&j.e);
    free(j.context);
    free(j.fixed);
    free(rows);
    qkv_tokenizer_close(tokenizer);
    qkv_model_close(m);
    return status;
}

// Refuses options that cannot be combined, before any input is read.
static qkv_status check_options(qkv_error *err)
{
    if (o.why && o.word)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--why cannot be combined with --token, since it compares whole texts");
    if (o.query && (o.why || o.word))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--query cannot be combined with %s",
                         o.why ? "--why" : "--token");
    if (o.count && !o.query) return cmd_error(err, QKV_ERR_USAGE, NULL, "--count requires --query");
    if ((o.with || o.nearest) && !o.word)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s requires --token",
                         o.with ? "--with" : "--nearest");
    if ((o.picture.path || o.picture.theme || o.picture.width) && !o.why)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s requires --why",
                         o.picture.path    ? "-o"
                         : o.picture.theme ? "--theme"
                                           : "--width");
    return QKV_OK;
}

// Returns true if the input file of --query contains vectors.
static bool has_vectors(void)
{
    return o.query && o.file && cmd_ends_with(o.file, ".npy");
}

static int run_similar(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct cmd_texts t = { 0 };
    char dir[CMD_PATH];
    const int64_t least = has_vectors() ? 0 : o.word || o.query ? 1 : 2;
    if (check_options(&err) || chart_output_check(&o.picture, &err) ||
        cmd_texts_read(&t, argc, argv, has_vectors() ? NULL : o.file, &err))
        goto done;
    if (has_vectors() && argc) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "texts cannot be combined with vectors, -f %s",
                  o.file);
        goto done;
    }
    if (o.why && t.count != 2) {
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--why: expected two texts, found %lld",
                  (long long)t.count);
        goto done;
    }
    if (t.count < least) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "too few texts to compare, expected %lld or more, found %lld", (long long)least,
                  (long long)t.count);
        goto done;
    }
    if (cmd_model_find(dir, &err)) goto done;
    if (o.query)
        (void)similar_query(&t, has_vectors() ? o.file : NULL, o.query, o.count ? o.count : 10, dir,
                            o.truncate, &err);
    else if (o.why)
        (void)similar_why(&t, dir, o.truncate, &o.picture, &err);
    else
        (void)(o.word ? words : whole)(&t, dir, &err);
done:
    cmd_texts_free(&t);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_similar = {
    .name = "similar",
    .brief = "compare texts, or one word in several texts, by cosine",
    .usage = "TEXT TEXT... [options]\n--token WORD TEXT... [options]\nTEXT TEXT --why [-o FILE] [options]\n--query TEXT -f FILE|FILE.npy [-k N] [options]",
    .about = "Prints the cosine of the vectors of every two texts. With --token, the vectors of "
             "one word are compared: first its hidden states in the last layer, which differ from "
             "sentence to sentence, then its static input embedding (the mean over its tokens, if "
             "it has several). Every occurrence of the word is a row: WORD in upper or lower case "
             "or, in a text without it, words that begin with it (bear: bears, bearing). A text "
             "with neither is skipped, with a note on stderr. --nearest lists the nearest words of "
             "the vocabulary: those that are one token, with two or more letters.\n"
             "\n"
             "With --why, the cosine of two texts is split exactly into terms of pairs of their "
             "tokens: the vector of a text is the mean over its tokens, so the cosine is a sum of "
             "their products. Blue cells make the texts more alike, orange cells less. A model "
             "whose vectors are not sums over tokens (another pooling, a layer with a bias or an "
             "activation after it) is an error.\n"
             "\n"
             "With --query, the texts are compared with one text only: the cosine, the number and "
             "the text of the nearest. Vectors that qkv embed has written need no texts; qkv index "
             "and qkv search keep texts and vectors together.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT,
    .max_args = -1,
    .examples = {
        { "qkv similar \"a happy dog\" \"a joyful puppy\" \"tax law\"", "a table with three texts" },
        { "qkv similar \"a happy dog\" \"a joyful puppy\" --why -o why.svg", "which tokens make two texts alike" },
        { "qkv similar --query \"pets\" -f lines.txt -k 3", "the three lines nearest to a text" },
        { "qkv similar --token bear \"I love bears\" \"She bears the pain\"",
          "one word with two meanings" },
        { "qkv similar --token flies \"time flies\" \"fruit flies eat\" --with insect,soars",
          "to which other words it is near in each text" },
        { "qkv similar --json -f lines.txt", "all pairs of lines of a file, as JSON" },
    },
    .run = run_similar,
};
