// SPDX-License-Identifier: MIT
// threads.c: sets the number of threads, starts threads and runs parallel loops on the workers of
// worker_pool.c or of the host program.
//
// Indices are distributed one by one, and no result depends on the thread that processed an index.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int threads_wanted; // 0: not set
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int threads_default = 1, cpus = 1;
static struct qkv_host_pool pool;
// true: this thread runs a loop body, so that nested loops are serial
QKV_INITIAL_EXEC static _Thread_local bool inside;

bool qkv_threads_parse(int *out, const char *text)
{
    int n = 0;
    if (!text || !*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        n = n * 10 + (*text - '0');
        if (n > QKV_THREADS_MAX) return false;
    }
    if (n < 1) return false;
    *out = n;
    return true;
}

static void find_default(void)
{
    const int saved = errno;
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    const int granted = qkv_quota_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (granted && granted < n) n = granted;
    cpus = n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
    threads_default = cpus > QKV_THREADS_MAX ? QKV_THREADS_MAX : cpus;
    // an invalid value is ignored; the command line tool refuses it
    qkv_threads_parse(&threads_default, getenv("QKV_THREADS"));
    errno = saved;
}

qkv_status qkv_threads_set(int n)
{
    if (n < 0 || n > QKV_THREADS_MAX) return QKV_ERR_USAGE;
    atomic_store(&threads_wanted, n);
    return QKV_OK;
}

int qkv_threads(void)
{
    if (inside) return 1;
    pthread_once(&once, find_default);
    const int n = atomic_load(&threads_wanted);
    return n ? n : threads_default;
}

int qkv_cpus(void)
{
    pthread_once(&once, find_default);
    return cpus;
}

void qkv_host_pool_set(const struct qkv_host_pool *p)
{
    pool = p ? *p : (struct qkv_host_pool){ NULL, NULL };
}

bool qkv_threads_second(void)
{
    return qkv_threads() > 1 && !pool.run;
}

enum { STACK_BYTES = 2 << 20 }; // of a thread, whatever limit the stack of the main thread has

// The new thread blocks the signals of the host program, which the threads of the host handle, but
// not the signals of faults, which the system sends to the thread that caused the fault.
bool qkv_thread_start(pthread_t *thread, void *(*body)(void *ctx), void *ctx)
{
    const int saved = errno;
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    if (pthread_attr_init(&attributes) != 0) return false;
    bool ok = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
              pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
    if (ok) {
        ok = pthread_create(thread, &attributes, body, ctx) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    errno = saved;
    return ok;
}

struct loop {
    void (*body)(void *ctx, int64_t i, int thread);
    void *ctx;
    int64_t n;
    alignas(64) _Atomic int64_t next; // alone in its cache line, since every thread writes it
};

// Returns when no index is left.  At the end of the process a worker leaves its indices to the
// caller, whose thread is 0.
static void work(void *ctx, int thread)
{
    struct loop *l = ctx;
    inside = true;
    for (int64_t i; !(thread && qkv_workers_stopped()) &&
                    (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n;)
        l->body(l->ctx, i, thread);
    inside = false;
}

void qkv_parallel_for(int64_t n, void (*body)(void *ctx, int64_t i, int thread), void *ctx)
{
    qkv_parallel_for_most(n, qkv_threads(), body, ctx);
}

void qkv_parallel_for_most(int64_t n, int threads, void (*body)(void *ctx, int64_t i, int thread),
                           void *ctx)
{
    if (n < 1) return;
    if (inside) threads = 1;
    if (threads > n) threads = (int)n;
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++) body(ctx, i, 0);
        return;
    }
    struct loop l = { body, ctx, n, 0 };
    if (pool.run)
        pool.run(pool.user, threads, work, &l);
    else
        qkv_workers_run(threads, work, &l);
}
