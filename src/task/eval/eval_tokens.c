// SPDX-License-Identifier: MIT
// eval_tokens.c: computes the loss of a model on the tokens of the validation split: of next tokens
// (causal), masked tokens, or targets (seq2seq). The model always reads the correct preceding
// tokens, not its own predictions.
#include "task/eval/eval_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ROWS = 64 }; // number of rows whose logits are computed in one call

// Memory that all batches reuse, and the sums over all batches.
struct scratch {
    float *hidden; // [R][D] hidden states of a batch
    int64_t hidden_capacity;
    // picked: [ROWS][D] hidden states of rows with a target; logits: [EVAL_SOURCES][V], since a
    // model that can only decode computes the logits of EVAL_SOURCES sequences at a time
    float *picked, *logits;
    int32_t want[ROWS]; // the target of each picked row
    // used for a model that can only decode; has EVAL_SOURCES items (one sequence each)
    qkv_decoder *decoder;
    struct qkv_loss loss;     // sum of the losses of all batches so far
    int64_t sequences, bytes; // sequences and bytes of text that the sum covers
};

// Checks that the model has a logit for every target.
static qkv_status check_targets(const struct eval *e, const struct qkv_net_batch *b, qkv_error *err)
{
    for (int64_t r = 0; r < b->in.offsets[b->in.n]; r++)
        if (b->targets[r] >= e->is.vocab)
            return qkv_fail(
                err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = e->dir },
                "text has a token that the model cannot predict, expected an id below %" PRId64
                ", found %" PRId32,
                e->is.vocab, b->targets[r]);
    return QKV_OK;
}

static qkv_status add_picked(struct eval *e, struct scratch *s, int64_t n, qkv_error *err)
{
    const qkv_status status = qkv_model_logits(e->model, s->logits, s->picked, n, err);
    if (!status) eval_add_rows(&s->loss, s->logits, e->is.vocab, s->want, n);
    return status;
}

// Runs the model on a batch, then adds the losses of the rows that have a target.
static qkv_status run_batch(struct eval *e, struct scratch *s, const struct qkv_net_batch *b,
                            qkv_error *err)
{
    const bool pairs = b->objective == QKV_OBJECTIVE_SEQ2SEQ;
    const struct qkv_model_input source = eval_input(&b->source);
    struct qkv_model_input in = eval_input(&b->in);
    const int64_t R = b->in.offsets[b->in.n], D = e->is.width;
    int64_t n = 0;
    void *hidden = s->hidden;
    const bool fits = qkv_reserve(&hidden, &s->hidden_capacity, R * D, sizeof *s->hidden);
    s->hidden = hidden;
    if (!fits) return qkv_fail_memory(err, NULL);
    if (pairs) in.source = &source;
    qkv_status status = qkv_model_run(e->model, s->hidden, &in, NULL, err);
    for (int64_t r = 0; r < R && !status; r++) {
        if (b->targets[r] < 0) continue;
        memcpy(s->picked + n * D, s->hidden + r * D, (size_t)D * sizeof *s->picked);
        s->want[n++] = b->targets[r];
        if (n < ROWS) continue;
        status = add_picked(e, s, n, err);
        n = 0;
    }
    return status || !n ? status : add_picked(e, s, n, err);
}

// ---- models that only decode --------------------------------------------------------------------
// Feeds token number `step` of each sequence first .. first + n - 1 that has so many tokens (n <=
// EVAL_SOURCES), and adds the losses of its target.
static qkv_status feed_step(struct eval *e, struct scratch *s, const struct qkv_net_batch *b,
                            int64_t first, int64_t n, int64_t step, qkv_error *err)
{
    int64_t items[EVAL_SOURCES];
    int32_t ids[EVAL_SOURCES], want[EVAL_SOURCES];
    struct qkv_decoder_tokens t = { .items = items, .ids = ids };
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = b->in.offsets[first + i] + step;
        if (row >= b->in.offsets[first + i + 1]) continue;
        items[t.n] = i;
        ids[t.n] = b->in.ids[row];
        want[t.n++] = b->targets[row];
    }
    const qkv_status status = qkv_decoder_feed(s->decoder, s->logits, &t, err);
    if (!status) eval_add_rows(&s->loss, s->logits, e->is.vocab, want, t.n);
    return status;
}

