// SPDX-License-Identifier: MIT
// generation.c: prepares the settings that all prompts of a call share: checks the stop strings,
// tokenizes the prefix, and determines which tokens end an output.
#include "task/generate/generation.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static qkv_status tokenize_prefix(struct qkv_generation *g, qkv_error *err)
{
    const struct qkv_encode_options how = { .no_special = true, .strict = true };
    const char *text = g->options.prefix ? g->options.prefix : "";
    const bool forced = g->translates && g->config->forced_first >= 0;
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    if (*text)
        status = qkv_tokenizer_encode(g->tokenizer, &e, text, strlen(text), NULL, 0, &how, err);
    if (!status && !(g->prefix = qkv_alloc((size_t)e.count + 1, sizeof *g->prefix)))
        status = qkv_fail_memory(err, NULL);
    if (!status && forced) g->prefix[g->prefix_count++] = g->config->forced_first;
    for (int64_t i = 0; !status && i < e.count; i++) g->prefix[g->prefix_count++] = e.ids[i];
    qkv_encoding_free(&e);
    return status;
}

qkv_status qkv_generation_init(struct qkv_generation *g, qkv_error *err)
{
    g->width = qkv_max64(1, g->options.beams);
    g->draws = g->width > 1 ? 1 : qkv_max64(1, g->options.n_best);
    const qkv_status status =
        qkv_stop_strings_new(&g->stops, g->options.stop, g->options.stops, err);
    return status ? status : tokenize_prefix(g, err);
}

void qkv_generation_free(struct qkv_generation *g)
{
    qkv_stop_strings_free(&g->stops);
    qkv_free(g->prefix);
    g->prefix = NULL;
}

bool qkv_generation_ends(const struct qkv_generation *g, int32_t id)
{
    for (int64_t i = 0; i < g->config->end_count && !g->options.ignore_end; i++)
        if (g->config->ends[i] == id) return true;
    return false;
}

// Returns true if the last tokens of the history are the given n tokens.
static bool ends_with(const struct qkv_history *h, const int32_t *ids, int64_t n)
{
    return h->n >= n && !memcmp(h->ids + h->n - n, ids, (size_t)n * sizeof *ids);
}

void qkv_generation_suppress(const struct qkv_generation *g, float *logits,
                             const struct qkv_generation_step *at)
{
    const struct qkv_generation_config *c = g->config;
    for (int64_t i = 0; i < c->suppressed_count; i++) logits[c->suppressed[i]] = -INFINITY;
    for (int64_t i = 0; i < c->end_count; i++)
        if (at->tokens < at->least) logits[c->ends[i]] = -INFINITY;
    for (int64_t i = 0; i < c->banned_count; i++) {
        const int32_t *word = c->banned + c->banned_offsets[i];
        const int64_t n = c->banned_offsets[i + 1] - c->banned_offsets[i] - 1;
        if (ends_with(at->history, word, n)) logits[word[n]] = -INFINITY;
    }
    if (at->tokens + 1 != at->most || c->forced_last < 0 || g->options.ignore_end) return;
    for (int64_t i = 0; i < g->source->V; i++) logits[i] = -INFINITY;
    logits[c->forced_last] = 0;
}

qkv_status qkv_generation_interrupted(const struct qkv_generation *g, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "stopped after %" PRId64 " prompts",
                    g->options.first + g->delivered / g->draws);
}

qkv_status qkv_generation_no_token(int64_t tokens, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "no token can be chosen after %" PRId64
                    " tokens, expected a token with a finite logit after penalties, biases and "
                    "suppressed tokens, found none",
                    tokens);
}

qkv_status qkv_generation_not_finite(int64_t tokens, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                    "logits of the model are not finite after %" PRId64
                    " tokens, expected finite numbers, found NaN or infinity",
                    tokens);
}
