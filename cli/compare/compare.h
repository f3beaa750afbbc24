// SPDX-License-Identifier: MIT
// compare.h: declares the functions that the files of `qkv compare` share: the kinds of layers
// (attention and its baselines), measurements, and printing.
#ifndef QKV_CLI_COMPARE_H
#define QKV_CLI_COMPARE_H

#include "frame/arrays.h"

// Sizes of one layer: n tokens of width d = H heads of width E; G key heads (G < H if query heads
// share key heads).
struct compare_shape {
    int64_t n, d, H, G, E, F;
    int64_t S;     // number of keys: n, except on arrays of the caller
    int64_t keys;  // for approximations of attention: number of keys that a query may use
    int64_t width; // number of tokens that the convolution combines
    bool causal;
    float scale; // factor of the scores; 0: 1/sqrt(E)
};

// One layer with its inputs and memory, ready to run.
struct compare_layer {
    struct compare_shape s;
    bool counted;               // operations are counted, and no array is allocated
    const float *x, *q, *k, *v; // [n][d] inputs, queries, keys, values
    float *out;
    float *own[4]; // arrays that the layer owns, such as weights or random features
    void *scratch;
    size_t bytes; // bytes of scratch
    double operations;
    union {
        struct qkv_attention attention;
        struct {
            struct qkv_multi_head m;
            struct qkv_attention a;
        } heads;
        struct qkv_convolution convolution;
        struct qkv_recurrence recurrence;
        struct qkv_block_sparse sparse;
        struct qkv_linear_attention linear;
        struct qkv_linformer linformer;
        struct qkv_nystrom nystrom;
    } of;
};

struct compare_kind {
    const char *name, *title;
    // formulas as printed: cost of a layer, number of sequential steps, length of the longest path
    const char *complexity, *steps, *path;
    // scalable: the kind approximates attention; masked: it can be causal
    bool scalable, masked;
    double (*step_count)(const struct compare_shape *s);
    double (*path_length)(const struct compare_shape *s);
    // Makes a layer: sets own, bytes and operations, and the description in `of`.  Returns another
    // status than QKV_OK if the layer cannot run.
    qkv_status (*make)(struct compare_layer *l);
    qkv_status (*run)(struct compare_layer *l);
};
// The kinds of layers. The first is exact attention.
extern const struct compare_kind compare_baselines[];
enum { COMPARE_KINDS = 11, COMPARE_SIZES = 16 };

// ---- layers (compare_layer.c) ------------------------------------------------------------------
// Returns the sizes of a layer. Heads have width 64 if d is a multiple of 64; if not, there is one
// head of width d.
struct compare_shape compare_shape_of(int64_t n, int64_t d, int64_t keys, int64_t width,
                                      bool causal);
// Returns the number of keys that a query may use on S keys if no option says it: 256, or a quarter
// of the keys of a short text. If it could use all, no approximation would have an error.
int64_t compare_few_keys(int64_t S);
// Prepares a layer: its plan, its weights and the array of its output.  qkv: arrays q, k and v,
// which the caller owns; x is q too. NULL: the plan only. Returns another status than QKV_OK if the
// layer cannot run.
qkv_status compare_open(struct compare_layer *l, const struct compare_kind *kind,
                        const struct compare_shape *s, const float *const qkv[3]);
// Points the layer to the q, k and v of one item of a batch.
void compare_select(struct compare_layer *l, const float *const qkv[3], int64_t item);
void compare_close(struct compare_layer *l);
// Allocates n normally distributed numbers with standard deviation `deviation`. The caller frees
// them with free().
float *compare_normal(int64_t n, double deviation, uint64_t seed);
// Returns the time in seconds. It is processor time if one thread runs, because other programs
// hardly affect it; with several threads, it is wall time.
double compare_now(void);

// ---- measurements (compare_measure.c) ----------------------------------------------------------
struct compare_point {
    qkv_status status; // QKV_OK, or why the layer could not be measured
    int kind, rounds;
    int64_t n, d;
    double best, median; // seconds
    double grown;        // bytes by which scratch and the run raised the peak memory of the process
    double operations, steps, path;
};
struct compare_job {
    const struct compare_arrays *arrays; // q, k and v of the caller; NULL: random numbers
    const int64_t *n, *d;
    int64_t n_count, d_count;
    bool wanted[COMPARE_KINDS];
    int64_t keys, width;
    bool causal;
    bool counted;   // operations, steps and path are counted, and nothing is measured
    double seconds; // how long one point is measured, in seconds
};
// Returns the sizes of the layers at n tokens of width d, or on the arrays of the job.
struct compare_shape compare_job_shape(const struct compare_job *job, int64_t n, int64_t d);
// Checks that arrays of the largest layer that runs fit into the memory of this machine. Returns
// QKV_ERR_LIMIT if not.
qkv_status compare_fits(const struct compare_job *job, qkv_error *err);
// Measures all kinds of layers, each in a child process, one after the other; or counts their
// operations in this process. Fills points[kinds][d][n].
qkv_status compare_measure(struct compare_point *points, const struct compare_job *job,
                           qkv_error *err);
