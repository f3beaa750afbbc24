// SPDX-License-Identifier: MIT
// attention_back_tile.h: creates a random tile of the attention backward pass, packed by a kernel
// family, and computes its expected results in double.
//
//   tile_new()    rows, keys and the columns that each row sees; every array between guard pages
//   tile_want()   dq, dk, dv and the bound of a family's rounding error of each
//   tile_steps()  the kernels of the family one by one;  tile_fused(): the fused kernel
#ifndef QKV_ATTENTION_BACK_TILE_H
#define QKV_ATTENTION_BACK_TILE_H
#include "check.h"
#include "kernel/kernel.h"
#include <stdlib.h>

#ifdef QKV_DOUBLE
#define UNIT 0x1p-53
#else
#define UNIT 0x1p-24
#endif

enum see { SEE_ALL, SEE_CAUSAL, SEE_BAND, SEE_SOME, SEES };

struct tile {
    const struct qkv_attention_back_kernels *k;
    int rows, at, keys; // packed keys are at .. keys-1
    int64_t E, F;
    int32_t lo[QKV_BACK_ROWS_MAX], hi[QKV_BACK_ROWS_MAX];
    struct qkv_columns span;
    const void *q[QKV_BACK_ROWS_MAX], *dout[QKV_BACK_ROWS_MAX], *key[QKV_CHUNK], *value[QKV_CHUNK];
    real c, *base, *rest, *d;
    struct qkv_back_tile t;
};

static inline double tile_number(const void *row, int64_t i, qkv_dtype type)
{
    if (type == QKV_BF16) return (double)qkv_bf16_to_f32(((const uint16_t *)row)[i]);
    if (type == QKV_F16) return (double)qkv_f16_to_f32(((const uint16_t *)row)[i]);
    return (double)((const real *)row)[i];
}
// Allocates n consecutive rows; the last one ends at a guard page.
static inline void tile_rows(const void **rows, int n, int64_t width, qkv_dtype type)
{
    const size_t size = qkv_dtype_size(type);
    char *at = fenced((size_t)(n * width) * size);
    for (int64_t i = 0; i < n * width; i++) {
        const float x = (float)check_gauss();
        if (type == QKV_BF16)
            ((uint16_t *)(void *)at)[i] = qkv_f32_to_bf16(x);
        else if (type == QKV_F16)
            ((uint16_t *)(void *)at)[i] = qkv_f32_to_f16(x);
        else
            ((real *)(void *)at)[i] = (real)x;
    }
    for (int i = 0; i < n; i++) rows[i] = at + (size_t)(i * width) * size;
}
static inline int tile_up(int n, int to)
{
    return (n + to - 1) / to * to;
}
// Allocates memory filled with 0xff (NaN), so that a read before the first write is detected.
static inline void *tile_memory(size_t bytes)
{
    void *at = fenced(bytes ? qkv_round_up(bytes, 64) : 64);
    memset(at, 0xff, bytes);
    return at;
}

static inline void tile_sees(struct tile *x, enum see see)
{
    x->span = (struct qkv_columns){ QKV_CHUNK, 0 };
    for (int i = 0; i < x->rows; i++) {
        x->lo[i] = x->at;
        x->hi[i] = x->keys;
        if (see == SEE_CAUSAL) x->hi[i] = qkv_min64(x->keys, x->at + 1 + i);
        if (see == SEE_BAND) {
            x->lo[i] = (int32_t)qkv_max64(x->at, i - 5);
            x->hi[i] = (int32_t)qkv_min64(x->keys, i + 20);
        }
        if (see == SEE_SOME && i % 3 == 1) x->hi[i] = x->at;
        if (see == SEE_SOME && i % 3 == 2) x->lo[i] = x->keys - 1;
        if (x->lo[i] >= x->hi[i]) x->lo[i] = x->hi[i] = 0;
        if (x->lo[i] == x->hi[i]) continue;
        if (x->lo[i] < x->span.from) x->span.from = x->lo[i];
        if (x->hi[i] > x->span.to) x->span.to = x->hi[i];
    }
    x->span.from = x->span.from / x->k->lanes * x->k->lanes;
    x->span.to = tile_up(x->span.to, x->k->lanes);
}

