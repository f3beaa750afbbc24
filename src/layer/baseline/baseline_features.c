// SPDX-License-Identifier: MIT
// baseline_features.c: maps queries and keys to positive features, and generates orthogonal random
// rows for random features.
#include "layer/baseline/baseline_work.h"
#include <math.h>

// Computes elu(x) + 1, which is e^x for x <= 0 and 1 + x for x > 0, as exp(min(x, 0)) + max(x, 0).
// NaN remains NaN.
void qkv_features_elu(real *phi, const real *x, int64_t ldx, int64_t n, int64_t E)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < E; e++) phi[i * E + e] = x[i * ldx + e] > 0 ? 0 : x[i * ldx + e];
    qkv_kernel()->exp(phi, phi, n * E);
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < E; e++) phi[i * E + e] += x[i * ldx + e] > 0 ? x[i * ldx + e] : 0;
}

#ifndef QKV_DOUBLE
// ---- orthogonal rows ---------------------------------------------------------------------------
// Returns normally distributed random number n of the stream: the cosine number that the method of
// Box and Muller (1958) computes from pair n of random words.
static double normal(uint64_t seed, uint64_t site, uint64_t n)
{
    const double tau = 6.28318530717958647692;
    uint32_t word[4];
    qkv_philox(word, seed, site, n / 2);
    const uint32_t *pair = word + n % 2 * 2;
    const double u = ((double)pair[0] + 0.5) * 0x1p-32, angle = tau * (double)pair[1] * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(angle);
}

static double product(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static void resize(float *row, int64_t n, double length)
{
    const double now = sqrt(product(row, row, n));
    for (int64_t i = 0; i < n && now > 0; i++) row[i] = (float)(length * (double)row[i] / now);
}

enum { DIRECTIONS, LENGTHS }; // numbers of the two random streams

// Makes rows of normally distributed numbers orthogonal by the Gram-Schmidt method, twice to remove
// rounding errors. Then scales each row to the length of a new random row, so that it has the same
// distribution as a row of independent numbers.
QKV_API void qkv_random_features(float *w, int64_t M, int64_t E, uint64_t seed)
{
    if (!w || E < 1) return;
    for (int64_t m = 0; m < M; m++) {
        float *row = w + m * E;
        for (int64_t e = 0; e < E; e++)
            row[e] = (float)normal(seed, DIRECTIONS, (uint64_t)(m * E + e));
        for (int64_t turn = 0; turn < 2; turn++) {
            resize(row, E, 1);
            for (int64_t i = m / E * E; i < m; i++) {
                const float *other = w + i * E;
                const double share = product(row, other, E);
                for (int64_t e = 0; e < E; e++)
                    row[e] = (float)((double)row[e] - share * (double)other[e]);
            }
        }
        resize(row, E, 1);
    }
    for (int64_t m = 0; m < M; m++) { // scales each row, which has length 1, to a random length
        double squares = 0;
        for (int64_t e = 0; e < E; e++) {
            const double x = normal(seed, LENGTHS, (uint64_t)(m * E + e));
            squares += x * x;
        }
        resize(w + m * E, E, sqrt(squares));
    }
}
#endif
