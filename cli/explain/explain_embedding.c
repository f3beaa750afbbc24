// SPDX-License-Identifier: MIT
// explain_embedding.c: implements a topic of `qkv explain`: the tokens of a text, their ids, and
// the rows of the embedding matrix that these ids select.
#include "explain/explain.h"
#include <math.h>
#include <string.h>

// COLUMNS: of a row of E in the picture, NUMBERS: in the table, BRIEF: tokens in the terminal
enum { MOST = 48, COLUMNS = 16, NUMBERS = 4, BRIEF = 14 };

static bool space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Returns where the characters of token i begin in the text, without the spaces before them; -1:
// the token is no part of the text.
static int64_t begin_of(const struct text_run *s, int64_t i)
{
    const qkv_encoding *e = &s->tokens.encoding;
    if (!s->text || e->text[i] != 0 || e->end[i] <= e->begin[i]) return -1;
    int64_t at = e->begin[i];
    while (at < e->end[i] && space(s->text[at])) at++;
    return at < e->end[i] ? at : -1;
}

// The words of a text, separated by spaces, and the word of which the tokenizer makes the most
// tokens.
struct words {
    int64_t count, special;
    int64_t first, pieces; // the first token of that word, and their number; 0: no word has two
};

static struct words count_words(const struct text_run *s)
{
    struct words w = { 0 };
    int64_t first = 0, pieces = 0, before = -1;
    for (int64_t i = 0; i < s->T; i++) {
        const int64_t at = begin_of(s, i);
        w.special += seen_special(s, i);
        if (at < 0) continue;
        // several tokens of one character begin at the same byte
        if (at != before && (!at || space(s->text[at - 1]))) {
            w.count++;
            first = i;
            pieces = 0;
        }
        before = at;
        pieces++;
        if (pieces < 2 || pieces <= w.pieces) continue;
        w.first = first;
        w.pieces = pieces;
    }
    return w;
}

// Returns text[n], or its first `most` bytes, less a part of a character at the end, and "...".
static const char *cut(struct page *p, const char *text, int64_t n, int64_t most)
{
    if (n <= most) return page_text(p, "%.*s", (int)n, text);
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return page_text(p, "%.*s...", (int)most, text);
}

// Returns a token as the vocabulary has it, with its marks.
static const char *token_of(struct page *p, const struct text_run *s, int64_t i)
{
    const char *raw = s->tokenizer ? qkv_tokenizer_token(s->tokenizer, s->tokens.ids[i]) : NULL;
    return raw ? cut(p, raw, (int64_t)strlen(raw), 40)
               : page_text(p, "#%ld", (long)s->tokens.ids[i]);
}

// Returns the number of decimals with which the largest of the first `columns` numbers of each row
// has three digits.
static int decimals_of(const float *row, int64_t n, int64_t width, int64_t columns)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) most = fmax(most, fabs((double)row[i * width + c]));
    const double digits = most > 0 ? 2 - floor(log10(most)) : 0;
    return digits > 0 ? digits < 6 ? (int)digits : 6 : 0;
}

// Adds a table with a row for each token: its characters in the text (if there is a text), the
// token, its id and the first numbers of its row of E.
static void table(struct page *p, const struct text_run *s, const char *const *token,
                  const float *row, int64_t width)
{
    const qkv_encoding *e = &s->tokens.encoding;
    const int64_t columns = width < NUMBERS ? width : NUMBERS, first = s->text ? 1 : 0;
    const int decimals = decimals_of(row, s->T, width, columns);
    page_table(p,
               page_text(p, "%s, their ids, and numbers 0 to %lld of the %lld in each row of E",
                         s->text ? "the text in tokens" : "tokens", (long long)columns - 1,
                         (long long)width),
               s->T + 1, first + 2 + columns);
    if (s->text) page_cell(p, 0, 0, "text");
    page_cell(p, 0, first, "token");
    page_cell(p, 0, first + 1, "id");
    for (int64_t c = 0; c < columns; c++) page_cell(p, 0, first + 2 + c, "%lld", (long long)c);
    for (int64_t i = 0; i < s->T; i++) {
        const int64_t begin = begin_of(s, i);
        if (begin >= 0)
            page_cell(p, i + 1, 0, "%s", cut(p, s->text + begin, e->end[i] - begin, 20));
        page_cell(p, i + 1, first, "%s", token[i]);
        page_cell(p, i + 1, first + 1, "%ld", (long)s->tokens.ids[i]);
        for (int64_t c = 0; c < columns; c++) {
            const double x = (double)row[i * width + c], unit = pow(10, decimals);
            page_cell(p, i + 1, first + 2 + c, "%.*f", decimals, round(x * unit) / unit + 0);
        }
    }
    p->brief = BRIEF;
}

// Explains the mark that the tokens of this tokenizer have in a word or at its beginning.
static void say_mark(struct page *p, const char *const *token, int64_t n)
{
    static const char *const marks[][2] = { { "##", "## continues a word" },
                                            { "Ġ", "Ġ is a space" },
                                            { "▁", "▁ is a space" } };
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
        for (int64_t i = 0; i < n; i++)
            if (!strncmp(token[i], marks[k][0], strlen(marks[k][0]))) {
                page_say(p, " (%s)", marks[k][1]);
                return;
            }
}

