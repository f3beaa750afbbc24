// SPDX-License-Identifier: MIT
// test_library.c: checks which library is opened: the one next to this program, or the one that the
// loader finds; and the status and the message where there is none.
#include "base/base.h"
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

static int fail_code; // of the next dlopen; 0: none

// Replaces the function of libc for this program.
void *dlopen(const char *name, int flags)
{
    if (!fail_code)
        return ((void *(*)(const char *, int))(uintptr_t)dlsym(RTLD_NEXT, "dlopen"))(name, flags);
    errno = fail_code;
    fail_code = 0;
    return NULL;
}

static qkv_status open_library(void **library, const char *name, bool global, qkv_error *err)
{
    *library = NULL;
    *err = (qkv_error){ 0 };
    return qkv_library_open(library,
                            &(struct qkv_library){ .name = name,
                                                   .what = "this test",
                                                   .hint = "; install it",
                                                   .none = "no libraries",
                                                   .global = global },
                            err);
}

// Writes the path of a file in the folder of this program to path[size].
static void next_to_program(char *path, size_t size, const char *name)
{
    const ssize_t n = readlink("/proc/self/exe", path, size - 1);
    CHECK(n > 0);
    path[n] = 0;
    char *end = strrchr(path, '/') + 1;
    snprintf(end, size - (size_t)(end - path), "%s", name);
}

TEST(a_library_of_the_system_is_opened)
{
    void *library;
    qkv_error err;
    for (int global = 0; global < 2; global++) {
        CHECK_EQ(open_library(&library, "libm.so.6", global, &err), QKV_OK);
        double (*up)(double) = (double (*)(double))(uintptr_t)qkv_library_function(library, "ceil");
        CHECK(up && up(1.5) == 2);
        CHECK(!qkv_library_function(library, "qkv_no_such_function"));
    }
}

TEST(a_missing_library_is_named_with_what_needs_it)
{
    void *library;
    qkv_error err;
    CHECK_EQ(open_library(&library, "libqkv_absent.so", false, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!library);
    CHECK(strstr(err.text, "this test needs the library libqkv_absent.so, which cannot be opened"));
    CHECK(strstr(err.text, "; install it"));
}

TEST(a_file_next_to_the_program_is_preferred_and_must_be_a_library)
{
    char path[4096], name[64];
    void *library;
    qkv_error err;
    snprintf(name, sizeof name, "libqkv_broken_%ld.so", (long)getpid());
    next_to_program(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    if (!f) skip(); // this user cannot write there
    fputs("no library", f);
    fclose(f);
    const qkv_status status = open_library(&library, name, false, &err);
    fail_code = ENOMEM;
    const qkv_status without_memory = open_library(&library, name, false, &err);
    const bool named = strstr(err.text, name) != NULL;
    unlink(path);
    CHECK_EQ(status, QKV_ERR_IO);
    CHECK_EQ(without_memory, QKV_ERR_LIMIT);
    CHECK(!named && !library); // what lacks memory is not this file
    CHECK_EQ(open_library(&library, name, false, &err), QKV_ERR_UNSUPPORTED);
}

TEST(a_name_that_the_system_refuses_is_an_error)
{
    static char name[5000];
    void *library;
    qkv_error err;
    memset(name, 'x', 300); // longer than a file name may be
    CHECK_EQ(open_library(&library, name, false, &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "cannot open the library"));
    memset(name, 'x', sizeof name - 1); // longer than a path may be: only the loader is asked
    CHECK_EQ(open_library(&library, name, false, &err), QKV_ERR_UNSUPPORTED);
    CHECK(!library);
}

CHECK_MAIN(CASE(a_library_of_the_system_is_opened),
           CASE(a_missing_library_is_named_with_what_needs_it),
           CASE(a_file_next_to_the_program_is_preferred_and_must_be_a_library),
           CASE(a_name_that_the_system_refuses_is_an_error))
