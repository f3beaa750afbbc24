// SPDX-License-Identifier: MIT
// test_queries.c: checks what the functions on tensors and arrays answer for NULL, for names and
// indices that are not there, and for arrays that no file can hold.
#include "file/file.h"
#include "fixtures.h"

static const char two[] = "{\"__metadata__\":{\"b\":\"2\",\"a\":\"1\",\"c\":\"3\"},"
                          "\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}";

TEST(what_is_not_there_is_null)
{
    static const char *const absent[] = { "", "xx", "z", "w", "a" };
    qkv_tensors *t = NULL;
    qkv_error err = { 0 };
    const char *path = fixture_safetensors("two.safetensors", two, strlen(two), 6);
    CHECK_EQ(qkv_tensors_open(&t, path, NULL, &err), QKV_OK);
    CHECK_EQ(qkv_tensors_count(t), 2);
    CHECK(!qkv_tensors_at(t, -1) && qkv_tensors_at(t, 0) && qkv_tensors_at(t, 1) &&
          !qkv_tensors_at(t, 2));
    CHECK_EQ(qkv_tensors_find(t, "x")->bytes, 2);
    CHECK_EQ(qkv_tensors_find(t, "y")->bytes, 4);
    EACH(name, absent) CHECK(!qkv_tensors_find(t, *name));
    CHECK(!qkv_tensors_find(t, NULL));
    CHECK_TEXT(qkv_tensors_metadata(t, "a"), "1");
    CHECK_TEXT(qkv_tensors_metadata(t, "b"), "2");
    CHECK_TEXT(qkv_tensors_metadata(t, "c"), "3");
    CHECK(!qkv_tensors_metadata(t, "") && !qkv_tensors_metadata(t, "d") &&
          !qkv_tensors_metadata(t, "aa") && !qkv_tensors_metadata(t, NULL));
    CHECK_EQ(qkv_tensors_convert(t, &err), QKV_OK); // nothing to convert
    qkv_tensors_close(t);
}

TEST(null_tensors_are_empty_or_refused)
{
    qkv_tensors *t = (qkv_tensors *)1;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tensors_count(NULL), 0);
    CHECK(!qkv_tensors_at(NULL, 0) && !qkv_tensors_find(NULL, "x") &&
          !qkv_tensors_metadata(NULL, "a"));
    qkv_tensors_close(NULL);
    CHECK_EQ(qkv_tensors_open(&t, NULL, NULL, &err), QKV_ERR_USAGE);
    CHECK(!t);
    CHECK_TEXT(err.text,
               "qkv_tensors_open: expected pointers for the tensors and the path, found NULL");
    CHECK_EQ(qkv_tensors_open(NULL, "x", NULL, NULL), QKV_ERR_USAGE);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_tensors_convert(NULL, &err), QKV_ERR_USAGE);
    CHECK_TEXT(err.text, "qkv_tensors_convert: expected tensors, found NULL");
}

TEST(an_array_that_no_npy_file_holds_is_not_written)
{
    static const float x[2] = { 1, 2 };
    const struct qkv_tensor good = { .dtype = QKV_F32, .rank = 1, .shape = { 2 }, .data = x };
    struct qkv_tensor bad[6];
    const qkv_status want[6] = { QKV_ERR_USAGE, QKV_ERR_USAGE, QKV_ERR_USAGE,
                                 QKV_ERR_USAGE, QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED };
    char path[512];
    struct stat st;
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].dtype = QKV_DTYPE_COUNT;
    bad[1].rank = -1;
    bad[2].rank = QKV_RANK_MAX + 1;
    bad[3].shape[0] = INT64_MAX;
    bad[4].data = NULL;
    bad[5].dtype = QKV_BF16; // NumPy has no such type
    strcpy(path, fixture("refused.npy"));
    for (int i = 0; i < 6; i++) {
        qkv_error err = { 0 };
        CHECK_EQ(qkv_npy_write(path, &bad[i], true, &err), want[i]);
        CHECK(strstr(err.text, ", expected ") && strstr(err.text, ", found "));
    }
    CHECK_EQ(qkv_npy_write(NULL, &good, true, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_npy_write(path, NULL, true, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_npy_write(fixture("none/x.npy"), &good, true, NULL), QKV_ERR_IO);
    CHECK(stat(path, &st) != 0);
    enum { MANY = 1 << 17 };
    static const uint8_t zeros[MANY];
    const struct qkv_tensor large = {
        .dtype = QKV_U8, .rank = 1, .shape = { MANY }, .data = zeros
    };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_npy_write("/dev/full", &large, true, &err), QKV_ERR_IO);
    CHECK_TEXT(err.text, "cannot write: No space left on device");
    CHECK_EQ(qkv_npy_write(path, &good, true, NULL), QKV_OK);
    CHECK(stat(path, &st) == 0 && st.st_size % 64 == 8);
}

CHECK_MAIN(CASE(what_is_not_there_is_null), CASE(null_tensors_are_empty_or_refused),
           CASE(an_array_that_no_npy_file_holds_is_not_written))
