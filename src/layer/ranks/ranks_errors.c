// SPDX-License-Identifier: MIT
// ranks_errors.c: calls the functions of a transport; ends the other ranks if this one fails alone;
// the message if the connection has failed.
#include "layer/layer_internal.h"
#include <qkv/ranks.h>

qkv_status qkv_ranks_give_up(const struct qkv_comm *comm, qkv_status status)
{
    if (status && comm->size > 1 && comm->fail) comm->fail(comm->ctx, status);
    return status;
}

qkv_status qkv_ranks_send(const struct qkv_comm *c, int64_t to, const void *data, size_t n)
{
    return qkv_ranks_give_up(c, c->send(c->ctx, to, data, n));
}

qkv_status qkv_ranks_receive(const struct qkv_comm *c, int64_t from, void *data, size_t n)
{
    return qkv_ranks_give_up(c, c->receive(c->ctx, from, data, n));
}

qkv_status qkv_ranks_gather(const struct qkv_comm *c, void *all, const size_t *at, const size_t *n)
{
    return c->size == 1 ? QKV_OK : qkv_ranks_give_up(c, c->gather(c->ctx, all, at, n));
}

qkv_status qkv_ranks_reduce(const struct qkv_comm *c, int64_t *x, size_t n)
{
    return c->size == 1 ? QKV_OK : qkv_ranks_give_up(c, c->reduce(c->ctx, x, n));
}

qkv_status qkv_ranks_lost(qkv_status status, qkv_error *err)
{
    if (!status || (err && err->status)) return status; // the first message is the cause
    return qkv_fail(err, status, NULL,
                    status == QKV_ERR_LIMIT ? "out of memory for messages between ranks"
                                            : "a rank cannot be reached");
}
