// SPDX-License-Identifier: MIT
// search.c: prepares the search for a text (Knuth, Morris & Pratt 1977).
#include "text/pipeline/search.h"
#include <string.h>

static bool search_new(struct qkv_search *s, int64_t count)
{
    s->count = count;
    s->at = qkv_alloc((size_t)count + 1, sizeof *s->at);
    s->border = qkv_alloc((size_t)count + 1, sizeof *s->border);
    if (s->at && s->border) return true;
    qkv_search_free(s);
    return false;
}

static void find_borders(struct qkv_search *s)
{
    s->border[0] = 0;
    if (s->count) s->border[1] = 0;
    for (int64_t i = 1; i < s->count; i++)
        s->border[i + 1] = qkv_search_step(s, s->border[i], s->at[i]);
}

bool qkv_search_bytes(struct qkv_search *s, const char *from, int64_t count)
{
    if (!search_new(s, count)) return false;
    for (int64_t i = 0; i < count; i++) s->at[i] = (uint8_t)from[i];
    find_borders(s);
    return true;
}

bool qkv_search_characters(struct qkv_search *s, const uint32_t *from, int64_t count)
{
    if (!search_new(s, count)) return false;
    memcpy(s->at, from, (size_t)count * sizeof *from);
    find_borders(s);
    return true;
}

void qkv_search_free(struct qkv_search *s)
{
    qkv_free(s->at);
    qkv_free(s->border);
    memset(s, 0, sizeof *s);
}
