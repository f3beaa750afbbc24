// SPDX-License-Identifier: MIT
// amx_packs.h: packs keys, values and rows of q into the tile layouts that amx_attention.h
// describes. Requires amx_split.h.

enum {
    ROWS = HIGH,
    KEYS = 64,
    CHUNK_BLOCKS = QKV_CHUNK / BLOCK,
    // a row needs no power of two if the exponent of its largest number is at least TAME_LOW
    TAME_LOW = -20,
    TAME_HIGH = 50 // largest such exponent; within these limits any power would give the same bits
};
// The trailer of a packed row of floats: its power of two, and whether it contains nonfinite
// numbers.
struct row_end {
    float power;
    uint32_t odd; // 1: the row contains nonfinite numbers
};

static int64_t deep(int64_t n) // returns n rounded up to whole blocks of BLOCK numbers
{
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}
static int64_t width(int64_t F)
{
    return (F + HALF - 1) / HALF * HALF;
}
TILE_ALWAYS size_t amx_key_bytes(int64_t E, const int parts)
{
    return (size_t)(deep(E) * 2 * parts) + (parts > 1 ? sizeof(struct row_end) : 0);
}
TILE_ALWAYS size_t amx_value_bytes(int64_t F, const int parts)
{
    return (size_t)(deep(F) * 2 * parts) + (parts > 1 ? sizeof(float) : 0);
}
TILE_ALWAYS size_t amx_query_bytes(int64_t E, const int parts)
{
    return (size_t)(deep(E) * 2 * parts) + (parts > 1 ? 64 : 0);
}

// ---- rows of numbers ---------------------------------------------------------------------------
// Loads numbers from .. from+31 of a row of floats; numbers past n are 0.
TILE_ALWAYS void amx_floats(vf *low, vf *high, const float *row, int64_t from, int64_t n)
{
    const int64_t left = qkv_min64(n - from, BLOCK);
    *low = vf_load_n(row + from, qkv_min64(left, VW));
    *high = left > VW ? vf_load_n(row + from + VW, left - VW) : vf_zero();
}

// Sizes of the numbers of a row, lane by lane, so that rows wait for no maximum of 16 lanes.
struct amx_sizes {
    __mmask16 enough, much; // lanes with a number of at least 2^TAME_LOW, of at least 2^TAME_HIGH
};
TILE_ALWAYS void amx_size(struct amx_sizes *s, vf x)
{
    const __m512i bits = abs_bits(x);
    s->enough |= _mm512_cmpge_epi32_mask(bits, _mm512_set1_epi32((127 + TAME_LOW) << 23));
    s->much |= _mm512_cmpge_epi32_mask(bits, _mm512_set1_epi32((127 + TAME_HIGH) << 23));
}
// Returns true if all numbers are finite, and the largest needs no power of two.
TILE_ALWAYS bool amx_tame(const struct amx_sizes *s)
{
    return s->enough && !s->much;
}

static struct row_end amx_row_end(const float *row, int64_t n)
{
    const __m512i infinite = _mm512_set1_epi32(FINITE);
    __m512i most = _mm512_setzero_si512();
    struct row_end end = { 0, 0 };
    struct amx_sizes sizes = { 0, 0 };
    for (int64_t e = 0; e < n; e += VW) amx_size(&sizes, vf_load_n(row + e, qkv_min64(n - e, VW)));
    if (amx_tame(&sizes)) return end;
    for (int64_t e = 0; e < n; e += BLOCK) {
        vf x[2];
        amx_floats(&x[0], &x[1], row, e, n);
        for (int i = 0; i < 2; i++) {
            const __m512i bits = abs_bits(x[i]);
            const __mmask16 fine = _mm512_cmplt_epi32_mask(bits, infinite);
            if (fine != 0xffff) end.odd = 1;
            most = _mm512_mask_max_epi32(most, fine, most, bits);
        }
    }
    const uint32_t bits = (uint32_t)_mm512_reduce_max_epi32(most);
    if (bits && (bits < (127u + TAME_LOW) << 23 || bits >= (127u + TAME_HIGH) << 23))
        end.power = exponent_of(bits);
    return end;
}

