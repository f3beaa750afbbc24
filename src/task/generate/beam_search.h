// SPDX-License-Identifier: MIT
// beam_search.h: declares the beam search for the best outputs of one prompt. The search chooses
// tokens; its caller feeds them to the model and copies KV caches.
#ifndef QKV_TASK_BEAM_SEARCH_H
#define QKV_TASK_BEAM_SEARCH_H

#include "task/generate/prompt_tokens.h"
#include "task/generate/sampling.h"

// A token of a hypothesis and the node of the token before it.
struct qkv_beam_node {
    int64_t before; // node of the preceding token; -1: the token follows the prompt
    int32_t id;
    float logprob; // log-probability by the model, before any penalty
};
struct qkv_beam_candidate {
    int64_t row; // index of the hypothesis that the candidate continues
    int32_t id;  // token id; -1: there is no candidate; -2: memory is exhausted
    float logprob;
    double score; // sum of log-probabilities
};
// A finished hypothesis.
struct qkv_beam_end {
    int64_t node, length;
    double score; // sum of log-probabilities / length^penalty
    enum qkv_ending ending;
    int32_t end; // the end token if ending is QKV_END_TOKEN, else -1
};
struct qkv_beam_search {
    const struct qkv_generation *g;
    const struct qkv_prompt_tokens *prompt;
    int64_t first_item;  // item of hypothesis 0; the others follow
    int64_t width, kept; // number of hypotheses that continue; number of candidates considered
    struct qkv_beam_node *node;
    int64_t nodes, capacity;
    int64_t *last;                   // [width] last nodes of the running hypotheses, best first
    double *score;                   // [width] sum of log-probabilities of each
    struct qkv_history *history;     // [width] tokens of each hypothesis, for penalties
    struct qkv_beam_candidate *row;  // [width][kept] best continuations of each hypothesis
    struct qkv_beam_candidate *best; // [kept] best continuations of all hypotheses
    struct qkv_beam_end *done;       // [width] finished hypotheses, best first
    int64_t running, finished, length;
    bool improvable; // a running hypothesis may still beat the finished ones
    bool over;
    // Set by a step: item to[i] continues the hypothesis of item from[i], for all i < moves. The
    // caller must copy the caches of all moves simultaneously.
    int64_t *to, *from;
    int64_t moves;
};

// Begins the search after a prompt, which must stay valid. The caller zeroes b before its first
// use; later searches reuse its memory. false: memory is exhausted.
bool qkv_beam_begin(struct qkv_beam_search *b, const struct qkv_generation *g,
                    const struct qkv_prompt_tokens *prompt, int64_t first_item);
// Finds the best continuations of hypothesis `row` from its logits[V], which it overwrites.  May
// run in parallel for different hypotheses.  raw [V] and top [kept] are scratch; raw may be NULL
// without options.logprobs.
void qkv_beam_expand(struct qkv_beam_search *b, int64_t row, float *logits, float *raw,
                     struct qkv_token_value *top);
// Chooses among the continuations of all hypotheses.  QKV_ERR_USAGE: no token can be chosen.
qkv_status qkv_beam_step(struct qkv_beam_search *b, qkv_error *err);
// Returns the number of outputs of a search that is over: b->done[0] .. b->done[n - 1].
int64_t qkv_beam_outputs(const struct qkv_beam_search *b);
// Writes ids[length] and, unless NULL, logprobs[length] of the tokens up to a node.
void qkv_beam_ids(const struct qkv_beam_search *b, int64_t node, int64_t length, int32_t *ids,
                  float *logprobs);
void qkv_beam_free(struct qkv_beam_search *b); // a zeroed struct is allowed
// Returns the number of candidates per hypothesis, for scratch.
int64_t qkv_beam_candidates(const struct qkv_generation *g);
#endif
