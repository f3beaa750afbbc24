// SPDX-License-Identifier: MIT
// explain_steps.c: implements two topics of `qkv explain`: the six steps from a word to the output
// of a head, on a real text; and which heads attend from one word to others.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; // number of dimensions of a vector that are printed

static void lead_vector(struct page *p, const char *name, const double *x, int64_t n)
{
    page_lead(p, "     %-6s", name);
    for (int64_t i = 0; i < n && i < SHOWN; i++) page_lead(p, " %7.3f", x[i]);
    page_lead(p, n > SHOWN ? "  ... %lld dimensions\n" : "\n", (long long)n);
}

static void lead_floats(struct page *p, const char *name, const float *x, int64_t n)
{
    double first[SHOWN];
    for (int64_t i = 0; i < n && i < SHOWN; i++) first[i] = (double)x[i];
    lead_vector(p, name, first, n); // lead_vector prints only the first SHOWN dimensions
}

// The query that is shown: a token in one layer and head.
struct place {
    const struct text_run *s;
    int64_t layer, head, row, key; // row: the query; key: the key with its largest weight
    struct seen_key *keys;
    double lse, *z;
};

// Returns the largest difference between the weights that are computed here and the weights of the
// kernel.
static double apart(const struct place *a)
{
    const struct text_run *s = a->s;
    const float *kernel = s->layer[a->layer].weights;
    double most = 0;
    for (int64_t j = 0; j < s->T; j++) {
        const double w = a->keys[j].masked ? 0 : exp(a->keys[j].score - a->lse);
        const double k =
            kernel ? (double)kernel[(a->head * s->T + a->row) * s->T + j] : a->keys[j].weight;
        most = fmax(most, fabs(w - k));
    }
    return most;
}

static void lead_steps(struct page *p, const struct place *a)
{
    const struct text_run *s = a->s;
    const struct seen_layer *l = &s->layer[a->layer];
    const char *from = s->name[a->row], *to = s->name[a->key];
    const struct seen_key *k = &a->keys[a->key];
    double products[SHOWN];
    for (int64_t e = 0; e < s->E && e < SHOWN; e++)
        products[e] = (double)seen_q(s, a->layer, a->head, a->row)[e] *
                      (double)seen_k(s, a->layer, a->head, a->key)[e];
    page_lead(p,
              "1 project   x of \"%s\" has %lld dimensions; the head projects it to q, and every "
              "token to "
              "k and v\n",
              from, (long long)s->D);
    lead_floats(p, "x", l->x + a->row * s->D, s->D);
    lead_floats(p, "q", seen_q(s, a->layer, a->head, a->row), s->E);
    page_lead(p, "2 multiply  q and the key k of \"%s\", elementwise\n", to);
    lead_floats(p, "k", seen_k(s, a->layer, a->head, a->key), s->E);
    lead_vector(p, "q k", products, s->E);
    page_lead(p, "3 score     the sum of these products: q.k = %.3f\n", k->dot);
    page_lead(p, "4 scale     times %.4f", (double)l->scale);
    if (fabs((double)l->scale * sqrt((double)s->E) - 1) < 1e-6)
        page_lead(p, " = 1 / sqrt(%lld)", (long long)s->E);
    page_lead(p, ": %.3f", k->scaled);
    if (l->softcap > 0) page_lead(p, ", then capped at %.0f", (double)l->softcap);
    if (l->relative) page_lead(p, ", then plus %+.3f for the relative position", k->bias);
    page_lead(p, s->causal ? "; later tokens are masked\n"
                           : "; no mask: this model is bidirectional\n");
    page_lead(p, "5 softmax   e^%.3f / e^%.3f = %.4f; all weights of the row sum to 1\n", k->score,
              a->lse, exp(k->score - a->lse));
    page_lead(p, "6 sum       z is the sum of the values v times their weights\n");
    lead_floats(p, "v", seen_v(s, a->layer, a->head, a->key), s->F);
    lead_vector(p, "z", a->z, s->F);
    page_lead(p, "The weights of this row in the kernel differ from these by at most %.1e.\n\n",
              apart(a));
}

