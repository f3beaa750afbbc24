// SPDX-License-Identifier: MIT
// fuzz_train.c: trains a tokenizer of any kind on any texts: refused, or the written file opens and
// encodes them.  The input is a byte for kind and settings, then texts separated by zero bytes.
// Inputs have up to 512 bytes.
#include "fuzz/fuzz.h"
#include <qkv/train.h>
#include "text/text_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const trainer_names[] = { "bytes", "characters", "bpe", "wordpiece",
                                                 "unigram" };
    static const char *const special[] = { "<s>", "a" };
    enum { TEXTS = 8 };
    const char *texts[TEXTS];
    size_t bytes[TEXTS];
    int64_t n = 0;
    if (!size) return 0;
    const int settings = data[0] / 5;
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    while (at < end && n < TEXTS) {
        const char *zero = n + 1 < TEXTS ? memchr(at, 0, (size_t)(end - at)) : NULL;
        texts[n] = at;
        bytes[n++] = (size_t)((zero ? zero : end) - at);
        at = zero ? zero + 1 : end;
    }
    const struct qkv_tokenizer_training how = { .kind = trainer_names[data[0] % 5],
                                                .vocab = settings & 1 ? 300 : 260 + settings,
                                                .least = settings & 4 ? 1 : 0,
                                                .special = special,
                                                .specials = settings & 2 ? 2 : 0,
                                                .lowercase = settings & 8,
                                                .begin = settings & 16 ? "<s>" : NULL };
    static const char path[] = MEMORY_FOLDER "/tokenizer.json";
    qkv_error err = { 0 };
    const qkv_status status = qkv_tokenizer_train(path, texts, bytes, n, &how, true, &err);
    FUZZ_CHECK(err.status == status);
    if (status) {
        FUZZ_CHECK(status == QKV_ERR_USAGE || status == QKV_ERR_FORMAT);
        return 0;
    }
    qkv_tokenizer *t = NULL;
    qkv_encoding e = { 0 };
    FUZZ_CHECK(qkv_tokenizer_open(&t, path, NULL) == QKV_OK);
    FUZZ_CHECK(how.vocab == 0 || qkv_tokenizer_size(t) <= how.vocab);
    for (int64_t i = 0; i < n; i++)
        FUZZ_CHECK(qkv_tokenizer_encode(t, &e, texts[i], bytes[i], NULL, 0, NULL, NULL) == QKV_OK);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    memory_remove(path);
    return 0;
}
