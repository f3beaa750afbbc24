// SPDX-License-Identifier: MIT
// test_folder.c: checks that a folder is written completely or not at all: whichever system call
// fails, the old folder exists or the new one.
#include "base/base_internal.h"
#include "file/file.h"
#include "fixtures.h"
#include <dirent.h>
#include <sys/file.h>
#include <sys/wait.h>

struct stop {
    int left;
    bool exchange; // whether the file system can exchange names
};
static int stop_at(void *ctx, struct qkv_disk_call *call)
{
    struct stop *s = ctx;
    if (--s->left == 0) return ENOSPC;
    return !s->exchange && strcmp(call->name, "exchange") == 0 ? EINVAL : 0;
}

static bool everything(const void *user, const char *path, int64_t bytes)
{
    (void)user;
    (void)bytes;
    return strcmp(path, "left") != 0 && strcmp(path, "in/left") != 0;
}

static int64_t links; // links that the last write_folder() did not copy

static qkv_status write_folder(const char *path, const char *from, bool force, qkv_error *err)
{
    struct qkv_folder f;
    int64_t left_out = 0;
    links = 0;
    qkv_status status = qkv_folder_begin(&f, path, force, err);
    if (!status) status = qkv_folder_copy(&f, from, everything, NULL, 1, &left_out, &links, err);
    if (!status) CHECK_EQ(left_out, 1);
    if (!status) status = qkv_folder_commit(&f, err);
    qkv_folder_abort(&f, NULL);
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
    int n = 1, exchange = 0;
    for (;; n++) {
        struct stop s = { n, exchange };
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
            CHECK_EQ(beginning("to."), 0);
        }
        fixture_clean();
        mkdir(fixture_dir, 0700);
        if (s.left <= 0) continue;
        CHECK(n > 10); // fewer calls than n
        if (exchange++) break;
        n = 0;
    }
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

