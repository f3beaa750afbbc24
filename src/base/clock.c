// SPDX-License-Identifier: MIT
// clock.c: reads a clock that is not affected when the time of the system is set.
#define _GNU_SOURCE
#include "base/base.h"
#include <time.h>

double qkv_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
