// SPDX-License-Identifier: MIT
// fuzz_tokenizer.c: opens a tokenizer.json and encodes and decodes texts with it.  The input is the
// JSON, a zero byte, the text, a zero byte, the second text; input that does not start with '{' is
// one or two texts for a valid tokenizer.
#include "fuzz/fuzz.h"
#include "text/text_internal.h"

static const char sound[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":3,\"content\":\"[X]\",\"special\":true,"
    "\"normalized\":false},"
    "{\"id\":4,\"content\":\"New\",\"normalized\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
    "\"BertNormalizer\","
    "\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":false,\"lowercase\":true}]"
    "},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\","
    "\"prefix\":\"##\","
    "\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_"
    "prefix\":\"##\","
    "\"max_input_chars_per_word\":9,\"vocab\":{\"?\":0,\"a\":1,\"##b\":2}}}";

// Checks the invariants of every encoding.
static void check_offsets(const qkv_tokenizer *t, const qkv_encoding *e, size_t bytes,
                          size_t pair_bytes)
{
    for (int64_t i = 0; i < e->count; i++) {
        FUZZ_CHECK(qkv_tokenizer_token(t, e->ids[i]) != NULL && e->text[i] <= 3);
        const int64_t size = e->text[i] == 0   ? (int64_t)bytes
                             : e->text[i] == 1 ? (int64_t)pair_bytes
                                               : 0;
        FUZZ_CHECK(e->begin[i] >= 0 && e->begin[i] <= size && e->end[i] >= 0 && e->end[i] <= size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "Hello, [X] new ab\xc3\xa9 \xe4\xbd\xa0\xff e\xcc\x81";
    const bool json = size && data[0] == '{';
    const uint8_t *zero = json ? memchr(data, 0, size) : NULL;
    const size_t head = zero ? (size_t)(zero - data) : json ? size : 0; // bytes of the JSON
    const char *text = zero ? (const char *)zero + 1 : json ? hello : (const char *)data;
    size_t bytes = zero ? size - head - 1 : json ? sizeof hello - 1 : size, pair_bytes = 0;
    const char *pair = bytes ? memchr(text, 0, bytes) : NULL;
    if (pair) {
        pair_bytes = bytes - (size_t)(pair - text) - 1;
        bytes = (size_t)(pair++ - text);
    }
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    const qkv_status status = json ? qkv_tokenizer_parse(&t, (const char *)data, head, "fuzz", &err)
                                   : qkv_tokenizer_parse(&t, sound, sizeof sound - 1, "fuzz", &err);
    FUZZ_CHECK((status == QKV_OK) == (t != NULL) && (json || !status));
    if (status) {
        fuzz_refusal(status, &err);
        return 0;
    }
    static const struct qkv_encode_options how[] = {
        { 0 },
        { .no_special = true },
        { .strict = true },
        { .max_length = 7, .truncate = true },
        { .max_length = 9, .truncate = true, .pad = true, .cut_left = true, .pad_left = true }
    };
    qkv_encoding e = { 0 };
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        qkv_error why = { 0 };
        const qkv_status r =
            qkv_tokenizer_encode(t, &e, text, bytes, pair, pair_bytes, &how[i], &why);
        FUZZ_CHECK(why.status == r && (!r || e.count == 0));
        check_offsets(t, &e, bytes, pair_bytes);
        if (!r && how[i].truncate) FUZZ_CHECK(e.count <= how[i].max_length);
        size_t need = 0;
        char out[64];
        const qkv_status back =
            qkv_tokenizer_decode(t, out, sizeof out, &need, e.ids, e.count, i & 1, NULL);
        FUZZ_CHECK(back == QKV_OK || back == QKV_ERR_LIMIT); // the limit of a regular expression
        FUZZ_CHECK(strlen(out) < sizeof out);
    }
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    return 0;
}
