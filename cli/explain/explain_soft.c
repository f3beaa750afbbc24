// SPDX-License-Identifier: MIT
// explain_soft.c: implements two topics of `qkv explain`: attention as a soft lookup, and attention
// weights that depend on the input.
#include "explain/explain.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- an inverted index -------------------------------------------------------------------------
enum { DOCUMENTS = 16, WORD = 48 };
static const char *const QUERY = "food for a puppy";
static const char *const TEXTS[] = {
    "what a young dog should eat", "food for a growing family",
    "a puppy learns to sit",       "the law of taxes",
    "cats and what they eat",
};

// Copies the next word at *at to `out`, in lower case, and advances *at. Returns false if there is
// no further word.
static bool next_word(const char **at, char out[WORD])
{
    const char *c = *at;
    size_t n = 0;
    while (*c && !isalnum((unsigned char)*c) && (unsigned char)*c < 0x80) c++;
    while ((isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80) && n < WORD - 1)
        out[n++] = (char)tolower((unsigned char)*c++);
    while (isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80) c++;
    out[n] = 0;
    *at = c;
    return n > 0;
}

static bool contains(const char *text, const char *word)
{
    char other[WORD];
    while (next_word(&text, other))
        if (!strcmp(other, word)) return true;
    return false;
}

// Lists, for each word of the query, the documents that contain it. Returns how many documents
// contain all words.
static int64_t table_index(struct page *p, const char *query, const char *const *text, int64_t n)
{
    char word[WORD], list[DOCUMENTS * 4];
    int64_t all = 0, words = 0;
    const char *at = query;
    while (next_word(&at, word)) words++;
    page_table(p, "inverted index: for each word, the texts that contain it", words + 2, 2);
    page_cell(p, 0, 0, "word of the query");
    page_cell(p, 0, 1, "texts");
    at = query;
    for (int64_t w = 0; next_word(&at, word); w++) {
        size_t used = 0;
        list[0] = 0;
        for (int64_t t = 0; t < n; t++)
            if (contains(text[t], word))
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld",
                                         used ? ", " : "", (long long)t);
        page_cell(p, w + 1, 0, "%s", word);
        page_cell(p, w + 1, 1, "%s", used ? list : "none");
    }
    size_t used = 0;
    list[0] = 0;
    for (int64_t t = 0; t < n; t++) {
        bool every = words > 0;
        at = query;
        while (next_word(&at, word)) every = every && contains(text[t], word);
        if (!every) continue;
        all++;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", used ? ", " : "",
                                 (long long)t);
    }
    page_cell(p, words + 1, 0, "all these words");
    page_cell(p, words + 1, 1, "%s", used ? list : "none");
    return all;
}

qkv_status explain_lookup(struct page *p, int argc, char **argv, qkv_error *err)
{
    static const double sharp[] = { 1, 5, 20, 100 };
    enum { SHARP = sizeof sharp / sizeof *sharp };
    const char *text[DOCUMENTS + 1];
    char dir[CMD_PATH];
    qkv_embedder *e = NULL;
    const int64_t n = argc > 1 ? argc - 1 : (int64_t)(sizeof TEXTS / sizeof *TEXTS);
    if (argc == 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--lookup: expected a query and the texts to search, found only a query");
    text[0] = argc ? argv[0] : QUERY;
    for (int64_t t = 0; t < n; t++) text[t + 1] = argc ? argv[t + 1] : TEXTS[t];
    const struct qkv_embedder_options how = { .model = cmd_model_options(), .truncate = true };
    qkv_status status = cmd_model_find(dir, err);
    if (!status) status = qkv_embedder_open(&e, dir, &how, err);
    if (status) return status;
    const int64_t D = qkv_embedder_width(e);
    float *v = page_take(p, (size_t)((n + 1) * D), sizeof *v);
    size_t bytes[DOCUMENTS + 1];
    for (int64_t t = 0; t <= n; t++) bytes[t] = strlen(text[t]);
    status = qkv_embed(e, v, text, bytes, n + 1, NULL, err);
    qkv_embedder_close(e);
    if (status) return status;
    double *like = page_take(p, (size_t)n, sizeof *like), *w = page_take(p, (size_t)n, sizeof *w),
           best = 0;
    int64_t at = 0;
    for (int64_t t = 0; t < n; t++) like[t] = (double)qkv_cosine(v, v + (t + 1) * D, D);
    const char **names = page_take(p, (size_t)n, sizeof *names),
               **rows = page_take(p, SHARP, sizeof *rows);
    for (int64_t t = 0; t < n; t++) names[t] = page_text(p, "%lld %s", (long long)t, text[t + 1]);
    for (int i = 0; i < SHARP; i++) rows[i] = page_text(p, "cosine x %.0f", sharp[i]);
    float *grid = page_grid(p, "softmax of query . key, at four scales", SHARP, n, rows, NULL,
                            QKV_CHART_WEIGHTS);
    for (int i = 0; i < SHARP; i++) {
        explain_softmax(w, like, n, 1 / sharp[i]);
        for (int64_t t = 0; t < n; t++) grid[i * n + t] = (float)w[t];
    }
    for (int64_t t = 0; t < n; t++)
        if (w[t] > best) {
            best = w[t];
            at = t;
        }
    struct qkv_chart_panel *bars = page_panel(p, "query . key, as cosines");
    page_line(p, bars, "cosine", NULL, like, n)->style = QKV_CHART_BARS;
    bars->x = (struct qkv_chart_axis){ .label = names, .labels = n };
    bars->y.zero = true;
    const int64_t hard = table_index(p, text[0], text + 1, n);
    page_title(p, "How is attention a soft lookup?");
    page_say(p,
             "An index finds %lld text%s that contain%s every word of \"%s\". As a vector the "
             "query is compared with every key: \"%s\" has the largest cosine, %.2f. The larger "
             "the factor before the softmax, the larger the weight of this text (%.2f for 100); "
             "the result is the weighted mean of the values.",
             (long long)hard, hard == 1 ? "" : "s", hard == 1 ? "s" : "", text[0], text[at + 1],
             like[at], best);
    return QKV_OK;
}

// ---- a dense layer compared with attention -----------------------------------------------------
// Computes out[n][D] = w x for each row of x: a dense layer applies the same weights w to every
// input.
static void apply_weights(float *out, const float *w, const float *x, int64_t n, int64_t D)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++) sum += (double)w[i * n + j] * (double)x[j * D + d];
            out[i * D + d] = (float)sum;
        }
}

