// SPDX-License-Identifier: MIT
// amx_tiles.h: defines functions for AMX tiles, and the tile products that linear layers and
// attention use.
//
// A tile has 16 rows of 64 bytes. The instruction tdpbf16ps adds to sum[m][n] the products a[m][2p
// + h] b[p][2n + h] over 16 pairs p and both elements h of a pair; so a row of the first factor a
// is 32 numbers in order, and a row of the second factor b is a pair of numbers for each of 16
// columns. tdpbssd does the same with groups of four bytes. Source: Intel SDM vol. 1, chapter 18.
//
// Tiles 0..3 contain 2 x 2 tiles of sums, tiles 4 and 5 the first factor, tiles 6 and 7 the second
// factor. The functions use inline assembly, because the compiler's intrinsics for loads do not
// declare that they read memory.

enum {
    TILE = 1024,     // bytes of a tile: 16 rows of 64
    BLOCK = 32,      // numbers of bf16 in a tile row of the first factor
    HALF = 16,       // rows or columns of sums in a tile
    HIGH = 2 * HALF, // rows or columns of sums in two tiles
    WHOLE = 0        // value of `parts` that selects 8-bit integers, 64 per tile row
};

#define TILE_LOAD(T, P, APART)                                                                     \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #T ::"r"(P), "r"((int64_t)(APART)) : "memory")
// Loads a tile like TILE_LOAD, for data that is read once and not needed soon.
#define TILE_LOAD_PASSING(T, P, APART)                                                             \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #T ::"r"(P), "r"((int64_t)(APART)) : "memory")
#define TILE_STORE(T, P, APART)                                                                    \
    __asm__ volatile("tilestored %%tmm" #T ", (%0,%1,1)" ::"r"(P), "r"((int64_t)(APART))           \
                     : "memor"                                                                     \
                       "y")
#define TILE_ZERO(T)         __asm__ volatile("tilezero %%tmm" #T ::)
#define TILE_BF16(SUM, A, B) __asm__ volatile("tdpbf16ps %%tmm" #B ", %%tmm" #A ", %%tmm" #SUM ::)
#define TILE_INT8(SUM, A, B) __asm__ volatile("tdpbssd %%tmm" #B ", %%tmm" #A ", %%tmm" #SUM ::)
#define TILE_RELEASE()       __asm__ volatile("tilerelease" ::)
#define TILE_ALWAYS          static inline __attribute__((always_inline))

// Asks for the first `bytes` bytes of up to n rows, which are `apart` bytes apart: too far, or in
// too many streams, for the core to foresee them. stores: they will be written.
TILE_ALWAYS void tile_expect(const char *rows, int64_t apart, int64_t n, int64_t bytes,
                             const bool stores)
{
    for (int64_t i = 0; i < n; i++, rows += apart)
        for (int64_t b = 0; b < bytes; b += 64)
            if (stores)
                __builtin_prefetch(rows + b, 1);
            else
                __builtin_prefetch(rows + b);
}

// Configures tile t with tall[t] rows of 64 bytes; a tile with 0 rows is unused.
static void tile_configure_each(const int *tall)
{
    _Alignas(64) struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } c = { .palette = 1 };
    for (int t = 0; t < 8; t++) {
        c.rows[t] = (uint8_t)tall[t];
        c.bytes[t] = tall[t] ? 64 : 0;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}
// Configures the tiles of sums and first factors for `rows` rows, 1..32: two tiles in height, or
// one tile for up to 16 rows.
static void tile_configure(int rows)
{
    const int low = rows < HALF ? rows : HALF, high = rows - low;
    tile_configure_each((const int[8]){ low, low, high, high, low, high, HALF, HALF });
}
// Configures the tiles of sums and first factors for `rows` rows each.
static void tile_configure_halves(int rows)
{
    tile_configure_each((const int[8]){ rows, rows, rows, rows, rows, rows, HALF, HALF });
}
// Configures tiles 0 and 1 for sums, 2 and 3 for second factors, 4 and 5 for first factors, and, if
// `two` is true, 6 and 7 also for first factors.
static void tile_configure_near(int rows, bool two)
{
    const int low = rows < HALF ? rows : HALF, high = rows - low;
    tile_configure_each((const int[8]){ low, high, HALF, two ? HALF : 0, low, high, two ? low : 0,
                                        two ? high : 0 });
}

