// SPDX-License-Identifier: MIT
// layer_public.c: provides linear layers, layer norm and positions on plain arrays: checks the
// arguments and allocates scratch.
#include "layer/layer_internal.h"
#include "layer/linear/linear_work.h"

#ifndef QKV_DOUBLE
// arrays of 2^48 elements or more are refused; below this limit no product of sizes overflows 64
// bits
enum { BITS = 48 };

// Sets *n = rows * columns; returns false if an array of that size cannot exist.
static bool array_size(int64_t *n, int64_t rows, int64_t columns)
{
    return !__builtin_mul_overflow(rows, columns, n) && !(*n >> BITS);
}

// Returns true if array y[n] overlaps array from[m]; from NULL: there is no such array.
static bool arrays_meet(const float *y, int64_t n, const float *from, int64_t m)
{
    const uintptr_t a = (uintptr_t)y, b = (uintptr_t)from;
    return y && from && n && m && a < b + (uintptr_t)m * sizeof *from &&
           b < a + (uintptr_t)n * sizeof *y;
}

// The arrays of a call: first the `written` ones that it writes, then the ones that it reads.
struct arrays {
    const float *at[6];
    int64_t n[6];
    int written, count;
};

// Returns whether all arrays are aligned and no written array overlaps another array.
static bool apart(const struct arrays *a)
{
    for (int i = 0; i < a->count; i++) {
        if ((uintptr_t)a->at[i] % sizeof(float)) return false;
        for (int j = 0; j < i && j < a->written; j++)
            if (arrays_meet(a->at[j], a->n[j], a->at[i], a->n[i])) return false;
    }
    return true;
}

// Allocates scratch; returns NULL if memory is exhausted or bytes is SIZE_MAX.
static void *take(size_t bytes)
{
    return bytes == SIZE_MAX ? NULL : qkv_alloc(bytes ? bytes : 1, 1);
}

QKV_API qkv_status qkv_linear(float *y, const float *x, const float *w, const float *b, int64_t R,
                              int64_t K, int64_t N)
{
    if (R > 0 && N > 0 && (!y || (K > 0 && (!x || !w)))) return QKV_ERR_USAGE;
    if (R < 0 || K < 0 || N < 0) return QKV_ERR_USAGE;
    if (R == 0 || N == 0) return QKV_OK;
    struct arrays a = { { y, x, w, b }, { 0, 0, 0, N }, 1, 4 };
    if (!array_size(&a.n[0], R, N) || !array_size(&a.n[1], R, K) || !array_size(&a.n[2], N, K))
        return QKV_ERR_LIMIT;
    if (!apart(&a)) return QKV_ERR_USAGE;
    struct qkv_linear_once how = { .precision = QKV_PRECISION_F32, .threads = qkv_threads() };
    how.scratch = take(qkv_linear_once_scratch(&how, K, N));
    if (!how.scratch) return QKV_ERR_LIMIT;
    const struct qkv_linear_part part = { N, w, b, false };
    qkv_linear_once(y, N, x, K, R, K, &part, NULL, &how);
    qkv_free(how.scratch);
    return QKV_OK;
}

QKV_API qkv_status qkv_linear_backward(float *dx, float *dw, float *db, const float *dy,
                                       const float *x, const float *w, int64_t R, int64_t K,
                                       int64_t N)
{
    if (R < 0 || K < 0 || N < 0) return QKV_ERR_USAGE;
    if (R == 0) return QKV_OK;
    if (K == 0) dx = dw = NULL;
    if (N == 0) dw = db = NULL;
    if (((dx || dw || db) && N > 0 && !dy) || (dx && N > 0 && !w) || (dw && !x))
        return QKV_ERR_USAGE;
    struct arrays a = { { dx, dw, db, dy, x, w }, { 0, 0, N }, 3, 6 };
    if (!array_size(&a.n[0], R, K) || !array_size(&a.n[1], N, K) || !array_size(&a.n[3], R, N))
        return QKV_ERR_LIMIT;
    a.n[4] = a.n[0];
    a.n[5] = a.n[1];
    if (!apart(&a)) return QKV_ERR_USAGE;
    struct qkv_linear_back how = { .precision = QKV_PRECISION_F32, .threads = qkv_threads() };
    how.scratch = take(qkv_linear_once_backward_scratch(&how, R, K, N));
    if (!how.scratch) return QKV_ERR_LIMIT;
    const struct qkv_linear_part part = { N, w, NULL, false };
    qkv_linear_once_backward(dx, dw, db, dy, x, R, K, &part, &how);
    qkv_free(how.scratch);
    return QKV_OK;
}

