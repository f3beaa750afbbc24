// SPDX-License-Identifier: MIT
// bench.h: declares the functions that the files of `qkv bench` share: shapes, arrays, timing, and
// the printing of results.
#ifndef QKV_CLI_BENCH_H
#define QKV_CLI_BENCH_H

#include "frame/cmd.h"
#include <time.h>

// ---- shapes (bench_shape.c) --------------------------------------------------------------------
enum { BENCH_NAME = 96, BENCH_SHAPES = 64 };
struct bench_shape {
    char name[BENCH_NAME];                      // the shape as the user wrote it
    int64_t B, T, S, H, G, E, F, R, K, N, L, P; // 0: absent
    // lengths from N to N_most are mixed (N20-54); N_most = N: all sequences have the same length
    int64_t N_most;
    // a query may attend to its own token and the window - 1 before it; 0: no window
    int64_t window;
    bool causal, gelu, forward, stream;
};
// The grammar of the shapes of a topic (`qkv bench TOPIC`).
struct bench_grammar {
    // letters: sizes that a shape may have; needs: sizes that it must have; words: words that it
    // may have, such as "causal window gelu"
    const char *letters, *needs, *words;
    bool ragged; // true: N20-54 means sequences of mixed lengths
};
// Parses a list of shapes, separated by ";", in the letters of the grammar (such as
// "R1 K384 N384;R32 K384 N384") into out[BENCH_SHAPES].  Returns QKV_ERR_USAGE if a shape is
// invalid; err quotes the wrong part.
qkv_status bench_shapes(struct bench_shape *out, int *count, const char *text,
                        const struct bench_grammar *g, qkv_error *err);
// Returns the length of sequence i if lengths are mixed.  All lengths from N to N_most occur, and
// adjacent sequences have different lengths.
int64_t bench_length(const struct bench_shape *s, int64_t i);

// ---- arrays (bench_arrays.c) -------------------------------------------------------------------
size_t bench_size(qkv_precision p); // returns the bytes of a number that is stored in precision p
// Returns QKV_ERR_LIMIT if `bytes` are more than the memory of this machine.
qkv_status bench_fits(const char *shape, double bytes, qkv_error *err);
// Computes the number of elements *out = a * b * c. Returns false if an array cannot have so many.
bool bench_count(int64_t *out, int64_t a, int64_t b, int64_t c);
// Allocates n random numbers of approximately normal distribution, with standard deviation
// `deviation`. The caller frees them with free().
void *bench_random(int64_t n, qkv_precision p, double deviation);
double bench_at(const void *x, qkv_precision p, int64_t i);
// Allocates memory that bench_read() reads, in large pages if the system has them.  The caller
// frees it with free().
void *bench_plain(size_t bytes);
// Reads the memory several times and returns the best rate, in bytes per second.  If it is small, a
// CPU cache contains it, as a cache contains the arrays of the measured work.
double bench_read(const void *plain, size_t bytes);
// Returns a pseudorandom number from 0 to n - 1. Every run of the program draws the same numbers.
int64_t bench_below(uint64_t *seed, int64_t n);

// ---- rounds (bench_rounds.c) -------------------------------------------------------------------
// Work whose speed is measured, alternating with measurements of the peak of the machine.
struct bench_work {
    qkv_status (*run)(void *ctx);
    // Measures the peak of the machine: `amount` per second. NULL: the peak is not known.
    double (*peak)(void *ctx);
    void *ctx;
    double amount; // number of operations or of bytes in one run
};
struct bench_times {
    int rounds;
    double best, median; // shortest and median time of one run, in seconds
    double spread;       // interquartile range of the times, as a fraction of the median
    double peak;         // median of the measured peaks
    // rate of the work divided by the peak measured just before and after; median over the rounds
    double of_peak;
    // fraction of its core that this process used; 0: not known, since it has several threads
    double core;
};
// Repeats the work for about `seconds` seconds and measures it.
qkv_status bench_rounds(struct bench_times *t, const struct bench_work *w, double seconds);
double bench_clock(clockid_t clock); // returns the time of a clock in seconds
double bench_now(void);              // returns the wall time in seconds

