// SPDX-License-Identifier: MIT
// bench_shape.c: parses the shapes to measure, such as "B1,H8,N2048,E64,causal" and
// "1024x384x1536".
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

enum { WORD = 64 };
// Largest value of one size. Products of sizes are checked where they are computed.
static const int64_t most = (int64_t)1 << 40;

// Returns a pointer to the member of s for the size that a letter names.
static int64_t *place(struct bench_shape *s, char letter)
{
    const struct {
        char letter;
        int64_t *at;
    } places[] = { { 'B', &s->B }, { 'T', &s->T }, { 'S', &s->S }, { 'H', &s->H },
                   { 'G', &s->G }, { 'E', &s->E }, { 'F', &s->F }, { 'R', &s->R },
                   { 'K', &s->K }, { 'N', &s->N }, { 'L', &s->L }, { 'P', &s->P } };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].letter == letter) return places[i].at;
    return NULL;
}

static bool size(const char *text, int64_t *out)
{
    return cmd_parse_int(text, out) && *out >= 1 && *out <= most;
}

// Parses the number after a letter, such as "64". For the letter N, if lengths may be mixed, also
// parses a range such as "20-54".
static bool range(struct bench_shape *s, char letter, char *text, const struct bench_grammar *g)
{
    int64_t *at = place(s, letter);
    char *dash = strchr(text, '-');
    if (!dash || letter != 'N' || !g->ragged) return !*at && size(text, at);
    *dash = 0;
    return !*at && size(text, at) && size(dash + 1, &s->N_most) && s->N_most >= *at;
}

// Parses a product such as "1024x384x1536": rows x inputs x outputs.
static bool product(struct bench_shape *s, char *text)
{
    int64_t *const at[] = { &s->R, &s->K, &s->N };
    for (int i = 0; i < 3; i++) {
        char *end = text + strcspn(text, "x");
        if ((*end == 'x') != (i < 2)) return false;
        *end = 0;
        if (*at[i] || !size(text, at[i])) return false;
        text = end + 1;
    }
    return true;
}

static bool one_word(struct bench_shape *s, char *word, const struct bench_grammar *g)
{
    if (strstr(g->words, "causal") && !strcmp(word, "causal")) return s->causal = true;
    if (strstr(g->words, "gelu") && !strcmp(word, "gelu")) return s->gelu = true;
    if (strstr(g->words, "forward") && !strcmp(word, "forward")) return s->forward = true;
    if (strstr(g->words, "stream") && !strcmp(word, "stream")) return s->stream = true;
    if (strstr(g->words, "window") && !strncmp(word, "window", 6) && !s->window)
        return size(word + 6, &s->window);
    if (*word >= '1' && *word <= '9' && strchr(g->letters, 'R')) return product(s, word);
    return *word && strchr(g->letters, *word) && range(s, *word, word + 1, g);
}

static qkv_status wrong(const char *word, const struct bench_shape *s,
                        const struct bench_grammar *g, qkv_error *err)
{
    char letters[32] = "";
    for (size_t i = 0; g->letters[i]; i++) {
        letters[2 * i] = g->letters[i];
        letters[2 * i + 1] = g->letters[i + 1] ? ' ' : 0;
    }
    return cmd_error(
        err, QKV_ERR_USAGE, NULL,
        "--shape: unknown or repeated size '%.60s', expected each of %s at most once, with a "
        "number of 1 to %lld%s%s%s%s%s%s, found '%.90s'",
        word, letters, (long long)most, g->ragged ? " (N20-54: lengths from 20 to 54)" : "",
        strstr(g->words, "causal") ? ", or the word causal" : "",
        strstr(g->words, "forward") ? ", or the word forward" : "",
        strstr(g->words, "stream") ? ", or the word stream" : "",
        strstr(g->words, "window") ? ", or the word window with a number, such as window64" : "",
        strchr(g->letters, 'R') ? ", or the word gelu, or three sizes such as 1024x384x1536" : "",
        s->name);
}

static qkv_status one(struct bench_shape *s, const struct bench_grammar *g, qkv_error *err)
{
    char word[WORD];
    for (const char *p = s->name;; p++) {
        const size_t n = strcspn(p, ",");
        char shown[WORD];
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        snprintf(shown, sizeof shown, "%s", word);
        if (n >= sizeof word || !one_word(s, word, g)) return wrong(shown, s, g, err);
        p += n;
        if (!*p) break;
    }
    for (const char *need = g->needs; *need; need++)
        if (!*place(s, *need))
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "--shape: size %c is missing, expected it with a number, found '%.90s'", *need,
                s->name);
    if (!s->N_most) s->N_most = s->N;
    return QKV_OK;
}

qkv_status bench_shapes(struct bench_shape *out, int *count, const char *text,
                        const struct bench_grammar *g, qkv_error *err)
{
    *count = 0;
    for (const char *p = text + strspn(text, "; "); *p; p += strspn(p, "; ")) {
        const size_t n = strcspn(p, "; ");
        if (*count == BENCH_SHAPES || n >= BENCH_NAME)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--shape: expected at most %d shapes of %d characters, found more",
                             BENCH_SHAPES, BENCH_NAME - 1);
        struct bench_shape *s = &out[(*count)++];
        memset(s, 0, sizeof *s);
        memcpy(s->name, p, n);
        const qkv_status status = one(s, g, err);
        if (status) return status;
        p += n;
    }
    if (*count) return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL, "--shape: no shape is given, expected one or more");
}

int64_t bench_length(const struct bench_shape *s, int64_t i)
{
    return s->N + (i * 7919) % (s->N_most - s->N + 1);
}
