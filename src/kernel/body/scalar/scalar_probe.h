// SPDX-License-Identifier: MIT
// scalar_probe.h: defines the law (the reference kernel) of probe_rows in plain C, which turns the
// scores of a tile into weights and computes their statistics.

static void probe_rows(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                       const int32_t *hi, const struct qkv_probing *how)
{
    enum { WORDS = QKV_CHUNK / 32 };
    for (int i = 0; i < rows; i++, s += QKV_CHUNK) {
        uint32_t *above = how->above ? how->above + i * WORDS : NULL;
        if (above) memset(above, 0, WORDS * sizeof *above);
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++) {
                const bool seen = j >= lo[i] && j < hi[i] && s[j] != -(real)INFINITY;
                const double power =
                    (double)how->c * (double)s[j] - (double)how->base[i] - (double)how->rest[i];
                s[j] = seen ? (real)exp2(power) : 0;
                if (how->entropy && s[j] != 0) how->entropy[i] -= s[j] * (real)power;
                if (how->sum) how->sum[j] += s[j];
                if (how->most && s[j] > how->most[j]) how->most[j] = s[j];
                if (above && s[j] > how->least[i]) above[j / 32] |= UINT32_C(1) << j % 32;
            }
    }
}
