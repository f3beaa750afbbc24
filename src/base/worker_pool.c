// SPDX-License-Identifier: MIT
// worker_pool.c: keeps the worker threads of the process and lends them to the threads that run
// parallel loops.
//
// A caller publishes its work in a slot and begins the work itself.  A worker enters an open slot,
// helps until no work is left, and leaves.  The slot is closed by the first thread that finds no
// work left; the caller then waits for the workers that have entered, never for one that has not:
// a worker that the system schedules late costs nothing.  Slots and workers are static memory, so
// that a late worker may read a slot that another caller uses already.
//
// An idle worker polls the counter `published` for SPIN_NS, then sleeps on a futex of its own.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdalign.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = 64,  // bytes of a cache line: words that different threads write are this far apart
    SLOTS = 64, // callers that may have workers at the same time; one more caller works alone
    // Sleeping and waking take about this long, so that polling first at most doubles the cost.
    SPIN_NS = 30000,
    SPIN_STEPS = 16,        // polls between two looks at the clock
    REFUSED_FIRST = 64,     // calls without a new attempt after the system refused a thread;
    REFUSED_DOUBLINGS = 10, // each further refusal doubles them, at most this often
    WORKERS = QKV_THREADS_MAX - 1
};

// The word `state` of a slot
enum {
    ACTIVE = 1, // bits 0..8: workers inside
    ACTIVE_MASK = 0x1ff,
    ENTERED = 1 << 9, // bits 9..17: workers that have entered since the work was published
    ENTERED_MASK = 0x1ff << 9,
    WANTED = 1 << 18, // bits 18..26: workers that may enter
    WANTED_SHIFT = 18,
    OPEN = 1 << 28,         // work may be left
    CALLER_SLEEPS = 1 << 29 // the last worker that leaves wakes the caller
};

struct slot {
    alignas(LINE) _Atomic uint32_t state;
    alignas(LINE) atomic_bool taken; // a caller uses the slot
    void (*work)(void *ctx, int thread);
    void *ctx;
};
struct worker {
    alignas(LINE) _Atomic uint32_t asleep; // 1: sleeps, or is about to, until a caller writes 0
    pthread_t thread;
};

static struct slot slots[SLOTS];
static struct worker workers[WORKERS];
static alignas(LINE) _Atomic uint32_t published; // counts calls, so that workers see a new one
static alignas(LINE) atomic_int sleepers;        // workers whose word `asleep` is 1
static alignas(LINE) atomic_int slots_used;      // no slot of this number or above was ever taken
static atomic_int workers_started;
static atomic_bool stopped; // the library is being unloaded: workers end, no worker starts
static atomic_int spin_ns;  // SPIN_NS, or 0 with more threads than CPUs
static atomic_int skip;     // calls until the next attempt to start a worker
static int refusals;        // consecutive; protected by `lock`, as the start of workers is
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool follows_forks;

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// Polls, for at most the time of a spin, until (*word & mask) == value is `equal`.  Returns false
// if the time is over.
static bool spin(_Atomic uint32_t *word, uint32_t mask, uint32_t value, bool equal)
{
    const int most = atomic_load_explicit(&spin_ns, memory_order_relaxed);
    int64_t end = 0;
    for (int step = 0;; step++) {
        if (((atomic_load_explicit(word, memory_order_acquire) & mask) == value) == equal)
            return true;
        if (step % SPIN_STEPS == 0) {
            const int64_t now = most ? now_ns() : 0;
            if (!end) end = now + most;
            if (now >= end) return false;
        }
        pause_cpu();
    }
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

// ---- workers -----------------------------------------------------------------------------------
// Leaves the slot; no work of it is left.
static void leave(struct slot *s)
{
    if (atomic_load_explicit(&s->state, memory_order_relaxed) & OPEN)
        atomic_fetch_and_explicit(&s->state, ~(uint32_t)OPEN, memory_order_relaxed);
    const uint32_t before = atomic_fetch_sub_explicit(&s->state, ACTIVE, memory_order_release);
    // The caller may have gone and another may use the slot: then this wakes a caller that looks at
    // the state and sleeps again.
    if ((before & ACTIVE_MASK) == ACTIVE && before & CALLER_SLEEPS) futex_wake(&s->state);
}

// Enters the slot and helps, if it is open for one more worker.
static bool help(struct slot *s)
{
    uint32_t state = atomic_load_explicit(&s->state, memory_order_relaxed), entered;
    do {
        entered = (state & ENTERED_MASK) / ENTERED;
        if (!(state & OPEN) || entered >= (state >> WANTED_SHIFT & ACTIVE_MASK)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&s->state, &state, state + ENTERED + ACTIVE,
                                                    memory_order_acquire, memory_order_relaxed));
    s->work(s->ctx, (int)entered + 1);
    leave(s);
    return true;
}

static bool help_any(int first)
{
    const int used = atomic_load_explicit(&slots_used, memory_order_acquire);
    bool helped = false;
    for (int i = 0; i < used; i++) helped |= help(&slots[(first + i) % used]);
    return helped;
}

static void sleep_until_woken(struct worker *w, uint32_t seen)
{
    atomic_store(&w->asleep, 1);
    atomic_fetch_add(&sleepers, 1);
    // A caller publishes before it looks for sleepers: either it sees this one, or this one sees
    // the work.
    uint32_t asleep = 1;
    if (atomic_load(&published) != seen && atomic_compare_exchange_strong(&w->asleep, &asleep, 0))
        atomic_fetch_sub(&sleepers, 1);
    while (atomic_load(&w->asleep)) futex_wait(&w->asleep, 1);
}

static void *serve(void *ctx)
{
    struct worker *w = ctx;
    while (!atomic_load(&stopped)) {
        const uint32_t seen = atomic_load(&published);
        if (help_any((int)(w - workers))) continue;
        if (!spin(&published, UINT32_MAX, seen, false)) sleep_until_woken(w, seen);
    }
    return NULL;
}

// Wakes up to n sleeping workers.
static void wake(int n)
{
    const int started = atomic_load_explicit(&workers_started, memory_order_acquire);
    for (int i = 0; i < started && n > 0; i++) {
        uint32_t asleep = 1;
        if (!atomic_load_explicit(&workers[i].asleep, memory_order_relaxed) ||
            !atomic_compare_exchange_strong(&workers[i].asleep, &asleep, 0))
            continue;
        atomic_fetch_sub(&sleepers, 1);
        futex_wake(&workers[i].asleep);
        n--;
    }
}

// In a child process only the thread that called fork exists: no worker, and no other caller.
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}
static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
static void in_child(void)
{
    for (int i = 0; i < SLOTS; i++) {
        atomic_store(&slots[i].state, 0);
        atomic_store(&slots[i].taken, false);
    }
    atomic_store(&sleepers, 0);
    atomic_store(&workers_started, 0);
    atomic_store(&skip, 0);
    refusals = 0;
    pthread_mutex_unlock(&lock);
}
static void follow_forks(void)
{
    follows_forks = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

// Starts workers until there are n, or the system refuses one.
static void start_workers(int n)
{
    const int left = atomic_load_explicit(&skip, memory_order_relaxed);
    if (left > 0) {
        atomic_store_explicit(&skip, left - 1, memory_order_relaxed);
        return;
    }
    pthread_once(&once, follow_forks);
    if (!follows_forks) return;
    pthread_mutex_lock(&lock);
    int started = atomic_load(&workers_started);
    for (; started < n && !atomic_load(&stopped); started++) {
        struct worker *w = &workers[started];
        atomic_store(&w->asleep, 0);
        if (qkv_thread_start(&w->thread, serve, w)) continue;
        atomic_store(&skip, REFUSED_FIRST << refusals);
        if (refusals < REFUSED_DOUBLINGS) refusals++;
        break;
    }
    if (started == n) refusals = 0;
    atomic_store(&spin_ns, started < qkv_cpus() ? SPIN_NS : 0);
    atomic_store(&workers_started, started);
    pthread_mutex_unlock(&lock);
}

// Ends the workers before their code is unloaded, at the end of the process or by dlclose.
__attribute__((destructor)) static void stop_workers(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&stopped, true);
    const int started = atomic_load(&workers_started);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&published, 1);
    wake(started);
    for (int i = 0; i < started; i++) pthread_join(workers[i].thread, NULL);
    atomic_store(&workers_started, 0);
}

