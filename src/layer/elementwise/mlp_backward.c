// SPDX-License-Identifier: MIT
// mlp_backward.c: computes the gradients of a feed-forward network from the tape of forward.
#include "layer/layer_internal.h"

size_t qkv_mlp_train_scratch(const struct qkv_mlp *m, int64_t R, bool back)
{
    const qkv_dtype type = qkv_mlp_tape_type(m);
    const size_t up = qkv_linear_train_scratch(&m->up, type, R, back);
    const size_t down = qkv_linear_train_scratch(&m->down, type, R, back);
    return up > down ? up : down;
}

void qkv_mlp_backward(const struct qkv_sublayer_back *rows, void *d_inner, void *d_up,
                      const struct qkv_mlp_tape *tape, int64_t R, const struct qkv_mlp *m)
{
    const qkv_dtype type = qkv_mlp_tape_type(m);
    qkv_mlp_activate(tape->inner, tape->up, NULL, R, m);
    qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = d_inner,
                                                         .dy = { rows->dy },
                                                         .dy_type = rows->dy_type,
                                                         .x = tape->inner,
                                                         .x_type = type },
                              R, &m->down);
    qkv_mlp_activate(d_inner, tape->up, d_up, R, m);
    qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = rows->dx,
                                                         .dx_real = rows->dx_real,
                                                         .dx_add = rows->dx_add,
                                                         .dy = { d_up },
                                                         .dy_type = type,
                                                         .x = rows->x,
                                                         .x_type = rows->x_type },
                              R, &m->up);
}
