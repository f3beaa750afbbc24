// SPDX-License-Identifier: MIT
// fuzz_state.c: reads any bytes as the state.json of a checkpoint and the run.json of a run,
// separated by a zero byte.
#include "fuzz/fuzz.h"
#include "task/train/train_internal.h"

static qkv_status read_state(qkv_error *err)
{
    struct train_state s = { 0 };
    const qkv_status status = train_state_read(&s, MEMORY_FOLDER, err);
    if (!status) FUZZ_CHECK(s.step >= 0 && s.log_bytes >= 0 && strlen(s.data) < sizeof s.data);
    return status;
}

static qkv_status read_config(qkv_error *err)
{
    struct train_config c = { 0 };
    const struct qkv_train_options given = { .run = MEMORY_FOLDER, .resume = true };
    qkv_status status = train_config_read(&c, &given, err);
    if (!status) status = train_config_defaults(&c, err);
    train_config_free(&c);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static qkv_status (*const readers[])(qkv_error * err) = { read_state, read_config };
    static const char *const names[] = { "state.json", "run.json" };
    struct fuzz_part part[2];
    fuzz_split(part, 2, data, size);
    for (int i = 0; i < 2; i++) {
        qkv_error err = { 0 };
        fuzz_file(names[i], part[i].at, part[i].bytes);
        const qkv_status first = readers[i](&err);
        FUZZ_CHECK(err.status == first);
        if (first && first != QKV_ERR_USAGE) fuzz_refusal(first, &err);
        if (!fuzz_fails(data, size)) continue;
        err = (qkv_error){ 0 };
        fuzz_fail_at(fuzz_choose(data, size));
        fuzz_survived_mostly(first, readers[i](&err));
    }
    return 0;
}
