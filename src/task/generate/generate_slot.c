// SPDX-License-Identifier: MIT
// generate_slot.c: decodes one prompt at a time by sampling or by beam search, and emits each token
// when it is chosen.
#include "task/generate/generate_slot.h"
#include <math.h>
#include <string.h>

// ---- memory -------------------------------------------------------------------------------------
bool qkv_choice_scratch_new(struct qkv_choice_scratch *c, const struct qkv_generation *g)
{
    const size_t V = (size_t)g->source->V;
    return qkv_candidates_new(&c->candidates, g->source->V) &&
           (!g->options.logprobs || (c->raw = qkv_alloc(V, sizeof *c->raw))) &&
           (g->width == 1 || (c->top = qkv_alloc((size_t)qkv_beam_candidates(g), sizeof *c->top)));
}

void qkv_choice_scratch_free(struct qkv_choice_scratch *c)
{
    qkv_candidates_free(&c->candidates);
    qkv_free(c->raw);
    qkv_free(c->top);
}

bool qkv_slot_init(struct qkv_slot *s, const struct qkv_generation *g, int64_t item)
{
    s->g = g;
    s->item = item;
    s->top = qkv_alloc((size_t)g->options.logprobs + 1, sizeof *s->top);
    return s->top != NULL;
}

void qkv_slot_free(struct qkv_slot *s)
{
    qkv_prompt_tokens_free(&s->tokens);
    qkv_logged_prompt_free(&s->logged);
    qkv_output_free(&s->output);
    qkv_history_free(&s->history);
    qkv_beam_free(&s->beam);
    qkv_free(s->top);
}

// ---- emitting tokens ---------------------------------------------------------------------------
// Emits a token to the caller's callback, with the text that has become final since the last call.
// id -1: no token, only text.
static qkv_status emit_token(struct qkv_slot *s, int64_t position, int32_t id, float logprob,
                             const struct qkv_token_value *top, qkv_error *err)
{
    const struct qkv_generate_options *o = &s->g->options;
    struct qkv_generated_token seen = { .prompt = s->prompt,
                                        .rank = s->rank,
                                        .position = position,
                                        .id = id,
                                        .logprob = logprob,
                                        .top = top,
                                        .tops = top ? o->logprobs : 0,
                                        .offset = id >= 0 ? s->output.characters : 0 };
    seen.bytes = qkv_output_emit(&s->output, &seen.text);
    if (o->token && (id >= 0 || seen.bytes) && o->token(o->user, &seen))
        return qkv_generation_interrupted(s->g, err);
    return QKV_OK;
}

// Begins the output with the tokens of the prefix, with which every output begins.
static qkv_status begin_output(struct qkv_slot *s, qkv_error *err)
{
    const struct qkv_prompt_tokens *p = &s->tokens;
    const int64_t prompt = p->count - p->prefix;
    qkv_status status =
        qkv_output_begin(&s->output, s->g, p->ids, s->g->translates ? 0 : prompt, err);
    for (int64_t i = 0; !status && i < p->prefix; i++) {
        const struct qkv_output_token t = { .id = p->ids[prompt + i],
                                            .logprob = NAN,
                                            .forced = true };
        status = qkv_output_add(&s->output, &t, err);
        if (!status && s->g->width == 1) status = emit_token(s, i, t.id, NAN, NULL, err);
    }
    return status;
}

// ---- a job --------------------------------------------------------------------------------------
static qkv_status begin_sampling(struct qkv_slot *s, qkv_error *err)
{
    const struct qkv_prompt_tokens *p = &s->tokens;
    const int64_t prompt = p->count - p->prefix;
    bool fits =
        qkv_history_begin(&s->history, &s->g->options.sampling, s->g->source->V, p->ids, prompt);
    for (int64_t i = prompt; fits && i < p->count; i++)
        fits = qkv_history_add(&s->history, p->ids[i]);
    return fits ? begin_output(s, err) : qkv_fail_memory(err, NULL);
}

