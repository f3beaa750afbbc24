// SPDX-License-Identifier: MIT
// amx_linear.h: computes y = tail(x w^T) with AMX tiles of bf16. Requires activation.h, amx_tiles.h
// and amx_split.h.
//
// A float is represented by two or three bf16 parts (amx_split.h), a bf16 by one part. Weights are
// packed in panels of 32 columns: one tile for each block of 32 along k, each part and each half of
// the columns; weights that have three parts remain floats, and amx_six.h multiplies by them. 32
// rows of x at a time, up to DEEP numbers per row, are copied to tiles of the same kind and
// multiplied with all panels of the call. K is summed in chunks of DEEP / parts, each from
// 0 in ascending order, and the chunks are added from left to right, in the same order for every
// number of rows.
//
// With several parts (products of floats) a panel ends with the power of two of each column and the
// mask of columns that contain nonfinite numbers. The sums of such a column, or of a row of x with
// nonfinite numbers, are computed again from the floats, because a part of 0 times an infinite part
// would be NaN where the product of floats is not.

enum {
    PANEL = HIGH,
    DEEP = 1536,  // numbers per row of x whose tiles are on the stack: 96 KiB
    TOGETHER = 8, // panels that share a pass over deep rows: 32 KiB of sums
    SIX = 3,      // parts of a number whose product is six products of bf16
};
#include "kernel/body/amx/amx_linear_pack.h"

// ---- rows of x ---------------------------------------------------------------------------------
// Loads numbers from .. from+31 of a row as floats; numbers past K are 0.
TILE_ALWAYS void linear_numbers(vf *low, vf *high, const void *row, qkv_dtype type, int64_t from,
                                int64_t K)
{
    const int64_t n = qkv_min64(K - from, BLOCK);
    *low = typed_load(row, type, from, qkv_min64(n, VW));
    *high = n > VW ? typed_load(row, type, from + VW, n - VW) : vf_zero();
}

// A group of up to 32 rows of x, with their tiles.
struct linear_side {
    const char *x;
    int64_t apart; // distance of two rows of x in bytes
    qkv_dtype type;
    int64_t rows, K;
    float power[HIGH];
    uint32_t odd; // mask of the rows that contain nonfinite numbers
    _Alignas(64) char tiles[HIGH * DEEP * 2];
};

// Selects rows of x from row r on.
static void linear_select(struct linear_side *s, const void *x, int64_t ldx, int64_t r,
                          int64_t rows, int64_t K, qkv_dtype type)
{
    s->type = type;
    s->apart = ldx * (int64_t)qkv_dtype_size(type);
    s->K = K;
    s->x = (const char *)x + r * s->apart;
    s->rows = rows;
}

// Selects at most 32 rows of x, from row r on, and configures tiles of that height. *tall is the
// height that was configured before; 0: the tiles are not configured yet.
static void linear_begin(struct linear_side *s, const void *x, int64_t ldx, int64_t r, int64_t rows,
                         int64_t K, qkv_dtype type, int64_t *tall)
{
    linear_select(s, x, ldx, r, qkv_min64(rows - r, HIGH), K, type);
    if (*tall != s->rows) tile_configure((int)s->rows);
    *tall = s->rows;
}

// Returns the bits of the largest |x| of row r; a result of FINITE or more means that the row
// contains nonfinite numbers.
static uint32_t linear_row_largest(const struct linear_side *s, int64_t r)
{
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < s->K; k += BLOCK) {
        vf low, high;
        linear_numbers(&low, &high, s->x + r * s->apart, s->type, k, s->K);
        most = _mm512_max_epi32(most, _mm512_max_epi32(abs_bits(low), abs_bits(high)));
    }
    return (uint32_t)_mm512_reduce_max_epi32(most);
}

static void linear_form(struct linear_side *s)
{
    s->odd = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const uint32_t bits = linear_row_largest(s, r);
        if (bits >= FINITE) s->odd |= 1u << r;
        s->power[r] = bits >= FINITE ? 0 : exponent_of(bits);
    }
}

