// SPDX-License-Identifier: MIT
// token_history.h: declares the record of a sequence's tokens, for the penalties that depend on
// them.
#ifndef QKV_TASK_TOKEN_HISTORY_H
#define QKV_TASK_TOKEN_HISTORY_H

#include "base/base.h"
#include <qkv/generate.h>

// A token that occurs in the sequence.
struct qkv_counted_token {
    int32_t id;
    int64_t times; // occurrences in the output; 0: only the prompt contains it
};
// The tokens of a sequence. Adding a token takes amortized constant time; only what the options
// need is recorded.
struct qkv_history {
    const struct qkv_sampling *how;
    int64_t V;
    int32_t *ids; // [n] prompt, then output
    int64_t n, ids_capacity;
    int32_t *place; // [V] index of a token in `counted`, from 1; NULL: no penalty needs it
    struct qkv_counted_token *counted;
    int64_t counted_n, counted_capacity;
    // Positions whose n - 1 preceding tokens have the same hash, newest first: chain[hash], then
    // older[position]; -1: end of the list.
    int64_t *chain, *older;
    int64_t chains, older_capacity;
};
// Begins with the n tokens of a prompt. The caller zeroes h before its first use; later sequences
// reuse its memory. false: memory is exhausted.
bool qkv_history_begin(struct qkv_history *h, const struct qkv_sampling *how, int64_t V,
                       const int32_t *prompt, int64_t n);
bool qkv_history_add(struct qkv_history *h, int32_t id); // appends a token of the output
void qkv_history_free(struct qkv_history *h);            // a zeroed struct is allowed
// Applies bias, repetition, presence, frequency and no_repeat_ngram to the logits x[V].
void qkv_history_penalise(float *x, const struct qkv_history *h);
#endif
