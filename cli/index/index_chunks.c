// SPDX-License-Identifier: MIT
// index_chunks.c: splits a text into chunks of whole sentences.
//
// A sentence ends after . ! ? or their full-width forms, with the quotes and brackets that follow,
// if white space or the end of the text comes next (after a full-width one, anything), and at an
// empty line.  The number of a list or of a section ("2.", "3.1.") at the start of a line ends no
// sentence.  A heading of Markdown is a sentence, which stays with the next one.
#include "index/index.h"
#include <stdlib.h>
#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

// Returns the bytes of one of the marks at `at`, or 0.
static size_t mark(const char *at, size_t left, const char *const *marks)
{
    for (; *marks; marks++) {
        const size_t n = strlen(*marks);
        if (n <= left && !memcmp(at, *marks, n)) return n;
    }
    return 0;
}

// Returns whether a heading of Markdown begins at `at`: one to six # and a space.
static bool is_heading(const char *text, size_t at, size_t bytes)
{
    size_t n = 0;
    while (at + n < bytes && text[at + n] == '#') n++;
    return n > 0 && n <= 6 && at + n < bytes && text[at + n] == ' ';
}

// Returns whether the line of text[first, end) up to `end` is a number, such as "2" or "## 3.1".
static bool is_number(const char *text, size_t first, size_t end)
{
    // DIGITS: a longer number may be a year at the end of a sentence; MOST: bytes from the start of
    // the line, so that the time is linear in the text
    enum { DIGITS = 3, MOST = 32 };
    const size_t least = end - first > MOST ? end - MOST : first;
    size_t at = end, digits = 0;
    for (; at > least && ((text[at - 1] >= '0' && text[at - 1] <= '9') || text[at - 1] == '.');
         at--)
        if (text[at - 1] == '.')
            digits = 0;
        else if (++digits > DIGITS)
            return false;
    if (at == end || !digits) return false;
    while (at > least && (text[at - 1] == ' ' || text[at - 1] == '\t' || text[at - 1] == '#')) at--;
    return at == first || text[at - 1] == '\n';
}

// Returns the end of the sentence that begins at `at`.
static size_t sentence_end(const char *text, size_t at, size_t bytes)
{
    const size_t first = at;
    const bool heading = is_heading(text, at, bytes);
    static const char *const ends[] = { ".", "!", "?", "\xE2\x80\xA6", NULL };
    static const char *const wide[] = { "\xE3\x80\x82", "\xEF\xBC\x81", "\xEF\xBC\x9F", NULL };
    // quotes and brackets
    static const char *const closing[] = {
        "\"", "'", ")", "]", "\xE2\x80\x9D", "\xE2\x80\x99", "\xC2\xBB", "\xE3\x80\x8D", NULL
    };
    for (size_t n; at < bytes; at++) {
        if (text[at] == '\n') { // an empty line follows
            if (heading) return at;
            size_t next = at + 1;
            while (next < bytes && text[next] != '\n' && is_space(text[next])) next++;
            if (next < bytes && text[next] == '\n') return at;
        }
        if (heading || (text[at] == '.' && is_number(text, first, at))) continue;
        const size_t full = mark(text + at, bytes - at, wide);
        if (!full && !mark(text + at, bytes - at, ends)) continue;
        size_t end = at + (full ? full : mark(text + at, bytes - at, ends));
        while ((n = mark(text + end, bytes - end, ends)) ||
               (n = mark(text + end, bytes - end, wide)))
            end += n;
        while ((n = mark(text + end, bytes - end, closing))) end += n;
        if (full || end >= bytes || is_space(text[end])) return end;
        at = end - 1;
    }
    return bytes;
}

static void add_sentence(struct chunker *c, size_t begin, size_t end, int64_t tokens, bool heading)
{
    if (!(c->sentence_count & (c->sentence_count - 1)))
        c->sentences = cmd_grow(c->sentences, c->sentence_count ? 2 * (size_t)c->sentence_count : 1,
                                sizeof *c->sentences);
    c->sentences[c->sentence_count++] = (struct sentence){ begin, end, tokens, heading };
}

