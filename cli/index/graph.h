// SPDX-License-Identifier: MIT
// graph.h: declares the engine libqkv_hnsw: a graph of near vectors (HNSW, hierarchical navigable
// small world), which finds most of the nearest vectors without computing all dot products.
//
// A graph has a vertex per vector and refers to the vectors, which stay the caller's.
#ifndef QKV_CLI_GRAPH_H
#define QKV_CLI_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum graph_status {
    GRAPH_OK = 0,
    GRAPH_BROKEN,  // the bytes are no graph of these vectors
    GRAPH_MEMORY,  // memory is exhausted
    GRAPH_STOPPED, // a callback returned another number than 0
    GRAPH_FAILED   // the library failed: see the reason
};
enum { GRAPH_REASON = 200 };
struct graph_reason {
    char text[GRAPH_REASON];
};

enum graph_type { GRAPH_F32, GRAPH_BF16, GRAPH_I8 };
// Vectors rows[count][width]; scales[count] for GRAPH_I8, otherwise NULL.
struct graph_vectors {
    size_t count, width; // count < 2^31
    enum graph_type type;
    const void *rows;
    const float *scales;
};

struct graph;
struct graph_engine {
    size_t size;
    // Builds the graph of the vectors, on one thread: the same vectors give the same graph, on
    // every instruction set.  links: the most links of a vertex on an upper level, 2 to 64 (twice
    // as many on level 0); candidates: vertices among which they are chosen.  progress is called
    // with the number of vertices.
    enum graph_status (*build)(struct graph **out, const struct graph_vectors *v, size_t links,
                               size_t candidates, int (*progress)(void *user, size_t done),
                               void *user, struct graph_reason *why);
    // Writes the graph by calls of put.
    enum graph_status (*write)(const struct graph *g,
                               int (*put)(void *user, const void *data, size_t bytes), void *user,
                               struct graph_reason *why);
    // Reads data[bytes] of `write`, every number of which is checked.
    enum graph_status (*read)(struct graph **out, const struct graph_vectors *v, const void *data,
                              size_t bytes, struct graph_reason *why);
    // Finds about the `most` vectors with the largest dot products with a query of the type of the
    // vectors.  rows[most] receives their rows, unsorted, *found their number.
    enum graph_status (*search)(struct graph *g, const void *query, float scale, size_t most,
                                uint32_t *rows, size_t *found, struct graph_reason *why);
    void (*close)(struct graph *g); // g may be NULL
};

#ifdef __cplusplus
}
#endif
#endif
