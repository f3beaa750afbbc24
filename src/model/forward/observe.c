// SPDX-License-Identifier: MIT
// observe.c: calls the observer of a run after each layer; before the call it inserts padding rows
// and, if requested, computes the dense weights.
#include "model/forward/forward.h"
#include <math.h>
#include <string.h>

static const struct qkv_heads *heads_of(const struct qkv_run *u)
{
    return &u->m->stack[0].block[0].heads;
}

// Returns the number of tokens of the longest query or key sequence, which determines the size of
// the dense weights.
static int64_t longest_side(const struct qkv_run *u)
{
    int64_t n = 0;
    for (int i = 0; i < u->sides; i++) n = qkv_max64(n, u->side[i].longest);
    return n;
}

// Returns the attention `like` for a single sequence that is not packed, with T queries and S keys.
static struct qkv_attention alone(const struct qkv_run *u, const struct qkv_attention *like,
                                  int64_t T, int64_t S)
{
    const struct qkv_heads *heads = heads_of(u);
    struct qkv_attention a = *like;
    a.B = 1;
    a.T = T;
    a.S = S;
    a.H = heads->H;
    a.G = heads->G;
    a.E = heads->E;
    a.F = heads->F;
    a.sequences = 0;
    a.q_offsets = a.k_offsets = NULL;
    a.probe = NULL; // the run of the layer has already collected the statistics
    return a;
}

qkv_status qkv_observe_plan(struct qkv_run *u)
{
    const int64_t n = longest_side(u);
    u->square_scratch = 0;
    for (int i = 0; i < u->sides; i++) {
        const struct qkv_side *s = &u->side[i];
        const struct qkv_attention *each[] = { &s->attention, &s->local, &s->across };
        for (int k = 0; k < 2 + (s->stack > 0); k++) {
            const struct qkv_attention a = alone(u, each[k], n, n);
            const struct qkv_attention_plan p = qkv_attention_plan(&a);
            if (p.status) return p.status;
            if (p.scratch > u->square_scratch) u->square_scratch = p.scratch;
        }
    }
    return QKV_OK;
}

static void take_keep(struct qkv_heads_keep *keep, struct qkv_arena *a, size_t R, size_t S,
                      const struct qkv_heads *heads)
{
    const size_t q = (size_t)(heads->H * heads->E), k = (size_t)(heads->G * heads->E);
    keep->q = qkv_arena_alloc(a, R, q * sizeof(float));
    keep->k = qkv_arena_alloc(a, S, k * sizeof(float));
    keep->v = qkv_arena_alloc(a, S, (size_t)(heads->G * heads->F) * sizeof(float));
    keep->lse = qkv_arena_alloc(a, R * (size_t)heads->H, sizeof(float));
}

static void take_sublayers(struct qkv_side *s, struct qkv_arena *a, int64_t width)
{
    const size_t row = (size_t)width * sizeof(float);
    s->sublayers.width = width;
    s->sublayers.place = s->place;
    s->stream.sublayers = &s->sublayers;
    for (int k = 0; k < QKV_SUBLAYERS; k++) {
        if (k == QKV_SUBLAYER_CROSS && !s->stack) continue;
        float *at = s->sublayers.at[k] = qkv_arena_alloc(a, (size_t)s->all, row);
        if (at && s->R < s->all) memset(at, 0, (size_t)s->all * row);
    }
}

