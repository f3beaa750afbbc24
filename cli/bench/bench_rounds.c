// SPDX-License-Identifier: MIT
// bench_rounds.c: measures work and the peak of the machine alternately, until the time is used up.
//
// A round measures the peak, the work, and the peak again; the last peak of a round is the first of
// the next. A change of the clock frequency affects both, and "of peak" compares the work with the
// peaks just before and after it.  Short work is repeated until it takes long enough for the clock.
//
// Times are wall times.  If one thread runs, "of peak" uses processor times for the work and the
// peaks, because they are correct even while other programs use the processor.
#include <stdlib.h>
#include "bench/bench.h"

enum { ROUNDS = 1000, FEWEST = 5 };
static const double turn = 0.02; // minimum seconds of work between two readings of the clock

double bench_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void)
{
    return bench_clock(CLOCK_MONOTONIC);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Returns a quantile of x[n], which is sorted. share: 0 the minimum, .5 the median, 1 the maximum.
static double quantile(const double *x, int n, double share)
{
    return x[(int)(share * (n - 1) + 0.5)];
}

static double peak(const struct bench_work *w)
{
    return w->peak ? w->peak(w->ctx) : 0;
}

qkv_status bench_rounds(struct bench_times *t, const struct bench_work *w, double seconds)
{
    static double times[ROUNDS], peaks[ROUNDS + 1], parts[ROUNDS];
    const bool alone = qkv_threads() == 1;
    const double start = bench_now(), used = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
    double own = 0; // processor time of one run in seconds
    // The first run allocates memory pages, fills caches and starts threads. It does not count,
    // unless it took all of the time.
    qkv_status status = w->run(w->ctx);
    double once = bench_now() - start;
    if (!status && once < seconds) {
        const double second = bench_now();
        status = w->run(w->ctx);
        once = bench_now() - second;
    } else {
        own = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - used;
    }
    if (status) return status;
    const int64_t repeat = once < turn ? (int64_t)(turn / (once > 1e-9 ? once : 1e-9)) + 1 : 1;
    *t = (struct bench_times){ .rounds = 0 };
    peaks[0] = peak(w);
    while (t->rounds < ROUNDS) {
        const int i = t->rounds++;
        if (once >= seconds) {
            times[i] = once;
        } else {
            const double begin = bench_now(), before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
            for (int64_t j = 0; j < repeat && !status; j++) status = w->run(w->ctx);
            if (status) return status;
            own = (bench_clock(CLOCK_PROCESS_CPUTIME_ID) - before) / (double)repeat;
            times[i] = (bench_now() - begin) / (double)repeat;
        }
        peaks[i + 1] = peak(w);
        const double peak = (peaks[i] + peaks[i + 1]) / 2;
        const double took = alone && own > 0 ? own : times[i];
        parts[i] = peak > 0 && took > 0 ? w->amount / took / peak : 0;
        if (bench_now() - start >= seconds && (t->rounds >= FEWEST || once >= seconds)) break;
    }
    // The fraction of a core is only measured for one thread. If there are several, they also wait
    // for one another, which looks like other programs using the cores.
    if (alone) t->core = (bench_clock(CLOCK_PROCESS_CPUTIME_ID) - used) / (bench_now() - start);
    qsort(times, (size_t)t->rounds, sizeof *times, by_size);
    qsort(parts, (size_t)t->rounds, sizeof *parts, by_size);
    qsort(peaks, (size_t)t->rounds + 1, sizeof *peaks, by_size);
    t->best = times[0];
    t->median = quantile(times, t->rounds, 0.5);
    t->spread = (quantile(times, t->rounds, 0.75) - quantile(times, t->rounds, 0.25)) / t->median;
    t->peak = quantile(peaks, t->rounds + 1, 0.5);
    t->of_peak = quantile(parts, t->rounds, 0.5);
    return QKV_OK;
}
