// SPDX-License-Identifier: MIT
// fuzz_store.c: opens an index (.qkvi) of which any bytes are changed, and reads its settings,
// files and passages.  The input is a list of changes, each an offset of two bytes and a byte; one
// more byte cuts the file, two more append to it.
// Inputs have up to 256 bytes.
#include "fuzz/fuzz.h"
#include "engines/engine.h"
#include "index/index.h"
#include <fcntl.h>
#include <unistd.h>

enum { PASSAGES = 3, FILES = 2, WIDTH = 2, READ_MOST = 16 };
static const char path[] = MEMORY_FOLDER "/i.qkvi";
extern const struct store_engine qkv_engine;
const struct cmd *const cmd_table[] = { NULL };

const void *engine_open(const struct engine *x, qkv_error *err)
{
    (void)err;
    FUZZ_CHECK(x->size == qkv_engine.size);
    return &qkv_engine;
}

static struct store_text text_of(const char *text)
{
    return (struct store_text){ text, text ? strlen(text) : 0 };
}

// Writes an index and returns its bytes.
static uint8_t *make(size_t *size)
{
    struct store *s;
    struct store_reason why;
    struct index_settings settings = { { NULL } };
    qkv_error err = { 0 };
    int64_t bytes = 0, vectors;
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0 && !qkv_engine.open(&s, fd, 1, &why));
    for (int i = 0; i < INDEX_SETTINGS; i++)
        index_setting(&settings, (enum index_setting_id)i, "%s",
                      i == INDEX_STORED  ? "f32"
                      : i == INDEX_WIDTH ? "2"
                                         : "x");
    fuzz_success(index_settings_write(&settings, &qkv_engine, s, path, &err), &err);
    index_settings_free(&settings);
    for (int i = 0; i < FILES; i++) {
        const struct store_file f = { .id = i + 1,
                                      .name = text_of(i ? "b.jsonl" : "a.txt"),
                                      .bytes = 9,
                                      .sha256 = text_of("00"),
                                      .first = i,
                                      .passages = 1 + i };
        FUZZ_CHECK(!qkv_engine.add_file(s, &f, &why));
    }
    for (int i = 0; i < PASSAGES; i++) {
        const struct store_passage p = { .file = 1 + (i > 0),
                                         .line = i + 1,
                                         .text = text_of("the owl said"),
                                         .key = text_of(i ? "7" : NULL),
                                         .metadata = text_of(i > 1 ? "{\"a\":[1,null]}" : NULL) };
        FUZZ_CHECK(!qkv_engine.add_passage(s, i, &p, &why));
    }
    FUZZ_CHECK(!qkv_engine.finish(s, &bytes, &why));
    qkv_engine.close(s);
    close(fd);
    FUZZ_CHECK(!qkv_vectors_bytes(&vectors, NULL, QKV_F32, PASSAGES, WIDTH));
    const uint8_t *written = memory_contents(path, size);
    FUZZ_CHECK(written && *size == (size_t)bytes && *size < 1 << 16);
    uint8_t *all = calloc(1, *size + (size_t)vectors);
    FUZZ_CHECK(all);
    memcpy(all, written, *size);
    *size += (size_t)vectors;
    return all;
}

static void check_text(const struct store_text *t)
{
    if (t->at) FUZZ_CHECK(t->at[t->bytes] == 0);
}

static void read_all(const struct index *x)
{
    for (int i = 0; i < INDEX_SETTINGS; i++) FUZZ_CHECK(x->settings.value[i]);
    FUZZ_CHECK(x->vectors.count >= 0 && x->vectors.width > 0 && x->files >= 0);
    for (int64_t n = 0; n < x->vectors.count && n < READ_MOST; n++) {
        struct store_passage p;
        struct store_file f;
        qkv_error err = { 0 };
        const qkv_status status = index_passage(x, n, &p, &f, &err);
        if (status) {
            fuzz_refusal(status, &err);
            continue;
        }
        FUZZ_CHECK(p.text.at && f.name.at && f.sha256.at && f.first >= 0 && f.passages >= 0);
        const struct store_text *texts[] = { &p.text, &p.key, &p.metadata, &f.name, &f.sha256 };
        for (int i = 0; i < 5; i++) check_text(texts[i]);
    }
    for (size_t i = 0; i < (size_t)(x->vectors.count * x->vectors.width); i++)
        (void)*((const volatile char *)x->vectors.rows + i * qkv_dtype_size(x->vectors.type));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *base, *changed;
    static size_t bytes;
    if (!base) {
        base = make(&bytes);
        changed = malloc(bytes + 1);
        FUZZ_CHECK(changed);
    }
    memcpy(changed, base, bytes);
    for (size_t i = 0; i + 3 <= size; i += 3)
        changed[(data[i] | data[i + 1] << 8) % bytes] = data[i + 2];
    size_t most = bytes;
    if (size % 3 == 1) most = bytes * data[size - 1] / 256;
    if (size % 3 == 2) changed[most++] = data[size - 1];
    memory_file(path, changed, most);
    struct index x;
    qkv_error err = { 0 };
    const qkv_status status = index_open(&x, path, "qkv search", &err);
    FUZZ_CHECK(status == err.status);
    if (!size) fuzz_success(status, &err);
    if (status)
        fuzz_refusal(status, &err);
    else
        read_all(&x);
    index_close(&x);
    return 0;
}
