// SPDX-License-Identifier: MIT
// tiles.c: emulates AMX-TILE, AMX-BF16 and AMX-INT8 in a handler of SIGILL. Source: Intel SDM vol.
// 1, chapter 18 (programming with AMX) and vol. 2 (the operation of each instruction).
#include "emulate/tiles.h"
#include <cpuid.h>
#include <immintrin.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, BYTES = 64, CONFIG = 64 };

// The tiles of one thread. rows and bytes are 0 for a tile that is not configured.
static _Thread_local struct {
    bool configured;
    uint8_t start;
    uint8_t rows[TILES];
    uint16_t bytes[TILES];
    uint8_t data[TILES][ROWS][BYTES];
    int64_t count;
    const char *refused;
} file;

// The program's own handler, set through signal(); it receives refused instructions.
static void (*next)(int) = SIG_DFL;
static bool on;

// ---- decoding ----------------------------------------------------------------------------------
// Encoding VEX.128.0F38.W0: C4; R, X, B and the map; W, vvvv, L, pp; opcode; ModRM; SIB;
// displacement.
struct instruction {
    // bytes of the instruction; opcode; prefix: 0 none, 1 66, 2 F3, 3 F2
    int length, opcode, prefix;
    int reg, rm, vvvv; // tile numbers; rm is 0..15 for a register operand
    bool memory, sib;
    uint64_t at, stride; // memory operand: at = base + displacement, stride = index << scale
};

// The registers in the order of their numbers.
static const int registers[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                   REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                   REG_R12, REG_R13, REG_R14, REG_R15 };

static uint64_t reg_value(const ucontext_t *c, int number)
{
    return (uint64_t)c->uc_mcontext.gregs[registers[number]];
}

