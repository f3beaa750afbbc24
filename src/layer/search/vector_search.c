// SPDX-License-Identifier: MIT
// vector_search.c: finds the k largest dot products of queries with stored vectors.
//
// The rows are split into parts by their number alone.  Each part collects the k best matches of
// each query in a heap; the heaps are then merged.  The order of matches is total (score, then
// row), so neither the parts nor the threads change the result.  A block of rows is read from
// memory once for all queries of a group.
#include "kernel/kernel.h"
#include <qkv/search.h>
#include <math.h>
#include <string.h>

// BLOCK: scores that are computed before they are compared; BYTES: most bytes of a block for
// several queries, so that it stays in the cache; PARTS: most parts; GROUP: queries that share a
// read of the rows.
enum { BLOCK = 4096, BYTES = 1 << 17, PARTS = 64, PART_ROWS = 16384, GROUP = 16 };

struct heap {
    struct qkv_match *at; // [most]; at[0] is the worst match that is kept
    int64_t count, most;
};

struct search {
    const struct qkv_vectors *v;
    const float *queries;   // [n][width] of the group
    const int8_t *q;        // [n][width] for QKV_I8
    const float *scale;     // [n] for QKV_I8
    int64_t n, block, rows; // queries; rows of a block; rows of a part
    struct heap *heaps;     // [parts][n]
    void *scores;           // [threads][BLOCK] floats or 32-bit integers
};

// Returns true if a comes after b in the order of matches.
static bool is_worse(const struct qkv_match *a, const struct qkv_match *b)
{
    return a->score < b->score || (a->score == b->score && a->row > b->row);
}

// Moves at[i] down to its place: no entry is worse than the one above it.
static void sift_down(struct qkv_match *at, int64_t count, int64_t i)
{
    const struct qkv_match moved = at[i];
    for (int64_t below; (below = 2 * i + 1) < count; i = below) {
        if (below + 1 < count && is_worse(&at[below + 1], &at[below])) below++;
        if (!is_worse(&at[below], &moved)) break;
        at[i] = at[below];
    }
    at[i] = moved;
}

