// SPDX-License-Identifier: MIT
// baseline_work.h: declares the checks of sizes and arrays, and the products of blocks, that the
// baseline layers of qkv/baseline.h share. Sizes are named as in qkv/attention.h.
#ifndef QKV_LAYER_BASELINE_WORK_H
#define QKV_LAYER_BASELINE_WORK_H

#include "layer/layer.h"
#include <qkv/baseline.h>

// ---- plans (baseline_check.c) ------------------------------------------------------------------
// Sets the status and the reason of a plan, unless the plan already has an error.
void qkv_baseline_refuse(struct qkv_baseline_plan *p, qkv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Refuses the request unless the size `value`, called `name` in the reason, is in least .. 2^31 -
// 1.
void qkv_baseline_size(struct qkv_baseline_plan *p, const char *name, int64_t value, int64_t least);
// Returns the product a b c d, the length of an array with these four sizes, which have been
// checked. If the product is too large, refuses the request and returns 0.
int64_t qkv_baseline_count(struct qkv_baseline_plan *p, int64_t a, int64_t b, int64_t c, int64_t d);

// Sizes of attention with defaults for G and F, and the lengths of its arrays.
struct qkv_baseline_heads {
    int64_t B, T, S, H, G, E, F;
    int64_t q, k, v, out; // numbers of elements of the arrays q, k, v and out
};
void qkv_baseline_heads(struct qkv_baseline_heads *h, struct qkv_baseline_plan *p);
// Returns the scale, or its default if scale is 0. Refuses the request if scale is nonfinite.
float qkv_baseline_scale(struct qkv_baseline_plan *p, float scale, int64_t E);
// Sets the scratch of a plan, unless the plan has an error, to the bytes that were counted with the
// arena `a`.
void qkv_baseline_scratch(struct qkv_baseline_plan *p, const struct qkv_arena *a);

// One array of a call: address and number of elements; n 0: the array is absent.
struct qkv_baseline_array {
    const void *at;
    int64_t n;
};
// Returns true if scratch and all `count` arrays exist and are aligned, and no output overlaps
// another array. The first `written` arrays are outputs; scratch has `bytes` bytes.
bool qkv_baseline_arrays(const struct qkv_baseline_array *a, int written, int count,
                         const void *scratch, size_t bytes);

// qkv_baseline_exact returns a request for exact attention on arrays in the default layout.
// qkv_baseline_exact_scratch returns the bytes of scratch of such a request and adds its operations
// to the plan p; if attention refuses it, p becomes a refusal.
struct qkv_attention qkv_baseline_exact(const struct qkv_baseline_heads *h, int64_t T, int64_t S,
                                        int64_t G, float scale);
size_t qkv_baseline_exact_scratch(struct qkv_baseline_plan *p, const struct qkv_attention *a);

// Returns how a product packs its weights: into this scratch, by all threads. scratch NULL: for a
// plan.
static inline struct qkv_linear_once qkv_baseline_once(void *scratch)
{
    return (struct qkv_linear_once){ .threads = qkv_threads(), .scratch = scratch };
}

// The tokens from .. to-1 of segment r, if n tokens are divided evenly into `all` segments.
struct qkv_baseline_segment {
    int64_t from, to;
};
static inline struct qkv_baseline_segment qkv_baseline_segment(int64_t r, int64_t n, int64_t all)
{
    return (struct qkv_baseline_segment){ r * n / all, (r + 1) * n / all };
}

// ---- products on one thread, on blocks of floats (baseline_check.c) ----------------------------
// Returns the bytes of packed panels of N columns; SIZE_MAX: too large.
size_t qkv_baseline_panels(int64_t K, int64_t N);
// Packs the matrix w into panels; element k of column n is w[n ldn + k ldk].
void qkv_baseline_pack(void *panels, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk);
struct qkv_baseline_product {
    real *y;
    const real *x;
    const void *panels;
    int64_t ldy, ldx, R, K, N;
    real scale; // factor of the product; 0 means 1
    bool add;   // true: the product is added to y; false: it overwrites y
};
void qkv_baseline_rows(const struct qkv_baseline_product *p);

// ---- linear attention over real (baseline_linear.c, baseline_linear_backward.c) ----------------
enum { QKV_KIND_CHUNK = 128 }; // tokens of a chunk; pairs within a chunk are multiplied one by one
struct qkv_linear_work {
    struct qkv_linear_attention a; // the request with defaults for G, F, S and scale
    int64_t M;                     // number of features
    int threads;
    size_t thread; // bytes of scratch for one thread
};
// Validates the request, fills *w and returns the plan of forward or, if `backward` is true, of
// backward.
struct qkv_baseline_plan qkv_linear_work(struct qkv_linear_work *w,
                                         const struct qkv_linear_attention *a, bool backward);
// These functions return the bytes of scratch of one thread, in forward and in backward.
size_t qkv_linear_work_forward(const struct qkv_linear_work *w);
size_t qkv_linear_work_backward(const struct qkv_linear_work *w);
// Returns the number of keys of batch item b: k_lengths[b] if the request has k_lengths, otherwise
// S.
int64_t qkv_linear_work_keys(const struct qkv_linear_work *w, int64_t b);

// Computes phi[n][E] = elu(x) + 1 of rows x[n][E], ldx elements apart.
void qkv_features_elu(real *phi, const real *x, int64_t ldx, int64_t n, int64_t E);
#endif
