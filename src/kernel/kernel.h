// SPDX-License-Identifier: MIT
// kernel.h: the door of room kernel: one table of functions a CPU, and what each must do.
//
// Contracts: void functions, sizes were checked above.  Pointers may be misaligned unless said
// otherwise; nothing outside the arguments is read or written.  Same inputs, same bits, on one ISA:
// a row's result never depends on the rows beside it.
#ifndef QKV_ROOM_KERNEL_H
#define QKV_ROOM_KERNEL_H

#include "base/base.h"
#include <qkv/layer.h>

#ifdef QKV_DOUBLE
typedef double real; // the gradcheck build
#else
typedef float real;
#endif

// real, as a type of arrays.
#define QKV_REAL (sizeof(real) == sizeof(double) ? QKV_F64 : QKV_F32)
// The type that arrays of a precision are stored in, real in place of float.
static inline qkv_dtype qkv_stored_type(qkv_precision p)
{
    const qkv_dtype type = qkv_precision_type(p);
    return type == QKV_F32 ? QKV_REAL : type;
}

// A linear product sums its inner axis in chunks of this many, each from 0 upwards, then adds the
// chunks left to right: the same for every number of rows and columns, so that a row's bits are its
// own.
enum { QKV_LINEAR_CHUNK = 384 };
// Of whole numbers of 8 bits: the sum of a chunk is exact, and then a float.
enum { QKV_LINEAR_INT8_CHUNK = 3072 };

// What happens to a sum s of column n before it is stored:  y = act(scale s + b) + residual.
struct qkv_linear_tail {
    qkv_dtype x,
        y; // types of the arrays x and y: QKV_REAL, QKV_BF16 or QKV_F16, with every precision
    const real *b; // [N] or NULL
    real scale;    // 1: none
    enum qkv_activation act;
    const real *residual; // [rows][N] residual_ld apart, NULL: none; may be y itself
    int64_t residual_ld;
    real *before; // takes the argument of act, before_ld apart; NULL: not kept
    int64_t before_ld;
};
// The packing of weights and the product that reads it belong together: one slot.
// BF16, F16: w and x rounded to nearest even, products exact (what the instruction set has as
// exact), sums of floats.  INT8: a column of w and a row of x are whole numbers in -127 .. 127
// times a scale (body/linear/quantise.h), their sum is exact; a row or column with a number that is
// not finite gives NaN.
struct qkv_linear_kernel {
    const char *isa; // row of isa.def
    const char
        *arithmetic; // "float", "bf16 pairs", "six bf16 products", ...: how a product is formed
    int64_t panel;   // columns that are packed side by side
    size_t (*panel_bytes)(int64_t K); // of one packed panel, a multiple of 64
    // panels[ceil(N / panel)] in a layout of its own, of w[n ldn + k ldk], 0 past N.  w is of
    // `type`: QKV_REAL, QKV_BF16 or QKV_F16 (INT8: QKV_REAL).
    void (*pack)(void *panels, const void *w, qkv_dtype type, int64_t K, int64_t N, int64_t ldn,
                 int64_t ldk);
    // y[rows][N] = tail(x[rows][K] w^T); rows ldy, ldx elements apart; x and y apart.  K = 0: the
    // sum is 0.
    void (*rows)(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels, int64_t rows,
                 int64_t K, int64_t N, const struct qkv_linear_tail *tail);
};

// ---- attention (body/attention/attention.h; the law: body/scalar/scalar_attention.h) ------------
// A chunk is QKV_CHUNK keys at most; a tile is `rows` queries, QKV_TILE_ROWS_MAX at most, by `keys`
// keys of it.  Columns of a
// tile are counted from the chunk's first key; a row of scores is QKV_CHUNK apart from the next.
enum { QKV_CHUNK = 256, QKV_TILE_ROWS_MAX = 32 };

// Columns from .. to-1.
struct qkv_columns {
    int32_t from, to;
};

// What turns a raw product into a score: s = scale * s;  s = cap tanh(s / cap);  + bias[j];
// + relative[j];  - slope |distance - j|;  s = masked where mask[j] is 0 or bias[j] is -INFINITY.
struct qkv_shaping {
    real scale, cap;       // cap 0: none
    const float *bias;     // NULL: none; index j is the column
    const float *relative; // NULL: none; index j is the column
    const uint8_t *mask;   // NULL: none
    real slope;            // 0: none
    int64_t distance;      // position of the query less that of column 0
    real masked;           // -INFINITY, or 0 for attention without softmax
};

