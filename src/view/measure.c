// SPDX-License-Identifier: MIT
// measure.c: what a head does on this text: how many keys a row reads, how far, and its kind.
//   keys read = 2^H(row) in bits;   focus = 1 - H / log n;   kinds: kind.def
#include "view/view.h"
#include <math.h>
#include <string.h>

const struct view_kind_row view_kinds[VIEW_KINDS] = {
#define QKV_KIND(id, name, glyph, ascii, threshold, reads, rule)                                   \
    { name, glyph, ascii, threshold, reads, rule },
#include "view/kind.def"
#undef QKV_KIND
};

enum { LABEL_TOKENS = 8, INDUCTION_ROWS = 3 };

// Sums over rows while a head is walked through.
struct walk {
    double keys, distance, focus, sink;
    int64_t rows, focus_rows;
    double sum[VIEW_KINDS]; // of the measure, and the rows it could be taken on
    int64_t n[VIEW_KINDS];
    double share[2][3]; // weight from part to part, [2]: to specials
};

int64_t view_measure_scratch(int64_t T)
{
    return 2 * T + 16; // a row, and the weight each token received
}

static bool is_sink(const qkv_view *v, int64_t j)
{
    return v->shape.token[j].special ||
           (v->visible == v->shape.tokens && v->shape.causal && j == 0);
}

static void keep_larger(struct view_pair *p, int64_t from, int64_t to, float w)
{
    if (p->from < 0 || w > p->weight) *p = (struct view_pair){ from, to, w };
}

// The row as it is: entropy, distance, where its weight goes.
static void walk_whole(struct walk *k, struct view_stats *out, const qkv_view *v, const float *w,
                       int64_t i, int64_t n)
{
    double entropy = 0, distance = 0;
    const struct qkv_view_token *token = v->shape.token;
    double *share = k->share[token[i].part != 0];
    for (int64_t j = 0; j < n; j++) {
        if (w[j] > 0) entropy -= w[j] * logf(w[j]);
        distance += w[j] * (double)(i > j ? i - j : j - i);
        share[token[j].special ? 2 : token[j].part != 0] += w[j];
        k->sink += token[j].special || j == 0 ? w[j] : 0;
        if (i == j || token[j].special) continue;
        keep_larger(&out->best, i, j, w[j]);
        if (v->word[i] == v->word[j]) keep_larger(&out->same, i, j, w[j]);
    }
    k->rows++;
    k->keys += exp(entropy);
    k->distance += distance;
    if (n > 1) {
        k->focus += 1 - entropy / log((double)n);
        k->focus_rows++;
    }
}

// A pair under half an even share of its row, or that would be written .00, is nothing to speak of.
static void drop_faint(struct view_pair *p, const qkv_view *v)
{
    if (p->from < 0) return;
    const int64_t n = v->shape.causal ? p->from + 1 : v->shape.tokens;
    if (p->weight * 2 * (float)n < 1 || p->weight < .005f) *p = (struct view_pair){ -1, -1, 0 };
}

static void add(struct walk *k, enum view_kind kind, double x)
{
    k->sum[kind] += x;
    k->n[kind]++;
}

// The row without sinks, the rest scaled to 1: what the label is taken from.
static void walk_rest(struct walk *k, float *got, const qkv_view *v, const float *w, int64_t i,
                      int64_t n)
{
    double rest = 0, entropy = 0, same = 0, after = 0;
    int64_t left = 0, copies = 0, followers = 0;
    for (int64_t j = 0; j < n; j++)
        if (!is_sink(v, j)) rest += w[j], left++;
    if (rest < 1e-6 || left < 2) return; // nothing but sinks: no evidence
    for (int64_t j = 0; j < n; j++) {
        if (is_sink(v, j)) continue;
        const double r = w[j] / rest;
        if (r > 0) entropy -= r * log(r);
        got[j] += (float)r;
        if (j != i && v->word[j] == v->word[i]) same += r, copies++;
        if (j > 0 && j - 1 < i && j != i && v->word[j - 1] == v->word[i]) after += r, followers++;
    }
    const bool before = i > 0 && !is_sink(v, i - 1), next = i + 1 < n && !is_sink(v, i + 1);
    if (before) add(k, VIEW_PREVIOUS, w[i - 1] / rest);
    if (next) add(k, VIEW_NEXT, w[i + 1] / rest);
    if (!is_sink(v, i)) add(k, VIEW_ITSELF, w[i] / rest);
    if (copies) add(k, VIEW_SAME, same);
    if (followers) add(k, VIEW_INDUCTION, after);
    add(k, VIEW_BROAD, entropy / log((double)left));
}

