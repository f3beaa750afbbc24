// SPDX-License-Identifier: MIT
// attention_back_pairs.h: defines the attention backward pass on bf16 with the instruction
// vdpbf16ps. Requires attention_pairs.h.
//
// W and X are rounded to bf16; sums are floats. add_transposed sums over rows: its operand consists
// of pairs of adjacent rows. add_product sums over columns: its operand consists of rows of pairs
// of adjacent columns.
enum { BACK_GROUP = 2 };
typedef bf16_pair back_number;
typedef __m512i back_vector;
#define back_load load_pairs
INLINE __m512i back_all(bf16_pair x)
{
    return _mm512_set1_epi32((int32_t)x);
}
INLINE vf back_madd(vf sum, __m512i a, __m512i b)
{
    return _mm512_dpbf16_ps(sum, as_pairs(a), as_pairs(b));
}

#include "kernel/body/attention_back/attention_back_bf16.h"
#include "kernel/body/attention_back/attention_back_tiles.h"
#include "kernel/body/attention_back/attention_back.h"

// An operand contains its numbers twice, as pairs of bf16: first [BACK_ROWS / 2][QKV_CHUNK] pairs
// of adjacent rows, for add_transposed; then [BACK_ROWS][QKV_CHUNK / 2] pairs of adjacent columns,
// for add_product.
enum { BACK_OPERAND = BACK_ROWS / 2 * QKV_CHUNK };
static struct back_operands back_operands_of(const void *operand)
{
    const bf16_pair *x = operand;
    return (struct back_operands){ x, x + BACK_OPERAND, QKV_CHUNK, QKV_CHUNK / 2 };
}

// Interleaves two rows: lane j of the result is the pair (a[j], b[j]).
INLINE __m512i pairs_of_rows(vf a, vf b)
{
    static const uint16_t order[] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
    };
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), (__m512i)_mm512_cvtne2ps_pbh(b, a));
}
// Stores adjacent elements of a as bf16 pairs, in the low half of a vector.
INLINE void store_columns(bf16_pair *to, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh(a));
}

static void back_pack(void *to, const real *x, int rows, const struct qkv_columns *spans, int n)
{
    bf16_pair *const transposed = to, *const straight = transposed + BACK_OPERAND;
    for (int i = 0; i < rows; i += 2, x += 2 * QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
                const vf a = vf_load(x + j);
                const vf b = i + 1 < rows ? vf_load(x + QKV_CHUNK + j) : vf_zero();
                _mm512_storeu_si512(transposed + i / 2 * QKV_CHUNK + j, pairs_of_rows(a, b));
                store_columns(straight + (i * QKV_CHUNK + j) / 2, a);
                if (i + 1 < rows) store_columns(straight + ((i + 1) * QKV_CHUNK + j) / 2, b);
            }
}

static real back_pair_probability(const void *operand, int i, int32_t j)
{
    uint16_t half;
    memcpy(&half,
           (const char *)operand + BACK_OPERAND * sizeof(bf16_pair) +
               (i * QKV_CHUNK + j) * (int64_t)sizeof half,
           sizeof half);
    return qkv_bf16_to_f32(half);
}

// One row of a tile, which sees columns lo .. hi-1, or all columns if `whole`. back_seen_columns
// computes P and dS of its columns j .. j+VW-1; both are 0 in columns that the row does not see.
struct back_seen {
    struct back_row r;
    int32_t lo, hi;
    bool whole;
};
INLINE void back_seen_columns(vf *probability, vf *slope, const struct back_seen *x, vf s, vf dp,
                              int32_t j)
{
    *probability = back_probability(&x->r, s);
    *slope = back_slope(&x->r, s, *probability, dp);
    if (!x->whole) {
        const vm seen = vm_range(x->lo - j, x->hi - j);
        *probability = vf_select(seen, *probability, vf_zero());
        *slope = vf_select(seen, *slope, vf_zero());
    }
}
static struct back_seen back_seen_row(const struct qkv_back_tile *t, const struct back_part *p,
                                      int i)
{
    const int row = p->first + i;
    // a row past the last row of the tile sees no column
    if (i >= p->rows) return (struct back_seen){ .r = back_row_of(0, 0, 0, 0) };
    return (struct back_seen){ back_row_of(t->c, t->base[row], t->rest[row], t->d[row]),
                               p->see.lo[i], p->see.hi[i], p->whole };
}

