// SPDX-License-Identifier: MIT
// temporary.c: names temporary files and folders, and keeps a table of those that exist, so that a
// process that ends early can remove them.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

// Table of the temporary files and folders.  An entry is valid while `path` is not NULL; a signal
// handler reads the table without a lock.  A process started by fork() owns no entry of its parent.
enum { SLOTS = 256, REMOVE_TRIES = 100 };
static struct {
    _Atomic(const char *) path;
    _Atomic long process;
} slots[SLOTS];

uint32_t qkv_temporary_number(void)
{
    uint32_t n;
    if (getentropy(&n, sizeof n) == 0) return n;
    // The system has no random numbers: a name that exists is never opened, so that this number
    // only has to differ from the others of this process.
    static _Atomic uint32_t count;
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)now.tv_nsec * 2654435761u + atomic_fetch_add(&count, 1);
}

bool qkv_temporary_name(char *out, size_t size, const char *target)
{
    const int n =
        snprintf(out, size, "%s.tmp.%ld.%" PRIu32, target, (long)getpid(), qkv_temporary_number());
    return n > 0 && (size_t)n < size;
}

int qkv_temporary_add(const char *path)
{
    for (int i = 0; i < SLOTS; i++) {
        const char *none = NULL;
        if (atomic_load(&slots[i].path)) continue;
        atomic_store(&slots[i].process, (long)getpid());
        if (atomic_compare_exchange_strong(&slots[i].path, &none, path)) return i;
    }
    return -1; // the table is full: only the owner removes this file
}

void qkv_temporary_drop(int slot)
{
    if (slot >= 0) atomic_store(&slots[slot].path, NULL);
}

void qkv_temporaries_remove(void)
{
    const long process = (long)getpid();
    for (int i = SLOTS - 1; i >= 0; i--) {
        const char *path = atomic_load(&slots[i].path);
        if (!path || atomic_load(&slots[i].process) != process) continue;
        // another thread may still write into a folder: no file can be made in it once it is gone
        for (int k = 0; k < REMOVE_TRIES && !qkv_disk_remove_tree(path); k++) continue;
    }
}
