// SPDX-License-Identifier: MIT
// kernel.h: declares the table of compute kernels of a CPU and states the contract of each kernel.
// This is the public header of module kernel. The scalar kernels (body/scalar/) are the law: they
// define what every vector kernel computes.
//
// The kernels return no status: their callers have checked all sizes. Pointers may be misaligned
// unless a comment says otherwise; a kernel reads and writes nothing outside its arguments. On one
// instruction set (ISA) the same inputs give the same bits: the result of a row never depends on
// the other rows of the call.
#ifndef QKV_MODULE_KERNEL_H
#define QKV_MODULE_KERNEL_H

#include "base/base.h"
#include <qkv/layer.h>

#ifdef QKV_DOUBLE
typedef double real; // the build that checks gradients in double precision
#else
typedef float real;
#endif

// The qkv_dtype of an array of real.
#define QKV_REAL (sizeof(real) == sizeof(double) ? QKV_F64 : QKV_F32)
// Returns the type in which arrays of precision p are stored; arrays of float become arrays of
// real.
static inline qkv_dtype qkv_stored_type(qkv_precision p)
{
    const qkv_dtype type = qkv_precision_type(p);
    return type == QKV_F32 ? QKV_REAL : type;
}

// Length of one chunk of the inner axis K of a linear product. Each chunk is summed from 0 in
// ascending order, then the chunks are added from left to right. The order does not depend on the
// number of rows and columns, so the bits of a row do not either.
enum { QKV_LINEAR_CHUNK = 384 };
// Length of a chunk in INT8 products: the sum of a chunk is exact in integers and is then converted
// to float.
enum { QKV_LINEAR_INT8_CHUNK = 3072 };
// Largest width of an INT8 search, whose sums are exact: 2^17 * 127^2 < 2^31.
enum { QKV_SEARCH_WIDTH_MAX = 1 << 17 };

// The operations that the kernel `rows` of struct qkv_linear_kernel applies to the sum s of a
// column before storing it: y = act(scale s + b) + residual.
struct qkv_linear_tail {
    // types of the arrays x and y: QKV_REAL, QKV_BF16 or QKV_F16, for every precision
    qkv_dtype x, y;
    const real *b; // bias [N]; NULL: none
    real scale;    // factor of the sum; 1: no scaling
    enum qkv_activation act;
    // array [rows][N] that is added last, rows residual_ld elements apart; it may be the same array
    // as y; NULL: no residual is added
    const real *residual;
    int64_t residual_ld;
    // array that receives the argument of act, rows before_ld elements apart; NULL: the argument is
    // not stored
    real *before;
    int64_t before_ld;
};
// The kernels of a linear layer in one precision: `pack` packs the weights w, and `rows` multiplies
// rows of x by them. Both use one packed layout, so an ISA replaces both together.
// BF16, F16: w and x are rounded to nearest even, products are exact (as exact as the instruction
// set allows), sums are floats.
// INT8: a column of w and a row of x are integers in -127 .. 127 times a scale
// (body/linear/quantise.h) and their dot product is exact; a row or column that contains a
// nonfinite number gives NaN.
struct qkv_linear_kernel {
    const char *isa; // name of the ISA in isa.def
    // name of the method that computes a product: "float", "bf16 pairs", "six bf16 products", ...
    const char *arithmetic;
    int64_t panel;                    // number of columns in one packed panel
    size_t (*panel_bytes)(int64_t K); // Returns the bytes of one packed panel, a multiple of 64.
    // Writes ceil(N / panel) panels in the kernel's own layout from w[n ldn + k ldk]; columns past
    // N are 0. w is of `type`: QKV_REAL, QKV_BF16 or QKV_F16 (for INT8: QKV_REAL).
    void (*pack)(void *panels, const void *w, qkv_dtype type, int64_t K, int64_t N, int64_t ldn,
                 int64_t ldk);
    // Computes y[rows][N] = tail(x[rows][K] w^T). Rows of y are ldy elements apart, rows of x ldx;
    // y and x must not overlap. With K = 0 the sum is 0.
    void (*rows)(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels, int64_t rows,
                 int64_t K, int64_t N, const struct qkv_linear_tail *tail);
    // number of rows for which `rows` reads the panels once; 0: it reads them for a few rows at a
    // time, from the cache if all panels of the call fit into it
    int64_t together;
};