// The factors of a product of tiles. For block k of 32 numbers (64 bytes), part p and half h of the
// rows, the tile of the first factor is at a + k a_block + p a_part + h a_half, and its rows are
// a_row bytes apart. For half h of the columns, the tile of the second factor is at b + (k parts +
// p) 2 TILE + h TILE. If a_blocks or b_blocks is set, it contains the addresses of the blocks
// instead.
struct tile_factors {
    const char *a, *b, *const *a_blocks, *const *b_blocks;
    int64_t a_row, a_block, a_part, a_half;
};

// The shape of the sums: 32 columns if wide, otherwise 16; more than 16 rows if tall, otherwise at
// most 16 (as configured).
struct tile_shape {
    bool tall, wide;
};

// Addresses of the tiles of block k and part p: of rows 0 .. 15, and of columns 0 .. 15.
TILE_ALWAYS const char *tile_a(const struct tile_factors *f, int64_t k, int p)
{
    return (f->a_blocks ? f->a_blocks[k] : f->a + k * f->a_block) + p * f->a_part;
}
TILE_ALWAYS const char *tile_b(const struct tile_factors *f, int64_t k, int p, const int parts)
{
    const int64_t block = (parts > 1 ? parts : 1) * 2 * TILE;
    return (f->b_blocks ? f->b_blocks[k] : f->b + k * block) + p * 2 * TILE;
}
TILE_ALWAYS void tile_load_a(const struct tile_factors *f, int64_t k, int p, const bool tall)
{
    const char *at = tile_a(f, k, p);
    TILE_LOAD(4, at, f->a_row);
    if (tall) TILE_LOAD(5, at + f->a_half, f->a_row);
}
TILE_ALWAYS void tile_load_b(const struct tile_factors *f, int64_t k, int p, const int parts,
                             const bool wide)
{
    const char *at = tile_b(f, k, p, parts);
    TILE_LOAD_PASSING(6, at, 64);
    if (wide) TILE_LOAD_PASSING(7, at + TILE, 64);
}

TILE_ALWAYS void tile_multiply(const bool tall, const bool wide)
{
    TILE_BF16(0, 4, 6);
    if (wide) TILE_BF16(1, 4, 7);
    if (tall) TILE_BF16(2, 5, 6);
    if (tall && wide) TILE_BF16(3, 5, 7);
}

// Multiplies tiles of the kind that `parts` selects.
#define TILE_FIRST(SUM, A, B)                                                                      \
    do {                                                                                           \
        if (parts == WHOLE)                                                                        \
            TILE_INT8(SUM, A, B);                                                                  \
        else                                                                                       \
            TILE_BF16(SUM, A, B);                                                                  \
    } while (0)
// Adds the products of the first parts of `depth` blocks. Each tile is loaded when the last product
// with its register has begun, one product before it is needed: 66 cycles per block where products
// after all four loads take 72 (docs/limits.md, "AMX").
TILE_ALWAYS void tile_first_parts(const struct tile_factors *f, int64_t depth, const int parts,
                                  const bool tall, const bool wide)
{
    if (depth > 0) tile_load_b(f, 0, 0, parts, wide);
    for (int64_t k = 0; k < depth; k++) {
        const char *a = tile_a(f, k, 0), *next = tile_b(f, k + 1 < depth ? k + 1 : k, 0, parts);
        TILE_LOAD(4, a, f->a_row);
        TILE_FIRST(0, 4, 6);
        if (tall) TILE_LOAD(5, a + f->a_half, f->a_row);
        if (tall) TILE_FIRST(2, 5, 6);
        if (wide) TILE_FIRST(1, 4, 7);
        TILE_LOAD_PASSING(6, next, 64);
        if (wide && tall) TILE_FIRST(3, 5, 7);
        if (wide) TILE_LOAD_PASSING(7, next + TILE, 64);
    }
}