static int32_t signed32(const uint8_t *p)
{
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

// Decodes the memory operand at the ModRM byte p[0]; returns the number of bytes from p.
static int decode_memory(struct instruction *i, const ucontext_t *c, const uint8_t *p, int x, int b)
{
    const int mod = p[0] >> 6, rm = p[0] & 7;
    int length = 1;
    bool base_none = mod == 0 && rm == 5;
    i->memory = true;
    if (rm == 4) {
        const int scale = p[1] >> 6, index = (p[1] >> 3 & 7) | x << 3, base = p[1] & 7;
        length = 2;
        i->sib = true;
        // index 4 encodes no index register
        i->stride = index == 4 ? 0 : reg_value(c, index) << scale;
        base_none = mod == 0 && base == 5;
        i->at = base_none ? 0 : reg_value(c, base | b << 3);
    } else if (!base_none) {
        i->at = reg_value(c, rm | b << 3);
    }
    if (mod == 1) {
        i->at += (uint64_t)(int64_t)(int8_t)p[length];
        return length + 1;
    }
    if (mod == 2 || base_none) {
        i->at += (uint64_t)(int64_t)signed32(p + length);
        length += 4;
    }
    // Without SIB the displacement is relative to the next instruction; 4 bytes precede ModRM.
    if (base_none && !i->sib) i->at += (uint64_t)c->uc_mcontext.gregs[REG_RIP] + 4 + length;
    return length;
}

// Decodes the instruction at the instruction pointer; returns false if it is not a tile
// instruction.
static bool decode(struct instruction *i, const ucontext_t *c)
{
    const uint8_t *p = (const uint8_t *)c->uc_mcontext.gregs[REG_RIP];
    memset(i, 0, sizeof *i);
    // checks the map, W and L
    if (p[0] != 0xC4 || (p[1] & 0x1F) != 2 || (p[2] & 0x84) != 0) return false;
    i->opcode = p[3];
    if (i->opcode != 0x49 && i->opcode != 0x4B && i->opcode != 0x5C && i->opcode != 0x5E)
        return false;
    const int r = !(p[1] & 0x80), x = !(p[1] & 0x40), b = !(p[1] & 0x20);
    i->prefix = p[2] & 3;
    i->vvvv = (p[2] >> 3 & 15) ^ 15;
    i->reg = (p[4] >> 3 & 7) | r << 3;
    if (p[4] >> 6 == 3) {
        i->rm = (p[4] & 7) | b << 3;
        i->length = 5;
    } else {
        i->length = 4 + decode_memory(i, c, p + 4, x, b);
    }
    return true;
}

// ---- configuration -----------------------------------------------------------------------------
static void release(void)
{
    file.configured = false;
    file.start = 0;
    memset(file.rows, 0, sizeof file.rows);
    memset(file.bytes, 0, sizeof file.bytes);
    memset(file.data, 0, sizeof file.data);
}

static bool any(const uint8_t *p, int from, int to)
{
    for (; from < to; from++)
        if (p[from]) return true;
    return false;
}

// Loads a configuration: byte 0 is the palette, 1 the start row, 16 + 2n the bytes per row of tile
// n, 48 + n its rows; the other bytes are 0.
static const char *load_config(const uint8_t *m)
{
    uint16_t bytes[TILES];
    if (m[0] > 1) return "ldtilecfg: a palette that does not exist";
    if (m[0] == 0) {
        release();
        return NULL;
    }
    if (any(m, 2, 16) || any(m, 32, 48) || any(m, 56, 64))
        return "ldtilecfg: reserved bytes are not 0";
    memcpy(bytes, m + 16, sizeof bytes);
    for (int n = 0; n < TILES; n++) {
        if (bytes[n] > BYTES) return "ldtilecfg: more than 64 bytes a row";
        if (m[48 + n] > ROWS) return "ldtilecfg: more than 16 rows";
        if (!bytes[n] != !m[48 + n]) return "ldtilecfg: rows without bytes, or bytes without rows";
    }
    release();
    file.configured = true;
    file.start = m[1];
    memcpy(file.bytes, bytes, sizeof bytes);
    memcpy(file.rows, m + 48, TILES);
    return NULL;
}

static void store_config(uint8_t *m)
{
    memset(m, 0, CONFIG);
    if (!file.configured) return;
    m[0] = 1;
    m[1] = file.start;
    memcpy(m + 16, file.bytes, sizeof file.bytes);
    memcpy(m + 48, file.rows, TILES);
}

// ---- loads and stores --------------------------------------------------------------------------
static const char *usable(int tile)
{
    if (!file.configured) return "tiles are not configured";
    if (tile >= TILES) return "a tile above 7";
    if (!file.rows[tile]) return "a tile that the configuration leaves out";
    return NULL;
}

// Loads, stores and products, but not tilezero, also require rows of whole groups.
static const char *usable_rows(int tile)
{
    const char *wrong = usable(tile);
    return wrong                  ? wrong
           : file.bytes[tile] % 4 ? "a tile whose rows are not groups of 4 bytes"
                                  : NULL;
}

static const char *move(const struct instruction *i)
{
    const char *wrong = usable_rows(i->reg);
    if (wrong) return wrong;
    if (!i->memory || !i->sib) return "a tile is moved without a SIB byte";
    if (!i->prefix) return "an encoding that is reserved";
    if (i->vvvv) return "vvvv is not 1111b";
    const bool store = i->prefix == 2;
    uint8_t(*tile)[BYTES] = file.data[i->reg];
    for (int r = file.start; r < file.rows[i->reg]; r++) {
        uint8_t *at = (uint8_t *)(uintptr_t)(i->at + (uint64_t)r * i->stride);
        if (store) {
            memcpy(at, tile[r], file.bytes[i->reg]);
        } else {
            memset(tile[r], 0, BYTES);
            memcpy(tile[r], at, file.bytes[i->reg]);
        }
    }
    if (!store) memset(tile[file.rows[i->reg]], 0, (size_t)(ROWS - file.rows[i->reg]) * BYTES);
    file.start = 0;
    return NULL;
}

// ---- products ----------------------------------------------------------------------------------
// Checks the shapes of to[m][n] += sum_k a[m][k] b[k][n], with k in groups of 4 bytes.
static const char *fit(int to, int a, int b)
{
    const int all[] = { to, a, b };
    for (int n = 0; n < 3; n++) {
        const char *wrong = usable_rows(all[n]);
        if (wrong) return wrong;
    }
    if (to == a || to == b || a == b) return "a product names one tile twice";
    if (file.rows[to] != file.rows[a]) return "rows of the sum and of the first factor differ";
    if (file.bytes[to] != file.bytes[b])
        return "columns of the sum and of the second factor differ";
    if (file.bytes[a] / 4 != file.rows[b])
        return "columns of the first factor and rows of the second differ";
    return NULL;
}

#define WIDE __attribute__((target("avx512f"))) static
WIDE __m512 bf16_low(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
WIDE __m512 bf16_high(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xFFFF0000u)));
}

// Subnormal inputs and results are 0 and rounding is to nearest even, set in MXCSR as the manual
// specifies. Columns past the columns of b are 0 in b and are not stored.
WIDE void product_bf16(int to, int a, int b)
{
    enum { ALL_MASKED_DAZ_FTZ = 0x1F80 | 0x8000 | 0x0040 };
    const unsigned mode = _mm_getcsr();
    const int depth = file.bytes[a] / 4;
    const __mmask16 columns = (__mmask16)((1u << file.bytes[to] / 4) - 1);
    _mm_setcsr(ALL_MASKED_DAZ_FTZ);
    for (int m = 0; m < file.rows[to]; m++) {
        __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
        for (int k = 0; k < depth; k++) {
            const __m512i y = _mm512_loadu_si512(file.data[b][k]);
            const __m512i x = _mm512_set1_epi32(signed32(file.data[a][m] + 4 * k));
            even = _mm512_fmadd_ps(bf16_low(x), bf16_low(y), even);
            odd = _mm512_fmadd_ps(bf16_high(x), bf16_high(y), odd);
        }
        const __m512 sum = _mm512_loadu_ps(file.data[to][m]);
        _mm512_storeu_ps(file.data[to][m],
                         _mm512_maskz_add_ps(columns, sum, _mm512_add_ps(even, odd)));
    }
    _mm_setcsr(mode);
}

