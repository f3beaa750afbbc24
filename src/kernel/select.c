// SPDX-License-Identifier: MIT
// select.c: selects the kernels of this CPU by overlaying the tables of all instruction sets
// (isa.def) that it supports, weakest first.
#include "kernel/kernel_internal.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QKV_ISA(NAME, NEEDS, FLAGS, MACHINE) extern const struct qkv_kernels qkv_kernels_##NAME;
#include "kernel/isa.def"
#undef QKV_ISA

static const struct row {
    const char *name;
    unsigned needs;
    const struct qkv_kernels *table; // table of the ISA; NULL: the ISA belongs to another machine
} rows[] = {
#define any(NAME) &qkv_kernels_##NAME
#if defined(__x86_64__) && !defined(QKV_DOUBLE) && !defined(QKV_FUZZ)
#define x86_64(NAME) &qkv_kernels_##NAME
#else
#define x86_64(NAME) NULL
#endif
#if defined(__aarch64__) && !defined(QKV_DOUBLE) && !defined(QKV_FUZZ)
#define aarch64(NAME) &qkv_kernels_##NAME
#else
#define aarch64(NAME) NULL
#endif
#define QKV_ISA(NAME, NEEDS, FLAGS, MACHINE) { #NAME, NEEDS, MACHINE(NAME) },
#include "kernel/isa.def"
#undef QKV_ISA
#undef any
#undef x86_64
#undef aarch64
};
enum { ROWS = sizeof rows / sizeof *rows };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct qkv_kernels tables[ROWS]; // one table per supported ISA, weakest first
static int supported, chosen;
static const struct qkv_kernels *forced;
static qkv_status passed_over; // the reason why QKV_ISA was ignored; QKV_OK: it was not ignored
static char note[512];

// Copies the kernels of the stronger table `from` to the table `to`; where a pointer of `from` is
// NULL, the weaker kernel of `to` remains.
static void overlay(struct qkv_kernels *to, const struct qkv_kernels *from)
{
    void *const *f = (void *const *)(const void *)from;
    void **t = (void **)(void *)to;
    for (size_t i = 0; i < sizeof *to / sizeof *t; i++)
        if (f[i]) t[i] = f[i];
}

static int find(const char *name)
{
    for (int i = 0; i < supported; i++)
        if (!strcmp(tables[i].isa, name)) return i;
    return -1;
}

// Returns the error for an ISA that this machine cannot run: QKV_ERR_USAGE if the name is unknown,
// QKV_ERR_UNSUPPORTED if the machine does not support the ISA.
static qkv_status unknown(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name)) return QKV_ERR_UNSUPPORTED;
    return QKV_ERR_USAGE;
}

static void pass_over(const char *cap)
{
    char found[128], names[256] = "";
    for (int i = 0; i < supported; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", tables[i].isa);
    }
    passed_over = unknown(cap);
    snprintf(note, sizeof note, "QKV_ISA: %s, expected one of %s, found '%s'",
             passed_over == QKV_ERR_USAGE ? "unknown instruction set"
                                          : "instruction set not supported by this machine",
             names, qkv_escape(found, sizeof found, cap));
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
    if (!cap || !*cap) return;
    if (find(cap) >= 0)
        chosen = find(cap);
    else
        pass_over(cap);
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

qkv_status qkv_isa_set(const char *name)
{
    pthread_once(&once, build);
    const int i = name ? find(name) : -1;
    if (name && i < 0) return unknown(name);
    forced = name ? &tables[i] : NULL;
    return QKV_OK;
}

const char *qkv_isa_note(qkv_status *status)
{
    pthread_once(&once, build);
    if (status) *status = passed_over;
    return note;
}
