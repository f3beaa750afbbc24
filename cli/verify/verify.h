// SPDX-License-Identifier: MIT
// verify.h: declares the functions that the files of `qkv verify` share.
//
//   verify_grid.c       lists the test cases (verify_grid.def) and fills their arrays
//   verify_reference.c  computes attention by its formula: exactly (in double), and plainly (in the
//                       type of the case)
//   verify_gradients.c  computes dq, dk and dv by their formulas, exactly and plainly
//   verify_attention.c  tests the attention operator on all cases
//   verify_backward.c   tests the backward pass of attention on all cases
//   verify_linear.c     tests linear products and activations
//   verify_dense.c      tests layer norm and softmax
//   verify_convert.c    tests conversions of 16-bit floats, for every bit pattern
//   verify_report.c     prints the results per kernel, the worst cases and the verdict
#ifndef QKV_CLI_VERIFY_H
#define QKV_CLI_VERIFY_H

#include "frame/cmd.h"
#include <float.h>
#include <math.h>

// The largest relative error of rounding to each type: half a unit in the last place (ulp) of a
// number near 1.
#define VERIFY_U_F32  0x1p-24
#define VERIFY_U_F16  0x1p-11
#define VERIFY_U_BF16 0x1p-8

struct verify_options {
    bool quick, cases; // cases: print every case, not only one row per kernel
    const char *isa;   // instruction set to test; NULL: all that the machine has
    int precision;     // -1: all
    uint64_t seed;
};

// ---- random numbers: each case has its own stream, so that it does not depend on other cases ---
struct verify_random {
    uint64_t state;
};
static inline uint64_t verify_bits(struct verify_random *r) // splitmix64 (Steele et al. 2014)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
// returns a normally distributed number with mean 0, variance 1
double verify_normal(struct verify_random *r);
static inline int64_t verify_pick(struct verify_random *r, int64_t n) // 0 .. n-1
{
    return (int64_t)(verify_bits(r) >> 1) % n;
}

// ---- measurements (verify_report.c) -------------------------------------------------------------
// The errors of one kernel in one case.
struct verify_measure {
    int64_t n;      // how many numbers were compared
    double largest; // error
    double own;     // largest error minus the part of it that comes with the inputs
    double squares; // sum of the squared errors
    double size;    // largest exact result
    // largest quotient of an error and its derived bound; above 1, the kernel is wrong
    double share;
    double
        // largest error of the plain formula, over several orders of its sums; NAN: no rule needs
        // it
        plain;
    double in_order; // error of the plain formula with sums in the order of their indices
};
// Compares a result with the exact value, and adds its error to m. bound: the largest error
// allowed. given: the part of the error that comes with the inputs of the kernel, so that no kernel
// can avoid it. If only one of the two values is NaN, the error is infinite.
void verify_one_of(struct verify_measure *m, double got, double exact, double bound, double given);
static inline void verify_one(struct verify_measure *m, double got, double exact, double bound)
{
    verify_one_of(m, got, exact, bound, 0);
}

enum { VERIFY_GROUPS = 160 };
// Summary of the cases that differ only in their sizes.
struct verify_group {
    char name[64];
    double error, plain; // largest own error of the kernel and error of the plain formula, in ulps
};
// A row of the report: the summary of all cases of a kernel, an instruction set and a precision.
struct verify_row {
    const char *kernel, *isa, *precision, *arithmetic;
    qkv_dtype type; // type of the results, which defines the ulp
    double factor;  // rule: own error <= factor * error of the plain formula + 2 ulp; 0: no rule
    int64_t cases, failed, refused;
    double ulp, rms; // ulp: largest error in ulps; rms: sum of the squares of errors in ulps
    int64_t numbers;
    double largest; // largest error relative to the largest result of its case
    struct verify_group groups[VERIFY_GROUPS];
    double logs; // sum of ln(error / error of the plain formula in order), over `both` cases
    int64_t both;
    double share;     // largest quotient of an error and its bound
    char worst[96];   // name of the case that is nearest to a limit
    double nearest;   // fraction of the limit that the case `worst` reaches
    char reason[192]; // why the library refused cases
    const char
        // the weaker instruction set whose kernel is used, and in whose row it is measured; NULL: a
        // kernel of its own
        *as;
};
// Returns the row of the report for these names. If it does not exist yet, creates it. The pointer
// is valid until the next call.
struct verify_row *verify_row(const char *kernel, const char *isa, const char *precision,
                              const char *arithmetic, qkv_dtype type, double factor);
