// SPDX-License-Identifier: MIT
// fuzz_vocab.c: opens a folder with a tokenizer in the files of older models, and encodes a text.
// The input is a byte for the kind, then files separated by zero bytes: tokenizer_config.json and
// vocab.txt, or vocab.json and merges.txt; or, of Marian, vocab.json and source.spm, in which zero
// bytes may occur.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MARIAN = 240 };
    static const char *const all[3][3] = {
        { "tokenizer_config.json", "vocab.txt", NULL },
        { "tokenizer_config.json", "vocab.json", "merges.txt" },
        { "vocab.json", "source.spm", NULL },
    };
    static const struct fuzz_part text = { "Hello, ab [X] \xc3\xa9 \xe4\xbd\xa0", 19 };
    struct fuzz_part part[3];
    if (!size) return 0;
    const bool marian = data[0] >= MARIAN;
    const char *const *names = all[marian ? 2 : data[0] & 1];
    memory_remove(MEMORY_FOLDER);
    fuzz_split(part, marian ? 2 : 3, data + 1, size - 1);
    for (int i = 0; i < 3; i++)
        if (names[i] && (i || part[i].bytes)) fuzz_file(names[i], part[i].at, part[i].bytes);
    qkv_status first = QKV_OK;
    for (int again = 0; again < (fuzz_fails(data, size) ? 2 : 1); again++) {
        qkv_tokenizer *t = NULL;
        qkv_error err = { 0 };
        fuzz_fail_at(again ? fuzz_choose(data, size) : 0);
        const qkv_status status = qkv_tokenizer_open(&t, MEMORY_FOLDER, &err);
        if (again) fuzz_survived_mostly(first, status);
        first = status;
        FUZZ_CHECK((status == QKV_OK) == (t != NULL));
        if (status)
            fuzz_refusal(status, &err);
        else if (!again)
            fuzz_encode(t, text, (struct fuzz_part){ 0 }, data[0] >> 1);
        qkv_tokenizer_close(t);
    }
    return 0;
}
