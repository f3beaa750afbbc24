// SPDX-License-Identifier: MIT
// trainer_em.c: computes the probabilities of the pieces of a unigram model (Kudo 2018) by
// expectation maximization: counts the expected number of uses of each piece over all
// segmentations, and normalizes these counts to probabilities.  It also finds the pieces that
// contribute least.
//
// Probabilities of segmentations are summed from both ends without logarithms; each character
// multiplies a weight by exp(LIFT), so that products over a segment stay in the range of a double.
// The segments are processed in PARTS parts with fixed borders, whose sums are added in order, so
// that the result is bit-identical for any number of threads.
#include "text/training/trainer_unigram.h"
#include <math.h>
#include <string.h>

#define LIFT 5.0 // logarithm
enum { PARTS = 8, EDGES = QKV_SEGMENT_CHARS * QKV_PIECE_CHARS };

// ---- all segmentations of a segment ------------------------------------------------------------
struct lattice {
    struct edge {
        int32_t id;
        uint8_t from, to; // in characters
    } edge[EDGES];
    int edges, chars;
};

static void fill_lattice(struct lattice *l, const struct qkv_trie *trie, const uint8_t *text,
                         int32_t bytes)
{
    uint8_t index[QKV_SEGMENT_BYTES + 1]; // index of the character that starts at a byte
    int chars = 0;
    for (int32_t i = 0; i <= bytes; i++) {
        index[i] = (uint8_t)chars;
        if (i == bytes || !qkv_utf8_continues(text[i])) index[i] = (uint8_t)chars++;
    }
    l->chars = chars - 1;
    l->edges = 0;
    for (int32_t at = 0; at < bytes; at++) {
        if (qkv_utf8_continues(text[at])) continue;
        uint32_t node = QKV_TRIE_ROOT;
        for (int32_t i = at; i < bytes; i++) {
            node = qkv_trie_step(trie, node, text[i]);
            if (!node) break;
            if (trie->value[node] >= 0 && l->edges < EDGES)
                l->edge[l->edges++] = (struct edge){ trie->value[node], index[at], index[i + 1] };
        }
    }
}

struct work {
    const struct qkv_pieces *pieces;
    const struct qkv_segments *segments;
    const struct qkv_trie *trie;
    const double *weight; // lifted weight of each piece; NULL: only the best segmentation
    double *sums;         // [PARTS][pieces]
};

static void add_expected_counts(const struct work *w, double *sums, const struct lattice *l,
                                double count)
{
    double before[QKV_SEGMENT_CHARS + 1] = { 1 }, after[QKV_SEGMENT_CHARS + 1] = { 0 };
    after[l->chars] = 1;
    for (int i = 0; i < l->edges; i++) {
        const struct edge e = l->edge[i];
        before[e.to] += before[e.from] * w->weight[e.id];
    }
    for (int i = l->edges; i-- > 0;) {
        const struct edge e = l->edge[i];
        after[e.from] += after[e.to] * w->weight[e.id];
    }
    const double all = before[l->chars];
    if (!(all > 0)) return; // below the range of a double
    for (int i = 0; i < l->edges; i++) {
        const struct edge e = l->edge[i];
        sums[e.id] += count * (before[e.from] * w->weight[e.id] * (after[e.to] / all));
    }
}

// Writes the edges of the best segmentation, last edge first, and returns their number.  `not` is
// the index of an edge that the segmentation must not use, or -1.
static int best_way(const struct qkv_pieces *p, const struct lattice *l, int not,
                    int out[QKV_SEGMENT_CHARS])
{
    double score[QKV_SEGMENT_CHARS + 1];
    int by[QKV_SEGMENT_CHARS + 1];
    int n = 0;
    for (int i = 1; i <= l->chars; i++) by[i] = -1;
    score[0] = 0;
    for (int i = 0; i < l->edges; i++) {
        const struct edge e = l->edge[i];
        if (i == not || (e.from && by[e.from] < 0)) continue;
        const double s = score[e.from] + p->at[e.id].score;
        if (by[e.to] >= 0 && s <= score[e.to]) continue;
        score[e.to] = s;
        by[e.to] = i;
    }
    for (int at = l->chars; at > 0; at = l->edge[by[at]].from) {
        if (by[at] < 0) return 0;
        out[n++] = by[at];
    }
    return n;
}

static void do_part(void *ctx, int64_t part, int thread)
{
    const struct work *w = ctx;
    const int64_t n = w->segments->count;
    double *sums = w->sums + part * w->pieces->count;
    struct lattice l;
    (void)thread;
    for (int64_t i = n * part / PARTS; i < n * (part + 1) / PARTS; i++) {
        const struct qkv_segment *s = &w->segments->at[i];
        fill_lattice(&l, w->trie, s->text, s->bytes);
        if (w->weight) {
            add_expected_counts(w, sums, &l, (double)s->count);
            continue;
        }
        int way[QKV_SEGMENT_CHARS];
        const int used = best_way(w->pieces, &l, -1, way);
        for (int k = 0; k < used; k++) sums[l.edge[way[k]].id] += (double)s->count;
    }
}

// Computes w->sums and adds the sums of all parts to the first part; the caller frees w->sums.
static bool add_up(struct work *w)
{
    const int64_t n = w->pieces->count;
    w->sums = qkv_alloc_zero((size_t)n * PARTS, sizeof *w->sums);
    if (!w->sums) return false;
    qkv_parallel_for(PARTS, do_part, w);
    for (int64_t p = 1; p < PARTS; p++)
        for (int64_t i = 0; i < n; i++) w->sums[i] += w->sums[p * n + i];
    return true;
}

