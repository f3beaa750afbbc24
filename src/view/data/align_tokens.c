// SPDX-License-Identifier: MIT
// align_tokens.c: aligns the tokens of two texts, so that two views can be compared.
//
// If both lists of tokens are from the same text (with two tokenizers), two tokens are aligned if
// they share most of their bytes. Tokens of different texts are aligned as by diff: first the
// longest common run of tokens, then, recursively, the tokens before it and the tokens after it.
#include "view/data/view_data.h"
#include <string.h>

// limit of (tokens of one text) * (tokens of the other) in the search for a common run
enum { CELLS = 100000000 };

static bool same_source(const struct qkv_view_text *a, const struct qkv_view_text *b)
{
    bool any = false;
    for (int p = 0; p < 2; p++) {
        if (!a->source[p] != !b->source[p]) return false;
        if (!a->source[p]) continue;
        if (a->source_bytes[p] != b->source_bytes[p] ||
            memcmp(a->source[p], b->source[p], a->source_bytes[p]) != 0)
            return false;
        any = true;
    }
    return any;
}

static bool has_place(const struct qkv_view_token *k)
{
    return k->end > k->begin;
}

// Aligns the tokens of the same text from two tokenizers, in one pass over both lists. The time is
// linear unless tokens contain one another.
static void by_place(int64_t *to, const struct qkv_view_text *a, const struct qkv_view_text *b)
{
    int64_t first = 0;
    for (int64_t i = 0; i < a->tokens; i++) {
        const struct qkv_view_token *x = &a->token[i];
        int64_t most = 0;
        to[i] = -1;
        if (!has_place(x)) continue;
        while (first < b->tokens &&
               (!has_place(&b->token[first]) || (b->token[first].part < x->part) ||
                (b->token[first].part == x->part && b->token[first].end <= x->begin)))
            first++;
        for (int64_t j = first; j < b->tokens; j++) {
            const struct qkv_view_token *y = &b->token[j];
            if (!has_place(y)) continue;
            if (y->part != x->part || y->begin >= x->end) break;
            const int64_t common = qkv_min64(x->end, y->end) - qkv_max64(x->begin, y->begin);
            if (common > most) most = common, to[i] = j;
        }
    }
    // Tokens without bytes in the text, such as [CLS] and [SEP]: if both lists have the same number
    // of them, the first is aligned with the first, the second with the second, and so on.
    int64_t own = 0, others = 0;
    for (int64_t i = 0; i < a->tokens; i++) own += !has_place(&a->token[i]);
    for (int64_t j = 0; j < b->tokens; j++) others += !has_place(&b->token[j]);
    for (int64_t i = 0, j = 0; i < a->tokens && own == others; i++) {
        if (has_place(&a->token[i])) continue;
        while (has_place(&b->token[j])) j++;
        to[i] = j++;
    }
}

// A part of both texts whose tokens are not aligned yet: tokens i0 .. i1 - 1 of a, j0 .. j1 - 1 of
// b.
struct part {
    int64_t i0, i1, j0, j1;
};
struct run {
    int64_t i, j, n;
};

static bool same_token(const struct qkv_view_text *a, int64_t i, const struct qkv_view_text *b,
                       int64_t j)
{
    return !strcmp(a->token[i].raw, b->token[j].raw);
}

// Finds the longest common run of tokens. row[j1 - j0 + 1] is scratch: for the current token of a,
// the lengths of the common runs that end at it and at each token of b.
static struct run longest_run(const struct qkv_view_text *a, const struct qkv_view_text *b,
                              const struct part *p, int64_t *row)
{
    const int64_t n = p->j1 - p->j0;
    struct run best = { p->i0, p->j0, 0 };
    memset(row, 0, (size_t)(n + 1) * sizeof *row);
    for (int64_t i = p->i0; i < p->i1; i++)
        for (int64_t j = n; j > 0; j--) {
            row[j] = same_token(a, i, b, p->j0 + j - 1) ? row[j - 1] + 1 : 0;
            if (row[j] > best.n) best = (struct run){ i - row[j] + 1, p->j0 + j - row[j], row[j] };
        }
    return best;
}

static void lay_run(int64_t *to, const struct run *r)
{
    for (int64_t k = 0; k < r->n; k++) to[r->i + k] = r->j + k;
}

// Aligns the equal tokens at the beginning and at the end first, since texts often differ in one
// word.
static void trim(int64_t *to, const struct qkv_view_text *a, const struct qkv_view_text *b,
                 struct part *p)
{
    while (p->i0 < p->i1 && p->j0 < p->j1 && same_token(a, p->i0, b, p->j0)) to[p->i0++] = p->j0++;
    while (p->i0 < p->i1 && p->j0 < p->j1 && same_token(a, p->i1 - 1, b, p->j1 - 1))
        to[--p->i1] = --p->j1;
}

static qkv_status by_runs(int64_t *to, const struct qkv_view_text *a, const struct qkv_view_text *b,
                          qkv_error *err)
{
    const int64_t deepest = qkv_min64(a->tokens, b->tokens) + 2;
    struct part *stack = qkv_alloc((size_t)deepest, sizeof *stack);
    int64_t *row = qkv_alloc((size_t)b->tokens + 1, sizeof *row), n = 1;
    qkv_status status = QKV_OK;
    if (!stack || !row) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int64_t i = 0; i < a->tokens; i++) to[i] = -1;
    stack[0] = (struct part){ 0, a->tokens, 0, b->tokens };
    while (n > 0) {
        struct part p = stack[--n];
        trim(to, a, b, &p);
        const double cells = (double)(p.i1 - p.i0) * (double)(p.j1 - p.j0);
        if (!(cells > 0) || cells > CELLS) continue;
        const struct run r = longest_run(a, b, &p, row);
        if (!r.n) continue;
        lay_run(to, &r);
        if (r.i > p.i0 && r.j > p.j0) stack[n++] = (struct part){ p.i0, r.i, p.j0, r.j };
        if (r.i + r.n < p.i1 && r.j + r.n < p.j1)
            stack[n++] = (struct part){ r.i + r.n, p.i1, r.j + r.n, p.j1 };
    }
done:
    qkv_free(stack);
    qkv_free(row);
    return status;
}

static bool same_tokens(const struct qkv_view_text *a, const struct qkv_view_text *b)
{
    bool same = a->tokens == b->tokens;
    for (int64_t i = 0; i < a->tokens && same; i++) same = same_token(a, i, b, i);
    return same;
}

qkv_status view_align_tokens(int64_t *to, const struct qkv_view_text *a,
                             const struct qkv_view_text *b, qkv_error *err)
{
    if (same_source(a, b) && !same_tokens(a, b)) {
        by_place(to, a, b);
        return QKV_OK;
    }
    return by_runs(to, a, b, err);
}
