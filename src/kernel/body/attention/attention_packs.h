// SPDX-License-Identifier: MIT
// attention_packs.h: packs keys and values of type STORED in the layouts that attention_tiles.h
// reads. The file is a template, included once for each type.
//
// Packed numbers have the type STORED. Keys are packed in panels of WIDE keys, with one row per
// element e of a head. Values are packed in panels of WIDE columns (the last panel is as wide as F
// requires), with one row per key.

static size_t NAME(key_bytes)(int64_t E)
{
    return (size_t)E * sizeof(ELEMENT);
}

static size_t NAME(value_bytes)(int64_t F)
{
    return (size_t)width(F) * sizeof(ELEMENT);
}

static void NAME(pack_keys)(void *packed, const void *given, int64_t ldk, int64_t at, int64_t n,
                            int64_t E)
{
    ELEMENT *to = packed;
    const ELEMENT *k = given;
    // packs keys one by one until the current vector of keys is complete
    for (; at % VW && n > 0; at++, n--, k += ldk)
        for (int64_t e = 0; e < E; e++) to[at / WIDE * WIDE * E + at % WIDE + e * WIDE] = k[e];
    for (int64_t j = 0; j < n; j += VW) {
        const int64_t rows = qkv_min64(VW, n - j);
        ELEMENT *panel = to + (at + j) / WIDE * WIDE * E + (at + j) % WIDE;
        for (int64_t e = 0; e < E; e += VW) {
            const int64_t columns = qkv_min64(VW, E - e);
            const ELEMENT *from = k + j * ldk + e;
            vf r[VW];
            if (rows == VW && columns == VW) {
                UNROLL for (int i = 0; i < VW; i++) r[i] = NAME(vf_load)(from + i * ldk);
                // Rows are far apart in memory, so the hardware prefetcher does not load the next
                // rows.
                for (int i = 0; j + 2 * VW <= n && i < VW; i++)
                    __builtin_prefetch(from + (i + VW) * ldk);
            } else {
                for (int i = 0; i < VW; i++)
                    r[i] = i < rows ? NAME_N(vf_load)(from + i * ldk, columns) : vf_zero();
            }
            vf_transpose(r);
            for (int i = 0; i < columns; i++) NAME(vf_store)(panel + (e + i) * WIDE, r[i]);
        }
    }
}

static bool NAME(pack_values)(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                              int64_t capacity, int64_t F)
{
    ELEMENT *to = packed;
    const ELEMENT *v = given;
    bool finite = true;
    for (int64_t f0 = 0; f0 < F; f0 += WIDE, to += capacity * WIDE) {
        const int64_t columns = qkv_min64(WIDE, F - f0), ld = width(columns);
        for (int64_t j = 0; j < n; j++) {
            ELEMENT *row = to + (at + j) * ld;
            for (int64_t f = 0; j + 8 < n && f < columns; f += 16)
                __builtin_prefetch(v + (j + 8) * ldv + f0 + f);
            for (int64_t f = 0; f < columns; f += VW) {
                const ELEMENT *from = v + j * ldv + f0 + f;
                const vf x =
                    columns - f < VW ? NAME_N(vf_load)(from, columns - f) : NAME(vf_load)(from);
                const vm fine = vm_finite(x);
                if (!vm_full(fine)) finite = false;
                NAME(vf_store)(row + f, vf_select(fine, x, vf_zero()));
            }
        }
    }
    return finite;
}
