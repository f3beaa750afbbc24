// SPDX-License-Identifier: MIT
// sampling.h: from logits to a token: what penalties must know of a sequence, the samplers in their
// order, the draw.
#ifndef QKV_TASK_SAMPLING_H
#define QKV_TASK_SAMPLING_H

#include "base/base.h"
#include <qkv/generate.h>

// ---- history.c: a sequence as penalties ask for it ----------------------------------------------
struct qkv_said {
    int32_t id;
    int64_t times; // in the output; 0: the prompt alone has it
};
// Grows by a token in constant time (amortised); what no sampler asks for is not kept.
struct qkv_history {
    const struct qkv_sampling *how;
    int64_t V;
    int32_t *ids; // [n] prompt, then output
    int64_t n, ids_capacity;
    int32_t *place; // [V] of a token in said, from 1; NULL: no penalty wants it
    struct qkv_said *said;
    int64_t saids, said_capacity;
    // Positions whose n - 1 tokens before them have the same hash, newest first: chain[hash], then
    // older[position]; -1: none.
    int64_t *chain, *older;
    int64_t chains, older_capacity;
};
// h is zero before the first; its memory is used again.  false: no memory.
bool qkv_history_begin(struct qkv_history *h, const struct qkv_sampling *how, int64_t V,
                       const int32_t *prompt, int64_t n);
bool qkv_history_add(struct qkv_history *h, int32_t id); // a token of the output
void qkv_history_free(struct qkv_history *h);            // a zeroed struct is fine

// ---- sampling.c ---------------------------------------------------------------------------------
// Memory of one choice at a time.
struct qkv_choice {
    int32_t *id; // [V] what can be chosen, in order; of the first n
    float *x;    // [V] its logit
    double *p;   // [V] exp(x - the largest)
    int64_t n;
};
bool qkv_choice_new(struct qkv_choice *c, int64_t V); // false: no memory
void qkv_choice_free(struct qkv_choice *c);           // a zeroed struct is fine
// x[V] as bias, penalties and no_repeat_ngram leave it.
void qkv_sampling_penalise(float *x, const struct qkv_history *h);
// What temperature, top_k, top_p and min_p leave of x[V]; c->n is 0 when nothing is left, or x
// holds NaN or +Inf.
void qkv_sampling_choices(struct qkv_choice *c, const float *x, int64_t V,
                          const struct qkv_sampling *how);
// One of them: the draw of (seed, sequence, position).
int32_t qkv_sampling_draw(const struct qkv_choice *c, uint64_t seed, uint64_t sequence,
                          uint64_t position);
int32_t qkv_sampling_likeliest(const float *x, int64_t V); // -1: as c->n 0
// ln sum exp(x[V]).
double qkv_sampling_log_sum(const float *x, int64_t V);
// The n <= V largest of x[V], best first (of equal ones the smaller id), each less `minus`.
void qkv_sampling_top(struct qkv_token_value *top, int64_t n, const float *x, int64_t V,
                      double minus);
#endif
