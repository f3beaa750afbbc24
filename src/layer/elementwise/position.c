// SPDX-License-Identifier: MIT
// position.c: computes the positions of packed rows and the table of sinusoidal position
// embeddings.
#include "layer/layer.h"
#include <math.h>

void qkv_positions(int32_t *positions, const int64_t *offsets, int64_t sequences, int32_t first)
{
    for (int64_t s = 0; s < sequences; s++)
        for (int64_t r = offsets[s]; r < offsets[s + 1]; r++)
            positions[r] = first + (int32_t)(r - offsets[s]);
}

// Angles are computed in double: at position 100,000 the sine of a float angle would be wrong in
// its third digit.
void qkv_position_sinusoid(real *table, int64_t P, int64_t D, bool interleaved)
{
    const int64_t half = (D + 1) / 2;
    for (int64_t i = 0; i < half; i++) {
        const double step = pow(10000, -2.0 * (double)i / (double)D);
        const int64_t sine = interleaved ? 2 * i : i, cosine = interleaved ? 2 * i + 1 : half + i;
        for (int64_t p = 0; p < P; p++) {
            const double angle = (double)p * step;
            table[p * D + sine] = (real)sin(angle);
            if (cosine < D) table[p * D + cosine] = (real)cos(angle);
        }
    }
}
