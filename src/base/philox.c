// SPDX-License-Identifier: MIT
// philox.c: computes random numbers as a function of seed and counter: Philox4x32-10.
//
// A 64-bit key maps each 128-bit counter to a different block of four words by ten rounds of two
// multiplications; constants are added to the key after each round.
//
// Source: Salmon, Moraes, Dror, Shaw 2011 (Parallel random numbers: as easy as 1, 2, 3; SC11).
#include "base/base.h"

void qkv_philox(uint32_t out[4], uint64_t seed, uint64_t site, uint64_t block)
{
    enum { ROUNDS = 10 };
    const uint64_t m0 = 0xd2511f53u, m1 = 0xcd9e8d57u;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)site, c3 = (uint32_t)(site >> 32);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t p0 = m0 * c0, p1 = m1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t qkv_dropout_threshold(double p)
{
    return (uint32_t)(p * 0x1p32);
}
