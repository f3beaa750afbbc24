// SPDX-License-Identifier: MIT
// probe_gather.c: computes the probe of a layer (statistics of its weights) from the rows of
// weights, or copies a probe that a model run collected.
#include "view/data/view_data.h"
#include <math.h>
#include <string.h>

void view_probe_free(struct view_probe *p)
{
    qkv_free(p->key);
    qkv_free(p->weight);
    qkv_free(p->received);
    qkv_free(p->entropy);
    qkv_free(p->distance);
    qkv_free(p->max);
    qkv_free(p->mean);
    *p = (struct view_probe){ 0 };
}

static bool take(float **to, int64_t a, int64_t b, int64_t c)
{
    size_t n;
    *to = qkv_mul_size(&n, (size_t)a, (size_t)b) && qkv_mul_size(&n, n, (size_t)c)
              ? qkv_alloc_zero(n, sizeof **to)
              : NULL;
    return *to != NULL;
}

static bool take_keys(struct view_probe *p, int64_t H, int64_t T)
{
    size_t n;
    if (!qkv_mul_size(&n, (size_t)(H * T), (size_t)p->k)) return false;
    p->key = qkv_alloc(n, sizeof *p->key);
    return p->key && take(&p->weight, H, T, p->k);
}

static bool copy(float **to, const float *from, int64_t a, int64_t b, int64_t c)
{
    if (!from) return true;
    if (!take(to, a, b, c)) return false;
    memcpy(*to, from, (size_t)(a * b * c) * sizeof **to);
    return true;
}

qkv_status view_probe_copy(struct view_probe *to, const struct qkv_probe *from,
                           const struct view_stack *v, qkv_error *err)
{
    const int64_t H = v->shape.heads, T = v->shape.tokens, S = v->shape.keys, n = from->side;
    *to = (struct view_probe){ .k = from->top_k,
                               .side = n > 0 && from->tile_max && from->tile_mean ? n : 0 };
    if (take_keys(to, H, T) && copy(&to->received, from->received, H, S, 1) &&
        copy(&to->entropy, from->entropy, H, T, 1) &&
        copy(&to->distance, from->distance, H, T, 1) &&
        (!to->side ||
         (copy(&to->max, from->tile_max, H, n, n) && copy(&to->mean, from->tile_mean, H, n, n)))) {
        const size_t size = (size_t)(H * T * to->k);
        memcpy(to->key, from->top_key, size * sizeof *to->key);
        memcpy(to->weight, from->top_weight, size * sizeof *to->weight);
        return QKV_OK;
    }
    view_probe_free(to);
    return qkv_fail_memory(err, NULL);
}

struct job {
    const struct view_stack *v;
    int64_t layer;
    struct view_probe *p;
    float *scratch; // [threads][S]
};

// Writes the k largest weights of w[S] and their keys, in descending order. Among equal weights the
// smaller key is first.
static void keep_top(int32_t *key, float *weight, int64_t k, const float *w, int64_t S)
{
    int64_t n = 0;
    for (int64_t j = 0; j < S; j++) {
        if (!(w[j] > 0) || (n == k && !(w[j] > weight[k - 1]))) continue;
        int64_t at = n < k ? n++ : k - 1;
        for (; at > 0 && weight[at - 1] < w[j]; at--) {
            weight[at] = weight[at - 1];
            key[at] = key[at - 1];
        }
        weight[at] = w[j];
        key[at] = (int32_t)j;
    }
    for (; n < k; n++) {
        key[n] = -1;
        weight[n] = 0;
    }
}

static void add_blocks(struct view_probe *p, int64_t head, int64_t row, const float *w, int64_t T,
                       int64_t S)
{
    const int64_t n = p->side, at = (head * n + row * n / T) * n;
    for (int64_t b = 0; b < n; b++) {
        float most = p->max[at + b], sum = 0;
        // end of block b: the block has the keys j with floor(j n / S) = b
        const int64_t end = ((b + 1) * S + n - 1) / n;
        for (int64_t j = (b * S + n - 1) / n; j < end; j++) {
            most = w[j] > most ? w[j] : most;
            sum += w[j];
        }
        p->max[at + b] = most;
        p->mean[at + b] += sum;
    }
}

static int64_t block_size(int64_t block, int64_t tokens, int64_t side)
{
    return ((block + 1) * tokens + side - 1) / side - (block * tokens + side - 1) / side;
}

static void gather_head(void *ctx, int64_t head, int thread)
{
    struct job *j = ctx;
    struct view_probe *p = j->p;
    const int64_t T = j->v->shape.tokens, S = j->v->shape.keys, n = p->side;
    float *w = j->scratch + thread * S;
    for (int64_t i = 0; i < T; i++) {
        const int64_t at = head * T + i;
        double sum = 0, entropy = 0;
        view_row(w, j->v, j->layer, head, i);
        for (int64_t k = 0; k < S; k++) sum += w[k];
        if (!isfinite(sum)) {
            for (int64_t k = 0; k < p->k; k++) {
                p->key[at * p->k + k] = -1;
                p->weight[at * p->k + k] = NAN;
            }
            p->entropy[at] = NAN;
            continue;
        }
        for (int64_t k = 0; k < S; k++) {
            if (w[k] > 0) entropy -= w[k] * logf(w[k]);
            p->received[head * S + k] += w[k];
        }
        p->entropy[at] = (float)entropy;
        keep_top(p->key + at * p->k, p->weight + at * p->k, p->k, w, S);
        if (n) add_blocks(p, head, i, w, T, S);
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n; b++) {
            const int64_t pairs = block_size(a, T, n) * block_size(b, S, n);
            if (pairs) p->mean[(head * n + a) * n + b] /= (float)pairs;
        }
}

qkv_status view_probe_gather(struct view_probe *to, const struct view_stack *v, int64_t layer,
                             int64_t k, int64_t side, qkv_error *err)
{
    const int64_t H = v->shape.heads, T = v->shape.tokens, S = v->shape.keys;
    const int threads = qkv_threads();
    struct job job = { v, layer, to, NULL };
    *to = (struct view_probe){ .k = qkv_min64(k, S), .side = side };
    if (!take(&job.scratch, threads, S, 1) || !take_keys(to, H, T) ||
        !take(&to->received, H, S, 1) || !take(&to->entropy, H, T, 1) ||
        (side && (!take(&to->max, H, side, side) || !take(&to->mean, H, side, side)))) {
        qkv_free(job.scratch);
        view_probe_free(to);
        return qkv_fail_memory(err, NULL);
    }
    qkv_parallel_for_most(H, threads, gather_head, &job);
    qkv_free(job.scratch);
    return QKV_OK;
}
