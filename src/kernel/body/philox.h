// SPDX-License-Identifier: MIT
// philox.h: computes VW blocks of qkv_philox at once, with the vector functions.
//
// Lane 4 i + j of a vector contains block (VW / 4) j + i of a group, so that transposing four lanes
// at a time stores the words of all blocks consecutively.

static void philox_group(uint32_t *out, uint64_t seed, uint64_t site, uint64_t block)
{
    enum { ROUNDS = 10, APART = VW / 4 };
    int32_t lane[VW];
    for (int i = 0; i < VW; i++) lane[i] = i % 4 * APART + i / 4;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    vi c[4] = { vi_add(vi_set1((int32_t)(uint32_t)block), vi_load(lane)),
                vi_set1((int32_t)(uint32_t)(block >> 32)), vi_set1((int32_t)(uint32_t)site),
                vi_set1((int32_t)(uint32_t)(site >> 32)) };
    for (int i = 0; i < ROUNDS; i++) {
        vi low0, low1;
        const vi high0 = vi_mul_wide(&low0, c[0], 0xd2511f53u);
        const vi high1 = vi_mul_wide(&low1, c[2], 0xcd9e8d57u);
        c[0] = vi_xor(vi_xor(high1, c[1]), vi_set1((int32_t)k0));
        c[2] = vi_xor(vi_xor(high0, c[3]), vi_set1((int32_t)k1));
        c[1] = low1;
        c[3] = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    vi_transpose4(c);
    for (int i = 0; i < 4; i++) vi_store(out + i * VW, c[i]);
}

static void philox(uint32_t *out, uint64_t seed, uint64_t site, uint64_t block, int64_t n)
{
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        if ((uint32_t)block + (uint64_t)(i + VW) > UINT32_MAX)
            break; // the 32-bit counter would carry within this group; the loop below handles it
        philox_group(out + 4 * i, seed, site, block + (uint64_t)i);
    }
    for (; i < n; i++) qkv_philox(out + 4 * i, seed, site, block + (uint64_t)i);
}
