// SPDX-License-Identifier: MIT
// test_npy.c: reads and writes .npy: every dtype and byte order, each error, files equal to
// the output of NumPy.
#include "base/faults.h"
#include "file/fixtures.h"

// A .npy of this version and header, followed by `data` bytes.
static const char *npy(int version, const char *header, const void *data, size_t bytes)
{
    uint8_t file[4096];
    const size_t n = strlen(header);
    size_t at = 8;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[7] = 0;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++) file[at++] = (uint8_t)(n >> 8 * i);
    memcpy(file + at, header, n);
    memcpy(file + at + n, data, bytes);
    return fixture_file("x.npy", file, at + n + bytes);
}
static void refused(const char *header, size_t data, qkv_status status, int64_t at,
                    const char *text)
{
    fixture_refused(npy(1, header, "0123456789abcdefghijklmnopqrstuvwxyz", data), status, at, "",
                    text);
}
#define HEADER(descr, fortran, shape)                                                              \
    "{'descr': " descr ", 'fortran_order': " fortran ", 'shape': " shape ", }\n"

static void check_floats(const char *path, int rank, const int64_t *shape, const float *want,
                         int64_t n)
{
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        qkv_tensors *t = fixture_open(path, no_mmap);
        float got[64];
        CHECK_EQ(qkv_tensors_count(t), 1);
        const struct qkv_tensor *x = qkv_tensors_find(t, "");
        CHECK_EQ(x->rank, rank);
        for (int i = 0; i < rank; i++) CHECK_EQ(x->shape[i], shape[i]);
        CHECK_EQ(qkv_tensor_count(x), n);
        qkv_tensor_to_f32(got, x);
        CHECK_BITS(got, want, (size_t)n * sizeof *want);
        qkv_tensors_close(t);
    }
}

static const float six[] = { 1, 2, 3, 4, 5, 6 };
static const int64_t two_three[] = { 2, 3 };

TEST(each_version_is_read)
{
    for (int version = 1; version <= 3; version++)
        check_floats(npy(version, HEADER("'<f4'", "False", "(2, 3)"), six, sizeof six), 2,
                     two_three, six, 6);
    check_floats(
        npy(1, "{\"shape\":(2,3),\"descr\":\"=f4\",\"fortran_order\":False}", six, sizeof six), 2,
        two_three, six, 6);
    check_floats(npy(1, HEADER("'<f4'", "False", "(2L, 3L)"), six, sizeof six), 2, two_three, six,
                 6);
    check_floats(npy(1, HEADER("'<f4'", "False", "()"), six, 4), 0, NULL, six, 1);
    check_floats(npy(1, HEADER("'<f4'", "False", "(6,)"), six, 24), 1, (const int64_t[]){ 6 }, six,
                 6);
    check_floats(npy(1, HEADER("'<f4'", "False", "(0, 3)"), six, 0), 2, (const int64_t[]){ 0, 3 },
                 six, 0);
    check_floats(npy(1, HEADER("'<f4'", "True", "(3, 0)"), six, 0), 2, (const int64_t[]){ 3, 0 },
                 six, 0);
}