// Splits blocks from .. from+n-1 (of 32 numbers) of all rows into bf16 parts and stores them in
// tiles: [block][part][half][16 rows][64 bytes]. A part is one of the bf16 numbers whose sum is the
// float; a half is 16 of the up to 32 rows.
TILE_ALWAYS void linear_fill_typed(struct linear_side *s, int64_t from, int64_t n, const int parts,
                                   const qkv_dtype type)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const char *row = s->x + r * s->apart;
        char *to = s->tiles + r / HALF * TILE + r % HALF * 64;
        const vf down = vf_set1(parts > 1 ? -s->power[r] : 0);
        for (int64_t b = 0; b < n; b++, to += parts * 2 * TILE) {
            const int64_t k = (from + b) * BLOCK;
            __m512i part[3];
            vf low, high;
            if (parts == 1 && type == QKV_BF16 && k + BLOCK <= s->K) {
                _mm512_storeu_si512(to, _mm512_loadu_si512((const uint16_t *)row + k));
                continue;
            }
            linear_numbers(&low, &high, row, type, k, s->K);
            if (parts > 1)
                split(part, vf_pow2(low, down), vf_pow2(high, down), parts);
            else
                part[0] = bf16_of(low, high);
            for (int p = 0; p < parts; p++) _mm512_storeu_si512(to + p * 2 * TILE, part[p]);
        }
    }
}
TILE_ALWAYS void linear_fill(struct linear_side *s, int64_t from, int64_t n, const int parts)
{
    if (s->type == QKV_BF16)
        linear_fill_typed(s, from, n, parts, QKV_BF16);
    else if (s->type == QKV_F16)
        linear_fill_typed(s, from, n, parts, QKV_F16);
    else
        linear_fill_typed(s, from, n, parts, QKV_F32);
}

// ---- processing the sums -----------------------------------------------------------------------
// Returns weight k of column n of a panel as a float.
TILE_ALWAYS float linear_weight(const char *panel, const struct panel_end *end, int64_t k, int n,
                                const int parts)
{
    const char *block = panel + k / BLOCK * linear_block(parts);
    const char *at = block + n / HALF * TILE + k % BLOCK / 2 * 64 + n % HALF * 4 + k % 2 * 2;
    if (parts != SIX) return joined(at, 2 * TILE, end->power[n], parts);
    float x;
    memcpy(&x, block + n / HALF * 2 * TILE + k % VW * 128 + k % BLOCK / VW * 64 + n % HALF * 4, 4);
    return vf_lane0(vf_pow2(vf_set1(x), vf_set1(end->power[n])));
}

// Multiplies the sums by their powers of two, and computes the sums of rows and columns with
// nonfinite numbers again from the floats.
TILE_ALWAYS void linear_again(float (*sum)[PANEL], const struct linear_side *s, const char *panel,
                              int64_t columns, const int parts)
{
    const struct panel_end *end = linear_end(panel, s->K, parts);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t n = 0; n < columns; n += VW) {
            const vf power = vf_add(vf_load(end->power + n), vf_set1(s->power[r]));
            vf_store(sum[r] + n, vf_pow2(vf_load(sum[r] + n), power));
        }
    if (!s->odd && !end->odd) return;
    for (int64_t r = 0; r < s->rows; r++)
        for (int n = 0; n < columns; n++) {
            if (!(s->odd >> r & 1) && !(end->odd >> n & 1)) continue;
            float plain = 0, x[BLOCK] = { 0 };
            for (int64_t k = 0; k < s->K; k++) {
                if (k % BLOCK == 0) {
                    vf low, high;
                    linear_numbers(&low, &high, s->x + r * s->apart, s->type, k, s->K);
                    vf_store(x, low);
                    vf_store(x + VW, high);
                }
                plain = fmaf(x[k % BLOCK], linear_weight(panel, end, k, n, parts), plain);
            }
            sum[r][n] = plain;
        }
}

// Applies the tail to one vector of sums and stores its first n lanes in y; later lanes are past
// the last column.
TILE_ALWAYS void linear_tail(void *y, qkv_dtype type, const float *sum, const float *residual,
                             float *before, const float *b, int64_t n,
                             const struct qkv_linear_tail *tail)
{
    vf s = vf_mul(vf_load(sum), vf_set1(tail->scale));
    if (b) s = vf_add(s, vf_load_n(b, n));
    if (before) vf_store_n(before, s, n);
    s = act_vector(s, tail->act);
    if (residual) s = vf_add(s, vf_load_n(residual, n));
    typed_store(y, type, 0, s, n);
}