// Returns the largest change of a row, relative to its norm: b has the rows of a in reverse order.
static double farthest(const float *a, const float *b, int64_t n, int64_t D)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double change = 0, norm = 0;
        for (int64_t d = 0; d < D; d++) {
            const double x = (double)a[i * D + d], y = (double)b[(n - 1 - i) * D + d];
            change += (x - y) * (x - y);
            norm += x * x;
        }
        most = fmax(most, norm > 0 ? sqrt(change / norm) : 0);
    }
    return most;
}

// Runs attention with the rows of x as queries, keys and values.
static qkv_status attend(float *out, float *weights, const float *x, int64_t n, int64_t D,
                         double scale, qkv_error *err)
{
    const struct qkv_attention a = {
        .B = 1, .T = n, .S = n, .H = 1, .E = D, .scale = (float)scale
    };
    return explain_attend(out, weights, x, x, x, &a, err);
}

// Draws the matrix of a dense layer: random numbers, and a softmax of each row, so that its rows
// sum to 1 as the weights of attention do.
static void draw_dense(float *w, int64_t n)
{
    struct explain_random r = { (uint64_t)explain_options.seed };
    double *row = cmd_alloc((size_t)n, sizeof *row);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) row[j] = 1.5 * explain_normal(&r);
        explain_softmax(row, row, n, 1);
        for (int64_t j = 0; j < n; j++) w[i * n + j] = (float)row[j];
    }
    free(row);
}

qkv_status explain_dense(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    qkv_status status =
        text_run_start(p, &s, argc ? argv[0] : NULL, "time flies like an arrow", err);
    if (status) return status;
    const int64_t n = s->T, D = s->D;
    if (n > 64)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--dense: text too long, expected at most 64 tokens, found %lld",
                         (long long)n);
    float *x = page_take(p, (size_t)(2 * n * D), sizeof *x), *reversed_x = x + n * D;
    float *out = page_take(p, (size_t)(4 * n * D), sizeof *out), *back = out + n * D,
          *fixed_out = back + n * D, *fixed_back = fixed_out + n * D;
    const char **reversed = page_take(p, (size_t)n, sizeof *reversed),
               **place = page_take(p, (size_t)n, sizeof *place);
    double square = 0;
    if ((status = seen_embeddings(x, s, err))) return status;
    for (int64_t i = 0; i < n * D; i++) square += (double)x[i] * (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        memcpy(reversed_x + (n - 1 - i) * D, x + i * D, (size_t)D * sizeof *x);
        reversed[n - 1 - i] = s->name[i];
        place[i] = page_text(p, "%lld", (long long)i);
    }
    // The embeddings of different models have different norms; without a factor the weights of some
    // are all equal to two digits.  The page names the factor.
    const double factor = square > 0 ? 3 / square : 1;
    float *fixed =
        page_grid(p, "a dense layer over positions: one matrix (random numbers, rows sum to 1)", n,
                  n, place, place, QKV_CHART_WEIGHTS);
    draw_dense(fixed, n);
    float *w = page_grid(p, page_text(p, "softmax(c X X^T) of this text, c = %.2f", factor), n, n,
                         s->name, s->name, QKV_CHART_WEIGHTS);
    float *w2 = page_grid(p, "softmax(c X X^T) of the same words in reverse order", n, n, reversed,
                          reversed, QKV_CHART_WEIGHTS);
    if ((status = attend(out, w, x, n, D, factor, err)) ||
        (status = attend(back, w2, reversed_x, n, D, factor, err)))
        return status;
    apply_weights(fixed_out, fixed, x, n, D);
    apply_weights(fixed_back, fixed, reversed_x, n, D);
    page_title(p, "Where do the weights come from?");
    page_say(p,
             "With the words reversed, attention computes the same vector for each word, within "
             "%.0e of its norm: its weights depend on the words, not on their positions. A dense "
             "layer uses the same matrix for all inputs: the vector of a word changes by up to "
             "%.0f %% of its norm. X are the embeddings, without positions and projections; the "
             "factor c = %.2f makes a token's score with itself 3 on the mean.",
             farthest(out, back, n, D), 100 * farthest(fixed_out, fixed_back, n, D), factor);
    return QKV_OK;
}
