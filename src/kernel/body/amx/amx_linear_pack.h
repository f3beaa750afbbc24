// SPDX-License-Identifier: MIT
// amx_linear_pack.h: packs weights for amx_linear.h, whose first lines describe the panels.
// Requires amx_tiles.h and amx_split.h.

struct panel_end {
    _Alignas(64) float power[PANEL];
    uint32_t odd; // mask of the columns that contain nonfinite numbers
};

static int64_t linear_blocks(int64_t K)
{
    return (K + BLOCK - 1) / BLOCK;
}
// Returns the bytes of a block of a panel: two tiles for each part, or floats.
TILE_ALWAYS int64_t linear_block(const int parts)
{
    return parts == SIX ? BLOCK * PANEL * (int64_t)sizeof(float) : parts * 2 * TILE;
}
TILE_ALWAYS size_t linear_bytes(int64_t K, const int parts)
{
    return (size_t)(linear_blocks(K) * linear_block(parts)) +
           (parts > 1 ? sizeof(struct panel_end) : 0);
}
TILE_ALWAYS const struct panel_end *linear_end(const char *panel, int64_t K, const int parts)
{
    return (const void *)(panel + linear_blocks(K) * linear_block(parts));
}

// Loads weights k .. k+31 of the column whose weights begin at element `at` and are ldk elements
// apart; weights past K are 0.
TILE_ALWAYS void linear_weights(vf *low, vf *high, const void *w, qkv_dtype type, int64_t at,
                                int64_t k, int64_t K, int64_t ldk)
{
    float some[BLOCK] = { 0 };
    const int64_t n = qkv_min64(K - k, BLOCK);
    if (ldk == 1) {
        *low = typed_load(w, type, at + k, qkv_min64(n, VW));
        *high = n > VW ? typed_load(w, type, at + k + VW, n - VW) : vf_zero();
        return;
    }
    for (int64_t i = 0; i < n; i++) some[i] = vf_lane0(typed_load(w, type, at + (k + i) * ldk, 1));
    *low = vf_load(some);
    *high = vf_load(some + VW);
}

// Returns the bits of the largest finite |w| of a column; *odd becomes true if the column contains
// nonfinite numbers.
static uint32_t linear_largest(bool *odd, const void *w, qkv_dtype type, int64_t at, int64_t K,
                               int64_t ldk)
{
    const __m512i infinite = _mm512_set1_epi32(FINITE);
    __m512i most = _mm512_setzero_si512();
    *odd = false;
    for (int64_t k = 0; k < K; k += BLOCK) {
        vf x[2];
        linear_weights(&x[0], &x[1], w, type, at, k, K, ldk);
        for (int i = 0; i < 2; i++) {
            const __m512i bits = abs_bits(x[i]);
            const __mmask16 fine = _mm512_cmplt_epi32_mask(bits, infinite);
            if (fine != 0xffff) *odd = true;
            most = _mm512_mask_max_epi32(most, fine, most, bits);
        }
    }
    return (uint32_t)_mm512_reduce_max_epi32(most);
}

// Scales 32 weights by 2^down and splits them; weights that have three parts remain floats, scaled.
TILE_ALWAYS void linear_form_weights(__m512i *part, vf *low, vf *high, vf down, const int parts)
{
    if (parts == 1) {
        part[0] = bf16_of(*low, *high);
        return;
    }
    *low = vf_pow2(*low, down);
    *high = vf_pow2(*high, down);
    if (parts != SIX) split_odd(part, *low, *high, parts);
}

// ---- columns of w that are next to each other --------------------------------------------------
// The weights k of the columns of a panel, 16 at a time.
struct linear_across {
    const void *w;
    qkv_dtype type;
    int64_t at, columns, K, ldk; // first column of the panel, number of its columns
};
TILE_ALWAYS vf linear_across(const struct linear_across *a, int64_t k, int64_t half)
{
    const int64_t n = a->columns - half * HALF;
    if (k >= a->K || n <= 0) return vf_zero();
    return typed_load(a->w, a->type, a->at + k * a->ldk + half * HALF, qkv_min64(n, VW));
}

// Sets the powers of two of the columns and the mask of those that contain nonfinite numbers, as
// linear_largest finds them.
static void linear_end_across(struct panel_end *end, const struct linear_across *a)
{
    const __m512i infinite = _mm512_set1_epi32(FINITE);
    for (int64_t half = 0; half < 2; half++) {
        uint32_t bits[HALF];
        __m512i most = _mm512_setzero_si512();
        uint32_t odd = 0;
        for (int64_t k = 0; k < a->K; k++) {
            const __m512i x = abs_bits(linear_across(a, k, half));
            const __mmask16 fine = _mm512_cmplt_epi32_mask(x, infinite);
            odd |= (uint16_t)~fine;
            most = _mm512_mask_max_epi32(most, fine, most, x);
        }
        _mm512_storeu_si512(bits, most);
        end->odd |= odd << half * HALF;
        for (int64_t n = 0; n < qkv_min64(a->columns - half * HALF, HALF); n++)
            end->power[half * HALF + n] = exponent_of(bits[n]);
    }
}

