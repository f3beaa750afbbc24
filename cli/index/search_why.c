// SPDX-License-Identifier: MIT
// search_why.c: finds the words of a passage that make it similar to a question, by the exact split
// of the cosine into pairs of tokens (qkv_why).
#include "index/search_parts.h"
#include <stdlib.h>
#include <string.h>

// Returns true if a byte is a part of a word: a letter, a digit, or any character past ASCII.
static bool in_word(unsigned char c)
{
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_';
}

// Extends a range of bytes to the words that it touches.
static void extend(struct word_share *w, const char *text, size_t bytes)
{
    while (w->begin > 0 && in_word((unsigned char)text[w->begin]) &&
           in_word((unsigned char)text[w->begin - 1]))
        w->begin--;
    while (w->end < bytes && w->end > w->begin && in_word((unsigned char)text[w->end]) &&
           in_word((unsigned char)text[w->end - 1]))
        w->end++;
    while (w->begin < w->end && (text[w->begin] == ' ' || text[w->begin] == '\n')) w->begin++;
}

// Collects the words of a passage with the sums of their tokens' terms.
static struct word_share *collect(const struct qkv_why *w, const char *text, size_t bytes,
                                  int64_t before, int64_t *count)
{
    const qkv_encoding *e = &w->text[1];
    struct word_share *words = cmd_grow(NULL, (size_t)w->columns + 1, sizeof *words);
    *count = 0;
    for (int64_t j = 0; j < w->columns; j++) {
        double sum = 0;
        // a token of the prompt, or a special token, covers no word of the passage
        if (e->text[j] != 0 || e->begin[j] < before || e->end[j] <= e->begin[j] ||
            (size_t)(e->end[j] - before) > bytes)
            continue;
        for (int64_t i = 0; i < w->rows; i++) sum += w->terms[i * w->columns + j];
        struct word_share one = { (size_t)(e->begin[j] - before), (size_t)(e->end[j] - before),
                                  sum };
        extend(&one, text, bytes);
        struct word_share *last = *count ? &words[*count - 1] : NULL;
        if (last && one.begin < last->end) {
            last->term += sum;
            if (one.end > last->end) last->end = one.end;
        } else {
            words[(*count)++] = one;
        }
    }
    return words;
}

static bool has_letter(const struct word_share *w, const char *text)
{
    for (size_t i = w->begin; i < w->end; i++)
        if (in_word((unsigned char)text[i])) return true;
    return false;
}

static void choose(struct passage_why *out, struct word_share *words, int64_t count,
                   const char *text)
{
    bool *taken = cmd_alloc((size_t)count + 1, sizeof *taken);
    memset(taken, 0, (size_t)count);
    for (int n = 0; n < SHARES; n++) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; i++)
            if (!taken[i] && words[i].term > 0 && has_letter(&words[i], text) &&
                (best < 0 || words[i].term > words[best].term))
                best = i;
        if (best >= 0) taken[best] = true;
    }
    for (int64_t i = 0; i < count; i++)
        if (taken[i]) out->word[out->count++] = words[i];
    free(taken);
}

qkv_status search_why(struct passage_why *out, const qkv_embedder *e,
                      const struct cmd_texts *questions, int64_t question, const char *text,
                      size_t bytes, qkv_error *err)
{
    struct qkv_why w;
    int64_t count = 0;
    *out = (struct passage_why){ 0 };
    const qkv_status status =
        qkv_why(&w, e, questions->text[question], questions->bytes[question], text, bytes, err);
    if (status) return status;
    out->cosine = w.cosine;
    struct word_share *words =
        collect(&w, text, bytes, (int64_t)strlen(qkv_embedder_prompt(e)), &count);
    choose(out, words, count, text);
    free(words);
    qkv_why_free(&w);
    return QKV_OK;
}
