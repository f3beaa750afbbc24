// SPDX-License-Identifier: MIT
// token_names.c: names the rows and the keys of a stack in sentences and tables. A word that occurs
// more than once carries its place, the index of the token in its text counted from 0: “flies₂”.
// web/base/frame.js does the same; tests compare the two.
#include "view/data/view_data.h"
#include <stdio.h>
#include <string.h>

// Compares the names of two tokens, which are given by their indices in ctx.
static int compare_names(const void *ctx, const void *a, const void *b)
{
    const struct qkv_view_token *token = ctx;
    size_t m, n;
    const char *x = view_token_bytes(&token[*(const int64_t *)a], &m),
               *y = view_token_bytes(&token[*(const int64_t *)b], &n);
    const int order = memcmp(x, y, m < n ? m : n);
    return order ? order : m < n ? -1 : m > n;
}

// Returns, for each of n tokens, whether another one that is not special has the same name. NULL:
// memory is exhausted.
static bool *find_repeated(const struct qkv_view_token *token, int64_t n)
{
    int64_t *at = qkv_alloc((size_t)n, sizeof *at), words = 0;
    bool *repeated = qkv_alloc_zero((size_t)n, sizeof *repeated);
    for (int64_t i = 0; at && i < n; i++)
        if (!token[i].special) at[words++] = i;
    if (!at || !repeated || !qkv_sort(at, words, sizeof *at, compare_names, token)) {
        qkv_free(at);
        qkv_free(repeated);
        return NULL;
    }
    for (int64_t k = 1; k < words; k++)
        if (compare_names(token, &at[k - 1], &at[k]) == 0)
            repeated[at[k - 1]] = repeated[at[k]] = true;
    qkv_free(at);
    return repeated;
}

qkv_status view_names_find(struct view_stack *v, qkv_error *err)
{
    v->repeated = find_repeated(v->shape.token, v->shape.tokens);
    v->key_repeated = find_repeated(v->shape.key, v->shape.keys);
    return v->repeated && v->key_repeated ? QKV_OK : qkv_fail_memory(err, NULL);
}

static void put_name(struct view_text *t, const struct qkv_view_token *token, bool repeated,
                     int64_t index, bool quoted)
{
    char digits[24];
    const bool quotes = quoted && !token->special;
    if (quotes) view_say(t, "“");
    view_token_text(t, token, token->special);
    const int n = repeated ? snprintf(digits, sizeof digits, "%lld", (long long)index) : 0;
    for (int i = 0; i < n; i++) // subscript digits, from U+2080 on
        view_put(t, (char[]){ '\xE2', '\x82', (char)('\x80' + digits[i] - '0') }, 3);
    if (quotes) view_say(t, "”");
}

void view_name_row(struct view_text *t, const struct view_stack *v, int64_t row)
{
    put_name(t, &v->shape.token[row], row < v->shape.tokens && v->repeated[row], row, false);
}
void view_name_key(struct view_text *t, const struct view_stack *v, int64_t key)
{
    put_name(t, &v->shape.key[key], key < v->shape.keys && v->key_repeated[key], key, false);
}
void view_quote_row(struct view_text *t, const struct view_stack *v, int64_t row)
{
    put_name(t, &v->shape.token[row], v->repeated[row], row, true);
}
void view_quote_key(struct view_text *t, const struct view_stack *v, int64_t key)
{
    put_name(t, &v->shape.key[key], v->key_repeated[key], key, true);
}
