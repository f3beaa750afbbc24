// SPDX-License-Identifier: MIT
// sampling.h: declares the choice of the next token from its logits: the filters top_k, top_p and
// min_p, and the random draw.
#ifndef QKV_TASK_SAMPLING_H
#define QKV_TASK_SAMPLING_H

#include "task/generate/token_history.h"

// The tokens that can still be chosen. The memory is reused for every choice.
struct qkv_candidates {
    int32_t *id; // [V] ids of the candidates, ascending; only the first n elements are valid
    float *x;    // [V] logits of the candidates
    double *p;   // [V] exp(x - the largest logit) of the candidates
    int64_t n;
};
bool qkv_candidates_new(struct qkv_candidates *c, int64_t V); // false: out of memory
void qkv_candidates_free(struct qkv_candidates *c);           // accepts a zeroed struct
// Collects the candidates from x[V]: applies temperature, top_k, top_p and min_p. c->n becomes 0 if
// no token remains, or if x contains NaN or +Inf.
void qkv_sampling_candidates(struct qkv_candidates *c, const float *x, int64_t V,
                             const struct qkv_sampling *how);
// Draws one of the candidates. The random number is a function of (seed, sequence, position).
// Returns -1 if there are no candidates.
int32_t qkv_sampling_draw(const struct qkv_candidates *c, uint64_t seed, uint64_t sequence,
                          uint64_t position);
// Returns the token with the largest logit; among equal logits, the smallest id. Returns -1 if
// every logit is -Inf, or any is NaN or +Inf.
int32_t qkv_sampling_likeliest(const float *x, int64_t V);
// Returns ln(sum of exp(x[i])) over x[V].
double qkv_sampling_log_sum(const float *x, int64_t V);
// Writes the n <= V largest elements of x[V], each reduced by `minus`, to top[n], largest first.
// Among equal elements, smaller ids are first.
void qkv_sampling_top(struct qkv_token_value *top, int64_t n, const float *x, int64_t V,
                      double minus);
#endif
