// SPDX-License-Identifier: MIT
// temporary.c: names temporary files and folders, keeps a table of those that exist, so that a
// process that ends early can remove them, and removes what killed processes left.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Table of the temporary files and folders.  An entry is valid while `path` is not NULL; a signal
// handler reads the table without a lock.  A process started by fork() owns no entry of its parent.
enum { SLOTS = 256, REMOVE_TRIES = 100, FOLDER_TRIES = 100 };
static struct {
    _Atomic(const char *) path;
    _Atomic long process;
} slots[SLOTS];

uint32_t qkv_temporary_number(void)
{
    uint32_t n;
    if (getentropy(&n, sizeof n) == 0) return n;
    // The system has no random numbers: a name that exists is never opened, so that this number
    // only has to differ from the others of this process.
    static _Atomic uint32_t count;
    struct timespec now = { 0 };
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)now.tv_nsec * 2654435761u + atomic_fetch_add(&count, 1);
}

// A name of more than LONG bytes would exceed the limit of the file system with .tmp.PID.N, which
// has up to 27 bytes: the limit is 143 bytes in eCryptfs, 255 in others.  Its temporary name begins
// with HEAD bytes of it, DIGITS digits of its SHA-256, and its last TAIL bytes.
enum { LONG = 116, HEAD = 80, DIGITS = 16, TAIL = 16, STEM = LONG + 1 };

static bool continues(char c) // c is not the first byte of a UTF-8 character
{
    return (c & 0xC0) == 0x80;
}

// Returns the beginning of the temporary names for `base`: base itself, or a shorter name in stem.
static const char *shorten(char stem[STEM], const char *base)
{
    char digest[QKV_SHA256_TEXT];
    const size_t n = strlen(base);
    if (n <= LONG) return base;
    size_t head = HEAD, tail = n - TAIL;
    while (head && continues(base[head])) head--;
    while (continues(base[tail])) tail++;
    qkv_sha256(digest, base, n);
    snprintf(stem, STEM, "%.*s~%.*s%s", (int)head, base, DIGITS, digest, base + tail);
    return stem;
}

bool qkv_temporary_name(char *out, size_t size, const char *target)
{
    char stem[STEM];
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    const int n = snprintf(out, size, "%.*s%s.tmp.%ld.%" PRIu32, (int)(base - target), target,
                           shorten(stem, base), (long)getpid(), qkv_temporary_number());
    return n > 0 && (size_t)n < size;
}

int qkv_temporary_add(const char *path)
{
    for (int i = 0; i < SLOTS; i++) {
        const char *none = NULL;
        if (atomic_load(&slots[i].path)) continue;
        atomic_store(&slots[i].process, (long)getpid());
        if (atomic_compare_exchange_strong(&slots[i].path, &none, path)) return i;
    }
    return -1; // the table is full: only the owner removes this file
}

void qkv_temporary_drop(int slot)
{
    if (slot >= 0) atomic_store(&slots[slot].path, NULL);
}

void qkv_temporaries_remove(void)
{
    const long process = (long)getpid();
    for (int i = SLOTS - 1; i >= 0; i--) {
        const char *path = atomic_load(&slots[i].path);
        if (!path || atomic_load(&slots[i].process) != process) continue;
        // another thread may still write into a folder: no file can be made in it once it is gone
        for (int k = 0; k < REMOVE_TRIES && !qkv_disk_remove_tree(path); k++) continue;
    }
}

// ---- temporary files of processes that were killed ---------------------------------------------
// Whoever writes a temporary file or folder locks it, and the system ends the lock with the
// process.
int qkv_temporary_lock(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    close(fd);
    return -1;
}

bool qkv_temporary_own(int fd)
{
    struct stat st;
    // a file system without locks refuses the locks of other processes too
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static bool same_folder(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

bool qkv_temporary_folder(char dir[QKV_PATH], int *slot, int *lock, const char *target,
                          unsigned mode)
{
    *slot = *lock = -1;
    errno = ENAMETOOLONG;
    for (int i = 0; i < FOLDER_TRIES && qkv_temporary_name(dir, QKV_PATH, target); i++) {
        *slot = qkv_temporary_add(dir);
        const bool made = qkv_disk_mkdir(dir, mode) == 0;
        // without locks on this file system, nothing removes the folder of a killed process
        if (made) *lock = qkv_temporary_lock(dir);
        if (made && (*lock < 0 || same_folder(*lock, dir))) return true;
        // the name exists, or another process took the new folder for an abandoned one
        const int code = errno;
        if (made) qkv_disk_rmdir(dir);
        if (*lock >= 0) close(*lock);
        qkv_temporary_drop(*slot);
        *slot = *lock = -1;
        errno = code;
        if (!made && code != EEXIST) break;
    }
    return false;
}

// Returns true if `name` is base, kind, the number of a process and a random number.
static bool is_left(const char *name, const char *base, const char *kind)
{
    const size_t n = strlen(base), k = strlen(kind);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, kind, k) != 0) return false;
    const char *p = name + n + k;
    const size_t process = strspn(p, "0123456789");
    if (!process || p[process] != '.') return false;
    const size_t number = strspn(p + process + 1, "0123456789");
    return number && !p[process + 1 + number];
}

bool qkv_temporary_is_of(const char *name, const char *base)
{
    char stem[STEM];
    return name && base && is_left(name, shorten(stem, base), ".tmp.");
}

// Returns true for a file or folder of this user: in a folder of all users, the contents of what
// another user made could change while it is removed.
static bool is_own(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

void qkv_temporaries_find(const char *target, const char *kind,
                          void (*found)(const char *path, const char *target))
{
    char above[QKV_PATH], left[QKV_PATH], stem[STEM];
    const int saved = errno;
    const char *base = qkv_path_above(above, target);
    DIR *d = base ? opendir(above) : NULL;
    const char *begin = base ? shorten(stem, base) : NULL;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (!is_left(e->d_name, begin, kind) || qkv_path_join(left, above, e->d_name, NULL))
            continue;
        const int fd = qkv_temporary_lock(left);
        if (fd < 0) continue;
        if (is_own(fd)) found(left, target);
        close(fd);
    }
    if (d) closedir(d);
    errno = saved;
}

static void remove_left(const char *path, const char *target)
{
    (void)target;
    qkv_disk_remove_tree(path);
}

// Returns true if a folder, or one above it, is temporary: NAME.tmp or NAME.tmp.PID.N.
static bool is_in_temporary(const char *dir)
{
    for (const char *p = dir; (p = strstr(p, ".tmp")) != NULL; p++)
        if (!p[4] || p[4] == '/' || (p[4] == '.' && p[5] >= '0' && p[5] <= '9')) return true;
    return false;
}

void qkv_temporaries_clear(const char *target)
{
    char above[QKV_PATH];
    // a temporary folder is removed as a whole
    if (qkv_path_above(above, target) && !is_in_temporary(above))
        qkv_temporaries_find(target, ".tmp.", remove_left);
}
