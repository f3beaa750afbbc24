// SPDX-License-Identifier: MIT
// linear.h: y = tail(x w^T): register-tiled product over packed panels of w.
//
// An isa file sets LINEAR_MR rows and LINEAR_NR vectors of columns a tile (MR * NR sums and NR + 1
// more registers).  Rows of x are read where they lie: MR of them stay in the first cache while
// the panels of a task, in the second, stream past.  Each sum is one chain of fma over a chunk of
// K; the chunks are added left to right in `sum`: for every number of rows the same.

enum { PANEL = LINEAR_NR * VW };

static size_t linear_panel_bytes(int64_t K)
{
    return qkv_round_up((size_t)(K * PANEL) * sizeof(real), 64);
}

static void linear_pack(void *packed, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk)
{
    real *panels = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panels += K * PANEL) {
        const int64_t columns = qkv_min64(N - n0, PANEL);
        for (int64_t k0 = 0; k0 < K; k0 += 16) // a cache line of w at a time
            for (int64_t n = 0; n < PANEL; n++)
                for (int64_t k = k0; k < K && k < k0 + 16; k++)
                    panels[k * PANEL + n] = n < columns ? w[(n0 + n) * ldn + k * ldk] : 0;
    }
}

// sum[rows][PANEL] (+)= x[rows][K] panel[K][PANEL]; rows is known where this is laid in.
static inline __attribute__((always_inline)) void linear_tile(float *sum, const float *x,
                                                              int64_t ldx, const float *panel,
                                                              int64_t K, bool add, const int rows)
{
    vf acc[LINEAR_MR][LINEAR_NR];
    const float *row[LINEAR_MR];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
    {
        row[i] = x + i * ldx;
        _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) acc[i][j] = vf_zero();
    }
    for (int64_t k = 0; k < K; k++, panel += PANEL) {
        vf w[LINEAR_NR];
        _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++) w[j] = vf_load(panel + j * VW);
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        {
            const vf a = vf_set1(row[i][k]);
            _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
            {
                acc[i][j] = vf_fma(a, w[j], acc[i][j]);
            }
        }
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4") for (int j = 0; j < LINEAR_NR; j++)
    {
        float *at = sum + i * PANEL + j * VW;
        vf_store(at, add ? vf_add(vf_load(at), acc[i][j]) : acc[i][j]);
    }
}

static void linear_tile_rows(float *sum, const float *x, int64_t ldx, const float *panel, int64_t K,
                             bool add, int64_t rows)
{
    switch (rows) {
#define QKV_ROWS(N)                                                                                \
    case N: linear_tile(sum, x, ldx, panel, K, add, N); break;
        LINEAR_EACH_ROWS
#undef QKV_ROWS
    }
}

// One vector of sums through the tail; n lanes of it are columns.
static inline void linear_tail(float *y, const float *sum, const float *residual, float *before,
                               const float *b, int64_t n, const struct qkv_linear_tail *tail)
{
    vf s = vf_mul(vf_load(sum), vf_set1(tail->scale));
    if (n >= VW) {
        if (b) s = vf_add(s, vf_load(b));
        if (before) vf_store(before, s);
        s = act_vector(s, tail->act);
        if (residual) s = vf_add(s, vf_load(residual));
        vf_store(y, s);
    } else {
        if (b) s = vf_add(s, vf_load_n(b, n));
        if (before) vf_store_n(before, s, n);
        s = act_vector(s, tail->act);
        if (residual) s = vf_add(s, vf_load_n(residual, n));
        vf_store_n(y, s, n);
    }
}

static void linear_rows(void *out, int64_t ldy, const void *in, int64_t ldx, const void *packed,
                        int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)
{
    real *y = out;
    const real *x = in, *panels = packed;
    _Alignas(64) float sum[LINEAR_MR * PANEL];
    const int64_t tiles = qkv_ceil_div(rows, LINEAR_MR); // of about the same height
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t r = t * rows / tiles, high = (t + 1) * rows / tiles - r;
        const real *panel = panels;
        for (int64_t n = 0; n < N; n += PANEL) {
            const int64_t wide = qkv_min64(N - n, PANEL);
            int64_t k = 0;
            do {
                const int64_t deep = qkv_min64(K - k, QKV_LINEAR_CHUNK);
                linear_tile_rows(sum, x + r * ldx + k, ldx, panel, deep, k > 0, high);
                panel += deep * PANEL;
                k += deep;
            } while (k < K);
            for (int64_t i = 0; i < high; i++)
                for (int64_t j = 0; j < wide; j += VW) {
                    const int64_t c = n + j, row = r + i;
                    linear_tail(y + row * ldy + c, sum + i * PANEL + j,
                                tail->residual ? tail->residual + row * tail->residual_ld + c
                                               : NULL,
                                tail->before ? tail->before + row * tail->before_ld + c : NULL,
                                tail->b ? tail->b + c : NULL, wide - j, tail);
                }
        }
    }
}

static const struct qkv_linear_kernel linear = {
    ISA_NAME, "float", PANEL, linear_panel_bytes, linear_pack, linear_rows
};
