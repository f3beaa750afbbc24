// SPDX-License-Identifier: MIT
// amx_attention.h: defines attention with AMX tiles of bf16. Requires attention_rows.h,
// attention_probabilities.h, amx_tiles.h and amx_split.h.
//
// A tile of attention is 32 queries by 64 keys. Both products use amx_tiles.h, with e an index in a
// head of q and k, and f an index in a head of v:
//   scores   first factor: rows of q, in blocks of 32 numbers along e;
//            second factor: keys, in pairs along e, one key per column
//   values   first factor: rows of weights, in blocks of 32 keys;
//            second factor: values, in pairs of keys, one f per column
// bf16 arrays are used directly. Floats are split into two or three bf16 parts (amx_split.h). A row
// of q, a key or a value with very large or small numbers is scaled by a power of two. A row with
// nonfinite numbers is marked as odd, and its scores are computed again from the floats.

#include "kernel/body/amx/amx_packs.h"

// ---- scores ------------------------------------------------------------------------------------
TILE_ALWAYS struct row_end amx_query_end(const void *q, int64_t E, const int parts)
{
    struct row_end end;
    memcpy(&end, (const char *)q + deep(E) * 2 * parts, sizeof end);
    return end;
}

// Corrects the scores of 16 keys: multiplies them by the powers of two by which the keys and the
// rows of q were divided, and computes scores with nonfinite numbers again from the floats.
TILE_ALWAYS void amx_scores_odd(real *s, const void *const *q, int rows, const struct key_place *k,
                                int64_t E, const int parts)
{
    for (int i = 0; i < rows; i++) {
        const struct row_end one = amx_query_end(q[i], E, parts);
        for (int j = 0; j < HALF; j++) {
            const struct row_end *two = &k->end[j];
            float *at = s + i * QKV_CHUNK + j, sum = 0;
            if (!one.odd && !two->odd) {
                *at = _mm_cvtss_f32(
                    _mm_scalef_ss(_mm_set_ss(*at), _mm_set_ss(one.power + two->power)));
                continue;
            }
            for (int64_t e = 0; e < E; e++) {
                const char *key = k->tiles + e / BLOCK * parts * 2 * TILE + e % BLOCK / 2 * 64 +
                                  j * 4 + e % 2 * 2;
                sum = fmaf(joined((const char *)q[i] + e * 2, deep(E) * 2, one.power, parts),
                           joined(key, 2 * TILE, two->power, parts), sum);
            }
            *at = sum;
        }
    }
}

// Returns true if none of n packed rows, whose trailers are end[n], was scaled by a power of two or
// contains nonfinite numbers.
TILE_ALWAYS bool amx_ends_plain(const struct row_end *end, int n)
{
    uint64_t all = 0;
    for (int i = 0; i < n; i++) {
        uint64_t one;
        memcpy(&one, &end[i], sizeof one);
        all |= one;
    }
    return all == 0;
}

// Computes the scores of bf16 arrays (one part) if a row of q has at most two blocks: all rows of q
// stay in tiles 4 .. 7, and the keys are loaded into tiles 2 and 3, 16 keys at a time.
TILE_ALWAYS void amx_scores_near(real *s, const char *q, int rows, const void *packed, int64_t E,
                                 struct qkv_columns span)
{
    const int64_t apart = (int64_t)amx_query_bytes(E, 1), low = QKV_CHUNK * (int64_t)sizeof *s;
    const bool tall = rows > HALF, two = E > BLOCK;
    tile_configure_near(rows, two);
    TILE_LOAD(4, q, apart);
    if (tall) TILE_LOAD(5, q + HALF * apart, apart);
    if (two) TILE_LOAD(6, q + 64, apart);
    if (two && tall) TILE_LOAD(7, q + HALF * apart + 64, apart);
    for (int32_t j = span.from; j < span.to; j += HALF) {
        const char *keys = amx_key((void *)packed, j, E, 1).tiles;
        TILE_ZERO(0);
        TILE_LOAD_PASSING(2, keys, 64);
        TILE_BF16(0, 4, 2);
        if (two) {
            TILE_LOAD_PASSING(3, keys + 2 * TILE, 64);
            TILE_BF16(0, 6, 3);
        }
        TILE_STORE(0, s + j, low);
        if (!tall) continue;
        TILE_ZERO(1);
        TILE_BF16(1, 5, 2);
        if (two) TILE_BF16(1, 7, 3);
        TILE_STORE(1, s + HALF * QKV_CHUNK + j, low);
    }
    TILE_RELEASE();
}