TEST(every_dtype_is_read_in_both_byte_orders) // N10
{
    static const double d[] = { 1, -2, 0.5 };
    static const int64_t l[] = { 1, -2, 3 };
    static const int32_t i4[] = { 1, -2, 3 };
    static const int16_t i2[] = { 1, -2, 3 };
    static const int8_t i1[] = { 1, -2, 3 };
    static const uint16_t h[] = { 0x3c00, 0xc000, 0x3800 };
    static const uint8_t b[] = { 1, 0, 1 };
    static const struct {
        const char *code;
        const void *data;
        size_t size;
        float want[3];
    } types[] = {
        { "f8", d, 8, { 1, -2, 0.5f } },
        { "f2", h, 2, { 1, -2, 0.5f } },
        { "f4", six, 4, { 1, 2, 3 } },
        { "i8", l, 8, { 1, -2, 3 } },
        { "i4", i4, 4, { 1, -2, 3 } },
        { "i2", i2, 2, { 1, -2, 3 } },
        { "i1", i1, 1, { 1, -2, 3 } },
        { "u8", l, 8, { 1, 18446744073709551614.0f, 3 } },
        { "u4", i4, 4, { 1, 4294967294.0f, 3 } },
        { "u2", i2, 2, { 1, 65534, 3 } },
        { "u1", i1, 1, { 1, 254, 3 } },
        { "b1", b, 1, { 1, 0, 1 } },
    };
    EACH(t, types) EACH(order, "<>|=")
    {
        if (!*order) continue;
        char header[200];
        uint8_t data[24];
        for (size_t i = 0; i < 3; i++)
            for (size_t k = 0; k < t->size; k++)
                data[i * t->size + k] =
                    ((const uint8_t *)t->data)[i * t->size + (*order == '>' ? t->size - 1 - k : k)];
        snprintf(header, sizeof header,
                 "{'descr': '%c%s', 'fortran_order': False, 'shape': (3,), }", *order, t->code);
        check_floats(npy(1, header, data, 3 * t->size), 1, (const int64_t[]){ 3 }, t->want, 3);
    }
}

TEST(fortran_order_comes_out_in_rows) // N9
{
    static const float columns[] = { 1, 4, 2, 5, 3, 6 };
    check_floats(npy(1, HEADER("'<f4'", "True", "(2, 3)"), columns, sizeof columns), 2, two_three,
                 six, 6);
    check_floats(npy(1, HEADER("'<f4'", "True", "(6,)"), six, sizeof six), 1,
                 (const int64_t[]){ 6 }, six, 6);
    float deep[24], want[24]; // shape (2, 3, 4): element i, j, k is at i + 2 j + 6 k
    uint8_t swapped[96];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++)
                want[(i * 3 + j) * 4 + k] = deep[i + 2 * j + 6 * k] = (float)(i * 100 + j * 10 + k);
    check_floats(npy(1, HEADER("'<f4'", "True", "(2, 3, 4)"), deep, sizeof deep), 3,
                 (const int64_t[]){ 2, 3, 4 }, want, 24);
    for (size_t i = 0; i < 96; i++) swapped[i] = ((const uint8_t *)deep)[i / 4 * 4 + 3 - i % 4];
    check_floats(npy(1, HEADER("'>f4'", "True", "(2, 3, 4)"), swapped, 96), 3,
                 (const int64_t[]){ 2, 3, 4 }, want, 24);
}

// A sparse file of 64 MB: the shape is read without its data.
TEST(shapes_alone_take_no_copy_of_the_array)
{
    static const char *const headers[] = { HEADER("'<f4'", "True", "(4096, 4096)"),
                                           HEADER("'>f4'", "False", "(4096, 4096)"),
                                           HEADER("'<f4'", "False", "(4096, 4096)") };
    const struct qkv_tensors_options how = { .shapes_only = true };
    for (int i = 0; i < 3; i++) {
        const char *path = npy(1, headers[i], "", 0);
        struct stat st;
        qkv_tensors *t = NULL;
        CHECK_EQ(stat(path, &st), 0);
        CHECK_EQ(truncate(path, st.st_size + ((off_t)64 << 20)), 0);
        faults_begin(0, false);
        CHECK_EQ(qkv_tensors_open(&t, path, &how, NULL), QKV_OK);
        CHECK(atomic_load(&faults_peak) < 65536);
        const struct qkv_tensor *x = qkv_tensors_at(t, 0);
        CHECK_EQ(x->shape[0] * x->shape[1], 1 << 24);
        CHECK_EQ(x->data != NULL, i == 2); // only data that is used in place
        qkv_tensors_close(t);
        CHECK_EQ(faults_end(NULL), 0);
    }
}

