// SPDX-License-Identifier: MIT
// explain_words.c: implements three topics of `qkv explain` on word vectors: embeddings attend to
// themselves without projections; queries and keys of a head in a plane; one word in several texts.
#include "explain/explain.h"
#include "frame/word_operand.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char ANIMAL[] = "The animal didn't cross the street because it was too tired";

static qkv_status run_model(struct page *p, struct text_run **out, const char *text, qkv_error *err)
{
    char dir[CMD_PATH];
    const qkv_status status = cmd_model_find(dir, err);
    if (status) return status;
    *out = text_run_take(p);
    return text_run_open(*out, dir, text ? text : explain_options.tokens.ids ? NULL : ANIMAL, err);
}

// Reads x[T][D]: for each token, its row of the embedding matrix, without position embeddings.
static qkv_status embeddings(float *x, const struct text_run *s, qkv_error *err)
{
    for (int64_t i = 0; i < s->T; i++) {
        const qkv_status status = seen_embedding(s, x + i * s->D, i, err);
        if (status) return status;
    }
    return QKV_OK;
}

// ---- the diagonal ------------------------------------------------------------------------------
struct diagonal {
    int64_t itself; // number of rows whose largest weight is on their own token
    double mean;
};

static struct diagonal measure(const float *w, int64_t n)
{
    struct diagonal d = { 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        bool most = true;
        for (int64_t j = 0; j < n; j++) most = most && w[i * n + j] <= w[i * n + i];
        d.itself += most;
        d.mean += (double)w[i * n + i] / (double)n;
    }
    return d;
}

static void head_weights(float *w, const struct text_run *s, int64_t layer, int64_t head,
                         struct seen_key *row)
{
    for (int64_t i = 0; i < s->T; i++) {
        seen_row(s, layer, head, i, row);
        for (int64_t j = 0; j < s->T; j++) w[i * s->T + j] = (float)row[j].weight;
    }
}

qkv_status explain_diagonal(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    int64_t layer = 0, head = 0;
    qkv_status status = run_model(p, &s, argc ? argv[0] : NULL, err);
    if (status) return status;
    const int64_t n = s->T;
    if (n > 64)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--diagonal: text too long, expected at most 64 tokens, found %lld",
                         (long long)n);
    float *x = page_take(p, (size_t)(n * s->D), sizeof *x);
    double *score = page_take(p, (size_t)n, sizeof *score), *w = page_take(p, (size_t)n, sizeof *w);
    struct seen_key *row = page_take(p, (size_t)n, sizeof *row);
    if ((status = embeddings(x, s, err))) return status;
    float *raw =
        page_grid(p, "softmax of X X^T / sqrt(d), where X are the embeddings without projections",
                  n, n, s->name, s->name, QKV_CHART_WEIGHTS);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            score[j] = 0;
            for (int64_t d = 0; d < s->D; d++)
                score[j] += (double)x[i * s->D + d] * (double)x[j * s->D + d];
        }
        // Embeddings have small norms: scale the rows to the norm of random vectors from N(0, 1).
        double length = 0;
        for (int64_t d = 0; d < s->D; d++)
            length += (double)x[i * s->D + d] * (double)x[i * s->D + d];
        explain_softmax(w, score, n, length > 0 ? length / sqrt((double)s->D) : 1);
        for (int64_t j = 0; j < n; j++) raw[i * n + j] = (float)w[j];
    }
    float *least = page_take(p, (size_t)(n * n), sizeof *least),
          *now = page_take(p, (size_t)(n * n), sizeof *now);
    double best = 2;
    const bool chosen = explain_options.layer >= 0 || explain_options.head >= 0;
    if (chosen && (status = text_run_choose(s, n / 2, &layer, &head, err))) return status;
    for (int64_t l = chosen ? layer : 0; l < (chosen ? layer + 1 : s->L); l++)
        for (int64_t h = chosen ? head : 0; h < (chosen ? head + 1 : s->H); h++) {
            head_weights(now, s, l, h, row);
            const struct diagonal d = measure(now, n);
            if (d.mean >= best) continue;
            best = d.mean;
            layer = l;
            head = h;
            memcpy(least, now, (size_t)(n * n) * sizeof *now);
        }
    memcpy(
        page_grid(p,
                  page_text(p, "the same words, projected by W_Q and W_K of layer %lld, head %lld",
                            (long long)layer, (long long)head),
                  n, n, s->name, s->name, QKV_CHART_WEIGHTS),
        least, (size_t)(n * n) * sizeof *least);
    const struct diagonal a = measure(raw, n), b = measure(least, n);
    page_title(p, "Must a word attend to itself?");
    page_say(p,
             "With the raw embeddings %lld of %lld tokens attend most to themselves, with "
             "a mean weight of %.2f. With the projections they need not: in L%lld.H%lld %lld of "
             "%lld tokens do, with a mean weight of %.3f.",
             (long long)a.itself, (long long)n, a.mean, (long long)layer, (long long)head,
             (long long)b.itself, (long long)n, b.mean);
    return QKV_OK;
}