TILE_ALWAYS void amx_scores(real *s, const void *const *q, int rows, const void *packed, int64_t E,
                            struct qkv_columns span, const int parts)
{
    if (parts == 1 && E <= 2 * BLOCK) {
        amx_scores_near(s, q[0], rows, packed, E, span);
        return;
    }
    const int64_t apart = (int64_t)amx_query_bytes(E, parts);
    struct tile_factors f = {
        .a = q[0], .a_row = apart, .a_block = 64, .a_part = deep(E) * 2, .a_half = HALF * apart
    };
    tile_configure(rows);
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / HIGH * HIGH + HIGH;
        if (next > span.to) next = span.to;
        f.b = amx_key((void *)packed, j, E, parts).tiles;
        const struct tile_shape shape = { rows > HALF, next - j > HALF };
        tile_product(s + j, QKV_CHUNK, &f, deep(E) / BLOCK, parts, shape);
    }
    TILE_RELEASE();
    if (parts == 1) return;
    bool plain = true;
    for (int i = 0; i < rows; i++) {
        const struct row_end end = amx_query_end(q[i], E, parts);
        if (!amx_ends_plain(&end, 1)) plain = false;
    }
    for (int32_t j = span.from; j < span.to; j += HALF) {
        const struct key_place k = amx_key((void *)packed, j, E, parts);
        if (!plain || !amx_ends_plain(k.end, HALF)) amx_scores_odd(s + j, q, rows, &k, E, parts);
    }
}

// ---- values ------------------------------------------------------------------------------------
// The attention weights of a chunk in blocks of 32 columns, without the blocks that no span
// touches. `tiles` contains the parts of float weights as tiles, or copies of rows of bf16 weights.
struct amx_probabilities {
    int blocks;
    int64_t from[CHUNK_BLOCKS];  // index of the first column of each block
    uint32_t seen[CHUNK_BLOCKS]; // mask of the block's columns that are in spans
    float power[HIGH];           // exponent of two that scales each row
    uint32_t odd;                // mask of the rows with nonfinite weights
    bool powers;                 // true: keys in the blocks have powers
    _Alignas(64) float key_power[CHUNK_BLOCKS][BLOCK];
    _Alignas(64) char tiles[CHUNK_BLOCKS * 3 * 2 * TILE];
};

static void amx_find_blocks(struct amx_probabilities *a, const struct qkv_columns *spans, int n)
{
    uint32_t seen[CHUNK_BLOCKS] = { 0 };
    for (int p = 0; p < n; p++)
        for (int32_t j = spans[p].from, next; j < spans[p].to; j = next) {
            next = j / BLOCK * BLOCK + BLOCK;
            if (next > spans[p].to) next = spans[p].to;
            seen[j / BLOCK] |= (next - j == BLOCK ? 0xffffffffu : (1u << (next - j)) - 1)
                               << j % BLOCK;
        }
    a->blocks = 0;
    for (int b = 0; b < CHUNK_BLOCKS; b++) {
        if (!seen[b]) continue;
        a->from[a->blocks] = b * BLOCK;
        a->seen[a->blocks++] = seen[b];
    }
}

static void amx_key_powers(struct amx_probabilities *a, const float *power)
{
    a->powers = false;
    for (int b = 0; b < a->blocks; b++)
        for (int h = 0; h < 2; h++) {
            const vf x = vf_load_m(power + a->from[b] + h * VW, (vm)(a->seen[b] >> h * 16));
            vf_store(a->key_power[b] + h * VW, x);
            if (vm_not_equal(x, vf_zero())) a->powers = true;
        }
}