// ---- results (bench_print.c) -------------------------------------------------------------------
struct bench_result {
    const struct bench_shape *shape;
    const char *isa, *arithmetic; // instruction set and arithmetic of the kernel that ran
    struct bench_times times;
    // number of operations, bytes and tokens in one run; 0: does not apply
    double flops, bytes, tokens;
    double error; // error of the results; negative: not measured
    // true: this row is compared with the rate of plain memory reads, unlike other rows of the
    // table
    bool read;
};
enum bench_rate { BENCH_GFLOPS, BENCH_GBYTES, BENCH_TOKENS };
struct bench_table {
    // topic: name of the topic; error, moved: lines below the table that explain the columns with
    // the error and with the bytes that are moved
    const char *topic, *error, *moved;
    enum bench_rate rate;
    bool read;      // true: the peak is the rate of plain memory reads, in bytes per second
    int name_width; // width of the first column in characters
    int rows;       // number of rows printed so far
    // the smallest fraction of its core that the process used in any row; 0: not known
    double core;
    struct { // the measured peaks, which are printed below the table
        const char *isa, *arithmetic;
        bool read;
        double best, least;
    } peaks[8];
};
void bench_open(struct bench_table *t, const struct bench_shape *shapes, int count);
// Prints a row of the table.  Returns QKV_ERR_IO if the output is closed; the caller then skips the
// remaining measurements.
qkv_status bench_row(struct bench_table *t, const struct bench_result *r, qkv_error *err);
void bench_close(struct bench_table *t);
// Measures all shapes and prints a table of the results.  Before anything is printed, all shapes
// are checked.
qkv_status bench_all(struct bench_table *t, const struct bench_shape *shapes, int count,
                     double seconds, qkv_error *err,
                     qkv_status (*check)(const struct bench_shape *shape, qkv_error *err),
                     qkv_status (*one)(struct bench_table *t, const struct bench_shape *shape,
                                       double seconds, qkv_error *err));

// ---- topics ------------------------------------------------------------------------------------
struct bench_topic {
    const char *name;
    struct bench_grammar grammar;
    const char *shapes; // the shapes that are measured if the user gives none
    qkv_status (*run)(const struct bench_shape *shapes, int count, double seconds, qkv_error *err);
};
extern const struct bench_topic bench_attention, bench_attention_backward, bench_linear,
    bench_encoder, bench_decode, bench_memory, bench_probe, bench_search, bench_machines;
// Values of the options that only one topic has.
struct bench_given {
    const char *probe, *output;
    double rate;           // --predict: GFLOP/s of a rank; NaN: not given
    int64_t collect_limit; // --collect-limit: bytes; 0: not given
};
extern struct bench_given bench_given;

// Fills a with the attention of a shape: each sequence has N tokens, or T queries and S keys.  For
// mixed lengths, allocates *offsets, which the caller frees.
qkv_status bench_attention_of(struct qkv_attention *a, int64_t **offsets,
                              const struct bench_shape *s, qkv_error *err);
struct bench_numbers {
    int64_t q, k, v, out;
    double bytes;
};
// Counts the elements of q, k, v and out, and their bytes.  Returns QKV_ERR_LIMIT if an array
// cannot have so many.
qkv_status bench_attention_numbers(struct bench_numbers *n, const struct qkv_attention *a,
                                   const char *name, qkv_error *err);
// A query (batch item b, token t, head h) and its keys, from .. to - 1.
struct bench_query {
    int64_t b, t, h, from, to;
};
struct bench_query bench_query_of(const struct qkv_attention *a, int64_t b, int64_t t, int64_t h);
// Returns the largest difference between out and the formula of attention, computed in double for a
// sample of the rows.
double bench_attention_error(const struct qkv_attention *a, const void *out, const void *q,
                             const void *k, const void *v);

#endif
