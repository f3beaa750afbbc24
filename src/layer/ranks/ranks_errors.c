// SPDX-License-Identifier: MIT
// ranks_errors.c: what a rank does if it fails alone, and the message if the connection has failed.
#include "layer/layer_internal.h"
#include <qkv/ranks.h>

qkv_status qkv_ranks_give_up(const struct qkv_comm *comm, qkv_status status)
{
    if (status && comm->size > 1 && comm->fail) comm->fail(comm->ctx, status);
    return status;
}

qkv_status qkv_ranks_lost(qkv_status status, qkv_error *err)
{
    if (!status || (err && err->status)) return status; // the first message is the cause
    return qkv_fail(err, status, NULL,
                    status == QKV_ERR_LIMIT ? "out of memory for messages between ranks"
                                            : "a rank cannot be reached");
}
