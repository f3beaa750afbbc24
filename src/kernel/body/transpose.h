// SPDX-License-Identifier: MIT
// transpose.h: transposes rows to columns, from one type to another, with the vector functions.
// Requires typed.h.
//
// 16-bit numbers are transposed in pairs of rows, which form one 32-bit lane: 2 VW rows at a time.

// Returns the rows that begin at elements `at` and at + ld, interleaved element by element, as
// 16-bit numbers of type `to`; if the second row does not exist, its elements are 0.
static inline vf transpose_pair(qkv_dtype to, const void *x, qkv_dtype type, int64_t at, int64_t ld,
                                int64_t rows, int64_t n)
{
    uint16_t a[VW], b[VW];
    if (to == type && rows > 1 && n >= VW)
        return vf_pair_halves((const uint16_t *)x + at, (const uint16_t *)x + at + ld);
    const vf low = typed_load(x, type, at, n);
    const vf high = rows > 1 ? typed_load(x, type, at + ld, n) : vf_zero();
    if (to == QKV_F16) {
        vf_store_f16(a, low);
        vf_store_f16(b, high);
    } else {
        TYPED_STORE_BF16(a, low);
        TYPED_STORE_BF16(b, high);
    }
    return vf_pair_halves(a, b);
}

static void transpose_halves(uint16_t *to, qkv_dtype to_type, int64_t ldto, const void *x,
                             qkv_dtype type, int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r += 2 * VW) {
        const int64_t deep = qkv_min64(rows - r, 2 * VW);
        for (int64_t i = 0; i < n; i += VW) {
            vf t[VW];
            for (int64_t k = 0; k < VW; k++)
                t[k] = 2 * k < deep ? transpose_pair(to_type, x, type, (r + 2 * k) * ld + i, ld,
                                                     deep - 2 * k, n - i)
                                    : vf_zero();
            vf_transpose(t);
            for (int64_t k = 0; k < VW && i + k < n; k++) {
                uint16_t *row = to + (i + k) * ldto + r;
                if (deep == 2 * VW)
                    vf_store((float *)(void *)row, t[k]);
                else
                    memcpy(row, &t[k], (size_t)deep * sizeof *row);
            }
        }
    }
}

static void transpose(void *to, qkv_dtype to_type, int64_t ldto, const void *x, qkv_dtype type,
                      int64_t ld, int64_t rows, int64_t n)
{
    if (to_type != QKV_F32) {
        transpose_halves(to, to_type, ldto, x, type, ld, rows, n);
        return;
    }
    for (int64_t r = 0; r < rows; r += VW)
        for (int64_t i = 0; i < n; i += VW) {
            vf t[VW];
            typed_block(t, x, type, r * ld + i, ld, rows - r, n - i);
            vf_transpose(t);
            for (int64_t k = 0; k < VW && i + k < n; k++)
                typed_store(to, QKV_F32, (i + k) * ldto + r, t[k], rows - r);
        }
}
