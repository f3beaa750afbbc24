// SPDX-License-Identifier: MIT
// ranks_memory.c: chooses how many bytes of keys and values a rank collects, by the memory that is
// available to it.
#include "ranks/ranks.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

// Returns the number after `name` in a file, in units of one byte, or INT64_MAX if there is none.
static int64_t number_in(const char *path, const char *name)
{
    FILE *f = fopen(path, "r");
    char line[256];
    int64_t value = INT64_MAX;
    if (!f) return value;
    while (value == INT64_MAX && fgets(line, sizeof line, f)) {
        char *end;
        if (strncmp(line, name, strlen(name)) != 0) continue;
        const long long x = strtoll(line + strlen(name), &end, 10); // "max": no number
        if (end != line + strlen(name) && x >= 0 && x < INT64_MAX / 1024)
            value = strstr(end, "kB") ? x * 1024 : x;
    }
    fclose(f);
    return value;
}

// Returns the smallest limit of the cgroup path (which begins with '/' and is changed) and its
// ancestors.
static int64_t limit_of(const char *root, char *path, const char *file)
{
    char name[1400];
    int64_t least = INT64_MAX;
    for (;;) {
        snprintf(name, sizeof name, "%s%s/%s", root, path, file);
        const int64_t limit = number_in(name, "");
        if (limit < least) least = limit;
        char *last = strrchr(path, '/');
        if (!last) return least;
        *last = 0;
    }
}

// Returns the bytes that the cgroups of this process grant.
static int64_t cgroup_limit(void)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[1024];
    int64_t least = INT64_MAX;
    while (f && fgets(line, sizeof line, f)) { // ID:CONTROLLERS:PATH
        char *what = strchr(line, ':'), *path = what ? strchr(what + 1, ':') : NULL;
        int64_t limit = INT64_MAX;
        if (!path) continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (!what[1])
            limit = limit_of("/sys/fs/cgroup", path, "memory.max");
        else if (!strcmp(what + 1, "memory"))
            limit = limit_of("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes");
        if (limit < least) least = limit;
    }
    if (f) fclose(f);
    return least;
}

// Returns the bytes that this process may still allocate if `sharers` processes of its host
// allocate as many.
static int64_t available(int64_t sharers)
{
    const int64_t host = number_in("/proc/meminfo", "MemAvailable:"), group = cgroup_limit();
    const int64_t used = number_in("/proc/self/status", "VmSize:");
    int64_t all = (host < group ? host : group) / sharers;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return all;
    if (limit.rlim_cur > (rlim_t)INT64_MAX) return all;
    const int64_t space = (int64_t)limit.rlim_cur - (used == INT64_MAX ? 0 : used);
    return space < all ? space : all;
}

size_t ranks_collect_limit(int64_t given, int parts)
{
    if (given || ranks.size == 1) return (size_t)given;
    const int64_t own = available(ranks_on_host()) / parts;
    return (size_t)ranks_least(own < 1 ? 1 : own);
}