// Adds the errors m of one case to a row. name is "sizes: features"; cases with the same features
// form a group.
void verify_add(struct verify_row *row, const char *name, const struct verify_measure *m,
                const struct verify_options *o);
void verify_refused(struct verify_row *row, const char *reason);
// Prints the report. Returns false if any error exceeds its limit.
bool verify_report(const struct verify_options *o, double seconds);
// Frees all rows.
void verify_rows_free(void);

double verify_ulp(qkv_dtype type, double x); // distance between numbers of this type near x
double verify_unit(qkv_dtype type);          // VERIFY_U_...
// Returns x rounded to a type: QKV_F32, QKV_BF16 or QKV_F16.
static inline double verify_rounded(qkv_dtype type, double x)
{
    const float one = (float)x;
    if (type == QKV_F32) return (double)one;
    return (double)(type == QKV_BF16 ? qkv_bf16_to_f32(qkv_f32_to_bf16(one))
                                     : qkv_f16_to_f32(qkv_f32_to_f16(one)));
}

// ---- attention ----------------------------------------------------------------------------------
enum verify_feature {
    CAUSAL = 1 << 0,
    BOTTOM_RIGHT = 1 << 1,
    WINDOW = 1 << 2,
    LENGTHS = 1 << 3,
    MASK = 1 << 4,
    BIAS = 1 << 5,
    ALIBI = 1 << 6,
    SOFTCAP = 1 << 7,
    GROUPED = 1 << 8,
    SINKS = 1 << 9,
    PACKED = 1 << 10,
    HEADS_FIRST = 1 << 11,
    NO_SOFTMAX = 1 << 12
};
enum verify_data { SCALED, SPIKE, RISING, MINUS_INFINITY_FIRST, EQUAL, HUGE_NUMBERS };

// A test case of attention.
struct verify_case {
    int64_t T, S, E, F;
    unsigned features;
    enum verify_data data;
    double factor; // factor by which random scores are multiplied
    char name[96];
};
// Sets *c to the next case of the grid and advances *at. The caller sets *at to 0 before the first
// call. Returns false after the last case.
bool verify_grid_next(struct verify_case *c, int64_t *at, bool quick);
// Sets *c to the next case with which the backward pass is tested, as verify_grid_next() does for
// the forward pass.
bool verify_grid_next_back(struct verify_case *c, int64_t *at, bool quick);

// The arrays of a case, stored in one type.
struct verify_problem {
    struct qkv_attention a; // G, F, scale and strides are set, not left 0 for their defaults
    qkv_dtype type;
    void *q, *k, *v, *out;
    float *lse;
    float *bias, *slopes, *sinks;
    uint8_t *mask;
    int64_t *lengths, *q_offsets, *k_offsets;
    size_t out_count, lse_count;
};
void verify_problem_new(struct verify_problem *p, const struct verify_case *c, qkv_dtype type,
                        uint64_t seed);
void verify_problem_free(struct verify_problem *p);
static inline double verify_at(const void *x, qkv_dtype type, int64_t i) // x[i]
{
    if (type == QKV_F32) return (double)((const float *)x)[i];
    const uint16_t half = ((const uint16_t *)x)[i];
    return (double)(type == QKV_BF16 ? qkv_bf16_to_f32(half) : qkv_f16_to_f32(half));
}

// Allocates n normally distributed numbers, multiplied by `factor` and stored in `type`.
void *verify_numbers(size_t n, qkv_dtype type, double factor, struct verify_random *r);
void verify_put(void *x, qkv_dtype type, int64_t i, double value); // x[i] = value

