// SPDX-License-Identifier: MIT
// lanes.c: runs several layers on one block of rows before the next block, so that the output of a
// layer is still in the cache when the next layer reads it.
//
// With few threads, each thread runs one lane, and a lane processes one block after the other; the
// activations between layers are in the lane's own piece of scratch. With many threads, blocks
// would have too few rows: then there is one lane, and the loops inside the layers distribute the
// work. No sum crosses a row, so the choice changes no bit.
#include "layer/layer_internal.h"
#include <stdatomic.h>

struct job {
    qkv_lane_body *body;
    void *ctx;
    int64_t R, rows;
    _Atomic int64_t next;
};

static void lane(void *ctx, int64_t i, int thread)
{
    struct job *j = ctx;
    (void)thread;
    for (int64_t r;
         (r = atomic_fetch_add_explicit(&j->next, j->rows, memory_order_relaxed)) < j->R;)
        j->body(j->ctx, r, qkv_min64(j->rows, j->R - r), (int)i);
}

void qkv_lanes(int64_t R, qkv_lane_body *body, void *ctx)
{
    const int threads = qkv_threads();
    const bool many = threads > QKV_LANES || R < 2 * threads * QKV_LANE_ROWS;
    struct job j = { body, ctx, R, QKV_LANE_ROWS, 0 };
    if (many && threads > 1) j.rows = QKV_LANES * QKV_LANE_ROWS;
    qkv_parallel_for(many ? 1 : threads, lane, &j);
}
