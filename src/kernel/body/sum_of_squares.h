// SPDX-License-Identifier: MIT
// sum_of_squares.h: computes a sum of squares in double, in plain C that compilers vectorise. The
// product of two floats is exact in double, so every instruction set gives the same bits.

static double squares(const real *x, int64_t n)
{
    enum { LANES = 16 };
    double sum[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sum[k] += (double)x[i + k] * (double)x[i + k];
    for (int k = 0; i + k < n; k++) sum[k] += (double)x[i + k] * (double)x[i + k];
    for (int step = LANES / 2; step; step /= 2)
        for (int k = 0; k < step; k++) sum[k] += sum[k + step];
    return sum[0];
}
