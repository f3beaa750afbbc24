// SPDX-License-Identifier: MIT
// fuzz_encode.h: encodes and decodes any text with a tokenizer, and checks what every encoding
// promises.
#ifndef QKV_FUZZ_ENCODE_H
#define QKV_FUZZ_ENCODE_H
#include "fuzz/fuzz.h"
#include "text/text_internal.h"

static inline void fuzz_encode(const qkv_tokenizer *t, struct fuzz_part text, struct fuzz_part pair,
                               unsigned choice)
{
    static const struct qkv_encode_options how[] = {
        { 0 },
        { .no_special = true },
        { .strict = true },
        { .max_length = 7, .truncate = true },
        { .max_length = 9, .truncate = true, .pad = true, .cut_left = true, .pad_left = true }
    };
    const struct qkv_encode_options *o = &how[choice % (sizeof how / sizeof how[0])];
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_encode(
        t, &e, text.at, text.bytes, pair.bytes ? pair.at : NULL, pair.bytes, o, &err);
    FUZZ_CHECK(err.status == status && (!status || e.count == 0));
    for (int64_t i = 0; i < e.count; i++) {
        FUZZ_CHECK(qkv_tokenizer_token(t, e.ids[i]) != NULL && e.text[i] <= 3);
        const int64_t most = e.text[i] == 0   ? (int64_t)text.bytes
                             : e.text[i] == 1 ? (int64_t)pair.bytes
                                              : 0;
        FUZZ_CHECK(e.begin[i] >= 0 && e.begin[i] <= most && e.end[i] >= 0 && e.end[i] <= most);
    }
    if (!status && o->truncate) FUZZ_CHECK(e.count <= o->max_length);
    size_t need = 0;
    char out[64];
    const qkv_status back =
        qkv_tokenizer_decode(t, out, sizeof out, &need, e.ids, e.count, choice & 8, NULL);
    FUZZ_CHECK(back == QKV_OK || back == QKV_ERR_LIMIT); // the limit of a regular expression
    FUZZ_CHECK(strlen(out) < sizeof out);
    qkv_encoding_free(&e);
}
#endif
