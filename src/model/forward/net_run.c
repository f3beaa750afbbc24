// SPDX-License-Identifier: MIT
// net_run.c: checks a batch and runs it through a trainable model of any kind.
#include "model/params/trainable.h"
#include <inttypes.h>

// Checks the offsets, lengths and token types of sequences, and that all token ids are below
// `vocab`.
static qkv_status check_ids(const qkv_net *n, const struct qkv_sequences *in, int64_t vocab,
                            qkv_error *err)
{
    if (in->n < 1 || !in->offsets || in->offsets[0] != 0 || !in->ids)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "invalid sequences of a batch, expected at least one, with ids and with offsets that "
            "begin with 0, found %" PRId64 " sequences",
            in->n);
    for (int64_t i = 0; i < in->n; i++) {
        const int64_t length = in->offsets[i + 1] - in->offsets[i];
        if (length < 1 || in->offsets[i + 1] > INT32_MAX)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid sequence %" PRId64
                            " of a batch, expected at least one token, and at most %d tokens in "
                            "the batch, found %" PRId64,
                            i, INT32_MAX, length);
        if (length > n->shape.positions)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "sequence too long for the model, expected at most %" PRId64
                            " tokens, found %" PRId64,
                            n->shape.positions, length);
        for (int64_t r = in->offsets[i]; r < in->offsets[i + 1]; r++) {
            if (in->ids[r] < 0 || in->ids[r] >= vocab)
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "token id out of range, expected an id below %" PRId64
                                ", found %" PRId32,
                                vocab, in->ids[r]);
            if (in->types && n->shape.types && (in->types[r] < 0 || in->types[r] >= n->shape.types))
                return qkv_fail(err, QKV_ERR_USAGE, NULL,
                                "token type out of range, expected a type below %" PRId64
                                ", found %" PRId32,
                                n->shape.types, in->types[r]);
        }
    }
    return QKV_OK;
}

qkv_status qkv_net_check_sequences(const qkv_net *n, bool source, const struct qkv_sequences *in,
                                   qkv_error *err)
{
    return check_ids(n, in, source ? n->shape.source_vocab : n->shape.vocab, err);
}

const char *qkv_net_lacks(const qkv_net *n, enum qkv_objective o)
{
    const bool pair = n->kind == QKV_NET_ENCODER_DECODER || n->kind == QKV_NET_GRU_ATTENTION;
    switch (o) {
    case QKV_OBJECTIVE_CAUSAL: return n->kind == QKV_NET_DECODER ? NULL : "a decoder";
    case QKV_OBJECTIVE_MASKED: return n->masked_end ? NULL : "an encoder with a head for tokens";
    case QKV_OBJECTIVE_SEQ2SEQ: return pair ? NULL : "an encoder and a decoder";
    case QKV_OBJECTIVE_CONTRASTIVE: return n->kind == QKV_NET_ENCODER ? NULL : "an encoder";
    case QKV_OBJECTIVE_CLASSIFY:
        return n->shape.labels ? NULL : "an encoder with a head for labels";
    }
    return "another objective";
}

static qkv_status check(const qkv_net *n, const struct qkv_net_batch *b, qkv_error *err)
{
    const char *lacks = qkv_net_lacks(n, b->objective);
    if (lacks)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "objective does not fit the model, expected %s",
                        lacks);
    qkv_status status = qkv_net_check_sequences(n, false, &b->in, err);
    if (!status && b->objective == QKV_OBJECTIVE_SEQ2SEQ) {
        if (b->source.n != b->in.n)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "wrong number of sources in a batch, expected %" PRId64
                            ", found %" PRId64,
                            b->in.n, b->source.n);
        status = qkv_net_check_sequences(n, true, &b->source, err);
    }
    if (status) return status;
    if (b->objective == QKV_OBJECTIVE_CONTRASTIVE)
        return b->in.n % 2 ? qkv_fail(err, QKV_ERR_USAGE, NULL,
                                      "wrong number of sequences in a batch of pairs, expected an "
                                      "even number, found "
                                      "%" PRId64,
                                      b->in.n)
                           : QKV_OK;
    const bool labels = b->objective == QKV_OBJECTIVE_CLASSIFY;
    const int64_t rows = labels ? b->in.n : b->in.offsets[b->in.n];
    const int64_t below = labels ? n->shape.labels : n->shape.vocab;
    if (!b->targets)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "batch has no targets, expected an array, found NULL");
    for (int64_t r = 0; r < rows; r++)
        if (b->targets[r] < -1 || b->targets[r] >= below)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "target id out of range, expected -1 or an id below %" PRId64
                            ", found %" PRId32,
                            below, b->targets[r]);
    return QKV_OK;
}

qkv_status qkv_net_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                       bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err)
{
    const qkv_status status = check(n, b, err);
    return status ? status : n->methods->run(n, loss, b, gradients, scale, seed, step, err);
}
