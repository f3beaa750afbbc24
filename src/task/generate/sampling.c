// SPDX-License-Identifier: MIT
// sampling.c: chooses the next token from the logits of a vocabulary, in linear time, without
// sorting.
//
// top_k and top_p keep every token whose logit reaches a threshold. The threshold is found as in a
// radix sort: the tokens are binned by one digit of their logits at a time, from the highest digit,
// and only the bin that contains the threshold is examined further. top_k adds up counts, top_p
// adds up probabilities. The random draw visits the tokens in the order of their ids.
//
// Holtzman et al. 2020 (arXiv 1904.09751): top_p. Nguyen et al. 2024 (arXiv 2407.01082): min_p.
// Keskar et al. 2019 (arXiv 1909.05858): repetition penalty.
#include "task/generate/sampling.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT = 8, BINS = 1 << DIGIT };

// ---- the options --------------------------------------------------------------------------------
static qkv_status out_of_range(qkv_error *err, const char *name, const char *range, double found)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "%s is out of range, expected %s, found %g", name,
                    range, found);
}

qkv_status qkv_sampling_check(const struct qkv_sampling *s, int64_t V, qkv_error *err)
{
    if (!s || V < 0 || s->biases < 0 || (s->biases && !s->bias))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_sampling_check: expected sampling options, found NULL");
    if (!(s->temperature >= 0 && s->temperature <= 100))
        return out_of_range(err, "temperature", "0 to 100", s->temperature);
    if (s->top_k < 0)
        return out_of_range(err, "top_k", "0 (all) or a number of tokens", (double)s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return out_of_range(err, "top_p", "a probability above 0, up to 1", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return out_of_range(err, "min_p", "a probability of 0 to 1", s->min_p);
    // a logit divided by a smaller number could overflow
    if (!(s->repetition == 0 || (s->repetition >= 1e-30 && s->repetition <= 100)))
        return out_of_range(err, "repetition", "1e-30 to 100", s->repetition);
    if (!(fabs(s->presence) <= 100))
        return out_of_range(err, "presence", "-100 to 100", s->presence);
    if (!(fabs(s->frequency) <= 100))
        return out_of_range(err, "frequency", "-100 to 100", s->frequency);
    if (s->no_repeat_ngram < 0)
        return out_of_range(err, "no_repeat_ngram", "0 (off) or a number of tokens",
                            (double)s->no_repeat_ngram);
    for (int64_t i = 0; i < s->biases; i++) {
        if (s->bias[i].id < 0 || (V && s->bias[i].id >= V))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid bias of token %" PRId32 ", expected a token of 0 to %" PRId64,
                            s->bias[i].id, V ? V - 1 : INT32_MAX);
        if (!(s->bias[i].value < INFINITY))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid bias of token %" PRId32
                            ", expected a number or -inf, found %g",
                            s->bias[i].id, (double)s->bias[i].value);
    }
    return QKV_OK;
}

// ---- selection without sorting ------------------------------------------------------------------
// Maps a float to an integer with the same order; -0 and 0 map to the same integer.
static uint32_t key_of(float x)
{
    uint32_t u;
    x += 0.0F; // -0 becomes 0
    memcpy(&u, &x, sizeof u);
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

static float float_of(uint32_t key)
{
    const uint32_t u = key ^ (key >> 31 ? 0x80000000u : 0xffffffffu);
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

// Returns the largest t such that the elements of x[n] that are at least t have a total weight of
// at least `want`; if all elements together weigh less, returns the smallest element. p[n] are the
// weights; NULL: each weight is 1. *above: the total weight of the elements larger than t.
static float threshold(double *above, const float *x, const double *p, int64_t n, double want)
{
    uint32_t prefix = 0, mask = 0;
    *above = 0;
    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        double weight[BINS] = { 0 };
        bool any[BINS] = { false };
        for (int64_t i = 0; i < n; i++) {
            const uint32_t key = key_of(x[i]), bin = key >> shift & (BINS - 1);
            if ((key & mask) != prefix) continue;
            weight[bin] += p ? p[i] : 1;
            any[bin] = true;
        }
        // last: the last bin that is not empty, the result if all elements weigh less than `want`
        int at = BINS - 1, last = -1;
        for (; at >= 0; at--) {
            if (!any[at]) continue;
            if (last >= 0) *above += weight[last];
            last = at;
            if (*above + weight[at] >= want) break;
        }
        prefix |= (uint32_t)last << shift;
        mask |= (uint32_t)(BINS - 1) << shift;
    }
    return float_of(prefix);
}

bool qkv_candidates_new(struct qkv_candidates *c, int64_t V)
{
    *c = (struct qkv_candidates){ .id = qkv_alloc((size_t)V, sizeof *c->id),
                                  .x = qkv_alloc((size_t)V, sizeof *c->x),
                                  .p = qkv_alloc((size_t)V, sizeof *c->p) };
    if (c->id && c->x && c->p) return true;
    qkv_candidates_free(c);
    return false;
}

void qkv_candidates_free(struct qkv_candidates *c)
{
    qkv_free(c->id);
    qkv_free(c->x);
    qkv_free(c->p);
    *c = (struct qkv_candidates){ 0 };
}

int32_t qkv_sampling_likeliest(const float *x, int64_t V)
{
    int32_t best = -1;
    for (int64_t i = 0; i < V; i++) {
        if (!(x[i] < INFINITY)) return -1;
        if (x[i] > (best < 0 ? -INFINITY : x[best])) best = (int32_t)i;
    }
    return best;
}

// Keeps only the candidates whose logit is at least t.
static void keep_from(struct qkv_candidates *c, float t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++) {
        if (!(c->x[i] >= t)) continue;
        c->id[n] = c->id[i];
        c->x[n] = c->x[i];
        c->p[n++] = c->p[i];
    }
    c->n = n;
}

