// SPDX-License-Identifier: MIT
// attention_io.h: converts queries of type STORED to floats, and sums to outputs of type STORED.
// The file is a template, included once for each type.

static inline void NAME(pack_query)(void *packed, const void *given, int64_t E)
{
    real *to = packed;
    const ELEMENT *q = given;
    int64_t e = 0;
    for (; e + VW <= E; e += VW) vf_store(to + e, NAME(vf_load)(q + e));
    if (e < E) vf_store_n(to + e, NAME_N(vf_load)(q + e, E - e), E - e);
}

static void NAME(divide)(void *to, const real *o, real sum, int64_t F)
{
    ELEMENT *out = to;
    if (sum == 0) {
        for (int64_t f = 0; f < F; f++) out[f] = 0;
        return;
    }
    const vf times = vf_set1(1 / sum), zero = vf_zero();
    int64_t f = 0;
    for (; f + VW <= F; f += VW)
        NAME(vf_store)(out + f, vf_fma(vf_load(o + f), times, zero)); // adding 0 turns -0 into 0
    if (f < F) NAME_N(vf_store)(out + f, vf_fma(vf_load(o + f), times, zero), F - f);
}
