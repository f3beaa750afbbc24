// SPDX-License-Identifier: MIT
// amx_six.h: computes y = tail(x w^T) of floats with AMX tiles, as six products of bf16 parts.
// Requires amx_linear.h.
//
// Packed weights are floats, 4 bytes a number where their three parts are 6, because a few rows
// wait for weights that come from memory. The vector units split them while the tiles multiply: the
// first group of up to 32 rows splits block k + 1 while it multiplies block k; other groups use its
// parts.
//
// Sums are computed in chunks of 512 numbers of K, each from 0: first the small products of each
// block in ascending order, in the order 20, 10, 11, 01, 02 (part of x, part of w), in which each
// product has a tile in common with the one before, then the products of the first parts. Chunks
// are added from left to right. A tile has in row i numbers i and i + 16 of a block, of x and of w.

enum {
    SIX_DEEP = DEEP / BLOCK / SIX, // blocks of a chunk
    SIX_AHEAD = 1 << 14,           // bytes ahead of which weights are fetched
    SIX_TOGETHER = 12,             // panels that share a pass over rows of several chunks
    SETS = 4                       // groups of rows for which a chunk is split once
};

// Groups of equally many rows of x, the last with as many or fewer, and the parts of a chunk of a
// panel. The rows of a group are in one tile or in two of equal height, because a product of tiles
// takes as long as its first factor has rows.
struct six {
    struct linear_side side[SETS]; // tiles: [block][part][half]
    int64_t groups, each;          // each: rows of a group
    int64_t low;                   // rows of a group in its first tile
    bool tall;                     // other rows are in a second tile
    // mask of the blocks whose second and third parts are kept: a single group needs the parts of
    // two blocks, which then remain in the first-level cache
    int64_t kept;
    _Alignas(64) char first[SIX_DEEP][2 * TILE];
    _Alignas(64) char rest[SIX_DEEP][2][2 * TILE];
};

// Writes pairs of numbers as sums of three bf16 numbers each; number i of `low` and number i of
// `high` become neighbours. Each part is what is left of the number, rounded to nearest; of two
// that are as near, it is the larger in magnitude.
TILE_ALWAYS void six_parts(__m512i *part, vf low, vf high)
{
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(-0x10000);
    for (int p = 0; p < SIX; p++) {
        __m512i a = _mm512_castps_si512(low), b = _mm512_castps_si512(high);
        if (p < SIX - 1) { // the last part is a bf16 number already
            a = _mm512_add_epi32(a, half);
            b = _mm512_add_epi32(b, half);
            low = vf_sub(low, _mm512_castsi512_ps(_mm512_and_si512(a, upper)));
            high = vf_sub(high, _mm512_castsi512_ps(_mm512_and_si512(b, upper)));
        }
        // 0xf8: (a >> 16) or (b and upper)
        part[p] = _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, upper, 0xf8);
    }
}

// ---- rows of x ---------------------------------------------------------------------------------
// Selects up to SETS groups of rows of x, from row r on.
static void six_select(struct six *s, const void *x, int64_t ldx, int64_t r, int64_t rows,
                       int64_t K, qkv_dtype type)
{
    s->groups = qkv_ceil_div(rows, HIGH);
    s->each = qkv_ceil_div(rows, s->groups);
    s->tall = s->each > HALF;
    s->low = s->tall ? qkv_ceil_div(s->each, 2) : s->each;
    s->kept = s->groups > 1 ? SIX_DEEP - 1 : 1;
    for (int64_t g = 0; g < s->groups; g++) {
        const int64_t at = g * s->each;
        linear_select(&s->side[g], x, ldx, r + at, qkv_min64(s->each, rows - at), K, type);
        linear_form(&s->side[g]);
    }
}

