// SPDX-License-Identifier: MIT
// head_stats.c: measures a head on the text of the view: its effective keys, distance and kind.
#include "view/data/head_stats.h"
#include "view/data/stories.h"
#include <math.h>
#include <string.h>

const struct view_kind_row view_kind_table[VIEW_KINDS] = {
#define QKV_KIND(id, name, glyph, ascii, threshold, target, rule)                                  \
    { name, glyph, ascii, threshold, target, rule },
#include "view/head_kind.def"
#undef QKV_KIND
};

enum { LABEL_TOKENS = 8, INDUCTION_ROWS = 3 };

int64_t view_measure_scratch(const struct view_stack *v)
{
    // number of floats of scratch: a row of weights, the weight that each key receives, counts per
    // key (head_stats_top.c, stories.c), logarithms, and a byte of flags per key
    return 5 * v->shape.keys + 16;
}

bool view_is_sink(const struct view_stack *v, int64_t key)
{
    return v->shape.key[key].special ||
           (v->visible_keys == v->shape.keys && v->shape.causal && key == 0);
}

void view_keep_larger(struct view_pair *p, int64_t from, int64_t to, float w)
{
    if (p->from < 0 || w > p->weight) *p = (struct view_pair){ from, to, w };
}

// Flags of a key, which are asked for every weight of every head.
enum { SPECIAL = 1, SINK = 2, LATER_PART = 4 };
static void set_flags(uint8_t *flag, const struct view_stack *v)
{
    for (int64_t j = 0; j < v->shape.keys; j++)
        flag[j] =
            (uint8_t)((v->shape.key[j].special ? SPECIAL : 0) | (view_is_sink(v, j) ? SINK : 0) |
                      (v->shape.key[j].part ? LATER_PART : 0));
}

// A row of a head: its weights, their logarithms, the flags of the keys, and the keys that it may
// attend to.
struct row {
    const float *w, *logs;
    const uint8_t *flag;
    int64_t i;
    struct view_span at;
};

// Adds a row of weights to the sums for entropy, distance and shares of the weight.
static void walk_whole(struct view_sums *k, struct view_stats *out, const struct view_stack *v,
                       const struct row *r)
{
    double entropy = 0, distance = 0, share[3] = { 0 };
    const bool across = view_across(v);
    const float *w = r->w;
    const int64_t i = r->i, from = r->at.from, to = r->at.to;
    for (int64_t j = from; j < to; j++) {
        if (w[j] > 0) entropy -= (double)w[j] * r->logs[j];
        if (!across) distance += w[j] * (double)(i > j ? i - j : j - i);
        share[r->flag[j] & SPECIAL ? 2 : r->flag[j] & LATER_PART ? 1 : 0] += w[j];
        if ((i == j && !across) || r->flag[j] & SPECIAL) continue;
        view_keep_larger(&out->best, i, j, w[j]);
        if (v->word[i] == v->key_word[j]) view_keep_larger(&out->same, i, j, w[j]);
    }
    for (int a = 0; a < 3; a++) k->share[v->shape.token[i].part != 0][a] += share[a];
    k->sink += share[2] + (from == 0 && to > 0 && !(r->flag[0] & SPECIAL) ? w[0] : 0);
    k->rows++;
    k->keys += exp(entropy);
    k->distance += distance;
    if (to - from > 1) {
        k->focus += 1 - entropy / log((double)(to - from));
        k->focus_rows++;
    }
}

// Discards the pair if its weight is below half the uniform weight of its row, or below .005, which
// would be printed as .00.
static void drop_faint(struct view_pair *p, const struct view_stack *v, int64_t layer)
{
    if (p->from < 0) return;
    const struct view_span at = view_span(v, layer, p->from);
    if (p->weight * 2 * (float)(at.to - at.from) < 1 || p->weight < .005f)
        *p = (struct view_pair){ -1, -1, 0 };
}

static void add(struct view_sums *k, enum view_kind kind, double x)
{
    k->sum[kind] += x;
    k->n[kind]++;
}

// Adds a row to the sums that determine the kind of the head. Special tokens are left out, and the
// other weights are scaled to the sum 1.
static void walk_rest(struct view_sums *k, float *got, const struct view_stack *v,
                      const struct row *r)
{
    double rest = 0, minus_entropy = 0, same = 0, after = 0;
    int64_t left = 0, copies = 0, followers = 0;
    const bool across = view_across(v);
    const float *w = r->w;
    const int64_t i = r->i, from = r->at.from, to = r->at.to, word = v->word[i];
    for (int64_t j = from; j < to; j++) {
        if (r->flag[j] & SINK) continue;
        rest += w[j];
        left++;
        if (w[j] > 0) minus_entropy += (double)w[j] * r->logs[j];
        if (v->key_word[j] == word && (j != i || across)) same += w[j], copies++;
        if (j > 0 && v->key_word[j - 1] == word && j - 1 < i && j != i) after += w[j], followers++;
    }
    if (rest < 1e-6 || left < 2) return; // the row has no weight except on special tokens
    const double by = 1 / rest;
    for (int64_t j = from; j < to; j++)
        if (!(r->flag[j] & SINK)) got[j] += (float)(w[j] * by);
    if (copies) add(k, VIEW_SAME, same * by);
    // sum of r log r, r = w / rest, is (sum of w log w) / rest - log rest
    add(k, VIEW_DIFFUSE, (log(rest) - minus_entropy * by) / log((double)left));
    if (across) return; // a position in one text has no meaning in the other text
    if (i > from && !view_is_sink(v, i - 1)) add(k, VIEW_PREVIOUS, w[i - 1] * by);
    if (i + 1 < to && !view_is_sink(v, i + 1)) add(k, VIEW_NEXT, w[i + 1] * by);
    if (!view_is_sink(v, i)) add(k, VIEW_ITSELF, w[i] * by);
    if (followers) add(k, VIEW_INDUCTION, after * by);
}