static void offer(struct heap *h, const struct qkv_match *m)
{
    int64_t i = h->count;
    if (i == h->most) {
        if (is_worse(m, &h->at[0])) return;
        h->at[0] = *m;
        sift_down(h->at, h->count, 0);
        return;
    }
    for (h->count++; i > 0 && is_worse(m, &h->at[(i - 1) / 2]); i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = *m;
}

// Sorts the matches of a heap, the best first.
static void sort_heap(struct heap *h)
{
    for (int64_t left = h->count; left > 1; left--) {
        const struct qkv_match worst = h->at[0];
        h->at[0] = h->at[left - 1];
        h->at[left - 1] = worst;
        sift_down(h->at, left - 1, 0);
    }
}

// Computes the scores of rows from .. from+n-1 for query i, and offers them to the heap.
static void search_block(const struct search *s, int64_t i, int64_t from, int64_t n, void *scratch,
                         struct heap *h)
{
    const struct qkv_vectors *v = s->v;
    const size_t at = (size_t)from * (size_t)v->width;
    float *y = scratch;
    int32_t *sum = scratch;
    const float *scales = v->type == QKV_I8 ? v->scales + from : NULL;
    if (scales)
        qkv_kernel()->dots_int8(sum, s->q + i * v->width, (const int8_t *)v->rows + at, n,
                                v->width);
    else
        qkv_kernel()->dots_stored(y, s->queries + i * v->width,
                                  (const char *)v->rows + at * qkv_dtype_size(v->type), v->type, n,
                                  v->width);
    for (int64_t j = 0; j < n; j++) {
        const float score = scales ? (float)sum[j] * scales[j] * s->scale[i] : y[j];
        const struct qkv_match m = { from + j, score };
        // one comparison decides for most rows; it is false for NaN
        if (h->count < h->most ? score == score : score >= h->at[0].score) offer(h, &m);
    }
}

static void search_part(void *ctx, int64_t part, int thread)
{
    const struct search *s = ctx;
    const int64_t end = qkv_min64((part + 1) * s->rows, s->v->count);
    void *const scratch = (float *)s->scores + (size_t)thread * BLOCK;
    for (int64_t from = part * s->rows; from < end; from += s->block)
        for (int64_t i = 0; i < s->n; i++)
            search_block(s, i, from, qkv_min64(s->block, end - from), scratch,
                         &s->heaps[part * s->n + i]);
}

// The memory of a group of queries.
struct memory {
    struct heap *heaps;
    struct qkv_match *matches;
    void *scores;
    int8_t *q;
    float *scale;
};

static void free_memory(struct memory *m)
{
    qkv_free(m->heaps);
    qkv_free(m->matches);
    qkv_free(m->scores);
    qkv_free(m->q);
    qkv_free(m->scale);
}

// Allocates the heaps of all parts, each with space for at most as many matches as it has rows.
static bool allocate(struct memory *m, struct search *s, int64_t parts, int64_t k, int threads)
{
    const int64_t most = qkv_min64(k, s->rows);
    size_t entries;
    if (!qkv_mul_size(&entries, (size_t)(parts * s->n), (size_t)most)) return false;
    m->heaps = qkv_alloc_zero((size_t)(parts * s->n) + 1, sizeof *m->heaps);
    m->matches = qkv_alloc(entries + 1, sizeof *m->matches);
    m->scores = qkv_alloc((size_t)threads * BLOCK, sizeof(float));
    m->q = qkv_alloc((size_t)s->n, (size_t)s->v->width);
    m->scale = qkv_alloc((size_t)s->n, sizeof *m->scale);
    if (!m->heaps || !m->matches || !m->scores || !m->q || !m->scale) return false;
    for (int64_t i = 0; i < parts * s->n; i++)
        m->heaps[i] = (struct heap){ m->matches + i * most, 0, most };
    s->heaps = m->heaps;
    s->scores = m->scores;
    s->q = m->q;
    s->scale = m->scale;
    return true;
}

// Searches for the queries of one group.
static bool search_group(struct search *s, struct qkv_match *matches, int64_t *found, int64_t k)
{
    const struct qkv_vectors *v = s->v;
    const int threads = qkv_threads();
    const int64_t parts = qkv_ceil_div(v->count, s->rows);
    struct memory m = { .matches = NULL };
    const bool allocated = allocate(&m, s, parts, k, threads);
    if (allocated) {
        for (int64_t i = 0; i < s->n && v->type == QKV_I8; i++)
            qkv_quantise_row(m.q + i * v->width, &m.scale[i], s->queries + i * v->width, v->width,
                             1);
        qkv_parallel_for_most(parts, threads, search_part, s);
        for (int64_t i = 0; i < s->n; i++) {
            struct heap best = { matches + i * k, 0, k };
            for (int64_t part = 0; part < parts; part++) {
                const struct heap *h = &m.heaps[part * s->n + i];
                for (int64_t e = 0; e < h->count; e++) offer(&best, &h->at[e]);
            }
            sort_heap(&best);
            found[i] = best.count;
        }
    }
    free_memory(&m);
    return allocated;
}

QKV_API qkv_status qkv_search(struct qkv_match *matches, int64_t *found,
                              const struct qkv_vectors *v, const float *queries, int64_t n,
                              int64_t k, qkv_error *err)
{
    int64_t bytes;
    if (!v || qkv_vectors_bytes(&bytes, NULL, v->type, v->count, v->width) || n < 0 || k < 1 ||
        (n && (!matches || !found || !queries)) || (v->count && !v->rows) ||
        (v->count && v->type == QKV_I8 && !v->scales))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_search: expected vectors, queries, arrays for the matches and k >= 1, "
                        "found NULL or a number out of range");
    struct search s = { .v = v };
    const int64_t row = bytes / qkv_max64(v->count, 1);
    s.rows = qkv_max64(PART_ROWS, qkv_ceil_div(v->count, PARTS));
    for (int64_t i = 0; i < n; i += s.n) {
        s.n = qkv_min64(GROUP, n - i);
        s.queries = queries + i * v->width;
        s.block = s.n == 1 ? BLOCK : qkv_min64(BLOCK, qkv_max64(BYTES / qkv_max64(row, 1), 8));
        if (!search_group(&s, matches + i * k, found + i, k)) return qkv_fail_memory(err, NULL);
    }
    return QKV_OK;
}