static void say_words(struct page *p, const struct text_run *s, const char *const *token)
{
    const struct words w = count_words(s);
    const char *pieces = "";
    if (!s->text) return;
    page_say(p, "The text has %lld word%s and %lld token%s, of which %lld %s special. ",
             (long long)w.count, w.count == 1 ? "" : "s", (long long)s->T, s->T == 1 ? "" : "s",
             (long long)w.special, w.special == 1 ? "is" : "are");
    if (!w.pieces) return;
    for (int64_t i = w.first; i < w.first + w.pieces; i++)
        pieces = page_text(p, "%s%s%s", pieces, *pieces ? " + " : "", token[i]);
    const int64_t begin = begin_of(s, w.first),
                  end = s->tokens.encoding.end[w.first + w.pieces - 1];
    page_say(p, "“%s” is split into %lld: %s", cut(p, s->text + begin, end - begin, 60),
             (long long)w.pieces, pieces);
    say_mark(p, token + w.first, w.pieces);
    page_say(p, ". ");
}

static double mean_norm(const float *x, int64_t n, int64_t D)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double squares = 0;
        for (int64_t e = 0; e < D; e++) squares += (double)x[i * D + e] * (double)x[i * D + e];
        sum += sqrt(squares);
    }
    return sum / (double)n;
}

// Says whether the rows x[T][D] of E are the input of layer 0 or the model computes it from them.
static void say_input(struct page *p, const struct text_run *s, const float *x)
{
    const float *input = s->layer[0].x;
    if (!memcmp(x, input, (size_t)(s->T * s->D) * sizeof *x))
        page_say(p, "These rows are the input of layer 0, X, %lld × %lld.", (long long)s->T,
                 (long long)s->D);
    else
        page_say(
            p,
            "From these rows the model computes the input of layer 0, X, %lld × %lld, by adding "
            "positions, for example, or by a norm. The mean norm of a row is %.2f in E "
            "and %.2f in X.",
            (long long)s->T, (long long)s->D, mean_norm(x, s->T, s->D),
            mean_norm(input, s->T, s->D));
}

// Adds a grid with the first columns of a matrix with one row per token.
static void rows_panel(struct page *p, const char *name, const float *x, int64_t n, int64_t width,
                       const char *const *label)
{
    const int64_t columns = width < COLUMNS ? width : COLUMNS;
    float *grid = page_grid(p,
                            page_text(p, "%s, the first %lld of %lld columns", name,
                                      (long long)columns, (long long)width),
                            n, columns, label, NULL, QKV_CHART_SIGNED);
    for (int64_t i = 0; i < n; i++)
        memcpy(grid + i * columns, x + i * width, (size_t)columns * sizeof *grid);
    struct qkv_chart_panel *panel = &p->panel[p->panels - 1];
    panel->x.name = "dimension";
    panel->y.name = "token and id";
}

// Writes the rows of the embedding table, without a projection, to out[T][embed_width].
static qkv_status table_rows(float *out, const struct text_run *s, qkv_error *err)
{
    for (int64_t i = 0; i < s->T; i++) {
        const qkv_status status =
            qkv_model_embedding_row(s->model, out + i * s->info.embed_width, s->tokens.ids[i]);
        if (status)
            return cmd_error(err, status, NULL, "token id %ld has no row in the embedding matrix",
                             (long)s->tokens.ids[i]);
    }
    return QKV_OK;
}

qkv_status explain_embedding(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    qkv_status status =
        text_run_start(p, &s, argc ? argv[0] : NULL, "The bears were unbearably tired", err);
    if (status) return status;
    const int64_t n = s->T, D = s->D, E = s->info.embed_width;
    if ((status = text_run_limit(s, "--embedding", MOST, err))) return status;
    float *x = page_take(p, (size_t)(n * D), sizeof *x),
          *row = page_take(p, (size_t)(n * E), sizeof *row);
    if ((status = seen_embeddings(x, s, err)) || (status = table_rows(row, s, err))) return status;
    // ALBERT and small ELECTRA models store narrow rows, and project them to the model's width
    const bool projected = E != D || memcmp(row, x, (size_t)(n * D) * sizeof *x) != 0;
    const char **token = page_take(p, (size_t)n, sizeof *token),
               **label = page_take(p, (size_t)n, sizeof *label);
    for (int64_t i = 0; i < n; i++) {
        token[i] = token_of(p, s, i);
        label[i] = page_text(p, "%s  %ld", token[i], (long)s->tokens.ids[i]);
    }
    rows_panel(p, projected ? "rows of E, one per token" : "one row of E per token", row, n, E,
               label);
    if (projected) rows_panel(p, "these rows times P, plus a bias", x, n, D, label);
    table(p, s, token, row, E);
    page_title(p, "How does a text become numbers?");
    say_words(p, s, token);
    page_say(p, "The id of a token selects its row of the embedding matrix E, %lld × %lld. ",
             (long long)s->info.source_vocab, (long long)E);
    if (projected)
        page_say(p,
                 "A projection P, %lld × %lld, makes the rows as wide as the model; the input of "
                 "layer 0 is X, %lld × %lld, with positions and a norm before P. E and P have %.2g "
                 "%% of the numbers of a matrix %lld × %lld.",
                 (long long)E, (long long)D, (long long)n, (long long)D,
                 100 * ((double)s->info.source_vocab + (double)D) * (double)E /
                     ((double)s->info.source_vocab * (double)D),
                 (long long)s->info.source_vocab, (long long)D);
    else
        say_input(p, s, x);
    return QKV_OK;
}
