// SPDX-License-Identifier: MIT
// test_system_faults.c: lets system calls fail inside this process while files and folders are
// written, read and removed: a status, the old file or the new one, and the next run clears what is
// left.
#include "base/base_internal.h"
#include "file/file.h"
#include "fixtures.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>

// ---- calls that fail ---------------------------------------------------------------------------
// A definition here replaces that of libc for the whole program.
enum call {
    ENTROPY,
    FLOCK,
    FSTAT,
    STAT,
    LSTAT,
    OPEN,
    FCHMOD,
    CLOSE,
    FSYNC,
    FCNTL,
    READ,
    OPENDIR,
    REALPATH,
    CALLS
};
static struct {
    enum call call;
    int left, code; // the call after `left` others fails with `code`; left < 0: none
    bool forever, reached;
} fault = { .left = -1 };

static bool fails(enum call call)
{
    if (fault.left < 0 || call != fault.call) return false;
    if (fault.left > 0 && fault.left--) return false;
    fault.reached = true;
    if (!fault.forever) fault.left = -1;
    errno = fault.code;
    return true;
}

#define NEXT(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))
int getentropy(void *p, size_t n)
{
    return fails(ENTROPY) ? -1 : NEXT(getentropy)(p, n);
}
int flock(int fd, int how)
{
    return fails(FLOCK) ? -1 : NEXT(flock)(fd, how);
}
int fstat(int fd, struct stat *st)
{
    return fails(FSTAT) ? -1 : NEXT(fstat)(fd, st);
}
int stat(const char *path, struct stat *st)
{
    return fails(STAT) ? -1 : NEXT(stat)(path, st);
}
int lstat(const char *path, struct stat *st)
{
    return fails(LSTAT) ? -1 : NEXT(lstat)(path, st);
}
int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return fails(OPEN) ? -1 : NEXT(open)(path, flags, mode);
}
int fchmod(int fd, mode_t mode)
{
    return fails(FCHMOD) ? -1 : NEXT(fchmod)(fd, mode);
}
int close(int fd)
{
    const bool failed = fails(CLOSE);
    const int rc = NEXT(close)(fd);
    if (!failed) return rc;
    errno = fault.code;
    return -1;
}
int fsync(int fd)
{
    return fails(FSYNC) ? -1 : NEXT(fsync)(fd);
}
int fcntl(int fd, int what, ...)
{
    va_list more;
    va_start(more, what);
    void *arg = va_arg(more, void *);
    va_end(more);
    return fails(FCNTL) ? -1 : NEXT(fcntl)(fd, what, arg);
}
ssize_t read(int fd, void *p, size_t n)
{
    return fails(READ) ? -1 : NEXT(read)(fd, p, n);
}
DIR *opendir(const char *path)
{
    return fails(OPENDIR) ? NULL : NEXT(opendir)(path);
}
char *realpath(const char *path, char *out)
{
    return fails(REALPATH) ? NULL : NEXT(realpath)(path, out);
}

// ---- what runs meanwhile -----------------------------------------------------------------------
static bool everything(const void *user, const char *path, int64_t bytes)
{
    (void)user, (void)path, (void)bytes;
    return true;
}