// Adds the products of `depth` blocks to the sums. With one part, the part is the number. With
// several parts, a number is the sum of its parts, the largest part first (amx_split.h), and the
// products of all parts i and j with i + j < parts are added: 3 products for two parts, 6 products
// for three. The small products of all blocks are added first, while the sums and their rounding
// errors are small; then the products of the first parts of all blocks are added.
TILE_ALWAYS void tile_blocks(const struct tile_factors *f, int64_t depth, const int parts,
                             const bool tall, const bool wide)
{
    for (int64_t k = 0; parts > 1 && k < depth; k++) {
        tile_load_a(f, k, 1, tall);
        if (parts > 2) {
            tile_load_b(f, k, 1, parts, wide);
            tile_multiply(tall, wide); // multiplies part 1 of a by part 1 of b
            tile_load_b(f, k, 0, parts, wide);
            tile_multiply(tall, wide); // multiplies part 1 of a by part 0 of b
            tile_load_a(f, k, 2, tall);
            tile_multiply(tall, wide); // multiplies part 2 of a by part 0 of b
            tile_load_a(f, k, 0, tall);
            tile_load_b(f, k, 2, parts, wide);
            tile_multiply(tall, wide); // multiplies part 0 of a by part 2 of b
        } else {
            tile_load_b(f, k, 0, parts, wide);
            tile_multiply(tall, wide); // multiplies part 1 of a by part 0 of b
            tile_load_a(f, k, 0, tall);
        }
        tile_load_b(f, k, 1, parts, wide);
        tile_multiply(tall, wide); // multiplies part 0 of a by part 1 of b
    }
    tile_first_parts(f, depth, parts, tall, wide);
}

// Computes the products of `depth` blocks in to[rows][32], whose rows are `apart` elements apart,
// or, if `adds`, adds them to what is there; the elements are floats or, for 8-bit factors, 32-bit
// integers.
TILE_ALWAYS void tile_sums(void *to, int64_t apart, const struct tile_factors *f, int64_t depth,
                           const int parts, const struct tile_shape shape, const bool adds)
{
    float *const sum = to, *const low = sum + HALF * apart;
    const int64_t bytes = apart * (int64_t)sizeof *sum;
    if (adds) {
        TILE_LOAD(0, sum, bytes);
        if (shape.wide) TILE_LOAD(1, sum + HALF, bytes);
        if (shape.tall) TILE_LOAD(2, low, bytes);
        if (shape.tall && shape.wide) TILE_LOAD(3, low + HALF, bytes);
    } else {
        TILE_ZERO(0);
        if (shape.wide) TILE_ZERO(1);
        if (shape.tall) TILE_ZERO(2);
        if (shape.tall && shape.wide) TILE_ZERO(3);
    }
    if (shape.tall && shape.wide)
        tile_blocks(f, depth, parts, true, true);
    else if (shape.tall)
        tile_blocks(f, depth, parts, true, false);
    else if (shape.wide)
        tile_blocks(f, depth, parts, false, true);
    else
        tile_blocks(f, depth, parts, false, false);
    TILE_STORE(0, sum, bytes);
    if (shape.wide) TILE_STORE(1, sum + HALF, bytes);
    if (shape.tall) TILE_STORE(2, low, bytes);
    if (shape.tall && shape.wide) TILE_STORE(3, low + HALF, bytes);
}
TILE_ALWAYS void tile_product(void *to, int64_t apart, const struct tile_factors *f, int64_t depth,
                              const int parts, const struct tile_shape shape)
{
    tile_sums(to, apart, f, depth, parts, shape, false);
}
