// SPDX-License-Identifier: MIT
// sha1.c: computes the blocks of SHA-1 (FIPS 180-4), by which Git names files.
#include "base/digest/digest_blocks.h"

static inline uint32_t turn(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

void qkv_sha1_block(uint32_t *state, const uint8_t *p)
{
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 80; i++) w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        const uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                           : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                           : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                    : (b ^ c ^ d) + 0xca62c1d6;
        const uint32_t next = turn(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}
