// SPDX-License-Identifier: MIT
// test_worker_pool.c: checks the workers that all callers share: refused threads, forks, many
// callers, sleep, stacks and errno.  The program defines a pthread_create that is called instead of
// the system's and refuses threads.
#include "check.h"
#include "base/base_internal.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Threads that may still start; attempts made
static atomic_int allowed = 1000, attempts;

// The pthread_create of a sanitizer: clang links it into the program, where RTLD_NEXT skips it.
int __interceptor_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*body)(void *ctx), void *ctx) __attribute__((weak));

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *ctx),
                   void *ctx)
{
    static int (*next)(pthread_t * thread, const pthread_attr_t *attributes,
                       void *(*body)(void *ctx), void *ctx);
    if (!next) next = __interceptor_pthread_create;
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    atomic_fetch_add(&attempts, 1);
    if (atomic_fetch_sub(&allowed, 1) < 1) {
        errno = ENOMEM; // as a refused mmap does
        return EAGAIN;
    }
    return next(thread, attributes, body, ctx);
}

enum { MANY = 5000 };
static atomic_int runs[MANY];
static atomic_int most; // the highest thread seen

static void count(void *ctx, int64_t i, int thread)
{
    (void)ctx;
    atomic_fetch_add(&runs[i], 1);
    int m = atomic_load(&most);
    while (thread > m && !atomic_compare_exchange_weak(&most, &m, thread)) {
    }
}
static int wrong_runs(int64_t n, int threads)
{
    int wrong = 0;
    for (int64_t i = 0; i < MANY; i++) atomic_store(&runs[i], 0);
    atomic_store(&most, 0);
    qkv_parallel_for_most(n, threads, count, NULL);
    for (int64_t i = 0; i < MANY; i++) wrong += atomic_load(&runs[i]) != (i < n);
    return wrong + (atomic_load(&most) >= threads);
}

// Runs a loop in which every thread of `threads` takes part, which needs `threads` - 1 workers.
static void meet(void *ctx, int64_t i, int thread)
{
    atomic_int *here = ctx;
    const int all = atomic_load(&here[0]);
    (void)i;
    (void)thread;
    atomic_fetch_add(&here[1], 1);
    while (atomic_load(&here[1]) < all) usleep(100);
}
static void all_take_part(int threads)
{
    atomic_int here[2] = { threads, 0 };
    qkv_parallel_for_most(threads, threads, meet, here);
}

// This case is the first, since no worker has been started yet.
TEST(a_refused_thread_leaves_fewer_workers_and_attempts_become_rare)
{
    int before[2] = { 0 }; // attempts in the first and in the second half of the loops
    atomic_store(&allowed, 0);
    errno = 0;
    for (int half = 0; half < 2; half++) {
        atomic_store(&attempts, 0);
        for (int round = 0; round < 500; round++) {
            CHECK_EQ(wrong_runs(round % 50, 8), 0);
            CHECK_EQ(atomic_load(&most), 0);
        }
        before[half] = atomic_load(&attempts);
    }
    CHECK_EQ(errno, 0);
    // more than one attempt, in at most one of 20 loops, and ever more rarely
    CHECK(before[0] > 1 && before[0] <= 500 / 20 && before[1] < before[0]);
    // when the system has threads again, loops have workers again: 2, then 7 in all
    atomic_store(&allowed, 2);
    for (int round = 0; round < 1000; round++) CHECK_EQ(wrong_runs(50, 8), 0);
    CHECK(atomic_load(&allowed) < 0); // both have started, and a third was refused
    all_take_part(3);
    atomic_store(&allowed, 1000);
    for (int round = 0; round < 1500; round++) CHECK_EQ(wrong_runs(50, 8), 0);
    CHECK_EQ(atomic_load(&allowed), 1000 - 5);
    all_take_part(8);
}

struct host {
    atomic_int *arrived;
    atomic_bool here;
    int hosts, wrong;
};
static void arrive(void *ctx, int64_t i, int thread)
{
    struct host *h = ctx;
    (void)i;
    (void)thread;
    if (!atomic_exchange(&h->here, true)) atomic_fetch_add(h->arrived, 1);
    while (atomic_load(h->arrived) < h->hosts) usleep(100);
}
static void add(void *ctx, int64_t i, int thread)
{
    (void)thread;
    atomic_fetch_add((atomic_llong *)ctx, i);
}
static void *call(void *ctx)
{
    struct host *h = ctx;
    qkv_parallel_for_most(4, 4, arrive, h); // all hosts are in this loop at the same time
    for (int round = 0; round < 50; round++) {
        atomic_llong sum = 0;
        qkv_parallel_for_most(100 + round, 2 + round % 7, add, &sum);
        h->wrong += atomic_load(&sum) != (100 + round) * (99 + round) / 2;
    }
    return NULL;
}
static void hosts_call(int hosts)
{
    pthread_t threads[80];
    static struct host h[80];
    atomic_int arrived = 0;
    for (int i = 0; i < hosts; i++) {
        h[i] = (struct host){ .arrived = &arrived, .hosts = hosts };
        CHECK_EQ(pthread_create(&threads[i], NULL, call, &h[i]), 0);
    }
    for (int i = 0; i < hosts; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK_EQ(h[i].wrong, 0);
    }
}

