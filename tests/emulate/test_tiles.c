// SPDX-License-Identifier: MIT
// test_tiles.c: compares each tile instruction with plain C: of the emulation, or of the machine's
// own tiles where it has them, which validates the test itself.
#include "check.h"
#include "emulate/tiles.h"
#include <float.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

static bool begin(void) // returns false if this machine cannot run tiles at all
{
    return tiles_native() || tiles_emulate();
}

// ---- wrappers of the instructions --------------------------------------------------------------
struct config {
    _Alignas(64) uint8_t byte[64];
};
static void config_tile(struct config *c, int tile, int rows, int bytes)
{
    const uint16_t wide = (uint16_t)bytes;
    c->byte[0] = 1;
    memcpy(c->byte + 16 + 2 * tile, &wide, sizeof wide);
    c->byte[48 + tile] = (uint8_t)rows;
}
static void load_config(const struct config *c)
{
    __asm__ volatile("ldtilecfg %0" ::"m"(*c) : "memory");
}
static struct config store_config(void)
{
    struct config c;
    __asm__ volatile("sttilecfg %0" : "=m"(c)::"memory");
    return c;
}
static void release(void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}
#define LOAD(T, P, STRIDE)                                                                         \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #T ::"r"(P), "r"((int64_t)(STRIDE)) : "memory")
#define LOAD_T1(T, P, STRIDE)                                                                      \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #T ::"r"(P), "r"((int64_t)(STRIDE))            \
                     : "memor"                                                                     \
                       "y")
#define STORE(T, P, STRIDE)                                                                        \
    __asm__ volatile("tilestored %%tmm" #T ", (%0,%1,1)" ::"r"(P), "r"((int64_t)(STRIDE))          \
                     : "memory")
