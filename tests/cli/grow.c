// SPDX-License-Identifier: MIT
// grow.c: a library for LD_PRELOAD, with which the file named by QKV_GROWS gets one more line when
// it is opened for the second time.
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_grown(const char *path, int flags, mode_t mode)
{
    static int times;
    const char *name = getenv("QKV_GROWS");
    if (name && !strcmp(path, name) && ++times == 2) {
        const int fd = openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd < 0 || write(fd, "grown\n", 6) != 6) abort();
        close(fd);
    }
    return openat(AT_FDCWD, path, flags, mode);
}

#define OPEN(name)                                                                                 \
    __attribute__((visibility("default"))) int name(const char *path, int flags, ...);             \
    __attribute__((visibility("default"))) int name(const char *path, int flags, ...)              \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                            \
        va_end(args);                                                                              \
        return open_grown(path, flags, mode);                                                      \
    }
OPEN(open)
OPEN(open64)
