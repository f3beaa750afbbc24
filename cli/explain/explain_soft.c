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
static const char *const TEXTS[] = { "feeding dogs", "family food", "puppy photos", "tax law",
                                     "cats eat" };

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

// How a lookup finds texts: by the whole query as one key, as a hash map does; by all its words, or
// by any of them, as an inverted index does.
enum match { EXACT, ALL, ANY, MATCHES };

static bool matches(enum match how, const char *text, const char *query)
{
    char word[WORD];
    bool all = true, any = false;
    if (how == EXACT) return !strcmp(text, query);
    while (next_word(&query, word)) {
        const bool found = contains(text, word);
        all = all && found;
        any = any || found;
    }
    return how == ALL ? any && all : any;
}

// Appends the number of a text to a list such as "0, 2".
static void list_add(char list[DOCUMENTS * 4], int64_t text)
{
    const size_t used = strlen(list);
    snprintf(list + used, DOCUMENTS * 4 - used, "%s%lld", used ? ", " : "", (long long)text);
}

static void table_index(struct page *p, const char *query, const char *const *text, int64_t n)
{
    static const char *const names[MATCHES] = { "the query as one key", "all these words",
                                                "any of these words" };
    char word[WORD];
    int64_t words = 0;
    const char *at = query;
    while (next_word(&at, word)) words++;
    page_table(p, "hash map and inverted index: the texts that each finds", words + MATCHES + 1, 2);
    page_cell(p, 0, 0, "word of the query");
    page_cell(p, 0, 1, "texts");
    at = query;
    for (int64_t w = 0; w < words + MATCHES; w++) {
        char list[DOCUMENTS * 4] = "";
        if (w < words) next_word(&at, word);
        for (int64_t t = 0; t < n; t++)
            if (w < words ? contains(text[t], word)
                          : matches((enum match)(w - words), text[t], query))
                list_add(list, t);
        page_cell(p, w + 1, 0, "%s", w < words ? word : names[w - words]);
        page_cell(p, w + 1, 1, "%s", *list ? list : "none");
    }
}

// Computes a vector for the query and for each text, v[n + 1][*width]; the caller frees it.
static qkv_status embed(float **v, int64_t *width, const char *const *text, int64_t n,
                        qkv_error *err)
{
    const struct qkv_embedder_options how = { .model = cmd_model_options(), .truncate = true };
    char dir[CMD_PATH];
    size_t bytes[DOCUMENTS + 1];
    qkv_embedder *e = NULL;
    qkv_status status = cmd_model_find(dir, err);
    if (!status) status = qkv_embedder_open(&e, dir, &how, err);
    if (status) return status;
    *width = qkv_embedder_width(e);
    *v = cmd_alloc(array_count(2, (int64_t[]){ n + 1, *width }), sizeof **v);
    for (int64_t t = 0; t <= n; t++) bytes[t] = strlen(text[t]);
    status = qkv_embed(e, *v, text, bytes, n + 1, NULL, err);
    qkv_embedder_close(e);
    return status ? status : cmd_check_finite(*v, (n + 1) * *width, "vector of a text", err);
}

qkv_status explain_lookup(struct page *p, int argc, char **argv, qkv_error *err)
{
    static const double sharp[] = { 1, 5, 20, 80 };
    static const char *const columns[] = { "key", "all", "any", "x1", "x5", "x20", "x80" };
    enum { SHARP = sizeof sharp / sizeof *sharp, COLUMNS = sizeof columns / sizeof *columns };
    const char *text[DOCUMENTS + 1];
    float *v = NULL;
    int64_t D = 0, best = 0, hits[MATCHES] = { 0 };
    const int64_t n = argc > 1 ? argc - 1 : (int64_t)(sizeof TEXTS / sizeof *TEXTS);
    if (argc == 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--lookup: expected a query and the texts to search, found only a query");
    text[0] = argc ? argv[0] : QUERY;
    for (int64_t t = 0; t < n; t++) text[t + 1] = argc ? argv[t + 1] : TEXTS[t];
    double *like = page_take(p, (size_t)n, sizeof *like), *w = page_take(p, (size_t)n, sizeof *w);
    const qkv_status status = embed(&v, &D, text, n, err);
    for (int64_t t = 0; t < n && !status; t++) {
        like[t] = (double)qkv_cosine(v, v + (t + 1) * D, D);
        if (like[t] > like[best]) best = t;
    }
    free(v);
    if (status) return status;
    const char **names = page_take(p, (size_t)n, sizeof *names),
               **numbers = page_take(p, (size_t)n, sizeof *numbers);
    for (int64_t t = 0; t < n; t++) {
        names[t] = page_text(p, "%lld %s", (long long)t, text[t + 1]);
        numbers[t] = page_text(p, "%lld", (long long)t);
    }
    float *grid = page_grid(p, "the weight of each text: from a hash map to soft weights", n,
                            COLUMNS, names, columns, QKV_CHART_WEIGHTS);
    for (int m = 0; m < MATCHES; m++) {
        for (int64_t t = 0; t < n; t++) hits[m] += matches((enum match)m, text[t + 1], text[0]);
        for (int64_t t = 0; t < n && hits[m]; t++)
            grid[t * COLUMNS + m] =
                matches((enum match)m, text[t + 1], text[0]) ? 1 / (float)hits[m] : 0;
    }
    for (int i = 0; i < SHARP; i++) {
        explain_softmax(w, like, n, 1 / sharp[i]);
        for (int64_t t = 0; t < n; t++) grid[t * COLUMNS + MATCHES + i] = (float)w[t];
    }
    p->panel[0].note = "key: hash map; all, any: the texts that contain all words of the query, or "
                       "any; x1 to x80: softmax of the cosines times 1 to 80";
    struct qkv_chart_panel *bars = page_panel(p, "query . key, as cosines");
    page_line(p, bars, "cosine", NULL, like, n)->style = QKV_CHART_BARS;
    bars->x = (struct qkv_chart_axis){ .name = "text", .label = numbers, .labels = n };
    bars->y.zero = true;
    table_index(p, text[0], text + 1, n);
    page_title(p, "How is attention a soft lookup?");
    page_say(p,
             "A hash map with the query “%s” as its key finds %lld of %lld texts; an inverted "
             "index finds %lld that contain all its words and %lld that contain any. As vectors "
             "the query and every key have a cosine: “%s” has the largest, %.2f. A softmax of "
             "the cosines gives each text a weight; with a large factor the text with the best "
             "key gets nearly all (%s for 80), which is a hash map for the nearest key.",
             text[0], (long long)hits[EXACT], (long long)n, (long long)hits[ALL],
             (long long)hits[ANY], text[best + 1], like[best], page_weight(p, w[best], 2));
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
    if ((status = text_run_limit(s, "--dense", 64, err))) return status;
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
             "With the words reversed, attention computes the same vector for each word, with a "
             "difference of %s of its norm: its weights depend on the words, not on their "
             "positions. A dense layer uses the same matrix for all inputs: the vector of a word "
             "changes by up to %.0f %% of its norm. X are the embeddings, without positions and "
             "projections; the "
             "factor c = %.2f makes a token's score with itself 3 on the mean.",
             page_bound(p, farthest(out, back, n, D), 1e-5),
             100 * farthest(fixed_out, fixed_back, n, D), factor);
    return QKV_OK;
}
