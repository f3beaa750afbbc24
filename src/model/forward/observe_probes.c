// SPDX-License-Identifier: MIT
// observe_probes.c: allocates the arrays of the probes that an observer requests, which the
// attention operator fills in every layer, and inserts padding rows into them.
#include "model/forward/forward.h"
#include <string.h>

// Returns the index of the caller's row r among the computed rows; -1: row r is padding.
static int64_t computed(const struct qkv_side *s, int64_t r)
{
    const int64_t *offsets = s->in->offsets;
    int64_t lo = 0, hi = s->sequences; // offsets[lo] <= r < offsets[hi]
    while (hi - lo > 1) {
        const int64_t middle = lo + (hi - lo) / 2;
        if (offsets[middle] <= r)
            lo = middle;
        else
            hi = middle;
    }
    const int64_t at = s->offsets[lo] + r - offsets[lo];
    return at < s->offsets[lo + 1] ? at : -1;
}

static void take_one(struct qkv_observed_probe *p, struct qkv_arena *a, const struct qkv_run *u,
                     const struct qkv_side *s, const struct qkv_side *keys)
{
    const struct qkv_probe_request *w = &u->observer->probe;
    const int64_t H = p->heads = u->m->stack[0].block[0].heads.H;
    const bool padded = s->R < s->all;
    // rows: number of requested rows that exist; own: number of requested rows that are computed
    int64_t rows = 0, own = 0, *row = NULL;
    if (padded) row = qkv_arena_alloc(a, (size_t)w->rows, sizeof *row);
    for (; rows < w->rows && w->row[rows] < s->all; rows++) {
        const int64_t r = computed(s, w->row[rows]);
        if (r < 0) continue;
        // row is NULL if the arena only counts bytes, and if there is no padding
        if (row) row[own] = r;
        own++;
    }
    p->at.rows = own;
    p->at.row = padded ? row : w->row;
    p->padded.rows = rows;
    p->padded.row = w->row;
    qkv_probe_take(&p->at, a, w, H, s->R, keys->R);
    if (padded || keys->R < keys->all) qkv_probe_take(&p->padded, a, w, H, s->all, keys->all);
}

static void lay_out_probes(void *ctx, struct qkv_arena *a)
{
    struct qkv_run *u = ctx;
    for (int i = 0; i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        take_one(&s->probe, a, u, s, s);
        if (s->stack) take_one(&s->probe_cross, a, u, s, &u->side[0]);
    }
}

qkv_status qkv_observed_probe_begin(struct qkv_run *u, qkv_error *err)
{
    if (!u->observer || !qkv_probe_requested(&u->observer->probe)) return QKV_OK;
    u->probes = qkv_arena_twice(lay_out_probes, u, false);
    return u->probes ? QKV_OK : qkv_fail_memory(err, NULL);
}

// ---- padding rows ------------------------------------------------------------------------------
// Copies from[H][from_rows][each] to to[H][to_rows][each]: row r becomes row place[r], or row r if
// place is NULL. All bytes of the other rows are set to `fill`.
static void spread(void *to, int64_t to_rows, const void *from, int64_t from_rows,
                   const int64_t *place, int64_t H, int64_t each, int fill)
{
    const size_t size = (size_t)each * sizeof(float);
    if (!to) return;
    memset(to, fill, (size_t)(H * to_rows) * size);
    for (int64_t h = 0; h < H; h++)
        for (int64_t r = 0; r < from_rows; r++)
            memcpy((char *)to + (size_t)(h * to_rows + (place ? place[r] : r)) * size,
                   (const char *)from + (size_t)(h * from_rows + r) * size, size);
}

// Copies the requested rows of weights from p->at to p->padded. Each row begins with the weights of
// its keys, followed by 0; padding rows are 0.
static void spread_full(const struct qkv_observed_probe *p, const struct qkv_side *s, int64_t H,
                        int64_t to_keys, int64_t keys)
{
    const struct qkv_probe *from = &p->at, *to = &p->padded;
    memset(to->row_weights, 0, (size_t)(H * to->rows * to_keys) * sizeof(float));
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0, n = 0; i < to->rows && n < from->rows; i++) {
            if (computed(s, to->row[i]) != from->row[n]) continue;
            memcpy(to->row_weights + (h * to->rows + i) * to_keys,
                   from->row_weights + (h * from->rows + n++) * keys, (size_t)keys * sizeof(float));
        }
}

const struct qkv_probe *qkv_observed_probe_output(struct qkv_observed_probe *p,
                                                  const struct qkv_side *s,
                                                  const struct qkv_side *keys)
{
    const int64_t H = p->heads;
    const struct qkv_probe *from = &p->at, *to = &p->padded;
    if (s->R == s->all && keys->R == keys->all) return from;
    // top_k is at most the number of keys, and p->at may have fewer keys than p->padded, which
    // includes padding.
    const int64_t k = from->top_k, all = to->top_k;
    spread(to->top_weight, s->all, NULL, 0, NULL, H, all, 0);
    spread(to->top_key, s->all, NULL, 0, NULL, H, all, 0xff);
    for (int64_t h = 0; to->top_weight && h < H; h++)
        for (int64_t r = 0; r < s->R; r++) {
            const int64_t at = (h * s->all + (s->place ? s->place[r] : r)) * all;
            memcpy(to->top_weight + at, from->top_weight + (h * s->R + r) * k,
                   (size_t)k * sizeof(float));
            memcpy(to->top_key + at, from->top_key + (h * s->R + r) * k,
                   (size_t)k * sizeof(int32_t));
        }
    spread(to->received, keys->all, from->received, keys->R, keys->place, H, 1, 0);
    spread(to->entropy, s->all, from->entropy, s->R, s->place, H, 1, 0);
    spread(to->distance, s->all, from->distance, s->R, s->place, H, 1, 0);
    if (to->row_weights) spread_full(p, s, H, keys->all, keys->R);
    spread(to->offsets, 1, from->offsets, 1, NULL, H, 2 * to->reach + 1, 0);
    spread(to->tile_max, to->side, from->tile_max, to->side, NULL, H, to->side, 0);
    spread(to->tile_mean, to->side, from->tile_mean, to->side, NULL, H, to->side, 0);
    return to;
}
