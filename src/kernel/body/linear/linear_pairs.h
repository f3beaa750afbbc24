// SPDX-License-Identifier: MIT
// linear_pairs.h: defines the product of linear.h on pairs of bf16: one instruction multiplies two
// pairs and adds both products to a float. The instruction treats subnormal numbers as 0 and never
// returns a subnormal number.

static size_t linear_pairs_bytes(int64_t K)
{
    return qkv_round_up(qkv_round_up((size_t)K, 2) * PANEL * 2, 64);
}

// Converts two vectors of floats to bf16 and interleaves them: a0 b0 a1 b1 ...
static inline __m512i linear_pairs_zip(vf a, vf b)
{
    static const uint16_t order[2 * VW] = { 0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

// Packs weights in pairs that are adjacent along K: panel[K / 2][PANEL][2]; elements without a
// weight become 0.
static void linear_pairs_pack(void *packed, const void *w, qkv_dtype type, int64_t K, int64_t N,
                              int64_t ldn, int64_t ldk)
{
    const size_t numbers = qkv_round_up((size_t)K, 2) * PANEL * 2, size = linear_pairs_bytes(K);
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += size) {
        for (int64_t k = 0; k < K; k += VW)
            for (int64_t n = 0; n < PANEL; n += VW) {
                vf t[VW];
                linear_weights_of(t, w, type, k, K, n0 + n, N, ldn, ldk);
                for (int64_t i = 0; i < VW && k + i < K; i += 2)
                    _mm512_storeu_si512(panel + ((k + i) * PANEL + n * 2) * 2,
                                        linear_pairs_zip(t[i], t[i + 1]));
            }
        memset(panel + numbers, 0, size - numbers);
    }
}

static void linear_pairs_prepare(void *to, const void *x, qkv_dtype type, int64_t n, float inverse)
{
    (void)inverse;
    uint16_t *at = to;
    int64_t k = 0;
    if (type == QKV_F32)
        for (; k + 2 * VW <= n; k += 2 * VW) {
            const vf low = vf_load((const float *)x + k), high = vf_load((const float *)x + k + VW);
            _mm512_storeu_si512(at + k, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
    for (; k < n; k += VW) vf_store_bf16(at + k, typed_load(x, type, k, n - k));
}

static inline __attribute__((always_inline)) void
linear_pairs_sum(const struct linear_step *s, const int rows, const int panels, const int group)
{
    vf acc[LINEAR_MR][LINEAR_NR * LINEAR_AT_ONCE];
    const char *row[LINEAR_MR];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        row[i] = s->x + (size_t)i * s->ldx;
        _Pragma("GCC unroll 16") for (int j = 0; j < panels * LINEAR_NR; j++) acc[i][j] = vf_zero();
    }
    const char *panel = s->panel;
    const size_t next = s->next;
    const int64_t steps = qkv_ceil_div(s->deep, group);
    for (int64_t k = 0; k < steps; k++, panel += PANEL * 2 * group) {
        _Pragma("GCC unroll 4") for (int p = 0; p < panels; p++)
        {
            __m512bh w[LINEAR_NR];
            _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) w[j] =
                (__m512bh)_mm512_loadu_si512(panel + (size_t)p * next + j * 64);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            {
                int32_t pair;
                memcpy(&pair, row[i] + k * 4, sizeof pair);
                const __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
                _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
                {
                    acc[i][p * LINEAR_NR + j] =
                        _mm512_dpbf16_ps(acc[i][p * LINEAR_NR + j], a, w[j]);
                }
            }
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 16") for (int j = 0; j < panels * LINEAR_NR; j++)
    {
        float *at = s->sum + (i * panels * LINEAR_NR + j) * VW;
        vf_store(at, s->add ? vf_add(vf_load(at), acc[i][j]) : acc[i][j]);
    }
}

LINEAR_TILE(linear_pairs_tile, linear_pairs_sum, 2)

static const struct linear_form linear_pairs_form = { .chunk = QKV_LINEAR_CHUNK,
                                                      .direct = QKV_BF16,
                                                      .group = 2,
                                                      .unit = sizeof(uint16_t),
                                                      .deep = PANEL * sizeof(uint16_t),
                                                      .prepare = linear_pairs_prepare,
                                                      .tile = linear_pairs_tile };
LINEAR_RUN(linear_pairs_rows, linear_pairs_form)

static const struct qkv_linear_kernel linear_pairs = {
    ISA_NAME, "bf16 pairs", PANEL, linear_pairs_bytes, linear_pairs_pack, linear_pairs_rows, 0
};
