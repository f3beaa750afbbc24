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

TILE_ALWAYS void tile_load_a(const struct tile_factors *f, int64_t k, int p, const bool tall)
{
    const char *at = (f->a_blocks ? f->a_blocks[k] : f->a + k * f->a_block) + p * f->a_part;
    TILE_LOAD(4, at, f->a_row);
    if (tall) TILE_LOAD(5, at + f->a_half, f->a_row);
}
TILE_ALWAYS void tile_load_b(const struct tile_factors *f, int64_t k, int p, const int parts,
                             const bool wide)
{
    const int64_t block = (parts > 1 ? parts : 1) * 2 * TILE;
    const char *at = (f->b_blocks ? f->b_blocks[k] : f->b + k * block) + p * 2 * TILE;
    TILE_LOAD_PASSING(6, at, 64);
    if (wide) TILE_LOAD_PASSING(7, at + TILE, 64);
}

// Vector work that is interleaved with tile products: rows of earlier sums. The core executes both
// at the same time, as far as its window of instructions reaches (docs/performance.md, "AMX"), so
// a few rows follow each group of products.
struct tile_work {
    void (*run)(void *of, int64_t from, int64_t to); // processes rows from .. to-1
    void *of;
    int64_t rows, groups; // number of rows, and of groups of products among which they are divided
    int64_t done, part;   // rows done; part: the next row runs when it reaches `groups`
};
enum { TILE_WAIT = 3 }; // groups of products before the first row, whose sums are being stored

// Divides `rows` rows among the groups of a product of `depth` blocks.
TILE_ALWAYS void tile_work_plan(struct tile_work *w, int64_t rows, int64_t depth, const int parts)
{
    const int64_t groups = depth * (parts > 2 ? 6 : parts > 1 ? 3 : 1);
    const int64_t wait = groups > 2 * TILE_WAIT ? TILE_WAIT : 0;
    w->rows = rows;
    w->groups = groups - wait;
    w->part = -wait * rows;
    w->done = 0;
}
TILE_ALWAYS void tile_work_next(struct tile_work *w)
{
    if (!w || w->done == w->rows) return;
    const int64_t from = w->done;
    for (w->part += w->rows; w->part >= w->groups; w->part -= w->groups) w->done++;
    if (w->done > from) w->run(w->of, from, w->done);
}
// Processes the rows that are left.
TILE_ALWAYS void tile_work_finish(struct tile_work *w)
{
    if (w->done < w->rows) w->run(w->of, w->done, w->rows);
    w->rows = w->done = 0;
}

TILE_ALWAYS void tile_multiply(const bool tall, const bool wide, struct tile_work *w)
{
    TILE_BF16(0, 4, 6);
    if (wide) TILE_BF16(1, 4, 7);
    if (tall) TILE_BF16(2, 5, 6);
    if (tall && wide) TILE_BF16(3, 5, 7);
    tile_work_next(w);
}
TILE_ALWAYS void tile_multiply_whole(const bool tall, const bool wide, struct tile_work *w)
{
    TILE_INT8(0, 4, 6);
    if (wide) TILE_INT8(1, 4, 7);
    if (tall) TILE_INT8(2, 5, 6);
    if (tall && wide) TILE_INT8(3, 5, 7);
    tile_work_next(w);
}

// Adds the products of `depth` blocks to the sums. With one part, the part is the number. With
// several parts, a number is the sum of its parts, the largest part first (amx_split.h), and the
// products of all parts i and j with i + j < parts are added: 3 products for two parts, 6 products
// for three. The small products of all blocks are added first, while the sums and their rounding
// errors are small; then the products of the first parts of all blocks are added.
TILE_ALWAYS void tile_blocks(const struct tile_factors *f, int64_t depth, const int parts,
                             const bool tall, const bool wide, struct tile_work *w)
{
    for (int64_t k = 0; parts > 1 && k < depth; k++) {
        tile_load_a(f, k, 1, tall);
        if (parts > 2) {
            tile_load_b(f, k, 1, parts, wide);
            tile_multiply(tall, wide, w); // multiplies part 1 of a by part 1 of b
            tile_load_b(f, k, 0, parts, wide);
            tile_multiply(tall, wide, w); // multiplies part 1 of a by part 0 of b
            tile_load_a(f, k, 2, tall);
            tile_multiply(tall, wide, w); // multiplies part 2 of a by part 0 of b
            tile_load_a(f, k, 0, tall);
            tile_load_b(f, k, 2, parts, wide);
            tile_multiply(tall, wide, w); // multiplies part 0 of a by part 2 of b
        } else {
            tile_load_b(f, k, 0, parts, wide);
            tile_multiply(tall, wide, w); // multiplies part 1 of a by part 0 of b
            tile_load_a(f, k, 0, tall);
        }
        tile_load_b(f, k, 1, parts, wide);
        tile_multiply(tall, wide, w); // multiplies part 0 of a by part 1 of b
    }
    for (int64_t k = 0; k < depth; k++) {
        tile_load_a(f, k, 0, tall);
        tile_load_b(f, k, 0, parts, wide);
        if (parts == WHOLE)
            tile_multiply_whole(tall, wide, w);
        else
            tile_multiply(tall, wide, w);
    }
}

// Computes the products of `depth` blocks in to[rows][32], whose rows are `apart` elements apart;
// the elements are floats or, for 8-bit factors, 32-bit integers. The rows of *w are processed
// meanwhile; NULL: there are none.
TILE_ALWAYS void tile_product(void *to, int64_t apart, const struct tile_factors *f, int64_t depth,
                              const int parts, const struct tile_shape shape, struct tile_work *w)
{
    float *const sum = to;
    const int64_t bytes = apart * (int64_t)sizeof *sum;
    TILE_ZERO(0);
    if (shape.wide) TILE_ZERO(1);
    if (shape.tall) TILE_ZERO(2);
    if (shape.tall && shape.wide) TILE_ZERO(3);
    if (shape.tall && shape.wide)
        tile_blocks(f, depth, parts, true, true, w);
    else if (shape.tall)
        tile_blocks(f, depth, parts, true, false, w);
    else if (shape.wide)
        tile_blocks(f, depth, parts, false, true, w);
    else
        tile_blocks(f, depth, parts, false, false, w);
    TILE_STORE(0, sum, bytes);
    if (shape.wide) TILE_STORE(1, sum + HALF, bytes);
    if (shape.tall) TILE_STORE(2, sum + HALF * apart, bytes);
    if (shape.tall && shape.wide) TILE_STORE(3, sum + HALF * apart + HALF, bytes);
}
