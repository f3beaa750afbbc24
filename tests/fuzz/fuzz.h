// SPDX-License-Identifier: MIT
// fuzz.h: gives fuzz targets a set of tensors opened from bytes, failing memory, and checks of
// errors.
#ifndef QKV_FUZZ_H
#define QKV_FUZZ_H
#include "file/set.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

// Checks an error: an input status, a text, one line of UTF-8.
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

// Memory that fails once: the number of the allocation, by qkv or jansson, that fails from now on.
// 0: none.
static int64_t fuzz_fault;
static bool fuzz_hit; // the failing allocation was reached
static inline void *fuzz_malloc(size_t bytes)
{
    if (fuzz_fault > 0 && --fuzz_fault == 0) {
        fuzz_hit = true;
        return NULL;
    }
    return malloc(bytes);
}
static inline void *fuzz_alloc(void *user, size_t bytes)
{
    (void)user;
    return fuzz_malloc(bytes);
}
static inline void fuzz_free(void *user, void *p)
{
    (void)user;
    free(p);
}
__attribute__((constructor)) static void fuzz_install(void)
{
    static const struct qkv_allocator ours = { fuzz_alloc, fuzz_free, NULL };
    qkv_allocator_set(&ours);
    json_set_alloc_funcs(fuzz_malloc, free);
}
// Returns the number of the allocation that fails in the second run of an input: a function of its
// bytes.
static inline int64_t fuzz_choose(const uint8_t *data, size_t size)
{
    uint64_t h = size;
    for (size_t i = 0; i < size; i++) h = (h ^ data[i]) * 1099511628211u;
    return 1 + (int64_t)(h >> 40) % 24;
}
static inline void fuzz_fail_at(int64_t n)
{
    fuzz_hit = false;
    fuzz_fault = n;
}
// Checks the second run: if the failing allocation was reached, the result is QKV_ERR_LIMIT,
// otherwise the result of the first run.
static inline void fuzz_survived(qkv_status first, qkv_status second)
{
    FUZZ_CHECK(second == (fuzz_hit ? QKV_ERR_LIMIT : first));
    fuzz_fault = 0;
}

// Writes data[size] to a file of that name in this process's folder; returns the folder.
static char fuzz_dir[64];
static inline void fuzz_clean(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", fuzz_dir);
    if (system(command) != 0) fprintf(stderr, "%s was not removed\n", fuzz_dir);
}
static inline const char *fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    if (!fuzz_dir[0]) {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(fuzz_dir, sizeof fuzz_dir, "%s/qkv-fuzz-XXXXXX", base);
        FUZZ_CHECK(mkdtemp(fuzz_dir));
        atexit(fuzz_clean);
    }
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    return fuzz_dir;
}

typedef qkv_status fuzz_reader(struct qkv_tensors *, struct qkv_source *, qkv_error *);

// Reads data[size] by `read` while allocation `fault` fails; touches every byte of every tensor and
// finds every name.
static inline qkv_status fuzz_read(const uint8_t *data, size_t size, fuzz_reader *read,
                                   int64_t fault)
{
    struct qkv_tensors *t = qkv_alloc_zero(1, sizeof *t);
    qkv_error err = { 0 };
    FUZZ_CHECK(t && qkv_reserve((void **)&t->sources, &t->sources_capacity, 1, sizeof *t->sources));
    struct qkv_source *s = t->sources;
    memset(s, 0, sizeof *s);
    t->n_sources = 1;
    uint8_t *copy = qkv_alloc(size, 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, data, size);
    s->map =
        (struct qkv_map){ .data = copy, .size = size, .path = qkv_copy_text("f", 1), .slot = -1 };
    fuzz_fail_at(fault);
    qkv_status status = read(t, s, &err);
    if (!status) status = qkv_tensors_sort(t, "f", &err);
    fuzz_fault = 0;
    if (status) {
        fuzz_refusal(status, &err);
        qkv_tensors_close(t);
        return status;
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
    return QKV_OK;
}
static inline void fuzz_tensors(const uint8_t *data, size_t size, fuzz_reader *read)
{
    const qkv_status first = fuzz_read(data, size, read, 0);
    fuzz_survived(first, fuzz_read(data, size, read, fuzz_choose(data, size)));
}
#endif