static void back_plain_forms(struct back_operands *w, struct back_operands *x,
                             const struct qkv_back_tile *t, const struct back_part *p)
{
    const int32_t columns = p->c.to - p->c.from;
    bf16_pair *const probability = t->w_operand, *const transposed = t->x_operand,
                     *const straight = transposed + BACK_OPERAND;
    for (int i = 0; i < p->rows; i += 2) {
        const struct back_seen a = back_seen_row(t, p, i), b = back_seen_row(t, p, i + 1);
        const real *const s = t->s + i * BACK_TILE, *const ds = t->ds + i * BACK_TILE;
        // if the number of rows is odd, the last row is loaded twice
        const int next = i + 1 < p->rows ? BACK_TILE : 0;
        for (int32_t j = 0; j < columns; j += VW) {
            vf wa, wb, xa, xb;
            back_seen_columns(&wa, &xa, &a, vf_load(s + j), vf_load(ds + j), j);
            back_seen_columns(&wb, &xb, &b, vf_load(s + next + j), vf_load(ds + next + j), j);
            _mm512_storeu_si512(probability + i / 2 * BACK_TILE + j, pairs_of_rows(wa, wb));
            _mm512_storeu_si512(transposed + i / 2 * BACK_TILE + j, pairs_of_rows(xa, xb));
            store_columns(straight + (i * BACK_TILE + j) / 2, xa);
            store_columns(straight + ((i + 1) * BACK_TILE + j) / 2, xb);
        }
    }
    *w = (struct back_operands){ probability, NULL, BACK_TILE, 0 };
    *x = (struct back_operands){ transposed, straight, BACK_TILE, BACK_TILE / 2 };
}

// ---- packing -----------------------------------------------------------------------------------
static void back_rows_pairs(void *packed, const void *const *x, int rows, int64_t W)
{
    const size_t each = pair_bytes(W);
    for (int i = 0; i < rows; i++) pack_query_pairs((char *)packed + (size_t)i * each, x[i], W);
}

static void back_keys_pairs(void *packed, const void *const *x, int at, int n, int64_t W)
{
    const int64_t deep = pairs_of(W);
    for (int j = 0; j < n; j += VW) {
        bf16_pair *panel = (bf16_pair *)packed + (at + j) / WIDE * WIDE * deep + (at + j) % WIDE;
        pack_lanes(panel, 0xffff, x + j, (int)qkv_min64(VW, n - j), W);
    }
}

static bool back_right_pairs(void *packed, const void *const *x, int at, int n, int64_t W)
{
    const int64_t ld = width(W);
    const int end = (at + n + VW - 1) / VW * VW;
    bf16_pair *to = (bf16_pair *)packed + at / 2 * ld; // exact division: `at` is a multiple of keys
    bool finite = true;
    for (int i = 0; i < end - at; i += 2, to += ld)
        for (int64_t f = 0; f < ld; f += 2 * VW) {
            const uint16_t *a = i < n ? (const uint16_t *)x[i] + f : NULL;
            const uint16_t *b = i + 1 < n ? (const uint16_t *)x[i + 1] + f : NULL;
            if (!pack_two(to + f, 0xffffffffu, a, b, qkv_min64(2 * VW, W - f))) finite = false;
        }
    return finite;
}

static const struct qkv_attention_back_kernels attention_back_pairs = {
    BACK_STEPS("bf16 pairs"),
    .native = true,
    .type = QKV_BF16,
    .row_bytes = pair_bytes,
    .key_bytes = pair_bytes,
    .right_bytes = pair_value_bytes,
    .pack_rows = back_rows_pairs,
    .pack_keys = back_keys_pairs,
    .pack_right = back_right_pairs,
    .operand_bytes = 2 * BACK_OPERAND * sizeof(bf16_pair),
    .pack_operand = back_pack,
    .probability = back_pair_probability,
    .dot = back_dot_bf16,
    .store = back_store_bf16,
};
