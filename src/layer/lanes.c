// SPDX-License-Identifier: MIT
// lanes.c: blocks of rows that go through several layers each, one behind the other, so that what a
// block leaves is still in the cache when the next layer reads it.
//
// A few threads take a lane each, and a lane one block after the other, as they come; what it needs
// between layers lies in the lane's own piece of scratch, whatever thread runs it.  With one lane
// the loops inside the layers share out the work, as they do for many threads: these would leave no
// rows for a block.  No sum crosses a row, so none of this shows in a bit.
#include "layer/layer.h"
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
