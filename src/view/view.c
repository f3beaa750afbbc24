// SPDX-License-Identifier: MIT
// view.c: collects what the weights of every head can be computed from again, linear in tokens.
//   weight[i][j] = exp(scale q_i.k_j - lse_i)
#include "view/view.h"
#include <math.h>
#include <string.h>

// Text of a token for telling whether two are the same word: its source bytes, lower-cased by the
// tokenizer where the model does so; hence raw.
static bool same_word(const struct qkv_view_token *a, const struct qkv_view_token *b)
{
    return strcmp(a->raw, b->raw) == 0;
}

// An open hash table keeps the search for earlier copies linear in tokens.
static qkv_status find_words(qkv_view *v, qkv_error *err)
{
    const int64_t T = v->shape.tokens;
    int64_t slots = 16;
    while (slots < 2 * T) slots *= 2;
    int64_t *table = qkv_alloc((size_t)slots, sizeof *table);
    if (!table) return qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < slots; i++) table[i] = -1;
    for (int64_t i = 0; i < T; i++) {
        v->word[i] = -1;
        if (v->shape.token[i].special) continue;
        uint64_t hash = 1469598103934665603u; // FNV-1a
        for (const char *c = v->shape.token[i].raw; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        int64_t at = (int64_t)(hash & (uint64_t)(slots - 1));
        while (table[at] >= 0 && !same_word(&v->shape.token[table[at]], &v->shape.token[i]))
            at = (at + 1) & (slots - 1);
        if (table[at] < 0) table[at] = i;
        v->word[i] = table[at];
    }
    qkv_free(table);
    return QKV_OK;
}

static bool count(size_t *out, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return qkv_mul_size(out, (size_t)a, (size_t)b) && qkv_mul_size(out, *out, (size_t)c) &&
           qkv_mul_size(out, *out, (size_t)d);
}

qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !s)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_new, expected a place and a shape, found NULL");
    *out = NULL;
    const int64_t G = s->kv_heads ? s->kv_heads : s->heads;
    if (s->tokens < 1 || s->layers < 1 || s->heads < 1 || s->head_width < 1 || !s->token)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "nothing to show, expected tokens, layers, heads and their width >= 1");
    if (G < 1 || s->heads % G)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "%lld heads on %lld key heads, expected a multiple", (long long)s->heads,
                        (long long)G);
    size_t nq, nk, nl;
    if (!count(&nq, s->layers, s->heads, s->tokens, s->head_width) ||
        !count(&nk, s->layers, G, s->tokens, s->head_width) ||
        !count(&nl, s->layers, s->heads, s->tokens, 1))
        return qkv_fail_memory(err, NULL);
    qkv_view *v = qkv_alloc_zero(1, sizeof *v);
    if (!v) return qkv_fail_memory(err, NULL);
    qkv_status status = QKV_OK;
    v->shape = *s;
    v->shape.kv_heads = G;
    v->q = qkv_alloc(nq, sizeof *v->q);
    v->kt = qkv_alloc(nk, sizeof *v->kt);
    v->lse = qkv_alloc(nl, sizeof *v->lse);
    v->stats = qkv_alloc_zero((size_t)(s->layers * s->heads), sizeof *v->stats);
    v->word = qkv_alloc((size_t)s->tokens, sizeof *v->word);
    v->filled = qkv_alloc_zero((size_t)s->layers, sizeof *v->filled);
    if (!v->q || !v->kt || !v->lse || !v->stats || !v->word || !v->filled) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    status = find_words(v, err);
    if (status) goto done;
    bool part[2] = { false, false };
    for (int64_t i = 0; i < s->tokens; i++) {
        if (s->token[i].special) continue;
        v->visible++;
        part[s->token[i].part != 0] = true;
    }
    v->pair = part[0] && part[1];
    *out = v;
done:
    if (status) qkv_view_free(v);
    return status;
}

void qkv_view_free(qkv_view *v)
{
    if (!v) return;
    qkv_free(v->q);
    qkv_free(v->kt);
    qkv_free(v->lse);
    qkv_free(v->stats);
    qkv_free(v->word);
    qkv_free(v->filled);
    qkv_free(v);
}