// ---- attention (body/attention/attention.h; the law: body/scalar/scalar_attention.h) -----------
// E is the width of a query and a key, F the width of a value. A chunk is a range of at most
// QKV_CHUNK keys. A tile is a block of the score matrix: at most `rows` queries (never more than
// QKV_TILE_ROWS_MAX) by at most `keys` keys of one chunk. Columns of a tile are counted from the
// first key of the chunk; consecutive rows of scores are QKV_CHUNK elements apart.
enum { QKV_CHUNK = 256, QKV_TILE_ROWS_MAX = 32 };

// A range of columns: from .. to-1.
struct qkv_columns {
    int32_t from, to;
};

// Parameters that turn a dot product s into a score, applied in this order:
//   s = scale * s
//   s = cap tanh(s / cap)
//   s = s + bias[j] + relative[j] - slope |distance - j|
//   s = masked (a member), where mask[j] is 0 or bias[j] is -INFINITY
struct qkv_score_modifiers {
    // scale: factor of the dot product; cap: bound of the tanh softcap, 0: no softcap
    real scale, cap;
    const float *bias;     // bias of the row, indexed by column; NULL: no bias
    const float *relative; // relative-position bias of the row, indexed by column; NULL: no bias
    const uint8_t *mask;   // mask of the row, indexed by column: 0 hides a key; NULL: no mask
    real slope;            // penalty per position of distance (ALiBi); 0: no penalty
    int64_t distance;      // position of the query minus the position of column 0
    real masked;           // score of a masked key: -INFINITY, or 0 for attention without softmax
};

// A group of rows and a chunk of keys, for the kernel `group`. Members as the kernels of struct
// qkv_attention_kernels describe them.
struct qkv_attention_group {
    real *o, *top, *sum, *now, *s;
    bool begun; // o contains an earlier sum
    const void *const *q;
    const void *keys, *values;
    int64_t capacity, E, F;
    const int32_t *lo, *hi;
    int rows;
    struct qkv_columns span; // columns that at least one row sees
    real c;
};

// The attention kernels of one precision. They form a table with packed layouts of its own, so an
// ISA replaces the whole table or nothing. The caller's arrays (q, k, v, out) are of `type`;
// intermediate arrays (s, sums, o) are real.
struct qkv_attention_kernels {
    const char *isa; // name of the ISA in isa.def
    // name of the method that computes a product: "float", "bf16 pairs", ...
    const char *arithmetic;
    bool native;    // true: products use the precision's own type, without conversion to float
    qkv_dtype type; // type of q, k, v and out
    int rows, keys, lanes; // size of a tile; the bounds of spans of scores are multiples of lanes

    // key_bytes, value_bytes and query_bytes return the bytes of one packed key, value and row of
    // q. The caller allocates space for n keys rounded up to a multiple of `keys`, for `capacity`
    // values (a multiple of `keys`), and for rows of q rounded up to a multiple of `rows`. Each
    // packed array begins at a multiple of 64 bytes.
    size_t (*key_bytes)(int64_t E);
    size_t (*value_bytes)(int64_t F);
    size_t (*query_bytes)(int64_t E);

    // Packs keys k[n][E], ldk elements apart, as keys at .. at+n-1 of `to`, in panels of `keys` in
    // a layout of the kernel table. Following keys up to a multiple of lanes become 0. Keys before
    // `at` are unchanged, also in the panel that contains `at`.
    void (*pack_keys)(void *to, const void *k, int64_t ldk, int64_t at, int64_t n, int64_t E);
    // Packs values v[n][F], ldv elements apart, as rows at .. at+n-1 of `to`, which has space for
    // `capacity` rows. Nonfinite values become 0; returns true if all were finite.
    bool (*pack_values)(void *to, const void *v, int64_t ldv, int64_t at, int64_t n,
                        int64_t capacity, int64_t F);
    // Packs one row of q into the operand of `scores`; packed rows of a tile are query_bytes(E)
    // bytes apart. If pack_query is NULL, `scores` reads the caller's row directly and query_bytes
    // is unused.
    void (*pack_query)(void *to, const void *q, int64_t E);
    // Returns the number of elements to allocate for a row of o: F rounded up.
    int64_t (*width)(int64_t F);

