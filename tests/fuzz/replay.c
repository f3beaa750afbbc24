// SPDX-License-Identifier: MIT
// replay.c: runs a fuzz target without libFuzzer on the given files and folders.
#include "fuzz/fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long runs;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return fprintf(stderr, "%s: cannot open\n", path), 1;
    size_t size = 0, capacity = 1 << 16;
    uint8_t *data = malloc(capacity);
    for (size_t n; data && (n = fread(data + size, 1, capacity - size, f)) > 0;) {
        size += n;
        if (size < capacity) continue;
        uint8_t *more = realloc(data, capacity *= 2);
        if (!more) free(data);
        data = more;
    }
    fclose(f);
    if (!data) return fprintf(stderr, "%s: out of memory\n", path), 1;
    uint8_t *exact = malloc(size ? size : 1); // so that a read past the end is detected
    if (!exact) return free(data), 1;
    if (size) memcpy(exact, data, size);
    free(data);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    runs++;
    return 0;
}

static int replay(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return replay_file(path);
    int bad = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char file[4096];
        if (e->d_name[0] == '.') continue;
        const int n = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (n < 0 || (size_t)n >= sizeof file)
            bad = 1;
        else
            bad |= replay_file(file);
    }
    closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) bad |= replay(argv[i]);
    printf("%ld inputs\n", runs);
    if (argc > 1 && runs == 0) bad = 1;
    return bad;
}
