// SPDX-License-Identifier: MIT
// model_run.h: declares how commands run a model of any kind under an observer.
#ifndef QKV_CMD_MODEL_RUN_H
#define QKV_CMD_MODEL_RUN_H

#include "frame/cmd.h"

// Returns true for the recurrent encoder-decoder: it can only decode, and its one attention is the
// additive attention of the decoder to its source.
static inline bool cmd_is_recurrent(const struct qkv_model_info *i)
{
    return i->kind == QKV_KIND_ENCODER_DECODER && !(i->can & QKV_CAN_RUN);
}
// Runs a model on one sequence.  A Transformer runs as a whole (qkv_model_run).  A recurrent
// encoder-decoder decodes in->ids step by step: the observer receives its attention once, as CROSS
// of layer 0 with one head, and hidden must be NULL.
qkv_status cmd_model_run(const qkv_model *m, float *hidden, const struct qkv_model_input *in,
                         const struct qkv_observer *observer, qkv_error *err);
#endif
