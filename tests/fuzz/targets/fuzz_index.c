// SPDX-License-Identifier: MIT
// fuzz_index.c: reads any bytes as a model.safetensors.index.json in a folder with two shards.
#include "fuzz/fuzz.h"

static void shard(const char *name, const char *header, size_t data)
{
    uint8_t file[256] = { 0 };
    const size_t n = strlen(header);
    file[0] = (uint8_t)n;
    memcpy(file + 8, header, n);
    fuzz_file(name, file, 8 + n + data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made) {
        shard("1.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
              8);
        shard("2.safetensors", "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
              3);
        made = true;
    }
    const char *dir = fuzz_file("model.safetensors.index.json", data, size);
    qkv_status first = QKV_OK;
    for (int again = 0; again < (fuzz_fails(data, size) ? 2 : 1); again++) {
        qkv_tensors *t = NULL;
        qkv_error err = { 0 };
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const qkv_status status =
            qkv_tensors_open(&t, dir, &(struct qkv_tensors_options){ .no_mmap = true }, &err);
        if (again) fuzz_survived(first, status);
        first = status;
        if (status) fuzz_refusal(status, &err);
        FUZZ_CHECK((status == QKV_OK) == (t != NULL));
        for (int64_t i = 0; i < qkv_tensors_count(t); i++) {
            const struct qkv_tensor *x = qkv_tensors_at(t, i);
            FUZZ_CHECK(strcmp(x->name, "a") == 0 ? x->bytes == 8 : x->bytes == 3);
        }
        qkv_tensors_close(t);
    }
    return 0;
}
