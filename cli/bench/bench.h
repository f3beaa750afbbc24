// SPDX-License-Identifier: MIT
// bench.h: declares the functions that the files of `qkv bench` share: parsing of shapes, arrays,
// timing, printing of results.
#ifndef QKV_CLI_BENCH_H
#define QKV_CLI_BENCH_H

#include "frame/cmd.h"

// ---- shapes (bench_shape.c) --------------------------------------------------------------------
enum { BENCH_NAME = 96, BENCH_SHAPES = 64 };
struct bench_shape {
    char name[BENCH_NAME];                   // shape as the user wrote it
    int64_t B, T, S, H, G, E, F, R, K, N, L; // 0: absent
    // Largest length of mixed lengths (N20-54); otherwise equal to N
    int64_t N_most;
    int64_t window; // how many keys up to its own position a query may attend to; 0: no window
    bool causal, gelu, forward, stream;
};
// The grammar of the shapes of a topic: letters with a number, letters that are required, words.
struct bench_grammar {
    // Letters that take a number, letters that are required, words such as "causal window gelu"
    const char *letters, *needs, *words;
    bool ragged; // N20-54: sequences of mixed lengths
};
// Parses shapes such as "A;B C" into out[BENCH_SHAPES].  QKV_ERR_USAGE: err names the wrong part of
// the text.
qkv_status bench_shapes(struct bench_shape *out, int *count, const char *text,
                        const struct bench_grammar *g, qkv_error *err);
// Returns the length of sequence i, for sequences of mixed lengths of N to N_most tokens: every
// length occurs, and adjacent sequences have different lengths.
int64_t bench_length(const struct bench_shape *s, int64_t i);

// ---- arrays (bench_arrays.c) -------------------------------------------------------------------
size_t bench_size(qkv_precision p); // bytes of one number in the type that precision p stores
// Returns QKV_ERR_LIMIT if `bytes` do not fit into the memory of this machine.
qkv_status bench_fits(const char *shape, double bytes, qkv_error *err);
// Computes *out = a * b * c, a number of array elements; false: an array cannot have so many.
bool bench_count(int64_t *out, int64_t a, int64_t b, int64_t c);
// Allocates n random numbers, close to a normal distribution with standard deviation `deviation`;
// the caller frees them with free().
void *bench_random(int64_t n, qkv_precision p, double deviation);
double bench_at(const void *x, qkv_precision p, int64_t i);
// Allocates an array that is only read, for a comparison with plain memory reads; in large pages
// where available.  The caller frees it with free().
void *bench_plain(size_t bytes);
// Returns the best rate in bytes per second of several reads of an array.  A small array is then in
// a cache, like the arrays of the measured work.
double bench_read(const void *plain, size_t bytes);
// Returns a pseudorandom number below n, the same in every run.
int64_t bench_below(uint64_t *seed, int64_t n);

// ---- rounds (bench_rounds.c) -------------------------------------------------------------------
// Work to measure in turns with the peak of the machine.
struct bench_work {
    qkv_status (*run)(void *ctx);
    // Measures the peak of the machine per second, in the unit of `amount`; NULL: the peak is not
    // known
    double (*peak)(void *ctx);
    void *ctx;
    double amount; // operations or bytes of one run
};
struct bench_times {
    int rounds;
    double best, median; // best and median time of one run in seconds
    double spread;       // width of the middle half of the rounds, as a fraction of the median time
    double peak;         // median of the measured peaks
    double of_peak;      // rate as a fraction of the adjacent peaks, median over the rounds
    double core;         // fraction of its core that this process had; 0: more than one thread
};
// Measures the work for about `seconds` seconds.
qkv_status bench_rounds(struct bench_times *t, const struct bench_work *w, double seconds);
double bench_now(void); // returns the wall time in seconds

// ---- results (bench_print.c) -------------------------------------------------------------------
struct bench_result {
    const struct bench_shape *shape;
    const char *isa, *arithmetic; // instruction set and arithmetic that the kernel used
    struct bench_times times;
    double flops, bytes, tokens; // operations, bytes and tokens of one run; 0: not applicable
    double error;                // error of the results; < 0: not measured
    // Whether the rate of this row is compared with a plain memory read, although other rows of the
    // table are not
    bool read;
};
enum bench_rate { BENCH_GFLOPS, BENCH_GBYTES, BENCH_TOKENS };
struct bench_table {
    // Name of the topic; explanations of the columns "error" and "moved", printed below the table
    const char *topic, *error, *moved;
    enum bench_rate rate;
    bool read;      // whether the peak is a plain read, in bytes per second
    int name_width; // width of the first column in characters
    int rows;       // rows printed so far
    double core;    // smallest fraction of its core that the process had during a row; 0: not known
    struct {        // peaks measured, for the lines below the table
        const char *isa, *arithmetic;
        bool read;
        double best, least;
    } peaks[8];
};
void bench_open(struct bench_table *t, const struct bench_shape *shapes, int count);
// Prints a row of the table.  Returns QKV_ERR_IO if the output is closed, so that the caller skips
// the remaining measurements.
qkv_status bench_row(struct bench_table *t, const struct bench_result *r, qkv_error *err);
void bench_close(struct bench_table *t);
// Measures all shapes and prints their table.  All shapes are checked before anything is printed.
qkv_status bench_all(struct bench_table *t, const struct bench_shape *shapes, int count,
                     double seconds, qkv_error *err,
                     qkv_status (*check)(const struct bench_shape *shape, qkv_error *err),
                     qkv_status (*one)(struct bench_table *t, const struct bench_shape *shape,
                                       double seconds, qkv_error *err));

// ---- topics ------------------------------------------------------------------------------------
struct bench_topic {
    const char *name;
    struct bench_grammar grammar;
    const char *shapes; // shapes that are measured by default
    qkv_status (*run)(const struct bench_shape *shapes, int count, double seconds, qkv_error *err);
};
extern const struct bench_topic bench_attention, bench_attention_backward, bench_linear,
    bench_encoder, bench_decode, bench_memory, bench_probe;
// Values of options that apply to one topic only.
struct bench_given {
    const char *probe, *output;
};
extern struct bench_given bench_given;

// Fills a with the attention of a shape: each sequence has N tokens (or T queries and S keys).  For
// mixed lengths it allocates offsets, which the caller frees.
qkv_status bench_attention_of(struct qkv_attention *a, int64_t **offsets,
                              const struct bench_shape *s, qkv_error *err);
// Counts the numbers in q, k, v and out, and their bytes.  QKV_ERR_LIMIT: an array cannot have so
// many.
struct bench_numbers {
    int64_t q, k, v, out;
    double bytes;
};
qkv_status bench_attention_numbers(struct bench_numbers *n, const struct qkv_attention *a,
                                   const char *name, qkv_error *err);
// A query (batch item b, token t, head h) and the range [from, to) of its keys.
struct bench_query {
    int64_t b, t, h, from, to;
};
struct bench_query bench_query_of(const struct qkv_attention *a, int64_t b, int64_t t, int64_t h);
// Returns the largest difference between out and the formula computed in double, over a sample of
// the rows.
double bench_attention_error(const struct qkv_attention *a, const void *out, const void *q,
                             const void *k, const void *v);

#endif
