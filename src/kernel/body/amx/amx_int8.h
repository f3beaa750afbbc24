// SPDX-License-Identifier: MIT
// amx_int8.h: computes y = tail(x w^T) with AMX tiles of 8-bit integers. Requires amx_linear.h;
// quantise.h defines the scales. With t_n the scale of column n and s_r the scale of row r:
//
//   w_nk = t_n W_nk,  x_rk = s_r X_rk,  where W and X are integers in -127 .. 127,
//   y_rn = (s_r t_n) sum_k X_rk W_nk
//
// A panel contains the scales of its 32 columns, then one tile for each block of 64 along k and
// each half of the columns. The sums of a chunk are integers and exact, so every other instruction
// set gives the same bits.

#include "kernel/body/linear/quantise.h"

enum { BYTES = 64, WHOLE_BLOCKS = QKV_LINEAR_INT8_CHUNK / BYTES };
_Static_assert(QKV_LINEAR_INT8_CHUNK == 2 * DEEP, "tiles of a chunk fill linear_side");

static size_t whole_bytes(int64_t K)
{
    return PANEL * sizeof(float) + (size_t)((K + BYTES - 1) / BYTES) * 2 * TILE;
}

static void whole_pack(void *packed, const void *given, qkv_dtype type, int64_t K, int64_t N,
                       int64_t ldn, int64_t ldk)
{
    const real *w = given;
    (void)type;
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += whole_bytes(K)) {
        memset(panel, 0, whole_bytes(K));
        for (int64_t n = 0; n < PANEL && n0 + n < N; n++) {
            const real *column = w + (n0 + n) * ldn;
            int8_t *to = (int8_t *)panel + PANEL * sizeof(float) + n / HALF * TILE + n % HALF * 4;
            float inverse;
            ((float *)(void *)panel)[n] = int8_scale(int8_highest_of(column, K, ldk), &inverse);
            for (int64_t k = 0; k < K && inverse > 0; k++)
                to[k / BYTES * 2 * TILE + k % BYTES / 4 * 64 + k % 4] =
                    (int8_t)lrintf(column[k * ldk] * inverse);
        }
    }
}

// Quantises numbers from .. from+n-1 of all rows and stores them in tiles: [block][half][16
// rows][64 bytes], where a block is 64 numbers of each row and a half 16 of the up to 32 rows;
// numbers past n are 0.
static void whole_fill(struct linear_side *s, const float *inverse, int64_t from, int64_t n)
{
    for (int64_t r = 0; r < s->rows; r++) {
        char *to = s->tiles + r / HALF * TILE + r % HALF * 64;
        const vf by = vf_set1(inverse[r]);
        for (int64_t k = 0; k < n; k += BYTES, to += 2 * TILE)
            for (int64_t half = 0; half < BYTES; half += BLOCK) {
                vf x[2] = { vf_zero(), vf_zero() };
                if (inverse[r] > 0 && k + half < n)
                    linear_numbers(&x[0], &x[1], s->x + r * s->apart, s->type, from + k + half,
                                   s->K);
                for (int i = 0; i < 2; i++)
                    _mm_storeu_si128((__m128i *)(void *)(to + half + i * VW),
                                     _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(vf_mul(x[i], by))));
            }
    }
}

// Computes the scale of each row, and the factor by which numbers are multiplied before rounding.
static void whole_scales(float *scale, float *inverse, const struct linear_side *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        const uint32_t bits = linear_row_largest(s, r);
        float highest;
        memcpy(&highest, &bits, sizeof highest);
        scale[r] = int8_scale(highest, &inverse[r]);
    }
}

// Multiplies the rows' tiles by a chunk of one panel.
static void whole_product(int32_t (*to)[PANEL], const struct linear_side *s, const char *b,
                          int64_t blocks, int64_t columns)
{
    const struct tile_factors f = {
        .a = s->tiles, .b = b, .a_row = 64, .a_block = 2 * TILE, .a_half = TILE
    };
    tile_product(to, PANEL, &f, blocks, WHOLE,
                 (struct tile_shape){ s->rows > HALF, columns > HALF });
}