// ---- queries and keys in a plane ---------------------------------------------------------------
static void panel_plane(struct page *p, const char *name, const struct text_run *s,
                        const float *both)
{
    const int64_t n = s->T;
    double *at = page_take(p, (size_t)(4 * n), sizeof *at), share;
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
    panel->note = page_text(p, "first two principal components, which have %.0f %% of the variance",
                            100 * share);
}

// Returns how well queries point to their keys: the mean, over queries, of the cosine with the key
// that has the largest product.
static double aim(const float *both, int64_t n, int64_t E)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double most = -INFINITY, c = 0;
        for (int64_t j = 0; j < n; j++) {
            double dot = 0;
            for (int64_t e = 0; e < E; e++)
                dot += (double)both[i * E + e] * (double)both[(n + j) * E + e];
            if (dot <= most) continue;
            most = dot;
            c = (double)qkv_cosine(both + i * E, both + (n + j) * E, E);
        }
        sum += c / (double)n;
    }
    return sum;
}

qkv_status explain_geometry(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    int64_t layer, head, token = 0;
    qkv_status status = run_model(p, &s, argc ? argv[0] : NULL, err);
    if (!status && explain_options.token)
        status = text_run_find(s, explain_options.token, &token, err);
    else if (!status)
        token = s->T / 2;
    if (!status) status = text_run_choose(s, token, &layer, &head, err);
    if (status) return status;
    const int64_t n = s->T, E = s->E, D = s->D;
    if (n > 200)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--geometry: text too long, expected at most 200 tokens, found %lld",
                         (long long)n);
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
    panel_plane(p, "before training: random W_Q and W_K, N(0, .02)", s, drawn);
    panel_plane(p,
                page_text(p, "after training: layer %lld, head %lld of %s", (long long)layer,
                          (long long)head, s->info.name),
                s, learned);
    page_title(p, "Where do queries and keys lie in space?");
    page_say(p,
             "In L%lld.H%lld the cosine between a query and the key with which its product is "
             "largest is %.2f on average; with random projections, as before training, it is %.2f.",
             (long long)layer, (long long)head, aim(learned, n, E), aim(drawn, n, E));
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
        qkv_status status = run_model(p, &s, text, err);
        if (status) return status;
        if (!first) {
            first = s;
            v = page_take(p, array_count(3, (int64_t[]){ s->L + 2, texts, s->D }), sizeof *v);
        }
        label[t] = page_text(p, "%.*s[%.*s]%s", (int)begin, text, (int)(end - begin), text + begin,
                             text + end);
        for (int64_t l = 0; l < s->L + 2 && !status; l++) {
            const float *x = !l ? NULL : l <= s->L ? s->layer[l - 1].x : s->last;
            status =
                word_vector(v + (l * texts + t) * s->D, s, x, (int64_t)begin, (int64_t)end, err);
        }
        if (status) return status;
    }
    const int64_t L = first->L, D = first->D;
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
    page_title(p, "What does \"%s\" mean here?", word);
    page_say(p,
             "The embedding matrix has one vector per word, but the model computes a different one "
             "in each text: in \"%s\" and \"%s\" the vectors differ most, with a cosine of %.2f "
             "(%.2f in the embedding matrix).",
             label[a], label[b], least, (double)fixed[a * texts + b]);
    return QKV_OK;
}
