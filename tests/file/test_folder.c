// SPDX-License-Identifier: MIT
// test_folder.c: checks that a folder is written completely or not at all: whichever system call
// fails, the old folder exists or the new one.
#include "base/base_internal.h"
#include "file/file.h"
#include "fixtures.h"
#include <dirent.h>

struct stop {
    int left;
};
static int stop_at(void *ctx, struct qkv_disk_call *call)
{
    struct stop *s = ctx;
    (void)call;
    return --s->left == 0 ? ENOSPC : 0;
}

static bool everything(const char *name, int64_t bytes)
{
    (void)bytes;
    return strcmp(name, "left") != 0;
}

static qkv_status write_folder(const char *path, const char *from, bool force, qkv_error *err)
{
    struct qkv_folder f;
    int64_t left_out = 0;
    qkv_status status = qkv_folder_begin(&f, path, force, err);
    if (!status) status = qkv_folder_copy(&f, from, everything, 1, &left_out, err);
    if (!status) CHECK_EQ(left_out, 1);
    if (!status) status = qkv_folder_commit(&f, err);
    qkv_folder_abort(&f);
    return status;
}

// Counts the entries of the temporary folder that begin with `name`.
static int beginning(const char *name)
{
    int n = 0;
    DIR *d = opendir(fixture_dir);
    CHECK(d != NULL);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, name, strlen(name)) == 0;
    closedir(d);
    return n;
}

static char from[512], to[512], config[600];
static void fresh(void)
{
    snprintf(from, sizeof from, "%s", fixture("from"));
    snprintf(to, sizeof to, "%s", fixture("to"));
    snprintf(config, sizeof config, "%s/config.json", to);
    mkdir(from, 0755);
    mkdir(fixture("from/sub"), 0755);
    fixture_file("from/config.json", "{\"new\":1}", 9);
    fixture_file("from/sub/x", "x", 1);
    fixture_file("from/left", "y", 1);
    fixture_file("from/.hidden", "z", 1);
    mkdir(to, 0755);
    fixture_file("to/config.json", "{}", 2);
    fixture_file("to/old", "o", 1);
}

TEST(wanted_files_are_copied_and_the_old_folder_is_replaced)
{
    qkv_error err = { 0 };
    struct stat st;
    fresh();
    CHECK_EQ(write_folder(to, from, false, &err), QKV_ERR_USAGE);
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_folder(to, from, true, &err), QKV_OK);
    CHECK(stat(config, &st) == 0 && st.st_size == 9);
    CHECK(stat(fixture("to/sub/x"), &st) == 0 && stat(fixture("to/old"), &st) != 0);
    CHECK(stat(fixture("to/left"), &st) != 0 && stat(fixture("to/.hidden"), &st) != 0);
    CHECK_EQ(beginning("to"), 1);
}

TEST(a_failed_call_leaves_the_old_folder_or_the_new_one)
{
    struct stat st;
    int n = 1;
    for (;; n++) {
        struct stop s = { n };
        qkv_error err = { 0 };
        fresh();
        qkv_disk_hook(stop_at, &s);
        const qkv_status status = write_folder(to, from, true, &err);
        qkv_disk_hook(NULL, NULL);
        CHECK(stat(config, &st) == 0 && (st.st_size == 2 || st.st_size == 9));
        CHECK(status == QKV_OK || status == QKV_ERR_IO);
        if (st.st_size == 2) { // the old one: all of it
            CHECK_EQ(status, QKV_ERR_IO);
            CHECK(stat(fixture("to/old"), &st) == 0);
        }
        fixture_clean();
        mkdir(fixture_dir, 0700);
        if (s.left > 0) break; // fewer calls than n
    }
    CHECK(n > 10);
}

TEST(a_folder_that_is_no_model_s_stays)
{
    qkv_error err = { 0 };
    struct stat st;
    fresh();
    unlink(config);
    CHECK_EQ(write_folder(to, from, true, &err), QKV_ERR_USAGE);
    CHECK(stat(fixture("to/old"), &st) == 0);
    unlink(fixture("to/old"));
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_folder(to, from, true, &err), QKV_OK); // an empty folder is replaced
}

CHECK_MAIN(CASE(wanted_files_are_copied_and_the_old_folder_is_replaced),
           CASE(a_failed_call_leaves_the_old_folder_or_the_new_one),
           CASE(a_folder_that_is_no_model_s_stays))
