// SPDX-License-Identifier: MIT
// decode.c: a model that goes on, token by token.
#include "model/model.h"

struct qkv_decoder {
    const qkv_model *m;
};

qkv_status qkv_decoder_new(qkv_decoder **out, const qkv_model *m,
                           const struct qkv_decoder_options *o, qkv_error *err)
{
    if (!out || !m || !o)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_decoder_new, expected a place, a model and options, found NULL");
    *out = NULL;
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "decoding of this model");
}

void qkv_decoder_free(qkv_decoder *d)
{
    qkv_free(d);
}

static qkv_status none(const qkv_decoder *d, qkv_error *err)
{
    return qkv_fail(err, d ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE, NULL, "no decoder given");
}

qkv_status qkv_decoder_source(qkv_decoder *d, int64_t first, const struct qkv_model_input *source,
                              qkv_error *err)
{
    (void)first;
    (void)source;
    return none(d, err);
}

qkv_status qkv_decoder_feed(qkv_decoder *d, float *logits, const struct qkv_decoder_tokens *t,
                            qkv_error *err)
{
    (void)logits;
    (void)t;
    return none(d, err);
}

qkv_status qkv_decoder_copy(qkv_decoder *d, const int64_t *to, const int64_t *from, int64_t n,
                            qkv_error *err)
{
    (void)to;
    (void)from;
    (void)n;
    return none(d, err);
}

qkv_status qkv_decoder_cut(qkv_decoder *d, int64_t item, int64_t n)
{
    (void)item;
    (void)n;
    return none(d, NULL);
}

int64_t qkv_decoder_length(const qkv_decoder *d, int64_t item)
{
    (void)item;
    (void)d;
    return 0;
}

int64_t qkv_decoder_capacity(const qkv_decoder *d)
{
    (void)d;
    return 0;
}

size_t qkv_decoder_bytes(const qkv_decoder *d)
{
    (void)d;
    return 0;
}
