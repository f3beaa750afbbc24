// SPDX-License-Identifier: MIT
// test_temporary.c: checks that an output removes the temporary files that killed processes left,
// and nothing else.
#include "base/base_internal.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/qkv-temporary-XXXXXX";

static void write_left(const char *text)
{
    struct qkv_output o;
    CHECK_EQ(qkv_output_open(&o, "left", true, NULL), QKV_OK);
    CHECK_EQ(qkv_output_write(&o, text, strlen(text), NULL), QKV_OK);
    CHECK_EQ(qkv_output_commit(&o, NULL), QKV_OK);
}

TEST(an_output_removes_what_killed_writers_of_its_target_left)
{
    static const char *const others[] = { "left.tmp.12", "left.tmp.1.2.x", "left2.tmp.1.2",
                                          "left.tmp.1.", "left.old.1.2" };
    CHECK(mkdtemp(dir) && chdir(dir) == 0);
    EACH(name, others)
    CHECK_EQ(mkdir(*name, 0700), 0);
    CHECK_EQ(mkdir("left.tmp.1.2", 0700), 0);
    CHECK_EQ(mkdir("left.tmp.1.2/inside", 0700), 0);
    CHECK_EQ(symlink("left.tmp.12", "left.tmp.3.4"), 0);
    write_left("text");
    CHECK(!qkv_path_exists("left.tmp.1.2"));
    CHECK_EQ(unlink("left.tmp.3.4"), 0); // a link is left alone
    EACH(name, others)
    CHECK_EQ(rmdir(*name), 0);
}

TEST(a_temporary_file_that_is_being_written_stays)
{
    char name[QKV_PATH];
    struct qkv_output o;
    int slot, lock;
    CHECK_EQ(qkv_output_open(&o, "left", true, NULL), QKV_OK);
    CHECK(qkv_temporary_folder(name, &slot, &lock, "left", 0700));
    CHECK(lock >= 0);
    write_left("another");
    CHECK(qkv_path_exists(name) && qkv_path_exists(o.temp));
    qkv_output_abort(&o);
    close(lock);
    qkv_temporary_drop(slot);
    write_left("unlocked");
    CHECK(!qkv_path_exists(name));
    CHECK(unlink("left") == 0 && chdir("/") == 0 && rmdir(dir) == 0); // the folder is empty
}

CHECK_MAIN(CASE(an_output_removes_what_killed_writers_of_its_target_left),
           CASE(a_temporary_file_that_is_being_written_stays))
