// SPDX-License-Identifier: MIT
// test_temporary.c: checks that an output removes the temporary files that killed processes left,
// and nothing else.
#include "base/base_internal.h"
#include "check.h"
#include <errno.h>
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

// An output in a folder whose name looks temporary in part: only NAME.tmp and NAME.tmp.PID.N are.
TEST(names_that_only_resemble_temporary_ones_are_left_alone)
{
    static const char *const folders[] = { "a.tmpx", "a.tmp.x", "a.tmp:", "a.tmp" };
    static const char *const others[] = { "left.tmp.x.1", "left.tmp.:.1", "left.tmp.1x.1",
                                          "left.tmp.1.:" };
    char made[] = "/tmp/qkv-temporary-XXXXXX", inside[64];
    CHECK(mkdtemp(made) && chdir(made) == 0);
    EACH(name, others)
    CHECK_EQ(mkdir(*name, 0700), 0);
    EACH(folder, folders)
    {
        struct qkv_output o;
        CHECK_EQ(mkdir(*folder, 0700), 0);
        snprintf(inside, sizeof inside, "%s/left.tmp.1.2", *folder);
        CHECK_EQ(mkdir(inside, 0700), 0);
        snprintf(inside, sizeof inside, "%s/left", *folder);
        CHECK_EQ(qkv_output_open(&o, inside, true, NULL), QKV_OK);
        qkv_output_abort(&o);
        snprintf(inside, sizeof inside, "%s/left.tmp.1.2", *folder);
        CHECK_EQ(qkv_path_exists(inside), !strcmp(*folder, "a.tmp")); // removed with its folder
        CHECK(qkv_disk_remove_tree(*folder));
    }
    write_left("text");
    EACH(name, others)
    CHECK_EQ(rmdir(*name), 0);
    CHECK(unlink("left") == 0 && chdir("/") == 0 && rmdir(made) == 0);
}

// A name of 255 bytes is the longest of most file systems, and its temporary name has to be
// shorter.
TEST(a_long_name_is_written_and_what_killed_writers_left_of_it_is_removed)
{
    static const int lengths[] = { 116, 117, 228, 255 };
    static const char *const letters[] = { "a", "\xC3\xA4", "\xE2\x82\xAC" };
    char made[] = "/tmp/qkv-temporary-XXXXXX";
    CHECK(mkdtemp(made) && chdir(made) == 0);
    EACH(length, lengths) EACH(letter, letters)
    {
        struct qkv_output o;
        char name[256] = "", other[256], left[QKV_PATH], stays[QKV_PATH];
        while (strlen(name) + strlen(*letter) + 4 <= (size_t)*length) strcat(name, *letter);
        strcat(name, ".npy");
        memcpy(other, name, sizeof other);
        other[90]++; // neither in the first bytes nor in the last ones
        CHECK(qkv_temporary_name(left, sizeof left, name));
        CHECK(qkv_temporary_name(stays, sizeof stays, other));
        CHECK(strlen(left) <= 143 && strstr(left, ".npy.tmp."));
        for (size_t at = 0, n; left[at]; at += n) CHECK(n = qkv_utf8_bytes(left + at, 9));
        CHECK(mkdir(left, 0700) == 0 && mkdir(stays, 0700) == 0);
        CHECK_EQ(qkv_output_open(&o, name, false, NULL), QKV_OK);
        CHECK(!qkv_path_exists(left) && qkv_path_exists(o.temp));
        CHECK_EQ(qkv_output_commit(&o, NULL), QKV_OK);
        CHECK(unlink(name) == 0 && rmdir(stays) == 0);
    }
    CHECK(chdir("/") == 0 && rmdir(made) == 0); // nothing else is left
}

