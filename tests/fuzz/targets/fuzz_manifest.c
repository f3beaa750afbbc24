// SPDX-License-Identifier: MIT
// fuzz_manifest.c: reads any bytes as the manifest.json of a checkpoint, whose other files are
// whole: the checkpoint is found or refused, as a run and as a model.
#include "file/checkpoint_names.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char weights[] =
        "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
        "          01234567";
    static const char dir[] = MEMORY_FOLDER "/run/checkpoint-00000007";
    static bool made;
    static qkv_tensors *opened; // static: no leak
    qkv_error err = { 0 };
    if (!made) {
        memory_folder(MEMORY_FOLDER "/run");
        memory_folder(dir);
        fuzz_file("run/checkpoint-00000007/config.json", "{}", 2);
        fuzz_file("run/checkpoint-00000007/state.json", "{}", 2);
        fuzz_file("run/checkpoint-00000007/model.safetensors", weights, sizeof weights - 1);
        fuzz_success(qkv_tensors_open(&opened, dir, NULL, &err), &err);
        made = true;
    }
    fuzz_file("run/checkpoint-00000007/manifest.json", data, size);
    const bool fails = fuzz_fails(data, size);
    qkv_status first = QKV_OK;
    for (int again = 0; again <= fails; again++) {
        struct qkv_checkpoint_found found;
        err = (qkv_error){ 0 };
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const qkv_status status = qkv_checkpoint_find(&found, MEMORY_FOLDER "/run", &err);
        if (again) fuzz_survived(first, status);
        first = status;
        if (status) fuzz_refusal(status, &err);
        FUZZ_CHECK(found.step == (status ? -1 : 7));
    }
    err = (qkv_error){ 0 };
    const qkv_status status = qkv_checkpoint_check(dir, opened, &err);
    if (status) fuzz_refusal(status, &err);
    return 0;
}
