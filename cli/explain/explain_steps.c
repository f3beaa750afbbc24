// SPDX-License-Identifier: MIT
// explain_steps.c: implements two topics of `qkv explain`: the six steps from a word to the output
// of a head, on a real text; and which heads attend from one word to others.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The query that is shown: a token in one layer and head.
struct place {
    const struct text_run *s;
    int64_t layer, head, row, key; // row: the query; key: the key with its largest weight
    struct seen_key *keys;
    double lse, top, *z; // top: the largest score
};

// Returns the largest difference between the weights that are computed here and the weights of the
// kernel.
static double apart(const struct place *a)
{
    const struct text_run *s = a->s;
    const float *kernel = s->layer[a->layer].weights;
    double most = 0;
    for (int64_t j = 0; j < s->T; j++) {
        const double w = a->keys[j].masked ? 0 : seen_weight(a->keys[j].score, a->lse);
        const double k =
            kernel ? (double)kernel[(a->head * s->T + a->row) * s->T + j] : a->keys[j].weight;
        most = fmax(most, fabs(w - k));
    }
    return most;
}

// ---- JSON ---------------------------------------------------------------------------------------
static void put_floats(struct page *p, const char *name, const float *x, int64_t n)
{
    double *y = page_take(p, (size_t)n, sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = (double)x[i];
    page_numbers(p, name, y, n);
}

static void numbers_of(struct page *p, const struct place *a)
{
    const struct text_run *s = a->s;
    const struct seen_layer *l = &s->layer[a->layer];
    const double own = 1 / (double)l->scale;
    const float *q = seen_q(s, a->layer, a->head, a->row),
                *k = seen_k(s, a->layer, a->head, a->key);
    double *at = page_take(p, 4, sizeof *at),
           *product = page_take(p, (size_t)s->E, sizeof *product);
    double *column = page_take(p, (size_t)(5 * s->T), sizeof *column);
    double *dot = column, *score = dot + s->T, *e = score + s->T, *w = e + s->T, *bare = w + s->T;
    at[0] = (double)a->layer, at[1] = (double)a->head, at[2] = (double)a->row,
    at[3] = (double)a->key;
    static const char *const names[] = { "layer", "head", "query", "key" };
    for (int i = 0; i < 4; i++) page_numbers(p, names[i], at + i, -1);
    page_names(p, "tokens", s->word, s->T);
    put_floats(p, "x", l->x + a->row * s->D, s->D);
    put_floats(p, "q", q, s->E);
    put_floats(p, "k", k, s->E);
    put_floats(p, "v", seen_v(s, a->layer, a->head, a->key), s->F);
    for (int64_t i = 0; i < s->E; i++) product[i] = (double)q[i] * (double)k[i];
    for (int64_t j = 0; j < s->T; j++) {
        const struct seen_key *x = &a->keys[j];
        dot[j] = x->dot;
        score[j] = x->masked ? -INFINITY : x->score;
        e[j] = exp(score[j] - a->top);
        w[j] = seen_weight(score[j], a->lse);
        bare[j] = score[j] * own;
    }
    explain_softmax(bare, bare, s->T, 1);
    double *sum = page_take(p, 1, sizeof *sum);
    *sum = exp(a->lse - a->top);
    page_numbers(p, "products", product, s->E);
    page_numbers(p, "scores", dot, s->T);
    page_numbers(p, "scaled", score, s->T);
    page_numbers(p, "exp", e, s->T);
    page_numbers(p, "sum", sum, -1);
    page_numbers(p, "weights", w, s->T);
    page_numbers(p, "weights_without_scale", bare, s->T);
    page_numbers(p, "z", a->z, s->F);
}

// Finds the key with the largest weight, of those that are not special tokens, and computes z.
static void weigh(struct place *a)
{
    const struct text_run *s = a->s;
    const bool all = seen_special(s, a->row);
    double best = -1;
    a->top = -INFINITY;
    for (int64_t j = 0; j < s->T; j++) {
        const double w = seen_weight(a->keys[j].score, a->lse);
        a->top = fmax(a->top, a->keys[j].score);
        for (int64_t f = 0; f < s->F; f++)
            a->z[f] += w * (double)seen_v(s, a->layer, a->head, j)[f];
        if (w > best && (all || !seen_special(s, j))) {
            best = w;
            a->key = j;
        }
    }
}

qkv_status explain_steps(struct page *p, int argc, char **argv, qkv_error *err)
{
    struct text_run *s;
    struct place a = { .row = 0 };
    qkv_status status = text_run_start(p, &s, argc ? argv[0] : NULL, EXPLAIN_ANIMAL, err);
    a.s = s;
    if (!status) status = text_run_view(p, &p->picture, s, err);
    if (!status) status = text_run_choose(p->picture, s, &a.layer, &a.head, &a.row, err);
    if (status) return status;
    a.keys = page_take(p, (size_t)s->T, sizeof *a.keys);
    a.z = page_take(p, (size_t)s->F, sizeof *a.z);
    a.lse = seen_row(s, a.layer, a.head, a.row, a.keys);
    if (!isfinite(a.lse))
        return cmd_error(
            err, QKV_ERR_UNSUPPORTED, s->info.name,
            "layer %lld, head %lld: expected finite scores of \"%s\", found NaN or Inf",
            (long long)a.layer, (long long)a.head, s->name[a.row]);
    weigh(&a);
    page_title(p, "How does “%s” attend to “%s”?", s->name[a.row], s->name[a.key]);
    page_say(p, "Layer %lld, head %lld of %s: the weight of “%s” on “%s” is %s.",
             (long long)a.layer, (long long)a.head, s->info.name, s->name[a.row], s->name[a.key],
             page_weight(p, seen_weight(a.keys[a.key].score, a.lse), 3));
    page_after(p, "\nThe weights of this row in the kernel differ from these by %s.\n",
               page_bound(p, apart(&a), 1e-5));
    numbers_of(p, &a);
    p->layer = a.layer;
    p->head = a.head;
    p->token = a.row;
    p->special = seen_special(s, a.row);
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
    if (!status) status = text_run_find(s, "--token", explain_options.token, &row, err);
    for (int64_t w = 0; w < words && !status; w++)
        status = text_run_find(s, "--reads", argv[1 + w], &key[w], err);
    if (status) return status;
    struct seen_key *keys = page_take(p, (size_t)s->T, sizeof *keys);
    struct read *all = page_take(p, (size_t)(s->L * s->H), sizeof *all);
    const char **rows = page_numbered(p, "L", s->L), **columns = page_numbered(p, "H", s->H);
    page_title(p, "Which heads attend from “%s” to %s“%s”?", s->name[row],
               words > 1 ? "words such as " : "", s->name[key[0]]);
    page_table(p, "the strongest heads", 1 + TOP * words, 3);
    page_cell(p, 0, 0, "word");
    page_cell(p, 0, 1, "head");
    page_cell(p, 0, 2, "weight");
    for (int64_t w = 0; w < words; w++) {
        float *grid =
            page_grid(p, page_text(p, "weight from “%s” to “%s”", s->name[row], s->name[key[w]]),
                      s->L, s->H, rows, columns, QKV_CHART_WEIGHTS);
        for (int64_t l = 0; l < s->L; l++)
            for (int64_t h = 0; h < s->H; h++) {
                seen_row(s, l, h, row, keys);
                grid[l * s->H + h] = (float)keys[key[w]].weight;
                all[l * s->H + h] = (struct read){ l, h, keys[key[w]].weight };
            }
        qsort(all, (size_t)(s->L * s->H), sizeof *all, by_weight);
        page_say(p,
                 "%sFrom “%s” to “%s” the largest weight is %s in L%lld.H%lld, then %s in "
                 "L%lld.H%lld.",
                 w ? " " : "", s->name[row], s->name[key[w]], page_weight(p, all[0].weight, 2),
                 (long long)all[0].layer, (long long)all[0].head,
                 page_weight(p, all[s->L * s->H > 1].weight, 2),
                 (long long)all[s->L * s->H > 1].layer, (long long)all[s->L * s->H > 1].head);
        for (int64_t t = 0; t < TOP && t < s->L * s->H; t++) {
            page_cell(p, 1 + w * TOP + t, 0, "%s", s->name[key[w]]);
            page_cell(p, 1 + w * TOP + t, 1, "L%lld.H%lld", (long long)all[t].layer,
                      (long long)all[t].head);
            page_cell(p, 1 + w * TOP + t, 2, "%s", page_weight(p, all[t].weight, 3));
        }
    }
    p->across = words > 1 ? 2 : 1;
    return QKV_OK;
}
