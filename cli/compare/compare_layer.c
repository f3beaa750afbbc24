// SPDX-License-Identifier: MIT
// compare_layer.c: prepares a layer with random weights and inputs, and reads the clock.
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "compare/compare.h"

double compare_now(void)
{
    struct timespec t;
    clock_gettime(qkv_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Approximates a normal distribution by the sum of four uniform 16-bit numbers, the halves of two
// words. Each has variance 1/12, so sqrt(3) times the sum, minus its mean, has variance 1.
float *compare_normal(int64_t n, double deviation, uint64_t seed)
{
    float *x = cmd_alloc((size_t)n, sizeof *x);
    const double by = deviation * sqrt(3) * 0x1p-16;
    for (int64_t i = 0; i < n; i++) {
        int64_t sum = -2 * 65535;
        for (int word = 0; word < 2; word++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            sum += (int64_t)(seed >> 48) + (int64_t)(seed >> 32 & 65535);
        }
        x[i] = (float)(by * (double)sum);
    }
    return x;
}

struct compare_shape compare_shape_of(int64_t n, int64_t d, int64_t keys, int64_t width,
                                      bool causal)
{
    const int64_t E = d % 64 ? d : 64;
    return (struct compare_shape){ .n = n,
                                   .d = d,
                                   .H = d / E,
                                   .G = d / E,
                                   .E = E,
                                   .F = E,
                                   .S = n,
                                   .keys = keys < n ? keys : n,
                                   .width = width,
                                   .causal = causal };
}

int64_t compare_few_keys(int64_t S)
{
    const int64_t few = S < 8 ? 2 : S / 4;
    return few > 256 ? 256 : few < S ? few : S;
}

void compare_select(struct compare_layer *l, const float *const qkv[3], int64_t item)
{
    const struct compare_shape *s = &l->s;
    l->x = l->q = qkv[0] + item * s->n * s->H * s->E;
    l->k = qkv[1] + item * s->S * s->G * s->E;
    l->v = qkv[2] + item * s->S * s->G * s->F;
}

qkv_status compare_open(struct compare_layer *l, const struct compare_kind *kind,
                        const struct compare_shape *s, const float *const qkv[3])
{
    *l = (struct compare_layer){ .s = *s, .counted = !qkv };
    if (qkv) compare_select(l, qkv, 0);
    const qkv_status status = kind->make(l);
    if (status) {
        compare_close(l);
        return status;
    }
    if (qkv) l->out = cmd_alloc((size_t)(s->n * s->H * s->F), sizeof *l->out);
    return QKV_OK;
}

void compare_close(struct compare_layer *l)
{
    for (int i = 0; i < 4; i++) free(l->own[i]);
    free(l->out);
    free(l->scratch);
    *l = (struct compare_layer){ .x = NULL };
}
