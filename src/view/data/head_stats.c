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

bool view_is_sink(const struct view_stack *v, int64_t key)
{
    return v->shape.key[key].special ||
           (v->visible_keys == v->shape.keys && v->shape.causal && key == 0);
}

void view_keep_larger(struct view_pair *p, int64_t from, int64_t to, float w)
{
    if (p->from < 0 || w > p->weight) *p = (struct view_pair){ from, to, w };
}

// Tables of the keys, which all rows of a head share.
enum { SPECIAL = 1, SINK = 2, LATER_PART = 4 };
struct keys {
    uint8_t *flag; // [S] SPECIAL, SINK, LATER_PART
    int32_t *end;  // [S] end of the run of keys with equal flags
    int32_t *next; // [S] the next key with the same word, S if there is none
    double *apart; // [T + S - 1] apart[T - 1 + j - i] = |i - j|, the distance of row i and key j
};

// The arrays of measuring one head.
struct arrays {
    struct keys keys;
    float *w, *logs;   // [VIEW_ROWS][S] the weights of some rows, and their logarithms
    float *tiles;      // [E][S] the keys as tiles
    float *got, *seen; // [S] weight that each key receives from all rows; as in stories.h
};
static void lay_out(struct arrays *m, const struct view_stack *v, struct qkv_arena *a)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    m->keys.apart = qkv_arena_rows(a, 1, T + S - 1, sizeof *m->keys.apart);
    m->keys.end = qkv_arena_rows(a, 1, S, sizeof *m->keys.end);
    m->keys.next = qkv_arena_rows(a, 1, S, sizeof *m->keys.next);
    m->keys.flag = qkv_arena_rows(a, 1, S, sizeof *m->keys.flag);
    m->w = qkv_arena_rows(a, VIEW_ROWS, S, sizeof *m->w);
    m->logs = qkv_arena_rows(a, VIEW_ROWS, S, sizeof *m->logs);
    m->tiles = qkv_arena_rows(a, v->shape.head_width, S, sizeof *m->tiles);
    m->got = qkv_arena_rows(a, 1, S, sizeof *m->got);
    m->seen = qkv_arena_rows(a, 1, S, sizeof *m->seen);
}

size_t view_measure_head_scratch(const struct view_stack *v)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    lay_out(&(struct arrays){ 0 }, v, &count);
    return count.used;
}

static void fill_keys(const struct keys *k, const struct view_stack *v)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    for (int64_t j = S - 1; j >= 0; j--) {
        k->flag[j] =
            (uint8_t)((v->shape.key[j].special ? SPECIAL : 0) | (view_is_sink(v, j) ? SINK : 0) |
                      (v->shape.key[j].part ? LATER_PART : 0));
        k->end[j] = j + 1 < S && k->flag[j] == k->flag[j + 1] ? k->end[j + 1] : (int32_t)(j + 1);
        k->next[j] = (int32_t)S;
    }
    for (int64_t j = S - 1; j >= 0; j--) {
        const int64_t word = v->key_word[j]; // the first key with this word
        if (word < 0 || word == j) continue;
        k->next[j] = k->next[word];
        k->next[word] = (int32_t)j;
    }
    for (int64_t d = 0; d < T + S - 1; d++) k->apart[d] = fabs((double)(d - T + 1));
}

// A row of a head: its weights, their logarithms, and the keys that it may attend to.
struct row {
    const float *w, *logs;
    const struct keys *keys;
    int64_t i;
    struct view_span at;
};

// Sums over the keys of a row: of w log w, of w times the distance, and of w by the part of the
// text of the key; rest_terms, rest: of w log w and w over the keys that are no sinks.
struct row_sums {
    double terms, distance, share[3], rest_terms, rest;
    int64_t left; // number of keys that are no sinks
};

// Adds the keys from .. to - 1, which have the same flags, in ascending order.
static void add_run(struct row_sums *s, const struct row *r, int64_t from, int64_t to,
                    const double *apart)
{
    const uint8_t flag = r->keys->flag[from];
    double *const part = &s->share[flag & SPECIAL ? 2 : flag & LATER_PART ? 1 : 0];
    double terms = s->terms, distance = s->distance, share = *part, rest_terms = s->rest_terms,
           rest = s->rest;
    const float *w = r->w, *logs = r->logs;
    for (int64_t j = from; j < to; j++) {
        const double x = w[j], term = w[j] > 0 ? x * logs[j] : 0;
        terms += term;
        distance += x * apart[j];
        share += x;
        if (flag & SINK) continue;
        rest_terms += term;
        rest += x;
    }
    if (!(flag & SINK)) s->left += to - from;
    s->terms = terms;
    s->distance = distance;
    *part = share;
    s->rest_terms = rest_terms;
    s->rest = rest;
}

// Compares the weights of the keys from .. to - 1 with two pairs: the largest weight of the head
// between two different tokens, and the largest weight of the row. Among equal weights the first
// one stays. `itself`: the keys are the row's own token.
static void keep_largest(struct view_stats *out, struct view_pair *link, const float *w,
                         int64_t row, int64_t from, int64_t to, bool itself)
{
    if (from >= to) return;
    const float largest = view_largest(w + from, to - from);
    if (!itself && (out->best.from < 0 || largest > out->best.weight))
        for (int64_t j = from; j < to; j++) view_keep_larger(&out->best, row, j, w[j]);
    if (!(largest > link->weight)) return;
    int64_t first = from;
    while (w[first] != largest) first++;
    *link = (struct view_pair){ row, first, largest };
}

