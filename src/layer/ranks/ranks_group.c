// SPDX-License-Identifier: MIT
// ranks_group.c: consecutive ranks of a program as ranks of their own.
#include "layer/layer_internal.h"
#include <qkv/ranks.h>

static qkv_status group_send(void *ctx, int64_t to, const void *data, size_t n)
{
    const struct qkv_ranks_group *g = ctx;
    return g->all->send(g->all->ctx, g->first + to, data, n);
}

static qkv_status group_receive(void *ctx, int64_t from, void *data, size_t n)
{
    const struct qkv_ranks_group *g = ctx;
    return g->all->receive(g->all->ctx, g->first + from, data, n);
}

// Passes the parts around a ring: in each step a rank sends to the next what it received last.
static qkv_status group_gather(void *ctx, void *all, const size_t *at, const size_t *n)
{
    const struct qkv_ranks_group *g = ctx;
    const int64_t P = g->size, next = (g->rank + 1) % P, previous = (g->rank + P - 1) % P;
    qkv_status status = QKV_OK;
    for (int64_t step = 0; step < P - 1 && !status; step++) {
        const int64_t out = (g->rank + P - step) % P, in = (previous + P - step) % P;
        if (n[out]) status = group_send(ctx, next, (const char *)all + at[out], n[out]);
        if (n[in] && !status) status = group_receive(ctx, previous, (char *)all + at[in], n[in]);
    }
    return status;
}

static qkv_status group_reduce(void *ctx, int64_t *x, size_t n)
{
    const struct qkv_ranks_group *g = ctx;
    qkv_status status = QKV_OK;
    for (int64_t r = 0; r < g->size && !status; r++)
        for (size_t i = 0; i < n && r != g->rank && !status; i++)
            status = group_send(ctx, r, &x[i], sizeof *x);
    for (int64_t r = 0; r < g->size && !status; r++)
        for (size_t i = 0; i < n && r != g->rank && !status; i++) {
            int64_t its = 0;
            status = group_receive(ctx, r, &its, sizeof its);
            if (its > x[i]) x[i] = its;
        }
    return status;
}

static qkv_status group_barrier(void *ctx)
{
    int64_t none = 0;
    return group_reduce(ctx, &none, 1);
}

static void group_fail(void *ctx, qkv_status status)
{
    const struct qkv_ranks_group *g = ctx;
    qkv_ranks_give_up(g->all, status);
}

struct qkv_comm qkv_ranks_group(struct qkv_ranks_group *g, const struct qkv_comm *all, int64_t size)
{
    if (size == all->size) return *all;
    *g = (struct qkv_ranks_group){
        .all = all, .first = all->rank / size * size, .rank = all->rank % size, .size = size
    };
    return (struct qkv_comm){ .rank = g->rank,
                              .size = size,
                              .ctx = g,
                              .send = group_send,
                              .receive = group_receive,
                              .gather = group_gather,
                              .reduce = group_reduce,
                              .barrier = group_barrier,
                              .fail = group_fail,
                              .collect_limit = all->collect_limit };
}
