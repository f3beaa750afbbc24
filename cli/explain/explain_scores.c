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

// A score function that is trained; constant: the last number of a query is 1, else 0.
struct trained {
    enum qkv_score score;
    bool constant;
    const char *name, *formula;
    double before, after, gradient; // errors on held-out samples; explain_head_check()
    struct explain_head h;
    float *w; // [samples][items] weights after training
};

static qkv_status train(struct page *p, struct trained *s, const struct explain_task *t,
                        int64_t samples, struct explain_random *r, qkv_error *err)
{
    enum { STEPS = 400 };
    struct explain_task held = *t, seen;
    if (!s->constant) {
        held.query = page_take(p, (size_t)(t->samples * t->width), sizeof *held.query);
        memcpy(held.query, t->query, (size_t)(t->samples * t->width) * sizeof *held.query);
        for (int64_t n = 0; n < t->samples; n++) held.query[(n + 1) * t->width - 1] = 0;
    }
    seen = held;
    seen.samples = samples;
    float *out = page_take(p, (size_t)t->samples, sizeof *out);
    s->w = page_take(p, (size_t)(t->samples * t->items), sizeof *s->w);
    explain_head_new(p, &s->h, s->score, t->width, t->width, r);
    qkv_status status = explain_head_check(&s->gradient, &s->h, &seen, err);
    if (!status) status = explain_head_run(out, s->w, &s->h, &held, err);
    if (status) return status;
    s->before = held_out(out, &held, samples);
    status = explain_head_fit(&s->h, &seen, STEPS, err);
    if (!status) status = explain_head_run(out, s->w, &s->h, &held, err);
    if (!status) s->after = held_out(out, &held, samples);
    return status;
}

static void panel_of(struct page *p, const struct trained *s, const struct explain_task *t,
                     int64_t samples, int64_t shown)
{
    double *y = page_take(p, (size_t)t->items, sizeof *y);
    for (int64_t j = 0; j < t->items; j++) y[j] = (double)s->w[samples * t->items + j];
    struct qkv_chart_panel *panel =
        page_panel(p, page_text(p, "%s: weights of one held-out sample", s->name));
    page_line(p, panel, NULL, NULL, y, t->items)->style = QKV_CHART_BARS;
    panel->x =
        (struct qkv_chart_axis){ .name = "position", .low = -.6, .high = (double)t->items - .4 };
    panel->y = (struct qkv_chart_axis){ .name = "weight", .high = 1 };
    panel->note =
        page_text(p, "%s; the item of the query is at %lld", s->formula, (long long)shown);
}

qkv_status explain_scores(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    static const char additive[] = "w . tanh(A q + B k)";
    struct trained s[] = {
        { QKV_SCORE_DOT, true, "dot", "q . k / sqrt(d_k)", .w = NULL },
        { QKV_SCORE_BILINEAR, true, "bilinear", "q W_s k^T", .w = NULL },
        { QKV_SCORE_ADDITIVE, true, "additive", additive, .w = NULL },
        { QKV_SCORE_ADDITIVE, false, "no constant", additive, .w = NULL },
    };
    enum { SCORES = sizeof s / sizeof *s };
    struct explain_random r = { (uint64_t)explain_options.seed };
    int64_t shown, samples;
    const struct explain_task t = explain_items(p, &samples, &shown, &r);
    struct explain_head merged;
    float *out = page_take(p, (size_t)t.samples, sizeof *out);
    float *w = page_take(p, (size_t)(t.samples * t.items), sizeof *w);
    double most = 0;
    page_table(p, "one task, three scores", 1 + SCORES, 6);
    static const char *const head[] = { "score",        "formula", "parameters",
                                        "error before", "after",   "gradient" };
    for (int64_t c = 0; c < 6; c++) page_cell(p, 0, c, "%s", head[c]);
    for (int i = 0; i < SCORES; i++) {
        const qkv_status status = train(p, &s[i], &t, samples, &r, err);
        if (status) return status;
        page_cell(p, i + 1, 0, "%s", s[i].name);
        page_cell(p, i + 1, 1, "%s", s[i].formula);
        page_cell(p, i + 1, 2, "%lld", (long long)s[i].h.count);
        page_cell(p, i + 1, 3, "%.2f", s[i].before);
        page_cell(p, i + 1, 4, "%.2f", s[i].after);
        page_cell(p, i + 1, 5, s[i].gradient < 1e-3 ? "within 1e-3" : "off by %.0e", s[i].gradient);
        panel_of(p, &s[i], &t, samples, shown);
    }
    merge(p, &merged, &s[0].h, &r);
    const qkv_status status = explain_head_run(out, w, &merged, &t, err);
    if (status) return status;
    for (int64_t i = 0; i < t.samples * t.items; i++)
        most = fmax(most, fabs((double)s[0].w[i] - (double)w[i]));
    p->across = 2;
    page_title(p, "How can a query be compared with a key?");
    page_say(p,
             "Trained on the same task, the errors on held-out samples are %.2f with dot products, "
             "%.2f with bilinear and %.2f with additive scores (%.2f, %.2f and %.2f before). One "
             "number of each query is constant. Without it additive scores fail (%.2f): they are "
             "an odd function, which gives (-q, -k) the negative of the score of (q, k), although "
             "both pairs are equally alike; a constant is a bias within the tanh. "
             "The bilinear score with W_s = W_Q W_K^T / sqrt(d_k) and no projections gives the "
             "weights of the trained dot product (the difference is %s): two projections are one "
             "matrix.",
             s[0].after, s[1].after, s[2].after, s[0].before, s[1].before, s[2].before, s[3].after,
             page_bound(p, most, 1e-4));
    return QKV_OK;
}
