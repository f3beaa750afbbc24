// SPDX-License-Identifier: MIT
// folder.h: makes a model folder for one case and removes it at the end of the program.
#ifndef QKV_FOLDER_H
#define QKV_FOLDER_H
#include "check.h"
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder_path[256];
static void folder_clear(const char *dir)
{
    char path[1024];
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlink(path) != 0) {
            folder_clear(path);
            rmdir(path);
        }
    }
    closedir(d);
}
static void folder_remove(void)
{
    if (!folder_path[0]) return;
    folder_clear(folder_path);
    rmdir(folder_path);
}
// Returns an empty folder, the same one each time.
static inline const char *folder_new(void)
{
    if (folder_path[0]) {
        folder_clear(folder_path);
        return folder_path;
    }
    const char *base = getenv("TMPDIR");
    snprintf(folder_path, sizeof folder_path, "%s/qkv-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder_path)) fail_msg("no folder for a test");
    atexit(folder_remove);
    return folder_path;
}
static inline char *folder_name(const char *name) // path of a file in it; valid until the next call
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder_path, name);
    return path;
}
static inline void folder_write(const char *name, const void *data, size_t bytes)
{
    FILE *f = fopen(folder_name(name), "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        fail_msg("cannot write %s", name);
}
static inline void folder_text(const char *name, const char *text)
{
    folder_write(name, text, strlen(text));
}
// Makes `name` in the folder a link to the file `to`, a path below the source tree.
static inline void folder_link(const char *name, const char *to)
{
    char full[2048], here[512];
    if (!getcwd(here, sizeof here)) fail_msg("no working directory");
    snprintf(full, sizeof full, "%s/%s", here, to);
    if (symlink(full, folder_name(name)) != 0) fail_msg("cannot link %s", name);
}
// Reads a whole file, terminated; the caller frees it.
static inline char *folder_load(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0) fail_msg("cannot read %s", path);
    char *data = calloc((size_t)st.st_size + 1, 1);
    if (!data || fread(data, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        fail_msg("cannot read %s", path);
    fclose(f);
    *bytes = (size_t)st.st_size;
    return data;
}
static inline void folder_unused(void)
{
    (void)folder_new;
    (void)folder_write;
    (void)folder_text;
    (void)folder_link;
    (void)folder_load;
    (void)folder_unused;
}
#endif
