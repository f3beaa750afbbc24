// SPDX-License-Identifier: MIT
// fuzz_zip.c: opens any bytes as a zip archive and reads its members: a member that is read has the
// size of the directory, all other input is refused.
// Inputs have up to 4096 bytes.
#include "fuzz/fuzz.h"
#include <qkv/zip.h>

enum { MOST = 1 << 20 }; // bytes that are read of all members

struct sink {
    int64_t bytes, left;
};
static int count(void *context, const void *data, size_t bytes)
{
    struct sink *s = context;
    for (size_t i = 0; i < bytes; i += 512) (void)*((const volatile char *)data + i);
    s->bytes += (int64_t)bytes;
    s->left -= (int64_t)bytes;
    return s->left < 0;
}

static qkv_status read_all(const char *path, int64_t fault)
{
    qkv_zip *z = NULL;
    qkv_error err = { 0 };
    struct sink s = { 0, MOST };
    fuzz_fail_at(fault);
    qkv_status status = qkv_zip_open(&z, path, &err);
    FUZZ_CHECK((status == QKV_OK) == (z != NULL));
    if (status) fuzz_refusal(status, &err);
    for (int64_t i = 0; i < qkv_zip_count(z) && !status && s.left > 0; i++) {
        const char *name = qkv_zip_name(z, i);
        FUZZ_CHECK(name && qkv_zip_size(z, i) >= 0);
        s.bytes = 0;
        err = (qkv_error){ 0 };
        const qkv_status one = qkv_zip_read(z, i, count, &s, &err);
        if (!one)
            FUZZ_CHECK(s.bytes == qkv_zip_size(z, i));
        else if (one != QKV_ERR_INTERRUPTED)
            fuzz_refusal(one, &err);
        if (one == QKV_ERR_LIMIT) status = one;
    }
    FUZZ_CHECK(!qkv_zip_name(z, qkv_zip_count(z)) && qkv_zip_size(z, -1) == -1);
    qkv_zip_close(z);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[MEMORY_PATH];
    snprintf(path, sizeof path, "%s/a.whl", fuzz_file("a.whl", data, size));
    const qkv_status first = read_all(path, 0);
    if (fuzz_fails(data, size))
        fuzz_survived_mostly(first, read_all(path, fuzz_choose(data, size)));
    return 0;
}