void view_scores(float *s, const float *q, const float *kt, int64_t n, int64_t E, int64_t ld)
{
    enum { BLOCK = 32 }; // keys whose sums stay in registers
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

int64_t view_weights(float *w, const qkv_view *v, const float *q, const float *kt, float lse,
                     int64_t row)
{
    const int64_t T = v->shape.tokens, n = v->shape.causal ? row + 1 : T;
    view_scores(w, q, kt, n, v->shape.head_width, T);
    if (lse == -INFINITY) // every key masked
        for (int64_t j = 0; j < n; j++) w[j] = 0;
    else
        for (int64_t j = 0; j < n; j++) w[j] = expf(w[j] - lse);
    for (int64_t j = n; j < T; j++) w[j] = 0;
    return n;
}

// One layer's heads, measured side by side.
struct layer_job {
    qkv_view *v;
    int64_t layer, room;
    float *scratch; // [threads][room]
};
static void measure_head(void *ctx, int64_t head, int thread)
{
    struct layer_job *job = ctx;
    struct view_stats *out = job->v->stats + job->layer * job->v->shape.heads + head;
    view_measure(out, job->v, job->layer, head, job->scratch + thread * job->room);
}

qkv_status qkv_view_layer(qkv_view *v, int64_t layer, const float *q, const float *k,
                          const float *lse, float scale, qkv_error *err)
{
    if (!v || !q || !k || !lse)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_layer, expected a view, q, k and lse, found NULL");
    const int64_t T = v->shape.tokens, H = v->shape.heads, G = v->shape.kv_heads,
                  E = v->shape.head_width;
    if (layer < 0 || layer >= v->shape.layers)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "layer %lld, expected 0 to %lld",
                        (long long)layer, (long long)v->shape.layers - 1);
    struct layer_job job = { v, layer, view_measure_scratch(T), NULL };
    const int threads = qkv_threads();
    size_t floats;
    if (!qkv_mul_size(&floats, (size_t)job.room, (size_t)threads))
        return qkv_fail_memory(err, NULL);
    job.scratch = qkv_alloc(floats, sizeof *job.scratch);
    if (!job.scratch) return qkv_fail_memory(err, NULL);
    float *vq = v->q + layer * H * T * E, *vk = v->kt + layer * G * T * E;
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t e = 0; e < E; e++)
                vq[(h * T + t) * E + e] = scale * q[(t * H + h) * E + e];
    for (int64_t g = 0; g < G; g++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t e = 0; e < E; e++) vk[(g * E + e) * T + t] = k[(t * G + g) * E + e];
    memcpy(v->lse + layer * H * T, lse, (size_t)(H * T) * sizeof *lse);
    qkv_parallel_for_most(H, threads, measure_head, &job);
    v->filled[layer] = true;
    qkv_free(job.scratch);
    return QKV_OK;
}

static bool has_head(const qkv_view *v, int64_t layer, int64_t head)
{
    return v && layer >= 0 && layer < v->shape.layers && head >= 0 && head < v->shape.heads &&
           v->filled[layer];
}

void qkv_view_row(const qkv_view *v, float *out, int64_t layer, int64_t head, int64_t row)
{
    if (!out || !has_head(v, layer, head) || row < 0 || row >= v->shape.tokens) return;
    view_weights(out, v, view_q(v, layer, head) + row * v->shape.head_width,
                 view_kt(v, layer, head), view_lse(v, layer, head)[row], row);
}

struct qkv_view_head qkv_view_head(const qkv_view *v, int64_t layer, int64_t head)
{
    if (!has_head(v, layer, head)) return (struct qkv_view_head){ .kind = "", .word = -1 };
    const struct view_stats *s = view_stats(v, layer, head);
    return (struct qkv_view_head){
        .kind = s->kind < VIEW_KINDS ? view_kinds[s->kind].name : "",
        .strength = s->strength,
        .word = s->word,
        .keys_read = s->keys,
        .distance = s->distance,
        .focus = s->focus,
        .special = s->shares[4],
    };
}