TILE_ALWAYS void amx_probability(vf x[2], const struct amx_probabilities *a, const real *row, int b)
{
    x[0] = vf_load_m(row + a->from[b], (vm)a->seen[b]);
    x[1] = vf_load_m(row + a->from[b] + VW, (vm)(a->seen[b] >> 16));
}

// Returns the exponent of the power of two by which amx_fill divides a row of weights. It is
// computed from the largest product of a weight and the power of two of the weighted value. *odd
// becomes true if the row contains nonfinite weights.
static float amx_row_power(bool *odd, const struct amx_probabilities *a, const real *row)
{
    struct amx_sizes sizes = { 0, 0 };
    *odd = false;
    for (int b = 0; !a->powers && b < a->blocks; b++) {
        vf x[2];
        amx_probability(x, a, row, b);
        for (int h = 0; h < 2; h++) amx_size(&sizes, x[h]);
    }
    if (amx_tame(&sizes)) return 0; // never with powers, of which nothing was counted
    __m512i most = _mm512_setzero_si512();
    vf top = vf_set1(-INFINITY);
    for (int b = 0; b < a->blocks; b++) {
        vf x[2];
        amx_probability(x, a, row, b);
        for (int h = 0; h < 2; h++) {
            most = _mm512_max_epi32(most, abs_bits(x[h]));
            top = vf_max(top, vf_add(_mm512_getexp_ps(x[h]), vf_load(a->key_power[b] + h * VW)));
        }
    }
    const float high = vf_highest(top);
    *odd = _mm512_reduce_max_epi32(most) >= FINITE;
    return *odd || high == -INFINITY || (high >= TAME_LOW && high < TAME_HIGH) ? 0 : high - UP;
}

TILE_ALWAYS void amx_fill(struct amx_probabilities *a, const real *s, int rows, const int parts)
{
    a->odd = 0;
    for (int i = 0; i < rows; i++, s += QKV_CHUNK) {
        char *to = a->tiles + i / HALF * TILE + i % HALF * 64;
        bool odd = false;
        a->power[i] = amx_row_power(&odd, a, s);
        if (odd) a->odd |= 1u << i;
        for (int b = 0; b < a->blocks; b++, to += parts * 2 * TILE) {
            __m512i part[3];
            vf x[2];
            amx_probability(x, a, s, b);
            if (a->powers || a->power[i] != 0)
                for (int h = 0; h < 2; h++)
                    x[h] = vf_pow2(x[h],
                                   vf_sub(vf_load(a->key_power[b] + h * VW), vf_set1(a->power[i])));
            split(part, x[0], x[1], parts);
            for (int p = 0; p < parts; p++) _mm512_storeu_si512(to + p * 2 * TILE, part[p]);
        }
    }
}

// Finds the address of the bf16 weights of each block of 32 columns in the rows of s. If some
// columns of a block are outside all spans (the ranges of columns that the call weights), the block
// is copied to `masked`, with 0 in those columns and the same distance between rows.
static void amx_find_probabilities(const char **at, char (*masked)[QKV_CHUNK * 4],
                                   const struct amx_probabilities *a, const real *s, int rows)
{
    for (int b = 0; b < a->blocks; b++) {
        const int64_t from = a->from[b] * 2;
        at[b] = (const char *)s + from;
        if (a->seen[b] == 0xffffffffu) continue;
        for (int i = 0; i < rows; i++)
            _mm512_storeu_si512(
                masked[i] + from,
                _mm512_maskz_loadu_epi16(a->seen[b], (const char *)(s + i * QKV_CHUNK) + from));
        at[b] = masked[0] + from;
    }
}

// Copies a block of 32 values. Values whose bit in `seen` is 0 are not weighted and may never have
// been written; they become 0.
TILE_ALWAYS void amx_mask_values(char *to, const char *from, uint32_t seen, const int parts)
{
    for (int t = 0; t < parts * 2; t++, to += TILE, from += TILE)
        for (int i = 0; i < HALF; i++) {
            const __mmask32 ours =
                (seen >> 2 * i & 1 ? 0x55555555u : 0) | (seen >> (2 * i + 1) & 1 ? 0xaaaaaaaau : 0);
            _mm512_store_si512(to + i * 64, _mm512_maskz_loadu_epi16(ours, from + i * 64));
        }
}

