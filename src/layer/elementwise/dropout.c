// SPDX-License-Identifier: MIT
// dropout.c: computes y = residual + drop(x), and its gradient with the same random numbers, which
// it computes again.
//   drop(x)[i] = x[i] / (1 - p) if word i of the random stream is at least p 2^32, otherwise 0
// Srivastava et al. 2014 (JMLR 15); random numbers: philox.c.
#include "layer/layer.h"

enum {
    BLOCK = 8192, // elements per task
    WORDS = 512   // random words drawn at once
};

struct job {
    char *y;
    const real *residual;
    const char *x;
    qkv_dtype y_type, x_type;
    int64_t first, n;
    uint64_t seed, site;
    uint32_t threshold;
    real scale;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const struct qkv_kernels *k = qkv_kernel();
    // the words of the range, with space for whole Philox blocks of four words at both ends
    uint32_t words[WORDS + 8] = { 0 };
    const int64_t end = qkv_min64(j->n, (i + 1) * BLOCK);
    for (int64_t at = i * BLOCK; at < end; at += WORDS) {
        const int64_t n = qkv_min64(WORDS, end - at), from = j->first + at;
        if (j->threshold)
            k->philox(words, j->seed, j->site, (uint64_t)(from / 4), qkv_ceil_div(from % 4 + n, 4));
        k->dropout(j->y + (size_t)at * qkv_dtype_size(j->y_type), j->y_type,
                   j->residual ? j->residual + at : NULL,
                   j->x + (size_t)at * qkv_dtype_size(j->x_type), j->x_type, words + from % 4,
                   j->threshold, j->scale, n);
    }
}

static void run(struct job j, const struct qkv_dropout *d)
{
    j.seed = d->seed;
    j.site = d->site;
    j.threshold = qkv_dropout_threshold((double)d->p);
    j.scale = 1 / (1 - d->p);
    qkv_parallel_for(qkv_ceil_div(j.n, BLOCK), task, &j);
}

void qkv_dropout_forward(real *y, const real *residual, const void *x, qkv_dtype t, int64_t first,
                         int64_t n, const struct qkv_dropout *d)
{
    run((struct job){ .y = (char *)y,
                      .residual = residual,
                      .x = x,
                      .y_type = QKV_REAL,
                      .x_type = t ? t : QKV_REAL,
                      .first = first,
                      .n = n },
        d);
}

void qkv_dropout_backward(void *dx, qkv_dtype t, const real *dy, int64_t first, int64_t n,
                          const struct qkv_dropout *d)
{
    run((struct job){ .y = dx,
                      .x = (const char *)dy,
                      .y_type = t ? t : QKV_REAL,
                      .x_type = QKV_REAL,
                      .first = first,
                      .n = n },
        d);
}
