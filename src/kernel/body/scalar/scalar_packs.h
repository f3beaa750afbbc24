// SPDX-License-Identifier: MIT
// scalar_packs.h: converts arrays of type STORED to real and back. The file is a template, included
// once for each type.

static void NAME(pack_keys)(void *to, const void *given, int64_t ldk, int64_t at, int64_t n,
                            int64_t E)
{
    const ELEMENT *k = given;
    for (int64_t j = at; j < at + n; j++, k += ldk)
        for (int64_t e = 0; e < E; e++)
            ((real *)to)[j / KEYS * KEYS * E + e * KEYS + j % KEYS] = NAME(read)(k[e]);
}

static bool NAME(pack_values)(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                              int64_t capacity, int64_t F)
{
    real *to = packed;
    const ELEMENT *v = given;
    (void)capacity;
    bool finite = true;
    for (int64_t j = 0; j < n; j++)
        for (int64_t f = 0; f < F; f++) {
            const real x = NAME(read)(v[j * ldv + f]);
            to[(at + j) * F + f] = isfinite(x) ? x : 0;
            if (!isfinite(x)) finite = false;
        }
    return finite;
}

static inline void NAME(pack_query)(void *to, const void *given, int64_t E)
{
    const ELEMENT *q = given;
    for (int64_t e = 0; e < E; e++) ((real *)to)[e] = NAME(read)(q[e]);
}

static void NAME(divide)(void *to, const real *o, real sum, int64_t F)
{
    ELEMENT *out = to;
    for (int64_t f = 0; f < F; f++)
        out[f] = NAME(write)(sum == 0 ? 0 : o[f] / sum + 0); // adding 0 turns -0 into 0
}