TEST(an_array_left_out_is_converted_later)
{
    static const float columns[] = { 1, 4, 2, 5, 3, 6 };
    const struct qkv_tensors_options how = { .shapes_only = true };
    qkv_tensors *t = NULL;
    const char *path = npy(1, HEADER("'<f4'", "True", "(2, 3)"), columns, sizeof columns);
    CHECK_EQ(qkv_tensors_open(&t, path, &how, NULL), QKV_OK);
    CHECK(!qkv_tensors_at(t, 0)->data);
    CHECK_EQ(qkv_tensors_convert(t, NULL), QKV_OK);
    CHECK_BITS(qkv_tensors_at(t, 0)->data, six, sizeof columns);
    CHECK_EQ(qkv_tensors_convert(t, NULL), QKV_OK); // nothing is left
    CHECK_BITS(qkv_tensors_at(t, 0)->data, six, sizeof columns);
    qkv_tensors_close(t);
}

TEST(a_start_that_is_none_is_refused) // N1 N2 N3 N4
{
    fixture_refused(fixture_file("n1.npy", "", 0), QKV_ERR_FORMAT, 0, "",
                    "file too short, expected 8 bytes of magic and version, found 0");
    fixture_refused(fixture_file("n2.npy", "\x93NUMPY", 6), QKV_ERR_FORMAT, 0, "",
                    "file too short, expected 8 bytes of magic and version, found 6");
    fixture_refused(fixture_file("n3.npy", "\x93NUMPX\1\0\2\0{}", 12), QKV_ERR_FORMAT, 0, "",
                    "file is not a .npy file, expected \\x93NUMPY at its start, found other bytes");
    fixture_refused(fixture_file("n4.npy", "\x93NUMPY\11\0\2\0{}", 12), QKV_ERR_FORMAT, 6, "",
                    "unsupported version of .npy, expected 1.0, 2.0 or 3.0, found 9.0");
    fixture_refused(fixture_file("n4.npy", "\x93NUMPY\1\1\2\0{}", 12), QKV_ERR_FORMAT, 6, "",
                    "unsupported version of .npy, expected 1.0, 2.0 or 3.0, found 1.1");
    fixture_refused(fixture_file("n4.npy", "\x93NUMPY\0\0\2\0{}", 12), QKV_ERR_FORMAT, 6, "",
                    "unsupported version of .npy, expected 1.0, 2.0 or 3.0, found 0.0");
}

TEST(a_header_larger_than_its_file_takes_no_memory) // N5
{
    faults_begin(0, false);
    fixture_refused(fixture_file("n5.npy", "\x93NUMPY\1\0\xff\xff{}", 12), QKV_ERR_FORMAT, 8, "",
                    "invalid size of the header, expected 1..2 bytes, found 65535");
    fixture_refused(fixture_file("n5.npy", "\x93NUMPY\2\0\xff\xff\xff\xff{}", 14), QKV_ERR_FORMAT,
                    8, "", "invalid size of the header, expected 1..2 bytes, found 4294967295");
    fixture_refused(fixture_file("n5.npy", "\x93NUMPY\1\0\0\0{}", 12), QKV_ERR_FORMAT, 8, "",
                    "invalid size of the header, expected 1..2 bytes, found 0");
    fixture_refused(fixture_file("n5.npy", "\x93NUMPY\2\0\1", 9), QKV_ERR_FORMAT, 8, "",
                    "file too short, expected 4 bytes of header size, found 1");
    CHECK(atomic_load(&faults_peak) < 65536);
    CHECK_EQ(faults_end(NULL), 0);
    const char *path = fixture_file("n5.npy", "\x93NUMPY\2\0\1\0\x10\0{}", 14);
    CHECK_EQ(truncate(path, 1 << 21), 0);
    fixture_refused(path, QKV_ERR_LIMIT, 8, "",
                    "header too large, expected at most 1048576 bytes, found 1048577");
}

