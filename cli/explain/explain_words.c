// SPDX-License-Identifier: MIT
// explain_words.c: implements two topics of `qkv explain` on word vectors: queries and keys of a
// head in a plane; one word in several texts.
#include "explain/explain.h"
#include "frame/word_operand.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- queries and keys in a plane ---------------------------------------------------------------
// Returns the key with the largest product with query i; both[2 n][E]: the queries, then the keys.
static int64_t best_key(const float *both, int64_t n, int64_t E, int64_t i)
{
    double most = -INFINITY;
    int64_t best = 0;
    for (int64_t j = 0; j < n; j++) {
        double dot = 0;
        for (int64_t e = 0; e < E; e++)
            dot += (double)both[i * E + e] * (double)both[(n + j) * E + e];
        if (dot <= most) continue;
        most = dot;
        best = j;
    }
    return best;
}

// Draws queries and keys in the plane of their first two principal components, the origin, and a
// line from each query to the key with which its product is largest; the line of `token` is bold.
static void panel_plane(struct page *p, const char *name, const struct text_run *s,
                        const float *both, int64_t token)
{
    const int64_t n = s->T;
    double *at = page_take(p, (size_t)(4 * n + 2), sizeof *at), share;
    double *x = page_take(p, (size_t)n, sizeof *x), *y = page_take(p, (size_t)n, sizeof *y);
    explain_plane(at, &share, both, 2 * n, s->E);
    struct qkv_chart_panel *panel = page_panel(p, name);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = at[2 * (side * n + i)];
            y[i] = at[2 * (side * n + i) + 1];
        }
        struct qkv_chart_line *points = page_line(p, panel, side ? "keys" : "queries", x, y, n);
        points->style = QKV_CHART_POINTS;
        points->text = s->name;
    }
    double *lx = page_take(p, (size_t)(3 * n), sizeof *lx),
           *ly = page_take(p, (size_t)(3 * n), sizeof *ly);
    for (int64_t i = 0; i < n; i++)
        for (int end = 0; end < 3; end++) { // NaN: a gap after each pair
            const double *to = at + 2 * (end ? n + best_key(both, n, s->E, i) : i);
            lx[3 * i + end] = to[0];
            ly[3 * i + end] = end < 2 ? to[1] : NAN;
        }
    struct qkv_chart_line *lines = page_line(p, panel, NULL, lx, ly, 3 * n);
    lines->style = QKV_CHART_THIN;
    lines->hue = QKV_CHART_QUIET;
    lines = page_line(p, panel, NULL, lx + 3 * token, ly + 3 * token, 2);
    lines->style = QKV_CHART_STRONG;
    lines->hue = QKV_CHART_RED;
    struct qkv_chart_mark *origin = page_take(p, 1, sizeof *origin);
    *origin = (struct qkv_chart_mark){ .x = at[4 * n], .y = at[4 * n + 1] };
    panel->mark = origin;
    panel->marks = 1;
    panel->equal = true;
    panel->height = 420;
    panel->note =
        page_text(p,
                  "first two principal components, which have %.0f %% of the variance; the "
                  "uncoloured dot is the origin, a line leads from a query to the key with the "
                  "largest product",
                  100 * share);
}

// Returns how well queries point to their keys: the mean, over queries, of the cosine with the key
// that has the largest product.
static double aim(const float *both, int64_t n, int64_t E)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)qkv_cosine(both + i * E, both + (n + best_key(both, n, E, i)) * E, E) /
               (double)n;
    return sum;
}

// Returns how many different keys are the best key of some query.
static int64_t different_keys(struct page *p, const float *both, int64_t n, int64_t E)
{
    bool *used = page_take(p, (size_t)n, sizeof *used);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = best_key(both, n, E, i);
        count += !used[j];
        used[j] = true;
    }
    return count;
}

