// SPDX-License-Identifier: MIT
// kernel_rows.h: lists the kernels that every complete table of struct qkv_kernels sets, with
// functions of the same names. Include it after all bodies.
#define SLOTS_EVERYWHERE                                                                           \
    .activation = activation, .norm_rows = norm_rows, .embed_row = embed_row,                      \
    .activation_backward = activation_backward, .gated = gated, .gated_backward = gated_backward,  \
    .norm_rows_to = norm_rows_to, .norm_rows_backward = norm_rows_backward, .dropout = dropout,    \
    .rope_row = rope_row, .add_row = add_row, .add_rows = add_rows, .transpose = transpose,        \
    .philox = philox, .probe_rows = probe_rows, .gru_row = gru_row,                                \
    .gru_row_backward = gru_row_backward, .additive_row = additive_row,                            \
    .additive_row_backward = additive_row_backward, .weigh_rows = weigh_rows, .dots = dots,        \
    .dots_stored = dots_stored, .dots_int8 = dots_int8, .loss_terms = loss_terms,                  \
    .loss_slope = loss_slope, .adamw = adamw, .sgd = sgd, .squares = squares,                      \
    .peak = { [QKV_UNIT_FLOAT] = peak_float, [QKV_UNIT_INT8] = peak_int8 }, .peak_read = peak_read
