// SPDX-License-Identifier: MIT
// fuzz_modules.c: reads any bytes as the settings of sentence-transformers: modules.json,
// 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json, separated
// by zero bytes.
#include "fuzz/fuzz.h"
#include "task/embed/embed_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "modules.json", "1_Pooling/config.json",
                                         "sentence_bert_config.json",
                                         "config_sentence_transformers.json" };
    struct fuzz_part part[4];
    fuzz_split(part, 4, data, size);
    memory_folder(MEMORY_FOLDER "/1_Pooling");
    for (int i = 0; i < 4; i++)
        if (part[i].bytes || i < 2)
            fuzz_file(names[i], part[i].at, part[i].bytes);
        else
            memory_remove(i == 2 ? MEMORY_FOLDER "/sentence_bert_config.json"
                                 : MEMORY_FOLDER "/config_sentence_transformers.json");
    qkv_status first = QKV_OK;
    for (int again = 0; again < (fuzz_fails(data, size) ? 2 : 1); again++) {
        struct qkv_modules m = { 0 };
        qkv_error err = { 0 };
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const qkv_status status =
            qkv_modules_read(&m, MEMORY_FOLDER, size & 1 ? "query" : NULL, &err);
        if (again) fuzz_survived(first, status);
        first = status;
        if (!status)
            FUZZ_CHECK(m.model && m.pool_count > 0 && m.pools[m.pool_count - 1] != QKV_POOL_FILE &&
                       m.max_length >= 0 && m.width >= 0 && m.truncate_dim >= 0);
        else if (status != QKV_ERR_USAGE) // no prompt of this name
            fuzz_refusal(status, &err);
        qkv_modules_free(&m);
    }
    return 0;
}
