// SPDX-License-Identifier: MIT
// engine.c: opens an engine, a library of qkv, in the folder of libqkv.
#include "engines/engine.h"

#ifdef QKV_ENGINES
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Returns the error of the library at path, which the loader could not open for this reason. An
// engine that is not there, or needs a library that is not there, is not supported.
static qkv_status error_of(const char *path, const char *reason)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return errno == ENOENT || errno == ENOTDIR ? QKV_ERR_UNSUPPORTED : cmd_io_status(errno);
    // The loader appends the text of its error number, if it has one.  Without memory for a path it
    // says that a file is not there.
    static const char *const memory[] = { "out of memory", "cannot open shared object file",
                                          "cannot create shared object descriptor" };
    bool limit = cmd_ends_with(reason, strerror(ENOMEM));
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        limit = limit || cmd_ends_with(reason, memory[i]);
    const bool missing = cmd_ends_with(reason, strerror(ENOENT));
    if (missing && strncmp(reason, path, strlen(path)) != 0) return QKV_ERR_UNSUPPORTED;
    return limit || missing ? QKV_ERR_LIMIT : QKV_ERR_IO;
}

const void *engine_open(const struct engine *x, qkv_error *err)
{
    char path[CMD_PATH], name[64];
    Dl_info own;
    const char *(*const known)(void) = qkv_version; // a function of libqkv, for its folder
    const void *address;
    memcpy(&address, &known, sizeof address);
    snprintf(name, sizeof name, "libqkv_%s.so.%s", x->name, QKV_ENGINES);
    const char *const end =
        dladdr(address, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    const int n = end ? snprintf(path, sizeof path, "%.*s/%s", (int)(end - own.dli_fname),
                                 own.dli_fname, name)
                      : -1;
    const bool fits = n > 0 && (size_t)n < sizeof path;
    void *const library = fits ? dlopen(path, RTLD_NOW) : NULL;
    if (!library) {
        const char *const reason = fits ? dlerror() : NULL;
        const qkv_status status = reason ? error_of(path, reason) : QKV_ERR_UNSUPPORTED;
        if (status != QKV_ERR_UNSUPPORTED) {
            cmd_error(err, status, path, "cannot open the library: %s", reason);
            return NULL;
        }
        cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                  "%s needs the library %s, which cannot be opened (%s); on Debian and Ubuntu: "
                  "apt-get install %s, then build qkv again",
                  x->command, name, reason ? reason : "its folder is unknown", x->package);
        return NULL;
    }
    const size_t *const table = dlsym(library, "qkv_engine");
    if (!table || *table != x->size) {
        cmd_error(err, QKV_ERR_UNSUPPORTED, NULL, "%s needs another version of the library %s",
                  x->command, path);
        return NULL;
    }
    return table;
}
#else
// A program without shared libraries cannot open one.
const void *engine_open(const struct engine *x, qkv_error *err)
{
    cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
              "%s needs the library libqkv_%s, which a qkv of one file cannot open", x->command,
              x->name);
    return NULL;
}
#endif
