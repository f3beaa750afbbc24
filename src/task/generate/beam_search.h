// SPDX-License-Identifier: MIT
// beam_search.h: declares the beam search for the best outputs of one prompt. The search only
// chooses tokens: its caller runs the model on them and copies KV caches between hypotheses.
#ifndef QKV_TASK_BEAM_SEARCH_H
#define QKV_TASK_BEAM_SEARCH_H

#include "task/generate/prompt/prompt_tokens.h"
#include "task/generate/sampling.h"

// A token of a hypothesis, linked to the token before it.
struct qkv_beam_node {
    int64_t before; // node of the preceding token; -1: the token follows the prompt
    int32_t id;
    float logprob; // log-probability from the model's logits, before any penalty
};
struct qkv_beam_candidate {
    int64_t row; // index of the hypothesis that this candidate continues
    int32_t id;  // id of the next token; -1: there is no candidate; -2: memory is exhausted
    float logprob;
    double score; // sum of the log-probabilities of all tokens
};
// A finished hypothesis.
struct qkv_beam_end {
    int64_t node, length;
    double score; // sum of log-probabilities / length^penalty
    enum qkv_ending ending;
    int32_t end; // the end token if ending is QKV_END_TOKEN; otherwise -1
};
struct qkv_beam_search {
    const struct qkv_generation *g;
    const struct qkv_prompt_tokens *prompt;
    int64_t first_item; // item (KV cache) of hypothesis 0; hypothesis i uses item first_item + i
    // width: number of running hypotheses; kept: continuations that each step considers
    int64_t width, kept;
    struct qkv_beam_node *node;
    int64_t nodes, capacity;
    int64_t *last;                   // [width] last node of each running hypothesis, best first
    double *score;                   // [width] sum of log-probabilities of each running hypothesis
    struct qkv_history *history;     // [width] tokens of each running hypothesis, for penalties
    struct qkv_beam_candidate *row;  // [width][kept] best continuations of each hypothesis
    struct qkv_beam_candidate *best; // [kept] best continuations of all hypotheses
    struct qkv_beam_end *done;       // [width] finished hypotheses, best first
    int64_t running, finished, length;
    bool improvable; // a running hypothesis can still become better than a finished one
    bool over;
    // Result of a step: for all i < moves, the KV cache of item from[i] must be copied to item
    // to[i]. The caller must copy as if all copies happened at once.
    int64_t *to, *from;
    int64_t moves;
};

// Begins the search after a prompt, which must exist until the search ends. The caller zeroes b
// before its first use; later searches reuse its memory. Returns false if memory is exhausted.
bool qkv_beam_begin(struct qkv_beam_search *b, const struct qkv_generation *g,
                    const struct qkv_prompt_tokens *prompt, int64_t first_item);
// Finds the best continuations of hypothesis `row` from its logits[V], which are overwritten.  May
// run in parallel for different hypotheses.  raw[V] and top[kept] are scratch; raw may be NULL if
// options.logprobs is 0.
void qkv_beam_expand(struct qkv_beam_search *b, int64_t row, float *logits, float *raw,
                     struct qkv_token_value *top);
// Chooses among the continuations of all hypotheses.  Returns QKV_ERR_USAGE if no token is
// possible.
qkv_status qkv_beam_step(struct qkv_beam_search *b, qkv_error *err);
// Returns the number n of outputs of a search that is over. The outputs are b->done[0 .. n - 1].
int64_t qkv_beam_outputs(const struct qkv_beam_search *b);
// Writes the tokens of the hypothesis whose last token is `node` to ids[length] and, unless
// logprobs is NULL, their log-probabilities to logprobs[length].
void qkv_beam_ids(const struct qkv_beam_search *b, int64_t node, int64_t length, int32_t *ids,
                  float *logprobs);
void qkv_beam_free(struct qkv_beam_search *b); // accepts a zeroed struct
// Returns the number of continuations that a step considers, for the size of scratch.
int64_t qkv_beam_candidates(const struct qkv_generation *g);
#endif