// Adds products to 32-bit sums that wrap around.
static void product_int8(int to, int a, int b, bool a_signed, bool b_signed)
{
    for (int m = 0; m < file.rows[to]; m++)
        for (int n = 0; n < file.bytes[to] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, file.data[to][m] + 4 * n, sizeof sum);
            for (int k = 0; k < file.bytes[a]; k++) {
                const uint8_t x = file.data[a][m][k], y = file.data[b][k / 4][4 * n + k % 4];
                sum += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
            }
            memcpy(file.data[to][m] + 4 * n, &sum, sizeof sum);
        }
}

static void zero_above(int tile)
{
    memset(file.data[tile][file.rows[tile]], 0, (size_t)(ROWS - file.rows[tile]) * BYTES);
    file.start = 0;
}

static const char *multiply(const struct instruction *i)
{
    if (i->memory) return "a product with a factor in memory";
    if (i->opcode == 0x5C && i->prefix != 2) return "an opcode of AMX that is not emulated";
    const char *wrong = fit(i->reg, i->rm, i->vvvv);
    if (wrong) return wrong;
    if (i->opcode == 0x5C)
        product_bf16(i->reg, i->rm, i->vvvv);
    else // tdpbuud has no prefix, tdpbusd 66, tdpbsud F3, tdpbssd F2
        product_int8(i->reg, i->rm, i->vvvv, i->prefix & 2, i->prefix & 1);
    zero_above(i->reg);
    return NULL;
}

// ---- opcode 49: configuration, release, zero ---------------------------------------------------
static const char *control(const struct instruction *i)
{
    if (i->vvvv) return "vvvv is not 1111b";
    if (i->memory) {
        if (i->reg != 0 || i->prefix > 1) return "an encoding that is reserved";
        if (i->prefix == 0) return load_config((const uint8_t *)(uintptr_t)i->at);
        store_config((uint8_t *)(uintptr_t)i->at);
        return NULL;
    }
    if (i->rm != 0) return "an encoding that is reserved";
    if (i->prefix == 0) {
        if (i->reg != 0) return "an encoding that is reserved";
        release();
        return NULL;
    }
    if (i->prefix != 3) return "an encoding that is reserved";
    const char *wrong = usable(i->reg);
    if (wrong) return wrong;
    memset(file.data[i->reg], 0, sizeof file.data[i->reg]);
    file.start = 0;
    return NULL;
}

// ---- the handler -------------------------------------------------------------------------------
static void tell(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static void refuse(int number)
{
    if (next == SIG_DFL || next == SIG_IGN) {
        // Returns to the same instruction, which now ends the process.
        const struct sigaction plain = { .sa_handler = SIG_DFL };
        sigaction(number, &plain, NULL);
        return;
    }
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    // SIGILL is unblocked, because the handler may leave by longjmp
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    next(number);
}

static const char *run(const struct instruction *i)
{
    return i->opcode == 0x49 ? control(i) : i->opcode == 0x4B ? move(i) : multiply(i);
}

static void handle(int number, siginfo_t *info, void *context)
{
    ucontext_t *const c = context;
    struct instruction i;
    (void)info;
    if (!decode(&i, c)) {
        refuse(number);
        return;
    }
    // Tile instructions usually follow one another: directly following ones are emulated in the
    // same signal.
    do {
        const char *wrong = run(&i);
        if (wrong) {
            file.refused = wrong;
            tell("tile instruction refused: ");
            tell(wrong);
            tell("\n");
            refuse(number);
            return;
        }
        file.count++;
        c->uc_mcontext.gregs[REG_RIP] += i.length;
    } while (decode(&i, c));
}

// Replaces signal(). cmocka sets its own handler around each case with this function: a handler for
// SIGILL is stored for refused instructions, and the emulation remains installed. Visible, so that
// cmocka's library calls this function.
__attribute__((visibility("default"))) void (*signal(int number, void (*handler)(int)))(int)
{
    if (number == SIGILL && on) {
        void (*const before)(int) = next;
        next = handler;
        return before;
    }
    struct sigaction now = { .sa_handler = handler, .sa_flags = SA_RESTART }, before;
    if (sigaction(number, &now, &before) != 0) return SIG_ERR;
    return before.sa_handler;
}

bool tiles_native(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, d, lo, hi;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    if ((lo & 0x60000) != 0x60000) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 22 & 0xD) != 0xD) return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool tiles_emulate(void)
{
    if (!__builtin_cpu_supports("avx512f")) return false;
    struct sigaction how = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO }, before;
    sigemptyset(&how.sa_mask);
    if (sigaction(SIGILL, &how, &before) != 0) return false;
    if (!on && !(before.sa_flags & SA_SIGINFO)) next = before.sa_handler;
    on = true;
    return true;
}

int64_t tiles_count(void)
{
    return file.count;
}

bool tiles_held(void)
{
    return file.configured;
}

const char *tiles_refused(void)
{
    return file.refused ? file.refused : "";
}