TEST(a_header_is_a_dict_of_three_keys_and_never_evaluated) // N6 N7
{
    static const struct {
        const char *header;
        int64_t at;
        const char *text;
    } bad[] = {
        { "[1, 2]", 10, "malformed header, expected '{' of a dict, found '['" },
        { "{}", 10,
          "missing key of the header, expected descr, fortran_order and shape, found no descr" },
        { "{'descr': '<f4', 'shape': (6,)}", 10,
          "missing key of the header, expected descr, fortran_order and shape, found no "
          "fortran_order" },
        { "{'descr': '<f4', 'fortran_order': False}", 10,
          "missing key of the header, expected descr, fortran_order and shape, found no shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", 66,
          "unknown key in the header, expected descr, fortran_order and shape, each once, found "
          "\"x\"" },
        { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 27,
          "unknown key in the header, expected descr, fortran_order and shape, each once, found "
          "\"descr\"" },
        { HEADER("'<f4'", "False", "6"), 60,
          "malformed shape, expected '(' of a tuple, found '6'" },
        { HEADER("'<f4'", "False", "(6)"), 62, "malformed shape, expected ',', found ')'" },
        { HEADER("'<f4'", "False", "(6 6)"), 63, "malformed shape, expected ',', found '6'" },
        { HEADER("'<f4'", "False", "(-6,)"), 61,
          "malformed shape, expected a whole number >= 0, found '-'" },
        { HEADER("'<f4'", "False", "(2.0,)"), 62, "malformed shape, expected ',', found '.'" },
        { HEADER("'<f4'", "False", "('6',)"), 61,
          "malformed shape, expected a whole number >= 0, found '''" },
        { HEADER("'<f4'", "False", "[6]"), 60,
          "malformed shape, expected '(' of a tuple, found '['" },
        { HEADER("'<f4'", "0", "(6,)"), 44,
          "malformed fortran_order, expected True or False, found '0'" },
        { HEADER("3", "False", "(6,)"), 20,
          "malformed dtype, expected a text in quotes, found '3'" },
        { HEADER("'<f4'", "False", "(6,)") "x", 68,
          "malformed header, expected white space after the dict, found 'x'" },
        { "{'descr': __import__('os').system('id'), 'fortran_order': False, 'shape': (6,)}", 20,
          "malformed dtype, expected a text in quotes, found '_'" },
        { "__import__('os')", 10, "malformed header, expected '{' of a dict, found '_'" },
        { "{'descr': '<f4'", 25, "malformed header, expected ',' or '}', found the end" },
        { "{'descr", 11, "malformed header, expected a key in quotes, found '''" },
        { "{'descr' '<f4'}", 19, "malformed header, expected a colon after a key, found '''" },
        { HEADER("'<q4'", "False", "(6,)"), 20,
          "unsupported dtype of the array, expected one of f2 f4 f8 i1..i8 u1..u8 b1, found "
          "\"<q4\"" },
        { HEADER("''", "False", "(6,)"), 20,
          "unsupported dtype of the array, expected one of f2 f4 f8 i1..i8 u1..u8 b1, found \"\"" },
    };
    EACH(b, bad) refused(b->header, 24, QKV_ERR_FORMAT, b->at, b->text);
}

TEST(data_is_as_long_as_the_shape_says) // N8
{
    const int64_t start = 10 + (int64_t)strlen(HEADER("'<f4'", "False", "(6,)"));
    refused(HEADER("'<f4'", "False", "(6,)"), 23, QKV_ERR_FORMAT, start + 23,
            "truncated data of the array, expected 24 bytes, found 23");
    refused(HEADER("'<f4'", "False", "(6,)"), 25, QKV_ERR_FORMAT, start + 24,
            "bytes after the data of the array, expected 24 bytes, found 25");
}

