// SPDX-License-Identifier: MIT
// attention_probe.h: turns the scores of a tile into attention weights and computes their
// statistics, with the vector functions. Requires attention_rows.h.
//
// PROBE_ROWS rows are processed together: their exponentials overlap in the pipeline, and the sum
// of a column is read and written once for all of them.
enum { PROBE_ROWS = 4, PROBE_WORDS = QKV_CHUNK / 32 };

// Turns the scores of `rows` rows, from row `first` of the tile on, into weights in the columns of
// the span, and adds their statistics. `whole` is true if the rows see all columns of the span.
INLINE void probe_span(real *s, const int rows, struct qkv_columns span, const int32_t *lo,
                       const int32_t *hi, const struct qkv_probing *how, int first,
                       vf entropy[PROBE_ROWS], const bool whole)
{
    // The lowest exponent t: it is smaller than the exponent of any power above 0, and finite, so
    // that 0 times t is 0. NaN remains NaN.
    const vf lowest = vf_set1(-200), c = vf_set1(how->c);
    for (int32_t j = span.from; j < span.to; j += VW) {
        vf sum = vf_zero(), most = vf_zero();
        if (how->sum) sum = vf_load(how->sum + j);
        if (how->most) most = vf_load(how->most + j);
        UNROLL for (int i = 0; i < rows; i++)
        {
            real *const at = s + i * QKV_CHUNK + j;
            const vf t =
                vf_max(lowest, vf_sub(vf_fms(c, vf_load(at), vf_set1(how->base[first + i])),
                                      vf_set1(how->rest[first + i])));
            vf x = exp2_vector(t), y = vf_mul(x, t);
            if (!whole) {
                const vm seen = vm_range(lo[i] - j, hi[i] - j);
                x = vf_select(seen, x, vf_zero());
                y = vf_select(seen, y, vf_zero());
            }
            vf_store(at, x);
            entropy[i] = vf_sub(entropy[i], y);
            sum = vf_add(sum, x);
            most = vf_max(x, most);
            if (how->above)
                how->above[(first + i) * PROBE_WORDS + j / 32] |=
                    vf_above(x, vf_set1(how->least[first + i])) << j % 32;
        }
        if (how->sum) vf_store(how->sum + j, sum);
        if (how->most) vf_store(how->most + j, most);
    }
}

INLINE void probe_some(real *s, const int rows, const struct qkv_columns *spans, int n,
                       const int32_t *lo, const int32_t *hi, const struct qkv_probing *how,
                       int first)
{
    vf entropy[PROBE_ROWS];
    UNROLL for (int i = 0; i < rows; i++) entropy[i] = vf_zero();
    for (int p = 0; p < n; p++) {
        bool whole = true;
        for (int i = 0; i < rows; i++)
            whole = whole && lo[i] <= spans[p].from && hi[i] >= spans[p].to;
        if (whole)
            probe_span(s, rows, spans[p], lo, hi, how, first, entropy, true);
        else
            probe_span(s, rows, spans[p], lo, hi, how, first, entropy, false);
    }
    if (how->entropy)
        UNROLL for (int i = 0; i < rows; i++) how->entropy[first + i] += vf_total(entropy[i]);
}

static void probe_rows(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                       const int32_t *hi, const struct qkv_probing *how)
{
    int i = 0;
    if (how->above) memset(how->above, 0, (size_t)rows * PROBE_WORDS * sizeof *how->above);
    for (; i + PROBE_ROWS <= rows; i += PROBE_ROWS)
        probe_some(s + i * QKV_CHUNK, PROBE_ROWS, spans, n, lo + i, hi + i, how, i);
    for (; i < rows; i++) probe_some(s + i * QKV_CHUNK, 1, spans, n, lo + i, hi + i, how, i);
}
