// SPDX-License-Identifier: MIT
// embed.c: turns token ids into rows: the sum of the token, type and position embeddings.
#include "layer/layer.h"

enum { ROWS = 64 }; // rows per task

struct job {
    real *y;
    const int32_t *ids, *types, *positions;
    int64_t R;
    const struct qkv_embed *p;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct qkv_embed *p = j->p;
    const real scale = p->scale != 0 ? p->scale : 1;
    for (int64_t r = i * ROWS; r < j->R && r < (i + 1) * ROWS; r++) {
        const real *type = p->type ? p->type + (j->types ? j->types[r] : 0) * p->D : NULL;
        const real *position = p->position ? p->position + j->positions[r] * p->D : NULL;
        qkv_kernel()->embed_row(j->y + r * p->D, p->token + j->ids[r] * p->D, scale, type, position,
                                p->D);
    }
}

void qkv_embed_forward(real *y, const int32_t *ids, const int32_t *types, const int32_t *positions,
                       int64_t R, const struct qkv_embed *p)
{
    struct job j = { y, ids, types, positions, R, p };
    qkv_parallel_for(qkv_ceil_div(R, ROWS), task, &j);
}