// Splits numbers e .. e+31 of a row of the caller's type into bf16 parts, whose sum is the number.
// Nonfinite numbers are stored in the first part.
TILE_ALWAYS void amx_parts(__m512i *part, const void *row, int64_t e, int64_t n,
                           const struct row_end *end, const int parts)
{
    if (parts == 1) {
        const __mmask32 there = n - e < BLOCK ? (1u << (n - e)) - 1 : 0xffffffffu;
        part[0] = _mm512_maskz_loadu_epi16(there, (const uint16_t *)row + e);
        return;
    }
    vf low, high;
    amx_floats(&low, &high, row, e, n);
    if (end->power != 0) {
        low = vf_pow2(low, vf_set1(-end->power));
        high = vf_pow2(high, vf_set1(-end->power));
    }
    if (end->odd)
        split_odd(part, low, high, parts);
    else
        split(part, low, high, parts);
}

// ---- packing -----------------------------------------------------------------------------------
// Keys are packed in panels of 64. A panel has two sides of 32 keys, each [block of e][part][half
// of the keys][16 pairs of e][16 keys], followed by the trailers of its 64 keys.
struct key_place {
    char *tiles;         // address of the tile of the 16 keys, for block 0 and part 0
    struct row_end *end; // trailer of the first of the 16 keys
};
TILE_ALWAYS struct key_place amx_key(void *packed, int64_t j, int64_t E, const int parts)
{
    char *panel = (char *)packed + (size_t)(j / KEYS) * KEYS * amx_key_bytes(E, parts);
    const int64_t side = deep(E) * 2 * parts * HIGH;
    return (struct key_place){ panel + j % KEYS / HIGH * side + j % HIGH / HALF * TILE,
                               (void *)(panel + 2 * side +
                                        j % KEYS / HALF * HALF * (int64_t)sizeof(struct row_end)) };
}

// Packs n of the 16 keys j .. j+15: k[n] become keys j+first .. j+first+n-1. Keys j .. j+first-1
// are unchanged, and keys j+first+n .. j+15 become 0.
TILE_ALWAYS void amx_pack_sixteen(void *packed, const char *k, int64_t ldk, int64_t j,
                                  int64_t first, int64_t n, int64_t E, const int parts)
{
    const struct key_place to = amx_key(packed, j, E, parts);
    const __mmask16 ours = (__mmask16)(0xffff << first);
    struct row_end end[HALF];
    memset(end, 0, sizeof end);
    for (int64_t i = 0; parts > 1 && i < n; i++)
        end[first + i] = amx_row_end((const void *)(k + i * ldk), E);
    for (int64_t e = 0; e < E; e += BLOCK) {
        vf tile[3][VW];
        for (int64_t i = 0; i < HALF; i++) {
            __m512i part[3];
            const bool there = i >= first && i < first + n;
            if (there) amx_parts(part, k + (i - first) * ldk, e, E, &end[i], parts);
            for (int p = 0; p < parts; p++)
                tile[p][i] = there ? _mm512_castsi512_ps(part[p]) : vf_zero();
        }
        for (int p = 0; p < parts; p++) {
            float *at = (void *)(to.tiles + (e / BLOCK * parts + p) * 2 * TILE);
            vf_transpose(tile[p]);
            for (int i = 0; i < VW; i++) _mm512_mask_storeu_ps(at + i * VW, ours, tile[p][i]);
        }
    }
    if (parts > 1) memcpy(to.end + first, end + first, (size_t)(HALF - first) * sizeof *end);
}

TILE_ALWAYS void amx_pack_keys(void *packed, const void *k, int64_t ldk, int64_t at, int64_t n,
                               int64_t E, const int parts)
{
    const char *from = k;
    ldk *= parts > 1 ? 4 : 2;
    while (n > 0) {
        const int64_t first = at % HALF, some = qkv_min64(n, HALF - first);
        tile_expect(from + some * ldk, ldk, qkv_min64(n - some, HALF), E * (parts > 1 ? 4 : 2),
                    false);
        amx_pack_sixteen(packed, from, ldk, at - first, first, some, E, parts);
        from += some * ldk;
        at += some;
        n -= some;
    }
}

// Returns the address of the packed values of the block of 32 columns that contains f and the block
// of 32 keys that contains j. A block is an array [bf16 part][half of the columns][16 pairs of
// keys][16 columns]; the powers of two of the values follow all blocks.
TILE_ALWAYS char *amx_value_tiles(const void *packed, int64_t f, int64_t j, int64_t capacity,
                                  const int parts)
{
    return (char *)packed + ((f / BLOCK) * (capacity / BLOCK) + j / BLOCK) * parts * 2 * TILE;
}
TILE_ALWAYS float *amx_value_powers(const void *packed, int64_t F, int64_t capacity,
                                    const int parts)
{
    return (void *)((char *)packed + deep(F) / BLOCK * (capacity / BLOCK) * parts * 2 * TILE);
}

