// SPDX-License-Identifier: MIT
// bench_rounds.c: work and peak in turns, until the time is used.
//
// A round is peak, work, peak (the last of one is the first of the next): a clock that changes
// changes for both, and "of peak" compares what stood side by side.  Short work is repeated until a
// turn is long enough for the clock to be read beside it.
//
// Times are those of the clock on the wall.  "Of peak" takes those of the processor where one
// thread runs, as the peaks do: it says what the kernel is worth also while other programs take
// their part.
#include <stdlib.h>
#include <time.h>
#include "bench.h"

enum { ROUNDS = 1000, FEWEST = 5 };
static const double turn = 0.02; // seconds of work at least, between two looks at the clock

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Element at `share` of the way through x[n] in order.
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
    const double start = bench_now(), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double own = 0;                // of one run, by the clock of the processor
    qkv_status s = w->run(w->ctx); // pages, caches, threads
    double once = bench_now() - start;
    if (!s && once < seconds) { // else this one counts: there is no time for a second
        const double second = bench_now();
        s = w->run(w->ctx);
        once = bench_now() - second;
    } else {
        own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    }
    if (s) return s;
    const int64_t repeat = once < turn ? (int64_t)(turn / (once > 1e-9 ? once : 1e-9)) + 1 : 1;
    *t = (struct bench_times){ .rounds = 0 };
    peaks[0] = peak(w);
    while (t->rounds < ROUNDS) {
        const int i = t->rounds++;
        if (once >= seconds) {
            times[i] = once;
        } else {
            const double begin = bench_now(), before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
            for (int64_t j = 0; j < repeat && !s; j++) s = w->run(w->ctx);
            if (s) return s;
            own = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before) / (double)repeat;
            times[i] = (bench_now() - begin) / (double)repeat;
        }
        peaks[i + 1] = peak(w);
        const double beside = (peaks[i] + peaks[i + 1]) / 2;
        const double took = alone && own > 0 ? own : times[i];
        parts[i] = beside > 0 && took > 0 ? w->amount / took / beside : 0;
        if (bench_now() - start >= seconds && (t->rounds >= FEWEST || once >= seconds)) break;
    }
    // threads that wait for each other use less, too: only one alone says what others took
    if (alone) t->core = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used) / (bench_now() - start);
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
