// SPDX-License-Identifier: MIT
// encode_top.c: encodes a layer of a long text: the largest weights of each row, and the matrix of
// weights as blocks.
//
// The weights are stored by rank: the largest weight of every row, then the second largest of every
// row, and so on, because deflate compresses weights of one rank better together. A key is stored
// as its distance from the row if it is near, and as its position if it is far. Then the same bytes
// repeat for heads that attend to neighbours, or to one token from all rows.
#include "view/page/page_internal.h"
#include <math.h>
#include <string.h>

// Returns the number of bytes per stored key.
static int64_t key_planes(const struct view_stack *v)
{
    int64_t planes = 1;
    while ((v->shape.keys + VIEW_FAR) >> 8 * planes) planes++;
    return planes;
}

static int64_t top_of(const struct view_stack *v, int64_t layer, const struct view_encoding *how)
{
    const struct view_probe *p = &v->layer[layer].probe;
    return qkv_min64(how->top, p->k ? p->k : v->shape.keys);
}
static int64_t side_of(const struct view_stack *v, int64_t layer, const struct view_encoding *how)
{
    const struct view_probe *p = &v->layer[layer].probe;
    return p->k ? p->side : how->side;
}

static int64_t coarse_bytes(const struct view_stack *v, int64_t side)
{
    return v->shape.heads * (2 * side * side + v->shape.tokens + 2 * v->shape.keys + 16);
}

int64_t view_top_bytes(const struct view_stack *v, int64_t layer, const struct view_encoding *how)
{
    const int64_t H = v->shape.heads, T = v->shape.tokens, k = top_of(v, layer, how),
                  n = side_of(v, layer, how);
    int64_t all;
    if (__builtin_mul_overflow(H * T, k * (key_planes(v) + 1) + 2, &all)) return -1;
    return all + coarse_bytes(v, n);
}

int64_t view_coarse_bytes(const struct view_stack *v, int64_t layer)
{
    const struct view_probe *p = &v->layer[layer].probe;
    return p->k ? coarse_bytes(v, p->side) : 0;
}

struct job {
    const struct view_stack *v;
    const struct view_probe *p;
    int64_t layer, k;
    uint8_t *top, *sum;
    struct view_loss *of; // [H]
};

static void put_row(struct job *j, int64_t head, int64_t row, double whole)
{
    const int64_t T = j->v->shape.tokens, m = j->v->shape.heads * T, n = j->k * m,
                  planes = key_planes(j->v), at = head * T + row;
    const int32_t *key = j->p->key + at * j->p->k;
    const float *w = j->p->weight + at * j->p->k;
    uint8_t *codes = j->top + planes * n, *largest = codes + n;
    struct view_loss *of = &j->of[head];
    if (w[0] != w[0]) {
        view_put_half(largest + at, m, 65535);
        of->not_numbers++;
        return;
    }
    const double first = key[0] >= 0 ? w[0] / whole : 0;
    const uint16_t u = (uint16_t)(65535 * sqrt(first < 1 ? first : 1) + .5);
    const double scale = whole * (u / 65535.) * (u / 65535.);
    view_put_half(largest + at, m, u);
    of->rows++;
    for (int64_t s = 0; s < j->k && key[s] >= 0 && u; s++) {
        const double share = w[s] / w[0];
        const int c = (int)(255 * sqrt(share < 1 ? share : 1) + .5);
        const double shown = scale * (c / 255.) * (c / 255.);
        const int64_t d = key[s] - row, z = d > VIEW_NEAR || d < -VIEW_NEAR ? VIEW_FAR + key[s]
                                            : d < 0                         ? -2 * d - 1
                                                                            : 2 * d;
        codes[s * m + at] = (uint8_t)c;
        for (int64_t b = 0; b < planes; b++) j->top[b * n + s * m + at] = (uint8_t)(z >> 8 * b);
        of->error = fmax(of->error, fabs(shown - (double)w[s]));
        of->kept += w[s] / whole;
    }
    if (!u) of->kept += 1; // the weight is rounded to 0 and counts as stored
}

static void put_head(void *ctx, int64_t head, int thread)
{
    (void)thread;
    struct job *j = ctx;
    const int64_t T = j->v->shape.tokens, S = j->v->shape.keys;
    const float *weights = j->v->layer[j->layer].weights;
    for (int64_t i = 0; i < T; i++) {
        double whole = 1;
        if (j->sum) {
            whole = 0;
            for (int64_t k = 0; k < S; k++) whole += weights[(head * T + i) * S + k];
            view_put_float(j->sum + head * T + i, j->v->shape.heads * T, (float)whole);
        }
        put_row(j, head, i, whole > 0 ? whole : 1);
    }
}

