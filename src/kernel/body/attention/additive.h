// SPDX-License-Identifier: MIT
// additive.h: defines the kernels of additive attention, whose scores are w . tanh(u + p)
// (kernel.h, `additive`). Requires attention.h and activation.h.

// Packs keys. A panel has space for E rows, of which only the first E / 2 are used.
static void additive_pack(void *to, const void *k, int64_t ldk, int64_t at, int64_t n, int64_t E)
{
    while (n > 0) {
        const int64_t j = at % WIDE, some = qkv_min64(WIDE - j, n);
        pack_keys_f32((real *)to + (at - j) * E, k, ldk, j, some, E / 2);
        k = (const real *)k + some * ldk;
        at += some;
        n -= some;
    }
}

static void additive_scores(real *s, const void *const *queries, int rows, const void *packed,
                            int64_t E, struct qkv_columns span)
{
    const real *keys = packed;
    for (int32_t j = span.from; j < span.to; j += VW) {
        const real *panel = keys + j / WIDE * WIDE * E + j % WIDE;
        for (int i = 0; i < rows; i++) {
            const real *q = queries[i];
            vf sum = vf_zero();
            for (int64_t e = 0; e < E / 2; e++) {
                const vf x = act_tanh(vf_add(vf_set1(q[e]), vf_load(panel + e * WIDE)));
                sum = vf_fma(vf_set1(q[E / 2 + e]), x, sum);
            }
            vf_store(s + i * QKV_CHUNK + j, sum);
        }
    }
}

static const struct qkv_attention_kernels additive = { ATTENTION_SHARED("float", MR, WIDE, VW),
                                                       .native = true,
                                                       .type = QKV_F32,
                                                       .key_bytes = key_bytes_f32,
                                                       .value_bytes = value_bytes_f32,
                                                       .query_bytes = key_bytes_f32,
                                                       .pack_keys = additive_pack,
                                                       .scores = additive_scores,
                                                       .pack_values = pack_values_f32,
                                                       .values = values_f32,
                                                       .divide = divide_f32 };