// Applies a tail without residual to rows of a whole panel, with the operations of linear_tail, and
// stores them in y, whose rows are ldy elements apart. b: bias of the panel.
TILE_ALWAYS void linear_tail_whole(char *y, int64_t ldy, const float (*sum)[PANEL], int64_t rows,
                                   const float *b, float factor, const qkv_dtype type,
                                   const enum qkv_activation act)
{
    const vf scale = vf_set1(factor);
    const vf bias[2] = { b ? vf_load(b) : vf_zero(), b ? vf_load(b + VW) : vf_zero() };
    for (; rows > 0; rows--, sum++, y += ldy * (type == QKV_BF16 ? 2 : 4)) {
        vf s[2];
        for (int j = 0; j < 2; j++) {
            s[j] = vf_mul(vf_load(*sum + j * VW), scale);
            if (b) s[j] = vf_add(s[j], bias[j]);
            s[j] = act_vector(s[j], act);
            if (type == QKV_F32) vf_store((float *)(void *)y + j * VW, s[j]);
        }
        if (type == QKV_BF16) _mm512_storeu_si512(y, bf16_of(s[0], s[1]));
    }
}
// Does what linear_tail_rows does, if the panel is whole and the tail is one of the frequent ones;
// returns false otherwise.
static bool linear_tail_frequent(char *y, int64_t ldy, const float (*sum)[PANEL], int64_t rows,
                                 const float *b, const struct qkv_linear_tail *tail)
{
    const bool half = tail->y == QKV_BF16, gelu = tail->act == QKV_ACT_GELU;
    const float scale = tail->scale;
    if (tail->residual || tail->before || tail->y == QKV_F16) return false;
    if (!gelu && tail->act != QKV_ACT_NONE) return false;
    if (half && gelu)
        linear_tail_whole(y, ldy, sum, rows, b, scale, QKV_BF16, QKV_ACT_GELU);
    else if (half)
        linear_tail_whole(y, ldy, sum, rows, b, scale, QKV_BF16, QKV_ACT_NONE);
    else if (gelu)
        linear_tail_whole(y, ldy, sum, rows, b, scale, QKV_F32, QKV_ACT_GELU);
    else
        linear_tail_whole(y, ldy, sum, rows, b, scale, QKV_F32, QKV_ACT_NONE);
    return true;
}

// Applies the tail to all rows of the panel that begins at column n of y; row0 is the index in y of
// the first row.
static void linear_tail_rows(char *y, int64_t ldy, const float (*sum)[PANEL], int64_t row0,
                             int64_t rows, int64_t n, int64_t columns,
                             const struct qkv_linear_tail *tail)
{
    const int64_t size = (int64_t)qkv_dtype_size(tail->y);
    if (columns == PANEL && linear_tail_frequent(y + (row0 * ldy + n) * size, ldy, sum, rows,
                                                 tail->b ? tail->b + n : NULL, tail))
        return;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += VW) {
            const int64_t row = row0 + i, c = n + j;
            linear_tail(y + (row * ldy + c) * size, tail->y, sum[i] + j,
                        tail->residual ? tail->residual + row * tail->residual_ld + c : NULL,
                        tail->before ? tail->before + row * tail->before_ld + c : NULL,
                        tail->b ? tail->b + c : NULL, qkv_min64(columns - j, VW), tail);
        }
}

// Multiplies n blocks of the rows' tiles, from block `from` on, by one panel.
TILE_ALWAYS void linear_product(float *to, const struct linear_side *s, const char *panel,
                                int64_t from, int64_t n, int64_t columns, const int parts)
{
    const struct tile_factors f = { .a = s->tiles,
                                    .b = panel + from * parts * 2 * TILE,
                                    .a_row = 64,
                                    .a_block = parts * 2 * TILE,
                                    .a_part = 2 * TILE,
                                    .a_half = TILE };
    tile_product(to, PANEL, &f, n, parts, (struct tile_shape){ s->rows > HALF, columns > HALF });
}

// Adds the products `one` to the sums.
static void linear_add(float (*sum)[PANEL], const float (*one)[PANEL], int64_t rows,
                       int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j += VW)
            vf_store(sum[r] + j, vf_add(vf_load(sum[r] + j), vf_load(one[r] + j)));
}

// Multiplies n blocks of the rows' tiles, from block `from` on, by the panels. If `from` is 0, the
// products are stored in sum[panels][32][32]; otherwise they are added to it.
TILE_ALWAYS void linear_panels(float (*sum)[HIGH][PANEL], const struct linear_side *s,
                               const char *panels, int64_t from, int64_t n, int64_t columns,
                               const int parts)
{
    _Alignas(64) float one[HIGH][PANEL];
    for (int64_t c = 0; c < columns; c += PANEL, sum++, panels += linear_bytes(s->K, parts)) {
        const int64_t wide = qkv_min64(columns - c, PANEL);
        linear_product(from ? one[0] : sum[0][0], s, panels, from, n, wide, parts);
        if (from) linear_add(*sum, (const float(*)[PANEL])one, s->rows, wide);
    }
}