// Computes the sums of rows with nonfinite weights again from the floats.
TILE_ALWAYS void amx_values_odd(float (*sum)[HIGH], const struct amx_probabilities *a,
                                const real *s, int rows, const void *packed, int64_t capacity,
                                int64_t f0, int64_t columns, const int parts)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int64_t f = 0; a->odd >> i & 1 && f < columns; f++) {
            float plain = 0;
            for (int b = 0; b < a->blocks; b++)
                for (int j = 0; j < BLOCK; j++) {
                    if (!(a->seen[b] >> j & 1)) continue;
                    const char *at = amx_value_tiles(packed, f0, a->from[b], capacity, parts) +
                                     f / HALF * TILE + j / 2 * 64 + f % HALF * 4 + j % 2 * 2;
                    plain = fmaf(s[a->from[b] + j], joined(at, 2 * TILE, a->key_power[b][j], parts),
                                 plain);
                }
            sum[i][f] = plain;
        }
}

TILE_ALWAYS void amx_values(real *o, const real *old, const real *now, const real *s, int rows,
                            const void *packed, int64_t capacity, int64_t F,
                            const struct qkv_columns *spans, int n, const int parts)
{
    _Alignas(64) char masked[CHUNK_BLOCKS][3 * 2 * TILE];
    _Alignas(64) float sum[HIGH][HIGH];
    const char *blocks[CHUNK_BLOCKS], *probabilities[CHUNK_BLOCKS];
    struct amx_probabilities a;
    struct tile_factors factors = { .b_blocks = blocks };
    const int64_t wide = width(F);
    amx_find_blocks(&a, spans, n);
    if (parts > 1) {
        amx_key_powers(&a, amx_value_powers(packed, F, capacity, parts));
        amx_fill(&a, s, rows, parts);
        factors.a = a.tiles;
        factors.a_row = 64;
        factors.a_block = parts * 2 * TILE;
        factors.a_part = 2 * TILE;
        factors.a_half = TILE;
    } else {
        amx_find_probabilities(probabilities, (void *)a.tiles, &a, s, rows);
        factors.a_blocks = probabilities;
        factors.a_row = QKV_CHUNK * (int64_t)sizeof *s;
        factors.a_half = HALF * factors.a_row;
    }
    tile_configure(rows);
    for (int64_t f = 0; f < wide; f += BLOCK) {
        const int64_t columns = qkv_min64(wide - f, BLOCK);
        for (int b = 0; b < a.blocks; b++) {
            blocks[b] = amx_value_tiles(packed, f, a.from[b], capacity, parts);
            if (a.seen[b] == 0xffffffffu) continue;
            amx_mask_values(masked[b], blocks[b], a.seen[b], parts);
            blocks[b] = masked[b];
        }
        const struct tile_shape shape = { rows > HALF, columns > HALF };
        tile_product(sum[0], HIGH, &factors, a.blocks, parts, shape);
        if (parts > 1 && a.odd)
            amx_values_odd(sum, &a, s, rows, packed, capacity, f, columns, parts);
        for (int i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j += VW) {
                real *at = o + i * wide + f + j;
                vf x = vf_load(sum[i] + j);
                if (parts > 1 && a.power[i] != 0) x = vf_pow2(x, vf_set1(a.power[i]));
                x = vf_mul(vf_set1(now[i]), x);
                vf_store(at, old ? vf_fma(vf_set1(old[i]), vf_load(at), x) : x);
            }
    }
    TILE_RELEASE();
}

// Divides the sums of a row: out = o / sum; adding 0 turns -0 into 0.
TILE_ALWAYS void amx_divide(void *out, const real *o, real sum, int64_t F, const int parts)
{
    const vf times = vf_set1(1 / sum), zero = vf_zero();
    for (int64_t f = 0; f < F; f += VW) {
        const int64_t n = qkv_min64(F - f, VW);
        const vf x = sum == 0 ? zero : vf_fma(vf_load(o + f), times, zero);
        typed_store(out, parts == 1 ? QKV_BF16 : QKV_F32, f, x, n);
    }
}

