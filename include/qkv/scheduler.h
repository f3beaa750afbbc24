// SPDX-License-Identifier: MIT
/** scheduler.h: generates text for prompts that arrive while others run (continuous batching): each
 *  step decodes one token of every running prompt, and a prompt may be added or cancelled between
 *  two steps.
 *
 *      const struct qkv_scheduler_options o = { .failed = failed }; // the caller's function
 *      qkv_scheduler_new(&s, generator, &o, &err);
 *      qkv_scheduler_add(s, &id, prompt, bytes, &options, &err);
 *      while (qkv_scheduler_prompts(s) && !qkv_scheduler_step(s, &err)) continue;
 */
#ifndef QKV_SCHEDULER_H
#define QKV_SCHEDULER_H

#include <qkv/generate.h>

QKV_BEGIN_DECLS

/** A scheduler.  Only one thread at a time may use it. */
typedef struct qkv_scheduler qkv_scheduler;

/** Options of qkv_scheduler_new; zero is the default of every member except failed. */
struct qkv_scheduler_options {
    int64_t items; /**< the most outputs that are decoded at once, at most 4096; 0: 8 */
    /** the most tokens of prompts that a step reads, so that a long prompt does not hold up the
     *  others; prompts share them equally; it affects no bit of an output; 0: 512 */
    int64_t step_tokens;
    /** called by qkv_scheduler_step when a prompt ends with an error, as qkv_generate returns it;
     *  the prompt is then removed, and the others are unchanged */
    void (*failed)(void *user, int64_t id, const qkv_error *err);
    void *user;
};

/** Makes a scheduler with the model, the tokenizer and the options of g, and a decoder of its own.
 *  g must stay open until the scheduler is freed.
 *  Returns: QKV_OK; QKV_ERR_USAGE (also: o->failed is NULL); QKV_ERR_LIMIT.  After an error *out is
 *           NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_scheduler_new(qkv_scheduler **out, qkv_generator *g,
                                                    const struct qkv_scheduler_options *o,
                                                    qkv_error *err);
QKV_API void qkv_scheduler_free(qkv_scheduler *s); /**< NULL is fine */

/** Adds a prompt to the queue, with the options of a call of qkv_generate for this prompt alone.
 *  prompt and all that o points to must be valid until the prompt has ended: after the call of
 *  o->output for the last of its n_best outputs, which may end in any order, or after the call of
 *  `failed`, or qkv_scheduler_cancel.  o->token and o->output are called by
 *  qkv_scheduler_step; a result other than 0 ends the prompt with QKV_ERR_INTERRUPTED.
 *  o->progress is ignored.
 *  Out:      *id identifies the prompt in this scheduler
 *  Returns:  QKV_OK; QKV_ERR_USAGE (an invalid option, which err names; beams); QKV_ERR_LIMIT
 *  Repeats:  an output has the bits that qkv_generate computes for the prompt alone, whatever the
 *            other prompts are and whenever they arrive */
QKV_API QKV_MUST_CHECK qkv_status qkv_scheduler_add(qkv_scheduler *s, int64_t *id,
                                                    const char *prompt, size_t bytes,
                                                    const struct qkv_generate_options *o,
                                                    qkv_error *err);
/** Removes a prompt and frees its places; no callback is called.  No effect for another id.  Must
 *  not be called by a callback. */
QKV_API void qkv_scheduler_cancel(qkv_scheduler *s, int64_t id);
/** Returns the number of prompts that wait or run. */
QKV_API int64_t qkv_scheduler_prompts(const qkv_scheduler *s);
/** Returns the number of outputs that could begin at once. */
QKV_API int64_t qkv_scheduler_idle(const qkv_scheduler *s);

/** Begins prompts that wait, in the order in which they were added, as far as there is space, and
 *  decodes one token of every output whose prompt was read.  A prompt of n tokens that is read
 *  together with k others is read in at most ceil(n / floor(step_tokens / (k + 1))) steps.  Nothing
 *  happens if there is no prompt.
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT: no output has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_scheduler_step(qkv_scheduler *s, qkv_error *err);

QKV_END_DECLS
#endif
