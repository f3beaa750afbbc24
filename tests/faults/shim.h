// SPDX-License-Identifier: MIT
// shim.h: declares the parts of the preloaded library (shim.c, record.c).
#ifndef QKV_SHIM_H
#define QKV_SHIM_H

#include <stdbool.h>

enum { SHIM_RECORD = 197 }; // the descriptor of the record

// Makes a system call that the filter lets pass.
long shim_call(long number, long a, long b, long c, long d, long e, long f);
// Returns true if a system call with the arguments a[6] changes the disk or makes changes durable.
bool shim_changes(int call, const long *a);
// Returns the offset in the file at which a call will write; -1: at its end.
long shim_record_begin(int call, const long *a);
// Appends a successful call to the record, after it was made.
void shim_record(int call, const long *a, long at, long result);
#endif
