// SPDX-License-Identifier: MIT
// linear_pack.c: packs weights piece by piece from any element type and from [N][K] or [K][N]
// order, so that a checkpoint need not be converted to floats as a whole.
#include "layer/layer.h"

enum { COLUMNS = 64 }; // approximate columns of a piece; bounds the memory for conversion

int64_t qkv_linear_piece(const struct qkv_linear *l)
{
    return qkv_ceil_div(COLUMNS, l->kernel->panel) * l->kernel->panel;
}

// Returns true if the kernels of precision p pack weights of this type directly, without a
// conversion to real.
static bool packs(qkv_precision p, qkv_dtype type)
{
    return type == QKV_REAL || (p != QKV_PRECISION_INT8 && (type == QKV_BF16 || type == QKV_F16));
}

// Converts weights to rows[N][K] of real: element k of row n is w[n ldn + k ldk].
static void convert(real *rows, const char *w, qkv_dtype type, int64_t N, int64_t K, int64_t ldn,
                    int64_t ldk)
{
    const size_t size = qkv_dtype_size(type);
    for (int64_t i = 0; i < N; i++) {
        if (ldk == 1 && sizeof(real) == sizeof(float)) {
            qkv_to_f32((float *)(void *)(rows + i * K), w + (size_t)(i * ldn) * size, type, K);
            continue;
        }
        for (int64_t k = 0; k < K; k++) {
            float one;
            qkv_to_f32(&one, w + (size_t)(i * ldn + k * ldk) * size, type, 1);
            rows[i * K + k] = (real)one;
        }
    }
}

bool qkv_linear_pack_piece(struct qkv_linear *l, int p, int64_t n, int64_t N, const void *w,
                           qkv_dtype type, int64_t ldn, int64_t ldk)
{
    const struct qkv_linear_kernel *kernel = l->kernel;
    char *to = l->packed + l->start[p] + (size_t)(n / kernel->panel) * kernel->panel_bytes(l->K);
    real *own = NULL;
    if (!packs(l->precision, type)) {
        own = qkv_alloc((size_t)qkv_max64(N * l->K, 1), sizeof *own);
        if (!own) return false;
        convert(own, w, type, N, l->K, ldn, ldk);
        w = own;
        type = QKV_REAL;
        ldn = l->K;
        ldk = 1;
    }
    kernel->pack(to, w, type, l->K, N, ldn, ldk);
    qkv_free(own);
    return true;
}
