// SPDX-License-Identifier: MIT
// no_memory.c: a library for LD_PRELOAD, with which allocations of qkv fail on some ranks;
// allocations of MPI and libc do not. QKV_NO_MEMORY="RANK:N RANK:N ..": on rank RANK the N-th allocation and all
// later ones fail; "RANK:N-" only the N-th. N counts from 1.  A process that is no rank is rank 0.
// QKV_NO_MEMORY_COUNT=FILE: at its end the process writes the number of its allocations.
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static long first; // the first allocation that fails; 0: none
static bool one;   // no other fails
static atomic_long calls;

__attribute__((constructor)) static void begin(void)
{
    const char *own = getenv("OMPI_COMM_WORLD_RANK"), *at = getenv("QKV_NO_MEMORY");
    if (!own) own = getenv("PMI_RANK");
    if (!own) own = "0";
    while (at && *at) {
        char *end;
        const long rank = strtol(at, &end, 10), n = *end == ':' ? strtol(end + 1, &end, 10) : 0;
        if (rank == strtol(own, NULL, 10)) {
            first = n;
            one = *end == '-';
        }
        at = strchr(end, ' ');
    }
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("QKV_NO_MEMORY_COUNT");
    FILE *to = path ? fopen(path, "w") : NULL;
    if (!to) return;
    fprintf(to, "%ld\n", (long)calls);
    fclose(to);
}

// Returns whether an allocation fails. from: an address in the function that calls it.
static bool fails(const void *from)
{
    Dl_info info;
    if (!dladdr(from, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/'), *name = slash ? slash + 1 : info.dli_fname;
    if (strncmp(name, "qkv", 3) != 0 && strncmp(name, "libqkv", 6) != 0) return false;
    const long n = ++calls;
    const bool yes = first && (one ? n == first : n >= first);
    if (yes) errno = ENOMEM;
    return yes;
}

#define VISIBLE __attribute__((visibility("default")))
#define FROM    __builtin_return_address(0)
VISIBLE void *malloc(size_t bytes)
{
    return fails(FROM) ? NULL : __libc_malloc(bytes);
}
VISIBLE void *calloc(size_t n, size_t bytes)
{
    return fails(FROM) ? NULL : __libc_calloc(n, bytes);
}
VISIBLE void *realloc(void *p, size_t bytes)
{
    return fails(FROM) ? NULL : __libc_realloc(p, bytes);
}
VISIBLE int posix_memalign(void **p, size_t alignment, size_t bytes)
{
    void *at = fails(FROM) ? NULL : __libc_memalign(alignment, bytes);
    if (!at) return ENOMEM;
    *p = at;
    return 0;
}
