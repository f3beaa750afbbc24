// SPDX-License-Identifier: MIT
// base_internal.h: declares functions that only the files of module base and its tests call.
#ifndef QKV_BASE_INTERNAL_H
#define QKV_BASE_INTERNAL_H

#include "base/base.h"

// Returns true if qkv may start a second thread: more than one is configured, the host set no
// thread pool, and the caller is neither inside a parallel loop nor in a child process that runs
// serially.
bool qkv_threads_second(void);
// Starts a thread that blocks every signal except the signals of its own faults; false: the system
// refused. Parallel loops in it run as in the caller. The caller joins it (pthread_join).
bool qkv_thread_start(pthread_t *thread, void *(*body)(void *ctx), void *ctx);
bool qkv_threads_parse(int *out, const char *text); // digits only, 1..QKV_THREADS_MAX
// Returns the number of CPUs that the cgroups of cgroup_file (as /proc/self/cgroup) below root (as
// /sys/fs/cgroup) grant; 0: they set no limit (quota.c).
int qkv_quota_cpus(const char *cgroup_file, const char *root);
int qkv_quota_parse(const char *text); // "QUOTA PERIOD", "max PERIOD": rounded up, 0: none

// ---- CPU (cpu.c) -------------------------------------------------------------------------------
// For tests, before the first other call: treats the bits `present` as features of the CPU, and the
// bits `granted` as permitted without a request.
void qkv_cpu_pretend(unsigned present, unsigned granted);

// ---- system calls that change the disk (disk.c) ------------------------------------------------
struct qkv_disk_call {
    const char *name;      // "write", "rename", ...
    const char *path, *to; // to: the new name (rename, link) or the target (symlink)
    size_t bytes;          // of a write
};
// For tests: `before` runs before each call; a result other than 0 is the errno with which the call
// fails without effect; `before` may shorten a write (call->bytes).  NULL removes it.
void qkv_disk_hook(int (*before)(void *ctx, struct qkv_disk_call *call), void *ctx);
int qkv_disk_link(const char *from, const char *to);

// ---- JSON (scan.c) -----------------------------------------------------------------------------
// Skips a number; *integer: it has neither fraction nor exponent.
bool qkv_scan_number(struct qkv_scan *s, bool *integer);
#endif