// One family a precision: layouts are its own, so an ISA brings all of it or none.  Arrays of the
// caller (q, k, v, out) are of `type`; what lies between (s, sums, o) is real.
struct qkv_attention_kernels {
    const char *isa;        // row of isa.def
    const char *arithmetic; // "float", "bf16 pairs", ...: how a product is formed
    bool native;            // products are of the precision's own type, not of converted numbers
    qkv_dtype type;         // of q, k, v and out
    int rows, keys, lanes;  // tile; spans of scores start and end at multiples of lanes

    // Bytes of a packed key, value, row of q.  Room for n keys is n rounded up to `keys`; for
    // values `room`, a multiple of `keys`, for rows of q a multiple of `rows`; each begins at a
    // multiple of 64.
    size_t (*key_bytes)(int64_t E);
    size_t (*value_bytes)(int64_t F);
    size_t (*query_bytes)(int64_t E);

    // Keys k[n][E], ldk apart, to keys at .. at+n-1 of a layout of its own in panels of `keys`;
    // behind them 0 up to a multiple of lanes.  What lies before `at` stays (in the panel of `at`,
    // too).
    void (*pack_keys)(void *to, const void *k, int64_t ldk, int64_t at, int64_t n, int64_t E);
    // Values v[n][F], ldv apart, to rows at .. at+n-1 of a layout with room for `room` rows.  What
    // is not finite becomes 0; true: all was finite.
    bool (*pack_values)(void *to, const void *v, int64_t ldv, int64_t at, int64_t n, int64_t room,
                        int64_t F);
    // One row of q as scores reads it.  NULL: it is read where the caller has it, query_bytes is
    // not needed.  Packed rows of a tile lie query_bytes(E) apart.
    void (*pack_query)(void *to, const void *q, int64_t E);
    // F rounded up to what a row of o must hold.
    int64_t (*width)(int64_t F);

    // s[i][j] = q[i] . k[j] for the columns of span; E products added in one order for every tile.
    void (*scores)(real *s, const void *const *q, int rows, const void *keys, int64_t E,
                   struct qkv_columns span);
    // One row, columns lo .. hi-1; nothing of bias, relative and mask outside is read, s outside is
    // anything then.
    void (*shape)(real *s, int32_t lo, int32_t hi, const struct qkv_shaping *how);

    // For each row: top = max s, s = 2^(c (s - top)), sum = their sum; columns of the spans outside
    // lo[i] .. hi[i]-1 become 0.  c > 0.  No column visible or all -INFINITY: top -INFINITY, sum 0.
    // A NaN or +INFINITY visible: sum is NaN.
    void (*softmax)(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans, int n,
                    const int32_t *lo, const int32_t *hi, real c);
    // Columns of the spans outside lo[i] .. hi[i]-1 become 0: attention without softmax.
    void (*clear)(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                  const int32_t *hi);
    // Two softmaxes into one: top = the larger, old = 2^(c (old top - top)), now = 2^(c (top1 -
    // top)), sum = old sum + now sum1.  Both tops -INFINITY: old = now = 0.
    void (*merge)(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c);
    // What softmax or clear left in column j of row i, as `values` takes it: a family may keep its
    // rows of s in a form of its own from there on.  NULL: s[i QKV_CHUNK + j], a real.
    real (*share)(const real *s, int i, int32_t j);
    // Dropout: what softmax left in columns from .. to-1 of row i becomes 0 where word[j] < less.
    void (*drop)(real *s, int i, int32_t from, int32_t to, const uint32_t *word, uint32_t less);
    // o[i] = old[i] o[i] + now[i] sum_j s[i][j] v[j] over the columns of the spans, in order;
    // old NULL: o is written.  o rows width(F) apart; packed row j is column j.  A family may round
    // s to its own type first; columns of the spans' whole panels that were not packed are not
    // read.
    void (*values)(real *o, const real *old, const real *now, const real *s, int rows,
                   const void *values, int64_t room, int64_t F, const struct qkv_columns *spans,
                   int n);
    // o[i] = old[i] o[i] + now[i] o1[i]: the last step of `values` for sums o1 that it left before
    // with now = 1, with the bits it would have had; old NULL: o is written.  Rows are `width` =
    // width(F) wide.
    void (*join)(real *o, const real *old, const real *now, const real *o1, int rows,
                 int64_t width);
    // out[F] = o / sum, 0 where sum is 0; never -0 for a sum of 0.
    void (*divide)(void *out, const real *o, real sum, int64_t F);
    // w[n] = 2^(c (w - top)) / sum: dense weights from scores; 0 where sum is 0.
    void (*weights)(real *w, int64_t n, real c, real top, real sum);
};

