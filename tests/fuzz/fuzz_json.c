// SPDX-License-Identifier: MIT
// fuzz_json.c: any bytes as a JSON object, beside jansson's own reader: both take it and give the
// same tree, or both refuse it (or it is one of the things that qkv alone refuses: depth, what
// stands before '{', a NUL byte, which jansson skips behind a word).
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *ours = NULL;
    qkv_error err = { 0 };
    char *text = qkv_alloc(size, 1);
    FUZZ_CHECK(text);
    if (size) memcpy(text, data, size);
    const qkv_status s = qkv_json_parse(&ours, text, size, "f", 0, &err);
    json_error_t why;
    json_t *theirs =
        size && text[0] == '{' ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (s == QKV_OK) {
        FUZZ_CHECK(json_equal(ours, theirs));
    } else {
        FUZZ_CHECK(s == QKV_ERR_FORMAT && !ours && err.has_offset);
        FUZZ_CHECK(err.offset >= 0 && (uint64_t)err.offset <= size);
        FUZZ_CHECK(strstr(err.text, ", expected ") && strstr(err.text, ", found "));
        FUZZ_CHECK(!theirs || strstr(err.text, "nested too deep") || memchr(text, 0, size));
        fuzz_refusal(s, &err);
    }
    json_t *again = NULL; // with an allocation that fails: no memory, or nothing changed
    fuzz_fail_at(fuzz_choose(data, size));
    const qkv_status second = qkv_json_parse(&again, text, size, "f", 0, NULL);
    fuzz_survived(s, second);
    FUZZ_CHECK(second ? !again : json_equal(ours, again));
    json_decref(again);
    struct qkv_scan scan = { .data = text, .size = size };
    if (s == QKV_OK) FUZZ_CHECK(qkv_scan_value(&scan) && scan.at <= size);
    json_decref(ours);
    json_decref(theirs);
    qkv_free(text);
    return 0;
}
