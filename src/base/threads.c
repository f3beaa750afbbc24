// SPDX-License-Identifier: MIT
// threads.c: sets the number of threads and runs parallel loops.  No other file uses OpenMP.
//
// Indices are distributed one by one, and no result depends on the thread that processed an index.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// libgomp is not built for ThreadSanitizer, so these annotations describe its barriers.
#if defined(__SANITIZE_THREAD__)
#define QKV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QKV_TSAN 1
#endif
#endif
#ifdef QKV_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define TSAN_ACQUIRE(p) __tsan_acquire(p)
#define TSAN_RELEASE(p) __tsan_release(p)
#else
#define TSAN_ACQUIRE(p) (void)(p)
#define TSAN_RELEASE(p) (void)(p)
#endif

static atomic_int threads_wanted; // 0: not set
static atomic_bool teamed;        // OpenMP has started its threads
// this is a child process without the threads of OpenMP: loops run serially
static atomic_bool forked;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int threads_default = 1;
static struct qkv_host_pool pool;
static _Thread_local bool inside; // this thread runs a loop body: nested loops are serial

static void after_fork(void)
{
    if (atomic_load(&teamed)) atomic_store(&forked, true);
}

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
    threads_default = n < 1 ? 1 : n > QKV_THREADS_MAX ? QKV_THREADS_MAX : (int)n;
    // an invalid value is ignored; the command line tool refuses it
    qkv_threads_parse(&threads_default, getenv("QKV_THREADS"));
    pthread_atfork(NULL, NULL, after_fork);
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
    pthread_once(&once, find_default);
    const int n = atomic_load(&threads_wanted);
    return n ? n : threads_default;
}

void qkv_host_pool_set(const struct qkv_host_pool *p)
{
    pool = p ? *p : (struct qkv_host_pool){ NULL, NULL };
}

bool qkv_threads_second(void)
{
    return qkv_threads() > 1 && !pool.run && !inside && !atomic_load(&forked);
}

// The new thread blocks the signals of the host program, which the threads of the host handle, but
// not the signals of faults, which the system sends to the thread that caused the fault.
bool qkv_thread_start(pthread_t *thread, void *(*body)(void *ctx), void *ctx)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    const bool ok = pthread_create(thread, NULL, body, ctx) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

struct loop {
    void (*body)(void *ctx, int64_t i, int thread);
    void *ctx;
    int64_t n;
    _Atomic int64_t next;
};

static void work(void *ctx, int thread)
{
    struct loop *l = ctx;
    TSAN_ACQUIRE(l);
    inside = true;
    for (int64_t i; (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n;)
        l->body(l->ctx, i, thread);
    inside = false;
    TSAN_RELEASE(l);
}

#ifdef _OPENMP
// The compiler passes l to the threads in a struct that is written after TSAN_RELEASE.  This is not
// a real race, so ThreadSanitizer ignores this function.
__attribute__((no_sanitize("thread"))) static void team(struct loop *l, int threads)
{
#pragma omp parallel num_threads(threads)
    work(l, omp_get_thread_num());
}
#endif

void qkv_parallel_for(int64_t n, void (*body)(void *ctx, int64_t i, int thread), void *ctx)
{
    qkv_parallel_for_most(n, qkv_threads(), body, ctx);
}

void qkv_parallel_for_most(int64_t n, int threads, void (*body)(void *ctx, int64_t i, int thread),
                           void *ctx)
{
    if (n < 1) return;
    if (inside || (atomic_load(&forked) && !pool.run)) threads = 1;
    if (threads > n) threads = (int)n;
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++) body(ctx, i, 0);
        return;
    }
    struct loop l = { body, ctx, n, 0 };
    TSAN_RELEASE(&l);
    if (pool.run) {
        pool.run(pool.user, threads, work, &l);
    } else {
#ifdef _OPENMP
        atomic_store(&teamed, true);
        team(&l, threads);
#else
        work(&l, 0);
#endif
    }
    TSAN_ACQUIRE(&l);
}
