// SPDX-License-Identifier: MIT
// weight_rows.c: computes one row of weights from the arrays of its layer.
#include "kernel/kernel.h"
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

// The keys of a tile stay in the first-level cache while the rows of a group read them.
enum { TILE = 128 };

void view_tiles_fill(float *to, const float *kt, int64_t S, int64_t E)
{
    for (int64_t j = 0; j < S; j += TILE) {
        const int64_t n = qkv_min64(TILE, S - j);
        for (int64_t e = 0; e < E; e++, to += n) memcpy(to, kt + e * S + j, (size_t)n * sizeof *to);
    }
}

void view_products(float *s, const float *q, const float *tiles, const struct view_stack *v,
                   int64_t layer, int64_t row, int64_t rows)
{
    const int64_t S = v->shape.keys, E = v->shape.head_width;
    for (int64_t j = 0; j < S; j += TILE) {
        const int64_t n = qkv_min64(TILE, S - j);
        for (int64_t i = 0; i < rows; i++) {
            const struct view_span at = view_span(v, layer, row + i);
            const int64_t from = qkv_max64(at.from, j), to = qkv_min64(at.to, j + n);
            if (from >= to) continue;
            qkv_kernel()->weigh_rows(s + i * S + from, q + i * E, tiles + j * E + from - j, n,
                                     to - from, E);
        }
    }
}

void view_bias(float *s, const struct view_stack *v, int64_t layer, int64_t head, int64_t row)
{
    const struct view_layer *l = &v->layer[layer];
    const struct view_span at = view_span(v, layer, row);
    const float scale = l->scale, softcap = l->softcap;
    for (int64_t j = at.from; j < at.to; j++) s[j] *= scale;
    if (softcap > 0)
        for (int64_t j = at.from; j < at.to; j++) s[j] = softcap * tanhf(s[j] / softcap);
    if (l->relative) {
        const float *table = l->relative + head * (2 * l->reach + 1) + l->reach;
        for (int64_t j = at.from; j < at.to; j++)
            s[j] += table[qkv_max64(-l->reach, qkv_min64(l->reach, j - row))];
    }
    if (l->alibi)
        for (int64_t j = at.from; j < at.to; j++)
            s[j] -= l->alibi[head] * (float)(j > row ? j - row : row - j);
}

// Loops that wait for one sum take several times as long as loops with LANES sums.
enum { LANES = 8 };
double view_sum(const float *x, int64_t n)
{
    double sum[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sum[k] += x[i + k];
    for (; i < n; i++) sum[0] += x[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}
float view_largest(const float *x, int64_t n)
{
    float top[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) top[k] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) top[k] = x[i + k] > top[k] ? x[i + k] : top[k];
    for (; i < n; i++) top[0] = x[i] > top[0] ? x[i] : top[0];
    for (int k = 1; k < LANES; k++) top[0] = top[k] > top[0] ? top[k] : top[0];
    return top[0];
}

void view_exp(float *w, const float *s, float from, int64_t n)
{
    for (int64_t j = 0; j < n; j++) w[j] = s[j] - from;
    qkv_kernel()->exp(w, w, n);
}

// Computes a row of weights w[S] = exp(score - lse) and the logarithms score - lse in logs[S],
// which contains the products of the row's query; a key with the weight 0 may have any number
// there. The weight of a masked key is 0. logs and w may be the same array: it then receives the
// weights.
static void weights_and_logs(float *w, float *logs, const struct view_stack *v, int64_t layer,
                             int64_t head, int64_t row)
{
    const int64_t S = v->shape.keys;
    const float lse = v->layer[layer].lse[head * v->shape.tokens + row];
    const struct view_span at = view_span(v, layer, row);
    if (isinf(lse)) { // every key of the row is masked, or a score is +Inf: the weights are no
                      // numbers, as in the operator
        for (int64_t j = 0; j < S; j++) w[j] = lse > 0 && j >= at.from && j < at.to ? NAN : 0;
        return;
    }
    view_bias(logs, v, layer, head, row);
    for (int64_t j = at.from; j < at.to; j++) logs[j] -= lse;
    qkv_kernel()->exp(w + at.from, logs + at.from, at.to - at.from);
    for (int64_t j = 0; j < at.from; j++) w[j] = 0;
    for (int64_t j = at.to; j < S; j++) w[j] = 0;
}

void view_rows(float *w, float *logs, const float *tiles, const struct view_stack *v, int64_t layer,
               int64_t head, int64_t row, int64_t rows)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t S = v->shape.keys, E = v->shape.head_width;
    const bool products = l->q && !l->weights;
    if (products)
        view_products(logs ? logs : w, view_q(v, layer, head) + row * E, tiles, v, layer, row,
                      rows);
    for (int64_t i = 0; i < rows; i++, w += S) {
        float *terms = logs ? logs + i * S : NULL;
        if (products) {
            weights_and_logs(w, terms ? terms : w, v, layer, head, row + i);
            continue;
        }
        view_row(w, v, layer, head, row + i);
        for (int64_t j = 0; terms && j < S; j++) terms[j] = w[j] > 0 ? logf(w[j]) : 0;
    }
}

bool view_whole(const struct view_stack *v, int64_t layer)
{
    return v->layer[layer].weights || v->layer[layer].q;
}

void view_row(float *w, const struct view_stack *v, int64_t layer, int64_t head, int64_t row)
{
    const struct view_layer *l = &v->layer[layer];
    const int64_t T = v->shape.tokens, S = v->shape.keys, E = v->shape.head_width,
                  at = head * T + row;
    if (l->weights) {
        memcpy(w, l->weights + at * S, (size_t)S * sizeof *w);
        return;
    }
    if (l->q) {
        const struct view_span seen = view_span(v, layer, row);
        qkv_kernel()->weigh_rows(w + seen.from, view_q(v, layer, head) + row * E,
                                 view_kt(v, layer, head) + seen.from, S, seen.to - seen.from, E);
        weights_and_logs(w, w, v, layer, head, row);
        return;
    }
    const struct view_probe *p = &l->probe;
    for (int64_t j = 0; j < S; j++) w[j] = 0;
    for (int64_t i = at * p->k; i < (at + 1) * p->k; i++)
        if (p->key[i] >= 0 && p->key[i] < S) w[p->key[i]] = p->weight[i];
    if (p->k > 0 && p->weight[at * p->k] != p->weight[at * p->k])
        for (int64_t j = 0; j < S; j++) w[j] = NAN;
}
