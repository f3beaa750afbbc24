// SPDX-License-Identifier: MIT
// bench_linear.c: the linear layer beside the peak of this
// core's FMA units, measured in the same run.
//
//   bench_linear [R K N]...     (default: the shapes of MiniLM, many rows and few)
// Rounds take turns: peak, product, product with GELU; a column is the best of them.  "of peak"
// compares rounds that stood beside each other (median), so that a changing clock does not count.
#include "layer/layer.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
#include <immintrin.h>
// Twelve independent chains of fma in registers: GFLOP/s.
#define CHAINS(OP) OP(a) OP(b) OP(c) OP(d) OP(e) OP(f) OP(g) OP(h) OP(i) OP(j) OP(k) OP(l)
#define PEAK(NAME, TARGET, VECTOR, SET1, FMA, LANES)                                               \
    __attribute__((target(TARGET))) static double NAME(void)                                       \
    {                                                                                              \
        enum { TURNS = 400000 };                                                                   \
        const VECTOR x = SET1(0.5f);                                                               \
        VECTOR CHAINS_OF(SET1);                                                                    \
        const double start = now();                                                                \
        for (int turn = 0; turn < TURNS; turn++) {                                                 \
            a = FMA(a, x, x), b = FMA(b, x, x), c = FMA(c, x, x), d = FMA(d, x, x);                \
            e = FMA(e, x, x), f = FMA(f, x, x), g = FMA(g, x, x), h = FMA(h, x, x);                \
            i = FMA(i, x, x), j = FMA(j, x, x), k = FMA(k, x, x), l = FMA(l, x, x);                \
            __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));           \
            __asm__ volatile("" : "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));           \
        }                                                                                          \
        return 12.0 * 2 * LANES * TURNS / (now() - start) * 1e-9;                                  \
    }
#define CHAINS_OF(SET1)                                                                            \
    a = SET1(0), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a
PEAK(peak512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
PEAK(peak256, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
static double peak(void)
{
    const unsigned have = qkv_cpu_features();
    return have & QKV_CPU_AVX512 ? peak512() : have & QKV_CPU_FMA ? peak256() : 0;
}
#else
static double peak(void)
{
    return 0; // not known here: "of peak" prints 0
}
#endif

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *numbers(int64_t n, float size)
{
    float *p = qkv_alloc((size_t)n, sizeof *p);
    if (!p) exit(5);
    for (int64_t i = 0; i < n; i++) p[i] = size * ((float)rand() / (float)RAND_MAX - 0.5f);
    return p;
}

static void shape(int64_t R, int64_t K, int64_t N)
{
    float *x = numbers(R * K, 2), *w = numbers(N * K, 0.2f), *b = numbers(N, 1),
          *y = numbers(R * N, 1);
    struct qkv_linear l = { .K = K, .parts = 1, .part = { { N, w, b, false } } };
    if (qkv_linear_pack(&l)) exit(5);
    const double flops = 2 * (double)R * (double)K * (double)N;
    const int64_t times = (int64_t)(1e8 / flops) + 1;
    double part[2][ROUNDS], best[2] = { 0, 0 }, top = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double before = peak();
        double rate[2];
        for (int gelu = 0; gelu < 2; gelu++) {
            const struct qkv_after after = { .act = gelu ? QKV_ACT_GELU : QKV_ACT_NONE };
            const double start = now();
            for (int64_t i = 0; i < times; i++) qkv_linear_forward((void *[]){ y }, NULL, x, R, &l, &after);
            rate[gelu] = flops * (double)times / (now() - start) * 1e-9;
        }
        const double after = peak(), beside = (before + after) / 2 * qkv_threads();
        for (int gelu = 0; gelu < 2; gelu++) {
            part[gelu][round] = beside > 0 ? rate[gelu] / beside : 0;
            if (rate[gelu] > best[gelu]) best[gelu] = rate[gelu];
        }
        if (beside > top) top = beside;
    }
    for (int gelu = 0; gelu < 2; gelu++) qsort(part[gelu], ROUNDS, sizeof(double), by_size);
    printf("%6lld %6lld %6lld  %8.1f %6.1f%%  %8.1f %6.1f%%  %8.1f\n", (long long)R, (long long)K,
           (long long)N, best[0], 100 * part[0][ROUNDS / 2], best[1], 100 * part[1][ROUNDS / 2],
           top);
    qkv_linear_free(&l);
    qkv_free(x);
    qkv_free(w);
    qkv_free(b);
    qkv_free(y);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][3] = {
        { 4096, 384, 384 },  { 4096, 384, 1152 }, { 4096, 384, 1536 }, { 4096, 1536, 384 },
        { 1024, 384, 1536 }, { 1024, 1536, 384 }, { 1024, 768, 3072 }, { 37, 384, 1152 },
        { 37, 384, 1536 },   { 37, 1536, 384 },   { 16, 384, 1536 },   { 7, 384, 1536 },
        { 1, 384, 1536 },    { 1, 1536, 384 },
    };
    printf("isa %s, threads %d, GFLOP/s\n", qkv_isa(), qkv_threads());
    printf("%6s %6s %6s  %8s %7s  %8s %7s  %8s\n", "R", "K", "N", "linear", "of peak", "+ GELU",
           "of peak", "FMA peak");
    if (argc > 3) {
        for (int i = 1; i + 2 < argc; i += 3)
            shape(atoll(argv[i]), atoll(argv[i + 1]), atoll(argv[i + 2]));
    } else {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            shape(shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    return 0;
}
