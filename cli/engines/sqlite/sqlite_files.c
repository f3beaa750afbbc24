// SPDX-License-Identifier: MIT
// sqlite_files.c: a file system of SQLite (a VFS) whose files are descriptors that the caller has
// opened, so that the database is a part of an output that the caller commits as a whole.
#include "sqlite_store.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct descriptor {
    sqlite3_file base;
    int fd;
};

// One thread uses a store.  A thread-local object of a library that is opened late needs memory,
// and the program ends if there is none.
static int last_errno;

int sqlite_files_errno(void)
{
    const int code = last_errno;
    last_errno = 0;
    return code;
}

static int fail(int code)
{
    last_errno = errno;
    return code;
}

static int file_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *to, int amount, sqlite3_int64 at)
{
    const int fd = ((const struct descriptor *)(const void *)f)->fd;
    int done = 0;
    while (done < amount) {
        const ssize_t n = pread(fd, (char *)to + done, (size_t)(amount - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(SQLITE_IOERR_READ);
        if (n == 0) break;
        done += (int)n;
    }
    if (done == amount) return SQLITE_OK;
    memset((char *)to + done, 0, (size_t)(amount - done)); // SQLite requires the zeros
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *from, int amount, sqlite3_int64 at)
{
    const int fd = ((const struct descriptor *)(const void *)f)->fd;
    for (int done = 0; done < amount;) {
        const ssize_t n =
            pwrite(fd, (const char *)from + done, (size_t)(amount - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return fail(errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE);
        done += (int)n;
    }
    return SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
    (void)f;
    (void)bytes;
    return SQLITE_OK;
}

static int file_sync(sqlite3_file *f, int flags)
{
    (void)f; // the caller syncs the whole file
    (void)flags;
    return SQLITE_OK;
}

static int file_bytes(sqlite3_file *f, sqlite3_int64 *bytes)
{
    struct stat st;
    if (fstat(((const struct descriptor *)(const void *)f)->fd, &st) != 0)
        return fail(SQLITE_IOERR_FSTAT);
    *bytes = st.st_size;
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *f, int lock)
{
    (void)f;
    (void)lock;
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *f, int *reserved)
{
    (void)f;
    *reserved = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int operation, void *argument)
{
    (void)f;
    (void)operation;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *f)
{
    (void)f;
    return 4096;
}

static int file_characteristics(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods methods = { .iVersion = 1,
                                            .xClose = file_close,
                                            .xRead = file_read,
                                            .xWrite = file_write,
                                            .xTruncate = file_truncate,
                                            .xSync = file_sync,
                                            .xFileSize = file_bytes,
                                            .xLock = file_lock,
                                            .xUnlock = file_lock,
                                            .xCheckReservedLock = file_reserved,
                                            .xFileControl = file_control,
                                            .xSectorSize = file_sector,
                                            .xDeviceCharacteristics = file_characteristics };

// Opens a database by the number of its descriptor; SQLite needs no other file without a journal.
static int files_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct descriptor *d = (struct descriptor *)(void *)f;
    (void)vfs;
    d->base.pMethods = NULL;
    if (!name || !(flags & SQLITE_OPEN_MAIN_DB)) return SQLITE_CANTOPEN;
    d->fd = atoi(name);
    d->base.pMethods = &methods;
    if (out) *out = flags;
    return SQLITE_OK;
}

static int files_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)name;
    (void)sync;
    return SQLITE_OK;
}

static int files_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    (void)name;
    (void)flags;
    *out = 0; // there is no journal
    return SQLITE_OK;
}

static int files_full(sqlite3_vfs *vfs, const char *name, int bytes, char *out)
{
    (void)vfs;
    if ((size_t)bytes <= strlen(name)) return SQLITE_CANTOPEN;
    strcpy(out, name);
    return SQLITE_OK;
}

static int files_random(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs; // SQLite needs random bytes for names of files and for rowids that are not given
    memset(out, 0, (size_t)bytes);
    return bytes;
}

static int files_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

static int files_time(sqlite3_vfs *vfs, double *days)
{
    (void)vfs; // the bytes of an index depend on no clock
    *days = 2440587.5;
    return SQLITE_OK;
}

static int files_last(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    (void)bytes;
    (void)out;
    return last_errno;
}

static sqlite3_vfs files = { .iVersion = 1,
                             .szOsFile = sizeof(struct descriptor),
                             .mxPathname = 32,
                             .zName = SQLITE_FILES,
                             .xOpen = files_open,
                             .xDelete = files_delete,
                             .xAccess = files_access,
                             .xFullPathname = files_full,
                             .xRandomness = files_random,
                             .xSleep = files_sleep,
                             .xCurrentTime = files_time,
                             .xGetLastError = files_last };

int sqlite_files_init(void)
{
    return sqlite3_vfs_register(&files, 0);
}
