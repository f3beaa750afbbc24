// SPDX-License-Identifier: MIT
// perplexity.c: computes the perplexity of a decoder on a text of any length, also longer than the
// maximum positions of the model.
//
//   loss = - 1/N sum_i ln p(x_i | preceding tokens in its window),   perplexity = e^loss
//
// The text is cut into windows; window k begins at token k * stride. Windows may overlap: a token's
// loss is counted only in the first window that contains it. Token 0 has no loss.
#include "task/eval/eval_internal.h"
#include <qkv/task.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// WINDOW_PLAIN: default maximum length of a window; ROWS: rows of logits computed in one call
enum { WINDOW_PLAIN = 1024, ROWS = 64 };

struct scoring {
    const qkv_model *model;
    const int32_t *ids;
    int64_t V, D;
    float *hidden, *logits; // hidden: [window][D] hidden states; logits: [ROWS][V]
    struct qkv_loss loss;
};

// Runs the model on the window begin .. to - 1, and adds the losses of the tokens from .. to - 1.
static qkv_status score(struct scoring *s, int64_t begin, int64_t from, int64_t to, qkv_error *err)
{
    const int64_t offsets[] = { 0, to - begin };
    const struct qkv_model_input in = { .sequences = 1, .offsets = offsets, .ids = s->ids + begin };
    qkv_status status = qkv_model_run(s->model, s->hidden, &in, NULL, err);
    for (int64_t at = from; at < to && !status; at += ROWS) {
        const int64_t n = qkv_min64(ROWS, to - at);
        status = qkv_model_logits(s->model, s->logits, s->hidden + (at - 1 - begin) * s->D, n, err);
        if (!status) eval_add_rows(&s->loss, s->logits, s->V, s->ids + at, n);
    }
    return status;
}

static qkv_status windows(struct scoring *s, struct qkv_perplexity *out, int64_t n, int64_t window,
                          int64_t stride, const struct qkv_progress *progress, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t begin = 0, next = 1; next < n && !status; begin += stride) {
        const int64_t to = qkv_min64(begin + window, n);
        status = score(s, begin, next, to, err);
        next = to;
        out->windows++;
        if (!status && progress->step && progress->step(progress->user, "tokens", to, n))
            status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                              "stopped after %" PRId64 " of %" PRId64 " tokens", to, n);
    }
    return status;
}

qkv_status qkv_perplexity(const qkv_model *m, const qkv_tokenizer *t, struct qkv_perplexity *out,
                          const char *text, size_t bytes, const struct qkv_perplexity_options *o,
                          qkv_error *err)
{
    static const struct qkv_perplexity_options plain;
    if (!m || !t || !out || !text)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_perplexity: expected a model, a tokenizer and a text, found NULL");
    const struct qkv_model_info info = qkv_model_info(m);
    *out = (struct qkv_perplexity){ 0 };
    if (!o) o = &plain;
    if (info.kind != QKV_KIND_DECODER || !(info.can & QKV_CAN_TOKENS) || !(info.can & QKV_CAN_RUN))
        return qkv_unfit(m, "a decoder with an output projection", err);
    const int64_t window = o->window ? o->window : qkv_min64(info.positions, WINDOW_PLAIN);
    const int64_t stride = o->stride ? o->stride : qkv_max64(1, window / 2);
    if (window < 2 || window > info.positions)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "window is out of range, expected 2 to %" PRId64 " tokens, found %" PRId64,
                        info.positions, window);
    if (stride < 1 || stride >= window)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "stride is out of range, expected 1 to %" PRId64 " tokens, found %" PRId64,
                        window - 1, stride);
    const struct qkv_encode_options how = { .strict = o->strict };
    struct scoring s = { .model = m, .V = info.vocab, .D = info.width };
    qkv_encoding e = { 0 };
    size_t hidden, logits;
    qkv_status status = qkv_tokenizer_encode(t, &e, text, bytes, NULL, 0, &how, err);
    if (status) goto done;
    if (e.count < 2) {
        status = qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "text is too short to predict its tokens, expected 2 tokens or more, found %" PRId64,
            e.count);
        goto done;
    }
    s.ids = e.ids;
    if (qkv_mul_size(&hidden, (size_t)qkv_min64(window, e.count), (size_t)s.D) &&
        qkv_mul_size(&logits, ROWS, (size_t)s.V)) {
        s.hidden = qkv_alloc(hidden, sizeof *s.hidden);
        s.logits = qkv_alloc(logits, sizeof *s.logits);
    }
    if (!s.hidden || !s.logits) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    status = windows(&s, out, e.count, window, stride, &o->progress, err);
    out->tokens = e.count;
    out->targets = s.loss.rows;
    out->loss = s.loss.sum / (double)s.loss.rows;
    out->perplexity = exp(out->loss);
    out->bits_per_byte = s.loss.sum / log(2) / (double)bytes;
    out->replaced = e.replaced;
    out->replaced_at = e.replaced_at;
done:
    qkv_free(s.hidden);
    qkv_free(s.logits);
    qkv_encoding_free(&e);
    return status;
}
