// SPDX-License-Identifier: MIT
// fuzz_llama2c.c: reads any bytes as a checkpoint of llama2.c: its tensors, and its header as a
// config.
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_tensors(data, size, qkv_llama2c_read);
    struct qkv_config c = { 0 };
    qkv_error err = { 0 };
    char path[128];
    snprintf(path, sizeof path, "%s/model.bin", fuzz_file("model.bin", data, size));
    const qkv_status status = qkv_config_open(&c, path, &err);
    if (status)
        fuzz_refusal(status, &err);
    else
        FUZZ_CHECK(strcmp(qkv_config_model_type(&c, "llama"), "llama") == 0);
    qkv_config_close(&c);
    return 0;
}
