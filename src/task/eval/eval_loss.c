// SPDX-License-Identifier: MIT
// eval_loss.c: computes the cross-entropy of rows of logits. The sum over rows is in double, in the
// order of the rows.
#include "task/eval/eval_internal.h"
#include "task/generate/sampling.h"

enum { BLOCK = 64 }; // rows whose losses are computed in parallel

struct rows {
    const float *logits;
    int64_t V;
    const int32_t *want;
    double loss[BLOCK];
    // the target has the largest logit; among equal logits, the smallest id counts as the largest
    bool right[BLOCK];
};

static void measure_row(void *ctx, int64_t i, int thread)
{
    struct rows *r = ctx;
    const float *x = r->logits + i * r->V;
    (void)thread;
    r->loss[i] = qkv_sampling_log_sum(x, r->V) - (double)x[r->want[i]];
    r->right[i] = qkv_sampling_likeliest(x, r->V) == r->want[i];
}

void eval_add_rows(struct qkv_loss *loss, const float *logits, int64_t V, const int32_t *want,
                   int64_t n)
{
    for (int64_t at = 0; at < n; at += BLOCK) {
        struct rows r = { .logits = logits + at * V, .V = V, .want = want + at };
        const int64_t count = qkv_min64(BLOCK, n - at);
        qkv_parallel_for(count, measure_row, &r);
        for (int64_t i = 0; i < count; i++) {
            loss->sum += r.loss[i];
            loss->right += r.right[i];
        }
        loss->rows += count;
    }
}
