// SPDX-License-Identifier: MIT
// prompt_tokens.c: tokenizes a prompt, truncates it to the model's positions if the caller allows
// it, and appends the prefix, the tokens with which every output begins.
#include "task/generate/prompt/prompt_tokens.h"
#include <inttypes.h>
#include <string.h>

enum {
    DEFAULT_TOKENS = 256, // maximum tokens of an output if the caller does not set max_tokens
    // check_beginning() first tokenizes 64 bytes of a prompt per allowed token
    BYTES_PER_TOKEN = 64,
    BYTES_AT_LEAST = 4096, // but at least 4096 bytes
};

void qkv_prompt_tokens_free(struct qkv_prompt_tokens *p)
{
    qkv_free(p->ids);
    qkv_free(p->source_ids);
    qkv_encoding_free(&p->encoding);
}

static qkv_status fail_too_long(const struct qkv_generation *g, int64_t most, const char *more,
                                int64_t found, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "%s too long, expected at most %" PRId64 " tokens, found %s%" PRId64,
                    g->translates ? "source" : "prompt", most, more, found);
}

// Tokenizes longer and longer beginnings of a long prompt. Stops with an error as soon as a
// beginning has too many tokens, so that the rest is not tokenized in vain.
static qkv_status check_beginning(const struct qkv_generation *g, qkv_encoding *e, const char *text,
                                  size_t bytes, int64_t most, const struct qkv_encode_options *how,
                                  qkv_error *err)
{
    for (size_t n = (size_t)most * BYTES_PER_TOKEN + BYTES_AT_LEAST; n < bytes / 2; n *= 4) {
        while (n < bytes && qkv_utf8_continues(text[n])) n++;
        const qkv_status status = qkv_tokenizer_encode(g->tokenizer, e, text, n, NULL, 0, how, err);
        if (status) return status;
        if (e->count > most) return fail_too_long(g, most, "more than ", e->count, err);
    }
    return QKV_OK;
}

// Tokenizes a prompt into p->encoding. A prompt of more than `most` tokens is an error or, with
// options.truncate, is cut to `capacity` tokens.
static qkv_status encode_prompt(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                                int64_t prompt, int64_t most, int64_t capacity, qkv_error *err)
{
    const char *text = g->prompts[prompt];
    const size_t bytes = g->bytes ? g->bytes[prompt] : strlen(text);
    struct qkv_encode_options how = { .strict = g->options.strict,
                                      .no_special = g->options.no_special && !g->translates,
                                      .no_template = g->options.no_template && !g->translates };
    qkv_encoding *e = &p->encoding;
    qkv_status status = QKV_OK;
    if (!g->options.truncate && most < INT64_MAX / (4 * BYTES_PER_TOKEN))
        status = check_beginning(g, e, text, bytes, most, &how, err);
    if (!status) status = qkv_tokenizer_encode(g->tokenizer, e, text, bytes, NULL, 0, &how, err);
    if (!status && e->count > most) {
        if (!g->options.truncate) return fail_too_long(g, most, "", e->count, err);
        how.max_length = capacity;
        how.truncate = true;
        how.cut_left = !g->translates;
        status = qkv_tokenizer_encode(g->tokenizer, e, text, bytes, NULL, 0, &how, err);
    }
    p->cut = e->cut;
    p->replaced = e->replaced;
    p->replaced_at = e->replaced_at;
    p->dropped = e->dropped;
    p->dropped_at = e->dropped_at;
    return status;
}

static bool append_ids(struct qkv_prompt_tokens *p, const int32_t *ids, int64_t n)
{
    if (!qkv_reserve((void **)&p->ids, &p->capacity, p->count + n + 1, sizeof *p->ids))
        return false;
    if (n) memcpy(p->ids + p->count, ids, (size_t)n * sizeof *ids);
    p->count += n;
    return true;
}

// Takes the token ids that the caller gives instead of a text, as encode_prompt() takes a text.
static qkv_status take_ids(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                           int64_t most, int64_t capacity, qkv_error *err)
{
    const struct qkv_generate_options *o = &g->options;
    const int64_t n = o->prompt_id_count;
    p->encoding.count = 0;
    p->replaced = p->replaced_at = p->dropped = p->dropped_at = 0;
    p->cut = n > most ? n - capacity : 0;
    if (p->cut && !o->truncate) return fail_too_long(g, most, "", n, err);
    for (int64_t i = 0; i < n; i++)
        if (o->prompt_ids[i] < 0 || o->prompt_ids[i] >= g->source->V)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid token id in the prompt, expected 0 to %" PRId64
                            ", found %" PRId32,
                            g->source->V - 1, o->prompt_ids[i]);
    return append_ids(p, o->prompt_ids + p->cut, n - p->cut) ? QKV_OK : qkv_fail_memory(err, NULL);
}

