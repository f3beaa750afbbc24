// SPDX-License-Identifier: MIT
// stories.c: finds the links that are worth showing first, by weight, distance and rarity.
//
// While a head is measured, each row proposes its largest weight. The 16 proposals with the largest
// weight x distance x meaning are then compared with the head's mean row, so that a head in which
// every row attends to the same key has no story.
#include "view/data/stories.h"
#include <math.h>
#include <string.h>

static const float least_score = 1e-4f;

static const char *text_of(const struct qkv_view_token *k, size_t *n)
{
    *n = k->text_bytes ? k->text_bytes : k->raw ? strlen(k->raw) : 0;
    return k->text_bytes ? k->text : k->raw;
}

static bool has_letter(const struct qkv_view_token *k)
{
    size_t n;
    const char *text = text_of(k, &n);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
            return true;
    }
    return false;
}

// Returns true if no space is between two tokens that follow each other.
static bool joined(const struct qkv_view_token *x, const struct qkv_view_token *y)
{
    return !x->special && !y->special && x->part == y->part && x->end > x->begin &&
           x->end == y->begin && !(y->text_bytes && (unsigned char)*y->text <= ' ');
}

// Returns true if tokens a < b are parts of one word: at most 3 apart, with no space between.
static bool one_word(const struct view_stack *v, int64_t a, int64_t b)
{
    for (int64_t i = a; i < b; i++)
        if (!joined(&v->shape.token[i], &v->shape.token[i + 1])) return false;
    return b - a <= 3;
}

float view_story_distance(const struct view_stack *v, int64_t row, int64_t key)
{
    const int64_t d = row > key ? row - key : key - row;
    const bool near =
        !view_across(v) && (d < 2 || one_word(v, row < key ? row : key, row < key ? key : row));
    const float far = view_across(v) ? 1
                      : !d           ? .004f
                      : near         ? .02f
                                     : fminf(1, log2f((float)d + 1) / 5);
    return has_letter(&v->shape.token[row]) && has_letter(&v->shape.key[key]) ? far : .1f * far;
}

// Returns true if both tokens have the same text, ignoring the case of ASCII letters.
static bool same_word(const struct qkv_view_token *a, const struct qkv_view_token *b)
{
    size_t n, m;
    const char *x = text_of(a, &n), *y = text_of(b, &m);
    if (n != m) return false;
    for (size_t i = 0; i < n; i++) {
        const bool letter = (x[i] | 32) >= 'a' && (x[i] | 32) <= 'z';
        if (x[i] != y[i] && !(letter && (x[i] | 32) == (y[i] | 32))) return false;
    }
    return true;
}

// Returns true if token i of list[n] continues the word of the token before it.
static bool continues_word(const struct qkv_view_token *list, int64_t i)
{
    return i > 0 && joined(&list[i - 1], &list[i]) && has_letter(&list[i - 1]) &&
           has_letter(&list[i]);
}

// Returns the factor of a link for what it says to a reader: less for two equal words, and for a
// token that is a part of a word.
static float meaning(const struct view_stack *v, int64_t row, int64_t key)
{
    if (view_across(v)) return 1;
    const float factor = same_word(&v->shape.token[row], &v->shape.key[key]) ? .3f : 1;
    const bool part = continues_word(v->shape.token, row) || continues_word(v->shape.key, key) ||
                      (row + 1 < v->shape.tokens && continues_word(v->shape.token, row + 1)) ||
                      (key + 1 < v->shape.keys && continues_word(v->shape.key, key + 1));
    return part ? .3f * factor : factor;
}

static float link_worth(const struct view_stack *v, int64_t row, int64_t key, float weight)
{
    return weight * view_story_distance(v, row, key) * meaning(v, row, key);
}

void view_stories_begin(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                        int64_t head, float *seen)
{
    const int64_t S = v->shape.keys;
    c->count = 0;
    c->seen = seen;
    c->mean = v->layer[layer].mean + head * S;
    memset(c->mean, 0, (size_t)S * sizeof *c->mean);
    memset(c->seen, 0, (size_t)S * sizeof *c->seen);
}

// Inserts a pair into the candidates, which are sorted by worth.
static void propose(struct view_candidates *c, struct view_pair pair, float worth)
{
    int i = c->count < VIEW_CANDIDATES ? c->count++ : VIEW_CANDIDATES;
    if (i == VIEW_CANDIDATES && worth <= c->worth[--i]) return;
    for (; i > 0 && c->worth[i - 1] < worth; i--) {
        c->worth[i] = c->worth[i - 1];
        c->pair[i] = c->pair[i - 1];
    }
    c->worth[i] = worth;
    c->pair[i] = pair;
}

// Counts a row that may attend to the keys of `at`, and proposes its largest weight.
static void add_link(struct view_candidates *c, const struct view_stack *v, struct view_span at,
                     const struct view_pair *best)
{
    c->seen[at.from]++; // the number of rows that may attend to a key is a running sum
    if (at.to < v->shape.keys) c->seen[at.to]--;
    // the worth of a link is at most its weight
    const bool small = c->count == VIEW_CANDIDATES && best->weight <= c->worth[VIEW_CANDIDATES - 1];
    if (best->from >= 0 && !small)
        propose(c, *best, link_worth(v, best->from, best->to, best->weight));
}

