// SPDX-License-Identifier: MIT
// baseline_case.h: creates problems for the tests of the baseline layers, and computes their
// formulas in double.
//
// Tolerances: a sum of n products of floats, each of magnitude about 1, has an error of at most n
// ulp; softmax weights add the error of their exponents, which are sums of E products. Each case
// states how many roundings it counts, times the factor by which its formula may amplify them.
#ifndef QKV_KIND_CASE_H
#define QKV_KIND_CASE_H
#include "check.h"
#include "layer/layer.h"

static const double unit = 0x1p-24;

static inline float *numbers(int64_t n, double size)
{
    float *x = fenced_random(n);
    for (int64_t i = 0; i < n; i++) x[i] *= (float)size;
    return x;
}

// Returns scratch filled with NaN, so that a read before the first write is detected.
static inline void *workspace(struct qkv_baseline_plan p)
{
    CHECK_EQ(p.status, QKV_OK);
    CHECK_TEXT(p.reason, "");
    CHECK_EQ(p.scratch % 64, 0);
    void *scratch = qkv_alloc(p.scratch ? p.scratch : 1, 1);
    CHECK(scratch != NULL);
    memset(scratch, 0xff, p.scratch);
    return scratch;
}

// ---- attention ---------------------------------------------------------------------------------
struct problem {
    int64_t B, T, S, H, G, E, F;
    float *q, *k, *v;
    float *out;
};

static inline struct problem make(int64_t B, int64_t T, int64_t S, int64_t H, int64_t G, int64_t E,
                                  int64_t F)
{
    return (struct problem){ B,
                             T,
                             S,
                             H,
                             G,
                             E,
                             F,
                             numbers(B * T * H * E, 1),
                             numbers(B * S * G * E, 1),
                             numbers(B * S * G * F, 1),
                             fenced_random(B * T * H * F) };
}

static inline void exact(float *out, const struct problem *p, bool causal)
{
    const struct qkv_attention a = { .B = p->B,
                                     .T = p->T,
                                     .S = p->S,
                                     .H = p->H,
                                     .G = p->G,
                                     .E = p->E,
                                     .F = p->F,
                                     .causal = causal };
    void *scratch = qkv_alloc(qkv_attention_plan(&a).scratch, 1);
    CHECK_EQ(qkv_attention_forward(out, NULL, NULL, p->q, p->k, p->v, &a, scratch), QKV_OK);
    qkv_free(scratch);
}

static inline const float *query_at(const struct problem *p, int64_t b, int64_t t, int64_t h)
{
    return p->q + ((b * p->T + t) * p->H + h) * p->E;
}
static inline const float *key_at(const struct problem *p, int64_t b, int64_t s, int64_t h)
{
    return p->k + ((b * p->S + s) * p->G + h / (p->H / p->G)) * p->E;
}
static inline const float *value_at(const struct problem *p, int64_t b, int64_t s, int64_t h)
{
    return p->v + ((b * p->S + s) * p->G + h / (p->H / p->G)) * p->F;
}
static inline double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

// Computes want[F] = sum_s weight[s] v[s] / sum_s weight[s]; 0 if the sum of the weights is 0.
static inline void weigh(double *want, const struct problem *p, int64_t b, int64_t h,
                         const double *weight)
{
    double all = 0;
    memset(want, 0, (size_t)p->F * sizeof *want);
    for (int64_t s = 0; s < p->S; s++) {
        if (weight[s] == 0) continue;
        all += weight[s];
        for (int64_t f = 0; f < p->F; f++) want[f] += weight[s] * (double)value_at(p, b, s, h)[f];
    }
    for (int64_t f = 0; f < p->F; f++) want[f] = all > 0 ? want[f] / all : 0;
}

// Returns the relative distance of two outputs.
static inline double distance(const float *a, const float *b, int64_t n)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(off / size);
}

// Returns the error bound of softmax attention: a score of E products of normal numbers has
// magnitude at most 16 before the scale; 4 counts exponent, softmax, merge and division; a value is
// below 8.
static inline double softmax_error(int64_t E, int64_t S)
{
    return (16 * sqrt((double)E) + (double)S + 4) * 8 * unit;
}

#endif
