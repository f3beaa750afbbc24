// SPDX-License-Identifier: MIT
// token_history.h: declares the history of a sequence's tokens, from which the penalties for
// repeated tokens are computed.
#ifndef QKV_TASK_TOKEN_HISTORY_H
#define QKV_TASK_TOKEN_HISTORY_H

#include "base/base.h"
#include <qkv/generate.h>

// A token that occurs in the sequence, and how often.
struct qkv_counted_token {
    int32_t id;
    int64_t times; // occurrences in the output; 0: the token occurs only in the prompt
};
// The tokens of a sequence. Adding a token takes amortized constant time. Only the members that the
// options of sampling need are maintained.
struct qkv_history {
    const struct qkv_sampling *how;
    int64_t V;
    int32_t *ids; // [n] tokens of the prompt, then of the output
    int64_t n, ids_capacity;
    // [V] position of a token in `counted`, plus 1; NULL: no penalty needs the counts
    int32_t *place;
    struct qkv_counted_token *counted;
    int64_t counted_n, counted_capacity;
    // Hash table of n-grams. Positions whose n - 1 preceding tokens have the same hash form a
    // chain, newest first: chain[hash] is the first, older[position] is the next; -1 ends the
    // chain.
    int64_t *chain, *older;
    int64_t chains, older_capacity;
};
// Begins a history with the n tokens of a prompt. The caller zeroes h before its first use; later
// sequences reuse its memory. Returns false if memory is exhausted.
bool qkv_history_begin(struct qkv_history *h, const struct qkv_sampling *how, int64_t V,
                       const int32_t *prompt, int64_t n);
bool qkv_history_add(struct qkv_history *h, int32_t id); // appends a token of the output
void qkv_history_free(struct qkv_history *h);            // accepts a zeroed struct
// Changes the logits x[V] according to the options bias, repetition, presence, frequency and
// no_repeat_ngram.
void qkv_history_penalise(float *x, const struct qkv_history *h);
#endif
