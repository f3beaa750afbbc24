// SPDX-License-Identifier: MIT
// scalar_additive.h: defines the law (the reference kernels) of additive attention, whose scores
// are w . tanh(u + p). Requires scalar_attention.h.

static void additive_pack(void *to, const void *k, int64_t ldk, int64_t at, int64_t n, int64_t E)
{
    for (int64_t j = at; j < at + n; j++)
        pack_keys_real((real *)to + j / KEYS * KEYS * E, (const real *)k + (j - at) * ldk, ldk,
                       j % KEYS, 1, E / 2);
}

static void additive_scores(real *s, const void *const *queries, int rows, const void *packed,
                            int64_t E, struct qkv_columns span)
{
    const real *keys = packed;
    for (int i = 0; i < rows; i++) {
        const real *q = queries[i];
        for (int32_t j = span.from; j < span.to; j++) {
            const real *p = keys + j / KEYS * KEYS * E + j % KEYS;
            real sum = 0;
            for (int64_t e = 0; e < E / 2; e++)
                sum += q[E / 2 + e] * (real)tanh((double)(q[e] + p[e * KEYS]));
            s[i * QKV_CHUNK + j] = sum;
        }
    }
}

static const struct qkv_attention_kernels additive = { ATTENTION_SHARED("float", ROWS, KEYS, 1),
                                                       .key_bytes = key_bytes,
                                                       .value_bytes = value_bytes,
                                                       .query_bytes = key_bytes,
                                                       .scores = additive_scores,
                                                       .values = values,
                                                       .native = true,
                                                       .type = QKV_REAL,
                                                       .pack_keys = additive_pack,
                                                       .pack_values = pack_values_real,
                                                       .divide = divide_real };