// The functions that make temporary names and recognize them agree.
TEST(a_temporary_name_is_of_its_output_and_of_no_other)
{
    static const int lengths[] = { 1, 30, 116, 117, 250 };
    static const char *const ends[] = { "", ".qkvi", ".tmp.x.npy", ".tmp.1.2", ".tmp." };
    EACH(length, lengths) EACH(end, ends)
    {
        char base[300], path[QKV_PATH], other[QKV_PATH];
        memset(base, 'b', sizeof base);
        snprintf(base + *length, sizeof base - (size_t)*length, "%s", *end);
        snprintf(other, sizeof other, "folder/%s", base);
        CHECK(qkv_temporary_name(path, sizeof path, other));
        const char *name = path + strlen("folder/");
        CHECK(qkv_temporary_is_of(name, base));
        CHECK(!qkv_temporary_is_of(path, base) && !qkv_temporary_is_of(base, base));
        snprintf(other, sizeof other, "%s.x", name);
        CHECK(!qkv_temporary_is_of(other, base));
        snprintf(other, sizeof other, "b%s", base);
        CHECK(!qkv_temporary_is_of(name, other));
        base[*length / 2]++; // in a name of 250 bytes, only the digest depends on this byte
        CHECK(!qkv_temporary_is_of(name, base));
    }
    CHECK(qkv_temporary_is_of("a.tmp.1.2", "a") && qkv_temporary_is_of(".tmp.1.2", ""));
    CHECK(!qkv_temporary_is_of("a.old.1.2", "a") && !qkv_temporary_is_of("a.tmp.1", "a"));
}

// The table of temporary files has 256 rows: files beyond are written as well.
TEST(more_outputs_than_the_table_has_rows)
{
    enum { MANY = 300 };
    static struct qkv_output o[MANY];
    char made[] = "/tmp/qkv-temporary-XXXXXX", name[32];
    CHECK(mkdtemp(made) && chdir(made) == 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "out%d", i);
        CHECK_EQ(qkv_output_open(&o[i], name, false, NULL), QKV_OK);
    }
    for (int i = 0; i < MANY; i++) CHECK_EQ(qkv_output_commit(&o[i], NULL), QKV_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "out%d", i);
        CHECK_EQ(unlink(name), 0);
    }
    CHECK(chdir("/") == 0 && rmdir(made) == 0); // nothing else is left
}

TEST(paths_that_are_too_long_or_lead_through_a_file)
{
    static char path[2 * QKV_PATH];
    char above[QKV_PATH];
    bool there = true;
    qkv_error err = { 0 };
    memset(path, 'a', sizeof path - 1);
    CHECK(qkv_path_above(above, path) == NULL || above[0]);
    path[QKV_PATH + 5] = '/';
    CHECK(qkv_path_above(above, path) == NULL);
    CHECK(qkv_disk_sync_above(path) != 0 && errno == ENAMETOOLONG);
    CHECK(!qkv_disk_remove_folder(path) && errno == ENAMETOOLONG);
    CHECK(qkv_path_may_exist(path)); // the system does not tell
    CHECK_EQ(qkv_path_find(&there, path, &err), QKV_ERR_IO);
    CHECK_TEXT(qkv_path_above(above, "/x"), "x");
    CHECK_TEXT(above, "/");
    CHECK(!qkv_path_may_exist("/dev/null/x"));
    CHECK_EQ(qkv_path_find(&there, "/dev/null/x", &err), QKV_OK);
    CHECK(!there);
    CHECK(qkv_disk_remove_tree("/dev/null/x") || errno == ENOTDIR);
}

CHECK_MAIN(CASE(names_that_only_resemble_temporary_ones_are_left_alone),
           CASE(a_temporary_name_is_of_its_output_and_of_no_other),
           CASE(more_outputs_than_the_table_has_rows),
           CASE(a_long_name_is_written_and_what_killed_writers_left_of_it_is_removed),
           CASE(paths_that_are_too_long_or_lead_through_a_file),
           CASE(an_output_removes_what_killed_writers_of_its_target_left),
           CASE(a_temporary_file_that_is_being_written_stays))
