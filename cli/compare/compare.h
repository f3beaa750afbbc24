// SPDX-License-Identifier: MIT
// compare.h: declares the functions that the files of `qkv compare` share: the kinds of layers, one
// layer of each kind, measurements, printing.
#ifndef QKV_CLI_COMPARE_H
#define QKV_CLI_COMPARE_H

#include "frame/cmd.h"

// Sizes of one layer: n tokens of width d, which is H heads of width E; G key heads (a model may
// have fewer than H).
struct compare_shape {
    int64_t n, d, H, G, E, F;
    int64_t keys;  // number of keys that a query of a scalable kind may use
    int64_t width; // width of the convolution in tokens
    bool causal;
    float scale; // factor of the scores; 0: 1/sqrt(E)
};

// One layer, ready to run.
struct compare_layer {
    struct compare_shape s;
    const float *x, *q, *k, *v; // inputs, queries, keys, values, each [n][d]
    float *out;
    float *own[4]; // arrays that the layer owns: weights, random features and others
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
    // Printed formulas: cost of a layer, sequential steps, longest path
    const char *complexity, *steps, *path;
    // Whether the kind approximates attention; whether it has a causal form
    bool scalable, masked;
    double (*step_count)(const struct compare_shape *s);
    double (*path_length)(const struct compare_shape *s);
    // Sets own, of, bytes and operations of a layer.  Returns a status other than QKV_OK if the
    // layer cannot run.
    qkv_status (*make)(struct compare_layer *l);
    qkv_status (*run)(struct compare_layer *l);
};
// The kinds of layers; exact attention is the first
extern const struct compare_kind compare_baselines[];
enum { COMPARE_KINDS = 11, COMPARE_SIZES = 16 };

// ---- layers (compare_layer.c) ------------------------------------------------------------------
// Returns the sizes of a layer: heads of width 64 if d is a multiple of 64, otherwise one head of
// width d.
struct compare_shape compare_shape_of(int64_t n, int64_t d, int64_t keys, int64_t width,
                                      bool causal);
// Prepares a layer and allocates its scratch memory.  qkv: its arrays q, k and v, which it borrows;
// x is q.  Returns a status other than QKV_OK if the layer cannot run.
qkv_status compare_open(struct compare_layer *l, const struct compare_kind *kind,
                        const struct compare_shape *s, const float *const qkv[3]);
void compare_close(struct compare_layer *l);
// Allocates n normally distributed numbers with this standard deviation; the caller frees them with
// free().
float *compare_normal(int64_t n, double deviation, uint64_t seed);
// Returns the time in seconds: processor time if one thread runs, which other programs hardly
// affect; otherwise wall time.
double compare_now(void);

// ---- measurements (compare_measure.c) ----------------------------------------------------------
struct compare_point {
    qkv_status status; // status of the measurement; other than QKV_OK: the layer cannot run
    int kind, rounds;
    int64_t n, d;
    double best, median; // seconds
    double grown; // bytes that the scratch memory and the run add to the peak memory of the process
    double operations, steps, path;
};
struct compare_job {
    const int64_t *n, *d;
    int64_t n_count, d_count;
    bool wanted[COMPARE_KINDS];
    int64_t keys, width;
    bool causal;
    double seconds; // seconds to measure one point
};
// Checks that the largest layer fits into the memory of this machine; QKV_ERR_LIMIT: it does not.
qkv_status compare_fits(const struct compare_job *job, qkv_error *err);
// Measures the layers one after the other, each in a process of its own, and fills
// points[kinds][d][n] (row-major).
qkv_status compare_measure(struct compare_point *points, const struct compare_job *job,
                           qkv_error *err);
// Returns the point of a kind at sizes d and n; NULL: it was not measured, or the layer cannot run.
const struct compare_point *compare_at(const struct compare_point *points,
                                       const struct compare_job *job, int kind, int64_t d,
                                       int64_t n);

// Crossing of the times of two kinds, a and b: the size at which they take the same time,
// interpolated between two measured sizes on logarithmic axes.  along_d false: the size is n, at d
// number `fixed`; true: the size is d, at n number `fixed`.
struct compare_crossing {
    double at;    // size of the crossing; 0: the times do not cross
    bool faster;  // `a` is faster at the largest size that both have
    int64_t last; // largest size at which both kinds were measured; 0: there is no such size
    double ratio; // ratio of the times at that size
};
struct compare_crossing compare_cross(const struct compare_point *points,
                                      const struct compare_job *job, int a, int b, bool along_d,
                                      int64_t fixed);

// Measures dense and fused attention with one head of width d at the sizes n of the job.
// dense[i].status is QKV_ERR_LIMIT if that size does not fit into memory.
qkv_status compare_memory(struct compare_point *fused, struct compare_point *dense,
                          const struct compare_job *job, qkv_error *err);

// ---- errors relative to exact attention (compare_error.c) --------------------------------------
struct compare_error {
    int count;          // number of heads
    double mean, worst; // mean and largest relative error over the heads
};
// Measures errors[COMPARE_KINDS] on normally distributed q, k and v of n tokens of width d.  The
// count of a kind without an error is 0.
qkv_status compare_gaussian(struct compare_error *errors, const struct compare_job *job, int64_t n,
                            int64_t d, qkv_error *err);
// Text on which compare_model measures the errors, on the activations of every layer of a model.
struct compare_text {
    const char *text;
    int64_t tokens, layers, heads;
    char model[CMD_PATH];
};
qkv_status compare_model(struct compare_error *errors, struct compare_text *t,
                         const struct compare_job *job, qkv_error *err);

// ---- print (compare_print.c) -------------------------------------------------------------------
struct compare_report {
    const struct compare_job *job;
    const struct compare_point *points;
    const struct compare_error *gaussian; // NULL: not measured
    int64_t gaussian_n, gaussian_d;
    const struct compare_error *model; // NULL: not measured
    const struct compare_text *text;
};
void compare_print(const struct compare_report *r);
void compare_json(const struct compare_report *r);
void compare_print_memory(const struct compare_job *job, const struct compare_point *fused,
                          const struct compare_point *dense);
void compare_json_memory(const struct compare_job *job, const struct compare_point *fused,
                         const struct compare_point *dense);

// ---- charts (compare_chart.c): FILE.svg, .png or .html ------------------------------------------
qkv_status compare_chart(const char *path, const struct compare_report *r, qkv_error *err);
qkv_status compare_chart_memory(const char *path, const struct compare_job *job,
                                const struct compare_point *fused,
                                const struct compare_point *dense, qkv_error *err);
#endif
