// SPDX-License-Identifier: MIT
// library.c: opens a library that belongs to libqkv, when a call needs it: in the folder of libqkv,
// or where the loader finds libraries.
#include "base/base_internal.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#ifdef QKV_LIBRARIES
// Writes the path of the library in the folder of libqkv, or of the program that contains it, to
// path[size]. Returns false if it does not fit or the folder is unknown.
static bool own_path(char *path, size_t size, const char *name)
{
    static const char here = 0;
    Dl_info own;
    const char *end = dladdr(&here, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    const int n =
        end ? snprintf(path, size, "%.*s/%s", (int)(end - own.dli_fname), own.dli_fname, name) : -1;
    return n > 0 && (size_t)n < size;
}

qkv_status qkv_library_open(void **library, const struct qkv_library *x, qkv_error *err)
{
    char path[4096];
    struct stat found;
    const bool known = own_path(path, sizeof path, x->name);
    errno = 0;
    const bool own = known && stat(path, &found) == 0;
    if (known && !own && errno != ENOENT && errno != ENOTDIR)
        return qkv_fail_errno(err, path, "cannot open the library", errno);
    errno = 0;
    // the libraries that it needs do not survive unloading
    const int scope = x->global ? RTLD_GLOBAL : RTLD_LOCAL;
    *library = dlopen(own ? path : x->name, RTLD_NOW | RTLD_NODELETE | scope);
    if (*library) return QKV_OK;
    const int code = errno;
    const char *reason = dlerror();
    if (code == ENOMEM) return qkv_fail_memory(err, NULL);
    if (own)
        return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = path },
                        "cannot open the library: %s", reason ? reason : "unknown reason");
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                    "%s needs the library %s, which cannot be opened (%s)%s", x->what, x->name,
                    reason ? reason : "unknown reason", x->hint);
}

void *qkv_library_function(void *library, const char *name)
{
    return dlsym(library, name);
}
#else
// A program without shared libraries cannot open one.
qkv_status qkv_library_open(void **library, const struct qkv_library *x, qkv_error *err)
{
    *library = NULL;
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "%s", x->none);
}

void *qkv_library_function(void *library, const char *name)
{
    (void)library;
    (void)name;
    return NULL;
}
#endif
