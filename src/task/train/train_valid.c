// SPDX-License-Identifier: MIT
// train_valid.c: computes the loss of the model on the validation split.
#include "task/train/train_internal.h"

qkv_status train_validate(struct train_valid *v, qkv_net *net, const struct qkv_net_options *how,
                          const qkv_data *data, const struct qkv_draw *draw,
                          struct qkv_drawn *workspace, const struct qkv_progress *progress,
                          qkv_error *err)
{
    struct qkv_net_options plain = *how;
    const int64_t all = qkv_data_info(data).sequences[1];
    qkv_status status = QKV_OK;
    int64_t position = 0;
    *v = (struct train_valid){ 0 };
    plain.dropout = plain.smoothing = 0;
    qkv_net_options_set(net, &plain);
    while (!status) {
        if (progress && progress->step &&
            progress->step(progress->user, "sequences", position, all)) {
            status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
            break;
        }
        status = qkv_data_valid(data, workspace, position, draw, err);
        if (status || !workspace->sequences) break;
        status = qkv_net_run(net, &v->loss, &workspace->batch, false, 0, 0, 0, err);
        v->sequences += workspace->sequences;
        v->targets += workspace->targets;
        v->bytes += workspace->bytes;
        position = workspace->next;
    }
    qkv_net_options_set(net, how);
    return status;
}