void qkv_observe_alloc(struct qkv_run *u, struct qkv_arena *a)
{
    const struct qkv_heads *heads = heads_of(u);
    const size_t H = (size_t)heads->H, q = H * (size_t)heads->E, n = (size_t)longest_side(u);
    const size_t k = (size_t)(heads->G * heads->E), v = (size_t)(heads->G * heads->F);
    size_t rows = 0;
    for (int i = 0; i < u->sides; i++) {
        struct qkv_side *s = &u->side[i];
        const size_t all = (size_t)s->all;
        if (all > rows) rows = all;
        if (u->observer->sublayers) take_sublayers(s, a, u->m->is.size.width);
        const bool keeps = qkv_observe_keeps(u), padded = s->R < s->all;
        if (padded)
            s->spread = qkv_arena_alloc(a, all * (size_t)u->m->is.size.width, sizeof(float));
        if (!keeps) continue;
        take_keep(&s->keep, a, (size_t)s->R, (size_t)s->R, heads);
        if (s->stack) take_keep(&s->keep_cross, a, (size_t)s->R, (size_t)u->side[0].R, heads);
        if (!padded) continue;
        s->spread_q = qkv_arena_alloc(a, all, q * sizeof(float));
        s->spread_k = qkv_arena_alloc(a, all, k * sizeof(float));
        s->spread_v = qkv_arena_alloc(a, all, v * sizeof(float));
        s->spread_lse = qkv_arena_alloc(a, all * H, sizeof(float));
    }
    if (!u->observer->weights) return;
    u->dense = qkv_arena_alloc(a, H * rows, n * sizeof(float));
    u->square = qkv_arena_alloc(a, H * n, n * sizeof(float));
    u->square_q = qkv_arena_alloc(a, n, q * sizeof(float));
    u->square_k = qkv_arena_alloc(a, n, k * sizeof(float));
    u->square_v = qkv_arena_alloc(a, n, v * sizeof(float));
    u->square_out = qkv_arena_alloc(a, n, H * (size_t)heads->F * sizeof(float));
    u->square_scratch_at = qkv_arena_alloc(a, u->square_scratch, 1);
}

const float *qkv_observe_spread(const struct qkv_side *s, float *to, const float *from,
                                int64_t width)
{
    if (!s->place) return from;
    memset(to, 0, (size_t)(s->all * width) * sizeof *to);
    for (int64_t r = 0; r < s->R; r++)
        memcpy(to + s->place[r] * width, from + r * width, (size_t)width * sizeof *to);
    return to;
}

static const float *spread_lse(const struct qkv_side *s, const float *from, int64_t H)
{
    float *to = s->spread_lse;
    if (!s->place) return from;
    for (int64_t i = 0; i < H * s->all; i++) to[i] = -INFINITY;
    for (int64_t h = 0; h < H; h++)
        for (int64_t r = 0; r < s->R; r++) to[h * s->all + s->place[r]] = from[h * s->R + r];
    return to;
}

// Returns the n recorded numbers `from` in `type`, the type of the attention operator: if it is
// F32, `from` itself; otherwise `to`, which receives the numbers converted back. The conversion is
// exact, since they had this type before.
static const void *stored(qkv_dtype type, void *to, const float *from, int64_t n)
{
    if (type == QKV_F32) return from;
    qkv_from_f32(to, type, from, n);
    return to;
}

// Computes u->dense: runs the attention operator again on the recorded q, k and v, one sequence at
// a time, so that u->square and the scratch depend on the longest sequence and not on the number of
// all tokens.
static qkv_status dense_weights(struct qkv_run *u, const struct qkv_side *s,
                                const struct qkv_side *keys, const struct qkv_heads_keep *keep,
                                const struct qkv_attention *like)
{
    const struct qkv_heads *heads = heads_of(u);
    const int64_t H = heads->H, n = keys->longest;
    const int64_t q = H * heads->E, k = heads->G * heads->E, v = heads->G * heads->F;
    const qkv_dtype type = qkv_precision_type(like->precision);
    memset(u->dense, 0, (size_t)(H * s->all * n) * sizeof(float));
    for (int64_t i = 0; i < s->sequences; i++) {
        const int64_t at = s->offsets[i], T = s->offsets[i + 1] - at;
        const int64_t from = keys->offsets[i], S = keys->offsets[i + 1] - from;
        if (!T) continue;
        const struct qkv_attention a = alone(u, like, T, S);
        const qkv_status status = qkv_attention_forward(
            u->square_out, NULL, u->square, stored(type, u->square_q, keep->q + at * q, T * q),
            stored(type, u->square_k, keep->k + from * k, S * k),
            stored(type, u->square_v, keep->v + from * v, S * v), &a, u->square_scratch_at);
        if (status) return status;
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++)
                memcpy(u->dense + (h * s->all + s->in->offsets[i] + t) * n,
                       u->square + (h * T + t) * S, (size_t)S * sizeof(float));
    }
    return QKV_OK;
}