// Sets the kind of the head: the kind with the largest measure, if that is above the threshold of
// the kind.
static void name_kind(struct view_stats *out, const struct view_stack *v, const struct view_sums *k,
                      const float *got)
{
    float strength[VIEW_KINDS] = { 0 };
    int64_t word = -1;
    for (int i = 0; i < VIEW_KINDS; i++)
        if (k->n[i]) strength[i] = (float)(k->sum[i] / (double)k->n[i]);
    if (k->n[VIEW_INDUCTION] < INDUCTION_ROWS) strength[VIEW_INDUCTION] = 0;
    for (int64_t j = 0; j < v->shape.keys; j++) {
        const float mean = k->n[VIEW_DIFFUSE] ? got[j] / (float)k->n[VIEW_DIFFUSE] : 0;
        if (word < 0 || mean > strength[VIEW_VERTICAL]) strength[VIEW_VERTICAL] = mean, word = j;
    }
    strength[VIEW_SINK] = (float)(k->sink / (double)k->rows);
    out->kind = VIEW_OTHER;
    for (int i = 0; i < VIEW_OTHER; i++) {
        if (i == VIEW_DIFFUSE && strength[VIEW_SINK] >= view_kind_table[VIEW_SINK].threshold)
            continue;
        if (strength[i] >= view_kind_table[i].threshold && strength[i] > out->strength) {
            out->kind = (enum view_kind)i;
            out->strength = strength[i];
        }
    }
    out->word = out->kind == VIEW_VERTICAL ? word : -1;
    out->rows = out->kind == VIEW_VERTICAL                          ? k->n[VIEW_DIFFUSE]
                : out->kind == VIEW_SINK || out->kind == VIEW_OTHER ? k->rows
                                                                    : k->n[out->kind];
}

void view_finish_stats(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       const struct view_sums *k, const float *got)
{
    drop_faint(&out->best, v, layer);
    drop_faint(&out->same, v, layer);
    if (!k->rows) return;
    out->rows = k->rows;
    out->keys = (float)(k->keys / (double)k->rows);
    out->distance = (float)(k->distance / (double)k->rows);
    out->focus = k->focus_rows ? (float)(k->focus / (double)k->focus_rows) : 1;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++)
            out->shares[2 * a + b] = (float)(k->share[a][b] / (double)k->rows);
        out->shares[4] += (float)(k->share[a][2] / (double)k->rows);
    }
    if (v->visible >= LABEL_TOKENS && v->visible_keys >= LABEL_TOKENS) name_kind(out, v, k, got);
}

void view_measure_head(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       int64_t head, float *scratch)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    float *w = scratch, *got = scratch + S, *logs = scratch + 3 * S;
    uint8_t *flag = (uint8_t *)(scratch + 4 * S);
    struct view_sums k = { 0 };
    *out = (struct view_stats){
        .kind = VIEW_KINDS, .word = -1, .best = { -1, -1, 0 }, .same = { -1, -1, 0 }
    };
    memset(got, 0, (size_t)S * sizeof *got);
    set_flags(flag, v);
    view_stories_begin(&k.story, v, layer, head, scratch + 2 * S);
    for (int64_t i = 0; i < T; i++) {
        const struct row r = { w, logs, flag, i, view_span(v, layer, i) };
        view_logs(w, logs, v, layer, head, i);
        const double sum = view_sum(w, S);
        if (!isfinite(sum)) {
            out->not_numbers++;
            continue;
        }
        if (v->layer[layer].weights && fabs(sum - 1) > 1e-3) out->not_one++;
        // rows of special tokens are not counted, unless all tokens are special
        if (v->shape.token[i].special && v->visible) continue;
        walk_whole(&k, out, v, &r);
        walk_rest(&k, got, v, &r);
        view_stories_add(&k.story, v, layer, i, NULL, w, 0);
    }
    view_finish_stats(out, v, layer, &k, got);
    view_stories_end(out, &k.story, v, layer, head, w);
}

void view_count_invalid_rows(const struct view_stack *v, int64_t *not_numbers, int64_t *not_one)
{
    for (int64_t i = 0; i < v->shape.layers * v->shape.heads; i++) {
        *not_numbers += v->stats[i].not_numbers;
        *not_one += v->stats[i].not_one;
    }
}
