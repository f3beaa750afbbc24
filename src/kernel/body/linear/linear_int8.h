// SPDX-License-Identifier: MIT
// linear_int8.h: defines the product of linear.h on 8-bit integers: w_nk = t_n W_nk and x_rk = s_r
// X_rk, where t_n is the scale of column n, s_r the scale of row r, and W and X are integers in
// -127 .. 127; so y_rn = (s_r t_n) sum_k X_rk W_nk.
//
// The sums of a chunk are integers and exact, so every instruction set gives the same result. The
// file isa_*.c that includes this file defines INT8_GROUP, the number of integers per lane;
// int8_put, which prepares VW numbers of a row; int8_weights, which loads one vector of a panel;
// int8_dot, which adds products; and INT8_OFFSET, which int8_put adds to x. The header of a panel
// contains, for each sum, a start value that cancels what this offset adds.

#include "kernel/body/linear/quantise.h"

enum { INT8_DEEP = PANEL };

static inline int64_t int8_chunks(int64_t K)
{
    return qkv_max64(qkv_ceil_div(K, QKV_LINEAR_INT8_CHUNK), 1);
}

static size_t int8_head(int64_t K)
{
    return PANEL * (sizeof(float) + (size_t)int8_chunks(K) * sizeof(int32_t));
}

static size_t int8_bytes(int64_t K)
{
    return qkv_round_up(int8_head(K) + qkv_round_up((size_t)K, INT8_GROUP) * INT8_DEEP, 64);
}

// Returns the largest |x| of a row. The bits of a float without its sign sort like the number, with
// Inf and NaN after all others.
static float int8_highest(const void *x, qkv_dtype type, int64_t K)
{
    vi top = vi_set1(0);
    for (int64_t k = 0; k < K; k += VW)
        top = vi_max(top, vi_bits(vf_abs(typed_load(x, type, k, K - k))));
    uint32_t lanes[VW], most = 0;
    vi_store(lanes, top);
    for (int i = 0; i < VW; i++) most = lanes[i] > most ? lanes[i] : most;
    float highest;
    memcpy(&highest, &most, sizeof highest);
    return highest;
}

static float int8_row_scale(const void *x, qkv_dtype type, int64_t K, float *inverse)
{
    return int8_scale(int8_highest(x, type, K), inverse);
}

// Packs one column: its scale, its numbers, and for each chunk the start value that cancels what
// INT8_OFFSET adds to the sums.
static void int8_pack_column(char *panel, int64_t n, const real *w, int64_t K, int64_t ldk)
{
    int8_t *to = (int8_t *)(void *)(panel + int8_head(K)) + n * INT8_GROUP;
    int32_t *extra = (int32_t *)(void *)panel + PANEL + n;
    const float highest = ldk == 1 ? int8_highest(w, QKV_F32, K) : int8_highest_of(w, K, ldk);
    float inverse;
    ((float *)(void *)panel)[n] = int8_scale(highest, &inverse);
    const vf by = vf_set1(inverse);
    for (int64_t k0 = 0; k0 < K && inverse > 0; k0 += LINEAR_RUN_OF) {
        const int64_t deep = qkv_min64(K - k0, LINEAR_RUN_OF);
        float copy[LINEAR_RUN_OF];
        int8_t q[LINEAR_RUN_OF];
        const float *column = linear_column(copy, w + k0 * ldk, ldk, deep);
        for (int i = 0; i < LINEAR_RUN_OF; i += VW)
            vf_store_int8(q + i, vf_mul(vf_load(column + i), by));
        int32_t sum = 0;
        for (int i = 0; i < LINEAR_RUN_OF; i++) sum += q[i];
        extra[k0 / QKV_LINEAR_INT8_CHUNK * PANEL] -= INT8_OFFSET * sum;
        for (int64_t i = 0; i < deep; i += INT8_GROUP)
            memcpy(to + (k0 + i) * PANEL, q + i, INT8_GROUP);
    }
}

static void int8_pack(void *packed, const void *given, qkv_dtype type, int64_t K, int64_t N,
                      int64_t ldn, int64_t ldk)
{
    const real *w = given;
    char *panel = packed;
    (void)type;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += int8_bytes(K)) {
        memset(panel, 0, int8_bytes(K));
        for (int64_t n = 0; n < PANEL && n0 + n < N; n++)
            int8_pack_column(panel, n, w + (n0 + n) * ldn, K, ldk);
    }
}

static void int8_prepare(void *to, const void *x, qkv_dtype type, int64_t n, float inverse)
{
    char *at = to;
    const vf by = vf_set1(inverse), zero = vf_zero();
    for (int64_t k = 0; k < n; k += VW, at += VW * 4 / INT8_GROUP)
        int8_put(at, inverse > 0 ? vf_mul(typed_load(x, type, k, n - k), by) : zero);
}

static inline __attribute__((always_inline)) void
int8_sum(const struct linear_step *s, const int rows, const int panels, const int group)
{
    vi acc[LINEAR_MR][LINEAR_NR * LINEAR_AT_ONCE];
    const int32_t *row[LINEAR_MR];
    const size_t next = s->next;
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        row[i] = (const int32_t *)(const void *)(s->x + (size_t)i * s->ldx);
        _Pragma("GCC unroll 4") for (int p = 0; p < panels; p++)
            _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
        {
            const void *extra = s->head + (size_t)p * next;
            acc[i][p * LINEAR_NR + j] = vi_load((const int32_t *)extra + j * VW);
        }
    }
    const char *panel = s->panel;
    const int64_t steps = qkv_ceil_div(s->deep, group);
    for (int64_t k = 0; k < steps; k++, panel += PANEL * group) {
        _Pragma("GCC unroll 4") for (int p = 0; p < panels; p++)
        {
            vi w[LINEAR_NR];
            _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) w[j] =
                int8_weights(panel + (size_t)p * next + j * VW * group);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            {
                const vi a = vi_set1(row[i][k]);
                _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
                {
                    acc[i][p * LINEAR_NR + j] = int8_dot(acc[i][p * LINEAR_NR + j], a, w[j]);
                }
            }
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 16") for (int j = 0; j < panels * LINEAR_NR; j++)
    {
        float *at = s->sum + (i * panels * LINEAR_NR + j) * VW;
        const vf sum = vf_of_vi(acc[i][j]);
        vf_store(at, s->add ? vf_add(vf_load(at), sum) : sum);
    }
}

LINEAR_TILE(int8_tile, int8_sum, INT8_GROUP)

static const struct linear_form int8_form = { .chunk = QKV_LINEAR_INT8_CHUNK,
                                              .direct = QKV_DTYPE_COUNT,
                                              .group = INT8_GROUP,
                                              .unit = 4 / INT8_GROUP,
                                              .deep = INT8_DEEP,
                                              .head = int8_head,
                                              .chunk_head = PANEL * sizeof(int32_t),
                                              .scale = int8_row_scale,
                                              .prepare = int8_prepare,
                                              .tile = int8_tile };
LINEAR_RUN(int8_rows, int8_form)

static const struct qkv_linear_kernel linear_int8 = { ISA_NAME,  INT8_ARITHMETIC, PANEL, int8_bytes,
                                                      int8_pack, int8_rows,       0 };
