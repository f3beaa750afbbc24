// SPDX-License-Identifier: MIT
// lens.c: computes the most likely tokens after each layer of a run (the logit lens). The observer
// of the run receives each layer; the logits of a few rows exist at a time. A recurrent model is
// decoded, and has the output only.
#include "base/base.h"
#include "model/model.h"
#include "task/find_model.h"
#include "task/generate/sampling.h"
#include <qkv/decode.h>
#include <qkv/lens.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LOGITS_MOST = 1 << 20 }; // logits that exist at a time, unless one row has more

struct lens_run {
    struct qkv_lens *x;
    const qkv_model *m;
    struct qkv_model_info info;
    bool recurrent;       // the model only decodes
    int64_t block;        // rows whose logits are computed together
    float *rows, *logits; // [block][D], [block][V]
    qkv_status status;
    qkv_error *err;
};

// Writes the tokens of position p after row l of the lens from its logits[V].
static qkv_status take(const struct lens_run *r, int64_t p, int64_t l, const float *logits)
{
    struct qkv_lens *x = r->x;
    const int64_t V = r->info.vocab, row = p * x->rows + l;
    struct qkv_token_value *to = x->tokens + row * x->top;
    if (qkv_sampling_likeliest(logits, V) < 0)
        return qkv_fail(r->err, QKV_ERR_INTERNAL, &(struct qkv_location){ .file = r->info.name },
                        "logits after row %" PRId64 " of the logit lens are not finite, expected "
                        "finite numbers, found NaN or infinity",
                        l);
    const double sum = qkv_sampling_log_sum(logits, V);
    qkv_sampling_top(to, x->top, logits, V, sum);
    for (int64_t i = 0; i < x->top; i++) to[i].value = expf(to[i].value);
    if (x->target[p] < 0) return QKV_OK;
    const float own = logits[x->target[p]];
    x->target_probability[row] = (float)exp((double)own - sum);
    for (int64_t v = 0; v < V; v++) x->target_rank[row] += logits[v] > own;
    return QKV_OK;
}

static int layer(void *user, const struct qkv_layer_output *s)
{
    struct lens_run *r = user;
    const int64_t D = r->info.width, V = r->info.vocab, P = r->x->positions;
    if (s->part == QKV_PART_CROSS || s->part == QKV_PART_ENCODER) return 0;
    for (int64_t from = 0; from < P && !r->status; from += r->block) {
        const int64_t n = qkv_min64(r->block, P - from);
        for (int64_t i = 0; i < n; i++)
            memcpy(r->rows + i * D, s->hidden + r->x->at[from + i] * D,
                   (size_t)D * sizeof *r->rows);
        r->status = qkv_model_layer_logits(r->m, r->logits, r->rows, n, s->layer, r->err);
        for (int64_t i = 0; i < n && !r->status; i++)
            r->status = take(r, from + i, s->layer + 1, r->logits + i * V);
    }
    return r->status != QKV_OK;
}

// Writes the outputs of the tokens `from` .. `from + n - 1`, whose logits a decoder has computed.
static qkv_status take_block(const struct lens_run *r, int64_t from, int64_t n)
{
    qkv_status status = QKV_OK;
    for (int64_t p = 0; p < r->x->positions && !status; p++) {
        const int64_t i = r->x->at[p] - from;
        if (i >= 0 && i < n) status = take(r, p, 0, r->logits + i * r->info.vocab);
    }
    return status;
}

// Decodes the first `length` tokens, some at a time.
static qkv_status decode(const struct lens_run *r, const struct qkv_model_input *in, int64_t length)
{
    const struct qkv_decoder_options how = { .items = 1 };
    qkv_decoder *d = NULL;
    qkv_status status = qkv_decoder_new(&d, r->m, &how, r->err);
    if (!status) status = qkv_decoder_source(d, 0, in->source, r->err);
    for (int64_t from = 0; from < length && !status; from += r->block) {
        const int64_t n = qkv_min64(r->block, length - from), offsets[] = { 0, n };
        const struct qkv_decoder_tokens t = {
            .n = 1, .offsets = offsets, .ids = in->ids + from, .every = true
        };
        status = qkv_decoder_feed(d, r->logits, &t, r->err);
        if (!status) status = take_block(r, from, n);
    }
    qkv_decoder_free(d);
    return status;
}