// Adds a sentence, in pieces if it has more tokens than a chunk.  A piece ends before white space
// or a word if it has one after its first token, and begins after white space.
static qkv_status add_pieces(struct chunker *c, const char *text, size_t begin, size_t end,
                             qkv_error *err)
{
    const struct qkv_encode_options how = { .no_special = true };
    const qkv_status status =
        qkv_tokenizer_encode(c->tokenizer, &c->e, text + begin, end - begin, NULL, 0, &how, err);
    if (status) return status;
    int64_t from = 0;
    size_t at = begin;
    while (c->e.count - from > c->size) {
        int64_t to = from + c->size;
        for (int64_t i = to; i > from; i--) {
            const size_t start = begin + (size_t)c->e.begin[i];
            // a token may begin with the space before its word
            if (start <= at || start >= end ||
                !(is_space(text[start - 1]) || is_space(text[start])))
                continue;
            to = i;
            break;
        }
        size_t next = begin + (size_t)c->e.begin[to];
        while (to < c->e.count && next <= at) // tokens that cover no bytes of their own
            next = ++to < c->e.count ? begin + (size_t)c->e.begin[to] : end;
        if (to >= c->e.count) break;
        size_t last = next;
        while (last > at && is_space(text[last - 1])) last--;
        add_sentence(c, at, last, to - from, false);
        while (next < end && is_space(text[next])) next++;
        for (from = to; from < c->e.count && begin + (size_t)c->e.begin[from] < next;) from++;
        // the token of a word may begin with the space that was skipped
        if (from > to && begin + (size_t)c->e.end[from - 1] > next) from--;
        at = next;
    }
    if (at < end) add_sentence(c, at, end, c->e.count - from, is_heading(text, begin, end));
    return QKV_OK;
}

static void add_chunk(struct chunker *c, int64_t first, int64_t last)
{
    if (!(c->count & (c->count - 1)))
        c->chunks = cmd_grow(c->chunks, c->count ? 2 * (size_t)c->count : 1, sizeof *c->chunks);
    c->chunks[c->count++] = (struct chunk){ c->sentences[first].begin, c->sentences[last - 1].end };
}

// Puts as many sentences into each chunk as have at most `size` tokens together.
static void join_sentences(struct chunker *c)
{
    for (int64_t first = 0, done = 0; done < c->sentence_count;) {
        int64_t last = first, tokens = 0;
        while (last < c->sentence_count &&
               (last == first || tokens + c->sentences[last].tokens <= c->size))
            tokens += c->sentences[last++].tokens;
        if (last <= done) { // the overlap leaves no space for a new sentence
            first++;
            continue;
        }
        // a heading goes to the next chunk, unless this one has no other new sentence
        while (last < c->sentence_count && last - 1 > done && c->sentences[last - 1].heading)
            last--;
        add_chunk(c, first, last);
        done = first = last;
        for (int64_t kept = 0; first > 0 && done < c->sentence_count; first--) {
            kept += c->sentences[first - 1].tokens;
            if (kept > c->overlap) break;
        }
    }
}

qkv_status chunker_split(struct chunker *c, const char *text, size_t bytes, qkv_error *err)
{
    c->count = c->sentence_count = 0;
    for (size_t at = 0; at < bytes;) {
        while (at < bytes && is_space(text[at])) at++;
        if (at == bytes) break;
        const size_t next = sentence_end(text, at, bytes);
        size_t end = next;
        while (end > at && is_space(text[end - 1])) end--;
        const qkv_status status = add_pieces(c, text, at, end, err);
        if (status) return status;
        at = next;
    }
    join_sentences(c);
    return QKV_OK;
}

void chunker_free(struct chunker *c)
{
    qkv_encoding_free(&c->e);
    free(c->chunks);
    free(c->sentences);
    c->chunks = NULL;
    c->sentences = NULL;
}
