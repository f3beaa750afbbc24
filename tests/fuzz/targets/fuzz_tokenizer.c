// SPDX-License-Identifier: MIT
// fuzz_tokenizer.c: opens a tokenizer.json, and encodes and decodes a text with it.  The input is
// the JSON, a zero byte, the text, a zero byte, the second text.
// Inputs have up to 4096 bytes.
#include "fuzz/fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "Hello, [X] new ab\xc3\xa9 \xe4\xbd\xa0\xff e\xcc\x81";
    struct fuzz_part part[3];
    fuzz_split(part, 3, data, size);
    if (part[0].bytes == size) part[1] = (struct fuzz_part){ hello, sizeof hello - 1 };
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_parse(&t, part[0].at, part[0].bytes, "fuzz", &err);
    FUZZ_CHECK((status == QKV_OK) == (t != NULL));
    if (status)
        fuzz_refusal(status, &err);
    else
        fuzz_encode(t, part[1], part[2], (unsigned)fuzz_choose(data, size));
    qkv_tokenizer_close(t);
    return 0;
}