static void table_steps(struct page *p, const struct place *a)
{
    const struct text_run *s = a->s;
    const double sharp = 1 / (double)s->layer[a->layer].scale;
    double *raw = page_take(p, (size_t)s->T, sizeof *raw),
           *w = page_take(p, (size_t)s->T, sizeof *w);
    for (int64_t j = 0; j < s->T; j++)
        raw[j] = a->keys[j].masked ? -INFINITY : a->keys[j].score * sharp;
    explain_softmax(w, raw, s->T, 1);
    page_table(p, "all keys", s->T + 2, 5);
    static const char *const head[] = { "key", "q.k", "score", "weight", "without the scale" };
    for (int64_t c = 0; c < 5; c++) page_cell(p, 0, c, "%s", head[c]);
    double sum = 0;
    for (int64_t j = 0; j < s->T; j++) {
        const struct seen_key *k = &a->keys[j];
        page_cell(p, j + 1, 0, "%s", s->name[j]);
        page_cell(p, j + 1, 1, "%.3f", k->dot);
        page_cell(p, j + 1, 2, k->masked ? "masked" : "%.3f", k->score);
        page_cell(p, j + 1, 3, "%.4f", exp(k->score - a->lse));
        page_cell(p, j + 1, 4, "%.4f", w[j]);
        sum += exp(k->score - a->lse);
    }
    page_cell(p, s->T + 1, 0, "sum");
    page_cell(p, s->T + 1, 3, "%.4f", sum);
    page_cell(p, s->T + 1, 4, "1.0000");
}

static void panels_steps(struct page *p, const struct place *a)
{
    const struct text_run *s = a->s;
    double *y = page_take(p, (size_t)(s->T > s->E ? s->T : s->E), sizeof *y);
    struct qkv_chart_panel *weights = page_panel(p, "5 softmax: the weight of each key");
    for (int64_t j = 0; j < s->T; j++) y[j] = exp(a->keys[j].score - a->lse);
    page_line(p, weights, "weight", NULL, y, s->T)->style = QKV_CHART_BARS;
    weights->x = (struct qkv_chart_axis){ .label = s->name, .labels = s->T };
    weights->y = (struct qkv_chart_axis){ .name = "weight", .zero = true };
    struct qkv_chart_panel *products =
        page_panel(p, page_text(p, "2 multiply: q and k of \"%s\", elementwise", s->name[a->key]));
    for (int64_t e = 0; e < s->E; e++)
        y[e] = (double)seen_q(s, a->layer, a->head, a->row)[e] *
               (double)seen_k(s, a->layer, a->head, a->key)[e];
    page_line(p, products, "product", NULL, y, s->E)->style = QKV_CHART_BARS;
    products->x.name = "dimension";
    products->y = (struct qkv_chart_axis){ .name = "q k", .zero = true };
}

// Chooses the query: the token that --token names or, without this option, the last token that is
// not special.
static qkv_status choose_row(const struct text_run *s, int64_t *row, qkv_error *err)
{
    if (explain_options.token) return text_run_find(s, explain_options.token, row, err);
    *row = s->T - 1;
    while (*row > 0 && seen_special(s, *row)) --*row;
    return QKV_OK;
}

qkv_status explain_steps(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    struct place a = { .row = 0 };
    const bool asked = argc || explain_options.tokens.ids;
    if (!asked && !explain_options.token) explain_options.token = "it";
    qkv_status status = text_run_start(p, &s, argc ? argv[0] : NULL, EXPLAIN_ANIMAL, err);
    a.s = s;
    if (!status) status = choose_row(s, &a.row, err);
    if (!status) status = text_run_choose(s, a.row, &a.layer, &a.head, err);
    if (status) return status;
    a.keys = page_take(p, (size_t)s->T, sizeof *a.keys);
    a.z = page_take(p, (size_t)s->F, sizeof *a.z);
    a.lse = seen_row(s, a.layer, a.head, a.row, a.keys);
    if (!isfinite(a.lse))
        return cmd_error(
            err, QKV_ERR_UNSUPPORTED, s->info.name,
            "layer %lld, head %lld: expected finite scores of \"%s\", found NaN or Inf",
            (long long)a.layer, (long long)a.head, s->name[a.row]);
    double best = -1;
    for (int64_t j = 0; j < s->T; j++) {
        const double w = exp(a.keys[j].score - a.lse);
        for (int64_t f = 0; f < s->F; f++) a.z[f] += w * (double)seen_v(s, a.layer, a.head, j)[f];
        if (w > best && (j != a.row || s->T == 1)) {
            best = w;
            a.key = j;
        }
    }
    page_title(p, "How does \"%s\" attend to \"%s\"?", s->name[a.row], s->name[a.key]);
    page_say(p, "Layer %lld, head %lld of %s: the weight of \"%s\" on \"%s\" is %.3f.",
             (long long)a.layer, (long long)a.head, s->info.name, s->name[a.row], s->name[a.key],
             best);
    lead_steps(p, &a);
    table_steps(p, &a);
    panels_steps(p, &a);
    return QKV_OK;
}