    // Computes dot products s[i][j] = q[i] . k[j] for the columns of span. The E products are added
    // in the same order in every tile.
    void (*scores)(real *s, const void *const *q, int rows, const void *keys, int64_t E,
                   struct qkv_columns span);
    // Turns the dot products of columns lo .. hi-1 of one row into scores. Reads no bias, relative
    // or mask outside these columns; s outside them is undefined afterwards.
    void (*modify)(real *s, int32_t lo, int32_t hi, const struct qkv_score_modifiers *how);

    // Computes the softmax of each row i over the visible columns lo[i] .. hi[i]-1 of the spans,
    // without the final division: top = max s; s = 2^(c (s - top)), where c > 0; sum = sum of the
    // new s. Other columns of the spans become 0.
    // If no column is visible or all visible scores are -INFINITY: top = -INFINITY, sum = 0. If a
    // visible score is NaN or +INFINITY: sum is NaN.
    void (*softmax)(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans, int n,
                    const int32_t *lo, const int32_t *hi, real c);
    // Sets the columns of the spans outside lo[i] .. hi[i]-1 to 0 in each row i. Attention without
    // softmax calls it instead of `softmax`.
    void (*clear)(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                  const int32_t *hi);
    // Merges two partial softmaxes (top, sum) and (top1, sum1) into the first: top becomes the
    // larger top, old = 2^(c (previous top - top)), now = 2^(c (top1 - top)), sum = old sum + now
    // sum1. If both tops are -INFINITY: old = now = 0.
    void (*merge)(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c);
    // Returns the weight of column j in row i after `softmax` or `clear`, with the value that
    // `values` uses, for a kernel table that stores the weights in s in its own format. If
    // probability is NULL, the weight is the real number s[i * QKV_CHUNK + j].
    real (*probability)(const real *s, int i, int32_t j);
    // Applies dropout after softmax: sets the weights of row i to 0 in the columns j = from .. to-1
    // where word[j] < less.
    void (*drop)(real *s, int i, int32_t from, int32_t to, const uint32_t *word, uint32_t less);
    // Adds weighted values: o[i] = old[i] o[i] + now[i] sum_j s[i][j] v[j] over the columns of the
    // spans, in ascending order; if old is NULL, the previous o is not read and counts as 0. Rows
    // of o are width(F) elements apart; packed row j of `values` is column j. Kernels of a 16-bit
    // type may first round s to that type. Values in the panels of the spans that were never packed
    // are not read.
    void (*values)(real *o, const real *old, const real *now, const real *s, int rows,
                   const void *values, int64_t capacity, int64_t F, const struct qkv_columns *spans,
                   int n);
    // Computes `scores`, `softmax`, `merge` and `values` of a group in one pass, with bit-identical
    // results (a NaN may have other bits), also in s. Returns false, and does nothing, if it does
    // not support the group's sizes. NULL: the table has no such kernel.
    bool (*group)(const struct qkv_attention_group *g);
    // Adds earlier sums of `values`: o[i] = old[i] o[i] + now[i] o1[i]. This is the last step of
    // `values`, for sums o1 that `values` computed earlier with now = 1. The result is
    // bit-identical to one call of `values`. If old is NULL, the previous o is not read and counts
    // as 0. Each row has `width` = width(F) elements.
    void (*join)(real *o, const real *old, const real *now, const real *o1, int rows,
                 int64_t width);
    // Divides the sums of a row: out[F] = o / sum; if sum is 0, out is 0, never -0.
    void (*divide)(void *out, const real *o, real sum, int64_t F);
    // Turns scores into dense attention weights: w[n] = 2^(c (w - top)) / sum, or 0 if sum is 0.
    void (*weights)(real *w, int64_t n, real c, real top, real sum);
};

