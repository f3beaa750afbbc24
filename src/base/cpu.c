// SPDX-License-Identifier: MIT
// cpu.c: detects the instruction sets that the CPU has and the operating system permits.
// Source: Intel SDM vol. 1, 13-14 and 18; AMD APM vol. 3; Linux Documentation/arch/x86/xstate.rst.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned features;
static char name[64], amx[96] = "not present";
static unsigned pretended, pretended_granted;

#if defined(__x86_64__)
static uint64_t xgetbv0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

// Requests AMX tiles from the system.  Returns 0 if they are permitted, otherwise an errno value.
static int ask_for_tiles(void)
{
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const int before = errno;
    const int why = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) ? errno : 0;
    errno = before;
    return why;
#else
    return ENOTSUP; // qkv knows no such request for other systems
#endif
}

// Requests AMX from the system and returns the AMX bits that it permits.  `bits` are the AMX
// features of the CPU; `enabled` is true if the register XCR0 says that the system saves the state
// of tiles.
static unsigned detect_tiles(unsigned bits, bool enabled)
{
    const unsigned granted = pretended_granted & pretended;
    bits |= pretended & (QKV_CPU_AMX_BF16 | QKV_CPU_AMX_INT8);
    if (!bits) return 0;
    const int why = !(bits & ~granted) ? 0 : enabled ? ask_for_tiles() : ENOTSUP;
    if (why) {
        snprintf(amx, sizeof amx, "present, but the operating system refuses it (%s)",
                 strerror(why));
        return bits & granted;
    }
    snprintf(amx, sizeof amx, "present");
    return bits;
}

static void detect_features(void)
{
    unsigned a, b, c, d;
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++) {
            unsigned r[4];
            __get_cpuid(0x80000002u + i, &r[0], &r[1], &r[2], &r[3]);
            memcpy(name + 16 * i, r, 16);
        }
        const size_t lead = strspn(name, " "); // some CPUs pad the name with leading spaces
        memmove(name, name + lead, strlen(name + lead) + 1);
        for (size_t n = strlen(name); n && name[n - 1] == ' '; n--) name[n - 1] = 0;
    }
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    const uint64_t saved = xgetbv0();
    const bool ymm = (saved & 0x06) == 0x06, zmm = (saved & 0xE6) == 0xE6,
               tiles = (saved & 0x60000) == 0x60000;
    if (ymm && (c & bit_FMA)) features |= QKV_CPU_FMA;
    if (ymm && (c & bit_F16C)) features |= QKV_CPU_F16C;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    if (ymm && (b & bit_AVX2)) features |= QKV_CPU_AVX2;
    const unsigned need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (zmm && (b & need) == need) {
        features |= QKV_CPU_AVX512;
        if (c & bit_AVX512VNNI) features |= QKV_CPU_AVX512_VNNI;
        if (d & (1u << 23)) features |= QKV_CPU_AVX512_FP16;
    }
#ifdef QKV_EMULATE_AVX512 // a build for tests: src/kernel/module.cmake
    features |= QKV_CPU_AVX512 | QKV_CPU_AVX512_VNNI | QKV_CPU_AVX512_BF16;
#endif
    unsigned bits = 0;
    if ((d & (1u << 24)) && (d & (1u << 22))) bits |= QKV_CPU_AMX_BF16;
    if ((d & (1u << 24)) && (d & (1u << 25))) bits |= QKV_CPU_AMX_INT8;
    features |= detect_tiles(bits, tiles || pretended);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (features & QKV_CPU_AVX512) && (a & (1u << 5)))
        features |= QKV_CPU_AVX512_BF16;
}
#elif defined(__aarch64__)
static void detect_features(void)
{
    features = QKV_CPU_NEON; // part of the base architecture
}
#else
static void detect_features(void) {}
#endif

unsigned qkv_cpu_features(void)
{
    pthread_once(&once, detect_features);
    return features;
}

const char *qkv_cpu_name(void)
{
    pthread_once(&once, detect_features);
    return name;
}

const char *qkv_cpu_amx(void)
{
    pthread_once(&once, detect_features);
    return amx;
}

void qkv_cpu_pretend(unsigned present, unsigned granted)
{
    pretended = present;
    pretended_granted = granted;
}
