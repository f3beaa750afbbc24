// SPDX-License-Identifier: MIT
// bench_attention.c: time of qkv_attention_forward, and how near it comes to this core's fma.
//
//   bench_attention B H N E [causal 0|1] [seconds] [bthe|bhte]    GFLOP/s, best and median
//
// One line of JSON on stdout, for the driver that sets it beside the rivals.
#include <qkv/qkv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *random_floats(size_t n)
{
    static uint64_t seed = 1;
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    for (size_t i = 0; x && i < n; i++) {
        double sum = 0; // near enough to a normal distribution
        for (int j = 0; j < 4; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(int64_t)seed * 0x1p-63;
        }
        x[i] = (float)(sum * 0.8660254);
    }
    return x;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bench_attention B H N E [causal 0|1] [seconds] [bthe|bhte]\n");
        return 2;
    }
    struct qkv_attention a = { .B = atoll(argv[1]),
                               .H = atoll(argv[2]),
                               .T = atoll(argv[3]),
                               .S = atoll(argv[3]),
                               .E = atoll(argv[4]) };
    a.causal = argc > 5 && atoi(argv[5]);
    if (argc > 7 && !strcmp(argv[7], "bhte"))
        a.q_strides = a.k_strides = a.v_strides = a.out_strides =
            (struct qkv_strides){ a.H * a.T * a.E, a.E, a.T * a.E };
    const double limit = argc > 6 ? atof(argv[6]) : 1;
    const size_t n = (size_t)(a.B * a.T * a.H * a.E);
    const struct qkv_attention_plan plan = qkv_attention_plan(&a);
    if (plan.status) {
        fprintf(stderr, "bench_attention: %s\n", plan.reason);
        return plan.status;
    }
    float *q = random_floats(n), *k = random_floats(n), *v = random_floats(n),
          *out = random_floats(n);
    void *scratch = aligned_alloc(64, plan.scratch + 64);
    enum { RUNS = 10000 };
    double *times = malloc(RUNS * sizeof *times);
    if (!q || !k || !v || !out || !scratch || !times) return QKV_ERR_LIMIT;
    int runs = 0;
    for (double start = now(); runs < 3 || (runs < RUNS && now() - start < limit); runs++) {
        const double t = now();
        const qkv_status status = qkv_attention_forward(out, NULL, NULL, q, k, v, &a, scratch);
        times[runs] = now() - t;
        if (status) return status;
    }
    qsort(times, (size_t)runs, sizeof *times, by_size);
    printf(
        "{\"isa\":\"%s\",\"threads\":%d,\"B\":%lld,\"H\":%lld,\"N\":%lld,\"E\":%lld,\"causal\":%d,"
        "\"best_us\":%.1f,\"median_us\":%.1f,\"gflops_best\":%.1f,\"gflops_median\":%.1f}\n",
        plan.isa, qkv_threads(), (long long)a.B, (long long)a.H, (long long)a.T, (long long)a.E,
        a.causal, times[0] * 1e6, times[runs / 2] * 1e6, plan.flops / times[0] * 1e-9,
        plan.flops / times[runs / 2] * 1e-9);
    free(q);
    free(k);
    free(v);
    free(out);
    free(scratch);
    free(times);
    return 0;
}
