// SPDX-License-Identifier: MIT
// test_threads.c: checks that the parallel loop runs each index once, nests serially and uses
// the thread pool of a host; and the number of threads.
#include "check.h"
#include "base/base_internal.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 10000 };
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
static void each_once_of(int64_t n, int threads, void (*loop)(int64_t n, int threads))
{
    for (int64_t i = 0; i < MANY; i++) atomic_store(&runs[i], 0);
    atomic_store(&most, 0);
    loop(n, threads);
    for (int64_t i = 0; i < MANY; i++) CHECK_EQ(atomic_load(&runs[i]), i < n);
    CHECK(atomic_load(&most) < threads && (n < 1 || atomic_load(&most) < n));
}

static void loop_all(int64_t n, int threads)
{
    (void)threads;
    qkv_parallel_for(n, count, NULL);
}
static void loop_most(int64_t n, int threads)
{
    qkv_parallel_for_most(n, threads, count, NULL);
}
static void each_once(int64_t n, int threads)
{
    each_once_of(n, threads, loop_all);
}

TEST(each_index_runs_once_on_any_number_of_threads)
{
    static const int64_t sizes[] = { -1, 0, 1, 2, 3, 7, 8, 9, 100, MANY };
    for (int threads = 1; threads <= 8; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        CHECK_EQ(qkv_threads(), threads);
        EACH(n, sizes) each_once(*n, threads);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(a_loop_keeps_to_its_limit_whatever_the_number_is_now)
{
    static const int64_t sizes[] = { 0, 1, 3, 100, MANY };
    static const int numbers[] = { 1, 2, 8 };
    EACH(now, numbers)
    {
        CHECK_EQ(qkv_threads_set(*now), QKV_OK);
        for (int limit = 1; limit <= 8; limit++) EACH(n, sizes) each_once_of(*n, limit, loop_most);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// Writes of the loop are visible after it, and writes before it are visible inside, without a lock.
static int64_t plain[MANY], sums[QKV_THREADS_MAX];
static void square(void *ctx, int64_t i, int thread)
{
    const int64_t *from = ctx;
    plain[i] = from[i] * from[i];
    sums[thread] += plain[i];
}

TEST(writes_are_visible_across_both_ends_of_the_loop)
{
    static int64_t from[MANY];
    CHECK_EQ(qkv_threads_set(4), QKV_OK);
    for (int round = 1; round <= 20; round++) {
        for (int64_t i = 0; i < MANY; i++) from[i] = i % 100 + round;
        memset(sums, 0, sizeof sums);
        qkv_parallel_for(MANY, square, from);
        int64_t sum = 0, want = 0;
        for (int t = 0; t < 4; t++) sum += sums[t];
        for (int64_t i = 0; i < MANY; i++) {
            CHECK_EQ(plain[i], from[i] * from[i]);
            want += plain[i];
        }
        CHECK_EQ(sum, want);
    }
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

static atomic_int inner_runs, inner_threads;
static pthread_t outer_thread[64];
static void inner(void *ctx, int64_t i, int thread)
{
    (void)i;
    atomic_fetch_add(&inner_runs, 1);
    if (thread != 0 || !pthread_equal(pthread_self(), *(pthread_t *)ctx))
        atomic_fetch_add(&inner_threads, 1);
}
static void outer(void *ctx, int64_t i, int thread)
{
    (void)ctx;
    (void)thread;
    outer_thread[i] = pthread_self();
    qkv_parallel_for(50, inner, &outer_thread[i]);
}

TEST(a_loop_inside_a_loop_is_serial)
{
    CHECK_EQ(qkv_threads_set(4), QKV_OK);
    atomic_store(&inner_runs, 0);
    atomic_store(&inner_threads, 0);
    qkv_parallel_for(64, outer, NULL);
    CHECK_EQ(atomic_load(&inner_runs), 64 * 50);
    CHECK_EQ(atomic_load(&inner_threads), 0);
    each_once(MANY, 4); // and the next outer loop is parallel again
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

static void add(void *ctx, int64_t i, int thread)
{
    (void)thread;
    atomic_fetch_add((atomic_llong *)ctx, i);
}
static void *loops(void *wrong)
{
    for (int round = 0; round < 50; round++) {
        atomic_llong sum = 0;
        qkv_parallel_for(1000, add, &sum);
        if (atomic_load(&sum) != 1000 * 999 / 2) atomic_fetch_add((atomic_int *)wrong, 1);
    }
    return NULL;
}

TEST(several_threads_of_a_host_may_loop_at_once)
{
    pthread_t host[4];
    atomic_int wrong = 0;
    CHECK_EQ(qkv_threads_set(3), QKV_OK);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&host[i], NULL, loops, &wrong), 0);
    for (int i = 0; i < 4; i++) pthread_join(host[i], NULL);
    CHECK_EQ(atomic_load(&wrong), 0);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

struct host {
    int calls, indexes;
};
static void host_run(void *user, int n, void (*work)(void *ctx, int i), void *ctx)
{
    struct host *h = user;
    h->calls++;
    h->indexes += n;
    for (int i = n - 1; i >= 0; i--) work(ctx, i);
}

static void *count_up(void *ctx)
{
    sigset_t now;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    *(int *)ctx += sigismember(&now, SIGINT) == 1 && sigismember(&now, SIGBUS) == 0;
    return NULL;
}
TEST(a_second_thread_receives_no_signal_of_the_host)
{
    pthread_t thread;
    sigset_t before, after;
    int n = 0;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    CHECK(qkv_thread_start(&thread, count_up, &n));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(n, 1);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    CHECK_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

TEST(a_pool_of_the_host_does_the_work)
{
    struct host h = { 0, 0 };
    CHECK_EQ(qkv_threads_set(5), QKV_OK);
    CHECK(qkv_threads_second());
    qkv_host_pool_set(&(struct qkv_host_pool){ host_run, &h });
    CHECK(!qkv_threads_second());
    each_once(MANY, 5);
    CHECK_EQ(h.calls, 1);
    CHECK_EQ(h.indexes, 5);
    each_once(3, 5);
    CHECK_EQ(h.indexes, 8);
    each_once(1, 5); // one index needs no pool
    CHECK_EQ(h.calls, 2);
    qkv_host_pool_set(NULL);
    each_once(MANY, 5);
    CHECK_EQ(h.calls, 2);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

TEST(the_number_of_threads_has_a_range)
{
    const int before = qkv_threads();
    CHECK(before >= 1 && before <= QKV_THREADS_MAX);
    CHECK_EQ(qkv_threads_set(-1), QKV_ERR_USAGE);
    CHECK_EQ(qkv_threads_set(QKV_THREADS_MAX + 1), QKV_ERR_USAGE);
    CHECK_EQ(qkv_threads(), before);
    CHECK_EQ(qkv_threads_set(QKV_THREADS_MAX), QKV_OK);
    CHECK_EQ(qkv_threads(), QKV_THREADS_MAX);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
    CHECK_EQ(qkv_threads(), before);
}

TEST(the_environment_is_read_by_a_strict_grammar)
{
    static const char *const bad[] = { "",    " 5",  "5 ",   "+5",  "-1", "0",
                                       "257", "1e2", "0x10", "abc", "5x", "99999999999999999999" };
    int n = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!qkv_threads_parse(&n, bad[i]));
    CHECK(!qkv_threads_parse(&n, NULL));
    CHECK_EQ(n, 42);
    CHECK(qkv_threads_parse(&n, "1") && n == 1);
    CHECK(qkv_threads_parse(&n, "256") && n == 256);
    CHECK(qkv_threads_parse(&n, "007") && n == 7);
}

// The default is found once a process, so each word needs a process of its own: this program again.
static char self[512];
static int asked(const char *word)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (word)
            setenv("QKV_THREADS", word, 1);
        else
            unsetenv("QKV_THREADS");
        setenv("QKV_TEST_SAY_THREADS", "1", 1);
        execl(self, self, (char *)NULL);
        _exit(255);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(the_environment_sets_the_default)
{
#ifdef QKV_EMULATED
    skip(); // a program of another machine cannot start itself
#endif
    const int plain_default = asked(NULL);
    CHECK(plain_default >= 1 && plain_default < 255);
    CHECK_EQ(asked("3"), 3);
    CHECK_EQ(asked("17"), 17);
    CHECK_EQ(asked("abc"), plain_default);
    CHECK_EQ(asked("1e9"), plain_default);
    CHECK_EQ(asked(""), plain_default);
}

TEST(a_quota_is_rounded_up_to_whole_cpus)
{
    CHECK_EQ(qkv_quota_parse("max 100000\n"), 0);
    CHECK_EQ(qkv_quota_parse("200000 100000\n"), 2);
    CHECK_EQ(qkv_quota_parse("150000 100000\n"), 2);
    CHECK_EQ(qkv_quota_parse("1000 100000\n"), 1);
    CHECK_EQ(qkv_quota_parse("9223372036854775807 1\n"), QKV_THREADS_MAX);
    CHECK_EQ(qkv_quota_parse("-1 100000"), 0);
    CHECK_EQ(qkv_quota_parse("100000 0"), 0);
    CHECK_EQ(qkv_quota_parse("100000"), 0);
    CHECK_EQ(qkv_quota_parse(""), 0);
    CHECK_EQ(qkv_quota_parse("words"), 0);
}

static void put(const char *root, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(the_tightest_quota_on_the_way_to_the_root_counts)
{
    char root[] = "/tmp/qkv-cgroup-XXXXXX", path[600], list[600];
    CHECK(mkdtemp(root) != NULL);
    static const char *const folders[] = { "a", "a/b", "cpu,cpuacct", "cpu,cpuacct/x" };
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        CHECK_EQ(mkdir(path, 0755), 0);
    }
    snprintf(list, sizeof list, "%s/list", root);
    CHECK_EQ(qkv_quota_cpus(list, root), 0); // there is none
    put(root, "list", "0::/a/b\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 0);
    put(root, "a/b/cpu.max", "max 100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 0);
    put(root, "a/cpu.max", "300000 100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 3);
    put(root, "a/b/cpu.max", "500000 100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 3);
    put(root, "cpu.max", "50000 100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 1);
    put(root, "list", "11:memory:/x\n4:cpu,cpuacct:/x\n3:cpuset:/x\n"); // version 1
    CHECK_EQ(qkv_quota_cpus(list, root), 0);
    put(root, "cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    put(root, "cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 0);
    put(root, "cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 3);
    put(root, "cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    put(root, "cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK_EQ(qkv_quota_cpus(list, root), 2);
    static char crowded[2000]; // a line of more than 1000 bytes is left out
    memset(crowded, 'x', 1500);
    strcpy(crowded + 1500, "\n4:memory,cpu:/x\n5:cpu,cpuacct:/x\n");
    put(root, "list", crowded);
    CHECK_EQ(qkv_quota_cpus(list, root), 2);
    put(root, "list", "0::/a/b\n5:cpu,cpuacct:/x\n"); // both versions
    CHECK_EQ(qkv_quota_cpus(list, root), 1);
    snprintf(path, sizeof path, "%s/cpu,cpuacct/x/cpu.cfs_period_us", root);
    CHECK_EQ(unlink(path), 0);
    put(root, "list", "5:cpu,cpuacct:/x\n"); // no limit without a period
    CHECK_EQ(qkv_quota_cpus(list, root), 2);
    put(root, "cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    put(root, "list", "nonsense\n::::\n4:\n\n0");
    CHECK_EQ(qkv_quota_cpus(list, root), 0);
    static const char *const files[] = { "list",
                                         "cpu.max",
                                         "a/b/cpu.max",
                                         "a/cpu.max",
                                         "cpu,cpuacct/x/cpu.cfs_quota_us",
                                         "cpu,cpuacct/x/cpu.cfs_period_us",
                                         "cpu,cpuacct/cpu.cfs_quota_us",
                                         "cpu,cpuacct/cpu.cfs_period_us",
                                         "a/b",
                                         "a",
                                         "cpu,cpuacct/x",
                                         "cpu,cpuacct",
                                         "" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", root, files[i]);
        CHECK_EQ(remove(path), 0);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    if (getenv("QKV_TEST_SAY_THREADS")) return qkv_threads();
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = 0;
    const struct CMUnitTest cases[] = { CASE(each_index_runs_once_on_any_number_of_threads),
                                        CASE(a_loop_keeps_to_its_limit_whatever_the_number_is_now),
                                        CASE(writes_are_visible_across_both_ends_of_the_loop),
                                        CASE(a_loop_inside_a_loop_is_serial),
                                        CASE(several_threads_of_a_host_may_loop_at_once),
                                        CASE(a_second_thread_receives_no_signal_of_the_host),
                                        CASE(a_pool_of_the_host_does_the_work),
                                        CASE(the_number_of_threads_has_a_range),
                                        CASE(the_environment_is_read_by_a_strict_grammar),
                                        CASE(the_environment_sets_the_default),
                                        CASE(a_quota_is_rounded_up_to_whole_cpus),
                                        CASE(the_tightest_quota_on_the_way_to_the_root_counts) };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
