// SPDX-License-Identifier: MIT
// bench.h: what the parts of `qkv bench` share: shapes, arrays, rounds, rows of results.
#ifndef QKV_CLI_BENCH_H
#define QKV_CLI_BENCH_H

#include "cmd.h"

// ---- shapes (bench_shape.c) --------------------------------------------------------------------
enum { BENCH_NAME = 96, BENCH_SHAPES = 64 };
struct bench_shape {
    char name[BENCH_NAME];                   // as written
    int64_t B, T, S, H, G, E, F, R, K, N, L; // 0: not given
    int64_t N_most;                          // N20-54: lengths from N to this; else as N
    int64_t window;                          // keys up to the query's own, 0: no window
    bool causal, gelu, forward, stream;
};
// The grammar of a topic: letters that take a number, words, and the letters that must be there.
struct bench_grammar {
    const char *letters, *needs, *words; // words: "causal window gelu", those it takes
    bool ragged;                         // N20-54: sequences of mixed lengths
};
// "A;B C" into out[BENCH_SHAPES]; QKV_ERR_USAGE names the part that is wrong.
qkv_status bench_shapes(struct bench_shape *out, int *count, const char *text,
                        const struct bench_grammar *g, qkv_error *err);
// Length of the i-th of many sequences of N to N_most tokens: all of them come, none beside its
// like.
int64_t bench_length(const struct bench_shape *s, int64_t i);

// ---- arrays (bench_arrays.c) -------------------------------------------------------------------
// Numbers as a precision stores them.
size_t bench_size(qkv_precision p); // bytes of one
// Refused when `bytes` would not fit into the memory of this machine.
qkv_status bench_room(const char *shape, double bytes, qkv_error *err);
// a b c as a number of elements; false: no such array can be.
bool bench_count(int64_t *out, int64_t a, int64_t b, int64_t c);
// n numbers, near enough to a normal distribution of this deviation; free() it.
void *bench_random(int64_t n, qkv_precision p, double deviation);
double bench_at(const void *x, qkv_precision p, int64_t i);
// bytes to read for comparison, in large pages where the system gives them; free() it.
void *bench_plain(size_t bytes);
// The best of some reads of them: what is small lies in a cache then, as what it is compared with.
double bench_read(const void *plain, size_t bytes);
// A number below n, the same in every run.
int64_t bench_below(uint64_t *seed, int64_t n);

// ---- rounds (bench_rounds.c) -------------------------------------------------------------------
// Work and the peak of the machine in turns.
struct bench_work {
    qkv_status (*run)(void *ctx);
    double (*peak)(void *ctx); // per second, as amount counts; NULL: none is known
    void *ctx;
    double amount; // operations or bytes of one run
};
struct bench_times {
    int rounds;
    double best, median; // seconds of one run
    double spread;       // the middle half of the rounds, as a share of the median
    double peak;         // median
    double of_peak;      // median over the rounds of what was reached of the peak beside it
    double core;         // share of its core that this process had; 0: more than one thread
};
// About `seconds` of it.
qkv_status bench_rounds(struct bench_times *t, const struct bench_work *w, double seconds);
double bench_now(void); // seconds

// ---- results (bench_print.c) -------------------------------------------------------------------
struct bench_result {
    const struct bench_shape *shape;
    const char *isa, *arithmetic; // what ran
    struct bench_times times;
    double flops, bytes, tokens; // of one run; 0: does not apply
    double error;                // < 0: none
    bool read;                   // compared with a read, though others of its table are not
};
enum bench_rate { BENCH_GFLOPS, BENCH_GBYTES, BENCH_TOKENS };
struct bench_table {
    const char *topic, *error, *moved; // what the last columns are, for the lines below the table
    enum bench_rate rate;
    bool read;      // the peak is a read, in bytes a second
    int name_width; // of the first column
    int rows;       // printed so far
    double core;    // least share of its core that the process had in a row; 0: not known
    struct {        // peaks met, for the lines below the table
        const char *isa, *arithmetic;
        bool read;
        double best, least;
    } peaks[8];
};
void bench_open(struct bench_table *t, const struct bench_shape *shapes, int count);
// QKV_ERR_IO: nobody reads it; what is left to measure would be for nothing.
qkv_status bench_row(struct bench_table *t, const struct bench_result *r, qkv_error *err);
void bench_close(struct bench_table *t);
// A table of all shapes.  Each is checked before anything is printed, then measured by one.
qkv_status bench_all(struct bench_table *t, const struct bench_shape *shapes, int count,
                     double seconds, qkv_error *err,
                     qkv_status (*check)(const struct bench_shape *shape, qkv_error *err),
                     qkv_status (*one)(struct bench_table *t, const struct bench_shape *shape,
                                       double seconds, qkv_error *err));

// ---- topics ------------------------------------------------------------------------------------
struct bench_topic {
    const char *name;
    struct bench_grammar grammar;
    const char *shapes; // when none is given
    qkv_status (*run)(const struct bench_shape *shapes, int count, double seconds, qkv_error *err);
};
extern const struct bench_topic bench_attention, bench_attention_backward, bench_linear,
    bench_encoder, bench_decode, bench_memory, bench_probe;
// Options that one topic reads.
struct bench_given {
    const char *probe, *output;
};
extern struct bench_given bench_given;

// The attention of a shape with N tokens (or T and S) of each sequence; offsets (free it) are made
// for ragged lengths.
qkv_status bench_attention_of(struct qkv_attention *a, int64_t **offsets,
                              const struct bench_shape *s, qkv_error *err);
// Numbers in q, k, v, out, and their bytes together; QKV_ERR_LIMIT: no array has so many.
struct bench_numbers {
    int64_t q, k, v, out;
    double bytes;
};
qkv_status bench_attention_numbers(struct bench_numbers *n, const struct qkv_attention *a,
                                   const char *name, qkv_error *err);
// A query, batch item b, token t of all, head h, and the keys from .. to-1 of all that it sees.
struct bench_query {
    int64_t b, t, h, from, to;
};
struct bench_query bench_query_of(const struct qkv_attention *a, int64_t b, int64_t t, int64_t h);
// Largest distance of out from the formula in double, over rows chosen from all of them.
double bench_attention_error(const struct qkv_attention *a, const void *out, const void *q,
                             const void *k, const void *v);

#endif
