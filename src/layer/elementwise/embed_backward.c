// SPDX-License-Identifier: MIT
// embed_backward.c: computes the gradients of embeddings: adds rows of dy to the table rows that
// forward read.
//
// The rows of dy are sorted by table index; rows with the same index keep their order. A task
// processes a range of the sorted rows and some columns. It adds all runs of equal indices that
// begin in its range, so that only one task adds to an element of the table, in the order of the
// rows.
#include "layer/layer.h"
#include <string.h>

enum {
    DIGITS = 11, // bits per pass of the radix sort
    BUCKETS = 1 << DIGITS,
    KEY_BITS = 32,
    SHARE = 256,  // sorted rows per task
    COLUMNS = 256 // columns per task
};

// An index of a table row, and the row of dy that is added to this table row.
struct key {
    int32_t index;
    int64_t row;
};

size_t qkv_embed_backward_scratch(int64_t R, const struct qkv_embed *p)
{
    size_t bytes;
    (void)p;
    return qkv_mul_size(&bytes, (size_t)qkv_max64(R, 0), 2 * sizeof(struct key)) ? bytes : SIZE_MAX;
}

// Sorts by index (stable radix sort) and returns the array, a or b, that contains the result.
static struct key *sort(struct key *a, struct key *b, int64_t R, int64_t rows)
{
    for (int shift = 0; shift < KEY_BITS && rows >> shift; shift += DIGITS) {
        int64_t at[BUCKETS + 1] = { 0 };
        for (int64_t i = 0; i < R; i++) at[(a[i].index >> shift & (BUCKETS - 1)) + 1]++;
        for (int i = 0; i < BUCKETS; i++) at[i + 1] += at[i];
        for (int64_t i = 0; i < R; i++) b[at[a[i].index >> shift & (BUCKETS - 1)]++] = a[i];
        struct key *const other = a;
        a = b;
        b = other;
    }
    return a;
}

struct job {
    real *to;
    const struct key *keys;
    const real *dy;
    int64_t R, D, strips;
    real scale;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const int64_t d = i % j->strips * COLUMNS, n = qkv_min64(COLUMNS, j->D - d);
    const int64_t begin = i / j->strips * SHARE, end = qkv_min64(begin + SHARE, j->R);
    int64_t r = begin;
    // skips the rows of a run that begins in the preceding range
    while (r > 0 && r < end && j->keys[r].index == j->keys[r - 1].index) r++;
    while (r < end) {
        const int32_t index = j->keys[r].index;
        for (; r < j->R && j->keys[r].index == index; r++)
            qkv_kernel()->add_row(j->to + index * j->D + d, j->dy + j->keys[r].row * j->D + d,
                                  j->scale, n);
    }
}

// Adds rows of dy to table rows, in the order of the sorted indices; indices NULL: every row has
// index 0.
static void add(real *to, const real *dy, const int32_t *indices, int64_t R, int64_t rows,
                int64_t D, real scale, void *scratch)
{
    if (!to || R < 1) return;
    struct key *a = scratch;
    for (int64_t r = 0; r < R; r++) a[r] = (struct key){ indices ? indices[r] : 0, r };
    struct job j = { to, sort(a, a + R, R, rows), dy, R, D, qkv_ceil_div(D, COLUMNS), scale };
    qkv_parallel_for(qkv_ceil_div(R, SHARE) * j.strips, task, &j);
}

void qkv_embed_backward(real *dtoken, real *dposition, real *dtype, const real *dy,
                        const int32_t *ids, const int32_t *types, const int32_t *positions,
                        int64_t R, const struct qkv_embed *p, void *scratch)
{
    add(dtoken, dy, ids, R, p->V, p->D, p->scale != 0 ? p->scale : 1, scratch);
    add(dposition, dy, positions, R, p->P, p->D, 1, scratch);
    add(dtype, dy, types, R, p->Y, p->D, 1, scratch);
}