// What a tile's weights add up to; an array that is NULL is not wanted.
struct qkv_probing {
    real c; // e^score = 2^(c s)
    const real *base,
        *rest;         // [rows] log2(e) lse = base + rest: rest is what rounding took off base
    real *entropy;     // [rows] += -sum P log2 P
    real *sum, *most;  // [QKV_CHUNK] of a column: += P, the largest P so far
    const real *least; // [rows] a weight above it ...
    uint32_t *above;   // ... has bit j % 32 of above[row QKV_CHUNK / 32 + j / 32]; other bits are 0
};

// One step of an optimizer with gradients g, of which a = scale g is taken.
struct qkv_update {
    real scale;
    real rate;  // AdamW: divided by 1 - beta1^t, t the step from 1
    real keep;  // AdamW: 1 - rate decay, with the rate as it was
    real m, v;  // AdamW: 1 - beta1, 1 - beta2
    real root;  // AdamW: 1 / sqrt(1 - beta2^t)
    real eps;   // AdamW
    real decay; // SGD: decay w is added to a
    real momentum;
};

#include "kernel/attention_back.h"

// What multiplies: the units of a CPU whose peak can be measured.
enum qkv_unit {
    QKV_UNIT_FLOAT = 0,  // multiply-add of floats
    QKV_UNIT_BF16_PAIRS, // dot products of pairs of bf16, summed in float
    QKV_UNIT_BF16_TILES,
    QKV_UNIT_INT8, // dot products of bytes, summed in 32 bits, the best way there is
    QKV_UNIT_INT8_TILES,
    QKV_UNITS
};

// One pointer a kernel and nothing else: select.c overlays it slot by slot.  Where there is one a
// precision: what computes it on this CPU, the best way it has.
struct qkv_kernels {
    const char *isa;

    // y[r][n] = softmax of x[r][n]; rows ldx, ldy apart; in place allowed.
    // A row of -INFINITY gives 0; NaN or +INFINITY gives NaN.
    void (*softmax_rows)(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx);

    // y[i] = e^x[i], error at most 2 ulp (a subnormal result: of the smallest float); in place
    // allowed.
    void (*exp)(real *y, const real *x, int64_t n);

    const struct qkv_attention_kernels *attention[QKV_PRECISIONS]; // INT8: k and v are quantised
    const struct qkv_attention_back_kernels *attention_back[QKV_PRECISIONS]; // INT8: NULL
    // Additive scores (Bahdanau et al. 2015): with d = E / 2 a query's row is u[d], w[d], a key's
    // is p[d] (the rest of its E is not read), and s = sum_e w[e] tanh(u[e] + p[e]).  All else as
    // `attention`.
    const struct qkv_attention_kernels *additive;

    const struct qkv_linear_kernel *linear[QKV_PRECISIONS];

    // y[i] = act(x[i]), arrays of `type`; in place allowed.
    void (*activation)(void *y, const void *x, qkv_dtype type, int64_t n, enum qkv_activation act);
    // s = x + residual (NULL: x);  y = (s - mean) rstd w + b,  rstd = 1/sqrt(var + eps); w NULL: 1,
    // b NULL: 0.
    // Passes over one row: the mean; what is left of it and its squares (the mean was rounded: what
    // is left is taken out too, so that a large mean costs nothing); the result.  sum takes s, mean
    // (as rounded) and rstd [rows]; NULL: not kept.  y, sum, x, residual are [rows][D] and may
    // coincide.
    void (*norm_rows)(real *y, real *sum, real *mean, real *rstd, const real *x,
                      const real *residual, const real *w, const real *b, real eps, int64_t rows,
                      int64_t D);
    // y[n] = scale a + b + c, from the left; b, c NULL: left out.
    void (*embed_row)(real *y, const real *a, real scale, const real *b, const real *c, int64_t n);

