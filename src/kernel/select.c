// SPDX-License-Identifier: MIT
// select.c: which kernels run: every row of isa.def that the CPU supports is laid over the one before.
#include "kernel/kernel.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define QKV_ON_x86_64 1
#elif defined(__aarch64__)
#define QKV_ON_aarch64 1
#endif
#define QKV_ON_any 1

extern const struct qkv_kernels qkv_kernels_scalar;
#if defined(__x86_64__) && !defined(QKV_DOUBLE)
extern const struct qkv_kernels qkv_kernels_avx2, qkv_kernels_avx512;
#endif

static const struct row {
    const char *name;
    unsigned needs;
    const struct qkv_kernels *table; // NULL: not of this machine
} rows[] = {
#define any(NAME) &qkv_kernels_##NAME
#if defined(__x86_64__) && !defined(QKV_DOUBLE)
#define x86_64(NAME) &qkv_kernels_##NAME
#else
#define x86_64(NAME) NULL
#endif
#define QKV_ISA(NAME, NEEDS, FLAGS, MACHINE) { #NAME, NEEDS, MACHINE(NAME) },
#include "kernel/isa.def"
#undef QKV_ISA
#undef any
#undef x86_64
};
enum { ROWS = sizeof rows / sizeof *rows };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct qkv_kernels tables[ROWS]; // one a supported ISA, weakest first
static int supported, chosen;
static const struct qkv_kernels *forced;

// Slots that the stronger table leaves NULL keep what they had.
static void overlay(struct qkv_kernels *to, const struct qkv_kernels *from)
{
    void *const *f = (void *const *)(const void *)from;
    void **t = (void **)(void *)to;
    for (size_t i = 0; i < sizeof *to / sizeof *t; i++)
        if (f[i]) t[i] = f[i];
}

static void build(void)
{
    const unsigned have = qkv_cpu_features();
    const char *cap = getenv("QKV_ISA");
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].table || (rows[i].needs & have) != rows[i].needs) continue;
        if (supported) tables[supported] = tables[supported - 1];
        overlay(&tables[supported], rows[i].table);
        tables[supported].isa = rows[i].name;
        supported++;
    }
    chosen = supported - 1;
    for (int i = 0; cap && i < supported; i++)
        if (!strcmp(tables[i].isa, cap)) chosen = i;
}

const struct qkv_kernels *qkv_kernel(void)
{
    if (forced) return forced;
    pthread_once(&once, build);
    return &tables[chosen];
}

const struct qkv_kernels *qkv_kernel_isa(int n)
{
    pthread_once(&once, build);
    return n >= 0 && n < supported ? &tables[n] : NULL;
}

void qkv_kernel_use(const struct qkv_kernels *k)
{
    forced = k;
}

const char *qkv_isa(void)
{
    return qkv_kernel()->isa;
}

const char *qkv_isa_supported(int n)
{
    const struct qkv_kernels *k = qkv_kernel_isa(n);
    return k ? k->isa : NULL;
}