qkv_status qkv_slot_begin(struct qkv_slot *s, int64_t job, struct qkv_prompt_tokens *tokens,
                          int64_t source_item, qkv_error *err)
{
    const struct qkv_logits_source *source = s->g->source;
    const struct qkv_prompt_tokens *p = &s->tokens, old = s->tokens;
    s->tokens = *tokens;
    *tokens = old;
    s->job = job;
    s->prompt = job / s->g->draws;
    s->rank = job % s->g->draws;
    s->started = false;
    s->count = 0;
    qkv_logged_prompt_begin(&s->logged, s->g, p, s->prompt, s->item);
    qkv_status status = s->g->translates ? source->copy(source->ctx, &s->item, &source_item, 1, err)
                                         : source->clear(source->ctx, s->item);
    if (!status && s->g->width == 1) status = begin_sampling(s, err);
    if (!status && s->g->width > 1 && !qkv_beam_begin(&s->beam, s->g, p, s->item))
        status = qkv_fail_memory(err, NULL);
    s->active = !status;
    return status;
}

int64_t qkv_slot_rows(const struct qkv_slot *s)
{
    if (!s->active) return 0;
    return s->started && s->g->width > 1 ? s->beam.running : 1;
}

int64_t qkv_slot_tokens(const struct qkv_slot *s, int64_t row, const int32_t **ids)
{
    if (!s->started) {
        *ids = s->tokens.ids;
        return s->tokens.count;
    }
    *ids =
        s->g->width > 1 ? &s->beam.node[s->beam.last[row]].id : &s->output.ids[s->output.count - 1];
    return 1;
}

bool qkv_slot_logs_prompt(const struct qkv_slot *s)
{
    return s->active && !s->started && s->rank == 0 && qkv_logs_prompts(s->g);
}

qkv_status qkv_slot_read_logged(struct qkv_slot *s, int64_t at, int64_t n, float *last,
                                qkv_error *err)
{
    return qkv_logged_prompt_feed(&s->logged, at, n, last, err);
}

// ---- sampling ----------------------------------------------------------------------------------
static void sample(struct qkv_slot *s, float *x, struct qkv_choice_scratch *c)
{
    const struct qkv_generate_options *o = &s->g->options;
    const int64_t V = s->g->source->V;
    double sum = 0;
    s->id = -1;
    s->logprob = NAN;
    s->broken = false;
    if (!s->tokens.most) return; // only the prompt is read
    s->broken = qkv_sampling_likeliest(x, V) < 0;
    if (s->broken) return;
    if (o->logprobs) {
        memcpy(c->raw, x, (size_t)V * sizeof *c->raw);
        sum = qkv_sampling_log_sum(c->raw, V);
        qkv_sampling_top(s->top, o->logprobs, c->raw, V, sum);
    }
    qkv_history_penalise(x, &s->history);
    const struct qkv_generation_step at = { s->count, s->tokens.least, s->tokens.most,
                                            &s->history };
    qkv_generation_suppress(s->g, x, &at);
    if (o->sampling.temperature == 0) {
        s->id = qkv_sampling_likeliest(x, V);
    } else {
        qkv_sampling_candidates(&c->candidates, x, V, &o->sampling);
        const uint64_t sequence = (uint64_t)o->first * (uint64_t)s->g->draws + (uint64_t)s->job;
        s->id = qkv_sampling_draw(&c->candidates, o->sampling.seed, sequence, (uint64_t)s->count);
    }
    if (o->logprobs && s->id >= 0) s->logprob = (float)((double)c->raw[s->id] - sum);
}

void qkv_slot_choose(struct qkv_slot *s, int64_t row, float *logits, struct qkv_choice_scratch *c)
{
    if (s->g->width > 1)
        qkv_beam_expand(&s->beam, row, logits, c->raw, c->top);
    else
        sample(s, logits, c);
}

static qkv_status finish_job(struct qkv_slot *s, enum qkv_ending ending, int32_t end)
{
    s->active = false;
    s->ending = ending;
    s->end = end;
    return QKV_OK;
}

static qkv_status accept_end(struct qkv_slot *s, qkv_error *err)
{
    qkv_status status = qkv_output_end(&s->output, err);
    if (!status) status = emit_token(s, s->output.count, -1, NAN, NULL, err);
    if (status) return status;
    return s->output.text.stopped ? finish_job(s, QKV_END_STOP, -1)
                                  : finish_job(s, QKV_END_TOKEN, s->id);
}

