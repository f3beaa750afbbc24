// SPDX-License-Identifier: MIT
// kind_work.h: what the kinds of qkv/kinds.h share: refusals, sizes, arrays, products of blocks.
#ifndef QKV_LAYER_KIND_WORK_H
#define QKV_LAYER_KIND_WORK_H

#include "layer/layer.h"
#include <qkv/kinds.h>

// ---- plans (kind_check.c) ----------------------------------------------------------------------
// The plan says no; what it said first stays.
void qkv_kind_refuse(struct qkv_kind_plan *p, qkv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// value lies in least .. 2^31, else p refuses.
void qkv_kind_size(struct qkv_kind_plan *p, const char *name, int64_t value, int64_t least);
// The product of four sizes that were checked, as numbers of an array; more than any memory holds:
// p refuses, 0.
int64_t qkv_kind_count(struct qkv_kind_plan *p, int64_t a, int64_t b, int64_t c, int64_t d);

// Sizes of attention with G and F as meant, and the numbers of its arrays.
struct qkv_kind_heads {
    int64_t B, T, S, H, G, E, F;
    int64_t q, k, v, out; // numbers
};
void qkv_kind_heads(struct qkv_kind_heads *h, struct qkv_kind_plan *p);
// What scale 0 means; one that is not finite: p refuses.
float qkv_kind_scale(struct qkv_kind_plan *p, float scale, int64_t E);
// Scratch of a plan that has not refused: what an arena that only counted needs.
void qkv_kind_scratch(struct qkv_kind_plan *p, const struct qkv_arena *a);

// Arrays of a call, those that are written first.  n 0: it is none.
struct qkv_kind_array {
    const void *at;
    int64_t n;
};
// All are there, aligned, scratch (bytes of it) too, and nothing that is written lies on anything.
bool qkv_kind_arrays(const struct qkv_kind_array *a, int written, int count, const void *scratch,
                     size_t bytes);

// The exact operator on arrays in the default order, and its scratch; p takes its operations, and
// refuses what it refuses.
struct qkv_attention qkv_kind_exact(const struct qkv_kind_heads *h, int64_t T, int64_t S, int64_t G,
                                    float scale);
size_t qkv_kind_exact_scratch(struct qkv_kind_plan *p, const struct qkv_attention *a);

// Segment r of n tokens in `all` even ones.
struct qkv_kind_segment {
    int64_t from, to;
};
static inline struct qkv_kind_segment qkv_kind_segment(int64_t r, int64_t n, int64_t all)
{
    return (struct qkv_kind_segment){ r * n / all, (r + 1) * n / all };
}

// ---- products of one thread on blocks of floats (kind_check.c) ---------------------------------
// Bytes of packed panels of N columns; SIZE_MAX: too many.
size_t qkv_kind_panels(int64_t K, int64_t N);
// Element k of column n lies at w[n ldn + k ldk].
void qkv_kind_pack(void *panels, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk);
struct qkv_kind_product {
    real *y;
    const real *x;
    const void *panels;
    int64_t ldy, ldx, R, K, N;
    real scale; // 0: 1
    bool add;   // y += , not =
};
void qkv_kind_rows(const struct qkv_kind_product *p);

// ---- linear attention over real (kind_linear.c, kind_linear_backward.c) -------------------------
enum { QKV_KIND_CHUNK = 128 }; // tokens whose pairs are formed, between two states
struct qkv_linear_work {
    struct qkv_linear_attention a; // G, F, S and scale as meant
    int64_t M;                     // features
    int threads;
    size_t thread; // bytes of scratch of one
};
// The plan of forward or backward, and what they work from.
struct qkv_kind_plan qkv_linear_work(struct qkv_linear_work *w,
                                     const struct qkv_linear_attention *a, bool backward);
size_t qkv_linear_work_forward(const struct qkv_linear_work *w); // bytes of a thread
size_t qkv_linear_work_backward(const struct qkv_linear_work *w);
int64_t qkv_linear_work_keys(const struct qkv_linear_work *w, int64_t b); // that exist

// phi[n][E] = elu(x) + 1 of rows x[n][E], ldx apart.
void qkv_features_elu(real *phi, const real *x, int64_t ldx, int64_t n, int64_t E);
#endif
