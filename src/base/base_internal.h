// SPDX-License-Identifier: MIT
// base_internal.h: declares functions that only the files of module base and its tests call.
#ifndef QKV_BASE_INTERNAL_H
#define QKV_BASE_INTERNAL_H

#include "base/base.h"

// Memory of a thread: glibc keeps some bytes of the model initial-exec for libraries that are
// opened later; other models call the dynamic linker for each access, and the library would need it
// by name.
#ifdef __GLIBC__
#define QKV_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#else
#define QKV_INITIAL_EXEC
#endif

// Returns true if qkv may start a second thread: more than one thread is configured, the host
// program has set no thread pool, and the caller is not inside a parallel loop.
bool qkv_threads_second(void);
// Starts a thread with a stack of 2 MiB that blocks every signal except the signals of its own
// faults (SIGSEGV and so on).  Returns false if the system refuses.  Parallel loops work in the new
// thread as in the caller.  The caller joins the thread with pthread_join.
bool qkv_thread_start(pthread_t *thread, void *(*body)(void *ctx), void *ctx);
// Returns the number of CPUs that this process may use (affinity and cgroup quota).
int qkv_cpus(void);
bool qkv_threads_parse(int *out, const char *text); // digits only, 1..QKV_THREADS_MAX
// Returns the number of CPUs that the cgroups of the process grant, or 0 if they set no limit
// (quota.c).  cgroup_file is /proc/self/cgroup and root is /sys/fs/cgroup, except in tests.
int qkv_quota_cpus(const char *cgroup_file, const char *root);
// Parses the contents of a cgroup file cpu.max: returns QUOTA / PERIOD, rounded up, if text is
// "QUOTA PERIOD", and 0 (no limit) if text is "max PERIOD".
int qkv_quota_parse(const char *text);

// ---- workers (worker_pool.c) -------------------------------------------------------------------
// Calls work(ctx, 0) on the calling thread, and work(ctx, i) on workers for some of the i in
// 1..threads-1, each at most once.  A call of work returns when nothing is left to do; after the
// first return no further call begins, and the function returns after the last one.
//
// The workers are threads of the process, shared by all callers: starting with the first call, the
// process has as many workers as the largest `threads` of a call asks for, less the caller.  If the
// system refuses to start a worker, there are fewer, and later calls try again, ever more rarely.
// Idle workers poll for some microseconds, unless there are more threads than CPUs, and then sleep.
// A child process after fork starts workers of its own.  All workers have ended before the library
// is unloaded or exit() returns control to the system.  No call changes errno.
void qkv_workers_run(int threads, void (*work)(void *ctx, int thread), void *ctx);
// Returns true if the library is being unloaded: a worker must leave the rest of its work to the
// caller.
bool qkv_workers_stopped(void);

// ---- CPU (cpu.c) -------------------------------------------------------------------------------
// For tests, before any other call: treats the QKV_CPU_* bits `present` as features of the CPU, and
// the bits `granted` as permitted by the system without a request.
void qkv_cpu_pretend(unsigned present, unsigned granted);

// ---- system calls that change the disk (disk.c) ------------------------------------------------
struct qkv_disk_call {
    const char *name;      // "write", "rename", ...
    const char *path, *to; // to: the new name of a rename or link, the target of a symlink
    size_t bytes;          // of a write
};
// For tests: runs `before` ahead of each system call.  If `before` returns an errno value instead
// of 0, the system call fails with it and has no effect; `before` may also shorten a write
// (call->bytes).  NULL removes the hook.
void qkv_disk_hook(int (*before)(void *ctx, struct qkv_disk_call *call), void *ctx);
int qkv_disk_link(const char *from, const char *to);

// ---- temporary files (temporary.c) -------------------------------------------------------------
// Writes a new name to out: TARGET.tmp.PID.N with a random number N, which others cannot predict;
// a name of more than 116 bytes is shortened, by the same rule each time.  Returns false if the
// path is too long.
bool qkv_temporary_name(char *out, size_t size, const char *target);
// Adds a path to the table, before the file or folder is made.  The caller keeps `path` unchanged
// until qkv_temporary_drop().  Returns the index in the table; -1 if the table is full.
int qkv_temporary_add(const char *path);
// Locks a new temporary file until its descriptor and all copies of it are closed.  Returns false
// if another process has taken the file for an abandoned one and removes it.
bool qkv_temporary_own(int fd);
uint32_t qkv_temporary_number(void); // a random number, which no other process can predict

// ---- JSON (scan.c) -----------------------------------------------------------------------------
// Skips a number; *integer becomes true if the number has neither fraction nor exponent.
bool qkv_scan_number(struct qkv_scan *s, bool *integer);

bool qkv_is_absent(int code); // errno says that nothing has the name (map.c)

// ---- JSON (json.c) ------------------------------------------------------------------------------
// As qkv_json_parse, but the root is an object or an array.
qkv_status qkv_json_parse_any(json_t **out, const char *data, size_t size, int64_t base,
                              qkv_error *err);
// Returns the type of a value for a message: "an object", "a text", ...
const char *qkv_json_type_name(const json_t *v);
#endif