// Returns how many tokens an output may have: what the caller wants, else the limits of
// generation_config.json, which count `before` tokens (a limit of the length) or the forced first
// token (a limit of new tokens).
static int64_t wanted_tokens(const struct qkv_generation *g, int64_t before)
{
    const struct qkv_generation_config *c = g->config;
    const int64_t forced = g->translates && c->forced_first >= 0;
    if (g->options.max_tokens) return qkv_max64(0, g->options.max_tokens);
    if (c->max_new) return qkv_max64(1, c->max_new - forced);
    return c->max_length ? qkv_max64(1, c->max_length - before) : DEFAULT_TOKENS;
}

// Returns how many tokens an output must have before it may end, counted as in wanted_tokens.
static int64_t least_tokens(const struct qkv_generation *g, int64_t before)
{
    const struct qkv_generation_config *c = g->config;
    const int64_t forced = g->translates && c->forced_first >= 0;
    if (g->options.min_tokens) return qkv_max64(0, g->options.min_tokens);
    return qkv_max64(0, c->min_new ? c->min_new - forced : c->min_length - before);
}

// Collects the tokens that the decoder reads first: the prompt (in a translation, the start token),
// then the prefix.
static qkv_status tokenize_decoder(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                                   int64_t prompt, qkv_error *err)
{
    const int64_t positions = g->source->positions, first = g->options.max_tokens >= 0;
    const int64_t most = positions - first - g->prefix_count; // a position for the first token
    const int32_t start = g->config->start;
    p->count = p->source_count = 0;
    if (most < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "prefix too long, expected at most %" PRId64 " tokens, found %" PRId64,
                        positions - first - 1, g->prefix_count);
    if (!g->translates) {
        const int64_t left = qkv_min64(wanted_tokens(g, 0), positions / 2) - first;
        const int64_t capacity = qkv_max64(1, most - left);
        const qkv_status status = g->options.prompt_ids
                                      ? take_ids(p, g, most, capacity, err)
                                      : encode_prompt(p, g, prompt, most, capacity, err);
        if (status) return status;
        if (!append_ids(p, p->encoding.ids, p->encoding.count)) return qkv_fail_memory(err, NULL);
    }
    if (!p->count) { // a translation, or an empty prompt
        if (start < 0)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "prompt is empty, expected text, since the model has no start token");
        if (!append_ids(p, &start, 1)) return qkv_fail_memory(err, NULL);
    }
    if (!append_ids(p, g->prefix, g->prefix_count)) return qkv_fail_memory(err, NULL);
    p->prefix = g->prefix_count;
    const int64_t wanted = wanted_tokens(g, p->count);
    p->most = qkv_min64(wanted, positions - p->count);
    p->least = least_tokens(g, p->count);
    p->limited = p->most < wanted;
    return QKV_OK;
}

// Finds the source ids of a translation: the caller's ids, or the tokens of the source text.
static qkv_status find_source_ids(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                                  int64_t prompt, const int32_t **ids, int64_t *n, qkv_error *err)
{
    const int64_t most = g->config->source_positions;
    if (!g->source_ids) {
        const qkv_status status = encode_prompt(p, g, prompt, most, most, err);
        *ids = p->encoding.ids;
        *n = p->encoding.count;
        return status;
    }
    *ids = g->source_ids + g->source_offsets[prompt];
    *n = g->source_offsets[prompt + 1] - g->source_offsets[prompt];
    return *n > most ? fail_too_long(g, most, "", *n, err) : QKV_OK;
}

static qkv_status tokenize_source(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                                  int64_t prompt, qkv_error *err)
{
    const int32_t *ids = NULL;
    int64_t n = 0;
    const qkv_status status = find_source_ids(p, g, prompt, &ids, &n, err);
    if (status) return status;
    if (!n) return qkv_fail(err, QKV_ERR_USAGE, NULL, "source is empty, expected text");
    if (!qkv_reserve((void **)&p->source_ids, &p->source_capacity, n, sizeof *p->source_ids))
        return qkv_fail_memory(err, NULL);
    memcpy(p->source_ids, ids, (size_t)n * sizeof *p->source_ids);
    p->source_count = n;
    return QKV_OK;
}

qkv_status qkv_prompt_tokenize(struct qkv_prompt_tokens *p, const struct qkv_generation *g,
                               int64_t prompt, qkv_error *err)
{
    const qkv_status status = tokenize_decoder(p, g, prompt, err);
    return status || !g->translates ? status : tokenize_source(p, g, prompt, err);
}
