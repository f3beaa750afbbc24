// SPDX-License-Identifier: MIT
// fuzz.h: what fuzz targets share: bytes as an opened set of tensors, and a way to fail.
#ifndef QKV_FUZZ_H
#define QKV_FUZZ_H
#include "file/set.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

// A refusal is one that can be told: a class of input, words, one line of UTF-8.
static inline void fuzz_refusal(qkv_status s, const qkv_error *err)
{
    char line[2048];
    FUZZ_CHECK(s == QKV_ERR_FORMAT || s == QKV_ERR_UNSUPPORTED || s == QKV_ERR_LIMIT ||
               s == QKV_ERR_IO);
    FUZZ_CHECK(err->status == s && err->text[0]);
    qkv_error_line(line, sizeof line, err);
    for (size_t n, i = 0; line[i]; i += n) {
        n = qkv_utf8_bytes(line + i, strlen(line + i));
        FUZZ_CHECK(n > 0 && (n > 1 || (line[i] >= 0x20 && line[i] != 0x7f)));
    }
}

// data[size] as a file that `read` reads; every byte of every tensor is touched, every name looked
// up.
static inline void fuzz_tensors(const uint8_t *data, size_t size,
                                qkv_status (*read)(struct qkv_tensors *, struct qkv_source *,
                                                   qkv_error *))
{
    struct qkv_tensors *t = qkv_alloc_zero(1, sizeof *t);
    qkv_error err = { 0 };
    FUZZ_CHECK(t && qkv_reserve((void **)&t->sources, &t->sources_room, 1, sizeof *t->sources));
    struct qkv_source *s = t->sources;
    memset(s, 0, sizeof *s);
    t->n_sources = 1;
    uint8_t *copy = qkv_alloc(size, 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, data, size);
    s->map =
        (struct qkv_map){ .data = copy, .size = size, .path = qkv_copy_text("f", 1), .slot = -1 };
    qkv_status status = read(t, s, &err);
    if (!status) status = qkv_tensors_sort(t, "f", &err);
    if (status) {
        fuzz_refusal(status, &err);
        qkv_tensors_close(t);
        return;
    }
    for (int64_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_tensor *x = qkv_tensors_at(t, i);
        const uint8_t *p = x->data;
        for (size_t k = 0; k < x->bytes; k++) (void)*(const volatile uint8_t *)(p + k);
        FUZZ_CHECK(qkv_tensors_find(t, x->name) == x);
        FUZZ_CHECK(i == 0 || strcmp(qkv_tensors_at(t, i - 1)->name, x->name) < 0);
        FUZZ_CHECK((uint64_t)qkv_tensor_count(x) * qkv_dtype_size(x->dtype) == x->bytes);
        if (x->bytes && x->bytes <= 1 << 16) {
            const int64_t n = qkv_tensor_count(x);
            float *f = qkv_alloc((size_t)n, sizeof *f);
            FUZZ_CHECK(f);
            qkv_tensor_to_f32(f, x);
            qkv_free(f);
        }
    }
    for (int64_t i = 0; i < t->n_meta; i++)
        FUZZ_CHECK(qkv_tensors_metadata(t, t->meta[i].key) == t->meta[i].value);
    qkv_tensors_close(t);
}
#endif
