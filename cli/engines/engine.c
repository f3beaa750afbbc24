// SPDX-License-Identifier: MIT
// engine.c: opens an engine, a library of qkv, in the folder of libqkv.
#include "engines/engine.h"

#ifdef QKV_ENGINES
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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
    void *const library = n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW) : NULL;
    if (!library) {
        const char *const reason = n > 0 ? dlerror() : NULL;
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