// Decodes the targets of the pairs first .. first + n - 1 of a batch token by token, and adds their
// losses.
static qkv_status decode_pairs(struct eval *e, struct scratch *s, const struct qkv_net_batch *b,
                               int64_t first, int64_t n, qkv_error *err)
{
    int64_t offsets[EVAL_SOURCES + 1], steps = 0;
    const int64_t begin = b->source.offsets[first];
    for (int64_t i = 0; i <= n; i++) offsets[i] = b->source.offsets[first + i] - begin;
    for (int64_t i = first; i < first + n; i++)
        steps = qkv_max64(steps, b->in.offsets[i + 1] - b->in.offsets[i]);
    const struct qkv_model_input source = { .sequences = n,
                                            .offsets = offsets,
                                            .ids = b->source.ids + begin };
    qkv_status status = qkv_decoder_source(s->decoder, 0, &source, err);
    for (int64_t step = 0; step < steps && !status; step++)
        status = feed_step(e, s, b, first, n, step, err);
    return status;
}

static qkv_status decode_batch(struct eval *e, struct scratch *s, const struct qkv_net_batch *b,
                               qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t at = 0; at < b->in.n && !status; at += EVAL_SOURCES)
        status = decode_pairs(e, s, b, at, qkv_min64(EVAL_SOURCES, b->in.n - at), err);
    return status;
}

// ---- the validation split -----------------------------------------------------------------------
static qkv_status scratch_new(struct scratch *s, const struct eval *e, qkv_error *err)
{
    const struct qkv_decoder_options o = { .items = EVAL_SOURCES };
    size_t picked, logits;
    if (qkv_mul_size(&picked, ROWS, (size_t)e->is.width) &&
        qkv_mul_size(&logits, qkv_max64(ROWS, EVAL_SOURCES), (size_t)e->is.vocab)) {
        s->picked = qkv_alloc(picked, sizeof *s->picked);
        s->logits = qkv_alloc(logits, sizeof *s->logits);
    }
    if (!s->picked || !s->logits) return qkv_fail_memory(err, NULL);
    return e->is.can & QKV_CAN_RUN ? QKV_OK : qkv_decoder_new(&s->decoder, e->model, &o, err);
}

static void scratch_free(struct scratch *s)
{
    qkv_decoder_free(s->decoder);
    qkv_free(s->hidden);
    qkv_free(s->picked);
    qkv_free(s->logits);
}

static qkv_status measure_batches(struct eval *e, struct scratch *s, qkv_error *err)
{
    struct qkv_drawn d = { 0 };
    const int64_t all = e->info.sequences[1];
    qkv_status status = QKV_OK;
    for (int64_t at = 0; at < all && !status; at = d.next) {
        status = eval_progress(e, "sequences", at, all, err);
        if (!status) status = qkv_data_valid(e->data, &d, at, &e->draw, err);
        if (!status) status = check_targets(e, &d.batch, err);
        if (!status) status = (s->decoder ? decode_batch : run_batch)(e, s, &d.batch, err);
        s->sequences += d.sequences;
        s->bytes += d.bytes;
    }
    qkv_drawn_free(&d);
    return status;
}

qkv_status eval_tokens(struct eval *e, qkv_error *err)
{
    struct scratch s = { 0 };
    struct qkv_eval_result *r = e->result;
    qkv_status status = scratch_new(&s, e, err);
    if (!status) status = measure_batches(e, &s, err);
    scratch_free(&s);
    if (status) return status;
    r->sequences = s.sequences;
    r->targets = s.loss.rows;
    r->loss = s.loss.sum / (double)s.loss.rows;
    r->perplexity = exp(r->loss);
    r->accuracy = (double)s.loss.right / (double)s.loss.rows;
    if (s.bytes) r->bits_per_byte = s.loss.sum / log(2.0) / (double)s.bytes;
    return QKV_OK;
}
