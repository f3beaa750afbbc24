// SPDX-License-Identifier: MIT
// amx_attention_back.h: defines the attention backward pass on bf16 with AMX tiles. Requires
// attention_names.h, attention_probabilities.h and amx_packs.h. attention_back_kernels.h defines P,
// dP, W, dS, X and d.
//
// All products use amx_tiles.h, in blocks of 32 numbers along the inner axis. A block is 32 rows
// (queries) or a strip of 32 columns (keys); e is an index in a row of q, k, v or dout:
//   scores, dP   first factor: k, v, in blocks of e; second factor: q, dout, in pairs of e.
//                The sums are s and dP with one key per row: the factors of a row of the attention
//                (base, d) are lanes of a vector, and W and X become first factors as they are
//   dv, dk       first factor: W, X, one key per row, in blocks of rows;
//                second factor: dout, q, in pairs of rows
//   dq           first factor: X, one query per row, in strips;
//                second factor: k, in pairs of keys
// W and X are rounded to bf16. An operand contains them twice: `transposed`, as the first factor of
// dv and dk, and `straight`, as the first factor of dq. The tiles of a first factor are contiguous.

#include "kernel/body/attention_back/attention_back_bf16.h"

#ifdef QKV_TINY_TILES
enum { BACK_ROWS = 2 * BLOCK };
#else
enum { BACK_ROWS = 128 };
#endif
enum {
    BACK_BLOCKS = BACK_ROWS / BLOCK,         // blocks of the rows of a tile of attention
    TRANSPOSED_HALF = BACK_BLOCKS * TILE,    // bytes of 16 columns of a transposed operand
    STRAIGHT_HALF = CHUNK_BLOCKS * TILE,     // bytes of 16 rows of a straight operand
    OPERAND_HALF = BACK_ROWS * QKV_CHUNK * 2 // bytes of each form
};

// Addresses in the two forms of an operand: of the tile of columns j .. j+15 and the b-th block of
// rows; of the tile of rows i .. i+15 and strip number `strip`.
TILE_ALWAYS char *back_transposed(const void *operand, int j, int b)
{
    return (char *)operand + j / HALF * TRANSPOSED_HALF + b * TILE;
}
TILE_ALWAYS char *back_straight(const void *operand, int i, int strip)
{
    return (char *)operand + OPERAND_HALF + i / HALF * STRAIGHT_HALF + strip * TILE;
}

// ---- transposition -----------------------------------------------------------------------------
// Transposes 32 rows of 32 numbers of bf16. Row i of the result is stored at to + i / 16 half +
// i % 16 * 64.
TILE_ALWAYS void back_transpose(char *to, int64_t half, const __m512i *row)
{
    vf low[VW], high[VW];
    for (int i = 0; i < VW; i++) {
        const __m512i a = _mm512_loadu_si512(row + 2 * i), b = _mm512_loadu_si512(row + 2 * i + 1);
        low[i] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(a, b));
        high[i] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(a, b));
    }
    vf_transpose(low);
    vf_transpose(high);
    // unpacklo takes columns 0 .. 3 of each 8, unpackhi columns 4 .. 7
    for (int i = 0; i < VW; i++) {
        const int column = i / 4 * 8 + i % 4;
        char *at = to + column / HALF * half + column % HALF * 64;
        _mm512_storeu_ps(at, low[i]);
        _mm512_storeu_ps(at + 4 * 64, high[i]);
    }
}

// ---- packing -----------------------------------------------------------------------------------
static size_t back_row_bytes(int64_t W)
{
    return (size_t)deep(W) * 2;
}
static size_t back_right_bytes(int64_t W)
{
    return (size_t)width(W) * 2;
}

// Loads numbers e .. e+31 of row i of n rows; numbers past the end and rows past the last are 0.
TILE_ALWAYS __m512i back_numbers(const void *const *x, int i, int n, int64_t e, int64_t W)
{
    const struct row_end none = { 0, 0 };
    __m512i part = _mm512_setzero_si512();
    if (i < n) amx_parts(&part, x[i], e, W, &none, 1);
    return part;
}

