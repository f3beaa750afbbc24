// SPDX-License-Identifier: MIT
// find_model.h: declares the error for a model that a job cannot use.
#ifndef QKV_TASK_FIND_MODEL_H
#define QKV_TASK_FIND_MODEL_H

#include "base/base.h"
#include "model/model.h"

// Fills err with QKV_ERR_UNSUPPORTED for a model that a job cannot use: `wanted` (the expected
// model), the kind found, and the commands that support this model. Returns that status.
qkv_status qkv_unfit(const qkv_model *m, const char *wanted, qkv_error *err);
#endif
