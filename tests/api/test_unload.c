// SPDX-License-Identifier: MIT
// test_unload.c FILE: loads and unloads the library while its workers are awake or asleep: no
// thread is left, and exit() ends a process whose workers and callers are at work.
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <qkv/layer.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library;

struct functions {
    void *handle;
    void (*norm)(float *y, const float *x, const float *w, const float *b, float eps, int64_t R,
                 int64_t D);
};
static struct functions load(void)
{
    struct functions f;
    qkv_status (*set)(int n);
    f.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(f.handle != NULL);
    *(void **)&f.norm = dlsym(f.handle, "qkv_layer_norm");
    *(void **)&set = dlsym(f.handle, "qkv_threads_set");
    CHECK(f.norm && set);
    CHECK_EQ(set(4), QKV_OK);
    return f;
}

enum { ROWS = 4096, WIDTH = 8 };
static void run(const struct functions *f)
{
    static float x[ROWS * WIDTH], w[WIDTH];
    float *y = malloc(sizeof x);
    CHECK(y != NULL);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % WIDTH);
    for (int i = 0; i < WIDTH; i++) w[i] = 1;
    f->norm(y, x, w, w, 1e-5F, ROWS, WIDTH);
    for (int i = 0; i < ROWS * WIDTH; i++) CHECK(y[i] == y[i % WIDTH]);
    CHECK(y[0] < 0);
    free(y);
}

static int threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *e; (e = readdir(tasks));) n += e->d_name[0] != '.';
    closedir(tasks);
    return n;
}

TEST(no_thread_is_left_when_the_library_is_unloaded)
{
    const int before = threads();
    for (int round = 0; round < 30; round++) {
        const struct functions f = load();
        for (int i = 0; i < 1 + round % 3 * 20; i++) run(&f);
        CHECK_EQ(threads(), before + 3);
        if (round % 2) usleep(2000); // the workers sleep
        CHECK_EQ(dlclose(f.handle), 0);
        // the system removes the entry of a joined thread a moment later
        for (int left = 2000; threads() != before && left; left--) usleep(1000);
        CHECK_EQ(threads(), before);
        void *const again = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
        CHECK(again == NULL); // its code is gone
    }
}

static void *run_for_ever(void *ctx)
{
    static float x[ROWS * WIDTH], y[ROWS * WIDTH];
    const struct functions *f = ctx;
    for (;;) f->norm(y, x, NULL, NULL, 1e-5F, ROWS, WIDTH);
    return NULL;
}

TEST(exit_ends_a_process_that_computes)
{
    for (int round = 0; round < 20; round++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            pthread_t other;
            alarm(60);
            const struct functions f = load();
            run(&f);
            if (pthread_create(&other, NULL, run_for_ever, (void *)&f)) _exit(1);
            usleep((unsigned)(round % 4) * 500);
            exit(0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    library = argv[1];
    const struct CMUnitTest cases[] = { CASE(no_thread_is_left_when_the_library_is_unloaded),
                                        CASE(exit_ends_a_process_that_computes) };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