// Where the rows of a call are stored: row0 is the index in y of the first of them.
struct linear_out {
    char *y;
    int64_t ldy, row0;
    const struct qkv_linear_tail *tail;
};
// Asks for the lines of y at which the panel of column n will be stored, from row row0 on: 32 rows
// are too many streams for the core to foresee.
static void linear_expect(const struct linear_out *out, int64_t row0, int64_t n, int64_t rows)
{
    const int64_t size = (int64_t)qkv_dtype_size(out->tail->y), apart = out->ldy * size;
    tile_expect(out->y + (row0 * out->ldy + n) * size, apart, rows, PANEL * size, true);
}

// Multiplies the last n blocks of the rows' tiles, from block `from` on, by the panels, and applies
// the tail to all sums. The first panel begins at column n0 of y.
TILE_ALWAYS void linear_last(float (*sum)[HIGH][PANEL], const struct linear_side *s,
                             const char *panels, int64_t from, int64_t n, int64_t n0,
                             int64_t columns, const struct linear_out *out, const int parts)
{
    _Alignas(64) float one[HIGH][PANEL];
    for (int64_t c = 0; c < columns; c += PANEL, sum++, panels += linear_bytes(s->K, parts)) {
        const int64_t wide = qkv_min64(columns - c, PANEL);
        float(*const all)[PANEL] = from ? *sum : one;
        linear_expect(out, out->row0, n0 + c, s->rows);
        linear_product(*one, s, panels, from, n, wide, parts);
        if (from) linear_add(all, (const float(*)[PANEL])one, s->rows, wide);
        if (parts > 1) linear_again(all, s, panels, wide, parts);
        linear_tail_rows(out->y, out->ldy, (const float(*)[PANEL])all, out->row0, s->rows, n0 + c,
                         wide, out->tail);
    }
}

TILE_ALWAYS void linear_rows_parts(void *y, int64_t ldy, const void *x, int64_t ldx,
                                   const void *packed, int64_t rows, int64_t K, int64_t N,
                                   const struct qkv_linear_tail *tail, const int parts)
{
    _Alignas(64) float sum[TOGETHER][HIGH][PANEL];
    struct linear_side s;
    const int64_t blocks = linear_blocks(K), deep = DEEP / BLOCK / parts;
    int64_t tall = 0;
    for (int64_t r = 0; r < rows; r += HIGH) {
        linear_begin(&s, x, ldx, r, rows, K, tail->x, &tall);
        if (parts > 1) linear_form(&s);
        for (int64_t n = 0; n < N; n += TOGETHER * PANEL) {
            const int64_t columns = qkv_min64(N - n, TOGETHER * PANEL);
            const char *panels = (const char *)packed + n / PANEL * (int64_t)linear_bytes(K, parts);
            const struct linear_out out = { y, ldy, r, tail };
            int64_t b = 0;
            for (; blocks - b > deep; b += deep) {
                linear_fill(&s, b, deep, parts);
                linear_panels(sum, &s, panels, b, deep, columns, parts);
            }
            if (n == 0 || blocks > deep) linear_fill(&s, b, blocks - b, parts);
            linear_last(sum, &s, panels, b, blocks - b, n, columns, &out, parts);
        }
    }
    TILE_RELEASE();
}

// Defines the kernels and the table of one variant. The arguments are its name, the number of
// parts, the name of the method, the body of the kernel `rows` and its member `together`.
#define AMX_LINEAR(NAME, PARTS, WORDS, ROWS, ONCE)                                                 \
    static size_t NAME##_bytes(int64_t K)                                                          \
    {                                                                                              \
        return linear_bytes(K, PARTS);                                                             \
    }                                                                                              \
    static void NAME##_pack(void *panels, const void *w, qkv_dtype type, int64_t K, int64_t N,     \
                            int64_t ldn, int64_t ldk)                                              \
    {                                                                                              \
        linear_pack_parts(panels, w, type, K, N, ldn, ldk, PARTS);                                 \
    }                                                                                              \
    static void NAME##_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels,  \
                            int64_t rows, int64_t K, int64_t N,                                    \
                            const struct qkv_linear_tail *tail)                                    \
    {                                                                                              \
        ROWS(y, ldy, x, ldx, panels, rows, K, N, tail, PARTS);                                     \
    }                                                                                              \
    static const struct qkv_linear_kernel NAME = { ISA_NAME,    WORDS,       PANEL, NAME##_bytes,  \
                                                   NAME##_pack, NAME##_rows, ONCE }
AMX_LINEAR(linear_bf16, 1, "bf16 tiles", linear_rows_parts, 0);
AMX_LINEAR(linear_three, 2, "three bf16 products", linear_rows_parts, 0);
