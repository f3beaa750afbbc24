// SPDX-License-Identifier: MIT
// check.h: cmocka in qkv's words.  A case is a static function whose name is a sentence.
//
//   CASE(name)...          a row of CHECK_MAIN, which is the program
//   CHECK(x)               x is true            CHECK_EQ(a, b)  integers
//   CHECK_NEAR(a, b, tol)  |a - b| <= tol       CHECK_BITS(p, q, bytes)
//   EACH(p, array)         for each element     EACH_ISA(k)     for each supported ISA
//   fenced(bytes)          memory that ends right before a guard page; fence_free() frees all of it
#ifndef QKV_CHECK_H
#define QKV_CHECK_H
#include "kernel/kernel_internal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// clang-format off
#define CASE(name) { #name, check_##name, NULL, NULL, NULL }
// clang-format on
#define TEST(name)                                                                                 \
    static void name(void);                                                                        \
    static void check_##name(void **state)                                                         \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)
// 1 in a build with a sanitizer: its tests look for faults, not for bits, and may draw less
#if defined __has_feature // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SANITIZED 1
#endif
#endif
#if defined CHECK_SANITIZED
#elif defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define CHECK_SANITIZED 1
#else
#define CHECK_SANITIZED 0
#endif
#define CHECK_MAIN(...)                                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest cases[] = { __VA_ARGS__ };                                         \
        return cmocka_run_group_tests(cases, NULL, NULL);                                          \
    }

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) fail_msg("%s", #x);                                                              \
    } while (0)
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        const long long a_ = (long long)(a), b_ = (long long)(b);                                  \
        if (a_ != b_) fail_msg("%s: %lld, expected %s: %lld", #a, a_, #b, b_);                     \
    } while (0)
#define CHECK_NEAR(a, b, tol)                                                                      \
    do {                                                                                           \
        const double a_ = (a), b_ = (b), t_ = (tol);                                               \
        if (!(fabs(a_ - b_) <= t_))                                                                \
            fail_msg("%s: %.9g, expected %s: %.9g within %.3g", #a, a_, #b, b_, t_);               \
    } while (0)
#define CHECK_TEXT(a, b)                                                                           \
    do {                                                                                           \
        const char *a_ = (a), *b_ = (b);                                                           \
        if (strcmp(a_, b_) != 0) fail_msg("%s: \"%s\", expected \"%s\"", #a, a_, b_);              \
    } while (0)
#define CHECK_BITS(p, q, bytes)                                                                    \
    do {                                                                                           \
        if (memcmp(p, q, bytes) != 0) fail_msg("bits differ: %s, %s", #p, #q);                     \
    } while (0)
#define EACH(p, array)                                                                             \
    for (__typeof__((array)[0]) *p = (array), *p##_end = p + sizeof(array) / sizeof(array)[0];     \
         p < p##_end; p++)
// Slow builds (sanitizers, small tiles: QKV_FEW) leave out the sets between the weakest and the
// strongest. With QKV_STRONGEST in the environment only the strongest set is tested: the tests on
// emulated tiles, whose other sets the same test without tiles covers. With QKV_ISA only the set of
// this name is tested, if the machine has it.
#ifndef QKV_FEW
#define QKV_FEW 0
#endif
static inline bool check_leaves_out(int isa)
{
    const char *only = getenv("QKV_ISA");
    for (int i = 0; only && qkv_kernel_isa(i); i++)
        if (!strcmp(only, qkv_kernel_isa(i)->isa)) return i != isa;
    return qkv_kernel_isa(isa + 1) && ((QKV_FEW && isa) || getenv("QKV_STRONGEST"));
}
// Slow builds test the weakest set in one precision, unless it is the only set: the tests of module
// kernel test its kernels of all precisions.
static inline bool check_leaves_out_precision(int precision)
{
    return QKV_FEW && precision && qkv_kernel_isa(1) && qkv_kernel() == qkv_kernel_isa(0);
}
// Loops over an array. Slow builds test one element for each value of `turn`, in turn.
#define EACH_IN_TURN(p, array, turn)                                                               \
    for (__typeof__((array)[0]) *p = (array) + (QKV_FEW ? (turn) % CHECK_COUNT(array) : 0),        \
                                *p##_end = QKV_FEW ? p + 1 : (array) + CHECK_COUNT(array);         \
         p < p##_end; p++)
#define CHECK_COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))
#define EACH_ISA(k)                                                                                \
    for (int k##_n = 0; qkv_kernel_isa(k##_n); k##_n++, qkv_kernel_use(NULL))                      \
        if (check_leaves_out(k##_n))                                                               \
            continue;                                                                              \
        else                                                                                       \
            for (const struct qkv_kernels *k = qkv_kernel_isa(k##_n), *k##_once = k;               \
                 k##_once && (qkv_kernel_use(k), 1); k##_once = NULL)

// Reproducible numbers: a 64-bit linear congruential step, high bits.
static uint64_t check_seed = 1;
static inline double check_random(void) // in [-1, 1)
{
    check_seed = check_seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(check_seed >> 11 << 11) * 0x1p-63;
}
// Returns the number of random mixtures that a test draws, and seeds them: QKV_MIXTURES and
// QKV_SEED of the environment (`make long`), or the given numbers.
static inline int check_mixtures(int usual, uint64_t seed)
{
    const char *count = getenv("QKV_MIXTURES"), *from = getenv("QKV_SEED");
    check_seed = from ? strtoull(from, NULL, 10) : seed;
    return count ? atoi(count) : usual;
}
static inline double check_gauss(void) // mean 0, variance 1: sum of 12 uniforms
{
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += check_random() * 0.5;
    return sum;
}

// Blocks that end at an inaccessible page.
static struct check_fence {
    void *at;
    size_t size;
} check_fences[256];
static inline void *fenced(size_t bytes)
{
    const size_t page = 4096, capacity = (bytes + page - 1) / page * page;
    char *at = mmap(NULL, capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED ||
        mprotect(at + page, capacity ? capacity : page, PROT_READ | PROT_WRITE) != 0)
        fail_msg("no memory for a fenced block");
    if (capacity) mprotect(at + page + capacity, page, PROT_NONE);
    for (size_t i = 0; i < 256; i++)
        if (!check_fences[i].at) {
            check_fences[i] = (struct check_fence){ at, capacity + 2 * page };
            return at + page + capacity - bytes;
        }
    fail_msg("more than 256 fenced blocks");
    return NULL;
}
static inline void fence_free(void)
{
    for (size_t i = 0; i < 256; i++)
        if (check_fences[i].at) munmap(check_fences[i].at, check_fences[i].size);
    memset(check_fences, 0, sizeof check_fences);
}
static inline float *fenced_random(int64_t n)
{
    float *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)check_gauss();
    return x;
}
static inline void check_unused(void)
{
    (void)fenced_random;
    (void)fence_free;
    (void)check_unused;
}
#endif
