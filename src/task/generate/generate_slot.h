// SPDX-License-Identifier: MIT
// generate_slot.h: declares a slot, which decodes one prompt at a time. In each step a slot
// provides the tokens to feed and chooses the next token; at the end it builds the outputs.
#ifndef QKV_TASK_GENERATE_SLOT_H
#define QKV_TASK_GENERATE_SLOT_H

#include "task/generate/beam_search.h"
#include "task/generate/output_builder.h"
#include "task/generate/prompt/prompt_logprobs.h"
#include "task/generate/sampling.h"

// A slot decodes one job at a time. A job is either one sampled output of a prompt or the whole
// beam search of a prompt.
struct qkv_slot {
    const struct qkv_generation *g;
    bool active;  // the slot is decoding a job
    bool started; // the prompt of the job has been fed to the model
    int64_t job, prompt, rank;
    int64_t item; // first of the slot's g->width items; an item is a sequence with its own KV cache
    struct qkv_prompt_tokens tokens;
    struct qkv_logged_prompt
        logged; // the prompt, if the log-probabilities of its tokens are requested
    struct qkv_output_builder output;
    // Members for sampling, if g->width is 1.
    struct qkv_history history;
    int64_t count; // number of tokens chosen so far
    int32_t id;    // last chosen token; -1: no token was possible
    bool broken;   // the model's logits are NaN, +inf, or all -inf
    float logprob;
    struct qkv_token_value *top; // [options.logprobs] the likeliest tokens of the last step
    enum qkv_ending ending;      // why the finished output ended
    int32_t end;                 // the end token if ending is QKV_END_TOKEN; otherwise -1
    // Member for beam search, if g->width is larger than 1.
    struct qkv_beam_search beam;
};

// Scratch of one thread for choosing a token.
struct qkv_choice_scratch {
    struct qkv_candidates candidates;
    // [V] log-probabilities before penalties and filters; NULL if options.logprobs is 0
    float *raw;
    // [qkv_beam_candidates(g)] best continuations; NULL if g->width is 1
    struct qkv_token_value *top;
};
bool qkv_choice_scratch_new(struct qkv_choice_scratch *c, const struct qkv_generation *g);
void qkv_choice_scratch_free(struct qkv_choice_scratch *c); // accepts a zeroed struct

// Prepares an idle slot that uses the items from `item` on. Returns false if memory is exhausted.
bool qkv_slot_init(struct qkv_slot *s, const struct qkv_generation *g, int64_t item);
void qkv_slot_free(struct qkv_slot *s); // accepts a zeroed struct
// Begins a job: exchanges *tokens, the tokens of its prompt, with the tokens of the slot, and emits
// the prefix. source_item: a translation copies its encoded source from this item.
qkv_status qkv_slot_begin(struct qkv_slot *s, int64_t job, struct qkv_prompt_tokens *tokens,
                          int64_t source_item, qkv_error *err);
// Returns the number of sequences that the slot feeds in the next step: the running hypotheses of a
// beam search, or 1.
int64_t qkv_slot_rows(const struct qkv_slot *s);
// Points *ids to the tokens that sequence `row` of the slot feeds next. Returns their number.
int64_t qkv_slot_tokens(const struct qkv_slot *s, int64_t row, const int32_t **ids);
// Returns true if the prompt is to be read with the log-probabilities of its tokens, by
// qkv_slot_read_logged().  Only the first output of a prompt does so.
bool qkv_slot_logs_prompt(const struct qkv_slot *s);
// Feeds n tokens of the prompt from index `at` on, emits the tokens of the prompt, and writes the
// logits after the last of the n tokens to last[V].
qkv_status qkv_slot_read_logged(struct qkv_slot *s, int64_t at, int64_t n, float *last,
                                qkv_error *err);
// Chooses the next token, or the continuations of a hypothesis, from the logits[V] of sequence
// `row`, which are overwritten. May run in parallel for different sequences.
void qkv_slot_choose(struct qkv_slot *s, int64_t row, float *logits, struct qkv_choice_scratch *c);
// Accepts the choices of a step and emits the token. Sets s->active to false when the job is
// finished.
qkv_status qkv_slot_accept(struct qkv_slot *s, qkv_error *err);
// Returns the number of outputs of a finished job.
int64_t qkv_slot_outputs(const struct qkv_slot *s);
// Writes output i (0: the best) to *out. Its arrays are valid until the next call for this slot.
qkv_status qkv_slot_output(struct qkv_slot *s, int64_t i, struct qkv_generated *out,
                           qkv_error *err);
#endif
