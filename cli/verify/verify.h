// SPDX-License-Identifier: MIT
// verify.h: the parts of `qkv verify`.
//
//   verify_grid.c       which cases there are, and the arrays of each (verify_grid.def)
//   verify_reference.c  attention after its formula: exact in double, and plain in the type of the case
//   verify_attention.c  runs the operator on the grid        verify_linear.c   products, activations
//   verify_gradients.c  dq, dk, dv after the formula         verify_backward.c  runs backward on the grid
//   verify_dense.c      layer norm, softmax                  verify_convert.c  halves, every pattern
//   verify_report.c     rows, worst cases, verdict
#ifndef QKV_CLI_VERIFY_H
#define QKV_CLI_VERIFY_H

#include "cmd.h"
#include <float.h>
#include <math.h>

// Half a unit in the last place of a number near 1: the largest relative error of one rounding.
#define VERIFY_U_F32  0x1p-24
#define VERIFY_U_F16  0x1p-11
#define VERIFY_U_BF16 0x1p-8

struct verify_options {
    bool quick, cases; // cases: every case is printed, not the rows alone
    const char *isa;   // NULL: all that the machine has
    int precision;     // -1: all
    uint64_t seed;
};

// ---- random numbers: one stream a case, so that a case is the same alone and among others -------
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
double verify_normal(struct verify_random *r);                        // mean 0, variance 1
static inline int64_t verify_pick(struct verify_random *r, int64_t n) // 0 .. n-1
{
    return (int64_t)(verify_bits(r) >> 1) % n;
}

// ---- measuring (verify_report.c) ----------------------------------------------------------------
// One case of one kernel.
struct verify_measure {
    int64_t n;      // numbers compared
    double largest; // error
    double squares; // sum of squared errors
    double size;    // largest exact result
    double share;   // largest error / its own derived bound; more than 1: wrong
    double
        plain; // largest error of the plain formula, in any of some orders of its sums; NAN: no rule
    double in_order; // the same, sums in the order of their indices alone
};
// got against exact, within bound.  A NaN that should be none, or the reverse, is infinitely wrong.
void verify_one(struct verify_measure *m, double got, double exact, double bound);

// Cases that differ in size alone.
enum { VERIFY_GROUPS = 160 };
struct verify_group {
    char name[64];
    double error, plain; // largest, in units in the last place of the case
};
// A row of the report: what the cases of one kernel came to.
struct verify_row {
    const char *kernel, *isa, *precision, *arithmetic;
    qkv_dtype type; // of the results: what an ulp is
    double factor;  // error <= factor * plain + 2 ulp; 0: no such rule
    int64_t cases, failed, refused;
    double ulp, rms; // largest error in units in the last place; squares of it, summed
    int64_t numbers;
    double largest; // error relative to the largest result of its case
    struct verify_group groups[VERIFY_GROUPS];
    double logs; // sum of ln(error / plain in order) over `both` cases with errors
    int64_t both;
    double share;     // of the bound
    char worst[96];   // the case that came nearest to a limit
    double nearest;   // how near
    char reason[192]; // of a refusal
    const char
        *as; // weaker instruction set whose kernel this one runs, measured there; NULL: its own
};
// The row of these names; it is valid until the next call.
struct verify_row *verify_row(const char *kernel, const char *isa, const char *precision,
                              const char *arithmetic, qkv_dtype type, double factor);
// name: "sizes: what they have in common"; the part behind ": " is the group.
void verify_add(struct verify_row *row, const char *name, const struct verify_measure *m,
                const struct verify_options *o);
void verify_refused(struct verify_row *row, const char *reason);
// Prints the rows; false: something was past its limit.
bool verify_report(const struct verify_options *o, double seconds);

double verify_ulp(qkv_dtype type, double x); // distance of numbers of that type near x
double verify_unit(qkv_dtype type);          // VERIFY_U_...
double verify_rounded(qkv_dtype type, double x);

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

