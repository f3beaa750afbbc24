// SPDX-License-Identifier: MIT
// fuzz_graph.c: reads any bytes as the graph of near vectors of an index (FILE.qkvi.hnsw without
// its header).  A graph that is accepted is written again as the same bytes, and a search in it
// finds rows of the vectors, each once.  The first two bytes select the vectors, which come from a
// file too: some are NaN or infinite.
#include "fuzz/fuzz.h"
#include "index/graph.h"
#include <math.h>

enum { COUNT = 9, WIDTH = 4 };
extern const struct graph_engine qkv_engine;

// Checks that the next bytes of the written graph are the next bytes of the input.
static int compare(void *user, const void *data, size_t bytes)
{
    struct fuzz_part *rest = user;
    FUZZ_CHECK(bytes <= rest->bytes && !memcmp(rest->at, data, bytes));
    rest->at += bytes;
    rest->bytes -= bytes;
    return 0;
}

static void search(struct graph *g, const struct graph_vectors *v, size_t most)
{
    uint32_t rows[COUNT + 1];
    size_t found = 0;
    struct graph_reason why = { "" };
    const enum graph_status status = qkv_engine.search(g, v->rows, 1, most, rows, &found, &why);
    FUZZ_CHECK(status == GRAPH_OK && found <= most && found <= v->count);
    for (size_t i = 0; i < found; i++) {
        FUZZ_CHECK(rows[i] < v->count);
        for (size_t j = 0; j < i; j++) FUZZ_CHECK(rows[i] != rows[j]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const float odd[] = { 0, NAN, INFINITY, -INFINITY };
    static const enum graph_type types[] = { GRAPH_F32, GRAPH_BF16, GRAPH_I8 };
    float numbers[COUNT * WIDTH], scales[COUNT];
    uint16_t halves[COUNT * WIDTH];
    int8_t bytes[COUNT * WIDTH];
    if (size < 2) return 0;
    for (int i = 0; i < COUNT * WIDTH; i++) {
        numbers[i] = sinf((float)(i * i)) + (i % 7 == data[0] % 7 ? odd[data[0] / 7 % 4] : 0);
        bytes[i] = (int8_t)(i * 37);
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
    }
    for (int i = 0; i < COUNT; i++) scales[i] = numbers[i];
    const enum graph_type type = types[data[1] % 3];
    const struct graph_vectors v = { .count = data[1] / 3 % (COUNT + 1),
                                     .width = WIDTH,
                                     .type = type,
                                     .rows = type == GRAPH_F32    ? (const void *)numbers
                                             : type == GRAPH_BF16 ? (const void *)halves
                                                                  : bytes,
                                     .scales = type == GRAPH_I8 ? scales : NULL };
    struct graph *g = NULL;
    struct graph_reason why = { "" };
    struct fuzz_part all = { (const char *)data + 2, size - 2 };
    const enum graph_status status = qkv_engine.read(&g, &v, all.at, all.bytes, &why);
    FUZZ_CHECK((status == GRAPH_OK) == (g != NULL));
    FUZZ_CHECK(status == GRAPH_OK || (status == GRAPH_BROKEN && why.text[0]));
    if (!g) return 0;
    if (v.count) { // without vectors two numbers of the graph have no meaning
        FUZZ_CHECK(qkv_engine.write(g, compare, &all, &why) == GRAPH_OK);
        FUZZ_CHECK(!all.bytes);
    }
    for (size_t most = 0; most <= v.count; most += 4) search(g, &v, most);
    search(g, &v, v.count);
    qkv_engine.close(g);
    return 0;
}
