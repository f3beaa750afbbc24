// SPDX-License-Identifier: MIT
// test_output.c: checks mapped and read files, and files that are written completely or not at all,
// whichever call fails.
#include "base/base_internal.h"
#include "base/faults.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/qkv-output-XXXXXX";
static const char *in_dir(const char *name)
{
    static char paths[4][400];
    static int next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}
static void put(const char *name, const char *text)
{
    FILE *f = fopen(in_dir(name), "wb");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}
static void holds(const char *name, const char *text)
{
    char got[200] = "";
    FILE *f = fopen(in_dir(name), "rb");
    CHECK(f != NULL);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    CHECK_TEXT(got, text);
}
static int files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : 1;
}
static int remove_folder(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') remove(in_dir(e->d_name));
    closedir(d);
    return rmdir(dir);
}

TEST(each_of_many_mapped_files_is_named)
{
    enum { FILES = 1000 };
    static struct qkv_map m[FILES];
    put("in", "hello");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FILES; i++)
            if (!m[i].data) CHECK_EQ(qkv_map_open(&m[i], in_dir("in"), false, NULL), QKV_OK);
        for (int i = 0; i < FILES; i++) CHECK(qkv_mapped_file(m[i].data) == m[i].path);
        for (int i = round ? 0 : 300; i < FILES; i += 1 + !round) qkv_map_close(&m[i]);
    }
}

TEST(a_file_is_mapped_or_read_and_named)
{
    put("in", "hello");
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        struct qkv_map m;
        errno = 77;
        CHECK_EQ(qkv_map_open(&m, in_dir("in"), no_mmap, NULL), QKV_OK);
        CHECK_EQ(errno, 77);
        CHECK_EQ(m.size, 5);
        CHECK_EQ(m.mapped, !no_mmap);
        CHECK_BITS(m.data, "hello", 5);
        if (m.mapped) {
            CHECK_TEXT(qkv_mapped_file(m.data), in_dir("in"));
            CHECK_TEXT(qkv_mapped_file(m.data + 4), in_dir("in"));
            CHECK(qkv_mapped_file(m.data + 5) == NULL);
        }
        const uint8_t *data = m.data;
        qkv_map_close(&m);
        CHECK(qkv_mapped_file(data) == NULL);
        CHECK(m.data == NULL && m.size == 0);
        qkv_map_close(&m); // a second close has no effect
    }
    struct qkv_map zero = { 0 };
    qkv_map_close(&zero);
    put("empty", "");
    CHECK_EQ(qkv_map_open(&zero, in_dir("empty"), false, NULL), QKV_OK);
    CHECK(zero.data == NULL && zero.size == 0);
    qkv_map_close(&zero);
    CHECK(qkv_mapped_file(NULL) == NULL);
}

