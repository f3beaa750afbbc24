// SPDX-License-Identifier: MIT
// numbers.c: computes random numbers, softmax and principal components, all in doubles.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>

// The generator is splitmix64; explain_normal() makes a normal number from two uniform ones (Box
// and Muller).
double explain_uniform(struct explain_random *r)
{
    uint64_t x = r->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return ((double)(x >> 11) + .5) * 0x1p-53;
}

double explain_normal(struct explain_random *r)
{
    const double u = explain_uniform(r), v = explain_uniform(r);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

void explain_normals(float *x, int64_t n, double spread, struct explain_random *r)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(spread * explain_normal(r));
}

double explain_softmax(double *w, const double *x, int64_t n, double by)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, x[i] / by);
    for (int64_t i = 0; i < n; i++) sum += w[i] = exp(x[i] / by - top);
    for (int64_t i = 0; i < n; i++) w[i] /= sum;
    return top + log(sum);
}

qkv_status explain_attend(float *out, float *weights, const float *q, const float *k,
                          const float *v, const struct qkv_attention *a, qkv_error *err)
{
    const struct qkv_attention_plan plan = qkv_attention_plan(a);
    void *scratch = cmd_alloc(plan.scratch, 1);
    const qkv_status status = qkv_attention_forward(out, NULL, weights, q, k, v, a, scratch);
    free(scratch);
    return status ? cmd_error(err, status, NULL,
                              "the attention kernel cannot compute this case: %s", plan.reason)
                  : QKV_OK;
}

// Computes the eigenvector v[E] of c[E][E] with the largest eigenvalue, by power iteration.
// Returns the eigenvalue.
static double largest(double *v, const double *c, int64_t E)
{
    double *next = cmd_alloc((size_t)E, sizeof *next), value = 0;
    for (int64_t i = 0; i < E; i++) v[i] = 1 + .37 * (double)(i % 7);
    for (int step = 0; step < 300; step++) {
        double norm = 0;
        for (int64_t i = 0; i < E; i++) {
            next[i] = 0;
            for (int64_t j = 0; j < E; j++) next[i] += c[i * E + j] * v[j];
            norm += next[i] * next[i];
        }
        value = sqrt(norm);
        for (int64_t i = 0; i < E; i++) v[i] = value > 0 ? next[i] / value : 0;
    }
    free(next);
    return value;
}

void explain_plane(double *at, double *share, const float *x, int64_t n, int64_t E)
{
    double *mean = cmd_alloc((size_t)E, sizeof *mean), *c = cmd_alloc((size_t)(E * E), sizeof *c);
    double *v = cmd_alloc((size_t)E, sizeof *v), all = 0, kept = 0;
    for (int64_t e = 0; e < E; e++) {
        mean[e] = 0;
        for (int64_t i = 0; i < n; i++) mean[e] += (double)x[i * E + e] / (double)n;
    }
    for (int64_t a = 0; a < E; a++)
        for (int64_t b = 0; b < E; b++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += ((double)x[i * E + a] - mean[a]) * ((double)x[i * E + b] - mean[b]);
            c[a * E + b] = sum;
            if (a == b) all += sum;
        }
    for (int axis = 0; axis < 2; axis++) {
        const double value = largest(v, c, E);
        kept += value;
        for (int64_t i = 0; i < n; i++) {
            double sum = 0;
            for (int64_t e = 0; e < E; e++) sum += ((double)x[i * E + e] - mean[e]) * v[e];
            at[2 * i + axis] = sum;
        }
        at[2 * n + axis] = 0;
        for (int64_t e = 0; e < E; e++) at[2 * n + axis] -= mean[e] * v[e];
        // subtract this component, so that the next round finds the second one
        for (int64_t a = 0; a < E; a++)
            for (int64_t b = 0; b < E; b++) c[a * E + b] -= value * v[a] * v[b];
    }
    *share = all > 0 ? kept / all : 1;
    free(mean);
    free(c);
    free(v);
}
