// SPDX-License-Identifier: MIT
// explain_diagonal.c: implements a topic of `qkv explain`: what the products of the embeddings with
// themselves, X X^T, make a token attend to, before and after projections.
#include "explain/explain.h"
#include <math.h>
#include <string.h>

// The diagonal of a square matrix, and in how many rows no number is larger than the diagonal's.
struct diagonal {
    double least, mean, most;
    int64_t itself;
};

static struct diagonal measure(const float *w, int64_t n)
{
    struct diagonal d = { INFINITY, 0, -INFINITY, 0 };
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)w[i * n + i];
        bool most = true;
        // products of equal rows differ in their last bits
        for (int64_t j = 0; j < n; j++) most = most && (double)w[i * n + j] <= x + 1e-6 * fabs(x);
        d.itself += most;
        d.mean += x / (double)n;
        d.least = fmin(d.least, x);
        d.most = fmax(d.most, x);
    }
    return d;
}

// Writes the products of the rows of x[n][D] to s[n][n], and to c[n][n] their cosines: the products
// of the same rows, each divided by its norm.
static void multiply(float *s, float *c, const float *x, int64_t n, int64_t D)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t d = 0; d < D; d++) sum += (double)x[i * D + d] * (double)x[j * D + d];
            s[i * n + j] = (float)sum;
            c[i * n + j] = qkv_cosine(x + i * D, x + j * D, D);
        }
}

static void softmax(float *w, const float *s, int64_t n, double scale)
{
    for (int64_t i = 0; i < n * n; i++) w[i] = (float)((double)s[i] * scale);
    qkv_softmax_rows(w, w, n, n, n, n);
}

static void head_weights(float *w, const struct text_run *s, int64_t layer, int64_t head,
                         struct seen_key *row)
{
    for (int64_t i = 0; i < s->T; i++) {
        seen_row(s, layer, head, i, row);
        for (int64_t j = 0; j < s->T; j++) w[i * s->T + j] = (float)row[j].weight;
    }
}

// Finds the head of the model with the least weight on the diagonal; *layer or *head >= 0 restricts
// the search.  Writes its weights to w[T][T].
static void least_diagonal(struct page *p, float *w, const struct text_run *s, int64_t *layer,
                           int64_t *head)
{
    const int64_t n = s->T, l0 = *layer, h0 = *head;
    float *now = page_take(p, (size_t)(n * n), sizeof *now);
    struct seen_key *row = page_take(p, (size_t)n, sizeof *row);
    double best = 2;
    for (int64_t l = 0; l < s->L; l++)
        for (int64_t h = 0; h < s->H; h++) {
            if ((l0 >= 0 && l != l0) || (h0 >= 0 && h != h0)) continue;
            head_weights(now, s, l, h, row);
            const double mean = measure(now, n).mean;
            if (mean >= best) continue;
            best = mean;
            *layer = l;
            *head = h;
            memcpy(w, now, (size_t)(n * n) * sizeof *now);
        }
}

// One matrix of the page: a row of the table, and a panel if `panel` is not NULL.
struct matrix {
    const char *name, *panel;
    const float *value;
    enum qkv_chart_ramp ramp;
    bool score; // its numbers are scores, not weights
    struct diagonal d;
};

static void show(struct page *p, struct matrix *m, int64_t count, const struct text_run *s)
{
    static const char *const head[] = { "matrix", "least", "mean", "largest", "largest of row" };
    const int64_t n = s->T;
    page_table(p, "the diagonals", count + 1, 5);
    for (int64_t c = 0; c < 5; c++) page_cell(p, 0, c, "%s", head[c]);
    for (int64_t i = 0; i < count; i++) {
        m[i].d = measure(m[i].value, n);
        page_cell(p, i + 1, 0, "%s", m[i].name);
        const double of[] = { m[i].d.least, m[i].d.mean, m[i].d.most };
        for (int c = 0; c < 3; c++)
            page_cell(p, i + 1, c + 1, "%s",
                      m[i].score ? page_text(p, "%.3f", of[c]) : page_weight(p, of[c], 3));
        page_cell(p, i + 1, 4, "%lld of %lld", (long long)m[i].d.itself, (long long)n);
        if (m[i].panel)
            memcpy(page_grid(p, m[i].panel, n, n, s->name, s->name, m[i].ramp), m[i].value,
                   (size_t)(n * n) * sizeof *m[i].value);
    }
    p->across = 2;
}