// Adds a row of weights to the sums for entropy, distance and shares of the weight. *sums receives
// the sums of the row, *link its largest weight on a key that is not special.
static void walk_whole(struct view_sums *k, struct view_stats *out, struct row_sums *sums,
                       struct view_pair *link, const struct view_stack *v, const struct row *r)
{
    const bool across = view_across(v);
    const float *w = r->w;
    const uint8_t *flag = r->keys->flag;
    const int64_t i = r->i, from = r->at.from, to = r->at.to, word = v->word[i];
    const double *apart = r->keys->apart + v->shape.tokens - 1 - i;
    struct row_sums s = { 0 };
    for (int64_t j = from, end; j < to; j = end) {
        end = qkv_min64(r->keys->end[j], to);
        add_run(&s, r, j, end, apart);
        if (flag[j] & SPECIAL) continue;
        const int64_t own = !across && i >= j && i < end ? i : end;
        keep_largest(out, link, w, i, j, own, false);
        keep_largest(out, link, w, i, own, qkv_min64(own + 1, end), true);
        keep_largest(out, link, w, i, own + 1, end, false);
    }
    for (int64_t j = word >= 0 ? word : v->shape.keys; j < to; j = r->keys->next[j])
        if (j >= from && (j != i || across)) view_keep_larger(&out->same, i, j, w[j]);
    for (int a = 0; a < 3; a++) k->share[v->shape.token[i].part != 0][a] += s.share[a];
    k->sink += s.share[2] + (from == 0 && to > 0 && !(flag[0] & SPECIAL) ? w[0] : 0);
    k->rows++;
    k->keys += exp(-s.terms);
    k->distance += across ? 0 : s.distance;
    if (to - from > 1) {
        k->focus += 1 + s.terms / log((double)(to - from));
        k->focus_rows++;
    }
    *sums = s;
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

// Adds a row, with the sums s, to the sums that determine the kind of the head. Special tokens are
// left out, and the other weights are scaled to the sum 1.
static void walk_rest(struct view_sums *k, float *got, const struct row_sums *s,
                      const struct view_stack *v, const struct row *r)
{
    double same = 0, after = 0;
    int64_t copies = 0, followers = 0;
    const bool across = view_across(v);
    const float *w = r->w;
    const uint8_t *flag = r->keys->flag;
    const int64_t i = r->i, from = r->at.from, to = r->at.to, word = v->word[i];
    if (s->rest < 1e-6 || s->left < 2) return; // no weight except on special tokens
    for (int64_t j = word >= 0 ? word : v->shape.keys; j < to; j = r->keys->next[j]) {
        if (j >= from && !(flag[j] & SINK) && (j != i || across)) same += w[j], copies++;
        const int64_t next = j + 1;
        if (next >= from && next < to && !(flag[next] & SINK) && j < i && next != i)
            after += w[next], followers++;
    }
    const double by = 1 / s->rest;
    for (int64_t j = from, end; j < to; j = end) {
        end = qkv_min64(r->keys->end[j], to);
        if (flag[j] & SINK) continue;
        for (int64_t n = j; n < end; n++) got[n] += (float)(w[n] * by);
    }
    if (copies) add(k, VIEW_SAME, same * by);
    // sum of r log r, r = w / rest, is (sum of w log w) / rest - log rest
    add(k, VIEW_DIFFUSE, (log(s->rest) - s->rest_terms * by) / log((double)s->left));
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

// Adds row r of a head to its sums.
static void walk(struct view_sums *k, struct view_stats *out, float *got,
                 const struct view_stack *v, int64_t layer, const struct row *r)
{
    struct row_sums sums;
    struct view_pair link = { -1, -1, 0 };
    const double sum = view_sum(r->w, v->shape.keys);
    if (!isfinite(sum)) {
        out->not_numbers++;
        return;
    }
    if (v->layer[layer].weights && fabs(sum - 1) > 1e-3) out->not_one++;
    // rows of special tokens are not counted, unless all tokens are special
    if (v->shape.token[r->i].special && v->visible) return;
    walk_whole(k, out, &sums, &link, v, r);
    walk_rest(k, got, &sums, v, r);
    view_stories_add_row(&k->story, v, layer, r->i, r->w, &link);
}

void view_measure_head(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       int64_t head, void *scratch)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys, E = v->shape.head_width;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct arrays m;
    struct view_sums k = { 0 };
    lay_out(&m, v, &arena);
    *out = (struct view_stats){
        .kind = VIEW_KINDS, .word = -1, .best = { -1, -1, 0 }, .same = { -1, -1, 0 }
    };
    memset(m.got, 0, (size_t)S * sizeof *m.got);
    fill_keys(&m.keys, v);
    view_stories_begin(&k.story, v, layer, head, m.seen);
    if (view_kt(v, layer, head)) view_tiles_fill(m.tiles, view_kt(v, layer, head), S, E);
    for (int64_t i = 0; i < T; i += VIEW_ROWS) {
        const int64_t rows = qkv_min64(VIEW_ROWS, T - i);
        view_rows(m.w, m.logs, m.tiles, v, layer, head, i, rows);
        for (int64_t n = 0; n < rows; n++) {
            const struct row r = { m.w + n * S, m.logs + n * S, &m.keys, i + n,
                                   view_span(v, layer, i + n) };
            walk(&k, out, m.got, v, layer, &r);
        }
    }
    view_finish_stats(out, v, layer, &k, m.got);
    view_stories_end(out, &k.story, v, layer, head, m.w);
}

void view_count_invalid_rows(const struct view_stack *v, int64_t *not_numbers, int64_t *not_one)
{
    for (int64_t i = 0; i < v->shape.layers * v->shape.heads; i++) {
        *not_numbers += v->stats[i].not_numbers;
        *not_one += v->stats[i].not_one;
    }
}