static bool build_trie(struct qkv_trie *trie, const struct qkv_pieces *p)
{
    bool ok = qkv_trie_init(trie, (size_t)p->count);
    for (int64_t i = 0; i < p->count && ok; i++) {
        int32_t got;
        ok = qkv_trie_add(trie, (const char *)p->at[i].text, (size_t)p->at[i].bytes, (int32_t)i,
                          &got);
    }
    return ok;
}

// Returns d/dx ln gamma(x), x > 0.  digamma(count) - digamma(sum of counts) is the mean of the log
// probability under a Dirichlet prior, which gives rare pieces less probability than their
// frequency.
static double digamma(double x)
{
    double sum = 0;
    for (; x < 7; x++) sum -= 1 / x;
    x -= 0.5;
    const double a = 1 / (x * x);
    return sum + log(x) + a * (1.0 / 24 - a * (7.0 / 960 - a * (31.0 / 8064 - a * 127.0 / 30720)));
}

#define HARDLY_USED 0.5

bool qkv_pieces_improve(struct qkv_pieces *p, const struct qkv_segments *s)
{
    struct qkv_trie trie = { 0 };
    struct work w = { .pieces = p, .segments = s, .trie = &trie };
    double *weight = qkv_alloc((size_t)p->count, sizeof *weight), sum = 0;
    bool ok = weight && build_trie(&trie, p);
    if (ok) {
        for (int64_t i = 0; i < p->count; i++)
            weight[i] = exp(p->at[i].score + LIFT * p->at[i].chars);
        w.weight = weight;
        ok = add_up(&w);
    }
    if (ok) {
        int64_t kept = 0;
        for (int64_t i = 0; i < p->count; i++) {
            if (i >= p->single && w.sums[i] < HARDLY_USED) continue;
            p->at[kept] = p->at[i];
            p->at[kept].score = w.sums[i] < HARDLY_USED ? HARDLY_USED : w.sums[i];
            sum += p->at[kept++].score;
        }
        p->count = kept;
        const double total = digamma(sum);
        for (int64_t i = 0; i < kept; i++) p->at[i].score = digamma(p->at[i].score) - total;
    }
    qkv_free(weight);
    qkv_free(w.sums);
    qkv_trie_free(&trie);
    return ok;
}

// Returns how much log probability is lost, averaged over all uses of pieces, if the best
// segmentation into other pieces replaces the piece.
static double replacement_loss(const struct qkv_pieces *p, const struct qkv_trie *trie,
                               const double *used, double total, int64_t i)
{
    struct lattice l;
    int way[QKV_SEGMENT_CHARS], self = -1;
    fill_lattice(&l, trie, p->at[i].text, p->at[i].bytes);
    for (int k = 0; k < l.edges; k++)
        if (l.edge[k].id == i) self = k;
    const int n = best_way(p, &l, self, way);
    const double now = log(used[i]) - log(total), other = log(total + used[i] * (n - 1));
    double instead = 0;
    for (int k = 0; k < n; k++) instead += log(used[l.edge[way[k]].id] + used[i]) - other;
    return used[i] / total * (now - instead);
}

static int compare_scores(const void *ctx, const void *a, const void *b)
{
    const struct qkv_piece *x = a, *y = b;
    (void)ctx;
    return x->score > y->score ? -1 : x->score < y->score;
}

bool qkv_pieces_sort(struct qkv_pieces *p, int64_t from)
{
    return qkv_sort(p->at + from, p->count - from, sizeof *p->at, compare_scores, NULL);
}

bool qkv_pieces_prune(struct qkv_pieces *p, const struct qkv_segments *s, int64_t most)
{
    struct qkv_trie trie = { 0 };
    struct work w = { .pieces = p, .segments = s, .trie = &trie };
    double *scores = qkv_alloc((size_t)p->count, sizeof *scores), total = 0;
    struct qkv_pieces kept = { .single = p->single };
    bool ok = scores && build_trie(&trie, p) && add_up(&w);
    for (int64_t i = 0; ok && i < p->count; i++) total += w.sums[i];
    // During sorting, the member `score` of a piece contains its loss, and `chars` its index.
    for (int64_t i = 0; ok && i < p->count; i++) {
        struct qkv_piece x = p->at[i];
        scores[i] = x.score;
        if (i >= p->single && w.sums[i] == 0) continue;
        if (i >= p->single) x.score = replacement_loss(p, &trie, w.sums, total, i);
        x.chars = (int32_t)i;
        ok = qkv_pieces_add(&kept, x);
    }
    ok = ok && qkv_pieces_sort(&kept, kept.single);
    if (ok) {
        if (kept.count > most) kept.count = qkv_max64(most, kept.single);
        for (int64_t i = 0; i < kept.count; i++) {
            const int32_t index = kept.at[i].chars;
            kept.at[i].score = scores[index];
            kept.at[i].chars = p->at[index].chars;
        }
        struct qkv_piece *old = p->at;
        *p = kept;
        kept.at = old;
    }
    qkv_free(kept.at);
    qkv_free(scores);
    qkv_free(w.sums);
    qkv_trie_free(&trie);
    return ok;
}
