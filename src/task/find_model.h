// SPDX-License-Identifier: MIT
// find_model.h: declares the error message for a model that cannot do a job.
#ifndef QKV_TASK_FIND_MODEL_H
#define QKV_TASK_FIND_MODEL_H

#include "base/base.h"
#include "model/model.h"

// Fills err for a model that cannot do a job: the message has `wanted` (the kind of model that the
// job requires), the kind of this model, and the commands that support it. Returns
// QKV_ERR_UNSUPPORTED.
qkv_status qkv_unfit(const qkv_model *m, const char *wanted, qkv_error *err);
#endif
