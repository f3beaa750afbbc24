// SPDX-License-Identifier: MIT
// linear_float.h: defines the product of linear.h on floats, and the tile that linear_half.h also
// uses.

// Loads the i-th vector of a panel whose numbers are of `type`.
static inline vf linear_weights(const char *panel, int64_t i, qkv_dtype type)
{
    const void *p = panel;
    if (type == QKV_BF16) return vf_load_bf16((const uint16_t *)p + i * VW);
    if (type == QKV_F16) return vf_load_f16((const uint16_t *)p + i * VW);
    return vf_load((const float *)p + i * VW);
}

// Sums a tile of struct linear_step; rows, panels and type are constants where this function is
// inlined.
static inline __attribute__((always_inline)) void
linear_sum(const struct linear_step *s, const int rows, const int panels, const qkv_dtype type)
{
    vf acc[LINEAR_MR][LINEAR_NR * LINEAR_AT_ONCE];
    const float *row[LINEAR_MR];
    const size_t size = type == QKV_F32 ? 4 : 2;
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        row[i] = (const float *)(const void *)(s->x + (size_t)i * s->ldx);
        _Pragma("GCC unroll 16") for (int j = 0; j < panels * LINEAR_NR; j++) acc[i][j] = vf_zero();
    }
    const char *panel = s->panel;
    const size_t next = s->next;
    const int64_t deep = s->deep;
    for (int64_t k = 0; k < deep; k++, panel += PANEL * size) {
        _Pragma("GCC unroll 4") for (int p = 0; p < panels; p++)
        {
            vf w[LINEAR_NR];
            _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) w[j] =
                linear_weights(panel + (size_t)p * next, j, type);
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
            {
                const vf a = vf_set1(row[i][k]);
                _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
                {
                    acc[i][p * LINEAR_NR + j] = vf_fma(a, w[j], acc[i][p * LINEAR_NR + j]);
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

LINEAR_TILE(linear_tile_f32, linear_sum, QKV_F32)

static void linear_copy(void *to, const void *x, qkv_dtype type, int64_t n, float inverse)
{
    (void)inverse;
    for (int64_t k = 0; k < n; k += VW) vf_store((float *)to + k, typed_load(x, type, k, n - k));
}

static size_t linear_bytes(int64_t K)
{
    return qkv_round_up((size_t)(K * PANEL) * sizeof(float), 64);
}

static void linear_pack(void *packed, const void *w, qkv_dtype type, int64_t K, int64_t N,
                        int64_t ldn, int64_t ldk)
{
    linear_pack_as(packed, w, type, K, N, ldn, ldk, QKV_F32);
}

static const struct linear_form linear_form_f32 = { .chunk = QKV_LINEAR_CHUNK,
                                                    .direct = QKV_F32,
                                                    .group = 1,
                                                    .unit = sizeof(float),
                                                    .deep = PANEL * sizeof(float),
                                                    .prepare = linear_copy,
                                                    .tile = linear_tile_f32 };

LINEAR_RUN(linear_rows, linear_form_f32)

static const struct qkv_linear_kernel linear = { ISA_NAME,    "float",     PANEL, linear_bytes,
                                                 linear_pack, linear_rows, 0 };
