// SPDX-License-Identifier: MIT
// generate_slot.h: declares a slot, which decodes one prompt at a time: it provides the tokens to
// feed in each step, chooses the next token, and builds the outputs.
#ifndef QKV_TASK_GENERATE_SLOT_H
#define QKV_TASK_GENERATE_SLOT_H

#include "task/generate/beam_search.h"
#include "task/generate/output_builder.h"
#include "task/generate/prompt_tokens.h"
#include "task/generate/sampling.h"

// A job is one sampled output of a prompt, or the beam search of a prompt.
struct qkv_slot {
    const struct qkv_generation *g;
    bool active;  // the slot decodes a job
    bool started; // the prompt of the job was fed
    int64_t job, prompt, rank;
    int64_t item; // the first of g->width items of the logits source
    struct qkv_prompt_tokens tokens;
    struct qkv_output_builder output;
    // Members for width 1, the sampler:
    struct qkv_history history;
    int64_t count; // number of tokens chosen so far
    int32_t id;    // last chosen token; -1: no token was possible
    float logprob;
    struct qkv_token_value *top; // [options.logprobs] likeliest tokens of the last step
    enum qkv_ending ending;      // how the finished output ended
    int32_t end;                 // the end token if ending is QKV_END_TOKEN, else -1
    // Member for larger widths:
    struct qkv_beam_search beam;
};

// Scratch of one thread.
struct qkv_choice_scratch {
    struct qkv_candidates candidates;
    float *raw;                  // [V] log-probabilities before the samplers; NULL without logprobs
    struct qkv_token_value *top; // [qkv_beam_candidates(g)]; NULL with width 1
};
bool qkv_choice_scratch_new(struct qkv_choice_scratch *c, const struct qkv_generation *g);
void qkv_choice_scratch_free(struct qkv_choice_scratch *c); // a zeroed struct is allowed

// Prepares an idle slot whose first item is `item`. false: memory is exhausted.
bool qkv_slot_init(struct qkv_slot *s, const struct qkv_generation *g, int64_t item);
void qkv_slot_free(struct qkv_slot *s); // a zeroed struct is allowed
// Begins a job: tokenizes its prompt, runs the encoder of a translation, emits the prefix.
qkv_status qkv_slot_begin(struct qkv_slot *s, int64_t job, qkv_error *err);
// Returns the number of sequences that the slot feeds in the next step: hypotheses, or 1.
int64_t qkv_slot_rows(const struct qkv_slot *s);
// Finds the tokens to feed for row `row`; returns their number.
int64_t qkv_slot_tokens(const struct qkv_slot *s, int64_t row, const int32_t **ids);
// Chooses from the logits[V] of a row, which are overwritten. May run in parallel for different
// rows.
void qkv_slot_choose(struct qkv_slot *s, int64_t row, float *logits, struct qkv_choice_scratch *c);
// Accepts the choices of a step: emits the token; s->active becomes false when the job is finished.
qkv_status qkv_slot_accept(struct qkv_slot *s, qkv_error *err);
// Returns the number of outputs of a finished job.
int64_t qkv_slot_outputs(const struct qkv_slot *s);
// Writes output i (best first) to *out. Its arrays are valid until the next call of a function of
// this slot.
qkv_status qkv_slot_output(struct qkv_slot *s, int64_t i, struct qkv_generated *out,
                           qkv_error *err);
#endif