qkv_status explain_geometry(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    qkv_view *v = NULL;
    int64_t layer, head, token;
    qkv_status status = text_run_start(p, &s, argc ? argv[0] : NULL, EXPLAIN_ANIMAL, err);
    if (status) return status;
    const int64_t n = s->T, E = s->E, D = s->D;
    if ((status = text_run_limit(s, "--geometry", 200, err))) return status;
    status = text_run_view(p, &v, s, err);
    if (!status) status = text_run_choose(v, s, &layer, &head, &token, err);
    qkv_view_free(v);
    if (status) return status;
    float *learned = page_take(p, (size_t)(2 * n * E), sizeof *learned),
          *drawn = page_take(p, (size_t)(2 * n * E), sizeof *drawn),
          *w = page_take(p, (size_t)(E * D), sizeof *w);
    struct explain_random r = { (uint64_t)explain_options.seed };
    for (int side = 0; side < 2; side++) {
        explain_normals(w, E * D, .02, &r); // BERT initializes its weights with this distribution
        if ((status = qkv_linear(drawn + side * n * E, s->layer[layer].x, w, NULL, n, D, E)))
            return cmd_error(err, status, NULL,
                             "the linear kernel cannot compute the random projections");
        for (int64_t i = 0; i < n; i++)
            memcpy(learned + (side * n + i) * E,
                   side ? seen_k(s, layer, head, i) : seen_q(s, layer, head, i),
                   (size_t)E * sizeof *learned);
    }
    panel_plane(p, "before training: random W_Q and W_K, N(0, .02)", s, drawn, token);
    panel_plane(p,
                page_text(p, "after training: layer %lld, head %lld of %s", (long long)layer,
                          (long long)head, s->info.name),
                s, learned, token);
    page_title(p, "Where do queries and keys lie in space?");
    page_say(p,
             "In L%lld.H%lld the cosine between a query and the key with which its product is "
             "largest is %.2f on average; with random projections, as before training, it is %.2f. "
             "The %lld queries have %lld different best keys; the best key of “%s” is “%s”.",
             (long long)layer, (long long)head, aim(learned, n, E), aim(drawn, n, E), (long long)n,
             (long long)different_keys(p, learned, n, E), s->name[token],
             s->name[best_key(learned, n, E, token)]);
    return QKV_OK;
}

// ---- one word in several texts -----------------------------------------------------------------
// Computes the vector of a word: the mean of the rows of x that belong to its tokens; x NULL: the
// mean of their embeddings.
static qkv_status word_vector(float *out, const struct text_run *s, const float *x, int64_t begin,
                              int64_t end, qkv_error *err)
{
    const qkv_encoding *e = &s->tokens.encoding;
    float *row = cmd_alloc((size_t)s->D, sizeof *row);
    int64_t n = 0;
    qkv_status status = QKV_OK;
    memset(out, 0, (size_t)s->D * sizeof *out);
    for (int64_t i = 0; i < s->T && !status; i++) {
        if (e->text[i] > 1 || e->end[i] <= begin || e->begin[i] >= end) continue;
        if (x)
            memcpy(row, x + i * s->D, (size_t)s->D * sizeof *row);
        else
            status = seen_embedding(s, row, i, err);
        for (int64_t d = 0; d < s->D && !status; d++) out[d] += row[d];
        n++;
    }
    for (int64_t d = 0; d < s->D; d++) out[d] /= (float)(n ? n : 1);
    free(row);
    return status;
}

// Returns a text with the word between begin and end in brackets: the whole text or, if it is long,
// the word with a few words around it.
static const char *mark_word(struct page *p, const char *text, size_t begin, size_t end)
{
    enum { WHOLE = 60, AROUND = 12 };
    const size_t bytes = strlen(text);
    size_t from = 0, to = bytes;
    if (bytes > WHOLE) {
        from = begin, to = end;
        for (size_t i = begin; i > 0 && begin - i <= AROUND; i--)
            if (i == 1 || text[i - 2] == ' ') from = i - 1;
        for (size_t i = end; i < bytes && i - end <= AROUND; i++)
            if (i + 1 == bytes || text[i + 1] == ' ') to = i + 1;
    }
    return page_text(p, "%s%.*s[%.*s]%.*s%s", from ? "... " : "", (int)(begin - from), text + from,
                     (int)(end - begin), text + begin, (int)(to - end), text + end,
                     to < bytes ? " ..." : "");
}