// Encodes x[N][M][K] as square roots with one scale per head, in 8 bits or, if `wide`, in 16 bits.
// Adds the array to the block.
static bool add_roots(struct view_block *b, const char *name, bool wide, int64_t stack,
                      int64_t layer, const float *x, int64_t N, int64_t M, int64_t K)
{
    const int64_t each = M * K, n = N * each;
    const float most = wide ? 65535 : 255;
    uint8_t *p = view_array_add(b, name, wide ? "s16" : "s8", stack, layer, N, M, K,
                                (wide ? 2 : 1) * n + 4 * N);
    if (!p) return false;
    for (int64_t h = 0; h < N; h++) {
        float scale = 0;
        for (int64_t i = h * each; i < (h + 1) * each; i++)
            if (isfinite(x[i])) scale = fmaxf(scale, x[i]);
        for (int64_t i = h * each; i < (h + 1) * each; i++) {
            const int c = x[i] > 0 && isfinite(x[i]) ? (int)(most * sqrtf(x[i] / scale) + .5f) : 0;
            if (wide)
                view_put_half(p + i, n, (uint16_t)c);
            else
                p[i] = (uint8_t)c;
        }
        view_put_float(p + (wide ? 2 : 1) * n + h, N, scale);
    }
    return true;
}

// Adds those arrays that the probe p has: the blocks of the matrix, the weight that each key
// receives, and the entropy of each row.
static bool add_coarse(struct view_block *b, const struct view_stack *v, int64_t stack,
                       int64_t layer, const struct view_probe *p)
{
    const int64_t H = v->shape.heads, T = v->shape.tokens, S = v->shape.keys, n = p->side;
    return (!p->max || add_roots(b, "max", false, stack, layer, p->max, H, n, n)) &&
           (!p->mean || add_roots(b, "mean", false, stack, layer, p->mean, H, n, n)) &&
           (!p->received || add_roots(b, "received", true, stack, layer, p->received, H, S, 1)) &&
           (!p->entropy || add_roots(b, "entropy", false, stack, layer, p->entropy, H, T, 1));
}

qkv_status view_encode_coarse(struct view_block *b, const struct view_stack *v, int64_t stack,
                              int64_t layer, qkv_error *err)
{
    return add_coarse(b, v, stack, layer, &v->layer[layer].probe) ? QKV_OK
                                                                  : qkv_fail_memory(err, NULL);
}

qkv_status view_encode_top(struct view_block *b, struct view_loss *loss, const struct view_stack *v,
                           int64_t stack, int64_t layer, const struct view_encoding *how,
                           qkv_error *err)
{
    const int64_t H = v->shape.heads, T = v->shape.tokens, m = H * T, k = top_of(v, layer, how);
    struct view_probe made = { 0 };
    const struct view_probe *p = &v->layer[layer].probe;
    qkv_status status = QKV_OK;
    if (!p->k) {
        status = view_probe_gather(&made, v, layer, k, how->side, err);
        p = &made;
    }
    if (status) return status;
    struct job j = { .v = v, .p = p, .layer = layer, .k = k };
    j.of = qkv_alloc_zero((size_t)H, sizeof *j.of);
    const bool sums = v->layer[layer].weights && view_any_not_one(v, layer);
    const int64_t top_at = b->size, bytes = m * (k * (key_planes(v) + 1) + 2);
    bool ok = j.of && view_array_add(b, "top", "top", stack, layer, H, T, k, bytes) &&
              (!sums || view_array_add(b, "sum", "f32", stack, layer, H, T, 1, 4 * m));
    if (ok) {
        j.top = b->bytes + top_at;
        j.sum = sums ? j.top + bytes : NULL;
        qkv_parallel_for_most(H, qkv_threads(), put_head, &j);
        for (int64_t h = 0; h < H; h++) {
            loss->error = fmax(loss->error, j.of[h].error);
            loss->kept += j.of[h].kept;
            loss->rows += j.of[h].rows;
            loss->not_numbers += j.of[h].not_numbers;
        }
    }
    ok = ok && add_coarse(b, v, stack, layer, p);
    view_probe_free(&made);
    qkv_free(j.of);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}