// Packs rows as second factors in pairs of e: [block of rows][block of e][half of the rows].
static void back_pack_rows(void *packed, const void *const *x, int rows, int64_t W)
{
    const int64_t blocks = deep(W) / BLOCK;
    for (int i = 0; i < (rows + BLOCK - 1) / BLOCK * BLOCK; i += HALF)
        for (int64_t b = 0; b < blocks; b++) {
            float *at = (void *)((char *)packed + (i / BLOCK * blocks + b) * 2 * TILE +
                                 i % BLOCK / HALF * TILE);
            vf tile[VW];
            for (int r = 0; r < VW; r++)
                tile[r] = _mm512_castsi512_ps(back_numbers(x, i + r, rows, b * BLOCK, W));
            vf_transpose(tile);
            for (int r = 0; r < VW; r++) vf_store(at + r * VW, tile[r]);
        }
}

// Packs keys or values as first factors: [16 keys][block of e].
static void back_pack_keys(void *packed, const void *const *x, int at, int n, int64_t W)
{
    const int64_t blocks = deep(W) / BLOCK;
    for (int j = 0; j < (n + BLOCK - 1) / BLOCK * BLOCK; j++) {
        char *to = (char *)packed + (at + j) / HALF * blocks * TILE + j % HALF * 64;
        for (int64_t b = 0; b < blocks; b++)
            _mm512_storeu_si512(to + b * TILE, back_numbers(x, j, n, b * BLOCK, W));
    }
}

// Packs rows as second factors in pairs of rows: [block of rows][16 numbers].
static bool back_pack_right(void *packed, const void *const *x, int at, int n, int64_t W)
{
    const int64_t ld = width(W);
    bool finite = true;
    for (int i = 0; i < (n + BLOCK - 1) / BLOCK * BLOCK; i += 2) {
        char *to = (char *)packed + (at + i) / BLOCK * ld / HALF * TILE + i % BLOCK / 2 * 64;
        for (int64_t f = 0; f < ld; f += BLOCK) {
            __m512i pair[2];
            for (int r = 0; r < 2; r++) {
                pair[r] = _mm512_setzero_si512();
                if (i + r < n && !amx_value_parts(&pair[r], x[i + r], f, W, 0, 1)) finite = false;
            }
            _mm512_storeu_si512(to + f / HALF * TILE, amx_pairs(pair[0], pair[1], 0));
            if (ld - f > HALF)
                _mm512_storeu_si512(to + f / HALF * TILE + TILE, amx_pairs(pair[0], pair[1], 1));
        }
    }
    return finite;
}

static void back_pack_operand(void *to, const real *x, int rows, const struct qkv_columns *spans,
                              int n)
{
    for (int p = 0; p < n; p++)
        for (int j = spans[p].from; j < spans[p].to; j += BLOCK)
            for (int i = 0; i < rows; i += BLOCK) {
                __m512i row[BLOCK];
                for (int r = 0; r < BLOCK; r++) {
                    const real *from = x + (i + r) * QKV_CHUNK + j;
                    row[r] = i + r < rows ? bf16_of(vf_load(from), vf_load(from + VW))
                                          : _mm512_setzero_si512();
                    _mm512_storeu_si512(back_straight(to, i + r, j / BLOCK) + r % HALF * 64,
                                        row[r]);
                }
                back_transpose(back_transposed(to, j, i / BLOCK), TRANSPOSED_HALF, row);
            }
}

static real back_tile_probability(const void *operand, int i, int32_t j)
{
    uint16_t half;
    memcpy(&half, back_straight(operand, i, j / BLOCK) + i % HALF * 64 + j % BLOCK * 2,
           sizeof half);
    return qkv_bf16_to_f32(half);
}