// Keeps the smallest set of likeliest candidates whose probabilities add up to `fraction` of the
// total. Among equal logits, smaller ids are kept first.
static void keep_nucleus(struct qkv_candidates *c, double fraction)
{
    double total = 0, above;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++) total += c->p[i];
    const double want = fraction * total;
    const float t = threshold(&above, c->x, c->p, c->n, want);
    for (int64_t i = 0; i < c->n; i++) {
        if (!(c->x[i] >= t)) continue;
        if (!(c->x[i] > t)) {
            if (above >= want) continue;
            above += c->p[i];
        }
        c->id[n] = c->id[i];
        c->x[n] = c->x[i];
        c->p[n++] = c->p[i];
    }
    c->n = n;
}

// Keeps only the likeliest tokens. This is the limit for temperatures t so small that x / t would
// overflow.
static float keep_likeliest(struct qkv_candidates *c, const float *x)
{
    float largest = -INFINITY;
    for (int64_t i = 0; i < c->n; i++) largest = fmaxf(largest, x[c->id[i]]);
    for (int64_t i = 0; i < c->n; i++) c->x[i] = x[c->id[i]] < largest ? -INFINITY : 0;
    return 0;
}

void qkv_sampling_candidates(struct qkv_candidates *c, const float *x, int64_t V,
                             const struct qkv_sampling *how)
{
    const float t = how->temperature == 0 ? 1 : (float)how->temperature;
    float largest = -INFINITY;
    double above;
    c->n = 0;
    for (int64_t i = 0; i < V; i++) {
        if (!(x[i] < INFINITY)) {
            c->n = 0;
            return;
        }
        if (!(x[i] > -INFINITY)) continue;
        c->id[c->n] = (int32_t)i;
        c->x[c->n] = x[i] / t;
        largest = c->x[c->n] > largest ? c->x[c->n] : largest;
        c->n++;
    }
    if (c->n && !isfinite(largest)) largest = keep_likeliest(c, x);
    if (how->top_k && how->top_k < c->n)
        keep_from(c, threshold(&above, c->x, NULL, c->n, (double)how->top_k));
    for (int64_t i = 0; i < c->n; i++) c->p[i] = exp((double)c->x[i] - (double)largest);
    if (how->top_p > 0 && how->top_p < 1 && c->n) keep_nucleus(c, how->top_p);
    if (!(how->min_p > 0)) return;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++) {
        if (!(c->p[i] >= how->min_p)) continue;
        c->id[n] = c->id[i];
        c->x[n] = c->x[i];
        c->p[n++] = c->p[i];
    }
    c->n = n;
}

int32_t qkv_sampling_draw(const struct qkv_candidates *c, uint64_t seed, uint64_t sequence,
                          uint64_t position)
{
    uint32_t word[4];
    double total = 0, sum = 0;
    // if rounding makes the random number larger than the total, the last candidate is drawn
    int32_t last = -1;
    qkv_philox(word, seed, sequence, position);
    const uint64_t bits = (uint64_t)word[0] << 21 ^ word[1] >> 11; // a random number of 53 bits
    for (int64_t i = 0; i < c->n; i++) total += c->p[i];
    const double at = (double)bits * 0x1p-53 * total;
    for (int64_t i = 0; i < c->n; i++) {
        if (!(c->p[i] > 0)) continue;
        last = c->id[i];
        sum += c->p[i];
        if (sum > at) break;
    }
    return last;
}

// ---- log-probabilities --------------------------------------------------------------------------
double qkv_sampling_log_sum(const float *x, int64_t V)
{
    float largest = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < V; i++) largest = x[i] > largest ? x[i] : largest;
    if (!(largest > -INFINITY)) return (double)largest;
    for (int64_t i = 0; i < V; i++) sum += exp((double)x[i] - (double)largest);
    return (double)largest + log(sum);
}

