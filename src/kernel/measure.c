// SPDX-License-Identifier: MIT
// measure.c: measures the peak arithmetic rate and read bandwidth of this machine; the measured
// loops are the kernels peak and peak_read (kernel.h).
#include <qkv/measure.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include "kernel/kernel.h"

// Maps the name that kernels give their arithmetic to the unit that computes it, and to the number
// of products on this unit that one product of the kernel requires.
static const struct {
    const char *name;
    enum qkv_unit unit;
    int products;
} arithmetics[] = {
    { "float", QKV_UNIT_FLOAT, 1 },
    { "bf16 as float", QKV_UNIT_FLOAT, 1 },
    { "f16 as float", QKV_UNIT_FLOAT, 1 },
    { "int8 as float", QKV_UNIT_FLOAT, 1 },
    { "bf16 pairs", QKV_UNIT_BF16_PAIRS, 1 },
    { "bf16 tiles", QKV_UNIT_BF16_TILES, 1 },
    { "three bf16 products", QKV_UNIT_BF16_TILES, 3 },
    { "six bf16 products", QKV_UNIT_BF16_TILES, 6 },
    { "int8 as int32", QKV_UNIT_INT8, 1 },
    { "int16 pairs", QKV_UNIT_INT8, 1 },
    { "int8 pairs", QKV_UNIT_INT8, 1 },
    { "int16 dot", QKV_UNIT_INT8, 2 }, // of the unit of "int8 dot", which adds four products
    { "int8 dot", QKV_UNIT_INT8, 1 },
    { "int8 tiles", QKV_UNIT_INT8_TILES, 1 },
};

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct spin {
    int64_t (*peak)(real *keep, int64_t turns);
    double seconds;
    double rate[QKV_THREADS_MAX]; // operations per second of each thread
    _Atomic int kept; // receives a result of the loops, so that the compiler cannot remove them
};

static void spin(void *ctx, int64_t i, int thread)
{
    struct spin *s = ctx;
    real keep = (real)i;
    (void)thread;
    int64_t turns = 64, done = 0;
    s->peak(&keep, turns); // runs once before the measurement, to warm up the unit
    // The CPU time of the thread does not include the time that other programs use.
    const double start = now(CLOCK_THREAD_CPUTIME_ID);
    double end = start;
    for (; end - start < s->seconds || !done; end = now(CLOCK_THREAD_CPUTIME_ID)) {
        done += s->peak(&keep, turns);
        if (turns < 1 << 14) turns *= 2;
    }
    if (keep < 0) atomic_fetch_add(&s->kept, 1);
    s->rate[i] = end > start ? (double)done / (end - start) : 0;
}

double qkv_measure_peak(const char *arithmetic, double seconds)
{
    const size_t n = sizeof arithmetics / sizeof *arithmetics;
    size_t i = 0;
    while (i < n && (!arithmetic || strcmp(arithmetics[i].name, arithmetic) != 0)) i++;
    if (i == n) return 0;
    struct spin s = { .peak = qkv_kernel()->peak[arithmetics[i].unit],
                      .seconds = seconds > 60 ? 60 : seconds };
    if (!s.peak) return 0;
    const int threads = qkv_threads();
    double sum = 0;
    qkv_parallel_for(threads, spin, &s);
    for (int t = 0; t < threads; t++) sum += s.rate[t];
    return sum / arithmetics[i].products;
}

struct reading {
    const char *data;
    size_t bytes, piece, streams;
    _Atomic int kept;
};

static void read_piece(void *ctx, int64_t i, int thread)
{
    struct reading *r = ctx;
    const size_t at = (size_t)i * r->piece;
    (void)thread;
    if (at >= r->bytes) return;
    const size_t left = r->bytes - at, n = left < r->piece ? left : r->piece;
    if (qkv_kernel()->peak_read(r->data + at, n, r->streams) < 0) atomic_fetch_add(&r->kept, 1);
}

// Returns the seconds of reading data[bytes] once in `streams` streams per thread.
static double read_seconds(const char *data, size_t bytes, size_t streams)
{
    const size_t threads = (size_t)qkv_threads();
    struct reading r = { .data = data,
                         .bytes = bytes,
                         .piece = qkv_round_up(bytes / threads + 1, 4096),
                         .streams = streams };
    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double start = now(clock);
    qkv_parallel_for((int64_t)threads, read_piece, &r);
    return now(clock) - start;
}

double qkv_measure_read(const void *data, size_t bytes)
{
    // Some CPUs read one stream fastest, others several: each quarter measures one number.
    static const size_t streams[] = { 1, 2, 4, 8 };
    const size_t ways = sizeof streams / sizeof *streams, part = bytes / ways / 64 * 64;
    double best = 0;
    if (!data) return 0;
    for (size_t i = 0; i < ways; i++) {
        const size_t n = i + 1 < ways ? part : bytes - i * part;
        const double took = n ? read_seconds((const char *)data + i * part, n, streams[i]) : 0;
        if (took > 0 && (double)n / took > best) best = (double)n / took;
    }
    return best;
}
