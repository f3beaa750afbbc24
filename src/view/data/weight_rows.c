// SPDX-License-Identifier: MIT
// weight_rows.c: computes one row of weights from the arrays of its layer.
#include "view/data/view_data.h"
#include <math.h>
#include <string.h>

const float *view_q(const struct view_stack *v, int64_t layer, int64_t head)
{
    const float *q = v->layer[layer].q;
    return q ? q + head * v->shape.tokens * v->shape.head_width : NULL;
}

const float *view_kt(const struct view_stack *v, int64_t layer, int64_t head)
{
    const float *kt = v->layer[layer].kt;
    const int64_t g = head / (v->shape.heads / v->shape.kv_heads);
    return kt ? kt + g * v->shape.keys * v->shape.head_width : NULL;
}

struct view_span view_span(const struct view_stack *v, int64_t layer, int64_t row)
{
    const struct view_layer *l = &v->layer[layer];
    struct view_span s = { 0, v->shape.keys };
    if (v->shape.causal) s.to = qkv_min64(s.to, row + 1);
    if (l->right >= 0 && l->right < s.to - row) s.to = qkv_max64(0, row + l->right + 1);
    if (l->left >= 0) s.from = qkv_max64(0, row - l->left);
    s.to = qkv_min64(s.to, v->shape.keys);
    s.from = qkv_min64(s.from, s.to);
    return s;
}

void view_scores(float *s, const float *q, const float *kt, int64_t n, int64_t E, int64_t ld)
{
    enum { BLOCK = 32 }; // number of keys whose sums stay in registers
    int64_t j = 0;
    for (; j + BLOCK <= n; j += BLOCK) {
        float sum[BLOCK] = { 0 };
        for (int64_t e = 0; e < E; e++) {
            const float x = q[e], *k = kt + e * ld + j;
            for (int64_t i = 0; i < BLOCK; i++) sum[i] += x * k[i];
        }
        memcpy(s + j, sum, sizeof sum);
    }
    for (; j < n; j++) {
        float sum = 0;
        for (int64_t e = 0; e < E; e++) sum += q[e] * kt[e * ld + j];
        s[j] = sum;
    }
}

void view_bias(float *s, const struct view_stack *v, int64_t layer, int64_t head, int64_t row)
{
    const struct view_layer *l = &v->layer[layer];
    const struct view_span at = view_span(v, layer, row);
    for (int64_t j = at.from; j < at.to; j++) s[j] *= l->scale;
    if (l->softcap > 0)
        for (int64_t j = at.from; j < at.to; j++) s[j] = l->softcap * tanhf(s[j] / l->softcap);
    if (l->relative) {
        const float *table = l->relative + head * (2 * l->reach + 1) + l->reach;
        for (int64_t j = at.from; j < at.to; j++)
            s[j] += table[qkv_max64(-l->reach, qkv_min64(l->reach, j - row))];
    }
    if (l->alibi)
        for (int64_t j = at.from; j < at.to; j++)
            s[j] -= l->alibi[head] * (float)(j > row ? j - row : row - j);
}

void view_weights(float *w, const struct view_stack *v, const float *q, const float *kt, float lse,
                  int64_t layer, int64_t head, int64_t row)
{
    const int64_t S = v->shape.keys;
    const struct view_span at = view_span(v, layer, row);
    for (int64_t j = 0; j < at.from; j++) w[j] = 0;
    for (int64_t j = at.to; j < S; j++) w[j] = 0;
    if (lse == -INFINITY) { // every key of the row is masked
        for (int64_t j = at.from; j < at.to; j++) w[j] = 0;
        return;
    }
    if (lse == INFINITY) { // a score is +Inf: the weights are no numbers, as in the operator
        for (int64_t j = at.from; j < at.to; j++) w[j] = NAN;
        return;
    }
    view_scores(w + at.from, q, kt + at.from, at.to - at.from, v->shape.head_width, S);
    view_bias(w, v, layer, head, row);
    for (int64_t j = at.from; j < at.to; j++) w[j] = expf(w[j] - lse);
}

bool view_whole(const struct view_stack *v, int64_t layer)
{
    return v->layer[layer].weights || v->layer[layer].q;
}

void view_row(float *w, const struct view_stack *v, int64_t layer, int64_t head, int64_t row)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t T = v->shape.tokens, S = v->shape.keys, at = head * T + row;
    if (l->weights) {
        memcpy(w, l->weights + at * S, (size_t)S * sizeof *w);
        return;
    }
    if (l->q) {
        view_weights(w, v, view_q(v, layer, head) + row * v->shape.head_width,
                     view_kt(v, layer, head), l->lse[at], layer, head, row);
        return;
    }
    const struct view_probe *p = &l->probe;
    for (int64_t j = 0; j < S; j++) w[j] = 0;
    for (int64_t i = at * p->k; i < (at + 1) * p->k; i++)
        if (p->key[i] >= 0 && p->key[i] < S) w[p->key[i]] = p->weight[i];
    if (p->k > 0 && p->weight[at * p->k] != p->weight[at * p->k])
        for (int64_t j = 0; j < S; j++) w[j] = NAN;
}
