// SPDX-License-Identifier: MIT
// no_seek.c: a library for LD_PRELOAD, with which every fseek() fails as on a broken disk.
#include <errno.h>
#include <stdio.h>

__attribute__((visibility("default"))) int fseek(FILE *file, long offset, int whence)
{
    (void)file;
    (void)offset;
    (void)whence;
    errno = EIO;
    return -1;
}
