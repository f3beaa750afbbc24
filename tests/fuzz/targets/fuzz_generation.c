// SPDX-License-Identifier: MIT
// fuzz_generation.c: reads any bytes as a generation_config.json.
#include "fuzz/fuzz.h"
#include "task/generate/generation_config.h"

enum { VOCABULARY = 100 };

static void check_ids(const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < VOCABULARY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file("generation_config.json", data, size);
    qkv_status first = QKV_OK;
    for (int again = 0; again < (fuzz_fails(data, size) ? 2 : 1); again++) {
        struct qkv_generation_config c = { .bos = -1, .start = -1 };
        qkv_error err = { 0 };
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const qkv_status status =
            qkv_generation_file_read(&c, MEMORY_FOLDER, VOCABULARY, size & 1, &err);
        if (again) fuzz_survived(first, status);
        first = status;
        if (status) fuzz_refusal(status, &err);
        check_ids(c.ends, c.end_count);
        check_ids(c.suppressed, c.suppressed_count);
        FUZZ_CHECK(c.bos < VOCABULARY && c.beams >= 0 && c.banned_count >= 0);
        if (!status && c.banned_count) check_ids(c.banned, c.banned_offsets[c.banned_count]);
        FUZZ_CHECK(strlen(c.ignored) < sizeof c.ignored);
        qkv_generation_config_free(&c);
    }
    return 0;
}