TEST(sixteen_threads_of_a_host_share_the_workers)
{
    hosts_call(16);
    atomic_store(&attempts, 0);
    hosts_call(16);
    CHECK_EQ(atomic_load(&attempts), 16); // the threads of the host: no further worker
}

TEST(more_callers_than_slots_work_alone)
{
    hosts_call(80);
}

static void in_body(void *ctx, int64_t i, int thread)
{
    pthread_attr_t attributes;
    size_t size = 0;
    (void)i;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
    if (thread > 0 && size < 2 << 20) atomic_fetch_add((atomic_int *)ctx, 1);
}
TEST(a_worker_has_a_stack_of_two_mebibytes)
{
    atomic_int small = 0;
    all_take_part(4);
    for (int round = 0; round < 100; round++) qkv_parallel_for_most(100, 4, in_body, &small);
    CHECK_EQ(atomic_load(&small), 0);
}

// Returns the number of threads of this process that do not sleep, this one not counted.
static int awake(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], state = 'S';
        if (e->d_name[0] == '.' || atoi(e->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f) continue; // a thread that has ended
        if (fscanf(f, "%*d (%*[^)]) %c", &state) == 1) n += state != 'S';
        fclose(f);
    }
    closedir(tasks);
    return n;
}
TEST(idle_workers_sleep)
{
#ifdef QKV_EMULATED
    skip(); // the emulator has threads of its own
#endif
    for (int round = 0; round < 3; round++) {
        all_take_part(8);
        int left = 2000;
        while (awake() && --left) usleep(5000); // only a failure takes so long
        CHECK(left > 0);
        CHECK_EQ(wrong_runs(MANY, 8), 0); // and wake for the next loop
    }
}

TEST(a_loop_keeps_errno)
{
    for (int round = 0; round < 200; round++) {
        atomic_llong sum = 0;
        errno = 17;
        qkv_parallel_for_most(20, 4, add, &sum);
        CHECK_EQ(errno, 17);
        if (round % 20 == 0) usleep(1000); // the workers sleep
    }
}

static bool thread_sanitizer(void)
{
#if defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

// Ends a child, which has a child of its own, which has one.  The exit code is 0, or the number of
// the check that failed.
static void end_child(bool ordinary_exit)
{
    int status;
    pid_t child = 0;
    for (int generation = 0; child == 0; generation++) {
        alarm(60);
        atomic_store(&attempts, 0);
        if (wrong_runs(MANY, 4)) _exit(1);
        if (atomic_load(&attempts) != 3) _exit(2);
        all_take_part(4);
        if (generation == 2) break;
        child = fork();
    }
    if (child && waitpid(child, &status, 0) != child) _exit(3);
    if (child && (!WIFEXITED(status) || WEXITSTATUS(status))) _exit(4);
    all_take_part(4);
    if (ordinary_exit) exit(0); // joins the workers
    _exit(0);
}

static void *loop_until(void *ctx)
{
    while (!atomic_load((atomic_bool *)ctx)) {
        atomic_llong sum = 0;
        qkv_parallel_for_most(1000, 4, add, &sum);
    }
    return NULL;
}
TEST(a_forked_child_has_workers_of_its_own)
{
#ifdef QKV_EMULATED
    skip(); // the emulator itself does not survive a fork of many threads
#endif
    if (thread_sanitizer()) skip(); // it does not follow a fork of many threads
    pthread_t other;
    atomic_bool end = false;
    all_take_part(4);
    CHECK_EQ(pthread_create(&other, NULL, loop_until, &end), 0); // has a slot and workers in a fork
    for (int round = 0; round < 20; round++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) end_child(round % 2 == 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
        CHECK_EQ(wrong_runs(MANY, 4), 0); // the parent continues as before
    }
    atomic_store(&end, true);
    CHECK_EQ(pthread_join(other, NULL), 0);
}

int main(void)
{
    alarm(500); // a lost wake-up is a hang
    const struct CMUnitTest cases[] = {
        CASE(a_refused_thread_leaves_fewer_workers_and_attempts_become_rare),
        CASE(sixteen_threads_of_a_host_share_the_workers),
        CASE(more_callers_than_slots_work_alone),
        CASE(a_worker_has_a_stack_of_two_mebibytes),
        CASE(idle_workers_sleep),
        CASE(a_loop_keeps_errno),
        CASE(a_forked_child_has_workers_of_its_own)
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
