// SPDX-License-Identifier: MIT
// token_history.c: counts the tokens of a sequence, indexes its n-grams, and applies the penalties
// that depend on them.
#include "task/generate/token_history.h"
#include <math.h>
#include <string.h>

enum { CHAINS_LEAST = 64 };

static bool needs_counts(const struct qkv_sampling *s)
{
    return (s->repetition != 0 && s->repetition != 1) || s->presence != 0 || s->frequency != 0;
}

// Returns the index of the hash chain for the n - 1 tokens before position `at`.
static int64_t chain_of(const struct qkv_history *h, int64_t at)
{
    uint64_t x = 0xcbf29ce484222325u;
    for (int64_t i = at - h->how->no_repeat_ngram + 1; i < at; i++)
        x = (x ^ (uint32_t)h->ids[i]) * 0x100000001b3u;
    return (int64_t)((x ^ x >> 29) & (uint64_t)(h->chains - 1));
}

static void link_position(struct qkv_history *h, int64_t at)
{
    int64_t *head = &h->chain[chain_of(h, at)];
    h->older[at] = *head;
    *head = at;
}

// Enlarges the hash table so that there are at least as many chains as tokens, which keeps the
// chains short.
static bool grow_chains(struct qkv_history *h)
{
    const int64_t gram = h->how->no_repeat_ngram, wanted = h->chains ? 2 * h->chains : CHAINS_LEAST;
    int64_t *chain = qkv_alloc((size_t)wanted, sizeof *chain);
    if (!chain) return false;
    memset(chain, -1, (size_t)wanted * sizeof *chain);
    qkv_free(h->chain);
    h->chain = chain;
    h->chains = wanted;
    for (int64_t i = gram - 1; i < h->n; i++) link_position(h, i);
    return true;
}

static bool append_token(struct qkv_history *h, int32_t id, bool output)
{
    const int64_t gram = h->how->no_repeat_ngram;
    if (!qkv_reserve((void **)&h->ids, &h->ids_capacity, h->n + 1, sizeof *h->ids)) return false;
    h->ids[h->n] = id;
    if (gram) {
        if (!qkv_reserve((void **)&h->older, &h->older_capacity, h->n + 1, sizeof *h->older))
            return false;
        if (h->n >= h->chains && !grow_chains(h)) return false;
        if (h->n >= gram - 1) link_position(h, h->n);
    }
    h->n++;
    if (!h->place) return true;
    if (!h->place[id]) {
        if (!qkv_reserve((void **)&h->counted, &h->counted_capacity, h->counted_n + 1,
                         sizeof *h->counted))
            return false;
        h->counted[h->counted_n++] = (struct qkv_counted_token){ .id = id };
        h->place[id] = (int32_t)h->counted_n;
    }
    h->counted[h->place[id] - 1].times += output;
    return true;
}

bool qkv_history_begin(struct qkv_history *h, const struct qkv_sampling *how, int64_t V,
                       const int32_t *prompt, int64_t n)
{
    for (int64_t i = 0; i < h->counted_n; i++) h->place[h->counted[i].id] = 0;
    if (h->chain) memset(h->chain, -1, (size_t)h->chains * sizeof *h->chain);
    h->how = how;
    h->V = V;
    h->n = h->counted_n = 0;
    if (needs_counts(how) && !h->place && !(h->place = qkv_alloc_zero((size_t)V, sizeof *h->place)))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!append_token(h, prompt[i], false)) return false;
    return true;
}

bool qkv_history_add(struct qkv_history *h, int32_t id)
{
    return append_token(h, id, true);
}

void qkv_history_free(struct qkv_history *h)
{
    qkv_free(h->ids);
    qkv_free(h->place);
    qkv_free(h->counted);
    qkv_free(h->chain);
    qkv_free(h->older);
    *h = (struct qkv_history){ 0 };
}

// Returns true if the n - 1 tokens before position `at` equal the last n - 1 tokens of the history.
static bool repeats_ngram(const struct qkv_history *h, int64_t at)
{
    const int64_t before = h->how->no_repeat_ngram - 1;
    return !memcmp(h->ids + at - before, h->ids + h->n - before, (size_t)before * sizeof *h->ids);
}

void qkv_history_penalise(float *x, const struct qkv_history *h)
{
    const struct qkv_sampling *s = h->how;
    const float r = s->repetition == 0 ? 1 : (float)s->repetition;
    const float presence = (float)s->presence, frequency = (float)s->frequency;
    for (int64_t i = 0; i < s->biases; i++) x[s->bias[i].id] += s->bias[i].value;
    for (int64_t i = 0; h->place && i < h->counted_n; i++) {
        float *at = &x[h->counted[i].id];
        *at = *at < 0 ? *at * r : *at / r;
        if (h->counted[i].times) *at -= presence + frequency * (float)h->counted[i].times;
    }
    if (!s->no_repeat_ngram || h->n < s->no_repeat_ngram) return;
    for (int64_t at = h->chain[chain_of(h, h->n)]; at >= 0; at = h->older[at])
        if (repeats_ngram(h, at)) x[h->ids[at]] = -INFINITY;
}