// The statistics of the attention weights P of one tile that probe_rows adds up; an array that is
// NULL is not computed.
struct qkv_probing {
    real c; // scale of the exponent: e^score = 2^(c s)
    // [rows] base + rest = log2(e) lse, where lse is the log-sum-exp of the row's scores and rest
    // the rounding error of base
    const real *base, *rest;
    real *entropy;     // [rows] entropy of each row: += -sum P log2 P
    real *sum, *most;  // [QKV_CHUNK] per column: sum += P; most = the largest P so far
    const real *least; // [rows] threshold of each row; a larger weight sets its bit in `above`
    // [rows][QKV_CHUNK / 32] words: bit j % 32 of word above[i * (QKV_CHUNK / 32) + j / 32] is 1
    // where P[i][j] > least[i], and 0 elsewhere
    uint32_t *above;
};

// Parameters of one optimizer step. The step uses the scaled gradient a = scale g, where g is the
// gradient.
struct qkv_update {
    real scale;
    real rate;  // learning rate; for AdamW divided by 1 - beta1^t, where t counts steps from 1
    real keep;  // AdamW: weight decay factor 1 - rate decay, with the undivided rate
    real m, v;  // AdamW: update factors of the moments, m = 1 - beta1 and v = 1 - beta2
    real root;  // AdamW: bias correction of the second moment, 1 / sqrt(1 - beta2^t)
    real eps;   // AdamW: epsilon, added to the denominator
    real decay; // SGD: weight decay; decay times w is added to a
    real momentum;
};

#include "kernel/attention_back_kernels.h"

// Arithmetic units of a CPU whose peak rate can be measured.
enum qkv_unit {
    QKV_UNIT_FLOAT = 0,  // multiply-add of floats
    QKV_UNIT_BF16_PAIRS, // dot products of pairs of bf16, summed in float
    QKV_UNIT_BF16_TILES,
    // dot products of bytes, summed in 32-bit integers with the CPU's fastest instruction
    QKV_UNIT_INT8,
    QKV_UNIT_INT8_TILES,
    QKV_UNITS
};

// The kernel table: one pointer per kernel and nothing else, because select.c overlays tables
// pointer by pointer. An array indexed by precision contains the fastest kernel of this CPU for
// each precision.
struct qkv_kernels {
    const char *isa;

    // Computes the softmax of rows: y[r][n] = softmax of x[r][n]; rows of x are ldx elements apart,
    // rows of y are ldy elements apart; y and x may be the same array. A row of only -INFINITY
    // gives 0; a row with NaN or +INFINITY gives NaN.
    void (*softmax_rows)(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx);

    // Computes y[i] = e^x[i], with an error of at most 2 ulp (if the result is subnormal, at most
    // twice the smallest float); y and x may be the same array.
    void (*exp)(real *y, const real *x, int64_t n);

    // for INT8 the kernels receive k and v as floats and quantise them when they pack them
    const struct qkv_attention_kernels *attention[QKV_PRECISIONS];
    // NULL for INT8, which has no backward pass
    const struct qkv_attention_back_kernels *attention_back[QKV_PRECISIONS];
    // Additive attention (Bahdanau et al. 2015), used like the kernels in the array `attention`.
    // With d = E / 2, the row of
    // a query is u[d], w[d] and the row of a key is p[d] (its other E - d elements are not read);
    // the score is s = sum_e w[e] tanh(u[e] + p[e]).
    const struct qkv_attention_kernels *additive;

    const struct qkv_linear_kernel *linear[QKV_PRECISIONS];