static qkv_status write_file(qkv_error *err)
{
    struct qkv_output o;
    qkv_status status = qkv_output_open(&o, fixture("link"), true, err);
    if (!status) status = qkv_output_write(&o, "new", 3, err);
    if (!status) status = qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

static qkv_status write_pipe(qkv_error *err)
{
    struct qkv_output o;
    qkv_status status = qkv_output_open(&o, "/dev/null", true, err);
    if (!status) status = qkv_output_write(&o, "new", 3, err);
    if (!status) status = qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

static qkv_status write_folder(qkv_error *err)
{
    struct qkv_folder f;
    int64_t left_out = 0, links = 0;
    char to[512];
    snprintf(to, sizeof to, "%s", fixture("to"));
    qkv_status status = qkv_folder_begin(&f, to, true, err);
    if (!status)
        status = qkv_folder_copy(&f, fixture("from"), everything, NULL, 2, &left_out, &links, err);
    if (!status) status = qkv_folder_commit(&f, err);
    qkv_folder_abort(&f, NULL);
    return status;
}

static qkv_status read_files(qkv_error *err)
{
    struct qkv_map m = { 0 };
    bool there;
    qkv_status status = qkv_map_open(&m, fixture("from/config.json"), true, err);
    if (!status) CHECK(m.size == 9 && !memcmp(m.data, "{\"new\":1}", 9));
    qkv_map_close(&m);
    if (!status) status = qkv_map_read(&m, fixture("from/sub/x"), 1 << 20, err);
    if (!status) CHECK(m.size == 1 && m.data[0] == 'x');
    qkv_map_close(&m);
    if (!status) status = qkv_path_find(&there, fixture("from/sub/x"), err);
    if (!status) CHECK(there);
    if (!status) status = qkv_path_find(&there, fixture("from/no"), err);
    if (!status) CHECK(!there);
    return status;
}

static qkv_status remove_tree(qkv_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%s", fixture("tree"));
    const bool removed = qkv_disk_remove_tree(path);
    fault.left = -1;
    CHECK_EQ(removed, !qkv_path_exists(path));
    return removed ? QKV_OK : qkv_fail_errno(err, path, "cannot remove", errno);
}

static struct {
    const char *name;
    qkv_status (*run)(qkv_error *err);
} const flows[] = { { "file", write_file },
                    { "device", write_pipe },
                    { "folder", write_folder },
                    { "read", read_files },
                    { "remove", remove_tree } };

static void fresh(void)
{
    fixture_clean();
    mkdir(fixture_dir, 0700);
    mkdir(fixture("from"), 0755);
    mkdir(fixture("from/sub"), 0755);
    fixture_file("from/config.json", "{\"new\":1}", 9);
    fixture_file("from/sub/x", "x", 1);
    char link[512];
    snprintf(link, sizeof link, "%s", fixture("from/link"));
    CHECK_EQ(symlink("sub/x", link), 0);
    mkdir(fixture("to"), 0755);
    fixture_file("to/config.json", "{}", 2);
    fixture_file("file", "old", 3);
    snprintf(link, sizeof link, "%s", fixture("link"));
    CHECK_EQ(symlink("file", link), 0);
    mkdir(fixture("tree"), 0755);
    mkdir(fixture("tree/a"), 0755);
    mkdir(fixture("tree/a/b"), 0755);
    fixture_file("tree/a/b/c", "c", 1);
    fixture_file("tree/d", "d", 1);
    mkdir(fixture("to.tmp.1.2"), 0755); // what killed processes left
    fixture_file("file.tmp.1.2", "?", 1);
}

static int64_t size_of(const char *name)
{
    struct stat st;
    return stat(fixture(name), &st) == 0 ? (int64_t)st.st_size : -1;
}

static int temporaries(void)
{
    int n = 0;
    DIR *d = opendir(fixture_dir);
    CHECK(d != NULL);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += strstr(e->d_name, ".tmp.") != NULL;
    closedir(d);
    return n;
}

TEST(a_failed_call_leaves_what_the_next_run_repairs)
{
    static const int codes[] = { EIO, EINTR, EACCES };
    int64_t points = 0;
    EACH(flow, flows)
    for (int call = 0; call < CALLS; call++) {
        for (int n = 0, reached = 1; reached; n++) {
            for (int k = 0; k < 4; k++) { // the first code also for ever
                qkv_error err = { 0 };
                fresh();
                fault.call = (enum call)call;
                fault.code = codes[k % 3];
                fault.forever = k == 3;
                fault.reached = false;
                fault.left = n;
                const qkv_status status = flow->run(&err);
                fault.left = -1;
                reached = fault.reached;
                if (!reached) CHECK_EQ(status, QKV_OK);
                if (status != QKV_OK && status != QKV_ERR_IO && status != QKV_ERR_USAGE)
                    fail_msg("%s: call %d, %d: status %d", flow->name, call, n, (int)status);
                CHECK_EQ(err.status, status);
                const int64_t config = size_of("to/config.json"), file = size_of("file");
                CHECK(config == 2 || config == 9);
                CHECK(file == 3);
                memset(&err, 0, sizeof err);
                if (flow->run(&err)) fail_msg("%s: call %d, %d: %s", flow->name, call, n, err.text);
                if (flow->run == write_folder) CHECK_EQ(size_of("to/config.json"), 9);
                if (flow->run == write_file || flow->run == write_folder)
                    if (temporaries() != 1) // that of the other flow
                        fail_msg("%s: call %d, %d, code %d: %d temporary files", flow->name, call,
                                 n, codes[k % 3], temporaries());
                points++;
            }
        }
    }
    fixture_clean();
    CHECK(points > 200);
}

CHECK_MAIN(CASE(a_failed_call_leaves_what_the_next_run_repairs))
