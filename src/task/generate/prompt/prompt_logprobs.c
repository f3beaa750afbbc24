// SPDX-License-Identifier: MIT
// prompt_logprobs.c: reads a prompt with logits after every token, in pieces that bound the memory
// of the logits, and emits its tokens with their log-probabilities.
#include "task/generate/prompt/prompt_logprobs.h"
#include "task/generate/sampling.h"
#include <math.h>
#include <string.h>

enum { PIECE_TOKENS = 64, PIECE_BYTES = 1 << 24 }; // the most tokens, and bytes of logits

// Tokens that are fed together, and what follows each of them.
struct piece {
    const struct qkv_generation *g;
    const int32_t *next; // [scored] the token that follows
    int64_t scored;      // number of tokens that a token of the prompt follows
    float *logits;       // [tokens][V]
    float *logprob;      // [tokens] of the token that follows; NaN: the logits are not finite
    struct qkv_token_value *top; // [tokens][options.logprobs]
};

bool qkv_logs_prompts(const struct qkv_generation *g)
{
    return g->options.prompt_token && g->options.logprobs && !g->translates;
}

void qkv_logged_prompt_free(struct qkv_logged_prompt *p)
{
    qkv_decode_stream_free(p->stream);
    p->stream = NULL;
}

void qkv_logged_prompt_begin(struct qkv_logged_prompt *p, const struct qkv_generation *g,
                             const struct qkv_prompt_tokens *tokens, int64_t prompt, int64_t item)
{
    const qkv_encoding *e = &tokens->encoding;
    qkv_logged_prompt_free(p);
    *p = (struct qkv_logged_prompt){ .g = g, .tokens = tokens, .prompt = prompt, .item = item };
    // a prompt that was cut begins with the first of its tokens that was left
    for (int64_t i = 0; tokens->cut && i < e->count && !p->end; i++) p->end = e->begin[i];
}

// Returns the number of characters of a text before its token i. A token begins where the previous
// one ends, so that white space which a tokenizer leaves out of ranges belongs to the token after
// it, or at its own beginning if both share a character.
static int64_t offset_of(struct qkv_logged_prompt *p, int64_t i)
{
    const qkv_encoding *e = &p->tokens->encoding;
    const char *text = p->g->prompts[p->prompt];
    const bool placed = i < e->count && e->end[i] > e->begin[i];
    const int64_t at = placed ? qkv_min64(e->begin[i], p->end) : p->end;
    for (; p->counted < at; p->counted++) p->characters += !qkv_utf8_continues(text[p->counted]);
    if (placed) p->end = qkv_max64(p->end, e->end[i]);
    return p->characters;
}

// Counts the characters of the text before token i: *offset.
static qkv_status find_offset(struct qkv_logged_prompt *p, int64_t i, int64_t *offset,
                              qkv_error *err)
{
    const char *text;
    size_t bytes;
    *offset = p->characters;
    if (!p->g->options.prompt_ids) {
        *offset = offset_of(p, i);
        return QKV_OK;
    }
    qkv_status status =
        p->stream ? QKV_OK : qkv_decode_stream_new(&p->stream, p->g->tokenizer, true, err);
    if (!status) status = qkv_decode_stream_put(p->stream, p->tokens->ids[i], &text, &bytes, err);
    for (size_t k = 0; !status && k < bytes; k++) p->characters += !qkv_utf8_continues(text[k]);
    return status;
}

static qkv_status emit(struct qkv_logged_prompt *p, int64_t i, float logprob,
                       const struct qkv_token_value *top, qkv_error *err)
{
    const struct qkv_generate_options *o = &p->g->options;
    int64_t offset;
    const qkv_status status = find_offset(p, i, &offset, err);
    if (status) return status;
    const struct qkv_generated_token t = { .prompt = p->prompt,
                                           .position = i,
                                           .id = p->tokens->ids[i],
                                           .logprob = logprob,
                                           .top = top,
                                           .tops = top ? o->logprobs : 0,
                                           .text = "",
                                           .offset = offset };
    return o->prompt_token(o->user, &t) ? qkv_generation_interrupted(p->g, err) : QKV_OK;
}

static void score(void *ctx, int64_t i, int thread)
{
    const struct piece *s = ctx;
    const int64_t V = s->g->source->V, tops = s->g->options.logprobs;
    const float *x = s->logits + i * V;
    (void)thread;
    s->logprob[i] = NAN;
    if (qkv_sampling_likeliest(x, V) < 0) return;
    const double sum = qkv_sampling_log_sum(x, V);
    qkv_sampling_top(s->top + i * tops, tops, x, V, sum);
    s->logprob[i] = (float)((double)x[s->next[i]] - sum);
}

static qkv_status feed_piece(struct qkv_logged_prompt *p, struct piece *s, int64_t at, int64_t n,
                             qkv_error *err)
{
    const struct qkv_logits_source *source = p->g->source;
    const int64_t offsets[] = { 0, n }, prompt = p->tokens->count - p->tokens->prefix;
    const struct qkv_decoder_tokens t = {
        .n = 1, .items = &p->item, .offsets = offsets, .ids = p->tokens->ids + at, .every = true
    };
    qkv_status status = at ? QKV_OK : emit(p, 0, NAN, NULL, err);
    if (!status) status = source->feed(source->ctx, s->logits, &t, err);
    if (status) return status;
    s->next = p->tokens->ids + at + 1;
    s->scored = qkv_max64(0, qkv_min64(n, prompt - 1 - at));
    qkv_parallel_for(s->scored, score, s);
    for (int64_t i = 0; i < s->scored && !status; i++) {
        if (isnan(s->logprob[i])) return qkv_generation_not_finite(at + i + 1, err);
        status = emit(p, at + i + 1, s->logprob[i], s->top + i * p->g->options.logprobs, err);
    }
    return status;
}

qkv_status qkv_logged_prompt_feed(struct qkv_logged_prompt *p, int64_t at, int64_t n, float *last,
                                  qkv_error *err)
{
    const size_t V = (size_t)p->g->source->V, row = V * sizeof(float);
    const int64_t fit = qkv_max64(1, qkv_min64(PIECE_TOKENS, (int64_t)(PIECE_BYTES / row)));
    const size_t most = (size_t)qkv_min64(n, fit);
    struct piece s = { .g = p->g };
    s.logits = qkv_alloc(most * V, sizeof *s.logits);
    s.logprob = qkv_alloc(most, sizeof *s.logprob);
    s.top = qkv_alloc(most * (size_t)p->g->options.logprobs, sizeof *s.top);
    qkv_status status = s.logits && s.logprob && s.top ? QKV_OK : qkv_fail_memory(err, NULL);
    for (int64_t done = 0; done < n && !status;) {
        const int64_t tokens = qkv_min64(n - done, (int64_t)most);
        status = feed_piece(p, &s, at + done, tokens, err);
        done += tokens;
        if (!status && done == n) memcpy(last, s.logits + (size_t)(tokens - 1) * V, row);
    }
    qkv_free(s.logits);
    qkv_free(s.logprob);
    qkv_free(s.top);
    return status;
}