    // Applies an activation: y[i] = act(x[i]); both arrays are of `type` and may be the same array.
    void (*activation)(void *y, const void *x, qkv_dtype type, int64_t n, enum qkv_activation act);
    // Computes the layer norm of rows: s = x + residual; y = (s - mean) rstd w + b; rstd =
    // 1/sqrt(var + eps). A NULL residual or b counts as 0, a NULL w as 1.
    // The kernel makes three passes over a row, which compute (1) the mean, (2) the means of the
    // remainders s - mean and of their squares, (3) the result. The mean of the remainders corrects
    // the rounding of the mean, so a large mean costs no accuracy. `sum` receives s; mean (as
    // rounded) and rstd are [rows]; a NULL output is not written. y, sum, x and residual are
    // [rows][D] and may be the same array.
    void (*norm_rows)(real *y, real *sum, real *mean, real *rstd, const real *x,
                      const real *residual, const real *w, const real *b, real eps, int64_t rows,
                      int64_t D);
    // Adds up an embedding row: y[n] = scale a + b + c, added from left to right. A NULL b or c is
    // omitted from the sum.
    void (*embed_row)(real *y, const real *a, real scale, const real *b, const real *c, int64_t n);

    // ---- kernels for training (law: body/scalar/scalar_train.h) --------------------------------
    // The argument `type` of a training kernel is the type of its void arrays: QKV_REAL, QKV_BF16
    // or QKV_F16; results are computed in real and rounded to nearest even.
    // Computes the gradient of an activation: dx[i] = dy[i] act'(x[i]), with act' accurate to
    // 2^-20; the derivative of ReLU at 0 is 0. The arrays may be the same.
    void (*activation_backward)(void *dx, const void *dy, const void *x, qkv_dtype type, int64_t n,
                                enum qkv_activation act);
    // Computes a gated activation, y[i] = act(g[i]) u[i]; gated_backward computes its gradients.
    // Outputs may be the same arrays as inputs, because each element is read before it is written.
    void (*gated)(void *y, const void *g, const void *u, qkv_dtype type, int64_t n,
                  enum qkv_activation act);
    void (*gated_backward)(void *dg, void *du, const void *dy, const void *g, const void *u,
                           qkv_dtype type, int64_t n, enum qkv_activation act);
    // Computes the norm of x without a residual; y is of `type`. With rms false, it is the layer
    // norm; with rms true, y = x rstd w + b, where rstd = 1/sqrt(mean x^2 + eps), and mean is not
    // written. y and x may be the same array if both are real. If y is NULL, only mean and rstd are
    // computed.
    void (*norm_rows_to)(void *y, qkv_dtype type, real *mean, real *rstd, const real *x,
                         const real *w, const real *b, real eps, bool rms, int64_t rows, int64_t D);
    // Computes the gradients of norm_rows_to. With n = (x - mean) rstd (corrected for the rounding
    // of the mean) and dn = w dy:
    //   dx = rstd (dn - mean(dn) - n mean(dn n)) + dx_add;   with rms the term mean(dn) is absent
    //   dw += dy n and db += dy, over the rows in ascending order
    // dx, dx_add, dw and db may be NULL; dx and dx_add may be the same array.
    void (*norm_rows_backward)(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                               qkv_dtype type, const real *x, const real *mean, const real *rstd,
                               const real *w, bool rms, int64_t rows, int64_t D);
    // Applies dropout: y[n] = residual[n] + d[n], where d[n] is 0 if words[n] < threshold, and
    // scale x[n] otherwise. y is of y_type; a NULL residual counts as 0.
    void (*dropout)(void *y, qkv_dtype y_type, const real *residual, const void *x,
                    qkv_dtype x_type, const uint32_t *words, uint32_t threshold, real scale,
                    int64_t n);
    // Applies rotary positions, in place, to one row of H heads, ld elements apart. Each head
    // rotates the pairs of elements (step i, step i + apart), i < pairs, by the angle whose cosine
    // and sine are cosine[i] and sine[i]; with `back` by the negative angle. step is 1, or 2 with
    // apart 1.
    void (*rope_row)(void *x, qkv_dtype type, const real *cosine, const real *sine, bool back,
                     int64_t pairs, int64_t step, int64_t apart, int64_t H, int64_t ld);
    // Adds a scaled row: to[n] += scale x[n].
    void (*add_row)(real *to, const real *x, real scale, int64_t n);
    // Adds up rows: to[n] += the sum of the rows of x[rows][n], which are ld elements apart, summed
    // from 0 in ascending order.
    void (*add_rows)(real *to, const void *x, qkv_dtype type, int64_t ld, int64_t rows, int64_t n);
    // Transposes an array: row i of to[n][rows] (to_type, rows ldto elements apart) is column i of
    // x[rows][n] (rows ld elements apart).
    void (*transpose)(void *to, qkv_dtype to_type, int64_t ldto, const void *x, qkv_dtype type,
                      int64_t ld, int64_t rows, int64_t n);

