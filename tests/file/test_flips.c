// SPDX-License-Identifier: MIT
// test_flips.c: applies every truncation and every change of one bit or byte to small valid files:
// each opens or is refused, and every byte of an opened file can be read.
#include "file/fixtures.h"

static struct {
    int64_t loaded, refused;
} seen;

static void try_file(const char *path)
{
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        const struct qkv_tensors_options how = { .no_mmap = no_mmap != 0 };
        qkv_tensors *t = NULL;
        qkv_error err = { 0 };
        const qkv_status status = qkv_tensors_open(&t, path, &how, &err);
        if (status == QKV_OK) {
            volatile uint64_t sum = fixture_walk(t);
            (void)sum;
            seen.loaded++;
        } else {
            if (status != QKV_ERR_FORMAT && status != QKV_ERR_UNSUPPORTED &&
                status != QKV_ERR_LIMIT && status != QKV_ERR_IO)
                fail_msg("status %s: %s", qkv_status_name(status), err.text);
            if (t || err.status != status || !err.text[0])
                fail_msg("refused, but not cleanly: %s", err.text);
            if (status != QKV_ERR_IO &&
                (!strstr(err.text, ", expected ") || !strstr(err.text, ", found ")))
                fail_msg("no WHAT, expected X, found Y: %s", err.text);
            seen.refused++;
        }
        qkv_tensors_close(t);
    }
}

// Cuts file[bytes] at every length and sets every byte to critical values.  opened: the path to
// open if it is not the file itself.
static void try_all(const char *name, const uint8_t *file, size_t bytes, const char *opened)
{
    static const uint8_t values[] = { 0,   1,   0x7f, 0x80, 0xff, '"', '\\', '{', '}',  '[', ']',
                                      ',', ':', '-',  '0',  '9',  '.', 'e',  ' ', '\n', '/' };
    uint8_t copy[2048];
    CHECK(bytes <= sizeof copy);
    memset(&seen, 0, sizeof seen);
    for (size_t n = 0; n < bytes; n++) {
        const char *path = fixture_file(name, file, n);
        try_file(opened ? fixture(opened) : path);
    }
    for (size_t i = 0; i < bytes; i++)
        for (size_t k = 0; k < 8 + sizeof values; k++) {
            memcpy(copy, file, bytes);
            copy[i] = k < 8 ? (uint8_t)(file[i] ^ 1u << k) : values[k - 8];
            const char *path = fixture_file(name, copy, bytes);
            try_file(opened ? fixture(opened) : path);
        }
    CHECK(seen.loaded > 0); // changes of the data load
    CHECK(seen.refused > seen.loaded / 4);
}

static size_t safetensors(uint8_t out[2048], const char *header, size_t data)
{
    const size_t n = strlen(header);
    memset(out, 0, 8);
    out[0] = (uint8_t)n;
    out[1] = (uint8_t)(n >> 8);
    memcpy(out + 8, header, n);
    for (size_t i = 0; i < data; i++) out[8 + n + i] = (uint8_t)(i * 17);
    return 8 + n + data;
}

TEST(a_safetensors_file_with_any_byte_wrong)
{
    uint8_t file[2048];
    const size_t n = safetensors(
        file,
        "{\"__metadata__\":{\"a\":\"b\"},\"x\\u00e9\":{\"dtype\":\"F32\",\"shape\":[2,1],"
        "\"data_offsets\":[0,8]},\"y\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}",
        9);
    try_all("flip.safetensors", file, n, NULL);
}

static void try_npy(const char *header, size_t data)
{
    uint8_t file[2048] = "\x93NUMPY\1";
    const size_t n = strlen(header);
    file[7] = 0;
    file[8] = (uint8_t)n;
    file[9] = 0;
    memcpy(file + 10, header, n);
    memset(file + 10 + n, 'd', data);
    try_all("flip.npy", file, 10 + n + data, NULL);
}

TEST(a_npy_file_with_any_byte_wrong)
{
    try_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
    try_npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3, 2), }\n", 24);
}

TEST(an_index_with_any_byte_wrong)
{
    static const char index[] =
        "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"1.safetensors\",\"b\":"
        "\"2.safetensors\"}}";
    uint8_t shard[2048];
    CHECK_EQ(mkdir(fixture("m"), 0755), 0);
    size_t n =
        safetensors(shard, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    fixture_file("m/1.safetensors", shard, n);
    n = safetensors(shard, "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    fixture_file("m/2.safetensors", shard, n);
    // A cut or changed index usually names missing files and is refused; a changed space or
    // metadata key opens.
    static const char spaced[] = "                ";
    uint8_t file[2048];
    memcpy(file, index, sizeof index - 1);
    memcpy(file + sizeof index - 1, spaced, sizeof spaced - 1);
    try_all("m/model.safetensors.index.json", file, sizeof index - 1 + sizeof spaced - 1, "m");
}

CHECK_MAIN(CASE(a_safetensors_file_with_any_byte_wrong), CASE(a_npy_file_with_any_byte_wrong),
           CASE(an_index_with_any_byte_wrong))
