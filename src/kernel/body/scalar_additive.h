// SPDX-License-Identifier: MIT
// scalar_additive.h: the law of attention whose scores are w . tanh(u + p).
// After scalar_attention.h.

static void additive_pack(real *to, const real *k, int64_t ldk, int64_t n, int64_t E)
{
    for (int64_t j = 0; j < n; j += KEYS)
        pack_keys(to + j * E, k + j * ldk, ldk, qkv_min64(KEYS, n - j), E / 2);
}

static void additive_scores(real *s, const real *const *q, int rows, const real *keys, int64_t E,
                            struct qkv_columns span)
{
    for (int i = 0; i < rows; i++)
        for (int32_t j = span.from; j < span.to; j++) {
            const real *p = keys + j / KEYS * KEYS * E + j % KEYS;
            real sum = 0;
            for (int64_t e = 0; e < E / 2; e++)
                sum += q[i][E / 2 + e] * (real)tanh((double)(q[i][e] + p[e * KEYS]));
            s[i * QKV_CHUNK + j] = sum;
        }
}

static const struct qkv_attention_kernels additive =
    ATTENTION_STEPS(ROWS, KEYS, 1, additive_pack, additive_scores);
