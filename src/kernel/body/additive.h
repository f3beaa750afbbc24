// SPDX-License-Identifier: MIT
// additive.h: attention whose scores are w . tanh(u + p).  After attention.h and activation.h.

// Panels keep the stride of E rows; only the first half of them exists.
static void additive_pack(real *to, const real *k, int64_t ldk, int64_t n, int64_t E)
{
    for (int64_t j = 0; j < n; j += WIDE)
        pack_keys(to + j * E, k + j * ldk, ldk, qkv_min64(WIDE, n - j), E / 2);
}

static void additive_scores(real *s, const real *const *q, int rows, const real *keys, int64_t E,
                            struct qkv_columns span)
{
    for (int32_t j = span.from; j < span.to; j += VW) {
        const real *panel = keys + j / WIDE * WIDE * E + j % WIDE;
        for (int i = 0; i < rows; i++) {
            vf sum = vf_zero();
            for (int64_t e = 0; e < E / 2; e++) {
                const vf x = act_tanh(vf_add(vf_set1(q[i][e]), vf_load(panel + e * WIDE)));
                sum = vf_fma(vf_set1(q[i][E / 2 + e]), x, sum);
            }
            vf_store(s + i * QKV_CHUNK + j, sum);
        }
    }
}

static const struct qkv_attention_kernels additive =
    ATTENTION_STEPS(MR, WIDE, VW, additive_pack, additive_scores);