void qkv_observe_heads(struct qkv_layer_output *output, const struct qkv_heads *heads,
                       const struct qkv_attention *a)
{
    output->H = heads->H;
    output->G = heads->G;
    output->E = heads->E;
    output->F = heads->F;
    output->causal = a->causal;
    output->left = a->window.on ? a->window.left : -1;
    output->right = a->window.on ? a->window.right : -1;
    output->softcap = a->softcap;
    output->relative = a->relative.at;
    output->reach = a->relative.reach;
    output->scale = a->scale != 0 ? a->scale : (float)(1 / sqrt((double)heads->E));
}

// Fills in the sizes and the results of one attention of a layer. keys: the side from which k and v
// come.
static qkv_status fill(struct qkv_layer_output *output, struct qkv_run *u, struct qkv_side *s,
                       struct qkv_side *keys, const struct qkv_heads_keep *keep,
                       struct qkv_observed_probe *probe, const struct qkv_attention *a,
                       qkv_error *err)
{
    const struct qkv_heads *heads = heads_of(u);
    const int64_t H = heads->H, G = heads->G;
    qkv_observe_heads(output, heads, a);
    output->S = keys->all;
    output->k_offsets = keys->in->offsets;
    if (output->layer < 0) return QKV_OK;
    if (u->probes) output->probe = qkv_observed_probe_output(probe, s, keys);
    if (!qkv_observe_keeps(u)) return QKV_OK;
    output->q = qkv_observe_spread(s, s->spread_q, keep->q, H * heads->E);
    output->k = qkv_observe_spread(keys, keys->spread_k, keep->k, G * heads->E);
    output->v = qkv_observe_spread(keys, keys->spread_v, keep->v, G * heads->F);
    output->lse = spread_lse(s, keep->lse, H);
    if (!u->dense) return QKV_OK;
    const qkv_status status = dense_weights(u, s, keys, keep, a);
    if (status)
        return qkv_fail(err, status, NULL, "dense attention weights cannot be computed: %s",
                        qkv_status_name(status));
    output->weights = u->dense;
    return QKV_OK;
}

static qkv_status tell(const struct qkv_run *u, const struct qkv_layer_output *output,
                       qkv_error *err)
{
    return u->observer->layer(u->observer->user, output)
               ? qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "stopped")
               : QKV_OK;
}

qkv_status qkv_observe_layer(struct qkv_run *u, struct qkv_side *s, int64_t layer, qkv_error *err)
{
    const bool two = u->m->stacks > 1, local = layer >= 0 && qkv_described_local(&u->m->is, layer);
    struct qkv_layer_output output = { .layer = layer, .R = s->all, .q_offsets = s->in->offsets };
    qkv_status status = QKV_OK;
    if (s->stack && layer >= 0) {
        output.part = QKV_PART_CROSS;
        status = fill(&output, u, s, &u->side[0], &s->keep_cross, &s->probe_cross, &s->across, err);
        if (!status) status = tell(u, &output, err);
    }
    if (status) return status;
    output.part = !two ? QKV_PART_STACK : s->stack ? QKV_PART_DECODER : QKV_PART_ENCODER;
    output.hidden = qkv_observe_spread(s, s->spread, s->stream.x, u->m->is.size.width);
    for (int k = 0; k < QKV_SUBLAYERS; k++)
        if (s->sublayers.stored & 1u << k) output.stream[k] = s->sublayers.at[k];
    s->sublayers.stored = 0;
    const struct qkv_attention own = qkv_block_attention(
        &u->stack[s->stack].block[qkv_max64(layer, 0)], local ? &s->local : &s->attention);
    status = fill(&output, u, s, s, &s->keep, &s->probe, &own, err);
    return status ? status : tell(u, &output, err);
}