// Where query token t of batch item b is. The keys of its sequence are first .. first + n - 1, and
// i is the position of the query among them. n = 0: the token is in no sequence.
struct verify_place {
    int64_t first, n, i;
};
struct verify_place verify_place_of(const struct qkv_attention *a, int64_t b, int64_t t);
// Sets seen[j] to true for each key j to which the query (batch item b, token t, head h) attends; j
// counts from the first key of its sequence. Returns the number of these keys.
int64_t verify_visible(bool *seen, const struct qkv_attention *a, const struct verify_place *at,
                       int64_t b, int64_t t, int64_t h);

// The accuracy that a precision promises. u = 2^-24 is the rounding error of a float.
struct verify_promise {
    qkv_dtype type; // type of q, k, v and out
    double factor;  // error <= factor * error of the plain formula + 2 ulp; 0: not promised
    double qk,
        // error of a product q k and of a product P v in units of u, in addition to rounding as
        // float
        pv;
    double power; // relative error of exp in addition to that of a float
    bool eight;   // true: keys and values have 8 bits, with a scale per token and head
};
struct verify_promise verify_promise_of(qkv_precision p);

// The expected results of a case, for a sample of its rows.
struct verify_reference {
    int64_t rows, F;
    struct verify_expected {
        int64_t b, t, h;
        int64_t keys; // visible
        double lse;
        // sum over E of |q k|, plus the roundings of the score; largest over the keys
        double score;
        double size;    // |scale| sum |q k|, largest over the keys
        double tallest; // largest |v| of the visible keys
        // How much a result can change if keys and values are rounded to 8 bits, in steps of 1/254
        // of the largest element of each key or value:
        double keys8;   // change of a score: |scale| sum |q| max |k|, largest over the keys
        double values8; // change of the result: sum of P max |v|
        // The same for queries and weights that are rounded to 16 bits, in steps of 1/65534 of the
        // largest of a row:
        double queries16; // |scale| max |q| sum |k|, largest over the keys
        double weights16; // number of keys times the largest P max |v|
    } * row;
    double *out;            // [rows][F]
    double *reach;          // [rows][F] sum of P |v|
    double *sum;            // [rows][F] sum of |v|, used without softmax
    double plain, in_order; // errors of the plain formula, as in struct verify_measure
};
// Computes the expected results of at most `most` rows, spread over the whole case.
void verify_reference_new(struct verify_reference *r, const struct verify_problem *p, int64_t most);
void verify_reference_free(struct verify_reference *r);

enum { VERIFY_DQ, VERIFY_DK, VERIFY_DV, VERIFY_SIDES };
// The expected gradients of q, k and v in a case. The arrays have the layouts of q, k and v.
struct verify_gradients {
    void *dout; // gradient of out, in the layout of out; NaN in rows without keys
    size_t count[VERIFY_SIDES];
    double *exact[VERIFY_SIDES], *bound[VERIFY_SIDES];
    // errors of the gradients that come with lse, which is given as a float
    double *given[VERIFY_SIDES];
    // errors of the plain formula for each gradient, as in struct verify_measure
    double plain[VERIFY_SIDES], in_order[VERIFY_SIDES];
};
// Fills dout with random numbers, and computes the exact gradients and the errors of the plain
// formula.
void verify_gradients_new(struct verify_gradients *g, const struct verify_problem *p,
                          uint64_t seed);
// Computes the exact gradients again, and the bound of each error for the accuracy that a precision
// promises.
void verify_gradients_bound(struct verify_gradients *g, const struct verify_problem *p,
                            const struct verify_promise *promise);
void verify_gradients_free(struct verify_gradients *g);

qkv_status verify_attention(const struct verify_options *o, qkv_error *err);
qkv_status verify_backward(const struct verify_options *o, qkv_error *err);
qkv_status verify_linear(const struct verify_options *o, qkv_error *err);
qkv_status verify_dense(const struct verify_options *o);
qkv_status verify_convert(const struct verify_options *o, qkv_error *err);
#endif
