// SPDX-License-Identifier: MIT
// compare.h: what the parts of `qkv compare` share: the kinds, one layer of each, what was
// measured.
#ifndef QKV_CLI_COMPARE_H
#define QKV_CLI_COMPARE_H

#include "cmd.h"

// Sizes of one layer: n tokens, d = H heads of E; G key heads (a model's may be fewer).
struct compare_shape {
    int64_t n, d, H, G, E, F;
    int64_t keys;  // what a query of a scalable kind costs, in keys
    int64_t width; // of the convolution
    bool causal;
    float scale; // 0: 1/sqrt(E)
};

// One layer, ready to run.
struct compare_layer {
    struct compare_shape s;
    const float *x, *q, *k, *v; // [n][d]
    float *out;
    float *own[4]; // weights, random features, ...
    void *scratch;
    size_t bytes; // of scratch
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
    const char *complexity, *steps, *path; // as the notes write them
    bool scalable, masked;                 // attention that is not exact; one that can be causal
    double (*step_count)(const struct compare_shape *s);
    double (*path_length)(const struct compare_shape *s);
    // Fills own, of, bytes and operations; QKV_OK, or why it cannot.
    qkv_status (*make)(struct compare_layer *l);
    qkv_status (*run)(struct compare_layer *l);
};
extern const struct compare_kind compare_kinds[]; // exact attention is the first
enum { COMPARE_KINDS = 11, COMPARE_SIZES = 16 };

// ---- layers (compare_layer.c) ------------------------------------------------------------------
// Heads of 64 where d has them, one of d else.
struct compare_shape compare_shape_of(int64_t n, int64_t d, int64_t keys, int64_t width,
                                      bool causal);
// Ready to run on x = q, k, v, which it borrows; scratch is taken.  Other than QKV_OK: refused.
qkv_status compare_open(struct compare_layer *l, const struct compare_kind *kind,
                        const struct compare_shape *s, const float *const qkv[3]);
void compare_close(struct compare_layer *l);
float *compare_normal(int64_t n, double deviation, uint64_t seed); // numbers; free() them
// Seconds: of the processor where one thread works, so that other programs hardly count; else of
// the clock on the wall.
double compare_now(void);

// ---- what was measured (compare_measure.c) -----------------------------------------------------
struct compare_point {
    qkv_status status; // other than QKV_OK: it cannot be
    int kind, rounds;
    int64_t n, d;
    double best, median; // seconds
    double grown;        // bytes of the process's peak, by scratch and run
    double operations, steps, path;
};
struct compare_job {
    const int64_t *n, *d;
    int64_t n_count, d_count;
    bool wanted[COMPARE_KINDS];
    int64_t keys, width;
    bool causal;
    double seconds; // of a point
};
// QKV_ERR_LIMIT: the largest size does not fit into this machine.
qkv_status compare_room(const struct compare_job *job, qkv_error *err);
// One after the other, each in a process of its own; points[kinds][d][n] row by row.
qkv_status compare_measure(struct compare_point *points, const struct compare_job *job,
                           qkv_error *err);
// Of what compare_measure filled; NULL: it was not wanted, or could not be.
const struct compare_point *compare_at(const struct compare_point *points,
                                       const struct compare_job *job, int kind, int64_t d,
                                       int64_t n);

// Where the times of two kinds cross, between two sizes that were measured: interpolated on
// logarithms.  Along n at the fixed-th d; or along d, at the fixed-th n.
struct compare_crossing {
    double at;    // 0: nowhere
    bool faster;  // `a` is, at the largest size that both have
    int64_t last; // that size; 0: none
    double ratio; // of the times there
};
struct compare_crossing compare_cross(const struct compare_point *points,
                                      const struct compare_job *job, int a, int b, bool along_d,
                                      int64_t fixed);

// Dense against fused attention, a head of d: sizes n of job.  dense[i].status QKV_ERR_LIMIT: it
// does not fit.
qkv_status compare_memory(struct compare_point *fused, struct compare_point *dense,
                          const struct compare_job *job, qkv_error *err);

// ---- errors beside exact attention (compare_error.c) -------------------------------------------
struct compare_error {
    int count;          // heads
    double mean, worst; // relative, over heads
};
// errors[COMPARE_KINDS] of normally distributed numbers, n tokens, d wide; count 0: there is none.
qkv_status compare_gaussian(struct compare_error *errors, const struct compare_job *job, int64_t n,
                            int64_t d, qkv_error *err);
// ... of what every layer of a model computes on a text.
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
    const struct compare_error *gaussian; // NULL: none
    int64_t gaussian_n, gaussian_d;
    const struct compare_error *model; // NULL: none
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
