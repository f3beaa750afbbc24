// SPDX-License-Identifier: MIT
// net_gru_decode.c: the encoder-decoder with GRUs, written out token by token: `beam` hypotheses of
// each source side by side.
#include "model/net_gru.h"
#include <string.h>

struct decode {
    struct qkv_gru_run r; // the encoder's
    struct qkv_gru_writer w;
    struct qkv_gru_read *read; // [rows]
    int64_t rows;
};

qkv_status qkv_gru_decode_begin(void **state, qkv_net *n, const struct qkv_sequences *source,
                                int beam, int64_t most, qkv_error *err)
{
    (void)most; // a state does not grow with its steps
    struct decode *d = qkv_alloc_zero(1, sizeof *d);
    *state = d;
    if (!d) return qkv_fail_memory(err, NULL);
    d->r.apart = true;
    const qkv_status status = qkv_gru_run_begin(&d->r, n, NULL, source, NULL, err);
    if (status) return status;
    if (__builtin_mul_overflow(source->n, (int64_t)beam, &d->rows) ||
        qkv_gru_writer_open(&d->w, n, d->rows))
        return qkv_fail_memory(err, NULL);
    d->read = qkv_alloc((size_t)d->rows, sizeof *d->read);
    if (!d->read) return qkv_fail_memory(err, NULL);
    d->w.room = d->r.room;
    d->w.longest = 2 * d->r.longest;
    d->w.r.threads = d->r.threads;
    qkv_gru_encode(&d->r);
    const int64_t D = d->r.D;
    const size_t width = (size_t)D * sizeof(real);
    for (int64_t i = 0; i < d->rows; i++) {
        const int64_t from = d->r.from[i / beam];
        d->read[i] = (struct qkv_gru_read){ d->r.keys + from * d->r.A,
                                            d->r.y[d->r.layers - 1] + from * 2 * D,
                                            d->r.from[i / beam + 1] - from };
        for (int64_t l = 0; l < d->r.decoders; l++)
            memcpy(d->w.h[l] + i * D, d->r.first[l] + i / beam * D, width);
    }
    return QKV_OK;
}

void qkv_gru_decode_end(void *state)
{
    struct decode *d = state;
    if (!d) return;
    qkv_gru_writer_close(&d->w);
    qkv_free(d->read);
    qkv_free(d->r.memory);
    qkv_free(d);
}

qkv_status qkv_gru_decode_step(void *state, real *logits, const int32_t *tokens, int64_t t,
                               qkv_error *err)
{
    struct decode *d = state;
    (void)t;
    (void)err;
    qkv_gru_write(&d->w, logits, tokens, d->read, d->rows);
    return QKV_OK;
}

void qkv_gru_decode_reorder(void *state, const int64_t *parent, int64_t t)
{
    struct decode *d = state;
    const size_t width = (size_t)d->r.D * sizeof(real);
    (void)t;
    for (int64_t l = 0; l < d->r.decoders; l++) {
        for (int64_t i = 0; i < d->rows; i++)
            memcpy(d->w.spare + i * d->r.D, d->w.h[l] + parent[i] * d->r.D, width);
        real *swap = d->w.h[l];
        d->w.h[l] = d->w.spare;
        d->w.spare = swap;
    }
}