qkv_status explain_diagonal(struct page *p, int argc, char **argv, qkv_error *err)
{
    enum { RAW, COSINE, PLAIN, SCALED, COSINE_PLAIN, COSINE_SCALED, HEAD, MATRICES };
    struct text_run *s;
    int64_t layer = explain_options.layer, head = explain_options.head;
    qkv_status status = text_run_start(p, &s, argc ? argv[0] : NULL, EXPLAIN_ANIMAL, err);
    if (status) return status;
    const int64_t n = s->T;
    if ((status = text_run_limit(s, "--diagonal", 64, err))) return status;
    if ((status = text_run_check(s, err))) return status;
    float *x = page_take(p, (size_t)(n * s->D), sizeof *x), *w[MATRICES];
    for (int i = 0; i < MATRICES; i++) w[i] = page_take(p, (size_t)(n * n), sizeof *w[i]);
    if ((status = seen_embeddings(x, s, err))) return status;
    const double scale = 1 / sqrt((double)s->D);
    multiply(w[RAW], w[COSINE], x, n, s->D);
    softmax(w[PLAIN], w[RAW], n, 1);
    softmax(w[SCALED], w[RAW], n, scale);
    softmax(w[COSINE_PLAIN], w[COSINE], n, 1);
    softmax(w[COSINE_SCALED], w[COSINE], n, scale);
    least_diagonal(p, w[HEAD], s, &layer, &head);
    const char *const where =
        page_text(p, "head L%lld.H%lld, with W_Q and W_K", (long long)layer, (long long)head);
    struct matrix m[MATRICES] = {
        [RAW] = { .name = "X X^T",
                  .panel = "scores X X^T of the embeddings X",
                  .value = w[RAW],
                  .ramp = QKV_CHART_SIGNED,
                  .score = true },
        [COSINE] = { .name = "X X^T, normalised rows", .value = w[COSINE], .score = true },
        [PLAIN] = { .name = "softmax(X X^T)",
                    .panel = "softmax(X X^T)",
                    .value = w[PLAIN],
                    .ramp = QKV_CHART_WEIGHTS },
        [SCALED] = { .name = "softmax(X X^T / sqrt(d))",
                     .panel = page_text(p, "softmax(X X^T / sqrt(d)), d = %lld", (long long)s->D),
                     .value = w[SCALED],
                     .ramp = QKV_CHART_WEIGHTS },
        [COSINE_PLAIN] = { .name = "softmax(X X^T), normalised", .value = w[COSINE_PLAIN] },
        [COSINE_SCALED] = { .name = "softmax(X X^T / sqrt(d)), normalised",
                            .value = w[COSINE_SCALED] },
        [HEAD] = { .name = where,
                   .panel = page_text(p, "weights of %s", where),
                   .value = w[HEAD],
                   .ramp = QKV_CHART_WEIGHTS }
    };
    show(p, m, MATRICES, s);
    p->grid[0]->digits = 1; // two decimals with a sign do not fit into a cell
    page_title(p, "Must a word attend to itself?");
    page_say(
        p,
        "The diagonal of X X^T is |x|^2: %.2f to %.2f here, and 1 only for normalised rows. It "
        "is the largest score of its row in %lld of %lld rows; another token's is larger only "
        "if its vector is longer. On the mean, softmax makes a weight of %s of it without "
        "the scale and of %s with it; a uniform weight is %s. With projections a token "
        "need not attend to itself: in L%lld.H%lld the mean is %s.",
        m[RAW].d.least, m[RAW].d.most, (long long)m[RAW].d.itself, (long long)n,
        page_weight(p, m[PLAIN].d.mean, 3), page_weight(p, m[SCALED].d.mean, 3),
        page_weight(p, 1 / (double)n, 3), (long long)layer, (long long)head,
        page_weight(p, m[HEAD].d.mean, 3));
    return QKV_OK;
}
