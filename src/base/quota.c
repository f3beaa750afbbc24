// SPDX-License-Identifier: MIT
// quota.c: computes the number of CPUs that the cgroups of the process grant.
// Source: Linux Documentation/admin-guide/cgroup-v2.rst (cpu.max), cgroup-v1 (cpu.cfs_quota_us).
#include "base/base_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Reads at most the first size-1 bytes of a file into out and terminates them with NUL.  Returns
// false if the file cannot be opened.
static bool read_small(char *out, size_t size, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    size_t got = 0;
    while (got < size - 1) {
        const ssize_t n = read(fd, out + got, size - 1 - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        got += (size_t)n;
    }
    close(fd);
    out[got] = 0;
    return true;
}

int qkv_quota_parse(const char *text)
{
    char *end;
    const long long quota = strtoll(text, &end, 10); // "max" and -1: no quota
    if (end == text || quota <= 0) return 0;
    const char *rest = end;
    const long long period = strtoll(rest, &end, 10);
    if (end == rest || period <= 0) return 0;
    const long long cpus = quota / period + (quota % period != 0);
    return (int)qkv_min64(cpus, QKV_THREADS_MAX);
}

// Returns the number of CPUs that one cgroup folder grants; 0: the folder sets no limit.
static int quota_of(const char *folder, bool v2)
{
    char path[1400], text[128], period[64];
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        return read_small(text, sizeof text, path) ? qkv_quota_parse(text) : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_small(text, 64, path)) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_small(period, sizeof period, path)) return 0;
    text[strcspn(text, "\n")] = 0;
    char both[136];
    snprintf(both, sizeof both, "%.63s %s", text, period);
    return qkv_quota_parse(both);
}

// Returns true if "cpu" is in the list of controllers, such as "cpu,cpuacct".
static bool has_cpu(const char *controllers)
{
    for (const char *p = controllers; *p;) {
        const size_t n = strcspn(p, ",");
        if (n == 3 && memcmp(p, "cpu", 3) == 0) return true;
        p += n + (p[n] == ',');
    }
    return false;
}

// Returns the smallest number of CPUs that the cgroup of `line` or one of its ancestors up to the
// root grants, or 0 if none of them sets a limit.  line is "ID:CONTROLLERS:PATH"; the function
// modifies it.
static int quota_of_line(char *line, const char *root)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return 0;
    *path++ = 0;
    controllers++;
    const bool v2 = controllers[0] == 0;
    if (!v2 && !has_cpu(controllers)) return 0;
    int best = 0;
    for (;;) {
        char folder[1280];
        snprintf(folder, sizeof folder, "%s/%s%s", root, controllers, path);
        const int n = quota_of(folder, v2);
        if (n && (!best || n < best)) best = n;
        char *last = strrchr(path, '/');
        if (!last) return best;
        *last = 0;
    }
}

int qkv_quota_cpus(const char *cgroup_file, const char *root)
{
    char text[8192];
    if (!read_small(text, sizeof text, cgroup_file)) return 0;
    int best = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (strlen(line) > 1000) continue;
        const int n = quota_of_line(line, root);
        if (n && (!best || n < best)) best = n;
    }
    return best;
}
