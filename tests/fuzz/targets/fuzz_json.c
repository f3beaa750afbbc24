// SPDX-License-Identifier: MIT
// fuzz_json.c: parses any bytes as a JSON object and compares with the parser of jansson: both
// accept it with the same tree, or both refuse it (except for input that only qkv refuses: depth,
// bytes before '{', a NUL byte after a word, which jansson skips).
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *ours = NULL;
    qkv_error err = { 0 };
    char *text = qkv_alloc(size, 1);
    FUZZ_CHECK(text);
    if (size) memcpy(text, data, size);
    const qkv_status status = qkv_json_parse(&ours, text, size, "f", 0, &err);
    json_error_t why;
    json_t *theirs =
        size && text[0] == '{' ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (status == QKV_OK) {
        FUZZ_CHECK(json_equal(ours, theirs));
    } else {
        FUZZ_CHECK(status == QKV_ERR_FORMAT && !ours && err.has_offset);
        FUZZ_CHECK(err.offset >= 0 && (uint64_t)err.offset <= size);
        FUZZ_CHECK(strstr(err.text, ", expected ") && strstr(err.text, ", found "));
        FUZZ_CHECK(!theirs || strstr(err.text, "nested too deep") || memchr(text, 0, size));
        fuzz_refusal(status, &err);
    }
    if (fuzz_fails(data, size)) { // no memory, or the same tree
        json_t *again = NULL;
        fuzz_fail_at(fuzz_choose(data, size));
        const qkv_status second = qkv_json_parse(&again, text, size, "f", 0, NULL);
        fuzz_survived(status, second);
        FUZZ_CHECK(second ? !again : json_equal(ours, again));
        json_decref(again);
    }
    struct qkv_scan scan = { .data = text, .size = size };
    if (status == QKV_OK) FUZZ_CHECK(qkv_scan_value(&scan) && scan.at <= size);
    json_decref(ours);
    json_decref(theirs);
    qkv_free(text);
    return 0;
}