TEST(dtypes_that_qkv_does_not_have_are_unsupported) // N11 N12
{
    refused(
        HEADER("'|O'", "False", "(1,)"), 8, QKV_ERR_UNSUPPORTED, 20,
        "unsupported dtype of the array (pickle is never loaded), expected one of f2 f4 f8 i1..i8 "
        "u1..u8 b1, found objects \"|O\"");
    refused(HEADER("[('a', '<f4')]", "False", "(1,)"), 4, QKV_ERR_UNSUPPORTED, 20,
            "unsupported dtype of the array, expected one of f2 f4 f8 i1..i8 u1..u8 b1, found a "
            "structure");
    static const char *const others[] = { "<U5",  "<c8",     "<V2", "|S3",
                                          "<f16", "<M8[ns]", "<m8", "<i16" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char header[200], text[200];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }",
                 others[i]);
        snprintf(text, sizeof text,
                 "unsupported dtype of the array, expected one of f2 f4 f8 i1..i8 u1..u8 b1, found "
                 "\"%s\"",
                 others[i]);
        refused(header, 8, QKV_ERR_UNSUPPORTED, 20, text);
    }
}

TEST(shapes_that_cannot_be_take_no_memory) // N13
{
    faults_begin(0, false);
    refused(HEADER("'<f4'", "True", "(1000000, 1000000)"), 24, QKV_ERR_FORMAT, 10 + 71 + 24,
            "truncated data of the array, expected 4000000000000 bytes, found 24");
    refused(HEADER("'<f4'", "False", "(18446744073709551616,)"), 24, QKV_ERR_FORMAT, 61,
            "invalid shape of the array, expected sizes up to 2^48, found 18446744073709551616");
    refused(HEADER("'<f4'", "False", "(4294967296, 4294967296)"), 24, QKV_ERR_FORMAT, 10,
            "array too large, expected a shape of less than 2^63 bytes, found more");
    refused(HEADER("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, QKV_ERR_LIMIT, 77,
            "rank too large, expected at most 8 axes, found '1'");
    CHECK(atomic_load(&faults_peak) < 65536);
    CHECK_EQ(faults_end(NULL), 0);
}

TEST(an_npz_is_refused_whatever_is_in_it) // N14
{
    static const char text[] = ".npz files are not supported (save each array with numpy.save), "
                               "expected .safetensors or .npy, found a zip archive";
    static const char *const zips[] = {
        "PK\3\4\24\1\10 a bomb, an absolute name, a name twice: none is looked at",
        "PK\5\6 an empty archive",
        "PK\3\4",
        "PK\3\4\24\0\1\0 encrypted",
    };
    for (size_t i = 0; i < sizeof zips / sizeof *zips; i++)
        fixture_refused(fixture_file("x.npz", zips[i], 4 + strlen(zips[i] + 4)),
                        QKV_ERR_UNSUPPORTED, -1, "", text);
    fixture_refused(fixture_file("cut.npz", "P", 1), QKV_ERR_UNSUPPORTED, -1, "", text);
}

static void written(const struct qkv_tensor *t, const void *want, size_t bytes)
{
    char path[512];
    qkv_error err = { 0 };
    strcpy(path, fixture("out.npy"));
    unlink(path);
    errno = 77;
    if (qkv_npy_write(path, t, false, &err) != QKV_OK) fail_msg("%s", err.text);
    CHECK_EQ(errno, 77);
    char got[1024];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = read(fd, got, sizeof got);
    close(fd);
    CHECK_EQ(n, bytes);
    CHECK_BITS(got, want, bytes);
}

// 128 bytes: as numpy.save fills them for these small arrays.
static void numpy_header(char out[128], const char *descr, const char *shape)
{
    char text[119];
    const int n = snprintf(text, sizeof text,
                           "{'descr': %s, 'fortran_order': False, 'shape': %s, }", descr, shape);
    memset(out, ' ', 128);
    memcpy(out, "\x93NUMPY\1\0v\0", 10);
    memcpy(out + 10, text, (size_t)n);
    out[127] = '\n';
}

TEST(a_file_is_written_as_numpy_writes_it)
{
    char want[1024];
    numpy_header(want, "'<f4'", "(2, 3)");
    memcpy(want + 128, six, sizeof six);
    const struct qkv_tensor t = { .dtype = QKV_F32, .rank = 2, .shape = { 2, 3 }, .data = six };
    written(&t, want, 152);
    numpy_header(want, "'|u1'", "(3,)");
    memcpy(want + 128, "abc", 3);
    const struct qkv_tensor bytes = { .dtype = QKV_U8, .rank = 1, .shape = { 3 }, .data = "abc" };
    written(&bytes, want, 131);
    numpy_header(want, "'<f8'", "()");
    const double x = 2.5;
    memcpy(want + 128, &x, 8);
    const struct qkv_tensor scalar = { .dtype = QKV_F64, .rank = 0, .data = &x };
    written(&scalar, want, 136);
}

TEST(a_written_file_is_read_back)
{
    static const uint64_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    for (int d = 0; d < QKV_DTYPE_COUNT; d++) {
        struct qkv_tensor t = {
            .dtype = (qkv_dtype)d, .rank = 8, .shape = { 1, 2, 1, 2, 1, 2, 1, 1 }, .data = data
        };
        char path[512];
        qkv_error err = { 0 };
        strcpy(path, fixture("again.npy"));
        const qkv_status status = qkv_npy_write(path, &t, true, &err);
        if (d == QKV_BF16) {
            CHECK_EQ(status, QKV_ERR_UNSUPPORTED);
            CHECK_TEXT(err.text, "unsupported dtype of the tensor to write, expected a dtype of "
                                 ".npy files, found BF16");
            continue;
        }
        CHECK_EQ(status, QKV_OK);
        qkv_tensors *r = fixture_open(path, false);
        const struct qkv_tensor *x = qkv_tensors_at(r, 0);
        CHECK_EQ(x->dtype, d);
        CHECK_EQ(x->rank, 8);
        CHECK_BITS(x->shape, t.shape, sizeof t.shape);
        CHECK_BITS(x->data, data, x->bytes);
        qkv_tensors_close(r);
    }
}

static qkv_status write_once(void *ctx, qkv_error *err)
{
    const struct qkv_tensor t = { .dtype = QKV_F32, .rank = 2, .shape = { 2, 3 }, .data = six };
    return qkv_npy_write(ctx, &t, true, err);
}
static qkv_status read_once(void *ctx, qkv_error *err)
{
    qkv_tensors *t = NULL;
    const struct qkv_tensors_options how = { .no_mmap = true };
    const qkv_status status = qkv_tensors_open(&t, ctx, &how, err);
    qkv_tensors_close(t);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    char path[512];
    strcpy(path, fixture("faults.npy"));
    CHECK(faults_walk(write_once, path, true) >= 3);
    strcpy(path, npy(1, HEADER("'>f4'", "True", "(2, 3)"), six, sizeof six));
    CHECK(faults_walk(read_once, path, true) >= 6);
}

CHECK_MAIN(CASE(each_version_is_read), CASE(every_dtype_is_read_in_both_byte_orders),
           CASE(fortran_order_comes_out_in_rows), CASE(shapes_alone_take_no_copy_of_the_array),
           CASE(an_array_left_out_is_converted_later), CASE(a_start_that_is_none_is_refused),
           CASE(a_header_larger_than_its_file_takes_no_memory),
           CASE(a_header_is_a_dict_of_three_keys_and_never_evaluated),
           CASE(data_is_as_long_as_the_shape_says),
           CASE(dtypes_that_qkv_does_not_have_are_unsupported),
           CASE(shapes_that_cannot_be_take_no_memory), CASE(an_npz_is_refused_whatever_is_in_it),
           CASE(a_file_is_written_as_numpy_writes_it), CASE(a_written_file_is_read_back),
           CASE(every_failed_allocation_is_survived))
