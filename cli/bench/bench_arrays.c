// SPDX-License-Identifier: MIT
// bench_arrays.c: makes arrays of random numbers, stored in a given precision.
#define _DEFAULT_SOURCE // madvise
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench/bench.h"

size_t bench_size(qkv_precision p)
{
    return qkv_dtype_size(qkv_precision_type(p));
}

qkv_status bench_fits(const char *shape, double bytes, qkv_error *err)
{
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (have <= 0 || bytes <= 0.9 * have) return QKV_OK;
    return cmd_error(err, QKV_ERR_LIMIT, NULL,
                     "%s: the arrays require %.3g GB, expected at most %.3g GB (nine tenths of "
                     "this machine's memory)",
                     shape, bytes * 1e-9, 0.9e-9 * have);
}

bool bench_count(int64_t *out, int64_t a, int64_t b, int64_t c)
{
    return !__builtin_mul_overflow(a, b, out) && !__builtin_mul_overflow(*out, c, out) &&
           *out <= INT64_MAX / 16;
}

static uint64_t next(uint64_t *seed)
{
    return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

int64_t bench_below(uint64_t *seed, int64_t n)
{
    return (int64_t)((next(seed) >> 11) % (uint64_t)n);
}

void *bench_random(int64_t n, qkv_precision p, double deviation)
{
    static uint64_t seed = 1;
    char *x = cmd_alloc((size_t)n, bench_size(p));
    for (int64_t i = 0; i < n; i++) {
        // The sum of four 16-bit numbers, each scaled to -1 .. 1 and so of deviation 1/sqrt(3), has
        // the deviation 2/sqrt(3).
        uint64_t r = next(&seed);
        r ^= r >> 32; // mix in the high bits: the low bits of this generator are not random enough
        double sum = 0;
        for (int j = 0; j < 64; j += 16) sum += (double)(int16_t)(r >> j) * 0x1p-15;
        const float one = (float)(sum * 0.8660254037844386 * deviation);
        qkv_from_f32(x + (size_t)i * bench_size(p), qkv_precision_type(p), &one, 1);
    }
    return x;
}

double bench_at(const void *x, qkv_precision p, int64_t i)
{
    float one;
    qkv_to_f32(&one, (const char *)x + (size_t)i * bench_size(p), qkv_precision_type(p), 1);
    return (double)one;
}

void *bench_plain(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    void *p = NULL;
    if (bytes < page || posix_memalign(&p, page, bytes)) p = cmd_alloc(bytes, 1);
#ifdef MADV_HUGEPAGE
    if (bytes >= page) (void)madvise(p, bytes / page * page, MADV_HUGEPAGE);
#endif
    // write to the memory, since only then the system allocates its pages
    return memset(p, 1, bytes);
}

double bench_read(const void *plain, size_t bytes)
{
    // memory larger than this is read only twice; less memory not more often than TIMES
    enum { MOST = 1 << 26, TIMES = 4096 };
    double best = 0;
    for (size_t done = 0, i = 0; i < 2 || (done < MOST && i < TIMES); done += bytes, i++) {
        const double rate = qkv_measure_read(plain, bytes);
        if (rate > best) best = rate;
    }
    return best;
}