// ---- products ----------------------------------------------------------------------------------
static const struct tile_shape back_whole = { true, true };

// Computes s[32 columns][32 rows] = keys . rows for strip number `strip` and the b-th block of
// rows.
TILE_ALWAYS void back_scores_block(real *s, const void *rows, int b, const void *keys, int strip,
                                   int64_t W)
{
    const int64_t blocks = deep(W) / BLOCK;
    const struct tile_factors f = { .a = (const char *)keys + strip * 2 * blocks * TILE,
                                    .a_row = 64,
                                    .a_block = TILE,
                                    .a_half = blocks * TILE,
                                    .b = (const char *)rows + b * 2 * blocks * TILE };
    tile_product(s, BLOCK, &f, blocks, 1, back_whole);
}

// The blocks of the inner axis of a product: their tiles of the first factor, and their second
// factors, packed by back_pack_right.
struct back_inner {
    int n;
    const char *left[CHUNK_BLOCKS], *right[CHUNK_BLOCKS];
};
TILE_ALWAYS void back_inner_add(struct back_inner *in, const char *left, const void *right, int b,
                                int64_t W)
{
    in->left[in->n] = left;
    in->right[in->n++] = (const char *)right + b * width(W) / HALF * TILE;
}
// Adds the product to at most 32 rows of sums, more than 16 if `tall`. `half` is the distance in
// bytes from a tile of the upper 16 rows of the first factor to the tile of the lower 16 rows.
static void back_sums(real *sum, const struct back_inner *in, int64_t half, int64_t W, bool tall)
{
    const int64_t ld = width(W);
    const char *right[CHUNK_BLOCKS];
    const struct tile_factors f = {
        .a_blocks = in->left, .a_row = 64, .a_half = half, .b_blocks = right
    };
    for (int64_t w = 0; w < ld; w += BLOCK) {
        for (int k = 0; k < in->n; k++) right[k] = in->right[k] + w / HALF * TILE;
        tile_sums(sum + w, ld, &f, in->n, 1, (struct tile_shape){ tall, ld - w > HALF }, true);
    }
}

// Adds the product of X and k to at most n rows of sums, of which there may be fewer than 32.
static void back_add_rows(real *sum, int n, const struct back_inner *in, int64_t W)
{
    if (!in->n) return;
    if (n < HIGH) tile_configure(n);
    back_sums(sum, in, STRAIGHT_HALF, W, n > HALF);
}

static void back_scores(real *s, const void *rows, int n, const void *keys, int64_t W,
                        struct qkv_columns span)
{
    _Alignas(64) real sums[BLOCK][BLOCK];
    tile_configure(HIGH);
    for (int j = span.from; j < span.to; j += BLOCK)
        for (int i = 0; i < n; i += BLOCK) {
            back_scores_block(sums[0], rows, i / BLOCK, keys, j / BLOCK, W);
            for (int h = 0; h < 4; h++) {
                const int down = h / 2 * VW, right = h % 2 * VW; // down: of s
                vf tile[VW];
                for (int r = 0; r < VW; r++) tile[r] = vf_load(sums[right + r] + down);
                vf_transpose(tile);
                for (int r = 0; r < VW && i + down + r < n; r++)
                    vf_store(s + (i + down + r) * QKV_CHUNK + j + right, tile[r]);
            }
        }
    TILE_RELEASE();
}

static void back_add_transposed(real *sum, const void *operand, int rows, const void *right,
                                int64_t W, const struct qkv_columns *spans, int n)
{
    tile_configure(HIGH);
    for (int p = 0; p < n; p++)
        for (int j = spans[p].from; j < spans[p].to; j += BLOCK) {
            struct back_inner in = { 0 };
            for (int b = 0; b * BLOCK < rows; b++)
                back_inner_add(&in, back_transposed(operand, j, b), right, b, W);
            back_sums(sum + j * width(W), &in, TRANSPOSED_HALF, W, true);
        }
    TILE_RELEASE();
}

