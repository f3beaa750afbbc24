// SPDX-License-Identifier: MIT
// sampling.h: declares the choice of the next token from logits: filters by top_k, top_p and min_p,
// and the random draw.
#ifndef QKV_TASK_SAMPLING_H
#define QKV_TASK_SAMPLING_H

#include "task/generate/token_history.h"

// The tokens that can be chosen; memory that each choice reuses.
struct qkv_candidates {
    int32_t *id; // [V] the first n are valid, in ascending order
    float *x;    // [V] their logits
    double *p;   // [V] exp(x - the largest logit)
    int64_t n;
};
bool qkv_candidates_new(struct qkv_candidates *c, int64_t V); // false: memory is exhausted
void qkv_candidates_free(struct qkv_candidates *c);           // a zeroed struct is allowed
// Applies temperature, top_k, top_p and min_p to x[V]; c->n is 0 when no token remains, or x
// contains NaN or +Inf.
void qkv_sampling_candidates(struct qkv_candidates *c, const float *x, int64_t V,
                             const struct qkv_sampling *how);
// Draws one of the candidates with the random number of (seed, sequence, position); -1: there are
// no candidates.
int32_t qkv_sampling_draw(const struct qkv_candidates *c, uint64_t seed, uint64_t sequence,
                          uint64_t position);
// Returns the token with the largest logit, among equal ones the smallest id; -1: every logit is
// -Inf, or one is NaN or +Inf.
int32_t qkv_sampling_likeliest(const float *x, int64_t V);
// Returns ln sum exp(x[V]).
double qkv_sampling_log_sum(const float *x, int64_t V);
// Writes the n <= V largest elements of x[V] minus `minus`, largest first (among equal ones the
// smaller id first).
void qkv_sampling_top(struct qkv_token_value *top, int64_t n, const float *x, int64_t V,
                      double minus);
#endif