// Splits blocks from .. from+n-1 of the rows of a group and stores them in its tiles.
TILE_ALWAYS void six_fill_typed(struct linear_side *s, int64_t low_rows, int64_t from, int64_t n,
                                const qkv_dtype type)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const char *row = s->x + r * s->apart;
        char *to = s->tiles + (r < low_rows ? r * 64 : TILE + (r - low_rows) * 64);
        const vf down = vf_set1(-s->power[r]);
        for (int64_t b = 0; b < n; b++, to += SIX * 2 * TILE) {
            __m512i part[SIX];
            vf low, high;
            linear_numbers(&low, &high, row, type, (from + b) * BLOCK, s->K);
            six_parts(part, vf_pow2(low, down), vf_pow2(high, down));
            for (int p = 0; p < SIX; p++) _mm512_store_si512(to + p * 2 * TILE, part[p]);
        }
    }
}
static void six_fill(struct six *s, int64_t from, int64_t n)
{
    for (int64_t g = 0; g < s->groups; g++) {
        struct linear_side *side = &s->side[g];
        if (side->type == QKV_BF16)
            six_fill_typed(side, s->low, from, n, QKV_BF16);
        else if (side->type == QKV_F16)
            six_fill_typed(side, s->low, from, n, QKV_F16);
        else
            six_fill_typed(side, s->low, from, n, QKV_F32);
    }
}

// ---- products ----------------------------------------------------------------------------------
// The pairs of vectors of a block that are not split yet, and where their parts are stored.
struct six_stream {
    const char *from;
    char *first, *rest;
    int64_t left;
};
// Returns the pairs of block k of a chunk, or none if `some` is false.
TILE_ALWAYS struct six_stream six_block(struct six *s, const char *chunk, int64_t k, bool some)
{
    if (!some) return (struct six_stream){ 0 };
    return (struct six_stream){ chunk + k * linear_block(SIX), s->first[k], s->rest[k & s->kept][0],
                                HIGH };
}
// Splits at most `most` pairs of a stream.
TILE_ALWAYS void six_split(struct six_stream *s, int64_t most)
{
    const int64_t n = qkv_min64(most, s->left);
    s->left -= n;
    for (int64_t i = 0; i < n; i++, s->from += 2 * 64, s->first += 64, s->rest += 64) {
        const float *const at = (const void *)s->from;
        __m512i part[SIX];
        _mm_prefetch(s->from + SIX_AHEAD, _MM_HINT_T1);
        _mm_prefetch(s->from + SIX_AHEAD + 64, _MM_HINT_T1);
        six_parts(part, vf_load(at), vf_load(at + VW));
        _mm512_store_si512(s->first, part[0]);
        _mm512_store_si512(s->rest, part[1]);
        _mm512_store_si512(s->rest + 2 * TILE, part[2]);
    }
}

// Multiplies group g of the rows by n blocks of a panel, a chunk whose first block is split:
// to[rows][32]. After each product of tiles it splits some vectors of the next block; the last
// group splits the first block of the chunk `next` too, unless it is NULL.
TILE_ALWAYS void six_product(float (*to)[PANEL], struct six *s, int64_t g, const char *chunk,
                             int64_t n, const char *next, const bool tall, const bool wide)
{
    const char *a = s->side[g].tiles;
    struct six_stream pairs;
#define SIX_X(P)                                                                                   \
    do {                                                                                           \
        TILE_LOAD(4, a + (P)*2 * TILE, 64);                                                        \
        if (tall) TILE_LOAD(5, a + (P)*2 * TILE + TILE, 64);                                       \
    } while (0)
#define SIX_W(AT)                                                                                  \
    do {                                                                                           \
        TILE_LOAD(6, AT, 64);                                                                      \
        if (wide) TILE_LOAD(7, (AT) + TILE, 64);                                                   \
    } while (0)
#define SIX_MULTIPLY(MOST)                                                                         \
    do {                                                                                           \
        tile_multiply(tall, wide);                                                                 \
        six_split(&pairs, MOST);                                                                   \
    } while (0)
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int64_t k = 0; k < n; k++, a += SIX * 2 * TILE) {
        char(*const rest)[2 * TILE] = s->rest[k & s->kept];
        pairs = six_block(s, chunk, k + 1, g == 0 && k + 1 < n); // 32 = 7 + 7 + 6 + 6 + 6
        SIX_X(2);
        SIX_W(s->first[k]);
        SIX_MULTIPLY(7);
        SIX_X(1);
        SIX_MULTIPLY(7);
        SIX_W(rest[0]);
        SIX_MULTIPLY(6);
        SIX_X(0);
        SIX_MULTIPLY(6);
        SIX_W(rest[1]);
        SIX_MULTIPLY(6);
    }
    const int64_t most = n > 1 ? qkv_ceil_div(HIGH, n - 1) : 0;
    pairs = six_block(s, next, 0, next && g + 1 == s->groups);
    a = s->side[g].tiles;
    for (int64_t k = 0; k < n; k++, a += SIX * 2 * TILE) {
        SIX_X(0);
        SIX_W(s->first[k]);
        SIX_MULTIPLY(k > 0 ? most : 0); // block 0 is in use until then
    }
    six_split(&pairs, pairs.left);
    TILE_STORE(0, to[0], sizeof *to);
    if (wide) TILE_STORE(1, to[0] + HALF, sizeof *to);
    if (tall) TILE_STORE(2, to[s->low], sizeof *to);
    if (tall && wide) TILE_STORE(3, to[s->low] + HALF, sizeof *to);
}
static void six_product_of(float (*to)[PANEL], struct six *s, int64_t g, const char *chunk,
                           int64_t n, const char *next, bool wide)
{
    if (s->tall && wide)
        six_product(to, s, g, chunk, n, next, true, true);
    else if (s->tall)
        six_product(to, s, g, chunk, n, next, true, false);
    else if (wide)
        six_product(to, s, g, chunk, n, next, false, true);
    else
        six_product(to, s, g, chunk, n, next, false, false);
}