// ---- which heads attend to a given word --------------------------------------------------------
struct read {
    int64_t layer, head;
    double weight;
};

static int by_weight(const void *a, const void *b)
{
    const struct read *x = a, *y = b;
    return x->weight > y->weight ? -1 : x->weight < y->weight;
}

static const char **numbers(struct page *p, const char *letter, int64_t n)
{
    const char **names = page_take(p, (size_t)n, sizeof *names);
    for (int64_t i = 0; i < n; i++) names[i] = page_text(p, "%s%lld", letter, (long long)i);
    return names;
}

qkv_status explain_reads(struct page *p, int argc, char **argv, qkv_error *err)
{
    enum { TOP = 5 };
    struct text_run *s;
    int64_t row = 0, words = argc - 1, key[16];
    qkv_status status = QKV_OK;
    if (!explain_options.token)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--reads requires --token, the word of the query");
    if (words > EXPLAIN_PANELS)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--reads: expected at most %d words, found %lld",
                         EXPLAIN_PANELS, (long long)words);
    status = text_run_start(p, &s, argv[0], NULL, err);
    if (!status) status = text_run_find(s, explain_options.token, &row, err);
    for (int64_t w = 0; w < words && !status; w++)
        status = text_run_find(s, argv[1 + w], &key[w], err);
    if (status) return status;
    struct seen_key *keys = page_take(p, (size_t)s->T, sizeof *keys);
    struct read *all = page_take(p, (size_t)(s->L * s->H), sizeof *all);
    const char **rows = numbers(p, "L", s->L), **columns = numbers(p, "H", s->H);
    page_title(p, "Which heads attend from \"%s\" to %s\"%s\"?", s->name[row],
               words > 1 ? "words such as " : "", s->name[key[0]]);
    page_table(p, "the strongest heads", 1 + TOP * words, 3);
    page_cell(p, 0, 0, "word");
    page_cell(p, 0, 1, "head");
    page_cell(p, 0, 2, "weight");
    for (int64_t w = 0; w < words; w++) {
        float *grid = page_grid(
            p, page_text(p, "weight from \"%s\" to \"%s\"", s->name[row], s->name[key[w]]), s->L,
            s->H, rows, columns, QKV_CHART_WEIGHTS);
        for (int64_t l = 0; l < s->L; l++)
            for (int64_t h = 0; h < s->H; h++) {
                seen_row(s, l, h, row, keys);
                grid[l * s->H + h] = (float)keys[key[w]].weight;
                all[l * s->H + h] = (struct read){ l, h, keys[key[w]].weight };
            }
        qsort(all, (size_t)(s->L * s->H), sizeof *all, by_weight);
        page_say(p,
                 "%sFrom \"%s\" to \"%s\" the largest weight is %.2f in L%lld.H%lld, then %.2f in "
                 "L%lld.H%lld.",
                 w ? " " : "", s->name[row], s->name[key[w]], all[0].weight,
                 (long long)all[0].layer, (long long)all[0].head, all[s->L * s->H > 1].weight,
                 (long long)all[s->L * s->H > 1].layer, (long long)all[s->L * s->H > 1].head);
        for (int64_t t = 0; t < TOP && t < s->L * s->H; t++) {
            page_cell(p, 1 + w * TOP + t, 0, "%s", s->name[key[w]]);
            page_cell(p, 1 + w * TOP + t, 1, "L%lld.H%lld", (long long)all[t].layer,
                      (long long)all[t].head);
            page_cell(p, 1 + w * TOP + t, 2, "%.3f", all[t].weight);
        }
    }
    p->across = words > 1 ? 2 : 1;
    return QKV_OK;
}
