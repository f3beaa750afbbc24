// SPDX-License-Identifier: MIT
// ends.c: what stands behind the stack: scores of tokens, scores of labels.
#include "model/model.h"

qkv_status qkv_model_logits(const qkv_model *m, float *logits, const float *hidden, int64_t R,
                            qkv_error *err)
{
    if (!m || !logits || !hidden || R < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_logits, expected a model, logits and rows, found NULL");
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "a model without an output projection");
}

qkv_status qkv_model_classify(const qkv_model *m, float *scores, const struct qkv_model_input *in,
                              qkv_error *err)
{
    if (!m || !scores || !in)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_model_classify, expected a model, scores and input, found NULL");
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "a model without a head for labels");
}