// Packs like linear_pack_parts weights whose columns are next to each other: a row of a tile is a
// row or two of w, so that nothing is transposed.
TILE_ALWAYS void linear_pack_across(void *packed, const void *w, qkv_dtype type, int64_t K,
                                    int64_t N, int64_t ldk, const int parts)
{
    static const uint16_t pairs[BLOCK] = { 0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                           21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31 };
    const __m512i order = _mm512_loadu_si512(pairs);
    const int64_t blocks = linear_blocks(K);
    char *to = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL) {
        const struct linear_across a = { w, type, n0, qkv_min64(N - n0, PANEL), K, ldk };
        struct panel_end end;
        memset(&end, 0, sizeof end);
        if (parts > 1) linear_end_across(&end, &a);
        for (int64_t b = 0; b < blocks; b++, to += linear_block(parts))
            for (int64_t half = 0; half < 2; half++) {
                const vf down = vf_sub(vf_zero(), vf_load(end.power + half * HALF));
                for (int64_t i = 0; i < HALF; i++) {
                    const int64_t k = b * BLOCK + (parts == SIX ? i : 2 * i);
                    vf low = linear_across(&a, k, half);
                    vf high = linear_across(&a, k + (parts == SIX ? HALF : 1), half);
                    __m512i part[2];
                    linear_form_weights(part, &low, &high, down, parts);
                    if (parts == SIX) {
                        float *const row = (void *)(to + (half * HALF + i) * 128);
                        vf_store(row, low);
                        vf_store(row + VW, high);
                        continue;
                    }
                    for (int p = 0; p < parts; p++)
                        _mm512_store_si512(to + p * 2 * TILE + half * TILE + i * 64,
                                           _mm512_permutexvar_epi16(order, part[p]));
                }
            }
        if (parts > 1) {
            memcpy(to, &end, sizeof end);
            to += sizeof end;
        }
    }
}

// ---- columns of w -------------------------------------------------------------------------------
// The tile of a half of the columns has in row i numbers 2i and 2i + 1 of the block for each of its
// 16 columns. Floats are stored in 16 rows too: number i of the columns, then number i + 16.
TILE_ALWAYS void linear_pack_parts(void *packed, const void *w, qkv_dtype type, int64_t K,
                                   int64_t N, int64_t ldn, int64_t ldk, const int parts)
{
    if (ldn == 1 && ldk > 1) {
        linear_pack_across(packed, w, type, K, N, ldk, parts);
        return;
    }
    const int64_t blocks = linear_blocks(K);
    const int tiles = parts == SIX ? 2 : parts;
    const int64_t apart = parts == SIX ? 64 : 2 * TILE, row = parts == SIX ? 128 : 64;
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += linear_bytes(K, parts)) {
        const int64_t columns = qkv_min64(N - n0, PANEL);
        struct panel_end end;
        // memset clears the padding too, so that packed bytes depend only on the weights
        memset(&end, 0, sizeof end);
        for (int64_t n = 0; parts > 1 && n < columns; n++) {
            bool odd;
            end.power[n] = exponent_of(linear_largest(&odd, w, type, (n0 + n) * ldn, K, ldk));
            if (odd) end.odd |= 1u << n;
        }
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t half = 0; half < 2; half++) {
                __m512i part[2];
                vf tile[2][VW];
                for (int n = 0; n < VW; n++) {
                    const int64_t column = half * HALF + n;
                    vf low = vf_zero(), high = vf_zero();
                    if (column < columns)
                        linear_weights(&low, &high, w, type, (n0 + column) * ldn, b * BLOCK, K,
                                       ldk);
                    linear_form_weights(part, &low, &high, vf_set1(-end.power[column]), parts);
                    if (parts == SIX) {
                        tile[0][n] = low;
                        tile[1][n] = high;
                        continue;
                    }
                    for (int p = 0; p < parts; p++) tile[p][n] = _mm512_castsi512_ps(part[p]);
                }
                for (int p = 0; p < tiles; p++) {
                    char *to = panel + b * linear_block(parts) + half * HALF * row + p * apart;
                    vf_transpose(tile[p]);
                    for (int i = 0; i < VW; i++)
                        vf_store((float *)(void *)(to + i * row), tile[p][i]);
                }
            }
        if (parts > 1) memcpy(panel + blocks * linear_block(parts), &end, sizeof end);
    }
}
