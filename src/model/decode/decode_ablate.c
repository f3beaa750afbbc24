// SPDX-License-Identifier: MIT
// decode_ablate.c: stores the running sums of heads ablated to their mean, for tokens that are
// decoded one by one.
//
// The sums are stored for every token, not only for the last token. So an item can be cut to a
// shorter length, and decoding then continues bit-identically to decoding from the shorter text.
#include "model/decode/decode.h"
#include <string.h>

void qkv_decoder_sums_hold(qkv_decoder *d, struct qkv_arena *a)
{
    const size_t items = d->sums.stride ? (size_t)d->items : 0;
    d->sums.of = qkv_arena_alloc(a, items, sizeof *d->sums.of);
    d->sums.capacity = qkv_arena_alloc(a, items, sizeof *d->sums.capacity);
    d->sums.rows = qkv_arena_alloc(a, items, sizeof *d->sums.rows);
    d->sums.before = qkv_arena_alloc(a, items, sizeof *d->sums.before);
}

void qkv_decoder_sums_free(qkv_decoder *d)
{
    for (int64_t i = 0; d->sums.stride && i < d->items; i++) qkv_free(d->sums.of[i]);
}

bool qkv_decoder_reserve_sums(qkv_decoder *d, int64_t item, int64_t more)
{
    struct qkv_decoder_sums *s = &d->sums;
    const int64_t tokens = d->length[item] + more;
    if (!s->stride) return true;
    if (tokens > INT64_MAX / s->stride) return false;
    return qkv_reserve((void **)&s->of[item], &s->capacity[item], tokens * s->stride,
                       sizeof **s->of);
}

const struct qkv_heads_sums *qkv_decoder_sums_rows(qkv_decoder *d, struct qkv_heads_sums *to)
{
    const struct qkv_decoder_piece *p = &d->piece;
    struct qkv_decoder_sums *s = &d->sums;
    if (!s->stride) return NULL;
    for (int64_t i = 0; i < p->n; i++) {
        s->before[i] = d->length[p->items[i]] - (p->offsets[i + 1] - p->offsets[i]);
        s->rows[i] = s->of[p->items[i]] + s->before[i] * s->stride;
    }
    *to = (struct qkv_heads_sums){ s->rows, s->before, s->stride };
    return to;
}

bool qkv_decoder_sums_copy(qkv_decoder *d, const int64_t *from, int64_t n)
{
    struct qkv_decoder_sums *s = &d->sums;
    for (int64_t i = 0; s->stride && i < n; i++) {
        const size_t count = (size_t)(d->length[from[i]] * s->stride);
        s->rows[i] = count ? qkv_alloc(count, sizeof **s->rows) : NULL;
        if (count && !s->rows[i]) {
            while (i > 0) qkv_free(s->rows[--i]);
            return false;
        }
        if (count) memcpy(s->rows[i], s->of[from[i]], count * sizeof **s->rows);
    }
    return true;
}

void qkv_decoder_sums_leave(qkv_decoder *d, const int64_t *to, int64_t n)
{
    struct qkv_decoder_sums *s = &d->sums;
    for (int64_t i = 0; s->stride && i < n; i++) {
        qkv_free(s->of[to[i]]);
        s->of[to[i]] = s->rows[i];
        s->capacity[to[i]] = d->length[to[i]] * s->stride;
    }
}

void qkv_decoder_sums_drop(qkv_decoder *d, int64_t n)
{
    for (int64_t i = 0; d->sums.stride && i < n; i++) qkv_free(d->sums.rows[i]);
}