static void back_add_product(real *sum, const void *operand, int rows, const void *right, int64_t W,
                             const struct qkv_columns *spans, int n)
{
    tile_configure(HIGH);
    for (int i = 0; i < rows; i += BLOCK) {
        struct back_inner in = { 0 };
        for (int p = 0; p < n; p++)
            for (int j = spans[p].from; j < spans[p].to; j += BLOCK)
                back_inner_add(&in, back_straight(operand, i, j / BLOCK), right, j / BLOCK, W);
        back_add_rows(sum + i * width(W), rows - i, &in, W);
    }
    TILE_RELEASE();
}

// ---- the fused kernel --------------------------------------------------------------------------
// The columns that the rows of a tile see, also as one bit per strip for each block of rows: any
// row sees a column of the strip, all rows see all its columns.
struct back_sight {
    int32_t lo[BACK_ROWS], hi[BACK_ROWS];
    uint32_t any[BACK_BLOCKS], all[BACK_BLOCKS];
};
static void back_find_sight(struct back_sight *see, const struct qkv_back_tile *t)
{
    for (int i = 0; i < BACK_ROWS; i++) {
        const bool some = i < t->rows && t->lo[i] < t->hi[i];
        const int32_t lo = some ? t->lo[i] : 0, hi = some ? t->hi[i] : 0;
        const uint32_t any = (1u << (hi + BLOCK - 1) / BLOCK) - (1u << lo / BLOCK);
        const uint32_t to = 1u << hi / BLOCK, from = 1u << (lo + BLOCK - 1) / BLOCK;
        const uint32_t all = to > from ? to - from : 0;
        uint32_t *const b = &see->any[i / BLOCK], *const a = &see->all[i / BLOCK];
        see->lo[i] = lo;
        see->hi[i] = hi;
        *b = i % BLOCK ? *b | any : any;
        *a = i % BLOCK ? *a & all : all;
    }
}

// Half of a block of rows: one row per lane.
struct back_lanes {
    struct back_row r;
    __m512i lo, hi;
};
TILE_ALWAYS struct back_lanes back_lanes_of(const struct qkv_back_tile *t,
                                            const struct back_sight *see, int i)
{
    const int64_t n = qkv_min64(t->rows - i, VW);
    struct back_lanes x = { .r = back_row_of(t->c, 0, 0, 0) };
    if (n <= 0) return x;
    x.r.base = vf_load_n(t->base + i, n);
    x.r.d = vf_load_n(t->d + i, n);
    x.lo = _mm512_loadu_si512(see->lo + i);
    x.hi = _mm512_loadu_si512(see->hi + i);
    return x;
}
// Computes P and dS of column j for the rows of x; both are 0 where a row does not see the column.
TILE_ALWAYS void back_grade_lanes(vf *probability, vf *slope, const struct back_lanes *x, vf s,
                                  vf dp, int j, const bool whole)
{
    *probability = back_probability(&x->r, s);
    *slope = back_slope(&x->r, s, *probability, dp);
    if (whole) return;
    const __m512i column = _mm512_set1_epi32(j);
    const vm seen = _mm512_cmple_epi32_mask(x->lo, column) & _mm512_cmplt_epi32_mask(column, x->hi);
    *probability = vf_select(seen, *probability, vf_zero());
    *slope = vf_select(seen, *slope, vf_zero());
}
// Computes W and X of one block of rows and one strip from the sums s and ds.
TILE_ALWAYS void back_grade(const struct qkv_back_tile *t, const struct back_sight *see, int b,
                            int strip, const bool whole)
{
    const struct back_lanes low = back_lanes_of(t, see, b * BLOCK),
                            high = back_lanes_of(t, see, b * BLOCK + VW);
    __m512i x[BLOCK];
    for (int j = 0; j < BLOCK; j += HALF) {
        char *const w_to = back_transposed(t->w_operand, j, b), *const x_to = back_transposed(
                                                                    t->x_operand, j, b);
        const real *s = t->s + j * BLOCK, *ds = t->ds + j * BLOCK;
        const int column = strip * BLOCK + j;
        for (int r = 0; r < HALF; r++) {
            const int at = r * BLOCK;
            vf p[2], slope[2];
            back_grade_lanes(&p[0], &slope[0], &low, vf_load(s + at), vf_load(ds + at), column + r,
                             whole);
            back_grade_lanes(&p[1], &slope[1], &high, vf_load(s + at + VW), vf_load(ds + at + VW),
                             column + r, whole);
            x[j + r] = bf16_of(slope[0], slope[1]);
            _mm512_storeu_si512(w_to + r * 64, bf16_of(p[0], p[1]));
            _mm512_storeu_si512(x_to + r * 64, x[j + r]);
        }
    }
    back_transpose(back_straight(t->x_operand, b * BLOCK, strip), STRAIGHT_HALF, x);
}

