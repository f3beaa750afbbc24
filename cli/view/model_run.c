// SPDX-License-Identifier: MIT
// model_run.c: runs a model under an observer: a Transformer as a whole, a recurrent
// encoder-decoder step by step.
#include "view/model_run.h"

static qkv_status decode(const qkv_model *m, const struct qkv_model_input *in,
                         const struct qkv_observer *observer, qkv_error *err)
{
    const struct qkv_decoder_options how = { .items = 1 };
    const struct qkv_decoder_tokens tokens = { .n = 1, .offsets = in->offsets, .ids = in->ids };
    qkv_decoder *d = NULL;
    qkv_status status = qkv_decoder_new(&d, m, &how, err);
    if (!status) status = qkv_decoder_source(d, 0, in->source, err);
    if (!status) status = qkv_decoder_observe(d, observer, 0, err);
    if (!status) status = qkv_decoder_feed(d, NULL, &tokens, err);
    qkv_decoder_free(d);
    return status;
}

qkv_status cmd_model_run(const qkv_model *m, float *hidden, const struct qkv_model_input *in,
                         const struct qkv_observer *observer, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(m);
    return cmd_is_recurrent(&info) ? decode(m, in, observer, err)
                                   : qkv_model_run(m, hidden, in, observer, err);
}