    // ---- what training asks for (law: body/scalar/scalar_train.h) ----
    // Arrays of a type are QKV_REAL, QKV_BF16 or QKV_F16: computed in reals, rounded to nearest
    // even.
    // dx[i] = dy[i] act'(x[i]), act' within 2^-20; a ReLU has slope 0 at 0.  In place allowed.
    void (*activation_backward)(void *dx, const void *dy, const void *x, qkv_dtype type, int64_t n,
                                enum qkv_activation act);
    // y[i] = act(g[i]) u[i], and its gradients; in place allowed, element by element.
    void (*gated)(void *y, const void *g, const void *u, qkv_dtype type, int64_t n,
                  enum qkv_activation act);
    void (*gated_backward)(void *dg, void *du, const void *dy, const void *g, const void *u,
                           qkv_dtype type, int64_t n, enum qkv_activation act);
    // norm_rows without a residual, y of `type`; rms: y = x rstd w + b, rstd = 1/sqrt(mean x^2 +
    // eps), mean is not written.  y and x may coincide where both are real; y NULL: mean and rstd
    // alone.
    void (*norm_rows_to)(void *y, qkv_dtype type, real *mean, real *rstd, const real *x,
                         const real *w, const real *b, real eps, bool rms, int64_t rows, int64_t D);
    // With n = (x - mean) rstd (what rounding left in the mean is taken out) and dn = w dy:
    // dx = rstd (dn - mean(dn) - n mean(dn n)) + dx_add (rms: without mean(dn)),  dw += dy n,
    // db += dy over the rows in order.  dx, dx_add, dw, db may be NULL; dx may be dx_add.
    void (*norm_rows_backward)(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                               qkv_dtype type, const real *x, const real *mean, const real *rstd,
                               const real *w, bool rms, int64_t rows, int64_t D);
    // y[n] of type y_type = residual[n] (NULL: 0) + (words[n] < threshold ? 0 : scale x[n]).
    void (*dropout)(void *y, qkv_dtype y_type, const real *residual, const void *x,
                    qkv_dtype x_type, const uint32_t *words, uint32_t threshold, real scale,
                    int64_t n);
    // Of each of H heads, ld apart, in place: pairs of numbers (step i, step i + apart), i < pairs,
    // are turned by the angle of cosine[i] and sine[i]; back: by the negative one.  step is 1, or 2
    // with apart 1.
    void (*rope_row)(void *x, qkv_dtype type, const real *cosine, const real *sine, bool back,
                     int64_t pairs, int64_t step, int64_t apart, int64_t H, int64_t ld);
    // to[n] += scale x[n].
    void (*add_row)(real *to, const real *x, real scale, int64_t n);
    // to[n] += the sum of x[rows][n], ld apart, from 0 in the order of the rows.
    void (*add_rows)(real *to, const void *x, qkv_dtype type, int64_t ld, int64_t rows, int64_t n);
    // to[n][rows] of to_type, ldto apart = columns of x[rows][n], ld apart.
    void (*transpose)(void *to, qkv_dtype to_type, int64_t ldto, const void *x, qkv_dtype type,
                      int64_t ld, int64_t rows, int64_t n);

    // AdamW in one pass over n numbers of each:
    //   m += how.m (a - m);   v += how.v (a^2 - v);   w = keep w - rate m / (sqrt(v) root + eps)
    void (*adamw)(real *w, real *m, real *v, const real *g, int64_t n,
                  const struct qkv_update *how);
    // SGD: a += decay w;  m = momentum m + a (m NULL: a is taken as it is);  w -= rate m
    void (*sgd)(real *w, real *m, const real *g, int64_t n, const struct qkv_update *how);
    // sum_i x[i]^2 in double: 16 sums of every 16th, then a tree; the same bits on every ISA.
    double (*squares)(const real *x, int64_t n);