// Converts the products `one` to floats. If add is true, they are added to the sums; otherwise they
// overwrite them.
static void whole_floats(float (*sum)[PANEL], const int32_t (*one)[PANEL], int64_t rows,
                         int64_t columns, bool add)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j += VW) {
            const vf x = _mm512_cvtepi32_ps(_mm512_load_si512(one[r] + j));
            vf_store(sum[r] + j, add ? vf_add(vf_load(sum[r] + j), x) : x);
        }
}

// Multiplies the rows' tiles by the last chunk of the panels, of `blocks` blocks from number k on,
// and applies the tail and the scales of columns and rows, `scale` being that of each row.
// The first panel begins at column n0 of y.
static void whole_last(float (*sum)[HIGH][PANEL], const struct linear_side *s, const char *panels,
                       int64_t k, int64_t blocks, int64_t n0, int64_t columns, const float *scale,
                       const struct linear_out *out)
{
    _Alignas(64) int32_t one[HIGH][PANEL];
    _Alignas(64) float own[HIGH][PANEL];
    for (int64_t c = 0; c < columns; c += PANEL, sum++, panels += whole_bytes(s->K)) {
        const int64_t wide = qkv_min64(columns - c, PANEL);
        const float *const columns_scale = (const void *)panels;
        float(*const all)[PANEL] = k > 0 ? *sum : own;
        linear_expect(out, out->row0, n0 + c, s->rows);
        whole_product(one, s, panels + PANEL * sizeof(float) + k / BYTES * 2 * TILE, blocks, wide);
        whole_floats(all, (const int32_t(*)[PANEL])one, s->rows, wide, k > 0);
        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t j = 0; j < wide; j += VW) {
                float *const at = all[i] + j;
                vf_store(at, vf_scaled_sum(vf_load(at),
                                           vf_mul(vf_set1(scale[i]), vf_load(columns_scale + j))));
            }
        linear_tail_rows(out->y, out->ldy, (const float(*)[PANEL])all, out->row0, s->rows, n0 + c,
                         wide, out->tail);
    }
}

static void whole_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *packed,
                       int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)
{
    _Alignas(64) float sum[TOGETHER][HIGH][PANEL];
    _Alignas(64) int32_t one[HIGH][PANEL];
    struct linear_side s;
    float scale[HIGH], inverse[HIGH];
    int64_t tall = 0;
    const int64_t chunk = QKV_LINEAR_INT8_CHUNK;
    for (int64_t r = 0; r < rows; r += HIGH) {
        linear_begin(&s, x, ldx, r, rows, K, tail->x, &tall);
        whole_scales(scale, inverse, &s);
        for (int64_t n = 0; n < N; n += TOGETHER * PANEL) {
            const int64_t columns = qkv_min64(N - n, TOGETHER * PANEL);
            const char *panels = (const char *)packed + n / PANEL * (int64_t)whole_bytes(K);
            const struct linear_out out = { y, ldy, r, tail };
            int64_t k = 0;
            for (; K - k > chunk; k += chunk) {
                whole_fill(&s, inverse, k, chunk);
                for (int64_t c = 0; c < columns; c += PANEL) {
                    const int64_t wide = qkv_min64(columns - c, PANEL);
                    whole_product(one, &s,
                                  panels + c / PANEL * (int64_t)whole_bytes(K) +
                                      PANEL * sizeof(float) + k / BYTES * 2 * TILE,
                                  chunk / BYTES, wide);
                    whole_floats(sum[c / PANEL], (const int32_t(*)[PANEL])one, s.rows, wide, k > 0);
                }
            }
            if (n == 0 || K > chunk) whole_fill(&s, inverse, k, K - k);
            whole_last(sum, &s, panels, k, (K - k + BYTES - 1) / BYTES, n, columns, scale, &out);
        }
    }
    TILE_RELEASE();
}

static const struct qkv_linear_kernel linear_whole = { ISA_NAME,   "int8 tiles", PANEL, whole_bytes,
                                                       whole_pack, whole_rows,   0 };
