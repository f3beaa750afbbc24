// SPDX-License-Identifier: MIT
// attention_back_packs.h: packs rows of type STORED as the floats that the backward pass
// multiplies, and converts results back. The file is a template, included once for each type.
//
// Left operands are packed row by row. Keys are packed in panels of WIDE keys: for each element of
// the head, the panel has a row with this element of its WIDE keys. Right operands of products are
// packed row by row, each row padded to width(W).

static void NAME(back_rows)(void *packed, const void *const *x, int rows, int64_t W)
{
    real *to = packed;
    for (int i = 0; i < rows; i++) NAME(pack_query)(to + i * W, x[i], W);
}

static void NAME(back_keys)(void *packed, const void *const *x, int at, int n, int64_t W)
{
    real *to = packed;
    for (int j = 0; j < n; j += VW) {
        real *panel = to + (at + j) / WIDE * WIDE * W + (at + j) % WIDE;
        for (int64_t e = 0; e < W; e += VW) {
            const int64_t columns = qkv_min64(VW, W - e);
            vf r[VW];
            for (int i = 0; i < VW; i++) {
                const ELEMENT *row = j + i < n ? (const ELEMENT *)x[j + i] + e : NULL;
                r[i] = !row           ? vf_zero()
                       : columns < VW ? NAME_N(vf_load)(row, columns)
                                      : NAME(vf_load)(row);
            }
            vf_transpose(r);
            for (int i = 0; i < columns; i++) vf_store(panel + (e + i) * WIDE, r[i]);
        }
    }
}

static bool NAME(back_right)(void *packed, const void *const *x, int at, int n, int64_t W)
{
    const int64_t ld = width(W);
    const int end = (at + n + VW - 1) / VW * VW;
    real *to = (real *)packed + at * ld;
    bool finite = true;
    for (int i = 0; i < n; i++, to += ld)
        for (int64_t f = 0; f < ld; f += VW) {
            const ELEMENT *from = (const ELEMENT *)x[i] + f;
            const vf y = W - f < VW ? NAME_N(vf_load)(from, W - f) : NAME(vf_load)(from);
            const vm fine = vm_finite(y);
            if (!vm_full(fine)) finite = false;
            vf_store(to + f, vf_select(fine, y, vf_zero()));
        }
    for (int i = at + n; i < end; i++, to += ld)
        for (int64_t f = 0; f < ld; f += VW) vf_store(to + f, vf_zero());
    return finite;
}

static void NAME(back_store)(void *to, const real *x, real times, int64_t n)
{
    ELEMENT *y = to;
    const vf by = vf_set1(times);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) NAME(vf_store)(y + i, vf_mul(by, vf_load(x + i)));
    if (i < n) NAME_N(vf_store)(y + i, vf_mul(by, vf_load_n(x + i, n - i)), n - i);
}
