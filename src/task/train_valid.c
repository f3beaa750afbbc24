// SPDX-License-Identifier: MIT
// train_valid.c: the loss on the validation split.
#include "task/train_work.h"

qkv_status train_validate(struct train_valid *v, qkv_net *net, const struct qkv_net_options *how,
                          const qkv_data *data, const struct qkv_draw *draw, struct qkv_drawn *room,
                          const struct qkv_progress *progress, qkv_error *err)
{
    struct qkv_net_options plain = *how;
    const int64_t all = qkv_data_info(data).sequences[1];
    qkv_status s = QKV_OK;
    int64_t position = 0;
    *v = (struct train_valid){ 0 };
    plain.dropout = plain.smoothing = 0;
    qkv_net_options_set(net, &plain);
    while (!s) {
        if (progress && progress->step &&
            progress->step(progress->user, "sequences", position, all)) {
            s = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
            break;
        }
        s = qkv_data_valid(data, room, position, draw, err);
        if (s || !room->sequences) break;
        s = qkv_net_run(net, &v->loss, &room->batch, false, 0, 0, 0, err);
        v->sequences += room->sequences;
        v->targets += room->targets;
        v->bytes += room->bytes;
        position = room->next;
    }
    qkv_net_options_set(net, how);
    return s;
}
