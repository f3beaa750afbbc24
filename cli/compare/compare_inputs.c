// SPDX-License-Identifier: MIT
// compare_inputs.c: makes the queries, keys and values on which the errors of approximations are
// measured: numbers without structure, and one input for each structure that an approximation uses.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "compare/compare.h"

static void copy_normal(float *to, int64_t n, double deviation, uint64_t seed)
{
    float *x = compare_normal(n, deviation, seed);
    memcpy(to, x, (size_t)n * sizeof *x);
    free(x);
}

static void make_random(float *const qkv[3], const struct compare_shape *s)
{
    for (int i = 0; i < 3; i++) copy_normal(qkv[i], s->n * s->H * s->E, 1, 1 + (uint64_t)i);
}

// Local: q_i and k_i are the same random Fourier features of position i, so that the score is about
// 12 exp(-(i - j)^2 / 2 l^2) with l = keys / 8 (Rahimi and Recht 2007).  Beyond 4 l tokens, the
// edge of the window, the scores are about 0.
static void make_local(float *const qkv[3], const struct compare_shape *s)
{
    const int64_t half = s->E / 2;
    const double near = fmax((double)s->keys / 8, .5);
    const double size = sqrt(12 * sqrt((double)s->E) / (double)(half > 0 ? half : 1));
    float *frequency = compare_normal(s->H * (half + 1), 1 / near, 11);
    copy_normal(qkv[2], s->n * s->H * s->E, 1, 3);
    for (int64_t t = 0; t < s->n; t++)
        for (int64_t h = 0; h < s->H; h++)
            for (int64_t e = 0; e < s->E; e++) {
                const double angle = (double)frequency[h * (half + 1) + e / 2] * (double)t;
                const double x = e / 2 == half ? 0 : size * (e % 2 ? sin(angle) : cos(angle));
                qkv[0][(t * s->H + h) * s->E + e] = qkv[1][(t * s->H + h) * s->E + e] = (float)x;
            }
    free(frequency);
}

// Smooth: every number of q, k and v is a sum of 4 cosines with at most 4 periods along the text,
// so that neighbouring tokens are nearly equal and the scores have a low rank.
static void make_smooth(float *const qkv[3], const struct compare_shape *s)
{
    enum { WAVES = 4 };
    const int64_t width = s->H * s->E;
    for (int i = 0; i < 3; i++) {
        float *wave = compare_normal(width * WAVES * 2, 1 / sqrt(WAVES), 21 + (uint64_t)i);
        for (int64_t t = 0; t < s->n; t++)
            for (int64_t c = 0; c < width; c++) {
                double sum = 0;
                for (int m = 0; m < WAVES; m++) {
                    const double angle = 2 * 3.14159265358979 * (m + 1) * (double)t / (double)s->n;
                    const float *w = wave + (c * WAVES + m) * 2;
                    sum += (double)w[0] * cos(angle) + (double)w[1] * sin(angle);
                }
                qkv[i][t * width + c] = (float)sum;
            }
        free(wave);
    }
}

// Small: q and k lie in 8 dimensions and have deviation .7 there, so that |q| and |k| are small and
// a few random features estimate exp(q . k) well.  The value of a token is its key: differences
// between the weights make the output.
static void make_small(float *const qkv[3], const struct compare_shape *s)
{
    enum { USED = 8 };
    const int64_t n = s->n * s->H * s->E;
    for (int i = 0; i < 2; i++) {
        copy_normal(qkv[i], n, .7, 31 + (uint64_t)i);
        for (int64_t c = 0; c < n; c++)
            if (c % s->E >= USED) qkv[i][c] = 0;
    }
    memcpy(qkv[2], qkv[1], (size_t)n * sizeof(float));
}

const struct compare_input compare_inputs[COMPARE_INPUTS] = {
    { "random", "q, k, v normally distributed: no structure", "none", make_random },
    { "local", "scores fall with the distance, to about 0 at the edge of the window",
      "window, block-sparse", make_local },
    { "smooth", "q, k, v change slowly along the text", "linformer, nystrom", make_smooth },
    { "small", "small scores, of q and k in 8 dimensions; the value of a token is its key",
      "performer", make_small },
};