TEST(links_out_of_the_folder_are_not_copied)
{
    struct stat st;
    qkv_error err = { 0 };
    fresh();
    fixture_file("secret", "key", 3);
    mkdir(fixture("keys"), 0755);
    fixture_file("keys/private", "key", 3);
    CHECK_EQ(symlink(fixture("secret"), fixture("from/notes.txt")), 0);
    CHECK_EQ(symlink(fixture("keys"), fixture("from/assets")), 0);
    CHECK_EQ(symlink(".", fixture("from/self")), 0);
    CHECK_EQ(symlink("..", fixture("from/above")), 0);
    CHECK_EQ(symlink("nowhere", fixture("from/dangling")), 0);
    CHECK_EQ(symlink("../from-not/x", fixture("from/sub/aside")), 0);
    CHECK_EQ(symlink("sub/x", fixture("from/inside")), 0); // the only one that is copied
    mkdir(fixture("from-not"), 0755);
    fixture_file("from-not/x", "z", 1);
    CHECK_EQ(write_folder(to, from, true, &err), QKV_OK);
    CHECK_EQ(links, 6);
    CHECK(lstat(fixture("to/inside"), &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 1);
    static const char *const names[] = { "to/notes.txt", "to/assets",   "to/self",
                                         "to/above",     "to/dangling", "to/sub/aside" };
    EACH(name, names)
    CHECK(lstat(fixture(*name), &st) != 0);
}

TEST(a_snapshot_of_a_model_cache_is_copied_with_its_blobs)
{
    struct stat st;
    qkv_error err = { 0 };
    fresh();
    mkdir(fixture("cache"), 0755);
    mkdir(fixture("cache/blobs"), 0755);
    mkdir(fixture("cache/snapshots"), 0755);
    mkdir(fixture("cache/snapshots/1a"), 0755);
    fixture_file("cache/blobs/b1", "{}", 2);
    fixture_file("secret", "key", 3);
    CHECK_EQ(symlink(fixture("secret"), fixture("cache/blobs/b2")), 0);
    CHECK_EQ(symlink("../../blobs/b1", fixture("cache/snapshots/1a/config.json")), 0);
    CHECK_EQ(symlink("../../blobs/b2", fixture("cache/snapshots/1a/other.json")), 0);
    fixture_file("cache/snapshots/1a/left", "y", 1);
    CHECK_EQ(write_folder(to, fixture("cache/snapshots/1a"), true, &err), QKV_OK);
    CHECK_EQ(links, 1);
    CHECK(stat(config, &st) == 0 && st.st_size == 2);
    CHECK(lstat(fixture("to/other.json"), &st) != 0);
}

// A signal before call number `left`, whose handler removes the temporary folders; or a kill, which
// removes nothing.  exchange: whether the file system can exchange names.
struct death {
    int left;
    bool kill, exchange;
};
static int die_at(void *ctx, struct qkv_disk_call *call)
{
    struct death *d = ctx;
    if (--d->left == 0) {
        qkv_disk_hook(NULL, NULL);
        if (!d->kill) qkv_temporaries_remove();
        _exit(9);
    }
    return !d->exchange && strcmp(call->name, "exchange") == 0 ? EINVAL : 0;
}
// Writes the folder in a child process that may die; returns whether it died.
static bool write_and_die(struct death d)
{
    const pid_t child = fork();
    if (child == 0) {
        qkv_error err = { 0 };
        qkv_disk_hook(die_at, &d);
        _exit(write_folder(to, from, true, &err) == QKV_OK ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 9;
}

TEST(a_signal_leaves_no_temporary_folder_and_one_model)
{
    for (int exchange = 0; exchange < 2; exchange++)
        for (int n = 1, died = true; died; n++) {
            struct stat st;
            fresh();
            died = write_and_die((struct death){ .left = n, .exchange = exchange });
            // without exchange, for an instant nothing has the name, and the old folder is aside
            const bool there = stat(config, &st) == 0;
            CHECK(there || !exchange);
            if (there) CHECK(st.st_size == 2 || st.st_size == 9);
            CHECK_EQ(beginning("to.tmp."), 0);
            if (exchange) CHECK_EQ(beginning("to"), 1);
            fixture_clean();
            mkdir(fixture_dir, 0700);
        }
}

// Gives the old folder a name of 255 bytes, the limit of most file systems.
static void rename_to_long(void)
{
    char name[256] = "";
    memset(name, 'o', 255);
    name[0] = 't';
    const char *path = fixture(name);
    CHECK_EQ(rename(to, path), 0);
    snprintf(to, sizeof to, "%s", path);
    snprintf(config, sizeof config, "%s/config.json", to);
}

TEST(after_a_kill_the_next_run_finds_a_model_and_removes_the_rest)
{
    int aside = 0;
    for (int form = 0; form < 4; form++)
        for (int n = 1, died = true; died; n++) {
            struct stat st;
            qkv_error err = { 0 };
            const bool exchange = form % 2;
            fresh();
            if (form > 1) rename_to_long();
            died = write_and_die((struct death){ .left = n, .kill = true, .exchange = exchange });
            const bool there = stat(config, &st) == 0;
            CHECK(there || !exchange);
            aside += !there;
            // not forced: refused, since the model is there, also the one that was aside
            CHECK_EQ(write_folder(to, from, false, &err), QKV_ERR_USAGE);
            CHECK(stat(config, &st) == 0 && (st.st_size == 2 || st.st_size == 9));
            CHECK_EQ(beginning("to"), 1);
            memset(&err, 0, sizeof err);
            CHECK_EQ(write_folder(to, from, true, &err), QKV_OK);
            CHECK(stat(config, &st) == 0 && st.st_size == 9);
            CHECK_EQ(beginning("to"), 1);
            fixture_clean();
            mkdir(fixture_dir, 0700);
        }
    CHECK_EQ(aside, 2); // the kill between the two renames, with a short and a long name
}

TEST(folders_that_are_written_or_belong_to_others_are_left_alone)
{
    qkv_error err = { 0 };
    struct qkv_folder f;
    struct stat st;
    fresh();
    static const char *const names[] = { "to.tmp.12", "to.tmp.12.x", "to.tmp.12.3.4", "to.old.1",
                                         "to2.tmp.1.2" };
    EACH(name, names)
    mkdir(fixture(*name), 0755);
    fixture_file("to.tmp.1.2.txt", "a file", 6);
    CHECK_EQ(qkv_folder_begin(&f, to, true, &err), QKV_OK); // another writer, which lives
    CHECK_EQ(write_folder(to, from, true, &err), QKV_OK);
    CHECK(stat(f.dir, &st) == 0);
    qkv_folder_abort(&f, NULL);
    CHECK(stat(f.dir, &st) != 0);
    EACH(name, names)
    CHECK(stat(fixture(*name), &st) == 0);
    CHECK(stat(fixture("to.tmp.1.2.txt"), &st) == 0);
}

TEST(a_folder_that_appears_during_the_writing_is_replaced_if_forced)
{
    fresh();
    for (int force = 0; force < 2; force++) {
        struct qkv_folder f;
        struct stat st;
        qkv_error err = { 0 };
        int64_t left_out = 0;
        char name[512], file[600];
        snprintf(name, sizeof name, "%s", fixture(force ? "forced" : "plain"));
        snprintf(file, sizeof file, "%s/config.json", name);
        CHECK_EQ(qkv_folder_begin(&f, name, force, &err), QKV_OK);
        CHECK_EQ(qkv_folder_copy(&f, from, everything, NULL, 1, &left_out, &links, &err), QKV_OK);
        CHECK_EQ(write_folder(name, from, true, &err), QKV_OK); // another process
        CHECK_EQ(qkv_folder_commit(&f, &err), force ? QKV_OK : QKV_ERR_IO);
        qkv_folder_abort(&f, NULL);
        CHECK(stat(file, &st) == 0 && st.st_size > 0);
        CHECK_EQ(beginning(force ? "forced." : "plain."), 0); // no folder is left
    }
}

static void empty(void)
{
    fixture_clean();
    mkdir(fixture_dir, 0700);
}

TEST(names_that_no_folder_can_have_are_refused)
{
    static char name[5000];
    char slashes[600];
    struct qkv_folder f;
    qkv_error err = { 0 };
    struct stat st;
    empty();
    fresh();
    memset(name, 'x', sizeof name - 1);
    CHECK_EQ(qkv_folder_begin(&f, name, true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot make: File name too long");
    CHECK_EQ(qkv_folder_begin(&f, "", true, NULL), QKV_ERR_IO);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_folder_begin(&f, config, true, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "output exists already, expected the name of a new folder, found a file");
    CHECK_EQ(qkv_folder_begin(&f, fixture("none/below"), true, NULL), QKV_ERR_IO);
    snprintf(slashes, sizeof slashes, "%s///", to);
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_folder(slashes, from, true, &err), QKV_OK); // as without slashes
    CHECK(stat(config, &st) == 0 && st.st_size == 9);
    CHECK_EQ(beginning("to"), 1);
}

TEST(a_file_of_a_folder_is_inside_of_it)
{
    qkv_error err = { 0 };
    empty();
    fresh();
    fixture_file("secret", "key", 3);
    CHECK_EQ(symlink(fixture("secret"), fixture("from/out")), 0);
    CHECK_EQ(symlink("config.json", fixture("from/in")), 0);
    CHECK_EQ(qkv_folder_has(from, fixture("from/config.json"), &err), QKV_OK);
    CHECK_EQ(qkv_folder_has(from, fixture("from/in"), &err), QKV_OK);
    CHECK_EQ(qkv_folder_has(from, fixture("from/none"), &err), QKV_OK); // it shows nothing
    CHECK_EQ(qkv_folder_has(from, fixture("from/out"), &err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "link leads out of the folder, expected a file inside of "));
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_folder_has(fixture("none"), fixture("from/in"), &err), QKV_ERR_IO);
    CHECK(qkv_path_is_inside("/a/b", "/a") && qkv_path_is_inside("/a/b", "/a/") &&
          qkv_path_is_inside("/a", "/"));
    CHECK(!qkv_path_is_inside("/ab", "/a") && !qkv_path_is_inside("/a", "/a") &&
          !qkv_path_is_inside("/b/a", "/a") && !qkv_path_is_inside("/a", ""));
}

TEST(weights_are_inside_and_their_missing_files_are_counted)
{
    static const char one[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                      two[] = "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                      list[] = "{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"b.safetensors\"}}";
    struct qkv_folder f = { .slot = -1 };
    qkv_tensors *alone = NULL, *shards = NULL, *outside = NULL;
    qkv_error err = { 0 };
    empty();
    fresh();
    mkdir(fixture("parts"), 0755);
    fixture_safetensors("from/model.safetensors", one, strlen(one), 4);
    fixture_safetensors("parts/a.safetensors", one, strlen(one), 4);
    fixture_safetensors("parts/b.safetensors", two, strlen(two), 4);
    fixture_file("parts/model.safetensors.index.json", list, strlen(list));
    CHECK_EQ(qkv_tensors_open(&alone, from, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tensors_open(&shards, fixture("parts"), NULL, &err), QKV_OK);
    CHECK_EQ(qkv_folder_has_weights(from, alone, &err), QKV_OK);
    CHECK_EQ(qkv_folder_has_weights(fixture("parts"), shards, &err), QKV_OK);
    CHECK_EQ(qkv_folder_has_weights(fixture("parts"), alone, &err), QKV_ERR_FORMAT);
    snprintf(f.dir, sizeof f.dir, "%s", to);
    CHECK_EQ(qkv_folder_weights_gone(&f, alone), 1);
    CHECK_EQ(qkv_folder_weights_gone(&f, shards), 3); // two files and their index
    fixture_file("to/model.safetensors", "", 0);
    fixture_file("to/b.safetensors", "", 0);
    CHECK_EQ(qkv_folder_weights_gone(&f, alone), 0);
    CHECK_EQ(qkv_folder_weights_gone(&f, shards), 2);
    fixture_file("to/model.qkv-int8.safetensors.index.json", "", 0);
    CHECK_EQ(qkv_folder_weights_gone(&f, shards), 1);
    unlink(fixture("from/model.safetensors"));
    CHECK_EQ(symlink("../parts/a.safetensors", fixture("from/model.safetensors")), 0);
    CHECK_EQ(qkv_tensors_open(&outside, from, NULL, NULL), QKV_OK);
    CHECK_EQ(qkv_folder_has_weights(from, outside, NULL), QKV_ERR_FORMAT);
    qkv_tensors_close(alone);
    qkv_tensors_close(shards);
    qkv_tensors_close(outside);
}

CHECK_MAIN(CASE(wanted_files_are_copied_and_the_old_folder_is_replaced),
           CASE(a_failed_call_leaves_the_old_folder_or_the_new_one),
           CASE(a_folder_that_is_no_model_s_stays), CASE(links_out_of_the_folder_are_not_copied),
           CASE(a_snapshot_of_a_model_cache_is_copied_with_its_blobs),
           CASE(a_signal_leaves_no_temporary_folder_and_one_model),
           CASE(after_a_kill_the_next_run_finds_a_model_and_removes_the_rest),
           CASE(folders_that_are_written_or_belong_to_others_are_left_alone),
           CASE(a_folder_that_appears_during_the_writing_is_replaced_if_forced),
           CASE(names_that_no_folder_can_have_are_refused),
           CASE(a_file_of_a_folder_is_inside_of_it),
           CASE(weights_are_inside_and_their_missing_files_are_counted))