// A point of the grid.
struct verify_case {
    int64_t T, S, E, F;
    unsigned features;
    enum verify_data data;
    double factor; // of the scores
    char name[96];
};
// The next case behind *at (0 at the beginning); false: there are no more.
bool verify_grid_next(struct verify_case *c, int64_t *at, bool quick);
// The next one that backward runs on.
bool verify_grid_next_back(struct verify_case *c, int64_t *at, bool quick);

// Its arrays in one storage type.
struct verify_problem {
    struct qkv_attention a; // G, F, scale filled in; strides, too
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
double verify_at(const void *x, qkv_dtype type, int64_t i); // x[i]

// Numbers of n elements, normal times factor, in storage type.
void *verify_numbers(size_t n, qkv_dtype type, double factor, struct verify_random *r);
void verify_put(void *x, qkv_dtype type, int64_t i, double value); // x[i] = value

// The sequence of query token t of batch item b: its keys first .. first+n-1, and the query's place
// on the diagonal; n 0: of no sequence.
struct verify_place {
    int64_t first, n, i;
};
struct verify_place verify_place_of(const struct qkv_attention *a, int64_t b, int64_t t);
// Marks the keys that a row sees, counted from the sequence's first; returns how many.
int64_t verify_look(bool *seen, const struct qkv_attention *a, const struct verify_place *at,
                    int64_t b, int64_t t, int64_t h);

// What a precision promises, in units of 2^-24 where it says so.
struct verify_promise {
    qkv_dtype type; // of q, k, v and out
    double factor;  // error <= factor * plain formula + 2 ulp; 0: not promised
    double qk, pv;  // roundings that a product q k, a product P v may suffer beside those of floats
    double power;   // relative error of a power of 2 beside that of a float's
    bool eight;     // keys and values are of 8 bits, with a scale a token and head
};
struct verify_promise verify_promise_of(qkv_precision p);

// What rows of a problem should be.
struct verify_reference {
    int64_t rows, F;
    struct verify_expected {
        int64_t b, t, h;
        int64_t keys; // visible
        double lse;
        double score;   // sum over E of |q k| and the roundings of the score, largest over the keys
        double size;    // |scale| sum |q k|, largest
        double tallest; // largest |v| that is seen
        // What keys and values of 8 bits may move, in steps of 1/254 of the largest number of each:
        double keys8;   // a score: |scale| sum |q| max |k|, largest over the keys
        double values8; // the result: sum of P max |v|
    } * row;
    double *out;            // [rows][F]
    double *reach;          // [rows][F] sum of P |v|
    double *sum;            // [rows][F] sum of |v|, without softmax
    double plain, in_order; // largest error of the plain formula, as in verify_measure
};
// At most `most` rows, spread over the problem.
void verify_reference_new(struct verify_reference *r, const struct verify_problem *p, int64_t most);
void verify_reference_free(struct verify_reference *r);

// What gradients of a problem should be: of q, k, v, laid out as these are.
enum { VERIFY_DQ, VERIFY_DK, VERIFY_DV, VERIFY_SIDES };
struct verify_gradients {
    void *dout; // as out; NaN in rows that see nothing
    size_t count[VERIFY_SIDES];
    double *exact[VERIFY_SIDES], *bound[VERIFY_SIDES];
    double plain[VERIFY_SIDES], in_order[VERIFY_SIDES]; // as in verify_reference, a gradient each
};
// dout is drawn; errors of the plain formula beside exact.
void verify_gradients_new(struct verify_gradients *g, const struct verify_problem *p,
                          uint64_t seed);
// bound, as a precision promises it.
void verify_gradients_bound(struct verify_gradients *g, const struct verify_problem *p,
                            const struct verify_promise *promise);
void verify_gradients_free(struct verify_gradients *g);

qkv_status verify_attention(const struct verify_options *o, qkv_error *err);
qkv_status verify_backward(const struct verify_options *o, qkv_error *err);
qkv_status verify_linear(const struct verify_options *o, qkv_error *err);
qkv_status verify_dense(const struct verify_options *o);
qkv_status verify_convert(const struct verify_options *o, qkv_error *err);
#endif