#define ZERO(T) __asm__ volatile("tilezero %%tmm" #T ::: "memory")
#define PRODUCT(NAME, C, A, B)                                                                     \
    __asm__ volatile(NAME " %%tmm" #B ", %%tmm" #A ", %%tmm" #C ::: "memory")

// ---- catching refused instructions -------------------------------------------------------------
static sigjmp_buf back;
static void caught(int number)
{
    siglongjmp(back, number);
}
// Checks that the instruction is refused: the processor raises #UD as SIGILL and #GP as SIGSEGV,
// the emulation raises SIGILL for both.
#define REFUSED(...)                                                                               \
    do {                                                                                           \
        void (*const ill_)(int) = signal(SIGILL, caught),                                          \
                     (*const segv_)(int) = signal(SIGSEGV, caught);                                \
        bool reached_ = false;                                                                     \
        if (sigsetjmp(back, 1) == 0) {                                                             \
            __VA_ARGS__;                                                                           \
            reached_ = true;                                                                       \
        }                                                                                          \
        signal(SIGILL, ill_);                                                                      \
        signal(SIGSEGV, segv_);                                                                    \
        if (reached_) fail_msg("not refused: %s", #__VA_ARGS__);                                   \
    } while (0)

// The same with the tiles of the configuration c, which is not what is refused.
#define REFUSED_WITH(c, ...)                                                                       \
    do {                                                                                           \
        load_config(&(c));                                                                         \
        REFUSED(__VA_ARGS__);                                                                      \
    } while (0)

static void fill(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(check_random() * 128);
}

// ---- cases -------------------------------------------------------------------------------------
TEST(a_configuration_is_kept_and_released)
{
    if (!begin()) skip();
    struct config c = { 0 }, none = { 0 };
    for (int t = 0; t < 8; t++) config_tile(&c, t, t + 3, 64 - 4 * t);
    load_config(&c);
    struct config now = store_config();
    CHECK_BITS(&now, &c, sizeof c);
    release();
    now = store_config();
    CHECK_BITS(&now, &none, sizeof none);
    CHECK(!tiles_held());
    load_config(&c);
    load_config(&none); // palette 0 releases the configuration
    now = store_config();
    CHECK_BITS(&now, &none, sizeof none);
}

TEST(a_bad_configuration_is_refused)
{
    if (!begin()) skip();
    static const struct {
        int at, value;
    } wrong[] = { { 0, 2 },  { 2, 1 },   { 15, 1 }, { 32, 1 },  { 47, 1 }, { 56, 1 },
                  { 63, 1 }, { 16, 65 }, { 17, 1 }, { 48, 17 }, { 48, 0 }, { 16, 0 } };
    EACH(w, wrong)
    {
        struct config c = { 0 };
        config_tile(&c, 0, 16, 64);
        c.byte[w->at] = (uint8_t)w->value;
        REFUSED(load_config(&c));
    }
}

TEST(tiles_are_loaded_row_by_row_and_zero_behind)
{
    if (!begin()) skip();
    static const int shapes[][2] = { { 16, 64 }, { 1, 4 }, { 7, 20 }, { 16, 4 }, { 3, 60 } };
    EACH(s, shapes) for (int way = 0; way < 2; way++)
    {
        const int rows = (*s)[0], bytes = (*s)[1];
        struct config c = { 0 };
        config_tile(&c, 2, rows, bytes);
        config_tile(&c, 5, 16, 64);
        // bytes past the end are not accessed
        uint8_t *from = fenced((size_t)((rows - 1) * 80 + bytes));
        fill(from, (size_t)((rows - 1) * 80 + bytes));
        uint8_t *to = fenced((size_t)((rows - 1) * 100 + bytes));
        memset(to, 0x5A, (size_t)((rows - 1) * 100 + bytes));
        load_config(&c);
        if (way)
            LOAD_T1(2, from, 80);
        else
            LOAD(2, from, 80);
        STORE(2, to, 100);
        release();
        for (int r = 0; r < rows; r++) {
            CHECK_BITS(to + r * 100, from + r * 80, (size_t)bytes);
            for (int i = bytes; r + 1 < rows && i < 100; i++) CHECK_EQ(to[r * 100 + i], 0x5A);
        }
        fence_free();
    }
}

TEST(a_load_zeroes_what_the_tile_held)
{
    if (!begin()) skip();
    uint8_t full[1024], some[1024], out[1024];
    struct config c = { 0 };
    config_tile(&c, 0, 16, 64);
    fill(full, sizeof full);
    load_config(&c);
    LOAD(0, full, 64);
    ZERO(0);
    STORE(0, out, 64);
    for (size_t i = 0; i < sizeof out; i++) CHECK_EQ(out[i], 0);
    LOAD(0, full, 64);
    load_config(&c); // a new configuration sets every tile to 0
    STORE(0, some, 64);
    release();
    CHECK_BITS(some, out, sizeof out);
}

// Loads one 64-byte row into tile 3, with the address operand as written.
#define ADDRESS(BASE, INDEX, TEXT, AT, STRIDE)                                                     \
    do {                                                                                           \
        memset(out, 0, sizeof out);                                                                \
        __asm__ volatile("mov %0, %%" BASE "\n\tmov %1, %%" INDEX "\n\ttileloadd " TEXT            \
                         ", %%tmm3\n\t" ::"r"((uint64_t)(uintptr_t)(AT)),                          \
                         "r"((uint64_t)(STRIDE))                                                   \
                         : BASE, INDEX, "memory");                                                 \
        STORE(3, out, 64);                                                                         \
        for (int r = 0; r < 4; r++) CHECK_BITS(out + 64 * r, data + 128 * r, 64);                  \
    } while (0)

TEST(addresses_are_those_of_every_encoding)
{
    if (!begin()) skip();
    uint8_t data[512], out[256];
    struct config c = { 0 };
    config_tile(&c, 3, 4, 64);
    fill(data, sizeof data);
    load_config(&c);
    ADDRESS("rax", "rcx", "(%%rax,%%rcx,1)", data, 128);
    ADDRESS("r8", "r9", "(%%r8,%%r9,2)", data, 64);
    ADDRESS("r15", "r14", "16(%%r15,%%r14,4)", (uintptr_t)data - 16, 32);
    // with base r13 the encoding has a displacement of 0
    ADDRESS("r13", "r12", "(%%r13,%%r12,8)", data, 16);
    ADDRESS("r12", "r13", "-8(%%r12,%%r13,1)", (uintptr_t)data + 8, 128);
    ADDRESS("rdx", "r10", "100000(%%rdx,%%r10,1)", (uintptr_t)data - 100000, 128);
    ADDRESS("rsi", "rdi", "-100000(%%rsi,%%rdi,1)", (uintptr_t)data + 100000, 128);
    release();
}

TEST(addresses_may_lack_a_part)
{
    if (!begin()) skip();
    uint8_t out[256], same[256], row[64];
    struct config c = { 0 };
    config_tile(&c, 3, 4, 64);
    config_tile(&c, 4, 4, 64);
    fill(row, sizeof row);
    load_config(&c);
    __asm__ volatile("tileloadd (%0), %%tmm3" ::"r"(row)
                     : "memory"); // without index register: every row is the same
    STORE(3, out, 64);
    for (int r = 0; r < 4; r++) CHECK_BITS(out + 64 * r, row, 64);
    // Base rsp: loads from the stack, and again through rax.
    __asm__ volatile("tileloadd (%%rsp,%0,1), %%tmm3\n\tmov %%rsp, %%rax\n\t"
                     "tileloadd (%%rax,%0,1), %%tmm4" ::"r"((int64_t)24)
                     : "rax", "memory");
    STORE(3, out, 64);
    STORE(4, same, 64);
    CHECK_BITS(out, same, sizeof out);
    // Without base register: only the displacement.
    uint8_t *low = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (low == (uint8_t *)0x20000000) {
        fill(low, 256);
        __asm__ volatile("tileloadd 0x20000000(,%0,2), %%tmm3" ::"r"((int64_t)32) : "memory");
        STORE(3, out, 64);
        CHECK_BITS(out, low, sizeof out);
        munmap(low, 4096);
    }
    // A configuration whose address is relative to the instruction pointer.
    static struct config here;
    __asm__ volatile("sttilecfg %0" : "=m"(here)::"memory");
    CHECK_BITS(&here, &c, sizeof c);
    release();
}

// Returns a float with few bits (exact in bf16) over a wide range of powers; sometimes a special
// value.
static uint16_t random_bf16(bool special)
{
    const float x = (float)(check_random() * exp2(floor(check_random() * 60)));
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (special && check_random() > 0.9) {
        static const uint16_t odd[] = { 0x0001, 0x807F, 0x0080, 0x7F7F, 0x0000, 0x8000, 0x1F80 };
        return odd[(int)((check_random() + 1) * 3.499)];
    }
    return (uint16_t)(bits >> 16);
}
static float widened(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static float flushed(float x) // subnormal numbers count as 0 and become 0
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

TEST(products_of_bf16_sum_even_and_odd_pairs_apart)
{
    if (!begin()) skip();
    static const int shapes[][3] = { { 16, 16, 16 }, { 1, 1, 1 }, { 5, 9, 3 }, { 16, 2, 16 } };
    EACH(s, shapes) for (int special = 0; special < 2; special++) for (int n = 0; n < 20; n++)
    {
        const int M = (*s)[0], K = (*s)[1], N = (*s)[2];
        uint16_t a[16][32] = { 0 }, b[16][32] = { 0 };
        float sum[16][16] = { 0 }, want[16][16];
        for (int i = 0; i < M; i++)
            for (int k = 0; k < 2 * K; k++) a[i][k] = random_bf16(special);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < 2 * N; j++) b[k][j] = random_bf16(special);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                sum[i][j] = special && n % 2 ? 1e-39f : (float)check_gauss();
                float even = 0, odd = 0;
                for (int k = 0; k < K; k++) {
                    even = flushed(
                        fmaf(flushed(widened(a[i][2 * k])), flushed(widened(b[k][2 * j])), even));
                    odd = flushed(fmaf(flushed(widened(a[i][2 * k + 1])),
                                       flushed(widened(b[k][2 * j + 1])), odd));
                }
                want[i][j] = flushed(flushed(sum[i][j]) + flushed(even + odd));
            }
        struct config c = { 0 };
        config_tile(&c, 0, M, 4 * N);
        config_tile(&c, 6, M, 4 * K);
        config_tile(&c, 7, K, 4 * N);
        load_config(&c);
        LOAD(0, sum, 64);
        LOAD(6, a, 64);
        LOAD(7, b, 64);
        PRODUCT("tdpbf16ps", 0, 6, 7);
        STORE(0, sum, 64);
        release();
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++)
                if (isnan(want[i][j]))
                    CHECK(isnan(sum[i][j]));
                else if (sum[i][j] != want[i][j])
                    fail_msg("%d %d: %a, expected %a", i, j, (double)sum[i][j], (double)want[i][j]);
    }
}

