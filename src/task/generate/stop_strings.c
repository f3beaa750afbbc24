// SPDX-License-Identifier: MIT
// stop_strings.c: finds stop strings in a text that arrives in parts. Each byte is read once, by
// the algorithm of Knuth, Morris and Pratt 1977 (SIAM J. Comput. 6).
//
// The state q of a stop string is the length of its longest prefix with which the text ends. These
// q bytes cannot be emitted yet, because the next bytes may complete the stop string.
#include "task/generate/stop_strings.h"
#include <inttypes.h>
#include <string.h>

enum { STOPS_MOST = 64, STOP_BYTES = 4096 };

static bool is_utf8(const char *text, size_t bytes)
{
    while (bytes) {
        const size_t n = qkv_utf8_bytes(text, bytes);
        if (!n) return false;
        text += n;
        bytes -= n;
    }
    return true;
}

// Returns the state of a stop string after one more byte c.
static int32_t advance(const char *pattern, const int32_t *fails, int32_t q, char c)
{
    while (q > 0 && pattern[q] != c) q = fails[q];
    return q + (pattern[q] == c);
}

qkv_status qkv_stop_strings_new(struct qkv_stop_strings *s, const char *const *text, int64_t n,
                                qkv_error *err)
{
    *s = (struct qkv_stop_strings){ .text = text };
    if (n < 0 || n > STOPS_MOST || (n && !text))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "too many stop strings, expected at most %d, found %" PRId64,
                        (int)STOPS_MOST, n);
    s->bytes = qkv_alloc_zero((size_t)n + 1, sizeof *s->bytes);
    s->fails = qkv_alloc_zero((size_t)n + 1, sizeof *s->fails);
    if (!s->bytes || !s->fails) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < n; i++) {
        const size_t bytes = text[i] ? strlen(text[i]) : 0;
        if (!bytes || bytes > STOP_BYTES || !is_utf8(text[i], bytes))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "invalid stop string %" PRId64
                            ", expected UTF-8 of 1 to %d bytes, found %s",
                            i + 1, (int)STOP_BYTES,
                            !bytes               ? "none"
                            : bytes > STOP_BYTES ? "more"
                                                 : "invalid UTF-8");
        int32_t *fails = s->fails[i] = qkv_alloc_zero(bytes + 1, sizeof *fails);
        if (!fails) return qkv_fail_memory(err, NULL);
        s->n = i + 1;
        s->bytes[i] = (int32_t)bytes;
        for (size_t at = 1; at < bytes; at++)
            fails[at + 1] = advance(text[i], fails, fails[at], text[i][at]);
    }
    return QKV_OK;
}

void qkv_stop_strings_free(struct qkv_stop_strings *s)
{
    for (int64_t i = 0; i < s->n; i++) qkv_free(s->fails[i]);
    qkv_free(s->fails);
    qkv_free(s->bytes);
    *s = (struct qkv_stop_strings){ 0 };
}

bool qkv_output_text_begin(struct qkv_output_text *t, const struct qkv_stop_strings *stops)
{
    t->stops = stops;
    t->n = t->shown = t->safe = 0;
    t->stopped = false;
    if (!t->state && !(t->state = qkv_alloc((size_t)stops->n + 1, sizeof *t->state))) return false;
    memset(t->state, 0, (size_t)stops->n * sizeof *t->state);
    return true;
}

bool qkv_output_text_add(struct qkv_output_text *t, const char *text, size_t bytes, bool stop)
{
    const struct qkv_stop_strings *s = t->stops;
    if (t->stopped) return true;
    if (bytes > (size_t)(INT64_MAX / 2 - t->n) ||
        !qkv_reserve((void **)&t->at, &t->capacity, t->n + (int64_t)bytes + 1, 1))
        return false;
    for (size_t b = 0; b < bytes && !t->stopped; b++) {
        int32_t longest = 0, held = 0;
        t->at[t->n++] = text[b];
        for (int64_t i = 0; stop && i < s->n; i++) {
            const int32_t q = advance(s->text[i], s->fails[i], t->state[i], text[b]);
            t->state[i] = q;
            if (q == s->bytes[i] && q > longest) longest = q;
            if (q > held) held = q;
        }
        if (longest) {
            t->n -= longest;
            t->stopped = true;
            held = 0;
        }
        t->safe = t->n - held;
    }
    t->at[t->n] = 0;
    return true;
}

void qkv_output_text_free(struct qkv_output_text *t)
{
    qkv_free(t->at);
    qkv_free(t->state);
    *t = (struct qkv_output_text){ 0 };
}