TEST(paths_are_joined_with_one_slash)
{
    char out[QKV_PATH], deep[QKV_PATH];
    qkv_error err = { 0 };
    CHECK_EQ(qkv_path_join(out, "a", "b", NULL), QKV_OK);
    CHECK_TEXT(out, "a/b");
    CHECK_EQ(qkv_path_join(out, "a/", "b", NULL), QKV_OK);
    CHECK_TEXT(out, "a/b");
    CHECK_EQ(qkv_path_join(out, "", "b", NULL), QKV_OK);
    CHECK_TEXT(out, "b");
    memset(deep, 'd', sizeof deep);
    deep[QKV_PATH - 5] = 0;
    CHECK_EQ(qkv_path_join(out, deep, "abc", &err), QKV_OK);
    CHECK_EQ(strlen(out), QKV_PATH - 1);
    CHECK_EQ(qkv_path_join(out, deep, "abcd", &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "abcd: File name too long");
}

static qkv_status write_text(const char *path, const char *text, bool force, qkv_error *err)
{
    struct qkv_output o;
    qkv_status status = qkv_output_open(&o, path, force, err);
    if (status) return status;
    status = qkv_output_write(&o, text, strlen(text), err);
    if (!status) return qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

TEST(a_file_appears_whole_at_commit)
{
    struct qkv_output o;
    const int before = files();
    errno = 77;
    CHECK_EQ(qkv_output_open(&o, in_dir("out"), false, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&o, "one ", 4, NULL), QKV_OK);
    CHECK(access(in_dir("out"), F_OK) != 0);
    errno = 77;
    CHECK_EQ(qkv_output_write(&o, "two", 3, NULL), QKV_OK);
    CHECK_EQ(qkv_output_commit(&o, NULL), QKV_OK);
    CHECK_EQ(errno, 77);
    holds("out", "one two");
    CHECK_EQ(files(), before + 1);
    qkv_output_abort(&o); // after commit: nothing
    holds("out", "one two");
}

TEST(a_large_file_comes_out_byte_for_byte)
{
    enum { N = 300000 };
    uint8_t *data = qkv_alloc(N, 1), *got = qkv_alloc(N, 1);
    for (int i = 0; i < N; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
    struct qkv_output o;
    CHECK_EQ(qkv_output_open(&o, in_dir("large"), true, NULL), QKV_OK);
    static const size_t pieces[] = { 1, 65535, 65536, 1, 0, 100000, 7 };
    size_t at = 0;
    EACH(p, pieces)
    {
        CHECK_EQ(qkv_output_write(&o, data + at, *p, NULL), QKV_OK);
        at += *p;
    }
    CHECK_EQ(qkv_output_write(&o, data + at, N - at, NULL), QKV_OK);
    CHECK_EQ(qkv_output_commit(&o, NULL), QKV_OK);
    const int fd = open(in_dir("large"), O_RDONLY);
    CHECK_EQ(read(fd, got, N), N);
    close(fd);
    CHECK_BITS(got, data, N);
    qkv_free(data);
    qkv_free(got);
}

TEST(an_existing_file_is_not_replaced_unless_forced)
{
    qkv_error err = { 0 };
    put("mine", "mine");
    CHECK_EQ(chmod(in_dir("mine"), 0600), 0);
    CHECK_EQ(write_text(in_dir("mine"), "yours", false, &err), QKV_ERR_USAGE);
    CHECK_TEXT(
        err.text,
        "file exists already, expected a new name or permission to replace it, found a file");
    holds("mine", "mine");
    CHECK_EQ(write_text(in_dir("mine"), "yours", true, NULL), QKV_OK);
    holds("mine", "yours");
    struct stat st;
    CHECK_EQ(stat(in_dir("mine"), &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600); // keeps its permissions
    struct qkv_output o;               // another process is faster: still not replaced
    CHECK_EQ(qkv_output_open(&o, in_dir("race"), false, NULL), QKV_OK);
    put("race", "theirs");
    memset(&err, 0, sizeof err);
    const int before = files();
    CHECK_EQ(qkv_output_commit(&o, &err), QKV_ERR_USAGE);
    holds("race", "theirs");
    CHECK_EQ(files(), before - 1);
}

TEST(abort_leaves_the_old_file_and_nothing_else)
{
    put("old", "old");
    const int before = files();
    struct qkv_output o;
    CHECK_EQ(qkv_output_open(&o, in_dir("old"), true, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&o, "new", 3, NULL), QKV_OK);
    CHECK_EQ(files(), before + 1);
    qkv_output_abort(&o);
    holds("old", "old");
    CHECK_EQ(files(), before);
    struct qkv_output zero = { 0 };
    qkv_output_abort(&zero);
    CHECK(fcntl(0, F_GETFD) >= 0 ||
          errno == EBADF); // fd 0 was not closed: a zeroed struct owns none
    const int fd = dup(1), again = dup(1);
    CHECK(fd >= 0 && again == fd + 1);
    close(fd);
    close(again);
}

// Takes the first name that is opened before the writer does.
struct taken {
    bool file; // the name becomes a file; otherwise a link to "victim"
    int calls;
    char first[400], last[400];
};
static int take_name(void *ctx, struct qkv_disk_call *call)
{
    struct taken *t = ctx;
    if (strcmp(call->name, "open") != 0) return 0;
    snprintf(t->calls ? t->last : t->first, sizeof t->first, "%s", call->path);
    if (t->calls++) return 0;
    if (t->file)
        put(strrchr(call->path, '/') + 1, "stale");
    else
        CHECK_EQ(symlink(in_dir("victim"), call->path), 0);
    return 0;
}

TEST(a_temporary_file_of_another_process_is_left_alone)
{
    // the names that the writer is about to create: first a file has that name, then a link
    struct taken taken = { .file = true };
    put("victim", "victim");
    qkv_disk_hook(take_name, &taken);
    CHECK_EQ(write_text(in_dir("mine2"), "text", false, NULL), QKV_OK);
    CHECK_EQ(taken.calls, 2); // the name that was taken, and another
    holds("mine2", "text");
    holds(strrchr(taken.first, '/') + 1, "stale");
    CHECK(strcmp(taken.first, taken.last) != 0); // a random number
    remove(taken.first);
    taken = (struct taken){ .file = false };
    CHECK_EQ(write_text(in_dir("mine2"), "again", true, NULL), QKV_OK);
    qkv_disk_hook(NULL, NULL);
    CHECK_EQ(taken.calls, 2);
    holds("victim", "victim");
    holds("mine2", "again");
    struct qkv_output a, b; // two writers at once
    CHECK_EQ(qkv_output_open(&a, in_dir("two"), true, NULL), QKV_OK);
    CHECK_EQ(qkv_output_open(&b, in_dir("two"), true, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&a, "a", 1, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&b, "b", 1, NULL), QKV_OK);
    CHECK_EQ(qkv_output_commit(&a, NULL), QKV_OK);
    CHECK_EQ(qkv_output_commit(&b, NULL), QKV_OK);
    holds("two", "b");
}

// Fails the first two calls of fsync, as a signal does that arrives meanwhile.
static int interrupt_sync(void *ctx, struct qkv_disk_call *call)
{
    int *left = ctx;
    return strcmp(call->name, "fsync") == 0 && *left > 0 && (*left)-- ? EINTR : 0;
}

TEST(an_interrupted_fsync_is_repeated)
{
    int left = 2;
    qkv_disk_hook(interrupt_sync, &left);
    const qkv_status status = write_text(in_dir("synced"), "text", false, NULL);
    qkv_disk_hook(NULL, NULL);
    CHECK_EQ(status, QKV_OK);
    CHECK_EQ(left, 0);
    holds("synced", "text");
}

TEST(an_input_truncated_during_a_write_is_named)
{
    enum { N = 1 << 20 };
    qkv_error err = { 0 };
    struct qkv_map m;
    struct qkv_output o;
    put("source", "");
    CHECK_EQ(truncate(in_dir("source"), N), 0);
    CHECK_EQ(qkv_map_open(&m, in_dir("source"), false, NULL), QKV_OK);
    CHECK_EQ(truncate(in_dir("source"), 0), 0);
    CHECK_EQ(qkv_output_open(&o, in_dir("written"), false, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&o, m.data, N, &err), QKV_ERR_IO);
    CHECK_TEXT(err.file, in_dir("source"));
    CHECK_TEXT(err.text, "the file was truncated while it was read");
    memset(&err, 0, sizeof err); // an address of no file: the output is named
    CHECK_EQ(qkv_output_write(&o, NULL, N, &err), QKV_ERR_IO);
    CHECK_TEXT(err.file, in_dir("written"));
    qkv_output_abort(&o);
    qkv_map_close(&m);
}

TEST(temporaries_are_removed_without_memory)
{
    char tree[400], path[500];
    const int before = files();
    struct qkv_output a, b;
    CHECK_EQ(qkv_output_open(&a, in_dir("left_a"), false, NULL), QKV_OK);
    CHECK_EQ(qkv_output_open(&b, in_dir("left_b"), false, NULL), QKV_OK);
    CHECK(qkv_temporary_name(tree, sizeof tree, in_dir("tree")));
    const int slot = qkv_temporary_add(tree);
    CHECK_EQ(mkdir(tree, 0700), 0);
    CHECK_EQ(symlink(dir, strcat(strcpy(path, tree), "/link")), 0);
    CHECK_EQ(mkdir(strcat(strcpy(path, tree), "/sub"), 0700), 0);
    for (int i = 0; i < 500; i++) { // more names than the system returns in one call
        snprintf(path, sizeof path, "%s/sub/a_name_of_some_length_%d", tree, i);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0);
        close(fd);
    }
    CHECK_EQ(files(), before + 3);
    const pid_t child = fork();
    if (child == 0) { // files of the parent
        qkv_temporaries_remove();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(files(), before + 3);
    CHECK_EQ(qkv_output_commit(&b, NULL), QKV_OK);
    faults_begin(1, true);
    qkv_temporaries_remove();
    faults_end(NULL);
    CHECK_EQ(files(), before + 1); // the link was not followed, and a finished output remains
    holds("left_b", "");
    qkv_temporary_drop(slot);
    CHECK_EQ(qkv_output_commit(&a, NULL), QKV_ERR_IO);
}

TEST(a_writer_lends_its_descriptor)
{
    qkv_writer *w = NULL;
    qkv_error err = { 0 };
    char got[4] = "";
    const int before = files();
    CHECK_EQ(qkv_writer_open(&w, in_dir("lent"), false, NULL), QKV_OK);
    const int fd = qkv_writer_descriptor(w);
    CHECK_EQ(write(fd, "xyz", 3), 3);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(write(fd, "a", 1), 1);
    CHECK_EQ(pread(fd, got, 3, 0), 3);
    CHECK_TEXT(got, "ayz");
    CHECK(access(in_dir("lent"), F_OK) != 0);
    CHECK_EQ(qkv_writer_commit(w, NULL), QKV_OK);
    holds("lent", "ayz");
    CHECK_EQ(qkv_writer_open(&w, in_dir("lent"), false, &err), QKV_ERR_USAGE);
    CHECK(w == NULL);
    CHECK_EQ(qkv_writer_open(&w, in_dir("lent"), true, NULL), QKV_OK);
    qkv_writer_abort(w);
    qkv_writer_abort(NULL);
    holds("lent", "ayz");
    CHECK_EQ(files(), before + 1);
    CHECK_EQ(qkv_writer_open(NULL, in_dir("x"), true, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_writer_commit(NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_writer_descriptor(NULL), -1);
}

TEST(a_link_stays_a_link)
{
    struct stat st;
    put("target", "old");
    CHECK_EQ(symlink("target", in_dir("link")), 0);
    CHECK_EQ(write_text(in_dir("link"), "new", false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(write_text(in_dir("link"), "new", true, NULL), QKV_OK);
    CHECK(lstat(in_dir("link"), &st) == 0 && S_ISLNK(st.st_mode));
    holds("target", "new");
    CHECK_EQ(symlink("nowhere", in_dir("dangling")), 0);
    CHECK_EQ(write_text(in_dir("dangling"), "x", false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(write_text(in_dir("dangling"), "x", true, NULL), QKV_OK);
    holds("dangling", "x");
}

TEST(devices_and_pipes_are_written_to_and_not_replaced)
{
    struct stat st;
    qkv_error err = { 0 };
    CHECK_EQ(write_text("/dev/null", "x", false, NULL), QKV_OK);
    CHECK_EQ(write_text("/dev/full", "x", true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot write: No space left on device");
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK_EQ(mkfifo(in_dir("fifo"), 0600), 0);
    memset(&err, 0, sizeof err);
    alarm(20);
    CHECK_EQ(write_text(in_dir("fifo"), "x", true, &err), QKV_ERR_IO); // no reader: does not block
    CHECK_TEXT(err.text, "cannot open: No such device or address");
    const int fd = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK);
    char got[8];
    CHECK_EQ(write_text(in_dir("fifo"), "through", true, NULL), QKV_OK);
    alarm(0);
    CHECK_EQ(read(fd, got, 8), 7);
    CHECK_BITS(got, "through", 7);
    close(fd);
}

TEST(an_open_descriptor_is_written_at_its_position)
{
    char name[40], twin[40];
    qkv_error err = { 0 };
    put("log", "old ");
    const int fd = open(in_dir("log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    snprintf(twin, sizeof twin, "/proc/self/fd/%d", fd);
    CHECK_EQ(write_text(name, "new", false, NULL), QKV_OK); // nothing is replaced: no force
    holds("log", "old new");
    CHECK_EQ(write_text(twin, "er", false, NULL), QKV_OK);
    holds("log", "old newer");
    close(fd);
    CHECK_EQ(write_text(name, "x", false, &err), QKV_ERR_IO);
    holds("log", "old newer");
}

TEST(paths_that_cannot_be_files_are_errors)
{
    qkv_error err = { 0 };
    CHECK_EQ(write_text(dir, "x", true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "path is a directory, expected a file, found a directory");
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_text(in_dir("no/such"), "x", true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot create: No such file or directory");
    char name[400];
    memset(name, 'n', sizeof name);
    name[399] = 0;
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_text(name, "x", true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot create: File name too long");
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_text("", "x", true, &err), QKV_ERR_IO);
}

// A file system of 64 KiB, where this user may mount one; in a process and name space of its own.
TEST(a_full_disk_leaves_the_old_file)
{
    put("disk_old", "old");
    const int before = files();
    const pid_t child = fork();
    if (child == 0) { // the limit of a process is a full disk to it: EFBIG
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit small = { 100000, 100000 };
        if (setrlimit(RLIMIT_FSIZE, &small) != 0) _exit(77);
        qkv_error err = { 0 };
        struct qkv_output o;
        if (qkv_output_open(&o, in_dir("disk_old"), true, &err) != QKV_OK) _exit(2);
        char block[50000];
        memset(block, 'x', sizeof block);
        qkv_status s = QKV_OK;
        for (int i = 0; i < 4 && !s; i++) s = qkv_output_write(&o, block, sizeof block, &err);
        if (!s)
            s = qkv_output_commit(&o, &err);
        else
            qkv_output_abort(&o);
        _exit(s == QKV_ERR_IO && strcmp(err.text, "cannot write: File too large") == 0 ? 0 : 3);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    holds("disk_old", "old");
    CHECK_EQ(files(), before);
    CHECK_EQ(mkdir(in_dir("disk"), 0755), 0);
    if (mount("none", in_dir("disk"), "tmpfs", 0, "size=64k") == 0) {
        qkv_error err = { 0 };
        struct qkv_output o;
        put("disk/file", "old");
        CHECK_EQ(qkv_output_open(&o, in_dir("disk/file"), true, &err), QKV_OK);
        char block[70000] = { 0 };
        CHECK_EQ(qkv_output_write(&o, block, sizeof block, &err), QKV_ERR_IO);
        CHECK_TEXT(err.text, "cannot write: No space left on device");
        qkv_output_abort(&o);
        holds("disk/file", "old");
        CHECK_EQ(qkv_output_open(&o, in_dir("disk/file"), true, &err),
                 QKV_OK); // there is room again
        CHECK_EQ(qkv_output_commit(&o, NULL), QKV_OK);
        holds("disk/file", "");
        CHECK_EQ(umount(in_dir("disk")), 0);
    } else {
        print_message("no tmpfs here: the full disk was a limit of size only\n");
    }
    CHECK_EQ(rmdir(in_dir("disk")), 0);
}

// Writing into a slow pipe while signals arrive: each write is cut short or interrupted.
static void nothing(int signal)
{
    (void)signal;
}
static void *read_slowly(void *path)
{
    static char got[1 << 14];
    int64_t n = 0;
    const int fd = open(path, O_RDONLY);
    for (ssize_t k; (k = read(fd, got, sizeof got)) != 0;) {
        if (k > 0) n += k;
        usleep(500);
    }
    close(fd);
    return (void *)(intptr_t)n;
}

TEST(a_signal_in_the_middle_of_a_write_loses_nothing)
{
    enum { N = 1 << 20 };
    char path[400];
    CHECK_EQ(mkfifo(in_dir("slow"), 0600), 0);
    strcpy(path, in_dir("slow"));
    struct sigaction act = { .sa_handler = nothing }, old; // without SA_RESTART
    CHECK_EQ(sigaction(SIGALRM, &act, &old), 0);
    pthread_t reader;
    sigset_t alarms, before;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, &before); // the reader does not take them
    CHECK_EQ(pthread_create(&reader, NULL, read_slowly, path), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct qkv_output o;
    qkv_status status;
    for (int i = 0; (status = qkv_output_open(&o, path, true, NULL)) != QKV_OK && i < 10000; i++)
        usleep(1000);
    CHECK_EQ(status, QKV_OK);
    const struct itimerval fast = { { 0, 700 }, { 0, 700 } }, off = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &fast, NULL);
    char *data = qkv_alloc_zero(N, 1);
    status = qkv_output_write(&o, data, N, NULL);
    if (!status) status = qkv_output_commit(&o, NULL);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    qkv_free(data);
    void *got;
    pthread_join(reader, &got);
    CHECK_EQ(status, QKV_OK);
    CHECK_EQ((intptr_t)got, N);
}

static qkv_status write_forced(void *ctx, qkv_error *err)
{
    return write_text(ctx, "text", true, err);
}

TEST(every_failed_allocation_is_survived)
{
    char path[400];
    strcpy(path, in_dir("faults"));
    const int before = files();
    CHECK(faults_walk(write_forced, path, true) >= 4);
    CHECK_EQ(files(), before + 1);
}

int main(void)
{
    const struct CMUnitTest cases[] = { CASE(a_file_is_mapped_or_read_and_named),
                                        CASE(paths_are_joined_with_one_slash),
                                        CASE(a_file_appears_whole_at_commit),
                                        CASE(a_large_file_comes_out_byte_for_byte),
                                        CASE(an_existing_file_is_not_replaced_unless_forced),
                                        CASE(abort_leaves_the_old_file_and_nothing_else),
                                        CASE(a_temporary_file_of_another_process_is_left_alone),
                                        CASE(an_interrupted_fsync_is_repeated),
                                        CASE(an_input_truncated_during_a_write_is_named),
                                        CASE(temporaries_are_removed_without_memory),
                                        CASE(a_writer_lends_its_descriptor),
                                        CASE(a_link_stays_a_link),
                                        CASE(devices_and_pipes_are_written_to_and_not_replaced),
                                        CASE(an_open_descriptor_is_written_at_its_position),
                                        CASE(each_of_many_mapped_files_is_named),
                                        CASE(paths_that_cannot_be_files_are_errors),
                                        CASE(a_full_disk_leaves_the_old_file),
                                        CASE(a_signal_in_the_middle_of_a_write_loses_nothing),
                                        CASE(every_failed_allocation_is_survived) };
    return cmocka_run_group_tests(cases, make_folder, remove_folder);
}