static qkv_status accept_sample(struct qkv_slot *s, qkv_error *err)
{
    const struct qkv_prompt_tokens *p = &s->tokens;
    if (!p->most) {
        const qkv_status status = qkv_output_end(&s->output, err);
        return status ? status : finish_job(s, QKV_END_TOKENS, -1);
    }
    if (s->id < 0)
        return (s->broken ? qkv_generation_not_finite
                          : qkv_generation_no_token)(p->count + s->count, err);
    if (qkv_generation_ends(s->g, s->id)) return accept_end(s, err);
    if (!qkv_history_add(&s->history, s->id)) return qkv_fail_memory(err, NULL);
    const struct qkv_output_token t = { .id = s->id,
                                        .logprob = s->logprob,
                                        .last = s->count + 1 == p->most };
    qkv_status status = qkv_output_add(&s->output, &t, err);
    s->count++;
    if (!status)
        status = emit_token(s, s->output.count - 1, s->id, s->logprob,
                            s->g->options.logprobs ? s->top : NULL, err);
    if (status) return status;
    if (s->output.text.stopped) return finish_job(s, QKV_END_STOP, -1);
    if (s->count < p->most) return QKV_OK;
    return finish_job(s, p->limited ? QKV_END_POSITIONS : QKV_END_TOKENS, -1);
}

// ---- beam search -------------------------------------------------------------------------------
static qkv_status accept_beam(struct qkv_slot *s, qkv_error *err)
{
    const struct qkv_logits_source *source = s->g->source;
    struct qkv_beam_search *b = &s->beam;
    const qkv_status status = qkv_beam_step(b, err);
    s->active = !status && !b->over;
    if (!s->active || !b->moves) return status;
    return source->copy(source->ctx, b->to, b->from, b->moves, err);
}

// Builds the text and the token list of a finished hypothesis.
static qkv_status build_hypothesis(struct qkv_slot *s, const struct qkv_beam_end *e, qkv_error *err)
{
    const size_t n = (size_t)e->length;
    int32_t *ids = qkv_alloc(n + 1, sizeof *ids);
    float *logprobs = qkv_alloc(n + 1, sizeof *logprobs);
    qkv_status status = ids && logprobs ? begin_output(s, err) : qkv_fail_memory(err, NULL);
    if (!status) qkv_beam_ids(&s->beam, e->node, e->length, ids, logprobs);
    for (int64_t i = 0; !status && i < e->length; i++) {
        const struct qkv_output_token t = { .id = ids[i], .logprob = logprobs[i] };
        status = qkv_output_add(&s->output, &t, err);
    }
    if (!status) status = qkv_output_end(&s->output, err);
    qkv_free(ids);
    qkv_free(logprobs);
    return status;
}

// ---- steps and outputs --------------------------------------------------------------------------
qkv_status qkv_slot_accept(struct qkv_slot *s, qkv_error *err)
{
    s->started = true;
    return s->g->width > 1 ? accept_beam(s, err) : accept_sample(s, err);
}

int64_t qkv_slot_outputs(const struct qkv_slot *s)
{
    return s->g->width > 1 ? qkv_beam_outputs(&s->beam) : 1;
}

qkv_status qkv_slot_output(struct qkv_slot *s, int64_t i, struct qkv_generated *out, qkv_error *err)
{
    const struct qkv_beam_end *e = s->g->width > 1 ? &s->beam.done[i] : NULL;
    const struct qkv_prompt_tokens *p = &s->tokens;
    const qkv_status status = e ? build_hypothesis(s, e, err) : QKV_OK;
    const struct qkv_output_builder *b = &s->output;
    *out = (struct qkv_generated){ .prompt = s->prompt,
                                   .rank = e ? i : s->rank,
                                   .text = b->text.at ? b->text.at : "",
                                   .bytes = (size_t)b->text.n,
                                   .ids = b->ids,
                                   .logprobs = b->logprobs,
                                   .tokens = b->count,
                                   .ending = e ? e->ending : s->ending,
                                   .end = e ? e->end : s->end,
                                   .score = e ? e->score : NAN,
                                   .prompt_tokens =
                                       s->g->translates ? p->source_count : p->count - p->prefix,
                                   .cut = p->cut,
                                   .replaced = p->replaced,
                                   .replaced_at = p->replaced_at,
                                   .dropped = p->dropped,
                                   .dropped_at = p->dropped_at,
                                   .source_ids = s->g->translates ? p->source_ids : NULL,
                                   .source_tokens = p->source_count };
    return status;
}
