// SPDX-License-Identifier: MIT
// peak_tiles.h: runs as many tile products as possible (contract: kernel.h, peak), with the
// functions of amx_tiles.h: there are two by two tiles of sums, and the factors stay in their tile
// registers.

#define PEAK_TILES(NAME, PRODUCT, EACH)                                                            \
    static int64_t NAME(real *keep, int64_t turns)                                                 \
    {                                                                                              \
        _Alignas(64) char factor[TILE] = { 0 };                                                    \
        _Alignas(64) char sum[TILE];                                                               \
        tile_configure(BLOCK);                                                                     \
        TILE_LOAD(4, factor, 64);                                                                  \
        TILE_LOAD(5, factor, 64);                                                                  \
        TILE_LOAD(6, factor, 64);                                                                  \
        TILE_LOAD(7, factor, 64);                                                                  \
        TILE_ZERO(0);                                                                              \
        TILE_ZERO(1);                                                                              \
        TILE_ZERO(2);                                                                              \
        TILE_ZERO(3);                                                                              \
        for (int64_t t = 0; t < turns; t++) {                                                      \
            PRODUCT(0, 4, 6);                                                                      \
            PRODUCT(1, 4, 7);                                                                      \
            PRODUCT(2, 5, 6);                                                                      \
            PRODUCT(3, 5, 7);                                                                      \
        }                                                                                          \
        TILE_STORE(0, sum, 64);                                                                    \
        TILE_RELEASE();                                                                            \
        *keep += (real)sum[0];                                                                     \
        return turns * 4 * HALF * HALF * (EACH)*2;                                                 \
    }
// Each element of a tile product is the sum of 32 products of bf16, or of 64 products of bytes.
PEAK_TILES(peak_bf16_tiles, TILE_BF16, 32)
PEAK_TILES(peak_int8_tiles, TILE_INT8, 64)
