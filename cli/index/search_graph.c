// SPDX-License-Identifier: MIT
// search_graph.c: finds the nearest vectors with the graph of an index, and compares it with the
// exact search.
#include "index/search_parts.h"
#include <stdlib.h>
#include <string.h>

static int by_row(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// The vectors that the graph found for a query, copied in the order of their rows, so that
// qkv_search computes the scores and orders equal ones.
struct candidates {
    uint32_t *rows; // [most]
    char *vectors;  // [most][width]
    float *scales;  // [most]
    char *query;    // as the vectors are stored
};

static qkv_status find(struct candidates *c, struct qkv_match *matches, int64_t *found,
                       const struct index *x, const struct index_graph *g, const float *query,
                       int64_t k, size_t most, qkv_error *err)
{
    const struct qkv_vectors *v = &x->vectors;
    const size_t row = (size_t)v->width * qkv_dtype_size(v->type);
    struct graph_reason why = { "" };
    float scale = 0;
    size_t n = 0;
    if (qkv_vectors_convert(c->query, &scale, v->type, query, 1, v->width))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "the query cannot be stored");
    const enum graph_status status =
        g->engine->search(g->graph, c->query, scale, most, c->rows, &n, &why);
    if (status) return index_graph_error(status, &why, x->path, err);
    qsort(c->rows, n, sizeof *c->rows, by_row);
    for (size_t i = 0; i < n; i++) {
        memcpy(c->vectors + i * row, (const char *)v->rows + c->rows[i] * row, row);
        if (v->scales) c->scales[i] = v->scales[c->rows[i]];
    }
    const struct qkv_vectors some = { .count = (int64_t)n,
                                      .width = v->width,
                                      .type = v->type,
                                      .rows = c->vectors,
                                      .scales = v->scales ? c->scales : NULL };
    if (qkv_search(matches, found, &some, query, 1, k, err)) return err->status;
    for (int64_t i = 0; i < *found; i++) matches[i].row = c->rows[matches[i].row];
    return QKV_OK;
}

qkv_status search_graph(struct qkv_match *matches, int64_t *found, const struct index *x,
                        const struct index_graph *g, const float *queries, int64_t n, int64_t k,
                        int64_t ef, qkv_error *err)
{
    const int64_t wanted = ef > k ? ef : k, count = x->vectors.count;
    const size_t most = (size_t)(wanted < count ? wanted : count);
    const size_t row = (size_t)x->vectors.width * qkv_dtype_size(x->vectors.type);
    struct candidates c = { .rows = cmd_alloc(most + 1, sizeof *c.rows),
                            .vectors = cmd_alloc(most + 1, row),
                            .scales = cmd_alloc(most + 1, sizeof *c.scales),
                            .query = cmd_alloc(1, row) };
    for (int64_t i = 0; i < n && !err->status; i++)
        find(&c, matches + i * k, found + i, x, g, queries + i * x->vectors.width, k, most, err);
    free(c.rows);
    free(c.vectors);
    free(c.scales);
    free(c.query);
    return err->status;
}

// ---- --check -----------------------------------------------------------------------------------
// Reads a stored vector as floats.
static void read_vector(float *to, const struct qkv_vectors *v, int64_t row)
{
    const size_t width = (size_t)v->width, from = (size_t)row * width;
    for (size_t i = 0; i < width; i++) {
        if (v->type == QKV_F32) {
            to[i] = ((const float *)v->rows)[from + i];
        } else if (v->type == QKV_BF16) {
            const uint32_t bits = (uint32_t)((const uint16_t *)v->rows)[from + i] << 16;
            memcpy(to + i, &bits, sizeof bits);
        } else {
            to[i] = (float)((const int8_t *)v->rows)[from + i] * v->scales[row];
        }
    }
}

// Removes the passage itself from its matches, or else the last of k + 1.  Returns their number.
static int64_t without(struct qkv_match *matches, int64_t found, int64_t k, int64_t row)
{
    int64_t n = 0;
    for (int64_t i = 0; i < found; i++)
        if (matches[i].row != row && n < k) matches[n++] = matches[i];
    return n;
}

struct comparison {
    int64_t queries, wanted, found; // wanted: matches of the exact search; found: by the graph too
    double exact, graph, open;      // seconds
};

static qkv_status compare(struct comparison *c, const struct index *x, const struct index_graph *g,
                          int64_t sample, int64_t k, int64_t ef, qkv_error *err)
{
    const int64_t count = x->vectors.count;
    float *query = cmd_alloc((size_t)x->vectors.width, sizeof *query);
    struct qkv_match *exact = cmd_alloc((size_t)k + 1, sizeof *exact);
    struct qkv_match *near = cmd_alloc((size_t)k + 1, sizeof *near);
    c->queries = sample < count ? sample : count;
    for (int64_t i = 0; i < c->queries && !err->status; i++) {
        // the product fits: both are below 2^31
        const int64_t row = i * count / c->queries;
        int64_t n[2] = { 0, 0 };
        read_vector(query, &x->vectors, row);
        const double t = cmd_seconds();
        if (qkv_search(exact, n, &x->vectors, query, 1, k + 1, err)) break;
        const double middle = cmd_seconds();
        if (search_graph(near, n + 1, x, g, query, 1, k + 1, ef, err)) break;
        c->graph += cmd_seconds() - middle;
        c->exact += middle - t;
        n[0] = without(exact, n[0], k, row);
        n[1] = without(near, n[1], k, row);
        c->wanted += n[0];
        // of passages with the last score, each is as good
        for (int64_t j = 0; j < n[1]; j++) c->found += near[j].score >= exact[n[0] - 1].score;
    }
    free(query);
    free(exact);
    free(near);
    return err->status;
}

qkv_status search_check(const struct index *x, int64_t sample, int64_t k, int64_t ef,
                        qkv_error *err)
{
    struct index_graph g = { NULL, NULL };
    struct comparison c = { .open = -cmd_seconds() };
    if (!index_graph_open(&g, x, "qkv search --check", err)) {
        c.open += cmd_seconds();
        compare(&c, x, &g, sample, k, ef, err);
    }
    index_graph_close(&g);
    if (err->status) return err->status;
    const double n = c.queries ? (double)c.queries : 1;
    const double recall = c.wanted ? (double)c.found / (double)c.wanted : 1;
    if (common.json) {
        printf("{\"passages\":%lld,\"queries\":%lld,\"k\":%lld,\"ef\":%lld,\"recall\":%.6g,"
               "\"exact_ms\":%.6g,\"hnsw_ms\":%.6g,\"open_ms\":%.6g}\n",
               (long long)x->vectors.count, (long long)c.queries, (long long)k, (long long)ef,
               recall, 1e3 * c.exact / n, 1e3 * c.graph / n, 1e3 * c.open);
    } else {
        printf("recall@%lld of HNSW against exact: %.4f (%lld passages, %lld queries, ef %lld)\n",
               (long long)k, recall, (long long)x->vectors.count, (long long)c.queries,
               (long long)ef);
        printf("exact: %.3f ms per query\nHNSW:  %.3f ms per query; opening the graph: %.3f ms\n",
               1e3 * c.exact / n, 1e3 * c.graph / n, 1e3 * c.open);
    }
    return cmd_written(stdout, "standard output", err);
}