TEST(products_of_bytes_wrap_and_keep_their_signs)
{
    if (!begin()) skip();
    for (int kind = 0; kind < 4; kind++) {
        enum { M = 6, K = 16, N = 11 };
        uint8_t a[M][64], b[K][64];
        int32_t sum[M][16];
        uint32_t want[M][N];
        fill((uint8_t *)a, sizeof a);
        fill((uint8_t *)b, sizeof b);
        fill((uint8_t *)sum, sizeof sum);
        memset(a[0], kind & 2 ? 0x80 : 0xFF, 64);
        memset(b[0], kind & 1 ? 0x80 : 0xFF, 64);
        sum[0][0] = INT32_MAX;
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                want[i][j] = (uint32_t)sum[i][j];
                for (int k = 0; k < 4 * K; k++) {
                    const int x = kind & 2 ? (int8_t)a[i][k] : a[i][k];
                    const int y =
                        kind & 1 ? (int8_t)b[k / 4][4 * j + k % 4] : b[k / 4][4 * j + k % 4];
                    want[i][j] += (uint32_t)(x * y);
                }
            }
        struct config c = { 0 };
        config_tile(&c, 1, M, 4 * N);
        config_tile(&c, 2, M, 4 * K);
        config_tile(&c, 3, K, 4 * N);
        load_config(&c);
        LOAD(1, sum, 64);
        LOAD(2, a, 64);
        LOAD(3, b, 64);
        switch (kind) {
        case 0: PRODUCT("tdpbuud", 1, 2, 3); break;
        case 1: PRODUCT("tdpbusd", 1, 2, 3); break;
        case 2: PRODUCT("tdpbsud", 1, 2, 3); break;
        default: PRODUCT("tdpbssd", 1, 2, 3); break;
        }
        STORE(1, sum, 64);
        release();
        for (int i = 0; i < M; i++) CHECK_BITS(sum[i], want[i], sizeof want[i]);
    }
}

