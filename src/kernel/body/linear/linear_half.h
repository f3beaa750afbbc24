// SPDX-License-Identifier: MIT
// linear_half.h: defines the product of linear.h with 16-bit weights, by conversion: x is rounded
// to the type of the weights, and both become floats when they are loaded. Products of two bf16 or
// two f16 are exact in float; the order of sums is the same as for floats.

static size_t linear_half_bytes(int64_t K)
{
    return qkv_round_up((size_t)K * PANEL * 2, 64);
}

LINEAR_TILE(linear_tile_bf16, linear_sum, QKV_BF16)
LINEAR_TILE(linear_tile_f16, linear_sum, QKV_F16)

#define LINEAR_HALF(NAME, TYPE)                                                                    \
    static void linear_round_##NAME(void *to, const void *x, qkv_dtype type, int64_t n,            \
                                    float inverse)                                                 \
    {                                                                                              \
        (void)inverse;                                                                             \
        for (int64_t k = 0; k < n; k += VW) {                                                      \
            uint16_t half[VW];                                                                     \
            vf_store_##NAME(half, typed_load(x, type, k, n - k));                                  \
            vf_store((float *)to + k, vf_load_##NAME(half));                                       \
        }                                                                                          \
    }                                                                                              \
    static const struct linear_form linear_form_##NAME = { .chunk = QKV_LINEAR_CHUNK,              \
                                                           .direct = QKV_DTYPE_COUNT,              \
                                                           .group = 1,                             \
                                                           .unit = sizeof(float),                  \
                                                           .deep = PANEL * 2,                      \
                                                           .prepare = linear_round_##NAME,         \
                                                           .tile = linear_tile_##NAME };           \
    static void linear_pack_##NAME(void *packed, const void *w, qkv_dtype type, int64_t K,         \
                                   int64_t N, int64_t ldn, int64_t ldk)                            \
    {                                                                                              \
        linear_pack_as(packed, w, type, K, N, ldn, ldk, TYPE);                                     \
    }                                                                                              \
    LINEAR_RUN(linear_rows_##NAME, linear_form_##NAME)                                             \
    static const struct qkv_linear_kernel linear_##NAME = {                                        \
        ISA_NAME,           #NAME " as float",  PANEL, linear_half_bytes,                          \
        linear_pack_##NAME, linear_rows_##NAME, 0                                                  \
    };
LINEAR_HALF(bf16, QKV_BF16)
LINEAR_HALF(f16, QKV_F16)
