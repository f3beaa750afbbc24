// SPDX-License-Identifier: MIT
// limits.h: declares the rules of limits of `qkv serve` that depend on bytes and times alone, so
// that a test needs no client and does not wait.
#ifndef QKV_CLI_LIMITS_H
#define QKV_CLI_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    // A client reads LIMIT_READ_BYTES of its answer, or the rest of it, in LIMIT_READ_MS.
    LIMIT_READ_BYTES = 512 << 10,
    LIMIT_READ_MS = 30000,
    // The most bytes that generated answers keep until they are complete: of one job, of the jobs
    // of one address, of all jobs of a model.
    LIMIT_KEPT = 16 << 20,
    LIMIT_KEPT_OF_ONE = 64 << 20,
    LIMIT_KEPT_OF_ALL = 256 << 20
};

// Returns true if a client that has read some bytes of its answer in some milliseconds may
// continue.  When LIMIT_READ_MS have passed, bytes and milliseconds are counted from 0 again.
bool reads_fast_enough(size_t bytes, int64_t milliseconds);

// Bytes that the answer of a job keeps.
struct kept_bytes {
    const char *peer; // address of its client
    size_t bytes;
    void *job;
};
// Returns the job that ends after kept[grown] has grown: itself, if it keeps too much; if the jobs
// of its address do, the largest of them; if all do, the largest of the address that keeps the
// most.  NULL: none.
void *kept_too_much(const struct kept_bytes *kept, int64_t n, int64_t grown);
#endif
