// SPDX-License-Identifier: MIT
// head_stats_top.c: measures a head from the largest weights of each row, which a probe stored, in
// time linear in the number of tokens.
//
// Entropy and distance are exact if the probe has them. Weights that were not stored do not count
// for the kind of the head, so its strength is a lower bound; the error is at most their sum.
#include "view/data/head_stats.h"
#include "view/data/stories.h"
#include <math.h>
#include <string.h>

// Context of measuring one head.
struct top {
    const struct view_stack *v;
    int64_t head;
    const struct view_probe *p;
    float *sinks;  // [S + 1] number of special tokens before each key
    float *got;    // [S] weight that each key receives from all rows, without special tokens
    float *copies; // [S] for the first key with some text: number of keys with the same text
    float *seen;   // [S] as in stories.h
};
static void lay_out(struct top *t, const struct view_stack *v, struct qkv_arena *a)
{
    const int64_t S = v->shape.keys;
    t->sinks = qkv_arena_rows(a, 1, S + 1, sizeof *t->sinks);
    t->got = qkv_arena_rows(a, 1, S, sizeof *t->got);
    t->copies = qkv_arena_rows(a, 1, S, sizeof *t->copies);
    t->seen = qkv_arena_rows(a, 1, S, sizeof *t->seen);
}

size_t view_measure_head_top_scratch(const struct view_stack *v)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    lay_out(&(struct top){ 0 }, v, &count);
    return count.used;
}

static void count_keys(struct top *t)
{
    const struct view_stack *v = t->v;
    const int64_t S = v->shape.keys;
    memset(t->got, 0, (size_t)S * sizeof *t->got);
    memset(t->copies, 0, (size_t)S * sizeof *t->copies);
    t->sinks[0] = 0;
    for (int64_t j = 0; j < S; j++) {
        t->sinks[j + 1] = t->sinks[j] + (view_is_sink(v, j) ? 1 : 0);
        if (v->key_word[j] >= 0) t->copies[v->key_word[j]]++;
    }
}

// Returns the entropy of a row in nats: the probe's entropy if it has one; if not, the entropy of
// the stored weights.
static double entropy_of(const struct top *t, int64_t row, const int32_t *key, const float *w)
{
    if (t->p->entropy) return t->p->entropy[t->head * t->v->shape.tokens + row];
    double entropy = 0;
    for (int64_t n = 0; n < t->p->k && key[n] >= 0; n++)
        if (w[n] > 0) entropy -= w[n] * logf(w[n]);
    return entropy;
}

static void walk_whole(struct view_sums *k, struct view_stats *out, const struct top *t,
                       int64_t row, const int32_t *key, const float *w, double entropy)
{
    const struct view_stack *v = t->v;
    const bool across = view_across(v);
    const int part = v->shape.token[row].part != 0;
    double kept = 0, distance = 0;
    for (int64_t n = 0; n < t->p->k && key[n] >= 0; n++) {
        const int64_t j = key[n];
        const struct qkv_view_token *x = &v->shape.key[j];
        kept += w[n];
        distance += w[n] * (double)(row > j ? row - j : j - row);
        k->share[part][x->special ? 2 : x->part != 0] += w[n];
        k->sink += x->special || j == 0 ? w[n] : 0;
        if ((j == row && !across) || x->special) continue;
        view_keep_larger(&out->best, row, j, w[n]);
        if (v->word[row] == v->key_word[j]) view_keep_larger(&out->same, row, j, w[n]);
    }
    if (kept > 0 && kept < 1) k->share[part][v->pair ? part : 0] += 1 - kept;
    if (t->p->distance) distance = t->p->distance[t->head * v->shape.tokens + row];
    k->rows++;
    k->keys += exp(entropy);
    k->distance += across ? 0 : distance;
}

static void add(struct view_sums *k, enum view_kind kind, double x)
{
    k->sum[kind] += x;
    k->n[kind]++;
}

// Adds a row to the sums that determine the kind of the head, as in head_stats.c: without special
// tokens, and scaled to the sum 1.
static void walk_rest(struct view_sums *k, const struct top *t, int64_t row, struct view_span at,
                      const int32_t *key, const float *w, double entropy)
{
    const struct view_stack *v = t->v;
    const bool across = view_across(v);
    const int64_t word = v->word[row], S = v->shape.keys,
                  left = at.to - at.from - (int64_t)(t->sinks[at.to] - t->sinks[at.from]);
    double rest = 1, sink_entropy = 0, same = 0, after = 0, near[3] = { 0 };
    for (int64_t n = 0; n < t->p->k && key[n] >= 0; n++) {
        if (!view_is_sink(v, key[n])) continue;
        rest -= w[n];
        if (w[n] > 0) sink_entropy -= w[n] * logf(w[n]);
    }
    if (rest < 1e-6 || left < 2 || !(key[0] >= 0)) return;
    for (int64_t n = 0; n < t->p->k && key[n] >= 0; n++) {
        const int64_t j = key[n];
        if (view_is_sink(v, j)) continue;
        const double r = w[n] / rest;
        t->got[j] += (float)r;
        if ((j != row || across) && v->key_word[j] == word) same += r;
        if (j > 0 && j - 1 < row && j != row && v->key_word[j - 1] == word) after += r;
        if (j >= row - 1 && j <= row + 1) near[j - row + 1] = r;
    }
    const bool has_copies = word >= 0 && word < S &&
                            (v->shape.causal ? word < row : t->copies[word] > (across ? 0 : 1));
    if (has_copies) add(k, VIEW_SAME, same);
    add(k, VIEW_DIFFUSE, ((entropy - sink_entropy) / rest + log(rest)) / log((double)left));
    if (across) return;
    if (row > at.from && !view_is_sink(v, row - 1)) add(k, VIEW_PREVIOUS, near[0]);
    if (row + 1 < at.to && !view_is_sink(v, row + 1)) add(k, VIEW_NEXT, near[2]);
    if (!view_is_sink(v, row)) add(k, VIEW_ITSELF, near[1]);
    if (word >= 0 && word + 1 < row) add(k, VIEW_INDUCTION, after);
}

void view_measure_head_top(struct view_stats *out, const struct view_stack *v, int64_t layer,
                           int64_t head, void *scratch)
{
    const int64_t T = v->shape.tokens;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct top t = { .v = v, .head = head, .p = &v->layer[layer].probe };
    struct view_sums k = { 0 };
    lay_out(&t, v, &arena);
    count_keys(&t);
    view_stories_begin(&k.story, v, layer, head, t.seen);
    *out = (struct view_stats){
        .kind = VIEW_KINDS, .word = -1, .best = { -1, -1, 0 }, .same = { -1, -1, 0 }
    };
    for (int64_t i = 0; i < T; i++) {
        const struct view_span at = view_span(v, layer, i);
        const int32_t *key = t.p->key + (head * T + i) * t.p->k;
        const float *w = t.p->weight + (head * T + i) * t.p->k;
        const double entropy = entropy_of(&t, i, key, w);
        if (w[0] != w[0] || !isfinite(entropy)) {
            out->not_numbers++;
            continue;
        }
        if (v->shape.token[i].special && v->visible) continue;
        walk_whole(&k, out, &t, i, key, w, entropy);
        if (at.to - at.from > 1) {
            k.focus += 1 - entropy / log((double)(at.to - at.from));
            k.focus_rows++;
        }
        walk_rest(&k, &t, i, at, key, w, entropy);
        view_stories_add_top(&k.story, v, layer, i, key, w, t.p->k);
    }
    view_finish_stats(out, v, layer, &k, t.got);
    view_stories_end(out, &k.story, v, layer, head, t.copies);
}