QKV_API void qkv_layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                            int64_t R, int64_t D)
{
    if (R < 1 || D < 1) return;
    qkv_norm_forward(y, NULL, NULL, x, NULL, R,
                     &(struct qkv_norm){ .D = D, .w = w, .b = b, .eps = eps });
}

QKV_API qkv_status qkv_layer_norm_backward(float *dx, float *dw, float *db, const float *dy,
                                           const float *x, const float *w, float eps, int64_t R,
                                           int64_t D)
{
    if (R < 0 || D < 0) return QKV_ERR_USAGE;
    if (R == 0 || D == 0 || (!dx && !dw && !db)) return QKV_OK;
    if (!dy || !x) return QKV_ERR_USAGE;
    int64_t n;
    if (!array_size(&n, R, D)) return QKV_ERR_LIMIT;
    const struct arrays a = { { dx, dw, db, dy, x, w }, { n, D, D, n, n, D }, 3, 6 };
    if (!apart(&a)) return QKV_ERR_USAGE;
    const size_t sums = qkv_norm_backward_scratch(R, D);
    size_t bytes;
    if (sums == SIZE_MAX || !qkv_add_size(&bytes, sums, (size_t)(2 * R) * sizeof(real)))
        return QKV_ERR_LIMIT;
    char *scratch = take(bytes);
    if (!scratch) return QKV_ERR_LIMIT;
    real *kept = (real *)(void *)(scratch + sums);
    const struct qkv_norm_keep keep = { kept, kept + R };
    const struct qkv_norm norm = { .D = D, .w = w, .eps = eps };
    qkv_norm_kind_forward(NULL, 0, &keep, x, R, &norm, QKV_NORM_LAYER);
    qkv_norm_backward(dx, NULL, dw, db, dy, 0, x, &keep, R, &norm, QKV_NORM_LAYER, scratch);
    qkv_free(scratch);
    return QKV_OK;
}

QKV_API qkv_status qkv_sinusoids(float *table, int64_t P, int64_t D)
{
    int64_t n;
    if (P < 0 || D < 0) return QKV_ERR_USAGE;
    if (!array_size(&n, P, D)) return QKV_ERR_LIMIT;
    if (n && (!table || (uintptr_t)table % sizeof *table)) return QKV_ERR_USAGE;
    if (n) qkv_position_sinusoid(table, P, D, true);
    return QKV_OK;
}

QKV_API qkv_status qkv_rotate(float *x, const int32_t *positions, int64_t R, int64_t H, int64_t E,
                              float theta, bool interleaved, bool inverse)
{
    int64_t n, rows;
    if (R < 0 || H < 0 || E < 0 || E % 2 || !(theta >= 0 && theta <= 1e30f)) return QKV_ERR_USAGE;
    if (!array_size(&rows, R, H) || !array_size(&n, rows, E)) return QKV_ERR_LIMIT;
    if (!n) return QKV_OK;
    if (!x || !positions || (uintptr_t)x % sizeof *x || (uintptr_t)positions % sizeof *positions)
        return QKV_ERR_USAGE;
    for (int64_t r = 0; r < R; r++)
        if (positions[r] < 0) return QKV_ERR_USAGE;
    const struct qkv_rope rope = { .theta = theta,
                                   .interleaved = interleaved,
                                   .backward = inverse };
    qkv_rope_apply(x, QKV_F32, positions, R, H, E, &rope);
    return QKV_OK;
}
#endif
