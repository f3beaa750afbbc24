// SPDX-License-Identifier: MIT
// packed.c: provides linear layers with packed weights to callers of the library, as an opaque
// handle. It checks sizes, types and overlaps; linear.c computes.
#include "layer/layer.h"
#include <math.h>
#include <string.h>

#ifndef QKV_DOUBLE
struct qkv_packed {
    struct qkv_linear linear; // the layer: one part, whose w is not stored
    size_t bytes;
};

// Arrays of 2^48 elements or more are refused; below this limit no product of sizes overflows 64
// bits.
enum { MOST_BITS = 48 };
static bool too_large(int64_t a, int64_t b)
{
    int64_t size;
    return __builtin_mul_overflow(a, b, &size) || size >> MOST_BITS;
}

qkv_status qkv_packed_open(qkv_packed **out, const float *w, const float *b, int64_t K, int64_t N,
                           qkv_precision precision)
{
    if (!out) return QKV_ERR_USAGE;
    *out = NULL;
    if (K < 0 || N < 0 || (K > 0 && N > 0 && !w) || !qkv_precision_name(precision) ||
        (uintptr_t)w % sizeof *w || (uintptr_t)b % sizeof *b)
        return QKV_ERR_USAGE;
    if (too_large(qkv_max64(N, 1), K) || N >> MOST_BITS) return QKV_ERR_LIMIT;
    qkv_status status = QKV_ERR_LIMIT;
    float *bias = NULL;
    qkv_packed *p = qkv_alloc_zero(1, sizeof *p);
    if (!p) goto done;
    if (b && N) {
        bias = qkv_alloc((size_t)N, sizeof *bias);
        if (!bias) goto done;
        memcpy(bias, b, (size_t)N * sizeof *bias);
    }
    p->linear = (struct qkv_linear){
        .K = K, .precision = precision, .parts = 1, .part = { { N, w, bias, false } }
    };
    status = qkv_linear_pack(&p->linear);
    if (status) goto done;
    const struct qkv_linear_kernel *kernel = p->linear.kernel;
    p->bytes = (size_t)qkv_ceil_div(N, kernel->panel) * kernel->panel_bytes(K);
    p->linear.part[0].w = NULL; // the layer does not read the caller's weights again
    *out = p;
done:
    if (status) {
        qkv_free(bias);
        qkv_free(p);
    }
    return status;
}

void qkv_packed_close(qkv_packed *p)
{
    if (!p) return;
    qkv_free((float *)p->linear.part[0].b);
    qkv_linear_free(&p->linear);
    qkv_free(p);
}

struct qkv_packed_info qkv_packed_info(const qkv_packed *p)
{
    if (!p) return (struct qkv_packed_info){ 0 };
    return (struct qkv_packed_info){ .K = p->linear.K,
                                     .N = p->linear.part[0].N,
                                     .precision = p->linear.precision,
                                     .isa = p->linear.kernel->isa,
                                     .arithmetic = p->linear.kernel->arithmetic,
                                     .bytes = p->bytes };
}

// The byte range of R rows of a caller's array.
struct span {
    const char *at;
    size_t bytes; // number of bytes from the first element to the end of the last element
};
static struct span span_of(const void *at, int64_t R, int64_t stride, int64_t width, qkv_dtype type)
{
    return (struct span){ at, (size_t)((R - 1) * stride + width) * qkv_dtype_size(type) };
}
static bool overlap(struct span a, struct span b)
{
    return a.bytes && b.bytes && (uintptr_t)a.at < (uintptr_t)b.at + b.bytes &&
           (uintptr_t)b.at < (uintptr_t)a.at + a.bytes;
}
static bool is_type(qkv_dtype t)
{
    return t == QKV_F32 || t == QKV_BF16 || t == QKV_F16;
}

// Replaces members of c that are 0 by their defaults and validates the call. Returns QKV_OK if the
// call can run.
static qkv_status resolve(struct qkv_packed_call *c, void *y, const void *x, int64_t R,
                          const qkv_packed *p)
{
    const int64_t K = p->linear.K, N = p->linear.part[0].N;
    if (!c->x_stride) c->x_stride = K;
    if (!c->y_stride) c->y_stride = N;
    if (!c->residual_stride) c->residual_stride = N;
    if (R < 0 || !is_type(c->x) || !is_type(c->y) || !isfinite(c->scale) ||
        (unsigned)c->act > QKV_ACT_LAST || c->x_stride < K || c->y_stride < N ||
        (c->residual && c->residual_stride < N))
        return QKV_ERR_USAGE;
    if (R == 0 || N == 0) return QKV_OK;
    if (!y || (K > 0 && !x)) return QKV_ERR_USAGE;
    if ((uintptr_t)y % qkv_dtype_size(c->y) || (uintptr_t)x % qkv_dtype_size(c->x) ||
        (uintptr_t)c->residual % sizeof *c->residual)
        return QKV_ERR_USAGE;
    if (too_large(R, qkv_max64(c->x_stride, 1)) || too_large(R, c->y_stride) ||
        (c->residual && too_large(R, c->residual_stride)))
        return QKV_ERR_LIMIT;
    const struct span out = span_of(y, R, c->y_stride, N, c->y);
    if (K > 0 && overlap(out, span_of(x, R, c->x_stride, K, c->x))) return QKV_ERR_USAGE;
    const bool in_place = c->residual == y && c->y == QKV_F32 && c->residual_stride == c->y_stride;
    if (c->residual && !in_place &&
        overlap(out, span_of(c->residual, R, c->residual_stride, N, QKV_F32)))
        return QKV_ERR_USAGE;
    return QKV_OK;
}

qkv_status qkv_packed_linear(void *y, const void *x, int64_t R, const qkv_packed *p,
                             const struct qkv_packed_call *c)
{
    if (!p) return QKV_ERR_USAGE;
    struct qkv_packed_call call = { 0 };
    if (c) call = *c;
    const qkv_status status = resolve(&call, y, x, R, p);
    if (status || R == 0 || p->linear.part[0].N == 0) return status;
    qkv_linear_forward((void *[]){ y }, &call.y_stride, x, R, &p->linear,
                       &(struct qkv_after){ .x = call.x,
                                            .y = call.y,
                                            .act = call.act,
                                            .ldx = call.x_stride,
                                            .scale = call.scale,
                                            .residual = call.residual,
                                            .residual_ld = call.residual_stride });
    return QKV_OK;
}
#endif