// Multiplies the rows by n blocks of panels, from block `from` on, and, if they are the last,
// applies the tail. The first panel begins at column n0 of y.
static void six_panels(struct six *s, float (*sum)[SETS][HIGH][PANEL], const char *panels,
                       int64_t from, int64_t n, int64_t n0, int64_t columns,
                       const struct linear_out *out, bool last)
{
    _Alignas(64) float one[HIGH][PANEL];
    const int64_t bytes = (int64_t)linear_bytes(s->side[0].K, SIX);
    const char *chunk = panels + from * linear_block(SIX);
    struct six_stream begin = six_block(s, chunk, 0, n > 0);
    six_split(&begin, HIGH);
    for (int64_t c = 0; c < columns; c += PANEL, panels += bytes, chunk += bytes) {
        const int64_t wide = qkv_min64(columns - c, PANEL);
        const char *const next = c + PANEL < columns && n > 0 ? chunk + bytes : NULL;
        for (int64_t g = 0; g < s->groups; g++) {
            const int64_t rows = s->side[g].rows, row0 = out->row0 + g * s->each;
            float(*const all)[PANEL] = last && !from ? one : sum[c / PANEL][g];
            if (last) linear_expect(out, row0, n0 + c, rows);
            six_product_of(from ? one : all, s, g, chunk, n, next, wide > HALF);
            if (from) linear_add(all, (const float(*)[PANEL])one, rows, wide);
            if (!last) continue;
            linear_again(all, &s->side[g], panels, wide, SIX);
            linear_tail_rows(out->y, out->ldy, (const float(*)[PANEL])all, row0, rows, n0 + c, wide,
                             out->tail);
        }
    }
}

TILE_ALWAYS void six_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *packed,
                          int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail,
                          const int parts)
{
    _Alignas(64) float sum[SIX_TOGETHER][SETS][HIGH][PANEL];
    struct six s;
    const int64_t blocks = linear_blocks(K), deep = SIX_DEEP;
    // sums of a single chunk are not kept
    const int64_t step = blocks > deep ? SIX_TOGETHER * PANEL : N;
    int64_t low = 0;
    for (int64_t r = 0; r < rows; r += SETS * HIGH) {
        const struct linear_out out = { y, ldy, r, tail };
        six_select(&s, x, ldx, r, qkv_min64(rows - r, SETS * HIGH), K, tail->x);
        if (s.low != low) tile_configure_halves((int)s.low);
        low = s.low;
        for (int64_t n = 0; n < N; n += step) {
            const int64_t columns = qkv_min64(N - n, step);
            const char *panels = (const char *)packed + n / PANEL * (int64_t)linear_bytes(K, parts);
            int64_t b = 0;
            for (; blocks - b > deep; b += deep) {
                six_fill(&s, b, deep);
                six_panels(&s, sum, panels, b, deep, n, columns, &out, false);
            }
            if (n == 0 || blocks > deep) six_fill(&s, b, blocks - b);
            six_panels(&s, sum, panels, b, blocks - b, n, columns, &out, true);
        }
    }
    TILE_RELEASE();
}

AMX_LINEAR(linear_six, SIX, "six bf16 products", six_rows, SETS *HIGH);