    // Computes one AdamW step on n parameters w, in one pass. g is the gradient, a = scale g; m and
    // v are the moments; how.m, how.v, scale, keep, rate, root and eps are members of *how:
    //   m += how.m (a - m);   v += how.v (a^2 - v);   w = keep w - rate m / (sqrt(v) root + eps)
    void (*adamw)(real *w, real *m, real *v, const real *g, int64_t n,
                  const struct qkv_update *how);
    // Computes one SGD step on n parameters w with gradient g: a = scale g + decay w;  m = momentum
    // m + a;  w -= rate m. scale, decay, momentum and rate are members of *how. If m is NULL, there
    // is no momentum and w -= rate a.
    void (*sgd)(real *w, real *m, const real *g, int64_t n, const struct qkv_update *how);
    // Returns sum_i x[i]^2 in double: 16 partial sums, each of every 16th element, which are then
    // added pairwise as a tree; bit-identical on every ISA.
    double (*squares)(const real *x, int64_t n);

    // Generates random words: out[4 n] receives the blocks block .. block + n-1 of qkv_philox, the
    // counter-based random generator; a block has four words.
    void (*philox)(uint32_t *out, uint64_t seed, uint64_t site, uint64_t block, int64_t n);
    // Turns the scores of a tile (after `scores` and `modify`) into weights P = 2^(c s - base -
    // rest) in the columns of the spans, and adds the statistics that `how` requests. P is 0
    // outside lo[i] .. hi[i]-1 and where the score is -INFINITY, and NaN where the score is NaN.
    // how->sum adds rows in ascending order; how->most ignores NaN.
    void (*probe_rows)(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                       const int32_t *hi, const struct qkv_probing *how);
    // Computes one step of a gated recurrent unit (GRU) for n elements of its state. On entry the
    // rows gates[0 .. 2], `apart` elements apart, contain what the input contributes to the
    // arguments of r, z and n; the rows hidden[0 .. 2], hidden_apart elements apart, contain what
    // the state contributes. On return gates[0 .. 3] contain r = sigmoid(gates[0] + hidden[0]), z =
    // sigmoid(gates[1] + hidden[1]), n = tanh(gates[2] + r hidden[2]), and hidden[2]; h = (1 - z) n
    // + z before.
    void (*gru_row)(real *h, real *gates, int64_t apart, const real *hidden, int64_t hidden_apart,
                    const real *before, int64_t n);
    // Computes the gradients of gru_row from dh[n]: d[4][n] are the gradients of the arguments of
    // r, z and n, and of row 2 of hidden; dbefore[n] = dh z is the direct part of the gradient of
    // the previous state. gates[4][n] is the output of gru_row.
    void (*gru_row_backward)(real *d, real *dbefore, const real *dh, const real *gates,
                             const real *before, int64_t n);
    // Computes the additive scores of one query: s[j] = sum_e w[e] tanh(u[e] + p[j][e]); rows of p
    // are ld elements apart.
    void (*additive_row)(real *s, const real *u, const real *w, const real *p, int64_t ld,
                         int64_t n, int64_t d);
    // Adds the gradients of additive_row for ds[n] to du[d], dw[d] and dp[n][d] (rows lddp elements
    // apart). Where ds[j] is 0, p[j] is not read.
    void (*additive_row_backward)(real *du, real *dw, real *dp, int64_t lddp, const real *ds,
                                  const real *u, const real *w, const real *p, int64_t ld,
                                  int64_t n, int64_t d);
    // Computes a weighted sum of rows: y[j] = sum_e x[e] rows[e][j], added in ascending order of e;
    // rows are ld elements apart. The bits of y[j] do not depend on n.
    void (*weigh_rows)(real *y, const real *x, const real *rows, int64_t ld, int64_t n, int64_t d);
    // Computes dot products: y[j] = x[d] . rows[j][d]; rows are ld elements apart.
    void (*dots)(real *y, const real *x, const real *rows, int64_t ld, int64_t n, int64_t d);
    // ---- search (body/stored_dots.h) -----------------------------------------------------------
    // Computes dot products with stored rows: y[j] = x[d] . rows[j][d], rows of `type` QKV_F32 or
    // QKV_BF16 without gaps. The sum of a row is of floats and has one order on an ISA, whatever n
    // is.
    void (*dots_stored)(float *y, const float *x, const void *rows, qkv_dtype type, int64_t n,
                        int64_t d);
    // The same for integers -127 .. 127: exact, so equal on every ISA. d is at most
    // QKV_SEARCH_WIDTH_MAX, so that no sum overflows.
    void (*dots_int8)(int32_t *y, const int8_t *x, const int8_t *rows, int64_t n, int64_t d);

