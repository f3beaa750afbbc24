// SPDX-License-Identifier: MIT
// explain_scores.c: implements a topic of `qkv explain`: dot, bilinear and additive scores, each
// trained on the same task; and the matrix W_s with which the bilinear score is the dot product.
#include "explain/explain.h"
#include <math.h>
#include <string.h>

// Makes a bilinear head with the scores of a trained head with dot products: its projections are
// the identity, and W_s = W_Q^T W_K / sqrt(d_k).
static void merge(struct page *p, struct explain_head *to, const struct explain_head *from,
                  struct explain_random *r)
{
    const int64_t d = from->m.d_q, k = from->m.d_k;
    explain_head_new(p, to, QKV_SCORE_BILINEAR, d, d, r);
    float *one = to->parameter, *merged = to->parameter + 2 * d * d; // W_Q, W_K, W_s in this order
    for (int64_t i = 0; i < d * d; i++) one[i] = one[d * d + i] = i / d == i % d ? 1 : 0;
    for (int64_t a = 0; a < d; a++)
        for (int64_t b = 0; b < d; b++) {
            double sum = 0;
            for (int64_t e = 0; e < k; e++)
                sum += (double)from->m.w_q[e * d + a] * (double)from->m.w_k[e * d + b];
            merged[a * d + b] = (float)(sum / sqrt((double)k));
        }
}

// Returns the root mean squared error on the samples from `from` on.
static double held_out(const float *out, const struct explain_task *t, int64_t from)
{
    double sum = 0;
    for (int64_t n = from; n < t->samples; n++) {
        const double off = (double)out[n] - (double)t->target[n];
        sum += off * off / (double)(t->samples - from);
    }
    return sqrt(sum);
}

qkv_status explain_scores(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    static const struct {
        enum qkv_score score;
        const char *name, *formula;
    } scores[] = { { QKV_SCORE_DOT, "dot", "q . k / sqrt(d_k)" },
                   { QKV_SCORE_BILINEAR, "bilinear", "q W_s k^T" },
                   { QKV_SCORE_ADDITIVE, "additive", "w . tanh(W_aq q + W_ak k)" } };
    enum { SCORES = sizeof scores / sizeof *scores };
    struct explain_random r = { (uint64_t)explain_options.seed };
    int64_t shown, train_samples;
    struct explain_task t = explain_items(p, &train_samples, &shown, &r), train = t;
    struct explain_head h[SCORES], merged;
    float *out = page_take(p, (size_t)t.samples, sizeof *out);
    float *w[SCORES + 1];
    double error[SCORES][2], most = 0;
    train.samples = train_samples;
    page_table(p, "one task, three scores", 1 + SCORES, 5);
    static const char *const head[] = { "score", "formula", "parameters", "error before", "after" };
    for (int64_t c = 0; c < 5; c++) page_cell(p, 0, c, "%s", head[c]);
    for (int i = 0; i < SCORES; i++) {
        w[i] = page_take(p, (size_t)(t.samples * t.items), sizeof *w[i]);
        explain_head_new(p, &h[i], scores[i].score, t.width, t.width, &r);
        for (int after = 0; after < 2; after++) {
            qkv_status status = after ? explain_head_fit(&h[i], &train, 400, err) : QKV_OK;
            if (!status) status = explain_head_run(out, w[i], &h[i], &t, err);
            if (status) return status;
            error[i][after] = held_out(out, &t, train.samples);
        }
        page_cell(p, i + 1, 0, "%s", scores[i].name);
        page_cell(p, i + 1, 1, "%s", scores[i].formula);
        page_cell(p, i + 1, 2, "%lld", (long long)h[i].count);
        for (int after = 0; after < 2; after++)
            page_cell(p, i + 1, 3 + after, "%.2f", error[i][after]);
        double *y = page_take(p, (size_t)t.items, sizeof *y);
        for (int64_t j = 0; j < t.items; j++) y[j] = (double)w[i][train.samples * t.items + j];
        struct qkv_chart_panel *panel =
            page_panel(p, page_text(p, "%s: weights of one held-out sample", scores[i].name));
        page_line(p, panel, NULL, NULL, y, t.items)->style = QKV_CHART_BARS;
        panel->x =
            (struct qkv_chart_axis){ .name = "position", .low = -.6, .high = (double)t.items - .4 };
        panel->y = (struct qkv_chart_axis){ .name = "weight", .high = 1 };
        panel->note = page_text(p, "%s; the item of the query is at %lld", scores[i].formula,
                                (long long)shown);
    }
    merge(p, &merged, &h[0], &r);
    w[SCORES] = page_take(p, (size_t)(t.samples * t.items), sizeof *w[SCORES]);
    const qkv_status status = explain_head_run(out, w[SCORES], &merged, &t, err);
    if (status) return status;
    for (int64_t i = 0; i < t.samples * t.items; i++)
        most = fmax(most, fabs((double)w[0][i] - (double)w[SCORES][i]));
    p->across = 3;
    page_title(p, "How can a query be compared with a key?");
    page_say(p,
             "Trained on the same task, the errors on held-out samples are %.2f with dot products, "
             "%.2f with bilinear and %.2f with additive scores (%.2f, %.2f and %.2f before). "
             "The bilinear score with W_s = W_Q W_K^T / sqrt(d_k) and no projections gives the "
             "weights of the trained dot product, within %.0e: two projections are one matrix.",
             error[0][1], error[1][1], error[2][1], error[0][0], error[1][0], error[2][0], most);
    return QKV_OK;
}