bool qkv_workers_stopped(void)
{
    return atomic_load_explicit(&stopped, memory_order_relaxed);
}

// ---- callers -----------------------------------------------------------------------------------
static struct slot *take_slot(void)
{
    for (int i = 0; i < SLOTS; i++) {
        bool taken = atomic_load_explicit(&slots[i].taken, memory_order_relaxed);
        if (taken || !atomic_compare_exchange_strong_explicit(
                         &slots[i].taken, &taken, true, memory_order_acquire, memory_order_relaxed))
            continue;
        int used = atomic_load_explicit(&slots_used, memory_order_relaxed);
        while (used <= i && !atomic_compare_exchange_weak(&slots_used, &used, i + 1)) {
        }
        return &slots[i];
    }
    return NULL;
}

// Publishes the work of slot s for `wanted` workers and wakes as many as are neither awake and free
// nor needed.
static void publish(struct slot *s, int wanted)
{
    atomic_store_explicit(&s->state, OPEN | (uint32_t)wanted << WANTED_SHIFT, memory_order_release);
    atomic_fetch_add(&published, 1);
    const int asleep = atomic_load(&sleepers);
    if (!asleep) return;
    int awake = atomic_load_explicit(&workers_started, memory_order_relaxed) - asleep;
    const int used = atomic_load_explicit(&slots_used, memory_order_relaxed);
    for (int i = 0; i < used; i++)
        if (&slots[i] != s)
            awake -=
                (int)(atomic_load_explicit(&slots[i].state, memory_order_relaxed) & ACTIVE_MASK);
    wake(awake > 0 ? wanted - awake : wanted);
}

// Closes the slot and waits until the last worker has left it.
static void close_and_wait(struct slot *s)
{
    atomic_fetch_and_explicit(&s->state, ~(uint32_t)OPEN, memory_order_relaxed);
    if (spin(&s->state, ACTIVE_MASK, 0, true)) return;
    atomic_fetch_or_explicit(&s->state, CALLER_SLEEPS, memory_order_relaxed);
    uint32_t state;
    while ((state = atomic_load_explicit(&s->state, memory_order_acquire)) & ACTIVE_MASK)
        futex_wait(&s->state, state);
}

void qkv_workers_run(int threads, void (*work)(void *ctx, int thread), void *ctx)
{
    const int saved = errno, wanted = qkv_workers_stopped() ? 0 : threads - 1;
    if (atomic_load_explicit(&workers_started, memory_order_acquire) < wanted)
        start_workers(wanted);
    struct slot *s = NULL;
    if (wanted > 0 && atomic_load_explicit(&workers_started, memory_order_acquire) > 0)
        s = take_slot();
    if (!s) {
        errno = saved;
        work(ctx, 0);
        return;
    }
    s->work = work;
    s->ctx = ctx;
    publish(s, wanted);
    errno = saved;
    work(ctx, 0);
    const int after = errno;
    close_and_wait(s);
    atomic_store_explicit(&s->taken, false, memory_order_release);
    errno = after;
}