static inline struct tile tile_new(const struct qkv_attention_back_kernels *k, int rows, int at,
                                   int keys, int64_t E, int64_t F, enum see see)
{
    struct tile x = { .k = k, .rows = rows, .at = at, .keys = keys, .E = E, .F = F };
    const int first = at / k->keys * k->keys, n = keys - first;
    const size_t chunk = (size_t)tile_up(QKV_CHUNK, k->rows > k->keys ? k->rows : k->keys);
    const size_t group = (size_t)tile_up(k->rows, k->keys), one = sizeof(real);
    x.c = (real)(1.44269504088896340736 / sqrt((double)E));
    tile_rows(x.q, rows, E, k->type);
    tile_rows(x.dout, rows, F, k->type);
    tile_rows(x.key, n, E, k->type);
    tile_rows(x.value, n, F, k->type);
    x.base = tile_memory((size_t)rows * one);
    x.rest = tile_memory((size_t)rows * one);
    x.d = tile_memory((size_t)rows * one);
    for (int i = 0; i < rows; i++) {
        x.base[i] = (real)(1 + check_gauss() / 4);
        x.rest[i] = (real)(check_gauss() * UNIT);
        x.d[i] = (real)check_gauss();
    }
    tile_sees(&x, see);
    x.t = (struct qkv_back_tile){ .rows = rows,
                                  .E = E,
                                  .F = F,
                                  .span = x.span,
                                  .c = x.c,
                                  .base = x.base,
                                  .rest = x.rest,
                                  .d = x.d };
    void *q = tile_memory((size_t)k->rows * k->row_bytes(E)),
         *dout = tile_memory((size_t)k->rows * k->row_bytes(F)),
         *q_right = tile_memory(group * k->right_bytes(E)),
         *dout_right = tile_memory(group * k->right_bytes(F)),
         *k_right = tile_memory(chunk * k->right_bytes(E)),
         *packed = tile_memory((size_t)QKV_CHUNK * k->key_bytes(E)),
         *v = tile_memory((size_t)QKV_CHUNK * k->key_bytes(F));
    k->pack_rows(q, x.q, rows, E);
    k->pack_rows(dout, x.dout, rows, F);
    CHECK(k->pack_right(q_right, x.q, 0, rows, E));
    CHECK(k->pack_right(dout_right, x.dout, 0, rows, F));
    CHECK(k->pack_right(k_right, x.key, first, n, E));
    k->pack_keys(packed, x.key, first, n, E);
    k->pack_keys(v, x.value, first, n, F);
    x.t.q = q;
    x.t.dout = dout;
    x.t.q_right = q_right;
    x.t.dout_right = dout_right;
    x.t.k_right = k_right;
    x.t.k = packed;
    x.t.v = v;
    x.t.s = tile_memory((size_t)k->rows * QKV_CHUNK * one);
    x.t.ds = tile_memory((size_t)k->rows * QKV_CHUNK * one);
    x.t.w_operand = tile_memory(k->operand_bytes);
    x.t.x_operand = tile_memory(k->operand_bytes);
    return x;
}

// Allocates new sums and sets them to 0.
static inline void tile_sums(struct tile *x)
{
    const size_t E = (size_t)x->k->width(x->E), F = (size_t)x->k->width(x->F), one = sizeof(real);
    x->t.lo = x->lo;
    x->t.hi = x->hi;
    x->t.dq = memset(tile_memory((size_t)x->rows * E * one), 0, (size_t)x->rows * E * one);
    x->t.dk = memset(tile_memory(QKV_CHUNK * E * one), 0, QKV_CHUNK * E * one);
    x->t.dv = memset(tile_memory(QKV_CHUNK * F * one), 0, QKV_CHUNK * F * one);
}

static inline void tile_steps(struct tile *x)
{
    const struct qkv_attention_back_kernels *k = x->k;
    const struct qkv_back_tile *t = &x->t;
    tile_sums(x);
    if (x->span.from >= x->span.to) return;
    k->scores(t->s, t->q, x->rows, t->k, x->E, x->span);
    k->scores(t->ds, t->dout, x->rows, t->v, x->F, x->span);
    for (int i = 0; i < x->rows; i++) {
        const struct qkv_softmax_grad how = {
            .c = x->c, .base = x->base[i], .rest = x->rest[i], .d = x->d[i], .times = 1
        };
        k->softmax_grad(t->s + i * QKV_CHUNK, t->ds + i * QKV_CHUNK, &x->span, 1, x->lo[i],
                        x->hi[i], &how);
    }
    const void *w = t->s, *slope = t->ds;
    if (k->pack_operand) {
        k->pack_operand(t->w_operand, t->s, x->rows, &x->span, 1);
        k->pack_operand(t->x_operand, t->ds, x->rows, &x->span, 1);
        w = t->w_operand;
        slope = t->x_operand;
    }
    k->add_transposed(t->dv, w, x->rows, t->dout_right, x->F, &x->span, 1);
    k->add_transposed(t->dk, slope, x->rows, t->q_right, x->E, &x->span, 1);
    k->add_product(t->dq, slope, x->rows, t->k_right, x->E, &x->span, 1);
}