void view_stories_add_row(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                          int64_t row, const float *w, const struct view_pair *best)
{
    const struct view_span at = view_span(v, layer, row);
    float *mean = c->mean;
    for (int64_t j = at.from; j < at.to; j++) mean[j] += w[j];
    add_link(c, v, at, best);
}

void view_stories_add_top(struct view_candidates *c, const struct view_stack *v, int64_t layer,
                          int64_t row, const int32_t *key, const float *w, int64_t top)
{
    struct view_pair best = { -1, -1, 0 };
    for (int64_t n = 0; n < top && key[n] >= 0; n++) {
        c->mean[key[n]] += w[n];
        if (!v->shape.key[key[n]].special && w[n] > best.weight)
            best = (struct view_pair){ row, key[n], w[n] };
    }
    add_link(c, v, view_span(v, layer, row), &best);
}

static float rarity(const struct view_stack *v, int64_t layer, int64_t head, const float *row)
{
    const float *mean = v->layer[layer].mean + head * v->shape.keys;
    float sum = 0;
    for (int64_t j = 0; j < v->shape.keys; j++)
        if (row[j] > mean[j]) sum += row[j] - mean[j];
    return sum;
}

// Returns true if the weight is below half the uniform weight of its row or would print as .00.
static bool faint(const struct view_stack *v, int64_t layer, const struct view_pair *p)
{
    const struct view_span at = view_span(v, layer, p->from);
    return p->weight * 2 * (float)(at.to - at.from) < 1 || p->weight < .005f;
}

void view_stories_end(struct view_stats *out, const struct view_candidates *c,
                      const struct view_stack *v, int64_t layer, int64_t head, float *row)
{
    float rows = 0;
    for (int64_t j = 0; j < v->shape.keys; j++) {
        rows += c->seen[j];
        if (rows > 0) c->mean[j] /= rows;
    }
    out->story = (struct view_pair){ -1, -1, 0 };
    out->score = least_score;
    for (int i = 0; i < c->count && c->worth[i] > out->score; i++) {
        view_row(row, v, layer, head, c->pair[i].from);
        const float score = c->worth[i] * rarity(v, layer, head, row);
        if (score > out->score && !faint(v, layer, &c->pair[i]))
            out->score = score, out->story = c->pair[i];
    }
}

struct view_story view_story_of_row(const struct view_stack *v, int64_t layer, int64_t head,
                                    int64_t token, float *row)
{
    struct view_story s = { layer, head, -1, -1, 0, 0 };
    view_row(row, v, layer, head, token);
    for (int64_t j = 0; j < v->shape.keys; j++)
        if (!v->shape.key[j].special && row[j] > s.weight)
            s.row = token, s.key = j, s.weight = row[j];
    if (s.row >= 0) s.score = link_worth(v, token, s.key, s.weight) * rarity(v, layer, head, row);
    return s;
}

struct view_story view_story_of_head(const struct view_stack *v, int64_t layer, int64_t head)
{
    const struct view_stats *s = view_stats(v, layer, head);
    return (
        struct view_story){ layer, head, s->story.from, s->story.to, s->story.weight, s->score };
}

void view_story_shown(struct view_story *out, const struct view_stack *v,
                      const struct view_selection *st)
{
    *out = (struct view_story){ .row = -1 };
    if (st->selected != 1 || st->token < 0) return;
    const struct view_story s = view_story_of_head(v, st->layer, st->head[0]);
    if (s.row == st->token) *out = s;
}

// Returns true if the weight of a story is too small to be offered: below .1 or twice the uniform
// weight.
static bool weak(const struct view_stack *v, const struct view_story *s)
{
    const struct view_span at = view_span(v, s->layer, s->row);
    return s->weight < fmaxf(.1f, 2 / (float)(at.to - at.from));
}

static bool repeats(const struct view_stack *v, const struct view_story *a,
                    const struct view_story *b)
{
    return (a->layer == b->layer && a->head == b->head) ||
           (v->word[a->row] == v->word[b->row] && v->key_word[a->key] == v->key_word[b->key]);
}

int64_t view_stories(struct view_story *out, int64_t most, const struct view_stack *v,
                     const struct view_story *first)
{
    int64_t n = 0;
    while (n < most) {
        struct view_story best = { .row = -1 };
        for (int64_t l = 0; l < v->shape.layers; l++)
            for (int64_t h = 0; h < v->shape.heads; h++) {
                const struct view_story s = view_story_of_head(v, l, h);
                bool known = s.row < 0 || weak(v, &s) || s.score <= best.score ||
                             (first && first->row >= 0 && repeats(v, &s, first));
                for (int64_t i = 0; i < n && !known; i++) known = repeats(v, &s, &out[i]);
                if (!known) best = s;
            }
        if (best.row < 0) break;
        out[n++] = best;
    }
    return n;
}
