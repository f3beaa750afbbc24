// SPDX-License-Identifier: MIT
// eval_edits.c: computes the edit distance (Levenshtein 1966) between an output and its reference.
#include "task/eval/eval_internal.h"
#include <string.h>

int64_t eval_edits(const int32_t *a, int64_t n, const int32_t *b, int64_t m)
{
    // row[j]: number of edits that change the first i elements of a to the first j elements of b
    int64_t *row = qkv_alloc((size_t)m + 1, sizeof *row);
    if (!row) return -1;
    for (int64_t j = 0; j <= m; j++) row[j] = j;
    for (int64_t i = 1; i <= n; i++) {
        int64_t corner = row[0]; // row[j - 1] of the previous i
        row[0] = i;
        for (int64_t j = 1; j <= m; j++) {
            const int64_t changed = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = qkv_min64(changed, qkv_min64(row[j], row[j - 1]) + 1);
        }
    }
    const int64_t edits = row[m];
    qkv_free(row);
    return edits;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Replaces each word of a text by a number, the 31-bit FNV-1a hash of its bytes. Returns the number
// of words. Equal words have equal numbers; different words very rarely do (about 1 in 10^9).
static int64_t words_of(int32_t *out, const char *text)
{
    int64_t n = 0;
    while (*text) {
        while (is_space(*text)) text++;
        if (!*text) break;
        uint64_t h = 0xcbf29ce484222325u;
        for (; *text && !is_space(*text); text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
        out[n++] = (int32_t)((h ^ h >> 32) & INT32_MAX);
    }
    return n;
}

// Replaces each character of a text by its code. Returns the number of characters; each byte of
// invalid UTF-8 counts as one character.
static int64_t characters_of(int32_t *out, const char *text)
{
    int64_t n = 0;
    for (size_t left = strlen(text); left;) {
        const size_t bytes = qkv_utf8_bytes(text, left), step = bytes ? bytes : 1;
        uint32_t c = 0;
        for (size_t i = 0; i < step; i++) c = c << 8 | (unsigned char)text[i];
        out[n++] = (int32_t)c;
        text += step;
        left -= step;
    }
    return n;
}

bool eval_distance(struct eval_distance *d, const char *output, const char *reference)
{
    int32_t *a = qkv_alloc(strlen(output) + 1, sizeof *a);
    int32_t *b = qkv_alloc(strlen(reference) + 1, sizeof *b);
    bool ok = a && b;
    if (ok) {
        int64_t n = words_of(a, output);
        d->token_length = words_of(b, reference);
        d->tokens = eval_edits(a, n, b, d->token_length);
        n = characters_of(a, output);
        d->character_length = characters_of(b, reference);
        d->characters = eval_edits(a, n, b, d->character_length);
        ok = d->tokens >= 0 && d->characters >= 0;
    }
    qkv_free(a);
    qkv_free(b);
    return ok;
}
