// SPDX-License-Identifier: MIT
// fuzz_formats.c: opens a tokenizer in another format than tokenizer.json and encodes a text: the
// input is a byte for the format, the file, and, after the last zero byte of its last 64 bytes, the
// text.  A stream must decode to the same text as one call.
// Inputs have up to 4096 bytes.
#include "fuzz/fuzz.h"
#include "text/readers/readers.h"

static void stream(const qkv_tokenizer *t, const qkv_encoding *e)
{
    qkv_decode_stream *s = NULL;
    const char *text;
    size_t need, bytes, sum = 0;
    FUZZ_CHECK(qkv_tokenizer_decode(t, NULL, 0, &need, e->ids, e->count, false, NULL) == QKV_OK);
    FUZZ_CHECK(qkv_decode_stream_new(&s, t, false, NULL) == QKV_OK);
    for (int64_t i = 0; i <= e->count; i++) {
        const qkv_status r = i < e->count ? qkv_decode_stream_put(s, e->ids[i], &text, &bytes, NULL)
                                          : qkv_decode_stream_end(s, &text, &bytes, NULL);
        FUZZ_CHECK(r == QKV_OK && text[bytes] == 0);
        sum += bytes;
    }
    FUZZ_CHECK(sum == need);
    qkv_decode_stream_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static qkv_text_reader *const readers[] = { qkv_read_spm, qkv_read_llama2c,
                                                qkv_read_vocab_list };
    if (!size) return 0;
    qkv_text_reader *read = readers[data[0] % 3];
    size_t text = size;
    for (size_t i = size; i-- > 1 && size - i <= 64 && text == size;)
        if (!data[i]) text = i + 1;
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    const qkv_status status = read(&t, data + 1, size - 1, "nowhere/fuzz", &err);
    FUZZ_CHECK((status == QKV_OK) == (t != NULL));
    if (status) {
        fuzz_refusal(status, &err);
        return 0;
    }
    const char *const texts[] = { (const char *)data + text, "Hello  x\xC3\xA9 \xEF\xAC\x81 <s>" };
    const size_t bytes[] = { size - text, strlen(texts[1]) };
    for (int i = 0; i < 2; i++) {
        FUZZ_CHECK(!qkv_tokenizer_encode(t, &e, texts[i], bytes[i], NULL, 0, NULL, NULL));
        for (int64_t k = 0; k < e.count; k++)
            FUZZ_CHECK(qkv_tokenizer_token(t, e.ids[k]) && e.begin[k] >= 0 &&
                       e.end[k] <= (int64_t)bytes[i]);
        stream(t, &e);
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    return 0;
}
