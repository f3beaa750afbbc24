// SPDX-License-Identifier: MIT
// layer_logits.c: computes logits from the output of any layer of the stack whose output head
// predicts tokens.
#include "model/forward/stream.h"

qkv_status qkv_model_layer_logits(const qkv_model *m, float *logits, float *rows, int64_t R,
                                  int64_t layer, qkv_error *err)
{
    const struct qkv_stack *s = &m->stack[m->stacks - 1];
    if (layer + 1 < s->layers && s->final_norm.D)
        qkv_norm_kind_forward(rows, 0, NULL, rows, R, &s->final_norm, m->is.norm_kind);
    return qkv_model_logits(m, logits, rows, R, err);
}
