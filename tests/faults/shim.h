// SPDX-License-Identifier: MIT
// shim.h: declares the parts of the preloaded library (shim.c, record.c, held.c).
#ifndef QKV_SHIM_H
#define QKV_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { SHIM_RECORD = 197 }; // the descriptor of the record

// Makes a system call that the filter lets pass.
long shim_call(long number, long a, long b, long c, long d, long e, long f);
// Returns true if a system call with the arguments a[6] changes the disk or makes changes durable.
bool shim_changes(int call, const long *a);
// Returns the offset in the file at which a call will write; -1: at its end.
long shim_record_begin(int call, const long *a);
// Appends a successful call to the record, after it was made.
void shim_record(int call, const long *a, long at, long result);

// The allocator of glibc
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

// Counts a block, which may be NULL, if the code at `caller` is qkv's; returns the block.
void *shim_hold(void *block, const void *caller);
// Counts a block no longer; it is called before the block is freed.
void shim_release(const void *block);
// Begins to count blocks in *count, memory that processes may share; trace: the callers of those
// that are held are printed at exit.
void shim_hold_begin(atomic_llong *count, bool trace);
#endif
