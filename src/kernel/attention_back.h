// SPDX-License-Identifier: MIT
// attention_back.h: what the backward of attention asks of a CPU.  Part of the door kernel.h.
//
// A tile is `rows` queries at most by the keys of one chunk (QKV_CHUNK at most); rows of its
// matrices are QKV_CHUNK apart, columns counted from the chunk's first key.  With W what multiplied
// the values (P, or P dropped and scaled) and gain the slope of the softcap:
//
//   s = q . k         P = 2^(c score - base)       dP = dout . v
//   W = drop(P)       dS = P (drop(dP) - d)        X = gain dS
//   dv += W^T dout    dk += X^T q                  dq += X k
//
// Steps of one tile, in this order: scores (q by keys), scores (dout by values), cap, shape, grade,
// what tables want of dS, gain, form, across, across, along.  Where nothing but a scale shapes the
// scores, `fused` is all of them at once.  The law: body/scalar/scalar_attention_back.h.
#ifndef QKV_KERNEL_ATTENTION_BACK_H
#define QKV_KERNEL_ATTENTION_BACK_H

enum { QKV_BACK_ROWS_MAX = 128 };

// What grade makes of one row.
struct qkv_grading {
    real c;          // e^score = 2^(c s)
    real base, rest; // log2(e) lse = base + rest: rest is what rounding took off base; a family
                     // whose powers are coarser than that may leave it out
    real d;          // sum_f dout out
    const uint32_t *word; // dropout: column j is dropped where word[j] < less; NULL: none
    uint32_t less;
    real times; // 1 / (1 - p) for what is not dropped
};

// A tile whose rows see columns lo[i] .. hi[i]-1, and nothing else happens to scores.
struct qkv_back_tile {
    int rows;
    int64_t E, F;
    struct qkv_columns span; // of all rows, from and to multiples of lanes
    const int32_t *lo, *hi;  // [rows]; lo >= hi: sees nothing
    real c;
    const real *base, *rest, *d;                // [rows] as in qkv_grading
    const void *q, *dout;                       // packed by pack_rows
    const void *q_right, *dout_right, *k_right; // packed by pack_right
    const void *k, *v;                          // packed by pack_keys
    real *dq;                                   // [rows][width(E)] +=
    real *dk, *dv;         // [QKV_CHUNK][width(E)], [QKV_CHUNK][width(F)] +=, row j is column j
    real *s, *ds;          // [rows][QKV_CHUNK], for its own use
    void *w_form, *x_form; // form_bytes each, for its own use
};

// One family a precision, as in struct qkv_attention_kernels: layouts are its own.
// Of one pair of a row and a column every result is the same whatever tile, span and chunk position
// it is computed in; sums over rows and columns go upwards in an order that is the family's own and
// hangs on nothing but `rows`, the spans, W.
struct qkv_attention_back_kernels {
    const char *isa, *arithmetic;
    bool native;
    qkv_dtype type; // of q, k, v, out, dout, dq, dk, dv
    int rows;       // of a tile, QKV_BACK_ROWS_MAX at most
    int keys;       // packed keys come in panels of so many; a divisor of QKV_CHUNK
    int lanes;      // spans of `scores` start and end at multiples of it; a divisor of keys

    // Bytes of one row, key, row of a right operand; W is E or F.  Room for n rows of pack_rows is
    // n rounded up to `rows`; else n rounded up to the larger of `rows` and `keys`.  Each packed
    // array begins at a multiple of 64.
    size_t (*row_bytes)(int64_t W);
    size_t (*key_bytes)(int64_t W);
    size_t (*right_bytes)(int64_t W);
    // W rounded up to what a row of sums (dq, dk, dv) must hold; rows of sums begin at multiples of
    // 64 bytes when this many reals are one.
    int64_t (*width)(int64_t W);

    // x[i]: where row i is.  The left operand of scores: rows of q, of dout.
    void (*pack_rows)(void *to, const void *const *x, int rows, int64_t W);
    // The right operand of scores: x[j] is key or value at + j, `at` a multiple of `keys`; behind
    // the last, 0 up to a multiple of lanes.
    void (*pack_keys)(void *to, const void *const *x, int at, int n, int64_t W);
    // The right operand of across (q, dout; at = 0, n of a tile's rows) and of along (k).  What is
    // not finite becomes 0, and behind the last, 0 up to a multiple of lanes; true: all was finite.
    bool (*pack_right)(void *to, const void *const *x, int at, int n, int64_t W);

    // s[i][j] = rows[i] . keys[j] for the columns of span, W products added in one order.  Of
    // q and k it is best that of the forward family, whose lse was made of them.
    void (*scores)(real *s, const void *rows, int n, const void *keys, int64_t W,
                   struct qkv_columns span);
    // One row, columns lo .. hi-1:  s = cap tanh(scale s / cap),  gain = 1 - (s / cap)^2.
    void (*cap)(real *s, real *gain, int32_t lo, int32_t hi, real scale, real cap);
    // As in struct qkv_attention_kernels.
    void (*shape)(real *s, int32_t lo, int32_t hi, const struct qkv_shaping *how);
    // One row, columns of the spans: from score and dP (in ds) to W (in s) and dS (in ds).  Outside
    // lo .. hi-1, and where the score is -INFINITY, both become 0 whatever ds held.
    void (*grade)(real *s, real *ds, const struct qkv_columns *spans, int n, int32_t lo, int32_t hi,
                  const struct qkv_grading *how);
    // One row, columns lo .. hi-1:  ds = gain ds;  0 stays 0 whatever gain is.
    void (*gain)(real *ds, const real *gain, int32_t lo, int32_t hi);

    // W and X as across and along take them: form_bytes, or 0: as they are, real, and form is NULL.
    size_t form_bytes;
    void (*form)(void *to, const real *x, int rows, const struct qkv_columns *spans, int n);
    // Spans are those of scores.
    // sum[j] += sum_i x[i][j] right[i] for the columns j of the spans; sum rows width(W) apart.
    void (*across)(real *sum, const void *form, int rows, const void *right, int64_t W,
                   const struct qkv_columns *spans, int n);
    // sum[i] += sum_j x[i][j] right[j] over the columns of the spans.
    void (*along)(real *sum, const void *form, int rows, const void *right, int64_t W,
                  const struct qkv_columns *spans, int n);
    // x[i][j] as across and along take it.  NULL: the real that is there.
    real (*share)(const void *form, int i, int32_t j);
    // All steps for a plain tile, with the bits that they would give; NULL: there are only the
    // steps.
    void (*fused)(const struct qkv_back_tile *t);

    // sum_f dout[f] out[f], where out is 0 without looking at dout.
    real (*dot)(const void *dout, const void *out, int64_t F);
    // to[n] = times x[n], in the type of the arrays.
    void (*store)(void *to, const real *x, real times, int64_t n);

    // Of real rows, for tables:  y[n] += x[n];  sum x[n];  sum over columns lo .. hi-1 of
    // x[j] |distance - j|.
    void (*add)(real *y, const real *x, int64_t n);
    real (*total)(const real *x, int64_t n);
    real (*moment)(const real *x, int32_t lo, int32_t hi, int64_t distance);
};
#endif
