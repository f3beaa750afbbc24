// SPDX-License-Identifier: MIT
// fill_mask.c: predicts the masked tokens of a text.
#include "task/generate/sampling.h"
#include "task/find_model.h"
#include <qkv/lens.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// Writes the `top` likeliest tokens and their probabilities, from the logits x[V].
static void likeliest(struct qkv_token_value *to, int64_t top, const float *x, int64_t V)
{
    qkv_sampling_top(to, top, x, V, qkv_sampling_log_sum(x, V));
    for (int64_t i = 0; i < top; i++) to[i].value = expf(to[i].value);
}

// Predicts the likeliest tokens for n masks. The hidden state of mask i is row rows[i] of
// hidden[.][D].
static qkv_status answer(const qkv_model *m, struct qkv_token_value *tokens, const float *hidden,
                         const int64_t *rows, int64_t n, int64_t top, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(m);
    const int64_t D = info.width, V = info.vocab;
    float *logits = qkv_alloc((size_t)V, sizeof *logits); // logits of one masked token at a time
    qkv_status status = logits ? QKV_OK : qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n && !status; i++) {
        status = qkv_model_logits(m, logits, hidden + rows[i] * D, 1, err);
        if (status) break;
        if (qkv_sampling_likeliest(logits, V) < 0)
            status = qkv_fail(err, QKV_ERR_INTERNAL, &(struct qkv_location){ .file = info.name },
                              "logits of the model are not finite, expected finite numbers, found "
                              "NaN or infinity");
        else
            likeliest(tokens + i * top, top, logits, V);
    }
    qkv_free(logits);
    return status;
}

int32_t qkv_mask_id(const qkv_model *m, const qkv_tokenizer *t)
{
    if (!m || !t) return -1;
    const struct qkv_model_info info = qkv_model_info(m);
    if (info.mask >= 0) return info.mask;
    const int32_t id = qkv_tokenizer_id(t, "[MASK]");
    return id >= 0 ? id : qkv_tokenizer_id(t, "<mask>");
}

qkv_status qkv_fill(const qkv_model *m, const qkv_tokenizer *t, struct qkv_token_value *tokens,
                    int64_t *at, int64_t *masks, int64_t most, int64_t top, const char *text,
                    size_t bytes, qkv_error *err)
{
    if (!m || !t || !masks || !text || most < 0 || top < 1 || (most && (!tokens || !at)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_fill: expected a model, a tokenizer, a text, arrays for the results, "
                        "most >= 0 and "
                        "top >= 1, found NULL or a smaller number");
    const struct qkv_model_info info = qkv_model_info(m);
    const int32_t id = qkv_mask_id(m, t);
    *masks = 0;
    if (info.kind != QKV_KIND_ENCODER || !(info.can & QKV_CAN_TOKENS) || id < 0)
        return qkv_unfit(m, "an encoder with a head for masked tokens", err);
    if (top > info.vocab)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "number of tokens per mask is out of range, expected 1 to %" PRId64
                        ", found %" PRId64,
                        info.vocab, top);
    const struct qkv_encode_options how = { .max_length = info.positions };
    const char *mask = qkv_tokenizer_token(t, id);
    qkv_encoding e = { 0 };
    float *hidden = NULL;
    int64_t *rows = NULL;
    size_t count;
    qkv_status status = qkv_tokenizer_encode(t, &e, text, bytes, NULL, 0, &how, err);
    if (status) goto done;
    rows = qkv_alloc((size_t)e.count + 1, sizeof *rows);
    if (qkv_mul_size(&count, (size_t)e.count, (size_t)info.width))
        hidden = qkv_alloc(count, sizeof *hidden);
    if (!rows || !hidden) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int64_t i = 0; i < e.count; i++) {
        if (e.ids[i] != id) continue;
        if (*masks < most) at[*masks] = e.begin[i];
        rows[(*masks)++] = i;
    }
    if (!*masks) {
        status = qkv_fail(err, QKV_ERR_USAGE, NULL, "text has no mask, expected %s",
                          mask ? mask : "the mask token");
        goto done;
    }
    const int64_t offsets[] = { 0, e.count };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = e.ids, .types = e.types
    };
    status = qkv_model_run(m, hidden, &in, NULL, err);
    if (!status) status = answer(m, tokens, hidden, rows, qkv_min64(*masks, most), top, err);
done:
    qkv_free(rows);
    qkv_free(hidden);
    qkv_encoding_free(&e);
    return status;
}