// Splits 32 numbers of a value into parts; nonfinite numbers become 0. Returns true if all were
// finite.
TILE_ALWAYS bool amx_value_parts(__m512i *part, const void *row, int64_t f, int64_t F, float power,
                                 const int parts)
{
    if (parts == 1) {
        const struct row_end none = { 0, 0 };
        const __m512i top = _mm512_set1_epi16(0x7f80);
        amx_parts(part, row, f, F, &none, 1);
        const __mmask32 fine = _mm512_cmpneq_epi16_mask(_mm512_and_si512(part[0], top), top);
        part[0] = _mm512_maskz_mov_epi16(fine, part[0]);
        return fine == 0xffffffffu;
    }
    vf low, high;
    amx_floats(&low, &high, row, f, F);
    const vm a = vm_finite(low), b = vm_finite(high);
    const vf down = vf_set1(-power);
    low = vf_select(a, low, vf_zero());
    high = vf_select(b, high, vf_zero());
    split(part, power != 0 ? vf_pow2(low, down) : low, power != 0 ? vf_pow2(high, down) : high,
          parts);
    return vm_full(a) && vm_full(b);
}

// Interleaves two rows of 32 numbers; returns the pairs of columns 0 .. 15 (half 0) or 16 .. 31.
TILE_ALWAYS __m512i amx_pairs(__m512i a, __m512i b, int half)
{
    static const uint16_t order[2][BLOCK] = {
        { 0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
          8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 },
        { 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
          24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63 },
    };
    return _mm512_permutex2var_epi16(a, _mm512_loadu_si512(order[half]), b);
}

// Packs values. Two rows that form a pair are packed together if both are new; if only one row is
// new, the other half of its pairs is unchanged.
TILE_ALWAYS bool amx_pack_values(void *packed, const void *v, int64_t ldv, int64_t at, int64_t n,
                                 int64_t capacity, int64_t F, const int parts)
{
    float *powers = amx_value_powers(packed, F, capacity, parts);
    const int64_t apart = ldv * (parts > 1 ? 4 : 2);
    bool finite = true;
    for (int64_t j = at / 2 * 2; j < at + n; j += 2) {
        const char *row = (const char *)v + (j - at) * apart;
        tile_expect(row + HALF * apart, apart, qkv_min64(at + n - j - HALF, 2),
                    F * (parts > 1 ? 4 : 2), false);
        const bool first = j >= at, second = j + 1 < at + n;
        float power[2] = { 0, 0 };
        if (parts > 1 && first) power[0] = amx_row_end((const void *)row, F).power;
        if (parts > 1 && second) power[1] = amx_row_end((const void *)(row + apart), F).power;
        if (parts > 1 && first) powers[j] = power[0];
        if (parts > 1 && second) powers[j + 1] = power[1];
        const __mmask32 ours = (first ? 0x55555555u : 0) | (second ? 0xaaaaaaaau : 0);
        for (int64_t f = 0; f < F; f += BLOCK) {
            __m512i a[3], b[3];
            for (int p = 0; p < parts; p++) a[p] = b[p] = _mm512_setzero_si512();
            if (first && !amx_value_parts(a, row, f, F, power[0], parts)) finite = false;
            if (second && !amx_value_parts(b, row + apart, f, F, power[1], parts)) finite = false;
            char *to = amx_value_tiles(packed, f, j, capacity, parts) + j % BLOCK / 2 * 64;
            for (int p = 0; p < parts; p++, to += 2 * TILE) {
                _mm512_mask_storeu_epi16(to, ours, amx_pairs(a[p], b[p], 0));
                _mm512_mask_storeu_epi16(to + TILE, ours, amx_pairs(a[p], b[p], 1));
            }
        }
    }
    return finite;
}

// Packs a row of q as an array [part][e], followed by the row's trailer. The parts of a float are
// the bf16 numbers whose sum it is; e is the index in the head.
TILE_ALWAYS void amx_pack_query(void *to, const void *q, int64_t E, const int parts)
{
    struct row_end end = { 0, 0 };
    if (parts > 1) end = amx_row_end(q, E);
    for (int64_t e = 0; e < E; e += BLOCK) {
        __m512i part[3];
        amx_parts(part, q, e, E, &end, parts);
        for (int p = 0; p < parts; p++)
            _mm512_storeu_si512((char *)to + p * deep(E) * 2 + e * 2, part[p]);
    }
    if (parts > 1) memcpy((char *)to + deep(E) * 2 * parts, &end, sizeof end);
}