// Allocates the arrays of *x for P positions of a text of `length` tokens, and sets the positions
// and their targets.
static qkv_status prepare(struct lens_run *r, const struct qkv_model_input *in, const int64_t *at,
                          int64_t P, int64_t length, qkv_error *err)
{
    struct qkv_lens *x = r->x;
    const int64_t rows = P * x->rows;
    const bool encoder = r->info.kind == QKV_KIND_ENCODER;
    size_t count;
    if (!qkv_mul_size(&count, (size_t)rows, (size_t)x->top)) return qkv_fail_memory(err, NULL);
    r->block = qkv_max64(1, qkv_min64(P, LOGITS_MOST / r->info.vocab));
    x->at = qkv_alloc((size_t)P + 1, sizeof *x->at);
    x->target = qkv_alloc((size_t)P + 1, sizeof *x->target);
    x->tokens = qkv_alloc(count + 1, sizeof *x->tokens);
    x->target_probability = qkv_alloc_zero((size_t)rows + 1, sizeof *x->target_probability);
    x->target_rank = qkv_alloc_zero((size_t)rows + 1, sizeof *x->target_rank);
    r->rows = qkv_alloc((size_t)r->block, (size_t)r->info.width * sizeof *r->rows);
    r->logits = qkv_alloc((size_t)r->block, (size_t)r->info.vocab * sizeof *r->logits);
    if (!x->at || !x->target || !x->tokens || !x->target_probability || !x->target_rank ||
        !r->rows || !r->logits)
        return qkv_fail_memory(err, NULL);
    for (int64_t p = 0; p < P; p++) {
        x->at[p] = at ? at[p] : p;
        if (x->at[p] < 0 || x->at[p] >= length)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "position of a prediction is out of range, expected 0 to %" PRId64
                            ", found %" PRId64,
                            length - 1, x->at[p]);
        const int64_t next = x->at[p] + !encoder;
        x->target[p] = next < length ? in->ids[next] : -1;
        if (encoder && x->target[p] == r->info.mask) x->target[p] = -1;
    }
    return QKV_OK;
}

static qkv_status check(const qkv_model *m, const struct qkv_model_info *info,
                        const struct qkv_model_input *in, int64_t top, qkv_error *err)
{
    if (!(info->can & QKV_CAN_TOKENS))
        return qkv_unfit(m, "a model with an output head for tokens", err);
    if (in->sequences != 1 || !in->offsets || in->offsets[0] != 0 || in->offsets[1] < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "the logit lens reads one sequence");
    if (in->offsets[1] && !in->ids)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "tokens have no ids, expected an array of ids, found NULL");
    if (in->options && !(info->can & QKV_CAN_RUN))
        return qkv_unfit(m, "a Transformer, whose runs have options", err);
    if (top < 1 || top > info->vocab)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "number of tokens per row is out of range, expected 1 to %" PRId64
                        ", found %" PRId64,
                        info->vocab, top);
    return QKV_OK;
}

qkv_status qkv_lens(struct qkv_lens *out, const qkv_model *m, const struct qkv_model_input *in,
                    const int64_t *at, int64_t n, int64_t top, qkv_error *err)
{
    if (out) *out = (struct qkv_lens){ 0 };
    if (!out || !m || !in || (at && n < 0))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_lens: expected a model, its input and an output, found NULL");
    struct lens_run r = { .x = out, .m = m, .info = qkv_model_info(m), .err = err };
    const struct qkv_observer observer = { .layer = layer, .user = &r, .skip_qkv = true };
    qkv_status status = check(m, &r.info, in, top, err);
    if (status) return status;
    r.recurrent = !(r.info.can & QKV_CAN_RUN);
    const int64_t all = in->offsets[1],
                  length = in->lengths ? qkv_max64(0, qkv_min64(in->lengths[0], all)) : all;
    const int64_t layers = r.info.decoder_layers ? r.info.decoder_layers : r.info.layers;
    *out = (struct qkv_lens){ .positions = at ? n : length,
                              .rows = r.recurrent ? 1 : 1 + layers,
                              .top = top };
    status = prepare(&r, in, at, out->positions, length, err);
    if (!status)
        status = r.recurrent ? decode(&r, in, length) : qkv_model_run(m, NULL, in, &observer, err);
    if (r.status) status = r.status;
    qkv_free(r.rows);
    qkv_free(r.logits);
    if (status) qkv_lens_free(out);
    return status;
}

void qkv_lens_free(struct qkv_lens *x)
{
    if (!x) return;
    qkv_free(x->at);
    qkv_free(x->tokens);
    qkv_free(x->target);
    qkv_free(x->target_probability);
    qkv_free(x->target_rank);
    *x = (struct qkv_lens){ 0 };
}