TEST(rows_and_columns_past_the_tile_are_zero_after_a_product)
{
    if (!begin()) skip();
    uint16_t a[16][32], b[16][32];
    float out[16][16];
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 32; k++) a[i][k] = b[i][k] = 0x3F80; // 0x3F80 is the bf16 number 1
    struct config c = { 0 };
    config_tile(&c, 0, 2, 12);
    config_tile(&c, 1, 2, 64);
    config_tile(&c, 2, 16, 12);
    load_config(&c);
    LOAD(1, a, 64);
    LOAD(2, b, 64);
    PRODUCT("tdpbf16ps", 0, 1, 2);
    memset(out, 0, sizeof out);
    STORE(0, out, 64);
    release();
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) CHECK_NEAR(out[i][j], i < 2 && j < 3 ? 32 : 0, 0);
}

TEST(what_does_not_fit_is_refused)
{
    if (!begin()) skip();
    uint8_t m[1024] = { 0 };
    release();
    REFUSED(LOAD(0, m, 64));
    REFUSED(ZERO(0));
    REFUSED(PRODUCT("tdpbf16ps", 0, 1, 2));
    struct config c = { 0 };
    config_tile(&c, 0, 16, 64);
    config_tile(&c, 1, 16, 64);
    config_tile(&c, 2, 16, 64);
    config_tile(&c, 3, 8, 64);
    config_tile(&c, 4, 16, 32);
    config_tile(&c, 5, 16, 62);
    // Each line configures the tiles: the handler of a refused instruction leaves without them.
    REFUSED_WITH(c, LOAD(6, m, 64));  // refused: this tile is not configured
    REFUSED_WITH(c, STORE(7, m, 64)); // refused: this tile is not configured
    REFUSED_WITH(c, LOAD(5, m, 64));  // refused: the row is not a multiple of 4 bytes
    REFUSED_WITH(c, STORE(5, m, 64)); // refused: the row is not a multiple of 4 bytes
    // The same tile twice, which assemblers refuse: tdpbf16ps of 0, 1, 1; of 0, 0, 1; of 1, 0, 1.
    REFUSED_WITH(c, __asm__ volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC1"));
    REFUSED_WITH(c, __asm__ volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC0"));
    REFUSED_WITH(c, __asm__ volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC8"));
    REFUSED_WITH(c, PRODUCT("tdpbf16ps", 0, 3, 1)); // refused: different numbers of rows
    REFUSED_WITH(c, PRODUCT("tdpbf16ps", 0, 1, 4)); // refused: different numbers of columns
    REFUSED_WITH(c, PRODUCT("tdpbssd", 0, 1, 3));   // refused: the inner sizes differ
    REFUSED_WITH(c, PRODUCT("tdpbssd", 0, 5, 1));   // refused: not a multiple of 4 bytes
    load_config(&c);
    ZERO(5);                     // accepted: nothing is moved
    PRODUCT("tdpbssd", 0, 1, 2); // accepted: the shapes match
    release();
    if (!tiles_native()) CHECK(strcmp(tiles_refused(), "") != 0);
}

// Changes the tiles of the calling thread, which may begin with the configuration of its creator.
static void *other_thread(void *out)
{
    struct config c = { 0 };
    uint8_t ones[1024], back_again[1024];
    memset(ones, 1, sizeof ones);
    memset(back_again, 0, sizeof back_again);
    config_tile(&c, 0, 8, 32);
    load_config(&c);
    LOAD(0, ones, 32);
    STORE(0, back_again, 32);
    *(bool *)out = memcmp(ones, back_again, 8 * 32) == 0;
    return NULL; // ends without a release
}

TEST(each_thread_has_tiles_of_its_own)
{
    if (!begin()) skip();
    struct config c = { 0 };
    uint8_t from[1024], to[1024] = { 0 };
    bool worked = false;
    fill(from, sizeof from);
    config_tile(&c, 0, 16, 64);
    load_config(&c);
    LOAD(0, from, 64);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, &worked), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(worked);
    const struct config now = store_config();
    STORE(0, to, 64);
    CHECK(tiles_native() || tiles_held());
    release();
    CHECK(!tiles_held());
    CHECK_BITS(&now, &c, sizeof c);
    CHECK_BITS(to, from, sizeof from);
}

TEST(what_is_emulated_is_counted_and_registers_stay)
{
    if (tiles_native() || !tiles_emulate()) skip();
    const int64_t before = tiles_count();
    // Checks that a vector register and the flags survive the signal handler.
    uint64_t low = 0, carry = 0;
    __asm__ volatile("mov $0x1234, %%rax\n\tmovq %%rax, %%xmm9\n\tstc\n\ttilerelease\n\t"
                     "setc %b1\n\tmovq %%xmm9, %0"
                     : "=r"(low), "+r"(carry)::"rax", "xmm9", "cc", "memory");
    CHECK_EQ(low, 0x1234);
    CHECK_EQ(carry, 1);
    CHECK_EQ(tiles_count() - before, 1);
}

TEST(another_illegal_instruction_is_still_one)
{
    if (!begin()) skip();
    REFUSED(__asm__ volatile("ud2"));
}

CHECK_MAIN(CASE(a_configuration_is_kept_and_released), CASE(a_bad_configuration_is_refused),
           CASE(tiles_are_loaded_row_by_row_and_zero_behind),
           CASE(a_load_zeroes_what_the_tile_held), CASE(addresses_are_those_of_every_encoding),
           CASE(addresses_may_lack_a_part), CASE(products_of_bf16_sum_even_and_odd_pairs_apart),
           CASE(products_of_bytes_wrap_and_keep_their_signs),
           CASE(rows_and_columns_past_the_tile_are_zero_after_a_product),
           CASE(what_does_not_fit_is_refused), CASE(each_thread_has_tiles_of_its_own),
           CASE(what_is_emulated_is_counted_and_registers_stay),
           CASE(another_illegal_instruction_is_still_one))