    // out[4 n]: blocks block .. block + n-1 of qkv_philox.
    void (*philox)(uint32_t *out, uint64_t seed, uint64_t site, uint64_t block, int64_t n);
    // A tile's scores, as `scores` and `shape` left them, to weights P = 2^(c s - base - rest), in the
    // columns of the spans: 0 outside lo[i] .. hi[i]-1 and where the score is -INFINITY, NaN where it
    // is NaN.  sum: rows in order; most passes over NaN.
    void (*probe_rows)(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                       const int32_t *hi, const struct qkv_probing *how);
    // One step of a gated recurrent unit, n of its numbers.  gates: what the input gives r, z and
    // n, `apart` from one to the next; hidden: what the state gives them.  gates becomes r =
    // sigmoid(gates + hidden), z likewise, n = tanh(gates + r hidden), and the hidden part of n
    // behind them;  h = (1 - z) n + z before.
    void (*gru_row)(real *h, real *gates, int64_t apart, const real *hidden, int64_t hidden_apart,
                    const real *before, int64_t n);
    // d[4][n] = what a gradient dh[n] is to the arguments of r, z and n and to the hidden part of
    // n;
    // dbefore[n] = dh z.  gates[4][n] as gru_row left them.
    void (*gru_row_backward)(real *d, real *dbefore, const real *dh, const real *gates,
                             const real *before, int64_t n);
    // Additive scores of one query: s[j] = sum_e w[e] tanh(u[e] + p[j][e]), rows of p ld apart.
    void (*additive_row)(real *s, const real *u, const real *w, const real *p, int64_t ld,
                         int64_t n, int64_t d);
    // du[d], dw[d], dp[n][d] (lddp apart) += of the gradients ds[n]; where one is 0, p[j] is not
    // read.
    void (*additive_row_backward)(real *du, real *dw, real *dp, int64_t lddp, const real *ds,
                                  const real *u, const real *w, const real *p, int64_t ld,
                                  int64_t n, int64_t d);
    // y[j] = x[d] . rows[j][d], ld apart.
    void (*dots)(real *y, const real *x, const real *rows, int64_t ld, int64_t n, int64_t d);

    // Softmax terms of a batch whose rows are columns here: s[n][R], rows lds apart.  For each
    // column, with a[i] = s[i] + b[i] (b NULL: none):  top = max a (-INFINITY: nothing above it),
    // p[i] = gain e^(a[i] - top) as `type` (p NULL: not kept), sum = sum of e^(a[i] - top),
    // all = sum of a (NULL: not wanted).  A NaN shows in sum.
    void (*loss_terms)(void *p, qkv_dtype type, int64_t ldp, real gain, real *top, real *sum,
                       real *all, const real *s, int64_t lds, const real *b, int64_t n, int64_t R);
    // p[i][r] = p[i][r] by[r] - less, in place;  sums[i] (NULL: not wanted) = sum over r before
    // rounding.
    void (*loss_slope)(void *p, qkv_dtype type, int64_t ldp, real *sums, const real *by, real less,
                       int64_t n, int64_t R);

    // For measure.c: `turns` turns of multiply-adds of one unit that never leave the registers.
    // *keep goes into every sum and takes a number that depends on all.  Returns the operations
    // done, two a multiply-add.  NULL: this CPU has no such unit.
    int64_t (*peak[QKV_UNITS])(real *keep, int64_t turns);
    // Reads data[bytes] once, whole vectors of it, as fast as can be; the result depends on all of
    // them.
    real (*peak_read)(const void *data, size_t bytes);
};

// The table in use: the scalar one overlaid with every supported row of isa.def, up to QKV_ISA.
const struct qkv_kernels *qkv_kernel(void);
// The table of the n-th supported ISA (0 scalar, weakest first) with all below it overlaid; NULL
// past the last.
const struct qkv_kernels *qkv_kernel_isa(int n);
// For tests and bench: qkv_kernel() answers this table until NULL is given.
void qkv_kernel_use(const struct qkv_kernels *k);

// ---- weights of 8 bits in a file (quantise.c) ---------------------------------------------------
// q[n] and their scale of w[n], both ld apart, as a column that linear[QKV_PRECISION_INT8] packs;
// NaN as scale: a number is not finite.
void qkv_quantise_row(int8_t *q, float *scale, const float *w, int64_t n, int64_t ld);
// w[n] of q[n], ld apart: packed, they give the same q and scale.
void qkv_quantised_row(real *w, const int8_t *q, float scale, int64_t n, int64_t ld);
#endif
