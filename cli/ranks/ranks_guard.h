// SPDX-License-Identifier: MIT
// ranks_guard.h: declares a process next to each rank that mpiexec of MPICH started, which tells
// the other ranks of the host if the rank is killed.
#ifndef QKV_CLI_RANKS_GUARD_H
#define QKV_CLI_RANKS_GUARD_H

#include <stdbool.h>
#include <stdint.h>

// A process, as /proc shows it.
struct process {
    char state;    // 'Z' or 'X': it has ended, and its parent has not asked for its exit code
    bool ends;     // it has ended, or the system is ending it
    int64_t start; // when it began: another process of the same number has another value
    int code;      // how it ended; the lowest 7 bits are the signal. 0 if this user may not see it
};
// Returns whether there is a process, and writes it to *p. May be called in a signal handler.
bool ranks_process(int64_t pid, struct process *p);

// Starts the guard of this process if mpiexec of MPICH has started it, before MPI begins.
void ranks_guard(void);
// Tells the guard the process of a rank of this host, and when it began.
void ranks_guard_peer(int64_t rank, int64_t own_rank, int64_t pid, int64_t start);
// Tells the guard that this rank ends by itself. May be called in a signal handler.
void ranks_guard_end(void);

#endif