static inline void tile_fused(struct tile *x)
{
    tile_sums(x);
    if (x->span.from < x->span.to) x->k->fused(&x->t);
}

// Expected sums in double, and bounds of a family's rounding errors.
struct want {
    // laid out as the family's sums, but E and F wide
    double *dq, *dk, *dv, *dq_off, *dk_off, *dv_off;
};
struct pair {
    double w, w_off, x, x_off;
};
// Computes P and dS of one pair and their error bounds: a sum of E products has E roundings of the
// magnitude of its terms, its power an error of ln 2 times that plus its own; the operands of
// products of bf16 are rounded, and their powers are coarse.
static inline struct pair tile_pair(const struct tile *x, int i, int j)
{
    const bool pairs =
        strcmp(x->k->arithmetic, "bf16 pairs") == 0 || strcmp(x->k->arithmetic, "bf16 tiles") == 0;
    const double power = pairs ? 0x1p-13 : 4 * UNIT, operand = pairs ? 0x1p-8 : 0;
    const int first = x->at / x->k->keys * x->k->keys;
    const qkv_dtype type = x->k->type;
    double s = 0, s_size = 0, dp = 0, dp_size = 0;
    for (int64_t e = 0; e < x->E; e++) {
        const double y = tile_number(x->q[i], e, type) * tile_number(x->key[j - first], e, type);
        s += y;
        s_size += fabs(y);
    }
    for (int64_t f = 0; f < x->F; f++) {
        const double y =
            tile_number(x->dout[i], f, type) * tile_number(x->value[j - first], f, type);
        dp += y;
        dp_size += fabs(y);
    }
    const double c = (double)x->c, t = c * s - (double)x->base[i] - (double)x->rest[i];
    const double t_off = (c * ((double)x->E + 2) * s_size + 4 * fabs((double)x->base[i])) * UNIT;
    const double probability = exp2(t), share_off = probability * (1.1 * t_off + power);
    const double less = fabs(dp - (double)x->d[i]);
    const double slope_off = share_off * less + (probability + share_off) * UNIT *
                                                    (((double)x->F + 3) * dp_size + 4 * less +
                                                     2 * fabs((double)x->d[i]));
    struct pair p = { probability, share_off, probability * (dp - (double)x->d[i]), slope_off };
    p.w_off += operand * (p.w + p.w_off);
    p.x_off += operand * (fabs(p.x) + p.x_off);
    return p;
}

static inline struct want tile_want(const struct tile *x)
{
    const int64_t E = x->E, F = x->F;
    const int first = x->at / x->k->keys * x->k->keys;
    const qkv_dtype type = x->k->type;
    struct want y;
    y.dq = calloc((size_t)(x->rows * E), 2 * sizeof(double));
    y.dk = calloc((size_t)(QKV_CHUNK * E), 2 * sizeof(double));
    y.dv = calloc((size_t)(QKV_CHUNK * F), 2 * sizeof(double));
    y.dq_off = y.dq + x->rows * E;
    y.dk_off = y.dk + QKV_CHUNK * E;
    y.dv_off = y.dv + QKV_CHUNK * F;
    // bounds for sums over all rows and over all keys
    const double row = (x->rows + 2) * UNIT, column = (x->keys + 2) * UNIT;
    for (int i = 0; i < x->rows; i++)
        for (int j = x->lo[i]; j < x->hi[i]; j++) {
            const struct pair p = tile_pair(x, i, j);
            for (int64_t f = 0; f < F; f++) {
                const double by = tile_number(x->dout[i], f, type);
                y.dv[j * F + f] += p.w * by;
                y.dv_off[j * F + f] += (p.w_off + row * (p.w + p.w_off)) * fabs(by);
            }
            for (int64_t e = 0; e < E; e++) {
                const double q = tile_number(x->q[i], e, type),
                             k = tile_number(x->key[j - first], e, type);
                y.dk[j * E + e] += p.x * q;
                y.dk_off[j * E + e] += (p.x_off + row * (fabs(p.x) + p.x_off)) * fabs(q);
                y.dq[i * E + e] += p.x * k;
                y.dq_off[i * E + e] += (p.x_off + column * (fabs(p.x) + p.x_off)) * fabs(k);
            }
        }
    return y;
}
static inline void want_free(struct want *y)
{
    free(y->dq);
    free(y->dk);
    free(y->dv);
}
#endif
