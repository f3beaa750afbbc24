// SPDX-License-Identifier: MIT
// test_writer.c: checks the writer of safetensors: written files, refused tensors, no remains after
// errors.
#include "base/faults.h"
#include "file/fixtures.h"
#include <dirent.h>

static const float floats[] = { 1, 2, 3, 4, 5, 6 };
static const struct qkv_tensor tensors[] = {
    { .name = "x", .dtype = QKV_F32, .rank = 2, .shape = { 2, 3 } },
    { .name = "empty", .dtype = QKV_I64, .rank = 1, .shape = { 0 } },
    { .name = "tab\t\"quote\"\\ caf\xc3\xa9", .dtype = QKV_U8, .rank = 0 },
};
static const char *const meta[] = { "format", "pt", "who", "line\nend", NULL };

static int files_in_folder(void)
{
    int n = 0;
    (void)fixture("");
    DIR *d = opendir(fixture_dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static qkv_status write_all(const char *path, bool force, qkv_error *err)
{
    qkv_safetensors_writer *w = NULL;
    qkv_status status = qkv_safetensors_create(&w, path, tensors, 3, meta, force, err);
    if (!status)
        status = qkv_safetensors_append(w, floats, 10, err); // pieces need not end where tensors do
    if (!status) status = qkv_safetensors_append(w, (const char *)floats + 10, 14, err);
    if (!status) status = qkv_safetensors_append(w, NULL, 0, err);
    if (!status) status = qkv_safetensors_append(w, "!", 1, err);
    if (!status) status = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    return status;
}

TEST(a_written_file_is_read_back)
{
    char path[512];
    qkv_error err = { 0 };
    strcpy(path, fixture("w.safetensors"));
    errno = 77;
    if (write_all(path, false, &err) != QKV_OK) fail_msg("%s", err.text);
    CHECK_EQ(errno, 77);
    CHECK_EQ(files_in_folder(), 1);
    qkv_tensors *t = fixture_open(path, false);
    CHECK_EQ(qkv_tensors_count(t), 3);
    CHECK_BITS(qkv_tensors_find(t, "x")->data, floats, sizeof floats);
    CHECK((uintptr_t)qkv_tensors_find(t, "x")->data % 8 == 0); // the header is filled up to 8 bytes
    CHECK_EQ(qkv_tensors_find(t, "empty")->bytes, 0);
    CHECK_EQ(*(const char *)qkv_tensors_find(t, tensors[2].name)->data, '!');
    CHECK_TEXT(qkv_tensors_metadata(t, "format"), "pt");
    CHECK_TEXT(qkv_tensors_metadata(t, "who"), "line\nend");
    qkv_tensors_close(t);
}

TEST(an_empty_set_is_a_file_of_sixteen_bytes)
{
    char path[512];
    strcpy(path, fixture("none.safetensors"));
    qkv_safetensors_writer *w;
    CHECK_EQ(qkv_safetensors_create(&w, path, NULL, 0, NULL, false, NULL), QKV_OK);
    CHECK_EQ(qkv_safetensors_finish(w, NULL), QKV_OK);
    qkv_safetensors_close(w);
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_size, 16);
    qkv_tensors *t = fixture_open(path, false);
    CHECK_EQ(qkv_tensors_count(t), 0);
    qkv_tensors_close(t);
}

TEST(a_file_that_is_there_stays_unless_forced)
{
    char path[512];
    strcpy(path, fixture_file("there.safetensors", "mine", 4));
    qkv_error err = { 0 };
    CHECK_EQ(write_all(path, false, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.file, path);
    CHECK_TEXT(
        err.text,
        "file exists already, expected a new name or permission to replace it, found a file");
    char got[4];
    const int fd = open(path, O_RDONLY);
    CHECK_EQ(read(fd, got, 4), 4);
    close(fd);
    CHECK_BITS(got, "mine", 4);
    CHECK_EQ(write_all(path, true, NULL), QKV_OK);
    qkv_tensors_close(fixture_open(path, false));
}

TEST(an_aborted_writer_leaves_no_file)
{
    const int before = files_in_folder();
    char path[512];
    strcpy(path, fixture("given_up.safetensors"));
    qkv_safetensors_writer *w;
    CHECK_EQ(qkv_safetensors_create(&w, path, tensors, 3, NULL, false, NULL), QKV_OK);
    CHECK_EQ(files_in_folder(), before + 1);
    CHECK_EQ(qkv_safetensors_append(w, floats, 8, NULL), QKV_OK);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_safetensors_finish(w, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "too little data to finish the file, expected 25 bytes, found 8");
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_safetensors_append(w, floats, 24, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "too many bytes to append, expected at most 17 more, found 24");
    CHECK_EQ(qkv_safetensors_append(w, NULL, 1, NULL), QKV_ERR_USAGE);
    qkv_safetensors_close(w);
    CHECK_EQ(files_in_folder(), before);
    qkv_safetensors_close(NULL);
}

TEST(a_finished_writer_takes_nothing_more)
{
    char path[512];
    strcpy(path, fixture("done.safetensors"));
    qkv_safetensors_writer *w;
    CHECK_EQ(qkv_safetensors_create(&w, path, NULL, 0, NULL, false, NULL), QKV_OK);
    CHECK_EQ(qkv_safetensors_finish(w, NULL), QKV_OK);
    CHECK_EQ(qkv_safetensors_finish(w, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_append(w, "x", 1, NULL), QKV_ERR_USAGE);
    qkv_safetensors_close(w);
    CHECK_EQ(access(path, F_OK), 0);
}

TEST(invalid_tensors_are_not_written)
{
    const struct qkv_tensor good = { .name = "a", .dtype = QKV_F32, .rank = 1, .shape = { 1 } };
    char long_name[5000];
    memset(long_name, 'x', sizeof long_name);
    long_name[4999] = 0;
    struct qkv_tensor bad[10][2];
    for (int i = 0; i < 10; i++) bad[i][0] = bad[i][1] = good;
    for (int i = 0; i < 9; i++) bad[i][1].name = "b";
    bad[0][1].name = NULL;
    bad[1][1].name = "__metadata__";
    bad[2][1].name = long_name;
    bad[3][1].name = "\xff";
    bad[4][1].dtype = QKV_DTYPE_COUNT;
    bad[5][1].rank = 9;
    bad[6][1].rank = -1;
    bad[7][1].shape[0] = -1;
    bad[8][1].shape[0] = INT64_MAX;
    // bad[9]: "a" twice
    const int before = files_in_folder();
    char path[512];
    strcpy(path, fixture("refused.safetensors"));
    for (int i = 0; i < 10; i++) {
        qkv_safetensors_writer *w = (void *)1;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_safetensors_create(&w, path, bad[i], 2, NULL, false, &err), QKV_ERR_USAGE);
        CHECK(w == NULL);
        CHECK(strstr(err.text, ", expected ") && strstr(err.text, ", found "));
    }
    qkv_safetensors_writer *w;
    static const char *const twice[] = { "a", "1", "a", "2", NULL }, *const half[] = { "a", NULL },
                             *const bytes[] = { "a", "\xff", NULL };
    CHECK_EQ(qkv_safetensors_create(&w, path, &good, 1, twice, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(&w, path, &good, 1, half, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(&w, path, &good, 1, bytes, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(&w, path, &good, -1, NULL, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(&w, path, NULL, 1, NULL, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(&w, path, &good, 1000001, NULL, false, NULL), QKV_ERR_LIMIT);
    CHECK_EQ(qkv_safetensors_create(&w, NULL, &good, 1, NULL, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_safetensors_create(NULL, path, &good, 1, NULL, false, NULL), QKV_ERR_USAGE);
    CHECK_EQ(files_in_folder(), before);
}

TEST(an_output_that_cannot_be_written_is_an_io_error)
{
    qkv_error err = { 0 };
    CHECK_EQ(write_all(fixture("no/such/folder.safetensors"), false, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot create: No such file or directory");
    memset(&err, 0, sizeof err);
    CHECK_EQ(write_all("/dev/full", true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot write: No space left on device");
    struct stat st;
    CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK_EQ(write_all("/dev/null", false, NULL), QKV_OK);
}

TEST(a_writer_with_an_error_takes_nothing_more)
{
    enum { MANY = 2000, BYTES = 70000 };
    static struct qkv_tensor many[MANY];
    static char names[MANY][64], data[BYTES];
    const struct qkv_tensor one = { .name = "x", .dtype = QKV_U8, .rank = 1, .shape = { BYTES } };
    qkv_safetensors_writer *w = NULL;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_safetensors_create(&w, "/dev/full", &one, 1, NULL, true, &err), QKV_OK);
    CHECK_EQ(qkv_safetensors_append(w, data, BYTES, &err), QKV_ERR_IO);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_safetensors_append(w, data, 0, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "qkv_safetensors_append: expected an open writer, found a writer with an "
                         "earlier error");
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_safetensors_finish(w, &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "qkv_safetensors_finish: expected an open writer"));
    qkv_safetensors_close(w);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_safetensors_append(NULL, data, 1, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "qkv_safetensors_append: expected an open writer, found NULL");
    CHECK_EQ(qkv_safetensors_finish(NULL, NULL), QKV_ERR_USAGE);
    for (int i = 0; i < MANY; i++) { // a header that is written at once
        snprintf(names[i], sizeof names[i], "a tensor with a long name %d", i);
        many[i] = (struct qkv_tensor){ .name = names[i], .dtype = QKV_F32 };
    }
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_safetensors_create(&w, "/dev/full", many, MANY, NULL, true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot write: No space left on device");
    CHECK(!w);
}

static qkv_status write_forced(void *ctx, qkv_error *err)
{
    return write_all(ctx, true, err);
}

TEST(every_failed_allocation_is_survived)
{
    char path[512];
    strcpy(path, fixture("faults.safetensors"));
    CHECK_EQ(write_all(path, true, NULL), QKV_OK);
    const int before = files_in_folder();
    CHECK(faults_walk(write_forced, path, true) >= 8);
    CHECK_EQ(files_in_folder(), before);
    qkv_tensors_close(fixture_open(path, false));
}

CHECK_MAIN(CASE(a_written_file_is_read_back), CASE(an_empty_set_is_a_file_of_sixteen_bytes),
           CASE(a_file_that_is_there_stays_unless_forced), CASE(an_aborted_writer_leaves_no_file),
           CASE(a_finished_writer_takes_nothing_more), CASE(invalid_tensors_are_not_written),
           CASE(an_output_that_cannot_be_written_is_an_io_error),
           CASE(a_writer_with_an_error_takes_nothing_more),
           CASE(every_failed_allocation_is_survived))
