// SPDX-License-Identifier: MIT
// fuzz_part.c: reads any bytes as the manifest of a part, the only one of its output: the part is
// complete and can be read, or it is refused.
#include "fuzz/fuzz.h"
#include <qkv/shard.h>

static const char bytes[] = "0123456789";
static int compare_bytes(void *user, const void *data, size_t n)
{
    size_t *at = user;
    FUZZ_CHECK(*at + n <= sizeof bytes - 1 && !memcmp(bytes + *at, data, n));
    *at += n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char output[] = MEMORY_FOLDER "/v.npy";
    static const struct qkv_part_member member = { "precision", "f32" };
    const struct qkv_part part = { output, { 0, 1 }, 0, 2, &member, 1 };
    const bool fails = fuzz_fails(data, size);
    qkv_status first = QKV_OK;
    fuzz_file("v.part-00000-of-00001.npy", bytes, sizeof bytes - 1);
    fuzz_file("v.part-00000-of-00001.npy.manifest.json", data, size);
    for (int again = 0; again <= fails; again++) {
        qkv_parts *p = NULL;
        qkv_error err = { 0 };
        size_t at = 4;
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        qkv_status status = qkv_parts_open(&p, output, &err);
        FUZZ_CHECK((status == QKV_OK) == (p != NULL));
        if (!status) status = qkv_parts_read(p, 0, 4, compare_bytes, &at, NULL, &err);
        if (again) fuzz_survived(first, status);
        if (status)
            fuzz_refusal(status, &err);
        else
            FUZZ_CHECK(at == sizeof bytes - 1 && qkv_parts_rows(p) >= 0);
        if (!again) first = status;
        qkv_parts_close(p);
    }
    bool complete = true;
    qkv_error err = { 0 };
    const qkv_status status = qkv_part_check(&complete, &part, &err);
    FUZZ_CHECK(!complete || first == QKV_OK);
    FUZZ_CHECK(complete == (status == QKV_OK));
    if (status && status != QKV_ERR_USAGE) fuzz_refusal(status, &err);
    return 0;
}
