// SPDX-License-Identifier: MIT
// scalar_stored_dots.h: defines the dot products of a query with stored rows in plain C.

static void dots_stored(float *y, const float *x, const void *rows, qkv_dtype type, int64_t n,
                        int64_t d)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t i = 0; i < d; i++) {
            const float w = type == QKV_BF16 ? qkv_bf16_to_f32(((const uint16_t *)rows)[j * d + i])
                                             : ((const float *)rows)[j * d + i];
            sum += x[i] * w;
        }
        y[j] = sum;
    }
}

static void dots_int8(int32_t *y, const int8_t *x, const int8_t *rows, int64_t n, int64_t d)
{
    for (int64_t j = 0; j < n; j++) {
        int32_t sum = 0;
        for (int64_t i = 0; i < d; i++) sum += x[i] * rows[j * d + i];
        y[j] = sum;
    }
}