// The strongest of the kinds that pass.
static void name_kind(struct view_stats *out, const qkv_view *v, const struct walk *k,
                      const float *got)
{
    float strength[VIEW_KINDS] = { 0 };
    int64_t word = -1;
    for (int i = 0; i < VIEW_KINDS; i++)
        if (k->n[i]) strength[i] = (float)(k->sum[i] / (double)k->n[i]);
    if (k->n[VIEW_INDUCTION] < INDUCTION_ROWS) strength[VIEW_INDUCTION] = 0;
    for (int64_t j = 0; j < v->shape.tokens; j++) {
        const float mean = k->n[VIEW_BROAD] ? got[j] / (float)k->n[VIEW_BROAD] : 0;
        if (word < 0 || mean > strength[VIEW_WORD]) strength[VIEW_WORD] = mean, word = j;
    }
    strength[VIEW_SINK] = (float)(k->sink / (double)k->rows);
    out->kind = VIEW_CONTENT;
    for (int i = 0; i < VIEW_CONTENT; i++) {
        if (i == VIEW_BROAD && strength[VIEW_SINK] >= view_kinds[VIEW_SINK].threshold) continue;
        if (strength[i] >= view_kinds[i].threshold && strength[i] > out->strength) {
            out->kind = (enum view_kind)i;
            out->strength = strength[i];
        }
    }
    out->word = out->kind == VIEW_WORD ? word : -1;
    out->rows = out->kind == VIEW_WORD                                ? k->n[VIEW_BROAD]
                : out->kind == VIEW_SINK || out->kind == VIEW_CONTENT ? k->rows
                                                                      : k->n[out->kind];
}

void view_measure(struct view_stats *out, const qkv_view *v, int64_t layer, int64_t head,
                  float *scratch)
{
    const int64_t T = v->shape.tokens, E = v->shape.head_width;
    const float *q = view_q(v, layer, head), *kt = view_kt(v, layer, head),
                *lse = view_lse(v, layer, head);
    float *w = scratch, *got = scratch + T;
    struct walk k = { 0 };
    *out = (struct view_stats){
        .kind = VIEW_KINDS, .word = -1, .best = { -1, -1, 0 }, .same = { -1, -1, 0 }
    };
    memset(got, 0, (size_t)T * sizeof *got);
    for (int64_t i = 0; i < T; i++) {
        const int64_t n = view_weights(w, v, q + i * E, kt, lse[i], i);
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += w[j];
        if (!isfinite(sum)) {
            out->not_numbers++;
            continue;
        }
        if (v->shape.token[i].special && v->visible)
            continue; // rows of words tell what a head does
        walk_whole(&k, out, v, w, i, n);
        walk_rest(&k, got, v, w, i, n);
    }
    drop_faint(&out->best, v);
    drop_faint(&out->same, v);
    if (!k.rows) return;
    out->rows = k.rows;
    out->keys = (float)(k.keys / (double)k.rows);
    out->distance = (float)(k.distance / (double)k.rows);
    out->focus = k.focus_rows ? (float)(k.focus / (double)k.focus_rows) : 1;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++)
            out->shares[2 * a + b] = (float)(k.share[a][b] / (double)k.rows);
        out->shares[4] += (float)(k.share[a][2] / (double)k.rows);
    }
    if (v->visible >= LABEL_TOKENS) name_kind(out, v, &k, got);
}
