// SPDX-License-Identifier: MIT
// attention_back_kernels.h: declares the kernels of the backward pass of attention. kernel.h
// includes it.
//
// E is the width of a query and a key, F the width of a value. A tile is at most `rows` queries by
// the keys of one chunk (at most QKV_CHUNK). Rows of its matrices are QKV_CHUNK elements apart;
// columns are counted from the first key of the chunk. A row sees a column if neither causal
// nor window nor lengths hide that key from the query. Let W be the factors of the values (P, or P
// after dropout and its scaling), gain the derivative of the softcap, and d = sum_f dout[f] out[f]:
//
//   s = q . k         P = 2^(c score - base)       dP = dout . v
//   W = drop(P)       dS = P (drop(dP) - d)        X = gain dS
//   dv += W^T dout    dk += X^T q                  dq += X k
//
// Steps of one tile, in this order: scores (q by keys), scores (dout by values), cap, modify,
// softmax_grad, the sums of dS for the gradients of bias tables, gain, pack_operand, add_transposed
// (dv), add_transposed (dk), add_product (dq). If the scores have only a scale, `fused` runs all
// steps at once. body/scalar/scalar_attention_back.h is the law of these kernels.
#ifndef QKV_KERNEL_ATTENTION_BACK_KERNELS_H
#define QKV_KERNEL_ATTENTION_BACK_KERNELS_H

enum { QKV_BACK_ROWS_MAX = 128 };

// The parameters of the kernel softmax_grad for one row.
struct qkv_softmax_grad {
    real c; // scale of the exponent: e^score = 2^(c s)
    // base + rest = log2(e) lse, where lse is the log-sum-exp of the row's scores and rest the
    // rounding error of base; a kernel table whose powers of 2 have larger errors than rest may
    // ignore it
    real base, rest;
    real d;               // d of the row: sum_f dout[f] out[f]
    const uint32_t *word; // dropout: column j is dropped where word[j] < less; NULL: no dropout
    uint32_t less;
    real times; // factor of weights that are not dropped: 1 / (1 - p)
};

// The arguments of the kernel `fused`: one tile whose scores are only scaled (no bias, mask or
// softcap). Row i sees columns lo[i] .. hi[i]-1.
struct qkv_back_tile {
    int rows;
    int64_t E, F;
    struct qkv_columns span; // columns that any row sees; both bounds are multiples of lanes
    // [rows] row i sees columns lo[i] .. hi[i]-1; if lo[i] >= hi[i], it sees no column
    const int32_t *lo, *hi;
    real c;
    const real *base, *rest,
        *d;               // base, rest and d of each row, [rows], as in struct qkv_softmax_grad
    const void *q, *dout; // rows of q and dout, packed by pack_rows
    // right operands of the products, packed by pack_right
    const void *q_right, *dout_right, *k_right;
    const void *k, *v; // keys and values, packed by pack_keys
    real *dq;          // gradient of q, [rows][width(E)], accumulated
    // gradients of k and v, [QKV_CHUNK][width(E)] and [QKV_CHUNK][width(F)], accumulated; row j of
    // these belongs to column j of the tile
    real *dk, *dv;
    real *s, *ds;                // workspace for scores and dS, [rows][QKV_CHUNK] each
    void *w_operand, *x_operand; // workspace for the converted W and X, operand_bytes each
};

// The backward kernels of one precision; as in struct qkv_attention_kernels, they form a kernel
// table with its own packed layouts. The score, P and dS of a row and a column have the same bits
// in every tile, every span (range of columns) and every position in the chunk. Sums over rows and
// columns run in ascending order; how their terms are grouped is the kernel table's choice and
// depends only on `rows`, the spans and the width.
struct qkv_attention_back_kernels {
    const char *isa, *arithmetic;
    bool native;
    qkv_dtype type; // type of q, k, v, out, dout, dq, dk and dv
    int rows;       // most rows of a tile, at most QKV_BACK_ROWS_MAX
    int keys;       // number of keys in one panel of packed keys; a divisor of QKV_CHUNK
    int lanes;      // the bounds of spans of `scores` are multiples of lanes; a divisor of keys

    // row_bytes, key_bytes and right_bytes return the bytes of one packed row, of one packed key,
    // and of one row of a right operand; the width W is E or F. The caller allocates space for n
    // rows of pack_rows rounded up to `rows`, and for n keys or right operands rounded up to the
    // larger of `rows` and `keys`. Each packed array begins at a multiple of 64 bytes.
    size_t (*row_bytes)(int64_t W);
    size_t (*key_bytes)(int64_t W);
    size_t (*right_bytes)(int64_t W);
    // Returns the number of reals allocated for a row of sums (dq, dk, dv): W rounded up. Rows of
    // sums begin at multiples of 64 bytes when this many reals are a multiple of 64 bytes.
    int64_t (*width)(int64_t W);