// Each strip has its W and X at column 0 of the transposed operands, so that they stay in the
// cache; X is also kept straight, for dq after the last strip.
static void back_fused(const struct qkv_back_tile *t)
{
    const int first = t->span.from / BLOCK, end = t->span.to / BLOCK;
    struct back_sight see;
    back_find_sight(&see, t);
    tile_configure(HIGH);
    for (int strip = first; strip < end; strip++) {
        struct back_inner dv = { 0 }, dk = { 0 };
        for (int b = 0; b * BLOCK < t->rows; b++) {
            if (!(see.any[b] >> strip & 1)) continue;
            back_scores_block(t->s, t->q, b, t->k, strip, t->E);
            back_scores_block(t->ds, t->dout, b, t->v, strip, t->F);
            if (see.all[b] >> strip & 1)
                back_grade(t, &see, b, strip, true);
            else
                back_grade(t, &see, b, strip, false);
            back_inner_add(&dv, back_transposed(t->w_operand, 0, b), t->dout_right, b, t->F);
            back_inner_add(&dk, back_transposed(t->x_operand, 0, b), t->q_right, b, t->E);
        }
        if (!dv.n) continue;
        back_sums(t->dv + strip * BLOCK * width(t->F), &dv, TRANSPOSED_HALF, t->F, true);
        back_sums(t->dk + strip * BLOCK * width(t->E), &dk, TRANSPOSED_HALF, t->E, true);
    }
    for (int b = 0; b * BLOCK < t->rows; b++) {
        struct back_inner dq = { 0 };
        for (int strip = first; strip < end; strip++)
            if (see.any[b] >> strip & 1)
                back_inner_add(&dq, back_straight(t->x_operand, b * BLOCK, strip), t->k_right,
                               strip, t->E);
        back_add_rows(t->dq + b * BLOCK * width(t->E), t->rows - b * BLOCK, &dq, t->E);
    }
    TILE_RELEASE();
}

static const struct qkv_attention_back_kernels attention_back_bf16 = {
    BACK_ROWS_STEPS("bf16 tiles"),
    .native = true,
    .type = QKV_BF16,
    .rows = BACK_ROWS,
    .keys = BLOCK,
    .lanes = BLOCK,
    .width = width,
    .row_bytes = back_row_bytes,
    .key_bytes = back_row_bytes,
    .right_bytes = back_right_bytes,
    .pack_rows = back_pack_rows,
    .pack_keys = back_pack_keys,
    .pack_right = back_pack_right,
    .scores = back_scores,
    .operand_bytes = 2 * OPERAND_HALF,
    .pack_operand = back_pack_operand,
    .add_transposed = back_add_transposed,
    .add_product = back_add_product,
    .probability = back_tile_probability,
    .fused = back_fused,
    .dot = back_dot_bf16,
    .store = back_store_bf16,
};