// Defines the kernels and the table of one variant. The arguments are its name, number of parts,
// type of the arrays, name of the method, and the kernels that compute weights.
#define AMX_ATTENTION(NAME, PARTS, TYPE, WORDS, ...)                                               \
    static size_t NAME##_key_bytes(int64_t E)                                                      \
    {                                                                                              \
        return amx_key_bytes(E, PARTS);                                                            \
    }                                                                                              \
    static size_t NAME##_value_bytes(int64_t F)                                                    \
    {                                                                                              \
        return amx_value_bytes(F, PARTS);                                                          \
    }                                                                                              \
    static size_t NAME##_query_bytes(int64_t E)                                                    \
    {                                                                                              \
        return amx_query_bytes(E, PARTS);                                                          \
    }                                                                                              \
    static void NAME##_pack_keys(void *to, const void *k, int64_t ldk, int64_t at, int64_t n,      \
                                 int64_t E)                                                        \
    {                                                                                              \
        amx_pack_keys(to, k, ldk, at, n, E, PARTS);                                                \
    }                                                                                              \
    static bool NAME##_pack_values(void *to, const void *v, int64_t ldv, int64_t at, int64_t n,    \
                                   int64_t capacity, int64_t F)                                    \
    {                                                                                              \
        return amx_pack_values(to, v, ldv, at, n, capacity, F, PARTS);                             \
    }                                                                                              \
    static void NAME##_pack_query(void *to, const void *q, int64_t E)                              \
    {                                                                                              \
        amx_pack_query(to, q, E, PARTS);                                                           \
    }                                                                                              \
    static void NAME##_scores(real *s, const void *const *q, int rows, const void *keys,           \
                              int64_t E, struct qkv_columns span)                                  \
    {                                                                                              \
        amx_scores(s, q, rows, keys, E, span, PARTS);                                              \
    }                                                                                              \
    static void NAME##_values(real *o, const real *old, const real *now, const real *s, int rows,  \
                              const void *v, int64_t capacity, int64_t F,                          \
                              const struct qkv_columns *spans, int n)                              \
    {                                                                                              \
        amx_values(o, old, now, s, rows, v, capacity, F, spans, n, PARTS);                         \
    }                                                                                              \
    static void NAME##_divide(void *out, const real *o, real sum, int64_t F)                       \
    {                                                                                              \
        amx_divide(out, o, sum, F, PARTS);                                                         \
    }                                                                                              \
    static const struct qkv_attention_kernels NAME = { .isa = ISA_NAME,                            \
                                                       .arithmetic = WORDS,                        \
                                                       .native = true,                             \
                                                       .type = TYPE,                               \
                                                       .rows = ROWS,                               \
                                                       .keys = KEYS,                               \
                                                       .lanes = HALF,                              \
                                                       .key_bytes = NAME##_key_bytes,              \
                                                       .value_bytes = NAME##_value_bytes,          \
                                                       .query_bytes = NAME##_query_bytes,          \
                                                       .pack_keys = NAME##_pack_keys,              \
                                                       .pack_values = NAME##_pack_values,          \
                                                       .pack_query = NAME##_pack_query,            \
                                                       .width = width,                             \
                                                       .scores = NAME##_scores,                    \
                                                       .modify = modify,                           \
                                                       .merge = merge,                             \
                                                       .values = NAME##_values,                    \
                                                       .join = join,                               \
                                                       .divide = NAME##_divide,                    \
                                                       .weights = weights,                         \
                                                       __VA_ARGS__ }
#include "kernel/body/amx/amx_group.h"
AMX_ATTENTION(attention_bf16, 1, QKV_BF16, "bf16 tiles", .softmax = softmax_pairs,
              .group = attention_bf16_group, .clear = clear_pairs, .drop = drop_pairs,
              .probability = probability_pairs);
AMX_ATTENTION(attention_three, 2, QKV_F32, "three bf16 products", .softmax = softmax,
              .clear = clear, .drop = drop);
AMX_ATTENTION(attention_six, 3, QKV_F32, "six bf16 products", .softmax = softmax, .clear = clear,
              .drop = drop);
