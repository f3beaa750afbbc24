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

// Multiplies the rows' tiles by a chunk of one panel. If add is true, the products are added to
// sum[32][32]; otherwise they overwrite it.
static void whole_panel(float (*sum)[PANEL], const struct linear_side *s, const char *b,
                        int64_t blocks, int64_t columns, bool add)
{
    _Alignas(64) int32_t one[HIGH][PANEL];
    const struct tile_factors f = {
        .a = s->tiles, .b = b, .a_row = 64, .a_block = 2 * TILE, .a_half = TILE
    };
    const struct tile_shape shape = { s->rows > HALF, columns > HALF };
    tile_product(one, PANEL, &f, blocks, WHOLE, shape);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t j = 0; j < columns; j += VW) {
            const vf x = _mm512_cvtepi32_ps(_mm512_load_si512(one[r] + j));
            vf_store(sum[r] + j, add ? vf_add(vf_load(sum[r] + j), x) : x);
        }
}

static void whole_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *packed,
                       int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)
{
    _Alignas(64) float sum[TOGETHER][HIGH][PANEL];
    struct linear_side s;
    float scale[HIGH], inverse[HIGH];
    int64_t tall = 0;
    for (int64_t r = 0; r < rows; r += HIGH) {
        linear_begin(&s, x, ldx, r, rows, K, tail->x, &tall);
        whole_scales(scale, inverse, &s);
        for (int64_t n = 0; n < N; n += TOGETHER * PANEL) {
            const int64_t columns = qkv_min64(N - n, TOGETHER * PANEL);
            const char *panels = (const char *)packed + n / PANEL * (int64_t)whole_bytes(K);
            int64_t k = 0;
            do {
                const int64_t deep = qkv_min64(K - k, QKV_LINEAR_INT8_CHUNK);
                if (n == 0 || K > QKV_LINEAR_INT8_CHUNK) whole_fill(&s, inverse, k, deep);
                for (int64_t c = 0; c < columns; c += PANEL)
                    whole_panel(sum[c / PANEL], &s,
                                panels + c / PANEL * (int64_t)whole_bytes(K) +
                                    PANEL * sizeof(float) + k / BYTES * 2 * TILE,
                                (deep + BYTES - 1) / BYTES, qkv_min64(columns - c, PANEL), k > 0);
                k += deep;
            } while (k < K);
            for (int64_t c = 0; c < columns; c += PANEL, panels += whole_bytes(K)) {
                float(*const one)[PANEL] = sum[c / PANEL];
                const float *scales = (const void *)panels;
                for (int64_t i = 0; i < s.rows; i++)
                    for (int64_t j = 0; j < PANEL && c + j < columns; j += VW)
                        vf_store(one[i] + j,
                                 vf_scaled_sum(vf_load(one[i] + j),
                                               vf_mul(vf_set1(scale[i]), vf_load(scales + j))));
                linear_tail_rows(y, ldy, (const float(*)[PANEL])one, r, s.rows, n + c,
                                 qkv_min64(columns - c, PANEL), tail);
            }
        }
    }
    TILE_RELEASE();
}

static const struct qkv_linear_kernel linear_whole = { ISA_NAME,    "int8 tiles", PANEL,
                                                       whole_bytes, whole_pack,   whole_rows };