static int by_value(const void *a, const void *b)
{
    const struct qkv_token_value *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void qkv_sampling_top(struct qkv_token_value *top, int64_t n, const float *x, int64_t V,
                      double minus)
{
    double above;
    int64_t equal = 0, found = 0;
    if (n < 1) return;
    const float t = threshold(&above, x, NULL, V, (double)n);
    for (int64_t i = 0; i < V; i++) {
        if (x[i] > t)
            top[found++] = (struct qkv_token_value){ (int32_t)i, x[i] };
        else if (!(x[i] < t) && equal < n - (int64_t)above) // the first of the elements equal to t
            top[(int64_t)above + equal++] = (struct qkv_token_value){ (int32_t)i, x[i] };
    }
    qsort(top, (size_t)n, sizeof *top, by_value);
    for (int64_t i = 0; i < n; i++) top[i].value = (float)((double)top[i].value - minus);
}

// ---- the public sampler --------------------------------------------------------------------
struct qkv_sampler {
    struct qkv_sampling how;
    struct qkv_token_value *bias; // a copy of the caller's array
    int64_t V, prompt;            // prompt: how many tokens of the history belong to the prompt
    struct qkv_history history;
    struct qkv_candidates candidates;
};

qkv_status qkv_sampler_new(qkv_sampler **out, int64_t V, const struct qkv_sampling *s,
                           qkv_error *err)
{
    static const struct qkv_sampling plain;
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_sampler_new: expected a pointer for the sampler, found NULL");
    *out = NULL;
    if (V < 1 || V > INT32_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "size of the vocabulary is out of range, expected 1 to %" PRId32
                        " tokens, found %" PRId64,
                        INT32_MAX, V);
    if (!s) s = &plain;
    const qkv_status status = qkv_sampling_check(s, V, err);
    if (status) return status;
    qkv_sampler *p = qkv_alloc_zero(1, sizeof *p);
    if (!p) return qkv_fail_memory(err, NULL);
    p->how = *s;
    p->V = V;
    p->bias = qkv_alloc((size_t)s->biases + 1, sizeof *p->bias);
    if (!p->bias || !qkv_candidates_new(&p->candidates, V)) {
        qkv_sampler_free(p);
        return qkv_fail_memory(err, NULL);
    }
    if (s->biases) memcpy(p->bias, s->bias, (size_t)s->biases * sizeof *p->bias);
    p->how.bias = p->bias;
    *out = p;
    return QKV_OK;
}

void qkv_sampler_free(qkv_sampler *s)
{
    if (!s) return;
    qkv_history_free(&s->history);
    qkv_candidates_free(&s->candidates);
    qkv_free(s->bias);
    qkv_free(s);
}

qkv_status qkv_sampler_next(qkv_sampler *s, int32_t *id, float *logits, const int32_t *history,
                            int64_t n, int64_t prompt, uint64_t sequence, qkv_error *err)
{
    if (!s || !id || !logits || n < 0 || (n && !history) || prompt < 0 || prompt > n)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_sampler_next: expected a sampler, logits and the earlier tokens, found NULL");
    for (int64_t i = 0; i < n; i++)
        if (history[i] < 0 || history[i] >= s->V)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid token %" PRId64 " of the history, expected 0 to %" PRId64
                            ", found %" PRId32,
                            i, s->V - 1, history[i]);
    // If the history begins with the history of the previous call, only the new tokens are added.
    struct qkv_history *h = &s->history;
    const int64_t known = qkv_min64(h->n, n);
    if (!h->how || h->n > n || s->prompt != prompt ||
        (known && memcmp(h->ids, history, (size_t)known * sizeof *history) != 0)) {
        s->prompt = prompt;
        if (!qkv_history_begin(h, &s->how, s->V, history, prompt)) {
            h->how = NULL;
            return qkv_fail_memory(err, NULL);
        }
    }
    while (h->n < n)
        if (!qkv_history_add(h, history[h->n])) return qkv_fail_memory(err, NULL);
    qkv_history_penalise(logits, h);
    if (s->how.temperature == 0) {
        *id = qkv_sampling_likeliest(logits, s->V);
    } else {
        qkv_sampling_candidates(&s->candidates, logits, s->V, &s->how);
        *id = s->candidates.n
                  ? qkv_sampling_draw(&s->candidates, s->how.seed, sequence, (uint64_t)(n - prompt))
                  : -1;
        for (int64_t i = 0, k = 0; i < s->V; i++) {
            const bool kept = k < s->candidates.n && s->candidates.id[k] == i;
            logits[i] = kept ? s->candidates.x[k++] : -INFINITY;
        }
    }
    if (*id >= 0) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "no token can be sampled: every logit is -inf, or one is NaN or +inf");
}