    // Computes the softmax terms of a batch that is stored transposed: s[n][R] has one column per
    // row of the batch; its rows are lds elements apart. For each column, with a[i] = s[i] + b[i]
    // (a = s if b is NULL):
    //   top = max a (-INFINITY if no a is larger)
    //   p[i] = gain e^(a[i] - top), stored as `type` (p NULL: not stored)
    //   sum = sum of e^(a[i] - top)
    //   all = sum of a (all NULL: not computed)
    // A NaN in a column makes sum NaN.
    void (*loss_terms)(void *p, qkv_dtype type, int64_t ldp, real gain, real *top, real *sum,
                       real *all, const real *s, int64_t lds, const real *b, int64_t n, int64_t R);
    // Computes the gradient of the logits, in place, from the terms p that loss_terms stored:
    // p[i][r] = p[i][r] by[r] - less. sums[i], unless sums is NULL, receives the sum of row i over
    // r before rounding.
    void (*loss_slope)(void *p, qkv_dtype type, int64_t ldp, real *sums, const real *by, real less,
                       int64_t n, int64_t R);

    // Measures an arithmetic unit, for measure.c: runs `turns` rounds of multiply-adds on registers
    // only. *keep enters every sum and receives a number that depends on all sums. Returns the
    // number of operations, two per multiply-add. The pointer is NULL if this CPU lacks the unit.
    int64_t (*peak[QKV_UNITS])(real *keep, int64_t turns);
    // Reads all complete vectors of data[bytes] once, at full speed, as `streams` streams in turn,
    // each 4 vectors at a time; the result depends on every vector.
    real (*peak_read)(const void *data, size_t bytes, size_t streams);
};

// Returns the table in use: the scalar table, overlaid with the kernels of every supported ISA of
// isa.def, up to the ISA that the environment variable QKV_ISA names.
const struct qkv_kernels *qkv_kernel(void);
// Returns the table of the n-th supported ISA (0: scalar, weakest first), in which weaker ISAs
// supply the kernels that it lacks; NULL if n is past the last.
const struct qkv_kernels *qkv_kernel_isa(int n);

// ---- 8-bit weights in a file (quantise.c) ------------------------------------------------------
// Quantises w[n] to q[n] and one scale; elements of both arrays are ld apart. The result equals the
// numbers and scale that linear[QKV_PRECISION_INT8] packs for a column w. A NaN scale means that w
// contains a nonfinite number.
void qkv_quantise_row(int8_t *q, float *scale, const float *w, int64_t n, int64_t ld);
// Computes w[n] from the integers q[n] and their scale, such that packing w gives the same q and
// scale. Elements of both arrays are ld apart.
void qkv_quantised_row(real *w, const int8_t *q, float scale, int64_t n, int64_t ld);
#endif