// Returns the measurement of a kind at sizes d and n; NULL: the layer was not measured or cannot
// run.
const struct compare_point *compare_at(const struct compare_point *points,
                                       const struct compare_job *job, int kind, int64_t d,
                                       int64_t n);

// The size at which two kinds of layers, a and b, take the same time, interpolated between two
// measured sizes on logarithmic axes.  along_d false: the size is n, at the `fixed`-th d; along_d
// true: the size is d, at the `fixed`-th n.
struct compare_crossing {
    double at;    // the size; 0: the curves of their times do not cross
    bool faster;  // true: `a` is faster at the size `last`
    int64_t last; // largest size at which both kinds were measured; 0: there is no such size
    double ratio; // ratio of their times at the size `last`
};
struct compare_crossing compare_cross(const struct compare_point *points,
                                      const struct compare_job *job, int a, int b, bool along_d,
                                      int64_t fixed);

// Measures two implementations of attention, dense and fused, with one head of width d, at all
// sizes n of the job. dense[i].status is QKV_ERR_LIMIT if dense attention of that size does not fit
// into memory.
qkv_status compare_memory(struct compare_point *fused, struct compare_point *dense,
                          const struct compare_job *job, qkv_error *err);

// ---- arrays of the caller (compare_arrays.c) ----------------------------------------------------
struct compare_arrays {
    struct array q, k, v;
    struct array_sizes s;
};
// Reads q, k and v as `qkv attn` does, and checks that their sizes agree and their numbers are
// finite. The caller zeroes *a before, and frees it also after an error.
qkv_status compare_arrays_read(struct compare_arrays *a, const char *const paths[3],
                               qkv_error *err);
void compare_arrays_free(struct compare_arrays *a);

// ---- inputs of the errors (compare_inputs.c) ----------------------------------------------------
// Queries, keys and values with one kind of structure.
struct compare_input {
    const char *name, *title;
    const char *kinds; // the kinds of layers that are made for this structure
    // Fills q, k and v, [n][H][E] each.
    void (*make)(float *const qkv[3], const struct compare_shape *s);
};
enum { COMPARE_INPUTS = 4 };
// The first has no structure: normally distributed numbers.
extern const struct compare_input compare_inputs[COMPARE_INPUTS];

// ---- errors of approximations (compare_error.c) ------------------------------------------------
struct compare_error {
    int count;          // number of heads; 0: the kind has no error
    double mean, worst; // mean and largest relative error over the heads
};
// The errors on some q, k and v.
struct compare_errors {
    struct compare_error kind[COMPARE_KINDS]; // a kind that is no approximation has count 0
    // the error of the mean of the values that a query may attend to; an output of 0 has error 1
    struct compare_error average;
};
// Returns the number of tokens at which errors are measured. At this n every kind of layer
// is fast, and every approximation differs from exact attention.
int64_t compare_error_tokens(const struct compare_job *job);
// Measures the errors of all kinds on the arrays of the job: over the heads of all items. Returns
// QKV_ERR_FORMAT if exact attention overflows.
qkv_status compare_on_arrays(struct compare_errors *errors, const struct compare_job *job,
                             qkv_error *err);
// Measures the errors of all kinds on each of the inputs (n tokens, width d).
qkv_status compare_on_inputs(struct compare_errors errors[COMPARE_INPUTS],
                             const struct compare_job *job, int64_t n, int64_t d, qkv_error *err);
// The text on which compare_model() runs a model, to measure the errors on the q, k and v of its
// layers.
struct compare_text {
    const char *text;
    int64_t tokens, layers, heads;
    char model[CMD_PATH];
};
qkv_status compare_model(struct compare_errors *errors, struct compare_text *t,
                         const struct compare_job *job, qkv_error *err);

// ---- print (compare_print.c) -------------------------------------------------------------------
struct compare_report {
    const struct compare_job *job;
    const struct compare_point *points;
    const struct compare_errors
        *inputs; // [COMPARE_INPUTS] errors on each input; NULL: not measured
    int64_t inputs_n, inputs_d;
    const struct compare_errors *model; // errors on the q, k and v of a model; NULL: not measured
    const struct compare_text *text;
    const struct compare_errors *arrays; // errors on the arrays of the job; NULL: not measured
};
void compare_print(const struct compare_report *r);
void compare_json(const struct compare_report *r);
void compare_print_arrays(const struct compare_report *r);
void compare_json_arrays(const struct compare_report *r);
void compare_print_memory(const struct compare_job *job, const struct compare_point *fused,
                          const struct compare_point *dense);
void compare_json_memory(const struct compare_job *job, const struct compare_point *fused,
                         const struct compare_point *dense);

// ---- charts (compare_chart.c): FILE.svg, .png or .html ------------------------------------------
qkv_status compare_chart(const char *path, const struct compare_report *r, qkv_error *err);
// Draws the operations over n, for each d and, if there are any, the errors on a model.
qkv_status compare_chart_counts(const char *path, const struct compare_report *r, qkv_error *err);
// Draws the errors on the arrays of the job, and the times or, if counted, the operations.
qkv_status compare_chart_arrays(const char *path, const struct compare_report *r, qkv_error *err);
qkv_status compare_chart_memory(const char *path, const struct compare_job *job,
                                const struct compare_point *fused,
                                const struct compare_point *dense, qkv_error *err);
#endif