qkv_status explain_context(struct page *p, int argc, char **argv, qkv_error *err)
{
    const int64_t texts = argc - 1;
    const char *word = argv[0];
    struct text_run *first = NULL;
    float *v =
        NULL; // [L + 2][texts][D]: the table, the hidden state before each layer, then the last
    const char **label = page_take(p, (size_t)texts, sizeof *label);
    if (explain_options.tokens.ids)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--context cannot be combined with --ids, expected texts");
    for (int64_t t = 0; t < texts; t++) {
        struct text_run *s;
        const char *text = argv[1 + t];
        const size_t bytes = strlen(text);
        size_t begin = 0, end = 0;
        if (!word_next(&begin, &end, text, bytes, word, false) &&
            !word_next(&begin, &end, text, bytes, word, true))
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--context: no word that begins with '%s' in the text '%s'", word,
                             text);
        qkv_status status = text_run_start(p, &s, text, NULL, err);
        if (status) return status;
        if (!first) {
            first = s;
            v = page_take(p, array_count(3, (int64_t[]){ s->L + 2, texts, s->D }), sizeof *v);
        }
        label[t] = mark_word(p, text, begin, end);
        for (int64_t l = 0; l < s->L + 2 && !status; l++) {
            const float *x = !l ? NULL : l <= s->L ? s->layer[l - 1].x : s->last;
            status =
                word_vector(v + (l * texts + t) * s->D, s, x, (int64_t)begin, (int64_t)end, err);
        }
        if (status) return status;
    }
    const int64_t L = first->L, D = first->D;
    const qkv_status finite =
        cmd_check_finite(v, (L + 2) * texts * D, "hidden state of the word", err);
    if (finite) return finite;
    const float *last = v + (L + 1) * texts * D;
    float *fixed = page_grid(p, "cosines of the static embeddings", texts, texts, label, NULL,
                             QKV_CHART_LINEAR);
    float *moved =
        page_grid(p, "cosines after the last layer", texts, texts, label, NULL, QKV_CHART_LINEAR);
    double least = 2;
    int64_t a = 0, b = 0;
    for (int64_t i = 0; i < texts; i++)
        for (int64_t j = 0; j < texts; j++) {
            fixed[i * texts + j] = qkv_cosine(v + i * D, v + j * D, D);
            moved[i * texts + j] = qkv_cosine(last + i * D, last + j * D, D);
            if ((double)moved[i * texts + j] >= least) continue;
            least = (double)moved[i * texts + j];
            a = i;
            b = j;
        }
    struct qkv_chart_panel *layers = page_panel(
        p, "cosine between the word in each text and in the first text, after each layer");
    double *y = page_take(p, (size_t)(L + 2), sizeof *y);
    for (int64_t t = 1; t < texts; t++) {
        for (int64_t l = 0; l < L + 2; l++)
            y[l] = (double)qkv_cosine(v + l * texts * D, v + (l * texts + t) * D, D);
        page_line(p, layers, label[t], NULL, y, L + 2)->style = QKV_CHART_STRONG;
    }
    layers->x.name = "0: embedding matrix; 1: with position; then one point after each layer";
    layers->y.name = "cosine";
    for (int i = 0; i < 2; i++) p->grid[i]->high = 1;
    page_title(p, "What does “%s” mean here?", word);
    page_say(p,
             "The embedding matrix has one vector per word, but the model computes a different one "
             "in each text: in “%s” and “%s” the vectors differ most, with a cosine of %.2f "
             "(%.2f in the embedding matrix).",
             label[a], label[b], least, (double)fixed[a * texts + b]);
    return QKV_OK;
}