    // Packs the left operand of `scores`: the rows of q or of dout. x[i] points to row i.
    void (*pack_rows)(void *to, const void *const *x, int rows, int64_t W);
    // Packs the right operand of `scores`: keys or values. x[j] points to key or value number at +
    // j; `at` is a multiple of `keys`. Entries after the last one, up to a multiple of lanes,
    // become 0.
    void (*pack_keys)(void *to, const void *const *x, int at, int n, int64_t W);
    // Packs a right operand: q or dout for add_transposed (with at = 0 and the n rows of the tile),
    // or k for add_product. Nonfinite numbers become 0, and so do the entries after the last one,
    // up to a multiple of lanes. Returns true if all numbers were finite.
    bool (*pack_right)(void *to, const void *const *x, int at, int n, int64_t W);

    // Computes dot products s[i][j] = rows[i] . keys[j] for the columns of span; the W products of
    // a dot product are added in the same order in every tile. For q and k, callers prefer the
    // kernel `scores` of struct qkv_attention_kernels, because the forward pass computed the
    // log-sum-exp of the row from its results.
    void (*scores)(real *s, const void *rows, int n, const void *keys, int64_t W,
                   struct qkv_columns span);
    // Applies the softcap to columns lo .. hi-1 of one row: s = cap tanh(scale s / cap), gain = 1 -
    // (s / cap)^2.
    void (*cap)(real *s, real *gain, int32_t lo, int32_t hi, real scale, real cap);
    // Applies bias, mask and distance penalty to one row of scores. The contract is that of the
    // kernel `modify` of struct qkv_attention_kernels.
    void (*modify)(real *s, int32_t lo, int32_t hi, const struct qkv_score_modifiers *how);
    // Computes W (the factors of the values) and dS (the gradient of the scores) of one row, in the
    // columns of the spans: replaces the score in s by W, and dP in ds by dS. Outside lo .. hi-1,
    // and where the score is -INFINITY, W and dS become 0, whatever ds contained.
    void (*softmax_grad)(real *s, real *ds, const struct qkv_columns *spans, int n, int32_t lo,
                         int32_t hi, const struct qkv_softmax_grad *how);
    // Multiplies columns lo .. hi-1 of dS of one row by the derivative of the softcap: ds = gain
    // ds; a ds of 0 remains 0 even if gain is nonfinite.
    void (*gain)(real *ds, const real *gain, int32_t lo, int32_t hi);

    // pack_operand converts the matrix W or X to an operand of operand_bytes bytes, which
    // add_transposed and add_product read. If operand_bytes is 0, these two kernels read the matrix
    // of real itself, and pack_operand is NULL.
    size_t operand_bytes;
    void (*pack_operand)(void *to, const real *x, int rows, const struct qkv_columns *spans, int n);
    // Adds products along the columns of the operand, the matrix x: sum[j] += sum_i x[i][j]
    // right[i] for the columns j of the spans. Rows of sum are width(W) elements apart. The bounds
    // of spans are multiples of lanes, as in `scores`; this applies to add_product too.
    void (*add_transposed)(real *sum, const void *operand, int rows, const void *right, int64_t W,
                           const struct qkv_columns *spans, int n);
    // Adds products along the rows of the operand, the matrix x: sum[i] += sum_j x[i][j] right[j]
    // over the columns j of the spans.
    void (*add_product)(real *sum, const void *operand, int rows, const void *right, int64_t W,
                        const struct qkv_columns *spans, int n);
    // Returns element [i][j] of the matrix in an operand, with the value that add_transposed and
    // add_product use. If probability is NULL, the element is the real number in the array.
    real (*probability)(const void *operand, int i, int32_t j);
    // Runs all steps of a tile at once, if its scores are only scaled (no bias, mask or softcap).
    // The results have the same bits as with the single steps. fused is NULL if the kernel table
    // has only the single steps.
    void (*fused)(const struct qkv_back_tile *t);

    // Returns sum_f dout[f] out[f]. Elements with out[f] = 0 are skipped, so dout[f] may be
    // nonfinite.
    real (*dot)(const void *dout, const void *out, int64_t F);
    // Stores to[n] = times x[n], converted to the type of the arrays.
    void (*store)(void *to, const real *x, real times, int64_t n);

    // Three kernels on rows of real, for the gradients of bias tables. add computes y[n] += x[n];
    // total returns the sum of x[n]; moment returns the sum of x[j] |distance - j| over the columns
    // j = lo .. hi-1.
    void (*add)(real *y, const real *x, int64_t n);
    real (*total)(const real *x, int64_t n);
    real (*moment)(const real *x, int32_t lo, int32_t hi, int64_t distance);
};
#endif
